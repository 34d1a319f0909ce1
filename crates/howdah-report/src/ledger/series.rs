//! What checks read off a flow's curve: one-second samples, as in JGN06's figures.

use crate::result::FlowResult;

/// A flow's goodput by whole seconds. Intervals shorter than a second are put together; one that is
/// longer makes the curve unusable.
#[derive(Clone, Debug, Default)]
pub(crate) struct Curve {
    /// Second that ends here, in scenario seconds; goodput in bit/s; bytes sent again.
    samples: Vec<Sample>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    end_s: f64,
    bps: f64,
    repeated_bytes: u64,
}

impl Curve {
    /// The curve of a flow; `None` without a series, or with too coarse a one.
    pub(crate) fn of(flow: &FlowResult) -> Option<Self> {
        let intervals = &flow.intervals;
        let last = intervals.last()?;
        let before = intervals.first()?.t_s.min(flow.start_s);
        let step = if intervals.len() > 1 {
            (last.t_s - intervals[0].t_s) / (intervals.len() - 1) as f64
        } else {
            last.t_s - before
        };
        if !(step > 0.0 && step <= 1.01) {
            return None;
        }
        let per_second = (1.0 / step).round().max(1.0) as usize;
        let samples = intervals
            .chunks(per_second)
            .filter(|chunk| chunk.len() == per_second)
            .map(|chunk| Sample {
                end_s: chunk[chunk.len() - 1].t_s,
                bps: chunk.iter().map(|i| i.goodput_bps).sum::<f64>() / chunk.len() as f64,
                repeated_bytes: chunk.iter().map(|i| i.retransmitted_bytes).sum(),
            })
            .collect();
        Some(Self { samples })
    }

    fn between(&self, from_s: f64, to_s: f64) -> impl Iterator<Item = &Sample> {
        self.samples
            .iter()
            .filter(move |s| s.end_s > from_s + 0.5 && s.end_s <= to_s + 0.5)
    }

    /// Mean goodput of the seconds from `from_s` to `to_s`, in bit/s.
    pub(crate) fn mean(&self, from_s: f64, to_s: f64) -> Option<f64> {
        let values: Vec<f64> = self.between(from_s, to_s).map(|s| s.bps).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// Least one-second sample, in bit/s.
    pub(crate) fn least(&self, from_s: f64, to_s: f64) -> Option<f64> {
        self.between(from_s, to_s)
            .map(|s| s.bps)
            .min_by(f64::total_cmp)
    }

    /// Standard deviation of the one-second samples over their mean.
    pub(crate) fn variation(&self, from_s: f64, to_s: f64) -> Option<f64> {
        let mean = self.mean(from_s, to_s)?;
        let (mut sum, mut n) = (0.0, 0.0);
        for sample in self.between(from_s, to_s) {
            sum += (sample.bps - mean).powi(2);
            n += 1.0;
        }
        (mean > 0.0).then(|| (sum / n).sqrt() / mean)
    }

    /// Best mean over a window, in bit/s.
    pub(crate) fn best_mean(&self, window_s: f64) -> Option<f64> {
        let n = window_s.round().max(1.0) as usize;
        self.samples
            .windows(n.min(self.samples.len()).max(1))
            .map(|w| w.iter().map(|s| s.bps).sum::<f64>() / w.len() as f64)
            .max_by(f64::total_cmp)
    }

    /// Seconds from `from_s` until the end of the first sample of at least `level` bit/s.
    pub(crate) fn time_to(&self, level: f64, from_s: f64) -> Option<f64> {
        self.between(from_s, f64::MAX)
            .find(|s| s.bps >= level)
            .map(|s| s.end_s - from_s)
    }

    /// Seconds in which something was sent again.
    pub(crate) fn repairing_seconds(&self, from_s: f64, to_s: f64) -> usize {
        self.between(from_s, to_s)
            .filter(|s| s.repeated_bytes > 0)
            .count()
    }

    /// Times at which a second of at least `level` bit/s is followed, within three seconds, by
    /// repairs; seconds of one repair count once.
    pub(crate) fn losses_above(&self, level: f64, from_s: f64) -> usize {
        let samples: Vec<&Sample> = self.between(from_s, f64::MAX).collect();
        let mut times = 0;
        let mut last_high = None;
        let mut repairing = false;
        for (i, sample) in samples.iter().enumerate() {
            let repairs = sample.repeated_bytes > 0;
            if repairs && !repairing && last_high.is_some_and(|at: usize| i - at <= 3) {
                times += 1;
            }
            repairing = repairs;
            if sample.bps >= level {
                last_high = Some(i);
            }
        }
        times
    }

    /// Share of the seconds that are below `level` bit/s.
    pub(crate) fn share_below(&self, level: f64, from_s: f64) -> Option<f64> {
        let all = self.between(from_s, f64::MAX).count();
        let below = self
            .between(from_s, f64::MAX)
            .filter(|s| s.bps < level)
            .count();
        (all > 0).then(|| below as f64 / all as f64)
    }

    /// End of the last sample, in scenario seconds.
    pub(crate) fn end_s(&self) -> f64 {
        self.samples.last().map_or(0.0, |s| s.end_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Interval;

    fn flow(step: f64, bps: &[f64]) -> FlowResult {
        FlowResult {
            intervals: bps
                .iter()
                .enumerate()
                .map(|(i, &goodput_bps)| Interval {
                    t_s: (i + 1) as f64 * step,
                    goodput_bps,
                    ..Interval::default()
                })
                .collect(),
            ..FlowResult::default()
        }
    }

    #[test]
    fn short_intervals_become_seconds() {
        let curve = Curve::of(&flow(0.5, &[1.0, 3.0, 5.0, 7.0])).unwrap_or_default();
        assert_eq!(curve.samples.len(), 2);
        assert_eq!(curve.mean(0.0, 2.0), Some(4.0));
        assert_eq!(curve.least(0.0, 2.0), Some(2.0));
        assert_eq!(curve.time_to(6.0, 0.0), Some(2.0));
        assert_eq!(curve.time_to(9.0, 0.0), None);
        assert_eq!(curve.variation(0.0, 2.0), Some(0.5));
    }

    #[test]
    fn long_intervals_are_refused() {
        assert!(Curve::of(&flow(5.0, &[1.0, 2.0, 3.0])).is_none());
        assert!(Curve::of(&flow(1.0, &[])).is_none());
    }
}
