//! The receiver's first thread: goes through the manifest, makes directories and links, and decides which
//! files it wants.

mod avoid;
mod dirs;
mod files;
mod found;
mod made;
mod past;
mod same;
mod twins;
mod way;

use super::codec::{AnswerWriter, ManifestReader, refused};
use super::delete::{Deleter, Extra, Extras, Inventory};
use super::existing::until_room;
use super::firsts::{First, Firsts, State};
use super::hashing::Hashers;
use super::ignored::{Told, Version};
use super::ignores;
use super::inside::{Above, Way, number};
use super::links::{LinkLater, is_link_to, link_later, note_no_symlink, put_symlink, why_symlink};
use super::names::PART_BYTES;
use super::names::kind;
use super::noted::Spool;
use super::report::{Trouble, add};
use super::shared::Shared;
use super::stamps::modified;
use super::target::{DirState, TargetDir};
use found::{Found, Past, PastHere};
use howdah_session::deletion::{Named, Refused, may_delete};
use howdah_session::doubts::{gives_names, lets_names_go};
use howdah_session::entry::{Entry, Meta};
use howdah_session::unconfirmed::LINK_NUMBERS;
use howdah_session::{Act, Change, Reasons};
use howdah_session::{Filter, Gate};
use howdah_store::StoreError;
pub(super) use past::check as check_past;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Stat};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use twins::Twins;

/// Further names that wait for their files, at most.
const LINKS_WAITING: usize = 16_384;

/// Names of a directory that are held, whatever others hold.
const INVENTORY_BYTES: usize = if cfg!(test) { 128 } else { 1 << 10 };

/// A directory on the way down.
struct Level {
    dir: Arc<TargetDir>,
    fd: Option<Arc<OwnedFd>>,
    /// What is in it already, if what the source does not have is to go.
    inventory: Option<Inventory>,
    /// `.gitignore` files of the source that hold in it, if that matters.
    rules: Option<Arc<Told>>,
    /// From here to the destination, which lies in the source.
    avoid: Option<Way>,
    /// It is the one that is read, in a move.
    is_source: bool,
    /// On a disk that may take two names for one.
    twins: Option<Twins>,
    /// The same directory in those that equal files may be linked from.
    past: Option<PastHere>,
}

pub(crate) struct Placer<'a> {
    shared: &'a Arc<Shared>,
    manifest: ManifestReader,
    answers: RefCell<AnswerWriter>,
    levels: Vec<Level>,
    /// The one thing at the top gets this name.
    rename_top: Option<OsString>,
    /// A directory that says that it is not finished.
    unfinished: Option<Arc<TargetDir>>,
    /// Which directory of the source comes next, if that is here.
    place: Option<(u64, u64)>,
    /// What the destination lies in, once that has been asked for.
    above: OnceCell<Option<Above>>,
    /// The destination lies in the source, which has been told.
    told_inside: bool,
    /// The top is one that this copy, or an interrupted one of the same source, has made.
    goes_on: bool,
    /// In a dry run: the file that comes next could not be read.
    next_unread: bool,
    /// Files so far.
    index: u64,
    /// Symbolic links and further names so far.
    links_seen: u64,
    linked: Firsts,
    links: Vec<LinkLater>,
    /// Where equal files may be linked from, once there is a file.
    past: Option<Past>,
    filter: Filter,
    gate: Gate,
    /// The source has named something.
    named: bool,
    extras: Extras,
    extras_bytes: usize,
    /// Names that went: those that gave way to something of another kind, with all that was in them, and in the end what is deleted.
    cleared: Cell<u64>,
    /// Where names of the source are that are too many for the memory.
    spool: Option<Arc<Spool>>,
    /// Once there is something to hash.
    hashers: Option<Hashers>,
    /// Files that are decided about when the hashes of those before them are there.
    line: VecDeque<Found>,
}

/// Without one, as in a dry run where nobody may write, the names are held after all.
fn spool_of(spool: &mut Option<Arc<Spool>>, shared: &Shared) -> Option<Arc<Spool>> {
    if spool.is_none() {
        *spool = Spool::new(&shared.root, &shared.at).ok();
    }
    spool.clone()
}

impl<'a> Placer<'a> {
    pub(crate) fn new(
        shared: &'a Arc<Shared>,
        manifest: ManifestReader,
        answers: AnswerWriter,
        filter: Filter,
        gate: Gate,
    ) -> Self {
        Self {
            shared,
            filter,
            gate,
            named: false,
            extras: Vec::new(),
            extras_bytes: 0,
            cleared: Cell::new(0),
            spool: None,
            hashers: None,
            line: VecDeque::new(),
            manifest,
            answers: RefCell::new(answers),
            levels: Vec::new(),
            rename_top: None,
            unfinished: None,
            place: None,
            above: OnceCell::new(),
            told_inside: false,
            goes_on: false,
            next_unread: false,
            index: 0,
            links_seen: 0,
            linked: Firsts::default(),
            links: Vec::new(),
            past: None,
        }
    }

    /// Goes through the whole manifest; then all files have been asked for. Returns the directory that carries the
    /// sign that it is not finished.
    pub(crate) fn run(&mut self) -> Result<Option<OwnedFd>, StoreError> {
        let shared = self.shared;
        let complete = loop {
            if !self.manifest.is_ready() {
                // The source may wait for these answers.
                self.answer_line(0)?;
                self.flush()?;
            }
            let mut entry = self.manifest.next()?;
            self.gate.admit(&entry, &shared.options, &self.filter)?;
            if let Some((meta, is_dir)) = entry.meta_mut() {
                shared.keeper.admit(meta, is_dir);
            }
            let is_apart = matches!(
                entry,
                Entry::Owner { .. } | Entry::Place { .. } | Entry::Unread
            );
            if self.levels.is_empty() && !is_apart {
                self.start(&entry)?;
            }
            match entry {
                Entry::Owner { group, id, name } => {
                    if let Some(unknown) = self.shared.keeper.learn(group, id, &name) {
                        self.shared.book.note(Trouble::NotKept, || unknown);
                    }
                }
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
                Entry::Kept { name } => {
                    self.see(&name);
                    self.note_rules(&name, Version::Kept);
                }
                Entry::Place { id } => self.note_place(id),
                Entry::Unread => self.next_unread = shared.options.dry_run,
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
        if !complete {
            shared.note_lack();
        }
        if shared.options.contents
            && let Some(level) = self.levels.pop()
        {
            self.keep_extras(level);
        }
        self.answer_line(0)?;
        if shared.options.dry_run {
            // Nothing is to be waited for, and all is to be told before the last answer.
            self.make_links()?;
            self.deletions(complete)?;
        }
        self.answers
            .borrow_mut()
            .end()
            .map_err(|_| StoreError::Aborted)?;
        // Everything that was asked for has come, or will not.
        shared.expected.close();
        if !shared.unsettled.wait_until_unused() {
            return Err(StoreError::Aborted);
        }
        self.make_links()?;
        if !shared.options.dry_run {
            // Nothing gives way any more.
            let extras = self.deletions(complete)?;
            self.deleter().delete(&extras);
        }
        // Opened while it can be; its modes come later.
        let unfinished = self.unfinished.take();
        let unfinished = unfinished.and_then(|dir| shared.root.open_dir(&dir.path).ok());
        self.linked.clear();
        self.levels.clear();
        Ok(unfinished)
    }

    /// The source has that name here.
    fn see(&mut self, name: &[u8]) {
        self.named = true;
        let inventory = self
            .levels
            .last_mut()
            .and_then(|level| level.inventory.as_mut());
        let (shared, spool) = (self.shared, &mut self.spool);
        if let Some(inventory) = inventory {
            inventory.see(name, || spool_of(spool, shared));
        }
    }

    /// What the source leaves out by a file of that name is not to go here.
    fn note_rules(&mut self, name: &[u8], version: Version) {
        let (shared, options) = (self.shared, &self.shared.options);
        if !options.gitignore || !options.delete || name != ignores::NAME.as_bytes() {
            return;
        }
        if let Some(level) = self.levels.last_mut() {
            let told = Told {
                above: level.rules.take(),
                path: level.dir.path.clone(),
                below: shared.below_top(level.dir.named()),
                version,
            };
            level.rules = Some(Arc::new(told));
        }
    }

    /// Those that hold in the innermost directory, as far as they have been told.
    fn rules(&self) -> Option<&Arc<Told>> {
        self.levels.last().and_then(|level| level.rules.as_ref())
    }

    /// What is in a directory that is gone into, of which what the source does not have is to go.
    fn take_inventory(&mut self, dir: &TargetDir, fd: &OwnedFd) -> Option<Inventory> {
        let inventories = self
            .levels
            .iter()
            .filter_map(|level| level.inventory.as_ref());
        let held = inventories.map(Inventory::weight).sum::<usize>();
        let bytes = PART_BYTES.saturating_sub(held + self.extras_bytes);
        let (shared, spool) = (self.shared, &mut self.spool);
        let bytes = bytes.max(INVENTORY_BYTES);
        let inventory = Inventory::of(fd, bytes, || spool_of(spool, shared));
        self.told(inventory.map_err(|e| StoreError::from_io(&dir.path, "list", e)))
    }

    /// What has failed, for one directory, is said.
    fn told<T>(&self, found: Result<T, StoreError>) -> Option<T> {
        let tell = |error: StoreError| self.shared.book.note(Trouble::Failed, || error.to_string());
        found.map_err(tell).ok()
    }

    fn keep_extras(&mut self, level: Level) {
        let Some(inventory) = level.inventory else {
            return;
        };
        let path = level.dir.path.clone();
        let extra = inventory.into_extra(level.dir, level.rules);
        let extra = extra.map_err(|e| {
            let e = rustix::io::Errno::from_io_error(&e).unwrap_or(rustix::io::Errno::IO);
            StoreError::from_io(&path, "note the names that stay for", e)
        });
        if let Some(extra) = self.told(extra).flatten() {
            self.extras_bytes += extra.weight();
            self.extras.push(extra);
        }
    }

    fn deleter(&self) -> Deleter<'_> {
        Deleter {
            shared: self.shared,
            filter: &self.filter,
        }
    }

    /// What is to go: nothing if the source could not be read in whole, or if it is too much.
    fn deletions(&mut self, complete: bool) -> Result<Extras, StoreError> {
        let shared = self.shared;
        let extras = std::mem::take(&mut self.extras);
        if extras.is_empty() {
            return Ok(extras);
        }
        let named = Named {
            complete,
            any: self.named,
        };
        if let Err(why) = may_delete(&shared.options, named) {
            // What would not be deleted anyway is no word worth.
            let is_idle =
                extras.iter().all(Extra::is_open) && self.deleter().list(&extras, &mut |_| {}) == 0;
            if !is_idle {
                self.refuse_to_delete(why);
            }
            return Ok(Vec::new());
        }
        if shared.options.max_delete.is_some() {
            let count = self.deleter().list(&extras, &mut |_| {});
            if let Err(why) = self.may_go(count) {
                shared.refuse_to_delete(&why);
                return Ok(Vec::new());
            }
        }
        if shared.options.dry_run {
            let mut told = Ok(());
            let count = self.deleter().tell(&extras, &mut |path| {
                if told.is_ok() {
                    told = self.tell_below(Act::Delete, Reasons::EXTRA, path.to_path_buf());
                }
            });
            told?;
            add(&shared.book.deleted, count);
        }
        Ok(extras)
    }

    fn refuse_to_delete(&self, why: Refused) {
        let shared = self.shared;
        match why {
            Refused::Incomplete => {
                shared.refuse_to_delete("the source could not be read in whole");
            }
            Refused::NothingThere => shared.refuse_to_delete(
                "there is nothing at the source; --delete-all deletes all the same",
            ),
        }
    }

    /// In a dry run: tells what would be done with a path below the root.
    fn tell(&self, act: Act, reasons: Reasons, path: &Path) -> Result<(), StoreError> {
        self.tell_below(act, reasons, self.shared.below_top(path))
    }

    /// The same for one below the top: to whoever listens here, or else to the sender.
    fn tell_below(&self, act: Act, reasons: Reasons, path: PathBuf) -> Result<(), StoreError> {
        if !self.shared.options.dry_run {
            return Ok(());
        }
        let change = Change { act, reasons, path };
        if self.shared.listens {
            self.shared.tell(change);
            return Ok(());
        }
        let told = self.answers.borrow_mut().note(&change);
        told.map_err(|_| StoreError::Aborted)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.answers
            .borrow_mut()
            .flush()
            .map_err(|_| StoreError::Aborted)
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

    /// The number of the next link.
    fn link_number(&mut self) -> u64 {
        self.links_seen += 1;
        LINK_NUMBERS + self.links_seen - 1
    }

    /// In a move: it is at the destination, or would be. What is at `path` here goes at the source.
    fn note_moved(&self, dir: &TargetDir, name: &OsStr, number: u64) -> Result<(), StoreError> {
        if !self.shared.options.remove_source {
            return Ok(());
        }
        self.tell(Act::Remove, Reasons::MOVED, &dir.named().join(name))?;
        self.shared.settle(dir, number)
    }

    /// A further name. Only so many wait to the end.
    fn link(&mut self, name: Vec<u8>, link: u64, last: bool) -> Result<(), StoreError> {
        self.see(&name);
        self.note_rules(&name, Version::Any);
        let number = self.link_number();
        let is_source = self.is_source(&name, |_| false)?;
        let (dir, name) = (self.dir()?, self.top_name(name));
        if is_source {
            self.tell_same(&dir, &name);
            return Ok(());
        }
        if self.is_twin(&dir, &name) {
            return Ok(());
        }
        self.links.push(LinkLater {
            dir,
            name,
            link,
            last,
            number,
            rules: self.rules().cloned(),
        });
        if self.links.len() >= LINKS_WAITING {
            self.settle()?;
        }
        Ok(())
    }

    /// Waits for what was asked for, which is on its way whatever the rest of the manifest says, and makes the further names.
    fn settle(&mut self) -> Result<(), StoreError> {
        self.answer_line(0)?;
        self.flush()?;
        if !self.shared.unsettled.wait_until_unused() {
            return Err(StoreError::Aborted);
        }
        self.make_links()
    }

    /// All files that were asked for are settled: gives them their further names.
    fn make_links(&mut self) -> Result<(), StoreError> {
        self.note_firsts()?;
        for later in std::mem::take(&mut self.links) {
            let first = self
                .linked
                .get((&self.shared.root, &self.shared.at), later.link)?;
            let doubt = first.as_ref().and_then(First::doubt);
            if self.stays(&later, first.as_ref()) {
                self.shared.placed.keep(later.dir.named(), &later.name);
            } else if first.as_ref().is_some_and(|first| self.would_miss(first))
                || !gives_names(doubt)
            {
                let path = later.dir.named().join(&later.name);
                let what = "is a further name of a file that does not come";
                self.shared.book.trouble(Trouble::Failed, &path, what);
            } else {
                self.take_link(&later, first.as_ref())?;
                let is_free = self.make_way_for(&later);
                if is_free {
                    self.tell_link(&later, first.as_ref())?;
                }
                // A name of what stays there is none of what is at the source.
                if is_free
                    && link_later(self.shared, first.as_ref(), &later)
                    && lets_names_go(doubt)
                {
                    self.note_moved(&later.dir, &later.name, later.number)?;
                }
            }
            if later.last {
                self.linked.remove(later.link);
            }
        }
        Ok(())
    }

    /// A further name is a name, unless it is there already.
    fn take_link(&self, later: &LinkLater, first: Option<&First>) -> Result<(), StoreError> {
        let shared = self.shared;
        if !shared.quota.is_bounded() || first.is_none() {
            return Ok(());
        }
        let there = self.at(&later.dir, &later.name);
        let twin = first.and_then(|first| self.at_first(first));
        if there
            .zip(twin)
            .is_some_and(|(there, twin)| number(&there) == number(&twin))
        {
            return Ok(());
        }
        shared.quota.take_file(&later.dir.path.join(&later.name))
    }

    /// Whether what has that further name stays, because it is there or because it is newer.
    fn stays(&self, later: &LinkLater, first: Option<&First>) -> bool {
        let options = &self.shared.options;
        if !options.ignore_existing && !options.update {
            return false;
        }
        let Some(there) = self.at(&later.dir, &later.name) else {
            return false;
        };
        let is_older = |first: &First| {
            let twin = self.at_first(first);
            twin.is_some_and(|twin| {
                let is_same = number(&twin) == number(&there);
                !is_same && files::is_newer(&there, modified(&twin))
            })
        };
        options.ignore_existing
            || kind(&there) == FileType::RegularFile && first.is_some_and(is_older)
    }

    /// What has that name now.
    fn at(&self, dir: &TargetDir, name: &OsStr) -> Option<Stat> {
        if matches!(dir.state, DirState::Absent | DirState::Broken) {
            return None;
        }
        self.at_path(&dir.path, name)
    }

    fn at_first(&self, first: &First) -> Option<Stat> {
        if first.is_absent {
            return None;
        }
        self.at_path(&first.path, &first.name)
    }

    fn at_path(&self, dir: &Path, name: &OsStr) -> Option<Stat> {
        let fd = self.shared.root.open_dir(dir).ok()?;
        rustix::fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()
    }

    /// In a dry run: whether that file would not be there for its further names.
    fn would_miss(&self, first: &First) -> bool {
        let is_file = |stat: Stat| kind(&stat) == FileType::RegularFile;
        self.shared.options.dry_run
            && first.state != State::Rewritten
            && !self.at_first(first).is_some_and(is_file)
    }

    /// In a dry run: whether that further name would be made, and why.
    fn tell_link(&self, later: &LinkLater, first: Option<&First>) -> Result<(), StoreError> {
        let shared = self.shared;
        if !shared.options.dry_run || later.dir.state == DirState::Broken {
            return Ok(());
        }
        let Some(first) = first else {
            return Ok(());
        };
        let reasons = match self.at(&later.dir, &later.name) {
            None => Reasons::NEW,
            Some(stat) if kind(&stat) != FileType::RegularFile => Reasons::KIND,
            Some(stat) => {
                let twin = self.at_first(first);
                let is_same = twin
                    .is_some_and(|twin| (twin.st_dev, twin.st_ino) == (stat.st_dev, stat.st_ino));
                if is_same && first.state != State::Rewritten {
                    return Ok(());
                }
                Reasons::TARGET
            }
        };
        self.tell(Act::Link, reasons, &later.dir.named().join(&later.name))
    }

    fn symlink(&mut self, name: Vec<u8>, target: &[u8], meta: &Meta) -> Result<(), StoreError> {
        let shared = self.shared;
        self.see(&name);
        let number = self.link_number();
        let is_source = self.is_source(&name, |_| false)?;
        let name = self.top_name(name);
        let dir = self.dir()?;
        let path = dir.named().join(&name);
        if is_source {
            self.tell_same(&dir, &name);
            return Ok(());
        }
        if dir.state == DirState::Broken || self.is_twin(&dir, &name) {
            return Ok(());
        }
        let Some(fd) = self.shared_fd()? else {
            if shared.quota.is_bounded() {
                shared.quota.take_file(&path)?;
            }
            self.tell(Act::Symlink, Reasons::NEW, &path)?;
            return self.note_moved(&dir, &name, number);
        };
        if shared.options.ignore_existing
            && rustix::fs::statat(&fd, &name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
        {
            return Ok(());
        }
        let target = OsStr::from_bytes(target);
        if shared.quota.is_bounded() && !is_link_to(&fd, &name, target) {
            shared.quota.take_file(&path)?;
        }
        if let Err(why) = self.make_way(&fd, &dir, &name, self.rules()) {
            shared.book.trouble(Trouble::Failed, &path, why);
            return Ok(());
        }
        let kept = (meta, &*shared.keeper);
        if shared.options.dry_run {
            let how = (shared.add_only, self.would_open());
            match why_symlink(&fd, &name, target, kept, how) {
                Ok((act, reasons)) => {
                    if !reasons.is_empty() {
                        self.tell(act, reasons, &path)?;
                    }
                    self.note_moved(&dir, &name, number)?;
                }
                Err(e) => note_no_symlink(&shared.book, &fd, &path, e),
            }
            return Ok(());
        }
        let put = || {
            let below = self.below_top(&dir, &name);
            shared.replacing(&fd, &name, &below, |back_up| {
                put_symlink(&fd, &name, target, kept, shared.add_only, back_up)
            })
        };
        match until_room(shared, &path, "make the link", put)? {
            Ok((made, not_kept)) => {
                add(&shared.book.links, u64::from(made));
                if let Some((what, e)) = not_kept {
                    let what = format!("{what} not kept: {e}");
                    shared.book.trouble(Trouble::NotKept, &path, what);
                }
                self.note_moved(&dir, &name, number)
            }
            Err(e) => {
                note_no_symlink(&shared.book, &fd, &path, e);
                Ok(())
            }
        }
    }
}
