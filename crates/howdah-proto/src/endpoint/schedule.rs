//! Which connections have something to do: no work for those that have not.

use super::ConnKey;
use howdah_core::Time;
use std::collections::{BTreeMap, BTreeSet};

/// When each connection wants to be looked at next, and which ones must be now.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// In the order of time.
    timers: BTreeSet<(Time, ConnKey)>,
    at: BTreeMap<ConnKey, Time>,
    touched: Vec<ConnKey>,
    visits: u64,
}

impl Schedule {
    /// Something happened to that connection: it is due in the next round.
    pub(crate) fn touch(&mut self, key: ConnKey) {
        // A train of packets touches one connection many times.
        if self.touched.last() != Some(&key) {
            self.touched.push(key);
        }
    }

    /// When that connection wants to be looked at.
    pub(crate) fn set(&mut self, key: ConnKey, at: Option<Time>) {
        let before = match at {
            Some(at) => self.at.insert(key, at),
            None => self.at.remove(&key),
        };
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.timers.remove(&(before, key));
        }
        if let Some(at) = at {
            self.timers.insert((at, key));
        }
    }

    /// The connection is gone.
    pub(crate) fn forget(&mut self, key: ConnKey) {
        self.set(key, None);
    }

    /// The earliest time that some connection waits for.
    pub(crate) fn next(&self) -> Option<Time> {
        self.timers.first().map(|&(at, _)| at)
    }

    /// Whether some connection is due whatever the time.
    pub(crate) fn has_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Puts those that are due at `now`, and `others`, into `due`, each once and in order. Who is named is to be looked at, in this
    /// turn or a later one, and has a time again when that was [set](Self::set): so those that must wait cost the turns between
    /// nothing, however many they are.
    pub(crate) fn take_due(
        &mut self,
        now: Time,
        others: impl IntoIterator<Item = ConnKey>,
        due: &mut Vec<ConnKey>,
    ) {
        due.clear();
        due.append(&mut self.touched);
        while let Some(&(_, key)) = self.timers.first().filter(|(at, _)| *at <= now) {
            self.set(key, None);
            due.push(key);
        }
        due.extend(others);
        due.sort_unstable();
        due.dedup();
        self.visits += due.len() as u64;
    }

    /// Connections looked at so far.
    pub(crate) fn visits(&self) -> u64 {
        self.visits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_core::Span;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn idle_connections_cost_a_busy_one_nothing() {
        const IDLE: u64 = 4_000;
        let mut schedule = Schedule::default();
        // Keep-alives, one after the other.
        for key in 0..IDLE {
            schedule.set(ConnKey(key), Some(at(2_000 + key)));
        }
        let (busy, mut due) = (ConnKey(IDLE), Vec::new());
        for round in 0..1_000 {
            schedule.touch(busy);
            schedule.take_due(at(round), [], &mut due);
            assert_eq!(due, [busy]);
            schedule.set(busy, Some(at(round + 10)));
            assert_eq!(schedule.next(), Some(at(round + 10)));
        }
        assert_eq!(schedule.visits(), 1_000);
        schedule.forget(busy);
        assert_eq!(schedule.next(), Some(at(2_000)));
    }

    #[test]
    fn whoever_is_due_is_named_once_until_its_time_is_set_again() {
        let mut schedule = Schedule::default();
        let (a, b, c) = (ConnKey(1), ConnKey(2), ConnKey(3));
        schedule.set(a, Some(at(10)));
        schedule.set(a, Some(at(20)));
        schedule.set(b, Some(at(20)));
        schedule.set(c, Some(at(21)));
        for key in [a, b, a, b] {
            schedule.touch(key);
        }
        let mut due = Vec::new();
        schedule.take_due(at(20), [c, a], &mut due);
        assert_eq!(due, [a, b, c]);
        assert!(!schedule.has_touched());
        schedule.take_due(at(20), [], &mut due);
        assert_eq!(due, [], "they are named already");
        assert_eq!(schedule.next(), Some(at(21)), "the time of another one");
        schedule.set(a, Some(at(10)));
        schedule.set(b, Some(at(30)));
        schedule.take_due(at(19), [], &mut due);
        assert_eq!(due, [a], "its time has long been there");
        schedule.take_due(at(21), [], &mut due);
        assert_eq!(due, [c]);
        assert_eq!(schedule.next(), Some(at(30)));
        schedule.forget(b);
        schedule.forget(c);
        assert_eq!(schedule.next(), None);
    }

    /// O1: the timers of ten thousand sessions of one key are due, of which a turn looks at a few.
    #[test]
    fn o1_many_that_wait_for_their_turns_are_named_once_each() {
        const CROWD: u64 = 10_000;
        let (mut schedule, mut turns) =
            (Schedule::default(), super::super::turns::Turns::default());
        for key in 0..CROWD {
            schedule.set(ConnKey(key), Some(at(1)));
        }
        let (mut due, mut looks, mut more) = (Vec::new(), 0, true);
        while more {
            schedule.take_due(at(2), [], &mut due);
            more = turns.choose(&mut due, |_| 0);
            for &key in &due {
                looks += 1;
                schedule.set(key, Some(at(2_000)));
            }
        }
        assert_eq!((looks, schedule.visits()), (CROWD, CROWD));
    }
}
