//! Losses beside others: those that were met where the queue was about at its longest are overflows, the rest is chance.

use crate::rate::Feedback;
use crate::rate::history::RECENT;
use crate::rate::overflow::LossByDelay;
use crate::rtt::WindowedMin;
use howdah_core::{Span, Time};

/// A loss at less than this share of the longest queue is chance.
const NEAR: f64 = 0.8;
/// A queue that falls below this share of it has been answered by somebody.
const FALLEN: f64 = 0.7;
/// A queue comes to its longest and goes on a line: the last moments were all long, and then are all short; delays that vary are not.
const LINE: f64 = 0.5;
/// The longest queue is that of so long.
const LONGEST_OF: Span = Span::from_secs(20);
/// A queue that was never longer is none that is seen to overflow.
const LEAST_QUEUE: Span = Span::from_millis(1);
/// No path loses less than that.
const CHANCE: f64 = 0.000_1;
/// Chance is what was lost of about so many packets elsewhere, and of no fewer than these.
const FAR_PACKETS: f64 = 100_000.0;
const FAR_LEAST: f64 = 300.0;

/// Packets whose fate is known, and those of them that were lost.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    packets: f64,
    lost: f64,
}

#[derive(Debug)]
pub(super) struct Losses {
    /// As its complement.
    longest: WindowedMin,
    /// The longest of the last moments, as its complement.
    lately_longest: WindowedMin,
    /// Of this round trip, where the queue was about at its longest.
    near: Count,
    near_since: Time,
    /// Anywhere else, of late.
    far: Count,
    settled: u64,
    /// The queue was about at its longest, ...
    was_near: bool,
    /// ... and is not any more.
    passed: bool,
}

impl Losses {
    pub(super) fn new() -> Self {
        Self {
            longest: WindowedMin::new(LONGEST_OF),
            lately_longest: WindowedMin::new(RECENT),
            near: Count::default(),
            near_since: Time::ZERO,
            far: Count::default(),
            settled: 0,
            was_near: false,
            passed: false,
        }
    }

    /// What was lost until now says nothing.
    pub(super) fn forget(&mut self) {
        self.near = Count::default();
        self.far = Count::default();
        self.longest.clear();
    }

    /// The overflow has been answered.
    pub(super) fn on_cut(&mut self) {
        self.near = Count::default();
        self.was_near = false;
    }

    /// The queue has fallen from about its longest, and this flow has not answered that.
    pub(super) fn has_passed_peak(&self) -> bool {
        self.passed
    }

    /// Whether the queue overflows: more is lost where it is longest than chance has it, `floor` at least. What was sent before
    /// `answered` does not count. `queue` is the newest, and `lately` the shortest of the last moments, if those count.
    pub(super) fn on_report(
        &mut self,
        feedback: &Feedback<'_>,
        (queue, lately): (Span, Option<Span>),
        floor: f64,
        delays: &LossByDelay,
        answered: Time,
    ) -> bool {
        let now = feedback.now;
        if feedback.host_drops {
            self.forget();
        }
        self.longest.push(now, u64::MAX - queue.as_nanos());
        let longest = u64::MAX - self.longest.min().unwrap_or(u64::MAX);
        let is_near = |delay: Span| delay.as_nanos() as f64 >= NEAR * longest as f64;
        let settled = feedback.point.acked_packets + feedback.point.lost_packets;
        let packets = settled.saturating_sub(self.settled) as f64;
        self.settled = settled;
        if now.since(self.near_since) > feedback.smoothed_rtt {
            self.near_since = now;
            self.near = Count::default();
        }
        for &sent in feedback.lost_sent_at {
            if !delays.delay_at(sent).is_some_and(is_near) {
                self.far.lost += 1.0;
            } else if sent > answered {
                self.near.lost += 1.0;
            }
        }
        self.lately_longest.push(now, u64::MAX - queue.as_nanos());
        let lately_longest = u64::MAX - self.lately_longest.min().unwrap_or(u64::MAX);
        let fallen = lately.map_or(queue.as_nanos(), |_| lately_longest);
        self.passed = self.was_near && (fallen as f64) < FALLEN * longest as f64;
        let is_line = lately.is_none_or(|l| l.as_nanos() as f64 >= LINE * longest as f64);
        let is_long = is_near(queue) && is_line && longest >= LEAST_QUEUE.as_nanos();
        self.was_near = is_long || (self.was_near && !self.passed);
        if is_near(queue) {
            self.near.packets += packets;
        } else {
            let left = 1.0 - (packets / FAR_PACKETS).min(1.0);
            self.far.lost *= left;
            self.far.packets = self.far.packets * left + packets;
        }
        let enough = self.far.packets > FAR_LEAST;
        let far = if enough {
            self.far.lost / self.far.packets
        } else {
            0.0
        };
        let chance = far.max(floor).max(CHANCE);
        let expected = chance * self.near.packets.max(packets);
        longest >= LEAST_QUEUE.as_nanos()
            && self.near.lost >= 1.0
            && self.near.lost > 2.0 * expected + 4.0 * expected.sqrt()
    }
}
