//! One object moved by several connections, its lanes: the first is that of the session, others [join](crate::message::Message::Join) it.
//! Whoever sends gives its bytes out in pieces as lanes run dry, so that each moves what it can; a lane that is lost gives back what it has
//! not brought.

use howdah_core::{ByteRange, RangeSet};
use std::collections::BTreeMap;

/// Connections that move one object, at most.
pub const MOST: u8 = 8;

/// How many a client would use, behind what it says of the request itself; 1 if it says nothing.
pub fn wanted(said: Option<u8>) -> u8 {
    said.unwrap_or(1).clamp(1, MOST)
}

/// A piece has that many bytes at most: a lane of 1 Gbit/s has it for 34 ms.
pub const PIECE_MAX: u64 = 4 << 20;
/// Towards the end they get shorter, down to this, so that no lane still has one when all others are done.
const PIECE_MIN: u64 = 256 << 10;
/// Of what is left, a piece is this share of each lane's.
const PARTS: u64 = 4;

/// What of an object has been given to which lane. Lanes have numbers; the first one is that of the session.
#[derive(Clone, Debug)]
pub struct Pieces {
    size: u64,
    /// Below that, all is given out or need not be sent.
    next: u64,
    /// The receiver has it.
    held: RangeSet,
    /// Of lanes that were lost.
    back: RangeSet,
    lanes: BTreeMap<u32, Vec<ByteRange>>,
    last: u32,
}

impl Pieces {
    /// Of an object of that size.
    pub fn new(size: u64) -> Self {
        Self {
            size,
            next: 0,
            held: RangeSet::new(),
            back: RangeSet::new(),
            lanes: BTreeMap::new(),
            last: 0,
        }
    }

    /// One more lane.
    pub fn join(&mut self) -> u32 {
        self.last += 1;
        self.lanes.insert(self.last, Vec::new());
        self.last
    }

    /// The receiver has that.
    pub fn leave_out(&mut self, ranges: &RangeSet) {
        for range in ranges.iter() {
            self.held.insert(range);
        }
    }

    /// How far it has been given out.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether something can be given out as soon as it can be read.
    pub fn has_more(&self) -> bool {
        self.next < self.size || !self.back.is_empty()
    }

    /// What the receiver had before, in bytes.
    pub fn held_bytes(&self) -> u64 {
        self.held.byte_count()
    }

    /// The next piece for that lane, of what can be read: below `ready_end`.
    pub fn take(&mut self, lane: u32, ready_end: u64) -> Option<ByteRange> {
        let count = self.lanes.len() as u64;
        let mine = self.lanes.get_mut(&lane)?;
        let returned = self.back.iter().next();
        let piece = if let Some(range) = returned {
            let (piece, _) = range.split_at(PIECE_MAX);
            self.back.remove(piece);
            piece
        } else {
            let end = ready_end.min(self.size);
            let rest = ByteRange::new(self.next, end);
            let Some(gap) = self.held.missing(rest).next() else {
                self.next = self.next.max(end);
                return None;
            };
            let left = self.size - gap.start;
            let long = (left / (PARTS * count)).clamp(PIECE_MIN, PIECE_MAX);
            let (piece, _) = gap.split_at(long);
            self.next = piece.end;
            piece
        };
        mine.push(piece);
        Some(piece)
    }

    /// The receiver has all of that lane's pieces below `prefix`.
    pub fn confirm(&mut self, lane: u32, prefix: u64) {
        if let Some(pieces) = self.lanes.get_mut(&lane) {
            pieces.retain(|piece| piece.end > prefix);
        }
    }

    /// That lane is lost, and what it may not have brought goes to others: so many bytes.
    pub fn leave(&mut self, lane: u32) -> u64 {
        let pieces = self.lanes.remove(&lane).unwrap_or_default();
        let given_back = |piece| self.back.insert(piece);
        pieces.into_iter().map(given_back).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn pieces_get_shorter_towards_the_end() {
        let mut pieces = Pieces::new(100 * MIB);
        let lanes = [pieces.join(), pieces.join()];
        let mut lengths = Vec::new();
        while let Some(piece) = pieces.take(lanes[lengths.len() % 2], 100 * MIB) {
            lengths.push(piece.len());
        }
        assert_eq!(lengths.iter().sum::<u64>(), 100 * MIB);
        assert_eq!(lengths[0], PIECE_MAX);
        assert!(lengths.is_sorted_by(|a, b| a >= b), "{lengths:?}");
        assert!(*lengths.last().unwrap() <= PIECE_MIN);
    }

    #[test]
    fn what_a_lost_lane_has_not_brought_goes_to_others_and_comes_first() {
        let mut pieces = Pieces::new(64 * MIB);
        let (first, lost) = (pieces.join(), pieces.join());
        let [a, b] = [pieces.take(lost, 64 * MIB), pieces.take(lost, 64 * MIB)];
        let (a, b) = (a.unwrap(), b.unwrap());
        pieces.confirm(lost, b.end - 1);
        assert_eq!(pieces.leave(lost), b.len());
        assert_eq!(pieces.take(first, 64 * MIB), Some(b), "and not {a}");
        assert_eq!(pieces.take(first, 64 * MIB).unwrap().start, b.end);
        assert_eq!(pieces.leave(lost), 0, "it has left");
        assert_eq!(pieces.take(lost, 64 * MIB), None);
    }

    proptest! {
        /// Lanes come, go and confirm in any order: in the end each byte that the receiver lacked was given to a lane that brought it, and no
        /// two lanes that are there have the same one.
        #[test]
        fn every_byte_is_brought(
            size in 1..40 * MIB,
            held in prop::collection::vec((0..40u64, 1..4u64), 0..4),
            steps in prop::collection::vec((0..4u8, 0..4usize, 0..40u64), 1..200),
        ) {
            let mut pieces = Pieces::new(size);
            let mut there = RangeSet::new();
            for (at, len) in held {
                let end = ((at + len) * MIB).min(size);
                if at * MIB < end {
                    there.insert(ByteRange::new(at * MIB, end));
                }
            }
            pieces.leave_out(&there);
            let mut lanes: Vec<(u32, RangeSet)> = vec![(pieces.join(), RangeSet::new())];
            for (what, which, ready) in steps {
                let at = which % lanes.len();
                match what {
                    0 => lanes.push((pieces.join(), RangeSet::new())),
                    1 if lanes.len() > 1 => {
                        let (lane, _) = lanes.remove(at);
                        pieces.leave(lane);
                    }
                    2 => {
                        // All that it has was brought.
                        let (lane, has) = &mut lanes[at];
                        pieces.confirm(*lane, u64::MAX);
                        for range in std::mem::take(has).iter() {
                            there.insert(range);
                        }
                    }
                    _ => {
                        let (lane, _) = lanes[at];
                        if let Some(piece) = pieces.take(lane, ready * MIB) {
                            prop_assert!(piece.end <= size && !piece.is_empty());
                            for (_, has) in &lanes {
                                prop_assert_eq!(has.missing(piece).map(ByteRange::len).sum::<u64>(), piece.len());
                            }
                            lanes[at].1.insert(piece);
                        }
                    }
                }
            }
            let (first, mut has) = lanes.remove(0);
            for (lane, _) in lanes {
                pieces.leave(lane);
            }
            while let Some(piece) = pieces.take(first, size) {
                has.insert(piece);
            }
            prop_assert!(!pieces.has_more());
            for range in has.iter() {
                there.insert(range);
            }
            prop_assert!(there.contains(ByteRange::new(0, size)));
        }
    }
}
