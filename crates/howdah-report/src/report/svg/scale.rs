//! From values to places on a drawing, and the round values at which an axis is labelled.

use crate::report::format::plain;

/// A labelled value of an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    /// The value.
    pub(crate) value: f64,
    /// As it is written.
    pub(crate) label: String,
}

/// One axis: values `low..=high` fall on `from..=to`, in the drawing's units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
    /// Distance of the ticks, where the range was made for it.
    step: Option<f64>,
}

impl Scale {
    /// Values as they are. An empty or impossible range becomes a range of one.
    pub(crate) fn linear(low: f64, high: f64, from: f64, to: f64) -> Self {
        let low = if low.is_finite() { low } else { 0.0 };
        let high = if high.is_finite() && high > low {
            high
        } else {
            low + 1.0
        };
        Self {
            low,
            high,
            from,
            to,
            log: false,
            step: None,
        }
    }

    /// From zero to the first round value at or above `highest`.
    pub(crate) fn from_zero(highest: f64, want: usize, from: f64, to: f64) -> Self {
        let highest = if highest.is_finite() && highest > 0.0 {
            highest
        } else {
            1.0
        };
        let step = nice_step(highest, want);
        // A hair of tolerance: 0.3 / 0.1 must not become four steps.
        let high = (highest / step - 1e-9).ceil() * step;
        Self::linear(0.0, high, from, to)
    }

    /// As [`Self::from_zero`], unless the values keep to the upper half: then from the first round
    /// value at or below `lowest`.
    pub(crate) fn near(lowest: f64, highest: f64, want: usize, from: f64, to: f64) -> Self {
        if !(lowest > highest / 2.0 && highest.is_finite()) {
            return Self::from_zero(highest, want, from, to);
        }
        // Some room, so that noise of a per cent does not fill the panel.
        let room = ((highest - lowest) * 0.1).max(highest * 0.01);
        let (low, high) = (lowest - room, highest + room);
        let step = nice_step(high - low, want);
        Self {
            step: Some(step),
            ..Self::linear(
                (low / step).floor() * step,
                (high / step).ceil() * step,
                from,
                to,
            )
        }
    }

    /// As [`Self::from_zero`], and down to the first round value at or below `lowest` where that is
    /// below zero.
    pub(crate) fn around_zero(lowest: f64, highest: f64, want: usize, from: f64, to: f64) -> Self {
        if !(lowest < 0.0 && lowest.is_finite()) {
            return Self::from_zero(highest, want, from, to);
        }
        let highest = if highest.is_finite() {
            highest.max(0.0)
        } else {
            0.0
        };
        let step = nice_step(highest - lowest, want);
        let low = (lowest / step + 1e-9).floor() * step;
        let high = (highest / step - 1e-9).ceil() * step;
        Self {
            step: Some(step),
            ..Self::linear(low, high, from, to)
        }
    }

    /// Logarithms of values, widened to 1, 2 or 5 times a power of ten on both sides.
    /// Where a value is not above zero, it stays linear.
    pub(crate) fn log(low: f64, high: f64, from: f64, to: f64) -> Self {
        if !(low > 0.0 && high.is_finite() && high >= low) {
            return Self::from_zero(high, 5, from, to);
        }
        let (low, high) = (round_125(low, false), round_125(high, true));
        let high = if high > low { high } else { low * 2.0 };
        Self {
            low,
            high,
            from,
            to,
            log: true,
            step: None,
        }
    }

    /// Lowest and highest value.
    pub(crate) fn domain(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Share of the way from the lowest to the highest value, within 0 to 1.
    pub(crate) fn share(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if share.is_nan() {
            0.0
        } else {
            share.clamp(0.0, 1.0)
        }
    }

    /// Place of a value; values outside fall on the nearer end.
    pub(crate) fn at(&self, value: f64) -> f64 {
        self.from + (self.to - self.from) * self.share(value)
    }

    /// Round values within the range, about `want` of them.
    pub(crate) fn ticks(&self, want: usize) -> Vec<Tick> {
        if self.log {
            return self.log_ticks(want);
        }
        let step = self
            .step
            .unwrap_or_else(|| nice_step(self.high - self.low, want));
        let decimals = decimals_of(step);
        let first = (self.low / step - 1e-9).ceil();
        let count = ((self.high / step + 1e-9).floor() - first).max(0.0) as usize;
        (0..=count)
            .map(|n| {
                let value = (first + n as f64) * step;
                Tick {
                    value,
                    label: plain(value, decimals),
                }
            })
            .collect()
    }

    fn log_ticks(&self, want: usize) -> Vec<Tick> {
        let decades = (self.high / self.low).log10();
        let factors: &[f64] = if decades * 3.0 <= want as f64 + 1.0 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let mut ticks = Vec::new();
        let (first, last) = (
            self.low.log10().floor() as i32,
            self.high.log10().ceil() as i32,
        );
        for power in first..=last {
            for factor in factors {
                let value = factor * 10f64.powi(power);
                if value >= self.low * 0.999 && value <= self.high * 1.001 {
                    ticks.push(Tick {
                        value,
                        label: plain(value, decimals_of(value)),
                    });
                }
            }
        }
        ticks
    }
}

/// 1, 2 or 5 times a power of ten, so that about `want` of them make `range`.
pub(crate) fn nice_step(range: f64, want: usize) -> f64 {
    if !range.is_finite() || range <= 0.0 {
        return 1.0;
    }
    let rough = range / want.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let factor = match rough / power {
        r if r <= 1.0 + 1e-9 => 1.0,
        r if r <= 2.0 + 1e-9 => 2.0,
        r if r <= 5.0 + 1e-9 => 5.0,
        _ => 10.0,
    };
    factor * power
}

/// Digits after the point that a value of this size needs to be told from its neighbours.
fn decimals_of(step: f64) -> usize {
    let exponent = (step.abs().log10() + 1e-9).floor();
    if exponent < 0.0 && exponent.is_finite() {
        (-exponent) as usize
    } else {
        0
    }
}

fn round_125(value: f64, up: bool) -> f64 {
    let power = 10f64.powf((value.log10() + 1e-9).floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    let at = value / power;
    let factor = if up {
        steps.iter().copied().find(|s| *s >= at - 1e-6)
    } else {
        steps.iter().copied().rev().find(|s| *s <= at + 1e-6)
    };
    factor.unwrap_or(1.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, want: usize) -> Vec<String> {
        scale.ticks(want).into_iter().map(|t| t.label).collect()
    }

    #[test]
    fn steps_are_one_two_or_five() {
        for (range, want, step) in [
            (1000.0, 5, 200.0),
            (940.0, 5, 200.0),
            (1.0, 4, 0.5),
            (0.03, 5, 0.01),
            (7.0, 7, 1.0),
            (0.0, 5, 1.0),
            (f64::NAN, 5, 1.0),
        ] {
            let got = nice_step(range, want);
            assert!((got - step).abs() < step * 1e-9, "{range}/{want}: {got}");
        }
    }

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(
            labels(Scale::from_zero(940.0, 5, 0.0, 1.0), 5),
            ["0", "200", "400", "600", "800", "1000"]
        );
        assert_eq!(
            labels(Scale::from_zero(0.3, 3, 0.0, 1.0), 3),
            ["0.0", "0.1", "0.2", "0.3"]
        );
        assert_eq!(
            labels(Scale::linear(-3.0, 17.0, 0.0, 1.0), 4),
            ["0", "5", "10", "15"]
        );
        assert_eq!(
            labels(Scale::from_zero(12_500.0, 3, 0.0, 1.0), 3),
            ["0", "5000", "10\u{202f}000", "15\u{202f}000"]
        );
    }

    #[test]
    fn values_far_from_zero_have_an_axis_of_their_own() {
        assert_eq!(
            labels(Scale::near(180.0, 186.0, 5, 0.0, 1.0), 5),
            ["178", "180", "182", "184", "186", "188"]
        );
        assert_eq!(
            Scale::near(20.0, 186.0, 5, 0.0, 1.0),
            Scale::from_zero(186.0, 5, 0.0, 1.0)
        );
    }

    #[test]
    fn axes_reach_below_zero() {
        assert_eq!(
            labels(Scale::around_zero(-0.3, 0.9, 6, 0.0, 1.0), 6),
            [
                "\u{2212}0.4",
                "\u{2212}0.2",
                "0.0",
                "0.2",
                "0.4",
                "0.6",
                "0.8",
                "1.0"
            ]
        );
        assert_eq!(
            Scale::around_zero(0.1, 0.9, 5, 0.0, 1.0),
            Scale::from_zero(0.9, 5, 0.0, 1.0)
        );
    }

    #[test]
    fn logarithmic_ticks_follow_the_decades() {
        assert_eq!(
            labels(Scale::log(0.3, 7.0, 0.0, 1.0), 6),
            ["0.2", "0.5", "1", "2", "5", "10"]
        );
        assert_eq!(
            labels(Scale::log(0.012, 900.0, 0.0, 1.0), 5),
            ["0.01", "0.1", "1", "10", "100", "1000"]
        );
    }

    #[test]
    fn values_fall_where_they_belong() {
        let scale = Scale::linear(0.0, 10.0, 100.0, 0.0);
        for (value, place) in [(0.0, 100.0), (10.0, 0.0), (2.5, 75.0), (99.0, 0.0)] {
            assert!((scale.at(value) - place).abs() < 1e-9, "{value}");
        }
        let log = Scale::log(1.0, 100.0, 0.0, 2.0);
        for (value, place) in [(1.0, 0.0), (10.0, 1.0), (100.0, 2.0), (0.0, 0.0)] {
            assert!((log.at(value) - place).abs() < 1e-9, "{value}");
        }
    }

    #[test]
    fn no_range_is_too_strange() {
        for (low, high) in [
            (0.0, 0.0),
            (f64::NAN, f64::NAN),
            (5.0, 1.0),
            (0.0, f64::INFINITY),
        ] {
            for scale in [
                Scale::linear(low, high, 0.0, 1.0),
                Scale::log(low, high, 0.0, 1.0),
                Scale::from_zero(high, 5, 0.0, 1.0),
            ] {
                assert!(scale.at(3.0).is_finite(), "{low} {high} {scale:?}");
                assert!(scale.ticks(5).len() < 40, "{low} {high} {scale:?}");
            }
        }
    }
}
