//! Connections that are attended to are looked at now and then, called for or not: their deadlines, and what others have changed
//! about them. So many in one turn at most, one after the other: however many have something under way, a turn is not longer for
//! those who have nothing to do with them.

use super::ConnKey;
use howdah_core::{Span, Time};
use std::collections::BTreeSet;
use std::ops::Bound;

/// Looked at in one turn.
const AT_ONCE: usize = 64;
/// From the end of a round to the next one.
const EVERY: Span = Span::from_millis(20);
/// Between the turns of a round.
const BETWEEN: Span = Span::from_millis(1);

/// See the module.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// The last one; a round begins behind nobody.
    after: Option<ConnKey>,
    next_at: Time,
}

impl Default for Sweep {
    fn default() -> Self {
        Self {
            after: None,
            next_at: Time::ZERO,
        }
    }
}

impl Sweep {
    /// When some of these are to be looked at next.
    pub(crate) fn next_at(&self, keys: &BTreeSet<ConnKey>) -> Option<Time> {
        (!keys.is_empty()).then_some(self.next_at)
    }

    /// Those whose turn it is.
    pub(crate) fn take(&mut self, now: Time, keys: &BTreeSet<ConnKey>) -> Vec<ConnKey> {
        if now < self.next_at {
            return Vec::new();
        }
        let behind = (
            self.after.map_or(Bound::Unbounded, Bound::Excluded),
            Bound::Unbounded,
        );
        let next: Vec<_> = keys.range(behind).take(AT_ONCE).copied().collect();
        let is_whole = next.len() < AT_ONCE;
        self.after = next.last().copied().filter(|_| !is_whole);
        self.next_at = now + if is_whole { EVERY } else { BETWEEN };
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// O1, H11: however many have something under way, none of which has anything to do.
    #[test]
    fn o1_each_has_its_look_in_a_round_and_no_turn_has_many() {
        for count in [0, 1, 63, 64, 65, 10_000] {
            let keys: BTreeSet<_> = (0..count).map(ConnKey).collect();
            let (mut sweep, mut now) = (Sweep::default(), Time::ZERO);
            for _ in 0..3 {
                let (mut seen, mut turns) = (Vec::new(), 0);
                let begun = now;
                loop {
                    let next = sweep.take(now, &keys);
                    assert!(next.len() <= AT_ONCE);
                    seen.extend(next);
                    turns += 1;
                    assert_eq!(sweep.take(now, &keys), [], "not twice in one moment");
                    let Some(at) = sweep.next_at(&keys) else {
                        assert_eq!(count, 0);
                        break;
                    };
                    let is_over = at == now + EVERY;
                    now = at;
                    if is_over {
                        break;
                    }
                }
                assert!(seen.iter().eq(&keys), "each once");
                assert_eq!(turns, count as usize / AT_ONCE + 1);
                assert!(now.since(begun) <= EVERY + BETWEEN * turns as u64);
                now += EVERY;
            }
        }
    }
}
