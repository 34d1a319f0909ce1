//! Writes to a pipe: in order, whatever order the slices come in.

use super::Outcome;
use super::early::{Early, above};
use super::queue::{Gathered, Outlet};
use crate::StoreError;
use crate::batch::{Batch, Part};
use crate::outcome::Reporter;
use std::io::{IoSlice, Write};
use std::path::Path;
use std::time::Instant;

/// Payload bytes that are taken from the queue at a time.
const GATHER: u64 = 256 << 10;

/// The work of one writer thread.
pub(super) struct OrderedWriter {
    writer: Box<dyn Write + Send>,
    hasher: Option<StagedHasher>,
    window: u64,
    /// Everything below has been written.
    at: u64,
    early: Early,
    /// Window's end that the engine was last told.
    announced: u64,
}

impl OrderedWriter {
    pub(super) fn new(writer: Box<dyn Write + Send>, hash: bool, window: u64) -> Self {
        Self {
            writer,
            hasher: hash.then(StagedHasher::default),
            window: window.max(1),
            at: 0,
            early: Early::default(),
            announced: window,
        }
    }

    pub(super) fn run(mut self, mut outlet: Outlet, reporter: Reporter<Outcome>) {
        match self.write(&mut outlet) {
            Ok(Some(outcome)) => reporter.report(Ok(outcome)),
            Ok(None) => reporter.nobody_waits(),
            Err(error) => reporter.report(Err(error)),
        }
    }

    fn write(&mut self, outlet: &mut Outlet) -> Result<Option<Outcome>, StoreError> {
        let mut batches = Vec::new();
        let mut order = Vec::new();
        loop {
            match outlet.gather(GATHER, &mut batches) {
                None => return Ok(None),
                Some(Gathered::Batches) => {
                    let (since, before) = (Instant::now(), self.at);
                    self.place(&mut batches, &mut order, outlet)?;
                    outlet.note_written(self.at - before, since);
                }
                Some(Gathered::Finish { size, hash }) => return self.finish(size, hash).map(Some),
            }
        }
    }

    /// Writes what has its turn, and keeps what comes early.
    fn place(
        &mut self,
        batches: &mut Vec<Batch>,
        order: &mut Vec<(Part, u32)>,
        outlet: &mut Outlet,
    ) -> Result<(), StoreError> {
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
        order.sort_by_key(|(part, _)| part.offset);
        let mut rest = &order[..];
        while let Some((first, _)) = rest.first()
            && first.offset == self.at
        {
            let run = rest
                .chunk_by(|(a, _), (b, _)| a.offset + u64::from(a.len) == b.offset)
                .next()
                .unwrap_or_default();
            let mut slices: Vec<_> = run
                .iter()
                .filter_map(|(p, batch)| batches[*batch as usize].bytes(*p).map(IoSlice::new))
                .collect();
            self.put(&mut slices)?;
            rest = &rest[run.len()..];
            self.announce(outlet);
            self.put_early(outlet)?;
        }
        let below = rest.first().is_some_and(|(part, _)| part.offset < self.at);
        let beyond = rest.last().is_some_and(|(part, _)| {
            part.offset + u64::from(part.len) > self.at.saturating_add(self.window)
        });
        if below || beyond {
            let error = std::io::Error::other("a slice outside of the window");
            return Err(failed("order", error));
        }
        let mut freed = 0;
        for batch in batches.drain(..) {
            freed += batch.charge();
            let waiting = above(batch, self.at);
            if waiting.parts.is_empty() {
                outlet.spare(waiting.buf);
            } else {
                self.early.keep(waiting);
            }
        }
        outlet.note_early(self.early.bytes());
        outlet.free(freed);
        Ok(())
    }

    /// Writes what has become contiguous, in pieces, so that no reader gets all of it at once.
    fn put_early(&mut self, outlet: &mut Outlet) -> Result<(), StoreError> {
        let mut early = std::mem::take(&mut self.early);
        loop {
            let mut run = early.run(self.at, GATHER);
            if run.is_empty() {
                break;
            }
            self.put(&mut run)?;
            early.forget_below(self.at, |buf| outlet.spare(buf));
            // What a slow writer has still to write waits for nothing that was lost.
            outlet.note_early(0);
            self.announce(outlet);
        }
        self.early = early;
        Ok(())
    }

    /// Writes the next bytes of the object.
    fn put(&mut self, mut slices: &mut [IoSlice<'_>]) -> Result<(), StoreError> {
        let mut total = 0;
        for slice in &*slices {
            total += slice.len() as u64;
            if let Some(hasher) = &mut self.hasher {
                hasher.update(slice);
            }
        }
        let mut left = total;
        while left > 0 {
            match self.writer.write_vectored(slices) {
                Ok(0) => return Err(failed("write", std::io::ErrorKind::WriteZero.into())),
                Ok(written) => {
                    left -= written as u64;
                    IoSlice::advance_slices(&mut slices, written);
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(failed("write", e)),
            }
        }
        self.at += total;
        Ok(())
    }

    /// Tells the engine about a moved window, not for every small step.
    fn announce(&mut self, outlet: &Outlet) {
        self.window = self.window.max(outlet.wanted_window());
        let end = self.at.saturating_add(self.window);
        if end - self.announced >= (self.window / 64).max(1) {
            self.announced = end;
            outlet.set_window(end);
        }
    }

    fn finish(&mut self, size: u64, expected: Option<[u8; 32]>) -> Result<Outcome, StoreError> {
        let path = Path::new("-").to_path_buf();
        if self.at != size || !self.early.is_empty() {
            return Err(StoreError::WrongLength {
                path,
                expected: size,
                written: self.at,
            });
        }
        self.writer.flush().map_err(|e| failed("write", e))?;
        let hash = self.hasher.take().map(StagedHasher::finish);
        match (expected, hash) {
            (Some(expected), Some(hash)) if expected != hash => {
                Err(StoreError::HashMismatch { path })
            }
            _ => Ok(Outcome {
                size,
                hash,
                reread: false,
            }),
        }
    }
}

/// BLAKE3 fed by large blocks: packets alone are too short for its widest instructions, and a copy
/// costs less than half of what that loses.
#[derive(Default)]
struct StagedHasher {
    hasher: blake3::Hasher,
    block: Vec<u8>,
}

impl StagedHasher {
    const BLOCK: usize = 128 << 10;

    fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (head, tail) = bytes.split_at(bytes.len().min(Self::BLOCK - self.block.len()));
            self.block.extend_from_slice(head);
            bytes = tail;
            if self.block.len() == Self::BLOCK {
                self.hasher.update(&self.block);
                self.block.clear();
            }
        }
    }

    fn finish(mut self) -> [u8; 32] {
        *self.hasher.update(&self.block).finalize().as_bytes()
    }
}

fn failed(operation: &'static str, error: std::io::Error) -> StoreError {
    StoreError::from_io(Path::new("-"), operation, error)
}
