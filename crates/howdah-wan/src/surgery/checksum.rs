//! The Internet checksum's arithmetic (RFC 1071, RFC 1624).

/// Ones' complement sum of 16-bit words, folded; an odd last byte counts as the high one.
pub(crate) fn sum(bytes: &[u8]) -> u16 {
    let mut total = 0u64;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        total += u64::from(u32::from_be_bytes(*word));
    }
    let (pairs, odd) = rest.as_chunks::<2>();
    for pair in pairs {
        total += u64::from(u16::from_be_bytes(*pair));
    }
    if let [last] = odd {
        total += u64::from(*last) << 8;
    }
    fold(total)
}

fn fold(mut total: u64) -> u16 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

/// A folded sum that contained the 32-bit number `old` and shall contain `new` instead.
pub(crate) fn replace(sum: u16, old: u32, new: u32) -> u16 {
    let minus_old = !fold(u64::from(old));
    fold(u64::from(sum) + u64::from(minus_old) + u64::from(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(sum(&bytes), 0xddf2);
        assert_eq!(sum(&bytes[..7]), fold(0x0001 + 0xf203 + 0xf4f5 + 0xf600));
    }

    #[test]
    fn replacing_equals_summing_anew() {
        for (old, new) in [(65_000u32, 1480u32), (1, 65_535), (65_535, 1), (70_000, 28)] {
            let with = |length: u32| fold(0x1234 + u64::from(length));
            assert_eq!(replace(with(old), old, new), with(new), "{old} -> {new}");
        }
    }
}
