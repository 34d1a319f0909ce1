//! How flows that share a short queue come to equal rates.
//!
//! In a queue of a millisecond or two there is no room to steer by delay. So after each overflow, or when
//! the queue comes near to one, every flow leaves a share of its rate and then adds the same amount in
//! the same time: additive increase, multiplicative decrease (Chiu and Jain 1989). All flows see the
//! queue fill at the same moments, whatever their round-trip times.

use super::Share;
use howdah_core::{Rate, Span, Time};

/// Share of the rate that is left after the queue was full.
const DECREASE: f64 = 0.95;
/// What is added in the first second, in bits per second; it grows with the square of the time, so that one
/// law serves 10 Mbit/s and 10 Gbit/s, and does not depend on the flow's rate, which makes flows equal.
const INCREASE: f64 = 10e6;
/// ... but not more per second than this share of the flow's own rate.
const INCREASE_MOST: f64 = 0.2;
/// After so long without a full queue, rates grow as if there had been none.
const UNTIL: Span = Span::from_secs(3);

#[derive(Debug)]
pub(super) struct Yielding {
    share: Share,
    /// When the queue was last full, and what was left then.
    from: Option<(Time, Rate)>,
}

impl Yielding {
    pub(super) fn new(share: Share) -> Self {
        Self { share, from: None }
    }

    /// The queue is full, and this flow gets so much of the path.
    pub(super) fn on_full(&mut self, now: Time, capacity: Rate) {
        self.from = Some((now, capacity.mul_f64(DECREASE)));
    }

    /// The rate to send at, while the last overflow is not long ago.
    pub(super) fn rate(&self, now: Time) -> Option<Rate> {
        let (at, left) = self.from?;
        let passed = now.since(at).as_secs_f64();
        // Long enough for a lone flow to have back what it left.
        let missing = left.as_f64() * (1.0 / DECREASE - 1.0);
        let increase = INCREASE / f64::from(self.share.sessions());
        if passed > UNTIL.as_secs_f64().max((1.5 * missing / increase).sqrt()) {
            return None;
        }
        let grown = (increase * passed * passed).min(INCREASE_MOST * left.as_f64() * passed);
        Some(left.mul_f64(1.0 + grown / left.as_f64().max(1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flows that meet at one queue: when their sum reaches the capacity each gets its share of it.
    fn rates_after(seconds: u64, mut rates: Vec<f64>, capacity: f64) -> Vec<f64> {
        let mut now = Time::ZERO;
        let mut flows: Vec<Yielding> = rates.iter().map(|_| Yielding::new(Share::WHOLE)).collect();
        let end = Time::ZERO + Span::from_secs(seconds);
        while now < end {
            now += Span::from_millis(10);
            for (flow, rate) in flows.iter().zip(&mut rates) {
                // Afterwards it probes: a twentieth in 100 ms.
                *rate = flow.rate(now).map_or(*rate * 1.005, Rate::as_f64);
            }
            let sum: f64 = rates.iter().sum();
            if sum >= capacity {
                for (flow, rate) in flows.iter_mut().zip(&rates) {
                    let share = Rate::from_bits_per_sec((rate / sum * capacity) as u64);
                    flow.on_full(now, share);
                }
            }
        }
        rates
    }

    #[test]
    fn unequal_flows_become_equal() {
        for (capacity, seconds) in [(100e6, 60), (1e9, 120), (10e9, 400)] {
            let rates = rates_after(seconds, vec![0.9 * capacity, 0.1 * capacity], capacity);
            let ratio = rates[0] / rates[1];
            assert!((0.75..1.33).contains(&ratio), "{capacity}: {rates:?}");
        }
    }

    #[test]
    fn it_ends_when_the_queue_stays_empty() {
        let mut flow = Yielding::new(Share::WHOLE);
        assert_eq!(flow.rate(Time::ZERO), None);
        flow.on_full(Time::ZERO, Rate::from_gbit_per_sec(1));
        let at = |s| Time::ZERO + Span::from_secs(s);
        assert_eq!(flow.rate(at(0)), Some(Rate::from_mbit_per_sec(950)));
        assert!(
            flow.rate(at(3))
                .is_some_and(|r| r > Rate::from_gbit_per_sec(1))
        );
        assert_eq!(flow.rate(at(4)), None);
    }
}
