//! What a byte costs a link, in exact integers: nanoseconds times bits per second.

pub(crate) const NANOS_PER_BYTE_AT_1_BIT_PER_SEC: u128 = 8_000_000_000;

/// How many packets of `link_bytes` pass in `ns`.
pub(crate) fn packets_in(ns: u64, bits_per_sec: u64, link_bytes: u32) -> u64 {
    let one = u128::from(link_bytes.max(1)) * NANOS_PER_BYTE_AT_1_BIT_PER_SEC;
    u64::try_from(u128::from(ns) * u128::from(bits_per_sec) / one).unwrap_or(u64::MAX)
}
