//! The bounds that losses put on the model (draft-ietf-ccwg-bbr-04, section 5.5.10).

use super::super::{Ack, RateSample};
use super::{BETA, HEADROOM, MIN_PIPE_CWND};

/// Bounds, in segments and segments per second; infinite where none is known.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    /// Most that was in flight without losing too much (`inflight_longterm`).
    pub(super) inflight_hi: f64,
    /// Until the next probe (`bw_shortterm`).
    pub(super) bw_lo: f64,
    /// Until the next probe (`inflight_shortterm`).
    pub(super) inflight_lo: f64,
    /// Largest delivery rate of this round.
    bw_latest: f64,
    /// Largest volume delivered in a round-trip time, in this round.
    pub(super) inflight_latest: f64,
    /// Count of delivered segments at which the round ends in which losses are counted.
    loss_round_delivered: u64,
    pub(super) loss_in_round: bool,
    /// The bounds before the last reduction, should it turn out to be unfounded.
    before: [f64; 3],
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            inflight_hi: f64::INFINITY,
            bw_lo: f64::INFINITY,
            inflight_lo: f64::INFINITY,
            bw_latest: 0.0,
            inflight_latest: 0.0,
            loss_round_delivered: 0,
            loss_in_round: false,
            before: [f64::INFINITY; 3],
        }
    }
}

impl Bounds {
    /// The first loss of a round begins the round trip over which it is answered.
    pub(super) fn note_loss(&mut self, total_delivered: u64) {
        if !self.loss_in_round {
            self.loss_round_delivered = total_delivered;
            self.loss_in_round = true;
            self.before = [self.inflight_hi, self.bw_lo, self.inflight_lo];
        }
    }

    /// Takes in what was delivered; true if a round of loss accounting ends here.
    pub(super) fn on_sample(&mut self, sample: &RateSample, bw: f64, ack: &Ack) -> bool {
        self.bw_latest = self.bw_latest.max(bw);
        self.inflight_latest = self.inflight_latest.max(sample.delivered_segments as f64);
        let ends = sample.prior_delivered_segments >= self.loss_round_delivered;
        if ends {
            self.loss_round_delivered = ack.total_delivered_segments;
        }
        ends
    }

    /// Once per round without probing: follow what a lossy round delivered.
    pub(super) fn adapt(&mut self, max_bw: f64, cwnd: f64) {
        if !self.loss_in_round {
            return;
        }
        if self.bw_lo.is_infinite() {
            self.bw_lo = max_bw;
        }
        if self.inflight_lo.is_infinite() {
            self.inflight_lo = cwnd;
        }
        self.bw_lo = self.bw_latest.max(BETA * self.bw_lo);
        self.inflight_lo = self.inflight_latest.max(BETA * self.inflight_lo);
    }

    /// A new round: what is the latest begins with this sample.
    pub(super) fn advance(&mut self, sample: &RateSample, bw: f64) {
        self.bw_latest = bw;
        self.inflight_latest = sample.delivered_segments as f64;
    }

    /// A new cycle begins: what was seen in the last one no longer counts as the latest.
    pub(super) fn reset_signals(&mut self) {
        self.loss_in_round = false;
        self.bw_latest = 0.0;
        self.inflight_latest = 0.0;
    }

    pub(super) fn forget_short_term(&mut self) {
        self.bw_lo = f64::INFINITY;
        self.inflight_lo = f64::INFINITY;
    }

    pub(super) fn undo(&mut self) {
        let [hi, bw, inflight] = self.before;
        self.inflight_hi = self.inflight_hi.max(hi);
        self.bw_lo = self.bw_lo.max(bw);
        self.inflight_lo = self.inflight_lo.max(inflight);
    }

    /// `inflight_hi` less what is left to others.
    pub(super) fn inflight_with_headroom(&self) -> f64 {
        if self.inflight_hi.is_infinite() {
            return f64::INFINITY;
        }
        let headroom = (HEADROOM * self.inflight_hi).max(1.0);
        (self.inflight_hi - headroom).max(MIN_PIPE_CWND)
    }
}
