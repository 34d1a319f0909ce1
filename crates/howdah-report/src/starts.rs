//! How flows start: the figures of `[measure] start = true`, with percentiles over cells.

use crate::result::{CellResult, Mark, Summary};
use crate::sheet::{self, Sheet, figure, percent};
use crate::stats;
use std::collections::BTreeMap;

/// What is asked of a cold start: round trips to 90 %, round trips lost, share of packets dropped.
const ASKED: (f64, f64, f64) = (5.0, 3.5, 0.003);
/// Starts of simulator and testbed within this share of each other in t90 agree.
const AGREE: f64 = 0.15;
/// How many of the worst cells are listed.
const WORST: usize = 25;

/// One place of a matrix and one flow: medians over the seeds.
#[derive(Clone, Debug, PartialEq)]
struct Start {
    at: Vec<(String, String)>,
    flow: String,
    /// Infinite if the middle seed never got there.
    t90_rtt: f64,
    cost_rtt: f64,
    overflow: f64,
    share: f64,
    /// Of the slowest seed.
    t90_worst_rtt: f64,
    seeds: usize,
}

impl Start {
    fn is_as_asked(&self) -> bool {
        self.t90_rtt <= ASKED.0 && self.cost_rtt <= ASKED.1 && self.overflow <= ASKED.2
    }
}

/// Experiment, axes, flow.
type Key = (String, Vec<(String, String)>, String);

/// t90, cost, overflow and share of each seed.
type Runs = Vec<[f64; 4]>;

/// A testbed's certificate speaks against it, as the machine was measured as well, or it has run at another rate.
fn is_doubted(cell: &CellResult) -> bool {
    let marks = [Mark::Invalid, Mark::HostLimited, Mark::Scaled];
    cell.marks.iter().any(|mark| marks.contains(mark))
}

/// How many runs have looked at their start and do not count.
fn left_out<'a>(cells: impl Iterator<Item = &'a CellResult>) -> usize {
    let looked = |cell: &&CellResult| {
        let mut names = cell.metrics.keys();
        names.any(|name| name.starts_with("start_cost_rtt/"))
    };
    cells.filter(looked).filter(|cell| is_doubted(cell)).count()
}

fn starts<'a>(cells: impl Iterator<Item = &'a CellResult>) -> Vec<Start> {
    let mut order: Vec<Key> = Vec::new();
    let mut runs: BTreeMap<Key, Runs> = BTreeMap::new();
    for cell in cells.filter(|cell| !is_doubted(cell)) {
        for (name, cost) in &cell.metrics {
            let Some(flow) = name.strip_prefix("start_cost_rtt/") else {
                continue;
            };
            let of = |name: &str| cell.metrics.get(&format!("{name}/{flow}")).copied();
            let at = cell.at.iter().map(|(a, v)| (a.clone(), v.clone()));
            let key = (cell.experiment.clone(), at.collect(), flow.to_owned());
            let runs = runs.entry(key.clone()).or_default();
            if runs.is_empty() {
                order.push(key);
            }
            runs.push([
                of("start_t90_rtt").unwrap_or(f64::INFINITY),
                *cost,
                of("start_overflow").unwrap_or(0.0),
                of("start_share").unwrap_or(0.0),
            ]);
        }
    }
    let middle = |runs: &Runs, at: usize| {
        let mut values: Vec<f64> = runs.iter().map(|run| run[at]).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    order
        .iter()
        .map(|key| {
            let runs = &runs[key];
            let mut at = key.1.clone();
            at.insert(0, ("experiment".to_owned(), key.0.clone()));
            Start {
                at,
                flow: key.2.clone(),
                t90_rtt: middle(runs, 0),
                cost_rtt: middle(runs, 1),
                overflow: middle(runs, 2),
                share: middle(runs, 3),
                t90_worst_rtt: runs.iter().map(|run| run[0]).fold(0.0, f64::max),
                seeds: runs.len(),
            }
        })
        .collect()
}

const HEADS: [&str; 10] = [
    "",
    "cells",
    "as asked",
    "t90, RTT: median",
    "90 %",
    "never",
    "cost, RTT: median",
    "90 %",
    "overflow: median",
    "90 %",
];

fn line(name: String, some: &[&Start]) -> Vec<String> {
    let of = |read: fn(&Start) -> f64| -> Vec<f64> { some.iter().map(|s| read(s)).collect() };
    // Nearest rank: infinity has no neighbour to go half the way to.
    let rank = |read: fn(&Start) -> f64, q: f64| {
        let mut values = of(read);
        values.sort_by(f64::total_cmp);
        let at = (q * values.len() as f64).ceil() as usize;
        values.get(at.saturating_sub(1)).copied()
    };
    let drops = |share: Option<f64>| percent_fine(share);
    let good = some.iter().filter(|s| s.is_as_asked()).count();
    let never = some.iter().filter(|s| s.t90_rtt.is_infinite()).count();
    vec![
        name,
        some.len().to_string(),
        percent(Some(good as f64 / some.len().max(1) as f64)),
        rtts(rank(|s| s.t90_rtt, 0.5)),
        rtts(rank(|s| s.t90_rtt, 0.9)),
        never.to_string(),
        figure(stats::median(&of(|s| s.cost_rtt))),
        figure(rank(|s| s.cost_rtt, 0.9)),
        drops(rank(|s| s.overflow, 0.5)),
        drops(rank(|s| s.overflow, 0.9)),
    ]
}

fn rtts(value: Option<f64>) -> String {
    match value {
        Some(value) if value.is_infinite() => "never".to_owned(),
        value => figure(value),
    }
}

fn percent_fine(share: Option<f64>) -> String {
    share.map_or_else(
        || "\u{2013}".to_owned(),
        |share| format!("{:.2} %", share * 100.0),
    )
}

/// The tables; none if no cell looked at starts.
pub(crate) fn sheets<'a>(cells: impl Iterator<Item = &'a CellResult> + Clone) -> Vec<Sheet> {
    let doubted = match left_out(cells.clone()) {
        0 => String::new(),
        some => format!(" {some} runs are left out, as the certificate speaks against them."),
    };
    let all = starts(cells);
    if all.is_empty() {
        return Vec::new();
    }
    let mut table = Sheet::new(
        format!(
            "Starts, from the first packet of the handshake on, in round trips of the idle path; medians of the seeds, or runs, of each cell. As asked: t90 of at \
             most {} round trips, at most {} lost, at most {} of the packets dropped by a queue.{doubted}",
            ASKED.0,
            ASKED.1,
            percent(Some(ASKED.2))
        ),
        &HEADS,
    );
    let every: Vec<&Start> = all.iter().collect();
    table.rows.push(line("**all**".to_owned(), &every));
    for (at, (axis, _)) in all[0].at.iter().enumerate() {
        let mut values: Vec<&str> = Vec::new();
        for start in &all {
            if let Some((_, value)) = start.at.get(at)
                && !values.contains(&value.as_str())
            {
                values.push(value);
            }
        }
        for value in values {
            let is_there = |s: &&Start| s.at.iter().any(|(a, v)| a == axis && v == value);
            let some: Vec<&Start> = all.iter().filter(is_there).collect();
            table.rows.push(line(format!("{axis} {value}"), &some));
        }
    }
    let mut order: Vec<&Start> = all.iter().collect();
    order.sort_by(|a, b| {
        let by = |s: &Start| (s.t90_rtt, s.cost_rtt);
        let (a, b) = (by(a), by(b));
        b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
    let mut worst = Sheet::new(
        format!(
            "The {WORST} slowest; the last column is what the last quarter of the time has of the bound."
        ),
        &[
            "cell",
            "seeds, runs",
            "t90, RTT",
            "of the slowest",
            "cost, RTT",
            "overflow",
            "share at the end",
        ],
    );
    for start in order.into_iter().take(WORST) {
        let values: Vec<&str> = start.at.iter().map(|(_, value)| value.as_str()).collect();
        worst.rows.push(vec![
            format!("{}: {}", start.flow, values.join(", ")),
            start.seeds.to_string(),
            rtts(Some(start.t90_rtt)),
            rtts(Some(start.t90_worst_rtt)),
            figure(Some(start.cost_rtt)),
            percent_fine(Some(start.overflow)),
            figure(Some(start.share)),
        ]);
    }
    vec![table, worst]
}

/// All tables as Markdown; a sentence where no cell has them.
pub fn markdown(campaigns: &[Summary]) -> String {
    let cells = campaigns.iter().flat_map(|campaign| &campaign.cells);
    let sheets = sheets(cells.clone());
    if sheets.is_empty() && left_out(cells.clone()) > 0 {
        return "the certificates speak against all runs that have looked at their start: the machine was busy\n".to_owned();
    }
    if sheets.is_empty() {
        return "no cell has looked at its start ([measure] start = true)\n".to_owned();
    }
    sheet::markdown(&sheets)
}

/// Starts in the simulator beside those on the testbed, where both have looked at them, and how many agree.
pub(crate) fn beside(campaigns: &[Summary]) -> Option<Sheet> {
    let side = |real: bool| {
        let cells = campaigns.iter().flat_map(|campaign| &campaign.cells);
        starts(cells.filter(move |cell| (cell.testbed == "netns") == real))
    };
    let real = side(true);
    let mut table = Sheet::new(
        String::new(),
        &[
            "cell",
            "t90, RTT: simulator",
            "testbed",
            "runs",
            "deviation",
            "cost, RTT: simulator",
            "testbed",
        ],
    );
    let mut within = 0;
    for sim in side(false) {
        let same = |real: &&Start| real.at == sim.at && real.flow == sim.flow;
        let Some(real) = real.iter().find(same) else {
            continue;
        };
        let deviation = sim.t90_rtt / real.t90_rtt - 1.0;
        within += usize::from(deviation.abs() <= AGREE);
        let values: Vec<&str> = sim.at.iter().map(|(_, value)| value.as_str()).collect();
        table.rows.push(vec![
            values.join(", "),
            rtts(Some(sim.t90_rtt)),
            rtts(Some(real.t90_rtt)),
            real.seeds.to_string(),
            if deviation.is_finite() {
                format!("{:+.0} %", deviation * 100.0)
            } else {
                "\u{2013}".to_owned()
            },
            figure(Some(sim.cost_rtt)),
            figure(Some(real.cost_rtt)),
        ]);
    }
    table.caption = format!(
        "Starts, medians of seeds and runs: {within} of {} within {:.0} % in t90.",
        table.rows.len(),
        AGREE * 100.0
    );
    (!table.rows.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(rtt: &str, seed: u64, t90: Option<f64>, cost: f64, overflow: f64) -> CellResult {
        let mut metrics = BTreeMap::from([
            ("start_cost_rtt/main".to_owned(), cost),
            ("start_overflow/main".to_owned(), overflow),
            ("start_share/main".to_owned(), 0.97),
        ]);
        metrics.extend(t90.map(|t90| ("start_t90_rtt/main".to_owned(), t90)));
        CellResult {
            experiment: "S".to_owned(),
            at: BTreeMap::from([("rtt".to_owned(), rtt.to_owned())]),
            seed,
            metrics,
            ..CellResult::default()
        }
    }

    #[test]
    fn a_start_that_never_gets_there_counts_as_the_slowest() {
        let cells = [
            cell("5ms", 1, Some(4.0), 3.0, 0.0),
            cell("5ms", 2, Some(4.5), 3.2, 0.001),
            cell("5ms", 3, None, 9.0, 0.002),
            cell("50ms", 1, None, 12.0, 0.1),
        ];
        let all = starts(cells.iter());
        assert_eq!(all.len(), 2);
        assert!((all[0].t90_rtt - 4.5).abs() < 1e-9 && all[0].is_as_asked());
        assert!(all[1].t90_rtt.is_infinite() && !all[1].is_as_asked());
        let sheets = sheets(cells.iter());
        assert_eq!(sheets[0].rows[0][..4], ["**all**", "2", "50.0 %", "4.50"]);
        assert_eq!(sheets[0].rows[0][4..6], ["never", "1"]);
        assert!(sheets[1].rows[0][0].ends_with("50ms"));
    }

    #[test]
    fn what_the_certificate_speaks_against_does_not_count() {
        let mut cells = [
            cell("5ms", 1, Some(4.0), 3.0, 0.0),
            cell("5ms", 2, Some(4.4), 3.0, 0.0),
            cell("5ms", 3, Some(30.0), 25.0, 0.0),
        ];
        let worst = |cells: &[CellResult]| sheets(cells.iter())[1].rows[0][1..4].to_vec();
        assert_eq!(worst(&cells), ["3", "4.40", "30.00"]);
        cells[2].marks = vec![Mark::Invalid];
        assert_eq!(worst(&cells), ["2", "4.40", "4.40"]);
        assert!(
            sheets(cells.iter())[0]
                .caption
                .contains("1 runs are left out")
        );
        for cell in &mut cells {
            cell.marks = vec![Mark::HostLimited];
        }
        let all = Summary {
            cells: cells.into(),
            ..Summary::default()
        };
        assert!(markdown(&[all]).contains("the machine was busy"));
    }

    #[test]
    fn the_simulator_is_set_beside_the_testbed() {
        let cells = |testbed: &str, t90s: [Option<f64>; 3]| Summary {
            cells: (["5ms", "50ms", "500ms"].into_iter().zip(t90s))
                .map(|(rtt, t90)| CellResult {
                    testbed: testbed.to_owned(),
                    ..cell(rtt, 1, t90, 2.0, 0.0)
                })
                .collect(),
            ..Summary::default()
        };
        let sim = cells("sim", [Some(4.4), Some(4.0), Some(4.0)]);
        let mut real = cells("netns", [Some(4.0), Some(5.0), None]);
        let table = beside(&[sim.clone(), real.clone()]).unwrap();
        assert!(
            table.caption.contains("1 of 3 within 15 %"),
            "{}",
            table.caption
        );
        let deviations: Vec<&str> = table.rows.iter().map(|row| row[4].as_str()).collect();
        assert_eq!(deviations, ["+10 %", "-20 %", "-100 %"]);
        real.cells[0].marks = vec![Mark::Invalid];
        assert_eq!(beside(&[sim.clone(), real]).unwrap().rows.len(), 2);
        assert!(beside(&[sim]).is_none());
    }

    #[test]
    fn without_starts_there_is_no_table() {
        assert!(sheets([CellResult::default()].iter()).is_empty());
    }
}
