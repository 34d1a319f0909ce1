//! Flags that mean nothing together, or nothing for the places that are named: told before anybody is connected to.
//!
//! Of two flags of one command of which never both make sense, the command line's own parser says so (`conflicts_with`). Here is what it
//! cannot say: what depends on a third flag, on values and on places. A flag that asks for what holds anyway clashes with nothing. What
//! stands as a habit in the config file or the environment is silent where it does not fit; only what was typed clashes.

use crate::own_file;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use howdah::Location;
use howdah_core::Span;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// One takes away what the other is for, unless one of those is there, too; and why.
const PAIRS: [(&str, &str, &[&str], &str); 9] = [
    (
        "ignore_existing",
        "checksum",
        &["link_dest"],
        "what DST has is left alone whatever it holds, so nothing is compared",
    ),
    (
        "ignore_existing",
        "size_only",
        &["link_dest"],
        "what DST has is left alone whatever it holds, so nothing is compared",
    ),
    (
        "ignore_existing",
        "backup_dir",
        &["delete"],
        "what DST has is left alone, so there is nothing to keep",
    ),
    (
        "remove_source_files",
        "link_dest",
        &[],
        "what is moved comes, and what is linked does not",
    ),
    (
        "receipt",
        "update",
        &[],
        "what both ends have in the end is not the same, and only that can be signed",
    ),
    (
        "receipt",
        "ignore_existing",
        &[],
        "what both ends have in the end is not the same, and only that can be signed",
    ),
    (
        "receipt",
        "remove_source_files",
        &[],
        "what both ends have in the end is not the same, and only that can be signed",
    ),
    (
        "quiet",
        "progress",
        &[],
        "one prints errors only, the other how it goes",
    ),
    (
        "quiet",
        "each_file",
        &["json", "log_file"],
        "one prints errors only, the other a line for each file",
    ),
];

/// What a run of a lease heeds; the plan says all the rest.
const OF_LEASES: [&str; 29] = [
    "accept_new",
    "color",
    "epoch",
    "identity",
    "idle_timeout",
    "job_record",
    "json",
    "known_hosts",
    "lease",
    "limit",
    "log_file",
    "no_memory",
    "no_record",
    "plan",
    "policy",
    "port",
    "progress",
    "quiet",
    "rate",
    "reconnect",
    "record",
    "remote_howdah",
    "share",
    "ssh",
    "ssh_keep",
    "trace",
    "transport",
    "wait_for_space",
    // Nothing more is to be told of one file than is told anyway.
    "each_file",
];

/// What a pipe has not. Those that are a habit are silent there.
const NOT_OF_STREAMS: [&str; 29] = [
    "recursive",
    "preserve",
    "archive",
    "numeric_ids",
    "checksum",
    "dry_run",
    "size_only",
    "update",
    "ignore_existing",
    "keep_dirlinks",
    "copy_links",
    "one_file_system",
    "chmod",
    "chown",
    "no_perms",
    "mkpath",
    "manifest",
    "receipt",
    "link_dest",
    "exclude",
    "include",
    "exclude-from",
    "include-from",
    "files_from",
    "gitignore",
    "min_size",
    "max_size",
    "min_age",
    "max_age",
];

/// Files that a command writes on this machine, those of them that know nothing of what is moved, and lists that it reads.
const WRITTEN: [&str; 5] = ["manifest", "receipt", "record", "trace", "log_file"];
const ABOUT: [&str; 3] = ["record", "trace", "log_file"];
const READ: [&str; 3] = ["files_from", "exclude-from", "include-from"];

/// A command line that its parser has taken.
pub(crate) struct Line<'a> {
    command: &'a Command,
    /// With what stands in the config file and the environment.
    all: &'a ArgMatches,
    /// What was typed.
    own: &'a ArgMatches,
}

impl<'a> Line<'a> {
    pub(crate) fn new(command: &'a Command, all: &'a ArgMatches, own: &'a ArgMatches) -> Self {
        Self { command, all, own }
    }

    /// What makes no sense, in words.
    pub(crate) fn clash(&self) -> Option<String> {
        let checks: [fn(&Self) -> Option<String>; 11] = [
            Self::lease,
            Self::pairs,
            Self::rate,
            Self::share,
            Self::includes,
            Self::streams,
            Self::again,
            Self::places,
            Self::files,
            Self::moved,
            Self::logged,
        ];
        checks.into_iter().find_map(|check| check(self))
    }

    fn has(&self, id: &str) -> bool {
        is_given(self.all, id)
    }

    fn typed(&self, id: &str) -> bool {
        is_given(self.own, id)
    }

    /// As it is written.
    fn flag(&self, id: &str) -> String {
        let arg = self.command.get_arguments().find(|arg| arg.get_id() == id);
        let short = ["archive", "preserve", "recursive"].contains(&id);
        let written = arg.and_then(|arg| match arg.get_short() {
            Some(letter) if short => Some(format!("-{letter}")),
            _ => Some(format!("--{}", arg.get_long()?)),
        });
        written.unwrap_or_else(|| id.to_owned())
    }

    fn named(&self) -> impl Iterator<Item = &'a Location> {
        let all = self.all;
        let words = self.command.get_positionals();
        words
            .filter_map(move |arg| all.try_get_many(arg.get_id().as_str()).ok().flatten())
            .flatten()
    }

    fn lease(&self) -> Option<String> {
        if !self.typed("plan") {
            return None;
        }
        let ids = self
            .command
            .get_arguments()
            .map(|arg| arg.get_id().as_str());
        let mut ids = ids.filter(|id| !OF_LEASES.contains(id));
        let other = ids.find(|id| self.typed(id))?;
        Some(format!(
            "--plan and {} clash: the plan says what is moved, where it goes and how",
            self.flag(other)
        ))
    }

    fn pairs(&self) -> Option<String> {
        let clash = |(one, other, unless, _): &&(&str, &str, &[&str], &str)| {
            self.has(one)
                && self.has(other)
                && (self.typed(one) || self.typed(other))
                && !unless.iter().any(|third| self.has(third))
        };
        let (one, other, _, why) = PAIRS.iter().find(clash)?;
        let (one, other) = (self.flag(one), self.flag(other));
        Some(format!("{one} and {other} clash: {why}"))
    }

    fn policy(&self) -> Option<&str> {
        self.all.get_raw("policy")?.next()?.to_str()
    }

    /// A rate is that of one policy.
    fn rate(&self) -> Option<String> {
        if !self.typed("rate") || !self.has("policy") {
            return None;
        }
        let policy = self.policy().filter(|policy| *policy != "fixed")?;
        Some(format!(
            "--rate and --policy {policy} clash: --rate is that of --policy fixed; --limit bounds any policy"
        ))
    }

    /// And a share that of another one.
    fn share(&self) -> Option<String> {
        if !self.typed("share") {
            return None;
        }
        let other = match self.policy().filter(|_| self.typed("policy")) {
            Some("fair") => return None,
            Some(policy) => format!("--policy {policy}"),
            None if self.typed("rate") => "--rate".to_owned(),
            None => return None,
        };
        Some(format!(
            "--share and {other} clash: it is a part of what --policy fair takes"
        ))
    }

    /// They only save what something else would leave out.
    fn includes(&self) -> Option<String> {
        let others = ["exclude", "exclude-from", "include-from", "gitignore"];
        let alone = self.typed("include") && !others.iter().any(|id| self.has(id));
        alone.then(|| {
            "--include without --exclude leaves nothing out: what no rule matches takes part; behind it write --exclude '*', and \
             --include '*/' for what lies in directories"
                .to_owned()
        })
    }

    fn streams(&self) -> Option<String> {
        let stream = self.named().find(|place| is_stream(place))?;
        if let Some(id) = NOT_OF_STREAMS.iter().find(|id| self.typed(id)) {
            return Some(format!(
                "{} is about files and directories, and {stream} is none",
                self.flag(id)
            ));
        }
        let to = self.named().last().filter(|place| is_stream(place))?;
        let verify = self.own.try_get_raw("verify").ok().flatten();
        let reread = verify.is_some_and(|mut hows| hows.any(|how| how == "reread"));
        (reread && self.typed("verify"))
            .then(|| format!("--verify reread reads a file back from its device, and {to} is none"))
    }

    /// What cannot be gone on with.
    fn again(&self) -> Option<String> {
        let patience = self.own.try_get_one::<Span>("reconnect").ok().flatten()?;
        if !self.typed("reconnect") || *patience == Span::ZERO {
            return None;
        }
        let tree =
            self.command.get_name() == "sync" || self.has("recursive") || self.has("archive");
        (tree && self.typed("no_resume")).then(|| {
            "--reconnect and --no-resume clash: a tree that begins anew is not gone on with"
                .to_owned()
        })
    }

    /// Flags about one kind of place where there is only another.
    fn places(&self) -> Option<String> {
        let remote = |place: &&Location| place.is_remote();
        let is_ssh = |place: &Location| matches!(place, Location::Ssh(_));
        let other = self.named().find(remote)?;
        let (some, all) = (
            self.named().any(is_ssh),
            self.named().filter(remote).all(is_ssh),
        );
        let text = if self.typed("port") && !some {
            format!(
                "--port is about HOST:path, and {other} is none: its port is written howdah://HOST:PORT/path"
            )
        } else if self.typed("identity") && all && !self.has("receipt") {
            format!(
                "--identity is about howdah://, and {other} is reached with ssh, which has its own: -S 'ssh -i KEY'"
            )
        } else if self.typed("known_hosts") && all {
            format!(
                "--known-hosts is about howdah://, and {other} is reached with ssh, which has its own: -S 'ssh -o UserKnownHostsFile=FILE'"
            )
        } else {
            return None;
        };
        Some(text)
    }

    /// The files of some flags.
    fn files_of(
        &self,
        ids: &'static [&'static str],
    ) -> impl Iterator<Item = (&'static str, &'a PathBuf)> {
        let all = self.all;
        ids.iter().flat_map(move |id| {
            let files = all.try_get_many::<PathBuf>(id).ok().flatten();
            files.into_iter().flatten().map(move |file| (*id, file))
        })
    }

    /// What one writes the other would write over, or read.
    fn files(&self) -> Option<String> {
        let written: Vec<_> = self.files_of(&WRITTEN).collect();
        let pairs = written.iter().enumerate().flat_map(|(at, one)| {
            let others = written[at + 1..]
                .iter()
                .copied()
                .chain(self.files_of(&READ));
            others.map(move |other| (*one, other))
        });
        let typed =
            |&((one, _), (other, _)): &((&str, _), (&str, _))| self.typed(one) || self.typed(other);
        let mut pairs = pairs.filter(typed);
        let ((one, file), (other, _)) = pairs.find(|((_, a), (_, b))| is_one_file(a, b))?;
        let (one, other) = (self.flag(one), self.flag(other));
        Some(format!(
            "{one} and {other} name one file: {}",
            file.display()
        ))
    }

    /// A source that is written over before it is read, or what has just come, is lost.
    fn moved(&self) -> Option<String> {
        let named: Vec<&Location> = self.named().collect();
        let mut written = self.files_of(&ABOUT).filter(|(id, _)| self.typed(id));
        let of = |file: &Path| {
            let here = named.iter().filter_map(|place| local(place));
            let inside = named.split_last().and_then(|(to, from)| {
                let dir = local(to).filter(|to| to.is_dir())?;
                let names = from.iter().filter_map(|place| last_name(place));
                Some(names.map(move |name| dir.join(name)))
            });
            let mut all = here
                .map(Path::to_path_buf)
                .chain(inside.into_iter().flatten());
            all.find(|place| is_one_file(file, place))
        };
        let (id, place) = written.find_map(|(id, file)| Some((id, of(file)?)))?;
        let (flag, place) = (self.flag(id), place.display());
        Some(format!(
            "{flag} would write over {place}, which the command is about: name another file behind {flag}"
        ))
    }
}

impl Line<'_> {
    /// A log is added to: in a tree that takes part, to nothing but a log.
    fn logged(&self) -> Option<String> {
        let mut logs = self
            .files_of(&["log_file"])
            .filter(|(id, _)| self.typed(id));
        let dirs = self.named().filter_map(local);
        let dirs: Vec<_> = dirs.filter_map(|dir| dir.canonicalize().ok()).collect();
        logs.find_map(|(_, log)| {
            let real = log.canonicalize().ok()?;
            let is_inside = dirs.iter().any(|dir| real.starts_with(dir));
            let checked = is_inside.then(|| own_file::check("--log-file", log, is_log))?;
            checked.err().map(|error| error.to_string())
        })
    }
}

/// Whether a file begins as a log does (`ui::logfile`).
fn is_log(head: &[u8]) -> bool {
    let mut words = head.split(|byte| *byte == b' ');
    words
        .nth(1)
        .is_some_and(|word| word.starts_with(b"howdah["))
}

fn local(place: &Location) -> Option<&Path> {
    match place {
        Location::File(path) => Some(path),
        _ => None,
    }
}

fn last_name(place: &Location) -> Option<&OsStr> {
    match place {
        Location::File(path) => path.file_name(),
        Location::Remote { path, .. } => path.as_path().file_name(),
        Location::Ssh(there) => there.path.as_path().file_name(),
        _ => None,
    }
}

/// Whether an option is about files and directories only.
pub(crate) fn is_of_files(arg: &Arg) -> bool {
    NOT_OF_STREAMS.contains(&arg.get_id().as_str())
}

/// Whether one of the places is a pipe, or made up.
pub(crate) fn names_stream(command: &Command, own: &ArgMatches) -> bool {
    let places = command
        .get_positionals()
        .filter_map(|arg| own.try_get_many(arg.get_id().as_str()).ok().flatten());
    places.flatten().any(is_stream)
}

pub(crate) fn is_given(matches: &ArgMatches, id: &str) -> bool {
    matches!(matches.try_contains_id(id), Ok(true))
        && matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// As far as it is there already, or written in the same way; what is no file may be written twice.
fn is_one_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| {
        let name = path.file_name().map(OsStr::to_owned)?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = dir.unwrap_or_else(|| Path::new(".")).canonicalize();
        path.canonicalize()
            .or_else(|_| dir.map(|dir| dir.join(name)))
            .ok()
    };
    let special = |path: &Path| path.metadata().is_ok_and(|found| !found.is_file());
    // A file may have several names.
    let file = |path: &Path| path.metadata().ok().map(|of| (of.dev(), of.ino()));
    let same = one == other
        || real(one).is_some_and(|one| real(other) == Some(one))
        || file(one).is_some_and(|one| file(other) == Some(one));
    same && one != Path::new("-") && !special(one)
}

/// Whether it is a pipe, or made up: here or there.
pub(crate) fn is_stream(place: &Location) -> bool {
    let path = match place {
        Location::Stdio | Location::Zero(_) | Location::Null => return true,
        Location::File(_) => return false,
        Location::Remote { path, .. } => path,
        Location::Ssh(there) => &there.path,
    };
    let there = Location::try_from(path.as_path().as_os_str());
    matches!(there, Ok(Location::Zero(_) | Location::Null))
}

#[cfg(test)]
mod tests;
