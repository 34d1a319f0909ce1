//! Files: what is there, whether they are wanted, and the answer.

use super::super::backup::Keep;
use super::super::bounds::PACKED_MAX;
use super::super::disks::SyncWay;
use super::super::existing::refresh;
use super::super::firsts::State;
use super::super::hashing::{Hashers, Pending};
use super::super::ignored::Version;
use super::super::kept::Kept;
use super::super::meta;
use super::super::names::kind;
use super::super::open::open_plain_at;
use super::super::queue::lock;
use super::super::report::{Trouble, add};
use super::super::stamps::modified;
use super::super::target::{DirState, TargetDir, Wanted};
use super::Placer;
use super::found::{Decision, Found, Of};
use howdah_session::entry::{Meta, Stamp};
use howdah_session::verdict::{Rights, There, Verdict, verdict};
use howdah_session::{Act, Reasons};
use howdah_store::StoreError;
use howdah_store::identity::Identity;
use howdah_store::stale;
use howdah_store::unwritable;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

/// What is to be replaced, once it has been kept, and what can be undone of that.
type AsItIs = (Option<Identity>, Option<Kept>);

impl Placer<'_> {
    pub(super) fn file(
        &mut self,
        name: Vec<u8>,
        size: u64,
        meta: Meta,
        link: Option<u64>,
        hash: Option<[u8; 32]>,
    ) -> Result<(), StoreError> {
        let index = self.index;
        self.index += 1;
        let is_unread = std::mem::take(&mut self.next_unread);
        self.see(&name);
        self.note_rules(&name, Version::Of(size, meta.mtime));
        let is_source = self.is_source_file(&name, size, meta.mtime)?;
        let name = self.top_name(name);
        let dir = self.dir()?;
        if let Some(link) = link {
            let place = (&*self.shared.root, &*self.shared.at);
            let state = if is_source {
                State::InPlace
            } else {
                State::Absent
            };
            let first = (&*dir, name.clone());
            self.linked.insert(place, link, first, state)?;
        }
        let is_twin = self.is_twin(&dir, &name);
        let mut found = Found {
            dir,
            fd: None,
            name,
            size,
            meta,
            index,
            link,
            hash,
            past: None,
            is_unread,
            decision: Decision::Skip,
        };
        if is_source {
            found.link = None;
            self.tell_same(&found.dir, &found.name);
        } else if !is_twin {
            found.decision = self.decide(&mut found)?;
            found.past = self.past_here(&found.decision)?;
            self.seek(&mut found, 0)?;
        }
        self.line.push_back(found);
        let ahead = self.hashers.as_ref().map_or(0, Hashers::ahead);
        self.answer_line(ahead)
    }

    /// Answers about files while it is known what is there, and waits for that while more than `waiting` are in
    /// line.
    pub(super) fn answer_line(&mut self, waiting: usize) -> Result<(), StoreError> {
        while let Some(mut found) = self.line.pop_front() {
            if let Decision::Hash {
                pending, expected, ..
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
                self.compared(&mut found, same)?;
                if matches!(found.decision, Decision::Hash { .. }) {
                    // Another one is compared now.
                    self.line.push_front(found);
                    continue;
                }
            }
            self.ask(found)?;
        }
        Ok(())
    }

    /// Asks for a file if it is wanted.
    fn ask(&mut self, mut found: Found) -> Result<(), StoreError> {
        let shared = self.shared;
        if matches!(found.decision, Decision::There) {
            self.answer(false)?;
            self.note_first(found.link, State::InPlace)?;
            return self.settle_file(&found);
        }
        if let Decision::Link(like) = &found.decision {
            let wanted = (like.before, like.reasons);
            if self.give_like(&found, like)? {
                let state = if shared.options.dry_run {
                    State::Rewritten
                } else {
                    State::InPlace
                };
                self.note_first(found.link, state)?;
                return self.answer(false);
            }
            found.decision = Decision::Want(wanted.0, wanted.1);
        }
        if matches!(found.decision, Decision::Stays) {
            self.note_first(found.link, State::Stays)?;
        }
        let Found {
            dir,
            fd,
            name,
            size,
            meta,
            index,
            link,
            is_unread,
            decision: Decision::Want(mut before, reasons),
            ..
        } = found
        else {
            return self.answer(false);
        };
        if is_unread {
            // Who is asked for it says why.
            return self.answer(true);
        }
        let mut kept = None;
        if before.is_some() && shared.options.backup_dir.is_some() && !shared.options.dry_run {
            match self.back_up(fd.as_deref(), &dir, &name)? {
                Ok(now) => (before, kept) = now,
                Err(error) => {
                    shared.book.note(Trouble::Failed, || error.to_string());
                    return self.answer(false);
                }
            }
        }
        let path = || dir.path.join(&name);
        if shared.options.dry_run
            && let Some(fd) = fd.as_deref()
            && let Err(error) = self.would_take(fd, &path(), before.is_some())
        {
            shared.book.unwritten(&error);
            return self.answer(false);
        }
        add(&shared.book.wanted_files, 1);
        add(&shared.book.wanted_bytes, size);
        self.take_of_quota((&*dir, &*name), size, kept.as_ref())?;
        if shared.options.dry_run {
            self.note_first(link, State::Rewritten)?;
            self.tell(Act::Copy, reasons, &dir.named().join(&name))?;
            self.note_moved(&dir, &name, index)?;
            return self.answer(true);
        }
        if link.is_some() {
            // So that they do not become more than are on their way.
            self.note_firsts()?;
        }
        let wanted = Wanted {
            dir,
            name,
            size,
            meta,
            before,
            index,
            link,
            kept: kept.map(Box::new),
        };
        let weight = wanted.weight();
        if shared.unsettled.is_short_of(1) || shared.names.is_short_of(weight) {
            self.flush()?;
        }
        if !shared.unsettled.acquire(1) || !shared.names.acquire(weight) {
            return Err(StoreError::Aborted);
        }
        if size > PACKED_MAX {
            if shared.large_waiting.is_short_of(1) {
                self.flush()?;
            }
            if !shared.large_waiting.acquire(1) {
                return Err(StoreError::Aborted);
            }
            lock(&shared.large).insert(index, wanted);
        } else {
            if shared.expected.is_full() {
                self.flush()?;
            }
            if shared.expected.push(wanted).is_err() {
                return Err(StoreError::Aborted);
            }
        }
        self.answer(true)
    }

    /// Counts what is wanted as something that its sender brings; what was kept for it is no backup if that is too much.
    fn take_of_quota(
        &self,
        (dir, name): (&TargetDir, &OsStr),
        size: u64,
        kept: Option<&Kept>,
    ) -> Result<(), StoreError> {
        let quota = &self.shared.quota;
        if !quota.is_bounded() {
            return Ok(());
        }
        let path = dir.path.join(name);
        let taken = quota.take_file(&path);
        let taken = taken.and_then(|()| quota.take_bytes(&path, size));
        if let (Err(_), Some(kept)) = (&taken, kept) {
            kept.undo_at(&dir.path, name);
        }
        taken
    }

    /// In a dry run: an error if no file can be made in `dir`, or what has that name cannot be replaced.
    fn would_take(&self, dir: &OwnedFd, path: &Path, is_there: bool) -> Result<(), StoreError> {
        unwritable::takes_files(dir, self.would_open())
            .map_err(|e| unwritable::from_making(dir, path, "make", e))?;
        let name = path.file_name().filter(|_| is_there);
        match name.and_then(|name| unwritable::will_protect(dir, name)) {
            Some(why) => Err(unwritable::not_writable(path, why)),
            None => Ok(()),
        }
    }

    /// That is known now of a file, if it has several names.
    fn note_first(&mut self, link: Option<u64>, state: State) -> Result<(), StoreError> {
        let Some(link) = link else { return Ok(()) };
        let place = (&*self.shared.root, &*self.shared.at);
        self.linked.note(place, link, state)
    }

    /// Those of them that have come are in place.
    pub(super) fn note_firsts(&mut self) -> Result<(), StoreError> {
        for link in self.shared.placed.take_firsts() {
            self.note_first(Some(link), State::InPlace)?;
        }
        Ok(())
    }

    /// Keeps what is to be replaced. Its identity afterwards, for another name changes it; none where it had to be
    /// moved. And what can be undone of it.
    pub(super) fn back_up(
        &self,
        fd: Option<&OwnedFd>,
        dir: &TargetDir,
        name: &OsStr,
    ) -> Result<Result<AsItIs, StoreError>, StoreError> {
        let below = self.below_top(dir, name);
        let Some(fd) = fd else {
            return Ok(Err(StoreError::NotFound { path: below }));
        };
        self.shared.until_kept(fd, &below, || {
            let kept = self.shared.back_up(fd, name, &below, Keep::Link)?;
            Ok((identity_now(fd, name)?, kept))
        })
    }

    fn answer(&mut self, wanted: bool) -> Result<(), StoreError> {
        let answers = self.answers.get_mut();
        answers.file(wanted).map_err(|_| StoreError::Aborted)
    }

    /// What is to become of a file, and the directory where it has been looked into.
    fn decide(&mut self, found: &mut Found) -> Result<Decision, StoreError> {
        match found.dir.state {
            DirState::Fresh | DirState::Absent => {
                return Ok(Decision::Want(None, Reasons::NEW));
            }
            DirState::Broken => return Ok(Decision::Skip),
            DirState::There => {}
        }
        let Some(fd) = self.shared_fd()? else {
            return Ok(Decision::Skip);
        };
        found.fd = Some(Arc::clone(&fd));
        self.look(&fd, found)
    }

    fn look(&mut self, fd: &Arc<OwnedFd>, found: &Found) -> Result<Decision, StoreError> {
        let shared = self.shared;
        let Found {
            dir, name, meta, ..
        } = found;
        let stat = match rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(Decision::Want(None, Reasons::NEW)),
            Err(e) => {
                let error = StoreError::from_io(&found.path(), "examine", e);
                shared.book.note(Trouble::Failed, || error.to_string());
                return Ok(Decision::Skip);
            }
        };
        let is_looked_at = kind(&stat) == FileType::RegularFile && !shared.options.ignore_existing;
        let clock = &shared.keeper.clock;
        let same_size = stat.st_size as u64 == found.size;
        let same_time = is_looked_at && clock.is_same(fd, modified(&stat), meta.mtime);
        let there = match kind(&stat) {
            FileType::RegularFile => There::File {
                same_size,
                same_time,
                is_newer: is_newer(&stat, meta.mtime),
            },
            FileType::Symlink => There::Link,
            _ => There::Other,
        };
        let rights = Rights {
            add_only: shared.add_only,
            blind: shared.blind,
        };
        let verdict = verdict(there, found.hash.is_some(), &shared.options, rights);
        Ok(match (verdict, found.hash) {
            (Verdict::Stays, _) => {
                add(&shared.book.unchanged, 1);
                if kind(&stat) == FileType::RegularFile {
                    shared.placed.keep(dir.named(), name);
                }
                Decision::Stays
            }
            (Verdict::Clear, _) => match self.clear(fd, dir, name, &stat, self.rules()) {
                Ok(()) => Decision::Want(None, Reasons::KIND),
                Err(why) => {
                    shared.book.trouble(Trouble::Failed, &found.path(), why);
                    Decision::Skip
                }
            },
            (Verdict::Hash, Some(expected)) => Decision::Hash {
                pending: self.hash(fd, found),
                expected,
                of: Of::There(Box::new(stat)),
            },
            (Verdict::Same, _) => self.keep(fd, found, &stat)?,
            (Verdict::Compare, _) => {
                let reasons = Reasons::default().and(Reasons::TIME, !same_time);
                let reasons = reasons.and(Reasons::CONTENT, same_time);
                Decision::Want(Some(Identity::new(&stat)), reasons)
            }
            // The link goes, not what it points to.
            (Verdict::Replace | Verdict::Hash, _) if there == There::Link => {
                self.replace(found, &stat, Reasons::KIND)
            }
            // Its source goes, so its content must be known.
            (Verdict::Replace | Verdict::Hash, None)
                if same_size && shared.options.remove_source && !shared.add_only =>
            {
                let reasons = Reasons::default().and(Reasons::TIME, !same_time);
                self.replace(found, &stat, reasons.and(Reasons::CONTENT, same_time))
            }
            (Verdict::Replace | Verdict::Hash, _) => {
                let reasons = self.why(fd, name, &stat, meta);
                let reasons = reasons.and(Reasons::SIZE, !same_size);
                self.replace(found, &stat, reasons)
            }
        })
    }

    /// Has what is called like that file hashed, in that directory.
    pub(super) fn hash(&mut self, fd: &Arc<OwnedFd>, found: &Found) -> Pending {
        let hashers = self.hashers.get_or_insert_with(Hashers::new);
        let (fd, name) = (Arc::clone(fd), found.name.clone());
        let path = found.path();
        let opened = path.clone();
        hashers.hash(&path, move || {
            open_plain_at(&*fd, &name).map_err(|e| StoreError::from_io(&opened, "open", e))
        })
    }

    /// Decides about a file after something has been compared with it.
    fn compared(&mut self, found: &mut Found, same: bool) -> Result<(), StoreError> {
        let was = std::mem::replace(&mut found.decision, Decision::Skip);
        let Decision::Hash { of, .. } = was else {
            found.decision = was;
            return Ok(());
        };
        match of {
            Of::Elsewhere(like) if same => {
                found.decision = Decision::Link(like);
                Ok(())
            }
            Of::Elsewhere(like) => {
                found.decision = Decision::Want(like.before, like.reasons);
                self.seek(found, like.place + 1)
            }
            Of::There(stat) => {
                found.decision = match found.fd.clone() {
                    Some(fd) if same => self.keep(&fd, found, &stat)?,
                    fd => {
                        let why = fd.map(|fd| self.why(&fd, &found.name, &stat, &found.meta));
                        let reasons = why.unwrap_or_default().and(Reasons::CONTENT, true);
                        self.replace(found, &stat, reasons)
                    }
                };
                self.seek(found, 0)
            }
        }
    }

    /// A file that is right.
    fn keep(&self, fd: &OwnedFd, found: &Found, stat: &Stat) -> Result<Decision, StoreError> {
        let shared = self.shared;
        let Found { name, meta, .. } = found;
        // What is set of a file with several names, all of them get, also those that are not of this copy. Which those are
        // is not known before the last name has come, so a new file takes the place of this one.
        if !shared.add_only && stat.st_nlink > 1 {
            let found = || meta::xattrs(fd, name).map(|(found, _)| found);
            let reasons = shared.keeper.differs(fd, stat, meta, false, found);
            if !reasons.is_empty() {
                return Ok(Decision::Want(Some(Identity::new(stat)), reasons));
            }
        }
        add(&shared.book.unchanged, 1);
        shared.placed.keep(found.dir.named(), name);
        if !shared.options.dry_run && found.size > PACKED_MAX {
            // The copy that brought it may have been killed just before it took its journal away.
            stale::remove_orphan(fd, &stale::resume_name(fd, name));
        }
        if !shared.options.dry_run && !shared.add_only {
            refresh(shared, fd, &found.path(), name, stat, meta);
        }
        let reasons = self.why(fd, name, stat, meta);
        if !reasons.is_empty() && !shared.add_only {
            self.tell(Act::Change, reasons, &found.path())?;
        }
        Ok(Decision::There)
    }

    /// In a move: a file that was there goes at the source, once it is sure that it will stay.
    fn settle_file(&self, found: &Found) -> Result<(), StoreError> {
        let shared = self.shared;
        if !shared.options.remove_source {
            return Ok(());
        }
        if !shared.options.dry_run
            && found.dir.sync == SyncWay::Each
            && let Some(fd) = &found.fd
        {
            let path = found.dir.path.join(&found.name);
            let file = open_plain_at(&**fd, &found.name);
            let synced = file.map_err(Into::into).and_then(|file| file.sync_all());
            if let Err(e) = synced {
                let error = StoreError::from_io(&path, "sync", e);
                shared.book.note(Trouble::Failed, || error.to_string());
                return Ok(());
            }
        }
        self.note_moved(&found.dir, &found.name, found.index)
    }

    /// In a dry run: what of a file besides its content is not as it is to be.
    fn why(&self, fd: &OwnedFd, name: &OsStr, stat: &Stat, meta: &Meta) -> Reasons {
        if !self.shared.options.dry_run {
            return Reasons::default();
        }
        let found = || meta::xattrs(fd, name).map(|(found, _)| found);
        let keeper = &self.shared.keeper;
        keeper.differs(fd, stat, meta, false, found)
    }

    /// A file that is to take the place of what is there, if it may.
    fn replace(&self, found: &Found, stat: &Stat, reasons: Reasons) -> Decision {
        if self.shared.add_only {
            let path = found.path();
            let error = StoreError::MayOnlyAdd { path };
            self.shared.book.note(Trouble::Failed, || error.to_string());
            return Decision::Skip;
        }
        Decision::Want(Some(Identity::new(stat)), reasons)
    }
}

/// Whether what is there was modified after that time, as far as the disk keeps times.
pub(super) fn is_newer(there: &Stat, mtime: Stamp) -> bool {
    let ours = modified(there);
    ours > mtime && !ours.is_same_moment(mtime)
}

/// What has that name now, if anything has.
fn identity_now(fd: &OwnedFd, name: &OsStr) -> Result<Option<Identity>, Errno> {
    // A file system in another process (FUSE) may be remembered as it was before it gave the other name.
    #[cfg(target_os = "linux")]
    {
        let anew = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_FORCE_SYNC;
        let _ = rustix::fs::statx(fd, name, anew, rustix::fs::StatxFlags::BASIC_STATS);
    }
    match rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(Identity::new(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(e) => Err(e),
    }
}
