//! A plan whose file goes to another machine: what is done there is asked for.

use super::pushing_tree::Pusher;
use super::written::{known_again, text_of, with_path};
use super::{ended, moved, pushing_tree, version, written};
use crate::args::{CpArgs, FinishArgs, PlanArgs};
use crate::commands::connect::config;
use crate::commands::course::{Run, arrival};
use crate::commands::flight;
use crate::ui::{self, Reporter, Signals, Start};
use howdah::lease::{FarPlan, interrupted, push_range, version_of};
use howdah::{CopyConfig, Error, ErrorKind, Location, Log, PathBytes, Summary};
use howdah_lease::{Plan, Planned};
use std::path::PathBuf;

/// A source that every host of a plan sees.
fn local(source: &Location) -> Result<PathBuf, Error> {
    match source {
        Location::File(path) => Ok(path.clone()),
        other => {
            let text = if other.is_remote() {
                format!(
                    "{other} is on another machine, and so is where it goes: run 'howdah plan' where one of both is a path that all hosts see"
                )
            } else {
                format!("{other} is no file: nobody could tell whether it changes")
            };
            Err(Error::new(ErrorKind::Usage, text))
        }
    }
}

pub(super) fn plan(
    args: &PlanArgs,
    destination: &Location,
    config: &CopyConfig,
    signals: &Signals,
) -> anyhow::Result<()> {
    let path = local(&args.source)?;
    if (args.recursive || args.archive) && path.is_dir() {
        return pushing_tree::plan(args, &path, destination, (config, signals));
    }
    let path = std::path::absolute(path)?;
    let found = version_of(&path)?;
    let Some(name) = path.file_name() else {
        let text = format!("{} has no name", path.display());
        return Err(Error::new(ErrorKind::Usage, text).into());
    };
    let mut far = FarPlan::open(destination, config, signals.cancel())?;
    let place = far.place(PathBytes::from(name))?;
    let becomes = with_path(destination, place);
    let plan = Plan::new(
        written::id(),
        text_of(&Location::File(path.clone()))?,
        text_of(&becomes)?,
        version(&found.identity),
        args.lease,
    );
    let plan = plan.map_err(|e| written::usage(&e))?.with_mode(found.mode);
    let planned = Planned::File(plan.clone());
    let text = planned.encode();
    far.make(&text)?;
    if let Err(error) = written::write(&planned, &args.out) {
        // What stays is removed there when nobody has gone on with it for long.
        let _ = far.forget(&text);
        return Err(error.into());
    }
    far.close();
    written::tell(args, &planned, plan.version().size, None)
}

/// One run of a lease.
pub(super) fn lease(
    args: &CpArgs,
    planned: &Planned,
    (source, destination): (&Location, &Location),
    reporter: &Reporter,
) -> anyhow::Result<Summary> {
    let path = local(source)?;
    let id = args.lease.lease.unwrap_or_default();
    let text = planned.encode();
    let signals = Signals::install()?;
    let mut config = config(&args.connect, std::iter::once(destination))?;
    arrival(&mut config, &args.arrival, reporter);
    let from = std::slice::from_ref(source);
    flight::check_place(&args.flight, from, destination)?;
    let far = FarPlan::open(destination, &config, signals.cancel());
    let far = far.map_err(in_words)?;
    let looked = far.look(&text, Some(id)).map_err(in_words)?;
    let sheet = match planned {
        Planned::Tree(plan) if looked.records.is_empty() => {
            Some((plan, far.sheet((plan, &text), id).map_err(in_words)?))
        }
        _ => None,
    };
    far.close();
    if let Some(record) = looked.records.last() {
        return Ok(moved::was_moved(id, (record.epoch, record.bytes), reporter));
    }
    let epoch = match args.lease.epoch {
        Some(epoch) => epoch,
        None => moved::next_epoch(id, looked.highest)?,
    };
    // Who was asked about a key is not asked again.
    known_again(&mut config)?;
    flight::begin(&args.flight, from, destination, false, &mut config);
    let mut start = Start::new("cp", [source], destination);
    start.set_pace(config.policy, args.connect.pace.limit.as_ref());
    let run = Run {
        config: &config,
        signals: &signals,
        reporter,
        pace: &args.connect.pace,
        pace_of: moved::pace_of,
        trace: args.trace.as_deref(),
    };
    let (places, settings, cancel) = ((&*path, destination), &config, signals.cancel());
    let done = run.copy(&start, |show| {
        if let Some((plan, sheet)) = &sheet {
            let pusher = Pusher {
                plan,
                text: &text,
                top: &path,
                destination,
                config: settings,
                cancel,
            };
            return pusher.run(sheet, epoch, show);
        }
        let Planned::File(plan) = planned else {
            return Err(no_lease());
        };
        let lease = plan.lease(id).ok_or_else(no_lease)?;
        push_range(places, (plan, text), (lease, epoch), settings, cancel, show)
    });
    let done = done.map_err(|error| match error.downcast_ref::<Error>() {
        Some(stopped) if stopped.kind() == ErrorKind::Cancelled => interrupted().into(),
        _ => error,
    });
    flight::end(&args.flight, &config, done, reporter)
}

fn no_lease() -> Error {
    Error::new(ErrorKind::Usage, "there is no such lease")
}

fn in_words(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Cancelled => interrupted(),
        _ => error,
    }
}

pub(super) fn finish(
    args: &FinishArgs,
    planned: &Planned,
    destination: &Location,
    signals: &Signals,
) -> anyhow::Result<()> {
    let mut config = config(&args.connect, std::iter::once(destination))?;
    config.warn = Log::new(|line| ui::say_marked("warning:", line));
    config.heard = Log::new(ui::say);
    let text = planned.encode();
    let far = FarPlan::open(destination, &config, signals.cancel())?;
    let plan = match planned {
        Planned::File(plan) => plan,
        Planned::Tree(plan) => return pushing_tree::finish(args, plan, far),
    };
    if args.check {
        let looked = far.look(&text, None)?;
        far.close();
        return ended::check(args, plan, &looked.records, looked.has_plan);
    }
    let blake3 = far.finish(&text)?;
    // Who does not get to know it can ask again.
    ended::tell(args, plan, &blake3)?;
    if !args.keep {
        // It has its name: what stays beside it goes some day.
        let _ = far.forget(&text);
    }
    far.close();
    Ok(())
}
