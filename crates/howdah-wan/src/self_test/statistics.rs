//! Whether losses are as random as they should be.

/// Gaps are sorted into this many equally likely bins.
const BINS: usize = 16;
/// 99.9 % quantile of the chi-square distribution with 15 degrees of freedom.
pub(crate) const GAP_CHI_SQUARE_LIMIT: f64 = 37.70;

/// Numbers of the packets that did not come, among those up to the last that did.
pub(crate) fn losses(seen: &[bool]) -> Vec<u64> {
    (0u64..)
        .zip(seen)
        .filter(|&(_, &seen)| !seen)
        .map(|(number, _)| number)
        .collect()
}

/// Deviation of a count from its binomial mean, in standard deviations.
pub(crate) fn binomial_z(count: u64, trials: u64, p: f64) -> f64 {
    let trials = trials as f64;
    (count as f64 - trials * p) / (trials * p * (1.0 - p)).sqrt()
}

/// Chi-square of the gaps between losses against the geometric distribution with probability `p`.
///
/// The cumulative probability of a geometric variable, with a uniform share of its own jump added,
/// is uniform. The share comes from the gap's position, so that the result is reproducible.
pub(crate) fn gap_chi_square(losses: &[u64], p: f64) -> f64 {
    let mut bins = [0u64; BINS];
    for (index, pair) in losses.windows(2).enumerate() {
        let passed = (pair[1] - pair[0] - 1) as f64;
        // The fractional parts of multiples of the golden ratio are equidistributed.
        let share = (index as f64 * 0.618_033_988_749_895).fract();
        let below = 1.0 - (1.0 - p).powf(passed);
        let uniform = below + share * p * (1.0 - p).powf(passed);
        bins[((uniform * BINS as f64) as usize).min(BINS - 1)] += 1;
    }
    let expected = losses.len().saturating_sub(1) as f64 / BINS as f64;
    if expected <= 0.0 {
        return f64::INFINITY;
    }
    bins.iter()
        .map(|&seen| (seen as f64 - expected).powi(2) / expected)
        .sum()
}

/// Mean number of consecutive losses.
pub(crate) fn mean_run(losses: &[u64]) -> f64 {
    let joined = losses
        .windows(2)
        .filter(|pair| pair[1] == pair[0] + 1)
        .count();
    let runs = losses.len() - joined;
    if runs == 0 {
        0.0
    } else {
        losses.len() as f64 / runs as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_core::Time;
    use howdah_path::{LossModel, OneWay, PathConfig, Verdict};

    fn lose(loss: LossModel) -> Vec<u64> {
        let config = PathConfig {
            loss,
            ..PathConfig::default()
        };
        let mut path = OneWay::new(&config, 77);
        let seen: Vec<bool> = (0..1_000_000)
            .map(|_| matches!(path.offer(Time::ZERO, 1500), Verdict::Deliver(_)))
            .collect();
        losses(&seen)
    }

    #[test]
    fn independent_losses_pass_and_bursts_fail() {
        for p in [0.001, 0.01, 0.02, 0.2] {
            let lost = lose(LossModel::Bernoulli(p));
            let chi = gap_chi_square(&lost, p);
            assert!(chi < GAP_CHI_SQUARE_LIMIT, "{p}: {chi}");
            assert!(binomial_z(lost.len() as u64, 1_000_000, p).abs() < 4.0);
        }
        let bursts = lose(LossModel::GilbertElliott {
            p_enter_bad: 0.0025,
            p_leave_bad: 0.25,
            loss_good: 0.0,
            loss_bad: 1.0,
        });
        assert!((mean_run(&bursts) - 4.0).abs() < 0.3);
        assert!(gap_chi_square(&bursts, 0.01) > 10.0 * GAP_CHI_SQUARE_LIMIT);
    }
}
