//! "FileCatalyst-like": a model of `FileCatalyst` Direct. **Not `FileCatalyst`.**
//!
//! | rule | |
//! |---|---|
//! | UDP for data; the file in blocks; the next begins before the last is confirmed; for each block a confirmation or a list of what is missing; repairs between new data | published (vendor) |
//! | congestion control by delay or by loss | published, and not modelled: the paper forced the start rate to 9 Gbit/s and measured 9.0 to 9.4 everywhere |
//! | lists travel over TCP | published; here a datagram that the next one replaces |
//! | 10 sending and 4 receiving sockets | published (K13app); without a part in the model |
//! | buffers of 3.84 GB, 8800 bytes a packet | published (K13app, set-up) |
//! | rate of 9.4 Gbit/s | fitted: K13app (0, 0) |
//! | blocks of 4096 packets | choice: nothing in the measurements depends on it |
//! | a lost repair is asked for again after 1.5 round-trip times | choice |

use super::{Drive, Push, RateLaw, Settings};
use howdah_core::{Rate, Span};

/// The model's parameters; the file says where each comes from.
pub fn filecatalyst_like() -> Settings {
    Settings {
        name: "filecatalyst-like",
        unit_bytes: 8800,
        law: RateLaw::Fixed(Rate::from_mbit_per_sec(9400)),
        burst_units: 4,
        window_bytes: 3_840_000_000,
        drive: Drive::Push(Push {
            report_interval: Span::from_millis(100),
            gap_interval: None,
            report_units: Some(4096),
            repair_wait_rtts: 1.5,
        }),
        read: None,
        write: None,
    }
}
