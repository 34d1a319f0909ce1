//! Bytes that come before the message that announces their object.
//!
//! The announcement is sent first, and twice, but packets overtake each other on the way and in hosts, and what is sent in the first round trip is
//! more than it pays to send again. So some of it is kept until it is known what it is for.

use howdah_core::{ByteRange, ObjectId};
use std::collections::{BTreeMap, VecDeque};

/// No more bytes are kept: what a sender may send before it has heard of anything that came.
const MOST_BYTES: usize = 1 << 20;
/// ... nor more pieces that do not follow each other.
const MOST_PIECES: usize = 1_024;
/// What follows is put behind it until a piece is as long as what a host receives at once.
const PIECE_BYTES: usize = 1 << 16;

/// What a piece takes besides its bytes.
const PIECE_COST: usize = 64;

/// Bytes that came early.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// Behind each other, as they came.
    pieces: BTreeMap<ObjectId, VecDeque<(ByteRange, Vec<u8>)>>,
    bytes: usize,
    count: usize,
}

impl Early {
    /// Keeps bytes of an object that is not open. False if there is no room for them.
    pub(super) fn keep(&mut self, object: ObjectId, range: ByteRange, bytes: &[u8]) -> bool {
        if self.bytes + bytes.len() > MOST_BYTES {
            return false;
        }
        let newest = self.pieces.get_mut(&object).and_then(VecDeque::back_mut);
        let fits = |(last, kept): &&mut (ByteRange, Vec<u8>)| {
            last.end == range.start && kept.len() + bytes.len() <= PIECE_BYTES
        };
        if let Some((last, kept)) = newest.filter(fits) {
            last.end = range.end;
            kept.extend_from_slice(bytes);
        } else if self.count < MOST_PIECES {
            let pieces = self.pieces.entry(object).or_default();
            pieces.push_back((range, bytes.to_vec()));
            self.count += 1;
        } else {
            return false;
        }
        self.bytes += bytes.len();
        true
    }

    /// Memory of it all.
    pub(super) fn kept_bytes(&self) -> usize {
        self.bytes + self.count * PIECE_COST
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The objects of which something is kept.
    pub(super) fn objects(&self) -> impl Iterator<Item = ObjectId> {
        self.pieces.keys().copied()
    }

    /// Hands out what is kept of an object, piece by piece.
    pub(super) fn take(&mut self, object: ObjectId) -> Option<(ByteRange, Vec<u8>)> {
        let pieces = self.pieces.get_mut(&object)?;
        let piece = pieces.pop_front()?;
        if pieces.is_empty() {
            self.pieces.remove(&object);
        }
        self.bytes -= piece.1.len();
        self.count -= 1;
        Some(piece)
    }

    /// Nobody wants what is kept of it.
    pub(super) fn forget(&mut self, object: ObjectId) {
        while self.take(object).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ObjectId = ObjectId::new(4);

    fn keep(early: &mut Early, start: u64, len: usize) -> bool {
        let bytes = vec![7; len];
        early.keep(ID, ByteRange::with_len(start, len as u64), &bytes)
    }

    #[test]
    fn what_follows_is_one_piece_and_all_of_it_is_handed_out() {
        let mut early = Early::default();
        for start in [0, 100, 300, 400] {
            assert!(keep(&mut early, start, 100));
        }
        let mut taken = Vec::new();
        while let Some((range, bytes)) = early.take(ID) {
            assert_eq!(bytes.len() as u64, range.len());
            taken.push(range);
        }
        assert_eq!(taken, [ByteRange::new(0, 200), ByteRange::new(300, 500)]);
        assert!(early.is_empty() && early.objects().next().is_none());
        assert_eq!(early.bytes, 0);
    }

    #[test]
    fn there_is_an_end_of_bytes_and_of_pieces() {
        let mut early = Early::default();
        let piece = PIECE_BYTES / 2;
        for n in 0..MOST_BYTES / piece {
            assert!(keep(&mut early, (n * piece) as u64, piece), "{n}");
        }
        assert_eq!(early.count, MOST_BYTES / PIECE_BYTES);
        assert!(!keep(&mut early, 1 << 30, 1));
        early.forget(ID);
        for n in 0..MOST_PIECES as u64 {
            assert!(keep(&mut early, n * 10, 1), "{n}");
        }
        assert!(!keep(&mut early, 1 << 30, 1));
        let last = MOST_PIECES as u64 * 10 - 9;
        assert!(keep(&mut early, last, 5), "it belongs to the last one");
    }
}
