//! For measuring: which connections had their turn of the loop when they wanted one, and how much was done for others in it.
//! Nothing is counted unless somebody asks.

use howdah_proto::endpoint::ConnKey;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// What became of the wishes of one group's connections.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TurnCount {
    /// Turns of the loop in which one of them was looked at, or a packet for it.
    pub had: u64,
    /// Turns in which one of them wanted that in vain: it was put off to a later one.
    pub missed: u64,
    /// The most that was done for others in a turn that one of them had, in packets and looks at connections.
    pub most_for_others: u64,
}

impl TurnCount {
    /// Of the turns that they wanted, those that they had; 1 if they wanted none.
    pub fn share(&self) -> f64 {
        match self.had + self.missed {
            0 => 1.0,
            wanted => self.had as f64 / wanted as f64,
        }
    }
}

/// The counts of all groups ([`Application::group`](crate::Application::group)). Clones are the same ones.
#[derive(Clone, Debug, Default)]
pub struct TurnCounts(Arc<Mutex<BTreeMap<u64, TurnCount>>>);

impl TurnCounts {
    /// What was counted since the last time, by group.
    pub fn take(&self) -> BTreeMap<u64, TurnCount> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    pub(crate) shared: TurnCounts,
    /// They want to be looked at.
    due: BTreeSet<ConnKey>,
    /// Buffers with packets for them lie there.
    lying: BTreeMap<ConnKey, usize>,
    /// What was done in this turn for each connection, and in all.
    done: BTreeMap<ConnKey, u64>,
    done_in_all: u64,
}

impl Counting {
    /// Of one of several loops, for whoever counts all of them.
    pub(crate) fn into(shared: &TurnCounts) -> Self {
        Self {
            shared: shared.clone(),
            ..Self::default()
        }
    }

    /// A buffer for that connection was read.
    pub(crate) fn lies(&mut self, key: ConnKey) {
        *self.lying.entry(key).or_default() += 1;
    }

    /// It is looked at.
    pub(crate) fn lies_no_more(&mut self, key: ConnKey) {
        let Some(count) = self.lying.get_mut(&key) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.lying.remove(&key);
        }
    }

    /// These want to be looked at.
    pub(crate) fn want(&mut self, due: &[ConnKey]) {
        self.due.extend(due);
    }

    /// This one is looked at.
    pub(crate) fn look(&mut self, key: ConnKey) {
        self.due.remove(&key);
        self.work(Some(key));
    }

    /// A packet is looked at, for that connection or for nobody's.
    pub(crate) fn work(&mut self, key: Option<ConnKey>) {
        self.done_in_all += 1;
        if let Some(key) = key {
            *self.done.entry(key).or_default() += 1;
        }
    }

    /// The turn is over; who belongs to whom.
    pub(crate) fn end_turn(&mut self, group: impl Fn(ConnKey) -> u64) {
        let in_all = std::mem::take(&mut self.done_in_all);
        let mut of_groups: BTreeMap<u64, u64> = BTreeMap::new();
        let mut counts = self.shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted: BTreeSet<_> = self.due.iter().chain(self.lying.keys()).collect();
        for &key in wanted {
            if !self.done.contains_key(&key) {
                counts.entry(group(key)).or_default().missed += 1;
            }
        }
        for (key, done) in std::mem::take(&mut self.done) {
            counts.entry(group(key)).or_default().had += 1;
            *of_groups.entry(group(key)).or_default() += done;
        }
        for (group, done) in of_groups {
            let count = counts.entry(group).or_default();
            count.most_for_others = count.most_for_others.max(in_all - done);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_put_off_and_what_is_done_meanwhile_is_counted() {
        let mut counting = Counting::default();
        let (good, other) = (ConnKey(1), ConnKey(2));
        let group = |key: ConnKey| key.0 * 10;
        // It is put off twice, with a packet that lies there the first time.
        counting.want(&[good, other]);
        counting.look(other);
        counting.end_turn(group);
        counting.lies(good);
        counting.want(&[good]);
        counting.end_turn(group);
        counting.look(good);
        counting.lies_no_more(good);
        for whose in [Some(good), None, None, Some(other)] {
            counting.work(whose);
        }
        counting.end_turn(group);
        // Who has had something has had the turn, whatever is left for the next one.
        counting.lies(good);
        counting.look(good);
        counting.end_turn(group);
        counting.end_turn(group);
        let of_good = TurnCount {
            had: 2,
            missed: 3,
            most_for_others: 3,
        };
        let of_other = TurnCount {
            had: 2,
            missed: 0,
            most_for_others: 4,
        };
        assert_eq!(
            counting.shared.take(),
            [(10, of_good), (20, of_other)].into()
        );
        assert!((of_good.share() - 0.4).abs() < 1e-9);
        assert!((TurnCount::default().share() - 1.0).abs() < 1e-9);
        assert_eq!(counting.shared.take(), BTreeMap::new());
    }
}
