//! Statistics of repeated runs: what can be said from few numbers, and how sure it is.

mod intervals;

pub use intervals::{Interval, mean_ci, mean_ci_bootstrap, median_ci};

/// Arithmetic mean; `None` of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Standard deviation of the sample (n - 1); `None` of fewer than two values.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// Median; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The value below which a share of `q` lies, interpolated between neighbours (type 7 of Hyndman
/// and Fan 1996, the usual one). `None` of nothing.
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let place = q.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64))
}

/// The best of the first four repeats: how K14proto and K13app chose. `None` of nothing.
pub fn best_of_4(values: &[f64]) -> Option<f64> {
    values.iter().take(4).copied().max_by(f64::total_cmp)
}

/// The upper quartile of the repeats: our reading of "good trials" (JGN06), which threw away
/// trials that irregularities had spoilt without saying how many. `None` of nothing.
pub fn good_trials(values: &[f64]) -> Option<f64> {
    quantile(values, 0.75)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_samples() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(mean(&values), Some(2.5));
        assert_eq!(median(&values), Some(2.5));
        assert_eq!(quantile(&values, 0.0), Some(1.0));
        assert_eq!(quantile(&values, 1.0), Some(4.0));
        assert_eq!(good_trials(&values), Some(3.25));
        assert_eq!(best_of_4(&[1.0, 5.0, 2.0, 3.0, 9.0]), Some(5.0));
        assert!((deviation(&values).unwrap() - 1.290_994).abs() < 1e-6);
        assert_eq!((mean(&[]), median(&[]), best_of_4(&[])), (None, None, None));
        assert_eq!(deviation(&[1.0]), None);
        assert_eq!(quantile(&[7.0], 0.9), Some(7.0));
    }
}
