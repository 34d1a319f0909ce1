//! Storage that gives or takes bytes at a bounded rate.

use howdah_core::{Rate, Span, Time};

/// A leaky bucket: what was written of what came.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    rate: Option<Rate>,
    done_bytes: f64,
    at: Time,
}

impl Disk {
    pub(super) const fn new(rate: Option<Rate>) -> Self {
        Self {
            rate,
            done_bytes: 0.0,
            at: Time::ZERO,
        }
    }

    /// It begins.
    pub(super) const fn begin(&mut self, now: Time) {
        self.at = now;
    }

    /// Works until `now`; there are `bytes` to do, those that are done included. Returns how many are.
    pub(super) fn work(&mut self, now: Time, bytes: u64) -> u64 {
        let Some(rate) = self.rate else {
            return bytes;
        };
        let took = now.since(self.at).as_secs_f64();
        self.at = now;
        self.done_bytes = (self.done_bytes + rate.as_f64() / 8.0 * took).min(bytes as f64);
        // A hundredth of a byte short is rounding.
        (self.done_bytes + 0.01) as u64
    }

    /// When `bytes` will have been read since the beginning at `start`, if nothing else hinders it.
    pub(super) fn ready_at(&self, start: Time, bytes: u64) -> Time {
        self.rate.map_or(start, |rate| {
            start + Span::from_secs_f64(bytes as f64 * 8.0 / rate.as_f64())
        })
    }

    /// Whether it has no limit.
    pub(super) const fn is_free(&self) -> bool {
        self.rate.is_none()
    }
}
