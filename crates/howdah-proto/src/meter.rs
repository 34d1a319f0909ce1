//! A cap on what is taken in, which a peer cannot override.
//!
//! Data is accepted as if it waited in a queue that empties at the cap. The sender hears of that queue as it
//! hears of a slow disk's, and slows down; what comes nevertheless when it is full is refused, and counts as not
//! received. Over any time, no more is accepted than the cap allows and one queue.

use crate::codec::SinkState;
use howdah_core::{Rate, Span, Time};

/// How long the queue is at the cap.
const QUEUE: Span = Span::from_millis(250);
/// Some packets must fit, however low the cap is.
const QUEUE_MIN_BYTES: u64 = 64 * 1024;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    drain: Rate,
    capacity_bytes: u64,
    queued_bytes: u64,
    /// Up to when the queue was emptied.
    emptied_at: Time,
}

impl Meter {
    /// A cap, with the queue that fits it.
    pub(crate) fn new(now: Time, cap: Rate) -> Self {
        Self::with_capacity(now, cap, cap.bytes_in(QUEUE).max(QUEUE_MIN_BYTES))
    }

    /// The same with another cap: what waits goes on waiting, so that a peer gains nothing by changes.
    pub(crate) fn with_cap(mut self, now: Time, cap: Rate) -> Self {
        self.empty(now);
        Self {
            queued_bytes: self.queued_bytes,
            ..Self::new(now, cap)
        }
    }

    /// A queue of so many bytes.
    pub(crate) fn with_capacity(now: Time, drain: Rate, capacity_bytes: u64) -> Self {
        Self {
            drain,
            capacity_bytes,
            queued_bytes: 0,
            emptied_at: now,
        }
    }

    fn empty(&mut self, now: Time) {
        let gone = self.drain.bytes_in(now.since(self.emptied_at));
        // Parts of a byte are not lost: they wait for the next time.
        if gone > 0 {
            self.queued_bytes = self.queued_bytes.saturating_sub(gone);
            self.emptied_at = now;
        }
    }

    /// Whether that many bytes would be accepted.
    pub(crate) fn has_room(&mut self, now: Time, bytes: u64) -> bool {
        self.empty(now);
        self.queued_bytes + bytes <= self.capacity_bytes
    }

    /// So many were accepted.
    pub(crate) fn take(&mut self, bytes: u64) {
        self.queued_bytes += bytes;
    }

    /// Whether that many bytes are accepted; then they are.
    pub(crate) fn admit(&mut self, now: Time, bytes: u64) -> bool {
        let fits = self.has_room(now, bytes);
        if fits {
            self.take(bytes);
        }
        fits
    }

    /// The queue as a sender is told of it.
    pub(crate) fn state(&mut self, now: Time) -> SinkState {
        self.empty(now);
        SinkState {
            queued_bytes: self.queued_bytes,
            capacity_bytes: self.capacity_bytes,
            drain_kb_per_s: (self.drain.bits_per_sec() / 8_000).max(1),
        }
    }

    /// What the sender is told: of two queues the fuller one.
    pub(crate) fn combine(&mut self, now: Time, sink: Option<SinkState>) -> SinkState {
        let own = self.state(now);
        match sink {
            Some(sink) if sink.fill() > own.fill() => sink,
            _ => own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAP: Rate = Rate::from_mbit_per_sec(80);

    #[test]
    fn no_pattern_of_arrivals_brings_more_than_the_cap_and_a_queue() {
        for (every_us, bytes) in [(1, 1_400), (100, 1_400), (7, 8_900), (50_000, 2_000_000)] {
            let mut meter = Meter::new(Time::ZERO, CAP);
            let (mut taken, steps) = (0, 3_000_000 / every_us);
            for step in 0..steps {
                let now = Time::ZERO + Span::from_micros(step * every_us);
                if meter.admit(now, bytes) {
                    taken += bytes;
                }
            }
            // 80 Mbit/s are 10 MB/s.
            let most = 30_000_000 + meter.capacity_bytes;
            assert!(taken <= most, "{taken} of {most}");
            let offered = steps * bytes;
            let least = offered.min(29_000_000);
            assert!(
                taken >= least || bytes > meter.capacity_bytes / 2,
                "{taken}"
            );
        }
    }

    #[test]
    fn the_sender_hears_of_the_fuller_queue() {
        let mut meter = Meter::new(Time::ZERO, CAP);
        let sink = SinkState {
            queued_bytes: 10,
            capacity_bytes: 100,
            drain_kb_per_s: 7,
        };
        assert_eq!(meter.combine(Time::ZERO, Some(sink)), sink);
        assert!(meter.admit(Time::ZERO, 2_000_000));
        let own = meter.combine(Time::ZERO, Some(sink));
        assert_eq!((own.queued_bytes, own.drain_kb_per_s), (2_000_000, 10_000));
        let later = Time::ZERO + Span::from_millis(100);
        assert_eq!(meter.combine(later, None).queued_bytes, 1_000_000);
    }
}
