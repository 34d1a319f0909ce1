//! HyStart, as in the CUBIC of Linux 2.6.29 to 2.6.37: leave slow start before it overflows.
//!
//! Source: S. Ha, I. Rhee, "Taming the elephants: new TCP slow start", NCSU 2008, and the kernel's
//! `tcp_cubic.c` v2.3 (constants `HYSTART_*`). From 16 segments on, slow start ends when in one
//! round trip
//!
//! * **train**: acknowledgements that follow one another within 2 ms span half of the least RTT; or
//! * **delay**: the least of the round's first 8 RTTs is above the least RTT by more than
//!   clamp(RTT/16, 2 ms, 16 ms). (Later kernels: RTT/8, at least 4 ms.)
//!
//! The kernel measures in ticks, and a distribution's kernel of 2012 has a thousand a second; so
//! does this. With the bursts of a window that is not paced, on a path of some tens of
//! milliseconds or more at 10 Gbit/s, the delay rule often ends slow start far too early:
//! that is the behaviour of the time and not an error here.

use super::Ack;
use howdah_core::{Span, Time};

/// Segments from which it watches.
const LOW_WINDOW: f64 = 16.0;
/// RTT samples of a round that are looked at.
const SAMPLES: u32 = 8;
/// Acknowledgements at most so far apart, in ticks, are of one train.
const TRAIN_SPACING_TICKS: u64 = 2;
/// Bounds of the rise in delay, in milliseconds.
const RISE_MS: (f64, f64) = (2.0, 16.0);
/// The tick: HZ = 1000.
const TICK_NS: u64 = 1_000_000;

/// Watches slow start for its end.
#[derive(Clone, Debug, Default)]
pub(super) struct HyStart {
    found: bool,
    round_start_ticks: u64,
    last_of_train_ticks: u64,
    /// The round ends when this many segments of the connection are delivered.
    round_ends_at: u64,
    samples: u32,
    least_in_round_ms: f64,
    least_ms: Option<f64>,
}

fn ticks(now: Time) -> u64 {
    now.as_nanos() / TICK_NS
}

impl HyStart {
    /// An acknowledgement in slow start, before it makes the window grow. `usable` is false for
    /// RTTs within a second of a loss. Whether slow start shall end here.
    pub(super) fn ends_slow_start(&mut self, ack: &Ack, cwnd: f64, usable: bool) -> bool {
        if let Some(rtt) = ack.rtt.filter(|_| usable) {
            self.measure(rtt);
            if cwnd >= LOW_WINDOW && !self.found {
                self.watch(ticks(ack.now), rtt);
            }
        }
        if ack.total_delivered_segments > self.round_ends_at {
            self.start_round(ack);
        }
        self.found && cwnd >= LOW_WINDOW
    }

    /// RTTs also count outside slow start.
    pub(super) fn measure(&mut self, rtt: Span) {
        let rtt_ms = in_ticks(rtt);
        self.least_ms = Some(self.least_ms.map_or(rtt_ms, |least| least.min(rtt_ms)));
    }

    fn start_round(&mut self, ack: &Ack) {
        self.round_start_ticks = ticks(ack.now);
        self.last_of_train_ticks = self.round_start_ticks;
        // What has left by now: the next segment to leave is of the new round.
        self.round_ends_at = ack.total_delivered_segments + u64::from(ack.in_flight_segments);
        self.samples = 0;
        self.least_in_round_ms = f64::INFINITY;
    }

    fn watch(&mut self, now_ticks: u64, rtt: Span) {
        let least_ms = self.least_ms.unwrap_or(0.0);
        if now_ticks - self.last_of_train_ticks <= TRAIN_SPACING_TICKS {
            self.last_of_train_ticks = now_ticks;
            let train_ms = (now_ticks - self.round_start_ticks) as f64;
            self.found |= train_ms >= (least_ms / 2.0).floor();
        }
        if self.samples < SAMPLES {
            self.samples += 1;
            self.least_in_round_ms = self.least_in_round_ms.min(in_ticks(rtt));
        } else {
            let rise_ms = (least_ms / 16.0).clamp(RISE_MS.0, RISE_MS.1);
            self.found |= self.least_in_round_ms > least_ms + rise_ms;
        }
    }
}

/// Whole ticks, rounded up, in milliseconds; at least an eighth, as the kernel has it.
fn in_ticks(rtt: Span) -> f64 {
    (rtt.as_nanos().div_ceil(TICK_NS) as f64).max(0.125)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::testkit;

    /// Acknowledges rounds of 100 segments, `spacing_us` apart, with RTTs that `rtt_ms` gives for
    /// a round; returns the round in which slow start ended.
    fn ended_in_round(spacing_us: u64, rtt_ms: impl Fn(u64) -> u64) -> Option<u64> {
        let mut hystart = HyStart::default();
        let mut now = Time::ZERO + Span::from_secs(1);
        let mut delivered = 0;
        for round in 0..6 {
            let start = now;
            for n in 0..100 {
                delivered += 1;
                let ack = Ack {
                    now: start + Span::from_micros(spacing_us) * n,
                    total_delivered_segments: delivered,
                    in_flight_segments: 99,
                    rtt: Some(Span::from_millis(rtt_ms(round))),
                    ..testkit::ack()
                };
                if hystart.ends_slow_start(&ack, 100.0, true) {
                    return Some(round);
                }
            }
            now = start + Span::from_millis(100);
        }
        None
    }

    #[test]
    fn a_short_train_at_constant_delay_goes_on() {
        assert_eq!(ended_in_round(100, |_| 100), None);
    }

    #[test]
    fn a_train_over_half_the_round_trip_ends_it() {
        assert_eq!(ended_in_round(600, |_| 100), Some(0));
    }

    #[test]
    fn a_delay_above_a_sixteenth_ends_it() {
        assert_eq!(ended_in_round(100, |round| 100 + round * 3), Some(3));
    }

    #[test]
    fn small_windows_are_left_alone() {
        let mut hystart = HyStart::default();
        for n in 0..1000 {
            let ack = Ack {
                now: Time::ZERO + Span::from_micros(600 * n),
                total_delivered_segments: n,
                in_flight_segments: 9,
                ..testkit::ack()
            };
            assert!(!hystart.ends_slow_start(&ack, 15.0, true));
        }
    }
}
