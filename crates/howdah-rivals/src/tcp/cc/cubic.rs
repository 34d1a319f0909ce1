//! CUBIC as of RFC 9438, with the slow start of RFC 9406.
//!
//! Source: RFC 9438 (L. Xu et al., 2023); section numbers below are its own. In segments and
//! seconds, with C = 0.4 and beta = 0.7, the share that a loss leaves:
//!
//! ```text
//! W_cubic(t) = C (t - K)^3 + W_max        K = cbrt((W_max - cwnd_epoch)/C)          4.2
//! W_est     += alpha segments_acked/cwnd  alpha = 3 (1-beta)/(1+beta), 1 from cwnd_prior on   4.3
//! target     = W_cubic(t + RTT), within cwnd and 1.5 cwnd                           4.2
//! ```
//!
//! If `W_cubic(t)` is below `W_est` the window is `W_est` (Reno-friendly region, 4.3); else each
//! acknowledged segment adds (target - cwnd)/cwnd (4.4, 4.5). A loss sets `W_max` to the window, or
//! to (1 + beta)/2 of it if that had been larger before (fast convergence, 4.7), and leaves beta
//! (4.6). After a timeout (4.8), and when slow start ends without a loss (4.10), the next epoch
//! starts with K = 0 and `W_max` = cwnd. Time during which the application and not the window limits
//! the sender does not count (5.8).
//!
//! What this implementation decides where the RFC leaves a choice: it reduces cwnd and not the
//! flight size (4.6 allows both; Linux does so too); it counts acknowledged segments in 4.4, where
//! the RFC says "for each ACK", so that delayed acknowledgements do not halve the growth, as Linux
//! has since 2013; HyStart++ works in the initial slow start only (RFC 9406 section 4.3).

use super::hystart_plus::{CSS_GROWTH_DIVISOR, HyStartPlus, SEGMENTS_PER_ACK, Verdict};
use super::window::Window;
use super::{Ack, CcSettings, Congestion, CongestionControl, Entry, Phase};
use howdah_core::{Span, Time};

/// Registration.
pub const ENTRY: Entry = Entry {
    name: "cubic",
    about: "CUBIC (RFC 9438) with HyStart++ (RFC 9406)",
    make: |settings| Box::new(Cubic::new(settings)),
};

/// C in segments per second cubed (5).
pub(super) const C: f64 = 0.4;
/// `beta_cubic`: the share that a loss leaves (4.6).
const BETA: f64 = 0.7;
/// The target is at most so many windows (4.2).
const MOST_PER_ROUND: f64 = 1.5;

/// K in seconds: the time to grow by `below` segments up to where the curve is flat (equation 2).
pub(super) fn k_seconds(below_segments: f64) -> f64 {
    (below_segments.max(0.0) / C).cbrt()
}

/// What a spurious reduction gives back (4.9).
#[derive(Clone, Copy, Debug)]
struct Saved {
    curve: Curve,
    epoch: Option<Epoch>,
}

/// What outlives an epoch.
#[derive(Clone, Copy, Debug)]
struct Curve {
    /// Zero: the next epoch starts at its own maximum.
    w_max: f64,
    /// Window before the last reduction.
    cwnd_prior: f64,
}

/// One stretch of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    k: f64,
    w_max: f64,
    w_est: f64,
}

impl Epoch {
    fn w_cubic(&self, t: f64) -> f64 {
        let from_flat = t - self.k;
        C * from_flat * from_flat * from_flat + self.w_max
    }
}

/// CUBIC (RFC 9438).
#[derive(Clone, Debug)]
pub struct Cubic {
    window: Window,
    hystart: Option<HyStartPlus>,
    curve: Curve,
    epoch: Option<Epoch>,
    last_ack: Time,
    saved: Option<Saved>,
}

impl Cubic {
    /// At the initial window.
    pub fn new(settings: &CcSettings) -> Self {
        Self {
            window: Window::new(settings),
            hystart: Some(HyStartPlus::new()),
            curve: Curve {
                w_max: 0.0,
                cwnd_prior: 0.0,
            },
            epoch: None,
            last_ack: Time::ZERO,
            saved: None,
        }
    }

    fn slow_start(&mut self, ack: &Ack) {
        let Some(hystart) = &mut self.hystart else {
            self.window.grow_slow_start(ack);
            return;
        };
        let verdict = hystart.on_ack(ack);
        let cwnd = self.window.cwnd;
        if verdict == Verdict::End {
            self.window.ssthresh = cwnd;
            self.curve.cwnd_prior = cwnd;
            self.hystart = None;
            return;
        }
        self.window.grow_slow_start(&Ack {
            acked_segments: ack.acked_segments.min(SEGMENTS_PER_ACK),
            ..*ack
        });
        if verdict == Verdict::GrowSlowly {
            self.window.cwnd = cwnd + (self.window.cwnd - cwnd) / CSS_GROWTH_DIVISOR;
        }
    }

    fn start_epoch(&self, now: Time) -> Epoch {
        let cwnd = self.window.cwnd;
        let w_max = self.curve.w_max.max(cwnd);
        Epoch {
            start: now,
            k: k_seconds(w_max - cwnd),
            w_max,
            w_est: cwnd,
        }
    }

    fn avoid_congestion(&mut self, ack: &Ack) {
        let mut epoch = self.epoch.unwrap_or_else(|| self.start_epoch(ack.now));
        let acked = f64::from(ack.acked_segments);
        let cwnd = self.window.cwnd;

        let alpha = if epoch.w_est >= self.curve.cwnd_prior {
            1.0
        } else {
            3.0 * (1.0 - BETA) / (1.0 + BETA)
        };
        epoch.w_est += alpha * acked / cwnd;

        let t = ack.now.since(epoch.start).as_secs_f64();
        if epoch.w_cubic(t) < epoch.w_est {
            // The estimate may be below the window where the curve is flat and has been passed.
            self.window.cwnd = cwnd.max(epoch.w_est);
        } else {
            let target = epoch
                .w_cubic(t + ack.srtt.as_secs_f64())
                .clamp(cwnd, MOST_PER_ROUND * cwnd);
            // An acknowledgement of a whole window and more goes to the target, not beyond.
            self.window.cwnd += (target - cwnd) * (acked / cwnd).min(1.0);
        }
        self.epoch = Some(epoch);
    }

    /// The start of a reduction; returns the window that it leaves.
    fn reduce(&mut self) -> f64 {
        self.saved = Some(Saved {
            curve: self.curve,
            epoch: self.epoch,
        });
        let cwnd = self.window.cwnd;
        self.curve.w_max = if cwnd < self.curve.w_max {
            cwnd * f64::midpoint(1.0, BETA)
        } else {
            cwnd
        };
        self.curve.cwnd_prior = cwnd;
        self.epoch = None;
        self.hystart = None;
        cwnd * BETA
    }

    fn shift_epoch(&mut self, pause: Span) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start += pause;
        }
    }
}

impl CongestionControl for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    fn cwnd(&self) -> f64 {
        self.window.cwnd
    }

    fn ssthresh(&self) -> f64 {
        self.window.ssthresh
    }

    fn on_ack(&mut self, ack: &Ack) {
        let since_last = ack.now.since(self.last_ack);
        self.last_ack = ack.now;
        if !self.window.may_grow(ack) {
            if !ack.cwnd_limited && ack.phase == Phase::Open {
                self.shift_epoch(since_last);
            }
        } else if self.window.in_slow_start() {
            self.slow_start(ack);
        } else {
            self.avoid_congestion(ack);
        }
    }

    fn on_congestion(&mut self, _event: &Congestion) {
        let target = self.reduce();
        self.window.reduce_to(target);
    }

    fn on_recovered(&mut self, _now: Time) {
        self.window.recovered();
    }

    fn on_timeout(&mut self, _event: &Congestion) {
        let target = if self.window.timeout_is_news() {
            self.reduce()
        } else {
            self.window.ssthresh
        };
        self.window.collapse(target);
        self.curve.w_max = 0.0;
        self.epoch = None;
    }

    fn on_undo(&mut self, _now: Time) {
        self.window.undo();
        if let Some(saved) = self.saved.take() {
            self.curve = saved.curve;
            self.epoch = saved.epoch;
        }
    }

    fn on_restart(&mut self, _now: Time, _idle: Span) {
        // The curve and Reno's estimate were about the window that is given up here.
        self.epoch = None;
        self.window.restart();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::testkit::{self, Pipe};

    fn after_a_loss_at(cwnd: f64) -> Cubic {
        let mut cubic = Cubic::new(&CcSettings::default());
        cubic.window.cwnd = cwnd;
        cubic.on_congestion(&Congestion::default());
        cubic.on_recovered(Time::ZERO);
        cubic
    }

    #[test]
    fn k_is_the_time_back_to_the_window() {
        for (w_max, seconds) in [(7060.0, 17.4), (28_000.0, 27.6)] {
            let k = k_seconds(w_max * (1.0 - BETA));
            assert!((k - seconds).abs() < 0.05, "{w_max}: {k}");
        }
    }

    #[test]
    fn the_window_follows_the_curve() {
        for (rtt_ms, w_max) in [(50, 7060.0), (200, 28_000.0)] {
            let mut pipe = Pipe::new(after_a_loss_at(w_max));
            pipe.base_rtt = Span::from_millis(rtt_ms);
            assert!((pipe.cc.cwnd() - 0.7 * w_max).abs() < 1e-9);
            let seconds = pipe
                .run_until(|pipe| pipe.cc.cwnd() >= w_max - 1.0)
                .as_secs_f64();
            // A segment below the flat part is cbrt(1/C) = 1.36 s before K; the first
            // acknowledgement comes a round trip after the start.
            let expected = k_seconds(0.3 * w_max) - k_seconds(1.0);
            assert!(
                (seconds - expected).abs() < 3.0 * pipe.base_rtt.as_secs_f64(),
                "{rtt_ms} ms: {seconds:.2} s, expected {expected:.2} s"
            );
        }
    }

    #[test]
    fn delayed_acknowledgements_change_nothing() {
        let seconds = [1, 2].map(|segments_per_ack| {
            let mut pipe = Pipe::new(after_a_loss_at(7060.0));
            pipe.segments_per_ack = segments_per_ack;
            pipe.run_until(|pipe| pipe.cc.cwnd() >= 7059.0)
                .as_secs_f64()
        });
        assert!((seconds[0] - seconds[1]).abs() < 0.2, "{seconds:?}");
    }

    #[test]
    fn at_a_small_window_it_is_reno() {
        // W_est grows by 3 * 0.3/1.7 = 0.53 per round trip from 14 on, up to 20; the curve needs
        // K = 2.5 s for the same six segments, which at 10 ms are 250 round trips.
        let mut pipe = Pipe::new(after_a_loss_at(20.0));
        pipe.base_rtt = Span::from_millis(10);
        let rounds = pipe.rounds_until(|pipe| pipe.cc.cwnd() >= 20.0);
        assert!((rounds - 6.0 / 0.5294).abs() < 1.5, "{rounds}");
        let rounds = pipe.rounds_until(|pipe| pipe.cc.cwnd() >= 30.0);
        assert!((rounds - 10.0).abs() < 1.5, "one a round trip: {rounds}");
    }

    #[test]
    fn a_lower_maximum_gives_way() {
        let mut cubic = after_a_loss_at(1000.0);
        cubic.window.cwnd = 900.0;
        cubic.on_congestion(&Congestion::default());
        assert!((cubic.curve.w_max - 765.0).abs() < 1e-9, "900 * 1.7/2");
        assert!((cubic.cwnd() - 630.0).abs() < 1e-9);
    }

    #[test]
    fn after_a_timeout_the_curve_starts_flat() {
        let mut cubic = after_a_loss_at(1000.0);
        cubic.on_timeout(&Congestion::default());
        testkit::assert_near(cubic.cwnd(), 1.0);
        assert!((cubic.ssthresh() - 490.0).abs() < 1e-9);
        cubic.window.cwnd = 490.0;
        let epoch = cubic.start_epoch(Time::ZERO);
        assert_eq!((epoch.k, epoch.w_max), (0.0, 490.0));
    }

    #[test]
    fn undo_restores_the_curve() {
        let mut cubic = after_a_loss_at(1000.0);
        cubic.on_ack(&testkit::ack());
        let before = (cubic.cwnd(), cubic.curve.w_max);
        cubic.on_congestion(&Congestion::default());
        cubic.on_undo(Time::ZERO);
        assert_eq!((cubic.cwnd(), cubic.curve.w_max), before);
        assert!(cubic.epoch.is_some());
    }

    #[test]
    fn slow_start_counts_eight_segments_an_acknowledgement_at_most() {
        let mut cubic = Cubic::new(&CcSettings::default());
        cubic.on_ack(&Ack {
            acked_segments: 20,
            ..testkit::ack()
        });
        testkit::assert_near(cubic.cwnd(), 18.0);
    }

    #[test]
    fn time_without_a_full_window_does_not_count() {
        let mut cubic = after_a_loss_at(1000.0);
        let mut ack = testkit::ack();
        cubic.on_ack(&ack);
        let start = cubic.epoch.map(|epoch| epoch.start);
        ack.now += Span::from_secs(5);
        ack.cwnd_limited = false;
        cubic.on_ack(&ack);
        assert_eq!(
            cubic.epoch.map(|epoch| epoch.start),
            start.map(|start| start + Span::from_secs(5))
        );
    }

    /// RFC 9438 equation 5 (section 5.1) at 100 ms: (C (3+beta)/(4 (1-beta)))^(1/4) (RTT/p)^(3/4).
    ///
    /// The formula knows no fast convergence. Where the curve is flat hardly anything decides
    /// whether a loss comes just below or just above the last maximum, so periodic losses set it
    /// off every now and then, which costs some of the window.
    #[test]
    fn the_response_function_holds() {
        for p in [1e-4, 1e-5] {
            let stated =
                (C * (3.0 + BETA) / (4.0 * (1.0 - BETA))).powf(0.25) * f64::powf(0.1 / p, 0.75);
            let mut cubic = Cubic::new(&CcSettings::default());
            cubic.window.ssthresh = stated;
            cubic.hystart = None;
            let mut pipe = Pipe::new(cubic);
            pipe.lose_one_in = Some((1.0 / p) as u64);
            let ratio = pipe.mean_window(60) / stated;
            assert!(
                (0.85..1.0).contains(&ratio),
                "p {p}: {ratio:.3} of {stated:.0}"
            );
        }
    }
}
