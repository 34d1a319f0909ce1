//! The directory of a campaign.

use crate::intervals;
use crate::result::{Campaign, CellResult, Summary};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, BufWriter, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

/// What a Parquet file begins and ends with.
const PARQUET: &[u8; 4] = b"PAR1";

/// Results on disk. Every file is written whole under another name and then renamed, the cell's
/// JSON last: what is there is complete.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
}

/// A file of results that could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk is full.
    #[error("no space left to write {}", .0.display())]
    Full(PathBuf),
    /// Another failure of the file system.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// There is no campaign in the directory.
    #[error("{}: no campaign here ('howdah lab run' writes one)", .0.display())]
    NoCampaign(PathBuf),
    /// A campaign would be written over it.
    #[error(
        "{}: it is no campaign's, and stays as it is; name another directory, or remove it first", .0.display()
    )]
    Others(PathBuf),
    /// The file is not what it should be.
    #[error("{}: {message}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
}

impl Store {
    /// The directory, made if need be. Files of a campaign's names that are none's are not written over.
    pub fn create(dir: &Path) -> Result<Self, StoreError> {
        let is_there = |path: &PathBuf| path.metadata().is_ok_and(|found| found.len() > 0);
        let is_campaign = |path: &PathBuf| read_json::<Campaign>(path).is_ok();
        let notes = dir.join("campaign.json");
        if !is_campaign(&notes) {
            let mut taken = [notes, dir.join("summary.json")].into_iter();
            if let Some(others) = taken.find(is_there) {
                return Err(StoreError::Others(others));
            }
        }
        for part in ["cells", "intervals"] {
            let path = dir.join(part);
            fs::create_dir_all(&path).map_err(|error| io_error(&path, error))?;
        }
        Ok(Self {
            dir: dir.to_owned(),
        })
    }

    /// The directory, which must hold a campaign.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        if !dir.join("campaign.json").is_file() {
            return Err(StoreError::NoCampaign(dir.to_owned()));
        }
        Ok(Self {
            dir: dir.to_owned(),
        })
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// File of the intervals of a cell.
    pub fn intervals_path(&self, id: &str) -> PathBuf {
        self.dir.join("intervals").join(format!("{id}.parquet"))
    }

    fn cell_path(&self, id: &str) -> PathBuf {
        self.dir.join("cells").join(format!("{id}.json"))
    }

    /// Number of cells with a result.
    pub fn finished(&self) -> usize {
        fs::read_dir(self.dir.join("cells")).map_or(0, |entries| {
            entries
                .flatten()
                .filter(|entry| entry.path().extension().is_some_and(|e| e == "json"))
                .count()
        })
    }

    /// The result of a cell, if it is there and whole. Without its intervals.
    pub fn read(&self, id: &str) -> Option<CellResult> {
        let text = fs::read(self.cell_path(id)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Writes the result of a cell.
    pub fn write(&self, result: &CellResult) -> Result<(), StoreError> {
        let path = self.intervals_path(&result.id);
        let table = intervals::encode(result).map_err(|error| StoreError::Damaged {
            path: path.clone(),
            message: error.to_string(),
        })?;
        replace(&path, &table)?;
        write_json(&self.cell_path(&result.id), result)
    }

    /// Writes the result of a cell whose series are there already.
    pub fn write_again(&self, result: &CellResult) -> Result<(), StoreError> {
        write_json(&self.cell_path(&result.id), result)
    }

    /// Whether the file of a cell's intervals is there and has its end.
    pub fn has_intervals(&self, id: &str) -> bool {
        let ends = || -> io::Result<[[u8; 4]; 2]> {
            let mut file = File::open(self.intervals_path(id))?;
            let mut ends = [[0; 4]; 2];
            file.read_exact(&mut ends[0])?;
            file.seek(io::SeekFrom::End(-4))?;
            file.read_exact(&mut ends[1])?;
            Ok(ends)
        };
        ends().is_ok_and(|ends| ends == [*PARQUET; 2])
    }

    /// The cell's flows with their intervals, from its file.
    pub fn read_intervals(&self, result: &mut CellResult) -> Result<(), StoreError> {
        let path = self.intervals_path(&result.id);
        let bytes = fs::read(&path).map_err(|error| io_error(&path, error))?;
        intervals::decode(bytes, result).map_err(|error| StoreError::Damaged {
            path,
            message: error.to_string(),
        })
    }

    fn runs_path(&self, id: &str) -> PathBuf {
        self.dir.join("runs").join(format!("{id}.json"))
    }

    fn run_intervals_path(&self, id: &str, run: usize) -> PathBuf {
        let name = format!("{id}-{}.parquet", run + 1);
        self.dir.join("runs").join(name)
    }

    /// Every run of a cell that a testbed repeats, with the intervals of those that have them.
    pub fn read_runs(&self, id: &str) -> Vec<CellResult> {
        let text = fs::read(self.runs_path(id)).unwrap_or_default();
        let mut runs: Vec<CellResult> = serde_json::from_slice(&text).unwrap_or_default();
        for (index, run) in runs.iter_mut().enumerate() {
            if let Ok(bytes) = fs::read(self.run_intervals_path(id, index)) {
                // A run whose series is damaged still counts.
                let _ = intervals::decode(bytes, run);
            }
        }
        runs
    }

    /// As [`summary`](Self::summary), with every run of a cell that a testbed repeats in the place of the one that stands for them.
    pub fn every_run(&self) -> Result<Summary, StoreError> {
        let mut summary = self.summary()?;
        let runs = |cell: CellResult| {
            let runs = self.read_runs(&cell.id);
            if runs.is_empty() { vec![cell] } else { runs }
        };
        summary.cells = summary.cells.into_iter().flat_map(runs).collect();
        Ok(summary)
    }

    /// Writes them, and the intervals of the last one: any of them may become the one that stands for the cell.
    pub fn write_runs(&self, id: &str, runs: &[CellResult]) -> Result<(), StoreError> {
        let path = self.runs_path(id);
        let dir = self.dir.join("runs");
        fs::create_dir_all(&dir).map_err(|error| io_error(&dir, error))?;
        if let Some((last, before)) = runs.split_last() {
            let path = self.run_intervals_path(id, before.len());
            let table = intervals::encode(last).map_err(|error| StoreError::Damaged {
                path: path.clone(),
                message: error.to_string(),
            })?;
            replace(&path, &table)?;
        }
        write_json(&path, &runs)
    }

    /// Writes what holds for all cells.
    pub fn write_campaign(&self, campaign: &Campaign) -> Result<(), StoreError> {
        write_json(&self.dir.join("campaign.json"), campaign)
    }

    /// What holds for all cells.
    pub fn campaign(&self) -> Result<Campaign, StoreError> {
        read_json(&self.dir.join("campaign.json"))
    }

    /// Writes the table of all cells.
    pub fn write_summary(&self, summary: &Summary) -> Result<(), StoreError> {
        write_json(&self.dir.join("summary.json"), summary)
    }

    /// The table of all cells: of each what its own file says, which is newer than the written table where a run did
    /// not come to its end.
    pub fn summary(&self) -> Result<Summary, StoreError> {
        let path = self.dir.join("summary.json");
        let written: Option<Summary> = path.is_file().then(|| read_json(&path)).transpose()?;
        let campaign = self.campaign()?;
        if let Some(written) = written.as_ref().filter(|_| campaign.cells.is_empty()) {
            return Ok(written.clone());
        }
        let of_table = |id: &String| {
            let mut cells = written.iter().flat_map(|summary| &summary.cells);
            cells.find(|cell| cell.id == *id).cloned()
        };
        let mut cells: Vec<CellResult> = (campaign.cells.iter())
            .filter_map(|id| self.read(id).or_else(|| of_table(id)))
            .collect();
        for cell in &mut cells {
            cell.reduced |= campaign.quick;
        }
        Ok(Summary { campaign, cells })
    }
}

fn io_error(path: &Path, error: io::Error) -> StoreError {
    let path = path.to_owned();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full(path),
        _ => StoreError::Io { path, error },
    }
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), StoreError> {
    let mut text = serde_json::to_vec_pretty(value).map_err(|error| StoreError::Damaged {
        path: path.to_owned(),
        message: error.to_string(),
    })?;
    text.push(b'\n');
    replace(path, &text)
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, StoreError> {
    let text = fs::read(path).map_err(|error| io_error(path, error))?;
    serde_json::from_slice(&text).map_err(|error| StoreError::Damaged {
        path: path.to_owned(),
        message: error.to_string(),
    })
}

/// Writes a file so that it is there whole or not at all.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    let failed = |error| io_error(path, error);
    whole(path, failed, |file| file.write_all(content).map_err(failed))
}

/// The same of one that is written piece by piece. Nothing is left of what fails.
pub(crate) fn whole<E>(
    path: &Path,
    failed: impl Fn(io::Error) -> E,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    // Others may write the same at the same time, on other hosts too, where process numbers are the same.
    let lot = RandomState::new().hash_one(std::process::id());
    let temporary = path.with_extension(format!("tmp{lot:016x}"));
    let make = || {
        let mut file = BufWriter::new(File::create(&temporary).map_err(&failed)?);
        write(&mut file)?;
        let file = file.into_inner();
        let file = file.map_err(|error| failed(error.into_error()))?;
        file.sync_data().map_err(&failed)?;
        fs::rename(&temporary, path).map_err(&failed)
    };
    let made = make();
    if made.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{FlowResult, Interval};

    #[test]
    fn cells_count_that_are_newer_than_the_table() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create(dir.path()).unwrap();
        let cell = |id: &str, duration_s: f64| CellResult {
            id: id.to_owned(),
            duration_s,
            ..CellResult::default()
        };
        let campaign = Campaign {
            cells: ["a", "b", "c"].map(str::to_owned).into(),
            ..Campaign::default()
        };
        store.write_campaign(&campaign).unwrap();
        let table = Summary {
            campaign: Campaign::default(),
            cells: vec![cell("a", 1.0), cell("b", 1.0)],
        };
        store.write_summary(&table).unwrap();
        for newer in [cell("b", 2.0), cell("c", 2.0)] {
            store.write(&newer).unwrap();
        }
        let summary = store.summary().unwrap();
        assert_eq!(summary.campaign, campaign);
        let cells = [cell("a", 1.0), cell("b", 2.0), cell("c", 2.0)];
        assert_eq!(summary.cells, cells);
    }

    #[test]
    fn every_run_of_a_repeated_cell_keeps_its_series() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create(dir.path()).unwrap();
        let run = |bps: f64| CellResult {
            id: "a".to_owned(),
            flows: vec![FlowResult {
                name: "main".to_owned(),
                intervals: vec![Interval {
                    t_s: 0.5,
                    goodput_bps: bps,
                    ..Interval::default()
                }],
                ..FlowResult::default()
            }],
            ..CellResult::default()
        };
        let mut runs = Vec::new();
        for bps in [1.0, 2.0, 3.0] {
            runs.push(run(bps));
            store.write_runs("a", &runs).unwrap();
        }
        assert_eq!(store.read_runs("a"), runs);
        fs::write(store.run_intervals_path("a", 1), b"torn").unwrap();
        let read = store.read_runs("a");
        assert_eq!((read.len(), read[1].flows[0].intervals.len()), (3, 0));
    }
}
