//! A queue that stays far above what flows of this kind let stand.
//!
//! When a flow of this kind comes, the queue is that long for some round trips, until it knows of the others. Beside flows that fill
//! queues it is so again and again.

use howdah_core::{Span, Time};

/// Far above: so many times the target.
const FAR: u64 = 2;
/// It must have been so for so long and so many round trips, of which time without it takes a part back.
const LASTS: Span = Span::from_millis(2_200);
const LASTS_RTTS: u64 = 25;
const FORGETS: f64 = 0.15;
/// No more than that passes between two reports.
const REPORTS_APART: Span = Span::from_millis(200);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standing {
    seen: Time,
    lasted: Span,
}

impl Standing {
    /// Once per report: whether the queue has stood for too long.
    pub(super) fn on_queue(&mut self, now: Time, queue: Span, target: Span, rtt: Span) -> bool {
        let passed = now.since(self.seen).min(REPORTS_APART);
        self.seen = now;
        self.lasted = if queue > target * FAR {
            self.lasted + passed
        } else {
            self.lasted.saturating_sub(passed.mul_f64(FORGETS))
        };
        self.lasted > LASTS.max(rtt * LASTS_RTTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Span = Span::from_millis(18);
    const RTT: Span = Span::from_millis(80);

    /// Reports each 10 ms; when a queue that is long while `long` says so has stood for too long, in milliseconds.
    fn stood_at(long: impl Fn(u64) -> bool) -> Option<u64> {
        let mut standing = Standing::default();
        (10..40_000).step_by(10).find(|&at| {
            let queue = TARGET * if long(at) { 3 } else { 1 };
            standing.on_queue(Time::ZERO + Span::from_millis(at), queue, TARGET, RTT)
        })
    }

    #[test]
    fn a_queue_that_comes_back_again_and_again_stands() {
        // Four flows of this kind come, three seconds apart.
        assert_eq!(stood_at(|at| at < 12_000 && at % 3_000 < 500), None);
        // One that probes for seconds at a time, and one that fills the queue.
        let probes = stood_at(|at| at % 2_500 < 1_000);
        assert!(probes.is_some_and(|at| at < 10_000), "{probes:?}");
        let fills = stood_at(|_| true);
        assert!(fills.is_some_and(|at| at < 2_500), "{fills:?}");
    }
}
