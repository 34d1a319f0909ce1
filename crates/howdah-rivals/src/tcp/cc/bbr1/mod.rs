//! BBR version 1, as the Linux kernel has it since 4.20.
//!
//! Cardwell, Cheng, Gunn, Hassas Yeganeh, Jacobson, "BBR: congestion-based congestion control"
//! (ACM Queue 14(5), 2016); draft-cardwell-iccrg-bbr-congestion-control-00; constants from Linux
//! `net/ipv4/tcp_bbr.c`. The model is two numbers: the largest delivery rate of the last ten
//! rounds and the least round-trip time of the last ten seconds. Their product is the volume that
//! fills the path without a queue.
//!
//! | State | pacing gain | window gain | ends |
//! | --- | --- | --- | --- |
//! | STARTUP | 2.885 = 2/ln 2 | 2.885 | three rounds that grew by less than 25 % |
//! | DRAIN | 1/2.885 | 2.885 | one BDP in flight |
//! | `PROBE_BW` | 1.25, 0.75, 1, 1, 1, 1, 1, 1 | 2 | never; a phase lasts one least RTT |
//! | `PROBE_RTT` | 1 | window of 4 | 200 ms and one round, every 10 s |
//!
//! Loss is not a signal. It matters in three places only: the first round of a recovery sends no
//! more than what arrives (packet conservation), the 1.25 phase ends at a loss, and a path that
//! loses a fifth of the packets at a steady rate is taken for a policer (`policer.rs`).
//!
//! What differs from the kernel: rates are floating-point numbers, the maximum is over exactly
//! ten rounds (the kernel's filter approximates), and packets are in flight when they have left,
//! not when they were handed to a queue with a departure time.

mod policer;
#[cfg(test)]
mod tests;

use super::bbr::{
    AGGREGATION_WINDOW_ROUNDS, Aggregation, FULL_BW_GROWTH, FULL_BW_ROUNDS, Lots, MIN_PIPE_CWND,
    MIN_RTT_WINDOW, Muted, PROBE_RTT_TIME, Pacing, Rounds, bandwidth,
};
use super::filter::WindowedMax;
use super::{Ack, CcSettings, Congestion, CongestionControl, Entry, Phase, RateSample};
use howdah_core::{Rate, Span, Time};
use policer::Policer;

/// Least gain that doubles the rate each round: 2/ln 2 (Linux `bbr_high_gain`).
const HIGH_GAIN: f64 = 2.885;
/// Drains in one round what STARTUP queued (`bbr_drain_gain`).
const DRAIN_GAIN: f64 = 1.0 / 2.885;
/// Window in `PROBE_BW`, in BDP: room for delayed and stretched acknowledgements (`bbr_cwnd_gain`).
const CWND_GAIN: f64 = 2.0;
/// Pacing gains of the phases of `PROBE_BW` (`bbr_pacing_gain`).
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Rounds over which the largest delivery rate is taken (`bbr_bw_rtts`).
const BW_ROUNDS: usize = 10;

/// The line of the list of algorithms.
pub const ENTRY: Entry = Entry {
    name: "bbr1",
    about: "BBR version 1: model of bandwidth and least RTT, blind to loss (ACM Queue 2016, Linux 4.20)",
    make: |settings| Box::new(Bbr1::new(settings)),
};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// BBR version 1: see the module.
#[derive(Clone, Debug)]
pub struct Bbr1 {
    mode: Mode,
    cwnd: f64,
    /// Infinite in STARTUP; from then on one BDP, so that the engine does not take the algorithm
    /// for one in slow start (Linux sets it for the same reason).
    ssthresh: f64,
    /// The window before a recovery or `PROBE_RTT`, to return to.
    prior_cwnd: f64,
    pacing: Pacing,
    pacing_gain: f64,
    cwnd_gain: f64,
    rounds: Rounds,
    max_bw: WindowedMax<BW_ROUNDS>,
    min_rtt: Option<Span>,
    min_rtt_at: Time,
    full_bw: f64,
    full_bw_rounds: u32,
    full_bw_reached: bool,
    phase: usize,
    phase_started: Time,
    /// When `PROBE_RTT` may end; set when the window of 4 has been reached.
    probe_rtt_until: Option<Time>,
    probe_rtt_round_done: bool,
    muted: Muted,
    idle_restart: bool,
    /// What the engine did at the last acknowledgement.
    engine: Phase,
    conserving: bool,
    aggregation: Aggregation,
    policer: Policer,
    lots: Lots,
}

impl Bbr1 {
    /// A new connection's.
    pub fn new(settings: &CcSettings) -> Self {
        let pacing = Pacing::new(settings, HIGH_GAIN);
        Self {
            mode: Mode::Startup,
            cwnd: pacing.initial_window(),
            ssthresh: f64::INFINITY,
            prior_cwnd: 0.0,
            pacing,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            rounds: Rounds::default(),
            max_bw: WindowedMax::new(),
            min_rtt: None,
            min_rtt_at: Time::ZERO,
            full_bw: 0.0,
            full_bw_rounds: 0,
            full_bw_reached: false,
            phase: 0,
            phase_started: Time::ZERO,
            probe_rtt_until: None,
            probe_rtt_round_done: false,
            muted: Muted::default(),
            idle_restart: false,
            engine: Phase::Open,
            conserving: false,
            aggregation: Aggregation::new(),
            policer: Policer::new(settings.packet_bytes),
            lots: Lots::new(settings.seed),
        }
    }

    /// Bandwidth that is worked with: the policer's if one was found.
    fn bw(&self) -> f64 {
        self.policer.rate().unwrap_or_else(|| self.max_bw.get())
    }

    /// `gain` times the BDP plus what the hosts' offloading holds back.
    fn inflight(&self, bw: f64, gain: f64) -> f64 {
        self.with_quanta(self.bdp(bw, gain))
    }

    fn bdp(&self, bw: f64, gain: f64) -> f64 {
        match self.min_rtt {
            Some(rtt) => gain * bw * rtt.as_secs_f64(),
            None => self.pacing.initial_window(),
        }
    }

    /// Room for three bursts of the sending host, an even number of segments for receivers that
    /// acknowledge every other one, and two more while probing upwards.
    fn with_quanta(&self, volume: f64) -> f64 {
        let even = f64::midpoint(volume, 3.0 * self.pacing.quantum()).ceil() * 2.0;
        if self.mode == Mode::ProbeBw && self.phase == 0 {
            even + 2.0
        } else {
            even
        }
    }

    fn update_bw(&mut self, ack: &Ack, sample: &RateSample) {
        let Some(bw) = bandwidth(sample) else { return };
        self.rounds.on_sample(sample, ack.total_delivered_segments);
        if self.rounds.started {
            self.conserving = false;
        }
        let app_limited = sample.app_limited || self.muted.covers(sample);
        let in_probe_bw = self.mode == Mode::ProbeBw;
        let was_policed = self.policer.rate().is_some();
        self.policer
            .on_sample(ack, self.rounds.started, in_probe_bw, app_limited);
        if was_policed && self.policer.rate().is_none() && in_probe_bw {
            self.enter_probe_bw(ack.now);
        }
        if !app_limited || bw >= self.max_bw.get() {
            self.max_bw.update(self.rounds.count, bw);
        }
        if self.rounds.started && !app_limited && !self.full_bw_reached {
            self.check_full_pipe();
        }
    }

    fn check_full_pipe(&mut self) {
        if self.max_bw.get() >= self.full_bw * FULL_BW_GROWTH {
            self.full_bw = self.max_bw.get();
            self.full_bw_rounds = 0;
            return;
        }
        self.full_bw_rounds += 1;
        self.full_bw_reached = self.full_bw_rounds >= FULL_BW_ROUNDS;
    }

    fn enter_probe_bw(&mut self, now: Time) {
        self.mode = Mode::ProbeBw;
        // Any phase but the draining one, so that flows that start together do not probe together.
        self.phase = (CYCLE.len() - self.lots.below(CYCLE.len() as u64 - 1) as usize) % CYCLE.len();
        self.phase_started = now;
    }

    fn update_phase(&mut self, ack: &Ack) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let full_length = self
            .min_rtt
            .is_some_and(|rtt| ack.now.since(self.phase_started) > rtt);
        let in_flight = f64::from(ack.prior_in_flight_segments);
        let gain = CYCLE[self.phase];
        // With a policer the gain is 1 and the phases only count time.
        let over = if self.policer.rate().is_some() {
            full_length
        } else if gain > 1.0 {
            // A short path may not hold 1.25 BDP; then a loss ends the attempt.
            full_length
                && (ack.lost_segments > 0 || in_flight >= self.inflight(self.max_bw.get(), gain))
        } else if gain < 1.0 {
            full_length || in_flight <= self.inflight(self.max_bw.get(), 1.0)
        } else {
            full_length
        };
        if over {
            self.phase = (self.phase + 1) % CYCLE.len();
            self.phase_started = ack.now;
        }
    }

    fn check_drain(&mut self, ack: &Ack) {
        if self.mode == Mode::Startup && self.full_bw_reached {
            self.mode = Mode::Drain;
            self.ssthresh = self.inflight(self.max_bw.get(), 1.0);
        }
        if self.mode == Mode::Drain
            && f64::from(ack.in_flight_segments) <= self.inflight(self.max_bw.get(), 1.0)
        {
            self.enter_probe_bw(ack.now);
        }
    }

    fn update_min_rtt(&mut self, ack: &Ack) {
        let expired = self.min_rtt.is_some() && ack.now.since(self.min_rtt_at) > MIN_RTT_WINDOW;
        if let Some(rtt) = ack.rtt
            && (expired || self.min_rtt.is_none_or(|least| rtt < least))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = ack.now;
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.save_cwnd();
            self.mode = Mode::ProbeRtt;
            self.probe_rtt_until = None;
        }
        if self.mode == Mode::ProbeRtt {
            self.probe_rtt(ack);
        }
        if ack.delivered_segments > 0 {
            self.idle_restart = false;
        }
    }

    fn probe_rtt(&mut self, ack: &Ack) {
        self.muted
            .mark(ack.total_delivered_segments, ack.in_flight_segments);
        if self.probe_rtt_until.is_none() {
            if f64::from(ack.in_flight_segments) <= MIN_PIPE_CWND {
                self.probe_rtt_until = Some(ack.now + PROBE_RTT_TIME);
                self.probe_rtt_round_done = false;
                self.rounds.restart(ack.total_delivered_segments);
            }
            return;
        }
        self.probe_rtt_round_done |= self.rounds.started;
        if self.probe_rtt_round_done {
            self.check_probe_rtt_done(ack.now);
        }
    }

    fn check_probe_rtt_done(&mut self, now: Time) {
        if self.probe_rtt_until.is_none_or(|until| now <= until) {
            return;
        }
        self.min_rtt_at = now;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        if self.full_bw_reached {
            self.enter_probe_bw(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw if self.policer.rate().is_some() => (1.0, CWND_GAIN),
            Mode::ProbeBw => (CYCLE[self.phase], CWND_GAIN),
            Mode::ProbeRtt => (1.0, 1.0),
        };
    }

    fn save_cwnd(&mut self) {
        self.prior_cwnd = if self.engine == Phase::Open && self.mode != Mode::ProbeRtt {
            self.cwnd
        } else {
            self.prior_cwnd.max(self.cwnd)
        };
    }

    /// Packet conservation and the return to the window before; true if that decides the window.
    fn follow_recovery(&mut self, ack: &Ack, acked: f64) -> bool {
        let in_flight = f64::from(ack.in_flight_segments);
        if ack.lost_segments > 0 {
            self.cwnd = (self.cwnd - f64::from(ack.lost_segments)).max(1.0);
        }
        if ack.phase == Phase::Recovery && self.engine != Phase::Recovery {
            self.conserving = true;
            self.rounds.restart(ack.total_delivered_segments);
            self.cwnd = in_flight + acked;
        } else if ack.phase == Phase::Open && self.engine != Phase::Open {
            self.cwnd = self.cwnd.max(self.prior_cwnd);
            self.conserving = false;
        }
        self.engine = ack.phase;
        if self.conserving {
            self.cwnd = self.cwnd.max(in_flight + acked);
        }
        self.conserving
    }

    fn set_cwnd(&mut self, ack: &Ack) {
        let acked = f64::from(ack.delivered_segments);
        if acked > 0.0 && !self.follow_recovery(ack, acked) {
            let bw = self.bw();
            let mut target = self.bdp(bw, self.cwnd_gain);
            if self.full_bw_reached {
                target += self.aggregation.segments(bw);
            }
            let target = self.with_quanta(target);
            let few = (ack.total_delivered_segments as f64) < self.pacing.initial_window();
            if self.full_bw_reached {
                self.cwnd = (self.cwnd + acked).min(target);
            } else if self.cwnd < target || few {
                self.cwnd += acked;
            }
            self.cwnd = self.cwnd.max(MIN_PIPE_CWND);
        }
        if self.mode == Mode::ProbeRtt {
            self.cwnd = self.cwnd.min(MIN_PIPE_CWND);
        }
    }
}

impl CongestionControl for Bbr1 {
    fn name(&self) -> &'static str {
        "bbr1"
    }

    fn cwnd(&self) -> f64 {
        self.cwnd
    }

    fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.pacing.rate())
    }

    fn owns_recovery(&self) -> bool {
        true
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.rounds.started = false;
        self.policer.on_losses(ack.lost_segments);
        if let Some(sample) = &ack.rate {
            self.update_bw(ack, sample);
        }
        self.aggregation.on_ack(
            ack,
            self.rounds.started,
            AGGREGATION_WINDOW_ROUNDS,
            self.bw(),
            self.cwnd,
        );
        self.update_phase(ack);
        self.check_drain(ack);
        self.update_min_rtt(ack);
        self.update_gains();
        self.pacing.on_srtt(ack.srtt, HIGH_GAIN);
        self.pacing
            .set(self.bw(), self.pacing_gain, self.full_bw_reached);
        self.set_cwnd(ack);
    }

    fn on_congestion(&mut self, _: &Congestion) {
        self.save_cwnd();
    }

    fn on_timeout(&mut self, event: &Congestion) {
        self.save_cwnd();
        self.cwnd = 1.0;
        self.engine = Phase::Loss;
        self.conserving = false;
        // The path may be another: measure anew whether it is full.
        self.full_bw = 0.0;
        self.policer.on_losses(event.in_flight_segments);
    }

    fn on_undo(&mut self, _: Time) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.full_bw = 0.0;
        self.full_bw_rounds = 0;
        self.policer.forget();
    }

    fn on_restart(&mut self, now: Time, _: Span) {
        self.idle_restart = true;
        self.aggregation.restart(now);
        match self.mode {
            // The queue is empty and the rate is known: no reason to probe at once.
            Mode::ProbeBw => self.pacing.set(self.bw(), 1.0, self.full_bw_reached),
            Mode::ProbeRtt => self.check_probe_rtt_done(now),
            Mode::Startup | Mode::Drain => {}
        }
    }
}
