//! `howdah cp`.

use super::connect::{config, expanded};
use super::course::{Run, arrival, changes, finish, reporter};
use super::select::{check_ranges, check_tree, check_tree_goes_to, tree_options};
use super::{flight, hints, manifest, receipt};
use crate::args::{Cli, Command, CpArgs, PaceArgs};
use crate::clashes::is_stream;
use crate::ui::{self, Reporter, Signals, Start};
use howdah::{Error, ErrorKind, Location, RatePolicy, Summary, TreeOptions};

pub(super) fn run(args: &CpArgs) -> anyhow::Result<()> {
    let data_on_stdout = *args.destination() == Location::Stdio;
    let reporter = reporter(&args.telling, data_on_stdout, args.tree.dry_run)?;
    let result = copy(args, &reporter).map_err(|error| hints::added(error, &args.paths));
    if let (Ok(summary), Location::File(path)) = (&result, args.destination())
        && summary.tree.is_none()
    {
        reporter.file(path, summary.bytes, &summary.verified);
    }
    finish(&reporter, result)
}

/// Moves the bytes; what came of it is for the caller to tell.
pub(super) fn copy(args: &CpArgs, reporter: &Reporter) -> anyhow::Result<Summary> {
    check(args)?;
    if args.sources().contains(&Location::Stdio) {
        ui::check_input()?;
    }
    if *args.destination() == Location::Stdio {
        ui::check_output()?;
    }
    let signals = Signals::install()?;
    let mut config = config(&args.connect, args.paths.iter())?;
    config.duration_limit = args.time;
    config.loops = args.loops;
    config.growing = args.outcome.growing;
    arrival(&mut config, &args.arrival, reporter);
    let options = TreeOptions {
        recursive: args.recursive || args.tree.archive,
        permissions: args.preserve,
        ..tree_options(&args.tree, &args.outcome, &args.select)?
    };
    config.manifest = manifest::begin(
        &args.tree.listing,
        args.sources(),
        args.destination(),
        &options,
    )?;
    let sources = expanded(args.sources(), &mut config, &signals)?;
    if args.tree.dry_run {
        config.changes = changes(reporter);
    }
    let places = (&sources[..], args.destination());
    let listing = &args.tree.listing;
    let receipt = receipt::begin(
        listing,
        &args.connect,
        places,
        &options,
        &mut config,
        &signals,
    )?;
    let (destination, cancel) = (args.destination(), signals.cancel());
    let dry_run = args.tree.dry_run;
    flight::begin(
        &args.flight,
        args.sources(),
        args.destination(),
        dry_run,
        &mut config,
    );
    let run = Run {
        config: &config,
        signals: &signals,
        reporter,
        pace: &args.connect.pace,
        pace_of,
        trace: args.trace.as_deref(),
    };
    let start = start(args, config.policy);
    let done = match &sources[..] {
        [source] if !args.is_tree() => run.copy(&start, |show| {
            howdah::copy(source, destination, &config, cancel, show)
        }),
        sources => run.copy(&start, |show| {
            let done = howdah::copy_tree(sources, destination, &options, &config, cancel, show);
            match &receipt {
                Some(maker) => receipt::end(maker, &config, done, reporter, cancel),
                None => manifest::end(&config, done, reporter, cancel),
            }
        }),
    };
    flight::end(&args.flight, &config, done, reporter)
}

/// What makes no sense, before anything is done.
pub(super) fn check(args: &CpArgs) -> Result<(), Error> {
    check_line(args)?;
    flight::check_place(&args.flight, args.sources(), args.destination())?;
    args.connect.pace.policy()?;
    Ok(())
}

/// What of it makes no sense wherever it runs and whatever the settings are there.
pub(super) fn check_line(args: &CpArgs) -> Result<(), Error> {
    if args.sources().is_empty() {
        let text = format!(
            "{} is the only place that is named; write what to copy, and behind it where to, as in \
             'howdah cp big.tar anna@site:incoming/'",
            args.destination()
        );
        return Err(Error::new(ErrorKind::Usage, text));
    }
    check_lease(args)?;
    howdah::check_sources(args.sources())
        .map_err(|error| hints::of_places(error, args.sources()))?;
    for source in args.sources() {
        check_roles(source, args.destination())?;
    }
    check_names(args)?;
    super::outcome::check(&args.outcome, args.sources(), args.destination(), false)?;
    check_ranges(&args.select)?;
    check_time(args)
}

fn start(args: &CpArgs, policy: RatePolicy) -> Start {
    let mut start = Start::new("cp", args.sources(), args.destination());
    start.set_pace(policy, args.connect.pace.limit.as_ref());
    start
}

/// What the same command line asks for now.
fn pace_of(cli: &Cli) -> Option<PaceArgs> {
    match &cli.command {
        Command::Cp(args) => Some(args.connect.pace.clone()),
        _ => None,
    }
}

/// What the library would refuse as well, said in the words of the command line.
pub(super) fn check_roles(source: &Location, destination: &Location) -> Result<(), Error> {
    let usage = |text: String| Err(Error::new(ErrorKind::Usage, text));
    match (source, destination) {
        (Location::Null, _) => usage("null: can only be the destination".to_owned()),
        (_, Location::Zero(_)) => usage("zero: can only be the source".to_owned()),
        (Location::Ssh(_), Location::Ssh(_)) => Ok(()),
        (a, b) if a.is_remote() && b.is_remote() => {
            let text = format!(
                "{a} and {b} are both remote, which works only if ssh reaches both (HOST:path); run \
                 'howdah cp' on one of the two machines"
            );
            let error = Error::new(ErrorKind::Usage, text);
            Err(hints::of_places(error, [a, b]))
        }
        (a, b) if !a.is_remote() && !b.is_remote() => usage(format!(
            "{a} and {b} are both local; write the remote one as HOST:path or \
             howdah://HOST:PORT/path, or use cp"
        )),
        _ => Ok(()),
    }
}

/// What is cut off is not taken for the whole.
fn check_time(args: &CpArgs) -> Result<(), Error> {
    let usage = |text: String| Err(Error::new(ErrorKind::Usage, text));
    if args.time.is_none() {
        return Ok(());
    }
    if args.outcome.remove_source_files {
        return usage(
            "--remove-source-files and --time clash: what is cut off is not moved".to_owned(),
        );
    }
    if let Some(there) = args.sources().iter().find(|source| source.is_remote()) {
        return usage(format!(
            "--time cuts off what this side sends, and {there} is elsewhere; as far as it can be measured, zero:SIZE bounds it"
        ));
    }
    let file = args.sources().iter().find(|source| !is_stream(source));
    match file {
        Some(file) if args.is_tree() || !is_stream(args.destination()) => usage(format!(
            "--time is for measuring, and would leave a part of {file} under its whole name; copy it without, or to null:"
        )),
        _ => Ok(()),
    }
}

/// What is about files with names is not for streams.
fn check_names(args: &CpArgs) -> Result<(), Error> {
    if args.preserve && args.tree.no_perms {
        let text = "-p and --no-perms clash: one makes permissions equal, the other does not";
        return Err(Error::new(ErrorKind::Usage, text));
    }
    check_tree(&args.tree)?;
    let stream = args.paths.iter().find(|place| is_stream(place));
    let flag = args.tree.about_names();
    let flag = flag.or_else(|| args.tree.about_directories());
    if let (Some(flag), Some(stream)) = (flag, stream) {
        let text = format!("{flag} is about files and directories, and {stream} is none");
        return Err(Error::new(ErrorKind::Usage, text));
    }
    // What is moved is one for that alone, and is told so below.
    if args.is_tree() && !args.outcome.remove_source_files {
        check_tree_goes_to(args.destination())?;
    }
    Ok(())
}

/// The command line's own parser takes one without the other where places are named.
fn check_lease(args: &CpArgs) -> Result<(), Error> {
    match (args.lease.lease, &args.lease.plan) {
        (Some(_), None) => {
            let text = "--lease is one of a plan: name it with --plan, and no SRC and DST";
            Err(Error::new(ErrorKind::Usage, text))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_side_is_remote_and_each_can_play_its_role() {
        let check = |source: &str, destination: &str| {
            check_roles(&source.parse().unwrap(), &destination.parse().unwrap())
                .map_err(|error| error.to_string())
        };
        assert_eq!(check("a", "howdah://h/b"), Ok(()));
        assert_eq!(check("howdah://h/b", "-"), Ok(()));
        assert_eq!(check("zero:1GiB", "howdah://h/null:"), Ok(()));
        assert_eq!(check("h:a", "g:b"), Ok(()));
        for (source, destination, part) in [
            ("a", "b", "both local"),
            ("howdah://h/a", "howdah://g/b", "both remote"),
            ("h:a", "howdah://g/b", "both remote"),
            ("null:", "howdah://h/b", "null: can only be the destination"),
            ("howdah://h/b", "zero:1", "zero: can only be the source"),
        ] {
            let error = check(source, destination).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
