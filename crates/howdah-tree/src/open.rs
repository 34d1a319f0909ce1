//! Files and directories opened below an open directory.

use howdah_store::StoreError;
use howdah_store::calls::retry;
use howdah_store::descriptors::opened;
use howdah_store::unwritable::not_writable;
use rustix::fd::{AsFd, AsRawFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::path::Path;

/// The error of a file called `path` whose directory, which was there, cannot be opened any more.
pub(crate) fn from_opening_home(path: &Path, error: StoreError) -> StoreError {
    match error {
        StoreError::NotFound { .. } => {
            let why = "another program has removed or renamed its directory meanwhile";
            not_writable(path, why)
        }
        error => error,
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
        let _ = rustix::fs::chmod(&*way, mode | Mode::RWXU);
        let fd = open().inspect_err(|_| {
            let _ = rustix::fs::chmod(&*way, mode);
        })?;
        return Ok((fd, Some(mode)));
    }
    let fd = open()?;
    let now = rustix::fs::fstat(&fd)?;
    let was = open_up(&fd, &now);
    Ok((fd, was))
}

/// A directory that is closed to its owner again when nobody uses it any more, if it was.
pub(crate) struct Opened {
    pub(crate) fd: OwnedFd,
    pub(crate) was: Option<Mode>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(was) = self.was {
            let _ = rustix::fs::fchmod(&self.fd, was);
        }
    }
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

/// Opens a file that is there, for its attributes to be set, also where its mode keeps its owner from reading it: that is another one
/// then, and the one that it had comes back.
pub(crate) fn open_closed(
    dir: &OwnedFd,
    name: &OsStr,
    stat: &Stat,
) -> Result<(std::fs::File, Option<Mode>), Errno> {
    let mode = Mode::from_raw_mode(stat.st_mode);
    let is_closed = || {
        let is_ours = stat.st_uid == rustix::process::geteuid().as_raw();
        is_ours && !mode.contains(Mode::RUSR)
    };
    match open_plain_at(dir, name) {
        Err(Errno::ACCESS) if is_closed() => {
            // It is pointed at: no link is followed.
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let at = opened(|| rustix::fs::openat(dir, name, flags, Mode::empty()))?;
            let now = rustix::fs::fstat(&at)?;
            if (now.st_dev, now.st_ino) != (stat.st_dev, stat.st_ino) {
                return Err(Errno::STALE);
            }
            let way = format!("/proc/self/fd/{}", at.as_raw_fd());
            retry(|| rustix::fs::chmod(&*way, mode | Mode::RUSR))?;
            let open = open_plain_at(dir, name).inspect_err(|_| {
                let _ = rustix::fs::chmod(&*way, mode);
            })?;
            Ok((open, Some(mode)))
        }
        open => Ok((open?, None)),
    }
}

pub(crate) fn open_below(dir: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    opened(|| rustix::fs::openat(&dir, name, flags, Mode::empty()))
}
