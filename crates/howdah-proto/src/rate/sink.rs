//! What a sink that is slower than the path allows.
//!
//! What is under way is many times the sink's queue on a long path, so the queue as it was told says little about
//! the one that a packet sent now will find. That one is predicted (Smith, "Closer control of loops with dead time",
//! 1957): when the packet arrives, all that is under way has arrived before it, and the sink has drained for a
//! round trip since the report was written. docs/rate-control.md section 10.

use crate::codec::SinkState;
use crate::rtt::WindowedMin;
use howdah_core::num::floor_to_u64;
use howdah_core::{Rate, Span, Time};

/// The share of the queue that is to be filled: half is left for drains that falter.
const FILL: f64 = 0.5;
/// A queue below that share shows a sink that keeps up with what arrives.
const KEEPS_UP: f64 = 0.125;
/// The prediction's error is made good within a round trip, but not sooner than that: reports come in steps.
const SETTLE_MIN: Span = Span::from_millis(20);
/// However full the queue is, that share of the drain goes on.
const LEAST: f64 = 0.25;
const LEAST_RATE: Rate = Rate::from_mbit_per_sec(1);
/// Of a sink that refuses packets: what comes is counted over so long and half a round trip, and the most of so long counts ...
const COUNTED: Span = Span::from_millis(200);
const CAME_WINDOW: Span = Span::from_secs(10);
/// ... of which it may have that share.
const REFUSING_SHARE: f64 = 2.0;

/// The rate that fills `sink`'s queue as far as it should be, if it is known how fast it drains.
///
/// `under_way_bytes`: sent after the newest packet that the report knows. `arriving`: what was delivered lately.
pub(crate) fn limit(
    sink: &SinkState,
    under_way_bytes: u64,
    rtt: Span,
    arriving: Rate,
) -> Option<Rate> {
    let capacity = sink.capacity_bytes.max(1) as f64;
    let queued = sink.queued_bytes as f64;
    let fill = sink.fill();
    let arriving = arriving.as_f64() / 8.0;
    let drain = match sink.drain_kb_per_s {
        // It was not measured; what arrived fits in a part of the queue, or is what the sink took.
        0 if fill < KEEPS_UP => return None,
        0 => arriving,
        // A sink that has little to do may look slower than it is.
        told if fill < KEEPS_UP => arriving.max(told as f64 * 1_000.0),
        told => told as f64 * 1_000.0,
    };
    let rtt_s = rtt.as_secs_f64();
    let predicted = queued + under_way_bytes as f64 - drain * rtt_s;
    let settle_s = rtt.max(SETTLE_MIN).as_secs_f64();
    // Above the goal it may be the drain that faltered since it was measured.
    let share = (1.0 + FILL - fill).clamp(LEAST, 1.0);
    let bytes_per_s = drain * share + (FILL * capacity - predicted) / settle_s;
    let rate = Rate::from_bits_per_sec(floor_to_u64(bytes_per_s.max(drain * LEAST) * 8.0));
    Some(rate.max(LEAST_RATE))
}

/// A sink that refuses packets, whose losses are so none of the path's. It may have little more than has come to it lately, by the
/// sender's own count: what it says of itself cannot be checked.
#[derive(Debug)]
pub(crate) struct Refusing {
    until: Time,
    /// Since when it is counted, and what had come then.
    since: (Time, u64),
    /// The most that came lately, as its complement.
    came: WindowedMin,
}

impl Default for Refusing {
    fn default() -> Self {
        Self {
            until: Time::ZERO,
            since: (Time::ZERO, 0),
            came: WindowedMin::new(CAME_WINDOW),
        }
    }
}

impl Refusing {
    /// So many bytes are known to have come since the beginning.
    pub(crate) fn on_acked(&mut self, now: Time, rtt: Span, acked_bytes: u64) {
        let (since, before) = self.since;
        let span = now.since(since);
        if span >= COUNTED.max(rtt / 2) {
            self.since = (now, acked_bytes);
            let came = Rate::from_bytes_over(acked_bytes.saturating_sub(before), span);
            self.came.push(now, u64::MAX - came.bits_per_sec());
        }
    }

    /// What it may have, if it `refuses` or has done so lately.
    pub(crate) fn limit(&mut self, now: Time, refuses: bool) -> Option<Rate> {
        if refuses {
            self.until = now + CAME_WINDOW;
        }
        let came = Rate::from_bits_per_sec(u64::MAX - self.came.min()?);
        (now < self.until).then(|| came.mul_f64(REFUSING_SHARE).max(LEAST_RATE))
    }
}

/// Tells the losses of the path from packets that the sink refused: both are called lost, the latter later than they
/// are told of.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Blame {
    /// Refused packets that have not been called lost yet.
    awaited: u64,
    lost: u64,
    on_path: u64,
}

impl Blame {
    /// Packets lost on the path so far. `lost` is counted from the beginning, and late arrivals lower it;
    /// `newly_refused` are those that were not told of before.
    pub(crate) fn lost_on_path(&mut self, lost: u64, newly_refused: u64) -> u64 {
        self.awaited += newly_refused;
        let more = lost.saturating_sub(self.lost);
        let explained = more.min(self.awaited);
        self.awaited -= explained;
        self.on_path += more - explained;
        self.on_path = self.on_path.saturating_sub(self.lost.saturating_sub(lost));
        self.lost = lost;
        self.on_path
    }

    /// Whether refused packets are still to be called lost.
    pub(crate) fn is_waiting(&self) -> bool {
        self.awaited > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_no_losses_of_the_path_before_and_after_they_are_called_lost() {
        let mut blame = Blame::default();
        assert_eq!(blame.lost_on_path(500, 0), 500);
        // Told of at once, called lost bit by bit.
        for (lost, newly_refused) in [(500, 1_000), (700, 0), (1_500, 0)] {
            assert_eq!(blame.lost_on_path(lost, newly_refused), 500);
        }
        assert_eq!(blame.lost_on_path(1_530, 0), 530);
        assert_eq!(blame.lost_on_path(1_520, 0), 520, "ten were late");
    }

    #[test]
    fn the_limit_leads_to_half_a_queue() {
        let mut sink = SinkState {
            queued_bytes: 16 << 20,
            capacity_bytes: 32 << 20,
            drain_kb_per_s: 500_000,
        };
        let (rtt, arriving) = (Span::from_millis(100), Rate::from_gbit_per_sec(4));
        let limit = |sink: &SinkState, under_way| {
            let rate = limit(sink, under_way, rtt, arriving).unwrap();
            rate.bits_per_sec() / 1_000_000
        };
        // What drains in a round trip is under way: as fast as it drains.
        assert_eq!(limit(&sink, 50_000_000), 4_000);
        assert!(limit(&sink, 60_000_000) < 4_000);
        assert!(limit(&sink, 40_000_000) > 4_000);
        // However much too much there is, something goes on.
        sink.queued_bytes = 32 << 20;
        assert_eq!(limit(&sink, 200_000_000), 1_000);
        // An idle sink that looks slow gets what it has got, and more.
        sink.queued_bytes = 0;
        sink.drain_kb_per_s = 1_000;
        assert!(limit(&sink, 50_000_000) > 4_000);
        sink.drain_kb_per_s = 0;
        assert_eq!(super::limit(&sink, 0, rtt, arriving), None);
        sink.queued_bytes = 20 << 20;
        assert!(limit(&sink, 50_000_000) < 4_000);
    }
}
