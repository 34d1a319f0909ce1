//! "MTP-like": a model of MTP/IP, the core of Data Expedition's `ExpeDat`. **Not MTP.**
//!
//! | rule | |
//! |---|---|
//! | the receiver asks for portions; what is asked for and has not come stays below a limit that it keeps; each arrival triggers the next request; a timer asks again | published (US 7,158,479; US 7,630,315) |
//! | repeated adjustments by measured statistics | published (US 7,313,627); which, is not |
//! | 8192 bytes a datagram, one socket | published (K14proto, set-up) |
//! | limit of 10 MB | fitted: (50 ms, 0) has a quarter of (0, 0) |
//! | one request of 130 bytes, as an interface counts, per datagram while nothing is lost | fitted: tens of MiB/GiB clean |
//! | 8 datagrams per request after the first loss | fitted: (0, 0.1 %) is faster than (0, 0), mean feedback 3.2 MiB/GiB |
//! | a request is repeated after two round-trip times, but at least 400 ms | fitted: `ExpeDat` at (0, 1 %) has 5.7 of 9.3 Gbit/s |
//! | more than 1.5 % of a window's units asked for in vain (a lost request counts as its units) halve the window; else it grows by an eighth of the limit | fitted: reasonable up to 0.5 %, poor beyond |
//! | `-N x`, "expect loss", raises that threshold | meaning is a guess; K13app used 25 |

use super::{Drive, Pull, RateLaw, Settings};
use howdah_core::{Rate, Span};

/// The model's parameters; the file says where each comes from.
pub fn mtp_like() -> Settings {
    Settings {
        name: "mtp-like",
        unit_bytes: 8192,
        // As fast as the link takes them: the requests set the pace.
        law: RateLaw::Fixed(Rate::from_mbit_per_sec(9880)),
        burst_units: 1,
        window_bytes: 10_000_000,
        drive: Drive::Pull(Pull {
            units_clean: 1,
            units_lossy: 8,
            units_most: 64,
            request_bytes: 88,
            loss_threshold: 0.015,
            timeout_floor: Span::from_millis(400),
        }),
        read: None,
        write: None,
    }
}
