//! Confidence intervals.

use super::{deviation, mean};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A range that holds the true value with the confidence that was asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Half of the width.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// Distribution-free confidence interval of the median, between order statistics (W. R. Thompson,
/// Annals of Mathematical Statistics 7, 1936). `None` if the sample is too small for the
/// confidence: 95 % needs six values.
pub fn median_ci(values: &[f64], confidence: f64) -> Option<Interval> {
    let n = values.len();
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // P(x_(k) < median < x_(n+1-k)) = 1 - 2 P(Binomial(n, 1/2) <= k - 1).
    let mut tail = 0.0;
    let mut probability = 0.5_f64.powi(i32::try_from(n).ok()?);
    let mut best = None;
    for k in 1..=n / 2 {
        tail += probability;
        if 1.0 - 2.0 * tail < confidence {
            break;
        }
        best = Some(Interval {
            low: sorted[k - 1],
            high: sorted[n - k],
        });
        probability *= (n - k + 1) as f64 / k as f64;
    }
    best
}

/// 95 % confidence interval of the mean by Student's t, for values that are about normal.
/// `None` of fewer than two values.
pub fn mean_ci(values: &[f64]) -> Option<Interval> {
    let mean = mean(values)?;
    let error = deviation(values)? / (values.len() as f64).sqrt();
    let half = t_975(values.len() - 1) * error;
    Some(Interval {
        low: mean - half,
        high: mean + half,
    })
}

/// 95 % confidence interval of the mean by the percentile bootstrap (B. Efron 1979), for values
/// that are far from normal. The draws come from `seed`. `None` of fewer than two values.
pub fn mean_ci_bootstrap(values: &[f64], seed: u64) -> Option<Interval> {
    const DRAWS: usize = 2000;
    if values.len() < 2 {
        return None;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut means: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let sum: f64 = (0..values.len())
                .map(|_| {
                    let draw = u128::from(rng.next_u64()) * values.len() as u128;
                    values[(draw >> 64) as usize]
                })
                .sum();
            sum / values.len() as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    Some(Interval {
        low: means[DRAWS * 25 / 1000],
        high: means[DRAWS * 975 / 1000 - 1],
    })
}

/// The 97.5 % quantile of Student's t distribution.
///
/// Up to 30 degrees of freedom from the table that every textbook has, beyond from the first terms
/// of the Cornish-Fisher expansion (Abramowitz and Stegun 26.7.5), which is exact to 4 digits there.
pub(crate) fn t_975(degrees: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010,
        2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739,
        2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
    ];
    const Z: f64 = 1.959_964;
    match degrees {
        0 => f64::INFINITY,
        1..=30 => TABLE[degrees - 1],
        _ => {
            let n = degrees as f64;
            let first = (Z.powi(3) + Z) / 4.0;
            let second = (5.0 * Z.powi(5) + 16.0 * Z.powi(3) + 3.0 * Z) / 96.0;
            Z + first / n + second / (n * n)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_values_are_the_least_for_95_percent() {
        let values: Vec<f64> = (1..=5).map(f64::from).collect();
        assert_eq!(median_ci(&values, 0.95), None);
        let values: Vec<f64> = (1..=6).map(f64::from).collect();
        let whole = Interval {
            low: 1.0,
            high: 6.0,
        };
        assert_eq!(median_ci(&values, 0.95), Some(whole));
        // Of 20 values the interval is between the 6th and the 15th (95.9 %).
        let values: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        let inner = Interval {
            low: 6.0,
            high: 15.0,
        };
        assert_eq!(median_ci(&values, 0.95), Some(inner));
    }

    #[test]
    fn students_t() {
        assert!((t_975(10) - 2.2281).abs() < 1e-9);
        // Tables: 40: 2.0211, 60: 2.0003, 120: 1.9799.
        for (degrees, want) in [(40, 2.0211), (60, 2.0003), (120, 1.9799)] {
            assert!((t_975(degrees) - want).abs() < 1e-4, "{degrees}");
        }
        let interval = mean_ci(&[9.0, 10.0, 11.0]).unwrap();
        assert!((interval.half_width() - 4.3027 / 3.0_f64.sqrt()).abs() < 1e-4);
        assert_eq!(mean_ci(&[1.0]), None);
    }

    /// The intervals cover the true mean about as often as they promise.
    #[test]
    fn intervals_cover_what_they_promise() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let (mut by_t, mut by_bootstrap, mut by_median) = (0, 0, 0);
        let rounds = 400;
        for round in 0..rounds {
            // Sums of 12 uniforms: nearly normal, mean and median 6.
            let values: Vec<f64> = (0..12)
                .map(|_| {
                    (0..12)
                        .map(|_| f64::from(rng.next_u32()) / 2f64.powi(32))
                        .sum()
                })
                .collect();
            let covers = |interval: Option<Interval>| {
                interval.is_some_and(|interval| interval.low <= 6.0 && 6.0 <= interval.high)
            };
            by_t += u32::from(covers(mean_ci(&values)));
            by_bootstrap += u32::from(covers(mean_ci_bootstrap(&values, round)));
            by_median += u32::from(covers(median_ci(&values, 0.95)));
        }
        let share = |hits: u32| f64::from(hits) / rounds as f64;
        assert!((share(by_t) - 0.95).abs() < 0.04, "{}", share(by_t));
        // The bootstrap is known to be narrow for small samples.
        assert!(
            (share(by_bootstrap) - 0.91).abs() < 0.06,
            "{}",
            share(by_bootstrap)
        );
        assert!(share(by_median) > 0.93, "{}", share(by_median));
    }
}
