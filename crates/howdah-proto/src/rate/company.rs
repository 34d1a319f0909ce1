//! Whether others fill the queue, and what is taken beside them.
//!
//! The controller of `fair` holds a short queue and yields when it grows. Beside flows that grow until a queue overflows that is to
//! starve, and in a queue that is shorter than the target it is to starve them. So it is found out whether there are such flows:
//!
//! * During a drain the queue of a path that a flow has alone, or with flows that drain along, falls by what was left out; with others in
//!   it, by this flow's share of that only. Drains come anyway; where they do not do what they should, a deep one is the test.
//! * A queue overflows again and again, though this flow leaves it room.
//!
//! Flows of this kind that have come just now look the same for a while, so after a step in what arrives nothing is judged (`steps`).
//!
//! Beside others the window follows CUBIC's law (`climb`), and a loss counts that was met where the queue was at its longest (`losses`).

mod calm;
mod climb;
mod losses;
mod overflowed;
mod standing;
mod steps;

use self::calm::Calm;
use self::climb::Climb;
use self::losses::Losses;
use self::overflowed::Overflowed;
use self::standing::Standing;
use self::steps::Steps;
use super::overflow::LossByDelay;
use super::{Feedback, Share};
use crate::rtt::WindowedMin;
use howdah_core::num::floor_to_u64;
use howdah_core::{Rate, Span, Time};

/// What is left after an overflow beside others.
const BETA: f64 = 0.75;
/// What a flow leaves that has nearly all of the link, and how much that is.
const BETA_ALONE: f64 = 0.95;
const NEARLY_ALL: f64 = 0.97;
/// With more of the link than this share there is nobody who matters.
const SHARE: f64 = 0.93;
/// With so much of it for so long and 10 RTT it is looked whether others are still there.
const ALONE: f64 = 0.95;
const ALONE_FOR: Span = Span::from_secs(3);
/// The link's rate is the most that arrived in so long.
const LINK_WINDOW: Span = Span::from_secs(30);
/// The rate beside others is no more than so many times the link's.
const LINK_MOST: f64 = 1.25;
/// A queue below is none.
const ROOM: Span = Span::from_micros(300);
/// What is left of the capacity during a test, and how long one is at most.
const TEST_RATE: f64 = 0.4;
const TEST_LONGEST: Span = Span::from_millis(200);
/// Of what the queue of a flow alone would lose, at least this share ends company, and less than that one begins it.
const FELL: f64 = 0.7;
const STAYED: f64 = 0.45;
/// Tests are so far apart, and 6 RTT; they come after so many drains that failed, more than those that did not, over so long a time.
const TESTS_APART: Span = Span::from_millis(600);
const SUSPECTED_TIMES: u32 = 2;
const SUSPECTED_BEFORE: Span = Span::from_millis(1_200);
/// ... of which the last is not longer ago than that, and 20 RTT.
const SUSPECTED_FOR: Span = Span::from_secs(6);
/// Whoever gave way meanwhile goes back to this share of what arrived before.
const BACK_TO: f64 = 0.6;
/// First and longest time between tests whether others are still there; each that finds them doubles it.
const TRIAL: Span = Span::from_secs(4);
const TRIAL_LONGEST: Span = Span::from_secs(60);
/// Dips of others are followed with a test when no more than this share of that time is left.
const ALONG: f64 = 0.8;
/// Who left company and has less than `RELAPSE` of what he had then, so long or 20 RTT later, with a queue clearly above the target, was wrong.
const PROBATION: Span = Span::from_secs(3);
const RELAPSE: f64 = 0.75;
const ABOVE_TARGET: f64 = 1.2;
/// Who has more than that of the link where most of the queue is others' has not seen all of it.
const UNSEEN: f64 = 0.7;
/// Who has less than this share of the link beside others climbs quickly: by no more in a round trip than this share of the link's window,
/// and less the less he lacks. So flows that lack as much add as much, whatever they have, which makes flows of this kind equal.
const HUNGRY: f64 = 0.32;
const HUNGRY_MOST: f64 = 0.06;
/// Who has more of it adds so much of the link in a second, by what he has not: what others have.
const EVENS_PER_S: f64 = 0.03;
/// The same of a stripe's sessions, of which each takes what the others have not for what others have.
const EVENS_PER_S_STRIPE: f64 = 0.01;
/// Company that began with overflows is left so many times later.
const SHALLOW_TRIAL: u64 = 4;
/// A queue that falls so soon after an overflow, and 2 RTT, tells nothing.
const CALM: Span = Span::from_millis(200);
/// A cut shows so long and 2 RTT later.
const CUT_FELT: Span = Span::from_millis(40);

/// How much is lost, by what `fair` counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Overflows {
    No,
    /// At the largest delays only.
    AtLargestDelays,
    /// More than chance can have it.
    Much,
}

/// What is given way to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Yields {
    No,
    /// Others did: the queue has fallen from its longest.
    ToAFall,
    ToAnOverflow,
}

/// What is seen of path and queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) base_rtt: Span,
    pub(super) rtt: Span,
    /// What arrives.
    pub(super) rate: Rate,
    pub(super) queue: Span,
    /// Smallest delay of the last moments, in nanoseconds by clocks of different origins.
    pub(super) delay: u64,
}

/// A drain whose effect is looked at.
#[derive(Clone, Copy, Debug)]
struct Test {
    /// It is no drain that comes anyway, and less than the capacity is sent until then.
    asked_until: Option<Time>,
    look_until: Time,
    /// Delay before, and least since.
    before: u64,
    least: u64,
    /// What the queue would lose if it were this flow's alone.
    expected: Span,
    /// What arrived before.
    rate: Rate,
}

impl Test {
    fn share_of_expected(&self) -> f64 {
        let shrunk = Span::from_nanos(self.before.saturating_sub(self.least));
        shrunk.as_secs_f64() / self.expected.as_secs_f64().max(1e-6)
    }
}

/// Flows of this kind follow a round trip later, more gently and longer.
fn follow(queue: Span) -> Span {
    (queue * 5 + Span::from_millis(8)).min(TEST_LONGEST)
}

/// Drains that did not do to the queue what they should have.
#[derive(Clone, Copy, Debug)]
struct Suspicion {
    since: Time,
    last: Time,
    times: u32,
    /// What arrived before the first of them.
    rate: Rate,
}

/// What is sent beside others.
#[derive(Clone, Copy, Debug)]
struct Beside {
    climb: Climb,
    base_rtt: Span,
    /// It began with overflows, not with a queue that stays.
    shallow: bool,
    /// A test has found others though this flow had about all that it ever saw of the link: who comes to a full queue sees no more of it. So
    /// what others have is not known, until the queue overflows.
    unseen: bool,
    /// It began with overflows so often that no flow does that alone, though this one had all that it ever saw of the link.
    hidden: bool,
    trial_at: Time,
    alone_since: Option<Time>,
}

/// Company that seemed to be over: it may have been a moment in which others let the queue run empty.
#[derive(Clone, Copy, Debug)]
struct Left {
    at: Time,
    rate: Rate,
    shallow: bool,
}

#[derive(Debug)]
pub(super) struct Company {
    share: Share,
    /// The most that arrived, as its complement.
    link: WindowedMin,
    losses: Losses,
    steps: Steps,
    overflows: Overflowed,
    suspicion: Option<Suspicion>,
    test: Option<Test>,
    last_test: Time,
    trial_every: Span,
    beside: Option<Beside>,
    left: Option<Left>,
    standing: Standing,
    calm: Calm,
    rtt: Span,
    packet_bytes: f64,
}

impl Company {
    pub(super) fn new(share: Share) -> Self {
        Self {
            share,
            link: WindowedMin::new(LINK_WINDOW),
            losses: Losses::new(),
            steps: Steps::new(),
            overflows: Overflowed::default(),
            suspicion: None,
            test: None,
            last_test: Time::ZERO,
            trial_every: TRIAL,
            beside: None,
            left: None,
            standing: Standing::default(),
            calm: Calm::default(),
            rtt: Span::ZERO,
            packet_bytes: 1_500.0,
        }
    }

    pub(super) fn is_here(&self) -> bool {
        self.beside.is_some()
    }

    /// This flow drains to see whether others are here, or what it did is not seen yet.
    pub(super) fn is_testing(&self, now: Time) -> bool {
        self.test
            .is_some_and(|t| t.asked_until.is_some() && now < t.look_until)
    }

    /// A drain did not do to the queue what it should have.
    pub(super) fn suspects(&self) -> bool {
        self.suspicion.is_some()
    }

    /// Whether anything is seen beside this flow.
    pub(super) fn see_calm(&mut self, now: Time, something_happens: bool) {
        let may_be_alone =
            !self.is_here() && !self.suspects() && !self.is_testing(now) && self.share.is_whole();
        self.calm.see(now, something_happens || !may_be_alone);
    }

    /// Others were there when this flow came.
    pub(super) fn came_late(&mut self) {
        self.calm.came_late();
    }

    /// This flow has had the link for itself for a while, and nothing has happened.
    pub(super) fn is_calm(&self, now: Time, rtt: Span) -> bool {
        self.calm.is_here(now, rtt)
    }

    /// The round trip with the queue that is shared.
    pub(super) fn rtt(&self) -> Span {
        self.rtt
    }

    /// The link's rate, as far as it was seen.
    pub(super) fn link(&self) -> Rate {
        Rate::from_bits_per_sec(u64::MAX - self.link.min().unwrap_or(u64::MAX))
    }

    /// Whether there may be somebody else who matters. Who has his part of a stripe's whole link does not know what the others of it have.
    fn is_a_part(&self, rate: Rate) -> bool {
        self.has_less_than(SHARE, rate) || !self.share.is_whole()
    }

    fn has_less_than(&self, share: f64, rate: Rate) -> bool {
        rate.as_f64() < share * self.link().as_f64()
    }

    pub(super) fn on_arrived(&mut self, now: Time, rate: Rate) {
        let link = self.link();
        if self.is_here() {
            // It does not age beside others.
            self.link.push(now, u64::MAX - link.bits_per_sec());
        }
        self.link.push(now, u64::MAX - rate.bits_per_sec());
        self.steps.on_arrived(now, rate, link);
        if self.steps.is_settling(now) {
            self.suspicion = None;
            self.overflows = Overflowed::default();
        }
    }

    pub(super) fn on_delay(&mut self, delay: u64) {
        if let Some(test) = &mut self.test {
            test.least = test.least.min(delay);
        }
    }

    /// Whether the queue overflows by what is lost where it is longest, or has and others have answered that.
    pub(super) fn on_losses(
        &mut self,
        feedback: &Feedback<'_>,
        (queue, lately): (Span, Span),
        floor: f64,
        delays: &LossByDelay,
    ) -> Yields {
        let point = &feedback.point;
        if point.acked_packets > 0 {
            self.packet_bytes = point.delivered_bytes as f64 / point.acked_packets as f64;
        }
        let answered = self.beside.map_or(Time::ZERO, |b| b.climb.cut_at());
        // (A session of a stripe has few reports of its own, and others' answers are over sooner.)
        let lately = self.share.is_whole().then_some(lately);
        let overflows = self
            .losses
            .on_report(feedback, (queue, lately), floor, delays, answered);
        // Of what a queue loses some of its flows, or sessions of a stripe, see nothing. All of them see it fall, and give way together.
        if overflows {
            Yields::ToAnOverflow
        } else if self.losses.has_passed_peak() && self.may_cut(feedback.now, feedback.smoothed_rtt)
        {
            Yields::ToAFall
        } else {
            Yields::No
        }
    }

    /// What was lost until now says nothing.
    pub(super) fn forget_losses(&mut self) {
        self.losses.forget();
    }

    /// Outside of company: the queue overflows. Whether it does so again, so that all that see it are to leave more room; if it does even
    /// then, it is others that fill it.
    pub(super) fn on_overflow(&mut self, now: Time, look: &Look) -> bool {
        if self.is_here() || self.steps.is_settling(now) {
            return false;
        }
        let seen = self.overflows.on_overflow(now, look.rtt);
        let is_a_part = self.is_a_part(look.rate);
        if (seen.enough && is_a_part) || seen.often {
            self.enter(now, look.rate, look, true);
            self.beside = self.beside.map(|b| Beside {
                hidden: !is_a_part,
                ..b
            });
        }
        seen.again
    }

    /// A drain begins that comes anyway, ends at `until` and leaves `share` of the capacity.
    pub(super) fn on_drain(&mut self, now: Time, until: Time, share: f64, look: &Look) {
        if self.test.is_some() || self.is_here() {
            return;
        }
        self.test = Some(Test {
            asked_until: None,
            look_until: until + look.rtt * 2 + follow(look.queue),
            before: look.delay,
            least: look.delay,
            expected: until.since(now).mul_f64(1.0 - share).min(look.queue),
            rate: look.rate,
        });
    }

    fn begin_test(&mut self, now: Time, rtt: Span, look: &Look) {
        let drain = look
            .queue
            .mul_f64(1.0 / (1.0 - TEST_RATE))
            .min(TEST_LONGEST);
        self.last_test = now;
        self.test = Some(Test {
            asked_until: Some(now + drain),
            look_until: now + drain + rtt * 2 + follow(look.queue),
            before: look.delay,
            least: look.delay,
            expected: drain.mul_f64(1.0 - TEST_RATE).min(look.queue),
            rate: look.rate,
        });
    }

    /// Outside of company, with a queue to be seen: begins a test if drains failed.
    pub(super) fn test_if_suspected(&mut self, now: Time, look: &Look) {
        let within = SUSPECTED_FOR.max(look.rtt * 20);
        self.suspicion = self.suspicion.filter(|s| now.since(s.last) < within);
        let ripe = self
            .suspicion
            .is_some_and(|s| s.times >= SUSPECTED_TIMES && now.since(s.since) > SUSPECTED_BEFORE);
        let apart = TESTS_APART.max(look.rtt * 6);
        if ripe && !self.is_here() && self.test.is_none() && now.since(self.last_test) > apart {
            self.begin_test(now, look.rtt, look);
        }
    }

    /// Outside of company: whether leaving it was wrong, or a queue stays far above `target` for so long that it is none of flows of this
    /// kind, settled or not.
    pub(super) fn heed_queue(&mut self, now: Time, look: &Look, target: Span) {
        let probation = PROBATION.max(look.base_rtt * 20);
        self.left = self.left.filter(|l| now.since(l.at) < probation);
        if self.is_here() {
            self.standing = Standing::default();
            return;
        }
        let (queue, rtt) = (look.queue, look.base_rtt);
        let stands = self.standing.on_queue(now, queue, target, rtt);
        if self.test.is_some() {
            return;
        }
        if let Some(left) = self.left
            && look.rate.as_f64() < RELAPSE * left.rate.as_f64()
            && look.queue > target.mul_f64(ABOVE_TARGET)
        {
            self.left = None;
            self.enter(now, left.rate, look, left.shallow);
        } else if stands && self.is_a_part(look.rate) {
            let before = look.rate.max(self.steps.before().mul_f64(BACK_TO));
            self.enter(now, before, look, false);
        }
    }

    /// Once per report. `dip`: the queue has become shorter by what others did.
    pub(super) fn step(&mut self, now: Time, look: &Look, dip: bool) {
        if let Some(test) = self.test.filter(|t| now >= t.look_until) {
            self.test = None;
            self.judge(now, look, &test);
        }
        self.leave_or_try(now, look, dip);
    }

    /// The share of the capacity that may be sent, while a test lets the queue run down.
    pub(super) fn test_share(&self, now: Time) -> Option<f64> {
        let until = self.test?.asked_until?;
        (now < until).then_some(TEST_RATE)
    }

    fn judge(&mut self, now: Time, look: &Look, test: &Test) {
        let share = test.share_of_expected();
        let unseen =
            share < STAYED && !self.has_less_than(UNSEEN, test.rate) && self.share.is_whole();
        if share >= FELL {
            if let Some(suspicion) = &mut self.suspicion {
                suspicion.times -= 1;
            }
            self.suspicion = self.suspicion.filter(|s| s.times > 0);
            if self.is_here() {
                self.leave_for_now(now, test.rate);
                self.trial_every = (self.trial_every * 2).min(TRIAL_LONGEST);
            }
        } else if let Some(beside) = &mut self.beside {
            self.trial_every = (self.trial_every * 2).min(TRIAL_LONGEST);
            beside.trial_at = now + self.trial_every;
            beside.unseen |= unseen;
        } else if share < STAYED && self.is_a_part(look.rate) && !self.steps.is_settling(now) {
            let suspicion = self.suspicion.get_or_insert(Suspicion {
                since: now,
                last: now,
                times: 0,
                rate: test.rate,
            });
            suspicion.last = now;
            suspicion.times += 1;
            if test.asked_until.is_some() {
                let before = suspicion.rate.max(test.rate);
                let before = before.max(self.steps.before().mul_f64(BACK_TO));
                self.enter(now, before, look, false);
                self.beside = self.beside.map(|b| Beside { unseen, ..b });
            }
        }
    }

    /// In company: whether it has ended, or is to be looked at.
    fn leave_or_try(&mut self, now: Time, look: &Look, dip: bool) {
        let is_alone = !self.has_less_than(ALONE, look.rate);
        let every = self.trial_every;
        let Some(beside) = &mut self.beside else {
            return;
        };
        if beside.climb.is_past_plateau() && look.queue < ROOM {
            // There is more room than there was.
            self.leave_for_now(now, look.rate);
            return;
        }
        if is_alone {
            let since = *beside.alone_since.get_or_insert(now);
            if now.since(since) > ALONE_FOR.max(look.base_rtt * 10) {
                beside.alone_since = None;
                beside.trial_at = beside.trial_at.min(now);
                self.trial_every = TRIAL;
            }
        } else {
            beside.alone_since = None;
        }
        // Flows of this kind that took each other for others find out together.
        let rtt = look.base_rtt + look.queue;
        let calm = now.since(beside.climb.cut_at()) > rtt * 2 + CALM;
        let along = dip && calm && now + every.mul_f64(ALONG) >= beside.trial_at;
        if (now >= beside.trial_at || along) && self.test.is_none() {
            if beside.shallow {
                self.leave();
                // No test shows whether they have gone. The next overflow does.
                self.overflows = Overflowed::one_is_missing(now);
                self.trial_every = (self.trial_every * 2).min(TRIAL_LONGEST);
            } else {
                self.begin_test(now, rtt, look);
            }
        }
    }

    /// What is left after an overflow: others are left more room by who has less than all. Who only saw others give way, and may be among
    /// flows that do not do the same for him, leaves of that what he has of the link: who has most leaves most.
    fn beta(&self, rate: Rate, yields: Yields) -> f64 {
        let unseen = self.beside.is_some_and(|b| b.unseen || b.hidden);
        if yields == Yields::ToAFall && self.share.is_whole() {
            let has = rate.as_f64() / self.link().as_f64().max(1.0);
            1.0 - (1.0 - BETA) * has.min(1.0)
        } else if unseen || self.has_less_than(NEARLY_ALL, rate) || !self.share.is_whole() {
            BETA
        } else {
            BETA_ALONE
        }
    }

    fn enter(&mut self, now: Time, rate: Rate, look: &Look, shallow: bool) {
        let rtt = (look.base_rtt + look.queue).as_secs_f64();
        let times = if shallow { SHALLOW_TRIAL } else { 1 };
        let window = rate.as_f64() / 8.0 * rtt / self.packet_bytes;
        self.beside = Some(Beside {
            climb: Climb::after_cut(now, window, self.beta(rate, Yields::ToAnOverflow), None),
            base_rtt: look.base_rtt,
            shallow,
            unseen: false,
            hidden: false,
            trial_at: now + self.trial_every * times,
            alone_since: None,
        });
        self.test = None;
        self.suspicion = None;
    }

    /// It seems to be over, and may not be.
    fn leave_for_now(&mut self, at: Time, rate: Rate) {
        let shallow = self.beside.is_some_and(|b| b.shallow);
        self.left = Some(Left { at, rate, shallow });
        self.leave();
    }

    pub(super) fn leave(&mut self) {
        self.beside = None;
        self.test = None;
        self.overflows = Overflowed::default();
    }

    /// The last cut has been felt.
    pub(super) fn may_cut(&self, now: Time, rtt: Span) -> bool {
        self.is_after_cut(now, rtt * 2 + CUT_FELT)
    }

    /// In company, and the last cut is longer ago than that.
    pub(super) fn is_after_cut(&self, now: Time, by: Span) -> bool {
        self.beside
            .is_some_and(|b| now.since(b.climb.cut_at()) > by)
    }

    /// The link has become slower: what stands in the queue is this flow's, and nothing that was seen before is of use.
    pub(super) fn on_flood(&mut self) {
        self.leave();
        self.steps = Steps::new();
    }

    /// What is sent beside others. `queue` is the newest.
    pub(super) fn rate(
        &mut self,
        now: Time,
        arrives: Rate,
        queue: Span,
        yields: Yields,
    ) -> Option<Rate> {
        let most = self.link().mul_f64(LINK_MOST);
        let beta = self.beta(arrives, yields);
        let link = self.link().as_f64();
        let missing = |of: f64| (1.0 - arrives.as_f64() / (of * link).max(1.0)).max(0.0);
        let (hungry, lacks) = (HUNGRY_MOST * missing(HUNGRY), missing(1.0));
        let beside = self.beside.as_mut()?;
        let rtt = beside.base_rtt + queue;
        self.rtt = rtt;
        let packets_per_bit = rtt.as_secs_f64() / 8.0 / self.packet_bytes;
        let (hungry, evens) = if self.share.is_whole() {
            (hungry, EVENS_PER_S)
        } else {
            (0.0, EVENS_PER_S_STRIPE)
        };
        let hunger = if beside.unseen {
            f64::INFINITY
        } else {
            hungry.max(evens * lacks * rtt.as_secs_f64()) * link * packets_per_bit
        };
        let mut window = beside.climb.window(now, rtt, hunger);
        if yields != Yields::No {
            beside.unseen = false;
            beside.climb = Climb::after_cut(now, window, beta, Some(&beside.climb));
            window = beside.climb.window(now, rtt, hunger);
            self.losses.on_cut();
        }
        let bits = window / packets_per_bit.max(1e-12);
        Some(Rate::from_bits_per_sec(floor_to_u64(bits)).min(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_millis(40);
    const BASE: u64 = 1_000_000_000;

    fn look(queue_ms: u64, rate: Rate) -> Look {
        Look {
            base_rtt: RTT,
            rtt: RTT,
            rate,
            queue: Span::from_millis(queue_ms),
            delay: BASE + queue_ms * 1_000_000,
        }
    }

    /// A drain each 1.5 s at 30 of 100 Mbit/s that leaves `left` of a queue of 20 ms. When that is company.
    fn drains_until(left: f64, until_ms: u64) -> Option<u64> {
        let mut company = Company::new(Share::WHOLE);
        company.on_arrived(Time::ZERO, Rate::from_mbit_per_sec(100));
        let queue = look(20, Rate::from_mbit_per_sec(30));
        for at in (10_000..until_ms).step_by(10) {
            let now = Time::ZERO + Span::from_millis(at);
            company.on_arrived(now, queue.rate);
            if at % 1_500 == 0 {
                company.on_drain(now, now + Span::from_millis(100), 0.75, &queue);
            }
            // What is left out of 25 ms of a drain of a quarter, and of 20 ms in a test, is 20 ms.
            company.on_delay(BASE + (20e6 * left) as u64);
            company.test_if_suspected(now, &queue);
            company.step(now, &queue, false);
            if company.is_here() {
                return Some(at);
            }
        }
        None
    }

    #[test]
    fn a_queue_that_stays_when_it_is_drained_is_others() {
        let at = drains_until(0.8, 30_000);
        assert!(
            at.is_some_and(|at| (12_000..20_000).contains(&at)),
            "{at:?}"
        );
        assert_eq!(drains_until(0.2, 30_000), None);
        // A half that goes is no evidence for the one nor the other.
        assert_eq!(drains_until(0.5, 30_000), None);
    }

    #[test]
    fn the_third_overflow_is_others_and_one_after_the_other_is_not() {
        let mut company = Company::new(Share::WHOLE);
        company.on_arrived(Time::ZERO, Rate::from_mbit_per_sec(100));
        let seen = look(8, Rate::from_mbit_per_sec(40));
        let mut overflow = |ms| {
            let again = company.on_overflow(Time::ZERO + Span::from_millis(ms), &seen);
            (again, company.is_here())
        };
        assert_eq!(overflow(20_000), (false, false));
        assert_eq!(overflow(20_500), (false, false));
        assert_eq!(overflow(23_000), (true, false));
        assert_eq!(overflow(23_500), (true, false));
        assert_eq!(overflow(27_000), (true, true));
        // Who has the link overflows it alone.
        let mut alone = Company::new(Share::WHOLE);
        alone.on_arrived(Time::ZERO, Rate::from_mbit_per_sec(100));
        for at in [20, 23, 27, 31] {
            let seen = look(8, Rate::from_mbit_per_sec(98));
            alone.on_overflow(Time::ZERO + Span::from_secs(at), &seen);
        }
        assert!(!alone.is_here());
    }

    #[test]
    fn overflows_that_come_often_are_others_also_for_who_saw_no_more_of_the_link() {
        let mut company = Company::new(Share::WHOLE);
        company.on_arrived(Time::ZERO, Rate::from_mbit_per_sec(60));
        let seen = look(8, Rate::from_mbit_per_sec(60));
        let entered = (1..=8).find(|n| {
            company.on_overflow(Time::ZERO + Span::from_secs(n * 2), &seen);
            company.is_here()
        });
        assert_eq!(entered, Some(5));
        assert!(company.beta(seen.rate, Yields::ToAnOverflow) < BETA_ALONE);
    }

    #[test]
    fn after_company_that_began_with_overflows_one_more_is_enough() {
        let mut company = Company::new(Share::WHOLE);
        company.on_arrived(Time::ZERO, Rate::from_mbit_per_sec(100));
        let seen = look(8, Rate::from_mbit_per_sec(40));
        let at = |ms| Time::ZERO + Span::from_millis(ms);
        for ms in [20_000, 23_000, 27_000] {
            company.on_overflow(at(ms), &seen);
        }
        assert!(company.is_here());
        let left = (27_000..60_000).step_by(10).find(|&ms| {
            company.step(at(ms), &seen, false);
            !company.is_here()
        });
        let left = left.expect("it ends by itself");
        company.on_overflow(at(left + 500), &seen);
        assert!(!company.is_here(), "what leaving did itself is none");
        company.on_overflow(at(left + 3_000), &seen);
        assert!(company.is_here());
    }

    #[test]
    fn a_link_that_became_slower_is_no_company_and_what_it_had_is_forgotten() {
        let mut company = Company::new(Share::WHOLE);
        let at = |ms| Time::ZERO + Span::from_millis(ms);
        for ms in (10_000..12_000).step_by(10) {
            let mbit = if ms < 11_000 { 90 } else { 1 };
            company.on_arrived(at(ms), Rate::from_mbit_per_sec(mbit));
        }
        assert!(company.steps.before() > Rate::from_mbit_per_sec(80));
        company.enter(
            at(12_000),
            Rate::from_mbit_per_sec(54),
            &look(900, Rate::ZERO),
            false,
        );
        assert!(!company.is_after_cut(at(12_100), Span::from_millis(200)));
        assert!(company.is_after_cut(at(12_300), Span::from_millis(200)));
        company.on_flood();
        assert!(!company.is_here());
        assert_eq!(company.steps.before(), Rate::ZERO);
    }

    #[test]
    fn who_sees_others_give_way_gives_way_by_what_he_has() {
        let mut company = Company::new(Share::WHOLE);
        company.on_arrived(Time::ZERO, Rate::from_mbit_per_sec(100));
        let left = |company: &Company, mbit, yields| {
            let beta = company.beta(Rate::from_mbit_per_sec(mbit), yields);
            (beta * 1e3).round() as u64
        };
        assert_eq!(left(&company, 80, Yields::ToAnOverflow), 750);
        assert_eq!(left(&company, 80, Yields::ToAFall), 800);
        assert_eq!(left(&company, 20, Yields::ToAFall), 950);
        // Sessions of a stripe give way as the one flow that they are.
        company.share = Share::one_of(4);
        assert_eq!(left(&company, 20, Yields::ToAFall), 750);
    }

    /// Beside others since 10 s with all that was ever seen of the link: what is sent at 30 s if as much arrives, in Mbit/s. `stays`: how much of the
    /// queue is there when less is sent.
    fn sent_beside(stays: f64) -> f64 {
        let mut company = Company::new(Share::WHOLE);
        let seen = Rate::from_mbit_per_sec(70);
        company.on_arrived(Time::ZERO, seen);
        company.enter(
            Time::ZERO + Span::from_secs(10),
            seen,
            &look(60, seen),
            false,
        );
        let mut arrives = seen;
        for ms in (10_000..30_000).step_by(10) {
            let now = Time::ZERO + Span::from_millis(ms);
            let look = look(60, arrives);
            company.on_arrived(now, arrives);
            company.step(now, &look, false);
            let tests = company.test_share(now).is_some();
            company.on_delay(BASE + (60e6 * if tests { stays } else { 1.0 }) as u64);
            if let Some(rate) = company.rate(now, arrives, look.queue, Yields::No) {
                arrives = rate;
            }
        }
        arrives.as_f64() / 1e6
    }

    #[test]
    fn who_came_to_a_full_queue_looks_for_what_he_never_saw() {
        let sent = sent_beside(0.95);
        assert!(sent > 300.0, "{sent}");
        // Half of a queue says nothing about who has the rest.
        let sent = sent_beside(0.5);
        assert!(sent < 150.0, "{sent}");
    }
}
