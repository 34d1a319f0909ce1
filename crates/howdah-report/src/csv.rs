//! A campaign as CSV (RFC 4180), for spreadsheets and for programs that do not read Parquet.
//!
//! `figures.csv` has a row for each figure of each cell, `series.csv` one for each interval of each flow and stream. Both say in every
//! row what it is: campaign, experiment, testbed, seed, the cell's place on each axis (`axis.NAME`), and the unit.

use crate::figures;
use crate::result::{CellResult, Interval, Summary};
use crate::store::{Store, StoreError, whole};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum CsvError {
    /// A campaign cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What comes before the axes in each row.
const CELL: [&str; 6] = [
    "campaign",
    "commit",
    "experiment",
    "testbed",
    "cell",
    "seed",
];
const SERIES: [&str; 11] = [
    "flow",
    "t_s",
    "goodput_bps",
    "wire_bps",
    "retransmitted_bytes",
    "cwnd_bytes",
    "in_flight_bytes",
    "srtt_ms",
    "queue_ms",
    "jitter_ms",
    "kind",
];

/// The files in that directory.
pub fn paths(out: &Path) -> [PathBuf; 2] {
    ["figures.csv", "series.csv"].map(|name| out.join(name))
}

/// Whether that is how one of them begins.
pub fn is_begun_by(head: &[u8]) -> bool {
    head.starts_with(CELL.join(",").as_bytes())
}

/// Writes both files of the campaigns in these directories into `out`, which is made if it is not there, and returns their paths.
///
/// # Errors
/// If a campaign cannot be read or a file not be written.
pub fn write(dirs: &[PathBuf], out: &Path) -> Result<[PathBuf; 2], CsvError> {
    let mut campaigns = Vec::new();
    for dir in dirs {
        let store = Store::open(dir)?;
        let summary = store.summary()?;
        campaigns.push((dir.display().to_string(), store, summary));
    }
    let cells = || campaigns.iter().flat_map(|(_, _, summary)| &summary.cells);
    let axes: BTreeSet<&str> = cells()
        .flat_map(|cell| cell.at.keys().map(String::as_str))
        .collect();
    let axes: Vec<&str> = axes.into_iter().collect();
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| CsvError::Write {
            path: path.clone(),
            source,
        }
    };
    fs::create_dir_all(out).map_err(failed(out))?;
    let paths = paths(out);
    let [numbers, series] = &paths;
    whole(numbers, failed(numbers), |file| {
        let head = ["subject", "figure", "unit", "value"].map(str::to_owned);
        row(file, heads(&axes).into_iter().chain(head)).map_err(failed(numbers))?;
        for (campaign, _, Summary { cells, .. }) in &campaigns {
            for cell in cells {
                let place = place(campaign, cell, &axes);
                for [subject, figure, value] in read_off(cell) {
                    let unit = figures::unit(&figure).to_owned();
                    let fields = place.iter().cloned().chain([subject, figure, unit, value]);
                    row(file, fields).map_err(failed(numbers))?;
                }
            }
        }
        Ok(())
    })?;
    whole(series, failed(series), |file| {
        let head = SERIES.map(str::to_owned);
        row(file, heads(&axes).into_iter().chain(head)).map_err(failed(series))?;
        for (campaign, store, Summary { cells, .. }) in &campaigns {
            for cell in cells {
                let mut cell = cell.clone();
                // Cells without a result have no series either.
                if !store.intervals_path(&cell.id).is_file() {
                    continue;
                }
                store.read_intervals(&mut cell)?;
                let place = place(campaign, &cell, &axes);
                for fields in intervals(&cell) {
                    row(file, place.iter().cloned().chain(fields)).map_err(failed(series))?;
                }
            }
        }
        Ok(())
    })?;
    Ok(paths)
}

fn heads(axes: &[&str]) -> Vec<String> {
    let own = CELL.into_iter().map(str::to_owned);
    own.chain(axes.iter().map(|axis| format!("axis.{axis}")))
        .collect()
}

fn place(campaign: &str, cell: &CellResult, axes: &[&str]) -> Vec<String> {
    let own = [
        campaign.to_owned(),
        cell.commit.clone(),
        cell.experiment.clone(),
        cell.testbed.clone(),
        cell.id.clone(),
        cell.seed.to_string(),
    ];
    let at = |axis: &&str| cell.at.get(*axis).cloned().unwrap_or_default();
    own.into_iter().chain(axes.iter().map(at)).collect()
}

/// All numbers of a cell, and its error: subject (a flow, a link, ...), name, value.
fn read_off(cell: &CellResult) -> Vec<[String; 3]> {
    let numbers = figures::of(cell).into_iter();
    let mut all: Vec<[String; 3]> = numbers
        .map(|figure| [figure.subject, figure.name, figure.value.to_string()])
        .collect();
    for (figure, text) in [("error", &cell.error), ("skipped", &cell.skipped)] {
        all.extend(
            text.as_ref()
                .map(|text| ["", figure, text].map(str::to_owned)),
        );
    }
    all
}

fn intervals(cell: &CellResult) -> Vec<[String; SERIES.len()]> {
    let fields = |name: &str, at: &Interval, jitter_ms: Option<f64>, kind: &str| {
        [
            name.to_owned(),
            at.t_s.to_string(),
            at.goodput_bps.to_string(),
            at.wire_bps.to_string(),
            at.retransmitted_bytes.to_string(),
            at.cwnd_bytes.to_string(),
            at.in_flight_bytes.to_string(),
            at.srtt_ms.to_string(),
            at.queue_ms.to_string(),
            jitter_ms
                .map(|jitter_ms| jitter_ms.to_string())
                .unwrap_or_default(),
            kind.to_owned(),
        ]
    };
    let flows = cell.flows.iter().flat_map(|flow| {
        let rows = flow.intervals.iter();
        rows.map(|at| fields(&flow.name, at, None, "flow"))
    });
    let streams = cell.streams.iter().flat_map(|stream| {
        let rows = stream.intervals.iter().enumerate();
        rows.map(|(n, at)| {
            fields(
                &stream.name,
                at,
                stream.jitter_series_ms.get(n).copied(),
                "stream",
            )
        })
    });
    flows.chain(streams).collect()
}

fn row(out: &mut impl Write, fields: impl IntoIterator<Item = String>) -> io::Result<()> {
    let fields: Vec<String> = fields.into_iter().map(|field| quoted(&field)).collect();
    write!(out, "{}\r\n", fields.join(","))
}

/// RFC 4180, section 2: in quotes where it has to be, and quotes doubled.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{FlowResult, LinkResult};

    /// Rows and fields, by the RFC's grammar.
    fn parse(text: &str) -> Vec<Vec<String>> {
        let (mut rows, mut fields, mut field) = (Vec::new(), Vec::new(), String::new());
        let mut inside = false;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '"' if inside && chars.peek() == Some(&'"') => {
                    chars.next();
                    field.push('"');
                }
                '"' => inside = !inside,
                ',' if !inside => fields.push(std::mem::take(&mut field)),
                '\r' if !inside => {}
                '\n' if !inside => {
                    fields.push(std::mem::take(&mut field));
                    rows.push(std::mem::take(&mut fields));
                }
                c => field.push(c),
            }
        }
        rows
    }

    #[test]
    fn every_figure_says_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create(&dir.path().join("a")).unwrap();
        let mut cell = CellResult {
            id: "c1".to_owned(),
            experiment: "J \"A\", 1".to_owned(),
            testbed: "sim".to_owned(),
            seed: 7,
            ..CellResult::default()
        };
        cell.at.insert("buffer".to_owned(), "0.5bdp".to_owned());
        cell.flows.push(FlowResult {
            name: "main".to_owned(),
            goodput_bps: 931_000_000.5,
            intervals: vec![Interval {
                t_s: 1.0,
                goodput_bps: 9e8,
                ..Interval::default()
            }],
            ..FlowResult::default()
        });
        cell.links.push(LinkResult {
            name: "main/forward".to_owned(),
            queue_ms: [1.0, 2.5, 3.0],
            ..LinkResult::default()
        });
        cell.metrics.insert("delay_p95_ms/probe".to_owned(), 21.25);
        cell.metrics.insert("change_bps/main/2".to_owned(), 5e8);
        store
            .write_campaign(&crate::result::Campaign::default())
            .unwrap();
        store.write(&cell).unwrap();
        store
            .write_summary(&Summary {
                cells: vec![cell],
                ..Summary::default()
            })
            .unwrap();

        let out = dir.path().join("csv");
        let [figures, series] = write(&[dir.path().join("a")], &out).unwrap();
        let rows = parse(&fs::read_to_string(figures).unwrap());
        let head = &rows[0];
        assert!(rows.iter().all(|row| row.len() == head.len()), "{rows:?}");
        let at = |name: &str| head.iter().position(|head| head == name).unwrap();
        let find = |subject: &str, figure: &str| {
            let found = rows
                .iter()
                .find(|row| row[at("subject")] == subject && row[at("figure")] == figure);
            let row = found.unwrap_or_else(|| panic!("{subject} {figure}: {rows:?}"));
            assert_eq!(row[at("experiment")], "J \"A\", 1");
            assert_eq!(
                (&*row[at("seed")], &*row[at("axis.buffer")]),
                ("7", "0.5bdp")
            );
            (
                row[at("unit")].clone(),
                row[at("value")].parse::<f64>().unwrap(),
            )
        };
        assert_eq!(
            find("main", "goodput_bps"),
            ("bit/s".to_owned(), 931_000_000.5)
        );
        assert_eq!(find("main/forward", "queue_p95_ms"), ("ms".to_owned(), 2.5));
        assert_eq!(find("probe", "delay_p95_ms"), ("ms".to_owned(), 21.25));
        assert_eq!(find("main/2", "change_bps"), ("bit/s".to_owned(), 5e8));
        let rows = parse(&fs::read_to_string(series).unwrap());
        assert_eq!(rows.len(), 2);
        let at = |name: &str| rows[0].iter().position(|head| head == name).unwrap();
        assert_eq!(
            (&*rows[1][at("flow")], &*rows[1][at("goodput_bps")]),
            ("main", "900000000")
        );
    }
}
