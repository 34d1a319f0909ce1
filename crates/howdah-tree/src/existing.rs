//! Directories and files at the receiver's place: made, found, kept, synced.

use super::meta;
use super::receive::Shared;
use super::report::Trouble;
use super::target::DirState;
use super::walk::kind;
use howdah_session::entry::Meta;
use howdah_store::calls::retry;
use howdah_store::descriptors::opened;
use howdah_store::unwritable::takes_names;
use howdah_store::{StoreError, durable};
use rustix::fd::{AsFd, AsRawFd as _, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::path::Path;

/// Makes a directory unless it is there.
pub(crate) fn make_dir(parent: &OwnedFd, name: &OsStr, dry_run: bool) -> Result<DirState, Errno> {
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if kind(&stat) == FileType::Directory => Ok(DirState::There),
        Ok(_) => Err(Errno::NOTDIR),
        Err(Errno::NOENT) if dry_run => takes_names(parent).map(|()| DirState::Absent),
        Err(Errno::NOENT) => {
            // Nobody else looks in before it is finished.
            let mode = Mode::RWXU;
            match retry(|| rustix::fs::mkdirat(parent, name, mode)) {
                Ok(()) => Ok(DirState::Fresh),
                Err(Errno::EXIST) => Ok(DirState::There),
                Err(e) => Err(e),
            }
        }
        Err(e) => Err(e),
    }
}

/// Opens a directory in which names come and go, also where its mode does not let its owner do that: then it is
/// given one that does, and the one that it had comes back, too. Root needs none.
pub(crate) fn open_writable(
    parent: &OwnedFd,
    name: &OsStr,
    stat: &Stat,
) -> Result<(OwnedFd, Option<Mode>), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || opened(|| rustix::fs::openat(parent, name, flags, Mode::empty()));
    let user = rustix::process::geteuid();
    let mode = Mode::from_raw_mode(stat.st_mode);
    if !user.is_root() && stat.st_uid == user.as_raw() && !mode.contains(Mode::RUSR) {
        // It cannot be opened yet, but pointed at: no link is followed.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let at = opened(|| rustix::fs::openat(parent, name, flags, Mode::empty()))?;
        let way = format!("/proc/self/fd/{}", at.as_raw_fd());
        let _ = rustix::fs::chmod(way, mode | Mode::RWXU);
        return Ok((open()?, Some(mode)));
    }
    let fd = open()?;
    let now = rustix::fs::fstat(&fd)?;
    let was = open_up(&fd, &now);
    Ok((fd, was))
}

/// Lets the owner of an open directory write to it; its mode, which comes back when it is finished, if that was another.
pub(crate) fn open_up(dir: &OwnedFd, stat: &Stat) -> Option<Mode> {
    let user = rustix::process::geteuid();
    let mode = Mode::from_raw_mode(stat.st_mode);
    if !user.is_root() && stat.st_uid == user.as_raw() && !mode.contains(Mode::RWXU) {
        // What cannot be written to then is told of by name.
        retry(|| rustix::fs::fchmod(dir, mode | Mode::RWXU)).ok()?;
        return Some(mode);
    }
    None
}

pub(crate) fn open_plain_at(dir: impl AsFd, name: &OsStr) -> Result<std::fs::File, Errno> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = opened(|| rustix::fs::openat(&dir, name, flags, Mode::empty()))?;
    Ok(std::fs::File::from(fd))
}

/// The content is right; the rest may not be.
pub(crate) fn refresh(
    shared: &Shared,
    dir: &OwnedFd,
    path: &Path,
    name: &OsStr,
    stat: &Stat,
    meta: &Meta,
) {
    let keeper = &shared.keeper;
    let found = || meta::xattrs(dir, name).map(|(found, _)| found);
    // What cannot be kept is said each time.
    let owned = keeper.is_owner(meta, stat.st_uid, stat.st_gid);
    if owned && keeper.differs(dir, stat, meta, false, found).is_empty() {
        return;
    }
    match open_plain_at(dir, name) {
        Ok(file) => {
            for (what, e) in shared.keeper.apply(&file, meta, false) {
                let what = format!("{what} not kept: {e}");
                shared.book.trouble(Trouble::NotKept, path, what);
            }
        }
        Err(e) => {
            let what = format!("its attributes cannot be set: {e}");
            shared.book.trouble(Trouble::NotKept, path, what);
        }
    }
}

/// Syncs a directory that is not synced with all others.
pub(crate) fn sync_dir_at(shared: &Shared, path: &Path) -> Result<(), StoreError> {
    let fd = shared.root.open_dir(path)?;
    durable::sync_dir(&fd).map_err(|e| StoreError::from_io(path, "sync the directory", e))
}

/// Waits while there is no room for it, as far as patience goes.
pub(crate) fn until_room<T>(
    shared: &Shared,
    path: &Path,
    operation: &'static str,
    mut attempt: impl FnMut() -> Result<T, Errno>,
) -> Result<Result<T, Errno>, StoreError> {
    shared.until_room(|| match attempt() {
        Err(e @ (Errno::NOSPC | Errno::DQUOT)) => Err(StoreError::from_io(path, operation, e)),
        result => Ok(result),
    })
}
