//! When written files are safe: one `syncfs` for many, or an `fsync` each.
//!
//! `fsync` of each of 100,000 small files takes minutes; `syncfs` of their file system takes as long as
//! writing them. Since Linux 5.8 it reports every failed writeback since the descriptor was opened, as
//! `fsync` does for one file. So each file system's descriptor is opened before the first file is
//! written and used to the end. It is trusted where that is known to hold; elsewhere each file and each
//! directory is synced by itself.

use super::queue::lock;
use howdah_store::StoreError;
use howdah_store::calls::retry;
use rustix::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Mutex;

/// File systems below one destination.
const MAX_DISKS: usize = 256;

/// How the files of a directory become durable.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SyncWay {
    /// All of the file system at once.
    Together,
    /// Each file and directory by itself.
    Each,
}

/// The file systems that a transfer writes to.
#[derive(Debug, Default)]
pub(crate) struct Disks {
    known: Mutex<Vec<(u64, SyncWay, OwnedFd)>>,
}

impl Disks {
    /// Notes the file system of an open directory, before anything is written there.
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_lossless,
        reason = "the field's type differs between systems"
    )]
    pub(crate) fn note(&self, dir: impl AsFd) -> SyncWay {
        let Ok(stat) = rustix::fs::fstat(&dir) else {
            return SyncWay::Each;
        };
        let device = stat.st_dev as u64;
        let mut known = lock(&self.known);
        if let Some((_, way, _)) = known.iter().find(|(known, _, _)| *known == device) {
            return *way;
        }
        if known.len() >= MAX_DISKS {
            return SyncWay::Each;
        }
        // Opened anew: the descriptor remembers from when on errors are reported to it.
        let Ok(fd) = retry(|| {
            let flags = rustix::fs::OFlags::RDONLY
                | rustix::fs::OFlags::DIRECTORY
                | rustix::fs::OFlags::CLOEXEC;
            rustix::fs::openat(&dir, ".", flags, rustix::fs::Mode::empty())
        }) else {
            return SyncWay::Each;
        };
        let way = way(&fd);
        known.push((device, way, fd));
        way
    }

    /// Makes everything that was written to them durable.
    pub(crate) fn sync(&self, shown: &Path) -> Result<(), StoreError> {
        let known = lock(&self.known);
        for (_, way, fd) in &*known {
            if *way == SyncWay::Together {
                // A second one may succeed although pages were lost: never repeated.
                sync_together(fd).map_err(|e| StoreError::from_io(shown, "sync", e))?;
            }
        }
        Ok(())
    }
}

#[cfg(target_os = "linux")]
fn sync_together(fd: &OwnedFd) -> Result<(), rustix::io::Errno> {
    retry(|| rustix::fs::syncfs(fd))
}

#[cfg(not(target_os = "linux"))]
fn sync_together(_: &OwnedFd) -> Result<(), rustix::io::Errno> {
    Ok(())
}

#[cfg(target_os = "linux")]
fn way(fd: &OwnedFd) -> SyncWay {
    const TRUSTED: [u32; 5] = [
        0x0000_ef53, // ext4
        0x5846_5342, // XFS
        0x9123_683e, // Btrfs
        0xf2f5_2010, // F2FS
        0x0102_1994, // tmpfs
    ];
    let trusted = rustix::fs::fstatfs(fd).is_ok_and(|fs| TRUSTED.contains(&(fs.f_type as u32)));
    if trusted && reports_errors(rustix::system::uname().release().to_bytes()) {
        SyncWay::Together
    } else {
        SyncWay::Each
    }
}

#[cfg(not(target_os = "linux"))]
fn way(_: &OwnedFd) -> SyncWay {
    SyncWay::Each
}

/// Whether a kernel of that release tells failed writebacks in `syncfs`: 5.8 and later.
#[cfg(target_os = "linux")]
fn reports_errors(release: &[u8]) -> bool {
    let release = String::from_utf8_lossy(release);
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next().and_then(|number| number.parse::<u32>().ok());
    (number(), number()) >= (Some(5), Some(8))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn old_kernels_are_not_trusted() {
        for (release, trusted) in [
            ("6.18.44", true),
            ("5.8.0-1-amd64", true),
            ("5.7.19", false),
            ("4.19.0-27", false),
            ("10.0", true),
            ("odd", false),
        ] {
            assert_eq!(reports_errors(release.as_bytes()), trusted, "{release}");
        }
    }
}
