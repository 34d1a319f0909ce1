//! `howdah lab`, a file per part.

mod attack;
mod gate;
mod ledger;
mod list;
mod progress;
mod report;
mod run;

use crate::args::LabCommand;
use howdah::{Error, ErrorKind};
use howdah_lab::scenario::ScenarioError;
use howdah_report::result::Summary;
use howdah_report::store::{Store, StoreError};
use std::path::Path;

pub(super) fn run(command: &LabCommand) -> anyhow::Result<()> {
    match command {
        LabCommand::List(args) => list::run(args),
        LabCommand::Run(args) => run::run(args),
        LabCommand::Report(args) => report::run(args),
        LabCommand::Ledger(args) => ledger::run(args),
        LabCommand::Gate(args) => gate::run(args),
        LabCommand::Attack(args) => attack::run(args),
    }
}

/// A scenario that makes no sense is bad usage.
fn bad_scenario(error: &ScenarioError) -> Error {
    Error::new(ErrorKind::Usage, error.to_string())
}

/// A directory that is no campaign is bad usage; what else fails is a failure.
fn summary(dir: &Path) -> anyhow::Result<Summary> {
    Store::open(dir)
        .and_then(|store| store.summary())
        .map_err(|error| match error {
            StoreError::NoCampaign(_) => Error::new(ErrorKind::Usage, error.to_string()).into(),
            other => other.into(),
        })
}
