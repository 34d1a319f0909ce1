//! Which blocks have arrived.

/// A bit for each block from 0 on. It grows as blocks are marked, so an object without end costs
/// what has arrived of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks {
    words: Vec<u64>,
    marked: u64,
}

impl Blocks {
    /// Marks a block; false if it was marked already.
    #[inline]
    pub(crate) fn mark(&mut self, block: u64) -> bool {
        let (word, bit) = ((block / 64) as usize, 1 << (block % 64));
        if word >= self.words.len() {
            let grown = (word + 1).max(self.words.len() * 2).max(16);
            self.words.resize(grown, 0);
        }
        let fresh = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.marked += u64::from(fresh);
        fresh
    }

    #[inline]
    pub(crate) fn is_marked(&self, block: u64) -> bool {
        let word = self.words.get((block / 64) as usize);
        word.is_some_and(|word| word & (1 << (block % 64)) != 0)
    }

    /// How many are marked.
    pub(crate) const fn marked(&self) -> u64 {
        self.marked
    }

    /// The first block from `from` on, below `end`, that is not marked.
    pub(crate) fn next_missing(&self, from: u64, end: u64) -> Option<u64> {
        let mut at = from;
        while at < end {
            let Some(&word) = self.words.get((at / 64) as usize) else {
                return Some(at);
            };
            let open = !word & (u64::MAX << (at % 64));
            if open != 0 {
                let found = at / 64 * 64 + u64::from(open.trailing_zeros());
                return (found < end).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// The first block from `from` on, below `end`, that is marked.
    pub(crate) fn next_marked(&self, from: u64, end: u64) -> Option<u64> {
        let mut at = from;
        while at < end {
            let word = self.words.get((at / 64) as usize)?;
            let open = word & (u64::MAX << (at % 64));
            if open != 0 {
                let found = at / 64 * 64 + u64::from(open.trailing_zeros());
                return (found < end).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// Bytes of the bitmap of the first `count` blocks, the lowest block in the lowest bit.
    pub(crate) fn bytes(&self, count: usize) -> impl Iterator<Item = u8> + '_ {
        (0..count).map(|at| {
            let word = self.words.get(at / 8).copied().unwrap_or(0);
            (word >> (at % 8 * 8)) as u8
        })
    }

    /// Forgets everything, and keeps the room.
    pub(crate) fn clear(&mut self) {
        self.words.fill(0);
        self.marked = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_list(marks in prop::collection::vec(0..300u64, 0..400), from in 0..320u64, end in 0..320u64) {
            let mut blocks = Blocks::default();
            let mut list = vec![false; 320];
            for mark in marks {
                prop_assert_eq!(blocks.mark(mark), !list[mark as usize]);
                list[mark as usize] = true;
            }
            prop_assert_eq!(blocks.marked(), list.iter().filter(|&&m| m).count() as u64);
            let missing = (from..end).find(|&at| !list[at as usize]);
            prop_assert_eq!(blocks.next_missing(from, end), missing);
            let marked = (from..end).find(|&at| list[at as usize]);
            prop_assert_eq!(blocks.next_marked(from, end), marked);
            for (at, byte) in blocks.bytes(40).enumerate() {
                for bit in 0..8 {
                    prop_assert_eq!(byte >> bit & 1 == 1, list[at * 8 + bit]);
                    prop_assert_eq!(blocks.is_marked((at * 8 + bit) as u64), list[at * 8 + bit]);
                }
            }
        }
    }
}
