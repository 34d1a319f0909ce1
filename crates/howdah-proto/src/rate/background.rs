//! The `background` policy: take what nobody else wants.
//!
//! * As `fair`, it measures what arrives and steers the rate so that the queue stays at a target; but the
//!   target is well below the one of `fair`, so it sees too much queue long before `fair` or a TCP that fills the queue
//!   does, and it corrects all of the error in one round trip.
//! * A queue that stays above the target although this flow has answered it is others' queue. Then this flow
//!   halves its rate each round trip until the queue is gone, down to `RATE_MIN` (RFC 6817 and LEDBAT++,
//!   draft-irtf-iccrg-ledbat-plus-plus, do it by at most half a window per round trip, too). It comes back when the queue
//!   has been short for a while.
//! * The delay base looks back a minute, so that a queue that never empties is not soon taken for the path, and this
//!   flow empties its own queue now and then.
//! * Loss that is a queue's (`overflow`), or above what is lost when the queue is short, halves the rate at once.

use super::history::{History, Sample};
use super::marks::{Marks, Weight};
use super::noise::Noise;
use super::overflow::LossByDelay;
use super::{Feedback, Measured, Phase, Share};
use crate::rtt::WindowedMin;
use howdah_core::num::floor_to_u64;
use howdah_core::{Rate, Span, Time};

/// Rate before anything is known.
const INITIAL_RATE: Rate = Rate::from_mbit_per_sec(4);
/// Enough packets to see when the path is free again.
const RATE_MIN: Rate = Rate::from_bits_per_sec(250_000);
/// Queue target at `TARGET_AT_RATE`, falling with the square root of the rate as that of `fair` does; a third of it.
const TARGET: Span = Span::from_micros(1_700);
const TARGET_AT_RATE: f64 = 2.5e9;
const TARGET_MIN: Span = Span::from_micros(800);
const TARGET_MAX: Span = Span::from_millis(4);
/// ... and no more than this share of a queue that was seen to overflow, but what hosts can tell.
const TARGET_SHARE: f64 = 0.25;
const TARGET_LEAST: Span = Span::from_micros(200);
/// Start-up doubles the rate per round trip and ends at this share of the target (LEDBAT++).
const STARTUP_SHARE: f64 = 0.75;
const STARTUP_GROWTH: f64 = 2.0;
/// ... or when less than this share of what is sent arrives.
const STARTUP_FOLLOWS: f64 = 0.75;
/// Gain of the queue controller: all of the error in one round trip.
const K: f64 = 1.0;
const HORIZON_MIN: Span = Span::from_millis(25);
const STEER_MIN: f64 = 0.5;
const STEER_MAX: f64 = 1.05;
/// Growth per round trip while no queue is seen, doubled each time that the delivery follows.
const PROBE_FIRST: f64 = 0.04;
const PROBE_LEAST: f64 = 0.005;
const PROBE_MAX: f64 = 0.5;
/// Where delays vary, a probe is so many times what they may change a sample by, up to this.
const PROBE_NOISE: f64 = 1.0;
const PROBE_NOISY_MAX: f64 = 0.1;
/// A queue above this many targets ...
const OTHERS: f64 = 1.25;
/// ... for so many round trips, and so long, is others'.
const OTHERS_RTTS: u64 = 3;
const OTHERS_LEAST: Span = Span::from_millis(150);
/// What is left of the rate then, per round trip.
const YIELD: f64 = 0.5;
/// Steps of yielding are at least so far apart.
const YIELD_EVERY: Span = Span::from_millis(50);
/// The queue must have been short for so long before the rate comes back, by that factor per round trip.
const CALM: Span = Span::from_secs(1);
const RETURN: f64 = 1.5;
/// From this share of the rate that a queue overflowed at, it comes back in steps of a quarter of that queue.
const CAREFUL: f64 = 0.7;
/// One that fell below this share of the rate of before (or `INITIAL_RATE`) starts again.
const RESTART: f64 = 0.125;
/// Loss above `1.5 x floor + LOSS_SLACK` is congestion.
const LOSS_SLACK: f64 = 0.02;
const LOSS_PACKETS: u64 = 200;
const LOSS_BLOCK_PACKETS: u64 = 2_000;
const LOSS_FLOOR_WINDOW: Span = Span::from_secs(10);
const BASE_WINDOW: Span = Span::from_secs(60);
const DRAIN_EVERY: Span = Span::from_secs(10);
const DRAIN_RATE: f64 = 0.75;
const DRAIN_MAX: Span = Span::from_millis(200);
const SAMPLE_MIN: Span = Span::from_millis(40);
const SAMPLE_MAX: Span = Span::from_millis(200);
/// Slow flows have few packets.
const SAMPLE_PACKETS: u64 = 4;
const WINDOW_SLACK: Span = Span::from_millis(40);

/// What it is doing, with what only that has to know.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Doubles its rate, which began with this.
    Startup { first: Rate },
    /// Holds the queue at its target, since then without a drain.
    Cruise { since: Time },
    /// Lets its own queue run empty until then.
    Drain { until: Time },
}

impl Stage {
    fn phase(self) -> Phase {
        match self {
            Self::Startup { .. } => Phase::Startup,
            Self::Cruise { .. } => Phase::Cruise,
            Self::Drain { .. } => Phase::Drain,
        }
    }
}

#[derive(Debug)]
pub(super) struct Background {
    stage: Stage,
    history: History,
    capacity: Rate,
    rate: Rate,
    /// While others use the path: no faster than that.
    ceiling: Option<Rate>,
    /// The rate when others came.
    before: Rate,
    base_rtt: Span,
    base_owd: WindowedMin,
    recent_owd: WindowedMin,
    noise: Noise,
    queue: Span,
    /// Since when the queue has been above its target.
    over_since: Option<Time>,
    /// Since when it has not.
    calm_since: Time,
    next_yield: Time,
    next_return: Time,
    /// When loss was answered last.
    congested_at: Time,
    loss_by_delay: LossByDelay,
    /// How long the queue was, in nanoseconds, where it overflowed.
    full: WindowedMin,
    marks: Marks,
    loss_floor: WindowedMin,
    loss_block: (u64, u64),
    last: Option<Sample>,
    probe: f64,
    probe_base: Rate,
    next_step: Time,
}

impl Background {
    pub(super) fn new() -> Self {
        Self {
            stage: Stage::Startup {
                first: INITIAL_RATE,
            },
            history: History::default(),
            capacity: Rate::ZERO,
            rate: INITIAL_RATE,
            ceiling: None,
            before: Rate::ZERO,
            base_rtt: Span::from_millis(100),
            base_owd: WindowedMin::new(BASE_WINDOW),
            recent_owd: WindowedMin::new(Span::from_millis(30)),
            noise: Noise::default(),
            queue: Span::ZERO,
            over_since: None,
            calm_since: Time::ZERO,
            next_yield: Time::ZERO,
            next_return: Time::ZERO,
            congested_at: Time::ZERO,
            loss_by_delay: LossByDelay::default(),
            full: WindowedMin::new(BASE_WINDOW),
            marks: Marks::new(Weight::Least, Share::WHOLE),
            loss_floor: WindowedMin::new(LOSS_FLOOR_WINDOW),
            loss_block: (0, 0),
            last: None,
            probe: PROBE_FIRST,
            probe_base: Rate::ZERO,
            next_step: Time::ZERO,
        }
    }

    pub(super) fn on_established(&mut self, rtt: Span) {
        self.base_rtt = rtt;
    }

    pub(super) fn measured(&self) -> Measured {
        Measured {
            phase: self.stage.phase(),
            capacity: self.capacity,
            queue_delay: self.queue,
            sample: self.last,
        }
    }

    pub(super) fn pacing_rate(&self) -> Rate {
        self.rate
    }

    pub(super) fn window_bytes(&self) -> u64 {
        let rate = self.capacity.max(self.rate);
        let window = rate.bytes_in(self.base_rtt * 2 + self.target() + WINDOW_SLACK);
        window.max(1 << 16)
    }

    pub(super) fn on_blackout(&mut self) {
        self.history.clear();
        self.capacity = self.capacity.mul_f64(0.5);
        self.rate = self.rate.mul_f64(0.5).max(RATE_MIN);
        self.recent_owd.clear();
        self.loss_by_delay.clear();
    }

    fn target(&self) -> Span {
        let rate = self.capacity.as_f64().max(1.0);
        let full = self.full.min().map_or(Span::MAX, |full| {
            Span::from_nanos(full)
                .mul_f64(TARGET_SHARE)
                .max(TARGET_LEAST)
        });
        TARGET
            .mul_f64((TARGET_AT_RATE / rate).sqrt())
            .clamp(TARGET_MIN, TARGET_MAX)
            .min(full)
    }

    pub(super) fn on_feedback(&mut self, feedback: &Feedback<'_>) {
        self.base_rtt = feedback.min_rtt;
        self.history.push(feedback.point);
        self.measure_queue(feedback);
        let window = self.base_rtt.max(SAMPLE_MIN).min(SAMPLE_MAX);
        let Some(sample) = self.history.sample(window, SAMPLE_PACKETS) else {
            return;
        };
        self.last = Some(sample);
        self.measure_loss_floor(feedback, &sample);
        let answers = !matches!(self.stage, Stage::Startup { .. });
        self.marks.heed(feedback, self.queue, self.rate, answers);
        match self.stage {
            Stage::Startup { first } => self.startup(feedback, &sample, first),
            Stage::Cruise { .. } | Stage::Drain { .. } => self.cruise(feedback, &sample),
        }
        let limit = feedback.limit().unwrap_or(Rate::MAX);
        self.rate = self.rate.min(limit);
    }

    fn measure_queue(&mut self, feedback: &Feedback<'_>) {
        if feedback.rtt.is_none() {
            return;
        }
        let (now, point) = (feedback.now, &feedback.point);
        let owd = point.one_way_delay();
        self.base_owd.push(now, owd);
        self.recent_owd.push(now, owd);
        let base = self.base_owd.min().unwrap_or(owd);
        let recent = self.recent_owd.min().unwrap_or(owd);
        self.noise.on_delay(owd);
        self.queue = Span::from_nanos(recent - base).saturating_sub(self.noise.allowance());
        if feedback.host_drops {
            // A host that stalls delays and drops; which of the losses were its own nobody tells.
            self.loss_by_delay.clear();
        }
        self.loss_by_delay.on_report(
            now,
            point.sent_time,
            Span::from_nanos(owd - base.min(owd)),
            point.acked_packets + point.lost_packets,
            feedback.lost_sent_at,
        );
        if let Some(overflow) = self.loss_by_delay.overflow()
            && overflow.now
        {
            self.full.push(now, overflow.limit.as_nanos());
        }
        if self.queue <= self.target() {
            self.over_since = None;
        } else if self.queue > self.target().mul_f64(OTHERS) {
            self.over_since.get_or_insert(now);
        }
        if self.queue > self.target() {
            self.calm_since = now;
        }
    }

    fn measure_loss_floor(&mut self, feedback: &Feedback<'_>, sample: &Sample) {
        let point = &feedback.point;
        let (acked, lost) = self.loss_block;
        let packets = (point.acked_packets + point.lost_packets).saturating_sub(acked + lost);
        let lost_here = point.lost_packets.saturating_sub(lost);
        if packets >= LOSS_BLOCK_PACKETS.max(sample.packets) || lost_here >= 40 {
            if self.queue < self.target() / 2 {
                let loss = lost_here as f64 / packets.max(1) as f64;
                self.loss_floor
                    .push(feedback.now, floor_to_u64(loss.min(0.25) * 1e9));
            }
            self.loss_block = (point.acked_packets, point.lost_packets);
        }
    }

    /// Loss that this flow answers, and the loss that it takes for chance.
    fn judge_loss(&self, now: Time) -> (bool, f64) {
        let floor = self.loss_floor.min().map_or(0.0, |ppb| ppb as f64 / 1e9);
        let threshold = floor * 1.5 + LOSS_SLACK;
        let window = self.base_rtt.max(SAMPLE_MIN);
        let lossy = self.history.sample(window, LOSS_PACKETS);
        let much = lossy.is_some_and(|l| {
            // A slow flow has few packets: it must not answer one bad moment again and again.
            let fresh = l.span + self.base_rtt < now.since(self.congested_at);
            l.packets >= LOSS_PACKETS && l.loss > threshold && fresh
        });
        let overflow = self.loss_by_delay.overflow().is_some_and(|o| o.now);
        (much || overflow, threshold)
    }

    fn startup(&mut self, feedback: &Feedback<'_>, sample: &Sample, first: Rate) {
        let now = feedback.now;
        let delivered = sample.delivery_rate;
        let trusted = sample.whole && sample.packets >= 16 && !sample.app_limited;
        let behind = delivered.as_f64() < STARTUP_FOLLOWS * sample.send_rate.as_f64();
        let (lossy, threshold) = self.judge_loss(now);
        let queued = self.queue > self.target().mul_f64(STARTUP_SHARE);
        let bound = feedback
            .limit()
            .is_some_and(|limit| delivered.as_f64() > 0.85 * limit.as_f64());
        if trusted && (queued || lossy || behind || bound || feedback.socket_drops > 0) {
            self.stage = Stage::Cruise { since: now };
            self.congested_at = now;
            self.capacity = delivered.mul_f64(1.0 / (1.0 - sample.loss.min(threshold)));
            self.rate = self.capacity.mul_f64(0.9).max(RATE_MIN);
            self.next_step = now + feedback.smoothed_rtt * 2;
            return;
        }
        self.capacity = self.capacity.max(delivered);
        if now >= self.next_step && !sample.app_limited {
            // Growth is checked: twice what has arrived.
            let wanted = delivered.mul_f64(STARTUP_GROWTH).max(first);
            self.rate = self.rate.max(wanted);
            self.next_step = now + feedback.smoothed_rtt;
        }
    }

    fn cruise(&mut self, feedback: &Feedback<'_>, sample: &Sample) {
        let now = feedback.now;
        let (lossy, threshold) = self.judge_loss(now);
        let congested = lossy || feedback.socket_drops > 0;
        let bound = feedback.limit().is_some_and(|limit| limit <= self.rate);
        let idle = sample.app_limited || bound;
        let arrived = sample
            .delivery_rate
            .mul_f64(1.0 / (1.0 - sample.loss.min(threshold)));
        let full = !idle && (congested || self.queue > self.target() / 2);
        if full || arrived > self.capacity {
            self.capacity = arrived;
        }
        let horizon = self.base_rtt.max(HORIZON_MIN);
        let error = self.target().as_secs_f64() - self.queue.as_secs_f64();
        let mut steer = (1.0 + K * error / horizon.as_secs_f64()).clamp(STEER_MIN, STEER_MAX);
        if congested || self.queue > self.target() / 2 || idle {
            self.probe = self.first_probe();
            self.probe_base = sample.delivery_rate;
            self.next_step = self.next_step.max(now + feedback.smoothed_rtt);
        } else {
            self.probe_up(feedback, sample);
            steer = steer.max(1.0 + self.probe);
        }
        self.rate = self.capacity.mul_f64(steer).max(RATE_MIN);
        self.give_way(feedback, congested);
        if let Some(ceiling) = self.ceiling {
            self.rate = self.rate.min(ceiling);
        }
        if let Some(ceiling) = self.marks.ceiling() {
            self.rate = self.rate.min(ceiling).max(RATE_MIN);
        }
        self.drain(feedback);
    }

    /// Lowers the ceiling while others use the path, and lifts it when they are gone.
    fn give_way(&mut self, feedback: &Feedback<'_>, congested: bool) {
        let now = feedback.now;
        let rtt = feedback.smoothed_rtt;
        let patience = (rtt * OTHERS_RTTS).max(OTHERS_LEAST);
        let others = self
            .over_since
            .is_some_and(|since| now.since(since) >= patience);
        if (others || congested) && now >= self.next_yield {
            if self.ceiling.is_none() {
                self.before = self.rate;
            }
            let from = self.ceiling.unwrap_or(self.rate).min(self.rate);
            self.ceiling = Some(from.mul_f64(YIELD).max(RATE_MIN));
            // What loss tells is a round trip and a sample old.
            let rest = if congested { rtt * 2 } else { rtt };
            self.next_yield = now + rest.max(YIELD_EVERY);
            self.next_return = now + rtt * 2 + SAMPLE_MIN;
            if congested {
                self.calm_since = now;
                self.congested_at = now;
                self.before = self.before.min(self.capacity.max(INITIAL_RATE));
            }
            return;
        }
        let calm = now.since(self.calm_since) >= CALM.max(rtt * 2);
        if let Some(ceiling) = self.ceiling
            && calm
            && now >= self.next_return
        {
            self.next_return = now + rtt.max(YIELD_EVERY);
            let first = self.before.mul_f64(RESTART).clamp(RATE_MIN, INITIAL_RATE);
            if ceiling < first {
                self.start_again(now, rtt, first);
                return;
            }
            let higher = self.raised(ceiling);
            // Far above what is sent it has nothing to say any more.
            self.ceiling =
                (higher < self.capacity.mul_f64(8.0) || higher < INITIAL_RATE).then_some(higher);
        }
    }

    /// The ceiling after another round trip of calm.
    fn raised(&self, ceiling: Rate) -> Rate {
        let fast = ceiling.mul_f64(RETURN);
        let Some(full) = self.full.min() else {
            return fast;
        };
        // What a step did is seen a round trip later, or when the next one is due, and two of them go on meanwhile.
        let round = self.base_rtt.max(YIELD_EVERY);
        let quarter = full as f64 / 4.0 / round.as_nanos() as f64;
        let slow = ceiling.mul_f64(1.0 + quarter.clamp(PROBE_LEAST, RETURN - 1.0));
        fast.min(slow.max(self.before.mul_f64(CAREFUL)))
    }

    /// The path is free after others had it: so few packets show nothing, and every step would take seconds. What is
    /// known of the delay stays.
    fn start_again(&mut self, now: Time, rtt: Span, first: Rate) {
        self.stage = Stage::Startup { first };
        self.ceiling = None;
        self.rate = first;
        self.capacity = first;
        self.history.clear();
        self.probe = PROBE_FIRST;
        self.next_step = now + rtt;
    }

    /// Half of the target more of queue in a round trip, where that is less.
    fn first_probe(&self) -> f64 {
        let rise = self.target().as_secs_f64() / 2.0 / self.base_rtt.as_secs_f64().max(1e-6);
        rise.clamp(PROBE_LEAST, PROBE_FIRST)
    }

    /// No queue in sight: each time that the delivery follows, grow by twice as much.
    fn probe_up(&mut self, feedback: &Feedback<'_>, sample: &Sample) {
        if feedback.now < self.next_step {
            return;
        }
        let wanted = self.probe_base.as_f64() * (1.0 + self.probe / 2.0);
        if sample.delivery_rate.as_f64() >= wanted {
            self.probe = (self.probe * 2.0).min(PROBE_MAX);
        } else {
            self.probe = self.first_probe();
        }
        // Less would not be told from what varies.
        let varies = self.noise.allowance().as_secs_f64() / sample.span.as_secs_f64();
        let told = (varies * PROBE_NOISE).min(PROBE_NOISY_MAX);
        self.probe = self.probe.max(told);
        self.probe_base = sample.delivery_rate;
        // What is sent from now on fills a sample after a round trip and the sample's own length.
        let step = feedback.smoothed_rtt + sample.span.max(Span::from_millis(20)).min(SAMPLE_MAX);
        self.next_step = feedback.now + step;
    }

    /// Lets its own queue run empty now and then, so that the delay base is seen.
    fn drain(&mut self, feedback: &Feedback<'_>) {
        let now = feedback.now;
        match self.stage {
            Stage::Drain { until } if now >= until => {
                self.stage = Stage::Cruise { since: now };
            }
            Stage::Cruise { since } if now.since(since) >= DRAIN_EVERY => {
                let excess = self.queue + Span::from_millis(1);
                let time = excess.mul_f64(1.0 / (1.0 - DRAIN_RATE)).min(DRAIN_MAX);
                self.stage = Stage::Drain { until: now + time };
            }
            _ => {}
        }
        if matches!(self.stage, Stage::Drain { .. }) {
            self.rate = self
                .rate
                .min(self.capacity.mul_f64(DRAIN_RATE))
                .max(RATE_MIN);
        }
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "background {:?} rate {} capacity {} ceiling {} queue {} of {} loss {:.3}% probe {:.2}",
            self.stage.phase(),
            self.rate,
            self.capacity,
            self.ceiling.unwrap_or(Rate::MAX),
            self.queue,
            self.target(),
            self.last.map_or(0.0, |s| s.loss * 100.0),
            self.probe,
        )
    }
}
