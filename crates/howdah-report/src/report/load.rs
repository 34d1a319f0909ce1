//! Reading a campaign's directory.

use super::ReportError;
use crate::ledger::{self, Entry};
use crate::result::{Campaign, CellResult, Summary};
use crate::store::Store;
use crate::together;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Everything that a report is made of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loaded {
    /// What holds for all cells.
    pub(crate) campaign: Campaign,
    /// The cells in the order of the scenarios, with their series.
    pub(crate) cells: Vec<CellResult>,
    /// Files that could not be read, and why; they are listed in the report.
    pub(crate) unreadable: Vec<(String, String)>,
    /// Cells of the campaign that have not been run yet.
    pub(crate) not_run: usize,
    /// Results in the directory that do not belong to the campaign; they are not shown.
    pub(crate) foreign: usize,
    /// The ledger, for each testbed with cells.
    pub(crate) ledger: Vec<(String, Vec<Entry>)>,
}

/// Reads a campaign, and others whose cells are shown with its own. Commit, machine and command at the
/// top are the first one's; each cell has its own commit.
pub(crate) fn load_all(dir: &Path, beside: &[PathBuf]) -> Result<Loaded, ReportError> {
    let mut loaded = load(dir)?;
    let all: Vec<&Path> = std::iter::once(dir)
        .chain(beside.iter().map(PathBuf::as_path))
        .collect();
    let mut names = together::names(&all).into_iter();
    let mut campaigns = vec![(
        names.next().unwrap_or_default(),
        std::mem::take(&mut loaded.cells),
    )];
    for (dir, name) in beside.iter().zip(names) {
        let more = load(dir)?;
        campaigns.push((name, more.cells));
        loaded.unreadable.extend(more.unreadable);
        loaded.not_run += more.not_run;
        loaded.foreign += more.foreign;
        for note in more.campaign.experiments {
            if !loaded.campaign.experiments.iter().any(|n| n.id == note.id) {
                loaded.campaign.experiments.push(note);
            }
        }
        for scenario in more.campaign.scenarios {
            if !loaded.campaign.scenarios.contains(&scenario) {
                loaded.campaign.scenarios.push(scenario);
            }
        }
        if !loaded.campaign.command.contains(&more.campaign.command) {
            loaded.campaign.command.push_str("; ");
            loaded.campaign.command.push_str(&more.campaign.command);
        }
        for (own, more) in [
            (&mut loaded.campaign.chosen, more.campaign.chosen),
            (&mut loaded.campaign.fitted, more.campaign.fitted),
        ] {
            for (id, values) in more {
                own.entry(id).or_insert(values);
            }
        }
    }
    loaded.cells = together::together(campaigns);
    if !beside.is_empty() {
        loaded.ledger = judge(&loaded.cells);
    }
    Ok(loaded)
}

/// The ledger of each testbed that has cells.
fn judge(cells: &[CellResult]) -> Vec<(String, Vec<Entry>)> {
    let mut testbeds: Vec<&str> = cells.iter().map(|cell| cell.testbed.as_str()).collect();
    testbeds.sort_unstable();
    testbeds.dedup();
    testbeds
        .into_iter()
        .map(|testbed| (testbed.to_owned(), ledger::entries_on(cells, testbed)))
        .collect()
}

/// A campaign with these cells, however they came.
pub(crate) fn of_cells(campaign: Campaign, cells: Vec<CellResult>) -> Loaded {
    Loaded {
        not_run: campaign.cells.len().saturating_sub(cells.len()),
        ledger: judge(&cells),
        campaign,
        cells,
        ..Loaded::default()
    }
}

/// Reads a campaign. A missing or broken `campaign.json` is an error; a broken cell is remembered.
pub(crate) fn load(dir: &Path) -> Result<Loaded, ReportError> {
    let campaign: Campaign = read_json(&dir.join("campaign.json"))?;
    let mut loaded = Loaded::default();
    let mut cells: Vec<CellResult> = Vec::new();
    for path in cell_files(&dir.join("cells"))? {
        match read_json::<CellResult>(&path) {
            Ok(mut cell) => {
                cell.reduced |= campaign.quick;
                cells.push(cell);
            }
            Err(error) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                loaded
                    .unreadable
                    .push((name.into_owned(), error.to_string()));
            }
        }
    }
    // The campaign knows its cells and their order; others in the directory are of earlier ones.
    let order: BTreeMap<&str, usize> = campaign
        .cells
        .iter()
        .enumerate()
        .map(|(at, id)| (id.as_str(), at))
        .collect();
    let found = cells.len();
    if !order.is_empty() {
        cells.retain(|cell| order.contains_key(cell.id.as_str()));
        let broken = loaded.unreadable.len();
        loaded.not_run = order.len().saturating_sub(cells.len() + broken);
    }
    loaded.foreign = found - cells.len();
    cells.sort_by(|a, b| {
        let place = |cell: &CellResult| order.get(cell.id.as_str()).copied();
        place(a)
            .cmp(&place(b))
            .then_with(|| a.experiment.cmp(&b.experiment))
            .then_with(|| a.at.cmp(&b.at))
            .then_with(|| a.seed.cmp(&b.seed))
            .then_with(|| a.id.cmp(&b.id))
    });
    let store = Store::open(dir).ok();
    for cell in &mut cells {
        let intervals = store
            .as_ref()
            .filter(|_| cell.error.is_none() && cell.skipped.is_none());
        if let Some(Err(error)) = intervals.map(|store| store.read_intervals(cell)) {
            let file = format!("intervals/{}.parquet", cell.id);
            loaded.unreadable.push((file, error.to_string()));
        }
    }
    add_figures_of_neighbours(&mut cells, &dir.join("summary.json"));

    loaded.ledger = judge(&cells);
    Ok(Loaded {
        campaign,
        cells,
        ..loaded
    })
}

/// In campaigns of before they were written into the cells' files, too, figures that need more than one cell (harm) are in the summary only.
/// What else a cell lacks it has not: it may have been run again since.
fn add_figures_of_neighbours(cells: &mut [CellResult], summary: &Path) {
    let Ok(summary) = read_json::<Summary>(summary) else {
        return;
    };
    let known: BTreeMap<String, CellResult> = (summary.cells.into_iter())
        .map(|cell| (cell.id.clone(), cell))
        .collect();
    for cell in cells {
        let same = known
            .get(&cell.id)
            .filter(|then| (&then.commit, &then.fingerprint) == (&cell.commit, &cell.fingerprint));
        let metrics = same.into_iter().flat_map(|then| &then.metrics);
        for (name, value) in metrics.filter(|(name, _)| name.starts_with("harm/")) {
            cell.metrics.entry(name.clone()).or_insert(*value);
        }
    }
}

fn cell_files(dir: &Path) -> Result<Vec<PathBuf>, ReportError> {
    let fail = |error| ReportError::Read {
        path: dir.to_owned(),
        error,
    };
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(fail(error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(fail)?.path();
        if path.extension().is_some_and(|e| e == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, ReportError> {
    let text = std::fs::read_to_string(path).map_err(|error| ReportError::Read {
        path: path.to_owned(),
        error,
    })?;
    serde_json::from_str(&text).map_err(|error| ReportError::Format {
        path: path.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cell that was run again lacks what it has not reached this time, whatever the table of the run before has.
    #[test]
    fn a_cell_has_no_figures_of_an_earlier_run_of_it() {
        let cell = |fingerprint: &str| CellResult {
            id: "a".to_owned(),
            fingerprint: fingerprint.to_owned(),
            ..CellResult::default()
        };
        let figures = [("convergence_s", 12.0), ("harm/main", 0.5)];
        let figures = figures.map(|(name, value)| (name.to_owned(), value));
        let before = CellResult {
            metrics: figures.into(),
            ..cell("then")
        };
        for (fingerprint, known) in [("now", &[][..]), ("then", &["harm/main"])] {
            let dir = tempfile::tempdir().unwrap();
            let store = Store::create(dir.path()).unwrap();
            store.write_campaign(&Campaign::default()).unwrap();
            store.write(&cell(fingerprint)).unwrap();
            let table = Summary {
                cells: vec![before.clone()],
                ..Summary::default()
            };
            store.write_summary(&table).unwrap();
            let loaded = load(dir.path()).unwrap();
            let metrics = loaded.cells[0].metrics.keys();
            assert!(
                metrics.eq(known),
                "{fingerprint}: {:?}",
                loaded.cells[0].metrics
            );
        }
    }
}
