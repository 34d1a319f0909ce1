//! A file's hashes for a comparison: one for each range of it, so that the first one that differs can be
//! named.

/// The shortest range, in bytes: 32 bytes of hash for each MiB.
const SHORTEST: u64 = 1 << 20;
/// Ranges of one file, at most. So its hashes never take more than 512 KiB.
const MOST: u64 = 16_384;

/// Bytes in each range of a file of `size` bytes; the last one may be shorter.
pub(crate) fn length(size: u64) -> u64 {
    size.div_ceil(MOST).next_power_of_two().max(SHORTEST)
}

/// How many there are. An empty file has none.
pub(crate) fn count(size: u64) -> u64 {
    size.div_ceil(length(size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_session::entry::bounds;

    #[test]
    fn ranges_are_a_mebibyte_until_they_would_be_too_many() {
        for (size, each, ranges) in [
            (0, 1 << 20, 0),
            (1, 1 << 20, 1),
            (1 << 20, 1 << 20, 1),
            ((1 << 20) + 1, 1 << 20, 2),
            (16 << 30, 1 << 20, 16_384),
            ((16 << 30) + 1, 2 << 20, 8193),
            (1 << 40, 64 << 20, 16_384),
            (bounds::SIZE, 1 << 48, 16_384),
        ] {
            assert_eq!((length(size), count(size)), (each, ranges), "{size}");
        }
    }
}
