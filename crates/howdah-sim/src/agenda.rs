//! Who acts next: a tournament over a fixed set of sources.

use howdah_core::Time;

/// A point in the total order of events. Two events at the same instant happen in the order in
/// which they were decided.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Key {
    pub(crate) time: Time,
    pub(crate) seq: u64,
}

impl Key {
    /// Never.
    pub(crate) const NEVER: Self = Self {
        time: Time::MAX,
        seq: u64::MAX,
    };

    pub(crate) const fn new(time: Time, seq: u64) -> Self {
        Self { time, seq }
    }

    fn is_never(self) -> bool {
        self.time == Time::MAX
    }
}

/// A source and its next event.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Key,
    slot: u32,
}

/// The next event of every source, and the earliest of them all.
///
/// A source is a lane (its head), an endpoint's timer or the timeline, so there are as many
/// entries as there are parts of the world and not as many as packets in flight. A winner tree
/// replaces an entry in at most `log2(sources)` comparisons of neighbours in memory, without the
/// search and the two kinds of sifting that a heap with moving keys needs.
#[derive(Clone, Debug)]
pub(crate) struct Agenda {
    /// `tree[1]` is the overall winner; the children of `n` are `2n` and `2n + 1`; the second half
    /// holds the sources themselves.
    tree: Vec<Entry>,
    used: u32,
}

impl Agenda {
    pub(crate) fn new() -> Self {
        let mut agenda = Self {
            tree: Vec::new(),
            used: 0,
        };
        agenda.grow_to(4);
        agenda
    }

    /// Makes room for one more source, which never happens until it is set.
    pub(crate) fn add(&mut self) -> u32 {
        if self.used as usize == self.leaves() {
            self.grow_to(self.leaves() * 2);
        }
        self.used += 1;
        self.used - 1
    }

    /// The earliest event and whose it is.
    #[inline]
    pub(crate) fn first(&self) -> Option<(Key, u32)> {
        let Entry { key, slot } = self.tree[1];
        (!key.is_never()).then_some((key, slot))
    }

    /// What `slot` has planned.
    #[inline]
    pub(crate) fn get(&self, slot: u32) -> Option<Key> {
        let key = self.tree[self.leaves() + slot as usize].key;
        (!key.is_never()).then_some(key)
    }

    /// Replaces what `slot` has planned.
    #[inline]
    pub(crate) fn set(&mut self, slot: u32, key: Option<Key>) {
        let mut node = self.leaves() + slot as usize;
        self.tree[node].key = key.unwrap_or(Key::NEVER);
        while node > 1 {
            node /= 2;
            let before = self.tree[node].slot;
            self.replay(node);
            // Another source won here before and wins still: nothing changes further up.
            if before != slot && self.tree[node].slot == before {
                break;
            }
        }
    }

    fn leaves(&self) -> usize {
        self.tree.len() / 2
    }

    #[inline]
    fn replay(&mut self, node: usize) {
        let (left, right) = (self.tree[2 * node], self.tree[2 * node + 1]);
        self.tree[node] = if right.key < left.key { right } else { left };
    }

    fn grow_to(&mut self, leaves: usize) {
        let leaves = leaves.next_power_of_two();
        let mut tree = vec![
            Entry {
                key: Key::NEVER,
                slot: 0
            };
            2 * leaves
        ];
        for (slot, entry) in tree[leaves..].iter_mut().enumerate() {
            entry.slot = slot as u32;
        }
        for (entry, old) in tree[leaves..].iter_mut().zip(&self.tree[self.leaves()..]) {
            *entry = *old;
        }
        self.tree = tree;
        for node in (1..leaves).rev() {
            self.replay(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(time: u64, seq: u64) -> Key {
        Key::new(Time::from_nanos(time), seq)
    }

    #[test]
    fn the_earliest_wins_and_the_earlier_decision_breaks_a_tie() {
        let mut agenda = Agenda::new();
        assert!(agenda.first().is_none());
        let slots: Vec<u32> = (0..9).map(|_| agenda.add()).collect();
        agenda.set(slots[8], Some(key(5, 2)));
        agenda.set(slots[0], Some(key(5, 3)));
        agenda.set(slots[4], Some(key(7, 1)));
        assert_eq!(agenda.first(), Some((key(5, 2), slots[8])));
        agenda.set(slots[8], None);
        assert_eq!(agenda.first(), Some((key(5, 3), slots[0])));
        agenda.set(slots[4], Some(key(1, 9)));
        assert_eq!(agenda.first(), Some((key(1, 9), slots[4])));
        assert_eq!(agenda.get(slots[0]), Some(key(5, 3)));
    }

    #[test]
    fn it_agrees_with_a_linear_search() {
        let mut agenda = Agenda::new();
        let mut plain: Vec<Option<Key>> = Vec::new();
        let mut state = 7_u64;
        for seq in 0..5_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let draw = state >> 33;
            if plain.len() < 37 && draw.is_multiple_of(11) {
                assert_eq!(agenda.add() as usize, plain.len());
                plain.push(None);
            }
            if plain.is_empty() {
                continue;
            }
            let slot = draw as usize % plain.len();
            plain[slot] = (!draw.is_multiple_of(5)).then(|| key(draw % 100, seq));
            agenda.set(slot as u32, plain[slot]);
            let expected = plain
                .iter()
                .enumerate()
                .filter_map(|(slot, key)| key.map(|key| (key, slot as u32)))
                .min();
            assert_eq!(agenda.first(), expected);
        }
    }
}
