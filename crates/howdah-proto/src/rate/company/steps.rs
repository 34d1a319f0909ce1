//! Steps in what arrives: somebody has come, and the flows have not settled yet.

use crate::rtt::WindowedMin;
use howdah_core::{Rate, Span, Time};
use std::collections::VecDeque;

/// What is compared is the most of so long with the most of the time before it; drains are shorter.
const LOOK: Span = Span::from_millis(600);
const AGO: Span = Span::from_millis(900);
const EVERY: Span = Span::from_millis(100);
/// Less than this share of before is a step.
const STEP: f64 = 0.75;
/// Who has less than this share of the link sees no steps.
const SMALL: f64 = 0.25;
/// Flows of this kind have settled so long after one has come.
const SETTLES: Span = Span::from_millis(2_500);
/// Steps that are closer than this are one chain, and no longer settled after.
const CHAIN: Span = Span::from_secs(4);
const LONGEST: Span = Span::from_millis(9_500);

#[derive(Clone, Copy, Debug)]
struct Chain {
    first: Time,
    last: Time,
    /// What arrived before the first.
    before: Rate,
}

#[derive(Debug)]
pub(super) struct Steps {
    /// As its complement.
    most: WindowedMin,
    before: VecDeque<(Time, Rate)>,
    chain: Option<Chain>,
}

impl Steps {
    pub(super) fn new() -> Self {
        Self {
            most: WindowedMin::new(LOOK),
            before: VecDeque::new(),
            chain: None,
        }
    }

    pub(super) fn on_arrived(&mut self, now: Time, rate: Rate, link: Rate) {
        self.most.push(now, u64::MAX - rate.bits_per_sec());
        if self.before.back().is_some_and(|b| now.since(b.0) < EVERY) {
            return;
        }
        let most = Rate::from_bits_per_sec(u64::MAX - self.most.min().unwrap_or(u64::MAX));
        self.before.push_back((now, most));
        while self
            .before
            .front()
            .is_some_and(|b| now.since(b.0) > LOOK + AGO)
        {
            self.before.pop_front();
        }
        let old = self.before.iter().filter(|b| now.since(b.0) >= LOOK);
        let old = old.map(|b| b.1).max().unwrap_or(Rate::ZERO);
        if most.as_f64() < STEP * old.as_f64() && old.as_f64() > SMALL * link.as_f64() {
            match &mut self.chain {
                Some(chain) if now.since(chain.last) < CHAIN => chain.last = now,
                _ => {
                    self.chain = Some(Chain {
                        first: now,
                        last: now,
                        before: old,
                    });
                }
            }
        }
    }

    /// Flows may not have settled yet. (Who only gives way for long does not settle.)
    pub(super) fn is_settling(&self, now: Time) -> bool {
        self.chain
            .is_some_and(|c| now.since(c.last) < SETTLES && now.since(c.first) < LONGEST)
    }

    /// What arrived before somebody came.
    pub(super) fn before(&self) -> Rate {
        self.chain.map_or(Rate::ZERO, |c| c.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Rate = Rate::from_mbit_per_sec(100);

    /// Reports each 20 ms of what arrives at `rate`; whether it settles at `looks`, all in milliseconds.
    fn settling(rate: impl Fn(u64) -> f64, looks: &[u64]) -> Vec<bool> {
        let mut steps = Steps::new();
        let end = looks.last().copied().unwrap_or(0);
        let mut seen = Vec::new();
        for at in (0..=end).step_by(20) {
            let now = Time::ZERO + Span::from_millis(at);
            steps.on_arrived(now, LINK.mul_f64(rate(at)), LINK);
            if looks.contains(&at) {
                seen.push(steps.is_settling(now));
            }
        }
        seen
    }

    #[test]
    fn who_comes_makes_a_step_and_a_drain_does_not() {
        let joined = |at| if at < 5_000 { 1.0 } else { 0.5 };
        let looks = [4_900, 6_000, 8_000, 9_600];
        assert_eq!(settling(joined, &looks), [false, true, true, false]);
        let drains = |at| if at % 5_000 < 200 { 0.4 } else { 1.0 };
        assert_eq!(settling(drains, &looks), [false; 4]);
    }

    #[test]
    fn who_gives_way_for_long_is_judged_after_all() {
        let falls = |at: u64| 0.5f64.powf(at.saturating_sub(5_000) as f64 / 2_000.0);
        assert_eq!(settling(falls, &[7_000, 15_500]), [true, false]);
        // Flows that come one after the other.
        let three = |at: u64| 1.0 / (1 + (at / 3_000).min(3)) as f64;
        assert_eq!(
            settling(three, &[4_000, 7_000, 10_000, 13_000]),
            [true, true, true, false]
        );
    }
}
