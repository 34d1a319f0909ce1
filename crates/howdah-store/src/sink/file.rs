//! Writes slices to their places in a file, verifies and publishes it.

use super::Outcome;
use super::flusher::{Flusher, Keeper};
use super::group_hash::{Coverage, Failed, GroupHasher, HashWork};
use super::ledger::Ledger;
use super::queue::{AbortFlag, Gathered, Outlet};
use super::steps::Steps;
use crate::GROUP;
use crate::batch::{Batch, Part};
use crate::device::hash_of_device;
use crate::durable::{self, PartFile};
use crate::journal::Journal;
use crate::outcome::Reporter;
use crate::tree::{Node, Tree};
use crate::{Limits, RoomWait, SourceIdentity, StoreError, space, sparse};
use howdah_core::RangeSet;
use rustix::io::Errno;
use std::fs::File;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Instant;

/// Payload bytes that are sorted and written together.
const GATHER: u64 = 1 << 20;
/// Slices in one `pwritev` (`IOV_MAX`).
const MAX_SLICES: usize = 1024;

/// What one writer thread needs to know.
pub(super) struct FileWriter {
    pub(super) part: Arc<PartFile>,
    pub(super) hash: bool,
    pub(super) reread: bool,
    pub(super) size_hint: Option<u64>,
    pub(super) room: RoomWait,
    pub(super) limits: Limits,
    /// If the source has holes.
    pub(super) sparse: Option<Sparse>,
    /// If the next copy is to find what this one has done.
    pub(super) journalled: Option<Journalled>,
}

/// The holes of a file.
pub(super) struct Sparse {
    /// Groups that do not come, and that no earlier run has made.
    pub(super) holes: RangeSet,
    /// What has not been written yet reads as zeros.
    pub(super) is_new: bool,
}

/// What makes a copy one that can be gone on with.
pub(super) struct Journalled {
    pub(super) source: SourceIdentity,
    pub(super) ledger: Arc<Ledger>,
    /// Of an earlier run, and what it claims.
    pub(super) journal: Option<Journal>,
    pub(super) nodes: Vec<Node>,
    pub(super) held_bytes: u64,
}

impl FileWriter {
    pub(super) fn run(mut self, outlet: Outlet, reporter: Reporter<Outcome>) {
        let stored = self.stored();
        let result = match self.write(outlet) {
            Ok(Some(outcome)) => Some(Ok(outcome)),
            Ok(None) => {
                self.part.discard();
                None
            }
            Err(error) => {
                // Asked before the space comes back.
                let error = with_figures(error, &self.part, stored);
                self.part.discard();
                Some(Err(error))
            }
        };
        // Closed before anybody hears of it: whoever removes the file then has its space, and may unmount the disk.
        drop(self);
        match result {
            Some(result) => reporter.report(result),
            None => reporter.nobody_waits(),
        }
    }

    /// Bytes that are to lie on the disk, as far as that is known.
    fn stored(&self) -> Option<u64> {
        let holes = self.sparse.as_ref().map_or(0, |s| s.holes.byte_count());
        self.size_hint.map(|size| size.saturating_sub(holes))
    }

    /// Takes the space of the first bytes of a file of that size, where that can be. The rest is taken as they come.
    fn reserve(&self, size: u64, first: u64) -> Result<(), StoreError> {
        let file = self.part.file();
        let checked = if self.room.is_patient() {
            space::fits(file, size)
        } else {
            // That was looked at already.
            Ok(())
        };
        checked
            .and_then(|()| durable::reserve(file, first))
            .map_err(|e| StoreError::from_io(self.part.path(), "reserve space for", e))
    }

    /// `None`: aborted.
    fn write(&mut self, mut outlet: Outlet) -> Result<Option<Outcome>, StoreError> {
        self.part.remove_stale();
        let mut steps = None;
        match (&self.sparse, self.size_hint) {
            (Some(sparse), Some(size)) => self.prepare_holes(sparse, size)?,
            (None, Some(size)) => {
                let figures = |error| with_figures(error, &self.part, Some(size));
                let steps = steps.insert(Steps::new(size));
                let held = self.journalled.as_ref().map_or(0, |j| j.held_bytes);
                let first = steps.next(held).unwrap_or(0);
                let reserve = || self.reserve(size, first);
                self.room
                    .until_room(|| outlet.is_aborted(), figures, reserve)?;
            }
            (_, None) => {}
        }
        let holes = self.sparse.as_ref().map(|sparse| sparse.holes.clone());
        let hole_bytes = holes.as_ref().map_or(0, RangeSet::byte_count);
        let mut tree = Tree::default();
        let (mut held_bytes, mut ledger, mut keeper) = (0, None, None);
        if let Some(journalled) = self.journalled.take() {
            held_bytes = journalled.held_bytes;
            for node in journalled.nodes {
                tree.insert_node(node);
            }
            ledger = Some(Arc::clone(&journalled.ledger));
            keeper = Some(Keeper {
                source: journalled.source,
                ledger: journalled.ledger,
                journal: journalled.journal,
                broken: false,
            });
        }
        let hasher = self.hash.then(|| {
            let work = HashWork {
                part: Arc::clone(&self.part),
                tree,
                ledger: ledger.clone(),
                holes,
                aborted: outlet.abort_flag(),
            };
            work.start()
        });
        let mut placer = Placer {
            part: &self.part,
            room: &self.room,
            stored: self.stored(),
            aborted: outlet.abort_flag(),
            coverage: Coverage::with_groups((held_bytes + hole_bytes) / GROUP),
            held_bytes,
            come: held_bytes,
            steps,
            hole_bytes,
            hasher: hasher.transpose()?,
            ledger,
            order: Vec::new(),
            sparse: self.sparse.take(),
        };
        let mut flusher = Flusher::new(&self.part, &self.limits, keeper);
        let mut batches = Vec::new();
        loop {
            match outlet.gather(GATHER, &mut batches) {
                None => return Ok(None),
                Some(Gathered::Batches) => {
                    let since = Instant::now();
                    let Some(bytes) = placer.place(&batches)? else {
                        return Err(placer.hash_failure());
                    };
                    outlet.recycle(&mut batches);
                    flusher.note_written(outlet.written() + bytes)?;
                    outlet.note_written(bytes, since);
                }
                Some(Gathered::Finish {
                    size,
                    hash: expected,
                }) => {
                    let hash = placer.verify(size, expected, outlet.written())?;
                    // A flush that still runs might take the error that our fsync should see.
                    flusher.finish()?;
                    if outlet.is_aborted() {
                        return Ok(None);
                    }
                    let reread = match hash {
                        Some(hash) if self.reread => {
                            self.verify_device(size, hash)?;
                            true
                        }
                        _ => false,
                    };
                    self.part.publish(size)?;
                    return Ok(Some(Outcome { size, hash, reread }));
                }
            }
        }
    }

    /// Zeros where nothing will come.
    fn prepare_holes(&self, sparse: &Sparse, size: u64) -> Result<(), StoreError> {
        let (file, path) = (self.part.file(), self.part.path());
        file.set_len(size)
            .map_err(|e| StoreError::from_io(path, "set the length of", e))?;
        for hole in sparse.holes.iter().filter(|_| !sparse.is_new) {
            sparse::clear(file, hole)
                .map_err(|e| StoreError::from_io(path, "make a hole in", e))?;
        }
        Ok(())
    }

    /// What memory gave back was right; is it so on the device?
    fn verify_device(&self, size: u64, hash: [u8; 32]) -> Result<(), StoreError> {
        let (file, path) = (self.part.file(), self.part.path());
        file.sync_all()
            .map_err(|e| StoreError::from_io(path, "sync", e))?;
        if hash_of_device(file, size, path)? == hash {
            return Ok(());
        }
        // Nothing of it is to be believed, whatever the journal says.
        self.part.forsake();
        Err(StoreError::HashMismatch {
            path: self.part.path().to_path_buf(),
        })
    }
}

/// Puts slices where they belong and keeps the books.
struct Placer<'a> {
    part: &'a PartFile,
    room: &'a RoomWait,
    /// Bytes that the file takes on the disk in the end, as far as that is known.
    stored: Option<u64>,
    aborted: AbortFlag,
    coverage: Coverage,
    /// Written by an earlier run.
    held_bytes: u64,
    /// Written by now, with that.
    come: u64,
    /// The space ahead of it, if it is taken ahead.
    steps: Option<Steps>,
    /// Does not come and is zero.
    hole_bytes: u64,
    hasher: Option<GroupHasher>,
    ledger: Option<Arc<Ledger>>,
    /// Reused: parts in the order of the object, and their batches.
    order: Vec<(Part, u32)>,
    sparse: Option<Sparse>,
}

impl Placer<'_> {
    /// Writes all parts, neighbours together; returns the number of bytes. `None`: the hasher
    /// has failed.
    fn place(&mut self, batches: &[Batch]) -> Result<Option<u64>, StoreError> {
        let order = &mut self.order;
        order.clear();
        for (i, batch) in batches.iter().enumerate() {
            order.extend(
                batch
                    .parts
                    .iter()
                    .filter(|p| p.len > 0)
                    .map(|&p| (p, i as u32)),
            );
        }
        // Nearly sorted already: a stable sort finds the runs.
        order.sort_by_key(|(part, _)| part.offset);
        let mut total = 0;
        let mut slices = Vec::with_capacity(order.len().min(MAX_SLICES));
        let figures = |error| with_figures(error, self.part, self.stored);
        for run in order.chunk_by(|(a, _), (b, _)| a.offset + u64::from(a.len) == b.offset) {
            for run in run.chunks(MAX_SLICES) {
                let start = run[0].0.offset;
                let write = || {
                    slices.clear();
                    slices.extend(run.iter().filter_map(|(part, batch)| {
                        batches[*batch as usize].bytes(*part).map(IoSlice::new)
                    }));
                    let written = match &self.sparse {
                        None => write_all_at(self.part.file(), &mut slices, start),
                        Some(sparse) => write_sparse(self.part.file(), sparse, &slices, start),
                    };
                    written.map_err(|e| StoreError::from_io(self.part.path(), "write", e))
                };
                let aborted = || self.aborted.is_set();
                let bytes = self.room.until_room(aborted, figures, write)?;
                total += bytes;
                let hasher = self.hasher.as_ref();
                let hash = |index| hasher.map_or(Ok(()), |hasher| hasher.hash(index));
                if let Err(Failed) = self.coverage.note_written(start, start + bytes, hash) {
                    return Ok(None);
                }
            }
        }
        self.come += total;
        if let Some(to) = self.steps.as_mut().and_then(|steps| steps.next(self.come)) {
            // If it cannot be had, whatever needs it will say so.
            let _ = durable::reserve(self.part.file(), to);
        }
        Ok(Some(total))
    }

    fn hash_failure(self) -> StoreError {
        match self.hasher {
            Some(hasher) => hasher.failure(),
            None => StoreError::other(self.part.path(), "hash", "there is no hasher"),
        }
    }

    fn verify(
        &mut self,
        size: u64,
        expected: Option<[u8; 32]>,
        written: u64,
    ) -> Result<Option<[u8; 32]>, StoreError> {
        let path = || self.part.path().to_path_buf();
        let there = self.held_bytes + self.hole_bytes + written;
        if there != size || !self.coverage.is_whole(size) {
            return Err(StoreError::WrongLength {
                path: path(),
                expected: size,
                written: there,
            });
        }
        let Some(hasher) = self.hasher.take() else {
            return Ok(None);
        };
        let Some(hashed) = hasher.finish(size)? else {
            return Err(StoreError::HashMismatch { path: path() });
        };
        let right = match expected {
            Some(expected) => hashed.root == expected,
            // A sender that did not send everything does not know the whole.
            None if self.held_bytes > 0 => self.is_told_group_by_group(size, hashed.tail),
            None => true,
        };
        if right {
            return Ok(Some(hashed.root));
        }
        if expected.is_some() {
            // All groups may be as they were told, and still not be what the sender has.
            self.part.forsake();
        }
        Err(StoreError::HashMismatch { path: path() })
    }

    /// Whether every group was verified, in this run or in an earlier one.
    fn is_told_group_by_group(&self, size: u64, tail: Option<[u8; 32]>) -> bool {
        self.ledger.as_ref().is_some_and(|ledger| {
            let told = ledger.take_told(size / GROUP);
            !ledger.differs()
                && self.held_bytes / GROUP + ledger.verified_count() == size / GROUP
                && (tail.is_none() || tail == told)
        })
    }
}

/// Adds to an error about space what there is and what a file with `stored` bytes on the disk lacks.
fn with_figures(error: StoreError, part: &PartFile, stored: Option<u64>) -> StoreError {
    let file = part.file();
    error.with_space(file, stored.map(|size| space::lacks(file, size)))
}

/// Like [`write_all_at`], and leaves out blocks of zeros.
fn write_sparse(
    file: &File,
    sparse: &Sparse,
    slices: &[IoSlice<'_>],
    offset: u64,
) -> std::io::Result<u64> {
    let mut end = offset;
    let mut pieces = Vec::with_capacity(slices.len());
    for slice in slices {
        pieces.push((end, &**slice));
        end += slice.len() as u64;
    }
    for stretch in sparse::stretches(&pieces) {
        if !stretch.is_zero {
            let within = pieces
                .iter()
                .filter_map(|p| sparse::within(p, stretch.range));
            let mut slices: Vec<_> = within.collect();
            write_all_at(file, &mut slices, stretch.range.start)?;
        } else if !sparse.is_new {
            sparse::clear(file, stretch.range)?;
        }
    }
    Ok(end - offset)
}

/// Writes all slices one after the other from `offset` on; returns the number of bytes.
fn write_all_at(file: &File, mut slices: &mut [IoSlice<'_>], offset: u64) -> std::io::Result<u64> {
    let mut at = offset;
    while !slices.is_empty() {
        match rustix::io::pwritev(file, slices, at) {
            Ok(0) => return Err(Errno::IO.into()),
            Ok(written) => {
                at += written as u64;
                IoSlice::advance_slices(&mut slices, written);
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(at - offset)
}
