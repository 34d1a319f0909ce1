//! The probing cycle: DOWN, CRUISE, REFILL, UP (draft-ietf-ccwg-bbr-04, sections 5.3.3.5 and
//! 5.3.3.6).

use super::super::{Ack, RateSample};
use super::{Bbr3, State, too_high};
use howdah_core::{Span, Time};

/// Least time between probes (Linux v3 `bbr_bw_probe_base_us`) ...
const PROBE_WAIT: Span = Span::from_secs(2);
/// ... and what is added at random, so that flows do not probe together (`bbr_bw_probe_rand_us`).
const PROBE_WAIT_RANDOM_S: f64 = 1.0;
/// Most rounds between probes: as long as Reno needs to regain 25 Mbit/s at 30 ms
/// (`bbr_bw_probe_max_rounds`).
const PROBE_ROUNDS: f64 = 63.0;
/// Doublings of the growth in UP at most.
const MAX_UP_ROUNDS: u32 = 30;

/// What the acknowledgements that arrive now tell about.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum AckPhase {
    #[default]
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// State of the probing cycle.
#[derive(Clone, Debug)]
pub(super) struct Cycle {
    /// Cycles so far: the clock of the bandwidth filter.
    pub(super) count: u64,
    pub(super) rounds_since_probe: u64,
    /// Acknowledgements of packets sent while probing are expected, and none of them has told of
    /// too much loss yet (`bw_probe_samples`).
    pub(super) probe_samples: bool,
    pub(super) prev_probe_too_high: bool,
    /// UP was cut short as a precaution and may be resumed if all goes well.
    stopped_risky_probe: bool,
    ack_phase: AckPhase,
    wait: Span,
    started: Time,
    up_rounds: u32,
    up_acked: f64,
    /// Delivered segments per segment by which `inflight_hi` grows.
    up_count: f64,
}

impl Default for Cycle {
    fn default() -> Self {
        Self {
            count: 0,
            rounds_since_probe: 0,
            probe_samples: false,
            prev_probe_too_high: false,
            stopped_risky_probe: false,
            ack_phase: AckPhase::Init,
            wait: PROBE_WAIT,
            started: Time::ZERO,
            up_rounds: 0,
            up_acked: 0.0,
            up_count: f64::INFINITY,
        }
    }
}

impl Cycle {
    /// Probing ends; the samples of the last round of it are still to come.
    pub(super) fn stop(&mut self) {
        self.up_count = f64::INFINITY;
        self.ack_phase = AckPhase::ProbeStopping;
    }

    #[cfg(test)]
    pub(super) const fn probe_wait(&self) -> Span {
        self.wait
    }
}

impl Bbr3 {
    /// The clocks and marks that DOWN begins with.
    pub(super) fn begin_cycle(&mut self, now: Time, total_delivered: u64) {
        self.bounds.reset_signals();
        self.cycle.stop();
        self.cycle.rounds_since_probe = self.lots.below(2);
        self.cycle.wait = PROBE_WAIT + Span::from_secs_f64(PROBE_WAIT_RANDOM_S * self.lots.unit());
        self.cycle.started = now;
        self.rounds.restart(total_delivered);
    }

    pub(super) fn start_down(&mut self, ack: &Ack) {
        self.begin_cycle(ack.now, ack.total_delivered_segments);
        self.state = State::Down;
    }

    fn start_refill(&mut self, ack: &Ack, up_rounds: u32) {
        self.bounds.forget_short_term();
        self.cycle.up_rounds = up_rounds;
        self.cycle.up_acked = 0.0;
        self.cycle.stopped_risky_probe = false;
        self.cycle.ack_phase = AckPhase::Refilling;
        self.rounds.restart(ack.total_delivered_segments);
        self.state = State::Refill;
    }

    fn start_up(&mut self, ack: &Ack, bw: f64) {
        self.cycle.probe_samples = true;
        self.cycle.ack_phase = AckPhase::ProbeStarting;
        self.rounds.restart(ack.total_delivered_segments);
        self.full_pipe.restart(bw);
        self.state = State::Up;
        self.raise_slope();
    }

    #[cfg(test)]
    pub(super) fn start_up_for_tests(&mut self) {
        self.cycle.up_rounds = 0;
        self.start_up(&Ack::default(), 0.0);
    }

    /// `BBRRaiseInflightLongtermSlope`.
    fn raise_slope(&mut self) {
        let growth = 2f64.powi(self.cycle.up_rounds as i32);
        self.cycle.up_rounds = (self.cycle.up_rounds + 1).min(MAX_UP_ROUNDS);
        self.cycle.up_count = (self.cwnd / growth).max(1.0);
    }

    /// Advances the cycle (`BBRUpdateProbeBWCyclePhase`).
    pub(super) fn update_cycle(
        &mut self,
        ack: &Ack,
        sample: &RateSample,
        bw: f64,
        app_limited: bool,
    ) {
        if !self.full_pipe.reached {
            return;
        }
        if self.adapt_long_term(ack, sample, app_limited) {
            return;
        }
        let in_flight = f64::from(ack.prior_in_flight_segments);
        match self.state {
            State::Down | State::Cruise if self.is_time_to_probe(ack.now) => {
                self.start_refill(ack, 0);
            }
            State::Down
                if in_flight <= self.bounds.inflight_with_headroom()
                    && in_flight <= self.inflight(1.0) =>
            {
                self.state = State::Cruise;
            }
            State::Refill if self.rounds.started => self.start_up(ack, bw),
            State::Up => self.check_up_done(ack, in_flight, bw),
            _ => {}
        }
    }

    /// Follows what is learned about `inflight_hi`; true if another probe begins at once.
    fn adapt_long_term(&mut self, ack: &Ack, sample: &RateSample, app_limited: bool) -> bool {
        if self.cycle.ack_phase == AckPhase::ProbeStarting && self.rounds.started {
            self.cycle.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.cycle.ack_phase == AckPhase::ProbeStopping && self.rounds.started {
            self.cycle.probe_samples = false;
            self.cycle.ack_phase = AckPhase::Init;
            if self.state.in_probe_bw() && !app_limited {
                self.cycle.count += 1;
            }
            // The last probe stopped at the volume where the one before had lost too much; this
            // time nothing was lost there, so there is more to find.
            if self.state.in_probe_bw()
                && self.cycle.stopped_risky_probe
                && !self.cycle.prev_probe_too_high
            {
                self.start_refill(ack, 0);
                return true;
            }
        }
        if too_high(sample) || self.bounds.inflight_hi.is_infinite() {
            return false;
        }
        let sent = f64::from(sample.in_flight_when_sent_segments);
        self.bounds.inflight_hi = self.bounds.inflight_hi.max(sent);
        if self.state == State::Up {
            self.probe_upward(ack);
        }
        false
    }

    /// `BBRProbeInflightLongtermUpward`.
    pub(super) fn probe_upward(&mut self, ack: &Ack) {
        if !ack.cwnd_limited || self.cwnd < self.bounds.inflight_hi {
            return;
        }
        self.cycle.up_acked += f64::from(ack.delivered_segments);
        if self.cycle.up_acked >= self.cycle.up_count {
            let delta = (self.cycle.up_acked / self.cycle.up_count).floor();
            self.cycle.up_acked -= delta * self.cycle.up_count;
            self.bounds.inflight_hi += delta;
        }
        if self.rounds.started {
            self.raise_slope();
        }
    }

    /// `BBRIsTimeToProbeBW`.
    fn is_time_to_probe(&self, now: Time) -> bool {
        now.since(self.cycle.started) > self.cycle.wait
            || self.cycle.rounds_since_probe as f64 >= self.target_inflight().min(PROBE_ROUNDS)
    }

    /// `BBRIsTimeToGoDown`, with the precaution of Linux v3: where the last probe lost too much,
    /// this one stops before it does.
    fn check_up_done(&mut self, ack: &Ack, in_flight: f64, bw: f64) {
        if self.cycle.prev_probe_too_high && in_flight >= self.bounds.inflight_hi {
            self.cycle.stopped_risky_probe = true;
        } else if ack.cwnd_limited && self.cwnd >= self.bounds.inflight_hi {
            // The bound, and not the path, held the rate back.
            self.full_pipe.restart(bw);
            return;
        } else if !self.full_pipe.now {
            return;
        }
        self.cycle.prev_probe_too_high = false;
        self.start_down(ack);
    }
}
