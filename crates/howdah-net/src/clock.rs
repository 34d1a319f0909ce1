//! The monotonic clock as [`Time`].

use howdah_core::{Span, Time};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Nanoseconds since this clock was made.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// Starts at zero.
    #[expect(
        clippy::new_without_default,
        reason = "a clock that starts now is no default value"
    )]
    pub fn new() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    /// Time since the clock was made.
    pub fn now(&self) -> Time {
        Time::ZERO + Span::from(self.origin.elapsed())
    }

    /// The kernel's receive timestamp (of the wall clock) as a time of this clock.
    ///
    /// Only its distance from the present wall clock is used, and only if that is sane, so that
    /// steps of the wall clock do no harm.
    pub(crate) fn from_wall(now: Time, wall_now: Duration, timestamp: Option<Duration>) -> Time {
        const SANE: Duration = Duration::from_secs(1);
        let age = timestamp
            .and_then(|at| wall_now.checked_sub(at))
            .filter(|age| *age < SANE);
        now - Span::from(age.unwrap_or_default())
    }
}

/// The wall clock, as the kernel stamps packets with it.
pub(crate) fn wall_now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stepped_wall_clock_is_ignored() {
        let now = Time::ZERO + Span::from_secs(10);
        let wall = Duration::from_secs(1_000);
        let stamp = |s| Some(Duration::from_secs_f64(s));
        assert_eq!(Clock::from_wall(now, wall, None), now);
        assert_eq!(Clock::from_wall(now, wall, stamp(5.0)), now);
        assert_eq!(Clock::from_wall(now, wall, stamp(2_000.0)), now);
        assert_eq!(
            Clock::from_wall(now, wall, stamp(999.75)),
            now - Span::from_millis(250)
        );
    }
}
