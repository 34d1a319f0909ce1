//! Runs a plan: cells to worker threads, results to a directory, nothing twice.

mod machine;
mod only;
#[cfg(target_os = "linux")]
mod real;
mod store;

pub use machine::{commit, machine};
pub use only::Only;
#[cfg(target_os = "linux")]
pub use real::{RealOptions, run as run_on_testbed};
pub(crate) use store::replace;
pub use store::{Store, StoreError};

use crate::protocol::{self, Protocol};
use crate::result::{Campaign, CellResult, Summary};
use crate::scenario::{Cell, Plan};
use crate::{derive, sim};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Instant;

/// How to run a plan.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Directory of the campaign; made if it is not there.
    pub out: PathBuf,
    /// Cells at a time.
    pub jobs: usize,
    /// Only the i-th of n parts of the cells, counted from 1.
    pub shard: Option<Shard>,
    /// Only cells that have one of the values of each of these.
    pub only: Vec<Only>,
    /// Run finished cells again.
    pub again: bool,
    /// Reduced set.
    pub quick: bool,
    /// Command line, for the record.
    pub command: String,
}

impl RunOptions {
    /// Whether this run is about the cell, the `index`-th of the plan.
    fn asks_for(&self, index: usize, cell: &Cell) -> bool {
        let is_in = |shard: Shard| index % shard.of == shard.index - 1;
        self.shard.is_none_or(is_in) && self.only.iter().all(|only| only.has(&cell.at))
    }
}

/// One of several parts of a campaign.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shard {
    /// Which, from 1.
    pub index: usize,
    /// Of how many.
    pub of: usize,
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split_once('/')
            .and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)))
            .filter(|&(index, of)| 1 <= index && index <= of)
            .map(|(index, of)| Self { index, of })
            .ok_or_else(|| "write I/N with I from 1 to N, like 2/4".to_owned())
    }
}

/// How far a run is.
#[derive(Clone, Debug, Default)]
pub struct RunProgress {
    /// Cells to run now, without those that were finished before.
    pub cells: usize,
    /// Cells done.
    pub done: usize,
    /// Cells that gave no result.
    pub failed: usize,
    /// Cells that were finished before.
    pub kept: usize,
    /// Share of the work that is done, from 0 to 1.
    pub share: f64,
    /// Seconds since the start.
    pub elapsed_s: f64,
    /// The cell that has just ended.
    pub last: String,
}

impl RunProgress {
    /// Seconds that the rest will take, if it goes on like this.
    pub fn left_s(&self) -> Option<f64> {
        (self.share > 0.0).then(|| self.elapsed_s * (1.0 - self.share) / self.share)
    }
}

/// What became of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Cells that were run.
    pub ran: usize,
    /// Cells that were finished before.
    pub kept: usize,
    /// Cells of other commits among those.
    pub kept_from: BTreeMap<String, usize>,
    /// Cells that gave no result: their place in the matrix, and why.
    pub failed: Vec<(String, String)>,
    /// Told to stop before the end.
    pub stopped: bool,
    /// Seconds that it took.
    pub wall_s: f64,
}

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The directory of results could not be written.
    #[error("{error}; {finished} finished cells are kept, the same command goes on from there")]
    Store {
        /// What failed.
        error: StoreError,
        /// Cells in the directory.
        finished: usize,
    },
    /// The testbed cannot be had on this machine.
    #[error("{0}")]
    Testbed(String),
}

/// Where a cell stands, for people: `J-A1 buffer=127packets protocol=fast`.
pub fn describe(cell: &Cell) -> String {
    let mut text = cell.experiment.clone();
    for (axis, value) in &cell.at {
        let _ = write!(text, " {axis}={value}");
    }
    text
}

/// Runs all cells that have no result yet. `stop` makes it end with the cells that are done by
/// then; `watch` is told after each cell, and about twice a second.
pub fn run(
    plan: &Plan,
    options: &RunOptions,
    stop: &AtomicBool,
    mut watch: impl FnMut(&RunProgress),
) -> Result<Outcome, RunError> {
    let started = Instant::now();
    let store =
        Store::create(&options.out).map_err(|error| RunError::Store { error, finished: 0 })?;
    let failed_to_store = |error| RunError::Store {
        error,
        finished: store.finished(),
    };
    let cells: Vec<&Cell> = plan.cells().collect();
    let campaign = campaign(plan, options, &cells);
    store.write_campaign(&campaign).map_err(failed_to_store)?;

    let mut outcome = Outcome::default();
    let mut todo: Vec<(&Cell, f64)> = Vec::new();
    for (index, &cell) in cells.iter().enumerate() {
        if !options.asks_for(index, cell) {
            continue;
        }
        match store.read(&cell.id()) {
            Some(result) if result.error.is_none() && !options.again => {
                outcome.kept += 1;
                if result.commit != campaign.commit {
                    *outcome.kept_from.entry(result.commit).or_default() += 1;
                }
            }
            _ => todo.push((cell, cell.cost())),
        }
    }
    // The long ones first, so that no core waits for another at the end.
    todo.sort_by(|a, b| b.1.total_cmp(&a.1));
    let work: f64 = todo.iter().map(|(_, cost)| cost).sum();
    let mut progress = RunProgress {
        cells: todo.len(),
        kept: outcome.kept,
        ..RunProgress::default()
    };

    let next = AtomicUsize::new(0);
    let abort = AtomicBool::new(false);
    let mut failure = None;
    std::thread::scope(|scope| {
        let (sender, results) = mpsc::channel();
        for _ in 0..options.jobs.clamp(1, todo.len().max(1)) {
            let sender = sender.clone();
            let (todo, next, abort) = (&todo, &next, &abort);
            scope.spawn(move || {
                while let Some(&(cell, cost)) = todo.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if stop.load(Ordering::Relaxed) || abort.load(Ordering::Relaxed) {
                        break;
                    }
                    let Some(result) = run_cell(cell, stop) else {
                        break;
                    };
                    if sender.send((cell, cost, result)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut done_work = 0.0;
        loop {
            match results.recv_timeout(std::time::Duration::from_millis(500)) {
                Ok((cell, cost, mut result)) => {
                    result.commit.clone_from(&campaign.commit);
                    if let Some(error) = &result.error {
                        outcome.failed.push((describe(cell), error.clone()));
                        progress.failed += 1;
                    }
                    if let Err(error) = store.write(&result) {
                        failure.get_or_insert(error);
                        abort.store(true, Ordering::Relaxed);
                        continue;
                    }
                    outcome.ran += 1;
                    progress.done += 1;
                    done_work += cost;
                    progress.share = if work > 0.0 { done_work / work } else { 1.0 };
                    progress.last = describe(cell);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
            progress.elapsed_s = started.elapsed().as_secs_f64();
            watch(&progress);
        }
    });
    if let Some(error) = failure {
        return Err(failed_to_store(error));
    }
    outcome.stopped = stop.load(Ordering::Relaxed);
    outcome.wall_s = started.elapsed().as_secs_f64();
    let summary = summarise(&store, campaign, &cells).map_err(failed_to_store)?;
    store.write_summary(&summary).map_err(failed_to_store)?;
    Ok(outcome)
}

/// Runs one cell; a failed check of the simulator becomes the cell's error. `None` if it was
/// stopped.
fn run_cell(cell: &Cell, stop: &AtomicBool) -> Option<CellResult> {
    let started = Instant::now();
    if let Some(why) = only_on_a_testbed(cell) {
        return Some(CellResult {
            id: cell.id(),
            experiment: cell.experiment.clone(),
            at: cell.at.clone(),
            testbed: "sim".to_owned(),
            seed: cell.seed,
            skipped: Some(why),
            ..CellResult::default()
        });
    }
    let mut result = match catch_unwind(AssertUnwindSafe(|| sim::run(cell, stop))) {
        Ok(Ok(result)) => result,
        Ok(Err(sim::Stopped)) => return None,
        Err(panic) => {
            let message = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("the simulator failed");
            CellResult {
                id: cell.id(),
                experiment: cell.experiment.clone(),
                at: cell.at.clone(),
                testbed: "sim".to_owned(),
                seed: cell.seed,
                error: Some(message.to_owned()),
                ..CellResult::default()
            }
        }
    };
    result.wall_s = started.elapsed().as_secs_f64();
    Some(result)
}

/// Why the simulator cannot run a cell.
fn only_on_a_testbed(cell: &Cell) -> Option<String> {
    let foreign = cell
        .flows
        .iter()
        .map(|flow| &flow.protocol)
        .chain(cell.groups.iter().map(|group| &group.protocol))
        .find(|name| matches!(protocol::find(name), Some(Protocol::Foreign(_))))?;
    Some(format!(
        "'{foreign}' is a real program: only --on netns runs it"
    ))
}

fn campaign(plan: &Plan, options: &RunOptions, cells: &[&Cell]) -> Campaign {
    let (commit, dirty) = commit();
    let marks = |of: fn(&crate::scenario::Experiment) -> &Vec<(String, String)>| {
        plan.experiments
            .iter()
            .map(|experiment| (experiment.id.clone(), of(experiment).clone()))
            .filter(|(_, marks)| !marks.is_empty())
            .collect()
    };
    Campaign {
        format: crate::result::FORMAT,
        scenarios: plan.files.clone(),
        commit,
        dirty,
        machine: machine(),
        command: options.command.clone(),
        started_unix_s: machine::unix_time_s(),
        quick: options.quick,
        cells: cells.iter().map(|cell| cell.id()).collect(),
        experiments: plan
            .experiments
            .iter()
            .map(|experiment| crate::result::ExperimentNote {
                id: experiment.id.clone(),
                title: experiment.title.clone(),
                paper: experiment.paper.clone(),
                figure: experiment.figure.clone(),
                note: experiment.note.clone(),
                file: experiment.file.display().to_string(),
                cells: (cells.iter())
                    .filter(|cell| cell.experiment == experiment.id)
                    .count(),
            })
            .collect(),
        chosen: marks(|experiment| &experiment.chosen),
        fitted: marks(|experiment| &experiment.fitted),
    }
}

/// All finished cells in the order of the scenarios, with what only their neighbours can tell, which
/// is added to their files too.
fn summarise(store: &Store, campaign: Campaign, cells: &[&Cell]) -> Result<Summary, StoreError> {
    let mut results: Vec<CellResult> = Vec::new();
    let mut specs = Vec::new();
    for &cell in cells {
        if let Some(result) = store.read(&cell.id()) {
            results.push(result);
            specs.push(cell);
        }
    }
    for changed in derive::harm(&specs, &mut results) {
        store.write_again(&results[changed])?;
    }
    Ok(Summary {
        campaign,
        cells: results,
    })
}
