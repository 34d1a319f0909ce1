//! The receiver's memory in front of its disk.

use howdah_core::{Rate, Span, Time};

/// A buffer that fills as blocks arrive and empties at the rate of a disk.
#[derive(Clone, Debug)]
pub(crate) struct Storage {
    capacity_bytes: u64,
    disk: Option<Rate>,
    level_bytes: f64,
    at: Time,
}

impl Storage {
    /// A buffer of `capacity_bytes`; without a disk's rate it never fills.
    pub(crate) const fn new(capacity_bytes: u64, disk: Option<Rate>) -> Self {
        Self {
            capacity_bytes,
            disk,
            level_bytes: 0.0,
            at: Time::ZERO,
        }
    }

    fn drain(&mut self, now: Time) {
        if let Some(rate) = self.disk {
            let gone = rate.as_f64() / 8.0 * now.since(self.at).as_secs_f64();
            self.level_bytes = (self.level_bytes - gone).max(0.0);
        }
        self.at = self.at.max(now);
    }

    /// Takes in a block; false if there is no room for it.
    #[inline]
    pub(crate) fn put(&mut self, now: Time, bytes: u32) -> bool {
        if self.disk.is_none() {
            return true;
        }
        self.drain(now);
        let level = self.level_bytes + f64::from(bytes);
        let fits = level <= self.capacity_bytes as f64;
        if fits {
            self.level_bytes = level;
        }
        fits
    }

    /// Bytes that wait for the disk.
    pub(crate) fn level_bytes(&mut self, now: Time) -> u64 {
        self.drain(now);
        self.level_bytes as u64
    }

    /// Bytes of room.
    pub(crate) fn free_bytes(&mut self, now: Time) -> u64 {
        let level = self.level_bytes(now);
        self.capacity_bytes.saturating_sub(level)
    }

    /// How long until all of it is on the disk.
    pub(crate) fn time_to_empty(&mut self, now: Time) -> Span {
        let level = self.level_bytes(now);
        self.disk.map_or(Span::ZERO, |rate| rate.span_for(level))
    }

    /// Room in bytes when it is empty.
    pub(crate) const fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_at_the_difference_and_drains_at_the_disk_rate() {
        // 8 Mbit/s are 1000 bytes in a millisecond; twice as much arrives.
        let mut storage = Storage::new(10_000, Some(Rate::from_mbit_per_sec(8)));
        let mut refused = 0;
        for ms in 0..20 {
            let now = Time::ZERO + Span::from_millis(ms);
            refused += u32::from(!storage.put(now, 2000));
        }
        assert_eq!(
            refused, 6,
            "9 blocks until 10 000 bytes stand, then every other"
        );
        let now = Time::ZERO + Span::from_millis(19);
        let level = storage.level_bytes(now);
        assert!((9000..=10_000).contains(&level), "{level}");
        assert_eq!(storage.free_bytes(now), 10_000 - level);
        assert_eq!(storage.time_to_empty(now).as_micros(), level);
        assert!(
            Storage::new(1, None).put(now, 5000),
            "memory without a disk behind it"
        );
    }
}
