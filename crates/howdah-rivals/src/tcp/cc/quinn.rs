//! The CUBIC of the QUIC library quinn (quinn-proto 0.11, `congestion/cubic.rs`).
//!
//! Source: that file, which follows RFC 8312. In segments and seconds, with C = 0.4 and beta = 0.7:
//!
//! ```text
//! K          = cbrt(W_max (1 - beta)/C)
//! W_cubic(t) = C (t - K)^3 + W_max
//! W_est(t)   = beta W_max + 3 (1 - beta)/(1 + beta) t/RTT
//! ```
//!
//! t counts from the start of the last recovery. Below `W_est` the window asks for `W_est`; else an
//! acknowledgement asks for (`W_cubic(t + RTT)` - cwnd)/cwnd more, if that is more. What is asked for adds up,
//! and as soon as it is a segment the window grows by one and the sum is forgotten: an acknowledgement is
//! never worth more than a segment, and what is asked for beyond one is lost. A loss leaves beta of `W_max`,
//! which is the window, or (1 + beta)/2 of it if `W_max` had been larger (fast convergence): then less than
//! beta of the window stays. Slow start counts segments and ends with a loss; there is no `HyStart`.

use super::cubic::{C, k_seconds};
use super::window::Window;
use super::{Ack, CcSettings, Congestion, CongestionControl, Entry};
use howdah_core::Time;

/// Registration. It is no TCP of any kernel, so it is not in [`ALL`](super::ALL).
pub const ENTRY: Entry = Entry {
    name: "quic",
    about: "QUIC as the library quinn does it: its CUBIC, paced",
    make: |settings| Box::new(QuinnCubic::new(settings)),
};

const BETA: f64 = 0.7;

/// The state of quinn's CUBIC.
#[derive(Clone, Debug)]
pub struct QuinnCubic {
    window: Window,
    w_max: f64,
    k: f64,
    recovery_start: Option<Time>,
    /// What was asked for and is no segment yet.
    asked: f64,
}

impl QuinnCubic {
    /// At the initial window.
    pub fn new(settings: &CcSettings) -> Self {
        Self {
            window: Window::new(settings),
            w_max: 0.0,
            k: 0.0,
            recovery_start: None,
            asked: 0.0,
        }
    }

    fn avoid_congestion(&mut self, ack: &Ack) {
        let start = *self.recovery_start.get_or_insert(ack.now);
        let t = ack.now.since(start).as_secs_f64();
        let rtt = ack.srtt.as_secs_f64();
        if rtt <= 0.0 {
            return;
        }
        let from_flat = t + rtt - self.k;
        let w_cubic = C * from_flat * from_flat * from_flat + self.w_max;
        let w_est = BETA * self.w_max + 3.0 * (1.0 - BETA) / (1.0 + BETA) * t / rtt;
        let cwnd = self.window.cwnd;
        self.asked += if w_cubic < w_est {
            (w_est - cwnd).max(0.0)
        } else {
            ((w_cubic - cwnd) / cwnd).max(0.0)
        };
        if self.asked >= 1.0 {
            self.window.cwnd += 1.0;
            self.asked = 0.0;
        }
    }

    /// The start of a reduction; returns the window that it leaves.
    fn reduce(&mut self, now: Time) -> f64 {
        let cwnd = self.window.cwnd;
        self.w_max = if cwnd < self.w_max {
            cwnd * f64::midpoint(1.0, BETA)
        } else {
            cwnd
        };
        self.k = k_seconds(self.w_max * (1.0 - BETA));
        self.recovery_start = Some(now);
        self.asked *= BETA;
        self.w_max * BETA
    }
}

impl CongestionControl for QuinnCubic {
    fn name(&self) -> &'static str {
        "quic (quinn's CUBIC)"
    }

    fn cwnd(&self) -> f64 {
        self.window.cwnd
    }

    fn ssthresh(&self) -> f64 {
        self.window.ssthresh
    }

    fn on_ack(&mut self, ack: &Ack) {
        if !self.window.may_grow(ack) {
            return;
        }
        if self.window.in_slow_start() {
            self.window.grow_slow_start(ack);
        } else {
            self.avoid_congestion(ack);
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        let target = self.reduce(event.now);
        self.window.reduce_to(target);
    }

    fn on_recovered(&mut self, _now: Time) {
        self.window.recovered();
    }

    fn on_timeout(&mut self, event: &Congestion) {
        let target = if self.window.timeout_is_news() {
            self.reduce(event.now)
        } else {
            self.window.ssthresh
        };
        self.window.collapse(target);
    }
}
