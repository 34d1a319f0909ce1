//! The config file: strict TOML. A key that is not known is an error that names the line and the nearest known one.

use super::{COMMANDS, SERVE, layers, text};
use clap::Command;
use howdah::{Error, ErrorKind};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// A key, its values (several for an option that may be repeated) and its line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) values: Vec<String>,
    pub(crate) line: usize,
}

/// A file that was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    /// For all commands that move files.
    pub(crate) top: Vec<Entry>,
    pub(crate) commands: BTreeMap<String, Vec<Entry>>,
    /// In the order of the file: the last one that fits is the strongest.
    pub(crate) hosts: Vec<(String, Vec<Entry>)>,
}

/// `$HOWDAH_CONFIG`, or `config.toml` beside the keys.
pub(crate) fn path(var: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    match var("HOWDAH_CONFIG").filter(|path| !path.is_empty()) {
        Some(path) => Some(path.into()),
        None => Some(howdah::keys::config_dir()?.join("config.toml")),
    }
}

impl ConfigFile {
    /// Reads it; one that is not there is none, unless the environment names it.
    pub(crate) fn load(
        cli: &Command,
        var: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<Self>, Error> {
        let Some(path) = path(&var) else {
            return Ok(None);
        };
        let error = |text: String| Err(Error::new(ErrorKind::Usage, text));
        match text::read(&path) {
            Ok(text) => Self::parse(cli, &path, &text).map(Some),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                if var("HOWDAH_CONFIG").is_some_and(|path| !path.is_empty()) {
                    return error(format!("HOWDAH_CONFIG names {}: {e}", path.display()));
                }
                Ok(None)
            }
            Err(e) => error(format!("cannot read {}: {e}", path.display())),
        }
    }

    pub(crate) fn parse(cli: &Command, path: &Path, text: &str) -> Result<Self, Error> {
        let reader = Reader { path, text };
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            reader.error(at, error.message())
        })?;
        let mut file = Self {
            path: path.to_owned(),
            ..Self::default()
        };
        let movers: Vec<&Command> = known(cli).filter(|c| c.get_name() != SERVE).collect();
        let sections: Vec<&str> = known(cli).map(Command::get_name).collect();
        for (key, value) in table.get_ref() {
            let (name, at) = (key.get_ref().as_ref(), key.span().start);
            match value.get_ref() {
                DeValue::Table(hosts) if name == "host" => {
                    for (host, inner) in hosts {
                        let DeValue::Table(inner) = inner.get_ref() else {
                            let text = format!("write [host.\"{}\"]", host.get_ref());
                            return Err(reader.error(host.span().start, &text));
                        };
                        let entries = reader.entries(inner, &movers, &[])?;
                        let host = host.get_ref().to_ascii_lowercase();
                        file.hosts.push((host, entries));
                    }
                }
                DeValue::Table(inner) => {
                    let Some(command) = known(cli).find(|c| c.get_name() == name) else {
                        let near = nearest(name, sections.iter().copied().chain(["host"]));
                        let text = format!("there is no section [{name}]{near}");
                        return Err(reader.error(at, &text));
                    };
                    let entries = reader.entries(inner, &[command], &[])?;
                    file.commands.insert(name.to_owned(), entries);
                }
                value => {
                    let entry = reader.entry(name, at, value, &movers, &sections)?;
                    file.top.push(entry);
                }
            }
        }
        Ok(file)
    }

    /// Whether there is a section for `host`.
    pub(crate) fn knows_host(&self, host: &str) -> bool {
        self.hosts.iter().any(|(pattern, _)| fits(pattern, host))
    }
}

/// `site.example.org` or `*.example.org`.
pub(crate) fn fits(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(end) => host.len() > end.len() && host.ends_with(end),
        None => pattern == host,
    }
}

/// The commands that have settings.
fn known(cli: &Command) -> impl Iterator<Item = &Command> {
    let all = cli.get_subcommands();
    all.filter(|command| COMMANDS.contains(&command.get_name()))
}

/// "; did you mean 'limit'?"
fn nearest<'a>(name: &str, all: impl Iterator<Item = &'a str>) -> String {
    let best = all
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    best.map_or_else(String::new, |(_, known)| {
        format!("; did you mean '{known}'?")
    })
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        let before = self.text.get(..at).unwrap_or(self.text);
        before.bytes().filter(|&byte| byte == b'\n').count() + 1
    }

    fn error(&self, at: usize, text: &str) -> Error {
        let text = format!("{}:{}: {text}", self.path.display(), self.line(at));
        Error::new(ErrorKind::Usage, text)
    }

    fn entries(
        &self,
        table: &DeTable<'_>,
        commands: &[&Command],
        also: &[&str],
    ) -> Result<Vec<Entry>, Error> {
        let pairs = table.iter();
        pairs
            .map(|(key, value)| {
                let (name, at) = (key.get_ref().as_ref(), key.span().start);
                self.entry(name, at, value.get_ref(), commands, also)
            })
            .collect()
    }

    fn entry(
        &self,
        name: &str,
        at: usize,
        value: &DeValue<'_>,
        commands: &[&Command],
        also: &[&str],
    ) -> Result<Entry, Error> {
        let mut known = commands.iter().flat_map(|c| layers::keys(c));
        let Some(arg) = known.find(|arg| arg.get_long() == Some(name)) else {
            let names = commands.iter().flat_map(|c| layers::keys(c));
            let names = names.filter_map(clap::Arg::get_long);
            let near = nearest(name, names.chain(also.iter().copied()));
            return Err(self.error(at, &format!("there is no key '{name}'{near}")));
        };
        let wrong = |what: &str| self.error(at, &format!("'{name}' must be {what}"));
        let values = match value {
            DeValue::Boolean(truth) if layers::is_switch(arg) => vec![truth.to_string()],
            _ if layers::is_switch(arg) => return Err(wrong("true or false")),
            DeValue::Array(items) if layers::is_list(arg) => items
                .iter()
                .map(|item| scalar(item.get_ref()).ok_or_else(|| wrong("a list of texts")))
                .collect::<Result<_, _>>()?,
            value => vec![scalar(value).ok_or_else(|| wrong("a text or a number"))?],
        };
        Ok(Entry {
            key: name.to_owned(),
            values,
            line: self.line(at),
        })
    }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        _ => None,
    }
}
