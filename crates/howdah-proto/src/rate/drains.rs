//! Letting the queue run empty now and then, so that every flow on it sees the path without it.
//!
//! A flow that comes to a queue takes it for the path, and would stack its own target on it. So flows drain
//! together: whoever sees the queue run down without having done anything about it follows at once, and a drain that
//! showed a shorter path than was thought is soon followed by a deeper one. (BBR's `PROBE_RTT` is synchronised by the
//! expiry of its minimum, draft-cardwell-iccrg-bbr-congestion-control; here by what is seen of the queue.)

use crate::rtt::WindowedMin;
use howdah_core::num::floor_to_u64;
use howdah_core::{Span, Time};

const EVERY: Span = Span::from_secs(5);
/// Share of the capacity that is left meanwhile.
const RATE: f64 = 0.75;
/// A drain is that much longer than what empties the own queue.
const DEPTH: f64 = 1.25;
const MARGIN: Span = Span::from_millis(2);
const LONGEST: Span = Span::from_millis(200);
/// A path so much shorter than was thought when a drain began was not known. The first drain counts as such: who came
/// to others' queue does not know of it.
pub(super) const BASE_WRONG: Span = Span::from_millis(1);
/// Then there is another one after so long, which leaves so much of the capacity.
const AGAIN: Span = Span::from_millis(1_200);
const RATE_DEEP: f64 = 0.4;
/// So much loss by chance is rare. More likely the queue was full from the beginning, and who does not know of it believes in chance, and so in
/// more capacity than there is: only a drain that goes below what arrives shows that.
const MUCH: f64 = 0.05;
/// A queue that stays too long for so long, and that many round trips, is drained, too: somebody may not know of it.
const DELAYED_FOR: Span = Span::from_millis(100);
const DELAYED_RTTS: u64 = 6;

/// Others are followed when the queue has become so much shorter, or by that share of the target, within such a time;
/// but not sooner than that after the own last drain.
const DIP: Span = Span::from_millis(2);
const DIP_OF_TARGET: f64 = 0.4;
const DIP_WITHIN: Span = Span::from_millis(100);
const FOLLOW_AFTER: Span = Span::from_secs(1);
/// What this flow does about the queue itself shows within so long, at any round trip.
const OWN_WITHIN: Span = Span::from_secs(1);

/// How long a flow is young after it has learnt that it came to others' queue.
const YOUNG: Span = Span::from_secs(8);

/// What is seen of the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Smallest delay of the recent past, in nanoseconds by clocks of different origins.
    pub(super) base: u64,
    pub(super) queue: Span,
    pub(super) target: Span,
    /// Since when the queue has been far above its target.
    pub(super) delayed_since: Option<Time>,
    /// The last drain did not do what it should have.
    pub(super) suspects: bool,
    /// Share of what is sent that is thought to be lost by chance.
    pub(super) by_chance: f64,
}

#[derive(Debug)]
pub(super) struct Drains {
    last: Time,
    until: Time,
    rate: f64,
    is_draining: bool,
    /// Largest delay of the last moments, as its complement.
    recent_most: WindowedMin,
    /// Least share of the capacity that was sent in the last moments, in billionths.
    least_sent: WindowedMin,
    dip: bool,
    /// The base when the last drain began.
    base_before: Option<u64>,
    /// The same when start-up ended, until it turns out that others' queue was a part of it.
    base_at_first: Option<u64>,
    young_until: Time,
    echo_until: Time,
}

impl Drains {
    pub(super) fn new() -> Self {
        Self {
            last: Time::ZERO,
            until: Time::ZERO,
            rate: RATE,
            is_draining: false,
            recent_most: WindowedMin::new(DIP_WITHIN),
            least_sent: WindowedMin::new(OWN_WITHIN),
            dip: false,
            base_before: None,
            base_at_first: None,
            young_until: Time::ZERO,
            echo_until: Time::ZERO,
        }
    }

    /// Start-up has ended. `is_late`: others have the larger part of the path.
    pub(super) fn begin(&mut self, now: Time, base: Option<u64>, is_late: bool) {
        self.last = now;
        self.base_at_first = base;
        if is_late {
            self.young_until = now + YOUNG;
        }
    }

    /// The delay of lately, in nanoseconds.
    pub(super) fn on_delay(&mut self, now: Time, delay: u64, target: Span, noise: Span) {
        self.recent_most.push(now, u64::MAX - delay);
        let most = u64::MAX - self.recent_most.min().unwrap_or(u64::MAX - delay);
        let own = 1.0 - self.least_sent.min().unwrap_or(0) as f64 / 1e9;
        let dip = DIP.min(target.mul_f64(DIP_OF_TARGET)) + noise;
        let enough = dip + DIP_WITHIN.mul_f64(own.max(0.0));
        self.dip = Span::from_nanos(most - delay) > enough;
    }

    /// Somebody else lets the queue run down.
    pub(super) fn is_dip(&self) -> bool {
        self.dip
    }

    /// This flow came to others' queue, and not long ago.
    pub(super) fn is_young(&self, now: Time) -> bool {
        now < self.young_until
    }

    /// It is the receiving host that is full; being quick would not get this flow more.
    pub(super) fn grow_up(&mut self) {
        self.young_until = Time::ZERO;
        self.base_at_first = None;
    }

    /// An empty queue is the echo of a drain, this flow's or another's, and no sign of room.
    pub(super) fn is_echo(&self, now: Time) -> bool {
        now < self.echo_until
    }

    /// When the last drain ends.
    pub(super) fn until(&self) -> Time {
        self.until
    }

    /// What was sent without a drain of this kind.
    pub(super) fn on_sent(&mut self, now: Time, sent: f64) {
        self.least_sent
            .push(now, floor_to_u64(sent.clamp(0.0, 1.0) * 1e9));
    }

    /// Once per report, after the rate was decided: `sent` of the capacity. What may be sent instead, as a share of the
    /// capacity, during a drain.
    pub(super) fn step(&mut self, now: Time, rtt: Span, sent: f64, seen: &Seen) -> Option<f64> {
        self.least_sent
            .push(now, floor_to_u64(sent.clamp(0.0, 1.0) * 1e9));
        let was_longer = |before| before > seen.base + BASE_WRONG.as_nanos();
        if self.base_at_first.is_some_and(was_longer) {
            self.base_at_first = None;
            self.young_until = now + YOUNG;
        }
        let wrong = self.base_before.is_none_or(was_longer);
        let patience = DELAYED_FOR + rtt * DELAYED_RTTS;
        let delayed = seen
            .delayed_since
            .is_some_and(|at| now.since(at) > patience);
        let every = if wrong || delayed || seen.suspects {
            AGAIN
        } else {
            EVERY
        };
        let since = now.since(self.last);
        if self.is_draining {
            if now >= self.until {
                self.is_draining = false;
                self.last = now;
            }
        } else if since >= every || (self.dip && since >= FOLLOW_AFTER) {
            self.is_draining = true;
            self.base_before = Some(seen.base);
            self.rate = if seen.by_chance > MUCH {
                RATE_DEEP * (1.0 - seen.by_chance)
            } else if wrong {
                RATE_DEEP
            } else {
                RATE
            };
            // Who came late to a queue sees only a part of it.
            let excess = seen.queue.max(seen.target).mul_f64(DEPTH) + MARGIN;
            self.until = now + excess.mul_f64(1.0 / (1.0 - RATE)).min(LONGEST);
        }
        if self.is_draining || self.dip {
            self.echo_until = now + rtt + super::history::RECENT;
        }
        self.is_draining.then_some(self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_millis(50);
    const TARGET: Span = Span::from_millis(8);
    const BASE: u64 = 1_000_000_000;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    /// Reports 10 ms apart until `end`; the queue by the time. When drains began, and with which share of the capacity.
    fn drains(
        drains: &mut Drains,
        from: u64,
        end: u64,
        base: impl Fn(u64) -> u64,
        queue: impl Fn(u64) -> Span,
    ) -> Vec<(u64, f64)> {
        let mut begun = Vec::new();
        let mut before = None;
        for at in (from..end).step_by(10) {
            let (now, queue) = (ms(at), queue(at));
            drains.on_delay(now, base(at) + queue.as_nanos(), TARGET, Span::ZERO);
            let seen = Seen {
                base: base(at),
                queue,
                target: TARGET,
                delayed_since: None,
                suspects: false,
                by_chance: 0.0,
            };
            let share = drains.step(now, RTT, 1.0, &seen);
            begun.extend(share.filter(|_| before.is_none()).map(|share| (at, share)));
            before = share;
        }
        begun
    }

    #[test]
    fn the_first_drain_is_soon_and_deep_and_the_others_are_not() {
        let mut flow = Drains::new();
        flow.begin(Time::ZERO, Some(BASE), false);
        let begun = drains(&mut flow, 0, 12_000, |_| BASE, |_| TARGET);
        assert_eq!(begun.len(), 3, "{begun:?}");
        assert_eq!(begun[0], (1_200, RATE_DEEP));
        assert!(
            (6_200..6_400).contains(&begun[1].0) && begun[1].1 == RATE,
            "{begun:?}"
        );
        assert!(!flow.is_young(ms(5_000)));
    }

    #[test]
    fn a_path_that_turns_out_shorter_is_looked_at_again_and_the_flow_is_young() {
        let mut flow = Drains::new();
        flow.begin(Time::ZERO, Some(BASE), false);
        let base = |at| BASE - if at > 1_300 { 5_000_000 } else { 0 };
        let begun = drains(&mut flow, 0, 4_000, base, |_| TARGET);
        assert_eq!(begun.len(), 2, "{begun:?}");
        assert!(begun[1].0 < 2_700 && begun[1].1 == RATE_DEEP, "{begun:?}");
        assert!(flow.is_young(ms(4_000)));
    }

    #[test]
    fn others_that_drain_are_followed_and_the_own_drain_is_not() {
        let mut flow = Drains::new();
        flow.begin(Time::ZERO, Some(BASE), false);
        drains(&mut flow, 0, 1_400, |_| BASE, |_| TARGET);
        // Somebody takes half of the queue away.
        let queue = |at| if at < 3_000 { TARGET } else { TARGET / 2 };
        let begun = drains(&mut flow, 1_400, 4_000, |_| BASE, queue);
        assert_eq!(begun, [(3_000, RATE)]);
        assert!(flow.is_echo(ms(3_050)));
        // A flow that went down itself sees the same, and it is its own work.
        let mut flow = Drains::new();
        flow.begin(Time::ZERO, Some(BASE), false);
        for at in (0..1_100).step_by(10) {
            let seen = Seen {
                base: BASE,
                queue: TARGET,
                target: TARGET,
                delayed_since: None,
                suspects: false,
                by_chance: 0.0,
            };
            flow.on_delay(
                ms(at),
                BASE + if at < 1_050 { 8_000_000 } else { 4_000_000 },
                TARGET,
                Span::ZERO,
            );
            assert_eq!(flow.step(ms(at), RTT, 0.95, &seen), None);
        }
        assert!(!flow.is_dip());
    }
}
