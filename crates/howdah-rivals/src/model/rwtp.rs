//! "RWTP-like": a model of RWTP, the core of Tixel's `TIXstream`. **Not RWTP.**
//!
//! | rule | |
//! |---|---|
//! | UDP, one socket a side, a rate that the user presets, nothing slows it down | published (K14proto) |
//! | buffers of 1 GiB set by hand, 8800 bytes a packet | published (K14proto, set-up) |
//! | selective repeat in a window of that size | inferred: no fall at 400 ms without loss |
//! | a report every 10 ms, 66 bytes as an interface counts | fitted: 5.6 KiB/GiB at (0, 0) |
//! | a report, too, when something is found missing, at most one in a millisecond | fitted: 6215 KiB/GiB at (400 ms, 2 %), of which this gives about half |
//! | the report names every missing packet with 4 bytes | fitted: as above |
//! | a repetition that is lost too is repeated after 7 round-trip times | fitted: at least 1.5 Gbit/s at (400 ms, 2 %) |
//! | preset rate of 9.8 Gbit/s | fitted: 9.7 to 9.8 Gbit/s at (0, 0) |

use super::{Drive, Push, RateLaw, Settings};
use howdah_core::{Rate, Span};

/// The model's parameters; the file says where each comes from.
pub fn rwtp_like() -> Settings {
    Settings {
        name: "rwtp-like",
        unit_bytes: 8800,
        law: RateLaw::Fixed(Rate::from_mbit_per_sec(9800)),
        burst_units: 4,
        window_bytes: 1 << 30,
        drive: Drive::Push(Push {
            report_interval: Span::from_millis(10),
            gap_interval: Some(Span::from_millis(1)),
            report_units: None,
            repair_wait_rtts: 7.0,
        }),
        read: None,
        write: None,
    }
}
