//! A set of bytes kept as sorted, disjoint, non-touching ranges.

use crate::ByteRange;
use std::collections::BTreeMap;

/// Which bytes of an object are meant (received, written, still missing).
///
/// Memory grows with the number of ranges, not with the number of bytes. In-order insertion and
/// filling of holes cost `O(log ranges)`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RangeSet {
    /// start -> end
    ranges: BTreeMap<u64, u64>,
    bytes: u64,
}

impl RangeSet {
    /// About what one range takes in memory.
    pub const RANGE_BYTES: usize = 32;

    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a range and returns how many of its bytes were not in the set before.
    pub fn insert(&mut self, range: ByteRange) -> u64 {
        if range.is_empty() {
            return 0;
        }
        // What mostly happens: the next piece, or a piece after a hole.
        match self.ranges.last_entry() {
            Some(mut last) if *last.get() == range.start => {
                *last.get_mut() = range.end;
                self.bytes += range.len();
                return range.len();
            }
            Some(last) if *last.get() > range.start => {}
            _ => {
                self.ranges.insert(range.start, range.end);
                self.bytes += range.len();
                return range.len();
            }
        }
        let mut merged = range;
        let mut already = 0;
        // Ranges that overlap or touch start at or before `range.end`; walk them from the right.
        while let Some((&start, &end)) = self.ranges.range(..=merged.end).next_back() {
            count_step();
            if end < merged.start {
                break;
            }
            self.ranges.remove(&start);
            already += ByteRange::new(start.max(range.start), end.min(range.end)).len();
            merged = ByteRange::new(merged.start.min(start), merged.end.max(end));
        }
        self.ranges.insert(merged.start, merged.end);
        let added = range.len() - already;
        self.bytes += added;
        added
    }

    /// Removes a range and returns how many bytes left the set.
    pub fn remove(&mut self, range: ByteRange) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let mut removed = 0;
        while let Some((&start, &end)) = self.ranges.range(..range.end).next_back() {
            count_step();
            if end <= range.start {
                break;
            }
            self.ranges.remove(&start);
            removed += end.min(range.end) - start.max(range.start);
            if end > range.end {
                self.ranges.insert(range.end, end);
            }
            if start < range.start {
                self.ranges.insert(start, range.start);
            }
        }
        self.bytes -= removed;
        removed
    }

    /// Whether every byte of `range` is in the set.
    pub fn contains(&self, range: ByteRange) -> bool {
        range.is_empty()
            || self
                .ranges
                .range(..=range.start)
                .next_back()
                .is_some_and(|(_, &end)| end >= range.end)
    }

    /// The ranges of `within` that are not in the set, in order.
    pub fn missing(&self, within: ByteRange) -> impl Iterator<Item = ByteRange> + '_ {
        let mut at = within.start;
        let mut rest = None;
        if at < self.end() {
            if let Some((_, &end)) = self.ranges.range(..=at).next_back() {
                at = at.max(end);
            }
            rest = Some(self.ranges.range(within.start.saturating_add(1)..));
        }
        std::iter::from_fn(move || {
            while at < within.end {
                // Behind the last range everything is missing.
                let next = rest.as_mut().and_then(Iterator::next);
                let (start, end) = next.map_or((u64::MAX, u64::MAX), |(&s, &e)| (s, e));
                let gap = ByteRange::new(at, start.min(within.end));
                at = end;
                if !gap.is_empty() {
                    return Some(gap);
                }
            }
            None
        })
    }

    /// The end of the range that starts at 0; 0 if byte 0 is missing.
    pub fn prefix_len(&self) -> u64 {
        match self.ranges.first_key_value() {
            Some((0, &end)) => end,
            _ => 0,
        }
    }

    /// One past the last byte of the set; 0 if it is empty.
    pub fn end(&self) -> u64 {
        self.ranges.last_key_value().map_or(0, |(_, &end)| end)
    }

    /// The ranges in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = ByteRange> + '_ {
        self.ranges
            .iter()
            .map(|(&start, &end)| ByteRange::new(start, end))
    }

    /// Number of separate ranges.
    pub fn range_count(&self) -> usize {
        self.ranges.len()
    }

    /// Number of bytes.
    pub fn byte_count(&self) -> u64 {
        self.bytes
    }

    /// Whether no byte is in the set.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// Tests count, for a peer decides which ranges come.
fn count_step() {
    #[cfg(test)]
    tests::STEPS.set(tests::STEPS.get() + 1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    thread_local! {
        pub(super) static STEPS: Cell<u64> = const { Cell::new(0) };
    }

    /// Each step costs the logarithm of what is kept, and whatever order a peer chooses, there are few of them for each
    /// range that he sends.
    #[test]
    fn a_peer_that_chooses_the_order_makes_few_steps() {
        const RANGES: u64 = 1 << 16;
        let apart = |n: u64| ByteRange::with_len(n * 4, 2);
        // A permutation that jumps about.
        let scattered = |n: u64| n.wrapping_mul(40_503) % RANGES;
        let orders: [fn(u64) -> u64; 3] = [
            |n| n,
            |n| RANGES - 1 - n,
            |n| n.wrapping_mul(40_503) % RANGES,
        ];
        for order in orders {
            let mut set = RangeSet::new();
            STEPS.set(0);
            for n in 0..RANGES {
                set.insert(apart(order(n)));
            }
            assert_eq!(set.range_count() as u64, RANGES);
            // All of them at once, again and again, with holes torn in between.
            for round in 0..RANGES {
                set.insert(ByteRange::new(0, RANGES * 4));
                set.remove(apart(scattered(round)));
            }
            let asked = 3 * RANGES;
            let steps = STEPS.get();
            assert!(steps <= 3 * asked, "{steps} steps for {asked} ranges");
        }
    }

    const SPACE: u64 = 200;

    fn index(at: u64) -> usize {
        usize::try_from(at).unwrap_or(usize::MAX)
    }

    fn reference(ops: &[(bool, u64, u64)]) -> (RangeSet, Vec<bool>) {
        let mut set = RangeSet::new();
        let mut bits = vec![false; index(SPACE)];
        for &(insert, start, len) in ops {
            let range = ByteRange::new(start, (start + len).min(SPACE));
            let before = bits.iter().filter(|&&b| b).count() as u64;
            for at in range.start..range.end.max(range.start) {
                bits[index(at)] = insert;
            }
            let after = bits.iter().filter(|&&b| b).count() as u64;
            let changed = if insert {
                set.insert(range)
            } else {
                set.remove(range)
            };
            assert_eq!(changed, before.abs_diff(after));
        }
        (set, bits)
    }

    proptest! {
        #[test]
        fn agrees_with_a_bitmap(ops in prop::collection::vec((any::<bool>(), 0..SPACE, 0..40u64), 0..60)) {
            let (set, bits) = reference(&ops);
            prop_assert_eq!(set.byte_count(), bits.iter().filter(|&&b| b).count() as u64);
            let mut rebuilt = vec![false; index(SPACE)];
            let mut last_end = None;
            for range in set.iter() {
                prop_assert!(!range.is_empty());
                prop_assert!(last_end.is_none_or(|end| range.start > end), "ranges touch");
                last_end = Some(range.end);
                rebuilt[index(range.start)..index(range.end)].fill(true);
            }
            prop_assert_eq!(&rebuilt, &bits);
            prop_assert_eq!(set.prefix_len(), bits.iter().take_while(|&&b| b).count() as u64);
        }

        #[test]
        fn missing_is_the_complement(
            ops in prop::collection::vec((any::<bool>(), 0..SPACE, 0..40u64), 0..60),
            start in 0..SPACE,
            len in 0..SPACE,
        ) {
            let (set, bits) = reference(&ops);
            let within = ByteRange::new(start, (start + len).min(SPACE));
            let mut gaps = vec![false; index(SPACE)];
            for gap in set.missing(within) {
                prop_assert!(!gap.is_empty() && gap.start >= within.start && gap.end <= within.end);
                gaps[index(gap.start)..index(gap.end)].fill(true);
            }
            for at in 0..SPACE {
                let want = (within.start..within.end).contains(&at) && !bits[index(at)];
                prop_assert_eq!(gaps[index(at)], want, "byte {}", at);
            }
            prop_assert_eq!(set.contains(within), set.missing(within).next().is_none());
        }
    }
}
