//! `[sweep]`: values of a set-up that a paper does not state, and what they plausibly were.
//!
//! `"path.nic.host_queue" = { values = [...], source = "..." }` names a value of the scenario. Only where a sweep is asked for is that
//! value replaced by its list, which spans an axis `sweep.path.nic.host_queue`; otherwise the scenario is what it is without it, cells
//! and their names included.

use super::error::{ScenarioError, hint};
use super::node::{Entry, Node, Sources, Value};
use howdah_report::ledger::SWEEP;

/// A value that is swept.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Swept {
    /// Keys from the top of the scenario.
    pub(super) path: Vec<String>,
    values: Node,
    source: String,
}

impl Swept {
    /// How the axis is called.
    pub(super) fn axis(&self) -> String {
        format!("{SWEEP}{}", self.path.join("."))
    }

    /// Values and source, for the report.
    pub(super) fn words(&self) -> (String, String) {
        let values = match &self.values.value {
            Value::List(items) => items.iter().map(ToString::to_string).collect::<Vec<_>>(),
            _ => Vec::new(),
        };
        (
            self.path.join("."),
            format!("{} ({})", values.join(", "), self.source),
        )
    }
}

/// Reads the table, and puts the lists in their places if `wanted`.
pub(super) fn apply(
    sources: &Sources,
    tree: &mut Node,
    table: &Node,
    wanted: bool,
) -> Result<Vec<Swept>, ScenarioError> {
    if !matches!(table.value, Value::Table(_)) {
        return Err(sources.error(table.place, "'sweep' is a table: [sweep]"));
    }
    let mut all = Vec::new();
    for entry in table.entries() {
        let swept = read(sources, entry)?;
        let place = find(sources, tree, entry, &swept.path)?;
        if !same(&swept.values, place) {
            let message =
                format!("the value that is there, {place}, is not among those of the sweep");
            return Err(sources.error(entry.node.place, message));
        }
        if wanted {
            let mut values = swept.values.clone();
            values.chosen = true;
            *place = values;
        }
        all.push(swept);
    }
    Ok(all)
}

fn read(sources: &Sources, entry: &Entry) -> Result<Swept, ScenarioError> {
    let fail = |message: &str| sources.error(entry.node.place, message);
    if let Some(other) = entry
        .node
        .entries()
        .iter()
        .find(|one| !["values", "source"].contains(&&*one.key))
    {
        let message = format!(
            "unknown key '{}'; a sweep has 'values' and 'source'",
            other.key
        );
        return Err(sources.error(other.key_place, message));
    }
    let values = entry
        .node
        .get("values")
        .filter(|node| matches!(&node.value, Value::List(items) if items.len() > 1));
    let values = values.ok_or_else(|| fail("a sweep has 'values', a list of two or more"))?;
    let Some(Value::Text(source)) = entry.node.get("source").map(|node| &node.value) else {
        return Err(fail(
            "a sweep has a 'source' that says why these values are plausible",
        ));
    };
    Ok(Swept {
        path: entry.key.split('.').map(str::to_owned).collect(),
        values: values.clone(),
        source: source.clone(),
    })
}

fn find<'a>(
    sources: &Sources,
    tree: &'a mut Node,
    entry: &Entry,
    path: &[String],
) -> Result<&'a mut Node, ScenarioError> {
    let mut node = tree;
    for key in path {
        let Value::Table(entries) = &mut node.value else {
            return Err(sources.error(
                entry.key_place,
                format!("'{}' leads through a value", entry.key),
            ));
        };
        let known: Vec<String> = entries.iter().map(|one| one.key.clone()).collect();
        let Some(next) = entries.iter_mut().find(|one| one.key == *key) else {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let message = format!("there is no '{}' to sweep{}", entry.key, hint(key, &known));
            return Err(sources.error(entry.key_place, message));
        };
        node = &mut next.node;
    }
    Ok(node)
}

/// Whether a value is in the list.
fn same(values: &Node, value: &Node) -> bool {
    let Value::List(items) = &values.value else {
        return false;
    };
    items
        .iter()
        .any(|item| item.to_string() == value.to_string())
}
