//! Others that lose and give no way.
//!
//! A flow that gives way to each overflow vanishes beside flows for which loss means nothing (BBR of 2016 in a queue shorter than a round
//! trip): the queue overflows on without it. Flows that answer losses would not let much be lost for long.

use howdah_core::{Span, Time};

/// With more than this share lost, and no chance behind it, although this flow gives way, others do not.
const LOST: f64 = 0.04;
/// The loss is smoothed over so long and so many round trips.
const OVER: Span = Span::from_secs(2);
const OVER_RTTS: u64 = 20;
/// No more than that passes between two reports.
const REPORTS_APART: Span = Span::from_secs(1);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stubborn {
    seen: Time,
    lost: f64,
}

impl Stubborn {
    /// Once per report: of what is sent the share `lost` is lost, of it `chance` at random.
    pub(super) fn on_report(&mut self, now: Time, rtt: Span, lost: f64, chance: f64) {
        let passed = now.since(self.seen).min(REPORTS_APART);
        self.seen = now;
        let over = OVER.max(rtt * OVER_RTTS);
        let part = passed.as_secs_f64() / over.as_secs_f64();
        self.lost += ((lost - chance).max(0.0) - self.lost) * part;
    }

    /// Others give no way.
    pub(super) fn is_there(&self) -> bool {
        self.lost > LOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_millis(40);

    /// Reports each 10 ms; when others are found to give no way, in milliseconds.
    fn found_at(chance: f64, lost: impl Fn(u64) -> f64) -> Option<u64> {
        let mut stubborn = Stubborn::default();
        (10..60_000).step_by(10).find(|&at| {
            let now = Time::ZERO + Span::from_millis(at);
            stubborn.on_report(now, RTT, lost(at), chance);
            stubborn.is_there()
        })
    }

    #[test]
    fn who_overflows_a_queue_for_seconds_gives_no_way() {
        let at = found_at(0.0, |_| 0.1);
        assert!(
            at.is_some_and(|at| (700..3_000).contains(&at)),
            "after {at:?} ms"
        );
        // Chance is nobody's fault, and neither are overflows that end.
        assert_eq!(found_at(0.08, |_| 0.1), None);
        assert_eq!(
            found_at(0.0, |at| if at % 2_000 < 150 { 0.2 } else { 0.0 }),
            None
        );
    }
}
