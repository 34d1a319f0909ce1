//! What came before its turn, in the buffers that it came in: no copy, and no memory besides theirs.

use crate::batch::{Batch, Part};
use std::collections::BTreeMap;
use std::io::IoSlice;

/// Eighths of a buffer that must be waited for when it comes, and later on. Else it is exchanged for one of that length: what is held is
/// what waits, whatever order a peer sends in.
const FULL: u64 = 7;
const HOLLOW: u64 = 4;

/// Slices by their place in the object.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// By its first byte: the place of its batch, and which of that one's parts it is.
    slices: BTreeMap<u64, (usize, usize)>,
    batches: Vec<Kept>,
    /// Places that nobody has.
    free: Vec<usize>,
    /// Bytes that wait.
    bytes: u64,
}

#[derive(Debug, Default)]
struct Kept {
    batch: Batch,
    /// Bytes that wait.
    bytes: u64,
}

impl Early {
    pub(super) fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Keeps a batch; all its parts wait.
    pub(super) fn keep(&mut self, batch: Batch) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.batches.push(Kept::default());
            self.batches.len() - 1
        });
        for (index, part) in batch.parts.iter().enumerate() {
            self.slices.insert(part.offset, (place, index));
        }
        let bytes = batch.payload_bytes();
        self.bytes += bytes;
        self.batches[place] = Kept { batch, bytes };
        self.tighten(place, FULL);
    }

    /// The bytes from `at` on, as far as they are held: about `most` of them.
    pub(super) fn run(&self, at: u64, most: u64) -> Vec<IoSlice<'_>> {
        let mut end = at;
        let mut out = Vec::new();
        for (&offset, &(place, index)) in self.slices.range(at..) {
            if offset != end || end - at >= most {
                break;
            }
            let Kept { batch, .. } = &self.batches[place];
            let Some(bytes) = batch.parts.get(index).and_then(|part| batch.bytes(*part)) else {
                break;
            };
            end += bytes.len() as u64;
            out.push(IoSlice::new(bytes));
        }
        out
    }

    /// Nothing below `at` is needed any more. Buffers of which nothing is go to `spare`.
    pub(super) fn forget_below(&mut self, at: u64, mut spare: impl FnMut(Vec<u8>)) {
        while let Some(first) = self.slices.first_entry()
            && *first.key() < at
        {
            let (place, index) = first.remove();
            let kept = &mut self.batches[place];
            let len = kept.batch.parts.get(index).map_or(0, |part| part.len);
            kept.bytes -= u64::from(len);
            self.bytes -= u64::from(len);
            if kept.bytes == 0 {
                spare(std::mem::take(kept).batch.buf);
                self.free.push(place);
            } else {
                self.tighten(place, HOLLOW);
            }
        }
    }

    /// Gives up what of a buffer nobody waits for, if that is much.
    fn tighten(&mut self, place: usize, least_eighths: u64) {
        let Kept { batch, bytes } = &mut self.batches[place];
        if *bytes * 8 >= batch.buf.capacity() as u64 * least_eighths {
            return;
        }
        let mut buf = Vec::with_capacity(usize::try_from(*bytes).unwrap_or(0));
        for (index, part) in batch.parts.iter_mut().enumerate() {
            let waits = self.slices.get(&part.offset) == Some(&(place, index));
            let from = part.at as usize;
            let bytes = batch.buf.get(from..from + part.len as usize);
            if let (true, Some(bytes)) = (waits, bytes) {
                part.at = u32::try_from(buf.len()).unwrap_or(u32::MAX);
                buf.extend_from_slice(bytes);
            }
        }
        batch.buf = buf;
    }
}

/// A batch without the parts below `at`.
pub(super) fn above(mut batch: Batch, at: u64) -> Batch {
    batch
        .parts
        .retain(|part: &Part| part.offset >= at && part.len > 0);
    batch
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 1000;

    fn data() -> Vec<u8> {
        (0..40 * LEN).map(|k| (k % 251) as u8).collect()
    }

    /// The given slices of the data, each of `LEN`, in one buffer.
    fn batch(data: &[u8], slices: &[usize]) -> Batch {
        let mut batch = Batch::default();
        for &slice in slices {
            batch.parts.push(Part {
                at: batch.buf.len() as u32,
                len: LEN as u32,
                offset: (slice * LEN) as u64,
            });
            batch.buf.extend_from_slice(&data[slice * LEN..][..LEN]);
        }
        batch.buf.shrink_to_fit();
        batch
    }

    fn taken(early: &mut Early, mut at: u64) -> (Vec<u8>, usize) {
        let (mut out, mut spares) = (Vec::new(), 0);
        loop {
            let run = early.run(at, 2500);
            let run: Vec<u8> = run.iter().flat_map(|slice| slice.iter().copied()).collect();
            if run.is_empty() {
                return (out, spares);
            }
            at += run.len() as u64;
            out.extend(run);
            early.forget_below(at, |_| spares += 1);
        }
    }

    #[test]
    fn what_is_held_comes_back_in_order_and_its_buffers_too() {
        let (mut early, data) = (Early::default(), data());
        for round in 0..3 {
            early.keep(batch(&data, &[7, 8, 2]));
            early.keep(batch(&data, &[3, 5, 6]));
            assert_eq!(taken(&mut early, 0), (vec![], 0), "a hole");
            let (bytes, spares) = taken(&mut early, 2 * LEN as u64);
            assert!(bytes == data[2 * LEN..4 * LEN]);
            assert_eq!(spares, 0);
            early.keep(batch(&data, &[4]));
            let (bytes, spares) = taken(&mut early, 4 * LEN as u64);
            assert!(bytes == data[4 * LEN..9 * LEN]);
            assert_eq!(spares, 3);
            assert!(early.is_empty());
            assert!(early.batches.len() <= 3, "{round}: places are used again");
        }
    }

    #[test]
    fn a_buffer_of_which_little_waits_is_exchanged() {
        let (mut early, data) = (Early::default(), data());
        // Each buffer has one slice whose turn is at the end.
        let mut at = 0;
        for round in 0..9 {
            let first = round * 3;
            early.keep(batch(&data, &[first, first + 1, first + 2, 30 + round]));
            let (bytes, spares) = taken(&mut early, at);
            at += bytes.len() as u64;
            assert_eq!((bytes.len(), spares), (3 * LEN, 0));
        }
        let held: usize = early
            .batches
            .iter()
            .map(|kept| kept.batch.buf.capacity())
            .sum();
        assert!(held <= 9 * LEN * 8 / HOLLOW as usize, "{held}");
        early.keep(batch(&data, &[27, 28, 29]));
        let (bytes, spares) = taken(&mut early, at);
        assert!(bytes == data[27 * LEN..39 * LEN]);
        assert_eq!(spares, 10);
    }

    #[test]
    fn what_is_below_is_left_out() {
        let data = data();
        let kept = above(batch(&data, &[1, 5, 2, 9]), 3 * LEN as u64);
        let offsets: Vec<u64> = kept.parts.iter().map(|part| part.offset).collect();
        assert_eq!(offsets, [5 * LEN as u64, 9 * LEN as u64]);
    }
}
