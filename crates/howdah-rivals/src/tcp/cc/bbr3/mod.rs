//! BBR version 3.
//!
//! draft-ietf-ccwg-bbr-04 (the pseudo-code's names are kept, snake-cased) and, where constants
//! differ, Google's Linux tree (`google/bbr`, branch v3), which is what "BBRv3" measurements ran.
//! To the two numbers of version 1 come bounds learned from loss, of two kinds:
//!
//! * long term, `inflight_hi`: the most that was in flight without losing more than 2 %
//!   of it. Learned while probing for bandwidth, raised 1, 2, 4, 8 ... segments a round in UP;
//! * short term, `bw_lo` and `inflight_lo`: what a lossy round delivered, at least 0.7 of what it
//!   was before. In force until the next probe.
//!
//! | State | pacing gain | window gain | bounds | ends |
//! | --- | --- | --- | --- | --- |
//! | STARTUP | 2.77 | 2 | | three rounds that grew by less than 25 %; or six losses and 2 % in a round of recovery |
//! | DRAIN | 1/2.885 | 2 | all | one BDP in flight |
//! | DOWN | 0.91 | 2 | all | one BDP in flight and 15 % below `inflight_hi` |
//! | CRUISE | 1 | 2 | all, 15 % below `inflight_hi` | 2-3 s or 62-63 rounds after UP |
//! | REFILL | 1 | 2 | `inflight_hi` | one round |
//! | UP | 1.25 | 2.25 | `inflight_hi` | three rounds that grew by less than 25 %, or > 2 % lost |
//! | `PROBE_RTT` | 1 | 0.5 | all, 15 % below `inflight_hi` | 200 ms and one round, every 5 s |
//!
//! The draft says 0.90 for DOWN and 0.35 for DRAIN (0.5 in later versions). ECN is not modelled:
//! no stage of a path here marks packets. The volume at which losses passed 2 % is taken from the
//! newest delivered packet of the acknowledgement that told of them, because the contract between
//! engine and algorithm speaks of acknowledgements and not of single losses.

mod bounds;
mod cycle;
#[cfg(test)]
mod tests;

use super::bbr::{
    AGGREGATION_WINDOW_ROUNDS, Aggregation, FULL_BW_GROWTH, FULL_BW_ROUNDS, Lots, MIN_PIPE_CWND,
    MIN_RTT_WINDOW, Muted, PROBE_RTT_TIME, Pacing, Rounds, bandwidth,
};
use super::filter::WindowedMax;
use super::{Ack, CcSettings, Congestion, CongestionControl, Entry, Phase, RateSample};
use bounds::Bounds;
use cycle::Cycle;
use howdah_core::{Rate, Span, Time};

/// Least gain that doubles the rate each round with a window gain of 2: 4 ln 2
/// (`StartupPacingGain`).
const STARTUP_PACING_GAIN: f64 = 2.77;
/// Linux v3 `bbr_drain_gain`.
const DRAIN_PACING_GAIN: f64 = 1.0 / 2.885;
/// Linux v3 `bbr_pacing_gain[BBR_BW_PROBE_DOWN]`; 0.90 in the draft.
const DOWN_PACING_GAIN: f64 = 0.91;
const UP_PACING_GAIN: f64 = 1.25;
/// `DefaultCwndGain`.
const CWND_GAIN: f64 = 2.0;
const UP_CWND_GAIN: f64 = 2.25;
/// `ProbeRTTCwndGain`.
const PROBE_RTT_CWND_GAIN: f64 = 0.5;
/// `ProbeRTTInterval`.
const PROBE_RTT_INTERVAL: Span = Span::from_secs(5);
/// Losing more than this share of what is in flight is too much (`LossThresh`).
const LOSS_THRESHOLD: f64 = 0.02;
/// What a lossy round leaves at least (`Beta`).
const BETA: f64 = 0.7;
/// Share of `inflight_hi` that is left free for others (`Headroom`).
const HEADROOM: f64 = 0.15;
/// Acknowledgements with losses in a round that may end STARTUP (`BBRStartupFullLossCnt`).
const STARTUP_FULL_LOSSES: u32 = 6;

/// The line of the list of algorithms.
pub const ENTRY: Entry = Entry {
    name: "bbr3",
    about: "BBR version 3: version 1 bounded by loss above 2 % (draft-ietf-ccwg-bbr-04, Google's Linux v3)",
    make: |settings| Box::new(Bbr3::new(settings)),
};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    const fn in_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// Losses are expected and say where the limit is, instead of lowering the short-term bounds.
    const fn is_probing(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }

    /// Gains for pacing and window.
    const fn gains(self) -> (f64, f64) {
        match self {
            Self::Startup => (STARTUP_PACING_GAIN, CWND_GAIN),
            Self::Drain => (DRAIN_PACING_GAIN, CWND_GAIN),
            Self::Down => (DOWN_PACING_GAIN, CWND_GAIN),
            Self::Cruise | Self::Refill => (1.0, CWND_GAIN),
            Self::Up => (UP_PACING_GAIN, UP_CWND_GAIN),
            Self::ProbeRtt => (1.0, PROBE_RTT_CWND_GAIN),
        }
    }
}

/// Whether the pipe is full: no growth in spite of trying (draft, section 5.3.1.2).
#[derive(Clone, Copy, Debug, Default)]
struct FullPipe {
    bw: f64,
    rounds: u32,
    /// In the present attempt.
    now: bool,
    /// Ever.
    reached: bool,
}

impl FullPipe {
    /// Begins another attempt from this bandwidth.
    fn restart(&mut self, bw: f64) {
        self.bw = bw;
        self.rounds = 0;
        self.now = false;
    }

    fn on_sample(&mut self, bw: f64, round_started: bool) {
        if self.now {
            return;
        }
        if bw >= self.bw * FULL_BW_GROWTH {
            self.restart(bw);
            return;
        }
        if round_started {
            self.rounds += 1;
            self.now = self.rounds >= FULL_BW_ROUNDS;
            self.reached |= self.now;
        }
    }
}

/// The least round-trip time, in two windows: one that asks for a `PROBE_RTT` after five seconds
/// and one that forgets after ten (draft, section 5.3.4.3).
#[derive(Clone, Copy, Debug, Default)]
struct MinRtt {
    value: Option<Span>,
    at: Time,
    probed: Option<Span>,
    probed_at: Time,
    /// Nothing as low was seen for five seconds.
    expired: bool,
}

impl MinRtt {
    fn on_ack(&mut self, now: Time, rtt: Option<Span>) {
        self.expired = self.probed.is_some() && now.since(self.probed_at) > PROBE_RTT_INTERVAL;
        if let Some(rtt) = rtt
            && (self.expired || self.probed.is_none_or(|least| rtt < least))
        {
            self.probed = Some(rtt);
            self.probed_at = now;
        }
        let old = now.since(self.at) > MIN_RTT_WINDOW;
        if let Some(probed) = self.probed
            && (old || self.value.is_none_or(|least| probed < least))
        {
            self.value = Some(probed);
            self.at = self.probed_at;
        }
    }
}

/// BBR version 3: see the module.
#[derive(Clone, Debug)]
pub struct Bbr3 {
    state: State,
    cwnd: f64,
    /// Infinite in STARTUP; from then on one BDP, so that the engine does not take the algorithm
    /// for one in slow start (Linux sets it for the same reason).
    ssthresh: f64,
    /// The window before a recovery or `PROBE_RTT`, to return to.
    prior_cwnd: f64,
    pacing: Pacing,
    rounds: Rounds,
    /// Over two probing cycles: this one and the one before.
    max_bw: WindowedMax<2>,
    min_rtt: MinRtt,
    full_pipe: FullPipe,
    bounds: Bounds,
    cycle: Cycle,
    /// Acknowledgements with losses in this round.
    loss_events: u32,
    /// When `PROBE_RTT` may end; set when the low window has been reached.
    probe_rtt_until: Option<Time>,
    probe_rtt_round_done: bool,
    muted: Muted,
    idle_restart: bool,
    /// What the engine did at the last acknowledgement.
    engine: Phase,
    aggregation: Aggregation,
    lots: Lots,
}

impl Bbr3 {
    /// A new connection's.
    pub fn new(settings: &CcSettings) -> Self {
        let pacing = Pacing::new(settings, STARTUP_PACING_GAIN);
        Self {
            state: State::Startup,
            cwnd: pacing.initial_window(),
            ssthresh: f64::INFINITY,
            prior_cwnd: 0.0,
            pacing,
            rounds: Rounds::default(),
            max_bw: WindowedMax::new(),
            min_rtt: MinRtt::default(),
            full_pipe: FullPipe::default(),
            bounds: Bounds::default(),
            cycle: Cycle::default(),
            loss_events: 0,
            probe_rtt_until: None,
            probe_rtt_round_done: false,
            muted: Muted::default(),
            idle_restart: false,
            engine: Phase::Open,
            aggregation: Aggregation::new(),
            lots: Lots::new(settings.seed),
        }
    }

    /// Bandwidth that is worked with, in segments per second.
    fn bw(&self) -> f64 {
        self.max_bw.get().min(self.bounds.bw_lo)
    }

    fn bdp(&self, bw: f64, gain: f64) -> f64 {
        match self.min_rtt.value {
            Some(rtt) => gain * bw * rtt.as_secs_f64(),
            None => self.pacing.initial_window(),
        }
    }

    /// Room for what the hosts' offloading holds back (`BBRQuantizationBudget`).
    fn with_quanta(&self, volume: f64) -> f64 {
        let budget = volume.max(3.0 * self.pacing.quantum()).max(MIN_PIPE_CWND);
        if self.state == State::Up {
            budget + 2.0
        } else {
            budget
        }
    }

    /// `BBRInflight` at the largest bandwidth.
    fn inflight(&self, gain: f64) -> f64 {
        self.with_quanta(self.bdp(self.max_bw.get(), gain))
    }

    /// The estimated BDP, unless congestion cut the window below it (`BBRTargetInflight`).
    fn target_inflight(&self) -> f64 {
        self.bdp(self.bw(), 1.0).min(self.cwnd)
    }

    fn probe_rtt_cwnd(&self) -> f64 {
        self.bdp(self.bw(), PROBE_RTT_CWND_GAIN).max(MIN_PIPE_CWND)
    }

    /// The part of the model that samples feed.
    fn on_sample(&mut self, ack: &Ack, sample: &RateSample) {
        let Some(bw) = bandwidth(sample) else { return };
        let app_limited = sample.app_limited || self.muted.covers(sample);
        if ack.lost_segments > 0 {
            self.on_losses(ack, sample, app_limited);
        }
        self.rounds.on_sample(sample, ack.total_delivered_segments);
        self.cycle.rounds_since_probe += u64::from(self.rounds.started);
        let loss_round = self.bounds.on_sample(sample, bw, ack);
        if bw >= self.max_bw.get() || !app_limited {
            self.max_bw.update(self.cycle.count, bw);
        }
        if loss_round {
            if !self.state.is_probing() {
                self.bounds.adapt(self.max_bw.get(), self.cwnd);
            }
            self.bounds.loss_in_round = false;
        }
        self.aggregate(ack);
        if loss_round {
            self.check_startup_losses(ack, sample);
            self.loss_events = 0;
        }
        if !app_limited {
            self.full_pipe.on_sample(bw, self.rounds.started);
        }
        self.check_drain(ack);
        self.update_cycle(ack, sample, bw, app_limited);
        if loss_round {
            self.bounds.advance(sample, bw);
        }
    }

    fn aggregate(&mut self, ack: &Ack) {
        let rounds = if self.full_pipe.reached {
            AGGREGATION_WINDOW_ROUNDS
        } else {
            1
        };
        self.aggregation
            .on_ack(ack, self.rounds.started, rounds, self.bw(), self.cwnd);
    }

    /// Losses were concluded on this acknowledgement (`BBRHandleLostPacket`).
    fn on_losses(&mut self, ack: &Ack, sample: &RateSample, app_limited: bool) {
        self.loss_events += 1;
        self.bounds.note_loss(ack.total_delivered_segments);
        if self.cycle.probe_samples && too_high(sample) {
            self.cycle.probe_samples = false;
            self.cycle.prev_probe_too_high = true;
            if !app_limited {
                let sent = f64::from(sample.in_flight_when_sent_segments);
                self.bounds.inflight_hi = sent.max(self.target_inflight() * BETA);
            }
            if self.state == State::Up {
                self.start_down(ack);
            }
        }
    }

    /// A pipe may be full and its buffer so short that losses tell before the rate does.
    fn check_startup_losses(&mut self, ack: &Ack, sample: &RateSample) {
        if self.full_pipe.reached
            || ack.phase != Phase::Recovery
            || self.loss_events < STARTUP_FULL_LOSSES
            || !too_high(sample)
        {
            return;
        }
        self.full_pipe.reached = true;
        self.bounds.inflight_hi = self.inflight(1.0).max(self.bounds.inflight_latest);
    }

    fn check_drain(&mut self, ack: &Ack) {
        if self.state == State::Startup && self.full_pipe.reached {
            self.state = State::Drain;
            self.ssthresh = self.inflight(1.0);
            self.bounds.reset_signals();
        }
        if self.state == State::Drain && f64::from(ack.in_flight_segments) <= self.inflight(1.0) {
            self.start_down(ack);
        }
    }

    fn update_probe_rtt(&mut self, ack: &Ack) {
        self.min_rtt.on_ack(ack.now, ack.rtt);
        if self.state != State::ProbeRtt && self.min_rtt.expired && !self.idle_restart {
            self.save_cwnd();
            self.state = State::ProbeRtt;
            self.probe_rtt_until = None;
            self.cycle.stop();
            self.rounds.restart(ack.total_delivered_segments);
        }
        if self.state == State::ProbeRtt {
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
            if f64::from(ack.in_flight_segments) <= self.probe_rtt_cwnd() {
                self.probe_rtt_until = Some(ack.now + PROBE_RTT_TIME);
                self.probe_rtt_round_done = false;
                self.rounds.restart(ack.total_delivered_segments);
            }
            return;
        }
        self.probe_rtt_round_done |= self.rounds.started;
        if self.probe_rtt_round_done {
            self.check_probe_rtt_done(ack.now, ack.total_delivered_segments);
        }
    }

    fn check_probe_rtt_done(&mut self, now: Time, total_delivered: u64) {
        if self.probe_rtt_until.is_none_or(|until| now <= until) {
            return;
        }
        self.min_rtt.probed_at = now;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.bounds.forget_short_term();
        if self.full_pipe.reached {
            // The queue is empty already: what DOWN is for has been done.
            self.begin_cycle(now, total_delivered);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }

    fn save_cwnd(&mut self) {
        self.prior_cwnd = if self.engine == Phase::Open && self.state != State::ProbeRtt {
            self.cwnd
        } else {
            self.prior_cwnd.max(self.cwnd)
        };
    }

    fn set_cwnd(&mut self, ack: &Ack) {
        if ack.phase == Phase::Open && self.engine != Phase::Open {
            self.cwnd = self.cwnd.max(self.prior_cwnd);
        }
        self.engine = ack.phase;
        let acked = f64::from(ack.delivered_segments);
        let bw = self.bw();
        let volume = self.bdp(bw, self.state.gains().1) + self.aggregation.segments(bw);
        let target = self.with_quanta(volume);
        let few = (ack.total_delivered_segments as f64) < self.pacing.initial_window();
        if self.full_pipe.reached {
            self.cwnd = (self.cwnd + acked).min(target);
        } else if self.cwnd < target || few {
            self.cwnd += acked;
        }
        self.cwnd = self.cwnd.max(MIN_PIPE_CWND);
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        self.cwnd = self.cwnd.min(self.volume_cap());
    }

    /// `BBRBoundCwndForModel`.
    fn volume_cap(&self) -> f64 {
        let hi = match self.state {
            State::Down | State::Refill | State::Up => self.bounds.inflight_hi,
            State::Cruise | State::ProbeRtt => self.bounds.inflight_with_headroom(),
            State::Startup | State::Drain => f64::INFINITY,
        };
        hi.min(self.bounds.inflight_lo).max(MIN_PIPE_CWND)
    }
}

/// More was lost than a path without congestion loses (`IsInflightTooHigh`).
fn too_high(sample: &RateSample) -> bool {
    f64::from(sample.lost_segments)
        > f64::from(sample.in_flight_when_sent_segments) * LOSS_THRESHOLD
}

impl CongestionControl for Bbr3 {
    fn name(&self) -> &'static str {
        "bbr3"
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
        if let Some(sample) = &ack.rate {
            self.on_sample(ack, sample);
        }
        self.update_probe_rtt(ack);
        self.pacing.on_srtt(ack.srtt, STARTUP_PACING_GAIN);
        let (pacing_gain, _) = self.state.gains();
        self.pacing
            .set(self.bw(), pacing_gain, self.full_pipe.reached);
        self.set_cwnd(ack);
    }

    fn on_congestion(&mut self, _: &Congestion) {
        self.save_cwnd();
    }

    fn on_timeout(&mut self, _: &Congestion) {
        self.save_cwnd();
        if !self.state.is_probing() && self.bounds.inflight_lo.is_infinite() {
            self.bounds.inflight_lo = self.prior_cwnd;
        }
        self.cwnd = 1.0;
        self.engine = Phase::Loss;
        // The path may be another: measure anew whether it is full.
        self.full_pipe.restart(0.0);
    }

    fn on_undo(&mut self, _: Time) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.full_pipe.restart(0.0);
        self.bounds.loss_in_round = false;
        self.bounds.undo();
    }

    fn on_restart(&mut self, now: Time, _: Span) {
        self.idle_restart = true;
        self.aggregation.restart(now);
        if self.state.in_probe_bw() {
            // The queue is empty and the rate is known: no reason to probe at once.
            self.pacing.set(self.bw(), 1.0, self.full_pipe.reached);
        } else if self.state == State::ProbeRtt {
            let delivered = self.rounds.next_delivered();
            self.check_probe_rtt_done(now, delivered);
        }
    }
}
