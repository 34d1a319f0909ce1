//! HyStart, as in the CUBIC of Linux: leave slow start before it overflows.
//!
//! Source: S. Ha, I. Rhee, "Taming the elephants: new TCP slow start", NCSU 2008, and the kernel's
//! `tcp_cubic.c` (constants `HYSTART_*`), as it was from 2.6.29 to 2.6.37 and as it is in 6.x. From 16 segments on, slow start ends when in one
//! round trip
//!
//! * **train**: acknowledgements that follow one another within 2 ms span half of the least RTT; or
//! * **delay**: the least of the round's first 8 RTTs is above the least RTT by more than
//!   clamp(RTT/16, 2 ms, 16 ms); in 6.x clamp(RTT/8, 4 ms, 16 ms).
//!
//! The kernel of 2012 measures in ticks, of which a distribution's has a thousand a second; 6.x in microseconds. With the bursts of a window that is not paced, on a path of some tens of
//! milliseconds or more at 10 Gbit/s, the delay rule often ends slow start far too early:
//! that is the behaviour of the time and not an error here.

use super::Ack;
use howdah_core::{Span, Time};

/// Segments from which it watches.
const LOW_WINDOW: f64 = 16.0;
/// RTT samples of a round that are looked at.
const SAMPLES: u32 = 8;
/// Acknowledgements at most so far apart are of one train.
const TRAIN_SPACING_NS: u64 = 2_000_000;

/// What distinguishes the kernels.
#[derive(Debug)]
pub(super) struct Rules {
    /// Granularity of the clock.
    tick_ns: u64,
    /// Slow start ends if the delay rises by this share of the least RTT,
    rise_share: f64,
    /// within these bounds, in milliseconds.
    rise_ms: (f64, f64),
}

/// Linux 2.6.29 to 2.6.37, HZ = 1000.
pub(super) const LINUX_2_6: Rules = Rules {
    tick_ns: 1_000_000,
    rise_share: 1.0 / 16.0,
    rise_ms: (2.0, 16.0),
};

/// Linux since 5.6.
pub(super) const LINUX_6: Rules = Rules {
    tick_ns: 1_000,
    rise_share: 1.0 / 8.0,
    rise_ms: (4.0, 16.0),
};

/// Watches slow start for its end.
#[derive(Clone, Debug)]
pub(super) struct HyStart {
    rules: &'static Rules,
    found: bool,
    round_start_ticks: u64,
    last_of_train_ticks: u64,
    /// The round ends when this many segments of the connection are delivered.
    round_ends_at: u64,
    samples: u32,
    least_in_round_ms: f64,
    least_ms: Option<f64>,
}

impl HyStart {
    pub(super) const fn new(rules: &'static Rules) -> Self {
        Self {
            rules,
            found: false,
            round_start_ticks: 0,
            last_of_train_ticks: 0,
            round_ends_at: 0,
            samples: 0,
            least_in_round_ms: 0.0,
            least_ms: None,
        }
    }

    /// The same rules, nothing measured yet.
    pub(super) const fn anew(&self) -> Self {
        Self::new(self.rules)
    }

    fn ticks(&self, now: Time) -> u64 {
        now.as_nanos() / self.rules.tick_ns
    }

    fn ticks_in_ms(&self, ticks: u64) -> f64 {
        (ticks * self.rules.tick_ns) as f64 / 1e6
    }

    /// Whole ticks, rounded up, in milliseconds; at least an eighth of a tick, as the kernel has it.
    fn in_ticks(&self, rtt: Span) -> f64 {
        let ticks = rtt.as_nanos().div_ceil(self.rules.tick_ns);
        self.ticks_in_ms(ticks).max(self.ticks_in_ms(1) / 8.0)
    }

    /// An acknowledgement in slow start, before it makes the window grow. `usable` is false for
    /// RTTs within a second of a loss. Whether slow start shall end here.
    pub(super) fn ends_slow_start(&mut self, ack: &Ack, cwnd: f64, usable: bool) -> bool {
        if let Some(rtt) = ack.rtt.filter(|_| usable) {
            self.measure(rtt);
            if cwnd >= LOW_WINDOW && !self.found {
                self.watch(self.ticks(ack.now), rtt);
            }
        }
        if ack.total_delivered_segments > self.round_ends_at {
            self.start_round(ack);
        }
        self.found && cwnd >= LOW_WINDOW
    }

    /// RTTs also count outside slow start.
    pub(super) fn measure(&mut self, rtt: Span) {
        let rtt_ms = self.in_ticks(rtt);
        self.least_ms = Some(self.least_ms.map_or(rtt_ms, |least| least.min(rtt_ms)));
    }

    fn start_round(&mut self, ack: &Ack) {
        self.round_start_ticks = self.ticks(ack.now);
        self.last_of_train_ticks = self.round_start_ticks;
        // What has left by now: the next segment to leave is of the new round.
        self.round_ends_at = ack.total_delivered_segments + u64::from(ack.in_flight_segments);
        self.samples = 0;
        self.least_in_round_ms = f64::INFINITY;
    }

    fn watch(&mut self, now_ticks: u64, rtt: Span) {
        let least_ms = self.least_ms.unwrap_or(0.0);
        if now_ticks - self.last_of_train_ticks <= TRAIN_SPACING_NS / self.rules.tick_ns {
            self.last_of_train_ticks = now_ticks;
            let train_ms = self.ticks_in_ms(now_ticks - self.round_start_ticks);
            let tick_ms = self.ticks_in_ms(1);
            self.found |= train_ms >= (least_ms / 2.0 / tick_ms).floor() * tick_ms;
        }
        if self.samples < SAMPLES {
            self.samples += 1;
            self.least_in_round_ms = self.least_in_round_ms.min(self.in_ticks(rtt));
        } else {
            let (least_rise, most_rise) = self.rules.rise_ms;
            let rise_ms = (least_ms * self.rules.rise_share).clamp(least_rise, most_rise);
            self.found |= self.least_in_round_ms > least_ms + rise_ms;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::testkit;

    /// Acknowledges rounds of 100 segments, `spacing_us` apart, with RTTs that `rtt_ms` gives for
    /// a round; returns the round in which slow start ended.
    fn ended_in_round(spacing_us: u64, rtt_ms: impl Fn(u64) -> u64) -> Option<u64> {
        let mut hystart = HyStart::new(&LINUX_2_6);
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
    fn linux_6_wants_an_eighth() {
        let mut hystart = HyStart::new(&LINUX_6);
        let mut ends = |rtt_us: u64, round: u64| {
            (0..100).any(|n| {
                let ack = Ack {
                    now: Time::ZERO
                        + Span::from_millis(1000 + 100 * round)
                        + Span::from_micros(100 * n),
                    total_delivered_segments: 100 * round + n + 1,
                    in_flight_segments: 99,
                    rtt: Some(Span::from_micros(rtt_us)),
                    ..testkit::ack()
                };
                hystart.ends_slow_start(&ack, 100.0, true)
            })
        };
        assert!(!ends(100_000, 0));
        assert!(!ends(112_000, 1), "a sixteenth is 6.25 ms, an eighth 12.5");
        assert!(ends(112_600, 2));
    }

    #[test]
    fn small_windows_are_left_alone() {
        let mut hystart = HyStart::new(&LINUX_2_6);
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
