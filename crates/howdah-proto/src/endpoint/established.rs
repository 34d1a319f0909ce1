//! Connections whose keys are established: who gives way when there are too many.
//!
//! Whoever has most of them gives up the oldest one that can be spared, as with [handshakes](super::half_open). So one that holds all
//! that a server keeps shuts nobody out.

use super::ConnKey;
use std::collections::{BTreeMap, BTreeSet};

/// Connections that are asked whether they can be spared, each time.
const LOOKS: usize = 1_024;

/// See the module. Keys ascend with time.
#[derive(Debug, Default)]
pub(crate) struct Established {
    groups: BTreeMap<u64, BTreeSet<ConnKey>>,
    /// How many each has, whoever has most last.
    ranks: BTreeSet<(usize, u64)>,
    of: BTreeMap<ConnKey, u64>,
}

impl Established {
    pub(crate) fn insert(&mut self, key: ConnKey, group: u64) {
        self.remove(key);
        self.of.insert(key, group);
        let keys = self.groups.entry(group).or_default();
        keys.insert(key);
        self.ranks.remove(&(keys.len() - 1, group));
        self.ranks.insert((keys.len(), group));
    }

    pub(crate) fn remove(&mut self, key: ConnKey) {
        let Some(group) = self.of.remove(&key) else {
            return;
        };
        let Some(keys) = self.groups.get_mut(&group) else {
            return;
        };
        self.ranks.remove(&(keys.len(), group));
        keys.remove(&key);
        if keys.is_empty() {
            self.groups.remove(&group);
        } else {
            self.ranks.insert((keys.len(), group));
        }
    }

    /// The oldest one that can be spared, of whoever has most. Who has one keeps it.
    pub(crate) fn to_give_way(&self, can_be_spared: impl Fn(ConnKey) -> bool) -> Option<ConnKey> {
        let groups = self.ranks.iter().rev().take_while(|(count, _)| *count > 1);
        let keys = groups.flat_map(|(_, group)| self.groups.get(group).into_iter().flatten());
        keys.take(LOOKS).copied().find(|&key| can_be_spared(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h11_whoever_has_most_gives_the_oldest_up_that_can_be_spared() {
        let mut established = Established::default();
        assert_eq!(established.to_give_way(|_| true), None);
        for (key, group) in [(1, 7), (2, 8), (3, 8), (4, 9), (5, 9), (6, 9)] {
            established.insert(ConnKey(key), group);
        }
        assert_eq!(established.to_give_way(|_| true), Some(ConnKey(4)));
        assert_eq!(established.to_give_way(|key| key.0 != 4), Some(ConnKey(5)));
        // Nobody else has more than he that has most and can spare one.
        assert_eq!(established.to_give_way(|key| key.0 < 4), Some(ConnKey(2)));
        // Who has one keeps it.
        assert_eq!(established.to_give_way(|key| key.0 == 1), None);
        for key in [4, 5, 2] {
            established.remove(ConnKey(key));
            established.remove(ConnKey(key));
        }
        assert_eq!(established.to_give_way(|_| true), None);
        established.insert(ConnKey(8), 7);
        assert_eq!(established.to_give_way(|_| true), Some(ConnKey(1)));
        for key in [1, 3, 6, 8] {
            established.remove(ConnKey(key));
        }
        assert!(
            established.groups.is_empty()
                && established.ranks.is_empty()
                && established.of.is_empty()
        );
    }

    /// Each first packet asks while a server is full.
    #[test]
    fn h11_who_looks_for_one_to_give_way_looks_at_so_many() {
        let mut established = Established::default();
        for key in 0..10_000 {
            established.insert(ConnKey(key), key % 4);
        }
        let looks = std::cell::Cell::new(0);
        let nobody = |_| {
            looks.set(looks.get() + 1);
            false
        };
        assert_eq!(established.to_give_way(nobody), None);
        assert_eq!(looks.get(), LOOKS);
    }
}
