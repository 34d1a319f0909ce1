//! Rates in bits per second.

use crate::Span;
use crate::num::floor_to_u64;
use std::fmt;

/// Bits of a byte times nanoseconds of a second.
const BITS_PER_BYTE_NANOS: u64 = 8_000_000_000;

/// A rate in bit/s. Decimal prefixes: 1 Gbit/s is 10^9 bit/s.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Rate(u64);

impl Rate {
    /// Nothing moves.
    pub const ZERO: Self = Self(0);
    /// No limit.
    pub const MAX: Self = Self(u64::MAX);

    /// A rate of `bits` per second.
    pub const fn from_bits_per_sec(bits: u64) -> Self {
        Self(bits)
    }

    /// A rate of `mbit` times 10^6 bit/s.
    pub const fn from_mbit_per_sec(mbit: u64) -> Self {
        Self(mbit.saturating_mul(1_000_000))
    }

    /// A rate of `gbit` times 10^9 bit/s.
    pub const fn from_gbit_per_sec(gbit: u64) -> Self {
        Self(gbit.saturating_mul(1_000_000_000))
    }

    /// The rate at which `bytes` pass in `span`; [`Rate::MAX`] if the span is zero.
    pub fn from_bytes_over(bytes: u64, span: Span) -> Self {
        if span.is_zero() {
            return Self::MAX;
        }
        let bits_per_sec = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(span.as_nanos());
        Self(u64::try_from(bits_per_sec).unwrap_or(u64::MAX))
    }

    /// Bits per second.
    pub const fn bits_per_sec(self) -> u64 {
        self.0
    }

    /// Bits per second as a float.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// How long `bytes` take at this rate, rounded up; [`Span::MAX`] at rate zero.
    pub fn span_for(self, bytes: u64) -> Span {
        if self.0 == 0 {
            return Span::MAX;
        }
        // What is asked in the course of a transfer fits, and a wide division costs several narrow ones.
        if let Some(bits) = bytes.checked_mul(BITS_PER_BYTE_NANOS) {
            return Span::from_nanos(bits.div_ceil(self.0));
        }
        let ns = (u128::from(bytes) * u128::from(BITS_PER_BYTE_NANOS)).div_ceil(self.0.into());
        Span::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// How many whole bytes pass in `span`.
    pub fn bytes_in(self, span: Span) -> u64 {
        let (rate, ns) = (self.0, span.as_nanos());
        if let Some(bits) = rate.checked_mul(ns) {
            return bits / BITS_PER_BYTE_NANOS;
        }
        let bytes = u128::from(rate) * u128::from(ns) / u128::from(BITS_PER_BYTE_NANOS);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// This rate times a factor; negative and NaN factors give zero.
    #[must_use]
    pub fn mul_f64(self, factor: f64) -> Self {
        Self(floor_to_u64(self.0 as f64 * factor))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0 as f64;
        match self.0 {
            u64::MAX => f.write_str("unlimited"),
            0..1_000 => write!(f, "{bits} bit/s"),
            1_000..1_000_000 => write!(f, "{:.1} kbit/s", bits / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.1} Mbit/s", bits / 1e6),
            _ => write!(f, "{:.2} Gbit/s", bits / 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jumbo_frame_takes_7_2_us_at_10_gbit() {
        let rate = Rate::from_gbit_per_sec(10);
        assert_eq!(rate.span_for(9000), Span::from_nanos(7200));
        assert_eq!(rate.bytes_in(Span::from_millis(1)), 1_250_000);
        assert_eq!(Rate::from_bytes_over(1_250_000, Span::from_millis(1)), rate);
    }

    #[test]
    fn narrow_and_wide_divisions_agree() {
        let edges = [
            1,
            7,
            8_000_000_000,
            u64::MAX / 8_000_000_000,
            1 << 40,
            u64::MAX,
        ];
        for rate in edges {
            for n in edges
                .into_iter()
                .flat_map(|n| [n - 1, n, n.saturating_add(1)])
            {
                let wide = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
                let rate_of = Rate::from_bits_per_sec(rate);
                let span = (u128::from(n) * 8_000_000_000).div_ceil(u128::from(rate));
                assert_eq!(
                    rate_of.span_for(n),
                    Span::from_nanos(wide(span)),
                    "{rate} {n}"
                );
                let bytes = u128::from(rate) * u128::from(n) / 8_000_000_000;
                assert_eq!(
                    rate_of.bytes_in(Span::from_nanos(n)),
                    wide(bytes),
                    "{rate} {n}"
                );
            }
        }
    }

    #[test]
    fn extremes_do_not_overflow() {
        assert_eq!(Rate::ZERO.span_for(1), Span::MAX);
        assert_eq!(Rate::MAX.bytes_in(Span::MAX), u64::MAX);
        assert_eq!(Rate::from_bytes_over(1, Span::ZERO), Rate::MAX);
    }
}
