//! What the controller knows, by what it is about.

use super::looking::Looking;
use super::{BASE_WINDOW, LOSS_FLOOR_WINDOW, PROBE_FIRST, RECENT, TARGET_MAX};
use crate::rate::history::Sample;
use crate::rate::noise::Noise;
use crate::rate::overflow::LossByDelay;
use crate::rtt::WindowedMin;
use howdah_core::{Rate, Span, Time};
use std::collections::VecDeque;

const PROBE_MAX: f64 = 1.0;
/// This part of a step goes beyond what start-up has just shown.
const PROBE_BEYOND: f64 = 0.25;
/// Where delays vary, a probe is so many times what they may change a sample by, up to this.
const PROBE_NOISE: f64 = 2.0;
const PROBE_NOISY_MAX: f64 = 0.25;

/// Delays, and the queue that they show.
#[derive(Debug)]
pub(super) struct Delays {
    pub(super) base_rtt: Span,
    /// Minimum of (arrival by the receiver's clock - departure by ours).
    pub(super) base_owd: WindowedMin,
    pub(super) recent_owd: WindowedMin,
    pub(super) noise: Noise,
    pub(super) queue: Span,
    /// Since when, and from which rate on, the queue has been far above its target.
    pub(super) delayed_since: Option<(Time, Rate)>,
    /// Queues seen lately.
    pub(super) peaks: VecDeque<(Time, Span)>,
}

impl Delays {
    pub(super) fn new() -> Self {
        Self {
            base_rtt: Span::from_millis(100),
            base_owd: WindowedMin::new(BASE_WINDOW),
            recent_owd: WindowedMin::new(RECENT),
            noise: Noise::default(),
            queue: Span::ZERO,
            delayed_since: None,
            peaks: VecDeque::new(),
        }
    }
}

/// How long the queue may be, and why.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) target_cap: Span,
    pub(super) next_cap_step: Time,
    /// The cap is still the one of the beginning: no overflow has made it what it is.
    pub(super) is_opening: bool,
    /// Until then it comes back slowly.
    pub(super) slow_until: Time,
    /// What lowered the cap was a queue that overflows, too short to steer by.
    pub(super) overflowed: bool,
    /// Since when a queue that is thought to be short is longer.
    pub(super) longer_since: Option<Time>,
    /// Since when a queue overflows, and when that was seen last.
    pub(super) dropping: Option<(Time, Time)>,
    /// Decreases in a short queue since it was seen to lose packets.
    pub(super) yields: u32,
    /// Until then, what is seen of the queue is the echo of what was answered.
    pub(super) yield_next: Time,
}

impl Bound {
    pub(super) fn new() -> Self {
        Self {
            target_cap: TARGET_MAX,
            next_cap_step: Time::ZERO,
            is_opening: false,
            slow_until: Time::ZERO,
            overflowed: false,
            longer_since: None,
            dropping: None,
            yields: 0,
            yield_next: Time::ZERO,
        }
    }
}

/// Asking for more.
#[derive(Debug)]
pub(super) struct Probing {
    pub(super) share: f64,
    pub(super) base: Rate,
    pub(super) next_step: Time,
    /// What start-up has shown that the link carries, and until when that is heeded.
    pub(super) shown: Option<(Rate, Time)>,
    pub(super) looking: Looking,
}

impl Probing {
    pub(super) fn new() -> Self {
        Self {
            share: PROBE_FIRST,
            base: Rate::ZERO,
            next_step: Time::ZERO,
            shown: None,
            looking: Looking::default(),
        }
    }

    /// How many times `capacity` is asked for. After start-up steps lead to what its bursts have shown, and go beyond by a part of them.
    pub(super) fn more(&self, now: Time, capacity: Rate) -> f64 {
        let shown = self.shown.filter(|&(_, until)| now < until);
        let link = shown.map_or(f64::INFINITY, |(link, _)| link.as_f64());
        let beyond = (link / capacity.as_f64().max(1.0)).max(1.0 + self.share * PROBE_BEYOND);
        beyond.min(1.0 + self.share)
    }

    /// Asks for more if what was asked for last arrived.
    pub(super) fn step(&mut self, now: Time, smoothed_rtt: Span, sample: &Sample, noise: Span) {
        if now < self.next_step {
            return;
        }
        let wanted = self.base.as_f64() * (1.0 + self.share / 2.0);
        if sample.delivery_rate.as_f64() >= wanted {
            self.share = (self.share * 2.0).min(PROBE_MAX);
        } else {
            self.share = PROBE_FIRST;
        }
        // Less would not be told from what varies.
        let varies = noise.as_secs_f64() / sample.span.as_secs_f64();
        let told = (varies * PROBE_NOISE).min(PROBE_NOISY_MAX);
        self.share = self.share.max(told);
        self.base = sample.delivery_rate;
        // What is sent from now on fills a sample after a round trip and the sample's own length.
        let step = smoothed_rtt + sample.span.max(Span::from_millis(20));
        self.next_step = now + step;
    }
}

/// What is lost, and when that was too much.
#[derive(Debug)]
pub(super) struct Losses {
    pub(super) by_delay: LossByDelay,
    pub(super) floor: WindowedMin,
    /// Share of what is sent now that is taken for lost by chance.
    pub(super) believed: f64,
    /// Packets and losses of the block that is counted.
    pub(super) block: (u64, u64),
    pub(super) congested_at: Time,
    pub(super) congested_until: Time,
}

impl Losses {
    pub(super) fn new() -> Self {
        Self {
            by_delay: LossByDelay::default(),
            floor: WindowedMin::new(LOSS_FLOOR_WINDOW),
            believed: 0.0,
            block: (0, 0),
            congested_at: Time::ZERO,
            congested_until: Time::ZERO,
        }
    }
}

/// The receiving host, where it is the host that limits and not the path.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    /// The sink allows less than the path.
    pub(super) limits: bool,
    /// When packets that the sink refused were last being called lost.
    pub(super) refused_at: Option<Time>,
    /// What was sent before the receiving host fell behind: the path carried it.
    pub(super) before_drops: Option<Rate>,
    /// Until then what the host dropped may be missing from what arrived.
    pub(super) drops_felt_until: Time,
    /// Until then nothing is taken for others.
    pub(super) no_company_until: Time,
}

/// How long start-up is felt.
#[derive(Debug, Default)]
pub(super) struct Echo {
    /// Until then what start-up did is seen, ...
    pub(super) until: Time,
    /// ... and may be seen of its marks.
    pub(super) marks_until: Time,
    /// Until then samples reach back into the ramp of start-up.
    pub(super) ramp_until: Time,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_start_up_has_shown_is_passed_by_small_steps_for_a_while() {
        let mbit = Rate::from_mbit_per_sec;
        let until = Time::ZERO + Span::from_secs(1);
        let mut probing = Probing::new();
        probing.share = 0.2;
        let close = |more: f64, wanted: f64| (more - wanted).abs() < 1e-9;
        assert!(close(probing.more(Time::ZERO, mbit(90)), 1.2));
        probing.shown = Some((mbit(99), until));
        // Up to what was shown, a part of the step beyond it, and far below it all of it.
        assert!(close(probing.more(Time::ZERO, mbit(90)), 1.1));
        assert!(close(probing.more(Time::ZERO, mbit(99)), 1.05));
        assert!(close(probing.more(Time::ZERO, mbit(50)), 1.2));
        assert!(close(probing.more(until, mbit(99)), 1.2));
    }
}
