//! Two names of the source that the disk takes for one: the second would replace the first, unsaid.

use super::super::names::read_names;
use super::super::report::Trouble;
use super::super::spellings::fold;
use super::super::target::{DirState, TargetDir};
use super::Placer;
use howdah_session::naming::quoted;
use howdah_store::descriptors::opened;
use howdah_store::stale::temp_name;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

/// Names of one directory that are remembered; in larger ones something may be missed.
const NAMES: usize = 131_072;

/// What has come into a directory, on a disk that may not tell capital letters from small ones.
#[derive(Debug, Default)]
pub(super) struct Twins {
    names: HashMap<String, Box<[u8]>>,
    /// Whether the disk is of that kind, once that had to be known.
    folds: Option<bool>,
}

impl Twins {
    /// For a directory of a disk that may be of that kind.
    pub(super) fn of(dir: &OwnedFd) -> Option<Self> {
        may_fold(dir).then(Self::default)
    }
}

impl Placer<'_> {
    /// Whether the disk takes a name for one that has come into the same directory; that is told.
    pub(super) fn is_twin(&mut self, dir: &TargetDir, name: &OsStr) -> bool {
        let Some(level) = self.levels.last_mut() else {
            return false;
        };
        let (Some(twins), DirState::There | DirState::Fresh) = (&mut level.twins, dir.state) else {
            return false;
        };
        let folded = fold(name.as_bytes());
        let Some(first) = twins.names.get(&folded) else {
            if twins.names.len() < NAMES {
                twins.names.insert(folded, name.as_bytes().into());
            }
            return false;
        };
        let first = OsString::from_vec(first.to_vec());
        let shared = self.shared;
        let dry_run = shared.options.dry_run;
        let folds = *twins.folds.get_or_insert_with(|| {
            let fd = shared.root.open_dir(&dir.path);
            fd.is_ok_and(|fd| does_fold(&fd, &first, dry_run))
        });
        if folds {
            let what = format!(
                "the disk there takes this name for {}, which comes as well; it was left out",
                quoted(Path::new(&first))
            );
            let path = shared.root.path().join(dir.named()).join(name);
            shared.book.trouble(Trouble::Failed, &path, what);
        }
        folds
    }
}

/// Whether a disk of that kind may take two spellings for one name.
#[cfg(target_os = "linux")]
fn may_fold(dir: &OwnedFd) -> bool {
    // `linux/magic.h` and the file systems' own headers: FAT, exFAT, NTFS (two drivers), FUSE, SMB (three), 9P, VirtualBox,
    // HFS and HFS+.
    const KINDS: [u32; 12] = [
        0x4d44,
        0x2011_bab0,
        0x5346_544e,
        0x7366_746e,
        0x6573_5546,
        0x517b,
        0xff53_4d42,
        0xfe53_4d42,
        0x0102_1997,
        0x786f_4256,
        0x4244,
        0x482b,
    ];
    // ext4, F2FS and tmpfs say it of each directory.
    const BY_DIRECTORY: [u32; 3] = [0xef53, 0xf2f5_2010, 0x0102_1994];
    let Ok(disk) = rustix::fs::fstatfs(dir) else {
        return false;
    };
    let kind = disk.f_type as u32;
    KINDS.contains(&kind) || BY_DIRECTORY.contains(&kind) && is_casefolded(dir)
}

#[cfg(not(target_os = "linux"))]
fn may_fold(_: &OwnedFd) -> bool {
    true
}

/// `chattr +F`.
#[cfg(target_os = "linux")]
fn is_casefolded(dir: &OwnedFd) -> bool {
    /// `FS_CASEFOLD_FL` (`linux/fs.h`).
    const CASEFOLD: u32 = 0x4000_0000;
    let flags = rustix::fs::ioctl_getflags(dir);
    flags.is_ok_and(|flags| flags.bits() & CASEFOLD != 0)
}

/// Whether it does: what is there or, in a copy that writes, what is made to find out, answers to another spelling.
fn does_fold(dir: &OwnedFd, first: &OsStr, dry_run: bool) -> bool {
    let is_there = |name: &OsStr| rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    let respelt = |name: &OsStr| {
        let name = name.to_str()?;
        let other = [name.to_uppercase(), name.to_lowercase()];
        other
            .into_iter()
            .find(|other| other != name)
            .map(OsString::from)
    };
    if is_there(first)
        && let Some(other) = respelt(first)
    {
        // A file of its own is in the list.
        let mut listed = false;
        let read = read_names(dir, |name, _| listed |= name == other.as_bytes());
        return is_there(&other) && read.is_ok() && !listed;
    }
    if dry_run {
        return false;
    }
    let probe = temp_name(dir, OsStr::new("howdah"));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let Ok(file) = opened(|| rustix::fs::openat(dir, &probe, flags, mode)) else {
        return false;
    };
    let folds = respelt(&probe).is_some_and(|other| is_there(&other));
    drop(file);
    let _ = rustix::fs::unlinkat(dir, &probe, AtFlags::empty());
    folds
}
