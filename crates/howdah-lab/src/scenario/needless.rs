//! What a file says and no cell has any use for: most likely meant for something else.
//!
//! A list of protocols shares its options, some of which mean nothing to some of them, and experiments share what stands outside of
//! them. So only what is of use to none of a file's cells is refused; what was included is there for other files, too.

use super::decode::option_keys;
use super::error::ScenarioError;
use super::expand::Expanded;
use super::node::{Entry, Node, Place, Sources, Value};
use crate::catalog;
use std::collections::{BTreeMap, BTreeSet};

/// Something that is said at one place of a file.
#[derive(Debug, Default)]
struct Said {
    used: bool,
    /// The key of a protocol's option; empty of hosts and paths.
    key: String,
    /// Of what: "[flow.main]".
    of: String,
    /// The protocols that it was said to.
    protocols: BTreeSet<String>,
}

/// All that a file says.
#[derive(Debug, Default)]
pub(super) struct Needless(BTreeMap<Place, Said>);

/// A value that is as if it were not there, so that an axis may have it.
fn says_nothing(node: &Node) -> bool {
    let text = node.to_string();
    matches!(text.as_str(), "none" | "false") || text.parse() == Ok(0) || text.starts_with("0ns")
}

fn tables<'a>(tree: &'a Node, kind: &str) -> &'a [Entry] {
    tree.get(kind).map_or(&[], Node::entries)
}

fn texts(node: Option<&Node>) -> Vec<String> {
    match node.map(|node| &node.value) {
        Some(Value::List(items)) => items.iter().map(ToString::to_string).collect(),
        Some(Value::Text(text)) => vec![text.clone()],
        _ => Vec::new(),
    }
}

impl Needless {
    /// Takes in the cells of an experiment.
    pub(super) fn look(&mut self, cells: &[Expanded]) {
        for cell in cells {
            self.look_at(&cell.tree);
        }
    }

    fn look_at(&mut self, tree: &Node) {
        let (mut hosts, mut paths) = (BTreeSet::new(), BTreeSet::new());
        for kind in ["flow", "group", "stream"] {
            for entry in tables(tree, kind) {
                for key in ["from", "to"] {
                    hosts.extend(texts(entry.node.get(key)));
                }
                paths.extend(texts(entry.node.get("via")));
                if kind != "stream" {
                    self.options(entry, &format!("[{kind}.{}]", entry.key));
                }
            }
        }
        for (kind, used) in [("host", hosts), ("path", paths)] {
            let all = tables(tree, kind);
            for entry in all {
                let said = self.0.entry(entry.key_place).or_default();
                said.of = format!("[{kind}.{}]", entry.key);
                // A single path needs no 'via'.
                said.used |= used.contains(&entry.key) || (kind == "path" && all.len() == 1);
            }
        }
    }

    fn options(&mut self, entry: &Entry, of: &str) {
        let Some(Value::Text(protocol)) = entry.node.get("protocol").map(|node| &node.value) else {
            return;
        };
        if protocol == "none" {
            return;
        }
        for option in entry.node.entries() {
            if !option_keys().any(|key| key == option.key) {
                continue;
            }
            let said = self.0.entry(option.key_place).or_default();
            said.key.clone_from(&option.key);
            of.clone_into(&mut said.of);
            said.used |= says_nothing(&option.node) || catalog::takes(protocol, &option.key);
            said.protocols.insert(protocol.clone());
        }
    }

    /// Refuses what was of use to no cell, of those that this file says itself.
    pub(super) fn check(
        &self,
        sources: &Sources,
        file: &std::path::Path,
    ) -> Result<(), ScenarioError> {
        let needless = (self.0.iter())
            .find(|(place, said)| !said.used && sources.path(**place) == file)
            .map(|(place, said)| sources.error(*place, said.message()));
        needless.map_or(Ok(()), Err)
    }
}

impl Said {
    /// Why it is refused.
    fn message(&self) -> String {
        let protocols: Vec<&str> = self.protocols.iter().map(String::as_str).collect();
        match (self.key.as_str(), self.of.starts_with("[host")) {
            ("", true) => format!("no flow is 'from' or 'to' {}: it has no effect", self.of),
            ("", false) => format!("nothing goes 'via' {}: it has no effect", self.of),
            (key, _) => format!(
                "'{key}' in {} means nothing to {}; it is of {}",
                self.of,
                protocols.join(", "),
                catalog::takers(key)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_is_of_a_protocol() {
        for key in option_keys() {
            assert!(!catalog::takers(key).is_empty(), "{key}");
        }
    }
}
