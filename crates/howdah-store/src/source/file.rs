//! A file, read ahead by a thread that hashes it and thereby brings it into the page cache.
//!
//! There is no mapping: a file that somebody truncates would kill the process with SIGBUS.

use super::Finished;
use crate::cursor::Cursor;
use crate::durable::forget_pages;
use crate::identity::Identity;
use crate::outcome::{Reporter, Slot};
use crate::tree::{GroupHash, Tree};
use crate::{GROUP, Limits, SourceIdentity, StoreError, Wake, sparse, worker};
use howdah_core::{ByteRange, RangeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Bytes per read.
const BLOCK: usize = 1 << 20;

/// Values of groups that wait to be told; the engine fetches them far more often.
const MAX_VALUES: usize = 4_096;

/// The page cache is relieved of this much at a time.
const DROP_STEP: u64 = 16 << 20;

#[derive(Debug)]
pub(super) struct FileSource {
    shared: Arc<Shared>,
    slot: Slot<Finished>,
}

#[derive(Debug)]
struct Shared {
    file: File,
    path: PathBuf,
    identity: Identity,
    cursor: Cursor,
    /// What need not be sent.
    skipped: OnceLock<RangeSet>,
    /// Groups that are zeros without being stored.
    holes: Option<RangeSet>,
    /// Values of groups, for the receiver.
    values: Mutex<Vec<(u64, [u8; 32])>>,
    /// Bytes behind the send cursor that stay in the page cache.
    cached: u64,
    /// Somebody may write behind the end: what stood when it was opened is what is read.
    growing: bool,
    /// And somebody did.
    grown: AtomicBool,
}

impl FileSource {
    pub(super) fn new(
        file: File,
        path: &Path,
        (hash, growing): (bool, bool),
        wake: Wake,
        limits: &Limits,
    ) -> Result<Self, StoreError> {
        let identity = Identity::of(&file, path)?;
        let holes = sparse::holes_of(&file).map(|mut holes| {
            // It may have become larger since.
            let behind = identity.size() / GROUP * GROUP;
            holes.remove(ByteRange::new(behind, u64::MAX));
            holes
        });
        let shared = Arc::new(Shared {
            holes,
            file,
            path: path.to_path_buf(),
            identity,
            cursor: Cursor::new(limits.prefetch_bytes),
            skipped: OnceLock::new(),
            values: Mutex::default(),
            cached: limits.cached_bytes,
            growing,
            grown: AtomicBool::new(false),
        });
        let (slot, reporter) = Slot::new(path, Arc::clone(&wake));
        let reader = Arc::clone(&shared);
        let work = move || reader.read_ahead(hash, &wake, reporter);
        let handle =
            worker::spawn("howdah-read", work).map_err(|e| StoreError::no_thread(path, e))?;
        shared.cursor.set_follower(handle.thread().clone());
        Ok(Self { shared, slot })
    }

    pub(super) fn size(&self) -> u64 {
        self.shared.identity.size()
    }

    pub(super) fn identity(&self) -> SourceIdentity {
        self.shared.identity.as_source()
    }

    pub(super) fn version(&self) -> Identity {
        self.shared.identity
    }

    pub(super) fn has_grown(&self) -> bool {
        self.shared.grown.load(Ordering::Acquire)
    }

    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_lossless,
        reason = "the field's type differs between systems"
    )]
    pub(super) fn mode(&self) -> Option<u32> {
        let stat = rustix::fs::fstat(&self.shared.file).ok()?;
        Some(stat.st_mode as u32 & 0o777)
    }

    pub(super) fn holes(&self) -> Option<&RangeSet> {
        self.shared.holes.as_ref()
    }

    pub(super) fn hold_at(&self, end: u64) {
        self.shared.cursor.set_gate(end);
    }

    pub(super) fn go_on_without(&self, ranges: RangeSet) {
        let _ = self.shared.skipped.set(ranges);
        self.shared.cursor.set_gate(u64::MAX);
    }

    pub(super) fn take_values(&self, max: usize) -> Vec<(u64, [u8; 32])> {
        let mut values = self
            .shared
            .values
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let taken = max.min(values.len());
        let rest = values.split_off(taken);
        std::mem::replace(&mut *values, rest)
    }

    pub(super) fn ready_end(&self) -> u64 {
        self.shared.cursor.done()
    }

    pub(super) fn note_sent_through(&self, offset: u64) {
        self.shared.cursor.lead(offset);
    }

    pub(super) fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.shared.read_at(offset, buf)
    }

    pub(super) fn reader(&self) -> FileReader {
        FileReader(Arc::clone(&self.shared))
    }

    pub(super) fn poll_finished(&mut self) -> Option<Result<Finished, StoreError>> {
        self.slot.poll()
    }

    pub(super) fn verify_unchanged(&self) -> Result<(), StoreError> {
        self.shared.verify_unchanged()
    }
}

/// Reads what is ready of a file, beside its [`FileSource`].
#[derive(Clone, Debug)]
pub(super) struct FileReader(Arc<Shared>);

impl FileReader {
    pub(super) fn ready_end(&self) -> u64 {
        self.0.cursor.done()
    }

    pub(super) fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.0.read_at(offset, buf)
    }
}

impl Drop for FileSource {
    fn drop(&mut self) {
        self.shared.cursor.stop();
    }
}

impl Shared {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.file
            .read_exact_at(buf, offset)
            .map_err(|e| match e.kind() {
                io::ErrorKind::UnexpectedEof => StoreError::SourceChanged {
                    path: self.path.clone(),
                },
                _ => StoreError::from_io(&self.path, "read", e),
            })
    }

    fn verify_unchanged(&self) -> Result<(), StoreError> {
        self.look_again().map(|_| ())
    }

    /// What it is now, if that is what was opened.
    fn look_again(&self) -> Result<Identity, StoreError> {
        let now = Identity::of(&self.file, &self.path)?;
        if now == self.identity || self.growing && self.identity.may_have_grown_to(&now) {
            return Ok(now);
        }
        Err(StoreError::SourceChanged {
            path: self.path.clone(),
        })
    }

    /// The same where it has been read to its end, which was `last`. What was emptied and written to again has
    /// another end.
    fn verify_read(&self, last: &[u8]) -> Result<(), StoreError> {
        let now = self.look_again()?;
        if now == self.identity {
            return Ok(());
        }
        let mut again = vec![0; last.len()];
        let at = self.identity.size().saturating_sub(last.len() as u64);
        let read = self.file.read_exact_at(&mut again, at);
        if read.is_err() || again != last {
            return Err(StoreError::SourceChanged {
                path: self.path.clone(),
            });
        }
        if now.size() > self.identity.size() {
            self.grown.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn read_ahead(&self, hash: bool, wake: &Wake, reporter: Reporter<Finished>) {
        match self.read_all(hash, wake) {
            Ok(Some(finished)) => reporter.report(Ok(finished)),
            Ok(None) => reporter.nobody_waits(),
            Err(error) => reporter.report(Err(error)),
        }
    }

    /// `None`: stopped.
    fn read_all(&self, hash: bool, wake: &Wake) -> Result<Option<Finished>, StoreError> {
        let size = self.identity.size();
        let drop_behind = size > self.cached && !self.is_cached(size);
        let mut dropped = 0;
        self.advise(size);
        let mut hasher = hash.then(|| GroupwiseHasher::new(&self.values));
        let mut block = vec![0; BLOCK.min(size.try_into().unwrap_or(BLOCK))];
        let (mut at, mut last) = (0, 0);
        while at < size {
            if !self.cursor.wait_for_room(at) {
                return Ok(None);
            }
            if let Some(end) = end_within(self.skipped.get(), at) {
                at = end.min(size);
                if let Some(hasher) = &mut hasher {
                    hasher.skip_to(at);
                }
                if self.cursor.advance(at) {
                    wake();
                }
                continue;
            }
            if let Some(end) = end_within(self.holes.as_ref(), at) {
                at = match &mut hasher {
                    Some(hasher) => {
                        hasher.add_hole();
                        at + GROUP
                    }
                    None => end,
                };
                if self.cursor.advance(at) {
                    wake();
                }
                continue;
            }
            let want = block
                .len()
                .min((size - at).try_into().unwrap_or(usize::MAX));
            let got = match self.file.read_at(&mut block[..want], at) {
                Ok(0) => {
                    return Err(StoreError::SourceChanged {
                        path: self.path.clone(),
                    });
                }
                Ok(got) => got,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(StoreError::from_io(&self.path, "read", e)),
            };
            if let Some(hasher) = &mut hasher {
                hasher.update(&block[..got]);
            }
            at += got as u64;
            last = if at == size { got } else { 0 };
            let behind = self.cursor.leader().saturating_sub(self.cached);
            if drop_behind && behind >= dropped + DROP_STEP {
                forget_pages(&self.file, dropped, behind);
                dropped = behind;
            }
            if self.cursor.advance(at) {
                wake();
            }
        }
        self.verify_read(&block[..last])?;
        let hash = hasher.and_then(|hasher| hasher.finish(size));
        Ok(Some(Finished { size, hash }))
    }

    /// Whether the file is mostly in the page cache already: somebody else uses it, so it stays.
    fn is_cached(&self, size: u64) -> bool {
        #[cfg(target_os = "linux")]
        {
            const PROBES: u64 = 8;
            let is_hit = |i: &u64| {
                let mut byte = [0];
                let mut slices = [io::IoSliceMut::new(&mut byte)];
                let flags = rustix::io::ReadWriteFlags::NOWAIT;
                let at = size / PROBES * i;
                rustix::io::preadv2(&self.file, &mut slices, at, flags) == Ok(1)
            };
            (0..PROBES).filter(is_hit).count() as u64 > PROBES / 2
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = size;
            true
        }
    }

    /// Hints only: their failure changes nothing.
    fn advise(&self, size: u64) {
        #[cfg(target_os = "linux")]
        if let Some(len) = std::num::NonZeroU64::new(size.min(8 << 20)) {
            use rustix::fs::Advice;
            let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::Sequential);
            let _ = rustix::fs::fadvise(&self.file, 0, Some(len), Advice::WillNeed);
        }
        let _ = size;
    }
}

/// Where a range of the set ends, if `at` lies in one. They begin and end with groups.
fn end_within(set: Option<&RangeSet>, at: u64) -> Option<u64> {
    let set = set?;
    if !at.is_multiple_of(GROUP) || at >= set.end() {
        return None;
    }
    let next = ByteRange::new(at, u64::MAX);
    let end = set.missing(next).next()?.start;
    (end > at).then_some(end)
}

/// Hashes a file from front to back, tells the value of each group, and leaves out some.
struct GroupwiseHasher<'a> {
    values: &'a Mutex<Vec<(u64, [u8; 32])>>,
    tree: Tree,
    group: GroupHash,
    index: u64,
    /// Bytes that the group has.
    filled: u64,
    /// What the object hashes to if it is the first group and no more.
    first_root: Option<[u8; 32]>,
    skipped: bool,
}

impl<'a> GroupwiseHasher<'a> {
    fn new(values: &'a Mutex<Vec<(u64, [u8; 32])>>) -> Self {
        Self {
            values,
            tree: Tree::default(),
            group: GroupHash::new(0),
            index: 0,
            filled: 0,
            first_root: None,
            skipped: false,
        }
    }

    fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let left = (GROUP - self.filled) as usize;
            let (head, rest) = bytes.split_at(bytes.len().min(left));
            self.group.update(head);
            self.filled += head.len() as u64;
            bytes = rest;
            if self.filled == GROUP {
                if self.index == 0 {
                    self.first_root = Some(self.group.root());
                }
                let value = self.group.value();
                self.tree.insert(self.index, value);
                self.tell(value);
                self.begin(self.index + 1);
            }
        }
    }

    fn begin(&mut self, index: u64) {
        self.group = GroupHash::new(index);
        self.index = index;
        self.filled = 0;
    }

    fn tell(&self, value: [u8; 32]) {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        if values.len() < MAX_VALUES {
            values.push((self.index, value));
        }
    }

    /// Goes on at `at`, which begins a group or is the end. Called between groups.
    fn skip_to(&mut self, at: u64) {
        self.skipped = true;
        self.begin(at / GROUP);
    }

    /// A group of zeros comes, which need not be told: the receiver knows. Called between groups.
    fn add_hole(&mut self) {
        // Otherwise nobody will know the whole.
        if !self.skipped {
            sparse::zeros(GROUP, |zeros| self.group.update(zeros));
            if self.index == 0 {
                self.first_root = Some(self.group.root());
            }
            self.tree.insert(self.index, self.group.value());
        }
        self.begin(self.index + 1);
    }

    /// The hash of the whole, if it has seen the whole.
    fn finish(self, size: u64) -> Option<[u8; 32]> {
        let tail = (self.filled > 0).then(|| self.group.value());
        if let Some(value) = tail {
            self.tell(value);
        }
        if self.skipped {
            None
        } else if size <= GROUP {
            self.first_root.or_else(|| Some(self.group.root()))
        } else {
            self.tree.root(size, tail)
        }
    }
}
