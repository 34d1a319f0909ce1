//! Round numbers for the ends of an axis.

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

/// The first round value at or above `highest`, one where that is not above zero.
pub(crate) fn round_up(highest: f64, want: usize) -> f64 {
    let highest = if highest.is_finite() && highest > 0.0 {
        highest
    } else {
        1.0
    };
    let step = nice_step(highest, want);
    // A hair of tolerance: 0.3 / 0.1 must not become four steps.
    (highest / step - 1e-9).ceil() * step
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!((round_up(940.0, 5) - 1000.0).abs() < 1e-9);
        assert!((round_up(0.3, 3) - 0.3).abs() < 1e-9);
    }
}
