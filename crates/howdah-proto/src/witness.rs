//! What a report says of times and bytes, held against what the sender knows by itself.
//!
//! The receiver's clock has an origin of its own, so a time of its says nothing alone. But each packet came after it had been
//! sent, and before it was told of: both by the sender's clock. Each report so narrows where the origin can be, and a time
//! that fits nowhere is taken for the nearest one that does. Whoever lies about times gains a round trip in all, and none in
//! each report; then packets seem to take no time, as on a path without a queue, and losses tell how full it is.

use howdah_core::{Span, Time};

/// Clocks go apart by no more than a thousandth.
const DRIFT_DIVISOR: i64 = 1_000;
/// No clock says more, in nanoseconds: differences of times are numbers.
const LATEST: u64 = 1 << 62;

/// What is known of a receiver.
#[derive(Clone, Debug, Default)]
pub(crate) struct Witness {
    /// Its clock minus ours lies between these, in nanoseconds, and when that was so.
    origin: Option<(i64, i64, Time)>,
    /// Bytes that it claims and that cannot have come.
    overclaimed: u64,
}

impl Witness {
    /// When a packet came by the receiver's clock, which says `told`; it was `sent` and has been told of at `now`.
    pub(crate) fn arrival(&mut self, now: Time, sent: Time, told_us: u64) -> Time {
        let told = Time::from_nanos(told_us.saturating_mul(1_000).min(LATEST));
        let (earliest, latest) = (told.nanos_after(now), told.nanos_after(sent));
        let Some((low, high, at)) = self.origin else {
            self.origin = Some((earliest, latest, now));
            return told;
        };
        let drift = i64::try_from(now.since(at).as_nanos()).unwrap_or(i64::MAX) / DRIFT_DIVISOR;
        let (low, high) = (low.saturating_sub(drift), high.saturating_add(drift));
        // Too early by so much, or too late.
        let early = low.saturating_sub(latest).max(0).unsigned_abs();
        let late = earliest.saturating_sub(high).max(0).unsigned_abs();
        let held = told + Span::from_nanos(early) - Span::from_nanos(late);
        let (earliest, latest) = (held.nanos_after(now), held.nanos_after(sent));
        self.origin = Some((low.max(earliest), high.min(latest), now));
        held
    }

    /// What came of `possible` bytes, as the receiver `told`. Both run since the beginning.
    pub(crate) fn delivered(&mut self, told: u64, possible: u64) -> u64 {
        self.overclaimed = self.overclaimed.max(told.saturating_sub(possible));
        told.saturating_sub(self.overclaimed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * MS)
    }

    /// Every 10 ms a packet is sent, it takes 50 ms there, and as long back.
    fn run(told_us: impl Fn(u64) -> u64) -> Vec<u64> {
        let mut witness = Witness::default();
        let hear = |n: u64| witness.arrival(at(n * 10 + 100), at(n * 10), told_us(n));
        (0..2_000)
            .map(hear)
            .map(|held| held.as_nanos() / 1_000)
            .collect()
    }

    #[test]
    fn an_honest_clock_is_believed_whatever_its_origin_and_within_a_thousandth() {
        for (origin_us, ppm) in [(0, 0), (7_000_000_000, 0), (3, 900), (5_000_000, -900_i64)] {
            let told = |n: u64| {
                let since = n * 10_000 + 50_000;
                let off = since.cast_signed() * ppm / 1_000_000;
                (origin_us + since).saturating_add_signed(off)
            };
            let held = run(told);
            for (n, held) in (0..).zip(held) {
                assert_eq!(held, told(n), "{n}");
            }
        }
    }

    #[test]
    fn a_clock_that_is_too_slow_or_too_fast_gains_a_round_trip_in_all() {
        let slow = run(|n| (n * 10_000 + 50_000) / 8);
        let fast = run(|n| (n * 10_000 + 50_000) * 8);
        let held = |times: &[u64]| times[1_999] - times[0];
        let (least, most) = (19_990_000 - 100_000, 19_990_000 + 100_000);
        // And what clocks may go apart in 20 s.
        assert!(held(&slow) >= least - 20_000, "{}", held(&slow));
        assert!(held(&fast) <= most + 20_000, "{}", held(&fast));
        for times in [run(|_| 0), run(|_| u64::MAX), run(|n| n % 2 * u64::MAX)] {
            let first = times[1_000];
            assert!(times[1_999] - first >= 9_990_000 - 200_000, "{times:?}");
        }
    }

    #[test]
    fn bytes_that_were_lost_are_not_delivered_whatever_is_said_of_them() {
        let mut witness = Witness::default();
        assert_eq!(witness.delivered(1_000, 2_000), 1_000);
        // Half of what is sent is lost, and all of it is claimed.
        for step in 1..100 {
            let sent = step * 1_000 + 1_000;
            assert!(witness.delivered(sent, sent / 2 + 500) <= sent / 2 + 500);
        }
        // What was late and is told of before its loss is taken back is missing once, and not in what comes then.
        let mut witness = Witness::default();
        assert_eq!(witness.delivered(1_000, 900), 900);
        assert_eq!(witness.delivered(2_000, 2_000), 1_900);
        assert_eq!(witness.delivered(3_000, 3_000), 2_900);
    }
}
