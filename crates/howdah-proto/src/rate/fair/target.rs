//! How long the queue is meant to be, and what is known of how long it can be.

use super::{DROPPING_LASTS, Fair, SHORT, TARGET, TARGET_AT_RATE, TARGET_FIRST, TARGET_MAX};
use crate::rate::Feedback;
use howdah_core::{Rate, Span};

/// In seconds, without a cap.
fn wanted_at(rate: Rate) -> f64 {
    TARGET.as_secs_f64() * (1.0 + TARGET_AT_RATE / rate.as_f64().max(1.0))
}

/// The target of a flow that has `rate`.
pub(super) fn target_of(rate: Rate, cap: Span) -> Span {
    let wanted = wanted_at(rate);
    cap.mul_f64(wanted / (wanted + cap.as_secs_f64()))
}

impl Fair {
    /// Falls with the rate everywhere, also where the cap binds: what makes flows equal is that the faster one
    /// wants the shorter queue.
    pub(super) fn target(&self) -> Span {
        self.target_below(self.bound.target_cap)
    }

    pub(super) fn target_below(&self, cap: Span) -> Span {
        target_of(self.share.all(self.capacity), cap)
    }

    /// How long the queue may be nobody knows when start-up ends. So the target begins at [`TARGET_FIRST`] and comes up as it does after an
    /// overflow; a queue that is seen has room for itself.
    pub(super) fn open_target(&mut self) {
        let first = TARGET_FIRST.max(self.delays.queue).as_secs_f64();
        let wanted = wanted_at(self.share.all(self.capacity));
        if wanted > first {
            let cap = Span::from_secs_f64(first * wanted / (wanted - first));
            self.bound.is_opening = cap < self.bound.target_cap;
            self.bound.target_cap = self.bound.target_cap.min(cap);
        }
    }

    /// A queue that stays above what was thought to be its limit is longer than that.
    pub(super) fn doubt_short(&mut self, feedback: &Feedback<'_>) {
        if !self.is_short() || self.delays.queue < SHORT {
            self.bound.longer_since = None;
            return;
        }
        let since = *self.bound.longer_since.get_or_insert(feedback.now);
        if feedback.now.since(since) > DROPPING_LASTS + feedback.smoothed_rtt * 4 {
            self.leave_short();
        }
    }

    pub(super) fn leave_short(&mut self) {
        self.losses.by_delay.clear();
        self.bound.overflowed = false;
        self.bound.target_cap = TARGET_MAX;
        self.bound.longer_since = None;
        self.bound.yields = 0;
    }
}
