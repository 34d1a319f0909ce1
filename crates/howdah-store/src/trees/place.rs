//! The receiver's first thread: goes through the manifest, makes directories and links, and decides which
//! files it wants.

use super::codec::{AnswerWriter, ManifestReader, refused};
use super::delete::{Deleter, Extras, Inventory, Keep};
use super::entry::{Entry, Meta, Stamp};
use super::existing::{make_dir, open_plain_at, refresh, until_room};
use super::filter::Filter;
use super::hashing::{Hashers, Pending};
use super::links::{LinkLater, link_later, note_no_symlink, put_symlink};
use super::receive::Shared;
use super::report::{Trouble, add};
use super::target::{DirState, TargetDir, Wanted};
use super::walk::kind;
use super::{PACKED_MAX, unfinished};
use crate::StoreError;
use crate::identity::Identity;
use crate::root::{irregular, retry};
use crate::stale;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::sync::Arc;

/// Directories on the way down that are kept open.
const OPEN_LEVELS: usize = 32;
/// Further names that wait for their files, at most.
const LINKS_WAITING: usize = 16_384;
/// Directories that wait for their times and modes, at most: without files that are written, nobody else
/// gets to them.
const FINISHED_WAITING: usize = 4096;

/// A directory on the way down.
struct Level {
    dir: Arc<TargetDir>,
    fd: Option<Arc<OwnedFd>>,
    /// What is in it already, if what the source does not have is to go.
    inventory: Option<Inventory>,
}

pub(crate) struct Placer<'a> {
    shared: &'a Arc<Shared>,
    manifest: ManifestReader,
    answers: AnswerWriter,
    levels: Vec<Level>,
    /// The one thing at the top gets this name.
    rename_top: Option<OsString>,
    /// A directory that says that it is not finished.
    unfinished: Option<Arc<TargetDir>>,
    /// Files so far.
    index: u64,
    linked: HashMap<u64, (Arc<TargetDir>, OsString)>,
    links: Vec<LinkLater>,
    filter: Filter,
    extras: Extras,
    /// Once there is something to hash.
    hashers: Option<Hashers>,
    /// Files that are decided about when the hashes of those before them are there.
    line: VecDeque<Found>,
}

/// A file is wanted, with what stands there now, or not.
enum Decision {
    Want(Option<Identity>),
    Skip,
    /// That depends on what is there.
    Hash {
        pending: Pending,
        expected: [u8; 32],
        stat: Box<Stat>,
    },
}

/// A file of the manifest.
struct Found {
    dir: Arc<TargetDir>,
    /// That directory, where it has been looked into.
    fd: Option<Arc<OwnedFd>>,
    name: OsString,
    size: u64,
    meta: Meta,
    index: u64,
    decision: Decision,
}

impl<'a> Placer<'a> {
    pub(crate) fn new(
        shared: &'a Arc<Shared>,
        manifest: ManifestReader,
        answers: AnswerWriter,
        filter: Filter,
    ) -> Self {
        Self {
            shared,
            filter,
            extras: Vec::new(),
            hashers: None,
            line: VecDeque::new(),
            manifest,
            answers,
            levels: Vec::new(),
            rename_top: None,
            unfinished: None,
            index: 0,
            linked: HashMap::new(),
            links: Vec::new(),
        }
    }

    /// Goes through the whole manifest; then all files have been asked for. Returns the directory that carries the
    /// sign that it is not finished.
    pub(crate) fn run(mut self) -> Result<Option<OwnedFd>, StoreError> {
        let shared = self.shared;
        let complete = loop {
            if !self.manifest.is_ready() {
                // The source may wait for these answers.
                self.answer_line(0)?;
                self.flush()?;
            }
            let entry = self.manifest.next()?;
            if self.levels.is_empty() && !matches!(entry, Entry::Owner { .. }) {
                self.start(&entry)?;
            }
            match entry {
                Entry::Owner { group, id, name } => self.shared.keeper.learn(group, id, &name),
                Entry::Dir { name, meta } => self.enter(name, meta)?,
                Entry::Up { complete } => self.leave(complete)?,
                Entry::File {
                    name,
                    size,
                    meta,
                    link,
                    hash,
                } => self.file(name, size, meta, link, hash)?,
                Entry::Symlink { name, target, meta } => self.symlink(name, &target, &meta)?,
                Entry::Link { name, link, last } => self.link(name, link, last)?,
                Entry::Kept { name } => self.see(&name),
                Entry::Top { .. } => {}
                Entry::Other { .. } | Entry::Ahead { .. } | Entry::Gap => {
                    return Err(refused("it has a record that only comparisons have"));
                }
                Entry::End { complete } => break complete,
            }
        };
        if self.levels.len() != 1 {
            return Err(refused("it ends inside of a directory"));
        }
        if shared.options.contents
            && let Some(level) = self.levels.pop()
        {
            self.keep_extras(level);
        }
        self.answer_line(0)?;
        let extras = self.deletions(complete)?;
        self.answers.end().map_err(|_| StoreError::Aborted)?;
        // Everything that was asked for has come, or will not.
        shared.expected.close();
        if !shared.unsettled.wait_until_unused() {
            return Err(StoreError::Aborted);
        }
        self.make_links();
        if !shared.options.dry_run {
            self.deleter().delete(&extras);
        }
        drop(extras);
        // Opened while it can be; its modes come later.
        let unfinished = self.unfinished.take();
        let unfinished = unfinished.and_then(|dir| shared.root.open_dir(&dir.path).ok());
        self.linked.clear();
        self.levels.clear();
        Ok(unfinished)
    }

    /// The source has that name here.
    fn see(&mut self, name: &[u8]) {
        let inventory = self
            .levels
            .last_mut()
            .and_then(|level| level.inventory.as_mut());
        if let Some(inventory) = inventory {
            inventory.see(name);
        }
    }

    fn keep_extras(&mut self, level: Level) {
        if let Some(names) = level.inventory.and_then(Inventory::into_extra) {
            self.extras.push((level.dir, names));
        }
    }

    fn deleter(&self) -> Deleter<'_> {
        Deleter {
            shared: self.shared,
            filter: &self.filter,
            top: super::queue::lock(&self.shared.top).clone(),
        }
    }

    /// What is to go: nothing if the source could not be read in whole, or if it is too much.
    fn deletions(&mut self, complete: bool) -> Result<Extras, StoreError> {
        let shared = self.shared;
        let extras = std::mem::take(&mut self.extras);
        if extras.is_empty() {
            return Ok(extras);
        }
        if !complete {
            shared.refuse_to_delete("the source could not be read in whole");
            return Ok(Vec::new());
        }
        let mut told = Vec::new();
        let listens = shared.options.dry_run;
        let count = self.deleter().list(&extras, &mut |path| {
            if listens && told.len() < super::NOTES_WAITING {
                told.push(path.to_path_buf());
            }
        });
        if let Some(max) = shared.options.max_delete.filter(|max| count > *max) {
            add(&shared.book.refused_deletes, count);
            shared.refuse_to_delete(&format!(
                "{count} names would go, more than the {max} that may"
            ));
            return Ok(Vec::new());
        }
        if shared.options.dry_run {
            add(&shared.book.deleted, count);
            for path in told {
                let path = path.as_os_str().as_bytes();
                let told = self.answers.note(super::NOTE_DELETE, path);
                told.map_err(|_| StoreError::Aborted)?;
                shared.tell(super::NOTE_DELETE, path);
            }
        }
        Ok(extras)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.answers.flush().map_err(|_| StoreError::Aborted)
    }

    /// Finds out where the top goes; the first entry says whether it is a directory.
    fn start(&mut self, first: &Entry) -> Result<(), StoreError> {
        let shared = self.shared;
        let at = &shared.at;
        let dry_run = shared.options.dry_run;
        let exists = match shared.root.open_dir(at) {
            Ok(fd) => Some(fd),
            Err(StoreError::NotFound { .. }) => None,
            // A file, or a link: an error for a directory, not for a file.
            Err(error) if at.as_os_str().is_empty() => return Err(error),
            Err(_) if !shared.options.contents => None,
            Err(error) => return Err(error),
        };
        let top_meta = match first {
            Entry::Top { meta } => Some(meta.clone()),
            _ => None,
        };
        // A copy that made this directory goes on in it.
        let goes_on = |fd: &OwnedFd| {
            top_meta.is_none()
                && !shared.several
                && matches!(first, Entry::Dir { .. })
                && at.file_name().is_some()
                && unfinished::is_marked(fd)
        };
        if let Some(fd) = exists.filter(|fd| !goes_on(fd)) {
            shared.set_top(at);
            let ours = top_meta.is_some();
            let dir = TargetDir {
                path: at.clone(),
                state: DirState::There,
                sync: shared.disks.note(&fd),
                meta: top_meta.filter(|_| !dry_run && !shared.add_only),
                finished: Arc::clone(&shared.finished),
                parent: None,
            };
            self.push(dir, Some(fd), ours);
            return Ok(());
        }
        let parent_path = at.parent().unwrap_or_else(|| Path::new(""));
        let name = at.file_name().unwrap_or_default().to_owned();
        let parent_fd = shared.root.open_dir(parent_path)?;
        let parent = TargetDir {
            path: parent_path.to_path_buf(),
            state: DirState::There,
            sync: shared.disks.note(&parent_fd),
            meta: None,
            finished: Arc::clone(&shared.finished),
            parent: None,
        };
        if let Some(meta) = top_meta {
            let make = || make_dir(&parent_fd, &name, dry_run);
            let state = until_room(shared, at, "make the directory", make)?
                .map_err(|e| StoreError::from_io(at, "make the directory", e))?;
            let fd = match state {
                DirState::Absent => None,
                _ => Some(shared.root.open_dir(at)?),
            };
            let dir = TargetDir {
                path: at.clone(),
                state,
                sync: parent.sync,
                meta: (!dry_run).then_some(meta),
                finished: Arc::clone(&shared.finished),
                parent: Some(Arc::new(parent)),
            };
            shared.set_top(at);
            self.push(dir, fd, true);
        } else if shared.several {
            return Err(StoreError::NoDirectory { path: at.clone() });
        } else {
            self.rename_top = Some(name);
            shared.set_top(&parent.path);
            self.push(parent, Some(parent_fd), false);
        }
        Ok(())
    }

    /// Goes into a directory. `ours`: what the source does not have in it may go.
    fn push(&mut self, dir: TargetDir, fd: Option<OwnedFd>, ours: bool) {
        if let (DirState::There, Some(fd), false) = (dir.state, &fd, self.shared.options.dry_run) {
            stale::remove_abandoned(fd, PACKED_MAX);
        }
        let mut inventory = None;
        if let (true, DirState::There, Some(fd)) =
            (ours && self.shared.options.delete, dir.state, &fd)
        {
            match Inventory::of(fd) {
                Ok(found) => inventory = Some(found),
                Err(e) => {
                    let error = StoreError::from_io(&dir.path, "list", e);
                    self.shared.book.note(Trouble::Failed, || error.to_string());
                }
            }
        }
        if let Some(old) = self.levels.len().checked_sub(OPEN_LEVELS) {
            self.levels[old].fd = None;
        }
        let dir = Arc::new(dir);
        let fd = fd.map(Arc::new);
        self.levels.push(Level { dir, fd, inventory });
    }

    fn dir(&self) -> Result<Arc<TargetDir>, StoreError> {
        let level = self.levels.last();
        level
            .map(|level| Arc::clone(&level.dir))
            .ok_or_else(|| refused("it has no top"))
    }

    /// The directory that it is in, if it can be looked into.
    fn fd(&mut self) -> Result<Option<&OwnedFd>, StoreError> {
        let shared = self.shared;
        let Some(level) = self.levels.last_mut() else {
            return Err(refused("it has no top"));
        };
        match level.dir.state {
            DirState::Absent | DirState::Broken => Ok(None),
            DirState::Fresh | DirState::There => {
                if level.fd.is_none() {
                    level.fd = Some(Arc::new(shared.root.open_dir(&level.dir.path)?));
                }
                Ok(level.fd.as_deref())
            }
        }
    }

    /// The same, for longer than this entry.
    fn shared_fd(&mut self) -> Result<Option<Arc<OwnedFd>>, StoreError> {
        let is_there = self.fd()?.is_some();
        let level = self.levels.last().filter(|_| is_there);
        Ok(level.and_then(|level| level.fd.clone()))
    }

    /// The thing at the top may have been given another name.
    fn top_name(&mut self, name: Vec<u8>) -> OsString {
        let name = OsString::from_vec(name);
        match &self.rename_top {
            Some(new) if self.levels.len() == 1 => {
                self.shared.placed.set_called(&name);
                new.clone()
            }
            _ => name,
        }
    }

    fn enter(&mut self, name: Vec<u8>, meta: Meta) -> Result<(), StoreError> {
        self.see(&name);
        let shared = self.shared;
        let is_renamed_top = self.rename_top.is_some() && self.levels.len() == 1;
        let name = self.top_name(name);
        let parent = self.dir()?;
        let path = parent.path.join(&name);
        add(&shared.book.directories, 1);
        let (mut sync, dry_run) = (parent.sync, shared.options.dry_run);
        let (state, fd) = match parent.state {
            DirState::Absent | DirState::Broken => (parent.state, None),
            DirState::Fresh | DirState::There => {
                let made = match self.fd() {
                    Ok(Some(fd)) => until_room(shared, &path, "make the directory", || {
                        make_dir(fd, &name, dry_run)
                    })?
                    .and_then(|state| {
                        if state == DirState::Absent {
                            return Ok((state, None));
                        }
                        let flags =
                            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                        let opened = retry(|| rustix::fs::openat(fd, &name, flags, Mode::empty()))?;
                        Ok((state, Some(opened)))
                    }),
                    Ok(None) => Ok((DirState::Broken, None)),
                    Err(error) => {
                        shared.book.note(Trouble::Failed, || error.to_string());
                        Ok((DirState::Broken, None))
                    }
                };
                match made {
                    Ok(made) => made,
                    Err(e) => {
                        let what = match e {
                            Errno::NOTDIR | Errno::LOOP | Errno::EXIST => {
                                "something that is no directory has its name; \
                                 all that would lie in it was left out"
                                    .to_owned()
                            }
                            e => format!(
                                "the directory cannot be made or entered ({e}); \
                                 all that would lie in it was left out"
                            ),
                        };
                        shared.book.trouble(Trouble::Failed, &path, what);
                        (DirState::Broken, None)
                    }
                }
            }
        };
        if let (DirState::There, Some(fd)) = (state, &fd) {
            sync = shared.disks.note(fd);
        }
        if let (true, DirState::Fresh, Some(fd)) = (is_renamed_top, state, &fd) {
            unfinished::mark(fd);
        }
        let dir = TargetDir {
            path,
            state,
            sync,
            // A directory that was there and may not be changed stays as it is.
            meta: (!(dry_run || shared.add_only && state == DirState::There)).then_some(meta),
            finished: Arc::clone(&shared.finished),
            parent: Some(parent),
        };
        self.push(dir, fd, true);
        if is_renamed_top {
            self.unfinished = self.levels.last().map(|level| Arc::clone(&level.dir));
        }
        Ok(())
    }

    fn leave(&mut self, complete: bool) -> Result<(), StoreError> {
        if let Some(level) = self.levels.pop()
            && complete
        {
            self.keep_extras(level);
        }
        if self.levels.is_empty() {
            return Err(refused("it leaves the top directory"));
        }
        if super::queue::lock(&self.shared.finished).len() >= FINISHED_WAITING {
            self.shared.finish_dirs()?;
        }
        Ok(())
    }

    /// A further name. Only so many wait to the end.
    fn link(&mut self, name: Vec<u8>, link: u64, last: bool) -> Result<(), StoreError> {
        self.see(&name);
        let (dir, name) = (self.dir()?, self.top_name(name));
        self.links.push(LinkLater {
            dir,
            name,
            link,
            last,
        });
        if self.links.len() >= LINKS_WAITING {
            // What was asked for is on its way, whatever the rest of the manifest says.
            self.answer_line(0)?;
            self.flush()?;
            if !self.shared.unsettled.wait_until_unused() {
                return Err(StoreError::Aborted);
            }
            self.make_links();
        }
        Ok(())
    }

    /// All files that were asked for are settled: gives them their further names.
    fn make_links(&mut self) {
        for later in std::mem::take(&mut self.links) {
            link_later(self.shared, &self.linked, &later);
            if later.last {
                self.linked.remove(&later.link);
            }
        }
    }

    fn file(
        &mut self,
        name: Vec<u8>,
        size: u64,
        meta: Meta,
        link: Option<u64>,
        hash: Option<[u8; 32]>,
    ) -> Result<(), StoreError> {
        let index = self.index;
        self.index += 1;
        self.see(&name);
        let name = self.top_name(name);
        let dir = self.dir()?;
        if let Some(link) = link {
            let twin = self
                .linked
                .insert(link, (Arc::clone(&dir), name.clone()))
                .is_some();
            if twin {
                return Err(refused("two files have the same link number"));
            }
        }
        let (decision, fd) = self.decide(&dir, &name, size, &meta, hash)?;
        self.line.push_back(Found {
            dir,
            fd,
            name,
            size,
            meta,
            index,
            decision,
        });
        let ahead = self.hashers.as_ref().map_or(0, Hashers::ahead);
        self.answer_line(ahead)
    }

    /// Answers about files while it is known what is there, and waits for that while more than `waiting` are in
    /// line.
    fn answer_line(&mut self, waiting: usize) -> Result<(), StoreError> {
        while let Some(mut found) = self.line.pop_front() {
            if let Decision::Hash {
                pending,
                expected,
                stat,
            } = &found.decision
            {
                let outcome = if self.line.len() >= waiting {
                    pending.wait()
                } else if let Some(outcome) = pending.poll() {
                    outcome
                } else {
                    self.line.push_front(found);
                    return Ok(());
                };
                // What cannot be read is replaced.
                let same = outcome.is_ok_and(|ours| ours == *expected);
                found.decision = self.compared(&found, same, stat);
            }
            self.ask(found)?;
        }
        Ok(())
    }

    /// Asks for a file if it is wanted.
    fn ask(&mut self, found: Found) -> Result<(), StoreError> {
        let shared = self.shared;
        let Found {
            dir,
            fd,
            name,
            size,
            meta,
            index,
            decision: Decision::Want(mut before),
        } = found
        else {
            return self.answer(false);
        };
        if before.is_some() && shared.options.backup_dir.is_some() && !shared.options.dry_run {
            match self.back_up(fd.as_deref(), &dir, &name) {
                Ok(now) => before = Some(now),
                Err(e) => {
                    let path = dir.path.join(&name);
                    let error = StoreError::from_io(&path, "back up", e);
                    shared.book.note(Trouble::Failed, || error.to_string());
                    return self.answer(false);
                }
            }
        }
        add(&shared.book.wanted_files, 1);
        add(&shared.book.wanted_bytes, size);
        if shared.options.dry_run {
            let top = super::queue::lock(&shared.top).clone();
            let path = dir.path.join(&name);
            let path = path.strip_prefix(&top).unwrap_or(&path);
            shared.tell(super::NOTE_COPY, path.as_os_str().as_bytes());
            return self.answer(true);
        }
        let wanted = Wanted {
            dir,
            name,
            size,
            meta,
            before,
            index,
        };
        if size > PACKED_MAX {
            if shared.large_waiting.is_short_of(1) {
                self.flush()?;
            }
            if !shared.large_waiting.acquire(1) || !shared.unsettled.acquire(1) {
                return Err(StoreError::Aborted);
            }
            super::queue::lock(&shared.large).insert(index, wanted);
        } else {
            if shared.expected.is_full() {
                self.flush()?;
            }
            if !shared.unsettled.acquire(1) || shared.expected.push(wanted).is_err() {
                return Err(StoreError::Aborted);
            }
        }
        self.answer(true)
    }

    /// Keeps what is to be replaced. Its identity afterwards: another name changes it.
    fn back_up(
        &self,
        fd: Option<&OwnedFd>,
        dir: &TargetDir,
        name: &OsStr,
    ) -> Result<Identity, Errno> {
        let shared = self.shared;
        let top = super::queue::lock(&shared.top).clone();
        let path = dir.path.join(name);
        let below = path.strip_prefix(&top).unwrap_or(&path).to_path_buf();
        let fd = fd.ok_or(Errno::NOENT)?;
        shared.back_up(fd, name, &below, Keep::Link)?;
        let stat = rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Identity::new(&stat))
    }

    fn answer(&mut self, wanted: bool) -> Result<(), StoreError> {
        self.answers.file(wanted).map_err(|_| StoreError::Aborted)
    }

    /// What is to become of a file, and the directory where it has been looked into.
    fn decide(
        &mut self,
        dir: &TargetDir,
        name: &OsStr,
        size: u64,
        meta: &Meta,
        hash: Option<[u8; 32]>,
    ) -> Result<(Decision, Option<Arc<OwnedFd>>), StoreError> {
        match dir.state {
            DirState::Fresh | DirState::Absent => return Ok((Decision::Want(None), None)),
            DirState::Broken => return Ok((Decision::Skip, None)),
            DirState::There => {}
        }
        Ok(match self.shared_fd()? {
            Some(fd) => (self.look(&fd, dir, name, size, meta, hash), Some(fd)),
            None => (Decision::Skip, None),
        })
    }

    fn look(
        &mut self,
        fd: &Arc<OwnedFd>,
        dir: &TargetDir,
        name: &OsStr,
        size: u64,
        meta: &Meta,
        hash: Option<[u8; 32]>,
    ) -> Decision {
        let shared = self.shared;
        let stat = match rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Decision::Want(None),
            Err(e) => {
                let path = dir.path.join(name);
                let error = StoreError::from_io(&path, "examine", e);
                shared.book.note(Trouble::Failed, || error.to_string());
                return Decision::Skip;
            }
        };
        match kind(&stat) {
            FileType::RegularFile => {}
            // The link goes, not what it points to.
            FileType::Symlink => return self.replace(dir, name, &stat),
            other => {
                let what = irregular(other).unwrap_or("of an unknown kind");
                let what = format!("is {what} there and was left alone");
                shared
                    .book
                    .trouble(Trouble::Failed, &dir.path.join(name), what);
                return Decision::Skip;
            }
        }
        let same_size = stat.st_size as u64 == size;
        let same_time = Stamp::modified(&stat).is_same_moment(meta.mtime);
        match hash {
            Some(expected) if same_size => {
                let hashers = self.hashers.get_or_insert_with(Hashers::new);
                let (fd, name) = (Arc::clone(fd), name.to_owned());
                let path = dir.path.join(&name);
                let opened = path.clone();
                let open = move || {
                    open_plain_at(&*fd, &name).map_err(|e| StoreError::from_io(&opened, "open", e))
                };
                Decision::Hash {
                    pending: hashers.hash(&path, open),
                    expected,
                    stat: Box::new(stat),
                }
            }
            None if same_size && same_time => self.keep(fd, dir, name, &stat, meta),
            _ => self.replace(dir, name, &stat),
        }
    }

    /// What is to become of a file whose content has been compared.
    fn compared(&self, found: &Found, same: bool, stat: &Stat) -> Decision {
        match &found.fd {
            Some(fd) if same => self.keep(fd, &found.dir, &found.name, stat, &found.meta),
            _ => self.replace(&found.dir, &found.name, stat),
        }
    }

    /// A file that is right.
    fn keep(
        &self,
        fd: &OwnedFd,
        dir: &TargetDir,
        name: &OsStr,
        stat: &Stat,
        meta: &Meta,
    ) -> Decision {
        let shared = self.shared;
        add(&shared.book.unchanged, 1);
        if !shared.options.dry_run && !shared.add_only {
            refresh(shared, fd, &dir.path.join(name), name, stat, meta);
        }
        Decision::Skip
    }

    /// A file that is to take the place of what is there, if it may.
    fn replace(&self, dir: &TargetDir, name: &OsStr, stat: &Stat) -> Decision {
        if self.shared.add_only {
            let path = dir.path.join(name);
            let error = StoreError::MayOnlyAdd { path };
            self.shared.book.note(Trouble::Failed, || error.to_string());
            return Decision::Skip;
        }
        Decision::Want(Some(Identity::new(stat)))
    }

    fn symlink(&mut self, name: Vec<u8>, target: &[u8], meta: &Meta) -> Result<(), StoreError> {
        let shared = self.shared;
        self.see(&name);
        let name = self.top_name(name);
        let dir = self.dir()?;
        let path = dir.path.join(&name);
        if shared.options.dry_run || dir.state == DirState::Broken {
            return Ok(());
        }
        let Some(fd) = self.fd()? else {
            return Ok(());
        };
        let target = OsStr::from_bytes(target);
        let put = || put_symlink(fd, &name, target, meta, shared.add_only);
        match until_room(shared, &path, "make the link", put)? {
            Ok(made) => {
                add(&shared.book.links, u64::from(made));
                Ok(())
            }
            Err(e) => {
                note_no_symlink(&shared.book, &path, e);
                Ok(())
            }
        }
    }
}
