//! A campaign without a disk, a clock or threads: what a browser runs.

use super::record::{self, Origin};
use super::simulated::only_on_a_testbed;
use crate::scenario::{Cell, Plan};
use crate::{derive, sim};
use howdah_report::report;
use howdah_report::result::{Campaign, CellResult};
use std::sync::atomic::AtomicBool;

/// The cells of a plan, and the results that there are.
#[derive(Debug)]
pub struct InMemory {
    plan: Plan,
    campaign: Campaign,
    quick: bool,
    results: Vec<Option<CellResult>>,
}

impl InMemory {
    /// A plan of which nothing has been run. `quick`: it is the reduced set.
    pub fn new(plan: Plan, quick: bool, origin: Origin) -> Self {
        let cells: Vec<&Cell> = plan.cells().collect();
        let campaign = record::campaign(&plan, &cells, quick, origin);
        let results = vec![None; cells.len()];
        Self {
            plan,
            campaign,
            quick,
            results,
        }
    }

    /// Number of cells.
    pub fn cells(&self) -> usize {
        self.results.len()
    }

    /// The cell, if there is one of that number.
    pub fn cell(&self, index: usize) -> Option<&Cell> {
        self.plan.cells().nth(index)
    }

    /// Runs a cell of the plan. Equal cells give equal results, here and on any other machine.
    ///
    /// # Panics
    /// If one of the simulator's checks fails, or there is no such cell.
    pub fn run(&self, index: usize) -> CellResult {
        let cell = self.cell(index).expect("a cell of the plan");
        let mut result = match only_on_a_testbed(cell) {
            Some(why) => CellResult {
                skipped: Some(why),
                ..record::empty(cell, "sim")
            },
            None => sim::run(cell, &AtomicBool::new(false)).expect("nobody stops it"),
        };
        record::sign(&mut result, cell, &self.campaign.commit, self.quick);
        result
    }

    /// Takes in the result of a cell, of whoever ran it. One of another plan is refused.
    pub fn add(&mut self, index: usize, result: CellResult) -> bool {
        let fits = self.cell(index).is_some_and(|cell| cell.id() == result.id);
        if fits {
            self.results[index] = Some(result);
        }
        fits
    }

    /// The report of what there is, as one HTML file.
    pub fn report(&self) -> String {
        let cells = self.plan.cells().zip(&self.results);
        let done = cells.filter_map(|(cell, result)| Some((cell, result.clone()?)));
        let (cells, mut results): (Vec<&Cell>, Vec<CellResult>) = done.unzip();
        derive::harm(&cells, &mut results);
        report::page(self.campaign.clone(), results, &report::Options::default())
    }
}
