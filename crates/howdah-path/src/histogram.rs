//! A histogram of times with a bounded relative error and no allocation after the start.

use howdah_core::Span;

/// Buckets per power of two: values are kept to within 1/32, 3 %.
const SUB_BITS: u32 = 5;
const SUB: u64 = 1 << SUB_BITS;
const BUCKETS: usize = ((64 - SUB_BITS + 1) as usize) << SUB_BITS;

/// How often which times were seen. Log-linear: exact below 32 ns, then 32 buckets per power of two.
#[derive(Clone, Debug)]
pub struct DelayHistogram {
    counts: Box<[u64]>,
    total: u64,
    /// In ns; two of the longest values have no sum in 64 bits.
    sum_ns: u128,
    max: u64,
}

impl Default for DelayHistogram {
    fn default() -> Self {
        Self {
            counts: vec![0; BUCKETS].into_boxed_slice(),
            total: 0,
            sum_ns: 0,
            max: 0,
        }
    }
}

impl DelayHistogram {
    #[inline]
    /// Counts a value.
    pub fn record(&mut self, value: Span) {
        let ns = value.as_nanos();
        if let Some(count) = self.counts.get_mut(bucket(ns)) {
            *count += 1;
        }
        self.total += 1;
        self.sum_ns += u128::from(ns);
        self.max = self.max.max(ns);
    }

    /// Values counted.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Sum of all values, exact, in seconds.
    pub fn sum_s(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// Their mean, to the nanosecond; `None` if nothing was counted.
    pub fn mean(&self) -> Option<Span> {
        let mean = self.sum_ns.checked_div(self.total.into())?;
        u64::try_from(mean).ok().map(Span::from_nanos)
    }

    /// The largest value.
    pub fn max(&self) -> Span {
        Span::from_nanos(self.max)
    }

    /// The value that this share of all values does not exceed (upper end of its bucket, so at most
    /// 1/32 too large); zero if nothing was counted.
    pub fn quantile(&self, share: f64) -> Span {
        let rank = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Span::from_nanos(upper_end(index).min(self.max));
            }
        }
        Span::ZERO
    }

    /// What was counted since an earlier state of the same histogram. The largest value is that of all times.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut news = self.clone();
        for (count, before) in news.counts.iter_mut().zip(&earlier.counts) {
            *count -= before;
        }
        news.total -= earlier.total;
        news.sum_ns -= earlier.sum_ns;
        news
    }

    /// Counts all values of another histogram, each so many times.
    pub fn add(&mut self, other: &Self, times: u64) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += times * more;
        }
        self.total += times * other.total;
        self.sum_ns += u128::from(times) * other.sum_ns;
        if times > 0 {
            self.max = self.max.max(other.max);
        }
    }

    /// The values in coarse steps: how many there were up to each power of two of microseconds, without those up to the
    /// step before; empty steps at both ends are left out.
    pub fn by_powers_of_two_us(&self) -> Vec<(u64, u64)> {
        let mut steps: Vec<(u64, u64)> = Vec::new();
        for (index, &count) in self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
        {
            let limit_us = upper_end(index).div_ceil(1000).max(1).next_power_of_two();
            match steps.last_mut() {
                Some((last, total)) if *last == limit_us => *total += count,
                Some(&mut (mut last, _)) => {
                    while last * 2 < limit_us {
                        last *= 2;
                        steps.push((last, 0));
                    }
                    steps.push((limit_us, count));
                }
                None => steps.push((limit_us, count)),
            }
        }
        steps
    }
}

fn bucket(ns: u64) -> usize {
    if ns < SUB {
        return ns as usize;
    }
    let shift = ns.ilog2() - SUB_BITS;
    (((u64::from(shift) + 1) << SUB_BITS) + ((ns >> shift) - SUB)) as usize
}

fn upper_end(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < SUB {
        return bucket;
    }
    let shift = (bucket >> SUB_BITS) - 1;
    let low = (SUB + (bucket & (SUB - 1))) << shift;
    low + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_bucket_holds_its_value_to_3_percent(ns: u64) {
            let end = upper_end(bucket(ns));
            prop_assert!(end >= ns);
            prop_assert!((end - ns) as f64 <= ns as f64 / 32.0);
        }
    }

    #[test]
    fn what_came_since_can_be_added_again() {
        let mut histogram = DelayHistogram::default();
        histogram.record(Span::from_nanos(3));
        let before = histogram.clone();
        histogram.record(Span::from_nanos(7));
        let news = histogram.since(&before);
        assert_eq!(
            (news.count(), news.quantile(0.01)),
            (1, Span::from_nanos(7))
        );
        histogram.add(&news, 2);
        assert_eq!(histogram.count(), 4);
        assert_eq!(
            (histogram.sum_ns, histogram.mean()),
            (24, Some(Span::from_nanos(6)))
        );
        assert_eq!(histogram.quantile(0.25), Span::from_nanos(3));
        assert_eq!(histogram.quantile(0.26), Span::from_nanos(7));
    }

    #[test]
    fn coarse_steps_hold_everything() {
        let mut histogram = DelayHistogram::default();
        assert!(histogram.by_powers_of_two_us().is_empty());
        for us in [0, 3, 3, 30] {
            histogram.record(Span::from_micros(us));
        }
        let steps = histogram.by_powers_of_two_us();
        assert_eq!(steps, [(1, 1), (2, 0), (4, 2), (8, 0), (16, 0), (32, 1)]);
    }

    #[test]
    fn quantiles() {
        let mut histogram = DelayHistogram::default();
        assert_eq!(histogram.quantile(0.5), Span::ZERO);
        for us in 1..=1000 {
            histogram.record(Span::from_micros(us));
        }
        assert_eq!(histogram.count(), 1000);
        assert_eq!(histogram.max(), Span::from_micros(1000));
        for (share, us) in [(0.5, 500.0), (0.99, 990.0), (0.999, 999.0), (1.0, 1000.0)] {
            let got = histogram.quantile(share).as_nanos() as f64 / 1000.0;
            assert!((got / us - 1.0).abs() < 0.04, "{share}: {got}");
        }
        histogram.record(Span::MAX);
        assert_eq!(histogram.quantile(1.0), Span::MAX);
    }
}
