//! The layers below the command line, and which of them a value is from.

use super::file::{ConfigFile, Entry, fits};
use super::{SERVE, is_about_value};
use crate::clashes;
use clap::{Arg, ArgAction, ArgMatches, Command};
use howdah::{Error, ErrorKind};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// Options that are about one run, not habits; and those that would destroy, or not look, by habit.
const NOT_HABITS: [&str; 43] = [
    "help",
    "version",
    "json",
    "trace",
    "time",
    "dry-run",
    "preserve",
    "files-from",
    "from0",
    "delete",
    "remove-source-files",
    "quick",
    "reread",
    "config",
    "host",
    "hold",
    "inplace",
    "disk",
    "peer",
    "long",
    "summarize",
    "bytes",
    "older-than",
    "copy-links",
    "keep-dirlinks",
    "update",
    "ignore-existing",
    "size-only",
    "chmod",
    "chown",
    "no-perms",
    "mkpath",
    "manifest",
    "manifest-hash",
    "receipt",
    "record",
    "signer",
    "allow-extra",
    "link-dest",
    "plan",
    "lease",
    "epoch",
    "out",
];

/// Those that mean something beside another one only.
const NEEDS: [(&str, &str); 3] = [
    ("numeric-ids", "archive"),
    ("delete-all", "delete"),
    ("max-delete", "delete"),
];

/// Where a value is from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    File {
        path: PathBuf,
        line: usize,
    },
    Host {
        path: PathBuf,
        line: usize,
        host: String,
    },
    Environment(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Host { path, line, host } => {
                write!(f, "{}:{line} [host.\"{host}\"]", path.display())
            }
            Self::Environment(name) => f.write_str(name),
        }
    }
}

/// A value that stands somewhere.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Setting {
    pub(crate) key: String,
    pub(crate) values: Vec<OsString>,
    pub(crate) source: Source,
}

/// The options of a command that can be settings.
pub(crate) fn keys(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| {
        arg.get_long()
            .is_some_and(|long| !NOT_HABITS.contains(&long))
            && !arg.is_positional()
    })
}

pub(crate) fn is_switch(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

pub(crate) fn is_list(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

/// `HOWDAH_LIMIT`; of `howdah serve`: `HOWDAH_SERVE_LISTEN`.
pub(crate) fn variable(command: &Command, key: &str) -> String {
    let serve = if command.get_name() == SERVE {
        "SERVE_"
    } else {
        ""
    };
    format!(
        "HOWDAH_{serve}{}",
        key.replace('-', "_").to_ascii_uppercase()
    )
}

/// What stands in file and environment for that command and that host, the strongest of each key.
pub(crate) fn effective(
    command: &Command,
    file: Option<&ConfigFile>,
    host: Option<&str>,
    var: impl Fn(&str) -> Option<OsString>,
) -> Vec<Setting> {
    let mut found = Vec::new();
    for key in keys(command).filter_map(Arg::get_long) {
        let name = variable(command, key);
        let from_var = var(&name).filter(|value| !value.is_empty());
        let setting = from_var
            .map(|value| Setting {
                key: key.to_owned(),
                values: vec![value],
                source: Source::Environment(name),
            })
            .or_else(|| in_file(command, file?, host, key));
        found.extend(setting);
    }
    found
}

/// A host is more special than a command, and a command than the top of the file.
fn in_file(command: &Command, file: &ConfigFile, host: Option<&str>, key: &str) -> Option<Setting> {
    let is_mover = command.get_name() != SERVE;
    let of_host = host.filter(|_| is_mover).and_then(|host| {
        let mut sections = file
            .hosts
            .iter()
            .rev()
            .filter(|(pattern, _)| fits(pattern, host));
        sections.find_map(|(pattern, entries)| Some((pattern, pick(entries, key)?)))
    });
    if let Some((pattern, entry)) = of_host {
        let source = Source::Host {
            path: file.path.clone(),
            line: entry.line,
            host: pattern.clone(),
        };
        return Some(setting(entry, source));
    }
    let of_command = file.commands.get(command.get_name());
    let entry = of_command
        .and_then(|entries| pick(entries, key))
        .or_else(|| pick(&file.top, key).filter(|_| is_mover))?;
    let source = Source::File {
        path: file.path.clone(),
        line: entry.line,
    };
    Some(setting(entry, source))
}

/// Whether an option was typed, by its long name.
fn typed(command: &Command, own: &ArgMatches, key: &str) -> bool {
    let mut args = command.get_arguments();
    let arg = args.find(|arg| arg.get_long() == Some(key));
    arg.is_some_and(|arg| clashes::is_given(own, arg.get_id().as_str()))
}

fn pick<'a>(entries: &'a [Entry], key: &str) -> Option<&'a Entry> {
    entries.iter().find(|entry| entry.key == key)
}

fn setting(entry: &Entry, source: Source) -> Setting {
    Setting {
        key: entry.key.clone(),
        values: entry.values.iter().map(OsString::from).collect(),
        source,
    }
}

impl Setting {
    /// The value for people.
    pub(crate) fn text(&self) -> String {
        let texts: Vec<_> = self.values.iter().map(|v| v.to_string_lossy()).collect();
        texts.join(", ")
    }

    fn arg<'a>(&self, command: &'a Command) -> Option<&'a Arg> {
        keys(command).find(|arg| arg.get_long() == Some(&self.key))
    }

    /// As the user could have written it.
    pub(crate) fn as_args(&self, command: &Command) -> Vec<OsString> {
        if self.arg(command).is_some_and(is_switch) {
            let on = self.truth().unwrap_or(false);
            return on
                .then(|| format!("--{}", self.key).into())
                .into_iter()
                .collect();
        }
        let words = self.values.iter().map(|value| {
            let mut word = OsString::from(format!("--{}=", self.key));
            word.push(value);
            word
        });
        words.collect()
    }

    /// Whether it means something beside these others, and what was typed: what does not is silent.
    pub(crate) fn has_a_place(&self, command: &Command, all: &[Self], own: &ArgMatches) -> bool {
        let Some(arg) = self.arg(command) else {
            return false;
        };
        let is_on = |key: &str| {
            let habit = all.iter().find(|setting| setting.key == key);
            typed(command, own, key) || habit.is_some_and(|on| on.truth() == Some(true))
        };
        // Each of two may be the one that names the other.
        let names = |one: &Arg, other: &Arg| {
            let named = command.get_arg_conflicts_with(one);
            named.iter().any(|named| named.get_id() == other.get_id())
        };
        let mut others = command
            .get_arguments()
            .filter(|other| clashes::is_given(own, other.get_id().as_str()));
        let needs = NEEDS.iter().find(|(key, _)| *key == self.key);
        needs.is_none_or(|(_, other)| is_on(other))
            && !others.any(|other| names(arg, other) || names(other, arg))
            && !(clashes::is_of_files(arg) && clashes::names_stream(command, own))
    }

    fn truth(&self) -> Option<bool> {
        let text = self.values.first()?.to_str()?.to_ascii_lowercase();
        match text.as_str() {
            "true" | "yes" | "on" | "1" => Some(true),
            "false" | "no" | "off" | "0" => Some(false),
            _ => None,
        }
    }

    /// Whether the option would take it; the error names the place where it stands.
    pub(crate) fn check(&self, command: &Command) -> Result<(), Error> {
        let wrong = |why: &str| {
            let text = format!("{}: {} = '{}': {why}", self.source, self.key, self.text());
            Err(Error::new(ErrorKind::Usage, text))
        };
        if self.arg(command).is_some_and(is_switch) {
            return match self.truth() {
                Some(_) => Ok(()),
                None => wrong("write true or false"),
            };
        }
        // Nothing but this option.
        let probe = command
            .clone()
            .mut_args(|arg| arg.required(false))
            .no_binary_name(true)
            .arg_required_else_help(false)
            .subcommand_required(false);
        match probe.try_get_matches_from(self.as_args(command)) {
            Err(error) if is_about_value(&error) => {
                let text = error.to_string();
                let line = text.lines().next().unwrap_or_default();
                // "error: invalid value 'x' for '--limit <LIMIT>': why"
                let why = line.split_once(">': ").map_or(line, |(_, why)| why);
                wrong(why.trim_start_matches("error: "))
            }
            _ => Ok(()),
        }
    }
}
