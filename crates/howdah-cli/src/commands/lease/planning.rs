//! `howdah plan`.

use super::room::Room;
use super::{failed, numbers, pushing, tree, version};
use crate::args::PlanArgs;
use crate::commands::connect::{config, expanded_one};
use crate::ui::{self, Signals};
use howdah::lease::{no_directory, version_of};
use howdah::{Error, ErrorKind, Location, Log, SourceFile};
use howdah_core::units;
use howdah_lease::{Plan, PlanError, Planned};
use serde_json::json;
use std::fs::OpenOptions;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

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
    config.warn = Log::new(|line| ui::say_marked("warning", line));
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

/// Says what there is to be moved. `files`: how many there are in a tree.
pub(super) fn tell(
    args: &PlanArgs,
    planned: &Planned,
    bytes: u64,
    files: Option<u64>,
) -> anyhow::Result<()> {
    let leases = planned.leases();
    if args.json {
        let mut line = json!({
            "schema": 1,
            "plan": planned.id(),
            "source": ui::printable(planned.source()),
            "destination": ui::printable(planned.destination()),
            "bytes": bytes,
            "lease_bytes": args.lease,
            "leases": leases,
        });
        if let Some(files) = files {
            line["files"] = json!(files);
        }
        ui::print(&line.to_string())?;
        return Ok(());
    }
    let plural = if leases == 1 { "" } else { "s" };
    let at_most = if files.is_some() { "at most " } else { "" };
    ui::say(&format!(
        "{leases} lease{plural} of {at_most}{} of {}; each is moved by 'howdah cp --plan {} --lease ID'",
        units::format_bytes(args.lease),
        ui::printable(planned.source()),
        args.out.display(),
    ));
    ui::print(&numbers(0..leases))?;
    Ok(())
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
        pushing::text_of(source)?,
        text,
        version(&found.identity),
        args.lease,
    );
    Ok(plan.map_err(|e| usage(&e))?.with_mode(found.mode))
}

pub(super) fn usage(error: &PlanError) -> Error {
    Error::new(ErrorKind::Usage, error.to_string())
}

/// The path of what is to come: below a directory that is there it has the source's name, if that is to be `inside`.
pub(super) fn destination(
    args: &PlanArgs,
    source: &Location,
    inside: bool,
) -> anyhow::Result<String> {
    let asked = &args.destination;
    // Without a slash at its end.
    let mut destination: PathBuf = std::path::absolute(asked)?.components().collect();
    if inside && destination.is_dir() {
        let path = super::super::ls::path_of(source);
        let Some(name) = Path::new(&path).file_name() else {
            let there = destination.display();
            let text =
                format!("{source} has no name that it could have in {there}; name what it becomes");
            return Err(Error::new(ErrorKind::Usage, text).into());
        };
        destination.push(name);
    }
    if is_one_name(&args.out, &destination) {
        let out = args.out.display();
        let text =
            format!("--out {out}: that is what the source becomes; name another file for the plan");
        return Err(Error::new(ErrorKind::Usage, text).into());
    }
    let text = destination.into_os_string().into_string();
    Ok(text.map_err(|_| {
        let text = "a plan is text, and the name of the destination is none (UTF-8); name another one that it becomes";
        Error::new(ErrorKind::Usage, text)
    })?)
}

/// Whether both are a name in one directory, whatever leads there.
fn is_one_name(a: &Path, b: &Path) -> bool {
    let whole = |path: &Path| {
        let path: PathBuf = std::path::absolute(path).ok()?.components().collect();
        let above = std::fs::canonicalize(path.parent()?).ok()?;
        Some(above.join(path.file_name()?))
    };
    whole(a).is_some_and(|a| whole(b) == Some(a))
}

/// 64 bits: as good as never twice in one directory.
pub(super) fn id() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

pub(super) fn write(plan: &Planned, path: &Path) -> Result<(), Error> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).open(path);
    let write = |mut file: std::fs::File| -> io::Result<()> {
        let written = file.write_all(plan.encode().as_bytes());
        let written = written.and_then(|()| file.sync_all());
        if written.is_err() {
            // A part of a plan is none, and would be in the way of the next.
            let _ = std::fs::remove_file(path);
        }
        written
    };
    file.and_then(write)
        .map_err(|e| failed("write the plan", path, &e))
}
