//! The cells of a campaign, as checks look at them.

use crate::result::{CellResult, FlowResult};

/// The usable cells of one testbed.
#[derive(Clone, Debug)]
pub struct Results<'a> {
    cells: Vec<&'a CellResult>,
}

impl<'a> Results<'a> {
    /// The cells of `testbed` that gave a result.
    pub fn new(cells: &'a [CellResult], testbed: &str) -> Self {
        Self {
            cells: cells
                .iter()
                .filter(|cell| cell.testbed == testbed && cell.error.is_none())
                .collect(),
        }
    }

    /// The cells of one experiment.
    #[must_use]
    pub fn experiment(&self, name: &str) -> Cells<'a> {
        self.matching(|experiment| experiment == name)
    }

    /// The cells of the experiments whose names match.
    #[must_use]
    pub fn matching(&self, name: impl Fn(&str) -> bool) -> Cells<'a> {
        Cells(
            self.cells
                .iter()
                .copied()
                .filter(|cell| name(&cell.experiment))
                .collect(),
        )
    }
}

/// A selection of cells. What is left at the end are the seeds of one configuration.
#[derive(Clone, Debug)]
pub struct Cells<'a>(Vec<&'a CellResult>);

impl<'a> Cells<'a> {
    /// Those for which `keep` is true.
    #[must_use]
    pub fn filter(&self, keep: impl Fn(&CellResult) -> bool) -> Self {
        Self(self.0.iter().copied().filter(|cell| keep(cell)).collect())
    }

    /// Those whose `axis` begins with the number `value`, whatever unit follows: 127 selects
    /// "127packets".
    #[must_use]
    pub fn at(&self, axis: &str, value: f64) -> Self {
        self.filter(|cell| {
            cell.at
                .get(axis)
                .and_then(|text| leading_number(text))
                .is_some_and(|number| (number - value).abs() < 1e-9)
        })
    }

    /// Those whose `axis` is `value`.
    #[must_use]
    pub fn named(&self, axis: &str, value: &str) -> Self {
        self.filter(|cell| cell.at.get(axis).is_some_and(|text| text == value))
    }

    /// Those whose first long-lived flow is of `protocol`.
    #[must_use]
    pub fn protocol(&self, protocol: &str) -> Self {
        self.filter(|cell| {
            cell.flows
                .first()
                .is_some_and(|flow| flow.protocol == protocol)
        })
    }

    /// Those with exactly these two long-lived flows, in any order.
    #[must_use]
    pub fn pair(&self, one: &str, other: &str) -> Self {
        self.filter(|cell| match cell.flows.as_slice() {
            [a, b] => {
                (a.protocol == one && b.protocol == other)
                    || (a.protocol == other && b.protocol == one)
            }
            _ => false,
        })
    }

    /// Those with (or without) short flows.
    #[must_use]
    pub fn with_shorts(&self, with: bool) -> Self {
        self.filter(|cell| cell.groups.is_empty() != with)
    }

    /// Those with (or without) constant-rate streams.
    #[must_use]
    pub fn with_streams(&self, with: bool) -> Self {
        self.filter(|cell| cell.streams.is_empty() != with)
    }

    /// Those without long-lived flows.
    #[must_use]
    pub fn without_flows(&self) -> Self {
        self.filter(|cell| cell.flows.is_empty())
    }

    /// True if nothing is selected.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The selected cells.
    pub fn iter(&self) -> impl Iterator<Item = &'a CellResult> + '_ {
        self.0.iter().copied()
    }

    /// Upper quartile over the seeds: what a choice of good trials would have shown.
    pub fn good(&self, value: impl Fn(&CellResult) -> Option<f64>) -> Option<f64> {
        quantile(self.0.iter().filter_map(|cell| value(cell)).collect(), 0.75)
    }

    /// Median over the seeds.
    pub fn median(&self, value: impl Fn(&CellResult) -> Option<f64>) -> Option<f64> {
        quantile(self.0.iter().filter_map(|cell| value(cell)).collect(), 0.5)
    }
}

/// Goodput of the first flow over its whole activity, in bit/s.
pub(crate) fn first_goodput(cell: &CellResult) -> Option<f64> {
    cell.flows.first().map(|flow| flow.goodput_bps)
}

/// Goodput of the first flow of `protocol`, in bit/s.
pub(crate) fn goodput_of(cell: &CellResult, protocol: &str) -> Option<f64> {
    flow_of(cell, protocol).map(|flow| flow.goodput_bps)
}

/// The first flow of `protocol`.
pub(crate) fn flow_of<'c>(cell: &'c CellResult, protocol: &str) -> Option<&'c FlowResult> {
    cell.flows.iter().find(|flow| flow.protocol == protocol)
}

/// Goodput of all flows together over the time in which any was active, in bit/s; of results without that figure the sum of
/// the flows' means.
pub(crate) fn sum_goodput(cell: &CellResult) -> Option<f64> {
    let sum = || cell.flows.iter().map(|flow| flow.goodput_bps).sum();
    let known = cell.metrics.get("sum_goodput_bps").copied();
    known.or_else(|| (!cell.flows.is_empty()).then(sum))
}

/// Throughput of the short flows, in bit/s.
pub(crate) fn short_throughput(cell: &CellResult) -> Option<f64> {
    cell.groups.first().map(|group| group.throughput_bps)
}

/// Mean jitter of the streams, in milliseconds.
pub(crate) fn jitter_ms(cell: &CellResult) -> Option<f64> {
    let n = cell.streams.len();
    (n > 0).then(|| cell.streams.iter().map(|s| s.jitter_ms).sum::<f64>() / n as f64)
}

/// Lost packets of the streams, all together.
pub(crate) fn stream_losses(cell: &CellResult) -> Option<f64> {
    (!cell.streams.is_empty())
        .then(|| cell.streams.iter().map(|s| s.lost_packets).sum::<u64>() as f64)
}

/// Share of the streams' packets that was lost.
pub(crate) fn stream_loss_share(cell: &CellResult) -> Option<f64> {
    let sent = cell.streams.iter().map(|s| s.sent_packets).sum::<u64>();
    (sent > 0).then(|| stream_losses(cell).unwrap_or(0.0) / sent as f64)
}

/// The number at the beginning of a value of an axis.
fn leading_number(text: &str) -> Option<f64> {
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    text[..end].parse().ok()
}

/// Quantile by linear interpolation between order statistics (Hyndman and Fan's type 7).
fn quantile(mut values: Vec<f64>, q: f64) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let place = q * (values.len() - 1) as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    Some(values[low] + (values[high] - values[low]) * (place - place.floor()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate() {
        assert_eq!(quantile(vec![], 0.5), None);
        assert_eq!(quantile(vec![3.0], 0.75), Some(3.0));
        assert_eq!(quantile(vec![4.0, 1.0, 3.0, 2.0, 5.0], 0.75), Some(4.0));
        assert_eq!(quantile(vec![1.0, 2.0], 0.5), Some(1.5));
    }

    #[test]
    fn numbers_end_where_units_begin() {
        assert_eq!(leading_number("127packets"), Some(127.0));
        assert_eq!(leading_number("1.6mbit"), Some(1.6));
        assert_eq!(leading_number("152ms"), Some(152.0));
        assert_eq!(leading_number("none"), None);
    }
}
