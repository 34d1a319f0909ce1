//! `howdah verify`.

use super::connect::{config, expanded_one};
use super::course::{Run, finish_verification, reporter};
use super::hints;
use super::select::{check_ranges, select_options};
use crate::args::{Command, VerifyArgs};
use crate::exit;
use crate::ui::{Reporter, Signals, Start};
use howdah::{Error, ErrorKind, Location, PathList, TreeOptions, Verification};

pub(super) fn run(args: &VerifyArgs) -> anyhow::Result<()> {
    let reporter = reporter(&args.telling, false, false)?;
    let result = verify(args, &reporter).map_err(|error| {
        let places: Vec<_> = [&args.a, &args.b].into_iter().flatten().cloned().collect();
        hints::added(error, &places)
    });
    finish_verification(&reporter, result, exit::DIFFERENT)
}

/// What makes no sense, before anything is done.
pub(super) fn check(args: &VerifyArgs) -> Result<(), Error> {
    check_line(args)?;
    if args.manifest.is_none() {
        args.connect.pace.policy()?;
    }
    Ok(())
}

/// What of it makes no sense wherever it runs and whatever the settings are there.
pub(super) fn check_line(args: &VerifyArgs) -> Result<(), Error> {
    let usage = |text: String| Err(Error::new(ErrorKind::Usage, text));
    if args.manifest.is_some() {
        if !args.select.is_empty() {
            return usage(
                "--manifest lists the files itself: no --exclude, --include, --files-from and the like".to_owned(),
            );
        }
        return Ok(());
    }
    if args.manifest_hash.is_some() {
        return usage(
            "--manifest-hash says what the list of --manifest has, and there is none".to_owned(),
        );
    }
    let mut places = [&args.a, &args.b].into_iter().flatten();
    let no_files = |place: &&Location| !place.is_remote() && !matches!(place, Location::File(_));
    if let Some(place) = places.find(no_files) {
        return usage(format!(
            "{place} cannot be compared; name files or directories"
        ));
    }
    check_ranges(&args.select)
}

fn verify(args: &VerifyArgs, reporter: &Reporter) -> anyhow::Result<Verification> {
    check(args)?;
    if let Some(manifest) = &args.manifest {
        return super::manifest::verify(manifest, args, reporter);
    }
    let (Some(a), Some(b)) = (&args.a, &args.b) else {
        let text = "two places are compared; name both";
        return Err(Error::new(ErrorKind::Usage, text).into());
    };
    let signals = Signals::install()?;
    let mut config = config(&args.connect, [a, b].into_iter())?;
    config.warn = reporter.as_log();
    config.heard = reporter.as_ear();
    let mut start = Start::new("verify", [a], b);
    let a = expanded_one(a, &mut config, &signals)?;
    let b = expanded_one(b, &mut config, &signals)?;
    let options = TreeOptions {
        archive: args.archive,
        checksum: !args.quick,
        reread: args.reread,
        ..select_options(&args.select)?
    };
    if options.files.as_ref().is_some_and(PathList::is_empty) {
        reporter.warn("the list of files is empty, so nothing is compared");
    }
    start.set_pace(config.policy, args.connect.pace.limit.as_ref());
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
    let cancel = signals.cancel();
    let mut tell = |difference: &howdah::Difference| reporter.difference(difference);
    run.copy(&start, |show| {
        howdah::verify(&a, &b, &options, &config, cancel, &mut tell, show)
    })
}
