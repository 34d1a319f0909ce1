//! Gives written files their names, many at a time, after their content is durable.

use super::disks::{Disks, SyncWay};
use super::inside::number_of;
use super::meta::Keeper;
use super::open::from_opening_home;
use super::placed::PlacedFiles;
use super::queue::{Budget, lock, wait_for};
use super::report::{Book, Trouble, add};
use super::target::{Finished, FinishedDir, TargetDir, Wanted};
use super::turns::Turns;
use super::write::Written;
use howdah_store::device::hash_of_device;
use howdah_store::identity::Identity;
use howdah_store::names::{rename_file, sync_dir};
use howdah_store::same::same_file;
use howdah_store::times::keeping_times;
use howdah_store::{RoomWait, Root, StoreError, unwritable};
use rustix::fd::OwnedFd;
use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// A batch is done at the latest after so many bytes or that time: what a killed process loses.
const BATCH_BYTES: u64 = 64 << 20;
const BATCH_TIME: Duration = Duration::from_secs(1);
/// Files in one batch; each keeps a descriptor open.
const BATCH_FILES: usize = 2048;
/// The same where descriptors are few: two batches may wait, beside all else that is open.
const BATCH_FILES_MIN: usize = 1;

/// What is said of a directory that is not the one any more that was entered.
const REPLACED: &str = "another program has put another directory in this one's place meanwhile; what came before that lies in the one that it was";

/// Files that wait for their names.
#[derive(Debug)]
pub(crate) struct Batch {
    state: Mutex<State>,
    changed: Condvar,
    files_max: usize,
}

#[derive(Debug, Default)]
struct State {
    written: Vec<Written>,
    /// In a move: numbers of what was there, and of links.
    settled: Vec<u64>,
    bytes: u64,
    since: Option<Instant>,
    /// Nothing comes that would be worth a wait.
    hurry: bool,
    /// Nothing comes any more.
    closed: bool,
    /// The other side is gone: what is complete is still kept.
    stopped: bool,
    /// The disk is not to be trusted: nothing gets its name.
    poisoned: bool,
    /// Nobody takes any more.
    ended: bool,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            files_max: files_max(),
        }
    }

    /// Puts a written file in; waits while two batches are full.
    ///
    /// Gives it back if nobody is left who would give it its name.
    pub(crate) fn push(&self, written: Written) -> Result<(), Box<Written>> {
        let mut state = lock(&self.state);
        while state.written.len() >= 2 * self.files_max && !state.poisoned && !state.stopped {
            state = wait_for(&self.changed, state, None);
        }
        if state.ended {
            return Err(Box::new(written));
        }
        state.bytes += written.bytes;
        state.since.get_or_insert_with(Instant::now);
        state.written.push(written);
        self.changed.notify_all();
        Ok(())
    }

    /// Puts in the number of something that is there, to be made durable and told; waits likewise. `false`: nobody is
    /// left who would.
    pub(crate) fn push_settled(&self, number: u64) -> bool {
        let mut state = lock(&self.state);
        while state.settled.len() >= 2 * self.files_max && !state.poisoned && !state.stopped {
            state = wait_for(&self.changed, state, None);
        }
        if state.ended {
            return false;
        }
        state.since.get_or_insert_with(Instant::now);
        state.settled.push(number);
        self.changed.notify_all();
        true
    }

    /// From now on nothing waits.
    pub(crate) fn hurry(&self) {
        lock(&self.state).hurry = true;
        self.changed.notify_all();
    }

    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_all();
    }

    pub(crate) fn stop(&self) {
        lock(&self.state).stopped = true;
        self.changed.notify_all();
    }

    /// The next batch; `None`: that was the last one.
    fn take(&self) -> Option<(Vec<Written>, Vec<u64>)> {
        let mut state = lock(&self.state);
        loop {
            let now = Instant::now();
            let due = state.since.map(|since| since + BATCH_TIME);
            let many = state.written.len().max(state.settled.len());
            let full = many >= self.files_max || state.bytes >= BATCH_BYTES;
            let ending = state.hurry || state.closed || state.stopped;
            if many > 0 && (full || ending || due.is_some_and(|due| due <= now)) {
                state.bytes = 0;
                state.since = None;
                let taken = std::mem::take(&mut state.written);
                let settled = std::mem::take(&mut state.settled);
                self.changed.notify_all();
                return Some((taken, settled));
            }
            if state.closed || state.stopped {
                state.ended = true;
                return None;
            }
            state = wait_for(&self.changed, state, due);
        }
    }
}

/// Descriptors are shared by everything in this process.
fn files_max() -> usize {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        /// More is of no use here.
        const ENOUGH: u64 = 65_536;
        let limit = getrlimit(Resource::Nofile);
        let now = limit.current.unwrap_or(ENOUGH);
        let want = limit.maximum.unwrap_or(ENOUGH).min(ENOUGH).max(now);
        let raised = Rlimit {
            current: Some(want),
            maximum: limit.maximum,
        };
        let got = if setrlimit(Resource::Nofile, raised).is_ok() {
            want
        } else {
            now
        };
        ((got / 16) as usize).clamp(BATCH_FILES_MIN, BATCH_FILES)
    }
}

/// The committing thread's view.
pub(crate) struct Committer<'a> {
    pub(crate) root: &'a Root,
    pub(crate) disks: &'a Disks,
    pub(crate) keeper: &'a Keeper,
    pub(crate) book: &'a Book,
    pub(crate) finished: &'a Finished,
    pub(crate) finishing: &'a Mutex<()>,
    pub(crate) unsettled: &'a Budget,
    pub(crate) room: &'a RoomWait,
    pub(crate) placed: &'a PlacedFiles,
    pub(crate) turns: &'a Turns,
    /// Files are read back from the device before they get their names.
    pub(crate) reread: bool,
    /// Sources go.
    pub(crate) moves: bool,
    pub(crate) shown: &'a Path,
    /// Somebody else's file stands for one of ours.
    pub(crate) yielded: AtomicBool,
}

impl Committer<'_> {
    pub(crate) fn run(&self, batch: &Batch) -> Result<(), StoreError> {
        while let Some((written, settled)) = batch.take() {
            let count = (written.len() + settled.len()) as u64;
            let result = self.commit(written);
            let result = result.and_then(|()| self.finish_dirs());
            let result = result.and_then(|()| self.make_sure(&settled));
            if result.is_err() {
                let mut state = lock(&batch.state);
                state.poisoned = true;
                state.ended = true;
                let left = std::mem::take(&mut state.written);
                drop(state);
                batch.changed.notify_all();
                for file in &left {
                    self.discard(file, None);
                }
            }
            self.placed.tell();
            self.unsettled.release(count);
            result?;
        }
        Ok(())
    }

    /// In a move the names must be durable before the sources go.
    fn make_sure(&self, settled: &[u64]) -> Result<(), StoreError> {
        if self.moves {
            self.disks.sync(self.shown)?;
            self.placed.are_safe(settled);
        }
        Ok(())
    }

    /// Durable first, then the names.
    fn commit(&self, mut written: Vec<Written>) -> Result<(), StoreError> {
        if written.is_empty() {
            return Ok(());
        }
        let synced = self.disks.sync(self.shown);
        let synced = if self.turns.stood_still_and_ended() {
            Err(StoreError::Aborted)
        } else {
            synced
        };
        if let Err(error) = synced {
            for file in &written {
                self.discard(file, None);
            }
            return Err(error);
        }
        written.sort_by_key(|file| Arc::as_ptr(&file.wanted.dir).addr());
        let same = |a: &Written, b: &Written| Arc::ptr_eq(&a.wanted.dir, &b.wanted.dir);
        let (mut failure, mut full) = (None, None);
        for group in written.chunk_by(same) {
            let Some(dir) = group.first().map(|file| &file.wanted.dir) else {
                continue;
            };
            let result = self.name_all(dir, group, &mut full);
            failure = failure.or_else(|| result.err());
        }
        let failure = failure.or(full);
        // What somebody else wrote was perhaps not on the disk at the first time.
        if self.yielded.swap(false, Ordering::Relaxed) {
            self.disks.sync(self.shown)?;
        }
        failure.map_or(Ok(()), Err)
    }

    /// An error ends everything; a file that cannot get its name is only noted. Where there is no room for a name (`full`), that
    /// file goes, and with what it took the others may have theirs: what has come stays.
    fn name_all(
        &self,
        dir: &TargetDir,
        group: &[Written],
        full: &mut Option<StoreError>,
    ) -> Result<(), StoreError> {
        let fd = match self.root.open_dir(&dir.path) {
            Ok(fd) => fd,
            Err(error) => {
                for file in group {
                    let error = from_opening_home(&file.wanted.path(), error.clone());
                    self.book.note(Trouble::Failed, || error.to_string());
                }
                return Ok(());
            }
        };
        for file in group {
            let wanted = &file.wanted;
            if self.reread {
                self.read_back(file, &fd)?;
            }
            let given = match self.give_name(&fd, file, full.is_none()) {
                Err(error @ StoreError::TargetChanged { .. }) => {
                    self.yield_to_same(&fd, file, error)
                }
                result => result,
            };
            match given {
                Ok(()) => {
                    add(&self.book.files, 1);
                    add(&self.book.bytes, file.bytes);
                    self.book.set_current(&wanted.path());
                    self.placed.put(wanted, file.bytes, Some(file.hash));
                }
                Err(error) => {
                    self.discard(file, Some(&fd));
                    wanted.stays_away();
                    if matches!(error, StoreError::NoSpace { .. } | StoreError::Aborted) {
                        full.get_or_insert(error);
                    } else {
                        self.book.unwritten(&error);
                    }
                }
            }
        }
        if dir.sync == SyncWay::Each {
            sync_dir(&fd).map_err(|e| StoreError::from_io(&dir.path, "sync the directory", e))?;
        }
        Ok(())
    }

    fn give_name(&self, dir: &OwnedFd, file: &Written, waits: bool) -> Result<(), StoreError> {
        let wanted = &file.wanted;
        let give = || {
            give_name(dir, &file.temp, &wanted.name, wanted.before.as_ref()).map_err(|e| {
                let path = wanted.path();
                match e {
                    Errno::EXIST => StoreError::TargetChanged { path },
                    e => unwritable::from_naming(dir, &path, e),
                }
            })
        };
        let figures = |error: StoreError| error.with_space(dir, None);
        if !waits {
            return give();
        }
        self.room
            .until_room(|| false, figures, give)
            .map_err(figures)
    }

    /// Somebody else gave that name meanwhile, as a connection that was lost and comes back does it. If it is the very
    /// same file it stays, with what is known of it besides its content, and ours goes; otherwise it is `error`.
    fn yield_to_same(
        &self,
        dir: &OwnedFd,
        file: &Written,
        error: StoreError,
    ) -> Result<(), StoreError> {
        let (wanted, path) = (&file.wanted, file.wanted.path());
        let Some(theirs) = same_file(dir, &wanted.name, &file.file, file.bytes) else {
            return Err(error);
        };
        if !self.is_like(dir, &theirs, wanted) {
            // Others of its names would get that, too.
            if rustix::fs::fstat(&theirs).is_ok_and(|stat| stat.st_nlink > 1) {
                return Err(error);
            }
            for (what, e) in self
                .keeper
                .apply_to_file(&theirs, dir, &wanted.name, &wanted.meta)
            {
                let what = format!("{what} not kept: {e}");
                self.book.trouble(Trouble::NotKept, &path, what);
            }
        }
        if wanted.dir.sync == SyncWay::Each {
            let synced = theirs.sync_all();
            synced.map_err(|e| StoreError::from_io(&path, "sync", e))?;
        }
        self.yielded.store(true, Ordering::Relaxed);
        self.discard(file, Some(dir));
        Ok(())
    }

    /// Whether that file has all that it is to have besides its content.
    fn is_like(&self, dir: &OwnedFd, file: &File, wanted: &Wanted) -> bool {
        let meta = &wanted.meta;
        let found = || super::meta::xattrs(dir, &wanted.name).map(|(found, _)| found);
        rustix::fs::fstat(file).is_ok_and(|stat| {
            self.keeper.is_owner(meta, stat.st_uid, stat.st_gid)
                && self
                    .keeper
                    .differs(dir, &stat, meta, false, found)
                    .is_empty()
        })
    }

    /// Compares what the device gives back. It has been synced.
    fn read_back(&self, file: &Written, dir: &OwnedFd) -> Result<(), StoreError> {
        let path = file.wanted.path();
        let result = match hash_of_device(&file.file, file.bytes, &path) {
            Ok(hash) if hash == file.hash => return Ok(()),
            Ok(_) => StoreError::HashMismatch { path },
            Err(error) => error,
        };
        self.discard(file, Some(dir));
        Err(result)
    }

    pub(crate) fn discard(&self, file: &Written, fd: Option<&OwnedFd>) {
        let opened = if fd.is_none() {
            self.root.open_dir(&file.wanted.dir.path).ok()
        } else {
            None
        };
        if let Some(fd) = fd.or(opened.as_ref()) {
            // Somebody else may have finished this directory.
            keeping_times(fd, || {
                let _ = rustix::fs::unlinkat(fd, &file.temp, AtFlags::empty());
            });
        }
    }

    /// Gives directories that nothing comes into any more their modes and times.
    pub(crate) fn finish_dirs(&self) -> Result<(), StoreError> {
        // One after the other: a directory comes after those in it, which its mode may shut off.
        let _turn = lock(self.finishing);
        for finished in self.finished.take() {
            let FinishedDir {
                path,
                number,
                meta,
                early,
                ..
            } = finished;
            // With all that has come into it, which then is not where it was to be.
            let lost = |what: &str| self.book.trouble(Trouble::Failed, &path, what);
            let fd = match self.root.open_dir(&path) {
                Ok(fd) if number.is_none_or(|number| number == number_of(&fd)) => fd,
                Ok(_) => {
                    lost(REPLACED);
                    continue;
                }
                Err(StoreError::NotFound { .. }) => {
                    lost("another program has removed or renamed this directory meanwhile");
                    continue;
                }
                Err(error) => {
                    self.book.note(Trouble::NotKept, || error.to_string());
                    continue;
                }
            };
            let Some(meta) = meta else {
                if let Some(was) = early {
                    let _ = rustix::fs::fchmod(&fd, was);
                }
                continue;
            };
            let not_kept = if self.keeper.is_kept(&fd, &meta) {
                Vec::new()
            } else {
                self.keeper.apply(&fd, &meta, true)
            };
            if self.disks.note(&fd) == SyncWay::Each {
                sync_dir(&fd).map_err(|e| StoreError::from_io(&path, "sync the directory", e))?;
            }
            for (what, e) in not_kept {
                let what = format!("{what} not kept: {e}");
                self.book.trouble(Trouble::NotKept, &path, what);
            }
        }
        Ok(())
    }
}

/// Renames a temporary file over what stood there before; `EXIST` if that is something else now.
pub(crate) fn give_name(
    dir: &OwnedFd,
    temp: &OsStr,
    name: &OsStr,
    before: Option<&Identity>,
) -> Result<(), Errno> {
    if let Some(before) = before {
        let now = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
        match now {
            Ok(stat) if before.is_still_there(&Identity::new(&stat)) => {}
            // It went away meanwhile: then the name is free.
            Err(Errno::NOENT) => return rename_file(dir, temp, dir, name, false),
            Ok(_) => return Err(Errno::EXIST),
            Err(e) => return Err(e),
        }
    }
    rename_file(dir, temp, dir, name, before.is_some())
}
