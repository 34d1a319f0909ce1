//! Compares what comes with a file that is there and must not be replaced.

use super::queue::{Gathered, Outlet};
use super::{Outcome, SinkOptions};
use crate::batch::Batch;
use crate::durable::Place;
use crate::names::sync_dir;
use crate::outcome::Reporter;
use crate::{StoreError, same, sparse, stale};
use howdah_core::{ByteRange, RangeSet};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Instant;

/// Payload bytes that are compared together.
const GATHER: u64 = 1 << 20;

pub(super) struct Comparer {
    file: File,
    place: Place,
    size: u64,
    hash: bool,
    /// What has come, or will not.
    seen: RangeSet,
    holes: RangeSet,
    differs: bool,
}

impl Comparer {
    /// An error if it cannot be the same.
    pub(super) fn new(place: Place, options: &SinkOptions) -> Result<Self, StoreError> {
        let size = options.size.or_else(|| place.taken_bytes());
        let there = size.and_then(|size| same::open(place.dir(), place.name(), size));
        let (Some(file), Some(size)) = (there, size) else {
            return Err(refused(&place));
        };
        let holes = options.holes.clone().unwrap_or_default();
        Ok(Self {
            file,
            place,
            size,
            hash: options.hash,
            seen: holes.clone(),
            holes,
            differs: false,
        })
    }

    pub(super) fn run(mut self, mut outlet: Outlet, reporter: Reporter<Outcome>) {
        match self.compare(&mut outlet) {
            Ok(Some(outcome)) => reporter.report(Ok(outcome)),
            Ok(None) => reporter.nobody_waits(),
            Err(error) => reporter.report(Err(error)),
        }
    }

    /// `None`: aborted.
    fn compare(&mut self, outlet: &mut Outlet) -> Result<Option<Outcome>, StoreError> {
        let mut batches = Vec::new();
        loop {
            match outlet.gather(GATHER, &mut batches) {
                None => return Ok(None),
                Some(Gathered::Batches) => {
                    let since = Instant::now();
                    let bytes = batches.iter().map(|batch| self.look(batch)).sum();
                    outlet.recycle(&mut batches);
                    outlet.note_written(bytes, since);
                }
                Some(Gathered::Finish { size, hash }) => {
                    let outcome = self.finish(size, hash, &|| outlet.is_aborted());
                    // Nobody waits for it.
                    return match outcome {
                        Err(StoreError::Aborted) => Ok(None),
                        outcome => outcome.map(Some),
                    };
                }
            }
        }
    }

    fn look(&mut self, batch: &Batch) -> u64 {
        let mut there = Vec::new();
        let mut bytes = 0;
        for part in &batch.parts {
            let Some(ours) = batch.bytes(*part) else {
                continue;
            };
            there.resize(ours.len(), 0);
            let read = self.file.read_exact_at(&mut there, part.offset);
            self.differs |= read.is_err() || there != ours;
            self.seen
                .insert(ByteRange::with_len(part.offset, ours.len() as u64));
            bytes += ours.len() as u64;
        }
        bytes
    }

    fn finish(
        &self,
        size: u64,
        expected: Option<[u8; 32]>,
        is_aborted: &dyn Fn() -> bool,
    ) -> Result<Outcome, StoreError> {
        let path = self.place.path();
        if self.differs || size != self.size {
            return Err(refused(&self.place));
        }
        if !self.seen.contains(ByteRange::new(0, size)) {
            return Err(StoreError::WrongLength {
                path: path.to_path_buf(),
                expected: size,
                written: self.seen.byte_count(),
            });
        }
        let hash = if self.hash || expected.is_some() {
            Some(self.hash(is_aborted)?)
        } else {
            None
        };
        let same = match expected {
            Some(expected) => hash == Some(expected),
            None => self.has_holes(is_aborted)?,
        };
        if !same {
            return Err(refused(&self.place));
        }
        // Whoever wrote it may have been killed before.
        let synced = self.file.sync_all();
        synced.map_err(|e| StoreError::from_io(path, "sync", e))?;
        let synced = sync_dir(self.place.dir());
        synced.map_err(|e| StoreError::from_io(path, "sync the directory of", e))?;
        stale::remove_stale(self.place.dir(), self.place.name(), None);
        Ok(Outcome {
            size,
            hash: hash.filter(|_| self.hash),
            reread: false,
        })
    }

    fn hash(&self, is_aborted: &dyn Fn() -> bool) -> Result<[u8; 32], StoreError> {
        let mut hasher = blake3::Hasher::new();
        let whole = ByteRange::new(0, self.size);
        self.each_block(whole, is_aborted, |block| {
            hasher.update(block);
            true
        })?;
        Ok(*hasher.finalize().as_bytes())
    }

    /// Whether zeros are where nothing came.
    fn has_holes(&self, is_aborted: &dyn Fn() -> bool) -> Result<bool, StoreError> {
        for hole in self.holes.iter() {
            if !sparse::is_hole(&self.file, hole)
                && !self.each_block(hole, is_aborted, sparse::is_zero)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Hands over what is there in pieces, until `look` has seen enough, which comes back, or nobody waits for it.
    fn each_block(
        &self,
        range: ByteRange,
        is_aborted: &dyn Fn() -> bool,
        mut look: impl FnMut(&[u8]) -> bool,
    ) -> Result<bool, StoreError> {
        let mut block = vec![0; GATHER as usize];
        let mut at = range.start;
        while at < range.end {
            if is_aborted() {
                return Err(StoreError::Aborted);
            }
            let len = (range.end - at).min(GATHER) as usize;
            let read = self.file.read_exact_at(&mut block[..len], at);
            read.map_err(|e| StoreError::from_io(self.place.path(), "read", e))?;
            if !look(&block[..len]) {
                return Ok(false);
            }
            at += len as u64;
        }
        Ok(true)
    }
}

fn refused(place: &Place) -> StoreError {
    StoreError::MayOnlyAdd {
        path: place.path().to_path_buf(),
    }
}
