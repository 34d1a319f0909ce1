//! A token bucket, in exact integers.

use crate::config::TokenBucket;
use crate::work::NANOS_PER_BYTE_AT_1_BIT_PER_SEC;
use howdah_core::Time;

/// What a byte costs, in 1/rate nanoseconds.
const UNITS_PER_BYTE: i128 = NANOS_PER_BYTE_AT_1_BIT_PER_SEC as i128;

#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    config: TokenBucket,
    rate: i128,
    burst: i128,
    /// When the bucket would have been empty, had it never been limited to its size: in units of
    /// 1/rate nanoseconds.
    empty_at: i128,
}

impl Bucket {
    /// A full one.
    pub(crate) fn new(config: TokenBucket) -> Self {
        let rate = i128::from(config.rate.bits_per_sec());
        let burst = i128::from(config.burst_bytes) * UNITS_PER_BYTE;
        Self {
            config,
            rate,
            burst,
            empty_at: -burst,
        }
    }

    pub(crate) fn config(&self) -> TokenBucket {
        self.config
    }

    /// When there are tokens for a packet, rounded up; [`Time::MAX`]: never.
    pub(crate) fn ready_at(&self, link_bytes: u64) -> Time {
        let needed = i128::from(link_bytes) * UNITS_PER_BYTE;
        self.gained(needed.min(self.burst))
    }

    /// When there will have been tokens for so many bytes of any number of packets.
    pub(crate) fn ready_at_unlimited(&self, link_bytes: u64) -> Time {
        self.gained(i128::from(link_bytes) * UNITS_PER_BYTE)
    }

    fn gained(&self, needed: i128) -> Time {
        let ready = self.empty_at + needed;
        if ready <= 0 {
            return Time::ZERO;
        }
        if self.rate == 0 {
            return Time::MAX;
        }
        let ns = (ready as u128).div_ceil(self.rate as u128);
        Time::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Takes the tokens of a packet that leaves at `now`.
    pub(crate) fn take(&mut self, now: Time, link_bytes: u64) {
        let full = i128::from(now.as_nanos()) * self.rate - self.burst;
        self.empty_at = self.empty_at.max(full) + i128::from(link_bytes) * UNITS_PER_BYTE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_core::{Rate, Span};

    /// 1 byte per nanosecond, 10 000 bytes deep.
    fn bucket() -> Bucket {
        Bucket::new(TokenBucket {
            rate: Rate::from_gbit_per_sec(8),
            burst_bytes: 10_000,
        })
    }

    #[test]
    fn a_burst_leaves_at_once_and_what_follows_at_the_rate() {
        let mut bucket = bucket();
        let mut left = Vec::new();
        for _ in 0..15 {
            let at = bucket.ready_at(1_000);
            bucket.take(at, 1_000);
            left.push(at.as_nanos());
        }
        assert_eq!(left[..10], [0; 10]);
        assert_eq!(left[10..], [1_000, 2_000, 3_000, 4_000, 5_000]);
        // A pause fills it, but not beyond its size.
        let later = Time::ZERO + Span::from_secs(1);
        let mut at_once = 0;
        while bucket.ready_at(1_000) <= later {
            bucket.take(later, 1_000);
            at_once += 1;
        }
        assert_eq!(at_once, 10);
    }

    #[test]
    fn a_packet_larger_than_the_bucket_leaves_a_debt() {
        let mut bucket = bucket();
        assert_eq!(bucket.ready_at(30_000), Time::ZERO);
        bucket.take(Time::ZERO, 30_000);
        assert_eq!(bucket.ready_at(1), Time::from_nanos(20_001));
        assert_eq!(bucket.ready_at(30_000), Time::from_nanos(30_000));
    }

    #[test]
    fn a_bucket_without_a_rate_is_used_up() {
        let mut bucket = Bucket::new(TokenBucket {
            rate: Rate::ZERO,
            burst_bytes: 1_500,
        });
        bucket.take(Time::ZERO, 1_500);
        assert_eq!(bucket.ready_at(1), Time::MAX);
    }
}
