//! Reading a campaign's directory.

use super::ReportError;
use crate::ledger::{self, Entry};
use crate::result::{Campaign, CellResult, Summary};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Everything that a report is made of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loaded {
    /// What holds for all cells.
    pub(crate) campaign: Campaign,
    /// The cells in the order of the scenarios, with their series.
    pub(crate) cells: Vec<CellResult>,
    /// Files that could not be read, and why; they are listed in the report.
    pub(crate) unreadable: Vec<(String, String)>,
    /// The ledger, for each testbed with cells.
    pub(crate) ledger: Vec<(String, Vec<Entry>)>,
}

/// Reads a campaign. A missing or broken `campaign.json` is an error; a broken cell is remembered.
pub(crate) fn load(dir: &Path) -> Result<Loaded, ReportError> {
    let campaign: Campaign = read_json(&dir.join("campaign.json"))?;
    let mut cells: Vec<CellResult> = Vec::new();
    let mut unreadable = Vec::new();
    for path in cell_files(&dir.join("cells"))? {
        match read_json::<CellResult>(&path) {
            Ok(cell) => cells.push(cell),
            Err(error) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                unreadable.push((name.into_owned(), error.to_string()));
            }
        }
    }
    // The summary knows the scenarios' order; without one, cells are ordered by what they are.
    let order: BTreeMap<String, usize> = read_json::<Summary>(&dir.join("summary.json"))
        .map(|summary| summary.cells)
        .unwrap_or_default()
        .into_iter()
        .enumerate()
        .map(|(at, cell)| (cell.id, at))
        .collect();
    cells.sort_by(|a, b| {
        let place = |cell: &CellResult| order.get(&cell.id).copied().unwrap_or(usize::MAX);
        place(a)
            .cmp(&place(b))
            .then_with(|| a.experiment.cmp(&b.experiment))
            .then_with(|| a.at.cmp(&b.at))
            .then_with(|| a.seed.cmp(&b.seed))
            .then_with(|| a.id.cmp(&b.id))
    });
    let mut testbeds: Vec<&str> = cells.iter().map(|cell| cell.testbed.as_str()).collect();
    testbeds.sort_unstable();
    testbeds.dedup();
    let ledger = testbeds
        .into_iter()
        .map(|testbed| (testbed.to_owned(), ledger::entries_on(&cells, testbed)))
        .collect();
    Ok(Loaded {
        campaign,
        cells,
        unreadable,
        ledger,
    })
}

fn cell_files(dir: &Path) -> Result<Vec<std::path::PathBuf>, ReportError> {
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
