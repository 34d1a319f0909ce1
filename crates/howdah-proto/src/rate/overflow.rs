//! At which delay packets are lost: what tells a queue that overflows from loss at random.
//!
//! A queue that drops from its tail loses packets when it is full, so at the largest delays only.
//! Loss on the line meets packets at any delay. Packets and losses are therefore counted by the
//! queueing delay of their time; if loss at large delays is far above the loss at smaller ones, it is
//! the queue's. (Loss differentiation by delay: Biaz and Vaidya 1999; Cen, Cosman, Voelker 2003.)

use howdah_core::num::{floor_to_usize, saturating_i32};
use howdah_core::{Span, Time};
use std::collections::VecDeque;

/// Delays below are one class: hosts and clocks are no more exact than that.
const FIRST: Span = Span::from_micros(120);
/// Classes grow by this factor; the last one begins at about 1 s.
const STEP: f64 = 1.2;
const CLASSES: usize = 52;
/// Counts are kept for one to two of these.
const EPOCH: Span = Span::from_secs(5);
/// Fewer packets at small delays say nothing about the loss there.
const LEAST_BELOW: u64 = 300;
/// Fewer losses, or losses in fewer reports, are chance.
const LEAST_LOST: u64 = 8;
const LEAST_REPORTS: u64 = 6;
/// Loss at large delays is the queue's above so many times the loss at small ones, plus a little.
const RATIO: f64 = 2.0;
const SLACK: f64 = 0.000_5;

#[derive(Clone, Copy, Debug, Default)]
struct Class {
    packets: u64,
    lost: u64,
    /// Reports that told of loss in it.
    reports: u64,
}

impl Class {
    fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.lost += other.lost;
        self.reports += other.reports;
    }

    fn loss(&self) -> f64 {
        self.lost as f64 / self.packets.max(1) as f64
    }

    /// Logarithm of the likelihood of its losses, if it has one rate of loss throughout.
    fn likelihood(&self) -> f64 {
        if self.lost == 0 {
            return 0.0;
        }
        let lost = self.lost.min(self.packets) as f64;
        let loss = lost / self.packets.max(1) as f64;
        let kept = self.packets as f64 - lost;
        lost * loss.ln()
            + if kept > 0.0 {
                kept * (1.0 - loss).ln()
            } else {
                0.0
            }
    }

    /// The loss that it may have at most, seeing so few packets: one more than was lost.
    fn loss_at_most(&self) -> f64 {
        (self.lost + 1) as f64 / self.packets.max(1) as f64
    }
}

/// A queue that overflows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Overflow {
    /// About the delay from which on packets are lost: the length of the queue.
    pub(crate) limit: Span,
    /// Share of packets that is lost when the queue is shorter.
    pub(crate) floor: f64,
    /// The latest report tells of loss by overflow.
    pub(crate) now: bool,
}

/// Packets and losses by delay.
#[derive(Debug)]
pub(crate) struct LossByDelay {
    /// Queueing delay of the newest packet of each report, by the time when the packet was sent.
    delays: VecDeque<(Time, Span)>,
    settled: u64,
    epoch_end: Time,
    current: [Class; CLASSES],
    earlier: [Class; CLASSES],
    latest: [Class; CLASSES],
}

/// Delays kept.
const MAX_DELAYS: usize = 512;

impl Default for LossByDelay {
    fn default() -> Self {
        let none = [Class::default(); CLASSES];
        Self {
            delays: VecDeque::new(),
            settled: 0,
            epoch_end: Time::ZERO,
            current: none,
            earlier: none,
            latest: none,
        }
    }
}

fn class_of(delay: Span) -> usize {
    if delay < FIRST {
        return 0;
    }
    let ratio = delay.as_secs_f64() / FIRST.as_secs_f64();
    (1 + floor_to_usize(ratio.ln() / STEP.ln())).min(CLASSES - 1)
}

impl LossByDelay {
    /// What was counted is about another path, or about a host.
    pub(crate) fn clear(&mut self) {
        let settled = self.settled;
        *self = Self::default();
        self.settled = settled;
    }

    /// One report: its newest packet was sent at `sent_time` and met a queue of `delay`; so many
    /// packets are settled by now, and those sent at `lost` were found lost.
    pub(crate) fn on_report(
        &mut self,
        now: Time,
        sent_time: Time,
        delay: Span,
        settled: u64,
        lost: &[Time],
    ) {
        if now >= self.epoch_end {
            self.epoch_end = now + EPOCH;
            self.earlier = self.current;
            self.current = [Class::default(); CLASSES];
        }
        let before = self.delays.back().map_or(delay, |d| d.1);
        if self.delays.back().is_none_or(|&(at, _)| at < sent_time) {
            if self.delays.len() >= MAX_DELAYS {
                self.delays.pop_front();
            }
            self.delays.push_back((sent_time, delay));
        }
        self.latest = [Class::default(); CLASSES];
        let packets = settled.saturating_sub(self.settled);
        self.settled = settled;
        self.latest[class_of(delay.max(before))].packets += packets;
        for &at in lost {
            let Some(delay) = self.delay_at(at) else {
                continue;
            };
            let class = &mut self.latest[class_of(delay)];
            class.lost += 1;
            class.reports = 1;
        }
        for (sum, new) in self.current.iter_mut().zip(&self.latest) {
            sum.add(new);
        }
    }

    /// Delay of what was sent then: the larger of its neighbours', since a queue that drops is
    /// longest where it drops.
    pub(crate) fn delay_at(&self, sent_time: Time) -> Option<Span> {
        let after = self.delays.partition_point(|&(at, _)| at < sent_time);
        let right = self.delays.get(after).map(|d| d.1);
        let left = after
            .checked_sub(1)
            .and_then(|i| self.delays.get(i))
            .map(|d| d.1);
        left.max(right)
    }

    /// Whether a queue overflows, by the counts of the last seconds.
    pub(crate) fn overflow(&self) -> Option<Overflow> {
        let mut below = Class::default();
        let mut above = Class::default();
        for class in 0..CLASSES {
            above.add(&self.sum(class));
        }
        let mut found = None;
        for class in 1..CLASSES {
            let moved = self.sum(class - 1);
            below.add(&moved);
            above.packets -= moved.packets;
            above.lost -= moved.lost;
            above.reports -= moved.reports;
            if above.lost < LEAST_LOST || above.reports < LEAST_REPORTS {
                break;
            }
            if below.packets < LEAST_BELOW {
                continue;
            }
            let expected = below.loss_at_most() * above.packets as f64;
            let most = RATIO * expected + 4.0 * expected.sqrt() + SLACK * above.packets as f64;
            // Of all places to cut, the one that explains the losses best.
            let likelihood = above.likelihood() + below.likelihood();
            if above.lost as f64 > most && found.is_none_or(|(_, _, best)| likelihood > best) {
                found = Some((class, below.loss(), likelihood));
            }
        }
        let (class, floor, _) = found?;
        let mut latest = Class::default();
        for new in &self.latest[class..] {
            latest.add(new);
        }
        // Those packets may have been settled as delivered by earlier reports.
        let all: u64 = self.latest.iter().map(|c| c.packets).sum();
        let now = latest.lost as f64 > (RATIO * floor + SLACK) * all as f64;
        let limit = FIRST.mul_f64(STEP.powi(saturating_i32(class) - 1));
        Some(Overflow { limit, floor, now })
    }

    fn sum(&self, class: usize) -> Class {
        let mut sum = self.current[class];
        sum.add(&self.earlier[class]);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    /// Reports 10 ms apart of 100 packets each; the queue swings between 0 and 1.5 ms within half a
    /// second. `lost` tells how many of them are lost at a delay.
    fn swing(counts: &mut LossByDelay, seconds: u64, lost: impl Fn(u64, Span) -> u64) -> bool {
        let mut ever = false;
        for step in 0..seconds * 100 {
            let phase = step % 50;
            let delay = Span::from_micros(60 * phase.min(50 - phase));
            let at = ms(step * 10);
            // Sent in the middle between two reports.
            let middle = at - Span::from_millis(5);
            let lost = vec![middle; lost(step, delay) as usize];
            counts.on_report(at, at, delay, (step + 1) * 100, &lost);
            ever |= counts.overflow().is_some_and(|o| o.now);
        }
        ever
    }

    #[test]
    fn loss_at_the_longest_delay_is_the_queues() {
        let mut counts = LossByDelay::default();
        let full = |_, delay| u64::from(delay > Span::from_micros(1_300));
        assert!(swing(&mut counts, 10, full));
        let overflow = counts.overflow().expect("counts of ten seconds");
        assert!(overflow.floor < 0.001, "{overflow:?}");
        let limit = Span::from_micros(1_000)..Span::from_micros(1_500);
        assert!(limit.contains(&overflow.limit), "{overflow:?}");
        counts.clear();
        assert_eq!(counts.overflow(), None);
    }

    #[test]
    fn loss_at_any_delay_is_not() {
        // About 1 %, in no step with the queue's swing of 50 reports.
        for every in [1, 3, 7, 31] {
            let mut counts = LossByDelay::default();
            let random = |step: u64, _| u64::from(step.is_multiple_of(every)) * every.min(3);
            assert!(!swing(&mut counts, 20, random), "every {every}");
        }
    }

    #[test]
    fn overflow_is_seen_beside_loss_at_random() {
        let mut counts = LossByDelay::default();
        let both = |step: u64, delay| {
            u64::from(step.is_multiple_of(7)) + 10 * u64::from(delay > Span::from_micros(1_300))
        };
        assert!(swing(&mut counts, 10, both));
    }
}
