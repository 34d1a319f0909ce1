//! Which of those that are attended to are looked at in this turn of the loop: so many at most, one after the other. However
//! many have something under way, a turn is not longer for those who have nothing to do with them.

use crate::application::ConnKey;
use std::collections::BTreeSet;
use std::ops::Bound;

/// Looked at in one turn.
const AT_ONCE: usize = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct Rotation {
    /// The last one.
    after: ConnKey,
    /// Not looked at since it began.
    left: usize,
    /// It begins anew.
    called: bool,
}

impl Default for Rotation {
    fn default() -> Self {
        Self {
            after: ConnKey(0),
            left: 0,
            called: false,
        }
    }
}

impl Rotation {
    /// Something has happened to one of them, and nobody knows to which.
    pub(crate) fn call(&mut self) {
        self.called = true;
    }

    /// Whether some have not been looked at since it began.
    pub(crate) fn goes_on(&self) -> bool {
        self.left > 0 || self.called
    }

    /// The next ones. If nobody is left and it was not called, it begins anew only where that is wanted: who still waits for
    /// the last one's turn would else never come to rest.
    pub(crate) fn next(&mut self, keys: &BTreeSet<ConnKey>, anew: bool) -> Vec<ConnKey> {
        if std::mem::take(&mut self.called) || self.left == 0 && anew {
            self.left = keys.len();
        }
        let left = self.left.min(keys.len());
        let count = left.min(AT_ONCE);
        self.left = left - count;
        let behind = keys.range((Bound::Excluded(self.after), Bound::Unbounded));
        let next = behind.chain(keys.range(..=self.after)).take(count);
        let next: Vec<_> = next.copied().collect();
        self.after = next.last().copied().unwrap_or(self.after);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(count: u64) -> BTreeSet<ConnKey> {
        (1..=count).map(ConnKey).collect()
    }

    #[test]
    fn few_are_looked_at_in_each_turn() {
        let (few, mut rotation) = (keys(64), Rotation::default());
        for _ in 0..3 {
            let next: BTreeSet<_> = rotation.next(&few, true).into_iter().collect();
            assert_eq!(next, few);
            assert!(!rotation.goes_on());
        }
        assert_eq!(rotation.next(&BTreeSet::new(), true), []);
        assert!(!rotation.goes_on());
    }

    /// O1: ten thousand that have something under way.
    #[test]
    fn o1_many_have_their_turns_one_after_the_other_and_all_after_each_call() {
        let (many, mut rotation) = (keys(10_000), Rotation::default());
        let all = |rotation: &mut Rotation| {
            let (mut seen, mut turns) = (BTreeSet::new(), 0);
            while turns == 0 || rotation.goes_on() {
                let next = rotation.next(&many, true);
                assert!(next.len() <= AT_ONCE);
                seen.extend(next);
                turns += 1;
            }
            assert_eq!(turns, 10_000_usize.div_ceil(AT_ONCE));
            seen
        };
        assert_eq!(all(&mut rotation), many);
        // Somebody calls in the midst: those before, too.
        for _ in 0..5 {
            rotation.next(&many, true);
        }
        rotation.call();
        assert_eq!(all(&mut rotation), many);
        // Some go, and it comes to an end all the same.
        rotation.next(&many, true);
        let few = keys(3);
        assert_eq!(rotation.next(&few, true).len(), 3);
        assert!(!rotation.goes_on());
    }

    /// H11: one key has sixty sessions with something under way and nothing to do.
    #[test]
    fn h11_many_of_one_key_come_to_rest() {
        let (many, mut turns) = (keys(60), crate::turns::Turns::default());
        let mut rotation = Rotation::default();
        for called in [false, true] {
            if called {
                rotation.call();
            }
            let (mut count, mut seen) = (0, BTreeSet::new());
            loop {
                let mut due = rotation.next(&many, !turns.is_waiting());
                let others = turns.choose(&mut due, |_| 0);
                seen.extend(due);
                count += 1;
                assert!(count <= 15, "four in each turn, and each once");
                if !others && !rotation.goes_on() {
                    break;
                }
            }
            assert_eq!(seen, many);
        }
    }
}
