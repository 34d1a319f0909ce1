//! How long to sleep, and for what.
//!
//! *Quiet*: a timer wakes the thread some microseconds late. So it asks to be woken that much
//! earlier and spends the rest polling without sleeping, as long as that stays a small part of its
//! time. A quiet path is exact.
//!
//! *Busy*: at 10 Gbit/s a super-packet comes and another is due every 53 us, and to sleep and be
//! woken for each of them costs as much as to copy it. So the thread sleeps a fixed, short time,
//! deaf to the devices (which spares the senders the work of waking it, too), and then does what
//! has come up. Both are a few tens of microseconds later, and the thread takes
//! about a fifth of a core less (10 Gbit/s of TCP: 70 to 80 % of a core before, 50 to 60 % after).

use howdah_core::{Span, Time};

/// Share of the time that may be spent polling without sleeping: 1 / this.
const BUDGET_DIVISOR: u64 = 25;
/// Unused budget that is kept.
const MAX_BUDGET_NS: u64 = 1_000_000;
/// Limits for the estimate of how late a timer wakes the thread.
const MIN_LATE_NS: u64 = 2_000;
const MAX_LATE_NS: u64 = 60_000;
/// An idle thread looks around this often anyway.
const MAX_SLEEP: Span = Span::from_secs(1);
/// The sleep of a busy thread, on a path longer than [`SHORT_PATH`] and on a shorter one.
const BUSY_SLEEP: Span = Span::from_micros(50);
const SHORT_BUSY_SLEEP: Span = Span::from_micros(25);
const SHORT_PATH: Span = Span::from_millis(1);
/// Busy is who wakes up more often than this on average.
const BUSY_GAP_NS: u64 = 60_000;
/// Fruitless wakes in a row after which a busy thread is a quiet one.
const MAX_FRUITLESS: u32 = 4;

/// What to wait for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wait {
    /// A packet or a command, at most this long.
    Event(Option<Span>),
    /// Nothing but the time.
    Sleep(Span),
}

#[derive(Debug)]
pub(crate) struct Waiter {
    budget_ns: u64,
    /// Running mean of how late timers fire.
    late_ns: u64,
    /// Running mean of the time between wakes.
    gap_ns: u64,
    busy: bool,
    busy_sleep: Span,
    fruitless: u32,
    last_plan: Time,
    last_wake: Time,
    /// The plan was to poll without sleeping.
    spinning: bool,
    asked: Option<Time>,
}

impl Waiter {
    /// For a path whose shorter direction has this delay.
    pub(crate) fn new(delay: Span) -> Self {
        Self {
            budget_ns: 0,
            late_ns: 15_000,
            gap_ns: MAX_SLEEP.as_nanos(),
            busy: false,
            busy_sleep: if delay < SHORT_PATH {
                SHORT_BUSY_SLEEP
            } else {
                BUSY_SLEEP
            },
            fruitless: 0,
            last_plan: Time::ZERO,
            last_wake: Time::ZERO,
            spinning: false,
            asked: None,
        }
    }

    /// What to do until something comes or, at `next`, something is due.
    pub(crate) fn plan(&mut self, now: Time, next: Option<Time>, found_work: bool) -> Wait {
        let passed = now.since(self.last_plan).as_nanos();
        self.budget_ns = (self.budget_ns + passed / BUDGET_DIVISOR).min(MAX_BUDGET_NS);
        self.last_plan = now;
        self.spinning = false;
        self.asked = None;
        self.fruitless = if found_work { 0 } else { self.fruitless + 1 };
        if self.fruitless >= MAX_FRUITLESS {
            self.busy = false;
        } else if self.gap_ns < BUSY_GAP_NS {
            self.busy = true;
        }
        if self.busy {
            self.asked = Some(now + self.busy_sleep);
            return Wait::Sleep(self.busy_sleep);
        }
        let Some(next) = next else {
            return Wait::Event(None);
        };
        let wait = next.since(now).min(MAX_SLEEP);
        if wait.is_zero() {
            return Wait::Event(Some(wait));
        }
        let early = Span::from_nanos(self.late_ns);
        if self.budget_ns < self.late_ns {
            self.asked = Some(now + wait);
            return Wait::Event(Some(wait));
        }
        if wait <= early {
            self.spinning = true;
            return Wait::Event(Some(Span::ZERO));
        }
        let sleep = wait.saturating_sub(early);
        self.asked = Some(now + sleep);
        Wait::Event(Some(sleep))
    }

    /// Whether it sleeps without listening.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Takes note of how the wait ended.
    pub(crate) fn woke(&mut self, now: Time, by_event: bool) {
        if self.spinning {
            let spent = now.since(self.last_plan).as_nanos();
            self.budget_ns = self.budget_ns.saturating_sub(spent);
            return;
        }
        let gap = now
            .since(self.last_wake)
            .as_nanos()
            .min(MAX_SLEEP.as_nanos());
        self.gap_ns = (self.gap_ns * 15 + gap) / 16;
        if let Some(asked) = self.asked
            && !by_event
        {
            let late = now.since(asked).as_nanos().clamp(MIN_LATE_NS, MAX_LATE_NS);
            self.late_ns = (self.late_ns * 15 + late) / 16;
        }
        self.last_wake = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1000)
    }

    #[test]
    fn sleeps_forever_without_work_and_not_at_all_when_late() {
        let mut waiter = Waiter::new(Span::from_millis(5));
        assert_eq!(waiter.plan(at(0), None, true), Wait::Event(None));
        assert_eq!(
            waiter.plan(at(10), Some(at(5)), true),
            Wait::Event(Some(Span::ZERO))
        );
    }

    #[test]
    fn wakes_early_and_spins_while_the_budget_lasts() {
        let mut waiter = Waiter::new(Span::from_millis(5));
        let _ = waiter.plan(at(100_000), None, true);
        let Wait::Event(Some(sleep)) = waiter.plan(at(100_000), Some(at(101_000)), true) else {
            panic!("not quiet");
        };
        assert!(sleep < Span::from_micros(990) && sleep > Span::from_micros(900));
        waiter.woke(at(100_995), false);
        let spin = waiter.plan(at(100_995), Some(at(101_000)), false);
        assert_eq!(spin, Wait::Event(Some(Span::ZERO)));
        assert!(waiter.spinning);
    }

    /// Something is due every 40 us for a second, then nothing more.
    #[test]
    fn a_busy_path_sleeps_in_fixed_steps_and_calms_down() {
        let mut waiter = Waiter::new(Span::from_millis(5));
        let (mut spun, mut wakes) = (0, 0);
        let mut now = at(0);
        let mut work = true;
        while now < at(1_000_000) {
            let next = Time::from_nanos((now.as_nanos() / 40_000 + 1) * 40_000);
            let plan = waiter.plan(now, Some(next), work);
            let until = match plan {
                Wait::Event(Some(Span::ZERO)) => now + Span::from_micros(1),
                Wait::Event(Some(span)) | Wait::Sleep(span) => now + span + Span::from_micros(10),
                Wait::Event(None) => panic!("something is due"),
            };
            if waiter.spinning {
                spun += until.since(now).as_nanos();
            }
            wakes += 1;
            work = until >= next;
            now = until;
            waiter.woke(now, false);
        }
        assert!(spun < 50_000_000, "{spun} ns in a second");
        assert!(wakes < 18_000, "{wakes}");
        assert!(waiter.busy);
        for _ in 0..=MAX_FRUITLESS {
            let _ = waiter.plan(now, None, false);
            now += BUSY_SLEEP;
            waiter.woke(now, false);
        }
        assert_eq!(waiter.plan(now, None, false), Wait::Event(None));
    }
}
