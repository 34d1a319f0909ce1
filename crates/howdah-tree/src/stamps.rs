//! Times as the system tells and takes them.

use howdah_session::entry::Stamp;
use howdah_store::calls::retry;
use rustix::fd::AsFd;
use rustix::fs::{Stat, Timespec, Timestamps};
use rustix::io::Errno;

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

/// Sets the time of modification; that of access is now.
pub(crate) fn set_time(fd: impl AsFd, mtime: Stamp) -> Result<(), Errno> {
    let times = times(mtime);
    retry(|| rustix::fs::futimens(fd.as_fd(), &times))
}

pub(crate) fn times(mtime: Stamp) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            // Left out, FUSE file systems of libfuse 2 would leave both alone and say nothing.
            tv_nsec: rustix::fs::UTIME_NOW as _,
        },
        last_modification: timespec(mtime),
    }
}
