//! How flows that share a short queue come to equal rates.
//!
//! In a queue of a millisecond or two there is no room to steer by delay. So after each overflow, or when
//! the queue comes near to one, every flow leaves a share of its rate and then adds the same amount in
//! the same time: additive increase, multiplicative decrease (Chiu and Jain 1989). All flows see the
//! queue fill at the same moments, whatever their round-trip times.
//!
//! Whoever else is on the queue loses packets at each of those moments. So once this flow's rate has come to rest
//! it stays a little below it for as long as CUBIC would take to come back, before it fills the queue again.

use super::Share;
use howdah_core::{Rate, Span, Time};

/// Share of the rate that is left after the queue was full, while shares still change and when they do not.
const DECREASE: f64 = 0.9;
const DECREASE_AT_REST: f64 = 0.95;
/// What is added in the first second, in bits per second; it grows with the square of the time, so that one
/// law serves 10 Mbit/s and 10 Gbit/s, and does not depend on the flow's rate, which makes flows equal.
const INCREASE: f64 = 10e6;
/// ... but not more per second than this share of the flow's own rate.
const INCREASE_MOST: f64 = 0.2;
/// After so long without a full queue, rates grow as if there had been none.
const UNTIL: Span = Span::from_secs(3);

/// The rate is at rest if it is by no more than this away from the last one, ...
const NEAR: f64 = 0.01;
/// ... and by no more than this from the one since which it has been.
const DRIFT: f64 = 0.02;
/// The first plateau, each next one being twice as long, and the longest.
const PLATEAU_FIRST: Span = Span::from_secs(2);
const PLATEAU_LONGEST: Span = Span::from_secs(25);
/// Share of what came back between the last two full queues that comes back at once, ...
const PLATEAU_AT: f64 = 0.7;
/// ... and of `INCREASE`, by which it goes on after the plateau: what is sent too much until the queue is seen to be full is lost.
const AFTER_PLATEAU: f64 = 0.1;
/// RFC 9438: the time until the window of the last congestion is reached again is the cube root of so many times that, in packets.
const CUBIC_K: f64 = (1.0 - 0.7) / 0.4;
const PACKET_BITS: f64 = 1_500.0 * 8.0;

/// Whether a flow gets the same each time that the queue is full.
#[derive(Debug, Default)]
struct Rest {
    last: f64,
    since: f64,
}

impl Rest {
    fn on_full(&mut self, capacity: f64) -> bool {
        let is_near = |of: f64, by: f64| (capacity - of).abs() <= by * of;
        let rests = is_near(self.last, NEAR) && is_near(self.since, DRIFT);
        if !rests {
            self.since = capacity;
        }
        self.last = capacity;
        rests
    }
}

#[derive(Debug)]
pub(super) struct Yielding {
    share: Share,
    /// When the queue was last full, and what was left then.
    from: Option<(Time, Rate)>,
    /// What is missing then until it is full again, in bits per second.
    missing: f64,
    rest: Rest,
    /// How long the rate then stays below what fills the queue, and at what.
    plateau: Span,
    plateau_at: Rate,
}

impl Yielding {
    pub(super) fn new(share: Share) -> Self {
        Self {
            share,
            from: None,
            missing: 0.0,
            rest: Rest::default(),
            plateau: Span::ZERO,
            plateau_at: Rate::ZERO,
        }
    }

    /// The queue is full, and this flow gets so much of the path.
    pub(super) fn on_full(&mut self, now: Time, capacity: Rate, base_rtt: Span) {
        let rests = self.rest.on_full(capacity.as_f64());
        let decrease = if rests { DECREASE_AT_REST } else { DECREASE };
        self.missing = capacity.as_f64() * (1.0 - decrease);
        let left = capacity.mul_f64(decrease);
        self.plateau = if rests {
            let longest = cubic_k(self.share.all(capacity), base_rtt).min(PLATEAU_LONGEST);
            (self.plateau * 2).max(PLATEAU_FIRST).min(longest)
        } else {
            Span::ZERO
        };
        // By what came back, which is the same for all, and not by what this flow has: so a plateau makes flows equal, too.
        let before = self.from.map_or(left, |(_, left)| left);
        let back =
            (capacity.as_f64() - before.as_f64()).clamp(self.missing / 2.0, self.missing * 2.0);
        self.plateau_at = plus(left, PLATEAU_AT * back);
        self.from = Some((now, left));
    }

    /// The rate is at rest below what would fill the queue.
    pub(super) fn is_on_plateau(&self, now: Time) -> bool {
        self.from
            .is_some_and(|(at, _)| now.since(at) < self.plateau)
    }

    /// The rate to send at, while the last overflow is not long ago.
    pub(super) fn rate(&self, now: Time) -> Option<Rate> {
        let (at, left) = self.from?;
        let increase = INCREASE / f64::from(self.share.sessions());
        if self.is_on_plateau(now) {
            return Some(grown(left, increase, now.since(at)).min(self.plateau_at));
        }
        let passed = now.since(at).saturating_sub(self.plateau);
        let (from, increase, missing) = if self.plateau.is_zero() {
            (left, increase, self.missing)
        } else {
            (
                self.plateau_at,
                AFTER_PLATEAU * increase,
                self.missing / 2.0,
            )
        };
        // Long enough for a lone flow to have back what it left.
        let until = UNTIL.as_secs_f64().max((1.5 * missing / increase).sqrt());
        (passed.as_secs_f64() <= until).then(|| grown(from, increase, passed))
    }
}

fn plus(rate: Rate, bits_per_second: f64) -> Rate {
    rate.mul_f64(1.0 + bits_per_second / rate.as_f64().max(1.0))
}

fn grown(from: Rate, increase: f64, passed: Span) -> Rate {
    let s = passed.as_secs_f64();
    plus(
        from,
        (increase * s * s).min(INCREASE_MOST * from.as_f64() * s),
    )
}

/// How long a CUBIC that had all of that would take to have it again.
pub(super) fn cubic_k(rate: Rate, rtt: Span) -> Span {
    let packets = rate.as_f64() * rtt.as_secs_f64() / PACKET_BITS;
    Span::from_secs_f64((CUBIC_K * packets).cbrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_millis(180);

    /// Flows that meet at one queue: when their sum reaches the capacity each gets its share of it. Their rates, how often the queue
    /// was full, and the mean of the sum.
    fn after(seconds: u64, mut rates: Vec<f64>, capacity: f64) -> (Vec<f64>, u32, f64) {
        let mut now = Time::ZERO;
        let mut flows: Vec<Yielding> = rates.iter().map(|_| Yielding::new(Share::WHOLE)).collect();
        let end = Time::ZERO + Span::from_secs(seconds);
        let (mut full, mut sent) = (0, 0.0);
        while now < end {
            now += Span::from_millis(10);
            for (flow, rate) in flows.iter().zip(&mut rates) {
                // Afterwards it probes: a twentieth in 100 ms.
                *rate = flow.rate(now).map_or(*rate * 1.005, Rate::as_f64);
            }
            let sum: f64 = rates.iter().sum();
            sent += sum.min(capacity) / 100.0;
            if sum >= capacity {
                full += 1;
                for (flow, rate) in flows.iter_mut().zip(&rates) {
                    let share = Rate::from_bits_per_sec((rate / sum * capacity) as u64);
                    flow.on_full(now, share, RTT);
                }
            }
        }
        (rates, full, sent / seconds as f64)
    }

    #[test]
    fn unequal_flows_become_equal() {
        for (capacity, seconds) in [(100e6, 60), (1e9, 120), (10e9, 400)] {
            let (rates, ..) = after(seconds, vec![0.9 * capacity, 0.1 * capacity], capacity);
            let ratio = rates[0] / rates[1];
            assert!((0.75..1.33).contains(&ratio), "{capacity}: {rates:?}");
        }
    }

    #[test]
    fn a_flow_at_rest_seldom_fills_the_queue() {
        for capacity in [100e6, 1e9, 10e9] {
            let (_, full, mean) = after(300, vec![0.9 * capacity], capacity);
            assert!((8..30).contains(&full), "{capacity}: {full} times");
            assert!(mean > 0.98 * capacity, "{capacity}: {mean}");
        }
        // 15,000 packets, of which CUBIC leaves out three tenths.
        let k = cubic_k(Rate::from_gbit_per_sec(1), RTT).as_secs_f64();
        assert!((k - 22.4).abs() < 0.1, "{k}");
    }

    #[test]
    fn it_ends_when_the_queue_stays_empty() {
        let mut flow = Yielding::new(Share::WHOLE);
        assert_eq!(flow.rate(Time::ZERO), None);
        flow.on_full(Time::ZERO, Rate::from_gbit_per_sec(1), RTT);
        let at = |s| Time::ZERO + Span::from_secs(s);
        assert_eq!(flow.rate(at(0)), Some(Rate::from_mbit_per_sec(900)));
        let late = flow.rate(at(3) + Span::from_millis(500));
        assert!(late.is_some_and(|r| r > Rate::from_gbit_per_sec(1)));
        assert_eq!(flow.rate(at(4)), None);
    }
}
