//! What one connection learnt of a path, for the next one over it (RFC 9959, careful resume).
//!
//! Whoever has it may be wrong: the path may have changed, or others may use it now. So it is only a hint of where to begin:
//! half of it is paced until the first reports, nearly all if the handshake has seen nothing else and it is not old, and less than half after
//! the first sign of loss or of a queue.

use howdah_core::{Rate, Span};

const CAPACITY_MIN: Rate = Rate::from_mbit_per_sec(1);
const CAPACITY_MAX: Rate = Rate::from_gbit_per_sec(1_000);
const RTT_MIN: Span = Span::from_micros(10);
const RTT_MAX: Span = Span::from_secs(10);
const LOSS_MAX: f64 = 0.25;
/// The handshake's round trip may differ by this much from the remembered one.
const RTT_SLACK: f64 = 0.25;
/// A path that takes no more than so much longer, or a hundredth, has no queue: less than that is what hosts take.
const IDLE_SLACK: Span = Span::from_millis(2);
/// Links and routes seldom change within that.
const FRESH: Span = Span::from_secs(3_600);

/// See the module. Of the direction from this side to the peer only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathKnowledge {
    /// UDP payload.
    pub capacity: Rate,
    /// Without a queue.
    pub rtt: Span,
    /// What was lost while nothing overflowed, at most a quarter.
    pub loss: f64,
    /// How long ago that was.
    pub age: Span,
    /// UDP payload of the largest packets that arrived, in bytes; 0 if that is not known.
    pub datagram_bytes: u16,
}

impl PathKnowledge {
    /// It may be of some path. What does not lie within bounds is not to be used.
    pub fn is_plausible(&self) -> bool {
        (CAPACITY_MIN..=CAPACITY_MAX).contains(&self.capacity)
            && (RTT_MIN..=RTT_MAX).contains(&self.rtt)
            && (0.0..=LOSS_MAX).contains(&self.loss)
    }

    /// A path of that round trip may be the same one.
    pub(crate) fn fits(&self, rtt: Span) -> bool {
        let share = rtt.as_secs_f64() / self.rtt.as_secs_f64().max(1e-9);
        self.is_plausible() && (1.0 - RTT_SLACK..=1.0 + RTT_SLACK).contains(&share)
    }

    /// Of a path that fits and has that round trip now: it is most likely as it was, and nothing waits on it.
    pub(crate) fn is_likely(&self, rtt: Span) -> bool {
        self.age <= FRESH && rtt <= self.rtt + IDLE_SLACK.max(self.rtt / 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_path_or_one_with_a_queue_is_not_likely_as_it_was() {
        let known = PathKnowledge {
            capacity: Rate::from_gbit_per_sec(1),
            rtt: Span::from_millis(100),
            loss: 0.0,
            age: Span::from_secs(60),
            datagram_bytes: 0,
        };
        assert!(known.is_likely(Span::from_millis(99)));
        assert!(known.is_likely(Span::from_millis(102)));
        assert!(!known.is_likely(Span::from_millis(103)));
        let age = Span::from_secs(3_601);
        assert!(!PathKnowledge { age, ..known }.is_likely(known.rtt));
    }

    #[test]
    fn only_a_path_of_that_round_trip_is_the_same() {
        let known = PathKnowledge {
            capacity: Rate::from_gbit_per_sec(1),
            rtt: Span::from_millis(100),
            loss: 0.01,
            age: Span::ZERO,
            datagram_bytes: 0,
        };
        for (ms, fits) in [
            (70, false),
            (80, true),
            (100, true),
            (124, true),
            (130, false),
        ] {
            assert_eq!(known.fits(Span::from_millis(ms)), fits, "{ms} ms");
        }
        let bad = [
            PathKnowledge {
                capacity: Rate::ZERO,
                ..known
            },
            PathKnowledge {
                capacity: Rate::MAX,
                ..known
            },
            PathKnowledge {
                rtt: Span::ZERO,
                ..known
            },
            PathKnowledge {
                rtt: Span::from_secs(60),
                ..known
            },
            PathKnowledge {
                loss: f64::NAN,
                ..known
            },
            PathKnowledge { loss: 0.5, ..known },
            PathKnowledge {
                loss: -0.1,
                ..known
            },
        ];
        for bad in bad {
            assert!(!bad.is_plausible(), "{bad:?}");
            assert!(!bad.fits(bad.rtt), "{bad:?}");
        }
    }
}
