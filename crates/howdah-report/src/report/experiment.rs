//! Cells gathered by experiment, and what their axes are.
//!
//! Which plots fit is read from the data: an axis is what differs between cells, the protocol is the
//! axis whose values are protocols, a grid has both RTT and loss, a matrix pairs protocols.

use super::names::{self, Notes};
use crate::result::{Campaign, CellResult, ExperimentNote};
use std::collections::BTreeMap;

/// Written where a cell has no value on an axis.
const ABSENT: &str = "\u{2013}";
/// The axis that is made up where protocols differ and no axis says so.
const PROTOCOL: &str = "protocol";

/// Something that differs between the cells of an experiment.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// Name in the scenario.
    pub(crate) name: String,
    /// Values in the order in which they are shown.
    pub(crate) values: Vec<String>,
}

/// A cell of the matrix with all its seeds.
#[derive(Clone, Debug)]
pub(crate) struct Point<'a> {
    /// Values on the experiment's axes, in their order.
    pub(crate) at: Vec<&'a str>,
    /// Runs that gave a result, by seed.
    pub(crate) runs: Vec<&'a CellResult>,
    /// Runs that gave none, or that a testbed cannot do.
    pub(crate) failed: Vec<&'a CellResult>,
}

/// An experiment.
#[derive(Clone, Debug)]
pub(crate) struct Experiment<'a> {
    /// Name in the ledger.
    pub(crate) id: &'a str,
    /// What is known about it.
    pub(crate) notes: Notes,
    /// What its scenario says about it.
    pub(crate) said: ExperimentNote,
    /// What differs between its cells: the protocol first.
    pub(crate) axes: Vec<Axis>,
    /// What is the same in all of them.
    pub(crate) fixed: Vec<(&'a str, &'a str)>,
    /// Its cells, sorted along the axes.
    pub(crate) points: Vec<Point<'a>>,
}

/// Gathers cells; experiments are in the order of the report.
pub(crate) fn gather<'a>(campaign: &Campaign, cells: &'a [CellResult]) -> Vec<Experiment<'a>> {
    let mut by_id: Vec<(&str, Vec<&CellResult>)> = Vec::new();
    for cell in cells {
        match by_id.iter_mut().find(|(id, _)| *id == cell.experiment) {
            Some((_, cells)) => cells.push(cell),
            None => by_id.push((&cell.experiment, vec![cell])),
        }
    }
    let mut all: Vec<Experiment<'_>> = by_id
        .into_iter()
        .map(|(id, cells)| {
            let said = campaign.experiments.iter().find(|said| said.id == id);
            Experiment::of(id, said.cloned().unwrap_or_default(), &cells)
        })
        .collect();
    all.sort_by_key(|e| (names::family(e.id).0, e.id));
    all
}

impl<'a> Experiment<'a> {
    fn of(id: &'a str, said: ExperimentNote, cells: &[&'a CellResult]) -> Self {
        let mut positions: Vec<BTreeMap<&'a str, &'a str>> =
            cells.iter().map(|cell| position(cell)).collect();
        let testbeds = distinct(cells.iter().map(|cell| cell.testbed.as_str()));
        if testbeds.len() > 1 {
            for (at, cell) in positions.iter_mut().zip(cells) {
                at.insert("testbed", &cell.testbed);
            }
        }
        name_protocols(&mut positions, cells);

        let mut axes: Vec<Axis> = Vec::new();
        let mut fixed = Vec::new();
        for name in distinct(positions.iter().flat_map(|at| at.keys().copied())) {
            let values = distinct(
                positions
                    .iter()
                    .map(|at| at.get(name).copied().unwrap_or(ABSENT)),
            );
            match values[..] {
                [only] => fixed.push((name, only)),
                _ => axes.push(Axis::sorted(name, values)),
            }
        }
        // Protocols first: they are what is compared. RTT before loss, as in the papers' grids.
        axes.sort_by_key(|axis| {
            let loss = axis.name.ends_with("loss");
            (!axis.is_protocol(), loss, axis.name.clone())
        });
        fixed.sort_unstable();

        let mut points: Vec<Point<'a>> = Vec::new();
        for (position, cell) in positions.iter().zip(cells) {
            let at: Vec<&'a str> = axes
                .iter()
                .map(|axis| position.get(axis.name.as_str()).copied().unwrap_or(ABSENT))
                .collect();
            let found = points.iter().position(|point| point.at == at);
            let found = found.unwrap_or_else(|| {
                points.push(Point {
                    at,
                    runs: Vec::new(),
                    failed: Vec::new(),
                });
                points.len() - 1
            });
            let point = &mut points[found];
            if cell.error.is_some() || cell.skipped.is_some() {
                point.failed.push(cell);
            } else {
                point.runs.push(cell);
            }
        }
        for point in &mut points {
            point.runs.sort_by_key(|cell| cell.seed);
            point.failed.sort_by_key(|cell| cell.seed);
        }
        points.sort_by_cached_key(|point| {
            let place = |(axis, value): (&Axis, &&str)| axis.values.iter().position(|v| v == value);
            axes.iter().zip(&point.at).map(place).collect::<Vec<_>>()
        });
        Self {
            id,
            notes: names::notes(id),
            said,
            axes,
            fixed,
            points,
        }
    }

    /// All runs, failed ones too.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'a CellResult> {
        self.points
            .iter()
            .flat_map(|point| point.runs.iter().chain(&point.failed).copied())
    }

    /// All runs that gave a result.
    pub(crate) fn runs(&self) -> Vec<&'a CellResult> {
        self.points
            .iter()
            .flat_map(|point| point.runs.iter().copied())
            .collect()
    }

    /// The axis of protocols, if they differ.
    pub(crate) fn protocol(&self) -> Option<usize> {
        self.axes.iter().position(Axis::is_protocol)
    }

    /// The axes of RTT and loss, if both have several values.
    pub(crate) fn grid(&self) -> Option<(usize, usize)> {
        let find = |words: &[&str]| {
            self.axes.iter().position(|axis| {
                let name = axis.name.to_ascii_lowercase();
                let last = name.rsplit('.').next().unwrap_or(&name).to_owned();
                words.iter().any(|word| last.contains(word))
            })
        };
        let (rtt, loss) = (find(&["rtt", "delay"])?, find(&["loss"])?);
        (rtt != loss && self.axes[rtt].values.len() * self.axes[loss].values.len() >= 6)
            .then_some((rtt, loss))
    }

    /// The axis whose values are drawn together, among those offered: the one that the notes name,
    /// else the first with two to four values.
    pub(crate) fn series(&self, among: &[usize]) -> Option<usize> {
        let named = |at: &&usize| {
            !self.notes.series.is_empty() && self.axes[**at].name.contains(self.notes.series)
        };
        let small = |at: &&usize| (2..=4).contains(&self.axes[**at].values.len());
        among
            .iter()
            .find(named)
            .or_else(|| among.iter().find(small))
            .copied()
    }

    /// Most long-lived flows in a run.
    pub(crate) fn flows(&self) -> usize {
        self.runs().iter().map(|c| c.flows.len()).max().unwrap_or(0)
    }

    /// Two flows of which either may be any protocol: protocols of the first and of the second.
    pub(crate) fn pairs(&self) -> Option<(Vec<&'a str>, Vec<&'a str>)> {
        let runs = self.runs();
        if runs.is_empty() || runs.iter().any(|cell| cell.flows.len() != 2) {
            return None;
        }
        let of = |n: usize| distinct(runs.iter().map(|cell| cell.flows[n].protocol.as_str()));
        let (first, second) = (of(0), of(1));
        let mixed = runs
            .iter()
            .any(|cell| cell.flows[0].protocol != cell.flows[1].protocol);
        (mixed && (first.len() > 1 || second.len() > 1)).then_some((first, second))
    }

    /// A value of an axis for people.
    pub(crate) fn value(&self, axis: usize, value: &str) -> String {
        let axis = &self.axes[axis];
        if axis.is_protocol() {
            return names::protocol(value);
        }
        names::value(value)
    }

    /// A value with the name of its axis where it needs one.
    pub(crate) fn named_value(&self, axis: usize, value: &str) -> String {
        let text = self.value(axis, value);
        if self.axes[axis].is_protocol() {
            text
        } else {
            format!("{} {text}", names::axis(&self.axes[axis].name))
        }
    }

    /// A point's place on some axes in words; empty for none.
    pub(crate) fn place(&self, point: &Point<'_>, axes: &[usize]) -> String {
        let parts: Vec<String> = axes
            .iter()
            .map(|&axis| self.named_value(axis, point.at[axis]))
            .collect();
        parts.join(" \u{b7} ")
    }

    /// Where a point stands on an axis, by the last part of the axis' name; "protocol" is the axis of
    /// protocols, whatever its name is. Also what is the same everywhere.
    pub(crate) fn at(&self, point: &Point<'a>, axis: &str) -> Option<&'a str> {
        let last = |name: &str| name.rsplit('.').next() == Some(axis);
        let found = (axis == "protocol").then(|| self.protocol()).flatten();
        let found = found.or_else(|| self.axes.iter().position(|a| last(&a.name)));
        if let Some(found) = found {
            return point.at.get(found).copied();
        }
        let fixed = self.fixed.iter().find(|(name, _)| last(name));
        let tool = |(_, value): &&(&str, &'a str)| axis == "protocol" && names::is_protocol(value);
        let fixed = fixed.or_else(|| self.fixed.iter().find(tool));
        fixed.map(|(_, value)| *value)
    }

    /// Axes other than those given.
    pub(crate) fn others(&self, than: &[usize]) -> Vec<usize> {
        (0..self.axes.len()).filter(|a| !than.contains(a)).collect()
    }

    /// Points that share their values on some axes, in order, with those values in words.
    pub(crate) fn split(&self, axes: &[usize]) -> Vec<(String, Vec<&Point<'a>>)> {
        let mut parts: Vec<(Vec<&str>, String, Vec<&Point<'a>>)> = Vec::new();
        for point in &self.points {
            let key: Vec<&str> = axes.iter().map(|&a| point.at[a]).collect();
            match parts.iter_mut().find(|part| part.0 == key) {
                Some(part) => part.2.push(point),
                None => parts.push((key, self.place(point, axes), vec![point])),
            }
        }
        parts.into_iter().map(|(_, words, p)| (words, p)).collect()
    }
}

impl Axis {
    fn sorted(name: &str, mut values: Vec<&str>) -> Self {
        let protocols = values.iter().any(|v| names::is_protocol(v));
        if protocols {
            // Stable: unknown ones keep the scenario's order.
            values.sort_by_key(|v| names::protocol_rank(v));
        } else if values
            .iter()
            .all(|v| *v == ABSENT || names::order(v).is_some())
        {
            values.sort_by(|a, b| {
                let order = |v: &str| names::order(v).unwrap_or(f64::NEG_INFINITY);
                order(a).total_cmp(&order(b))
            });
        }
        Self {
            name: name.to_owned(),
            values: values.into_iter().map(str::to_owned).collect(),
        }
    }

    /// Whether its values are protocols.
    pub(crate) fn is_protocol(&self) -> bool {
        self.name == PROTOCOL
            || self.name.ends_with(".protocol")
            || self.values.iter().filter(|v| names::is_protocol(v)).count() * 2 > self.values.len()
    }
}

fn position(cell: &CellResult) -> BTreeMap<&str, &str> {
    cell.at
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}

/// Where protocols differ and no axis tells them apart, an axis is made of them: the protocol of the
/// first flow that is not the same everywhere.
fn name_protocols<'a>(positions: &mut [BTreeMap<&'a str, &'a str>], cells: &[&'a CellResult]) {
    let told = distinct(positions.iter().flat_map(|at| at.keys().copied()))
        .into_iter()
        .any(|name| {
            let values = distinct(positions.iter().filter_map(|at| at.get(name).copied()));
            Axis::sorted(name, values).is_protocol()
        });
    if told {
        return;
    }
    let most = cells.iter().map(|cell| cell.flows.len()).max().unwrap_or(0);
    let of = |cell: &&'a CellResult, n: usize| {
        cell.flows
            .get(n)
            .map_or(ABSENT, |flow| flow.protocol.as_str())
    };
    for n in 0..most {
        if distinct(cells.iter().map(|cell| of(cell, n))).len() > 1 {
            for (at, cell) in positions.iter_mut().zip(cells) {
                at.insert(PROTOCOL, of(cell, n));
            }
            return;
        }
    }
}

/// Values in the order in which they first come.
pub(crate) fn distinct<'a>(values: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::FlowResult;

    fn cell(at: &[(&str, &str)], seed: u64, protocols: &[&str]) -> CellResult {
        CellResult {
            experiment: "X".to_owned(),
            at: at
                .iter()
                .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
                .collect(),
            seed,
            flows: protocols
                .iter()
                .map(|p| FlowResult {
                    protocol: (*p).to_owned(),
                    ..FlowResult::default()
                })
                .collect(),
            ..CellResult::default()
        }
    }

    #[test]
    fn axes_are_what_differs() {
        let cells = [
            cell(
                &[
                    ("protocol", "reno"),
                    ("buffer", "512packets"),
                    ("rtt", "9ms"),
                ],
                2,
                &["reno"],
            ),
            cell(
                &[
                    ("protocol", "howdah"),
                    ("buffer", "127packets"),
                    ("rtt", "9ms"),
                ],
                1,
                &["howdah"],
            ),
            cell(
                &[
                    ("protocol", "reno"),
                    ("buffer", "512packets"),
                    ("rtt", "9ms"),
                ],
                1,
                &["reno"],
            ),
        ];
        let all = gather(&Campaign::default(), &cells);
        let e = &all[0];
        assert_eq!(e.axes.len(), 2);
        assert_eq!(e.axes[0].values, ["howdah", "reno"]);
        assert_eq!(e.axes[1].values, ["127packets", "512packets"]);
        assert_eq!(e.fixed, [("rtt", "9ms")]);
        assert_eq!(e.points.len(), 2);
        let seeds: Vec<u64> = e.points[1].runs.iter().map(|c| c.seed).collect();
        assert_eq!(seeds, [1, 2]);
        assert_eq!(
            (e.protocol(), e.series(&[1]), e.grid()),
            (Some(0), Some(1), None)
        );
        assert_eq!(
            e.place(&e.points[0], &[0, 1]),
            "Howdah \u{b7} buffer 127\u{a0}packets"
        );
    }

    #[test]
    fn protocols_are_found_without_an_axis() {
        let cells = [
            cell(&[], 1, &["reno", "fast"]),
            cell(&[], 1, &["reno", "bic"]),
        ];
        let all = gather(&Campaign::default(), &cells);
        assert_eq!(all[0].axes[0].values, ["fast", "bic"]);
        assert!(all[0].pairs().is_some());
    }

    #[test]
    fn a_grid_has_rtt_and_loss() {
        let mut cells = Vec::new();
        for rtt in ["100ms", "0ms", "50ms"] {
            for loss in ["1%", "0.1%"] {
                cells.push(cell(
                    &[("path.rtt", rtt), ("path.loss", loss)],
                    1,
                    &["howdah"],
                ));
            }
        }
        let all = gather(&Campaign::default(), &cells);
        let (rtt, loss) = all[0].grid().unwrap();
        assert_eq!(all[0].axes[rtt].values, ["0ms", "50ms", "100ms"]);
        assert_eq!(all[0].axes[loss].values, ["0.1%", "1%"]);
    }
}
