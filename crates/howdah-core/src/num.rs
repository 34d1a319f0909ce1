//! Conversions between numbers that cannot go wrong unseen: each says what becomes of what does not fit.

/// The whole part of `value`: NaN and what is below zero are 0, what is too large is the largest number.
///
/// Every number of nanoseconds, bits per second or bytes that is calculated with fractions comes back to an integer here.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` does exactly what is promised here, and nothing else in the standard library does"
)]
#[inline]
pub const fn floor_to_u64(value: f64) -> u64 {
    value as u64
}

/// The same as [`floor_to_u64`], of a count of things in memory.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` does exactly what is promised here, and nothing else in the standard library does"
)]
#[inline]
pub const fn floor_to_usize(value: f64) -> usize {
    value as usize
}

/// A length or a place in memory; on machines of 32 bits, what is beyond their memory is its end.
#[expect(
    clippy::cast_possible_truncation,
    reason = "it fits, or is not cast; `try_from` is not const"
)]
#[inline]
pub const fn saturating_usize(value: u64) -> usize {
    if value > usize::MAX as u64 {
        usize::MAX
    } else {
        value as usize
    }
}

/// A number with a sign; what is too large is the largest.
#[inline]
pub fn saturating_i64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A count with a sign; what is too large is the largest.
#[inline]
pub fn saturating_i32(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// A length in 32 bits; what is longer is the longest.
#[inline]
pub fn saturating_u32(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// A length in 16 bits, such as a datagram's; what is longer is the longest.
#[inline]
pub fn saturating_u16(value: usize) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_the_nearest_that_does() {
        for (value, whole) in [
            (0.0, 0),
            (0.999, 0),
            (1.5, 1),
            (-1.0, 0),
            (f64::NAN, 0),
            (f64::NEG_INFINITY, 0),
            (9_007_199_254_740_993.0, 9_007_199_254_740_992),
            (1.9e19, u64::MAX),
            (f64::INFINITY, u64::MAX),
        ] {
            assert_eq!(floor_to_u64(value), whole, "{value}");
            let whole = usize::try_from(whole).unwrap_or(usize::MAX);
            assert_eq!(floor_to_usize(value), whole, "{value}");
        }
    }

    #[test]
    fn integers_that_are_too_large_are_the_largest() {
        assert_eq!((saturating_usize(7), saturating_i64(7)), (7, 7));
        assert_eq!((saturating_u32(7), saturating_u16(7)), (7, 7));
        assert_eq!(saturating_usize(u64::MAX), usize::MAX);
        assert_eq!(saturating_i64(u64::MAX), i64::MAX);
        assert_eq!(
            (saturating_i32(7), saturating_i32(usize::MAX)),
            (7, i32::MAX)
        );
        assert_eq!(saturating_u32(usize::MAX), u32::MAX);
        assert_eq!(saturating_u16(65_536), u16::MAX);
    }
}
