//! Runs a plan: cells to a testbed, results to a directory, nothing twice.

mod campaign;
mod in_memory;
mod machine;
mod only;
#[cfg(target_os = "linux")]
mod real;
mod record;
mod simulated;

pub use in_memory::InMemory;
pub use machine::machine;
pub use only::Only;
#[cfg(target_os = "linux")]
pub use real::{RealOptions, run as run_on_testbed};
pub use record::Origin;
pub use simulated::run;

use crate::scenario::Cell;
use howdah_report::store::StoreError;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

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
    /// The packets of each cell, as `pcap/CELL.sender.pcap` and `.receiver.pcap` in the directory of the campaign. Cells that have a result
    /// are run again. Of the simulator only.
    pub pcap: bool,
    /// Command line, for the record.
    pub command: String,
}

impl RunOptions {
    /// All cells that have no result yet, one at a time, into `out`.
    pub fn new(out: impl Into<PathBuf>, command: impl Into<String>) -> Self {
        Self {
            out: out.into(),
            jobs: 1,
            shard: None,
            only: Vec::new(),
            again: false,
            quick: false,
            pcap: false,
            command: command.into(),
        }
    }

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

/// A flow in which nothing arrives for so many seconds is told of: its mean says little.
pub const STILL_S: f64 = 5.0;

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
    /// Cells that this testbed cannot run, and why; they are neither run nor failed.
    pub skipped: Vec<(String, String)>,
    /// Cells of this run in which a flow stood still for [`STILL_S`] or longer: place and flow, and for how many seconds.
    pub stalls: Vec<(String, f64)>,
    /// Flows of this run that gave up, or to which nothing arrived: place and flow, and why.
    pub gave_up: Vec<(String, String)>,
    /// What else is to be said of this run.
    pub notes: Vec<String>,
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
    /// The directory holds the results of other scenarios.
    #[error("{} holds the results of {others}; name another directory with --out", dir.display())]
    Taken {
        /// The directory.
        dir: PathBuf,
        /// Their files.
        others: String,
    },
    /// The directory holds what another testbed gave for the same cells, which have the same names there.
    #[error(
        "{} holds what '{testbed}' gave for these cells, in whose place the results would come; name another directory with --out", dir.display()
    )]
    OtherTestbed {
        /// The directory.
        dir: PathBuf,
        /// As results name it.
        testbed: String,
    },
    /// The directory holds somebody's file where a campaign has one of its own.
    #[error("--out: {0}")]
    NotOurs(StoreError),
    /// More cells than packets are written of.
    #[error(
        "packets are written of at most {most} cells, up to 512 MiB each, and this run has {cells}; choose some with --only or --shard"
    )]
    ManyCaptures {
        /// Cells that were asked for.
        cells: usize,
        /// So many may be.
        most: usize,
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
