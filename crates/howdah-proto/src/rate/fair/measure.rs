//! What reports say of the queue, and of losses that are no queue's.

use super::{
    DROPPING_GAP, DROPPING_LASTS, Fair, LOSS_BLOCK_PACKETS, SHORT, SPARSE, TARGET_MAX,
    TARGET_SHARE_OF_LIMIT, UNCAPPED,
};
use crate::rate::Feedback;
use crate::rate::drains::BASE_WRONG;
use crate::rate::history::Sample;
use crate::rate::noise::Noise;
use crate::rate::overflow::Overflow;
use howdah_core::Span;
use howdah_core::num::floor_to_u64;

impl Fair {
    pub(super) fn measure_queue(&mut self, feedback: &Feedback<'_>) {
        if feedback.rtt.is_none() {
            return;
        }
        let point = &feedback.point;
        let owd = point.one_way_delay();
        let base_before = self.delays.base_owd.min().unwrap_or(owd);
        if self.company.is_here() {
            // Nobody lets the queue run empty, so the base is not seen again.
            self.delays.base_owd.push(feedback.now, base_before);
        }
        self.delays.base_owd.push(feedback.now, owd);
        self.delays.recent_owd.push(feedback.now, owd);
        let base = self.delays.base_owd.min().unwrap_or(owd);
        let mut recent = self.delays.recent_owd.min().unwrap_or(owd);
        if let Some(&(_, before)) = self.delays.peaks.back()
            && self.is_calm(feedback.now)
        {
            // Reports are far apart, and a host that stands still for a moment delays one of them.
            recent = recent.min(base + before.as_nanos());
        }
        if self.delays.base_rtt < SPARSE {
            self.delays.noise = Noise::default();
        } else if !self.starts() {
            // (Its bursts are no line.)
            self.delays.noise.on_delay(owd);
        }
        let noise = self.delays.noise.allowance();
        self.delays.queue = Span::from_nanos(recent - base).saturating_sub(noise);
        // The queue that overflowed was longer than it seemed, too.
        let longer = Span::from_nanos(base_before.saturating_sub(base));
        self.bound.target_cap =
            (self.bound.target_cap + longer.mul_f64(TARGET_SHARE_OF_LIMIT)).min(TARGET_MAX);
        self.drains
            .on_delay(feedback.now, recent, self.target(), noise);
        self.company.on_delay(recent);
        let memory = feedback.echo();
        let queue = Span::from_nanos(owd - base.min(owd));
        let settled = point.acked_packets + point.lost_packets;
        self.delays.peaks.push_back((feedback.now, queue));
        // A host that stalls delays and drops; which of the losses were its own nobody tells. Start-up loses packets in
        // bursts of its own. And delays above a wrong base were others.
        if feedback.host_drops || feedback.now < self.echo.until || longer > BASE_WRONG {
            self.losses.by_delay.clear();
        }
        if longer > BASE_WRONG {
            // What was lost while a queue stood that nobody saw is no chance.
            self.losses.floor.clear();
            self.losses.block = (point.acked_packets, point.lost_packets);
        }
        self.losses.by_delay.on_report(
            feedback.now,
            point.sent_time,
            queue,
            settled,
            feedback.lost_sent_at,
        );
        while self
            .delays
            .peaks
            .front()
            .is_some_and(|&(t, _)| feedback.now.since(t) > memory)
        {
            self.delays.peaks.pop_front();
        }
    }

    pub(super) fn measure_loss_floor(&mut self, feedback: &Feedback<'_>, sample: &Sample) {
        let point = &feedback.point;
        if feedback.now < self.echo.until {
            // What start-up made overflow is not what is lost while nothing overflows.
            self.losses.block = (point.acked_packets, point.lost_packets);
            return;
        }
        let (acked, lost) = self.losses.block;
        let packets = (point.acked_packets + point.lost_packets).saturating_sub(acked + lost);
        let enough = LOSS_BLOCK_PACKETS.max(sample.packets);
        let lost_here = point.lost_packets.saturating_sub(lost);
        if packets >= enough || lost_here >= 40 {
            let loss = lost_here as f64 / packets as f64;
            if !self.starts() && self.queue_does_not_overflow() {
                self.losses
                    .floor
                    .push(feedback.now, floor_to_u64(loss.min(0.25) * 1e9));
            }
            self.losses.block = (point.acked_packets, point.lost_packets);
        }
    }

    /// Whether an overflow is answered. In longer queues flows that see it would give way to those that
    /// do not; so there it must last, as where a queue before the short one (this host's port) is what
    /// holds the delay.
    pub(super) fn counts(&mut self, overflow: &Overflow, feedback: &Feedback<'_>) -> bool {
        let now = feedback.now;
        if overflow.now {
            let (since, last) = self.bound.dropping.get_or_insert((now, now));
            if now.since(*last) > DROPPING_GAP.max(feedback.smoothed_rtt / 4) {
                *since = now;
            }
            *last = now;
        }
        let lasting = DROPPING_LASTS + feedback.smoothed_rtt * 4;
        let lasts = self
            .bound
            .dropping
            .is_some_and(|(since, last)| last.since(since) > lasting);
        overflow.limit < SHORT || (overflow.now && lasts)
    }

    /// Of the last moments.
    pub(super) fn longest_queue(&self) -> Span {
        let longest = self.delays.peaks.iter().map(|p| p.1).max();
        longest.unwrap_or(self.delays.queue)
    }

    /// An empty queue loses nothing, and one that reaches its target is long enough, unless an overflow is what lowered the
    /// target. One that stays in between may be full.
    pub(super) fn queue_does_not_overflow(&self) -> bool {
        let target = self.target();
        let uncapped =
            self.bound.is_opening || self.bound.target_cap >= TARGET_MAX.mul_f64(UNCAPPED);
        self.delays.queue < target / 4
            || (!self.is_short() && uncapped && self.delays.queue > target.mul_f64(0.8))
    }
}
