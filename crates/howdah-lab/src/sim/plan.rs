//! What fast-forward repeats.

use crate::figures::seconds;
use crate::scenario::Cell;
use howdah_report::result::Forwarded;

/// What is repeated: from the end of one interval to that of another, over and over for so many intervals. Counted from the
/// beginning of the cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Intervals that are not simulated.
    pub(crate) skipped: usize,
    pub(super) error: f64,
    /// By what share feedback is more where losses are more by one of themselves.
    pub(super) follows: f64,
}

impl Plan {
    /// What the result says of it.
    pub(crate) fn note(&self, cell: &Cell) -> Forwarded {
        let at = |interval: usize| seconds(interval as u64 * cell.measure.interval_ns);
        Forwarded {
            from_s: at(self.from),
            to_s: at(self.to),
            skipped_s: at(self.skipped),
            error: self.error,
        }
    }
}
