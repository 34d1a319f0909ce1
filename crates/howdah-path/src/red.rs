//! Random Early Detection.

use crate::aqm::{RedConfig, RedUnit};
use crate::chance::{Purpose, stream, unit};
use rand_chacha::ChaCha8Rng;

#[derive(Clone, Debug)]
pub(crate) struct Red {
    config: RedConfig,
    rng: ChaCha8Rng,
    /// Mean queue length, in the configured unit.
    mean: f64,
    /// Packets accepted since the last drop while the mean was at or above the lower threshold,
    /// less one.
    count: i64,
}

impl Red {
    pub(crate) fn new(seed: u64, config: RedConfig) -> Self {
        Self {
            config,
            rng: stream(seed, Purpose::Red),
            mean: 0.0,
            count: -1,
        }
    }

    /// Other thresholds from now on; mean and random stream go on.
    pub(crate) fn reconfigure(&mut self, config: RedConfig) {
        if config.unit != self.config.unit {
            self.mean = 0.0;
        }
        self.config = config;
    }

    pub(crate) fn unit(&self) -> RedUnit {
        self.config.unit
    }

    /// Size of a typical packet on the link, in bytes.
    pub(crate) fn mean_packet_bytes(&self) -> u32 {
        self.config.mean_packet_bytes
    }

    /// A packet finds the link idle; in its idle time it could have sent `missed` typical packets.
    pub(crate) fn idle(&mut self, missed: u64) {
        let missed = i32::try_from(missed).unwrap_or(i32::MAX);
        self.mean *= (1.0 - self.config.weight).powi(missed);
    }

    /// Whether a packet that finds `queue` (in the configured unit) is dropped.
    pub(crate) fn drops(&mut self, queue: f64) -> bool {
        self.mean += self.config.weight * (queue - self.mean);
        let Some(probability) = self.base_probability() else {
            self.count = -1;
            return false;
        };
        self.count += 1;
        // Made even: with p / (1 - count p) the number of packets from drop to drop is uniform in
        // 1..1/p, with a mean half that of independent draws (section 7 of the paper, method 2).
        let left = 1.0 - self.count as f64 * probability;
        let drops = left <= probability || unit(&mut self.rng) * left <= probability;
        if drops {
            // The paper's text counts from 0 (and so does its distribution), its figure from 1.
            self.count = -1;
        }
        drops
    }

    /// The paper's `p_b`; `None` below the lower threshold.
    fn base_probability(&self) -> Option<f64> {
        let RedConfig {
            min,
            max,
            max_probability,
            gentle,
            ..
        } = self.config;
        if self.mean < min {
            None
        } else if self.mean < max {
            Some(max_probability * (self.mean - min) / (max - min))
        } else if gentle && self.mean < 2.0 * max {
            Some(max_probability + (1.0 - max_probability) * (self.mean - max) / max)
        } else {
            Some(1.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> RedConfig {
        RedConfig {
            min: 5.0,
            max: 15.0,
            unit: RedUnit::Packets,
            max_probability: 0.1,
            weight: 0.002,
            gentle: true,
            mean_packet_bytes: 1500,
        }
    }

    fn settled(config: RedConfig, queue: f64) -> Red {
        let mut red = Red::new(1, config);
        red.mean = queue;
        red
    }

    /// After n arrivals that find q, the mean is q (1 - (1 - w)^n): the paper's equation 2.
    #[test]
    fn the_mean_follows_the_queue() {
        let mut red = Red::new(1, config());
        for _ in 0..1_000 {
            red.drops(4.0);
        }
        let expected = 4.0 * (1.0 - 0.998f64.powi(1_000));
        assert!((red.mean - expected).abs() < 1e-9, "{}", red.mean);
        red.idle(500);
        assert!((red.mean - expected * 0.998f64.powi(500)).abs() < 1e-9);
    }

    #[test]
    fn the_probability_has_the_shape_of_the_paper() {
        let at =
            |queue, gentle| settled(RedConfig { gentle, ..config() }, queue).base_probability();
        let near = |seen: Option<f64>, expected: f64| {
            assert!((seen.expect("a probability") - expected).abs() < 1e-12);
        };
        assert_eq!(at(4.99, false), None);
        near(at(5.0, false), 0.0);
        near(at(10.0, false), 0.05);
        near(at(15.0, false), 1.0);
        near(at(15.0, true), 0.1);
        near(at(22.5, true), 0.55);
        near(at(30.0, true), 1.0);
    }

    /// Distances between drops at a constant mean are uniform in 1..1/p (chi-square, p = 0.05).
    #[test]
    fn drops_are_spread_evenly() {
        let mut red = settled(config(), 10.0);
        let mut distances = [0u32; 21];
        let mut since = 0usize;
        let drops = 40_000;
        let mut seen = 0;
        while seen <= drops {
            since += 1;
            if red.drops(10.0) {
                // The first distance starts anywhere.
                if seen > 0 {
                    distances[since] += 1;
                }
                seen += 1;
                since = 0;
            }
        }
        let expected = f64::from(drops) / 20.0;
        let chi_square: f64 = distances[1..]
            .iter()
            .map(|&n| (f64::from(n) - expected).powi(2) / expected)
            .sum();
        // 99.9 % quantile with 19 degrees of freedom: 43.8. The seed is fixed.
        assert!(chi_square < 43.8, "{chi_square}: {distances:?}");
    }

    #[test]
    fn nothing_is_dropped_below_the_lower_threshold_and_everything_above_the_upper() {
        let mut low = settled(config(), 4.0);
        let mut high = settled(
            RedConfig {
                gentle: false,
                ..config()
            },
            16.0,
        );
        for _ in 0..1_000 {
            assert!(!low.drops(4.0));
            assert!(high.drops(16.0));
        }
    }
}
