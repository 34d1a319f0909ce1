//! The control law: error rate to inter-packet delay, and requests to error rate.

use super::messages::Parameters;
use howdah_core::Span;

/// Longest inter-packet delay, in microseconds.
const MOST_US: f64 = 10_000.0;
/// Share of the old error rate in the new one.
const HISTORY: f64 = 0.25;

/// The server's delay. Whole microseconds in 2006, a fraction since: this is a fraction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Law {
    least_us: f64,
    pub(super) current_us: f64,
    threshold: f64,
    slower: f64,
    faster: f64,
}

impl Law {
    /// Begins at three times the delay of the target rate, which is counted in whole microseconds.
    pub(super) fn new(parameters: &Parameters) -> Self {
        let bits = 8_000_000 * u64::from(parameters.block_bytes);
        let least_us = (bits / u64::from(parameters.target_bps.max(1))) as f64;
        let ratio = |(above, below): (u16, u16)| f64::from(above) / f64::from(below.max(1));
        Self {
            least_us: least_us.min(MOST_US),
            current_us: 3.0 * least_us,
            threshold: f64::from(parameters.error_threshold),
            slower: ratio(parameters.slower),
            faster: ratio(parameters.faster),
        }
    }

    /// A report of an error rate, in thousandths of a per cent.
    pub(super) fn report(&mut self, error: u32) {
        let error = f64::from(error);
        if error > self.threshold {
            let share = (1.0 + error - self.threshold) / (100_000.0 - self.threshold);
            self.current_us *= 1.0 + (self.slower - 1.0) * share;
        } else {
            self.current_us *= self.faster;
        }
        // The larger bound first, as the program has it: a target below 100 blocks/s has its way.
        self.current_us = self.current_us.min(MOST_US).max(self.least_us);
    }

    pub(super) fn delay(&self) -> Span {
        Span::from_nanos((self.current_us * 1000.0) as u64).max(Span::from_nanos(100))
    }
}

/// The client's smoothed error rate after an interval, in thousandths of a per cent: up to 50 000
/// for the share of `requests` among them and new `blocks`, and as much for a full ring.
pub(super) fn error_rate(before: f64, requests: u64, blocks: u64, ring_fill: f64) -> f64 {
    let share = requests as f64 / (1 + requests + blocks) as f64;
    HISTORY * before + (1.0 - HISTORY) * 50_000.0 * (share + ring_fill)
}

/// The same of the model of `RTsunami`: the fill of the ring alone.
pub(super) fn level_rate(before: f64, ring_fill: f64) -> f64 {
    HISTORY * before + (1.0 - HISTORY) * 100_000.0 * ring_fill
}
