//! Times as the system tells and takes them.

use howdah_session::entry::Stamp;
use rustix::fs::{Stat, Timespec};

/// When the content of that was modified.
#[allow(
    clippy::unnecessary_cast,
    clippy::useless_conversion,
    reason = "the fields' types differ between systems"
)]
pub(crate) fn modified(stat: &Stat) -> Stamp {
    Stamp {
        secs: stat.st_mtime as i64,
        nanos: stat.st_mtime_nsec as u32,
    }
}

pub(crate) fn timespec(stamp: Stamp) -> Timespec {
    Timespec {
        tv_sec: stamp.secs,
        tv_nsec: stamp.nanos.into(),
    }
}
