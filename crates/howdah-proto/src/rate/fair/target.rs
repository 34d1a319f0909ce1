//! How long the queue is meant to be, and what is known of how long it can be.

use super::{DROPPING_LASTS, Fair, SHORT, TARGET, TARGET_AT_RATE, TARGET_FIRST, TARGET_MAX};
use crate::rate::Feedback;
use howdah_core::{Rate, Span};

/// What a target can do in a second falls with the square of the round trip. So from this one on, and fully from twice as much, it falls more
/// steeply with the rate: by this share for each e times less of the link, down to `LACKS_MOST` times less.
const LONG: Span = Span::from_millis(100);
const STEEPER: f64 = 0.3;
const LACKS_MOST: f64 = 10.0;
/// ... in queues that have not overflowed of late, and to no more than so many times the cap.
const NEVER_CAPPED: f64 = 0.9;
const STEEPER_MOST: f64 = 1.4;

/// So many times the target is that of a flow that would have `lacks` times as much with the link.
fn steeper(rtt: Span, lacks: f64) -> f64 {
    let long = rtt.as_secs_f64() / LONG.as_secs_f64() - 1.0;
    1.0 + STEEPER * long.clamp(0.0, 1.0) * lacks.clamp(1.0, LACKS_MOST).ln()
}

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
        let cap = self.bound.target_cap;
        let target = self.target_below(cap);
        if self.is_short() || cap < TARGET_MAX.mul_f64(NEVER_CAPPED) {
            return target;
        }
        let rate = self.share.all(self.capacity).as_f64().max(1.0);
        let lacks = self.company.link().as_f64() / rate;
        target
            .mul_f64(steeper(self.delays.base_rtt, lacks))
            .min(cap.mul_f64(STEEPER_MOST))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lacks_much_of_the_link_wants_a_longer_queue_on_a_long_path_only() {
        let (near, far) = (Span::from_millis(80), Span::from_millis(200));
        assert!((steeper(near, 10.0) - 1.0).abs() < 1e-9);
        assert!((steeper(far, 1.0) - 1.0).abs() < 1e-9);
        // A flow that has all of the link that it saw, and one that never saw it.
        assert!((steeper(far, 0.5) - 1.0).abs() < 1e-9);
        assert!((steeper(far, 1_f64.exp()) - 1.3).abs() < 1e-9);
        let most = 1.0 + STEEPER * 10_f64.ln();
        assert!((steeper(far, 1e9) - most).abs() < 1e-9);
        assert!(steeper(Span::from_millis(150), 3.0) < steeper(far, 3.0));
    }
}
