//! The text of a scenario as a tree that knows on which line each part stands.

use super::error::ScenarioError;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// The files of a scenario, to turn places into lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// Those that were read, in their order.
    files: Vec<(PathBuf, String)>,
    /// All that there are, where there is no disk.
    given: Option<BTreeMap<PathBuf, String>>,
}

/// Keys whose value may be a table that stands for one value.
const VALUE_TABLES: [&str; 5] = ["loss", "jitter", "rate", "bucket", "aqm"];

/// Where something stands.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Place {
    file: usize,
    offset: usize,
}

impl Sources {
    /// Nothing is read from disks: these are all files that there are.
    pub(crate) fn of(given: BTreeMap<PathBuf, String>) -> Self {
        Self {
            files: Vec::new(),
            given: Some(given),
        }
    }

    /// What stands in a file of so many bytes at most.
    pub(crate) fn read(&self, path: &Path, most: u64) -> Result<String, String> {
        let text = match &self.given {
            None => read(path, most),
            Some(given) => {
                let found = given.get(&plain(path)).cloned();
                found.ok_or_else(|| io::ErrorKind::NotFound.into())
            }
        };
        text.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => "there is no such file".to_owned(),
            _ => format!("cannot be read: {error}"),
        })
    }

    /// Takes in a file and parses it.
    pub(crate) fn parse(&mut self, path: &Path, text: String) -> Result<Node, ScenarioError> {
        let file = self.files.len();
        self.files.push((path.to_owned(), text));
        let text = &self.files[file].1;
        let table = DeTable::parse(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            let mut message = error.message().to_owned();
            // Which key, the parser only shows.
            let key = error.span().and_then(|span| text.get(span));
            if let Some(key) = key.filter(|_| message.contains("duplicate key")) {
                message = format!("{message} '{key}'");
            }
            self.error(Place { file, offset }, message)
        })?;
        let place = Place { file, offset: 0 };
        table_node(self, file, place, table.get_ref())
    }

    /// An error about that place.
    pub(crate) fn error(&self, place: Place, message: impl Into<String>) -> ScenarioError {
        let (path, text) = &self.files[place.file];
        let before = text.get(..place.offset).unwrap_or(text);
        let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
        ScenarioError::on_line(path, line, message)
    }

    /// The file in which a place lies.
    pub(crate) fn path(&self, place: Place) -> &Path {
        &self.files[place.file].0
    }

    /// The files, in the order in which they were read.
    pub(crate) fn files(&self) -> &[(PathBuf, String)] {
        &self.files
    }
}

/// No more of it than that: it may be a device that never ends.
fn read(path: &Path, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let text = format!("it is longer than {} MiB", most >> 20);
        return Err(io::Error::other(text));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is no text (UTF-8)"))
}

/// The same path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// A part of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) value: Value,
    /// `stated = false`: our choice, not the paper's.
    pub(crate) chosen: bool,
    /// `fitted = true`: found by fitting a model to results.
    pub(crate) fitted: bool,
}

/// What is written there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Int(i64),
    Float(f64),
    Bool(bool),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

/// A key and what belongs to it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_place: Place,
    pub(crate) node: Node,
}

impl fmt::Display for Node {
    /// As the scenario writes it, without quotes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::Text(text) => f.write_str(text),
            Value::Int(number) => write!(f, "{number}"),
            Value::Float(number) => write!(f, "{number}"),
            Value::Bool(truth) => write!(f, "{truth}"),
            Value::List(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if at == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Value::Table(entries) => {
                f.write_str("{")?;
                for (at, entry) in entries.iter().enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    write!(f, "{comma}{} = {}", entry.key, entry.node)?;
                }
                f.write_str("}")
            }
        }
    }
}

impl Node {
    pub(crate) fn new(place: Place, value: Value) -> Self {
        Self {
            place,
            value,
            chosen: false,
            fitted: false,
        }
    }

    pub(crate) fn empty_table(place: Place) -> Self {
        Self::new(place, Value::Table(Vec::new()))
    }

    /// What it is, for messages.
    pub(crate) const fn kind(&self) -> &'static str {
        match self.value {
            Value::Text(_) => "a string",
            Value::Int(_) | Value::Float(_) => "a number",
            Value::Bool(_) => "true or false",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Table(entries) => entries,
            _ => &[],
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.entries()
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| &entry.node)
    }

    /// Takes an entry out of a table.
    pub(crate) fn take(&mut self, key: &str) -> Option<Self> {
        let Value::Table(entries) = &mut self.value else {
            return None;
        };
        let at = entries.iter().position(|entry| entry.key == key)?;
        Some(entries.remove(at).node)
    }

    /// Lays `over` on top: tables are merged key by key, anything else is replaced. So are the
    /// tables that stand for one value.
    pub(crate) fn merge(&mut self, over: Self) {
        let (Value::Table(base), Value::Table(_)) = (&mut self.value, &over.value) else {
            *self = over;
            return;
        };
        let Value::Table(entries) = over.value else {
            return;
        };
        for entry in entries {
            match base.iter_mut().find(|old| old.key == entry.key) {
                Some(old) if VALUE_TABLES.contains(&&*entry.key) => *old = entry,
                Some(old) => {
                    old.key_place = entry.key_place;
                    old.node.merge(entry.node);
                }
                None => base.push(entry),
            }
        }
    }
}

fn table_node(
    sources: &Sources,
    file: usize,
    place: Place,
    table: &DeTable<'_>,
) -> Result<Node, ScenarioError> {
    let mut entries = Vec::with_capacity(table.len());
    for (key, value) in table {
        let key_place = Place {
            file,
            offset: key.span().start,
        };
        let value_place = Place {
            file,
            offset: value.span().start,
        };
        entries.push(Entry {
            key: key.get_ref().to_string(),
            key_place,
            node: value_node(sources, file, value_place, value.get_ref())?,
        });
    }
    // The parser sorts by name; a scenario's order is that of its text.
    entries.sort_by_key(|entry| entry.key_place);
    marked(sources, Node::new(place, Value::Table(entries)))
}

fn value_node(
    sources: &Sources,
    file: usize,
    place: Place,
    value: &DeValue<'_>,
) -> Result<Node, ScenarioError> {
    let value = match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => {
            let digits = number.as_str().replace('_', "");
            let parsed = i64::from_str_radix(&digits, number.radix());
            Value::Int(parsed.map_err(|_| sources.error(place, "this number is too large"))?)
        }
        DeValue::Float(number) => {
            let parsed = number.as_str().replace('_', "").parse::<f64>();
            Value::Float(
                parsed
                    .ok()
                    .filter(|number| number.is_finite())
                    .ok_or_else(|| sources.error(place, "this is not a finite number"))?,
            )
        }
        DeValue::Boolean(truth) => Value::Bool(*truth),
        DeValue::Datetime(_) => {
            return Err(sources.error(place, "dates mean nothing in a scenario"));
        }
        DeValue::Array(items) => Value::List(
            items
                .iter()
                .map(|item| {
                    let offset = item.span().start;
                    value_node(sources, file, Place { file, offset }, item.get_ref())
                })
                .collect::<Result<_, _>>()?,
        ),
        DeValue::Table(table) => return table_node(sources, file, place, table),
    };
    Ok(Node::new(place, value))
}

/// Turns `{ value = X, stated = false }` into X with its marks.
fn marked(sources: &Sources, mut node: Node) -> Result<Node, ScenarioError> {
    const MARKS: [&str; 4] = ["value", "stated", "fitted", "note"];
    if node.get("value").is_none() {
        return Ok(node);
    }
    for entry in node.entries() {
        if !MARKS.contains(&entry.key.as_str()) {
            let hint = super::error::hint(&entry.key, &MARKS);
            let message = format!("unknown key '{}' beside 'value'{hint}", entry.key);
            return Err(sources.error(entry.key_place, message));
        }
    }
    let flag = |name: &str, default: bool| match node.get(name) {
        None => Ok(default),
        Some(Node {
            value: Value::Bool(truth),
            ..
        }) => Ok(*truth),
        Some(other) => {
            let message = format!("'{name}' is true or false, not {}", other.kind());
            Err(sources.error(other.place, message))
        }
    };
    let (chosen, fitted) = (!flag("stated", true)?, flag("fitted", false)?);
    let mut inner = node
        .take("value")
        .unwrap_or_else(|| Node::empty_table(node.place));
    inner.chosen |= chosen;
    inner.fitted |= fitted;
    Ok(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Node, ScenarioError> {
        Sources::default().parse(Path::new("x.toml"), text.to_owned())
    }

    #[test]
    fn the_order_is_that_of_the_text_and_marks_vanish() {
        let node = parse("z = 1\na = { value = '300s', stated = false }\n[m]\nb = 1.5\n").unwrap();
        let keys: Vec<&str> = node.entries().iter().map(|e| e.key.as_str()).collect();
        assert_eq!(keys, ["z", "a", "m"]);
        let a = node.get("a").unwrap();
        assert_eq!(
            (a.to_string().as_str(), a.chosen, a.fitted),
            ("300s", true, false)
        );
        assert!(!node.get("z").unwrap().chosen);
    }

    #[test]
    fn syntax_errors_name_their_line() {
        let error = parse("a = 1\nb = = 2\n").unwrap_err();
        assert_eq!(error.line(), Some(2));
        let error = parse("a = { value = 1, statd = false }").unwrap_err();
        assert!(
            error.to_string().contains("did you mean 'stated'"),
            "{error}"
        );
        let error = parse("\na = 2001-01-01").unwrap_err();
        assert_eq!(error.line(), Some(2));
    }

    #[test]
    fn merging_replaces_values_and_joins_tables() {
        let mut base = parse("a = [1, 2]\n[t]\nx = 1\ny = 2\n").unwrap();
        base.merge(parse("a = 3\n[t]\ny = 5\nz = 6\n").unwrap());
        assert_eq!(base.to_string(), "{a = 3, t = {x = 1, y = 5, z = 6}}");
    }
}
