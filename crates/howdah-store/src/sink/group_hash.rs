//! Hashes what a file gives back, group by group, behind the writer.

use super::ledger::Ledger;
use super::queue::AbortFlag;
use crate::GROUP;
use crate::StoreError;
use crate::durable::PartFile;
use crate::tree::{GroupHash, Tree};
use crate::{sparse, worker};
use blake3::hazmat::ChainingValue;
use howdah_core::{ByteRange, RangeSet};
use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;

/// Groups that may wait to be hashed: 16 MiB, which are still in the page cache. What waits cannot
/// be claimed.
const MAX_WAITING: usize = 16;
/// Bytes that are hashed at a time: they stay in a core's own cache between the copy from the page
/// cache and the hashing.
const PIECE: usize = 256 << 10;

/// Which groups of an object have been written, in whole or in part.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    /// Bytes that a started group has.
    filling: HashMap<u64, u64>,
    complete: u64,
}

impl Coverage {
    /// Groups that an earlier run has written and verified.
    pub(super) fn with_groups(complete: u64) -> Self {
        Self {
            filling: HashMap::new(),
            complete,
        }
    }

    /// `[start, end)` has been written, for the first time; calls `complete` for each group that
    /// this completes, until it fails.
    pub(super) fn note_written<E>(
        &mut self,
        start: u64,
        end: u64,
        mut complete: impl FnMut(u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut at = start;
        while at < end {
            let index = at / GROUP;
            let stop = end.min((index + 1) * GROUP);
            let filled = self.filling.entry(index).or_default();
            *filled += stop - at;
            if *filled >= GROUP {
                self.filling.remove(&index);
                self.complete += 1;
                complete(index)?;
            }
            at = stop;
        }
        Ok(())
    }

    /// Whether that is what an object of `size` bytes leaves behind: all groups complete but the
    /// last one, and that one as full as it should be.
    pub(super) fn is_whole(&self, size: u64) -> bool {
        let (groups, tail) = (size / GROUP, size % GROUP);
        let last = self.filling.get(&groups).copied().unwrap_or(0);
        self.complete == groups && last == tail && self.filling.len() == usize::from(tail > 0)
    }
}

/// The thread that reads complete groups back and hashes them.
pub(super) struct GroupHasher {
    sender: SyncSender<u64>,
    thread: JoinHandle<Result<Tree, StoreError>>,
    part: Arc<PartFile>,
    finishing: Arc<AtomicBool>,
}

/// What the thread has to do and to work with.
pub(super) struct HashWork {
    pub(super) part: Arc<PartFile>,
    /// What an earlier run has verified.
    pub(super) tree: Tree,
    /// Gets each group's value.
    pub(super) ledger: Option<Arc<Ledger>>,
    /// If the file has holes: groups that nobody will write, to be hashed when nothing else is.
    pub(super) holes: Option<RangeSet>,
    /// Nobody waits for the result.
    pub(super) aborted: AbortFlag,
}

/// What a whole file hashes to.
pub(super) struct Hashed {
    pub(super) root: [u8; 32],
    /// Of the last group, if it is not a complete one.
    pub(super) tail: Option<ChainingValue>,
}

impl HashWork {
    pub(super) fn start(self) -> Result<GroupHasher, StoreError> {
        let (sender, receiver) = sync_channel(MAX_WAITING);
        let part = Arc::clone(&self.part);
        let finishing = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&finishing);
        let thread = worker::spawn("howdah-hash", move || self.run(&receiver, &theirs))
            .map_err(|e| StoreError::no_thread(part.path(), e))?;
        Ok(GroupHasher {
            sender,
            thread,
            part,
            finishing,
        })
    }

    fn run(mut self, receiver: &Receiver<u64>, finishing: &AtomicBool) -> Result<Tree, StoreError> {
        let holes = self.holes.take().unwrap_or_default();
        let starts = |range: ByteRange| (range.start / GROUP)..(range.end / GROUP);
        let mut holes = holes.iter().flat_map(starts);
        let mut has_holes = true;
        loop {
            // What was written first: it is still in memory.
            let index = if has_holes {
                receiver.try_recv()
            } else {
                receiver.recv().map_err(|_| TryRecvError::Disconnected)
            };
            match index {
                Ok(index) => self.written(index)?,
                Err(TryRecvError::Disconnected)
                    if !has_holes || !finishing.load(Ordering::SeqCst) =>
                {
                    return Ok(self.tree);
                }
                Err(_) if self.aborted.is_set() => {
                    return Err(StoreError::Aborted);
                }
                Err(_) => match holes.next() {
                    Some(index) => self.hole(index)?,
                    None => has_holes = false,
                },
            }
        }
    }

    fn written(&mut self, index: u64) -> Result<(), StoreError> {
        let value = read_back(&self.part, index, GROUP)?.value();
        self.tree.insert(index, value);
        let ledger = self.ledger.as_ref();
        if ledger.is_some_and(|ledger| !ledger.find(index, value)) {
            let path = self.part.path().to_path_buf();
            return Err(StoreError::HashMismatch { path });
        }
        Ok(())
    }

    fn hole(&mut self, index: u64) -> Result<(), StoreError> {
        let range = ByteRange::with_len(index * GROUP, GROUP);
        let mut hash = GroupHash::new(index);
        sparse::zeros(GROUP, |zeros| hash.update(zeros));
        let value = hash.value();
        // Where a file system has no holes it is read like everything else.
        if !sparse::is_hole(self.part.file(), range)
            && read_back(&self.part, index, GROUP)?.value() != value
        {
            let path = self.part.path().to_path_buf();
            return Err(StoreError::HashMismatch { path });
        }
        self.tree.insert(index, value);
        if let Some(ledger) = &self.ledger {
            ledger.know(index, value);
        }
        Ok(())
    }
}

impl GroupHasher {
    /// Queues a complete group; waits if the thread is far behind. The thread has failed if this
    /// fails, and [`finish`](Self::finish) tells why.
    pub(super) fn hash(&self, index: u64) -> Result<(), Failed> {
        self.sender.send(index).map_err(|_| Failed)
    }

    /// The BLAKE3 of the file, which has `size` bytes. `None` if a group is missing.
    pub(super) fn finish(self, size: u64) -> Result<Option<Hashed>, StoreError> {
        let path = self.part.path();
        self.finishing.store(true, Ordering::SeqCst);
        drop(self.sender);
        let joined = self.thread.join();
        let tree = joined.map_err(|_| StoreError::other(path, "hash", "its thread died"))??;
        let index = size / GROUP;
        let last = size % GROUP;
        if size <= GROUP {
            let hash = read_back(&self.part, 0, size)?;
            let tail = (last > 0).then(|| hash.value());
            let root = hash.root();
            return Ok(Some(Hashed { root, tail }));
        }
        let tail = (last > 0)
            .then(|| read_back(&self.part, index, last))
            .transpose()?
            .map(|hash| hash.value());
        Ok(tree.root(size, tail).map(|root| Hashed { root, tail }))
    }

    /// Why [`hash`](Self::hash) failed.
    pub(super) fn failure(self) -> StoreError {
        let part = Arc::clone(&self.part);
        let died = || StoreError::other(part.path(), "hash", "its thread died");
        self.finish(0).err().unwrap_or_else(died)
    }
}

/// The hashing thread has ended early.
#[derive(Debug)]
pub(super) struct Failed;

/// Hashes the first `len` bytes of a group as the file gives them back.
fn read_back(part: &PartFile, index: u64, len: u64) -> Result<GroupHash, StoreError> {
    let mut hash = GroupHash::new(index);
    let mut buf = vec![0; PIECE.min(len as usize)];
    let mut at = 0;
    while at < len {
        let piece = PIECE.min((len - at) as usize);
        let piece = &mut buf[..piece];
        part.file()
            .read_exact_at(piece, index * GROUP + at)
            .map_err(|e| StoreError::from_io(part.path(), "read back", e))?;
        hash.update(piece);
        at += piece.len() as u64;
    }
    Ok(hash)
}
