//! A limit on the rate that can be changed from elsewhere while a copy runs.

use howdah_core::Rate;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How fast a copy may be. Clones are the same throttle; a running copy looks at it ten times a second.
///
/// The limit holds for IP packets that carry data in the copy's direction, headers and repairs included, whichever side
/// sends them. It is an upper bound: the policy shares the path within it.
#[derive(Clone, Debug, Default)]
pub struct Throttle(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Bits per second; `u64::MAX` is no limit.
    limit: AtomicU64,
    paused: AtomicBool,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            limit: AtomicU64::new(u64::MAX),
            paused: AtomicBool::new(false),
        }
    }
}

impl Throttle {
    /// The smallest limit: below that a connection could not be told from a dead one. To stop, pause.
    pub const MIN: Rate = howdah_session::pace::Pace::LEAST;

    /// No limit.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the limit, at least [`Throttle::MIN`], or lifts it.
    pub fn set_limit(&self, limit: Option<Rate>) {
        let bits = limit.map_or(u64::MAX, |limit| limit.max(Self::MIN).bits_per_sec());
        self.0.limit.store(bits, Ordering::Relaxed);
    }

    /// The limit.
    pub fn limit(&self) -> Option<Rate> {
        let bits = self.0.limit.load(Ordering::Relaxed);
        (bits != u64::MAX).then(|| Rate::from_bits_per_sec(bits))
    }

    /// Sends nothing until it is resumed, or goes on.
    pub fn set_paused(&self, paused: bool) {
        self.0.paused.store(paused, Ordering::Relaxed);
    }

    /// Whether it rests.
    pub fn is_paused(&self) -> bool {
        self.0.paused.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_are_the_same() {
        let throttle = Throttle::new();
        assert_eq!((throttle.limit(), throttle.is_paused()), (None, false));
        let other = throttle.clone();
        other.set_limit(Some(Rate::from_mbit_per_sec(5)));
        other.set_paused(true);
        assert_eq!(throttle.limit(), Some(Rate::from_mbit_per_sec(5)));
        assert!(throttle.is_paused());
        other.set_limit(Some(Rate::ZERO));
        assert_eq!(throttle.limit(), Some(Throttle::MIN));
        other.set_limit(None);
        assert_eq!(throttle.limit(), None);
    }
}
