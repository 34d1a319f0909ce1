//! BIC: binary search for the window at which the last loss happened.
//!
//! Source: L. Xu, K. Harfoush, I. Rhee, "Binary increase congestion control for fast long-distance
//! networks", INFOCOM 2004, in the form of the Linux port of 2004-05 (`tcp_bic.c`), whose
//! constants differ from the paper's (paper: `S_max` 32, `S_min` 0.01, 0.125 taken off per loss):
//!
//! * on a loss: 205/1024 off; above it the window remembers where it was (`last_max`), and if that
//!   is lower than the time before it remembers (1 + 819/1024)/2 of it, to give way to newcomers
//!   (fast convergence). At 14 segments and below: Reno.
//! * growth per round trip, with d = (`last_max` - cwnd)/4: 16 if d > 16; 1/5 if d <= 1; else d.
//! * above `last_max`, max probing: 1/5 within 4 segments of it; a third of the distance up to
//!   48 segments from it; 16 beyond.
//! * before the first loss, and after a timeout (which makes it forget everything): at least 5 %.
//! * initial threshold of slow start 100 segments.
//!
//! "Per round trip" holds for any policy of acknowledging, because the port multiplies by the
//! measured number of segments per acknowledgement. A segment is added for one acknowledgement at
//! most. JGN06 has CUBIC in its place; BIC is here for the campaign of PFLDnet 2005 before it.

use super::window::{AckRatio, Window};
use super::{Ack, CcSettings, Congestion, CongestionControl, Entry};
use howdah_core::{Span, Time};

/// Registration.
pub const ENTRY: Entry = Entry {
    name: "bic",
    about: "BIC (Xu, Harfoush, Rhee 2004; Linux 2.6)",
    make: |settings| Box::new(Bic::new(settings)),
};

/// Kept by a loss: 819/1024.
const BETA: f64 = 819.0 / 1024.0;
/// B of the paper: the search goes to a B-th of the distance.
const B: f64 = 4.0;
/// Segments per round trip at most.
const MAX_INCREMENT: f64 = 16.0;
/// Windows up to this many segments follow Reno.
const LOW_WINDOW: f64 = 14.0;
/// Round trips from `last_max - B` to `last_max`: the smooth part.
const SMOOTH_PART: f64 = 20.0;
/// Before the first loss: acknowledgements per added segment at most.
const ACKS_PER_SEGMENT_UNTIL_LOSS: f64 = 20.0;
/// Initial slow-start threshold in segments.
const INITIAL_SSTHRESH: f64 = 100.0;

/// BIC.
#[derive(Clone, Debug)]
pub struct Bic {
    window: Window,
    /// Window at the last loss; zero if there was none.
    last_max: f64,
    lost_before: bool,
    ack_ratio: AckRatio,
}

impl Bic {
    /// At the initial window.
    pub fn new(settings: &CcSettings) -> Self {
        Self {
            window: Window::with_ssthresh(settings, INITIAL_SSTHRESH),
            last_max: 0.0,
            lost_before: false,
            ack_ratio: AckRatio::new(),
        }
    }

    /// Segments to add per round trip at this window.
    fn increment_per_round(&self) -> f64 {
        let cwnd = self.window.cwnd;
        if cwnd <= LOW_WINDOW {
            return 1.0;
        }
        let searched = if cwnd < self.last_max {
            let distance = (self.last_max - cwnd) / B;
            if distance > MAX_INCREMENT {
                MAX_INCREMENT
            } else if distance <= 1.0 {
                B / SMOOTH_PART
            } else {
                distance
            }
        } else {
            let beyond = cwnd - self.last_max;
            if beyond < B {
                B / SMOOTH_PART
            } else if beyond < MAX_INCREMENT * (B - 1.0) {
                beyond / (B - 1.0)
            } else {
                MAX_INCREMENT
            }
        };
        if self.lost_before {
            searched
        } else {
            searched.max(cwnd / ACKS_PER_SEGMENT_UNTIL_LOSS)
        }
    }

    fn reduced(&self) -> f64 {
        let cwnd = self.window.cwnd;
        if cwnd <= LOW_WINDOW {
            cwnd / 2.0
        } else {
            cwnd * BETA
        }
    }
}

impl CongestionControl for Bic {
    fn name(&self) -> &'static str {
        "bic"
    }

    fn cwnd(&self) -> f64 {
        self.window.cwnd
    }

    fn ssthresh(&self) -> f64 {
        self.window.ssthresh
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.ack_ratio.on_ack(ack);
        if !self.window.may_grow(ack) {
            return;
        }
        if self.window.in_slow_start() {
            self.window.grow_slow_start(ack);
        } else {
            let per_ack = self.increment_per_round() / self.window.cwnd * self.ack_ratio.segments();
            self.window.cwnd += per_ack.min(1.0);
        }
    }

    fn on_congestion(&mut self, _event: &Congestion) {
        let cwnd = self.window.cwnd;
        self.last_max = if cwnd < self.last_max {
            cwnd * f64::midpoint(1.0, BETA)
        } else {
            cwnd
        };
        self.lost_before = true;
        self.window.reduce_to(self.reduced());
    }

    fn on_recovered(&mut self, _now: Time) {
        self.window.recovered();
    }

    fn on_timeout(&mut self, _event: &Congestion) {
        self.window.collapse(self.reduced());
        self.last_max = 0.0;
        self.lost_before = false;
        self.ack_ratio = AckRatio::new();
    }

    fn on_undo(&mut self, _now: Time) {
        self.window.undo();
    }

    fn on_restart(&mut self, _now: Time, _idle: Span) {
        self.window.restart();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::testkit::{self, Pipe};

    fn bic(cwnd: f64, last_max: f64) -> Bic {
        let mut bic = Bic::new(&testkit::settings());
        bic.window.cwnd = cwnd;
        bic.window.ssthresh = cwnd;
        bic.last_max = last_max;
        bic.lost_before = last_max > 0.0;
        bic
    }

    #[test]
    fn growth_per_round_trip_follows_the_distance() {
        for (cwnd, last_max, expected) in [
            (10.0, 100.0, 1.0),
            (800.0, 1000.0, 16.0),
            (960.0, 1000.0, 10.0),
            (998.0, 1000.0, 0.2),
            (1002.0, 1000.0, 0.2),
            (1030.0, 1000.0, 10.0),
            (1100.0, 1000.0, 16.0),
            (1000.0, 0.0, 50.0),
        ] {
            let growth = bic(cwnd, last_max).increment_per_round();
            assert!(
                (growth - expected).abs() < 1e-9,
                "{cwnd} of {last_max}: {growth}, not {expected}"
            );
        }
    }

    #[test]
    fn growth_does_not_depend_on_how_the_receiver_acknowledges() {
        let rounds = [1, 2].map(|segments_per_ack| {
            let mut pipe = Pipe::new(bic(800.0, 1000.0));
            pipe.segments_per_ack = segments_per_ack;
            pipe.rounds_until(|pipe| pipe.cc.cwnd() >= 900.0)
        });
        // 100 segments at 16 a round trip.
        for rounds in rounds {
            assert!((rounds - 6.25).abs() < 0.6, "{rounds}");
        }
    }

    #[test]
    fn a_lower_maximum_gives_way() {
        let mut bic = bic(900.0, 1000.0);
        bic.on_congestion(&Congestion::default());
        assert!((bic.cwnd() - 900.0 * BETA).abs() < 1e-9);
        assert!((bic.last_max - 900.0 * f64::midpoint(1.0, BETA)).abs() < 1e-9);
    }

    #[test]
    fn from_a_loss_back_to_the_maximum() {
        // From 0.8 of 1000: (200 - 64)/16 = 8.5 round trips of 16; then d = distance/4 shrinks by
        // 3/4 a round until it is 1: ln(16)/ln(4/3) = 9.6; then 4 segments at 1/5: 20.
        let mut bic = bic(1000.0, 0.0);
        bic.on_congestion(&Congestion::default());
        bic.on_recovered(Time::ZERO);
        let mut pipe = Pipe::new(bic);
        let rounds = pipe.rounds_until(|pipe| pipe.cc.cwnd() >= 1000.0);
        assert!((35.0..42.0).contains(&rounds), "{rounds}");
    }

    #[test]
    fn a_timeout_makes_it_forget() {
        let mut bic = bic(900.0, 1000.0);
        bic.on_timeout(&Congestion::default());
        testkit::assert_near(bic.cwnd(), 1.0);
        assert!((bic.ssthresh() - 900.0 * BETA).abs() < 1e-9);
        assert!(!bic.lost_before);
    }
}
