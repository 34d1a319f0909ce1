//! Spreads packets in time: a token bucket that is filled at the pacing rate.

use howdah_core::num::saturating_i64;
use howdah_core::{Rate, Span, Time};

/// Time's worth of tokens that may pile up while the host does not run the sender.
pub(crate) const MAX_CREDIT: Span = Span::from_millis(4);
/// Longest train of packets without a gap, as time at the pacing rate.
pub(crate) const MAX_TRAIN: Span = Span::from_micros(500);
/// What is worth a wake-up of the host: as much as one call takes that hands packets to be segmented, within a train; ...
const WORTH_BYTES: u64 = 64_000;
/// ... at high rates as much as is sent in this time, and where trains are to be short in that.
const WORTH_SPAN: Span = Span::from_micros(200);
const FINE_SPAN: Span = Span::from_micros(125);

/// See the module.
#[derive(Debug)]
pub(crate) struct Pacer {
    rate: Rate,
    /// Bytes that may be sent; below zero after a train.
    tokens: i64,
    filled_at: Time,
    /// Save up that much time's worth and send it at once.
    burst: Option<Span>,
    /// Trains are short, whatever the wake-ups cost.
    fine: bool,
    /// In the middle of such a burst.
    bursting: bool,
    /// What was granted has not been touched.
    granted: bool,
    /// Nothing could be sent when it was last looked at, whatever was earned.
    rests: bool,
    /// Earned, and forgotten because the host did not run the sender: bytes since the beginning.
    forgotten: u64,
}

impl Pacer {
    pub(crate) fn new(rate: Rate, burst_bytes: u64) -> Self {
        Self {
            rate,
            tokens: saturating_i64(burst_bytes),
            filled_at: Time::ZERO,
            burst: None,
            fine: false,
            bursting: false,
            granted: false,
            rests: true,
            forgotten: 0,
        }
    }

    pub(crate) fn set_rate(&mut self, now: Time, rate: Rate) {
        self.fill(now);
        self.rate = rate;
    }

    /// Sends in bursts of `burst` of time, back to back, instead of evenly: the receiver sees from
    /// how they are spread on arrival how fast the path is.
    pub(crate) fn set_burst(&mut self, burst: Option<Span>) {
        self.burst = burst;
    }

    /// Spreads packets more evenly at low rates, where a train is a good part of the queue that it meets.
    pub(crate) fn set_fine(&mut self, fine: bool) {
        self.fine = fine;
    }

    /// Lets `bytes` leave at once.
    pub(crate) fn grant(&mut self, now: Time, bytes: u64) {
        self.fill(now);
        self.tokens = self.tokens.max(saturating_i64(bytes));
        self.bursting = true;
        self.granted = true;
    }

    fn burst_bytes(&self) -> Option<i64> {
        self.burst
            .map(|span| saturating_i64(self.rate.bytes_in(span)))
    }

    pub(crate) fn rate(&self) -> Rate {
        self.rate
    }

    fn fill(&mut self, now: Time) {
        let earned = self.rate.bytes_in(now.since(self.filled_at));
        if earned == 0 {
            return;
        }
        // Fractions of a byte stay on the clock.
        let paid = self.rate.span_for(earned);
        let cap = saturating_i64(self.rate.bytes_in(MAX_CREDIT).max(3_000));
        let full = self
            .tokens
            .saturating_add(saturating_i64(earned.min(1 << 40)));
        self.filled_at = if full > cap {
            if !self.rests {
                self.forgotten += (full - cap.max(self.tokens)).max(0).unsigned_abs();
            }
            now
        } else {
            (self.filled_at + paid).min(now)
        };
        self.tokens = full.min(cap.max(self.tokens));
    }

    /// Bytes that may leave now in one train: 0, or at least one packet.
    pub(crate) fn train(&mut self, now: Time, packet_bytes: u64) -> u64 {
        self.fill(now);
        if self.tokens <= 0 {
            self.bursting = false;
            return 0;
        }
        if let Some(burst) = self.burst_bytes() {
            self.bursting |= self.tokens >= burst;
            return if self.bursting {
                self.tokens.unsigned_abs().max(packet_bytes)
            } else {
                0
            };
        }
        self.tokens
            .unsigned_abs()
            .min(self.rate.bytes_in(MAX_TRAIN))
            .max(packet_bytes)
    }

    /// Bytes that are worth a wake-up.
    fn worth(&self) -> u64 {
        if self.fine {
            return self.rate.bytes_in(FINE_SPAN);
        }
        let least = self.rate.bytes_in(WORTH_SPAN);
        WORTH_BYTES.max(least).min(self.rate.bytes_in(MAX_TRAIN))
    }

    /// After a train, in the same turn of the host: whether as much is left as is worth another call. What was earned while the last one was
    /// sealed and handed over is not, and handed over packet by packet it would never end on a fast path. It waits for the next train, or burst.
    pub(crate) fn is_worth_another(&mut self, now: Time) -> bool {
        self.fill(now);
        let is_worth =
            self.tokens > 0 && self.tokens.unsigned_abs() >= self.worth().min(WORTH_BYTES);
        self.bursting &= is_worth;
        is_worth
    }

    /// Bytes that could have been sent, and were not because the host did not run the sender for longer than it may catch up.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Nothing may be sent, but for other reasons than time.
    pub(crate) fn wait(&mut self) {
        self.rests = true;
    }

    /// Nothing could be sent although time earned it: what is saved up must not leave as a burst.
    pub(crate) fn rest(&mut self, now: Time, packet_bytes: u64) {
        self.rests = true;
        if self.granted {
            return;
        }
        self.fill(now);
        let keep = saturating_i64(self.rate.bytes_in(MAX_TRAIN).max(packet_bytes));
        self.tokens = self.tokens.min(keep);
    }

    pub(crate) fn on_sent(&mut self, bytes: u64) {
        self.granted = false;
        self.rests = false;
        self.charge(bytes);
    }

    /// That much was sent beside the trains, which wait for it.
    pub(crate) fn charge(&mut self, bytes: u64) {
        self.tokens -= saturating_i64(bytes);
    }

    /// Whether a packet may leave now that is no part of a train, and so waits for none to be worth it.
    pub(crate) fn lets_one(&mut self, now: Time) -> bool {
        self.fill(now);
        self.tokens > 0
    }

    /// When one may, or several at once, as far as that delays the first by no more than a train takes.
    pub(crate) fn next_one(&self) -> Time {
        let missing = saturating_i64(self.worth().max(1)).saturating_sub(self.tokens);
        if missing <= 0 {
            return self.filled_at;
        }
        self.filled_at + self.rate.span_for(missing.unsigned_abs())
    }

    /// When a train may leave that is worth a wake-up.
    pub(crate) fn next_train(&self, packet_bytes: u64) -> Time {
        // A packet's worth is the least.
        let even = saturating_i64(self.worth().max(packet_bytes.min(3_000)));
        let want = match self.burst_bytes() {
            Some(_) if self.bursting && self.tokens > 0 => 0,
            Some(burst) => burst.max(1),
            None => even,
        };
        let missing = want.saturating_sub(self.tokens);
        if missing <= 0 {
            return self.filled_at;
        }
        self.filled_at + self.rate.span_for(missing.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_rate_to_a_packet() {
        let rate = Rate::from_gbit_per_sec(10);
        let mut pacer = Pacer::new(rate, 0);
        let mut now = Time::ZERO;
        let mut sent = 0;
        while now < Time::ZERO + Span::from_millis(100) {
            let train = pacer.train(now, 9000);
            assert!(train <= 625_000, "a train is at most 0.5 ms long");
            sent += train;
            pacer.on_sent(train);
            now = pacer.next_train(9000).max(now + Span::from_nanos(1));
        }
        let want = rate.bytes_in(Span::from_millis(100));
        let most = rate.bytes_in(WORTH_SPAN);
        assert!(sent.abs_diff(want) <= most, "{sent} of {want}");
    }

    #[test]
    fn wake_ups_are_few_and_trains_short_at_every_rate() {
        for (mbit, trains_per_s, most_bytes) in [
            (10, 833, 1_500),
            (100, 2_000, 6_250),
            (1_000, 2_000, 62_500),
            (2_500, 4_883, 156_250),
            (10_000, 5_000, 625_000),
        ] {
            let mut pacer = Pacer::new(Rate::from_mbit_per_sec(mbit), 0);
            let mut now = Time::ZERO;
            let mut trains = 0;
            while now < Time::ZERO + Span::from_secs(1) {
                now = pacer.next_train(1500).max(now + Span::from_nanos(1));
                let train = pacer.train(now, 1500);
                assert!(train <= most_bytes + 1, "{mbit} Mbit/s: {train}");
                pacer.on_sent(train);
                trains += u64::from(train > 0);
            }
            assert!(
                trains.abs_diff(trains_per_s) <= 2,
                "{mbit} Mbit/s: {trains}"
            );
        }
    }

    /// A host whose calls take time: 2 us, and what sealing and copying at 12 Gbit/s takes.
    fn calls_per_gbit(mbit: u64, burst: Option<Span>) -> (u64, u64) {
        let rate = Rate::from_mbit_per_sec(mbit);
        let mut pacer = Pacer::new(rate, 0);
        pacer.set_burst(burst);
        let (mut now, mut calls, mut sent) = (Time::ZERO, 0, 0);
        while now < Time::ZERO + Span::from_secs(1) {
            now = pacer.next_train(1_452).max(now + Span::from_nanos(1));
            loop {
                let train = pacer.train(now, 1_452).min(65_000) / 1_452 * 1_452;
                if train == 0 {
                    break;
                }
                pacer.on_sent(train);
                calls += 1;
                sent += train;
                now += Span::from_micros(2) + Rate::from_gbit_per_sec(12).span_for(train);
                if !pacer.is_worth_another(now) {
                    break;
                }
            }
        }
        (calls * 125_000_000 / sent, sent * 8 / 1_000_000)
    }

    #[test]
    fn calls_are_full_where_they_take_time() {
        for (mbit, least, most) in [
            (1_000, 2_000, 2_100),
            (5_000, 1_900, 2_000),
            (9_000, 1_900, 2_000),
        ] {
            for burst in [None, Some(Span::from_millis(4))] {
                let (calls, sent) = calls_per_gbit(mbit, burst);
                assert!(
                    (least..=most).contains(&calls) || burst.is_some() && calls < least,
                    "{mbit}, {burst:?}: {calls}"
                );
                assert!(
                    sent.abs_diff(mbit) * 50 <= mbit,
                    "{mbit}, {burst:?}: {sent}"
                );
            }
        }
    }

    #[test]
    fn fine_trains_are_an_eighth_of_a_millisecond() {
        let rate = Rate::from_gbit_per_sec(1);
        let mut pacer = Pacer::new(rate, 0);
        pacer.set_fine(true);
        let now = pacer.next_train(1500);
        assert_eq!(now, Time::ZERO + FINE_SPAN);
        assert_eq!(pacer.train(now, 1500), 15_625);
    }

    #[test]
    fn slow_rates_lose_no_time_to_rounding() {
        let mut pacer = Pacer::new(Rate::from_bits_per_sec(8_000), 0);
        let mut sent = 0;
        for ms in 0..10_000u64 {
            let now = Time::ZERO + Span::from_micros(ms * 1_000 + 1);
            if pacer.train(now, 1) > 0 {
                pacer.on_sent(1);
                sent += 1;
            }
        }
        assert!((9_990..=10_000).contains(&sent), "{sent}");
    }

    #[test]
    fn a_host_that_slept_may_catch_up_a_little() {
        let rate = Rate::from_gbit_per_sec(8);
        let mut pacer = Pacer::new(rate, 0);
        let now = Time::ZERO + Span::from_secs(1);
        let mut sent = 0;
        while pacer.train(now, 1500) > 0 {
            sent += 1500;
            pacer.on_sent(1500);
        }
        assert!(sent <= rate.bytes_in(MAX_CREDIT) + 1500);
        assert_eq!(pacer.forgotten(), 0, "it had nothing to send before");
        // The next time it had; what it may not catch up is told.
        assert_eq!(
            pacer.train(now + Span::from_millis(10), 1500),
            rate.bytes_in(MAX_TRAIN)
        );
        let told = rate.span_for(pacer.forgotten());
        let left_out = 10_000 - MAX_CREDIT.as_micros();
        assert!((left_out - 1..=left_out).contains(&told.as_micros()));
        // And what nobody wanted to send is not.
        let told = pacer.forgotten();
        pacer.on_sent(1500);
        pacer.wait();
        pacer.train(now + Span::from_secs(1), 1500);
        assert_eq!(pacer.forgotten(), told);
    }
}
