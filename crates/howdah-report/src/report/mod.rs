//! The report: one HTML file from a campaign's directory, with its plots, their data and what draws them inside, and nothing outside.
//!
//! | module | what it does |
//! |---|---|
//! | `load` | reads the campaign |
//! | `experiment` | gathers cells and finds their axes |
//! | `measure` | one number per run, with name and unit |
//! | `stats` | median and interval over the seeds |
//! | `figures` | chooses the plots, and says what is in them |
//! | `chart` | makes Vega-Lite specifications of them |
//! | `sections`, `page`, `page.html` | everything else, and the whole |
//! | `single` | a page for one figure alone |
//! | `papers` | the papers' figures, and what their texts state of them |
//! | `rfc9743` | a protocol under the headings of RFC 9743 |
//! | `fidelity` | simulation beside testbed |
//! | `names` | what is known about experiments and protocols |
//!
//! The same results give the same bytes: nothing is read from the clock, and nothing depends on the
//! order of a hash table.

/// The style of a page; the colours of its charts are named in it.
const STYLE: &str = include_str!("page.css");

mod chart;
mod experiment;
mod fidelity;
mod figures;
mod format;
mod html;
mod load;
mod measure;
mod names;
mod page;
mod papers;
mod rfc9743;
mod sections;
mod single;
mod statements;
mod stats;
#[cfg(test)]
mod tests;

use crate::result::{Campaign, CellResult};
use crate::store::whole;
pub(crate) use format::date;
pub(crate) use names::{family, protocol_rank};
pub use single::Single;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// How a report is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Title of the page; a plain one where none is given.
    pub title: Option<String>,
    /// Where the file goes; `report.html` in the campaign's directory where nothing is given.
    pub out: Option<PathBuf>,
    /// Most points of one line of a time series. Long campaigns have fewer, so that the file stays
    /// below some ten megabytes; the report says how many.
    pub points_per_line: usize,
    /// Further campaigns whose cells are shown with those of the first: the testbed's beside the
    /// simulator's.
    pub beside: Vec<PathBuf>,
    /// The protocol that is shown first under the headings of RFC 9743; ours where nothing is given.
    pub subject: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            title: None,
            out: None,
            points_per_line: 400,
            beside: Vec::new(),
            subject: None,
        }
    }
}

/// A report that could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A file of the campaign could not be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file of the campaign is not what it should be.
    #[error("{} is not a file of a campaign: {error}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Why.
        error: serde_json::Error,
    },
    /// The report could not be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// The report of a campaign whose cells are given, with their intervals, in the order of the scenarios.
pub fn page(campaign: Campaign, cells: Vec<CellResult>, options: &Options) -> String {
    page::page(&load::of_cells(campaign, cells), options)
}

/// Writes the report of the campaign in `dir` and returns where it is.
///
/// A cell that cannot be read is listed in the report; only a campaign without a readable
/// `campaign.json`, or a file that cannot be written, is an error. The file appears whole or not at all.
pub fn write(dir: &Path, options: &Options) -> Result<PathBuf, ReportError> {
    let page = page::page(&load::load_all(dir, &options.beside)?, options);
    let path = options
        .out
        .clone()
        .unwrap_or_else(|| dir.join("report.html"));
    put(&path, &page)?;
    Ok(path)
}

/// Writes the specification of each figure of that report, with its data, as `NAME.vl.json` into `out`, and returns the files
/// in the order of the report.
///
/// # Errors
///
/// As [`write()`].
pub fn write_figures(
    dir: &Path,
    out: &Path,
    options: &Options,
) -> Result<Vec<PathBuf>, ReportError> {
    let specs = page::specs(&load::load_all(dir, &options.beside)?, options);
    std::fs::create_dir_all(out).map_err(|error| ReportError::Write {
        path: out.to_owned(),
        error,
    })?;
    let mut paths = Vec::new();
    for (name, spec) in specs {
        let path = out.join(format!("{name}.vl.json"));
        put(&path, &format!("{spec:#}\n"))?;
        paths.push(path);
    }
    Ok(paths)
}

/// The file appears whole or not at all.
fn put(path: &Path, text: &str) -> Result<(), ReportError> {
    let failed = |error| ReportError::Write {
        path: path.to_owned(),
        error,
    };
    whole(path, failed, |file| {
        file.write_all(text.as_bytes()).map_err(failed)
    })
}
