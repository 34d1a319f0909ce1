//! Bytes that have come of an object whose place is not open yet.

use super::receiving::Receiving;
use howdah_core::{ByteRange, ObjectId};
use howdah_net::Placement;

/// As much is kept at the most; what comes beyond comes again.
pub(crate) const KEPT_MAX: usize = 4 << 20;
/// What a piece takes besides its bytes: a peer may send single ones.
const PIECE_BYTES: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pieces: Vec<(u64, Vec<u8>)>,
    bytes: usize,
}

impl Kept {
    /// What it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn place(&mut self, buffer: &[u8], parts: &[Placement]) {
        for part in parts {
            let len = part.range.len() as usize;
            let Some(bytes) = buffer.get(part.at..part.at + len) else {
                continue;
            };
            self.bytes += len;
            match self.pieces.last_mut() {
                Some((start, kept)) if *start + kept.len() as u64 == part.range.start => {
                    kept.extend_from_slice(bytes);
                }
                _ => {
                    self.bytes += PIECE_BYTES;
                    self.pieces.push((part.range.start, bytes.to_vec()));
                }
            }
        }
    }

    /// Hands all of it on.
    pub(crate) fn give(self, receiving: &mut Receiving) {
        for (start, mut bytes) in self.pieces {
            let whole = ByteRange::with_len(start, bytes.len() as u64);
            // What is right on the disk is not written again.
            let missing = receiving.held().missing(whole).map(|range| Placement {
                at: (range.start - start) as usize,
                range,
            });
            let parts: Vec<_> = missing.collect();
            if !parts.is_empty() {
                receiving.place(&mut bytes, &parts);
            }
        }
    }
}

/// A file that comes and whose place is not open.
#[derive(Debug)]
pub(crate) struct Early {
    pub(crate) object: ObjectId,
    pub(crate) kept: Kept,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h18_single_bytes_that_come_early_are_no_more_than_may_be_kept() {
        let mut kept = Kept::default();
        let (mut came, mut at) = (0, 0);
        while kept.bytes() < KEPT_MAX {
            let range = ByteRange::with_len(at, 1);
            kept.place(&[7], &[Placement { at: 0, range }]);
            (came, at) = (came + 1, at + 2);
        }
        assert_eq!(
            (kept.pieces.len(), came * (1 + PIECE_BYTES)),
            (came, kept.bytes())
        );
        // What follows the last one is the same piece.
        let before = kept.bytes();
        let range = ByteRange::with_len(at - 1, 9);
        kept.place(&[7; 9], &[Placement { at: 0, range }]);
        assert_eq!((kept.pieces.len(), kept.bytes()), (came, before + 9));
    }
}
