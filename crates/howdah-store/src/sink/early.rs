//! What came before its turn, in chunks: memory is taken for what is held, not for all that could be.

use howdah_core::{ByteRange, RangeSet};
use std::collections::BTreeMap;

/// Bytes of a chunk.
const CHUNK: u64 = 256 << 10;
/// Chunks that stay for the next ones: new memory is dear.
const SPARES_MAX: usize = 8;

/// Bytes by their place in the object.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// By the number of the chunk.
    chunks: BTreeMap<u64, Vec<u8>>,
    held: RangeSet,
    spares: Vec<Vec<u8>>,
}

impl Early {
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Keeps `bytes`, which belong at `offset`.
    pub(super) fn keep(&mut self, offset: u64, bytes: &[u8]) {
        let range = ByteRange::with_len(offset, bytes.len() as u64);
        self.held.insert(range);
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let within = (at % CHUNK) as usize;
            let (head, tail) = rest.split_at(rest.len().min(CHUNK as usize - within));
            let spares = &mut self.spares;
            let chunk = self
                .chunks
                .entry(at / CHUNK)
                .or_insert_with(|| spares.pop().unwrap_or_else(|| vec![0; CHUNK as usize]));
            chunk[within..within + head.len()].copy_from_slice(head);
            at += head.len() as u64;
            rest = tail;
        }
    }

    /// The bytes from `at` on, as far as they are held and within one chunk.
    pub(super) fn piece(&self, at: u64) -> Option<&[u8]> {
        let range = self.held.iter().next().filter(|range| range.start == at)?;
        let from = (at % CHUNK) as usize;
        let len = range.len().min(CHUNK - at % CHUNK) as usize;
        self.chunks.get(&(at / CHUNK))?.get(from..from + len)
    }

    /// Nothing below `at` is needed any more.
    pub(super) fn forget_below(&mut self, at: u64) {
        self.held.remove(ByteRange::new(0, at));
        while let Some(first) = self.chunks.first_entry()
            && *first.key() < at / CHUNK
        {
            let chunk = first.remove();
            if self.spares.len() < SPARES_MAX {
                self.spares.push(chunk);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(early: &mut Early, mut at: u64) -> Vec<u8> {
        let mut out = Vec::new();
        while let Some(piece) = early.piece(at) {
            out.extend_from_slice(piece);
            at += piece.len() as u64;
            early.forget_below(at);
        }
        out
    }

    #[test]
    fn what_is_held_comes_back_and_its_memory_is_used_again() {
        let mut early = Early::default();
        let data: Vec<u8> = (0..3 * CHUNK + 1000).map(|k| (k % 251) as u8).collect();
        for start in [0, 7 * CHUNK + 5] {
            let at = |index: usize| start + index as u64;
            // From behind, with a hole.
            early.keep(at(600_000), &data[600_000..]);
            early.keep(at(10), &data[10..500_000]);
            assert_eq!(early.piece(start), None);
            assert!(taken(&mut early, at(10)) == data[10..500_000]);
            assert_eq!(early.piece(at(500_000)), None, "a hole");
            early.keep(at(500_000), &data[500_000..600_000]);
            assert!(taken(&mut early, at(500_000)) == data[500_000..]);
            assert!(early.is_empty());
            assert!(early.chunks.len() <= 1, "the last one is not full");
        }
        assert!(early.spares.len() <= SPARES_MAX, "{}", early.spares.len());
    }
}
