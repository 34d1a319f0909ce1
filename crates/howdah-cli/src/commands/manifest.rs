//! Lists of files and hashes: of a copy, and to check files against.

use super::connect::config;
use super::course::Run;
use crate::args::{Command, ManifestArgs, VerifyArgs};
use crate::own_file;
use crate::ui::{self, Reporter, Signals, Start};
use howdah::{
    Cancel, CopyConfig, Error, ErrorKind, Location, Manifest, ManifestHash, Summary, Sums,
    TreeOptions, Verification,
};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// The list of a copy that is about to begin, if one is wanted.
pub(super) fn begin(
    args: &ManifestArgs,
    sources: &[Location],
    destination: &Location,
    options: &TreeOptions,
) -> Result<Option<Manifest>, Error> {
    let Some(path) = &args.manifest else {
        return Ok(None);
    };
    let hash = args.manifest_hash.map(ManifestHash::from);
    let manifest = Manifest::new(path, hash, sources, destination, options)?;
    own_file::check_there("--manifest", path, own_file::is_list)?;
    Ok(Some(manifest))
}

/// Writes it when the copy has come to its end, and says so if there is none.
pub(super) fn end(
    config: &CopyConfig,
    done: Result<Summary, Error>,
    reporter: &Reporter,
    cancel: &Cancel,
) -> Result<Summary, Error> {
    let Some(manifest) = &config.manifest else {
        return done;
    };
    let shown = manifest.path().display();
    let complete = done.as_ref().is_ok_and(|done| done.shortfall().is_none());
    if !complete {
        reporter.warn(&format!(
            "the copy is not complete, so no manifest was written: {shown} is as it was"
        ));
        return done;
    }
    let summary = done?;
    match manifest.write(&summary, cancel) {
        Ok(files) => reporter.manifest(manifest, files),
        Err(error) => {
            let text = format!("the copy is complete, and {shown} was not written: {error}");
            return Err(Error::new(error.kind(), text));
        }
    }
    Ok(summary)
}

/// `howdah verify --manifest FILE [DIR]`.
pub(super) fn verify(
    path: &Path,
    args: &VerifyArgs,
    reporter: &Reporter,
) -> anyhow::Result<Verification> {
    let usage = |text: String| Err(Error::new(ErrorKind::Usage, text).into());
    let dir = match &args.a {
        None => None,
        Some(Location::File(dir)) => Some(&**dir),
        Some(place) if place.is_remote() => {
            return usage(format!(
                "files of {place} are checked there: copy the list to it and run 'ssh HOST howdah verify --manifest FILE DIR'"
            ));
        }
        Some(place) => return usage(format!("{place} is no directory")),
    };
    let signals = Signals::install()?;
    let config = config(&args.connect, args.a.iter())?;
    let hash = args.manifest_hash.map(ManifestHash::from);
    let hash = hash.unwrap_or_else(|| ManifestHash::of_name(path));
    let (list, name): (Box<dyn BufRead>, String) = if path == Path::new("-") {
        ui::check_input()?;
        (
            Box::new(io::stdin().lock()),
            "the list on standard input".to_owned(),
        )
    } else {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|e| {
            let kind = match e.kind() {
                io::ErrorKind::NotFound => ErrorKind::NotFound,
                io::ErrorKind::PermissionDenied => ErrorKind::Refused,
                _ => ErrorKind::Io,
            };
            Error::new(kind, format!("cannot open the list {name}: {e}"))
        })?;
        (Box::new(BufReader::new(file)), name)
    };
    let sums = Sums::read(list, &name, hash, dir.is_some())?;
    let here = Location::File(dir.unwrap_or_else(|| Path::new(".")).to_path_buf());
    let start = Start::new("verify", [&Location::File(path.to_path_buf())], &here);
    let run = Run {
        config: &config,
        signals: &signals,
        reporter,
        pace: &args.connect.pace,
        pace_of: |cli| match &cli.command {
            Command::Verify(args) => Some(args.connect.pace.clone()),
            _ => None,
        },
        trace: None,
    };
    let mut tell = |difference: &howdah::Difference| reporter.difference(difference);
    run.copy(&start, |show| {
        howdah::check_manifest(&sums, dir, signals.cancel(), &mut tell, show)
    })
}
