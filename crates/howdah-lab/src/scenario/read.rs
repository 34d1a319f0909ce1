//! Strict reading of one table.

use super::error::{ScenarioError, hint};
use super::node::{Node, Sources, Value};
use howdah_core::{Span, units};
use std::ops::RangeInclusive;

/// A table whose keys are all known.
pub(crate) struct Table<'a> {
    pub(crate) sources: &'a Sources,
    pub(crate) node: &'a Node,
    what: String,
}

impl<'a> Table<'a> {
    /// Opens a table of which `what` is the name in messages ("[path.main]").
    pub(crate) fn open(
        sources: &'a Sources,
        node: &'a Node,
        what: impl Into<String>,
        known: &[&str],
    ) -> Result<Self, ScenarioError> {
        let what = what.into();
        if !matches!(node.value, Value::Table(_)) {
            let message = format!("{what} is a table, not {}", node.kind());
            return Err(sources.error(node.place, message));
        }
        for entry in node.entries() {
            if !known.contains(&entry.key.as_str()) {
                let message = format!(
                    "unknown key '{}' in {what}{}",
                    entry.key,
                    hint(&entry.key, known)
                );
                return Err(sources.error(entry.key_place, message));
            }
        }
        Ok(Self {
            sources,
            node,
            what,
        })
    }

    /// An error about the table.
    pub(crate) fn error(&self, message: impl AsRef<str>) -> ScenarioError {
        let message = format!("{}: {}", self.what, message.as_ref());
        self.sources.error(self.node.place, message)
    }

    /// An error about a key's value.
    pub(crate) fn error_at(&self, key: &str, message: impl AsRef<str>) -> ScenarioError {
        let place = self
            .node
            .get(key)
            .map_or(self.node.place, |node| node.place);
        let message = format!("'{key}': {}", message.as_ref());
        self.sources.error(place, message)
    }

    /// The table behind a key that may also be a plain value; `None` if it is one.
    pub(crate) fn inner(&self, key: &str, known: &[&str]) -> Result<Option<Self>, ScenarioError> {
        match self.node.get(key) {
            Some(node) if matches!(node.value, Value::Table(_)) => {
                Table::open(self.sources, node, format!("'{key}'"), known).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Refuses keys beside `key`, which has this value, that say nothing there.
    pub(crate) fn only(&self, key: &str, value: &str, known: &[&str]) -> Result<(), ScenarioError> {
        for entry in self.node.entries() {
            if entry.key == key || known.contains(&entry.key.as_str()) {
                continue;
            }
            let takes = match known {
                [] => "nothing more".to_owned(),
                known => known.join(", "),
            };
            let message = format!(
                "'{}' says nothing of {value}, which takes {takes}",
                entry.key
            );
            return Err(self.sources.error(entry.key_place, message));
        }
        Ok(())
    }

    /// Whether the key is there.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.node.get(key).is_some()
    }

    /// What `read` makes of the value, if the key is there.
    pub(crate) fn with<T>(
        &self,
        key: &str,
        read: impl FnOnce(&'a Node) -> Result<T, String>,
    ) -> Result<Option<T>, ScenarioError> {
        self.node
            .get(key)
            .map(|node| read(node).map_err(|message| self.error_at(key, message)))
            .transpose()
    }

    /// As [`with`](Self::with), of a text or a number as text.
    pub(crate) fn parse<T, E: ToString>(
        &self,
        key: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, ScenarioError> {
        self.with(key, |node| match &node.value {
            Value::Text(_) | Value::Int(_) | Value::Float(_) => {
                read(&node.to_string()).map_err(|error| error.to_string())
            }
            _ => Err(format!("a string or a number, not {}", node.kind())),
        })
    }

    pub(crate) fn text(&self, key: &str) -> Result<Option<String>, ScenarioError> {
        self.with(key, |node| match &node.value {
            Value::Text(text) => Ok(text.clone()),
            _ => Err(format!("a string, not {}", node.kind())),
        })
    }

    pub(crate) fn truth(&self, key: &str) -> Result<Option<bool>, ScenarioError> {
        self.with(key, |node| match node.value {
            Value::Bool(truth) => Ok(truth),
            _ => Err(format!("true or false, not {}", node.kind())),
        })
    }

    /// A whole number of at least `least`.
    pub(crate) fn whole(&self, key: &str, least: u64) -> Result<Option<u64>, ScenarioError> {
        self.with(key, |node| match node.value {
            Value::Int(number) => u64::try_from(number)
                .ok()
                .filter(|&number| number >= least)
                .ok_or_else(|| format!("{number} is less than {least}")),
            _ => Err(format!("a whole number, not {}", node.kind())),
        })
    }

    /// A whole number within bounds.
    pub(crate) fn within(
        &self,
        key: &str,
        bounds: RangeInclusive<u32>,
    ) -> Result<Option<u32>, ScenarioError> {
        self.with(key, |node| match node.value {
            Value::Int(number) => u32::try_from(number)
                .ok()
                .filter(|number| bounds.contains(number))
                .ok_or_else(|| {
                    format!(
                        "{number} is not from {} to {}",
                        bounds.start(),
                        bounds.end()
                    )
                }),
            _ => Err(format!("a whole number, not {}", node.kind())),
        })
    }

    pub(crate) fn number(&self, key: &str) -> Result<Option<f64>, ScenarioError> {
        self.with(key, |node| match node.value {
            Value::Int(number) => Ok(number as f64),
            Value::Float(number) => Ok(number),
            _ => Err(format!("a number, not {}", node.kind())),
        })
    }

    pub(crate) fn span(&self, key: &str) -> Result<Option<Span>, ScenarioError> {
        self.parse(key, units::parse_span)
    }

    pub(crate) fn probability(&self, key: &str) -> Result<Option<f64>, ScenarioError> {
        self.parse(key, |text| {
            let share = units::parse_probability(text).map_err(|_| {
                format!(
                    "'{text}' is not a probability; write it in per cent, like 1%, at most 100%"
                )
            })?;
            // 0.5 would be a half to one reader and half a per cent to the next.
            if share > 0.0 && !text.trim_end().ends_with('%') {
                return Err(format!(
                    "'{text}' has no unit; write it in per cent, like 1%"
                ));
            }
            Ok(share)
        })
    }

    /// A list of texts; one text counts as a list of one.
    pub(crate) fn texts(
        &self,
        key: &str,
    ) -> Result<Option<Vec<(String, &'a Node)>>, ScenarioError> {
        self.with(key, |node| {
            let items = match &node.value {
                Value::List(items) => items.iter().collect(),
                _ => vec![node],
            };
            items
                .into_iter()
                .map(|item| match &item.value {
                    Value::Text(text) => Ok((text.clone(), item)),
                    _ => Err(format!("a list of strings, not {}", item.kind())),
                })
                .collect()
        })
    }
}
