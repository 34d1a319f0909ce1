//! What the threads of a receiver share, and how that ends.

use super::buffers::Buffers;
use super::commit::{Batch, Committer};
use super::disks::{Disks, SyncWay};
use super::meta::Keeper;
use super::placed::PlacedFiles;
use super::queue::{Budget, Queue, lock};
use super::report::{Book, Trouble, get};
use super::target::{Finished, TargetDir, Wanted};
use super::turns::Turns;
use super::unfinished;
use super::workers::{FirstError, Workers};
use howdah_session::{Change, TreeOptions};
use howdah_store::{Limits, Quota, RoomWait, Root, StoreError, Wake, names};
use rustix::fd::OwnedFd;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// What is said of a destination whose path leads elsewhere in the end than in the beginning.
const ELSEWHERE: &str = "is not what it was when the copy began: another program has renamed or replaced it, or what it lies in. What \
                         came lies in the one that it was; move it from there, or copy again";

pub(crate) struct Shared {
    pub(crate) options: TreeOptions,
    pub(crate) root: Arc<Root>,
    pub(crate) at: PathBuf,
    /// What exists is not touched.
    pub(crate) add_only: bool,
    /// The sender is not to learn what is there: everything is wanted.
    pub(crate) blind: bool,
    pub(crate) quota: Quota,
    pub(crate) room: RoomWait,
    /// The directory that paths are told below, once it is known.
    pub(crate) top: Mutex<PathBuf>,
    /// Directories of the source that are here: nothing deletes them. Whether that has been told.
    pub(crate) sources: Mutex<HashMap<(u64, u64), bool>>,
    /// Directories that links at the destination lead to and that are gone into by these (`keep_dirlinks`), by device and inode.
    pub(crate) dirlinks: Mutex<HashMap<(u64, u64), Dirlink>>,
    /// What is to be made is a directory that the sources go into.
    pub(crate) makes_whole: bool,
    pub(crate) names_directory: bool,
    /// There is more than one thing at the top.
    pub(crate) several: bool,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) disks: Disks,
    pub(crate) book: Arc<Book>,
    pub(crate) finished: Arc<Finished>,
    /// Held by whoever finishes directories.
    pub(crate) finishing: Mutex<()>,
    /// Small files in the order in which they were asked for.
    pub(crate) expected: Queue<Wanted>,
    /// Large files that were asked for.
    pub(crate) large: Mutex<HashMap<u64, Wanted>>,
    pub(crate) large_waiting: Budget,
    /// Files that were asked for and have neither a name nor an error.
    pub(crate) unsettled: Budget,
    /// Bytes of what is known of files that were asked for and have not come.
    pub(crate) names: Budget,
    pub(crate) large_limits: Limits,
    pub(crate) busy: Busy,
    pub(crate) turns: Turns,
    pub(crate) writes: Queue<Unwritten>,
    pub(crate) writing: Budget,
    pub(crate) buffers: Buffers,
    pub(crate) batch: Batch,
    pub(crate) placed: PlacedFiles,
    /// What a dry run would do, for somebody who listens here.
    pub(crate) changes: Queue<Change>,
    /// Somebody does; else the sender is told.
    pub(crate) listens: bool,
    pub(crate) error: FirstError,
    pub(crate) done: AtomicBool,
    /// The sender has said that something does not come.
    pub(crate) lacks: AtomicBool,
    pub(crate) wake: Wake,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

/// A small file as it came.
pub(crate) struct Unwritten {
    pub(crate) wanted: Wanted,
    pub(crate) bytes: Vec<u8>,
    pub(crate) hash: [u8; 32],
    pub(crate) charge: u64,
}

impl Workers for Shared {
    fn fail(&self, error: StoreError) {
        self.error.note(self.with_figures(error));
        self.stop();
        (self.wake)();
    }
}

impl Shared {
    /// Adds to an error about space what there is and how much is still to come.
    fn with_figures(&self, error: StoreError) -> StoreError {
        let StoreError::NoSpace { path, .. } = &error else {
            return error;
        };
        // Other disks may be mounted below the destination, and that below a root.
        let above = path.ancestors().skip(1);
        let mut above = above.filter_map(|above| self.root.open_dir(above).ok());
        let top = || self.root.open_dir(Path::new("")).ok();
        match above.next().or_else(top) {
            Some(place) => {
                let (wanted, come) = (get(&self.book.wanted_bytes), get(&self.book.come_bytes));
                error.with_space(place, Some(wanted.saturating_sub(come)))
            }
            None => error,
        }
    }

    /// Tries until there is room for it, as far as patience goes.
    pub(crate) fn until_room<T>(
        &self,
        attempt: impl FnMut() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let figures = |error| self.with_figures(error);
        self.room.until_room(|| false, figures, attempt)
    }

    pub(crate) fn stop(&self) {
        self.room.stop();
        self.turns.end();
        self.expected.stop();
        self.writes.stop();
        self.writing.stop();
        self.unsettled.stop();
        self.large_waiting.stop();
        self.names.stop();
        self.batch.stop();
        self.changes.stop();
        lock(&self.large).clear();
    }

    /// Something does not come.
    pub(crate) fn note_lack(&self) {
        self.lacks.store(true, Ordering::Release);
    }

    /// Tells what would be done to whom it may concern.
    pub(crate) fn tell(&self, change: Change) {
        if self.changes.is_full() {
            (self.wake)();
        }
        let _ = self.changes.push(change);
    }

    /// The directory that paths are told below is known.
    pub(crate) fn set_top(&self, top: &Path) {
        *lock(&self.top) = top.to_path_buf();
        self.placed.set_top(top);
    }

    pub(crate) fn committer<'a>(&'a self, shown: &'a Path) -> Committer<'a> {
        Committer {
            root: &self.root,
            disks: &self.disks,
            keeper: &self.keeper,
            book: &self.book,
            finished: &self.finished,
            finishing: &self.finishing,
            room: &self.room,
            unsettled: &self.unsettled,
            placed: &self.placed,
            turns: &self.turns,
            reread: self.options.reread,
            moves: self.options.remove_source,
            shown,
            yielded: AtomicBool::new(false),
        }
    }

    /// In a move: what has that number is at the destination, which is said when it is durable.
    pub(crate) fn settle(&self, dir: &TargetDir, number: u64) -> Result<(), StoreError> {
        if !self.options.remove_source || self.options.dry_run {
            return Ok(());
        }
        if !self.unsettled.acquire(1) {
            return Err(StoreError::Aborted);
        }
        self.settle_come(dir, number)
    }

    /// The same of what was asked for, which is waited for until then.
    pub(crate) fn settle_come(&self, dir: &TargetDir, number: u64) -> Result<(), StoreError> {
        if dir.sync == SyncWay::Each {
            sync_dir_at(self, &dir.path)?;
        }
        if self.batch.push_settled(number) {
            Ok(())
        } else {
            Err(StoreError::Aborted)
        }
    }

    /// Gives directories that nothing comes into any more their modes and times.
    pub(crate) fn finish_dirs(&self) -> Result<(), StoreError> {
        let shown = self.root.path().join(&self.at);
        self.committer(&shown).finish_dirs()
    }

    /// Everything has its name: the directories' times and modes, and all names on the disk.
    pub(crate) fn finish(&self, unfinished: Option<OwnedFd>) -> Result<(), StoreError> {
        let shown = self.root.path().join(&self.at);
        self.batch.close();
        if !self.options.dry_run {
            if self.options.remove_source && !self.unsettled.wait_until_unused() {
                return Err(StoreError::Aborted);
            }
            self.finish_dirs()?;
            self.disks.sync(&shown)?;
            if !self.root.is_in_place() {
                self.book
                    .trouble(Trouble::Failed, self.root.path(), ELSEWHERE);
            }
            // Where the top itself got its name.
            let top = self.at.parent().unwrap_or_else(|| Path::new(""));
            for path in [top.to_path_buf(), self.at.clone()] {
                let Ok(fd) = self.root.open_dir(&path) else {
                    continue;
                };
                if self.disks.note(&fd) == SyncWay::Each {
                    sync_dir_at(self, &path)?;
                }
            }
            // Who is told to stop while the disk syncs will be told to do the same again.
            if let Some(dir) = unfinished
                && self.unsettled.wait_until_unused()
            {
                unfinished::finish(dir);
            }
        }
        self.done.store(true, Ordering::Release);
        (self.wake)();
        Ok(())
    }
}

/// How long all files of a tree together wait for others that write them.
const BUSY_LIMIT: Duration = Duration::from_secs(30);
const NAP: Duration = Duration::from_millis(5);

/// Waiting for a copy of the same sources that is still there.
#[derive(Debug, Default)]
pub(crate) struct Busy(OnceLock<Instant>);

impl Busy {
    /// `true` a little later, or `false`: that was long enough.
    pub(crate) fn wait(&self) -> bool {
        let waits = self.0.get_or_init(Instant::now).elapsed() < BUSY_LIMIT;
        if waits {
            std::thread::sleep(NAP);
        }
        waits
    }
}

/// A directory that links at the destination lead to and that was gone into by these (`keep_dirlinks`).
#[derive(Debug, Default)]
pub(crate) struct Dirlink {
    pub(crate) links: u32,
    /// It has been said that it stays, or that what is in it does.
    pub(crate) is_told: bool,
}

impl Drop for Shared {
    /// The last thread of a copy that was stopped: what it did in directories has changed their times, and perhaps their
    /// modes.
    fn drop(&mut self) {
        if !self.options.dry_run && !self.error.is_some() {
            let _ = self.finish_dirs();
        }
    }
}

/// Syncs a directory that is not synced with all others.
pub(crate) fn sync_dir_at(shared: &Shared, path: &Path) -> Result<(), StoreError> {
    let fd = shared.root.open_dir(path)?;
    names::sync_dir(&fd).map_err(|e| StoreError::from_io(path, "sync the directory", e))
}
