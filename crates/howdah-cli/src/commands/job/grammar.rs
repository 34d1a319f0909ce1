//! What a job may say: what a command line may, but for options that name a program to run.
//!
//! Each option that a job may have stands in a list here. A new one is refused until somebody has put it into one of the two.

use crate::args::{CpArgs, SyncArgs, VerifyArgs};
use crate::clashes::Line;
use crate::commands::lab::USUAL_OUT;
use crate::commands::{cp, sync, verify};
use crate::settings;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, FromArgMatches as _};
use howdah::Location;
use howdah_daemon::job::{Grammar, Kind, Meaning, Spec};
use std::ffi::OsString;
use std::path::PathBuf;

const MAY: [&str; 78] = [
    "accept-new",
    "again",
    "archive",
    "backup-dir",
    "checksum",
    "chmod",
    "chown",
    "color",
    "copy-links",
    "delete",
    "delete-all",
    "dry-run",
    "each-file",
    "exclude",
    "exclude-from",
    "files-from",
    "from0",
    "gitignore",
    "growing",
    "identity",
    "idle-timeout",
    "ignore-existing",
    "include",
    "include-from",
    "jobs",
    "json",
    "keep-dirlinks",
    "known-hosts",
    "limit",
    "link-dest",
    "log-file",
    "loops",
    "manifest",
    "manifest-hash",
    "max-age",
    "max-delete",
    "max-size",
    "memory",
    "min-age",
    "min-size",
    "mkpath",
    "no-memory",
    "no-perms",
    "no-record",
    "no-resume",
    "numeric-ids",
    "one-file-system",
    "only",
    "out",
    "pcap",
    "policy",
    "port",
    "preserve",
    "progress",
    "quick",
    "quiet",
    "rate",
    "receipt",
    "reconnect",
    "record",
    "recursive",
    "remove-source-files",
    "reread",
    "seeds",
    "shard",
    "share",
    "size-only",
    "ssh-keep",
    "sweep",
    "time",
    "trace",
    "transport",
    "update",
    "verify",
    "wait-for-space",
    "runs",
    "agree",
    "patience",
];

/// They name programs: of this machine, of the other one, or a directory of them. With --on netns the laboratory runs others'.
#[cfg(test)]
const MAY_NOT: [&str; 7] = [
    "epoch",
    "lease",
    "on",
    "peers",
    "plan",
    "remote-howdah",
    "ssh",
];
/// Of them, those of a plan, whose hosts and files a job would not name.
const OF_PLANS: [&str; 3] = ["epoch", "lease", "plan"];

/// The command line's own parser, of each kind of job for itself: whoever parses copies all that is in it.
pub(crate) struct CommandLine(Vec<(Kind, Command)>);

impl CommandLine {
    pub(crate) fn new() -> Self {
        let whole = settings::commands();
        let of = |kind: Kind| Some((kind, only("howdah", &whole, kind.words())?));
        Self(Kind::ALL.into_iter().filter_map(of).collect())
    }
}

/// A command with none of those below it but that one.
fn only(name: &'static str, command: &Command, words: &[&'static str]) -> Option<Command> {
    let [word, words @ ..] = words else {
        return Some(command.clone());
    };
    // It makes its own help.
    let args = command.get_arguments();
    let args = args.filter(|arg| !["help", "version"].contains(&arg.get_id().as_str()));
    let below = only(word, command.find_subcommand(word)?, words)?;
    Some(Command::new(name).args(args.cloned()).subcommand(below))
}

impl Grammar for CommandLine {
    fn check(&self, spec: &Spec) -> Result<Meaning, String> {
        let line = std::iter::once("howdah".to_owned()).chain(spec.command_line());
        let line = line.map(OsString::from).collect();
        let whole = self.0.iter().find(|(kind, _)| *kind == spec.kind);
        let (_, whole) = whole.ok_or("there is no such command")?;
        let matches = settings::own_matches(whole, line).map_err(|error| {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            if error.use_stderr() {
                first.trim_start_matches("error: ").to_owned()
            } else {
                "a job cannot ask for help".to_owned()
            }
        })?;
        let (mut command, mut matches) = (whole, &matches);
        while let Some((name, inner)) = matches.subcommand() {
            command = command
                .find_subcommand(name)
                .ok_or("there is no such command")?;
            matches = inner;
        }
        check_options(command, matches)?;
        if let Some(text) = Line::new(command, matches, matches).clash() {
            return Err(text);
        }
        check_line(spec.kind, matches)?;
        Ok(Meaning {
            hosts: hosts(command, matches),
            places: places(command, matches),
            paths: paths(command, matches),
            sources: sources(command, matches),
        })
    }
}

/// What the command itself would refuse before it did anything.
fn check_line(kind: Kind, matches: &ArgMatches) -> Result<(), String> {
    let bad = |error: clap::Error| error.to_string();
    let checked = match kind {
        Kind::Cp => cp::check_line(&CpArgs::from_arg_matches(matches).map_err(bad)?),
        Kind::Sync => sync::check_line(&SyncArgs::from_arg_matches(matches).map_err(bad)?),
        Kind::Verify => verify::check_line(&VerifyArgs::from_arg_matches(matches).map_err(bad)?),
        Kind::LabRun => return Ok(()),
    };
    checked.map_err(|error| error.to_string())
}

fn check_options(command: &Command, matches: &ArgMatches) -> Result<(), String> {
    for arg in command.get_arguments() {
        let id = arg.get_id().as_str();
        let given = matches!(matches.try_contains_id(id), Ok(true))
            && matches.value_source(id) == Some(ValueSource::CommandLine);
        if !given {
            continue;
        }
        if let Some(long) = arg.get_long().filter(|long| !MAY.contains(long)) {
            if OF_PLANS.contains(&long) {
                return Err(format!(
                    "--{long} is of a plan, which names hosts and files that a job has to name itself; run it without the daemon"
                ));
            }
            return Err(format!(
                "--{long} names a program to run, which a job cannot; the daemon's user can set it (docs/cli.md)"
            ));
        }
        let mut values = matches.get_raw(id).into_iter().flatten();
        if values.any(|value| value == "-") {
            return Err(
                "a job has no standard input or output of its own: name a file instead of '-'"
                    .to_owned(),
            );
        }
    }
    Ok(())
}

/// Its places, as they were written.
fn places(command: &Command, matches: &ArgMatches) -> Vec<String> {
    let words = command
        .get_positionals()
        .filter_map(|arg| matches.try_get_raw(arg.get_id().as_str()).ok().flatten());
    words
        .flatten()
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// Options whose values are paths below the destination, or from the root of the machine where that is.
const BELOW: [&str; 2] = ["backup_dir", "link_dest"];

/// Files and directories of this machine that it names, in places and in options.
fn paths(command: &Command, matches: &ArgMatches) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let places = command
        .get_positionals()
        .filter_map(|arg| matches.try_get_many::<Location>(arg.get_id().as_str()).ok());
    let destination = match places.flatten().flatten().last() {
        Some(Location::File(path)) => Some(path.clone()),
        _ => None,
    };
    for arg in command.get_arguments() {
        let id = arg.get_id().as_str();
        if matches.value_source(id) != Some(ValueSource::CommandLine) {
            if id == "out" {
                found.push(USUAL_OUT.into());
            }
            continue;
        }
        if let (Some(destination), true) = (&destination, BELOW.contains(&id)) {
            let words = matches.get_raw(id).into_iter().flatten();
            found.extend(words.map(|word| destination.join(word)));
            continue;
        }
        if let Ok(Some(paths)) = matches.try_get_many::<PathBuf>(id) {
            found.extend(paths.cloned());
        }
        if let Ok(Some(places)) = matches.try_get_many::<Location>(id) {
            found.extend(places.filter_map(|place| match place {
                Location::File(path) => Some(path.clone()),
                _ => None,
            }));
        }
    }
    found
}

/// What it copies, if all of that is of this machine and no list says which part of it.
fn sources(command: &Command, matches: &ArgMatches) -> Vec<PathBuf> {
    let is_listed = matches!(matches.try_contains_id("files_from"), Ok(true));
    let places = command
        .get_positionals()
        .filter_map(|arg| matches.try_get_many::<Location>(arg.get_id().as_str()).ok());
    let places: Vec<_> = places.flatten().flatten().collect();
    let Some((_, sources)) = places.split_last().filter(|_| !is_listed) else {
        return Vec::new();
    };
    let here = |place: &&Location| match place {
        Location::File(path) => Some(path.clone()),
        _ => None,
    };
    let all: Option<Vec<_>> = sources.iter().map(here).collect();
    all.unwrap_or_default()
}

/// The machines among its places, each once.
fn hosts(command: &Command, matches: &ArgMatches) -> Vec<String> {
    let mut found = Vec::new();
    for arg in command.get_positionals() {
        let places = matches.try_get_many::<Location>(arg.get_id().as_str());
        for place in places.ok().flatten().into_iter().flatten() {
            let host = match place {
                Location::Remote { host, .. } => host.as_str(),
                Location::Ssh(location) => location.target.host(),
                _ => continue,
            };
            let host = host.to_ascii_lowercase();
            if !found.contains(&host) {
                found.push(host);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> Result<Vec<String>, String> {
        meaning(line).map(|meaning| meaning.hosts)
    }

    fn meaning(line: &str) -> Result<Meaning, String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let (kind, arguments) = Kind::of_words(&words).unwrap();
        CommandLine::new().check(&Spec::new(kind, arguments.to_vec(), "/"))
    }

    #[test]
    fn every_option_is_looked_at() {
        let cli = settings::commands();
        let lab = cli.find_subcommand("lab").unwrap();
        let commands = ["cp", "sync", "verify"].map(|name| cli.find_subcommand(name).unwrap());
        let mut known = Vec::new();
        for command in commands.into_iter().chain(lab.find_subcommand("run")) {
            for long in command.get_arguments().filter_map(clap::Arg::get_long) {
                let lists = [MAY.contains(&long), MAY_NOT.contains(&long)];
                let named = lists.iter().filter(|is| **is).count();
                assert!(
                    named == 1 || long == "help",
                    "{} --{long}: may a job have it?",
                    command.get_name()
                );
                known.push(long);
            }
        }
        for long in MAY.iter().chain(&MAY_NOT) {
            assert!(known.contains(long), "there is no --{long}");
        }
    }

    #[test]
    fn no_option_names_a_program() {
        for line in [
            "cp --ssh sh a h:b",
            "cp -S sh a h:b",
            "cp -e sh a h:b",
            "cp -rSsh a h:b",
            "cp --ssh=sh a h:b",
            "sync --remote-howdah x a h:b",
            "verify a h:b --ssh x",
            "lab run --peers /tmp scenarios",
            "lab run --on netns scenarios",
        ] {
            let why = check(line).unwrap_err();
            assert!(why.contains("program to run"), "{line}: {why}");
        }
        for line in [
            "cp --help",
            "cp a h:b --job-record=/tmp",
            "verify - h:b",
            "cp --files-from - -r a h:b",
            "cp --frobnicate a h:b",
        ] {
            assert!(check(line).is_err(), "{line}");
        }
    }

    #[test]
    fn what_the_command_would_refuse_is_no_job() {
        for (line, part) in [
            ("cp a", "only place that is named"),
            ("cp a b", "both local"),
            ("sync a b", "both local"),
            ("cp null: h:b", "null:"),
            ("cp zero:1GiB null:", "both local"),
            ("cp h:a howdah://g:1/b", "both remote"),
            ("cp a h:b c:d", "on another machine"),
            ("cp -r a h:null:", "h:null: is none"),
            ("sync a h:null:", "a tree cannot go to"),
            ("sync --min-size 5 --max-size 3 a h:b", "--min-size"),
            ("verify --min-age 5d --max-age 3d a h:b", "--min-age"),
            ("verify zero:1GiB h:b", "cannot be compared"),
            ("cp --remove-source-files zero:1GiB h:b", "zero:"),
        ] {
            let why = check(line).unwrap_err();
            assert!(why.contains(part), "{line}: {why}");
        }
        // The rate may stand in the settings of who runs it.
        for line in ["cp --policy fixed a h:b", "verify a b", "cp -p a b h:c"] {
            check(line).unwrap();
        }
    }

    /// What neither is a path of this machine nor leads to one.
    const NO_PATHS: [&str; 33] = [
        "agree",
        "chmod",
        "chown",
        "color",
        "exclude",
        "idle-timeout",
        "include",
        "jobs",
        "limit",
        "loops",
        "manifest-hash",
        "max-age",
        "max-delete",
        "max-size",
        "memory",
        "min-age",
        "min-size",
        "only",
        "patience",
        "policy",
        "port",
        "preserve",
        "rate",
        "reconnect",
        "runs",
        "seeds",
        "shard",
        "share",
        "ssh-keep",
        "time",
        "transport",
        "verify",
        "wait-for-space",
    ];

    #[test]
    fn paths_of_this_machine_are_known_in_every_option() {
        let cli = settings::commands();
        let lab = cli.find_subcommand("lab").unwrap();
        let commands = ["cp", "sync", "verify"].map(|name| cli.find_subcommand(name).unwrap());
        let path = clap::builder::ValueParser::path_buf().type_id();
        let mut unknown = Vec::new();
        for command in commands.into_iter().chain(lab.find_subcommand("run")) {
            for arg in command.get_arguments() {
                let Some(long) = arg.get_long().filter(|long| MAY.contains(long)) else {
                    continue;
                };
                let is_known = arg.get_value_parser().type_id() == path
                    || BELOW.contains(&arg.get_id().as_str())
                    || NO_PATHS.contains(&long);
                if arg.get_action().takes_values() && !is_known {
                    unknown.push(format!("{} --{long}", command.get_name()));
                }
            }
        }
        assert!(unknown.is_empty(), "paths, or none? {unknown:?}");
    }

    #[test]
    fn paths_are_those_of_places_and_options() {
        let paths = |line: &str| meaning(line).unwrap().paths;
        let all = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(paths("cp -r a site:b"), all(&["a"]));
        assert_eq!(paths("cp site:a here"), all(&["here"]));
        assert_eq!(paths("cp --files-from l -r a site:b").len(), 2);
        assert_eq!(paths("cp --exclude-from x -r a site:b").len(), 2);
        let found = paths("sync --backup-dir ../old site:a here");
        assert!(found.contains(&"here/../old".into()) && found.contains(&"here".into()));
        assert_eq!(paths("sync --backup-dir /old a site:b"), all(&["a"]));
        assert!(paths("verify --manifest m site:b").contains(&"m".into()));
        assert!(paths("lab run --out o scenarios").contains(&"scenarios".into()));
        assert!(paths("lab run --quick /s.toml").contains(&"results".into()));
    }

    #[test]
    fn sources_are_known_where_all_of_them_are_here_and_whole() {
        let sources = |line: &str| meaning(line).unwrap().sources;
        assert_eq!(sources("cp -r a b site:c").len(), 2);
        assert_eq!(sources("sync a site:c"), [PathBuf::from("a")]);
        for line in [
            "cp site:a here",
            "cp -r --files-from l a site:b",
            "cp zero:1GiB site:b",
        ] {
            assert!(sources(line).is_empty(), "{line}");
        }
    }

    #[test]
    fn hosts_are_those_of_its_places() {
        assert_eq!(check("cp -r a anna@Site:b").unwrap(), ["site"]);
        assert_eq!(check("cp site:a Other:b").unwrap(), ["site", "other"]);
        assert_eq!(check("cp a howdah://other:99/b").unwrap(), ["other"]);
        assert_eq!(check("cp site:a site:b here").unwrap(), ["site"]);
        assert_eq!(check("cp -r -- a site:b").unwrap(), ["site"]);
        assert!(check("verify a b").unwrap().is_empty());
        assert!(check("lab run --quick scenarios").unwrap().is_empty());
    }
}
