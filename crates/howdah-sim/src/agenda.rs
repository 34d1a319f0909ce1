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

    /// One number that orders as the key does: two of them are compared without a branch.
    #[inline]
    const fn pack(self) -> u128 {
        (self.time.as_nanos() as u128) << 64 | self.seq as u128
    }

    #[inline]
    const fn unpack(packed: u128) -> Self {
        Self::new(Time::from_nanos((packed >> 64) as u64), packed as u64)
    }
}

/// The next event of every source, and the earliest of them all.
///
/// A source is a lane (its head), an endpoint's timer or the timeline, so there are as many
/// entries as there are parts of the world and not as many as packets in flight. A winner tree
/// replaces an entry in at most `log2(sources)` comparisons, without the search and the two kinds
/// of sifting that a heap with moving keys needs.
#[derive(Clone, Debug)]
pub(crate) struct Agenda {
    /// What each slot has planned; [`Key::NEVER`] is the largest.
    keys: Vec<u128>,
    /// `winners[1]` is the slot that is first of all; the children of `n` are `2n` and `2n + 1`; the
    /// second half holds the slots in order.
    winners: Vec<u32>,
    used: u32,
}

const NEVER: u128 = Key::NEVER.pack();

impl Agenda {
    pub(crate) fn new() -> Self {
        let mut agenda = Self {
            keys: Vec::new(),
            winners: Vec::new(),
            used: 0,
        };
        agenda.grow_to(4);
        agenda
    }

    /// Makes room for one more source, which never happens until it is set.
    pub(crate) fn add(&mut self) -> u32 {
        if self.used as usize == self.keys.len() {
            self.grow_to(self.keys.len() * 2);
        }
        self.used += 1;
        self.used - 1
    }

    /// The earliest event and whose it is.
    #[inline]
    pub(crate) fn first(&self) -> Option<(Key, u32)> {
        let slot = self.winners[1];
        Some((self.get(slot)?, slot))
    }

    /// What `slot` has planned.
    #[inline]
    pub(crate) fn get(&self, slot: u32) -> Option<Key> {
        let key = Key::unpack(self.keys[slot as usize]);
        (key.time != Time::MAX).then_some(key)
    }

    /// Replaces what `slot` has planned.
    #[inline]
    pub(crate) fn set(&mut self, slot: u32, key: Option<Key>) {
        let mut first = key.map_or(NEVER, Key::pack);
        let mut winner = slot;
        self.keys[slot as usize] = first;
        let mut node = self.keys.len() + slot as usize;
        while node > 1 {
            // It wins as far up as it came; only who stands on the other side is new.
            let rival = self.winners[node ^ 1];
            let key = self.keys[rival as usize];
            if key < first {
                (first, winner) = (key, rival);
            }
            node /= 2;
            let before = std::mem::replace(&mut self.winners[node], winner);
            // Another source won here before and wins still: nothing changes further up.
            if before != slot && winner == before {
                break;
            }
        }
    }

    /// The first of the two slots that meet at a node.
    #[inline]
    fn play(&self, node: usize) -> u32 {
        let (left, right) = (self.winners[2 * node], self.winners[2 * node + 1]);
        if self.keys[right as usize] < self.keys[left as usize] {
            right
        } else {
            left
        }
    }

    fn grow_to(&mut self, leaves: usize) {
        let leaves = leaves.next_power_of_two();
        self.keys.resize(leaves, NEVER);
        self.winners = vec![0; leaves];
        self.winners.extend(0..leaves as u32);
        for node in (1..leaves).rev() {
            self.winners[node] = self.play(node);
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
