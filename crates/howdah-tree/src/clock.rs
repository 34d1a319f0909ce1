//! Times as the disks at the destination can hold them.
//!
//! ext4 ends in 2446 and begins in 1901, exFAT knows 1980 to 2107, FAT has even seconds only. A time that was set
//! comes back as the nearest one. What that is depends on the file system, its options and its driver, so the disk itself
//! is asked: a file without a name gets the time and says what it has then.

use super::open::open_below;
use super::queue::lock;
use super::stamps::{modified, set_time};
use howdah_session::entry::Stamp;
use howdah_store::descriptors::opened;
use howdah_store::stale::{self, temp_name};
use howdah_store::times::{keeping_times, times_of};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, Timestamps, Uid};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

/// File systems that are remembered.
const DISKS: usize = 64;

/// The disks that have been asked.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    /// A file without a name on each, by the disk's number.
    probes: Mutex<HashMap<u64, OwnedFd>>,
    /// Where a disk is asked if not in the directory that it is about, which may be closed to its owner.
    top: OnceLock<OwnedFd>,
    told: AtomicBool,
    /// Whether these keep modes, and owners.
    rights: Mutex<HashMap<u64, (bool, bool)>>,
}

impl Clock {
    /// Whether what has that time `there`, in or beside the open directory `dir`, may have been given the time `wanted`.
    pub(crate) fn is_same(&self, dir: impl AsFd, there: Stamp, wanted: Stamp) -> bool {
        there.is_same_moment(wanted)
            || may_be_out_of_reach(there, wanted) && self.held(dir, wanted) == Some(there)
    }

    /// The directory that all others are in.
    pub(crate) fn meet_top(&self, dir: &OwnedFd) {
        if let (None, Ok(dir)) = (self.top.get(), dir.try_clone()) {
            let _ = self.top.set(dir);
        }
    }

    /// The time that the disk of `dir` makes of `wanted`; `None`: it cannot be asked.
    pub(crate) fn held(&self, dir: impl AsFd, wanted: Stamp) -> Option<Stamp> {
        self.asked(dir, |probe| {
            set_time(probe, wanted).ok()?;
            Some(modified(&rustix::fs::fstat(probe).ok()?))
        })
    }

    /// Whether the disk of `dir` keeps modes, and owners that root gives: exFAT and NTFS through FUSE take them without a word
    /// and have one for all files. One that cannot be asked keeps them.
    pub(crate) fn keeps_rights(&self, dir: impl AsFd) -> (bool, bool) {
        let dir = dir.as_fd();
        let Ok(disk) = rustix::fs::fstat(dir).map(|stat| stat.st_dev) else {
            return (true, true);
        };
        if let Some(known) = lock(&self.rights).get(&disk) {
            return *known;
        }
        let found = self.asked(dir, |probe| Some((keeps_modes(probe), keeps_owners(probe))));
        let found = found.unwrap_or((true, true));
        let mut rights = lock(&self.rights);
        if rights.len() >= DISKS {
            rights.clear();
        }
        rights.insert(disk, found);
        found
    }

    /// Has the disk of `dir` asked.
    fn asked<T>(&self, dir: impl AsFd, ask: impl FnOnce(&OwnedFd) -> Option<T>) -> Option<T> {
        let dir = dir.as_fd();
        let disk = rustix::fs::fstat(dir).ok()?.st_dev;
        let is_same_disk =
            |top: &&OwnedFd| rustix::fs::fstat(top).is_ok_and(|stat| stat.st_dev == disk);
        let top = || self.top.get().filter(is_same_disk);
        if is_fuse(dir) {
            let made = passing(dir).or_else(|| passing(top()?));
            return made.and_then(|probe| ask(&probe.fd));
        }
        let mut probes = lock(&self.probes);
        if !probes.contains_key(&disk) {
            if probes.len() >= DISKS {
                probes.clear();
            }
            probes.insert(disk, probe(dir).or_else(|| probe(top()?))?);
        }
        ask(probes.get(&disk)?)
    }

    /// After `wanted` was set, and the time is the one that is `there`: whether it is to be told, once, that the disk keeps
    /// another time. It is not if that was so `before`.
    pub(crate) fn is_news(
        &self,
        there: Option<Stamp>,
        wanted: Stamp,
        before: Option<Stamp>,
    ) -> bool {
        there.is_some_and(|there| !there.is_same_moment(wanted) && Some(there) != before)
            && !self.told.swap(true, Ordering::Relaxed)
    }
}

/// Whether two modes are two there.
fn keeps_modes(probe: &OwnedFd) -> bool {
    let given = [Mode::RWXU, Mode::RUSR | Mode::WUSR | Mode::RGRP].map(|mode| {
        rustix::fs::fchmod(probe, mode)?;
        Ok::<_, Errno>(rustix::fs::fstat(probe)?.st_mode)
    });
    match given {
        [Ok(one), Ok(other)] => one != other,
        // FAT.
        [Err(Errno::PERM | Errno::OPNOTSUPP), _] | [_, Err(Errno::PERM | Errno::OPNOTSUPP)] => {
            false
        }
        _ => true,
    }
}

/// Whether somebody else can own it. Only root can tell.
fn keeps_owners(probe: &OwnedFd) -> bool {
    if !rustix::process::geteuid().is_root() {
        return true;
    }
    let somebody = Uid::from_raw(1);
    let given = rustix::fs::fchown(probe, Some(somebody), None);
    let owned = given.and_then(|()| rustix::fs::fstat(probe));
    let _ = rustix::fs::fchown(probe, Some(Uid::ROOT), None);
    match owned {
        Ok(stat) => stat.st_uid == somebody.as_raw(),
        Err(Errno::PERM | Errno::OPNOTSUPP) => false,
        Err(_) => true,
    }
}

/// Whether the disk may have made the one time of the other. Most times differ because a file has changed.
fn may_be_out_of_reach(there: Stamp, wanted: Stamp) -> bool {
    /// What every disk holds: the first year of FAT is left out, whose days begin where the machine is.
    const COMMON: std::ops::Range<i64> = 347_155_200..i32::MAX as i64;
    /// FAT's.
    const COARSEST: u64 = 2;
    !COMMON.contains(&wanted.secs) || there.secs.abs_diff(wanted.secs) <= COARSEST
}

/// Opens a file on the disk of that directory that nobody sees.
fn probe(dir: impl AsFd) -> Option<OwnedFd> {
    let mode = Mode::RUSR | Mode::WUSR;
    #[cfg(target_os = "linux")]
    {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        if let Ok(fd) = opened(|| rustix::fs::openat(&dir, ".", flags, mode)) {
            return Some(fd);
        }
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let temp = temp_name(&dir, OsStr::new("time"));
    let dir = dir.as_fd().try_clone_to_owned().ok()?;
    let made: Result<OwnedFd, Errno> = keeping_times(&dir, || {
        let fd = opened(|| rustix::fs::openat(&dir, &temp, flags, mode))?;
        stale::lock(&fd);
        rustix::fs::unlinkat(&dir, &temp, AtFlags::empty())?;
        Ok(fd)
    });
    made.ok()
}

/// Where a file that is removed while it is open keeps a name (`.fuse_hidden...`), and goes some time after it was closed: the
/// times of its directory change behind everybody's back.
#[cfg(target_os = "linux")]
fn is_fuse(dir: impl AsFd) -> bool {
    // linux/magic.h
    const FUSE: u32 = 0x6573_5546;
    rustix::fs::fstatfs(dir).is_ok_and(|fs| fs.f_type as u32 == FUSE)
}

#[cfg(not(target_os = "linux"))]
fn is_fuse(_: impl AsFd) -> bool {
    false
}

/// A directory that goes when it has been asked, at once and with no trace: nothing is kept of those that are open.
struct Passing {
    dir: OwnedFd,
    name: OsString,
    fd: OwnedFd,
    before: Timestamps,
}

fn passing(dir: impl AsFd) -> Option<Passing> {
    let dir = dir.as_fd().try_clone_to_owned().ok()?;
    let before = times_of(&rustix::fs::fstat(&dir).ok()?);
    let name = temp_name(&dir, OsStr::new("time"));
    rustix::fs::mkdirat(&dir, &name, Mode::RWXU).ok()?;
    let opened = open_below(&dir, &name);
    let Ok(fd) = opened else {
        remove_passing(&dir, &name, &before);
        return None;
    };
    Some(Passing {
        dir,
        name,
        fd,
        before,
    })
}

impl Drop for Passing {
    fn drop(&mut self) {
        remove_passing(&self.dir, &self.name, &self.before);
    }
}

fn remove_passing(dir: &OwnedFd, name: &OsStr, before: &Timestamps) {
    let _ = rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR);
    let _ = rustix::fs::futimens(dir, before);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn t17_a_time_is_the_same_if_the_disk_makes_it_of_the_other() {
        let dir = tempfile::tempdir().unwrap();
        let fd = File::open(dir.path()).unwrap();
        let clock = Clock::default();
        let now = Stamp {
            secs: 1_700_000_000,
            nanos: 5,
        };
        for secs in [
            16_725_225_600,
            -2_240_524_800,
            1 << 33,
            -5,
            0,
            1_700_000_001,
        ] {
            let wanted = Stamp { secs, nanos: 7 };
            let there = clock.held(&fd, wanted).unwrap();
            assert!(clock.is_same(&fd, there, wanted));
            assert!(!clock.is_same(&fd, now, wanted), "{secs}");
            assert_eq!(clock.held(&fd, there), Some(there));
            let file = tempfile::tempfile_in(dir.path()).unwrap();
            set_time(&file, wanted).unwrap();
            assert_eq!(
                Clock::default().is_news(Some(there), wanted, None),
                !there.is_same_moment(wanted)
            );
        }
        assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none());
    }
}
