//! A campaign in virtual time: each cell once, as many at a time as there are cores.

use super::campaign::{self, Attempt, Open, Testbed};
use super::{Outcome, RunError, RunOptions, RunProgress};
use crate::catalog::{self, Protocol};
use crate::scenario::{Cell, Plan};
use crate::sim;
use howdah_report::result::CellResult;
use howdah_report::store::Store;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

/// Runs all cells that have no result yet. `stop` makes it end with the cells that are done by
/// then; `watch` is told after each cell, and about twice a second.
pub fn run(
    plan: &Plan,
    options: &RunOptions,
    stop: &AtomicBool,
    watch: impl FnMut(&RunProgress),
) -> Result<Outcome, RunError> {
    let cells = plan.cells().enumerate();
    let cells = cells.filter(|(index, cell)| options.asks_for(*index, cell));
    let mut simulator = Simulator {
        captures: None,
        notes: Mutex::default(),
    };
    if options.pcap {
        let cells = cells.count();
        if cells > MOST_CAPTURES {
            let most = MOST_CAPTURES;
            return Err(RunError::ManyCaptures { cells, most });
        }
        simulator.captures = Some(options.out.join("pcap"));
    }
    let mut outcome = campaign::run(&mut simulator, plan, options, stop, watch)?;
    let notes = simulator.notes.into_inner();
    outcome
        .notes
        .extend(notes.unwrap_or_else(PoisonError::into_inner));
    Ok(outcome)
}

/// Cells whose packets one run writes: 8 GiB at most.
const MOST_CAPTURES: usize = 16;

struct Simulator {
    /// Where packets are written.
    captures: Option<PathBuf>,
    notes: Mutex<Vec<String>>,
}

impl Simulator {
    fn simulate(&self, cell: &Cell, stop: &AtomicBool) -> Result<Attempt, String> {
        let capture = self.captures.as_ref();
        let capture = capture.map(|dir| sim::Capture::create(dir, &cell.id()));
        let capture = capture.transpose()?;
        let Ok(result) = sim::run_seen_by(cell, stop, capture.as_ref()) else {
            return Ok(Attempt::Stopped);
        };
        if let Some(capture) = capture {
            let notes = capture.finish()?;
            let mut all = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(notes);
        }
        Ok(Attempt::Ran(Box::new(result)))
    }
}

impl Testbed for Simulator {
    const NAME: &'static str = "sim";
    /// It would fail in the same way again.
    const MOST_FAILURES: usize = 1;

    fn cells<'p>(&self, plan: &'p Plan) -> Vec<&'p Cell> {
        plan.cells().collect()
    }

    fn jobs(&self, wished: usize) -> usize {
        wished
    }

    fn most_runs(&self) -> usize {
        1
    }

    fn cost(&self, cell: &Cell) -> f64 {
        cell.cost()
    }

    /// The long ones first, so that no core waits for another at the end.
    fn order(&mut self, open: &mut [Open<'_>]) {
        open.sort_by(|a, b| b.cell.cost().total_cmp(&a.cell.cost()));
    }

    fn found(&self, store: &Store, cell: &Cell) -> Vec<CellResult> {
        if self.captures.is_some() {
            return Vec::new();
        }
        let result = store.read(&cell.id());
        // Both files are renamed into place, but others copy directories, and disks lose what they hold.
        let result = result.filter(|result| {
            result.testbed == Self::NAME
                && result.error.is_none()
                && store.has_intervals(&cell.id())
        });
        result.into_iter().collect()
    }

    fn is_done(&self, runs: &[CellResult]) -> bool {
        !runs.is_empty()
    }

    fn run(&self, cell: &Cell, _: &[CellResult], stop: &AtomicBool) -> Attempt {
        if let Some(why) = only_on_a_testbed(cell) {
            return Attempt::Skipped(why);
        }
        // A failed check of the simulator is the cell's error.
        match catch_unwind(AssertUnwindSafe(|| self.simulate(cell, stop))) {
            Ok(attempt) => attempt.unwrap_or_else(Attempt::Failed),
            Err(panic) => Attempt::Failed(sim::what_failed(&*panic).to_owned()),
        }
    }

    fn result(&self, runs: &[CellResult]) -> Option<CellResult> {
        runs.last().cloned()
    }
}

/// Why the simulator cannot run a cell.
pub(super) fn only_on_a_testbed(cell: &Cell) -> Option<String> {
    let flows = cell.flows.iter().map(|flow| &flow.protocol);
    let groups = cell.groups.iter().map(|group| &group.protocol);
    let foreign = flows
        .chain(groups)
        .find(|name| matches!(catalog::find(name), Some(Protocol::Foreign(_))))?;
    Some(format!(
        "'{foreign}' is a real program: only --on netns runs it"
    ))
}
