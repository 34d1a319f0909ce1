//! Runs a cell on a real testbed: every host a network namespace, every path the emulator's, real
//! sockets, the kernel's TCP and other people's programs.
//!
//! [`Testbed::prepare`] looks once whether this machine can do it at all. [`Testbed::run`] runs one
//! cell once: it makes the hosts (`plan`), starts the programs (`program`), watches what the
//! emulator carries while they run (`course`), ends them, and makes a [`CellResult`] of what they
//! and the emulator say (`outcome`). Repetition is the campaign's business, not its.

mod bpf;
mod course;
mod environment;
mod kit;
mod outcome;
mod plan;
mod program;
mod scaled;
mod stage;
mod tcp_counts;

pub use kit::{Kit, KitError};
pub use scaled::twin;

use crate::scenario::Cell;
use crate::warm;
use howdah_report::result::CellResult;
use howdah_wan::WanError;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Why a run gave no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Trouble {
    /// This testbed cannot run such a cell.
    #[error("{0}")]
    Skipped(String),
    /// A program did not do what it should.
    #[error("{0}")]
    Failed(String),
    /// The emulator.
    #[error(transparent)]
    Wan(#[from] WanError),
    /// The scratch directory.
    #[error("cannot {what}: {error}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        error: std::io::Error,
    },
    /// It was told to stop.
    #[error("stopped")]
    Stopped,
}

impl Trouble {
    fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |error| Self::Io { what, error }
    }
}

/// A machine that can run cells.
#[derive(Debug)]
pub struct Testbed {
    kit: Kit,
}

impl Testbed {
    /// Looks whether namespaces can be made here, and gets ready.
    ///
    /// # Errors
    ///
    /// [`Trouble::Wan`] says what is missing: root, `/dev/net/tun`, `ip`.
    pub fn prepare(kit: Kit) -> Result<Self, Trouble> {
        kit::remove_stale();
        plan::probe()?;
        Ok(Self { kit })
    }

    /// Runs a cell once. `stop` ends it early, without a result.
    pub fn run(&self, cell: &Cell, stop: &AtomicBool) -> Result<CellResult, Trouble> {
        let memory = Kit::scratch()?;
        match cell.flows.iter().position(|flow| flow.warm) {
            None => {}
            // Addresses are those of the flow's place, and a path is remembered by them.
            Some(0) => {
                let learns = warm::earlier(cell, 0);
                self.run_with(&learns, memory.path(), stop)?;
                if !program::remembers(memory.path()) {
                    let text = "the transfer before the warm one has left nothing to remember";
                    return Err(Trouble::Failed(text.to_owned()));
                }
            }
            Some(_) => {
                let text = "on real sockets only a cell's first flow can be warm: write it first";
                return Err(Trouble::Skipped(text.to_owned()));
            }
        }
        self.run_with(cell, memory.path(), stop)
    }

    /// Warm flows know the paths that `memory` has, and leave there what they learn.
    fn run_with(
        &self,
        cell: &Cell,
        memory: &Path,
        stop: &AtomicBool,
    ) -> Result<CellResult, Trouble> {
        let plan = plan::Plan::new(cell)?;
        let launches = program::launches(&self.kit, cell, &plan, memory)?;
        let scratch = Kit::scratch()?;
        let stage = stage::Stage::build(&plan, launches, scratch.path())?;
        let played = stage.play(cell, &plan, stop)?;
        Ok(outcome::result(cell, &plan, &played))
    }
}
