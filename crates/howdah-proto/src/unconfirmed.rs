//! Stretches of packet numbers that stand in a report which the sender has not confirmed yet.
//!
//! The peer decides when to confirm, and whether: every step here costs at most the logarithm of what is kept,
//! and what is due together is told together, so that withholding confirmations makes nothing grow.

use howdah_core::{Span, Time};
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};

/// Stretches that do not touch each other, told again in one report at most.
const MAX_REPEATED: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Stretch {
    to: u64,
    report: u64,
    sent_at: Time,
}

/// Stretches kept at most; an honest sender leaves a few hundred open on the longest path.
const MAX_STRETCHES: usize = 1_024;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Unconfirmed {
    /// (report, first number), in ascending order of reports. The first one is never confirmed, others may be.
    order: VecDeque<(u64, u64)>,
    /// By first number; they do not overlap.
    stretches: BTreeMap<u64, Stretch>,
    #[cfg(test)]
    steps: std::cell::Cell<u64>,
}

impl Unconfirmed {
    pub(crate) fn kept_bytes(&self) -> usize {
        let each = size_of::<(u64, u64)>();
        self.order.len() * each + self.stretches.len() * (each + size_of::<Stretch>())
    }

    /// `from..to` stands in `report`, which is the newest.
    pub(crate) fn push(&mut self, report: u64, from: u64, to: u64, sent_at: Time) {
        self.order.push_back((report, from));
        let stretch = Stretch {
            to,
            report,
            sent_at,
        };
        self.stretches.insert(from, stretch);
        if self.stretches.len() > MAX_STRETCHES {
            self.join_all();
        }
    }

    /// What is confirmed between them is told again, too, which costs the peer's own bytes.
    fn join_all(&mut self) {
        let from = self.lowest().unwrap_or(0);
        let to = self.stretches.values().map(|s| s.to).max().unwrap_or(from);
        self.order.clear();
        self.stretches.clear();
        self.put_back(from, to);
    }

    /// `from..to` did not fit: the next report must tell it.
    pub(crate) fn put_back(&mut self, from: u64, to: u64) {
        self.order.push_front((0, from));
        let stretch = Stretch {
            to,
            report: 0,
            sent_at: Time::ZERO,
        };
        self.stretches.insert(from, stretch);
    }

    /// Takes out what has waited for `timeout`, what touches joined.
    pub(crate) fn take_due(
        &mut self,
        now: Time,
        timeout: Span,
    ) -> SmallVec<[(u64, u64); MAX_REPEATED]> {
        let mut due: SmallVec<[(u64, u64); MAX_REPEATED]> = SmallVec::new();
        while let Some(&(_, from)) = self.order.front() {
            self.count_step();
            let Some(stretch) = self.stretches.get(&from).copied() else {
                break;
            };
            if now.since(stretch.sent_at) < timeout {
                break;
            }
            let is_full = due.len() == MAX_REPEATED;
            match due.last_mut() {
                Some(last) if last.1 == from => last.1 = stretch.to,
                _ if is_full => break,
                _ => due.push((from, stretch.to)),
            }
            self.stretches.remove(&from);
            self.drop_confirmed();
        }
        due
    }

    /// When the first of them must be told again.
    pub(crate) fn next_repeat(&self, timeout: Span) -> Option<Time> {
        let (_, from) = self.order.front()?;
        Some(self.stretches.get(from)?.sent_at + timeout)
    }

    /// The sender has `report`. Returns when that was sent, if something in it still waited.
    pub(crate) fn confirm(&mut self, report: u64) -> Option<Time> {
        let first = self.order.partition_point(|&(number, _)| {
            self.count_step();
            number < report
        });
        let mut sent_at = None;
        for at in first..self.order.len() {
            self.count_step();
            let (number, from) = self.order[at];
            if number != report {
                break;
            }
            if self.is_of(from, report) {
                sent_at = self.stretches.remove(&from).map(|s| s.sent_at);
            }
        }
        self.drop_confirmed();
        sent_at
    }

    /// The lowest number that waits.
    pub(crate) fn lowest(&self) -> Option<u64> {
        self.stretches.first_key_value().map(|(&from, _)| from)
    }

    fn is_of(&self, from: u64, report: u64) -> bool {
        self.stretches
            .get(&from)
            .is_some_and(|s| s.report == report)
    }

    fn drop_confirmed(&mut self) {
        while let Some(&(report, from)) = self.order.front() {
            self.count_step();
            if self.is_of(from, report) {
                break;
            }
            self.order.pop_front();
        }
    }

    /// Tests count, for a peer drives this.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "only tests count"))]
    fn count_step(&self) {
        #[cfg(test)]
        self.steps.set(self.steps.get() + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Span = Span::from_millis(100);

    fn at_ms(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn what_is_due_is_joined_where_it_touches() {
        let mut waiting = Unconfirmed::default();
        for (report, from) in [(1, 0), (2, 10), (3, 20), (4, 30)] {
            waiting.push(report, from, from + 10, at_ms(report));
        }
        assert_eq!(waiting.confirm(3), Some(at_ms(3)));
        assert_eq!(waiting.confirm(3), None);
        assert_eq!(waiting.lowest(), Some(0));
        assert_eq!(waiting.next_repeat(TIMEOUT), Some(at_ms(101)));
        assert!(waiting.take_due(at_ms(100), TIMEOUT).is_empty());
        assert_eq!(
            waiting.take_due(at_ms(200), TIMEOUT)[..],
            [(0, 20), (30, 40)]
        );
        waiting.put_back(35, 40);
        waiting.push(5, 0, 20, at_ms(200));
        assert_eq!(waiting.confirm(1), None, "told again in another report");
        assert_eq!(waiting.take_due(at_ms(200), TIMEOUT)[..], [(35, 40)]);
        assert_eq!(waiting.confirm(5), Some(at_ms(200)));
        assert_eq!(waiting.lowest(), None);
        assert!(waiting.order.is_empty());
    }

    /// H4: a `REPORT_ACK` names 65 reports in 12 bytes, and a peer may confirm none of them for ever.
    #[test]
    fn a_peer_that_withholds_confirmations_makes_nothing_grow_and_asks_cheaply() {
        const REPORTS: u64 = 20_000;
        let mut waiting = Unconfirmed::default();
        let (mut covered, mut most) = (0, 0);
        for report in 1..=REPORTS {
            let now = at_ms(report);
            for (from, to) in waiting.take_due(now, TIMEOUT) {
                waiting.push(report, from, to, now);
            }
            waiting.push(report, covered, covered + 3, now);
            covered += 3;
            for back in 0..65 {
                // Reports that are long gone, and those that are yet to come.
                let _ = waiting.confirm((report + 40).saturating_sub(back * 700));
            }
            most = most.max(waiting.order.len());
        }
        assert!(most <= 2 * MAX_STRETCHES, "{most} stretches");
        let asked = REPORTS * 66;
        let log = u64::from(most.ilog2()) + 3;
        let steps = waiting.steps.get();
        assert!(steps <= asked * log, "{steps} steps for {asked} questions");
    }
}
