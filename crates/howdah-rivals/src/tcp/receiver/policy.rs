//! When to acknowledge.

use crate::tcp::{AckDelay, AckPolicy};
use howdah_core::{Span, Time};

/// An [`AckPolicy`] at work.
#[derive(Clone, Debug)]
pub(crate) struct AckTimer {
    policy: AckPolicy,
    /// Segments in order that are not acknowledged yet.
    waiting: u32,
    due_at: Option<Time>,
    quick_left: u32,
    /// Linux's ATO: the wait that the spacing of arrivals suggests.
    timeout: Span,
    last_arrival: Option<Time>,
}

impl AckTimer {
    pub(crate) fn new(policy: AckPolicy) -> Self {
        let timeout = match policy.delay {
            AckDelay::Fixed(span) => span,
            AckDelay::Adaptive { min, .. } => min,
        };
        Self {
            policy,
            waiting: 0,
            due_at: None,
            quick_left: policy.quick_segments,
            timeout,
            last_arrival: None,
        }
    }

    pub(crate) const fn policy(&self) -> &AckPolicy {
        &self.policy
    }

    /// Acknowledge the next segments one by one again.
    pub(crate) const fn be_quick(&mut self) {
        self.quick_left = self.policy.quick_segments;
    }

    /// A segment arrived in order. Returns whether to acknowledge now. `full`: it is not shorter
    /// than the largest seen; only those count towards the ratio.
    #[inline]
    pub(crate) fn on_arrival(&mut self, now: Time, full: bool) -> bool {
        self.adapt(now);
        self.waiting += u32::from(full);
        if self.quick_left > 0 {
            self.quick_left -= 1;
            return true;
        }
        if self.waiting >= self.policy.every_segments.max(1) {
            return true;
        }
        if self.due_at.is_none() {
            self.due_at = Some(now + self.timeout);
        }
        false
    }

    /// Linux: half the old wait and half (or all) of the spacing, within bounds; a long silence
    /// makes the receiver quick, for the sender starts slowly again.
    #[inline]
    fn adapt(&mut self, now: Time) {
        let AckDelay::Adaptive { min, max } = self.policy.delay else {
            return;
        };
        let Some(last) = self.last_arrival.replace(now) else {
            return;
        };
        let spacing = now.since(last);
        if spacing <= min / 2 {
            self.timeout = self.timeout / 2 + min / 2;
        } else if spacing < self.timeout {
            self.timeout = (self.timeout / 2 + spacing).min(max);
        } else if spacing > max {
            self.be_quick();
        }
    }

    /// An acknowledgement leaves.
    #[inline]
    pub(crate) const fn on_ack_sent(&mut self) {
        self.waiting = 0;
        self.due_at = None;
    }

    /// When a waiting one must leave.
    pub(crate) const fn due_at(&self) -> Option<Time> {
        self.due_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::ReceiverConfig;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn quick_at_first_then_every_second() {
        let mut timer = AckTimer::new(ReceiverConfig::linux24().acks);
        let mut at = Vec::new();
        for arrival in 0..24 {
            if timer.on_arrival(ms(arrival), true) {
                timer.on_ack_sent();
                at.push(arrival);
            }
        }
        let expected: Vec<u64> = (0..16).chain([17, 19, 21, 23]).collect();
        assert_eq!(at, expected);
    }

    #[test]
    fn each_system_waits_as_long_as_it_does() {
        for (config, expected) in [
            (ReceiverConfig::freebsd53(), 100),
            (ReceiverConfig::winxp_sp2(), 200),
        ] {
            let mut timer = AckTimer::new(config.acks);
            assert!(!timer.on_arrival(ms(5), true));
            assert_eq!(timer.due_at(), Some(ms(5 + expected)), "{config:?}");
        }
    }

    #[test]
    fn linux_waits_between_40_and_200_ms_by_the_spacing() {
        let mut policy = ReceiverConfig::linux24().acks;
        policy.quick_segments = 0;
        let waits = |spacing: u64| {
            let mut timer = AckTimer::new(policy);
            for arrival in 0..40 {
                if timer.on_arrival(ms(arrival * spacing), true) {
                    timer.on_ack_sent();
                }
            }
            let last = ms(40 * spacing);
            timer.on_arrival(last, true);
            timer.due_at().map(|at| at.since(last).as_millis())
        };
        assert!(matches!(waits(1), Some(39..=40)), "{:?}", waits(1));
        let slow = waits(35).unwrap();
        assert!((60..=75).contains(&slow), "{slow}");
    }

    #[test]
    fn a_small_segment_waits_for_the_timer() {
        let mut timer = AckTimer::new(ReceiverConfig::winxp_sp2().acks);
        assert!(!timer.on_arrival(ms(0), true));
        assert!(!timer.on_arrival(ms(1), false));
        assert!(timer.on_arrival(ms(2), true));
    }
}
