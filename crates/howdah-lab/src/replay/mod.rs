//! A recorded copy in virtual time: what its path did becomes a scenario, and transports run over it.
//!
//! `path` makes a network of a recording, `text` a scenario of that. What was not seen is not known: how long the queue can get that
//! never overflowed, what the path would have carried while the source was slow, and how whoever shared it would have
//! answered another transport. docs/lab.md says what is assumed instead.

mod path;
mod predict;
mod text;

pub use path::{NotReplayable, PathModel};
pub use predict::{Change, Forecast, Prediction, predict};

use crate::catalog::{self, HOWDAH, HOWDAH_BACKGROUND, HOWDAH_FIXED, Protocol};
use crate::scenario::{Cell, parse};
use crate::sim;
use howdah_recording::{Recording, Sharing};
use howdah_report::result::CellResult;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A copy, ready to be run again.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The network.
    pub model: PathModel,
    /// The transport that was recorded.
    pub own: &'static str,
    /// What it was told, for one that is told a rate.
    rate_bps: u64,
}

/// How one transport would have done.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// As scenarios name it.
    pub protocol: String,
    /// Until all bytes were known to be there; `None` if that took longer than [`PathModel::patience_s`].
    pub seconds: Option<f64>,
    /// Payload over that time, in bit/s.
    pub goodput_bps: f64,
    /// Payload that went again, in bytes, where it is told.
    pub repeated_bytes: Option<u64>,
}

/// Why there is no outcome.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ReplayError {
    /// Nothing can be made of the recording.
    #[error(transparent)]
    Recording(#[from] NotReplayable),
    /// A protocol is none, or has no model.
    #[error("{0}")]
    Protocol(String),
    /// It was told to stop.
    #[error("stopped")]
    Stopped,
    /// The scenario or the simulator failed, which is a fault of its own.
    #[error("the replay failed: {0}")]
    Failed(String),
}

impl Replay {
    /// Makes a network of what was recorded.
    pub fn new(recording: &Recording) -> Result<Self, NotReplayable> {
        let model = PathModel::new(recording)?;
        let own = match recording.facts.sharing {
            Sharing::Fair => HOWDAH,
            Sharing::Background => HOWDAH_BACKGROUND,
            Sharing::Fixed => HOWDAH_FIXED,
        };
        let pacing = recording
            .intervals
            .iter()
            .map(|interval| interval.pacing_bps);
        let replay = Self {
            model,
            own,
            rate_bps: pacing.max().unwrap_or(0),
        };
        // What was measured can be simulated; a file from somebody else may have any numbers.
        cells(&replay.scenario(&[own.to_owned()])).map_err(|_| NotReplayable::OutOfRange)?;
        Ok(replay)
    }

    /// The scenario, in which these transports copy the same bytes, each alone.
    pub fn scenario(&self, protocols: &[String]) -> String {
        text::scenario(&self.model, protocols, self.rate_bps)
    }

    /// Whether the simulator has all of these.
    pub fn check(protocols: &[String]) -> Result<(), ReplayError> {
        protocols.iter().try_for_each(|name| check(name))
    }

    /// Runs them, `jobs` at a time.
    pub fn run(
        &self,
        protocols: &[String],
        jobs: usize,
        stop: &AtomicBool,
    ) -> Result<Vec<Outcome>, ReplayError> {
        Self::check(protocols)?;
        run_all(&cells(&self.scenario(protocols))?, jobs, stop)
    }
}

/// The cells of a scenario that was made here.
fn cells(text: &str) -> Result<Vec<Cell>, ReplayError> {
    let plan = parse(Path::new("replay.toml"), text, false)
        .map_err(|error| ReplayError::Failed(error.to_string()))?;
    Ok(plan.cells().cloned().collect())
}

/// The outcome of each, `jobs` at a time.
fn run_all(cells: &[Cell], jobs: usize, stop: &AtomicBool) -> Result<Vec<Outcome>, ReplayError> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(vec![None; cells.len()]);
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, cells.len().max(1)) {
            scope.spawn(|| {
                while let Some((at, cell)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    cells.get(at).map(|cell| (at, cell))
                } {
                    let outcome = run_cell(cell, stop);
                    if let Ok(mut found) = found.lock() {
                        found[at] = Some(outcome);
                    }
                }
            });
        }
    });
    let found = found.into_inner().unwrap_or_default();
    found
        .into_iter()
        .map(|outcome| outcome.unwrap_or(Err(ReplayError::Stopped)))
        .collect()
}

/// Whether the simulator has that protocol, and it needs to be told nothing that a recording does not say.
fn check(name: &str) -> Result<(), ReplayError> {
    let refused = |why: String| Err(ReplayError::Protocol(why));
    match catalog::find(name) {
        None => refused(format!(
            "there is no protocol '{name}'; 'howdah lab list --protocols' shows them"
        )),
        Some(Protocol::Foreign(_)) => refused(format!(
            "'{name}' is a real program, and a replay is made in the simulator"
        )),
        Some(_) => Ok(()),
    }
}

fn run_cell(cell: &Cell, stop: &AtomicBool) -> Result<Outcome, ReplayError> {
    match catch_unwind(AssertUnwindSafe(|| sim::run(cell, stop))) {
        Ok(Ok(result)) => outcome(&result),
        Ok(Err(_)) => Err(ReplayError::Stopped),
        Err(panic) => Err(ReplayError::Failed(sim::what_failed(&*panic).to_owned())),
    }
}

fn outcome(result: &CellResult) -> Result<Outcome, ReplayError> {
    let flow = result.flows.first();
    let flow = flow.ok_or_else(|| ReplayError::Failed("no flow".to_owned()))?;
    let took = flow.completion_s.unwrap_or(result.duration_s);
    Ok(Outcome {
        protocol: flow.protocol.clone(),
        seconds: flow.completion_s,
        goodput_bps: flow.delivered_bytes as f64 * 8.0 / took.max(1e-9),
        repeated_bytes: flow.retransmitted_bytes,
    })
}
