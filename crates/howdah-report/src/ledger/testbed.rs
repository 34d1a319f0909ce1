//! Statements judged once more, by what real kernels and programs did on the testbed.

use super::{Entry, judge_all};
use crate::result::{CellResult, Mark};
use serde::{Deserialize, Serialize};

/// How results name the testbed.
pub(super) const NETNS: &str = "netns";
/// The UDT library's program there ...
const LIBRARY: &str = "libudt";
/// ... and our own sender and receiver of its protocol, which stand in for it where a campaign has both.
const OURS: &str = "udt";

/// A statement as the testbed's results judge it: by the run in the middle of each cell, and by those of its parts that can run
/// there, half of them at least.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct OnTestbed {
    /// The figures.
    pub ours: String,
    /// "holds", "shape holds", "fails" or "cannot be judged".
    pub verdict: String,
    /// Commits of the programs that ran the cells.
    pub commits: Vec<String>,
    /// Parts that cannot run there, and what the check says.
    pub note: String,
}

/// Every statement by the testbed's cells, as far as they measured it.
pub(super) fn entries(cells: &[CellResult]) -> Vec<Entry> {
    let cells = cells.iter().filter(|cell| counts(cell));
    let own: Vec<CellResult> = cells.filter_map(as_stated).collect();
    judge_all(&own, NETNS)
}

/// It measured this cell's network, and not the machine.
fn counts(cell: &CellResult) -> bool {
    let valid = cell.certificate.as_ref().is_none_or(|c| c.valid);
    let own = cell.marks.iter().all(|mark| *mark == Mark::Unsettled);
    cell.testbed == NETNS && valid && own
}

/// The cell with the protocols' names of the paper's experiment.
fn as_stated(cell: &CellResult) -> Option<CellResult> {
    let stated = match cell.experiment.split('-').next() {
        Some("J") => "udt2",
        Some("P" | "P1" | "P4") => "udt4",
        _ => return Some(cell.clone()),
    };
    let mut cell = cell.clone();
    if stated == "udt4" && cell.flows.iter().any(|flow| flow.protocol == OURS) {
        return None;
    }
    let names = cell.flows.iter_mut().map(|flow| &mut flow.protocol);
    for name in names.chain(cell.at.values_mut()) {
        if name == LIBRARY {
            stated.clone_into(name);
        }
    }
    Some(cell)
}

/// Nothing, if no cell is of its experiment.
pub(super) fn told(entry: Entry) -> Option<OnTestbed> {
    (!entry.commits.is_empty()).then_some(OnTestbed {
        ours: entry.ours,
        verdict: entry.verdict,
        commits: entry.commits,
        note: entry.note,
    })
}
