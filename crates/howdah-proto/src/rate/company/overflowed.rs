//! A queue that overflows outside of company again and again.

use howdah_core::{Span, Time};

/// Overflows are two if they are so far apart, and belong together if they are no further.
const APART: Span = Span::from_millis(1_500);
const WITHIN: Span = Span::from_secs(30);
/// After so many there is no doubt that the queue overflows though this flow leaves it room.
const ENOUGH: u32 = 3;
/// So many, no further apart than this and 2 RTT in the middle, no flow makes alone.
const MANY: u32 = 5;
const OFTEN: Span = Span::from_millis(2_500);

/// What an overflow says, with those before.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Seen {
    /// It is not the first.
    pub(super) again: bool,
    /// The queue has overflowed often enough that it is others who fill it, if there may be somebody else.
    pub(super) enough: bool,
    /// There is somebody else, though this flow had all that it ever saw of the link.
    pub(super) often: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Overflowed {
    first: Time,
    last: Time,
    times: u32,
}

impl Overflowed {
    /// The next overflow is enough.
    pub(super) fn one_is_missing(now: Time) -> Self {
        Self {
            first: now,
            last: now,
            times: ENOUGH - 1,
        }
    }

    pub(super) fn on_overflow(&mut self, now: Time, rtt: Span) -> Seen {
        if self.times == 0 || now.since(self.last) > WITHIN {
            *self = Self {
                first: now,
                last: now,
                times: 1,
            };
            return Seen::default();
        }
        if now.since(self.last) < APART {
            return Seen {
                again: self.times > 1,
                ..Seen::default()
            };
        }
        let often = (OFTEN + rtt * 2) * u64::from(self.times);
        self.last = now;
        self.times += 1;
        Seen {
            again: true,
            enough: self.times >= ENOUGH,
            often: self.times >= MANY && now.since(self.first) <= often,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each `apart_ms`, what the first eight overflows say.
    fn seen(apart_ms: u64) -> Vec<Seen> {
        let mut overflowed = Overflowed::default();
        let overflow =
            |n| overflowed.on_overflow(Time::ZERO + Span::from_millis(n * apart_ms), Span::ZERO);
        (1..=8).map(overflow).collect()
    }

    fn first(seen: &[Seen], what: impl Fn(&Seen) -> bool) -> Option<usize> {
        seen.iter().position(what).map(|n| n + 1)
    }

    #[test]
    fn overflows_that_come_often_are_others_whatever_this_flow_has() {
        let soon = seen(2_000);
        assert_eq!(first(&soon, |s| s.again), Some(2));
        assert_eq!(first(&soon, |s| s.enough), Some(3));
        assert_eq!(first(&soon, |s| s.often), Some(5));
        // A flow alone overflows a short queue now and then, too, while its target comes back.
        let seldom = seen(8_000);
        assert_eq!(first(&seldom, |s| s.enough), Some(3));
        assert_eq!(first(&seldom, |s| s.often), None);
        // One that lasts is one, and those of a minute ago are none.
        assert_eq!(first(&seen(100), |s| s.enough), None);
        assert_eq!(first(&seen(31_000), |s| s.again), None);
    }
}
