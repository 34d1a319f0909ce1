//! Which units are there: a ring of bits.

/// A bit for each unit from the first that is missing on, in a ring.
#[derive(Clone, Debug)]
pub(super) struct Units {
    words: Vec<u64>,
    /// First unit whose bit is not set.
    next: u64,
    /// The one after the highest whose bit is set; at least `next`.
    end: u64,
}

impl Units {
    /// For `capacity` units from `next` on.
    pub(super) fn new(capacity: u64) -> Self {
        // One word more, so that the word of `next` is never also that of the last unit, and one for
        // what of the word of `next` lies behind.
        Self {
            words: vec![0; capacity.div_ceil(64) as usize + 2],
            next: 0,
            end: 0,
        }
    }

    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    /// The first unit that has no place.
    pub(super) const fn limit(&self) -> u64 {
        (self.next / 64 + self.words.len() as u64) * 64 - 64
    }

    #[inline]
    fn word(&self, unit: u64) -> usize {
        ((unit / 64) % self.words.len() as u64) as usize
    }

    /// Whether it is there.
    #[inline]
    pub(super) fn has(&self, unit: u64) -> bool {
        unit < self.next || (unit < self.end && self.words[self.word(unit)] >> (unit % 64) & 1 != 0)
    }

    /// Notes a unit; `false` if it was there or has no place.
    #[inline]
    pub(super) fn insert(&mut self, unit: u64) -> bool {
        if unit < self.next || unit >= self.limit() {
            return false;
        }
        let at = self.word(unit);
        let bit = 1 << (unit % 64);
        if self.words[at] & bit != 0 {
            return false;
        }
        self.words[at] |= bit;
        self.end = self.end.max(unit + 1);
        if unit == self.next {
            self.advance();
        }
        true
    }

    /// Moves `next` to the first unit that is missing, and clears what it leaves behind.
    fn advance(&mut self) {
        loop {
            let at = self.word(self.next);
            let from = self.next % 64;
            let run = u64::from((!(self.words[at] >> from)).trailing_zeros()).min(64 - from);
            self.next += run;
            if from + run < 64 {
                return;
            }
            self.words[at] = 0;
            if self.next >= self.end {
                return;
            }
        }
    }

    /// Calls `each` for every missing unit below `below`, in order, until it returns `false`.
    pub(super) fn missing(&self, below: u64, mut each: impl FnMut(u64) -> bool) {
        let below = below.min(self.end);
        let mut at = self.next;
        while at < below {
            let from = at % 64;
            let mut absent = !self.words[self.word(at)] >> from;
            while absent != 0 {
                let unit = at + u64::from(absent.trailing_zeros());
                if unit >= below || !each(unit) {
                    return;
                }
                absent &= absent - 1;
            }
            at += 64 - from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn as_a_set(order in prop::collection::vec(0_u64..400, 1..600)) {
            let mut units = Units::new(200);
            let mut set = BTreeSet::new();
            for unit in order {
                let fits = unit < units.limit();
                prop_assert!(units.limit() >= units.next() + 200);
                let fresh = units.insert(unit);
                prop_assert_eq!(fresh, fits && set.insert(unit));
                let next = (0..1000).find(|u| !set.contains(u)).unwrap_or(1000);
                let end = set.last().map_or(0, |last| last + 1);
                prop_assert_eq!((units.next(), units.end()), (next, end));
                let mut missing = Vec::new();
                units.missing(300, |unit| { missing.push(unit); true });
                let want: Vec<u64> = (next..end.min(300)).filter(|u| !set.contains(u)).collect();
                prop_assert_eq!(missing, want);
                prop_assert!((0..400).all(|u| units.has(u) == set.contains(&u)));
            }
        }
    }
}
