//! Beside flows that fill queues: when that is looked into, and what is sent then (`company`).

use super::target::target_of;
use super::{
    Fair, PROBE_FIRST, RATE_MIN, SHORT, Stage, TARGET_CAP_MIN, TARGET_CAP_STEP, TARGET_MAX,
    TARGET_SHARE_OF_LIMIT, UNSENT,
};
use crate::rate::Feedback;
use crate::rate::company::{Look, Overflows, Yields};
use crate::rate::headroom::Shown;
use crate::rate::history::Sample;
use howdah_core::{Rate, Span};

/// Who came so lately does not judge others yet.
const YOUNG: Span = Span::from_secs(3);
/// Paths so short are not shared with flows whose windows grow by the round trip.
const NEXT_DOOR: Span = Span::from_millis(5);
/// So long after a receiving host dropped, it may be what fills and drops.
const HOST_FILLS: Span = Span::from_secs(30);
/// With so much lost, of so many packets, the window is that of a link that was faster.
const FLOOD: f64 = 0.35;
const FLOOD_PACKETS: u64 = 48;
/// A queue is shallow if it is no longer than so many times the largest target of a flow that has the whole link.
const SHALLOW: f64 = 1.2;
/// A queue of less than this share of the round trip holds no burst of a flow that begins.
const TINY: f64 = 0.05;
/// With more lost by chance than this, in parts of a thousand million, what arrives varies too much to tell who has the rest.
const BY_CHANCE_PPB: u64 = 5_000_000;
/// After an overflow that others share in the target comes back slowly for so long.
const BOUND_FOR: Span = Span::from_secs(20);

/// Whether a queue that was that long at the most is shallow on that link: in a longer one than the target a test finds others out.
fn is_shallow(link: Rate, longest: Span) -> bool {
    let most = target_of(link, TARGET_MAX).mul_f64(SHALLOW);
    longest >= SHORT && longest < most
}

impl Fair {
    /// Whether there are others that fill queues; then the rate is set as they set theirs.
    pub(super) fn beside_others(
        &mut self,
        feedback: &Feedback<'_>,
        sample: &Sample,
        idle: bool,
        overflow: Overflows,
    ) -> bool {
        let now = feedback.now;
        self.link_seen = self.link_seen.max(sample.delivery_rate);
        let arrives = self.all_have(sample.delivery_rate);
        let queue = self.delays.peaks.back().map_or(self.delays.queue, |q| q.1);
        let floor = self.losses.floor.min().map_or(0.0, |ppb| ppb as f64 / 1e9);
        let yields = self.company.on_losses(
            feedback,
            (queue, self.delays.queue),
            floor,
            &self.losses.by_delay,
        );
        let much = overflow == Overflows::Much && self.company.may_cut(now, feedback.smoothed_rtt);
        let yields = if much { Yields::ToAnOverflow } else { yields };
        let overflows = yields != Yields::No;
        self.company.on_arrived(now, arrives);
        if feedback.host_drops {
            self.host.no_company_until = now + HOST_FILLS;
        }
        if now < self.echo.until || now < self.host.drops_felt_until {
            self.company.forget_losses();
        }
        // (Where a queue marks, marks share it out; in a short one `yielding` does.)
        let elsewhere = now < self.host.no_company_until
            || self.is_short()
            || self.delays.base_rtt < NEXT_DOOR
            || self.marks.ceiling().is_some();
        if elsewhere {
            self.company.leave();
        }
        if idle || elsewhere || now < self.echo.until + YOUNG || now < self.host.drops_felt_until {
            return false;
        }
        let look = self.look(feedback);
        let longest = self.longest_queue();
        let link = self.company.link().max(self.share.all(self.capacity));
        if (overflows || overflow != Overflows::No)
            && is_shallow(link, longest)
            && self.company.on_overflow(now, &look)
        {
            let cap = longest.mul_f64(TARGET_SHARE_OF_LIMIT);
            self.bound.target_cap = self.bound.target_cap.min(cap.max(TARGET_CAP_MIN));
            self.bound.is_opening = false;
            self.bound.next_cap_step = now + TARGET_CAP_STEP;
            self.bound.slow_until = now + BOUND_FOR;
        }
        if self.delays.queue > self.target() / 2 && matches!(self.stage, Stage::Cruise) {
            self.company.test_if_suspected(now, &look);
        }
        let was_here = self.company.is_here();
        self.company
            .heed_queue(now, &look, self.target_below(TARGET_MAX));
        self.company.step(now, &look, self.drains.is_dip());
        let after = feedback.smoothed_rtt + sample.span;
        if sample.packets >= FLOOD_PACKETS
            && sample.loss > FLOOD
            && self.company.is_after_cut(now, after)
        {
            self.company.on_flood();
        }
        let Some(rate) = self.company.rate(now, arrives, queue, yields) else {
            if was_here {
                self.probing.share = PROBE_FIRST;
                self.probing.next_step = now + feedback.smoothed_rtt;
            }
            return false;
        };
        if overflows {
            self.losses.congested_at = now;
        }
        self.stage = Stage::Cruise;
        self.delays.delayed_since = None;
        let rate = self.share.each(rate);
        let test = self.company.test_share(now);
        let most = test.map(|share| self.capacity.mul_f64(share));
        self.rate = most.map_or(rate, |most| rate.min(most)).max(RATE_MIN);
        let sent = self.rate.as_f64() / self.capacity.as_f64().max(1.0);
        self.drains.on_sent(now, sent);
        true
    }

    /// The queue overflows: whether others had a part of the link then.
    pub(super) fn heed_overflow(&mut self, feedback: &Feedback<'_>, sample: &Sample) {
        let now = feedback.now;
        let link = self.company.link().max(self.share.all(self.capacity));
        let longest = self.longest_queue();
        let is_felt = (self.is_short() || is_shallow(link, longest))
            && longest < self.delays.base_rtt.mul_f64(TINY);
        // Where much is lost by chance, or the host sent less, other things than others take what is missing.
        let floor = self.losses.floor.min().unwrap_or(0);
        let echo = now < self.echo.until || now < self.host.drops_felt_until;
        if is_felt && !echo && floor < BY_CHANCE_PPB && !sample.was_not_sent(UNSENT) {
            let shown = self.shown(sample);
            self.headroom.on_overflow(now, shown);
        }
    }

    /// Below what would fill the link, where others come and go on a short queue.
    pub(super) fn leave_room(&mut self, feedback: &Feedback<'_>, sample: &Sample) {
        let now = feedback.now;
        let shown = self.shown(sample);
        let queue = self.delays.queue;
        self.headroom.on_queue(now, queue, sample.span, shown);
        if !self.company.is_here()
            && let Some(most) = self.headroom.most(now, shown.link, shown.rtt)
        {
            self.rate = self.rate.min(self.share.each(most)).max(RATE_MIN);
        }
    }

    fn shown(&self, sample: &Sample) -> Shown {
        Shown {
            arrives: self.all_have(sample.delivery_rate),
            // (Who came to others' queue had no more than a part of it, and has all that it had of late.)
            link: self.link_seen,
            rtt: self.delays.base_rtt,
        }
    }

    /// During a test this flow's other drains rest. Whether there is one.
    pub(super) fn is_testing(&mut self, feedback: &Feedback<'_>) -> bool {
        if !self.company.is_testing(feedback.now) {
            return false;
        }
        let sent = self.rate.as_f64() / self.capacity.as_f64().max(1.0);
        let test = self.company.test_share(feedback.now);
        let sent = test.map_or(sent, |share| sent.min(share));
        self.rate = self.capacity.mul_f64(sent).max(RATE_MIN);
        self.drains.on_sent(feedback.now, sent);
        true
    }

    /// What all sessions of the stripe have, if each has that: no more than the link.
    fn all_have(&self, rate: Rate) -> Rate {
        if self.share.is_whole() {
            rate
        } else {
            self.share.all(rate).min(self.link_seen)
        }
    }

    pub(super) fn look(&self, feedback: &Feedback<'_>) -> Look {
        Look {
            base_rtt: self.delays.base_rtt,
            rtt: feedback.smoothed_rtt,
            rate: self.all_have(self.last.map_or(self.capacity, |s| s.delivery_rate)),
            queue: self.delays.queue,
            delay: self.delays.recent_owd.min().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_shallow_by_the_link_whatever_this_flow_has_of_it() {
        let is = |mbit, ms| is_shallow(Rate::from_mbit_per_sec(mbit), Span::from_millis(ms));
        // A product of 20 ms at 100 Mbit/s, and a tenth of one of 80 ms at 1 Gbit/s.
        assert!(is(100, 20) && is(100, 8) && is(1_000, 8));
        // Where flows of this kind share (`sharing`), though each of four has the target of 250 Mbit/s.
        assert!(!is(1_000, 20) && !is(200, 20) && !is(100, 60));
        // What is too short to steer by is `yielding`'s.
        assert!(!is(100, 2));
    }
}
