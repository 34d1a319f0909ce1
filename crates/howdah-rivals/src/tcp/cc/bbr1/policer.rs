//! The long-term model of BBR v1: is there a policer that lets a fixed rate pass and drops the
//! rest?
//!
//! A policer with a bucket lets a burst pass, so the largest delivery rate lies far above what it
//! sustains and a sender that trusts it loses most of what it sends. Two neighbouring intervals
//! of at least four rounds, each of which begins and ends with a loss, lost a fifth, and had the
//! same rate, are taken as proof; the rate is then used for 48 rounds (Linux `tcp_bbr.c`,
//! constants `bbr_lt_*`).

use super::super::Ack;
use howdah_core::{Span, Time};

/// Least length of an interval (`bbr_lt_intvl_min_rtts`).
const MIN_ROUNDS: u32 = 4;
/// An interval that has not ended by then proves nothing.
const MAX_ROUNDS: u32 = 4 * MIN_ROUNDS;
/// Lost share of what was delivered that makes an interval lossy (`bbr_lt_loss_thresh`).
const LOSS_SHARE: f64 = 50.0 / 256.0;
/// Relative difference of two rates that count as the same (`bbr_lt_bw_ratio`).
const SAME_RATE: f64 = 1.0 / 8.0;
/// Absolute difference that counts as the same, in bit/s (`bbr_lt_bw_diff`, 4000/8 bytes).
const SAME_RATE_BITS: f64 = 4000.0;
/// Rounds for which the rate found is used (`bbr_lt_bw_max_rtts`).
const USE_ROUNDS: u32 = 48;

/// The search for a policer.
#[derive(Clone, Debug, Default)]
pub(super) struct Policer {
    lost: u64,
    sampling: bool,
    in_use: bool,
    rounds: u32,
    started_at: Time,
    delivered_at_start: u64,
    lost_at_start: u64,
    /// Segments per second of the last lossy interval; zero if there is none.
    bw: f64,
    /// [`SAME_RATE_BITS`] in segments per second.
    tolerance: f64,
}

impl Policer {
    pub(super) fn new(packet_bytes: u32) -> Self {
        Self {
            tolerance: SAME_RATE_BITS / (f64::from(packet_bytes.max(1)) * 8.0),
            ..Self::default()
        }
    }

    /// The policer's rate in segments per second, while it is trusted.
    pub(super) fn rate(&self) -> Option<f64> {
        self.in_use.then_some(self.bw)
    }

    pub(super) fn on_losses(&mut self, segments: u32) {
        self.lost += u64::from(segments);
    }

    pub(super) fn on_sample(
        &mut self,
        ack: &Ack,
        round_started: bool,
        in_probe_bw: bool,
        app_limited: bool,
    ) {
        if self.in_use {
            if in_probe_bw && round_started {
                self.rounds += 1;
                if self.rounds >= USE_ROUNDS {
                    self.forget();
                }
            }
            return;
        }
        if !self.sampling {
            // The first loss tells that the bucket is empty: what follows is the steady rate.
            if ack.lost_segments > 0 {
                self.begin(ack);
                self.sampling = true;
            }
            return;
        }
        if app_limited {
            self.forget();
            return;
        }
        self.rounds += u32::from(round_started);
        if self.rounds < MIN_ROUNDS {
            return;
        }
        if self.rounds > MAX_ROUNDS {
            self.forget();
            return;
        }
        if ack.lost_segments > 0 {
            self.end(ack);
        }
    }

    /// Begins the search anew.
    pub(super) fn forget(&mut self) {
        *self = Self {
            lost: self.lost,
            tolerance: self.tolerance,
            ..Self::default()
        };
    }

    fn begin(&mut self, ack: &Ack) {
        self.started_at = ack.now;
        self.delivered_at_start = ack.total_delivered_segments;
        self.lost_at_start = self.lost;
        self.rounds = 0;
    }

    fn end(&mut self, ack: &Ack) {
        let delivered = (ack.total_delivered_segments - self.delivered_at_start) as f64;
        let lost = (self.lost - self.lost_at_start) as f64;
        let time = ack.now.since(self.started_at);
        if delivered == 0.0 || lost < LOSS_SHARE * delivered || time < Span::from_millis(1) {
            return;
        }
        let bw = delivered / time.as_secs_f64();
        let same = (SAME_RATE * self.bw).max(self.tolerance);
        if self.bw > 0.0 && (bw - self.bw).abs() <= same {
            self.bw = f64::midpoint(self.bw, bw);
            self.in_use = true;
            self.rounds = 0;
            return;
        }
        self.bw = bw;
        self.begin(ack);
    }
}
