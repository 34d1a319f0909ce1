//! Times of files that somebody else has set.

use rustix::fd::OwnedFd;
use rustix::fs::{Stat, Timespec, Timestamps};

/// Does something in a directory that its times do not show.
pub fn keeping_times<T>(dir: &OwnedFd, action: impl FnOnce() -> T) -> T {
    let before = rustix::fs::fstat(dir);
    let done = action();
    if let Ok(before) = before {
        let _ = rustix::fs::futimens(dir, &times_of(&before));
    }
    done
}

/// The times of a file, to be set again.
pub fn times_of(stat: &Stat) -> Timestamps {
    let at = |tv_sec, nanos: u64| Timespec {
        tv_sec,
        tv_nsec: i64::try_from(nanos).unwrap_or(0),
    };
    Timestamps {
        last_access: at(stat.st_atime, stat.st_atime_nsec),
        last_modification: at(stat.st_mtime, stat.st_mtime_nsec),
    }
}
