//! A plan as it is named, written and told.

use super::{failed, numbers};
use crate::args::PlanArgs;
use crate::ui;
use howdah::{CopyConfig, Error, ErrorKind, Location, PathBytes};
use howdah_core::units;
use howdah_lease::{PlanError, Planned};
use serde_json::json;
use std::fs::OpenOptions;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

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
        let path = crate::commands::ls::path_of(source);
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

/// That place with another path.
pub(super) fn with_path(place: &Location, path: PathBytes) -> Location {
    let mut place = place.clone();
    match &mut place {
        Location::Remote { path: old, .. } => *old = path,
        Location::Ssh(there) => there.path = path,
        _ => {}
    }
    place
}

/// A place that means the same when it is read again.
pub(super) fn text_of(place: &Location) -> Result<String, Error> {
    let text = place.to_string();
    let again = Location::try_from(std::ffi::OsStr::new(&text));
    if again.is_ok_and(|again| again == *place) {
        return Ok(text);
    }
    let text = format!(
        "a plan is text, and a name in {} is none (UTF-8); give it another name, or move it by 'howdah cp'",
        ui::printable(&text)
    );
    Err(Error::new(ErrorKind::Usage, text))
}

pub(super) fn known_again(config: &mut CopyConfig) -> Result<(), Error> {
    let path: &Path = config.known_hosts.path();
    if !path.as_os_str().is_empty() {
        config.known_hosts = howdah::KnownHosts::load(path)?;
    }
    Ok(())
}
