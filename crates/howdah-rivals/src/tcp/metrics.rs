//! What a host remembers of a destination from one connection to the next.

use std::sync::{Arc, Mutex};

/// A threshold of 65535 segments is as good as none (Linux: `snd_ssthresh >= 0xFFFF`).
const NO_THRESHOLD: f64 = 65_535.0;

/// The slow-start threshold that a host keeps for a destination (Linux 2.4 and 2.6,
/// `tcp_update_metrics` and `tcp_init_metrics`; on by default, `tcp_no_metrics_save` turns it off).
/// Clones are the same memory: give one to all connections between two hosts.
///
/// Round-trip times are remembered by Linux, too, but only matter to the first timeout; they are
/// left out.
#[derive(Clone, Debug, Default)]
pub struct MetricsCache(Arc<Mutex<Option<u32>>>);

impl MetricsCache {
    /// The threshold to begin with, in segments; `None` before a connection has left one.
    pub fn ssthresh_segments(&self) -> Option<u32> {
        // A thread that panicked cannot have left half a number behind.
        *self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A connection is over with this window and threshold, in segments; `open` says that it was
    /// repairing nothing.
    pub(crate) fn save(&self, cwnd: f64, ssthresh: f64, open: bool) {
        let mut kept = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let half = cwnd / 2.0;
        let above = |value: f64| kept.is_some_and(|old| value > f64::from(old));
        let new = if ssthresh >= NO_THRESHOLD {
            // Slow start did not end: that says only that more is possible.
            above(half).then_some(half)
        } else if cwnd > ssthresh && open {
            Some(half.max(ssthresh))
        } else {
            above(ssthresh).then_some(ssthresh)
        };
        if let Some(segments) = new {
            *kept = Some(segments.clamp(2.0, NO_THRESHOLD) as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_connection_that_left_slow_start_begins_it() {
        let cache = MetricsCache::default();
        cache.save(500.0, f64::INFINITY, true);
        assert_eq!(cache.ssthresh_segments(), None);
        cache.save(10.0, 20.0, true);
        assert_eq!(
            cache.ssthresh_segments(),
            None,
            "did not reach its threshold"
        );
        cache.save(30.0, 20.0, false);
        assert_eq!(cache.ssthresh_segments(), None, "was repairing");
        cache.save(30.0, 20.0, true);
        assert_eq!(cache.ssthresh_segments(), Some(20));
    }

    #[test]
    fn a_later_one_replaces_or_raises_it() {
        let cache = MetricsCache::default();
        cache.save(90.0, 40.0, true);
        assert_eq!(cache.ssthresh_segments(), Some(45));
        let other = cache.clone();
        other.save(12.0, 8.0, true);
        assert_eq!(cache.ssthresh_segments(), Some(8), "one memory");
        cache.save(60.0, f64::INFINITY, true);
        assert_eq!(cache.ssthresh_segments(), Some(30));
        cache.save(5.0, 20.0, true);
        assert_eq!(cache.ssthresh_segments(), Some(30));
        cache.save(5.0, 50.0, true);
        assert_eq!(cache.ssthresh_segments(), Some(50));
    }
}
