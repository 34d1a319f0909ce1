//! A range of a file, to a file of its own: whoever moves a file together with others fetches like this.

use super::group_hash::Coverage;
use super::ledger::Ledger;
use super::queue::{Gathered, Outlet};
use super::{Outcome, SinkOptions};
use crate::batch::Batch;
use crate::outcome::Reporter;
use crate::tree::GroupHash;
use crate::{GROUP, Held, SourceIdentity, StoreError, durable};
use howdah_core::{ByteRange, RangeSet};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Payload bytes that are written together.
const GATHER: u64 = 1 << 20;
/// So many times at least it is told which groups are there while a range comes, or every so many groups.
const KEEP_TIMES: u64 = 8;
const KEEP_EVERY: u64 = 64;

/// A group, and the value that the sender has told of it.
pub type GroupValue = (u64, [u8; 32]);

/// Hears which groups are there and right, for a copy that goes on in another process.
struct Keeper(Box<Keep>);

type Keep = dyn Fn(&[GroupValue]) + Send + Sync;

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keeper")
    }
}

/// A range of a source on its way into a file that has nothing else: its first byte is the file's first.
///
/// It takes as many connections as it takes: each asks for what [`held`](Self::held) lacks. Nothing of it is durable.
#[derive(Debug)]
pub struct RangeFile {
    file: File,
    /// For messages.
    path: PathBuf,
    source: SourceIdentity,
    range: ByteRange,
    /// Whole groups that came and were verified.
    verified: Mutex<RangeSet>,
    keeper: Option<Keeper>,
    /// What it has not been told of.
    fresh: Mutex<RangeSet>,
    /// Of groups that have come, whether the sender has told theirs or not.
    values: Mutex<BTreeMap<u64, [u8; 32]>>,
}

impl RangeFile {
    /// `keep` is told now and then, and at the end of each connection, which groups are there and right by now, of each once.
    #[must_use]
    pub fn keeping(mut self, keep: impl Fn(&[GroupValue]) + Send + Sync + 'static) -> Self {
        self.keeper = Some(Keeper(Box::new(keep)));
        self
    }

    /// Goes on where another process has ended, which was told of these groups: those count that the file gives back as they were.
    #[must_use]
    pub fn going_on(self, groups: &[GroupValue]) -> Self {
        let mut verified = RangeSet::new();
        let mut values = BTreeMap::new();
        for &(index, value) in groups {
            let Some(start) = index.checked_mul(GROUP) else {
                continue;
            };
            let group = ByteRange::with_len(start, GROUP);
            let is_ours = group.start >= self.range.start && group.end <= self.range.end;
            if is_ours && self.read_back(group).is_ok_and(|found| found == value) {
                verified.insert(group);
                values.insert(index, value);
            }
        }
        *self.lock() = verified;
        *self.values() = values;
        self
    }

    /// All groups that are there and right, also the one at the source's end that is not whole: what the file was when they came.
    pub fn told(&self) -> Vec<GroupValue> {
        let values = self.values();
        values
            .iter()
            .map(|(index, value)| (*index, *value))
            .collect()
    }

    /// Nothing of it need come: it is there already, elsewhere.
    #[must_use]
    pub fn without_content(self) -> Self {
        let groups = self.source.size / GROUP * GROUP;
        let ours = ByteRange::new(self.range.start.min(groups), self.range.end.min(groups));
        self.lock().insert(ours);
        self
    }

    fn values(&self) -> MutexGuard<'_, BTreeMap<u64, [u8; 32]>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells which groups are there and right.
    fn keep(&self) {
        let Some(Keeper(keep)) = &self.keeper else {
            return;
        };
        let fresh = std::mem::take(&mut *self.fresh());
        let values = self.values();
        let all = fresh.iter();
        let all = all.flat_map(|range| values.range(range.start / GROUP..range.end / GROUP));
        let groups: Vec<GroupValue> = all.map(|(index, value)| (*index, *value)).collect();
        drop(values);
        if !groups.is_empty() {
            keep(&groups);
        }
    }

    fn fresh(&self) -> MutexGuard<'_, RangeSet> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep_every(&self) -> u64 {
        (self.range.len() / GROUP / KEEP_TIMES).clamp(1, KEEP_EVERY)
    }

    fn read_back(&self, range: ByteRange) -> Result<[u8; 32], StoreError> {
        let mut hash = GroupHash::new(range.start / GROUP);
        let mut bytes = vec![0; range.len() as usize];
        self.file
            .read_exact_at(&mut bytes, range.start - self.range.start)
            .map_err(|e| StoreError::from_io(&self.path, "read back", e))?;
        hash.update(&bytes);
        Ok(hash.value())
    }

    /// `range` begins with a group and ends with one or with the source; the file is empty.
    ///
    /// # Errors
    ///
    /// No such range, or no space for it.
    pub fn new(
        file: File,
        path: &Path,
        source: SourceIdentity,
        range: ByteRange,
    ) -> Result<Self, StoreError> {
        let ends = range.end == source.size || range.end.is_multiple_of(GROUP);
        if !range.start.is_multiple_of(GROUP) || !ends || range.end > source.size {
            return Err(StoreError::other(path, "fetch", "there is no such range"));
        }
        let failed = |what| move |e: std::io::Error| StoreError::from_io(path, what, e);
        file.set_len(range.len())
            .map_err(failed("set the length of"))?;
        durable::reserve(&file, range.len())
            .map_err(std::io::Error::from)
            .map_err(failed("reserve space for"))
            .map_err(|e| e.with_space(&file, Some(range.len())))?;
        Ok(Self {
            file,
            path: path.to_path_buf(),
            source,
            range,
            verified: Mutex::default(),
            keeper: None,
            fresh: Mutex::default(),
            values: Mutex::default(),
        })
    }

    /// Which bytes of it come.
    pub fn range(&self) -> ByteRange {
        self.range
    }

    /// Which version it is of.
    pub fn source(&self) -> &SourceIdentity {
        &self.source
    }

    fn lock(&self) -> MutexGuard<'_, RangeSet> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What need not come: all groups that are not in the range, and what is here.
    pub fn held(&self) -> Held {
        let groups = ByteRange::new(0, self.source.size / GROUP * GROUP);
        let mut ranges = RangeSet::new();
        ranges.insert(groups);
        ranges.remove(self.range);
        for range in self.lock().iter() {
            ranges.insert(range);
        }
        Held {
            source: self.source,
            ranges,
        }
    }

    /// Bytes of the range that have come and were verified.
    pub fn verified_bytes(&self) -> u64 {
        self.lock().byte_count()
    }
}

/// The thread that writes.
pub(super) struct RangeWriter {
    pub(super) target: Arc<RangeFile>,
    pub(super) ledger: Arc<Ledger>,
    /// What does not come, as it was told.
    absent: RangeSet,
    holes: RangeSet,
}

impl RangeWriter {
    pub(super) fn new(target: Arc<RangeFile>, held: &RangeSet, options: &SinkOptions) -> Self {
        let mut absent = held.clone();
        for hole in options.holes.iter().flat_map(RangeSet::iter) {
            absent.insert(hole);
        }
        Self {
            target,
            ledger: Arc::default(),
            absent,
            holes: options.holes.clone().unwrap_or_default(),
        }
    }

    pub(super) fn run(self, mut outlet: Outlet, reporter: Reporter<Outcome>) {
        let written = self.write(&mut outlet);
        if !matches!(written, Ok(Some(_))) {
            self.note_verified();
            self.target.keep();
        }
        match written {
            Ok(Some(outcome)) => reporter.report(Ok(outcome)),
            Ok(None) => reporter.nobody_waits(),
            Err(error) => {
                let left = self.target.range.len() - self.target.verified_bytes();
                reporter.report(Err(error.with_space(&self.target.file, Some(left))));
            }
        }
    }

    /// `None`: aborted.
    fn write(&self, outlet: &mut Outlet) -> Result<Option<Outcome>, StoreError> {
        let mut coverage = Coverage::with_groups(self.absent.byte_count() / GROUP);
        let mut batches = Vec::new();
        let mut kept = self.target.verified_bytes();
        loop {
            match outlet.gather(GATHER, &mut batches) {
                None => return Ok(None),
                Some(Gathered::Batches) => {
                    let since = Instant::now();
                    let mut bytes = 0;
                    for batch in &batches {
                        bytes += self.place(batch, &mut coverage)?;
                    }
                    outlet.recycle(&mut batches);
                    self.note_verified();
                    let verified = self.target.verified_bytes();
                    if verified - kept >= self.target.keep_every() * GROUP {
                        kept = verified;
                        self.target.keep();
                    }
                    outlet.note_written(bytes, since);
                }
                Some(Gathered::Finish { size, .. }) => {
                    self.finish(size, &coverage, outlet.written())?;
                    return Ok(Some(Outcome {
                        size,
                        hash: None,
                        reread: false,
                    }));
                }
            }
        }
    }

    fn place(&self, batch: &Batch, coverage: &mut Coverage) -> Result<u64, StoreError> {
        let RangeFile {
            file, path, range, ..
        } = &*self.target;
        let mut total = 0;
        for part in &batch.parts {
            let Some(bytes) = batch.bytes(*part) else {
                continue;
            };
            let came = ByteRange::with_len(part.offset, bytes.len() as u64);
            // The last, incomplete group of the source comes with every range of it.
            let ours = ByteRange::new(
                came.start.clamp(range.start, range.end),
                came.end.clamp(range.start, range.end),
            );
            if !ours.is_empty() {
                let within = (ours.start - came.start) as usize..(ours.end - came.start) as usize;
                file.write_all_at(&bytes[within], ours.start - range.start)
                    .map_err(|e| StoreError::from_io(path, "write", e))?;
            }
            coverage.note_written(came.start, came.end, |index| self.check(index))?;
            total += came.len();
        }
        Ok(total)
    }

    /// A group is complete: it must be what the sender says.
    fn check(&self, index: u64) -> Result<(), StoreError> {
        let group = ByteRange::with_len(index * GROUP, GROUP);
        let range = self.target.range;
        if group.start < range.start || group.end > range.end {
            return Err(self.mismatch());
        }
        let value = self.target.read_back(group)?;
        self.target.values().insert(index, value);
        if self.ledger.find(index, value) {
            Ok(())
        } else {
            Err(self.mismatch())
        }
    }

    fn note_verified(&self) {
        let nodes = self.ledger.take_verified();
        let (mut verified, mut fresh) = (self.target.lock(), self.target.fresh());
        for range in nodes.iter().filter_map(crate::tree::Node::range) {
            verified.insert(range);
            fresh.insert(range);
        }
    }

    fn finish(&self, size: u64, coverage: &Coverage, written: u64) -> Result<(), StoreError> {
        let range = self.target.range;
        let there = self.absent.byte_count() + written;
        if size != self.target.source.size || there != size || !coverage.is_whole(size) {
            return Err(StoreError::WrongLength {
                path: self.target.path.clone(),
                expected: size,
                written: there,
            });
        }
        self.note_verified();
        let groups = size / GROUP * GROUP;
        let whole = ByteRange::new(range.start.min(groups), range.end.min(groups));
        let mut known = self.target.lock().clone();
        for hole in self.holes.iter() {
            known.insert(hole);
        }
        let is_told = whole.is_empty() || known.contains(whole);
        if self.ledger.differs() || !is_told {
            return Err(self.mismatch());
        }
        if range.end > groups {
            let tail = self.target.read_back(ByteRange::new(groups, size))?;
            if self.ledger.take_told(size / GROUP) != Some(tail) {
                return Err(self.mismatch());
            }
            self.target.values().insert(size / GROUP, tail);
        }
        Ok(())
    }

    fn mismatch(&self) -> StoreError {
        StoreError::HashMismatch {
            path: self.target.path.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::group_value;
    use crate::{Part, Sink};
    use std::sync::mpsc::channel;

    const SIZE: u64 = 3 * GROUP + 5;

    fn byte(at: u64) -> u8 {
        (at * 31 % 251) as u8
    }

    fn bytes(range: ByteRange) -> Vec<u8> {
        (range.start..range.end).map(byte).collect()
    }

    fn target(range: ByteRange) -> Result<Arc<RangeFile>, StoreError> {
        let source = SourceIdentity {
            size: SIZE,
            mtime: (0, 0),
            ctime: (0, 0),
            inode: 1,
        };
        let file = tempfile::tempfile().unwrap();
        RangeFile::new(file, Path::new("x"), source, range).map(Arc::new)
    }

    /// Sends these bytes, tells the values of all groups, and ends.
    fn send(target: &Arc<RangeFile>, sent: &[(u64, Vec<u8>)]) -> Result<Outcome, StoreError> {
        let (wakes, woken) = channel();
        let wake = Arc::new(move || wakes.send(()).unwrap_or_default());
        let mut sink = Sink::range(Arc::clone(target), &SinkOptions::default(), wake).unwrap();
        let values: Vec<_> = (0..=3)
            .map(|index| {
                let end = SIZE.min((index + 1) * GROUP);
                group_value(index, &bytes(ByteRange::new(index * GROUP, end)))
            })
            .collect();
        sink.tell_values(0, &values).unwrap();
        for (offset, buf) in sent {
            let part = Part {
                at: 0,
                len: buf.len() as u32,
                offset: *offset,
            };
            let batch = Batch {
                buf: buf.clone(),
                parts: vec![part],
            };
            // Nothing more is taken once something was wrong: the outcome says what.
            if sink.submit(batch).is_err() {
                break;
            }
        }
        sink.finish(SIZE, None);
        loop {
            if let Some(outcome) = sink.poll_outcome() {
                return outcome;
            }
            woken.recv().unwrap();
        }
    }

    #[test]
    fn a_range_is_verified_and_has_nothing_else() {
        let tail = (3 * GROUP, bytes(ByteRange::new(3 * GROUP, SIZE)));
        for range in [
            ByteRange::with_len(GROUP, GROUP),
            ByteRange::new(2 * GROUP, SIZE),
        ] {
            let target = target(range).unwrap();
            let groups = ByteRange::new(range.start, range.end.min(3 * GROUP));
            send(&target, &[(groups.start, bytes(groups)), tail.clone()]).unwrap();
            let mut there = vec![0; range.len() as usize];
            target.file.read_exact_at(&mut there, 0).unwrap();
            assert!(there == bytes(range));
            assert_eq!(target.file.metadata().unwrap().len(), range.len());
            // Nothing of it comes again.
            assert_eq!(target.held().ranges.byte_count(), 3 * GROUP);
            send(&target, std::slice::from_ref(&tail)).unwrap();
        }
    }

    #[test]
    fn what_differs_or_lacks_is_refused() {
        let range = ByteRange::new(2 * GROUP, SIZE);
        let (group, tail) = (
            bytes(ByteRange::with_len(2 * GROUP, GROUP)),
            bytes(ByteRange::new(3 * GROUP, SIZE)),
        );
        let wrong = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes[0] ^= 1;
            bytes
        };
        for (group, tail) in [(wrong(&group), tail.clone()), (group.clone(), wrong(&tail))] {
            let sent = [(2 * GROUP, group), (3 * GROUP, tail)];
            let error = send(&target(range).unwrap(), &sent).unwrap_err();
            assert!(matches!(error, StoreError::HashMismatch { .. }), "{error}");
        }
        let error = send(&target(range).unwrap(), &[(2 * GROUP, group)]).unwrap_err();
        assert!(matches!(error, StoreError::WrongLength { .. }), "{error}");
        for range in [(1, GROUP), (0, GROUP + 1), (0, SIZE + GROUP)] {
            assert!(target(ByteRange::new(range.0, range.1)).is_err());
        }
    }

    #[test]
    fn a_range_goes_on_with_what_the_file_gives_back_and_nothing_else() {
        let range = ByteRange::new(GROUP, SIZE);
        let whole = |index: u64| ByteRange::with_len(index * GROUP, GROUP);
        let told = |index: u64| (index, group_value(index, &bytes(whole(index))));
        let (kept, hears) = channel();
        let file = tempfile::tempfile().unwrap();
        let source = *target(range).unwrap().source();
        let new = |file: &File| {
            let kept = kept.clone();
            RangeFile::new(file.try_clone().unwrap(), Path::new("x"), source, range)
                .unwrap()
                .keeping(move |groups| kept.send(groups.to_vec()).unwrap())
        };
        // One group comes, and the connection is lost.
        let first = Arc::new(new(&file));
        let wake: crate::Wake = Arc::new(|| ());
        let mut sink = Sink::range(Arc::clone(&first), &SinkOptions::default(), wake).unwrap();
        sink.tell_values(1, &[told(1).1, told(2).1]).unwrap();
        let buf = bytes(whole(1));
        let part = Part {
            at: 0,
            len: buf.len() as u32,
            offset: GROUP,
        };
        let parts = vec![part];
        assert!(sink.submit(Batch { buf, parts }).is_ok());
        // Nobody is woken for what was written.
        while first.verified_bytes() < GROUP {
            std::thread::yield_now();
        }
        drop(sink);
        let groups = hears.recv().unwrap();
        assert_eq!(groups, [told(1)]);
        // Another process: what is not there, or not so any more, or no part of the range, comes again.
        let odd = [told(0), told(1), told(2), (u64::MAX, [0; 32])];
        let second = Arc::new(new(&file).going_on(&odd));
        assert_eq!(second.verified_bytes(), GROUP);
        assert!(second.held().ranges.contains(whole(1)));
        assert!(!second.held().ranges.contains(whole(2)));
        let rest = [
            (2 * GROUP, bytes(whole(2))),
            (3 * GROUP, bytes(ByteRange::new(3 * GROUP, SIZE))),
        ];
        send(&second, &rest).unwrap();
        let mut there = vec![0; range.len() as usize];
        file.read_exact_at(&mut there, 0).unwrap();
        assert!(there == bytes(range));
        file.write_all_at(&[byte(GROUP + 7) ^ 1], 7).unwrap();
        assert_eq!(new(&file).going_on(&[told(1)]).verified_bytes(), 0);
        // What is in its place elsewhere need not come at all, but for its end.
        let done = Arc::new(new(&tempfile::tempfile().unwrap()).without_content());
        send(&done, &rest[1..]).unwrap();
    }
}
