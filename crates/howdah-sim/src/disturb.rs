//! What busy hosts do to datagrams, beside costing time.
//!
//! Each of these has been seen on sockets (docs/lab.md, "Hosts as they are"), and each has misled a sender that reads meaning out of arrival
//! times. All are off unless asked for; what is drawn comes from a stream of its own, so that a world without them runs as it did.

use crate::checks::SplitMix;
use howdah_core::{Span, Time};

/// What a host does. [`Default`] does nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Disturbance {
    /// Some calls that send several datagrams are interrupted half way.
    pub tail: Option<Tail>,
    /// Arrivals are read at multiples of this, all that have come by then together: interrupts that are held back, packets that are
    /// joined. Zero reads each at once.
    pub gather: Span,
    /// What the first datagram with payload costs beyond the others: buffers to make, threads to wake, control messages that come with it. The first report is
    /// late by that.
    pub first: Span,
    /// The core belongs to somebody else for a while.
    pub stalls: Option<Stalls>,
}

/// One call in so many is interrupted, uniformly up to so long; the second half of its datagrams leaves after that.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tail {
    /// The longest interruption.
    pub most: Span,
    /// One call in so many, drawn.
    pub calls: u32,
}

/// Moments at which a core does nothing for the endpoint.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stalls {
    /// Mean time from the end of one to the beginning of the next; drawn uniformly up to twice this.
    pub every: Span,
    /// Shortest and ...
    pub least: Span,
    /// ... longest.
    pub most: Span,
}

/// A core's stalls as they come.
#[derive(Debug)]
pub(crate) struct Calendar {
    stalls: Stalls,
    begins: Time,
    ends: Time,
}

impl Calendar {
    pub(crate) fn new(stalls: Stalls, now: Time, chance: &mut SplitMix) -> Self {
        let mut calendar = Self {
            stalls,
            begins: now,
            ends: now,
        };
        calendar.draw(chance);
        calendar
    }

    fn draw(&mut self, chance: &mut SplitMix) {
        let pause = chance.below(2 * self.stalls.every.as_nanos().max(1));
        let spread = self.stalls.most.saturating_sub(self.stalls.least);
        let length = self.stalls.least + Span::from_nanos(chance.below(spread.as_nanos() + 1));
        self.begins = self.ends + Span::from_nanos(pause);
        self.ends = self.begins + length;
    }

    /// When work that is begun now and takes `work` is done.
    pub(crate) fn done(&mut self, now: Time, work: Span, chance: &mut SplitMix) -> Time {
        while self.ends <= now {
            self.draw(chance);
        }
        let mut done = now + work;
        let mut from = now;
        while self.begins <= done {
            done += self.ends.since(self.begins.max(from));
            from = self.ends;
            self.draw(chance);
        }
        done
    }
}

impl Tail {
    /// By how much the second half of a call is late, if this call is interrupted.
    pub(crate) fn draw(self, chance: &mut SplitMix) -> Option<Span> {
        if chance.below(u64::from(self.calls.max(1))) > 0 {
            return None;
        }
        let late = chance.below(self.most.as_nanos() + 1);
        (late > 0).then(|| Span::from_nanos(late))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Span {
        Span::from_millis(ms)
    }

    #[test]
    fn stalls_take_their_share() {
        let stalls = Stalls {
            every: ms(50),
            least: ms(1),
            most: ms(9),
        };
        let mut chance = SplitMix::new(3);
        let mut calendar = Calendar::new(stalls, Time::ZERO, &mut chance);
        let mut now = Time::ZERO;
        let mut worked = Span::ZERO;
        let mut longest = Span::ZERO;
        while now < Time::ZERO + Span::from_secs(600) {
            let done = calendar.done(now, ms(1), &mut chance);
            longest = longest.max(done.since(now));
            worked += ms(1);
            now = done;
        }
        // 5 ms of every 55 are lost.
        let share = worked.as_secs_f64() / now.as_secs_f64();
        assert!((share - 50.0 / 55.0).abs() < 0.01, "{share}");
        assert!(longest >= ms(9) && longest <= ms(30), "{longest}");
    }

    #[test]
    fn one_call_in_so_many_has_a_late_tail() {
        let tail = Tail {
            most: ms(1),
            calls: 8,
        };
        let mut chance = SplitMix::new(4);
        let late: Vec<Span> = (0..8_000).filter_map(|_| tail.draw(&mut chance)).collect();
        assert!((900..1_100).contains(&late.len()), "{}", late.len());
        assert!(late.iter().all(|&late| late <= ms(1)));
    }
}
