//! Directories: where the top goes, made, entered, left.

use super::super::bounds::PACKED_MAX;
use super::super::codec::refused;
use super::super::disks::SyncWay;
use super::super::existing::{make_dir, until_room};
use super::super::inside::number_of;
use super::super::meta;
use super::super::names::kind;
use super::super::open::open_below;
use super::super::open::{open_up, open_writable};
use super::super::report::{Trouble, add};
use super::super::target::{DirState, TargetDir};
use super::super::unfinished;
use super::twins::Twins;
use super::{Level, Placer};
use howdah_session::entry::{Entry, Meta};
use howdah_session::{Act, Reasons};
use howdah_store::stale;
use howdah_store::{Root, StoreError, unwritable};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directories on the way down that are kept open.
const OPEN_LEVELS: usize = 32;
/// Directories that wait for their times and modes, at most: without files that are written, nobody else
/// gets to them.
const FINISHED_WAITING: usize = 4096;
/// Paths and attributes of directories that something is on its way into, or that wait to become what they are to be: with so
/// many bytes, what is on its way comes first. With twice as many that is of no use.
const DIRS_BYTES: u64 = 16 << 20;

/// A directory on the way down, made or found.
struct Made {
    state: DirState,
    fd: Option<OwnedFd>,
    /// That it gets in the end.
    mode: u32,
    /// Where it is, if a link led to it.
    real: Option<PathBuf>,
    /// That it had, if it was opened to its owner.
    was: Option<Mode>,
}

impl Made {
    /// Nothing is there, or can be.
    fn without(state: DirState) -> Self {
        Self {
            state,
            fd: None,
            mode: 0,
            real: None,
            was: None,
        }
    }
}

fn is_link(dir: &OwnedFd, name: &OsStr) -> bool {
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| kind(&stat) == FileType::Symlink)
}

impl Placer<'_> {
    /// Finds out where the top goes; the first entry says whether it is a directory.
    pub(super) fn start(&mut self, first: &Entry) -> Result<(), StoreError> {
        let shared = self.shared;
        let at = &shared.at;
        let dry_run = shared.options.dry_run;
        let place = self.place;
        let avoid = match first {
            // A directory that is copied onto itself is no place to avoid.
            Entry::Top { .. } => self.way_to_destination(b"")?.filter(|way| !way.is_empty()),
            _ => None,
        };
        let top_meta = match first {
            Entry::Top { meta } => Some(meta.clone()),
            _ => None,
        };
        if shared.options.make_path && self.make_path(top_meta.is_some())? {
            self.avoid(avoid);
            return Ok(());
        }
        let exists = match shared.root.open_dir(at) {
            Ok(fd) => Some(fd),
            Err(StoreError::NotFound { .. }) => None,
            // A file, or a link: an error for a directory, not for a file.
            Err(error) if at.as_os_str().is_empty() => return Err(error),
            Err(_) if !shared.options.contents => None,
            Err(error) => return Err(why_no_directory(&shared.root, at).unwrap_or(error)),
        };
        // A copy that made this directory goes on in it.
        if let Some(fd) = &exists {
            unwritable::check(fd, at)?;
        }
        let goes_on = |fd: &OwnedFd| {
            top_meta.is_none()
                && !shared.several
                && matches!(first, Entry::Dir { .. })
                && at.file_name().is_some()
                && unfinished::is_marked_by(fd, shared.options.origin)
        };
        if let Some(fd) = exists.filter(|fd| !goes_on(fd)) {
            shared.set_top(at);
            let ours = top_meta.is_some();
            let stat = rustix::fs::fstat(&fd);
            let stat = stat.map_err(|e| StoreError::from_io(at, "examine", e))?;
            let top_meta = top_meta.map(|meta| Meta {
                mode: self.dir_mode(&fd, DirState::There, &stat, meta.mode),
                ..meta
            });
            if let Some(meta) = &top_meta {
                self.tell_dir(&fd, at, meta)?;
            }
            let opens = ours && self.opens() && !shared.add_only;
            let was = if opens { open_up(&fd, &stat) } else { None };
            let dir = TargetDir {
                number: None,
                path: at.clone(),
                called: None,
                state: DirState::There,
                sync: shared.disks.note(&fd),
                meta: top_meta.filter(|_| !dry_run && !shared.add_only),
                finished: Arc::clone(&shared.finished),
                early: was,
                parent: None,
            };
            let is_begun = ours && !dry_run && !shared.add_only && unfinished::is_marked(&fd);
            self.push(dir, Some(fd), ours);
            self.meet_source(place.filter(|_| ours));
            self.avoid(avoid);
            if is_begun {
                // What goes into it finishes it.
                self.unfinished = self.levels.last().map(|level| Arc::clone(&level.dir));
            }
            return Ok(());
        }
        if shared.names_directory && !matches!(first, Entry::Top { .. } | Entry::Dir { .. }) {
            let path = shared.root.path().join(at);
            let missing = StoreError::NoDirectory { path };
            return Err(why_no_directory(&shared.root, at).unwrap_or(missing));
        }
        let parent_path = at.parent().unwrap_or_else(|| Path::new(""));
        let name = at.file_name().unwrap_or_default().to_owned();
        let parent_fd = shared.root.open_dir(parent_path)?;
        unwritable::check(&parent_fd, at)?;
        let parent = TargetDir {
            number: None,
            path: parent_path.to_path_buf(),
            called: None,
            state: DirState::There,
            sync: shared.disks.note(&parent_fd),
            meta: None,
            finished: Arc::clone(&shared.finished),
            early: None,
            parent: None,
        };
        if let Some(meta) = top_meta {
            shared.quota.take_directories(at, 1)?;
            // What lies above the destination is opened by nobody.
            let make = || make_dir(&parent_fd, &name, dry_run.then_some(false));
            let state = until_room(shared, at, "make the directory", make)?
                .map_err(|e| unwritable::from_making(&parent_fd, at, "make the directory", e))?;
            let fd = match state {
                DirState::Absent => None,
                _ => Some(shared.root.open_dir(at)?),
            };
            let stat = fd.as_ref().and_then(|fd| rustix::fs::fstat(fd).ok());
            let mode = stat.map_or(0, |stat| self.dir_mode(&parent_fd, state, &stat, meta.mode));
            let meta = Meta { mode, ..meta };
            let dir = TargetDir {
                number: None,
                path: at.clone(),
                called: None,
                state,
                sync: parent.sync,
                meta: (!dry_run).then_some(meta),
                finished: Arc::clone(&shared.finished),
                early: self.early(state, mode),
                parent: Some(Arc::new(parent)),
            };
            shared.set_top(at);
            if dir.state == DirState::Absent {
                self.tell(Act::Mkdir, Reasons::NEW, at)?;
            }
            self.push(dir, fd, true);
            self.avoid(avoid);
        } else if shared.several {
            let missing = || StoreError::NoDirectory { path: at.clone() };
            return Err(why_no_directory(&shared.root, at).unwrap_or_else(missing));
        } else {
            let is_file = matches!(first, Entry::File { .. });
            if is_file && !shared.options.ignore_existing && is_link(&parent_fd, &name) {
                // It is a single file, however it is copied.
                let path = shared.root.path().join(at);
                return Err(StoreError::TargetIsLink { path });
            }
            self.rename_top = Some(name);
            shared.set_top(&parent.path);
            self.push(parent, Some(parent_fd), false);
        }
        Ok(())
    }

    /// Goes into a directory. `ours`: what the source does not have in it may go.
    pub(super) fn push(&mut self, mut dir: TargetDir, fd: Option<OwnedFd>, ours: bool) {
        // On other disks the number of a directory may become another one while it is the same.
        if dir.sync == SyncWay::Together && !self.shared.options.dry_run {
            dir.number = fd.as_ref().map(number_of);
        }
        if let (DirState::There, Some(fd), false) = (dir.state, &fd, self.shared.options.dry_run) {
            stale::remove_abandoned(fd, PACKED_MAX);
        }
        let is_mirrored = ours && self.shared.options.delete && dir.state == DirState::There;
        let inventory = fd.as_ref().filter(|_| is_mirrored);
        let inventory = inventory.and_then(|fd| self.take_inventory(&dir, fd));
        if let Some(old) = self.levels.len().checked_sub(OPEN_LEVELS) {
            self.levels[old].fd = None;
        }
        if let Some(above) = self.levels.last_mut() {
            // Files come before directories, so mostly nobody looks there again.
            above.past = None;
        }
        let twins = fd.as_ref().and_then(Twins::of);
        self.shared.finished.hold(&dir);
        if let (true, Some(fd)) = (self.levels.is_empty(), &fd) {
            self.shared.keeper.clock.meet_top(fd);
        }
        let dir = Arc::new(dir);
        let fd = fd.map(Arc::new);
        let rules = self.rules().cloned();
        self.levels.push(Level {
            dir,
            fd,
            inventory,
            rules,
            avoid: None,
            is_source: false,
            twins,
            past: None,
        });
    }

    /// Makes room for a directory with so much to be kept of it.
    fn room_for_dir(&mut self, meta: &Meta) -> Result<(), StoreError> {
        let shared = self.shared;
        let is_full = |bytes: u64| shared.finished.held_bytes() + meta.weight() as u64 > bytes;
        if is_full(DIRS_BYTES) {
            self.settle()?;
            shared.finish_dirs()?;
        }
        if is_full(2 * DIRS_BYTES) {
            return Err(refused(format!(
                "what is to be kept of directories in each other takes more than {} MiB",
                DIRS_BYTES >> 19
            )));
        }
        Ok(())
    }

    pub(super) fn enter(&mut self, name: Vec<u8>, meta: Meta) -> Result<(), StoreError> {
        self.see(&name);
        self.room_for_dir(&meta)?;
        let shared = self.shared;
        let place = self.place;
        let avoid = self.way_to_destination(&name)?;
        let is_renamed_top = self.rename_top.is_some() && self.levels.len() == 1;
        let name = self.top_name(name);
        let parent = self.dir()?;
        let (path, named) = (parent.path.join(&name), parent.named().join(&name));
        if avoid.as_ref().is_some_and(Vec::is_empty) {
            self.leave_out(&parent, path);
            return Ok(());
        }
        add(&shared.book.directories, 1);
        let (mut sync, dry_run) = (parent.sync, shared.options.dry_run);
        let asked = meta.mode;
        let mut was = None;
        let is_twin = self.is_twin(&parent, &name);
        self.goes_on |= is_renamed_top;
        let Made {
            state,
            fd,
            mode,
            real,
            was: opened,
        } = match parent.state {
            _ if is_twin => Made::without(DirState::Broken),
            DirState::Absent => {
                // What the copy itself would count.
                shared.quota.take_directories(&path, 1)?;
                Made::without(parent.state)
            }
            DirState::Broken => Made::without(parent.state),
            DirState::Fresh | DirState::There => {
                let made = match self.shared_fd() {
                    Ok(Some(fd)) => {
                        if dry_run {
                            was = rustix::fs::statat(&fd, &name, AtFlags::SYMLINK_NOFOLLOW).ok();
                        }
                        self.make(&fd, &parent, &name, asked)?
                    }
                    Ok(None) => Ok(Made::without(DirState::Broken)),
                    Err(error) => {
                        shared.book.note(Trouble::Failed, || error.to_string());
                        Ok(Made::without(DirState::Broken))
                    }
                };
                made.unwrap_or_else(|what| {
                    let what = format!("{what}; all that would lie in it was left out");
                    shared.book.trouble(Trouble::Failed, &named, what);
                    Made::without(DirState::Broken)
                })
            }
        };
        if let (DirState::There, Some(fd)) = (state, &fd) {
            sync = shared.disks.note(fd);
        }
        if let (true, DirState::Fresh, Some(fd)) = (is_renamed_top, state, &fd) {
            unfinished::mark(fd, shared.options.origin);
        }
        let (meta, early) = (Meta { mode, ..meta }, self.early(state, mode));
        match (state, &fd) {
            (DirState::Absent, _) if was.is_some() => {
                self.tell(Act::Mkdir, Reasons::KIND, &named)?;
            }
            (DirState::Absent, _) => self.tell(Act::Mkdir, Reasons::NEW, &named)?,
            (DirState::There, Some(fd)) => self.tell_dir(fd, &named, &meta)?,
            _ => {}
        }
        let is_elsewhere = real.is_some() || parent.called.is_some();
        let dir = TargetDir {
            number: None,
            path: real.unwrap_or(path),
            called: is_elsewhere.then(|| named.into()),
            state,
            sync,
            // A directory that was there and may not be changed stays as it is.
            meta: (!(dry_run || shared.add_only && state == DirState::There)).then_some(meta),
            finished: Arc::clone(&shared.finished),
            early: opened.or(early),
            parent: Some(parent),
        };
        self.push(dir, fd, true);
        self.meet_source(place);
        self.avoid(avoid);
        if is_renamed_top {
            self.unfinished = self.levels.last().map(|level| Arc::clone(&level.dir));
        }
        Ok(())
    }

    /// The mode that a directory in `parent` gets in the end.
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_lossless,
        reason = "the field's type differs between systems"
    )]
    fn dir_mode(&self, parent: &OwnedFd, state: DirState, stat: &Stat, asked: u32) -> u32 {
        let keeper = &self.shared.keeper;
        // All that is in a tree that was begun by such a copy is of its making.
        let fresh = state == DirState::Fresh || self.goes_on && !keeper.is_exact();
        keeper.dir_mode(parent, fresh, stat.st_mode as u32, asked)
    }

    /// What a new directory is left as by a copy that ends early; where modes are made equal, the next one does that.
    fn early(&self, state: DirState, mode: u32) -> Option<Mode> {
        let is_kept = state == DirState::Fresh && !self.shared.keeper.is_exact();
        is_kept.then(|| Mode::from_raw_mode(mode as _) | Mode::RWXU)
    }

    /// Whether directories that are closed to their owner are opened for the time of the copy: where it sets their modes
    /// in the end, so that the next one puts right what a killed one leaves open.
    fn opens(&self) -> bool {
        !self.shared.options.dry_run && self.would_open()
    }

    /// The same of the copy that a dry run is of.
    pub(super) fn would_open(&self) -> bool {
        self.goes_on || self.shared.keeper.is_exact()
    }

    /// In a dry run: whether a directory that is there would be changed, besides what goes into it.
    fn tell_dir(&self, fd: &OwnedFd, path: &Path, meta: &Meta) -> Result<(), StoreError> {
        let shared = self.shared;
        if !shared.options.dry_run || shared.add_only {
            return Ok(());
        }
        let Ok(stat) = rustix::fs::fstat(fd) else {
            return Ok(());
        };
        let found = || meta::xattrs(fd, OsStr::new(".")).map(|(found, _)| found);
        let reasons = shared.keeper.differs(fd, &stat, meta, true, found);
        if reasons.is_empty() {
            return Ok(());
        }
        self.tell(Act::Change, reasons, path)
    }

    /// Makes a directory in that one unless it is there, and opens it. Why it cannot be had, if it cannot.
    fn make(
        &self,
        fd: &OwnedFd,
        parent: &TargetDir,
        name: &OsStr,
        asked: u32,
    ) -> Result<Result<Made, String>, StoreError> {
        let shared = self.shared;
        let dry_run = shared.options.dry_run;
        let there = rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW).ok();
        let is_link = there.as_ref().map(kind) == Some(FileType::Symlink);
        if shared.options.keep_dirlinks
            && is_link
            && let Some(made) = self.dirlink(&parent.path.join(name), asked)
        {
            return Ok(made);
        }
        let is_there = there.as_ref().map(kind) == Some(FileType::Directory);
        if let Some(stat) = there.filter(|stat| kind(stat) != FileType::Directory) {
            if let Err(why) = self.clear(fd, parent, name, &stat, self.rules()) {
                return Ok(Err(why));
            }
            if dry_run {
                shared.quota.take_directories(&parent.path.join(name), 1)?;
                return Ok(Ok(Made::without(DirState::Absent)));
            }
        }
        let path = parent.path.join(name);
        if !is_there {
            shared.quota.take_directories(&path, 1)?;
        }
        let made = until_room(shared, &path, "make the directory", || {
            make_dir(fd, name, dry_run.then(|| self.would_open()))
        })?;
        let opened = made.and_then(|state| {
            if state == DirState::Absent {
                return Ok(Made::without(state));
            }
            let stat = rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let (opened, was) = if self.opens() {
                open_writable(fd, name, &stat)?
            } else {
                (open_below(fd, name)?, None)
            };
            Ok(Made {
                state,
                fd: Some(opened),
                mode: self.dir_mode(fd, state, &stat, asked),
                real: None,
                was: was.filter(|_| state == DirState::There),
            })
        });
        Ok(opened.map_err(|e| match e {
            Errno::NOTDIR | Errno::LOOP | Errno::EXIST => {
                "something that is no directory has its name".to_owned()
            }
            e => {
                let error = unwritable::from_making(fd, &path, "make or enter", e);
                shared.book.note_refusal(&error);
                let why = unwritable::protection(fd, name).filter(|_| e == Errno::PERM);
                let why = why.map_or_else(|| e.to_string(), Into::into);
                format!("the directory cannot be made or entered ({why})")
            }
        }))
    }

    /// The directory that a link leads to, which is taken for it. `None`: it leads to none; an error: it leads where
    /// nobody may go.
    fn dirlink(&self, path: &Path, asked: u32) -> Option<Result<Made, String>> {
        let shared = self.shared;
        let real = match shared.root.follow(path) {
            Ok((root, real)) if Arc::ptr_eq(&root, &shared.root) => real,
            Err(StoreError::PathEscapes { reason, .. }) => {
                return Some(Err(format!(
                    "is a link there that is not followed: {reason}"
                )));
            }
            Ok(_) | Err(_) => return None,
        };
        if real.as_os_str().is_empty() {
            let what =
                "is a link there that is not followed: it leads to the directory that all lies in";
            return Some(Err(what.to_owned()));
        }
        let (above, name) = shared.root.open_parent(&real).ok()?;
        let stat = rustix::fs::statat(&above, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if kind(&stat) != FileType::Directory {
            return None;
        }
        let opened = if self.opens() {
            open_writable(&above, name, &stat)
        } else {
            open_below(&above, name).map(|opened| (opened, None))
        };
        let opened = opened.map_err(|e| format!("the directory cannot be entered ({e})"));
        if shared.options.delete && !shared.note_dirlink(&stat) {
            let what =
                "is a link there that is not followed: too many lead to directories for --delete";
            return Some(Err(what.to_owned()));
        }
        Some(opened.map(|(opened, was)| Made {
            was,
            state: DirState::There,
            mode: self.dir_mode(&above, DirState::There, &stat, asked),
            fd: Some(opened),
            real: Some(real.clone()),
        }))
    }

    pub(super) fn leave(&mut self, complete: bool) -> Result<(), StoreError> {
        if let Some(level) = self.levels.pop()
            && complete
        {
            self.keep_extras(level);
        }
        if self.levels.is_empty() {
            return Err(refused("it leaves the top directory"));
        }
        let finished = &self.shared.finished;
        if finished.waiting() >= FINISHED_WAITING {
            self.shared.finish_dirs()?;
        }
        Ok(())
    }
}

/// What stands where a directory is wanted, if something does.
fn why_no_directory(root: &Root, at: &Path) -> Option<StoreError> {
    let (dir, name) = root.open_parent(at).ok()?;
    let stat = rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let why = match kind(&stat) {
        FileType::Directory => return None,
        FileType::RegularFile => "a directory is wanted there, and it is a file",
        FileType::Symlink => {
            "a directory is wanted there, and it is a symbolic link, which is not followed"
        }
        _ => "a directory is wanted there, and it is none",
    };
    Some(unwritable::not_writable(at, why))
}
