//! Proportional Integral controller Enhanced, RFC 8033.
//!
//! It decides when a packet arrives, by a probability that a controller moves every `T_UPDATE`. What the RFC's timer does is done when
//! the queue is next looked at, for all the times that have passed: between two looks a queue only drains, and its delay at each moment
//! is known. The delay is what waits over the rate that serves it (section 4.2), so no departure rate has to be estimated (4.3).
//!
//! Of the optional parts there are ECN (5.1) and de-randomisation (5.4); not packet sizes (5.2) nor switching it off (5.3).

use crate::aqm::PieConfig;
use crate::chance::{Purpose, stream, unit};
use howdah_core::{Ecn, Span, Time};
use rand_chacha::ChaCha8Rng;

/// `T_UPDATE` of section 4.2.
const UPDATE: Span = Span::from_millis(15);
/// Gains in 1/s (section 4.2): 0.125 and 1.25.
const ALPHA: f64 = 0.125;
const BETA: f64 = 1.25;
/// From which probability on packets that could be marked are dropped (`mark_ecnth`, section 5.1).
const MARK_BELOW: f64 = 0.1;
/// Section 5.4: no drop before the probabilities of the packets since the last one add up to this, ...
const SUM_FROM: f64 = 0.85;
/// ... and one for certain at this.
const SUM_TO: f64 = 8.5;

/// What becomes of a packet that arrives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Early {
    Enter,
    Mark,
    Drop,
}

#[derive(Clone, Debug)]
pub(crate) struct Pie {
    config: PieConfig,
    rng: ChaCha8Rng,
    probability: f64,
    /// `accu_prob_`.
    summed: f64,
    delay_old_s: f64,
    /// Time for which bursts are still let through.
    allowance: Span,
    next_update: Time,
}

impl Pie {
    pub(crate) fn new(seed: u64, config: PieConfig) -> Self {
        Self {
            config,
            rng: stream(seed, Purpose::Pie),
            probability: 0.0,
            summed: 0.0,
            delay_old_s: 0.0,
            allowance: config.max_burst,
            next_update: Time::ZERO + UPDATE,
        }
    }

    /// Other constants from now on; the state goes on.
    pub(crate) fn reconfigure(&mut self, config: PieConfig) {
        self.config = config;
        self.allowance = self.allowance.min(config.max_burst);
    }

    /// Does what the timer would have done by `now`, `delay_at` being what a packet would have waited then.
    pub(crate) fn catch_up(&mut self, now: Time, delay_at: impl Fn(Time) -> Span) {
        while self.next_update <= now {
            self.update(delay_at(self.next_update).as_secs_f64());
            self.next_update += UPDATE;
            if self.is_at_rest() && delay_at(self.next_update).is_zero() {
                // Nothing will change until something comes.
                let behind = now.since(self.next_update).as_nanos();
                self.next_update += UPDATE * behind.div_ceil(UPDATE.as_nanos());
            }
        }
    }

    fn is_at_rest(&self) -> bool {
        self.probability <= 0.0
            && self.delay_old_s <= 0.0
            && self.allowance == self.config.max_burst
    }

    /// One step of the controller (section 4.2) at a queue of this delay.
    fn update(&mut self, delay_s: f64) {
        let target_s = self.config.target.as_secs_f64();
        let mut step = ALPHA * (delay_s - target_s) + BETA * (delay_s - self.delay_old_s);
        step *= scale(self.probability);
        if self.probability >= 0.1 {
            step = step.min(0.02);
        }
        self.probability += step;
        if delay_s <= 0.0 && self.delay_old_s <= 0.0 {
            self.probability *= 0.98;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        self.allowance = self.allowance.saturating_sub(UPDATE);
        // Section 4.4: after light traffic bursts are welcome again.
        let light_s = target_s / 2.0;
        if self.probability <= 0.0 && delay_s < light_s && self.delay_old_s < light_s {
            self.allowance = self.config.max_burst;
        }
        self.delay_old_s = delay_s;
    }

    /// Whether a packet that finds `queued_bytes` may enter.
    pub(crate) fn arrives(&mut self, ecn: Ecn, queued_bytes: u64) -> Early {
        if !self.allowance.is_zero() || !self.drops(queued_bytes) {
            Early::Enter
        } else if ecn.is_capable() && self.probability <= MARK_BELOW {
            Early::Mark
        } else {
            Early::Drop
        }
    }

    /// Sections 4.1 and 5.4.
    fn drops(&mut self, queued_bytes: u64) -> bool {
        let light_s = self.config.target.as_secs_f64() / 2.0;
        let is_light = self.delay_old_s < light_s && self.probability < 0.2;
        if is_light || queued_bytes <= 2 * u64::from(self.config.mean_packet_bytes) {
            return false;
        }
        if self.probability <= 0.0 {
            self.summed = 0.0;
        }
        self.summed += self.probability;
        if self.summed < SUM_FROM {
            return false;
        }
        let drops = self.summed >= SUM_TO || unit(&mut self.rng) <= self.probability;
        if drops {
            self.summed = 0.0;
        }
        drops
    }
}

/// How much smaller the steps of a small probability are (section 4.2).
fn scale(probability: f64) -> f64 {
    match probability {
        p if p < 0.000_001 => 1.0 / 2048.0,
        p if p < 0.000_01 => 1.0 / 512.0,
        p if p < 0.000_1 => 1.0 / 128.0,
        p if p < 0.001 => 1.0 / 32.0,
        p if p < 0.01 => 1.0 / 8.0,
        p if p < 0.1 => 1.0 / 2.0,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pie() -> Pie {
        Pie::new(1, PieConfig::default())
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    fn with(probability: f64) -> Pie {
        Pie {
            probability,
            delay_old_s: 0.03,
            allowance: Span::ZERO,
            ..pie()
        }
    }

    /// p = 0.125 (delay - 15 ms) + 1.25 (delay - delay before), scaled by how small the probability is, by hand.
    #[test]
    fn the_controller_follows_section_4_2() {
        let mut pie = pie();
        let mut expected = 0.0;
        for (delay_s, step) in [
            (0.025, (0.00125 + 0.03125) / 2048.0), // 0: below 0.000001
            (0.035, (0.0025 + 0.0125) / 128.0),    // 1.6e-5
            (0.035, 0.0025 / 32.0),                // 1.3e-4
            (0.045, (0.00375 + 0.0125) / 32.0),    // 2.1e-4
            (0.095, (0.01 + 0.0625) / 32.0),       // 7.2e-4
            (0.195, (0.0225 + 0.125) / 8.0),       // 3.0e-3
            (0.695, (0.085 + 0.625) * 0.5),        // 2.1e-2: up to 0.38
            (0.795, 0.02),                         // 0.0975 + 0.125, held to 0.02
            (0.695, 0.085 - 0.125),
        ] {
            pie.update(delay_s);
            expected += step;
            assert!(
                (pie.probability - expected).abs() < 1e-12,
                "{delay_s}: {} {expected}",
                pie.probability
            );
        }
        // An empty queue: the step down first, the decay by 2 % from the second time on.
        let before = with(0.9);
        let mut idle = Pie {
            delay_old_s: 0.0,
            ..before
        };
        idle.update(0.0);
        assert!((idle.probability - (0.9 - 0.125 * 0.015) * 0.98).abs() < 1e-12);
    }

    #[test]
    fn updates_that_passed_are_made_up_for() {
        // A queue that drains from 60 ms on and is empty at 60 ms.
        let delay = |time: Time| at(60).since(time);
        let mut all = pie();
        all.catch_up(at(100), delay);
        let mut each = pie();
        for ms in 0..=100 {
            each.catch_up(at(ms), delay);
        }
        assert!((all.probability - each.probability).abs() < 1e-15);
        assert_eq!(
            (all.next_update, all.allowance),
            (each.next_update, each.allowance)
        );
        assert_eq!(all.next_update, at(105));
        // An hour of nothing, at once.
        all.catch_up(at(3_600_000), delay);
        assert!(all.next_update > at(3_600_000) && all.next_update <= at(3_600_015));
    }

    #[test]
    fn a_burst_of_150_ms_is_let_through() {
        let mut pie = pie();
        for ms in 1..=150 {
            pie.catch_up(at(ms), |_| Span::from_millis(100));
            if ms < 150 {
                assert_eq!(pie.arrives(Ecn::NotEct, 1 << 20), Early::Enter, "{ms} ms");
            }
        }
        assert!(pie.allowance.is_zero());
        pie.probability = 1.0;
        assert_eq!(pie.arrives(Ecn::NotEct, 1 << 20), Early::Drop);
        // Two packets are no queue (section 4.1).
        assert_eq!(pie.arrives(Ecn::NotEct, 3_000), Early::Enter);
    }

    /// De-randomised: at p the distance of two drops is at least 0.85/p packets, at most 8.5/p, and 0.85/p + 1/p on average.
    #[test]
    fn distances_of_drops_are_bounded() {
        let mut pie = with(0.05);
        let (mut gaps, mut gap) = (Vec::new(), 0_u32);
        while gaps.len() < 20_000 {
            gap += 1;
            if pie.arrives(Ecn::NotEct, 1 << 20) == Early::Drop {
                gaps.push(gap);
                gap = 0;
            }
        }
        assert!(gaps.iter().all(|gap| (17..=171).contains(gap)));
        let mean = f64::from(gaps.iter().sum::<u32>()) / gaps.len() as f64;
        assert!((mean - 36.0).abs() < 1.0, "{mean}");
    }

    /// Section 5.1: marks up to 10 %, drops above.
    #[test]
    fn marks_take_the_place_of_drops_while_few() {
        let fates = |probability: f64, ecn: Ecn| {
            let mut pie = with(probability);
            let fates: Vec<Early> = (0..10_000).map(|_| pie.arrives(ecn, 1 << 20)).collect();
            [Early::Mark, Early::Drop].map(|fate| fates.iter().filter(|&&is| is == fate).count())
        };
        assert_eq!(fates(0.05, Ecn::NotEct)[0], 0);
        let [marks, drops] = fates(0.05, Ecn::Ect0);
        assert!(marks > 200 && drops == 0, "{marks} {drops}");
        let [marks, drops] = fates(0.2, Ecn::Ect0);
        assert!(marks == 0 && drops > 800, "{marks} {drops}");
    }
}
