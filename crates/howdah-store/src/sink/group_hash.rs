//! Hashes what a file gives back, group by group, behind the writer.

use crate::StoreError;
use crate::durable::PartFile;
use crate::tree::{GROUP, Tree, group_value};
use crate::worker;
use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Groups that may wait to be hashed: 64 MiB, which are still in the page cache.
const MAX_WAITING: usize = 256;

/// Which groups of an object have been written, in whole or in part.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    /// Bytes that a started group has.
    filling: HashMap<u64, u64>,
    complete: u64,
}

impl Coverage {
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
    thread: JoinHandle<Result<(Tree, Vec<u8>), StoreError>>,
    part: Arc<PartFile>,
}

impl GroupHasher {
    pub(super) fn start(part: &Arc<PartFile>) -> Result<Self, StoreError> {
        let (sender, receiver) = sync_channel(MAX_WAITING);
        let reader = Arc::clone(part);
        let thread = worker::spawn("howdah-hash", move || hash_groups(&reader, &receiver))
            .map_err(|e| StoreError::from_io(part.path(), "start a thread to hash", e))?;
        Ok(Self {
            sender,
            thread,
            part: Arc::clone(part),
        })
    }

    /// Queues a complete group; waits if the thread is far behind. The thread has failed if this
    /// fails, and [`finish`](Self::finish) tells why.
    pub(super) fn hash(&self, index: u64) -> Result<(), Failed> {
        self.sender.send(index).map_err(|_| Failed)
    }

    /// The BLAKE3 of the file, which has `size` bytes. `None` if a group is missing.
    pub(super) fn finish(self, size: u64) -> Result<Option<[u8; 32]>, StoreError> {
        let path = self.part.path();
        drop(self.sender);
        let joined = self.thread.join();
        let (tree, mut buf) =
            joined.map_err(|_| StoreError::other(path, "hash", "its thread died"))??;
        let tail = if size > GROUP { size % GROUP } else { size };
        let bytes = &mut buf[..tail as usize];
        self.part
            .file()
            .read_exact_at(bytes, size - tail)
            .map_err(|e| StoreError::from_io(path, "read back", e))?;
        if size <= GROUP {
            return Ok(Some(*blake3::hash(bytes).as_bytes()));
        }
        let tail = (tail > 0).then(|| group_value(size / GROUP, bytes));
        Ok(tree.root(size, tail))
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

fn hash_groups(part: &PartFile, receiver: &Receiver<u64>) -> Result<(Tree, Vec<u8>), StoreError> {
    let mut tree = Tree::default();
    let mut buf = vec![0; GROUP as usize];
    for index in receiver {
        part.file()
            .read_exact_at(&mut buf, index * GROUP)
            .map_err(|e| StoreError::from_io(part.path(), "read back", e))?;
        tree.insert(index, group_value(index, &buf));
    }
    Ok((tree, buf))
}
