//! Deletes what the source does not have, after everything else is in place.

use super::backup::{self, Keep};
use super::ignored::{Rules, Told, Unknown};
use super::ignores::Ignores;
use super::inside::number;
use super::names::{PART_BYTES, Part};
use super::names::{kind, read_names};
use super::noted::{Noted, Seen, Spool, Unfinished};
use super::open::{Opened, open_below, open_writable};
use super::queue::lock;
use super::report::{Trouble, add};
use super::shared::Shared;
use super::spellings::Spellings;
use super::target::TargetDir;
use howdah_session::Filter;
use howdah_session::entry::bounds;
use howdah_session::names::Names;
use howdah_session::naming::quoted;
use howdah_session::reserved::is_room;
use howdah_store::calls::retry;
use howdah_store::stale::{self, InUse};
use howdah_store::{StoreError, unwritable};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directories in each other that are followed down; deeper ones stay.
const DEPTH: usize = 1000;

/// What a directory of the destination holds, and what of it the source has named.
#[derive(Debug)]
pub(crate) struct Inventory {
    list: List,
    /// What may be held.
    bytes: usize,
    /// Not more than are remembered: others stay.
    unfinished: Unfinished,
    /// So much of a target's name is in them.
    room: usize,
}

#[derive(Debug)]
enum List {
    Held {
        names: Names,
        seen: Vec<bool>,
        /// What the source has named and the list did not: new, or another spelling of a name that is in it.
        unlisted: Names,
    },
    /// More names than are held: what the source has named of these and others, and the directory is read when it is known.
    Noted(Noted),
}

impl Inventory {
    /// A larger one than `bytes` goes to what `spool` makes, if it does.
    pub(crate) fn of(
        dir: &OwnedFd,
        bytes: usize,
        spool: impl FnOnce() -> Option<Arc<Spool>>,
    ) -> Result<Self, Errno> {
        let mut unfinished = Unfinished::default();
        let mut part = Part::read(dir, None, bytes, |_, _| Some(0));
        let spool = part.next().and_then(|_| spool());
        if spool.is_none() && part.next().is_some() {
            part = Part::read(dir, None, usize::MAX, |_, _| Some(0));
        }
        if let Some(e) = part.error {
            return Err(e);
        }
        let list = if let Some(spool) = spool {
            drop(part);
            read_names(dir, |name, _| {
                unfinished.note(name);
            })?;
            List::Noted(Noted::new(spool))
        } else {
            for (name, _) in part.all() {
                unfinished.note(name);
            }
            List::Held {
                seen: vec![false; part.names.len()],
                names: part.names,
                unlisted: Names::default(),
            }
        };
        Ok(Self {
            list,
            bytes,
            unfinished,
            room: stale::room(stale::name_max(dir)),
        })
    }

    /// Bytes of memory that the names take.
    pub(crate) fn weight(&self) -> usize {
        match &self.list {
            List::Held {
                names, unlisted, ..
            } => names.weight() + unlisted.weight(),
            List::Noted(_) => 0,
        }
    }

    /// The source has that name.
    pub(crate) fn see(&mut self, name: &[u8], spool: impl FnOnce() -> Option<Arc<Spool>>) {
        // The next copy goes on with what an interrupted one has left of it.
        let left = self.unfinished.take(name, self.room);
        match &mut self.list {
            List::Held {
                names,
                seen,
                unlisted,
            } => {
                match names.find(name) {
                    Some(index) => seen[index] = true,
                    // Nothing is to go.
                    None if names.is_empty() => {}
                    None => unlisted.push(name),
                }
                for index in left.iter().filter_map(|name| names.find(name)) {
                    seen[index] = true;
                }
            }
            List::Noted(noted) => noted.push(name),
        }
        if self.weight() > self.bytes
            && let Some(spool) = spool()
        {
            self.note(spool);
        } else if self.weight() > self.bytes {
            // It cannot be helped.
            self.bytes = usize::MAX;
        }
    }

    /// What has been held goes where there is room.
    fn note(&mut self, spool: Arc<Spool>) {
        let mut noted = Noted::new(spool);
        if let List::Held {
            names,
            seen,
            unlisted,
        } = &self.list
        {
            let seen = seen.iter().enumerate().filter(|(_, seen)| **seen);
            let seen = seen.filter_map(|(index, _)| names.get(index));
            let unlisted = (0..unlisted.len()).filter_map(|index| unlisted.get(index));
            seen.chain(unlisted).for_each(|name| noted.push(name));
        }
        self.list = List::Noted(noted);
    }

    /// What nobody has named in that directory; `None` if nothing is to go.
    pub(crate) fn into_extra(
        self,
        dir: Arc<TargetDir>,
        rules: Option<Arc<Told>>,
    ) -> io::Result<Option<Extra>> {
        let what = match self.list {
            List::Held {
                names,
                seen,
                unlisted,
            } => {
                let mut extra = Names::default();
                for (index, seen) in seen.iter().enumerate() {
                    if let (false, Some(name)) = (seen, names.get(index)) {
                        extra.push(name);
                    }
                }
                if extra.is_empty() {
                    return Ok(None);
                }
                Gone::Held {
                    names: extra,
                    unlisted,
                }
            }
            List::Noted(noted) => Gone::Others {
                seen: noted.finish()?,
                unfinished: self.unfinished,
            },
        };
        Ok(Some(Extra { dir, what, rules }))
    }
}

/// Names that are to go, by directory.
pub(crate) type Extras = Vec<Extra>;

/// What of one directory is to go.
#[derive(Debug)]
pub(crate) struct Extra {
    pub(crate) dir: Arc<TargetDir>,
    what: Gone,
    /// `.gitignore` files that hold in it.
    rules: Option<Arc<Told>>,
}

#[derive(Debug)]
enum Gone {
    Held {
        names: Names,
        /// What the source has, and the directory did not list.
        unlisted: Names,
    },
    /// All that was not seen, if there is something.
    Others {
        seen: Seen,
        /// Of unfinished files these only.
        unfinished: Unfinished,
    },
}

impl Extra {
    /// Bytes of memory that it takes.
    pub(crate) fn weight(&self) -> usize {
        let rules = self.rules.as_ref().map_or(0, |rules| rules.weight());
        match &self.what {
            Gone::Held { names, unlisted } => rules + names.weight() + unlisted.weight(),
            Gone::Others { .. } => rules,
        }
    }

    /// Whether there may be nothing that is to go.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.what, Gone::Others { .. })
    }

    /// Calls `each` with every name that is to go.
    fn each(&self, fd: &OwnedFd, each: &mut dyn FnMut(&[u8])) -> Result<(), Errno> {
        match &self.what {
            Gone::Held { names, unlisted } => {
                let spellings = Spellings::of(fd, unlisted)?;
                for name in (0..names.len()).filter_map(|index| names.get(index)) {
                    if !spellings.keep(fd, name) {
                        each(name);
                    }
                }
                Ok(())
            }
            // Which of so many it is another spelling of is not looked for: then all stay.
            Gone::Others { seen, .. } if seen.is_respelt(fd)? => Ok(()),
            Gone::Others { seen, unfinished } => seen.each_other(fd, &mut |name| {
                if stale::target_in(name).is_none() || unfinished.has(name) {
                    each(name);
                }
            }),
        }
    }
}

impl Shared {
    /// A link leads to that directory. Whether there was room to remember it.
    pub(super) fn note_dirlink(&self, stat: &Stat) -> bool {
        let mut dirlinks = lock(&self.dirlinks);
        let has_room = dirlinks.len() < bounds::OWNERS || dirlinks.contains_key(&number(stat));
        if has_room {
            dirlinks.entry(number(stat)).or_default().links += 1;
        }
        has_room
    }

    /// Whether links have led to what is to go, so that it stays.
    fn is_linked(&self, stat: &Stat, path: &Path) -> bool {
        self.keeps_dirlink(
            stat,
            path,
            |_| true,
            "is what a link that was followed leads to, and stays (-K)",
        )
    }

    /// Whether nothing in that directory goes: by which name of it the source has what is in it, it does not tell.
    fn is_shared(&self, stat: &Stat, dir: &TargetDir) -> bool {
        let is_inside = dir.path.starts_with(&*lock(&self.top));
        let path = self.below_top(dir.named());
        self.keeps_dirlink(
            stat,
            &path,
            |links| is_inside || links > 1,
            "has several names here, for a link that was followed leads to it (-K); nothing was deleted in it",
        )
    }

    fn keeps_dirlink(
        &self,
        stat: &Stat,
        path: &Path,
        keeps: impl FnOnce(u32) -> bool,
        what: &str,
    ) -> bool {
        let mut dirlinks = lock(&self.dirlinks);
        let Some(dirlink) = dirlinks.get_mut(&number(stat)) else {
            return false;
        };
        if !keeps(dirlink.links) {
            return false;
        }
        if !std::mem::replace(&mut dirlink.is_told, true) {
            self.book.trouble(Trouble::Notice, path, what);
        }
        true
    }
}

pub(crate) struct Deleter<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) filter: &'a Filter,
}

/// How far down in what is to go.
#[derive(Clone, Copy)]
pub(super) struct Depth<'a> {
    levels: usize,
    /// Of names that may be held here and further down.
    bytes: usize,
    /// What they leave out stays.
    rules: Option<&'a Ignores>,
}

impl<'a> Depth<'a> {
    /// Of names that are held in a directory in any case.
    const LEAST: usize = 512;

    /// Where one begins.
    pub(super) fn top(rules: Option<&'a Ignores>) -> Self {
        Self {
            levels: 0,
            bytes: PART_BYTES,
            rules,
        }
    }
}

/// What is to be done with names that are to go.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Act {
    Count,
    /// In a dry run: what would go, and why what could not does not.
    Tell,
    Delete,
}

impl Deleter<'_> {
    /// Every path that would go, a directory after what is in it.
    pub(crate) fn list(&self, extras: &Extras, each: &mut dyn FnMut(&Path)) -> u64 {
        self.look(extras, Act::Count, each)
    }

    /// The same where it is told: what could not go is noted.
    pub(crate) fn tell(&self, extras: &Extras, each: &mut dyn FnMut(&Path)) -> u64 {
        self.look(extras, Act::Tell, each)
    }

    fn look(&self, extras: &Extras, act: Act, each: &mut dyn FnMut(&Path)) -> u64 {
        let mut count = 0;
        self.all(extras, act, &mut |path| {
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
        let mut rules = Rules::default();
        for extra in extras {
            let dir = &extra.dir;
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
            let stat = rustix::fs::fstat(&fd);
            if stat.is_ok_and(|stat| self.shared.is_shared(&stat, dir)) {
                continue;
            }
            let rules = match rules.of(self.shared, extra.rules.as_ref()) {
                Ok(rules) => rules,
                Err(unknown) => {
                    self.tell_unknown(&unknown, act);
                    if unknown.is_kept || !self.shared.options.dry_run {
                        continue;
                    }
                    None
                }
            };
            let depth = Depth::top(rules.as_deref());
            let below = self.shared.below_top(dir.named());
            let listed = extra.each(&fd, &mut |name| {
                let name = OsStr::from_bytes(name);
                self.one(&fd, name, &below.join(name), act, depth, each);
            });
            if let Err(e) = listed {
                let error = StoreError::from_io(&dir.path, "list", e);
                self.shared.book.note(Trouble::Failed, || error.to_string());
            }
        }
    }

    /// Names stay that such a file may leave out. A dry run tells of them what it can.
    fn tell_unknown(&self, unknown: &Unknown, act: Act) {
        let dry_run = self.shared.options.dry_run;
        let (kind, what) = match (unknown.is_kept, dry_run) {
            (true, _) => (
                Trouble::Notice,
                "is not copied, so what it leaves out is not known there: nothing is deleted where it holds",
            ),
            (false, true) => (
                Trouble::Notice,
                "is not there yet, so what it leaves out is told among what would be deleted, and stays",
            ),
            (false, false) => (
                Trouble::Failed,
                "is not there as the source has it, so what it leaves out is not known: nothing was deleted where it holds",
            ),
        };
        if dry_run || act == Act::Delete {
            self.shared.book.trouble(kind, &unknown.file, what);
        }
    }

    /// A name with all below it. Whether nothing of it stays (or would).
    pub(super) fn one(
        &self,
        dir: &OwnedFd,
        name: &OsStr,
        path: &Path,
        act: Act,
        depth: Depth<'_>,
        each: &mut dyn FnMut(&Path),
    ) -> bool {
        let book = &self.shared.book;
        // Somebody else was quicker: nothing of it keeps what it lay in.
        let is_gone = |e| {
            let look = || rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
            e == Errno::NOENT && look().is_err_and(|e| e == Errno::NOENT)
        };
        let failed = |e: Errno| {
            let is_gone = is_gone(e);
            if act == Act::Delete && !is_gone {
                book.unwritten(&unwritable::from_changing(dir, path, "delete", e));
            }
            is_gone
        };
        let stat = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(e) => return failed(e),
        };
        let is_dir = kind(&stat) == FileType::Directory;
        if !self.filter.admits(path, is_dir) || self.is_backup(path) {
            return false;
        }
        if depth.rules.is_some_and(|rules| rules.ignore(path, is_dir)) {
            return false;
        }
        if is_dir && is_room(name) {
            // No lock tells whether somebody is at work there.
            if act == Act::Delete {
                let what = "is where the hosts of a plan meet, and stays: 'howdah finish' removes it, or you do";
                book.trouble(Trouble::Notice, path, what);
            }
            return false;
        }
        if is_dir && let Some(told) = lock(&self.shared.sources).get_mut(&number(&stat)) {
            if !std::mem::replace(told, true) {
                let what = "is what is copied, and stays";
                book.trouble(Trouble::Notice, path, what);
            }
            return false;
        }
        if is_dir && self.shared.is_linked(&stat, path) {
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
        // It has its mode again where it stays after all.
        let mut opened = None;
        if is_dir {
            removal = AtFlags::REMOVEDIR;
            if depth.levels >= DEPTH {
                return failed(Errno::NAMETOOLONG);
            }
            let entered = match act {
                Act::Count | Act::Tell => open_below(dir, name).map(|below| (below, None)),
                Act::Delete => open_writable(dir, name, &stat),
            };
            let below = match entered {
                Ok((fd, was)) => &opened.insert(Opened { fd, was }).fd,
                Err(e) => return failed(e),
            };
            match rustix::fs::fstat(below) {
                Ok(inside) if inside.st_dev == stat.st_dev => {}
                // Something is mounted there.
                Ok(_) => return failed(Errno::XDEV),
                Err(e) => return failed(e),
            }
            let mut all = true;
            let mut after: Option<Vec<u8>> = None;
            let bytes = (depth.bytes / 2).max(Depth::LEAST);
            loop {
                let part = Part::read(below, after.as_deref(), bytes, |_, _| Some(0));
                if let Some(e) = part.error {
                    return failed(e);
                }
                let depth = Depth {
                    levels: depth.levels + 1,
                    bytes: depth.bytes.saturating_sub(part.names.weight()),
                    ..depth
                };
                for (name, _) in part.all() {
                    let name = OsStr::from_bytes(name);
                    all &= self.one(below, name, &path.join(name), act, depth, each);
                }
                after = part.next();
                if after.is_none() {
                    break;
                }
            }
            if !all {
                return false;
            }
            if act == Act::Delete && self.shared.options.backup_dir.is_some() {
                // Of a copy that was to make this directory.
                super::unfinished::unmark(below);
                if let Err(e) = self.shared.back_up_dir(path, &stat) {
                    book.unwritten(&backup::failure(dir, path, e));
                    return false;
                }
            }
        }
        if act == Act::Tell
            && let Err(e) = unwritable::lets_go(dir, name, true)
        {
            book.unwritten(&unwritable::from_changing(dir, path, "delete", e));
            return false;
        }
        if act != Act::Delete {
            each(path);
            return true;
        }
        if let Some(opened) = &opened {
            // Of a copy that was to make this directory.
            super::unfinished::unmark(&opened.fd);
        }
        // Nobody has it open when it goes, unless it may have to be closed to its owner again.
        let _opened = opened.filter(|opened| opened.was.is_some());
        if !is_dir && self.shared.options.backup_dir.is_some() {
            match self.shared.back_up(dir, name, path, Keep::Move) {
                Ok(_) => {}
                Err(e) if is_gone(e) => return true,
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
        backup.is_some_and(|backup| {
            path.starts_with(howdah_session::naming::plain(Path::new(backup)))
        })
    }
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
