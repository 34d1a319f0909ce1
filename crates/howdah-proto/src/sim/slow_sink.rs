//! A place where received bytes go that is slower than the path.

use crate::codec::SinkState;
use crate::meter::Meter;
use howdah_core::{Rate, Span, Time};

/// What takes received bytes out of a queue of so many, at a rate, but for times at which it stands still.
#[derive(Clone, Copy, Debug)]
pub struct SlowSink {
    /// By a clock that stands still when the sink does.
    queue: Meter,
    /// How often it stands still, and how long.
    stalls: Option<(Span, Span)>,
}

impl SlowSink {
    /// One that takes `drain` out of `capacity_bytes`.
    pub fn new(drain: Rate, capacity_bytes: u64) -> Self {
        Self {
            queue: Meter::with_capacity(Time::ZERO, drain, capacity_bytes),
            stalls: None,
        }
    }

    /// At the end of every `period` it takes nothing for `pause`, and the sender is not told of that.
    #[must_use]
    pub fn stalling(mut self, period: Span, pause: Span) -> Self {
        self.stalls = Some((period, pause));
        self
    }

    /// Time until `now` in which it took something.
    fn busy(&self, now: Time) -> Time {
        let Some((period, pause)) = self.stalls else {
            return now;
        };
        let now = now.since(Time::ZERO).as_nanos();
        let (period, busy) = (period.as_nanos(), period.saturating_sub(pause).as_nanos());
        Time::ZERO + Span::from_nanos(now / period * busy + (now % period).min(busy))
    }

    pub(super) fn has_room(&mut self, now: Time, bytes: u32) -> bool {
        let busy = self.busy(now);
        self.queue.has_room(busy, bytes.into())
    }

    pub(super) fn take(&mut self, bytes: u64) {
        self.queue.take(bytes);
    }

    pub(super) fn state(&mut self, now: Time) -> SinkState {
        let busy = self.busy(now);
        self.queue.state(busy)
    }
}
