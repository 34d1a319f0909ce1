//! At which rate a model sends.

use howdah_core::{Rate, Span, Time};

/// At which rate a model sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RateLaw {
    /// Set by the user, whatever the path does.
    Fixed(Rate),
    /// Follows the queueing delay: see [`fasp_like`](super::fasp_like).
    Delay {
        /// First rate.
        initial: Rate,
        /// Highest rate: the user's target.
        target: Rate,
        /// Bytes of its own that the flow wants to have waiting in the path's queue.
        queue_bytes: u64,
        /// Share of the way to equilibrium that is gone in each round-trip time.
        gain: f64,
    },
}

impl RateLaw {
    pub(super) fn rates(&self) -> Vec<Rate> {
        match *self {
            Self::Fixed(rate) => vec![rate],
            Self::Delay {
                initial, target, ..
            } => vec![initial, target],
        }
    }
}

/// Round-trip times, smoothed and least.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    pub(super) smoothed: Option<Span>,
    pub(super) least: Option<Span>,
}

impl RoundTrip {
    /// Takes in a sample, with the eighth of RFC 6298.
    pub(super) fn sample(&mut self, rtt: Span) {
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        self.smoothed = Some(self.smoothed.map_or(rtt, |old| {
            Span::from_nanos((old.as_nanos() * 7 + rtt.as_nanos()) / 8)
        }));
    }

    /// Smoothed, or a guess before the first sample.
    pub(super) fn or(self, guess: Span) -> Span {
        self.smoothed.unwrap_or(guess)
    }
}

/// The rate of a sender.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    law: RateLaw,
    rate: Rate,
    ramping: bool,
    changed_at: Time,
    /// Queueing delay at the last change, in seconds.
    queue_s: f64,
}

/// A queue that is shorter than this does not end the ramp: clocks of microseconds, and hosts, are no
/// better.
const RAMP_QUEUE: Span = Span::from_millis(1);
/// Growth per round-trip time in the ramp.
const RAMP: f64 = 1.5;

impl Pace {
    pub(super) fn new(law: RateLaw) -> Self {
        let rate = match law {
            RateLaw::Fixed(rate) => rate,
            RateLaw::Delay { initial, .. } => initial,
        };
        Self {
            law,
            rate,
            ramping: true,
            changed_at: Time::ZERO,
            queue_s: 0.0,
        }
    }

    pub(super) const fn rate(&self) -> Rate {
        self.rate
    }

    /// A report has come, with a sample of the round-trip time in `rtt`.
    pub(super) fn on_report(&mut self, now: Time, rtt: &RoundTrip) {
        let RateLaw::Delay {
            target,
            queue_bytes,
            gain,
            ..
        } = self.law
        else {
            return;
        };
        let (Some(smoothed), Some(least)) = (rtt.smoothed, rtt.least) else {
            return;
        };
        let step = smoothed.max(Span::from_millis(10));
        if now.since(self.changed_at) < step {
            return;
        }
        self.changed_at = now;
        let queue_s = smoothed.saturating_sub(least).as_secs_f64();
        // As far ahead as we are behind: without a prediction of the queue, rate and queue would
        // swing for ever, since each follows the other a quarter of a period later.
        let predicted_s = (2.0 * queue_s - self.queue_s).max(0.0);
        self.queue_s = queue_s;
        let rate = self.rate.as_f64();
        let next = if self.ramping && queue_s < RAMP_QUEUE.as_secs_f64() {
            rate * RAMP
        } else {
            self.ramping = false;
            // r + K (alpha - r q): alpha and r q are bytes; over the round trip they are a rate.
            let surplus = 8.0 * queue_bytes as f64 - rate * predicted_s;
            rate + gain * surplus / step.as_secs_f64()
        };
        let most = target.as_f64();
        self.rate =
            Rate::from_bits_per_sec(next.clamp((rate / 2.0).min(most), most).max(1e5) as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fixed point: a queue of the flow's own of just `queue_bytes`.
    #[test]
    fn the_delay_law_keeps_its_bytes_in_the_queue() {
        let bottleneck = 1e9;
        let base = 0.05;
        let mut pace = Pace::new(RateLaw::Delay {
            initial: Rate::from_mbit_per_sec(10),
            target: Rate::from_gbit_per_sec(10),
            queue_bytes: 500_000,
            gain: 0.5,
        });
        let mut rtt = RoundTrip::default();
        let mut queue_bits = 0.0_f64;
        let mut now = Time::ZERO;
        for _ in 0..20_000 {
            now += Span::from_millis(5);
            queue_bits = (queue_bits + (pace.rate().as_f64() - bottleneck) * 0.005).max(0.0);
            rtt.sample(Span::from_secs_f64(base + queue_bits / bottleneck));
            pace.on_report(now, &rtt);
        }
        let waiting = queue_bits / 8.0;
        assert!((400_000.0..600_000.0).contains(&waiting), "{waiting}");
        assert!((pace.rate().as_f64() / bottleneck - 1.0).abs() < 0.05);
    }

    #[test]
    fn a_fixed_rate_stays() {
        let mut pace = Pace::new(RateLaw::Fixed(Rate::from_gbit_per_sec(9)));
        let mut rtt = RoundTrip::default();
        rtt.sample(Span::from_secs(2));
        pace.on_report(Time::from_nanos(1 << 40), &rtt);
        assert_eq!(pace.rate(), Rate::from_gbit_per_sec(9));
    }
}
