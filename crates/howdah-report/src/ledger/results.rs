//! The cells of a campaign, as checks look at them.

use crate::result::{CellResult, FlowResult};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// The usable cells of one testbed.
#[derive(Clone, Debug)]
pub struct Results<'a> {
    cells: Vec<&'a CellResult>,
    /// Of real kernels and programs, by which not all can run that the papers name.
    are_real: bool,
    /// What was looked at.
    looked: RefCell<Looked<'a>>,
}

/// What a check has looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct Looked<'a> {
    /// A cell of a reduced set, or of the testbed: some parts lack by design.
    pub(super) reduced: bool,
    /// Seeds of experiments: trials that show a check the same ones are one trial.
    pub(super) seeds: BTreeSet<(&'a str, u64)>,
    /// Commits of the programs that ran the cells.
    pub(super) commits: BTreeSet<&'a str>,
}

impl<'a> Results<'a> {
    /// The cells of `testbed` that gave a result. Of an experiment that is there in full, a reduced set is left out.
    pub fn new(cells: &'a [CellResult], testbed: &str) -> Self {
        let usable = |cell: &&CellResult| {
            cell.testbed == testbed && cell.error.is_none() && cell.skipped.is_none()
        };
        let full: BTreeSet<&str> = (cells.iter())
            .filter(usable)
            .filter(|cell| !cell.reduced)
            .map(|cell| cell.experiment.as_str())
            .collect();
        let wanted = |cell: &&CellResult| !cell.reduced || !full.contains(&*cell.experiment);
        let are_real = testbed != super::SIM;
        Self::of(
            cells.iter().filter(usable).filter(wanted).collect(),
            are_real,
        )
    }

    fn of(cells: Vec<&'a CellResult>, are_real: bool) -> Self {
        Self {
            cells,
            are_real,
            looked: RefCell::default(),
        }
    }

    /// They are the testbed's.
    pub(super) const fn are_real(&self) -> bool {
        self.are_real
    }

    /// Where parts of a statement may lack by design, in words.
    pub(super) const fn where_parts_lack(&self) -> &'static str {
        if self.are_real {
            "on the testbed"
        } else {
            "in the reduced set"
        }
    }

    /// What `look` makes of them, and what it looked at.
    pub(super) fn watched<T>(&self, look: impl FnOnce(&Self) -> T) -> (T, Looked<'a>) {
        self.looked.take();
        let made = look(self);
        (made, self.looked.take())
    }

    /// The seeds of each experiment.
    fn seeds(&self) -> BTreeMap<&'a str, BTreeSet<u64>> {
        let mut seeds: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
        for cell in &self.cells {
            seeds.entry(&cell.experiment).or_default().insert(cell.seed);
        }
        seeds
    }

    /// The trials that a paper would have seen: of each so many seeds, one after the other and around the end. An experiment
    /// that has fewer seeds than the others is in each trial with all of them.
    pub(super) fn trials(&self, of: usize) -> Vec<Self> {
        let seeds = self.seeds();
        let all: BTreeSet<u64> = seeds.values().flatten().copied().collect();
        let all: Vec<u64> = all.into_iter().collect();
        if all.len() < of {
            return vec![self.clone()];
        }
        let count = if all.len() == of { 1 } else { all.len() };
        (0..count)
            .map(|from| {
                let trial: BTreeSet<u64> =
                    (0..of).map(|step| all[(from + step) % all.len()]).collect();
                let mine = |cell: &&&CellResult| {
                    let own = &seeds[&*cell.experiment];
                    trial.contains(&cell.seed) || own.len() < all.len().min(of + 1)
                };
                let cells = self.cells.iter().filter(mine).copied().collect();
                Self::of(cells, self.are_real)
            })
            .collect()
    }

    /// The cells of one experiment.
    #[must_use]
    pub fn experiment(&self, name: &str) -> Cells<'a> {
        self.matching(|experiment| experiment == name)
    }

    /// The cells of the experiments whose names match.
    #[must_use]
    pub fn matching(&self, name: impl Fn(&str) -> bool) -> Cells<'a> {
        let cells: Vec<_> = self
            .cells
            .iter()
            .copied()
            .filter(|cell| name(&cell.experiment))
            .collect();
        let mut looked = self.looked.borrow_mut();
        looked.reduced |= cells.iter().any(|cell| cell.reduced || self.are_real);
        let seeds = cells
            .iter()
            .map(|cell| (cell.experiment.as_str(), cell.seed));
        looked.seeds.extend(seeds);
        (looked.commits).extend(cells.iter().map(|cell| cell.commit.as_str()));
        Cells(cells)
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

    fn cell(experiment: &str, seed: u64, reduced: bool) -> CellResult {
        CellResult {
            experiment: experiment.to_owned(),
            testbed: "sim".to_owned(),
            seed,
            reduced,
            ..CellResult::default()
        }
    }

    fn seeds_of(trials: &[Results<'_>], experiment: &str) -> Vec<Vec<u64>> {
        let seeds = |trial: &Results<'_>| {
            let cells = trial.experiment(experiment);
            cells.iter().map(|cell| cell.seed).collect()
        };
        trials.iter().map(seeds).collect()
    }

    #[test]
    fn trials_are_single_seeds_or_four_of_them() {
        let mut cells: Vec<_> = (1..=5).map(|seed| cell("X", seed, false)).collect();
        cells.push(cell("Y", 1, false));
        let results = Results::new(&cells, "sim");
        let single = results.trials(1);
        assert_eq!(seeds_of(&single, "X"), [[1], [2], [3], [4], [5]]);
        // A baseline that was run once stands beside each.
        assert_eq!(seeds_of(&single, "Y"), [[1]; 5]);
        let fours = results.trials(4);
        let expected = [
            vec![1, 2, 3, 4],
            vec![2, 3, 4, 5],
            vec![1, 3, 4, 5],
            vec![1, 2, 4, 5],
            vec![1, 2, 3, 5],
        ];
        assert_eq!(seeds_of(&fours, "X"), expected);
        let few = Results::new(&cells[..2], "sim").trials(4);
        assert_eq!(seeds_of(&few, "X"), [[1, 2]]);
    }

    #[test]
    fn a_reduced_set_is_told_of_and_gives_way_to_the_full_one() {
        let cells = [cell("X", 1, true), cell("Y", 1, true), cell("Y", 2, false)];
        let results = Results::new(&cells, "sim");
        let looked = |name: &str| {
            let (count, looked) = results.watched(|r| r.experiment(name).iter().count());
            (count, looked.reduced)
        };
        assert_eq!(looked("X"), (1, true));
        assert_eq!(looked("Y"), (1, false));
    }

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
