//! What is written down of a campaign and its cells, wherever it runs and whatever keeps it.

use super::machine::{commit, machine, unix_time_s};
use crate::scenario::{Cell, Experiment, Plan};
use howdah_report::result::{Campaign, CellResult, ExperimentNote, FORMAT};
use std::collections::BTreeMap;

/// What runs a campaign, and when.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// Commit of the program; "unknown" outside a repository.
    pub commit: String,
    /// The sources differed from the commit when the program was built.
    pub dirty: bool,
    /// Processor, cores, memory, kernel.
    pub machine: BTreeMap<String, String>,
    /// Command line that repeats the campaign.
    pub command: String,
    /// Start, seconds since 1970.
    pub started_unix_s: u64,
}

impl Origin {
    /// What this program knows of itself alone.
    pub fn built() -> Self {
        Self {
            commit: option_env!("HOWDAH_COMMIT").unwrap_or("unknown").to_owned(),
            dirty: option_env!("HOWDAH_CHANGED") == Some("true"),
            ..Self::default()
        }
    }

    /// This program, on this machine, now.
    pub(super) fn here(command: &str) -> Self {
        let (commit, dirty) = commit();
        Self {
            commit,
            dirty,
            machine: machine(),
            command: command.to_owned(),
            started_unix_s: unix_time_s(),
        }
    }
}

/// What holds for all cells of a plan's campaign.
pub(super) fn campaign(plan: &Plan, cells: &[&Cell], quick: bool, origin: Origin) -> Campaign {
    let marks = |of: fn(&Experiment) -> &Vec<(String, String)>| {
        plan.experiments
            .iter()
            .map(|experiment| (experiment.id.clone(), of(experiment).clone()))
            .filter(|(_, marks)| !marks.is_empty())
            .collect()
    };
    Campaign {
        format: FORMAT,
        scenarios: plan.files.clone(),
        commit: origin.commit,
        dirty: origin.dirty,
        machine: origin.machine,
        command: origin.command,
        started_unix_s: origin.started_unix_s,
        quick,
        cells: cells.iter().map(|cell| cell.id()).collect(),
        experiments: plan
            .experiments
            .iter()
            .map(|experiment| ExperimentNote {
                id: experiment.id.clone(),
                title: experiment.title.clone(),
                paper: experiment.paper.clone(),
                figure: experiment.figure.clone(),
                note: experiment.note.clone(),
                file: experiment.file.display().to_string(),
                cells: (cells.iter())
                    .filter(|cell| cell.experiment == experiment.id)
                    .count(),
                mtu_bytes: mtu(experiment),
                swept: experiment.swept.clone(),
            })
            .collect(),
        chosen: marks(|experiment| &experiment.chosen),
        fitted: marks(|experiment| &experiment.fitted),
    }
}

/// Largest packet on the paths of an experiment in bytes, if all have the same.
fn mtu(experiment: &Experiment) -> Option<u32> {
    let cells = experiment.cells.iter();
    let mut sizes = cells.flat_map(|cell| cell.paths.iter().map(|path| path.forward.mtu_bytes));
    let first = sizes.next()?;
    sizes.all(|other| other == first).then_some(first)
}

/// A result of a cell without any figures.
pub(super) fn empty(cell: &Cell, testbed: &str) -> CellResult {
    CellResult {
        id: cell.id(),
        experiment: cell.experiment.clone(),
        at: cell.at.clone(),
        testbed: testbed.to_owned(),
        seed: cell.seed,
        ..CellResult::default()
    }
}

/// Writes into a result what it is a result of.
pub(super) fn sign(result: &mut CellResult, cell: &Cell, commit: &str, quick: bool) {
    commit.clone_into(&mut result.commit);
    result.design = cell.design();
    result.reduced = quick;
}
