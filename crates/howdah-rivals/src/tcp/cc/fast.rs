//! FAST TCP: a window that keeps a fixed number of packets in the queue.
//!
//! Sources: C. Jin, D. Wei, S. Low, "FAST TCP: motivation, architecture, algorithms, performance",
//! INFOCOM 2004, and D. Wei et al., IEEE/ACM Trans. Networking 14(6), 2006, for the law; the ns-2 agent of
//! T. Cui and L. Andrew (v1.1), which follows Caltech's Linux code, for everything around it.
//!
//! The law, at most once in an update period:
//!
//! ```text
//! w <- min(2 w, (1 - gamma) w + gamma (baseRTT/avgRTT w_old + alpha))
//! ```
//!
//! whose fixed point has alpha packets of this flow in the queue, and shares in proportion to alpha
//! whatever the RTTs. `w_old` is the number in flight when the packet that is acknowledged now left:
//! the window that made the RTT which is measured now.
//!
//! * **Estimation**: baseRTT is the running minimum, with no end to its memory (`BASE_RTT_MEMORY`):
//!   a route that becomes longer is taken for a queue, and the window falls to about
//!   alpha new/(new - old): the trap that the switch of JGN06 from 38 to 80 ms shows. avgRTT is an
//!   average with gain min(3/w, 1/4), as in the papers; the ns-2 agent limits it by 1/256 instead,
//!   which at small windows remembers for many round trips.
//! * **Dead band**: nothing changes while alpha <= queued packets < beta; beta is alpha by default,
//!   so there is none.
//! * **Multiplicative increase** in place of slow start: while avgRTT - baseRTT is below
//!   `MI_THRESHOLD`, one segment per acknowledgement. There is no slow-start threshold.
//! * **Update period**: at least `UPDATE_INTERVAL`, and in every other round trip only, so that a
//!   window is judged by its own RTT. An increase is spread over the acknowledgements of a period
//!   if baseRTT is 4 ms or more.
//! * **Loss** halves the window; after a timeout it is 2.
//!
//! alpha is 200 packets: the value of the Caltech stack for 100 Mbit/s and more (8 below 10, 20
//! below 100 Mbit/s). It lies between the 127 and 512 packets of JGN06's routers. `MI_THRESHOLD`
//! and `UPDATE_INTERVAL` are recollected defaults of the ns-2 agent, not read from a source.
//! Not modelled: the recovery of Caltech's stack (a packet outstanding for more than 2 avgRTT is
//! sent again), since repair is the engine's; and its burstiness control, of which only the spreading
//! of increases is published; the host's queue, however long, stands in for it (SLAC's comparison of 2003
//! found a `txqueuelen` of 100 good enough for this stack). So on a path whose first queue is short FAST wants a sender with an
//! interface of its own rate: from a host without one, bursts of a whole window overflow the queue
//! long before the path is full, and each burst's head measures no queue and brings the
//! multiplicative increase back.

use super::window::Window;
use super::{Ack, CcSettings, Congestion, CongestionControl, Entry, Phase};
use howdah_core::{Span, Time};

/// Registration.
pub const ENTRY: Entry = Entry {
    name: "fast",
    about: "FAST TCP (Jin, Wei, Low 2004; ns-2 agent), alpha 200 packets",
    make: |settings| Box::new(Fast::new(settings)),
};

/// Packets to keep in the queue.
const ALPHA: f64 = 200.0;
/// Upper edge of the dead band, in packets.
const BETA: f64 = ALPHA;
/// Step of the law.
const GAMMA: f64 = 0.5;
/// Mean queueing delay up to which the window grows as in slow start.
const MI_THRESHOLD: Span = Span::from_micros(750);
/// Shortest time between two updates by the law.
const UPDATE_INTERVAL: Span = Span::from_millis(20);
/// From this baseRTT on, increases are spread over acknowledgements.
const SPREAD_FROM: Span = Span::from_millis(4);
/// Gain of avgRTT at small windows.
const MOST_GAIN: f64 = 0.25;
/// After a timeout.
const RESTART_WINDOW: f64 = 2.0;
/// How long baseRTT remembers its minimum: for ever.
const BASE_RTT_MEMORY: Option<Span> = None;

/// FAST TCP.
#[derive(Clone, Debug)]
pub struct Fast {
    window: Window,
    base_rtt: Option<Span>,
    /// When baseRTT was last confirmed, for a memory that ends.
    base_rtt_at: Time,
    base_rtt_memory: Option<Span>,
    /// Seconds; zero before the first sample.
    avg_rtt: f64,
    /// The law may be applied in this round trip.
    updates: bool,
    round_start: Time,
    acks_in_round: u32,
    acks_in_last_round: u32,
    updated_at: Time,
    /// What is left of the last increase, in segments, and how much of it an acknowledgement adds.
    to_add: f64,
    per_ack: f64,
}

impl Fast {
    /// At the initial window.
    pub fn new(settings: &CcSettings) -> Self {
        Self {
            window: Window::new(settings),
            base_rtt: None,
            base_rtt_at: Time::ZERO,
            base_rtt_memory: BASE_RTT_MEMORY,
            avg_rtt: 0.0,
            updates: true,
            round_start: Time::ZERO,
            acks_in_round: 0,
            acks_in_last_round: 0,
            updated_at: Time::ZERO,
            to_add: 0.0,
            per_ack: 0.0,
        }
    }

    fn estimate(&mut self, now: Time, rtt: Span, window_then: f64) {
        let forgotten = self
            .base_rtt_memory
            .is_some_and(|memory| now.since(self.base_rtt_at) > memory);
        if forgotten || self.base_rtt.is_none_or(|base| rtt <= base) {
            self.base_rtt = Some(rtt);
            self.base_rtt_at = now;
        }
        let rtt = rtt.as_secs_f64();
        if self.avg_rtt == 0.0 {
            self.avg_rtt = rtt;
        } else {
            let gain = (3.0 / window_then.max(1.0)).min(MOST_GAIN);
            self.avg_rtt += gain * (rtt - self.avg_rtt);
        }
    }

    /// Queueing delay in seconds, smoothed.
    fn queueing_delay(&self) -> f64 {
        let base = self.base_rtt.unwrap_or(Span::ZERO);
        (self.avg_rtt - base.as_secs_f64()).max(0.0)
    }

    /// The window that the law wants, given the one that was in flight a round trip ago.
    fn law(&self, window_then: f64) -> f64 {
        let cwnd = self.window.cwnd;
        let queued = window_then * self.queueing_delay() / self.avg_rtt;
        if (ALPHA..BETA).contains(&queued) {
            return cwnd;
        }
        let target = (1.0 - GAMMA) * cwnd + GAMMA * (window_then - queued + ALPHA);
        target.min(2.0 * cwnd).max(RESTART_WINDOW)
    }

    fn count_round(&mut self, now: Time) {
        if now.since(self.round_start).as_secs_f64() > self.avg_rtt {
            self.round_start = now;
            self.acks_in_last_round = self.acks_in_round;
            self.acks_in_round = 0;
            self.updates = !self.updates;
        }
        self.acks_in_round += 1;
    }

    /// Adds this acknowledgement's part of the last increase.
    fn add_part(&mut self) {
        if self.to_add <= 0.0 {
            return;
        }
        // A tiny window has too few acknowledgements to spread anything over.
        let part = if self.window.cwnd <= 4.0 {
            self.window.cwnd
        } else {
            self.per_ack
        };
        let part = part.min(self.to_add);
        self.window.cwnd += part;
        self.to_add -= part;
    }

    fn apply_law(&mut self, window_then: f64) {
        let target = self.law(window_then);
        let increase = target - self.window.cwnd;
        self.to_add = 0.0;
        if increase >= 0.0 && self.base_rtt >= Some(SPREAD_FROM) {
            let acks =
                f64::from(self.acks_in_last_round) * UPDATE_INTERVAL.as_secs_f64() / self.avg_rtt;
            self.to_add = increase;
            self.per_ack = (increase / acks.max(1.0)).min(1.0);
            self.add_part();
        } else {
            self.window.cwnd = target;
        }
    }
}

impl CongestionControl for Fast {
    fn name(&self) -> &'static str {
        "fast"
    }

    fn cwnd(&self) -> f64 {
        self.window.cwnd
    }

    fn ssthresh(&self) -> f64 {
        self.window.ssthresh
    }

    fn on_ack(&mut self, ack: &Ack) {
        let window_then = f64::from(ack.in_flight_when_sent_segments);
        if let Some(rtt) = ack.rtt {
            self.estimate(ack.now, rtt, window_then);
        }
        let may_grow = self.window.may_grow(ack);
        if ack.phase == Phase::Recovery {
            // The first update waits until recovery is over by an interval.
            self.updated_at = ack.now;
            self.to_add = 0.0;
            return;
        }
        if ack.acked_segments == 0 || self.avg_rtt == 0.0 {
            return;
        }
        self.count_round(ack.now);
        if self.queueing_delay() < MI_THRESHOLD.as_secs_f64() {
            if may_grow {
                self.window.cwnd += 1.0;
            }
            self.updated_at = ack.now;
            return;
        }
        let due = ack.now >= self.updated_at + UPDATE_INTERVAL;
        if due && self.updates {
            let wanted = self.law(window_then);
            if may_grow || wanted < self.window.cwnd {
                self.apply_law(window_then);
            }
            self.updated_at = ack.now;
        } else if may_grow {
            self.add_part();
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.updated_at = event.now;
        self.to_add = 0.0;
        self.window.reduce_to(self.window.cwnd / 2.0);
    }

    fn on_recovered(&mut self, _now: Time) {
        self.window.recovered();
    }

    fn on_timeout(&mut self, event: &Congestion) {
        self.updated_at = event.now;
        self.to_add = 0.0;
        self.window.collapse(self.window.cwnd / 2.0);
        self.window.cwnd = RESTART_WINDOW;
    }

    fn on_undo(&mut self, _now: Time) {
        self.window.undo();
    }

    /// Caltech's stack has a burstiness control that lets packets go only as fast as the host takes
    /// them; it is not modelled, so the bursts wait in the host instead.
    fn heeds_local_congestion(&self) -> bool {
        false
    }

    fn on_restart(&mut self, _now: Time, _idle: Span) {
        self.window.restart();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::testkit::{self, Pipe};

    /// 1 Gbit/s of 1538-byte slots.
    const GIGABIT: f64 = 1e9 / (1538.0 * 8.0);

    /// A host with a gigabit interface, and a router that is half a per cent slower: bursts wait
    /// in the host, and what stands stands in the router.
    fn fast_in_pipe(base_rtt: Span, queue_segments: f64) -> Pipe<Fast> {
        let mut pipe = Pipe::new(Fast::new(&testkit::settings()));
        pipe.base_rtt = base_rtt;
        pipe.interface_segments_per_second = Some(GIGABIT);
        pipe.segments_per_second = Some(0.995 * GIGABIT);
        pipe.queue_segments = queue_segments;
        pipe
    }

    /// An object that has measured a base and a mean RTT.
    fn measured(cwnd: f64, base_ms: f64, avg_ms: f64) -> Fast {
        let mut fast = Fast::new(&testkit::settings());
        fast.window.cwnd = cwnd;
        fast.base_rtt = Some(Span::from_secs_f64(base_ms / 1e3));
        fast.avg_rtt = avg_ms / 1e3;
        fast
    }

    #[test]
    fn the_law_has_its_fixed_point_at_alpha() {
        // w (1 - base/avg) = alpha: 2000 * (1 - 90/100) = 200.
        let at_rest = measured(2000.0, 90.0, 100.0).law(2000.0);
        assert!((at_rest - 2000.0).abs() < 1e-6, "{at_rest}");
        // No queue: half of the way to w + alpha.
        let empty = measured(2000.0, 100.0, 100.0).law(2000.0);
        assert!((empty - 2100.0).abs() < 1e-6, "{empty}");
        // Twice the queue: half of the way down.
        let full = measured(2000.0, 80.0, 100.0).law(2000.0);
        assert!((full - 1900.0).abs() < 1e-6, "{full}");
        // Never more than double.
        let small = measured(10.0, 100.0, 100.0).law(10.0);
        assert!((small - 20.0).abs() < 1e-6, "{small}");
    }

    #[test]
    fn in_equilibrium_alpha_packets_are_queued() {
        for base_ms in [38, 180] {
            let mut pipe = fast_in_pipe(Span::from_millis(base_ms), 512.0);
            pipe.run_for(Span::from_secs(90));
            let mut queue = 0.0;
            for _ in 0..20 {
                pipe.run_for(Span::from_millis(500));
                queue += pipe.queue() / 20.0;
            }
            assert!((queue - ALPHA).abs() < 10.0, "{base_ms} ms: {queue:.1}");
            assert_eq!(pipe.lost, 0, "{base_ms} ms");
        }
    }

    #[test]
    fn a_queue_shorter_than_alpha_overflows() {
        let mut pipe = fast_in_pipe(Span::from_millis(180), 127.0);
        pipe.run_for(Span::from_secs(60));
        assert!(pipe.lost > 0);
    }

    #[test]
    fn while_there_is_no_queue_it_grows_as_in_slow_start() {
        let mut fast = measured(100.0, 100.0, 100.0);
        fast.on_ack(&testkit::ack());
        testkit::assert_near(fast.cwnd(), 101.0);
    }

    #[test]
    fn an_increase_is_spread_over_the_acknowledgements_of_a_period() {
        let mut fast = measured(1000.0, 90.0, 92.0);
        fast.acks_in_last_round = 920;
        let mut ack = Ack {
            rtt: None,
            in_flight_when_sent_segments: 1000,
            ..testkit::ack()
        };
        fast.round_start = ack.now;
        fast.on_ack(&ack);
        // 1000 - 1000 * 2/92 + 200 is 178.3 above; half of that over 200 acknowledgements.
        let part = fast.cwnd() - 1000.0;
        assert!((part - 178.26 / 2.0 / 200.0).abs() < 0.01, "{part}");
        for _ in 0..250 {
            ack.now += Span::from_micros(10);
            fast.on_ack(&ack);
        }
        assert!((fast.cwnd() - 1089.13).abs() < 0.1, "{}", fast.cwnd());
    }

    #[test]
    fn updates_come_in_every_other_round_trip() {
        let mut pipe = fast_in_pipe(Span::from_millis(100), 512.0);
        pipe.run_for(Span::from_secs(60));
        let (mut pauses, mut updates) = (0, 0);
        let mut last = pipe.cc.updated_at;
        let end = pipe.now + Span::from_millis(40 * 102);
        while pipe.now < end {
            pipe.run_until(|pipe| pipe.cc.updated_at != last || pipe.now >= end);
            pauses += u32::from(pipe.cc.updated_at.since(last) > Span::from_millis(100));
            updates += 1;
            last = pipe.cc.updated_at;
        }
        assert!((19..=21).contains(&pauses), "{pauses}");
        // 102/20 in a round trip.
        assert!((95..=125).contains(&updates), "{updates}");
    }

    #[test]
    fn a_longer_route_is_taken_for_a_queue() {
        let mut pipe = fast_in_pipe(Span::from_millis(38), 512.0);
        pipe.run_for(Span::from_secs(60));
        assert!(pipe.cc.cwnd() > 3000.0, "{}", pipe.cc.cwnd());
        pipe.base_rtt = Span::from_millis(80);
        pipe.run_for(Span::from_secs(60));
        // w (1 - 38/80) = alpha.
        let trapped = ALPHA * 80.0 / 42.0;
        let cwnd = pipe.cc.cwnd();
        assert!((cwnd - trapped).abs() < 20.0, "{cwnd}, not {trapped}");
    }

    #[test]
    fn a_memory_that_ends_leaves_the_trap() {
        let mut pipe = fast_in_pipe(Span::from_millis(38), 512.0);
        pipe.cc.base_rtt_memory = Some(Span::from_secs(10));
        pipe.run_for(Span::from_secs(60));
        pipe.base_rtt = Span::from_millis(80);
        pipe.run_for(Span::from_secs(60));
        // Each time it forgets, what is queued becomes part of the base.
        assert!(pipe.cc.cwnd() > 5000.0, "{}", pipe.cc.cwnd());
    }

    #[test]
    fn losses_halve_it_and_a_timeout_leaves_two() {
        let mut fast = measured(1000.0, 90.0, 100.0);
        fast.on_congestion(&Congestion::default());
        assert_eq!((fast.cwnd(), fast.ssthresh()), (500.0, 500.0));
        fast.on_recovered(Time::ZERO);
        fast.on_timeout(&Congestion::default());
        assert_eq!((fast.cwnd(), fast.ssthresh()), (2.0, 250.0));
    }
}
