//! "FASP-like": a model of Aspera's FASP. **Not FASP, and not validated**: the papers name it and have
//! no measurement of it.
//!
//! | rule | |
//! |---|---|
//! | reliability apart from rate: exactly what is missing is sent again, a lost repair not before the round-trip time measured from request to arrival | published (US 8,214,707) |
//! | the rate follows the queueing delay and not loss; the user gives a target rate | published (vendor; US 8,085,781) |
//! | `r <- r + K (alpha - r (rtt - base))` in each round-trip time, `alpha` in bytes | from memory of published descriptions, not checked; it is FAST's law for rates |
//! | the queue is predicted one round-trip time ahead | published as an option (an RTT predictor); how, is our choice: without it the law only swings |
//! | `alpha` 2 MB, `K` 0.5 per round-trip time, growth by half per round-trip time until a queue of 1 ms is seen | choice |
//! | a report every 10 ms, and within a millisecond of a loss; window of 1 GiB | choice |

use super::{Drive, Push, RateLaw, Settings};
use howdah_core::{Rate, Span};

/// The model's parameters, with a target of 10 Gbit/s; the file says where each comes from.
pub fn fasp_like() -> Settings {
    Settings {
        name: "fasp-like",
        unit_bytes: 8800,
        law: RateLaw::Delay {
            initial: Rate::from_mbit_per_sec(10),
            target: Rate::from_gbit_per_sec(10),
            queue_bytes: 2_000_000,
            gain: 0.5,
        },
        burst_units: 4,
        window_bytes: 1 << 30,
        drive: Drive::Push(Push {
            report_interval: Span::from_millis(10),
            gap_interval: Some(Span::from_millis(1)),
            report_units: None,
            repair_wait_rtts: 1.2,
        }),
        read: None,
        write: None,
    }
}
