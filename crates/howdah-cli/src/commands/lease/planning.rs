//! `howdah plan`.

use super::room::Room;
use super::written::{destination, id, tell, text_of, usage, write};
use super::{pushing, tree, version};
use crate::args::PlanArgs;
use crate::commands::connect::{config, expanded_one};
use crate::ui::{self, Signals};
use howdah::lease::{no_directory, version_of};
use howdah::{Error, ErrorKind, Location, Log, SourceFile};
use howdah_lease::{Plan, Planned};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

pub(in crate::commands) fn run(args: &PlanArgs) -> anyhow::Result<()> {
    check_out(&args.out)?;
    let signals = Signals::install()?;
    planned(args, &signals).map_err(|error| match error.downcast_ref::<Error>() {
        // What was made of it is removed.
        Some(stopped) if stopped.kind() == ErrorKind::Cancelled => {
            let text = "interrupted; nothing is planned, and the same command begins anew";
            Error::new(ErrorKind::Cancelled, text).into()
        }
        _ => error,
    })
}

fn planned(args: &PlanArgs, signals: &Signals) -> anyhow::Result<()> {
    let far = far(&args.destination)?;
    let places = std::iter::once(&args.source).chain(&far);
    let mut config = config(&args.connect, places)?;
    config.warn = Log::new(|line| ui::say_marked("warning:", line));
    config.heard = Log::new(ui::say);
    if let Some(destination) = far {
        return pushing::plan(args, &destination, &config, signals);
    }
    if let Location::File(path) = &args.source {
        // As all hosts see it.
        let source = Location::File(std::path::absolute(path)?);
        let found = version_of(path)?;
        return make(args, &source, &found);
    }
    let source = expanded_one(&args.source, &mut config, signals)?;
    if (args.recursive || args.archive) && tree::plan(args, &source, &config, signals)? {
        return Ok(());
    }
    let found = howdah::file_version(&source, &config, signals.cancel())?;
    make(args, &source, &found)
}

/// Plans a file that comes to this machine.
fn make(args: &PlanArgs, source: &Location, found: &SourceFile) -> anyhow::Result<()> {
    let plan = plan(args, source, found)?;
    let room = Room::create(&plan)?;
    let planned = Planned::File(plan.clone());
    if let Err(error) = write(&planned, &args.out) {
        room.remove();
        return Err(error.into());
    }
    tell(args, &planned, plan.version().size, None)
}

/// What would fail after all the work fails now.
fn check_out(out: &Path) -> Result<(), Error> {
    if out == Path::new("-") {
        let text = "--out writes the plan to a file; name one (standard output gets the numbers of its leases)";
        return Err(Error::new(ErrorKind::Usage, text));
    }
    let above = out.parent().filter(|above| !above.as_os_str().is_empty());
    if let Some(above) = above.filter(|above| !above.is_dir()) {
        return Err(no_directory(above));
    }
    if out.symlink_metadata().is_ok() {
        let text = format!("{} is there already; -o names another file", out.display());
        return Err(Error::new(ErrorKind::Usage, text));
    }
    Ok(())
}

/// Where it goes, if that is on another machine.
fn far(asked: &Path) -> Result<Option<Location>, Error> {
    let parsed = Location::try_from(asked.as_os_str())
        .map_err(|e| Error::new(ErrorKind::Usage, e.to_string()))?;
    match parsed {
        Location::File(_) => Ok(None),
        place if place.is_remote() => Ok(Some(place)),
        other => {
            let text = format!(
                "{other} is no file, and what is moved in parts must become one; a file of that name is written ./{other}"
            );
            Err(Error::new(ErrorKind::Usage, text))
        }
    }
}

fn plan(args: &PlanArgs, source: &Location, found: &SourceFile) -> anyhow::Result<Plan> {
    let asked = &args.destination;
    if asked.as_os_str().as_bytes().ends_with(b"/") && !asked.is_dir() {
        return Err(no_directory(asked).into());
    }
    let text = destination(args, source, true)?;
    let plan = Plan::new(
        id(),
        text_of(source)?,
        text,
        version(&found.identity),
        args.lease,
    );
    Ok(plan.map_err(|e| usage(&e))?.with_mode(found.mode))
}
