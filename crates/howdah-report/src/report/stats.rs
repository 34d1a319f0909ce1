//! One value of a cell from its seeds: the median, and how sure of it we are.

use crate::stats;

/// Median and spread of one measure of one cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// Values, one per seed.
    pub(crate) n: usize,
    /// Their median.
    pub(crate) median: f64,
    /// Lower end of the interval.
    pub(crate) low: f64,
    /// Upper end.
    pub(crate) high: f64,
    /// What the interval is.
    pub(crate) kind: Interval,
}

/// What the ends of a [`Spread`] mean.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Interval {
    /// One value: no interval.
    None,
    /// Lowest and highest of two to five values: too few for a confidence interval.
    Range,
    /// At least 95 % confidence for the median, by order statistics (Thompson 1936): no assumption
    /// about the distribution.
    Confidence,
    /// All seeds gave the same value.
    Exact,
}

impl Spread {
    /// From the values of the seeds; none gives none. Values that are no numbers are left out.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let (first, last) = (*sorted.first()?, *sorted.last()?);
        let median = f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]);
        let (low, high, kind) = match stats::median_ci(&sorted, 0.95) {
            _ if n == 1 => (first, last, Interval::None),
            _ if first.to_bits() == last.to_bits() => (first, last, Interval::Exact),
            Some(ends) => (ends.low, ends.high, Interval::Confidence),
            None => (first, last, Interval::Range),
        };
        Some(Self {
            n,
            median,
            low,
            high,
            kind,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_give_a_range() {
        let spread = Spread::of([3.0, 1.0, 2.0, f64::NAN]).unwrap();
        assert_eq!((spread.n, spread.kind), (3, Interval::Range));
        assert!(spread.low < 1.5 && spread.high > 2.5 && (spread.median - 2.0).abs() < 1e-9);
        assert_eq!(Spread::of([4.0]).unwrap().kind, Interval::None);
        assert_eq!(Spread::of([4.0, 4.0]).unwrap().kind, Interval::Exact);
        assert!(Spread::of([]).is_none());
    }

    #[test]
    fn many_values_give_confidence() {
        let spread = Spread::of((1..=20).map(f64::from)).unwrap();
        assert_eq!(spread.kind, Interval::Confidence);
        assert!((spread.median - 10.5).abs() < 1e-9);
        assert!((spread.low - 6.0).abs() < 1e-9 && (spread.high - 15.0).abs() < 1e-9);
    }
}
