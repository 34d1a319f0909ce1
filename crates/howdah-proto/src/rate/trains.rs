//! The capacity of the narrowest link, from how a burst is spread when it arrives.
//!
//! A burst that is sent faster than the bottleneck leaves it at the bottleneck's rate (packet
//! trains; Dovrolis, Ramanathan, Moore 2001). It is an upper bound for what is available.

use howdah_core::{Rate, Span, Time};
use std::collections::VecDeque;

/// One packet of a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrainPoint {
    /// When it was sent, by our clock.
    pub(crate) sent_time: Time,
    /// Bytes sent before it.
    pub(crate) sent_bytes: u64,
    /// When it arrived, by the receiver's clock.
    pub(crate) rx_time: Time,
}

/// Packets further apart at the sender belong to different bursts.
const MAX_GAP: Span = Span::from_micros(900);
/// A shorter spread says more about the receiving host than about the path: packets arrive
/// joined (GRO), and are stamped when the processor gets to them.
const MIN_SPREAD: Span = Span::from_micros(250);
/// A burst has been spread by the path if it took that much longer to arrive than to send.
const SPREAD_FACTOR: f64 = 1.25;
/// A few small packets are spread by whatever the hosts do between them.
const MIN_BYTES: u64 = 10_000;
/// Estimates kept, and needed.
const KEEP: usize = 7;
const NEED: usize = 1;
/// A burst that long which arrives within [`MIN_SPREAD`] came faster than 640 Mbit/s.
const FAST_BYTES: u64 = 20_000;

/// Estimates of the capacity.
#[derive(Debug, Default)]
pub(super) struct Trains {
    estimates: VecDeque<Rate>,
    fast: bool,
}

impl Trains {
    /// Looks at the bursts among the points of one report, in which `bytes` more were delivered
    /// than in the one before, the last of them at `last_rx`.
    pub(super) fn on_points(&mut self, points: &[TrainPoint], bytes: u64, last_rx: Time) {
        self.fast |= bytes >= FAST_BYTES
            && points
                .first()
                .is_some_and(|first| last_rx.since(first.rx_time) < MIN_SPREAD);
        let mut start = 0;
        for at in 1..=points.len() {
            let apart = at == points.len()
                || points[at].sent_time.since(points[at - 1].sent_time) > MAX_GAP;
            if apart {
                self.on_burst(&points[start..at]);
                start = at;
            }
        }
    }

    fn on_burst(&mut self, points: &[TrainPoint]) {
        let [first, .., last] = points else { return };
        let arrival = last.rx_time.since(first.rx_time);
        let departure = last.sent_time.since(first.sent_time);
        if arrival < MIN_SPREAD || arrival < departure.mul_f64(SPREAD_FACTOR) {
            return;
        }
        let bytes = last.sent_bytes.saturating_sub(first.sent_bytes);
        if bytes < MIN_BYTES {
            return;
        }
        if self.estimates.len() >= KEEP {
            self.estimates.pop_front();
        }
        self.estimates
            .push_back(Rate::from_bytes_over(bytes, arrival));
    }

    /// Whether some burst came without being spread.
    pub(super) fn is_fast(&self) -> bool {
        self.fast
    }

    /// The median of the last bursts that were spread, if there were enough.
    pub(super) fn capacity(&self) -> Option<Rate> {
        if self.estimates.len() < NEED {
            return None;
        }
        let mut sorted: Vec<Rate> = self.estimates.iter().copied().collect();
        sorted.sort();
        Some(sorted[sorted.len() / 2])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burst(at_us: u64, send_gap_us: u64, arrival_gap_us: u64) -> Vec<TrainPoint> {
        (0..5)
            .map(|i| TrainPoint {
                sent_time: Time::ZERO + Span::from_micros(at_us + i * send_gap_us),
                sent_bytes: at_us + i * 125_000,
                rx_time: Time::ZERO + Span::from_micros(at_us + i * arrival_gap_us),
            })
            .collect()
    }

    #[test]
    fn a_spread_burst_shows_the_bottleneck() {
        let mut trains = Trains::default();
        // 125 kB every 100 us are 10 Gbit/s; sent at 25 Gbit/s. Two bursts in one report.
        let points = [burst(0, 40, 100), burst(5_000, 40, 100)].concat();
        trains.on_points(&points, 0, Time::ZERO);
        assert_eq!(trains.capacity(), Some(Rate::from_gbit_per_sec(10)));
    }

    #[test]
    fn bursts_that_arrive_as_they_were_sent_say_nothing() {
        let mut trains = Trains::default();
        for n in 0..5 {
            trains.on_points(&burst(n * 5_000, 100, 102), 0, Time::ZERO);
            trains.on_points(&burst(n * 5_000, 10, 40), 0, Time::ZERO);
        }
        assert_eq!(trains.capacity(), None);
    }
}
