//! Who of those that are due is looked at in this turn of the loop: a few of each group, and groups all in the same turn.
//!
//! Whoever opens a thousand connections would else have a thousand trains sent for each one of somebody else's.

use super::ConnKey;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Connections of one group that are looked at in one turn.
const TURN_OF_GROUP: usize = 4;

/// Connections that are due and have not had their turn yet.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    lines: BTreeMap<u64, VecDeque<ConnKey>>,
    waiting: BTreeSet<ConnKey>,
}

impl Turns {
    /// Leaves of `due` those whose turn this is, after some that had to wait. Returns whether there are others.
    pub(crate) fn choose(
        &mut self,
        due: &mut Vec<ConnKey>,
        group: impl Fn(ConnKey) -> u64,
    ) -> bool {
        if self.waiting.is_empty() && due.len() <= TURN_OF_GROUP {
            return false;
        }
        for key in due.drain(..) {
            if self.waiting.insert(key) {
                self.lines.entry(group(key)).or_default().push_back(key);
            }
        }
        self.lines.retain(|_, line| {
            let count = line.len().min(TURN_OF_GROUP);
            due.extend(line.drain(..count));
            !line.is_empty()
        });
        for key in &*due {
            self.waiting.remove(key);
        }
        !self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One has a thousand connections that always want something, others have one.
    #[test]
    fn h11_many_connections_of_one_key_leave_those_of_others_their_turns() {
        let mut turns = Turns::default();
        let mut visits: BTreeMap<ConnKey, usize> = BTreeMap::new();
        let group = |key: ConnKey| if key.0 < 1_000 { 0 } else { key.0 };
        let all: Vec<_> = (0..1_003).map(ConnKey).collect();
        for _ in 0..1_000 {
            let mut due = all.clone();
            assert!(turns.choose(&mut due, group));
            assert!(due.len() <= 3 + TURN_OF_GROUP);
            for key in due {
                *visits.entry(key).or_default() += 1;
            }
        }
        for key in 1_000..1_003 {
            assert_eq!(visits[&ConnKey(key)], 1_000, "each turn has one for it");
        }
        // And those of the crowd share theirs.
        let crowd = (0..1_000).map(|key| visits[&ConnKey(key)]);
        assert!(crowd.clone().all(|visits| visits == TURN_OF_GROUP));
        let mut none = Vec::new();
        while turns.choose(&mut none, group) {
            none.clear();
        }
        assert!(turns.lines.is_empty() && turns.waiting.is_empty());
    }

    #[test]
    fn nobody_waits_where_few_are_due_and_nobody_is_named_twice() {
        let mut turns = Turns::default();
        let mut due: Vec<_> = (0..4).map(ConnKey).collect();
        assert!(!turns.choose(&mut due, |_| 0));
        assert_eq!(due.len(), 4);
        let mut due: Vec<_> = (0..6).map(ConnKey).collect();
        assert!(turns.choose(&mut due, |_| 0));
        let mut due: Vec<_> = (0..6).map(ConnKey).collect();
        assert!(turns.choose(&mut due, |_| 0));
        assert_eq!(due, [4, 5, 0, 1].map(ConnKey));
        let mut due: Vec<_> = (0..9).map(ConnKey).collect();
        assert!(!turns.choose(&mut due, |key| key.0));
    }
}
