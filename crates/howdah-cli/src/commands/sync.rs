//! `howdah sync`.

use super::connect::{config, expanded_one};
use super::course::{Run, arrival, changes, finish, reporter};
use super::select::{check_ranges, check_tree, check_tree_goes_to, tree_options};
use super::{flight, hints, manifest, receipt};
use crate::args::{Command, SyncArgs};
use crate::ui::{Reporter, Signals, Start};
use howdah::{Error, Location, Summary, TreeOptions};

pub(super) fn run(args: &SyncArgs) -> anyhow::Result<()> {
    let reporter = reporter(&args.telling, false, args.tree.dry_run)?;
    let result = sync(args, &reporter).map_err(|error| {
        let locations = [args.source.clone(), args.destination.clone()];
        hints::added(error, &locations)
    });
    finish(&reporter, result)
}

/// What makes no sense, before anything is done.
pub(super) fn check(args: &SyncArgs) -> Result<(), Error> {
    check_line(args)?;
    let source = std::slice::from_ref(&args.source);
    flight::check_place(&args.flight, source, &args.destination)?;
    args.connect.pace.policy()?;
    Ok(())
}

/// What of it makes no sense wherever it runs and whatever the settings are there.
pub(super) fn check_line(args: &SyncArgs) -> Result<(), Error> {
    super::cp::check_roles(&args.source, &args.destination)?;
    let source = std::slice::from_ref(&args.source);
    super::outcome::check(&args.outcome, source, &args.destination, args.delete)?;
    check_tree(&args.tree)?;
    check_tree_goes_to(&args.destination)?;
    check_ranges(&args.select)
}

fn sync(args: &SyncArgs, reporter: &Reporter) -> anyhow::Result<Summary> {
    check(args)?;
    let signals = Signals::install()?;
    let locations = [&args.source, &args.destination];
    let mut config = config(&args.connect, locations.into_iter())?;
    arrival(&mut config, &args.arrival, reporter);
    if args.tree.dry_run {
        config.changes = changes(reporter);
    }
    let options = TreeOptions {
        contents: true,
        recursive: true,
        mirror: true,
        permissions: true,
        delete: args.delete,
        delete_all: args.delete_all,
        max_delete: args.max_delete,
        backup_dir: args.backup_dir.clone(),
        ..tree_options(&args.tree, &args.outcome, &args.select)?
    };
    let named = std::slice::from_ref(&args.source);
    config.manifest = manifest::begin(&args.tree.listing, named, &args.destination, &options)?;
    let source = expanded_one(&args.source, &mut config, &signals)?;
    let source: &[Location] = std::slice::from_ref(&source);
    let (listing, places) = (&args.tree.listing, (source, &args.destination));
    let receipt = receipt::begin(
        listing,
        &args.connect,
        places,
        &options,
        &mut config,
        &signals,
    )?;
    let dry_run = args.tree.dry_run;
    flight::begin(
        &args.flight,
        source,
        &args.destination,
        dry_run,
        &mut config,
    );
    let mut start = Start::new("sync", [&args.source], &args.destination);
    start.set_pace(config.policy, args.connect.pace.limit.as_ref());
    let run = Run {
        config: &config,
        signals: &signals,
        reporter,
        pace: &args.connect.pace,
        pace_of: |cli| match &cli.command {
            Command::Sync(args) => Some(args.connect.pace.clone()),
            _ => None,
        },
        trace: args.trace.as_deref(),
    };
    let done = run.copy(&start, |show| {
        let (to, cancel) = (&args.destination, signals.cancel());
        let done = howdah::copy_tree(source, to, &options, &config, cancel, show);
        match &receipt {
            Some(maker) => receipt::end(maker, &config, done, reporter, cancel),
            None => manifest::end(&config, done, reporter, cancel),
        }
    });
    flight::end(&args.flight, &config, done, reporter)
}
