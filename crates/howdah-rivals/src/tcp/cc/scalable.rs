//! Scalable TCP: multiplicative increase, so that the time to recover does not depend on the rate.
//!
//! Source: T. Kelly, "Scalable TCP: improving performance in highspeed wide area networks", ACM
//! CCR 33(2), 2003. Above the legacy window `Lwnd` = 16 segments: per acknowledgement `w += 0.01`,
//! per loss event `w -= 0.125 w`; at and below it, Reno. Mean window 0.08/p with an
//! acknowledgement for every segment. From a loss back to the old window takes
//! ln(1/0.875)/ln(1.01) = 13.4 round trips, or 26.8 when every second segment is acknowledged,
//! at any rate. ("Per acknowledgement" is as the stack counts: Linux 2.4 counted them, later ones
//! count acknowledged segments.)
//!
//! Two entries of the list:
//!
//! * `scalable`: the paper, as above. Kelly's own patch was for the Linux 2.4 that JGN06 ran.
//! * `scalable-linux`: the port in Linux since 2.6.13 (`tcp_scalable.c`): one segment per
//!   min(w, 50) acknowledgements, that is 0.02 each above 50 segments, which the port chose so that
//!   delayed acknowledgements come out at 1 % a round trip, and which it always counts in
//!   acknowledgements; and 1/8 off at any window.

use super::window::Window;
use super::{Ack, CcSettings, Congestion, CongestionControl, Entry};
use howdah_core::{Span, Time};

/// Registration of the paper's algorithm.
pub const ENTRY: Entry = Entry {
    name: "scalable",
    about: "Scalable TCP (Kelly 2003, legacy window 16)",
    make: |settings| Box::new(Scalable::new(settings)),
};

/// Registration of the Linux port.
pub const LINUX: Entry = Entry {
    name: "scalable-linux",
    about: "Scalable TCP as in Linux (one segment per 50 acknowledgements, no legacy window)",
    make: |settings| Box::new(Scalable::linux(settings)),
};

/// Kelly 2003: segments added per acknowledgement.
const INCREASE: f64 = 0.01;
/// Kelly 2003: share of the window that a loss takes.
const DECREASE: f64 = 0.125;
/// Kelly 2003: windows up to this many segments follow Reno.
const LEGACY_WINDOW: f64 = 16.0;
/// Linux: acknowledgements per added segment, at most.
const LINUX_ACKS_PER_SEGMENT: f64 = 50.0;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Variant {
    Kelly,
    Linux,
}

/// Scalable TCP.
#[derive(Clone, Debug)]
pub struct Scalable {
    window: Window,
    variant: Variant,
}

impl Scalable {
    /// Kelly's, at the initial window.
    pub fn new(settings: &CcSettings) -> Self {
        Self {
            window: Window::new(settings),
            variant: Variant::Kelly,
        }
    }

    /// The Linux port, at the initial window.
    pub fn linux(settings: &CcSettings) -> Self {
        Self {
            variant: Variant::Linux,
            ..Self::new(settings)
        }
    }

    /// Segments to add for an acknowledgement outside slow start.
    fn increase(&self, ack: &Ack) -> f64 {
        let cwnd = self.window.cwnd;
        match self.variant {
            Variant::Kelly if cwnd > LEGACY_WINDOW => INCREASE * self.window.counted(ack),
            Variant::Kelly => self.window.counted(ack) / cwnd,
            Variant::Linux => 1.0 / cwnd.min(LINUX_ACKS_PER_SEGMENT),
        }
    }

    fn reduced(&self) -> f64 {
        let cwnd = self.window.cwnd;
        if self.variant == Variant::Kelly && cwnd <= LEGACY_WINDOW {
            cwnd / 2.0
        } else {
            cwnd * (1.0 - DECREASE)
        }
    }
}

impl CongestionControl for Scalable {
    fn name(&self) -> &'static str {
        match self.variant {
            Variant::Kelly => "scalable",
            Variant::Linux => "scalable-linux",
        }
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
            self.window.cwnd += self.increase(ack);
        }
    }

    fn on_congestion(&mut self, _event: &Congestion) {
        self.window.reduce_to(self.reduced());
    }

    fn on_recovered(&mut self, _now: Time) {
        self.window.recovered();
    }

    fn on_timeout(&mut self, _event: &Congestion) {
        self.window.collapse(self.reduced());
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

    /// Round trips from a loss at `window` back to it.
    fn recovery_rounds(mut scalable: Scalable, window: f64, segments_per_ack: u32) -> f64 {
        scalable.window.cwnd = window;
        scalable.on_congestion(&Congestion::default());
        scalable.on_recovered(Time::ZERO);
        let mut pipe = Pipe::new(scalable);
        pipe.segments_per_ack = segments_per_ack;
        pipe.rounds_until(|pipe| pipe.cc.cwnd() >= window)
    }

    #[test]
    fn recovery_takes_13_4_round_trips_at_any_rate() {
        // A window that grows within the round trip also sends more within it, so the exponent is
        // that of a continuous compounding: 100 ln(8/7) = 13.35 against ln(8/7)/ln(1.01) = 13.42.
        for window in [1_000.0, 20_000.0] {
            let rounds = recovery_rounds(Scalable::new(&testkit::settings()), window, 1);
            assert!((rounds - 13.4).abs() < 0.3, "{window}: {rounds:.2}");
            let rounds = recovery_rounds(Scalable::new(&testkit::settings()), window, 2);
            assert!((rounds - 26.8).abs() < 0.5, "{window}, 2:1: {rounds:.2}");
            let rounds = recovery_rounds(Scalable::linux(&testkit::settings()), window, 2);
            assert!((rounds - 13.4).abs() < 0.3, "{window}, Linux: {rounds:.2}");
        }
    }

    #[test]
    fn the_legacy_window_is_reno() {
        let mut scalable = Scalable::new(&testkit::settings());
        scalable.window.cwnd = 16.0;
        scalable.window.ssthresh = 8.0;
        scalable.on_ack(&testkit::ack());
        assert!((scalable.cwnd() - 16.0625).abs() < 1e-9);
        scalable.window.cwnd = 16.0;
        scalable.on_congestion(&Congestion::default());
        testkit::assert_near(scalable.cwnd(), 8.0);
    }

    #[test]
    fn the_linux_port_takes_an_eighth_from_any_window() {
        let mut scalable = Scalable::linux(&testkit::settings());
        scalable.window.cwnd = 16.0;
        scalable.window.ssthresh = 8.0;
        scalable.on_ack(&testkit::ack());
        assert!((scalable.cwnd() - 16.0625).abs() < 1e-9);
        scalable.window.cwnd = 16.0;
        scalable.on_congestion(&Congestion::default());
        testkit::assert_near(scalable.cwnd(), 14.0);
    }

    /// Kelly 2003: W = a/(b p) = 0.08/p, for a window that never stands still. Under a periodic
    /// loss it stands still for the round trip of each recovery, which makes the top of the saw
    /// tooth a/((a + b) p); and the mean of an exponential that climbs from 7/8 to 1 is 0.936.
    #[test]
    fn the_response_function_holds() {
        let shape = DECREASE / -(1.0 - DECREASE).ln();
        for p in [1e-3, 1e-4, 1e-5] {
            let stated = shape * INCREASE / ((INCREASE + DECREASE) * p);
            let mut scalable = Scalable::new(&testkit::settings());
            scalable.window.ssthresh = stated;
            let mut pipe = Pipe::new(scalable);
            pipe.lose_one_in = Some((1.0 / p) as u64);
            let measured = pipe.mean_window(60);
            let ratio = measured / stated;
            assert!(
                (0.96..1.04).contains(&ratio),
                "p {p}: {measured:.0} segments, expected {stated:.0}"
            );
        }
    }
}
