//! Whether two cycles in a row are alike.

use crate::stats;

/// What two cycles in a row say about those that follow them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreement {
    /// Mean of both.
    pub mean: f64,
    /// Half of the 95 % confidence interval of that mean.
    pub half_width: f64,
    /// By how much the second is above the first; 0 where that can be chance.
    pub drift: f64,
}

impl Agreement {
    /// The error of the mean as a prediction for so many cycles that follow, if a drift goes on.
    pub fn error(&self, cycles: f64) -> f64 {
        self.half_width + self.drift.abs() * (1.0 + cycles / 2.0)
    }
}

/// Compares two cycles part by part: what belongs to a cycle, such as a pause at its end, is in both and no difference. `None` of fewer than
/// two parts, or of cycles with unequal numbers of them.
///
/// The differences of equal parts are taken for independent (paired batch means: A. M. Law, "Simulation Modeling and Analysis", chapters 9
/// and 10). The mean of both cycles has half of the deviation that their difference has.
pub fn agreement(first: &[f64], second: &[f64]) -> Option<Agreement> {
    if first.len() != second.len() {
        return None;
    }
    let differences: Vec<f64> = first.iter().zip(second).map(|(a, b)| b - a).collect();
    let (drift, interval) = stats::mean(&differences).zip(stats::mean_ci(&differences))?;
    let half_width = interval.half_width();
    Some(Agreement {
        mean: f64::midpoint(stats::mean(first)?, stats::mean(second)?),
        half_width: half_width / 2.0,
        drift: if drift.abs() > half_width { drift } else { 0.0 },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_cycles_have_is_no_difference() {
        let cycle = [100.0, 100.0, 40.0, 90.0, 100.0];
        let same = agreement(&cycle, &cycle).unwrap();
        assert!((same.mean - 86.0).abs() < 1e-12, "{same:?}");
        assert!(same.error(100.0).abs() < 1e-12, "{same:?}");
    }

    /// Differences of -1, 0, 1, 0, 0: deviation sqrt(1/2), t of 4 degrees of freedom 2.7764, half of t s / sqrt(5).
    #[test]
    fn chance_makes_an_interval_and_no_drift() {
        let (first, second) = ([10.0; 5], [9.0, 10.0, 11.0, 10.0, 10.0]);
        let found = agreement(&first, &second).unwrap();
        assert!((found.half_width - 0.438_99).abs() < 1e-4, "{found:?}");
        assert!(found.drift.abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn a_drift_counts_for_as_long_as_it_goes_on() {
        let (first, second) = ([10.0, 11.0, 10.0], [10.5, 11.5, 10.5]);
        let found = agreement(&first, &second).unwrap();
        assert!((found.drift - 0.5).abs() < 1e-12, "{found:?}");
        assert!((found.error(8.0) - 2.5).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn little_says_nothing() {
        assert_eq!(agreement(&[1.0], &[1.0]), None);
        assert_eq!(agreement(&[1.0, 1.0], &[1.0, 1.0, 1.0]), None);
    }
}
