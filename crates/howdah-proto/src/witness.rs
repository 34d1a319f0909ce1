//! What a report says of times and bytes, held against what the sender knows by itself.
//!
//! The receiver's clock has an origin of its own, so a time of its says nothing alone. But each packet was told of after it had come,
//! by the sender's clock, so each report says what the origin is at least; and a packet comes no sooner than it was sent, so a time
//! that is too early by the origin is taken for the earliest that fits. Whoever has packets come sooner than they do, which is what
//! makes a path look faster, gains a round trip in all, and none in each report. Times that are too late are believed: they make a
//! path look slower, and a sender that was suspended sees such times.

use howdah_core::{Span, Time};

/// Clocks go apart by no more than a thousandth.
const DRIFT_DIVISOR: i64 = 1_000;
/// Of whom nothing was heard for longer may have been suspended meanwhile, and his clock with him.
const SILENCE: Span = Span::from_secs(1);
/// No clock says more, in nanoseconds: differences of times are numbers.
const LATEST: u64 = 1 << 62;

/// What is known of a receiver.
#[derive(Clone, Debug, Default)]
pub(crate) struct Witness {
    /// Its clock minus ours is at least that, in nanoseconds, and when that was so.
    origin: Option<(i64, Time)>,
    /// Bytes that it claims and that cannot have come.
    overclaimed: u64,
}

impl Witness {
    /// When a packet came by the receiver's clock, which says `told`; it was `sent` and has been told of at `now`.
    pub(crate) fn arrival(&mut self, now: Time, sent: Time, told_us: u64) -> Time {
        let told = Time::from_nanos(told_us.saturating_mul(1_000).min(LATEST));
        let Some((least, at)) = self.origin else {
            self.origin = Some((told.nanos_after(now), now));
            return told;
        };
        let passed = now.since(at);
        let nanos = i64::try_from(passed.as_nanos()).unwrap_or(i64::MAX);
        let stood = if passed > SILENCE { nanos } else { 0 };
        let least = least
            .saturating_sub(nanos / DRIFT_DIVISOR)
            .saturating_sub(stood);
        let early = least.saturating_sub(told.nanos_after(sent)).max(0);
        let held = told + Span::from_nanos(early.unsigned_abs());
        self.origin = Some((least.max(held.nanos_after(now)), now));
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
    fn a_clock_that_is_too_slow_gains_a_round_trip_in_all() {
        let slow = run(|n| (n * 10_000 + 50_000) / 8);
        let held = slow[1_999] - slow[0];
        // And what clocks may go apart in 20 s.
        assert!(held >= 19_990_000 - 100_000 - 20_000, "{held}");
        for times in [run(|_| 0), run(|_| u64::MAX), run(|n| n % 2 * u64::MAX)] {
            let first = times[1_000];
            assert!(times[1_999] - first >= 9_990_000 - 200_000, "{times:?}");
        }
    }

    /// Its clock stands while a machine is suspended.
    #[test]
    fn who_was_suspended_is_believed_afterwards() {
        for (stood_ms, gap_ms) in [(8_000, 8_000), (-8_000, 0)] {
            let mut witness = Witness::default();
            for n in 0..200_u64 {
                let (gap, stood) = if n < 100 { (0, 0) } else { (gap_ms, stood_ms) };
                let sent = n * 10 + gap;
                let told = (sent + 50).saturating_add_signed(-stood) * 1_000;
                let held = witness.arrival(at(sent + 100), at(sent), told);
                assert_eq!(held.as_nanos(), told * 1_000, "{stood_ms}: {n}");
            }
        }
        // Who only says so, and was heard of all the time, is not.
        let mut witness = Witness::default();
        witness.arrival(at(100), at(0), 50_000_000);
        let held = witness.arrival(at(110), at(10), 42_060_000);
        assert!(held >= at(49_909), "{held:?}");
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
