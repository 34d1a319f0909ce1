//! Deletes what the source does not have, after everything else is in place.

use super::backup::{self, Keep};
use super::existing::open_writable;
use super::filter::Filter;
use super::inside::number;
use super::names::Names;
use super::queue::lock;
use super::receive::Shared;
use super::report::{Trouble, add, quoted};
use super::spellings::Spellings;
use super::target::TargetDir;
use super::walk::{kind, read_names};
use crate::descriptors::opened;
use crate::root::retry;
use crate::stale::{self, InUse};
use crate::{StoreError, unwritable};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directories in each other that are followed down; deeper ones stay.
const DEPTH: usize = 1000;

/// What a directory of the destination holds, and what of it the source has named.
#[derive(Debug)]
pub(crate) struct Inventory {
    names: Names,
    seen: Vec<bool>,
    /// Unfinished files, by what is in their names of those of their targets.
    unfinished: HashMap<Vec<u8>, Vec<Vec<u8>>>,
    /// So much of a target's name is in them.
    room: usize,
    /// What the source has named and the list did not: new, or another spelling of a name that is in it.
    unlisted: Names,
}

impl Inventory {
    pub(crate) fn of(dir: &OwnedFd) -> Result<Self, Errno> {
        let mut names = Names::default();
        let mut unfinished: HashMap<_, Vec<_>> = HashMap::new();
        read_names(dir, |name, _| {
            if let Some(target) = stale::target_in(name) {
                let of_target = unfinished.entry(target.to_vec()).or_default();
                of_target.push(name.to_vec());
            }
            names.push(name);
        })?;
        names.sort();
        let seen = vec![false; names.len()];
        Ok(Self {
            names,
            seen,
            room: stale::room(stale::name_max(dir)),
            unfinished,
            unlisted: Names::default(),
        })
    }

    pub(crate) fn see(&mut self, name: &[u8]) {
        match self.names.find(name) {
            Some(index) => self.seen[index] = true,
            None => self.unlisted.push(name),
        }
        if self.unfinished.is_empty() {
            return;
        }
        // The next copy goes on with what an interrupted one has left of it.
        let left = self.unfinished.remove(stale::kept_of(name, self.room));
        for index in left
            .iter()
            .flatten()
            .filter_map(|name| self.names.find(name))
        {
            self.seen[index] = true;
        }
    }

    /// The names that nobody has named, and those that the source has named besides the list; `None` if
    /// nothing is to go.
    pub(crate) fn into_extra(self) -> Option<(Names, Names)> {
        let mut extra = Names::default();
        for (index, seen) in self.seen.iter().enumerate() {
            if let (false, Some(name)) = (seen, self.names.get(index)) {
                extra.push(name);
            }
        }
        (extra.len() > 0).then_some((extra, self.unlisted))
    }
}

/// Names that are to go, by directory.
pub(crate) type Extras = Vec<Extra>;

/// What of one directory is to go.
#[derive(Debug)]
pub(crate) struct Extra {
    pub(crate) dir: Arc<TargetDir>,
    names: Names,
    /// What the source has, and the directory did not list.
    unlisted: Names,
}

impl Extra {
    pub(crate) fn of(dir: Arc<TargetDir>, (names, unlisted): (Names, Names)) -> Self {
        Self {
            dir,
            names,
            unlisted,
        }
    }
}

pub(crate) struct Deleter<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) filter: &'a Filter,
}

/// What is to be done with names that are to go.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Act {
    Count,
    Delete,
}

impl Deleter<'_> {
    /// Every path that would go, a directory after what is in it.
    pub(crate) fn list(&self, extras: &Extras, each: &mut dyn FnMut(&Path)) -> u64 {
        let mut count = 0;
        self.all(extras, Act::Count, &mut |path| {
            count += 1;
            each(path);
        });
        count
    }

    /// Deletes, or moves into the backup directory.
    pub(crate) fn delete(&self, extras: &Extras) {
        self.all(extras, Act::Delete, &mut |_| {
            add(&self.shared.book.deleted, 1);
        });
    }

    fn all(&self, extras: &Extras, act: Act, each: &mut dyn FnMut(&Path)) {
        let device = |dir: &OwnedFd| rustix::fs::fstat(dir).map(|stat| stat.st_dev).ok();
        let top = lock(&self.shared.top).clone();
        let top = self.shared.root.open_dir(&top).ok();
        let top = top.filter(|_| self.shared.options.one_file_system);
        let top = top.as_ref().and_then(device);
        for Extra {
            dir,
            names,
            unlisted,
        } in extras
        {
            let fd = match self.shared.root.open_dir(&dir.path) {
                Ok(fd) => fd,
                Err(error) => {
                    self.shared.book.note(Trouble::Failed, || error.to_string());
                    continue;
                }
            };
            // What is mounted at the destination is none of a copy that keeps to one file system.
            if top.is_some() && device(&fd) != top {
                continue;
            }
            let spellings = match Spellings::of(&fd, unlisted) {
                Ok(spellings) => spellings,
                Err(e) => {
                    let error = StoreError::from_io(&dir.path, "list", e);
                    self.shared.book.note(Trouble::Failed, || error.to_string());
                    continue;
                }
            };
            for index in 0..names.len() {
                let Some(name) = names.get(index) else { break };
                if spellings.keep(&fd, name) {
                    continue;
                }
                let path = self
                    .shared
                    .below_top(dir.named())
                    .join(OsStr::from_bytes(name));
                self.one(&fd, OsStr::from_bytes(name), &path, act, 0, each);
            }
        }
    }

    /// A name with all below it. Whether nothing of it stays (or would).
    pub(super) fn one(
        &self,
        dir: &OwnedFd,
        name: &OsStr,
        path: &Path,
        act: Act,
        depth: usize,
        each: &mut dyn FnMut(&Path),
    ) -> bool {
        let book = &self.shared.book;
        let failed = |e: Errno| {
            if act == Act::Delete && e != Errno::NOENT {
                let error = unwritable::from_changing(dir, path, "delete", e);
                book.note(Trouble::Failed, || error.to_string());
            }
            false
        };
        let stat = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(e) => return failed(e),
        };
        let is_dir = kind(&stat) == FileType::Directory;
        if !self.filter.admits(path, is_dir) || self.is_backup(path) {
            return false;
        }
        if is_dir && let Some(told) = lock(&self.shared.sources).get_mut(&number(&stat)) {
            if !std::mem::replace(told, true) {
                let what = "is what is copied, and stays";
                book.trouble(Trouble::Notice, path, what);
            }
            return false;
        }
        if is_dir && is_mounted(dir, name, &stat) {
            // It could not go anyway, and what is in it is not of this directory.
            if act == Act::Delete {
                let kind = if self.shared.options.one_file_system {
                    Trouble::Notice
                } else {
                    Trouble::Failed
                };
                let what = "is not in the source, and stays with all that is in it: something is mounted there";
                book.trouble(kind, path, what);
            }
            return false;
        }
        // Nobody begins to write it while this is held.
        let mut _lock = None;
        if let Some(target) = stale::target_in(name.as_bytes()).filter(|_| !is_dir) {
            match stale::in_use(dir, name) {
                InUse::No(lock) => _lock = lock,
                InUse::Perhaps => return false,
            }
            let target = path.with_file_name(OsStr::from_bytes(target));
            if !self.filter.admits(&target, false) {
                return false;
            }
        }
        let mut removal = AtFlags::empty();
        if is_dir {
            removal = AtFlags::REMOVEDIR;
            if depth >= DEPTH {
                return failed(Errno::NAMETOOLONG);
            }
            let opened = match act {
                Act::Count => open_below(dir, name).map(|below| (below, None)),
                Act::Delete => open_writable(dir, name, &stat),
            };
            let (below, was) = match opened {
                Ok(below) => below,
                Err(e) => return failed(e),
            };
            match rustix::fs::fstat(&below) {
                Ok(inside) if inside.st_dev == stat.st_dev => {}
                // Something is mounted there.
                Ok(_) => return failed(Errno::XDEV),
                Err(e) => return failed(e),
            }
            let mut names = Names::default();
            if let Err(e) = read_names(&below, |name, _| names.push(name)) {
                return failed(e);
            }
            names.sort();
            let mut all = true;
            for index in 0..names.len() {
                let Some(name) = names.get(index) else { break };
                let name = OsStr::from_bytes(name);
                all &= self.one(&below, name, &path.join(name), act, depth + 1, each);
            }
            if !all {
                if let Some(was) = was {
                    let _ = rustix::fs::fchmod(&below, was);
                }
                return false;
            }
            if act == Act::Delete && self.shared.options.backup_dir.is_some() {
                // Of a copy that was to make this directory.
                super::unfinished::unmark(&below);
                if let Err(e) = self.shared.back_up_dir(path, &stat) {
                    return failed(e);
                }
            }
        }
        if act == Act::Count {
            each(path);
            return true;
        }
        if is_dir && let Ok(below) = open_below(dir, name) {
            // Of a copy that was to make this directory.
            super::unfinished::unmark(below);
        }
        if !is_dir && self.shared.options.backup_dir.is_some() {
            match self.shared.back_up(dir, name, path, Keep::Move) {
                Ok(()) => {}
                Err(Errno::NOENT) => return false,
                Err(e) => {
                    let error = backup::failure(dir, path, e);
                    book.note(Trouble::Failed, || error.to_string());
                    return false;
                }
            }
        } else if let Err(e) = retry(|| rustix::fs::unlinkat(dir, name, removal)) {
            return failed(e);
        }
        each(path);
        true
    }

    fn is_backup(&self, path: &Path) -> bool {
        let backup = self.shared.options.backup_dir.as_ref();
        backup.is_some_and(|backup| path.starts_with(super::tree_source::plain(Path::new(backup))))
    }
}

pub(super) fn open_below(dir: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    opened(|| rustix::fs::openat(&dir, name, flags, Mode::empty()))
}

/// Whether another file system begins there, or a part of one.
fn is_mounted(dir: &OwnedFd, name: &OsStr, stat: &Stat) -> bool {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{StatxAttributes, StatxFlags, statx};
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        if let Ok(found) = statx(dir, name, flags, StatxFlags::empty())
            && found
                .stx_attributes_mask
                .contains(StatxAttributes::MOUNT_ROOT)
        {
            return found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
        }
    }
    rustix::fs::fstat(dir).is_ok_and(|dir| dir.st_dev != stat.st_dev)
}

impl Shared {
    /// A path below the root as one below the top of the copy.
    pub(crate) fn below_top(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&*lock(&self.top))
            .unwrap_or(path)
            .to_path_buf()
    }

    /// Why nothing is deleted.
    pub(crate) fn refuse_to_delete(&self, why: &str) {
        let shown = quoted(&self.root.path().join(&self.at));
        self.book.note(Trouble::Failed, || {
            format!("{shown}: nothing was deleted: {why}")
        });
    }
}
