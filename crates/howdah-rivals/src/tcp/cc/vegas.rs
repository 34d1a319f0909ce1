//! TCP Vegas: a window that keeps two to four packets in the queue.
//!
//! Sources: L. Brakmo, L. Peterson, "TCP Vegas: end to end congestion avoidance on a global internet",
//! IEEE JSAC 13(8), 1995, for the law and its slow start; Linux's `tcp_vegas.c` for alpha, beta and gamma and for all that
//! the paper leaves to an implementation: the least RTT of a round trip stands for it, a round trip with too few of them is
//! decided as Reno decides, slow start ends at the window that the path carries, and a reduction, which is Reno's, ends
//! the round.
//!
//! Once in a round trip, with the window W, the least RTT of that round trip and the least RTT ever (the base),
//!
//! ```text
//! expected = W / base,  actual = W / RTT,  diff = (expected - actual) base = W (1 - base / RTT)
//! W + 1 if diff < alpha,  W - 1 if diff > beta
//! ```
//!
//! diff is the number of the flow's packets in the queue. (Linux has W (RTT - base) / base since 2.6.29, which is more by the factor RTT / base.)
//! In slow start the window grows in every other round trip, and stands still in the one between them, so that what left then shows what
//! that window does: the first RTTs of the next round trip, before it grows again. A diff above gamma ends slow start. (Linux grows in each, so as not to take twice
//! as long, and sees a queue a round trip later; here it is the paper's.)
//!
//! Not modelled is the paper's finer retransmission timer: the engine finds losses, as it does for all.

use super::window::Window;
use super::{Ack, CcSettings, Congestion, CongestionControl, Entry, Phase};
use howdah_core::{Span, Time};

/// Registration.
pub const ENTRY: Entry = Entry {
    name: "vegas",
    about: "TCP Vegas (Brakmo, Peterson 1995): 2 to 4 packets in the queue, by one packet a round trip",
    make: |settings| Box::new(Vegas::new(settings)),
};

/// Packets in the queue below which the window grows.
const ALPHA: f64 = 2.0;
/// Packets in the queue above which it shrinks.
const BETA: f64 = 4.0;
/// Packets in the queue at which slow start ends.
const GAMMA: f64 = 1.0;
/// One or two RTTs of a round trip are those of delayed acknowledgements.
const TOO_FEW_SAMPLES: u32 = 2;
const LEAST_WINDOW: f64 = 2.0;

/// The round trip that goes on.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// It ends when more segments of the connection than these are delivered.
    ends_at: u64,
    least_rtt: Option<Span>,
    samples: u32,
}

/// The state of Vegas.
#[derive(Clone, Debug)]
pub struct Vegas {
    window: Window,
    base_rtt: Option<Span>,
    /// `None`: the next acknowledgement outside of a repair begins one.
    round: Option<Round>,
    /// Slow start grows in this round trip, and stands still in the next.
    grows: bool,
    /// The last round trip had RTTs enough, so this one will: slow start waits for them before it grows.
    is_measured: bool,
}

impl Vegas {
    /// Vegas at the initial window.
    pub fn new(settings: &CcSettings) -> Self {
        Self {
            window: Window::new(settings),
            base_rtt: None,
            round: None,
            grows: true,
            is_measured: false,
        }
    }

    /// Packets in the queue by the RTT of a round trip, and the window that the path carries without any.
    fn judge(&self, rtt: Span, base: Span) -> (f64, f64) {
        let carried = self.window.cwnd * base.as_secs_f64() / rtt.as_secs_f64();
        (self.window.cwnd - carried, carried)
    }

    /// The decision in congestion avoidance, at the end of a round trip that has been measured.
    fn decide(&mut self, rtt: Span, base: Span, may_grow: bool) {
        let (diff, _) = self.judge(rtt, base);
        if diff > BETA {
            self.window.cwnd = (self.window.cwnd - 1.0).max(LEAST_WINDOW);
            self.window.ssthresh = self.window.ssthresh.min(self.window.cwnd);
        } else if diff < ALPHA && may_grow {
            self.window.cwnd += 1.0;
        }
        // `tcp_current_ssthresh`: what is cut by a timeout comes back slowly only to three quarters of this.
        let least = (0.75 * self.window.cwnd).max(LEAST_WINDOW);
        self.window.ssthresh = self.window.ssthresh.max(least);
    }

    /// Slow start, by the RTTs of what left while the window stood still. Whether it ends.
    fn ends_slow_start(&mut self, rtt: Span, base: Span) -> bool {
        let (diff, carried) = self.judge(rtt, base);
        if diff <= GAMMA {
            return false;
        }
        self.window.cwnd = (carried + 1.0).clamp(LEAST_WINDOW, self.window.cwnd.max(LEAST_WINDOW));
        self.window.ssthresh = self.window.cwnd;
        true
    }

    fn grow_as_reno(&mut self, ack: &Ack) {
        if self.window.in_slow_start() {
            self.window.grow_slow_start(ack);
        } else {
            self.window.cwnd += self.window.counted(ack) / self.window.cwnd;
        }
    }

    /// What was measured is of another window than the one that stands now.
    fn begin_anew(&mut self) {
        self.round = None;
        self.grows = true;
        self.is_measured = false;
    }
}

impl CongestionControl for Vegas {
    fn name(&self) -> &'static str {
        "vegas"
    }

    fn cwnd(&self) -> f64 {
        self.window.cwnd
    }

    fn ssthresh(&self) -> f64 {
        self.window.ssthresh
    }

    fn on_ack(&mut self, ack: &Ack) {
        let may_grow = self.window.may_grow(ack);
        // A path that takes no time has no queue to speak of: a nanosecond is the least.
        let rtt = ack.rtt.map(|rtt| rtt.max(Span::from_nanos(1)));
        if let Some(rtt) = rtt {
            self.base_rtt = Some(self.base_rtt.map_or(rtt, |base| base.min(rtt)));
        }
        if ack.phase != Phase::Open {
            // After a timeout slow start fills the pipe again, as Reno's does.
            self.begin_anew();
            if may_grow {
                self.grow_as_reno(ack);
            }
            return;
        }
        let next = Round {
            ends_at: ack.total_delivered_segments + u64::from(ack.in_flight_segments),
            ..Round::default()
        };
        let round = self.round.get_or_insert(next);
        if let Some(rtt) = rtt {
            round.least_rtt = Some(round.least_rtt.map_or(rtt, |least| least.min(rtt)));
            round.samples += 1;
        }
        let now = *round;
        let known = now.least_rtt.zip(self.base_rtt);
        let known = known.filter(|_| now.samples > TOO_FEW_SAMPLES);
        if ack.total_delivered_segments <= now.ends_at {
            if !self.window.in_slow_start() || !self.grows {
                return;
            }
            if let Some((rtt, base)) = known
                && self.is_measured
                && now.samples == TOO_FEW_SAMPLES + 1
                && self.ends_slow_start(rtt, base)
            {
                self.round = Some(next);
            } else if may_grow && (known.is_some() || !self.is_measured) {
                self.window.grow_slow_start(ack);
            }
            return;
        }
        *round = next;
        self.is_measured = known.is_some();
        if let Some((rtt, base)) = known {
            self.grows = !self.grows;
            if !self.window.in_slow_start() {
                self.decide(rtt, base, may_grow);
            }
        } else if may_grow {
            // Nothing is known of the queue: a segment more, as Reno would have it, or slow start.
            self.grows = true;
            if self.window.in_slow_start() {
                self.window.grow_slow_start(ack);
            } else {
                self.window.cwnd += 1.0;
            }
        }
    }

    /// RFC 5681: half of what is in flight.
    fn on_congestion(&mut self, event: &Congestion) {
        let flight = f64::from(event.in_flight_segments).min(self.window.cwnd);
        self.window.reduce_to(flight / 2.0);
        self.begin_anew();
    }

    fn on_recovered(&mut self, _now: Time) {
        self.window.recovered();
    }

    fn on_timeout(&mut self, event: &Congestion) {
        let flight = f64::from(event.in_flight_segments).min(self.window.cwnd);
        self.window.collapse(flight / 2.0);
        self.begin_anew();
    }

    fn on_undo(&mut self, _now: Time) {
        self.window.undo();
    }

    /// Linux forgets the base, too: the path may be another one.
    fn on_restart(&mut self, _now: Time, _idle: Span) {
        self.window.restart();
        self.base_rtt = None;
        self.begin_anew();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::testkit::{self, Pipe};

    /// 1000 segments a second, so that 100 of them are a base RTT's worth, and a queue without end.
    fn alone(segments_per_ack: u32) -> Pipe<Vegas> {
        let mut pipe = Pipe::new(Vegas::new(&testkit::settings()));
        pipe.segments_per_second = Some(1000.0);
        pipe.segments_per_ack = segments_per_ack;
        pipe
    }

    /// In congestion avoidance, with a base RTT of 100 ms measured.
    fn avoiding(cwnd: f64) -> Vegas {
        let mut vegas = Vegas::new(&testkit::settings());
        vegas.window.cwnd = cwnd;
        vegas.window.ssthresh = cwnd;
        vegas.base_rtt = Some(Span::from_millis(100));
        vegas
    }

    /// A round trip of so many acknowledgements, all with that RTT.
    fn round(vegas: &mut Vegas, delivered: &mut u64, acks: u32, rtt_ms: f64) {
        for nth in 0..=acks + 1 {
            *delivered += 1;
            vegas.on_ack(&Ack {
                total_delivered_segments: *delivered,
                in_flight_segments: acks,
                rtt: (1..=acks)
                    .contains(&nth)
                    .then(|| Span::from_secs_f64(rtt_ms / 1e3)),
                ..testkit::ack()
            });
        }
        vegas.round = None;
    }

    #[test]
    fn the_window_moves_by_one_outside_of_alpha_and_beta() {
        // 50 (1 - 100/RTT) packets are queued.
        for (rtt_ms, expected) in [
            (100.0, 51.0),
            (104.0, 51.0),
            (104.3, 50.0),
            (108.6, 50.0),
            (108.8, 49.0),
            (300.0, 49.0),
        ] {
            let mut vegas = avoiding(50.0);
            round(&mut vegas, &mut 0, 50, rtt_ms);
            testkit::assert_near(vegas.cwnd(), expected);
        }
    }

    #[test]
    fn a_round_trip_of_two_samples_is_decided_as_reno_would() {
        for (samples, expected) in [(1, 51.0), (2, 51.0), (3, 49.0)] {
            let mut vegas = avoiding(50.0);
            round(&mut vegas, &mut 0, samples, 200.0);
            testkit::assert_near(vegas.cwnd(), expected);
        }
    }

    #[test]
    fn slow_start_grows_in_every_other_round_trip() {
        let mut pipe = Pipe::new(Vegas::new(&testkit::settings()));
        // Without a bottleneck nothing ends it.
        let mut windows = Vec::new();
        for _ in 0..7 {
            windows.push(pipe.cc.cwnd());
            pipe.run_for(Span::from_millis(100));
        }
        let doublings = (windows[6] / windows[0]).log2();
        assert!((2.5..=3.6).contains(&doublings), "{windows:?}");
    }

    #[test]
    fn slow_start_ends_at_what_the_path_carries() {
        let mut pipe = alone(1);
        pipe.run_until(|pipe| !pipe.cc.window.in_slow_start());
        // 100 segments, and one.
        let cwnd = pipe.cc.cwnd();
        assert!((99.0..=102.0).contains(&cwnd), "{cwnd}");
        assert_eq!(pipe.lost, 0);
    }

    #[test]
    fn alone_it_keeps_alpha_to_beta_packets_in_the_queue_and_fills_the_path() {
        for segments_per_ack in [1, 2] {
            let mut pipe = alone(segments_per_ack);
            pipe.run_for(Span::from_secs(30));
            let before = pipe.delivered;
            let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
            for _ in 0..100 {
                pipe.run_for(Span::from_millis(200));
                least = least.min(pipe.queue());
                most = most.max(pipe.queue());
            }
            let rate = (pipe.delivered - before) as f64 / 20.0;
            // One more by the moment at which one looks: between two departures.
            assert!(
                least >= ALPHA - 1.0 && most <= BETA + 1.0,
                "{segments_per_ack} a report: {least} to {most}"
            );
            assert!((rate - 1000.0).abs() < 10.0, "{rate}");
        }
    }

    #[test]
    fn losses_halve_it_and_a_timeout_leaves_one() {
        let event = Congestion {
            in_flight_segments: 100,
            ..Congestion::default()
        };
        let mut vegas = avoiding(100.0);
        vegas.on_congestion(&event);
        assert_eq!((vegas.cwnd(), vegas.ssthresh()), (50.0, 50.0));
        vegas.on_recovered(Time::ZERO);
        vegas.on_timeout(&event);
        assert_eq!((vegas.cwnd(), vegas.ssthresh()), (1.0, 25.0));
        vegas.on_ack(&Ack {
            phase: Phase::Loss,
            ..testkit::ack()
        });
        testkit::assert_near(vegas.cwnd(), 2.0);
    }

    #[test]
    fn what_was_measured_before_an_idle_time_is_forgotten() {
        let mut vegas = avoiding(100.0);
        vegas.on_restart(Time::ZERO, Span::from_secs(10));
        testkit::assert_near(vegas.cwnd(), 10.0);
        assert_eq!(vegas.base_rtt, None);
    }
}
