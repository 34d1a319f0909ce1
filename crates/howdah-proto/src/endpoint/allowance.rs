//! So many of something at once and per second, and no more.

use howdah_core::Time;

/// Something that may happen so many times at once, and so many times per second.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    per_second: u64,
    left: u64,
    refilled_at: Time,
}

impl Allowance {
    /// None of it is taken yet.
    pub fn new(per_second: u64) -> Self {
        Self {
            per_second,
            left: per_second,
            refilled_at: Time::ZERO,
        }
    }

    /// Whether one more is allowed now.
    pub fn take(&mut self, now: Time) -> bool {
        let earned = now.since(self.refilled_at).as_millis() * self.per_second / 1_000;
        if earned > 0 {
            self.left = (self.left + earned).min(self.per_second);
            self.refilled_at = now;
        }
        let may = self.left > 0;
        self.left -= u64::from(may);
        may
    }
}
