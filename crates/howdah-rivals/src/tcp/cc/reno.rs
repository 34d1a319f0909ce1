//! Reno: additive increase, multiplicative decrease (RFC 5681).

use super::{Ack, CcSettings, Congestion, CongestionControl, Entry, Phase, SlowStartCounting};
use howdah_core::Time;

/// Registration.
pub const ENTRY: Entry = Entry {
    name: "reno",
    about: "standard TCP (RFC 5681): +1 segment a round trip, half at a loss",
    make: |settings| Box::new(Reno::new(settings)),
};

/// RFC 5681 section 3.1, equation 4: the threshold is never less than two segments.
const LEAST_SSTHRESH_SEGMENTS: f64 = 2.0;

/// The state of Reno.
#[derive(Clone, Debug)]
pub struct Reno {
    settings: CcSettings,
    cwnd: f64,
    ssthresh: f64,
    /// Window and threshold before the last reduction.
    before: Option<(f64, f64)>,
}

impl Reno {
    /// Reno at the initial window.
    pub fn new(settings: &CcSettings) -> Self {
        Self {
            settings: *settings,
            cwnd: f64::from(settings.initial_window_segments.max(1)),
            ssthresh: settings.slow_start.initial_ssthresh(),
            before: None,
        }
    }

    /// RFC 5681 equation 4: half of what is in flight. A window that the application or the
    /// receiver never filled is not what was lost from.
    fn halve(&mut self, event: &Congestion) {
        self.before = Some((self.cwnd, self.ssthresh));
        let flight = f64::from(event.in_flight_segments).min(self.cwnd);
        self.ssthresh = (flight / 2.0).max(LEAST_SSTHRESH_SEGMENTS);
    }
}

impl CongestionControl for Reno {
    fn name(&self) -> &'static str {
        "reno"
    }

    fn cwnd(&self) -> f64 {
        self.cwnd
    }

    fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    fn on_ack(&mut self, ack: &Ack) {
        if ack.phase == Phase::Recovery || !ack.cwnd_limited || ack.acked_segments == 0 {
            return;
        }
        if self.cwnd < self.ssthresh {
            self.cwnd = self.settings.slow_start.grow(self.cwnd, self.ssthresh, ack);
        } else {
            // RFC 5681 equation 3 for each acknowledgement, or RFC 3465 for what it acknowledges:
            // a stack counts in congestion avoidance as it does in slow start.
            let counted = match self.settings.slow_start.counting {
                SlowStartCounting::Acks => 1,
                SlowStartCounting::Segments { .. } => ack.acked_segments,
            };
            self.cwnd += f64::from(counted) / self.cwnd;
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.halve(event);
        self.cwnd = self.ssthresh;
    }

    fn on_timeout(&mut self, event: &Congestion) {
        self.halve(event);
        self.cwnd = 1.0;
    }

    fn on_undo(&mut self, _now: Time) {
        if let Some((cwnd, ssthresh)) = self.before.take() {
            self.cwnd = self.cwnd.max(cwnd);
            self.ssthresh = self.ssthresh.max(ssthresh);
        }
    }

    fn on_restart(&mut self, _now: Time, _idle: howdah_core::Span) {
        // RFC 5681 section 4.1: after a timeout's worth of silence the acknowledgement clock is
        // gone, so the window starts again from the initial one.
        let restart = f64::from(self.settings.initial_window_segments.max(1));
        self.cwnd = self.cwnd.min(restart);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::SlowStart;

    fn ack(acked_segments: u32) -> Ack {
        Ack {
            acked_segments,
            delivered_segments: acked_segments,
            cwnd_limited: true,
            ..Ack::default()
        }
    }

    fn loss(in_flight_segments: u32) -> Congestion {
        Congestion {
            in_flight_segments,
            ..Congestion::default()
        }
    }

    #[test]
    fn slow_start_doubles_or_grows_by_half() {
        for (counting, expected) in [
            (SlowStartCounting::Segments { limit: u32::MAX }, 20.0),
            (SlowStartCounting::Segments { limit: 1 }, 15.0),
            (SlowStartCounting::Acks, 15.0),
        ] {
            let mut reno = Reno::new(&CcSettings {
                slow_start: SlowStart {
                    counting,
                    ..SlowStart::default()
                },
                ..CcSettings::default()
            });
            for _ in 0..5 {
                reno.on_ack(&ack(2));
            }
            assert!((reno.cwnd() - expected).abs() < 1e-9, "{counting:?}");
        }
    }

    #[test]
    fn limited_slow_start_adds_half_of_the_limit_in_a_round_trip() {
        let mut reno = Reno::new(&CcSettings {
            initial_window_segments: 1000,
            slow_start: SlowStart {
                max_ssthresh_segments: Some(100),
                ..SlowStart::default()
            },
            ..CcSettings::default()
        });
        for _ in 0..1000 {
            reno.on_ack(&ack(1));
        }
        assert!((reno.cwnd() - 1050.0).abs() < 3.0, "{}", reno.cwnd());
    }

    #[test]
    fn a_loss_halves_and_a_round_trip_adds_one() {
        let mut reno = Reno::new(&CcSettings {
            initial_window_segments: 100,
            ..CcSettings::default()
        });
        reno.on_congestion(&loss(100));
        assert!((reno.cwnd() - 50.0).abs() < 1e-9);
        for _ in 0..50 {
            reno.on_ack(&ack(1));
        }
        assert!((reno.cwnd() - 51.0).abs() < 0.02, "{}", reno.cwnd());
        let held = reno.cwnd();
        reno.on_ack(&Ack {
            cwnd_limited: false,
            ..ack(1)
        });
        reno.on_ack(&Ack {
            phase: Phase::Recovery,
            ..ack(1)
        });
        assert!((reno.cwnd() - held).abs() < 1e-12);
    }

    #[test]
    fn a_timeout_leaves_one_segment_and_an_undo_takes_it_back() {
        let mut reno = Reno::new(&CcSettings {
            initial_window_segments: 64,
            ..CcSettings::default()
        });
        reno.on_timeout(&loss(64));
        assert!((reno.cwnd() - 1.0).abs() < 1e-9);
        assert!((reno.ssthresh() - 32.0).abs() < 1e-9);
        reno.on_undo(Time::ZERO);
        assert!((reno.cwnd() - 64.0).abs() < 1e-9);
        assert!(reno.ssthresh().is_infinite());
    }
}
