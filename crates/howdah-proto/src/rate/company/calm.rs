//! When a flow has the link to itself and nothing happens: then a few reports say as much as many.

use howdah_core::{Span, Time};

/// Nothing has happened for so long, and so many round trips.
const LASTS: Span = Span::from_secs(1);
const LASTS_RTTS: u64 = 4;

#[derive(Debug, Default)]
pub(super) struct Calm {
    since: Option<Time>,
    /// Others were there first, and what they have of the link nobody knows.
    never: bool,
}

impl Calm {
    pub(super) fn came_late(&mut self) {
        self.never = true;
    }

    pub(super) fn see(&mut self, now: Time, something_happens: bool) {
        self.since = match self.since {
            _ if something_happens => None,
            since => since.or(Some(now)),
        };
    }

    pub(super) fn is_here(&self, now: Time, rtt: Span) -> bool {
        let lasts = LASTS.max(rtt * LASTS_RTTS);
        !self.never && self.since.is_some_and(|since| now.since(since) >= lasts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_is_felt_at_once_and_for_a_while() {
        let ms = |ms| Time::ZERO + Span::from_millis(ms);
        let rtt = Span::from_millis(50);
        let mut calm = Calm::default();
        assert!(!calm.is_here(ms(5_000), rtt));
        calm.see(ms(100), false);
        calm.see(ms(900), false);
        assert!(!calm.is_here(ms(1_050), rtt));
        assert!(calm.is_here(ms(1_100), rtt));
        assert!(!calm.is_here(ms(1_100), Span::from_millis(400)));
        calm.see(ms(1_200), true);
        assert!(!calm.is_here(ms(1_200), rtt));
        calm.see(ms(1_210), false);
        assert!(!calm.is_here(ms(2_200), rtt) && calm.is_here(ms(2_210), rtt));
    }
}
