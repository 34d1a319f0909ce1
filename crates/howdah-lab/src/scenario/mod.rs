//! Scenario files: strict TOML that says what is run, over which network, and what is measured.
//!
//! `docs/lab.md` explains every key. In short: a file is one experiment, or several that share
//! what stands outside of `[experiment.NAME]`; a list in the place of a value spans an axis of the
//! matrix; `$name` refers to a value of `[axes]`; `[quick]` is laid over the rest for the reduced
//! set. [`load`] turns files and directories into a [`Plan`] of [`Cell`]s.

mod cell;
mod decode;
mod error;
mod expand;
mod needless;
mod node;
mod one_way;
mod read;
mod repeats;
mod sweep;
mod values;

pub use cell::{
    BacklogSpec, Cell, Change, CostSpec, DisturbanceSpec, FlowSpec, GroupSpec, HostSpec, Measure,
    PathSpec, StreamSpec,
};
pub use error::ScenarioError;
pub use one_way::{AqmSpec, JitterSpec, LossSpec, OneWaySpec, QueueSpec, TraceSpec};

use howdah_report::result::ScenarioText;
use needless::Needless;
use node::{Node, Sources, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Files that include files that include files are a mistake at this depth.
const MAX_INCLUDE_DEPTH: usize = 8;
/// So are more files than that for one scenario.
const MAX_FILES: usize = 1_000;
/// Bytes of a scenario; no more of a longer file is read.
const MAX_BYTES: u64 = 16 << 20;

/// Everything that is to be run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The experiments, in the order of the files.
    pub experiments: Vec<Experiment>,
    /// Every file that was read.
    pub files: Vec<ScenarioText>,
}

/// One experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Experiment {
    /// Name, as the ledger knows it: "J-A1".
    pub id: String,
    /// What it is about, in a line.
    pub title: String,
    /// Which paper it comes from: "JGN06".
    pub paper: String,
    /// Which figure or table it repeats.
    pub figure: String,
    /// Remarks.
    pub note: String,
    /// The file that it stands in.
    pub file: PathBuf,
    /// Axes of the matrix with their values.
    pub axes: Vec<(String, Vec<String>)>,
    /// Values that the paper does not state (`stated = false`): key and value.
    pub chosen: Vec<(String, String)>,
    /// Values that come from a fit (`fitted = true`): key and value.
    pub fitted: Vec<(String, String)>,
    /// What is swept: key, and its values with their source. Empty where no sweep is asked for.
    pub swept: Vec<(String, String)>,
    /// The cells.
    pub cells: Vec<Cell>,
}

/// Which of a scenario's cells are wanted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Wanted {
    /// The reduced set.
    pub quick: bool,
    /// All plausible set-ups (`[sweep]`).
    pub sweep: bool,
}

impl Plan {
    /// All cells, in the order of the scenarios.
    pub fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.experiments
            .iter()
            .flat_map(|experiment| &experiment.cells)
    }
}

/// Reads scenario files, and all that stand in directories (`*.toml`, but not `_*.toml`, which are
/// there to be included). `quick` asks for the reduced set.
pub fn load(paths: &[PathBuf], quick: bool) -> Result<Plan, ScenarioError> {
    load_wanted(
        paths,
        Wanted {
            quick,
            sweep: false,
        },
    )
}

/// The same, with the set-ups of `[sweep]` if they are wanted.
pub fn load_wanted(paths: &[PathBuf], wanted: Wanted) -> Result<Plan, ScenarioError> {
    let mut plan = Plan::default();
    for path in paths {
        let files = scenario_files(path)?;
        if files.is_empty() {
            return Err(ScenarioError::in_file(
                path,
                "there is no scenario (*.toml) here",
            ));
        }
        for file in files {
            load_file(&file, wanted, &mut plan)?;
        }
    }
    Ok(plan)
}

/// Reads one scenario from a text; `include` is relative to `path`.
pub fn parse(path: &Path, text: &str, quick: bool) -> Result<Plan, ScenarioError> {
    parse_wanted(
        path,
        text,
        Wanted {
            quick,
            sweep: false,
        },
    )
}

/// The same, with the set-ups of `[sweep]` if they are wanted.
pub fn parse_wanted(path: &Path, text: &str, wanted: Wanted) -> Result<Plan, ScenarioError> {
    let mut plan = Plan::default();
    take_in(Sources::default(), path, text.to_owned(), wanted, &mut plan)?;
    Ok(plan)
}

/// Reads the scenario that is called `path` among these files, which are all that it can include.
pub fn parse_among(
    files: BTreeMap<PathBuf, String>,
    path: &Path,
    wanted: Wanted,
) -> Result<Plan, ScenarioError> {
    let mut plan = Plan::default();
    let sources = Sources::of(files);
    let text = sources.read(path, MAX_BYTES);
    let text = text.map_err(|error| ScenarioError::in_file(path, error))?;
    take_in(sources, path, text, wanted, &mut plan)?;
    Ok(plan)
}

fn scenario_files(path: &Path) -> Result<Vec<PathBuf>, ScenarioError> {
    let unreadable =
        |error: std::io::Error| ScenarioError::in_file(path, format!("cannot be read: {error}"));
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        let hidden = file
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('_'));
        if file
            .extension()
            .is_some_and(|extension| extension == "toml")
            && !hidden
        {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

fn load_file(file: &Path, wanted: Wanted, plan: &mut Plan) -> Result<(), ScenarioError> {
    let sources = Sources::default();
    let text = sources.read(file, MAX_BYTES);
    let text = text.map_err(|error| ScenarioError::in_file(file, error))?;
    take_in(sources, file, text, wanted, plan)
}

/// Adds what a file and those that it includes say.
fn take_in(
    mut sources: Sources,
    file: &Path,
    text: String,
    wanted: Wanted,
    plan: &mut Plan,
) -> Result<(), ScenarioError> {
    let tree = sources.parse(file, text)?;
    let tree = with_includes(&mut sources, file, tree, 0)?;
    let mut needless = Needless::default();
    experiments(&sources, file, tree, wanted, (plan, &mut needless))?;
    // What the whole set uses need not be used by the reduced one.
    if !wanted.quick {
        needless.check(&sources, file)?;
    }
    keep_texts(&sources, plan);
    Ok(())
}

fn keep_texts(sources: &Sources, plan: &mut Plan) {
    for (path, text) in sources.files() {
        let path = path.display().to_string();
        if !plan.files.iter().any(|file| file.path == path) {
            let text = text.clone();
            plan.files.push(ScenarioText { path, text });
        }
    }
}

/// Lays the file over what it includes.
fn with_includes(
    sources: &mut Sources,
    file: &Path,
    mut tree: Node,
    depth: usize,
) -> Result<Node, ScenarioError> {
    let Some(include) = tree.take("include") else {
        return Ok(tree);
    };
    if depth == MAX_INCLUDE_DEPTH {
        return Err(sources.error(include.place, "files include each other without end"));
    }
    let names = match &include.value {
        Value::List(items) => items.iter().collect(),
        _ => vec![&include],
    };
    let mut base = Node::empty_table(tree.place);
    for name in names {
        let Value::Text(text) = &name.value else {
            return Err(sources.error(name.place, "'include' names files"));
        };
        let path = file.parent().unwrap_or_else(|| Path::new("")).join(text);
        if sources.files().len() >= MAX_FILES {
            let message = format!("more than {MAX_FILES} files for one scenario");
            return Err(sources.error(name.place, message));
        }
        let content = sources.read(&path, MAX_BYTES).map_err(|error| {
            let message = format!("{}: {error}", path.display());
            sources.error(name.place, message)
        })?;
        let included = sources.parse(&path, content)?;
        base.merge(with_includes(sources, &path, included, depth + 1)?);
    }
    base.merge(tree);
    Ok(base)
}

/// Takes the file apart into its experiments.
fn experiments(
    sources: &Sources,
    file: &Path,
    mut tree: Node,
    wanted: Wanted,
    (plan, needless): (&mut Plan, &mut Needless),
) -> Result<(), ScenarioError> {
    let Some(several) = tree.take("experiment") else {
        return experiment(sources, file, tree, wanted, (plan, needless));
    };
    if !matches!(several.value, Value::Table(_)) {
        return Err(sources.error(several.place, "write each experiment as [experiment.NAME]"));
    }
    for entry in several.entries() {
        let mut own = tree.clone();
        let mut over = entry.node.clone();
        // The name of the table is the id, and what the table says is said on its lines.
        over.place = entry.key_place;
        if over.get("id").is_none()
            && let Value::Table(entries) = &mut over.value
        {
            entries.push(node::Entry {
                key: "id".to_owned(),
                key_place: entry.key_place,
                node: Node::new(entry.key_place, Value::Text(entry.key.clone())),
            });
        }
        own.merge(over);
        experiment(sources, file, own, wanted, (plan, needless))?;
    }
    Ok(())
}

fn experiment(
    sources: &Sources,
    file: &Path,
    mut tree: Node,
    wanted: Wanted,
    (plan, needless): (&mut Plan, &mut Needless),
) -> Result<(), ScenarioError> {
    let skip = match tree.take("quick") {
        Some(mut over) => {
            let skip = over.take("skip");
            if let Some(node) = skip
                .as_ref()
                .filter(|node| !matches!(node.value, Value::Bool(_)))
            {
                let message = format!("'skip' is true or false, not {}", node.kind());
                return Err(sources.error(node.place, message));
            }
            if wanted.quick {
                tree.merge(over);
            }
            wanted.quick && skip.is_some_and(|node| node.value == Value::Bool(true))
        }
        None => false,
    };
    if skip {
        return Ok(());
    }
    let text = |key: &str| match tree.get(key) {
        None => Ok(String::new()),
        Some(Node {
            value: Value::Text(text),
            ..
        }) => Ok(text.clone()),
        Some(node) => Err(sources.error(node.place, format!("'{key}' is a string"))),
    };
    let id = text("id")?;
    if id.is_empty() {
        return Err(sources.error(tree.place, "the experiment has no 'id'"));
    }
    if !is_name(&id) {
        let place = tree.get("id").map_or(tree.place, |node| node.place);
        let message =
            format!("'id': '{id}' is no name; use letters, digits, '-', '_', '.' and '+'");
        return Err(sources.error(place, message));
    }
    if plan.experiments.iter().any(|known| known.id == id) {
        let place = tree.get("id").map_or(tree.place, |node| node.place);
        return Err(sources.error(place, format!("there is an experiment '{id}' already")));
    }
    let mut made = Experiment {
        title: text("title")?,
        paper: text("paper")?,
        figure: text("figure")?,
        note: text("note")?,
        file: file.to_owned(),
        ..Experiment::default()
    };
    let swept = match tree.take("sweep") {
        Some(table) => sweep::apply(sources, &mut tree, &table, wanted.sweep)?,
        None => Vec::new(),
    };
    let swept = if wanted.sweep { swept } else { Vec::new() };
    made.swept = swept.iter().map(sweep::Swept::words).collect();
    marks(&tree, &mut String::new(), &mut made);
    let (axes, cells) = expand::expand(sources, tree, &swept)?;
    made.axes = axes
        .iter()
        .map(|axis| (axis.name.clone(), axis.labels()))
        .collect();
    needless.look(&cells);
    let most_repeats = (expand::MAX_CELLS / cells.len().max(1)) as u64;
    for cell in &cells {
        made.cells
            .extend(decode::decode(sources, &id, cell, most_repeats)?);
    }
    made.id = id;
    plan.experiments.push(made);
    Ok(())
}

/// Ids stand in tables, addresses of reports and names of files.
fn is_name(id: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || "-_.+".contains(c);
    id.chars().all(is_plain) && !id.starts_with('.') && id.len() <= 100
}

/// Collects the values that are marked.
fn marks(node: &Node, path: &mut String, made: &mut Experiment) {
    if node.chosen {
        made.chosen.push((path.clone(), node.to_string()));
    }
    if node.fitted {
        made.fitted.push((path.clone(), node.to_string()));
    }
    let length = path.len();
    for entry in node.entries() {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(&entry.key);
        marks(&entry.node, path, made);
        path.truncate(length);
    }
}

#[cfg(test)]
mod tests;
