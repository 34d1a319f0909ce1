//! Delay on top of the constant one.

use crate::chance::{Purpose, normal, stream, uniform, unit};
use crate::trace::{DelayTrace, StepCursor};
use howdah_core::Span;
use rand_chacha::ChaCha8Rng;

/// How a packet's extra delay comes about: drawn for each one, or read from a trace.
///
/// It is never negative, so that [`PathConfig::delay`](crate::PathConfig::delay) stays the least
/// delay of the path; for a delay that varies around a mean, take half the range off that.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Jitter {
    /// None.
    #[default]
    None,
    /// Uniform in 0 to this much.
    Uniform(Span),
    /// Normal around `max / 2`, cut off at 0 and `max` (what falls outside is drawn again).
    Normal {
        /// Standard deviation before the cut.
        deviation: Span,
        /// The most.
        max: Span,
    },
    /// The Pareto distribution of the second kind (Lomax), which starts at 0:
    /// P(X > x) = (1 + x / `scale`)^-`shape`, cut off at `max`. Its mean, but for the cut, is
    /// `scale` / (`shape` - 1).
    Pareto {
        /// Where the tail begins.
        scale: Span,
        /// How thin the tail is; between 1 and 2 the mean is finite and the variance is not.
        shape: f64,
        /// The most.
        max: Span,
    },
    /// What the trace says for the moment at which the packet leaves the bottleneck.
    Trace(DelayTrace),
}

impl Jitter {
    /// The least extra delay.
    pub fn min(&self) -> Span {
        match self {
            Self::Trace(trace) => trace.min(),
            _ => Span::ZERO,
        }
    }

    /// The largest extra delay.
    pub fn max(&self) -> Span {
        match self {
            Self::None => Span::ZERO,
            Self::Uniform(max) | Self::Normal { max, .. } | Self::Pareto { max, .. } => *max,
            Self::Trace(trace) => trace.max(),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct JitterStage {
    jitter: Jitter,
    rng: ChaCha8Rng,
    cursor: StepCursor,
}

impl JitterStage {
    pub(crate) fn new(seed: u64, jitter: &Jitter) -> Self {
        Self {
            jitter: jitter.clone(),
            rng: stream(seed, Purpose::Jitter),
            cursor: StepCursor::default(),
        }
    }

    pub(crate) fn set(&mut self, jitter: &Jitter) {
        if *jitter != self.jitter {
            self.jitter = jitter.clone();
            self.cursor = StepCursor::default();
        }
    }

    /// The extra delay of a packet that leaves the bottleneck at `left_ns`.
    #[inline]
    pub(crate) fn next(&mut self, left_ns: u64) -> Span {
        match self.jitter {
            Jitter::None => Span::ZERO,
            Jitter::Uniform(max) if max.is_zero() => Span::ZERO,
            Jitter::Uniform(max) => Span::from_nanos(uniform(&mut self.rng, max.as_nanos())),
            _ => self.other(left_ns),
        }
    }

    fn other(&mut self, left_ns: u64) -> Span {
        let ns = match &self.jitter {
            Jitter::None | Jitter::Uniform(_) => 0,
            Jitter::Normal { deviation, max } => {
                let (deviation, max) = (deviation.as_nanos() as f64, max.as_nanos());
                if deviation > 8.0 * max as f64 {
                    // What is left between the cuts is flat, and hard to hit.
                    uniform(&mut self.rng, max)
                } else {
                    loop {
                        let ns = max as f64 / 2.0 + deviation * normal(&mut self.rng);
                        if ns >= 0.0 && ns <= max as f64 {
                            break ns as u64;
                        }
                    }
                }
            }
            Jitter::Pareto { scale, shape, max } => {
                // By inversion of the cut distribution: no draw is repeated, none lies on the cut.
                let (scale, max) = (scale.as_nanos().max(1) as f64, max.as_nanos());
                let beyond = (1.0 + max as f64 / scale).powf(-shape);
                let tail = beyond + (1.0 - beyond) * unit(&mut self.rng);
                let ns = scale * (tail.powf(-1.0 / shape) - 1.0);
                (ns as u64).min(max)
            }
            Jitter::Trace(trace) => return self.cursor.at(&trace.0, left_ns).0,
        };
        Span::from_nanos(ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(jitter: &Jitter) -> Vec<f64> {
        let mut stage = JitterStage::new(5, jitter);
        let mut draws: Vec<f64> = (0..200_000)
            .map(|_| stage.next(0).as_nanos() as f64)
            .collect();
        draws.sort_by(f64::total_cmp);
        assert!(
            draws
                .last()
                .is_some_and(|&ns| ns <= jitter.max().as_nanos() as f64)
        );
        draws
    }

    /// Largest distance between the empirical and the given distribution function
    /// (Kolmogorov-Smirnov): at 200 000 draws, 0.0044 is the 99.9 % quantile.
    fn assert_distribution(sorted: &[f64], cdf: impl Fn(f64) -> f64) {
        let n = sorted.len() as f64;
        let distance = sorted
            .iter()
            .enumerate()
            .map(|(at, &x)| {
                let expected = cdf(x);
                (expected - at as f64 / n)
                    .abs()
                    .max((expected - (at + 1) as f64 / n).abs())
            })
            .fold(0.0, f64::max);
        assert!(distance < 0.0044, "{distance}");
    }

    #[test]
    fn uniform_draws() {
        let sorted = draws(&Jitter::Uniform(Span::from_millis(1)));
        assert_distribution(&sorted, |ns| ns / 1e6);
    }

    #[test]
    fn normal_draws_are_cut_on_both_sides() {
        let (deviation, max) = (Span::from_millis(1), Span::from_millis(4));
        let sorted = draws(&Jitter::Normal { deviation, max });
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        assert!((mean - 2e6).abs() < 1e4, "{mean}");
        // A normal distribution cut at two deviations has the variance
        // 1 - 2 * 2 phi(2) / (2 Phi(2) - 1) = 0.7737.
        let variance = sorted.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / sorted.len() as f64;
        assert!((variance / 1e12 - 0.7737).abs() < 0.01, "{variance}");
        let flat = draws(&Jitter::Normal {
            deviation: Span::from_secs(1),
            max,
        });
        assert_distribution(&flat, |ns| ns / 4e6);
    }

    #[test]
    fn pareto_draws_have_their_tail() {
        let (scale, max, shape) = (Span::from_millis(1), Span::from_secs(1), 1.3);
        let sorted = draws(&Jitter::Pareto { scale, shape, max });
        let tail = |ns: f64| (1.0 + ns / 1e6).powf(-shape);
        assert_distribution(&sorted, |ns| (1.0 - tail(ns)) / (1.0 - tail(1e9)));
    }

    #[test]
    fn a_trace_is_read_at_the_time_of_leaving() {
        let trace = DelayTrace::parse("0s 1ms\n1s 42ms\n3s 2ms", None).unwrap();
        let jitter = Jitter::Trace(trace);
        assert_eq!(jitter.min(), Span::from_millis(1));
        assert_eq!(jitter.max(), Span::from_millis(42));
        let mut stage = JitterStage::new(1, &jitter);
        let at = |second: f64| (second * 1e9) as u64;
        let ms = Span::from_millis;
        assert_eq!(stage.next(at(0.5)), ms(1));
        assert_eq!(stage.next(at(1.0)), ms(42));
        assert_eq!(stage.next(at(2.9)), ms(42));
        assert_eq!(stage.next(at(99.0)), ms(2));
        assert_eq!(stage.next(at(0.0)), ms(1));
    }
}
