//! Room on the link for others who come and go.
//!
//! Where a queue is short, short flows need it for their bursts. A flow that has nearly all of the link fills it again and again, and each time they
//! lose packets and most of their windows. So if somebody else has a part of the link whenever it is full, this flow stays below what would fill it
//! (as BBR v3 does below its `inflight_hi`), a little more the more often the queue overflows even so; now and then it comes up slowly and looks
//! whether they are still there, which a queue that stands shows before it overflows.

use super::yielding::cubic_k;
use howdah_core::{Rate, Span, Time};

/// Share of the link that is left, ...
const LEFT: f64 = 0.07;
/// ... how much more for each overflow below that, which is given up again in the time in which CUBIC would fill the queue, and at most.
const MORE: f64 = 0.03;
const MOST: f64 = 0.15;
/// This flow has more of the full link: nobody else is there who counts. Samples are no more exact than this.
const ALONE: f64 = 0.985;
/// Less: it leaves others more than this could.
const NEARLY_ALL: f64 = 0.8;
/// ... and so much who begins to leave room: those who come to stay are left more than that by other rules.
const BEGINS: f64 = 0.9;
/// Two signs of others within so long, and no less apart than that, are enough.
const LATELY: Span = Span::from_secs(30);
const APART: Span = Span::from_secs(2);
/// Room is left for so long after the last sign, for twice as long each time that others are still there, and at most.
const HELD_FIRST: Span = Span::from_secs(10);
const HELD_LONGEST: Span = Span::from_secs(60);
/// So many round trips, of this at least, it takes to come up.
const LIFT_RTTS: u64 = 20;
const LIFT_RTT: Span = Span::from_millis(40);
/// A queue that is always longer keeps the link busy.
const BUSY: Span = Span::from_micros(300);
/// An overflow is felt for 2 RTT and this.
const FELT: Span = Span::from_millis(40);

/// What a report shows of the link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    pub(super) arrives: Rate,
    pub(super) link: Rate,
    pub(super) rtt: Span,
}

impl Shown {
    /// Others have a part of it, and no more than this flow could leave them.
    fn is_shared(&self, least: f64) -> bool {
        let has = self.arrives.as_f64() / self.link.as_f64().max(1.0);
        (least..ALONE).contains(&has)
    }
}

#[derive(Clone, Copy, Debug)]
struct Held {
    until: Time,
    /// How long room is left without a sign of others.
    lasts: Span,
    /// What is left since the last overflow.
    share: f64,
    since: Time,
}

impl Held {
    fn left(&self, now: Time, link: Rate, rtt: Span) -> f64 {
        let passed = now.since(self.since).as_secs_f64() / cubic_k(link, rtt).as_secs_f64();
        (self.share - MORE * passed.powi(3)).max(LEFT)
    }

    fn is_over(&self, now: Time) -> bool {
        now >= self.until
    }
}

#[derive(Debug, Default)]
pub(super) struct Headroom {
    held: Option<Held>,
    /// The first sign of others, at an overflow of late.
    seen: Option<Time>,
    /// The last overflow is felt until then.
    felt_until: Time,
    /// Since when the link has been busy.
    busy_since: Option<Time>,
}

impl Headroom {
    /// The queue overflows.
    pub(super) fn on_overflow(&mut self, now: Time, shown: Shown) {
        if now < self.felt_until {
            return;
        }
        self.felt_until = now + shown.rtt * 2 + FELT;
        if let Some(held) = self.held.as_mut().filter(|h| !h.is_over(now)) {
            if shown.is_shared(NEARLY_ALL) {
                held.share = (held.left(now, shown.link, shown.rtt) + MORE).min(MOST);
                held.since = now;
                held.until = held.until.max(now + held.lasts);
            }
        } else if shown.is_shared(BEGINS) {
            let seen = self.seen.filter(|at| now.since(*at) < LATELY);
            if self.was_held(now) || seen.is_some_and(|at| now.since(at) >= APART) {
                self.hold(now);
            }
            self.seen = seen.or(Some(now));
        }
    }

    /// `queue` is the shortest of the last moments, and what is shown that of the last `span`.
    pub(super) fn on_queue(&mut self, now: Time, queue: Span, span: Span, shown: Shown) {
        if queue <= BUSY {
            self.busy_since = None;
            return;
        }
        let since = *self.busy_since.get_or_insert(now);
        if now.since(since) < span || !self.was_held(now) {
            return;
        }
        // It has come up, and the link was full all the time.
        if shown.is_shared(BEGINS) {
            self.hold(now);
        }
    }

    /// Room was left until a moment ago.
    fn was_held(&self, now: Time) -> bool {
        self.held
            .is_some_and(|h| h.is_over(now) && now.since(h.until) < LATELY)
    }

    fn hold(&mut self, now: Time) {
        let again = self.held.filter(|_| self.was_held(now));
        let lasts = again.map_or(HELD_FIRST, |h| (h.lasts * 2).min(HELD_LONGEST));
        self.held = Some(Held {
            until: now + lasts,
            lasts,
            share: LEFT,
            since: now,
        });
    }

    /// The most that may be sent.
    pub(super) fn most(&self, now: Time, link: Rate, rtt: Span) -> Option<Rate> {
        let held = self.held?;
        if !held.is_over(now) {
            return Some(link.mul_f64(1.0 - held.left(now, link, rtt)));
        }
        let lift = rtt.max(LIFT_RTT) * LIFT_RTTS;
        let up = now.since(held.until).as_secs_f64() / lift.as_secs_f64();
        // Half as far again, as the link may be a little more than was seen.
        (up < 1.5).then(|| link.mul_f64(1.0 - LEFT * (1.0 - up)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_millis(180);
    const LINK: Rate = Rate::from_gbit_per_sec(1);

    fn at(seconds: f64) -> Time {
        Time::ZERO + Span::from_secs_f64(seconds)
    }

    fn shown(has: f64) -> Shown {
        Shown {
            arrives: LINK.mul_f64(has),
            link: LINK,
            rtt: RTT,
        }
    }

    fn left(headroom: &Headroom, seconds: f64) -> f64 {
        let most = headroom.most(at(seconds), LINK, RTT);
        1.0 - most.map_or(1.0, |m| m.as_f64() / LINK.as_f64())
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn who_overflows_the_queue_alone_leaves_nothing() {
        for has in [1.0, 0.85] {
            let mut headroom = Headroom::default();
            for second in 1..20 {
                headroom.on_overflow(at(f64::from(second)), shown(has));
            }
            assert!(left(&headroom, 20.0).abs() < 1e-9, "{has}");
        }
    }

    #[test]
    fn others_at_two_overflows_are_left_room_and_more_at_those_that_follow() {
        let mut headroom = Headroom::default();
        headroom.on_overflow(at(1.0), shown(0.96));
        headroom.on_overflow(at(1.1), shown(0.96));
        assert!(left(&headroom, 1.2).abs() < 1e-9, "one, and its echo");
        headroom.on_overflow(at(3.0), shown(0.96));
        assert!(close(left(&headroom, 3.0), LEFT));
        headroom.on_overflow(at(4.0), shown(0.93));
        assert!(close(left(&headroom, 4.0), LEFT + MORE));
        for second in 5..9 {
            headroom.on_overflow(at(f64::from(second)), shown(0.9));
        }
        assert!(close(left(&headroom, 8.0), MOST));
        assert!(left(&headroom, 17.0) < MOST && left(&headroom, 17.0) > LEFT);
        // It comes up within a lift, and ends.
        assert!(left(&headroom, 20.0) < LEFT && left(&headroom, 20.0) > 0.0);
        assert_eq!(headroom.most(at(24.0), LINK, RTT), None);
    }

    #[test]
    fn a_queue_that_stands_shows_whether_they_are_still_there() {
        let held = || {
            let mut headroom = Headroom::default();
            headroom.on_overflow(at(1.0), shown(0.96));
            headroom.on_overflow(at(3.0), shown(0.96));
            headroom
        };
        let look = |headroom: &mut Headroom, has| {
            for tenths in 130..140 {
                let now = at(f64::from(tenths) / 10.0);
                headroom.on_queue(now, Span::from_millis(1), RTT, shown(has));
            }
        };
        let mut shared = held();
        look(&mut shared, 0.96);
        assert!(close(left(&shared, 30.0), LEFT), "for twice as long");
        assert!(left(&shared, 34.0) < LEFT);
        let mut alone = held();
        look(&mut alone, 1.0);
        assert!(left(&alone, 14.0) < LEFT);
        assert_eq!(alone.most(at(19.0), LINK, RTT), None);
        // A queue that comes and goes does not keep the link busy.
        let mut unsure = held();
        for tenths in 130..140_u32 {
            let queue = Span::from_millis(u64::from(tenths % 2));
            let now = at(f64::from(tenths) / 10.0);
            unsure.on_queue(now, queue, RTT, shown(0.96));
        }
        assert!(left(&unsure, 14.0) < LEFT);
    }
}
