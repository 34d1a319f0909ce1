//! "All systems, all matrices": campaigns' results as Markdown, docs/comparison.md. The first half is simulated: the best
//! system of each matrix and ours, then for each paper a table of rates, of durations, of processor times, of feedback
//! and memory. The second half (`testbed`) is what real programs did.

mod costs;
mod grid;
mod testbed;
#[cfg(test)]
mod tests;
mod words;

use crate::metrics;
use crate::report::family;
use crate::result::{CellResult, FlowResult, Summary};
use crate::store::{StoreError, replace};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

/// More than this is a success, in bit/s (K14proto).
const SUCCESS_BPS: f64 = 100e6;

/// What one system shows in one experiment.
#[derive(Clone, Debug, Default)]
struct Row {
    /// Cells, and those of them that succeed and that ended early.
    cells: usize,
    successes: usize,
    shortened: usize,
    /// Rates in bit/s, of every cell.
    rates: Vec<f64>,
    /// Seconds that sized transfers took, service time included; those that did not end are missing.
    durations: Vec<f64>,
    /// CPU % of a core per Gbit/s, of successful cells.
    sender_cpu: Vec<f64>,
    receiver_cpu: Vec<f64>,
    /// KiB of feedback for each GiB, of successful cells.
    feedback_kib: Vec<f64>,
    /// Most bytes under way: what a sender must keep or be able to read again.
    in_flight_mib: Vec<f64>,
    /// It has sized transfers.
    sized: bool,
}

/// Systems of one experiment, by their name in the matrix.
type Table = BTreeMap<String, Row>;

/// One experiment on one testbed.
#[derive(Clone, Debug, Default)]
struct Matrix {
    id: String,
    title: String,
    /// Flows of different protocols share a link in some cell: the highest rate is not the best.
    company: bool,
    table: Table,
}

/// The same work in two experiments, so that ours is beside the paper's systems: the name for both.
const TOGETHER: &[(&str, &str, &str)] = &[(
    "A1",
    "A1-today",
    "the same file with the paper's movers, ours and today's TCPs, in the cells that both have",
)];

/// Name of our own protocol in matrices.
const OURS: &str = "howdah";

/// First line of the document.
const TITLE: &str = "# All systems, all matrices";

/// A document that could not be brought up to date.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ComparisonError {
    /// The file is another one.
    #[error("{}: no comparison: its first line is not '{TITLE}'; name another file", .0.display())]
    Other(PathBuf),
    /// It could not be read or written.
    #[error(transparent)]
    File(#[from] StoreError),
}

/// Brings up to date what `campaigns` tell of (see [`markdown`]): the whole simulated half, of the other their own sections. The file appears whole or not
/// at all.
///
/// # Errors
///
/// [`ComparisonError::Other`] if there is a file and it is no such document.
pub fn update(path: &Path, campaigns: &[(String, Summary)]) -> Result<(), ComparisonError> {
    let before = match std::fs::read_to_string(path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(ComparisonError::Other(path.to_owned()));
        }
        Err(error) => {
            return Err(StoreError::Io {
                path: path.to_owned(),
                error,
            }
            .into());
        }
    };
    let halves = match &before {
        Some(text) => halves(text).ok_or_else(|| ComparisonError::Other(path.to_owned()))?,
        None => Halves::default(),
    };
    replace(path, with(halves, campaigns).as_bytes())?;
    Ok(())
}

/// Markdown of all experiments of `campaigns`, each given with its directory: those in virtual time in the first half of
/// the document, those of the testbed in the second.
pub fn markdown(campaigns: &[(String, Summary)]) -> String {
    with(Halves::default(), campaigns)
}

/// What is simulated and what is real in a document.
#[derive(Default)]
struct Halves {
    simulated: String,
    real: String,
}

/// A half without a campaign stays as it is; so do campaigns of the testbed that are not among these.
fn with(mut halves: Halves, campaigns: &[(String, Summary)]) -> String {
    // A directory may hold both.
    let only = |wanted: fn(&Summary) -> bool| -> Vec<(String, &Summary)> {
        let found = campaigns.iter().filter(|(_, summary)| wanted(summary));
        found.map(|(dir, summary)| (dir.clone(), summary)).collect()
    };
    let (real, simulated) = (only(testbed::has_real), only(testbed::has_simulated));
    if !simulated.is_empty() {
        halves.simulated = self::simulated(&simulated);
    }
    if !real.is_empty() {
        halves.real = testbed::markdown(&halves.real, &real);
    }
    if halves.simulated.is_empty() {
        TITLE.clone_into(&mut halves.simulated);
    }
    let halves = [halves.simulated.trim_end(), halves.real.trim_end()];
    halves.join("\n\n").trim_end().to_owned() + "\n"
}

/// `None` of another document.
fn halves(text: &str) -> Option<Halves> {
    if text.lines().next()?.trim_end() != TITLE {
        return None;
    }
    let mut at = 0;
    let cut = text.split_inclusive('\n').find_map(|line| {
        let here = at;
        at += line.len();
        (line.trim_end() == testbed::HEADING).then_some(here)
    });
    let (simulated, real) = text.split_at(cut.unwrap_or(text.len()));
    Some(Halves {
        simulated: simulated.to_owned(),
        real: real.to_owned(),
    })
}

fn simulated(campaigns: &[(String, &Summary)]) -> String {
    let mut families: BTreeMap<(usize, &'static str), Vec<Matrix>> = BTreeMap::new();
    for (_, summary) in campaigns {
        for cell in &summary.cells {
            if cell.error.is_some() || cell.flows.is_empty() || testbed::is_real(cell) {
                continue;
            }
            let matrices = families.entry(family(&cell.experiment)).or_default();
            let known = (matrices.iter()).position(|matrix| matrix.id == cell.experiment);
            let at = known.unwrap_or_else(|| {
                let mut notes = summary.campaign.experiments.iter();
                let note = notes.find(|note| note.id == cell.experiment);
                matrices.push(Matrix {
                    id: cell.experiment.clone(),
                    title: note.map_or_else(String::new, |note| note.title.clone()),
                    ..Matrix::default()
                });
                matrices.len() - 1
            });
            matrices[at].add(cell);
        }
    }
    let mut out = format!("{TITLE}\n\n");
    head(&mut out, campaigns);
    leaders(&mut out, &families, campaigns);
    for ((_, title), matrices) in &families {
        section(&mut out, title, matrices);
    }
    out
}

fn head(out: &mut String, campaigns: &[(String, &Summary)]) {
    out.push_str(
        "Generated from results by `howdah lab report --comparison`; do not edit. Names that end in `-like` are\n\
         behavioural models of proprietary systems, partly fitted to the papers (docs/rivals). Processor times come\n\
         from a cost model: those of the papers' programs are fitted to a Xeon of 2010, those of ours and of TCP were\n\
         measured on a newer machine, so that columns compare within a group only.\n\n\
         - **rate**: Mbit/s of user data, mean over all cells, in brackets the least and the greatest; where cells ended\n\
         \x20 early (\"shortened\") behind the warm-up; of file movers what they display. `40/42`: so many of the cells\n\
         \x20 above 100 Mbit/s, where not all are.\n\
         - **duration**: seconds of a sized transfer from command to end, service time included: least and greatest; `n`\n\
         \x20 did not end in the time given.\n\
         - **CPU**: per cent of one core per Gbit/s, sender / receiver. **Feedback**: KiB per GiB, IP + 14 bytes. Both are\n\
         \x20 means over cells above 100 Mbit/s.\n\
         - **memory**: MiB under way at most, i.e. what a sender must keep, or be able to read again.\n\n```\n",
    );
    for (_, summary) in campaigns {
        let campaign = &summary.campaign;
        let _ = writeln!(out, "{}   # commit {}", campaign.command, campaign.commit);
    }
    let dirs: Vec<&str> = campaigns.iter().map(|(dir, _)| dir.as_str()).collect();
    let _ = writeln!(
        out,
        "howdah lab report --comparison {}\n```\n",
        dirs.join(" ")
    );
}

/// The best system of each matrix, and ours.
fn leaders(
    out: &mut String,
    families: &BTreeMap<(usize, &'static str), Vec<Matrix>>,
    campaigns: &[(String, &Summary)],
) {
    out.push_str(
        "## The best of each matrix, and ours\n\n\
         Ours as a ratio to the best of the others: above 1 ours has more. *Company*: flows of different protocols share\n\
         the link, so that the highest rate is not the best but may be taken from others. Matrices without ours are left out.\n\n\
         | matrix | systems | mean rate: best other | ours | ratio | least rate: best other | ours | feedback: least other | ours | memory: least other | ours |\n\
         | --- | ---: | --- | ---: | ---: | --- | ---: | --- | ---: | --- | ---: |\n",
    );
    let together: Vec<Matrix> = TOGETHER
        .iter()
        .filter_map(|pair| both(campaigns, pair))
        .collect();
    let all = families.values().flatten().chain(&together);
    for matrix in all {
        let Some(ours) = matrix.table.get(OURS) else {
            continue;
        };
        let best = |of: &dyn Fn(&Row) -> Option<f64>, more: bool| {
            let others = matrix.table.iter().filter(|(name, _)| *name != OURS);
            let known = others.filter_map(|(name, row)| Some((name, of(row)?)));
            known.reduce(|a, b| if (b.1 > a.1) == more { b } else { a })
        };
        let text = |best: Option<(&String, f64)>, unit: f64, digits: usize| {
            best.map_or_else(String::new, |(name, v)| {
                format!("{name} {:.digits$}", v / unit)
            })
        };
        let own = |value: Option<f64>, unit: f64, digits: usize| {
            value.map_or_else(String::new, |v| format!("{:.digits$}", v / unit))
        };
        let rate = |row: &Row| mean(&row.rates);
        let low = |row: &Row| least(&row.rates);
        let feedback = |row: &Row| mean(&row.feedback_kib);
        let memory = |row: &Row| most(&row.in_flight_mib).filter(|mib| *mib > 0.0);
        let leader = best(&rate, true);
        let ratio = leader
            .zip(rate(ours))
            .filter(|((_, best), _)| *best > 0.0)
            .map_or_else(String::new, |((_, best), ours)| {
                format!("{:.2}", ours / best)
            });
        let company = if matrix.company { " (company)" } else { "" };
        let _ = writeln!(
            out,
            "| {}{company} | {} | {} | {} | {ratio} | {} | {} | {} | {} | {} | {} |",
            matrix.id,
            matrix.table.len(),
            text(leader, 1e6, 0),
            own(rate(ours), 1e6, 0),
            text(best(&low, true), 1e6, 0),
            own(low(ours), 1e6, 0),
            text(best(&feedback, false), 1.0, 1),
            own(feedback(ours), 1.0, 1),
            text(best(&memory, false), 1.0, 0),
            own(memory(ours), 1.0, 0),
        );
    }
    for matrix in &together {
        let _ = writeln!(out, "\n{}: {}.", matrix.id, matrix.title);
    }
    out.push('\n');
}

/// Two experiments as one, in the cells that both have.
fn both(
    campaigns: &[(String, &Summary)],
    (one, other, title): &(&str, &str, &str),
) -> Option<Matrix> {
    let place = |cell: &CellResult| -> Vec<(String, String)> {
        let at = cell.at.iter().filter(|(axis, _)| *axis != "protocol");
        at.map(|(axis, value)| (axis.clone(), value.clone()))
            .collect()
    };
    let cells = |id: &str| -> Vec<&CellResult> {
        let all = campaigns.iter().flat_map(|(_, summary)| &summary.cells);
        let usable = |cell: &&CellResult| cell.error.is_none() && !cell.flows.is_empty();
        all.filter(|cell| cell.experiment == id && !testbed::is_real(cell))
            .filter(usable)
            .collect()
    };
    let (first, second) = (cells(one), cells(other));
    let mut matrix = Matrix {
        id: format!("{one} + {other}"),
        title: (*title).to_owned(),
        ..Matrix::default()
    };
    for (own, others) in [(&first, &second), (&second, &first)] {
        for cell in own {
            if others.iter().any(|there| place(there) == place(cell)) {
                matrix.add(cell);
            }
        }
    }
    (!matrix.table.is_empty()).then_some(matrix)
}

impl Matrix {
    fn add(&mut self, cell: &CellResult) {
        let mut flows = cell.flows.iter().map(|flow| &flow.protocol);
        let first = flows.next();
        self.company |= flows.any(|other| Some(other) != first);
        add(&mut self.table, cell);
    }
}

/// One paper's matrices: a table for each figure, the systems below each other and the matrices beside
/// each other.
fn section(out: &mut String, title: &str, matrices: &[Matrix]) {
    let _ = writeln!(out, "## {title}\n");
    for matrix in matrices {
        let rows = || matrix.table.values();
        let cells: usize = rows().map(|row| row.cells).sum();
        let shortened: usize = rows().map(|row| row.shortened).sum();
        let early = match shortened {
            0 => String::new(),
            n => format!("; {n} of {cells} ended early"),
        };
        let _ = writeln!(out, "- **{}**: {}{early}", matrix.id, matrix.title);
    }
    let range = |values: &[f64], unit: f64, digits: usize| -> Option<String> {
        let (low, high) = (least(values)? / unit, most(values)? / unit);
        Some(format!("{low:.digits$}\u{2013}{high:.digits$}"))
    };
    table(out, "Rate, Mbit/s", matrices, &|row| {
        let all = mean(&row.rates)? / 1e6;
        let share = match row.cells - row.successes {
            0 => String::new(),
            _ => format!(", {}/{}", row.successes, row.cells),
        };
        Some(match row.rates.len() {
            1 => format!("{all:.0}{share}"),
            _ => format!("{all:.0} ({}){share}", range(&row.rates, 1e6, 0)?),
        })
    });
    table(out, "Duration, s", matrices, &|row| {
        if !row.sized {
            return None;
        }
        let missing = row.cells - row.durations.len();
        let known = range(&row.durations, 1.0, 1);
        Some(match (known, missing) {
            (Some(known), 0) => known,
            (Some(known), n) => format!("{known}, n {n}"),
            (None, n) => format!("n {n}"),
        })
    });
    table(
        out,
        "CPU, % of a core per Gbit/s, sender / receiver",
        matrices,
        &|row| {
            let (sender, receiver) = (mean(&row.sender_cpu)?, mean(&row.receiver_cpu));
            Some(match receiver {
                Some(receiver) => format!("{sender:.1} / {receiver:.1}"),
                None => format!("{sender:.1} / -"),
            })
        },
    );
    table(
        out,
        "Feedback, KiB per GiB; memory, MiB",
        matrices,
        &|row| {
            let feedback = mean(&row.feedback_kib).map(|kib| format!("{kib:.1}"));
            let memory = most(&row.in_flight_mib).map(|mib| format!("{mib:.0}"));
            match (feedback, memory) {
                (None, None) => None,
                (feedback, memory) => Some(format!(
                    "{}; {}",
                    feedback.as_deref().unwrap_or("-"),
                    memory.as_deref().unwrap_or("-")
                )),
            }
        },
    );
}

/// One figure of all systems in the matrices of a paper; nothing where none has it. Columns and rows
/// without a value are left out.
fn table(out: &mut String, title: &str, matrices: &[Matrix], of: &dyn Fn(&Row) -> Option<String>) {
    let columns: Vec<&Matrix> = matrices
        .iter()
        .filter(|matrix| matrix.table.values().any(|row| of(row).is_some()))
        .collect();
    if columns.is_empty() {
        return;
    }
    let mut names: Vec<&String> = columns
        .iter()
        .flat_map(|matrix| matrix.table.keys())
        .collect();
    names.sort_by_key(|name| (crate::report::protocol_rank(name), name.as_str()));
    names.dedup();
    let _ = write!(out, "\n| {title} |");
    for matrix in &columns {
        let _ = write!(out, " {} |", matrix.id);
    }
    out.push_str("\n| --- |");
    out.push_str(&" ---: |".repeat(columns.len()));
    for name in names {
        let cells: Vec<Option<String>> = columns
            .iter()
            .map(|matrix| matrix.table.get(name).and_then(of))
            .collect();
        if cells.iter().all(Option::is_none) {
            continue;
        }
        let _ = write!(out, "\n| {name} |");
        for cell in cells {
            let _ = write!(out, " {} |", cell.unwrap_or_default());
        }
    }
    out.push_str("\n\n");
}

fn add(table: &mut Table, cell: &CellResult) {
    for flow in &cell.flows {
        // The matrix may call a variant by another name than its protocol ("cubic-x7").
        let named = cell.at.get("protocol").filter(|_| cell.flows.len() == 1);
        let row = table
            .entry(named.unwrap_or(&flow.protocol).clone())
            .or_default();
        let metric = |name: &str| cell.metrics.get(&format!("{name}/{}", flow.name)).copied();
        let rate = rate(cell, flow);
        row.cells += 1;
        row.shortened += usize::from(cell.shortened);
        row.rates.push(rate);
        row.sized |= flow.completion_s.is_some();
        row.durations
            .extend(metric("duration_s").or(flow.completion_s));
        row.in_flight_mib
            .extend(metric("in_flight_peak_bytes").map(|bytes| bytes / 1_048_576.0));
        if rate <= SUCCESS_BPS {
            continue;
        }
        row.successes += 1;
        let took = flow.end_s - flow.start_s;
        let cpu = |seconds: Option<f64>| metrics::cpu_per_gbps(seconds?, took, flow.goodput_bps);
        row.sender_cpu.extend(cpu(flow.sender_cpu_s));
        row.receiver_cpu.extend(cpu(flow.receiver_cpu_s));
        row.feedback_kib
            .extend(metric("feedback_bytes_per_gib").map(|bytes| bytes / 1024.0));
    }
}

fn rate(cell: &CellResult, flow: &FlowResult) -> f64 {
    let displayed = cell.metrics.get(&format!("displayed_bps/{}", flow.name));
    let whole = if cell.shortened {
        flow.steady_goodput_bps
    } else {
        flow.goodput_bps
    };
    displayed.copied().unwrap_or(whole)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn least(values: &[f64]) -> Option<f64> {
    values.iter().copied().min_by(f64::total_cmp)
}

fn most(values: &[f64]) -> Option<f64> {
    values.iter().copied().max_by(f64::total_cmp)
}
