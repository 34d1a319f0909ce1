//! The rate law of the program of March 2003 (sender.cpp): additive increase by the rate's own
//! decade while hardly anything is lost, an eighth on the period for losses.

use super::{SYN, SabulSettings};

/// A new loss ratio counts so much in the average.
const WEIGHT: f64 = 0.1;
/// Above this average nothing increases.
const TOLERATED: f64 = 0.001;
const CUT: f64 = 1.125;
/// The first later report that cuts again is the 2^4th.
const FIRST_POWER: u32 = 4;

#[derive(Clone, Debug)]
pub(super) struct Law {
    least_us: f64,
    most_us: f64,
    period_us: f64,
    average_loss: f64,
    last_cut: Option<u64>,
    reports: u32,
    power: u32,
    cuts: u64,
}

impl Law {
    pub(super) const fn new(settings: &SabulSettings) -> Self {
        Self {
            least_us: settings.least_period_us,
            most_us: settings.most_period_us,
            period_us: settings.least_period_us,
            average_loss: 0.0,
            last_cut: None,
            reports: 0,
            power: FIRST_POWER,
            cuts: 0,
        }
    }

    pub(super) const fn period_us(&self) -> f64 {
        self.period_us
    }

    pub(super) const fn cuts(&self) -> u64 {
        self.cuts
    }

    /// A period has passed in which so many packets were sent and so many reported as lost.
    pub(super) fn on_syn(&mut self, sent: u64, lost: u64) {
        if sent > 0 {
            let ratio = (lost as f64 / sent as f64).min(1.0);
            self.average_loss += WEIGHT * (ratio - self.average_loss);
        }
        if self.average_loss > TOLERATED {
            return;
        }
        let syn_us = SYN.as_micros() as f64;
        // Packets per period, to the next power of ten, over a thousand; at least a 1500th.
        let decade = (syn_us / self.period_us).log10().ceil();
        let increase = (10_f64.powf(decade) / 1000.0).max(1.0 / 1500.0);
        let period = self.period_us * syn_us / (self.period_us * increase + syn_us);
        self.period_us = period.max(self.least_us);
    }

    /// A report has come whose first missing packet is `first`; `sent` is the highest sent. True if
    /// sending stops for one period.
    pub(super) fn on_loss(&mut self, first: u64, sent: u64) -> bool {
        if self.last_cut.is_none_or(|last| first > last) {
            self.last_cut = Some(sent);
            self.reports = 1;
            self.power = FIRST_POWER;
            self.cut();
            return true;
        }
        self.reports = self.reports.saturating_add(1);
        if self.reports >= 1 << self.power {
            self.power = (self.power + 1).min(31);
            self.last_cut = Some(sent);
            self.cut();
        }
        false
    }

    fn cut(&mut self) {
        self.cuts += 1;
        self.period_us = (self.period_us * CUT).min(self.most_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    /// Mean rate in packets per second with losses of probability `loss`, over 3000 s.
    fn mean_pps(loss: f64) -> f64 {
        let settings = SabulSettings {
            least_period_us: 1.0,
            ..SabulSettings::default()
        };
        let mut law = Law::new(&settings);
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let (mut due, mut at, mut total) = (0.0, 0_u64, 0);
        for syn in 0..300_000 {
            due += SYN.as_micros() as f64 / law.period_us();
            let (mut sent, mut lost) = (0, 0);
            while due >= 1.0 {
                due -= 1.0;
                at += 1;
                sent += 1;
                if (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64 <= loss {
                    lost += 1;
                    law.on_loss(at, at);
                }
            }
            law.on_syn(sent, lost);
            if syn >= 20_000 {
                total += sent;
            }
        }
        total as f64 / 2800.0
    }

    #[test]
    fn above_a_thousandth_of_loss_it_ends_at_the_lowest_rate() {
        let pps = mean_pps(0.01);
        assert!((pps - 1000.0).abs() < 100.0, "{pps}");
    }

    #[test]
    fn below_it_cuts_and_increases_balance() {
        // R p / 9 of R per second against i / SYN of a packet per SYN: R = sqrt(9 i / (SYN^2 p)), where i
        // is 0.1 or 1 packets below or above 100 packets per SYN. Increases stop while the average is
        // too high, after every loss for a while, so it stays below.
        let pps = mean_pps(0.0001);
        let (low, high) = (9.0_f64 * 0.1 / 1e-8, 9.0_f64 / 1e-8);
        assert!(pps > 0.3 * low.sqrt() && pps < high.sqrt(), "{pps}");
        assert!(pps > 3.0 * mean_pps(0.001), "{pps}");
    }

    #[test]
    fn increases_and_cuts_are_the_programs() {
        let mut law = Law::new(&SabulSettings::default());
        assert!(law.on_loss(5, 100));
        assert!((law.period_us() - 11.25).abs() < 1e-9);
        for _ in 0..14 {
            assert!(!law.on_loss(6, 100));
        }
        assert!((law.period_us() - 11.25).abs() < 1e-9);
        law.on_loss(6, 100);
        assert!((law.period_us() - 12.656_25).abs() < 1e-9, "the 16th");
        // 790 packets per SYN: one more.
        law.on_syn(1000, 0);
        assert!((law.period_us() - 10_000.0 / (10_000.0 / 12.656_25 + 1.0)).abs() < 1e-9);
        let before = law.period_us();
        law.on_syn(1000, 50);
        assert!((law.period_us() - before).abs() < 1e-12, "too much loss");
    }
}
