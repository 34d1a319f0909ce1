//! What every loss-based algorithm keeps: window, threshold, and the rules around a reduction.

use super::{Ack, CcSettings, Phase, SlowStart, SlowStartCounting};

/// Least slow-start threshold in segments (RFC 5681 section 3.1).
const LEAST_SSTHRESH: f64 = 2.0;

/// Congestion window and slow-start threshold, both in segments.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) cwnd: f64,
    pub(super) ssthresh: f64,
    /// Both as they were before the last reduction, should it prove unfounded.
    before: Option<(f64, f64)>,
    /// The phase as far as the algorithm was told.
    phase: Phase,
    slow_start: SlowStart,
    initial: f64,
}

impl Window {
    /// The initial window, and the threshold that the stack has for a start.
    pub(super) fn new(settings: &CcSettings) -> Self {
        let initial = f64::from(settings.initial_window_segments).max(1.0);
        Self {
            cwnd: initial,
            ssthresh: settings.slow_start.initial_ssthresh(),
            before: None,
            phase: Phase::Open,
            slow_start: settings.slow_start,
            initial,
        }
    }

    /// The same for an algorithm that sets the threshold itself.
    pub(super) fn with_ssthresh(settings: &CcSettings, ssthresh: f64) -> Self {
        let window = Self::new(settings);
        Self {
            ssthresh: ssthresh.min(window.ssthresh),
            ..window
        }
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Takes note of the phase. Whether the window may grow on this acknowledgement: it moved the
    /// cumulative edge, no losses of this window are being repaired, and the window was what held
    /// the sender back (Linux: `tcp_is_cwnd_limited`, RFC 9438 section 4.2 and others).
    pub(super) fn may_grow(&mut self, ack: &Ack) -> bool {
        self.phase = ack.phase;
        ack.acked_segments > 0 && ack.cwnd_limited && ack.phase != Phase::Recovery
    }

    /// Slow start as the stack does it.
    pub(super) fn grow_slow_start(&mut self, ack: &Ack) {
        self.cwnd = self.slow_start.grow(self.cwnd, self.ssthresh, ack);
    }

    /// How often a rule "for each acknowledgement" applies. A stack counts in congestion avoidance
    /// as it does in slow start: acknowledgements until Linux 3.x, acknowledged segments since.
    pub(super) fn counted(&self, ack: &Ack) -> f64 {
        match self.slow_start.counting {
            SlowStartCounting::Acks => 1.0,
            SlowStartCounting::Segments { .. } => f64::from(ack.acked_segments),
        }
    }

    /// Whether a timeout now is the first word about a loss. If losses are being repaired
    /// already, the threshold has been set for them (RFC 5681 section 3.1, Linux
    /// `tcp_enter_loss`) and only the window collapses.
    pub(super) fn timeout_is_news(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Fast recovery begins, at the end of which the window shall be `target`.
    pub(super) fn reduce_to(&mut self, target: f64) {
        self.before = Some((self.cwnd, self.ssthresh));
        self.ssthresh = target.max(LEAST_SSTHRESH);
        self.cwnd = self.ssthresh;
        self.phase = Phase::Recovery;
    }

    /// The retransmission timer ran out; `target` is what the threshold would be for a loss.
    pub(super) fn collapse(&mut self, target: f64) {
        if self.timeout_is_news() {
            self.before = Some((self.cwnd, self.ssthresh));
            self.ssthresh = target.max(LEAST_SSTHRESH);
        }
        self.cwnd = 1.0;
        self.phase = Phase::Loss;
    }

    /// Takes the last reduction back.
    pub(super) fn undo(&mut self) {
        if let Some((cwnd, ssthresh)) = self.before.take() {
            self.cwnd = self.cwnd.max(cwnd);
            self.ssthresh = ssthresh;
        }
        self.phase = Phase::Open;
    }

    /// The sender was silent for a timeout and more: the acknowledgement clock is gone (RFC 5681
    /// section 4.1).
    pub(super) fn restart(&mut self) {
        self.cwnd = self.cwnd.min(self.initial);
    }

    /// Fast recovery is over.
    pub(super) fn recovered(&mut self) {
        self.phase = Phase::Open;
    }
}

/// How many segments an acknowledgement covers, as the CUBIC and BIC of Linux estimate it: an
/// average with gain 1/16 over the acknowledgements outside recovery, at first 2.
///
/// Those algorithms count acknowledgements, and multiply by this to count segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckRatio(f64);

impl AckRatio {
    pub(super) const fn new() -> Self {
        Self(2.0)
    }

    pub(super) fn on_ack(&mut self, ack: &Ack) {
        if ack.phase == Phase::Open && ack.acked_segments > 0 {
            self.0 += (f64::from(ack.acked_segments) - self.0) / 16.0;
        }
    }

    pub(super) const fn segments(self) -> f64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::testkit;

    #[test]
    fn a_second_timeout_leaves_the_threshold_alone() {
        let mut window = Window::new(&testkit::settings());
        window.cwnd = 1000.0;
        window.collapse(500.0);
        assert_eq!((window.cwnd, window.ssthresh), (1.0, 500.0));
        window.collapse(0.5);
        assert_eq!((window.cwnd, window.ssthresh), (1.0, 500.0));
    }

    #[test]
    fn a_timeout_within_recovery_leaves_the_threshold_alone() {
        let mut window = Window::new(&testkit::settings());
        window.cwnd = 1000.0;
        window.reduce_to(500.0);
        window.collapse(250.0);
        assert_eq!((window.cwnd, window.ssthresh), (1.0, 500.0));
    }

    #[test]
    fn undo_restores_both() {
        let mut window = Window::new(&testkit::settings());
        window.cwnd = 1000.0;
        window.reduce_to(1.0);
        assert_eq!((window.cwnd, window.ssthresh), (2.0, 2.0), "never below 2");
        window.undo();
        assert_eq!((window.cwnd, window.ssthresh), (1000.0, f64::INFINITY));
    }

    #[test]
    fn the_ack_ratio_finds_the_receivers_policy() {
        let mut ratio = AckRatio::new();
        let ack = Ack {
            acked_segments: 1,
            ..testkit::ack()
        };
        for _ in 0..100 {
            ratio.on_ack(&ack);
        }
        assert!((ratio.segments() - 1.0).abs() < 0.01, "{ratio:?}");
    }
}
