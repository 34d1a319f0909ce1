//! Names that files get, and that these last.

use crate::calls::retry;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::ffi::OsStr;

/// Makes the names of a directory durable.
pub fn sync_dir(dir: impl AsFd) -> Result<(), Errno> {
    match retry(|| rustix::fs::fsync(&dir)) {
        // Some network and FUSE file systems have no fsync for directories.
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        result => result,
    }
}

/// Gives a file its name. What has it already is replaced, or an error.
pub fn rename_file(
    from_dir: &OwnedFd,
    from: &OsStr,
    to_dir: &OwnedFd,
    to: &OsStr,
    replace: bool,
) -> Result<(), Errno> {
    if !replace {
        #[cfg(any(target_os = "linux", target_os = "macos"))]
        match rustix::fs::renameat_with(
            from_dir,
            from,
            to_dir,
            to,
            rustix::fs::RenameFlags::NOREPLACE,
        ) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            result => return result,
        }
        // Not every file system can do both at once (NFS, Ceph and some of FUSE cannot).
        match rustix::fs::statat(to_dir, to, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => return Err(Errno::EXIST),
            Err(Errno::NOENT) => {}
            Err(e) => return Err(e),
        }
    }
    rustix::fs::renameat(from_dir, from, to_dir, to)
}
