//! `howdah lab`, a file per part.

mod attack;
#[cfg(target_os = "linux")]
mod calibrate;
mod figures;
mod gate;
mod ledger;
mod list;
mod progress;
mod replay;
mod report;
mod run;
mod scenario_file;
mod table;

use crate::args::LabCommand;
use crate::{own_file, ui};
use howdah::{Error, ErrorKind};
use howdah_lab::run::RunError;
use howdah_lab::scenario::ScenarioError;
use howdah_report::csv::CsvError;
use howdah_report::report::ReportError;
use howdah_report::result::{CellResult, Summary};
use howdah_report::store::{Store, StoreError};
use howdah_report::together;
use std::io;
use std::path::{Path, PathBuf};

pub(super) use run::USUAL_OUT;

pub(super) fn run(command: &LabCommand) -> anyhow::Result<()> {
    of_command(command).map_err(of_its_kind)
}

fn of_command(command: &LabCommand) -> anyhow::Result<()> {
    match command {
        LabCommand::List(args) => list::run(args),
        LabCommand::Run(args) => run::run(args),
        LabCommand::Report(args) => report::run(args),
        LabCommand::Table(args) => table::run(args),
        LabCommand::Ledger(args) => ledger::run(args),
        LabCommand::Gate(args) => gate::run(args),
        LabCommand::Attack(args) => attack::run(args),
        LabCommand::Replay(args) => replay::run(args),
        #[cfg(target_os = "linux")]
        LabCommand::Calibrate(args) => calibrate::run(args),
    }
}

/// Many statements are about the shape of a curve, and curves are not in the summary.
fn read_curves(dir: &Path, campaign: &mut Summary) -> anyhow::Result<()> {
    let store = Store::open(dir)?;
    let ran = |cell: &&mut CellResult| cell.error.is_none() && cell.skipped.is_none();
    for cell in campaign.cells.iter_mut().filter(ran) {
        store.read_intervals(cell)?;
    }
    Ok(())
}

/// A full disk, and results that somebody may not read or write, are what they are to other commands.
fn of_its_kind(error: anyhow::Error) -> anyhow::Error {
    match error.chain().find_map(kind) {
        Some(kind) => Error::new(kind, format!("{error:#}")).into(),
        None => error,
    }
}

fn kind(cause: &(dyn std::error::Error + 'static)) -> Option<ErrorKind> {
    let of_io = |error: &io::Error| match error.kind() {
        // Something of the campaign is not there.
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => None,
        _ => Some(own_file::kind(error)),
    };
    let of_store = |error: &StoreError| match error {
        StoreError::Full(_) => Some(ErrorKind::NoSpace),
        StoreError::Io { error, .. } => of_io(error),
        _ => None,
    };
    if let Some(error) = cause.downcast_ref() {
        return of_store(error);
    }
    if let Some(RunError::Store { error, .. }) = cause.downcast_ref() {
        return of_store(error);
    }
    if let Some(ReportError::Write { error, .. }) = cause.downcast_ref() {
        return of_io(error);
    }
    match cause.downcast_ref()? {
        CsvError::Write { source, .. } => of_io(source),
        CsvError::Store(error) => of_store(error),
    }
}

/// A scenario that makes no sense is bad usage.
fn bad_scenario(error: &ScenarioError) -> Error {
    Error::new(ErrorKind::Usage, error.to_string())
}

/// Campaigns that are taken as one. Cells of another scenario or commit in the same place would be taken for seeds of one.
fn unmixed(dirs: &[PathBuf]) -> anyhow::Result<Vec<Summary>> {
    let campaigns = each(dirs, Store::summary)?;
    let cells: Vec<_> = campaigns.iter().map(|campaign| &*campaign.cells).collect();
    let mixed = together::mixed(&cells);
    if mixed.is_empty() {
        for (dir, campaign) in dirs.iter().zip(&campaigns) {
            tell_commits(dir, campaign);
        }
        return Ok(campaigns);
    }
    let message = format!(
        "{mixed}: more than one of these directories has it, by another scenario or commit, or with other results; give one of them ('howdah \
         lab report DIR DIR' shows both beside each other)"
    );
    Err(Error::new(ErrorKind::Usage, message).into())
}

/// What each of these directories has.
fn each(
    dirs: &[PathBuf],
    read: fn(&Store) -> Result<Summary, StoreError>,
) -> anyhow::Result<Vec<Summary>> {
    dirs.iter().map(|dir| read_of(dir, read)).collect()
}

fn summary(dir: &Path) -> anyhow::Result<Summary> {
    let campaign = read_of(dir, Store::summary)?;
    tell_commits(dir, &campaign);
    Ok(campaign)
}

/// Seeds that different programs have run are taken for seeds of one.
fn tell_commits(dir: &Path, campaign: &Summary) {
    let commits = together::commits(&campaign.cells);
    if commits.is_empty() {
        return;
    }
    let each: Vec<String> = (commits.iter())
        .map(|(commit, cells)| {
            format!("{cells} by {}", commit.chars().take(12).collect::<String>())
        })
        .collect();
    ui::say(&format!(
        "{}: seeds of the same cells were run by more than one commit ({}); 'howdah lab run --again' runs all by one",
        dir.display(),
        each.join(", ")
    ));
}

/// A directory that is no campaign is bad usage; what else fails is a failure.
fn read_of(dir: &Path, read: fn(&Store) -> Result<Summary, StoreError>) -> anyhow::Result<Summary> {
    Store::open(dir)
        .and_then(|store| read(&store))
        .map_err(|error| match error {
            StoreError::NoCampaign(_) => Error::new(ErrorKind::Usage, error.to_string()).into(),
            other => other.into(),
        })
}
