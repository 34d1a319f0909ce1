//! A set of positions within a sliding window, as bits: what both loss lists are.
//!
//! Adding, removing and asking for one position cost the same at any size; adding a range and sliding
//! the window cost a 64th of its length, and finding the lowest a look at a summary with a bit for
//! each 64.

/// Positions `base..base + capacity`.
#[derive(Clone, Debug)]
pub(crate) struct WindowSet {
    /// Bit of position `p`: bit `p % 64` of word `p / 64 % words.len()`.
    words: Box<[u64]>,
    /// A bit for each word that is not zero.
    summary: Box<[u64]>,
    base: u64,
    count: u64,
}

impl WindowSet {
    /// For windows of at least `positions`.
    pub(crate) fn new(positions: usize) -> Self {
        // One word more: the words of the lowest and the highest position must be different ones.
        let words = (positions / 64 + 2).next_power_of_two();
        Self {
            words: vec![0; words].into(),
            summary: vec![0; words.div_ceil(64)].into(),
            base: 0,
            count: 0,
        }
    }

    /// Positions that fit from the base.
    const fn capacity(&self) -> u64 {
        (self.words.len() as u64 - 1) * 64
    }

    pub(crate) const fn len(&self) -> u64 {
        self.count
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    const fn word_of(&self, at: u64) -> usize {
        (at / 64) as usize & (self.words.len() - 1)
    }

    #[inline]
    fn set_word(&mut self, index: usize, word: u64) {
        self.words[index] = word;
        let bit = 1 << (index % 64);
        if word == 0 {
            self.summary[index / 64] &= !bit;
        } else {
            self.summary[index / 64] |= bit;
        }
    }

    #[inline]
    pub(crate) fn contains(&self, at: u64) -> bool {
        self.count > 0
            && at >= self.base
            && at - self.base < self.capacity()
            && self.words[self.word_of(at)] >> (at % 64) & 1 == 1
    }

    /// Adds `start..end`, so far as it is in the window; returns how many were not in the set.
    pub(crate) fn insert(&mut self, start: u64, end: u64) -> u64 {
        let start = start.max(self.base);
        let end = end.min(self.base + self.capacity());
        let mut at = start;
        let mut added = 0;
        while at < end {
            let stop = (at / 64 + 1) * 64;
            let mask = ones(at, stop.min(end));
            let index = self.word_of(at);
            let word = self.words[index];
            added += u64::from((mask & !word).count_ones());
            self.set_word(index, word | mask);
            at = stop;
        }
        self.count += added;
        added
    }

    /// Removes a position; whether it was there.
    #[inline]
    pub(crate) fn remove(&mut self, at: u64) -> bool {
        if !self.contains(at) {
            return false;
        }
        let index = self.word_of(at);
        self.set_word(index, self.words[index] & !(1 << (at % 64)));
        self.count -= 1;
        true
    }

    /// Slides the window: everything below `edge` is forgotten.
    pub(crate) fn slide(&mut self, edge: u64) {
        if edge <= self.base {
            return;
        }
        let end = edge.min(self.base + self.capacity());
        let mut at = self.base;
        while at < end && self.count > 0 {
            let stop = (at / 64 + 1) * 64;
            let mask = ones(at, stop.min(end));
            let index = self.word_of(at);
            let word = self.words[index];
            if word & mask != 0 {
                self.count -= u64::from((word & mask).count_ones());
                self.set_word(index, word & !mask);
            }
            at = stop;
        }
        self.base = edge;
    }

    /// The lowest position.
    #[inline]
    pub(crate) fn first(&self) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        self.next_from(self.base)
    }

    /// The lowest position from `from` on, which is in the window.
    pub(crate) fn next_from(&self, from: u64) -> Option<u64> {
        if self.count == 0 || from >= self.base + self.capacity() {
            return None;
        }
        let start = self.word_of(from);
        let here = self.words[start] >> (from % 64);
        if here != 0 {
            return Some(from + u64::from(here.trailing_zeros()));
        }
        // The words after this one in the order of the window, which may begin again at 0.
        let found = self
            .busy_word(start + 1, self.words.len())
            .or_else(|| self.busy_word(0, start))?;
        let ahead = found.wrapping_sub(start) & (self.words.len() - 1);
        let at = (from / 64 + ahead as u64) * 64 + u64::from(self.words[found].trailing_zeros());
        // A word before `from` in the window lies behind it in the ring.
        (at < self.base + self.capacity()).then_some(at)
    }

    /// The first word of `from..to` that is not zero.
    fn busy_word(&self, from: usize, to: usize) -> Option<usize> {
        let mut at = from;
        while at < to {
            let left = self.summary[at / 64] >> (at % 64);
            if left != 0 {
                let found = at + left.trailing_zeros() as usize;
                return (found < to).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// The first position from `from` on that is not in the set.
    fn end_of_run(&self, from: u64) -> u64 {
        let limit = self.base + self.capacity();
        let mut at = from;
        while at < limit {
            let missing = !self.words[self.word_of(at)] >> (at % 64);
            let left = 64 - at % 64;
            let run = u64::from(missing.trailing_zeros()).min(left);
            at += run;
            if run < left {
                break;
            }
        }
        at.min(limit)
    }

    /// The runs `start..end` in ascending order.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut at = self.base;
        std::iter::from_fn(move || {
            let start = self.next_from(at)?;
            at = self.end_of_run(start);
            Some((start, at))
        })
    }
}

/// Ones for the positions `from..to`, which are in one word.
const fn ones(from: u64, to: u64) -> u64 {
    let len = to - from;
    let ones = if len >= 64 { u64::MAX } else { (1 << len) - 1 };
    ones << (from % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_a_tree(
            window in 1..700_usize,
            steps in prop::collection::vec((0..5_u8, 0..700_u64, 1..130_u64), 1..120),
        ) {
            let mut set = WindowSet::new(window);
            let mut tree = BTreeSet::new();
            let mut base = 0;
            for (kind, at, len) in steps {
                let window = window as u64;
                let at = base + at % window;
                match kind {
                    0 | 1 => {
                        let end = (at + len).min(base + window);
                        let before = tree.len();
                        tree.extend(at..end);
                        prop_assert_eq!(set.insert(at, end), (tree.len() - before) as u64);
                    }
                    2 => prop_assert_eq!(set.remove(at), tree.remove(&at)),
                    3 => {
                        base = at;
                        set.slide(base);
                        tree = tree.split_off(&base);
                    }
                    _ => if let Some(&first) = tree.first() {
                        prop_assert!(set.remove(first));
                        tree.remove(&first);
                    },
                }
                prop_assert_eq!(set.len(), tree.len() as u64);
                prop_assert_eq!(set.first(), tree.first().copied());
                prop_assert_eq!(set.contains(at), tree.contains(&at));
                prop_assert_eq!(set.next_from(at), tree.range(at..).next().copied());
                let mut rebuilt = BTreeSet::new();
                let mut above = None;
                for (start, end) in set.runs() {
                    prop_assert!(start < end && above.is_none_or(|above| start > above));
                    above = Some(end);
                    rebuilt.extend(start..end);
                }
                prop_assert_eq!(&rebuilt, &tree);
            }
        }
    }

    #[test]
    fn a_jump_beyond_the_window_empties_it() {
        let mut set = WindowSet::new(100);
        set.insert(0, 100);
        set.slide(1_000_000);
        assert!(set.is_empty() && set.first().is_none());
        assert_eq!(set.insert(999_000, 1_000_002), 2);
        assert_eq!(set.runs().collect::<Vec<_>>(), [(1_000_000, 1_000_002)]);
    }
}
