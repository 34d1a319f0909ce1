//! From the tree of a cell to the [`Cell`].

mod aqm;
mod blast;
mod flow;
mod host;
mod impair;
mod path;
mod trace;

use super::cell::{BacklogSpec, Cell, Change, Measure, PathSpec};
use super::error::{ScenarioError, hint};
use super::expand::{Expanded, MAX_CELLS};
use super::node::{Node, Sources, Value};
use super::read::Table;
use flow::Decoder;
pub(super) use flow::option_keys;
use howdah_core::Span;
use path::{ONE_WAY_KEYS, PATH_KEYS};

/// Keys of an experiment.
const EXPERIMENT_KEYS: [&str; 20] = [
    "id",
    "title",
    "paper",
    "figure",
    "note",
    "seed",
    "repeats",
    "path",
    "host",
    "flow",
    "group",
    "stream",
    "timeline",
    "measure",
    // These are gone when a cell is decoded; they stand here for the hints.
    "axes",
    "exclude",
    "sweep",
    "quick",
    "include",
    "experiment",
];

/// Longest scenario time: a mistyped unit, not an experiment.
const MAX_DURATION: Span = Span::from_secs(1_000_000);

/// Steps of a series, each of which is kept for each flow.
const MAX_INTERVALS: u64 = 1_000_000;

/// All cells of one place in the matrix: one for each repeat, of which there are `most_repeats` at most.
pub(crate) fn decode(
    sources: &Sources,
    experiment: &str,
    expanded: &Expanded,
    most_repeats: u64,
) -> Result<Vec<Cell>, ScenarioError> {
    let top = Table::open(sources, &expanded.tree, "the experiment", &EXPERIMENT_KEYS)?;
    check_names(&top)?;
    let paths = path::paths(&top)?;
    let hosts = host::hosts(&top)?;
    let measure = measure(&top)?;
    let (paths, timeline) = timeline(&top, paths, Span::from_nanos(measure.duration_ns))?;
    let decoder = Decoder {
        sources,
        paths: &paths,
        hosts: &hosts,
        duration: Span::from_nanos(measure.duration_ns),
    };
    let cell = Cell {
        experiment: experiment.to_owned(),
        at: expanded.at.clone(),
        seed: top.whole("seed", 0)?.unwrap_or(1),
        flows: decoder.all(&top, "flow", Decoder::flow)?,
        groups: decoder.all(&top, "group", Decoder::group)?,
        streams: decoder.all(&top, "stream", Decoder::stream)?,
        timeline,
        measure,
        paths,
        hosts,
    };
    if cell.flows.is_empty() && cell.groups.is_empty() && cell.streams.is_empty() {
        let message = "no flow, group or stream: nothing would happen";
        return Err(sources.error(expanded.tree.place, message));
    }
    let repeats = top.whole("repeats", 1)?.unwrap_or(1);
    if repeats > most_repeats {
        let message =
            format!("{repeats} of each cell; an experiment has at most {MAX_CELLS} cells");
        return Err(top.error_at("repeats", message));
    }
    Ok((0..repeats).map(|number| cell.repeat(number)).collect())
}

/// Results call flows, groups and streams by their names alone, and put what a figure is of behind a slash.
fn check_names(top: &Table<'_>) -> Result<(), ScenarioError> {
    let mut known: Vec<(&str, &str)> = Vec::new();
    for kind in ["path", "host", "flow", "group", "stream"] {
        let table = top.node.get(kind);
        for entry in table.map_or(&[][..], Node::entries) {
            let name = entry.key.as_str();
            let fail = |message: String| Err(top.sources.error(entry.key_place, message));
            if name.is_empty() || name.contains('/') {
                return fail(format!("[{kind}.\"{name}\"]: a name, and without '/'"));
            }
            if ["path", "host"].contains(&kind) {
                continue;
            }
            if let Some((other, _)) = known.iter().find(|(_, other)| *other == name) {
                let message = format!(
                    "[{kind}.{name}]: there is a [{other}.{name}] already, and results have both by their names"
                );
                return fail(message);
            }
            known.push((kind, name));
        }
    }
    Ok(())
}

/// The changes, and the paths, of which those whose queue will be dropped must store it.
fn timeline(
    top: &Table<'_>,
    mut paths: Vec<PathSpec>,
    duration: Span,
) -> Result<(Vec<PathSpec>, Vec<Change>), ScenarioError> {
    let Some(list) = top.node.get("timeline") else {
        return Ok((paths, Vec::new()));
    };
    let Value::List(items) = &list.value else {
        return Err(top.error_at("timeline", "write each change as [[timeline]]"));
    };
    // What each path has become so far.
    let mut trees: Vec<Node> = top
        .node
        .get("path")
        .map(|table| table.entries().iter().map(|e| e.node.clone()).collect())
        .unwrap_or_default();
    let mut changes: Vec<Change> = Vec::new();
    for item in items {
        let own = ["at", "path", "order", "backlog"];
        let known = [&own, &ONE_WAY_KEYS[..], &PATH_KEYS].concat();
        let table = Table::open(top.sources, item, "[[timeline]]", &known)?;
        let at = table
            .span("at")?
            .ok_or_else(|| table.error("'at' is missing"))?;
        if changes
            .last()
            .is_some_and(|last| last.at_ns > at.as_nanos())
        {
            return Err(table.error_at("at", "earlier than the change before it"));
        }
        if at >= duration {
            let message = format!("the measurement ends after {duration}: it would never happen");
            return Err(table.error_at("at", message));
        }
        let index = match table.text("path")? {
            Some(name) => find_path(&table, "path", &name, &paths)?,
            None if paths.len() == 1 => 0,
            None => return Err(table.error("'path' is missing")),
        };
        let mut over = item.clone();
        for key in own {
            let _ = over.take(key);
        }
        if over.entries().is_empty() {
            return Err(table.error("nothing changes"));
        }
        // A path has either a round-trip time or a delay: the new one wins.
        for (new, old) in [("delay", "rtt"), ("delay", "base_rtt"), ("rtt", "delay")] {
            if over.get(new).is_some() {
                let _ = trees[index].take(old);
            }
        }
        trees[index].merge(over);
        let name = &paths[index].name;
        let spec = path::path(top.sources, name, &trees[index], "[[timeline]]")?;
        changes.push(Change {
            at_ns: at.as_nanos(),
            path: index,
            forward: spec.forward,
            backward: spec.backward,
            overtake: table.parse("order", |text| match text {
                "kept" => Ok(false),
                "overtake" => Ok(true),
                _ => Err("'kept' or 'overtake'"),
            })?,
            backlog: backlog(&table)?,
        });
    }
    for (index, path) in paths.iter_mut().enumerate() {
        let own = || changes.iter().filter(|change| change.path == index);
        if own().any(|change| change.backlog == BacklogSpec::Dropped) {
            path.forward.stored_queue = true;
            path.backward.stored_queue = true;
        }
    }
    Ok((paths, changes))
}

fn backlog(table: &Table<'_>) -> Result<BacklogSpec, ScenarioError> {
    let backlog = table.parse("backlog", |text| match text {
        "inherited" => Ok(BacklogSpec::Inherited),
        "drains" => Ok(BacklogSpec::Drains),
        "dropped" => Ok(BacklogSpec::Dropped),
        _ => Err("'inherited', 'drains' or 'dropped'"),
    })?;
    Ok(backlog.unwrap_or_default())
}

fn find_path(
    table: &Table<'_>,
    key: &str,
    name: &str,
    paths: &[PathSpec],
) -> Result<usize, ScenarioError> {
    let names: Vec<&str> = paths.iter().map(|path| path.name.as_str()).collect();
    names
        .iter()
        .position(|known| *known == name)
        .ok_or_else(|| table.error_at(key, format!("no path '{name}'{}", hint(name, &names))))
}

fn measure(top: &Table<'_>) -> Result<Measure, ScenarioError> {
    let empty = Node::empty_table(top.node.place);
    let node = top.node.get("measure").unwrap_or(&empty);
    let known = [
        "duration",
        "warmup",
        "interval",
        "settle",
        "until_complete",
        "start",
        "fast_forward",
    ];
    let table = Table::open(top.sources, node, "[measure]", &known)?;
    let duration = table
        .span("duration")?
        .ok_or_else(|| table.error("'duration' is missing"))?;
    if duration.is_zero() || duration > MAX_DURATION {
        return Err(table.error_at("duration", format!("{duration} is no time to measure")));
    }
    let warmup = table.span("warmup")?.unwrap_or(Span::ZERO);
    if warmup >= duration {
        return Err(table.error_at("warmup", "not shorter than 'duration'"));
    }
    // What is shorter than an interval is one.
    let usual = Span::from_secs(1).min(duration);
    let interval = table.span("interval")?.unwrap_or(usual);
    if interval < Span::from_millis(1) || interval > duration {
        return Err(table.error_at("interval", "from 1ms to 'duration'"));
    }
    if duration.as_nanos() / interval.as_nanos() > MAX_INTERVALS {
        let message = format!("{duration} have more than {MAX_INTERVALS} of {interval}");
        return Err(table.error_at("interval", message));
    }
    let settle = table.probability("settle")?;
    if settle == Some(0.0) {
        return Err(table.error_at("settle", "a confidence interval is never 0 wide"));
    }
    if settle.is_some() && warmup.is_zero() {
        let message = "needs a 'warmup', or the ramp at the start counts for the mean";
        return Err(table.error_at("settle", message));
    }
    Ok(Measure {
        duration_ns: duration.as_nanos(),
        warmup_ns: warmup.as_nanos(),
        interval_ns: interval.as_nanos(),
        settle,
        until_complete: table.truth("until_complete")?.unwrap_or(false),
        start: table.truth("start")?.unwrap_or(false),
        fast_forward: table.truth("fast_forward")?.unwrap_or(false),
    })
}
