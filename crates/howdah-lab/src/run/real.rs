//! A campaign on a testbed: one cell at a time, in random order, each as often as its median needs.

use super::{Outcome, RunError, RunOptions, RunProgress, Store, campaign, describe, summarise};
use crate::netns::{Kit, Testbed, Trouble, twin};
use crate::result::{CellResult, Mark};
use crate::scenario::{Cell, Plan};
use crate::stats;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Half-width of the median's confidence interval, as a share of the median, at which it is settled.
const SETTLED: f64 = 0.05;
/// Of the confidence interval.
const CONFIDENCE: f64 = 0.95;

/// What a campaign on a testbed needs beside its [`RunOptions`].
#[derive(Debug)]
pub struct RealOptions {
    /// Programs and keys.
    pub kit: Kit,
    /// Runs of a cell at most.
    pub most_runs: usize,
}

/// A cell that is not done.
struct Open<'a> {
    cell: &'a Cell,
    runs: Vec<CellResult>,
    failures: usize,
}

/// How often a cell may fail before it is given up.
const MOST_FAILURES: usize = 2;

/// As [`run`](super::run), with real programs. Rounds of one run of each open cell follow each other, each in an order of its own.
pub fn run(
    plan: &Plan,
    options: &RunOptions,
    real: RealOptions,
    stop: &AtomicBool,
    mut watch: impl FnMut(&RunProgress),
) -> Result<Outcome, RunError> {
    let started = Instant::now();
    let store =
        Store::create(&options.out).map_err(|error| RunError::Store { error, finished: 0 })?;
    let failed_to_store = |error| RunError::Store {
        error,
        finished: store.finished(),
    };
    let testbed =
        Testbed::prepare(real.kit).map_err(|trouble| RunError::Testbed(trouble.to_string()))?;
    let cells = without_seeds(plan);
    let campaign = campaign(plan, options, &cells);
    store.write_campaign(&campaign).map_err(failed_to_store)?;

    let mut outcome = Outcome::default();
    let mut open: Vec<Open<'_>> = Vec::new();
    for (index, &cell) in cells.iter().enumerate() {
        if !options.asks_for(index, cell) {
            continue;
        }
        let runs = if options.again {
            Vec::new()
        } else {
            store.read_runs(&cell.id())
        };
        // What was skipped is tried again: its program may be there now.
        if is_done(&runs, real.most_runs) {
            outcome.kept += 1;
            continue;
        }
        open.push(Open {
            cell,
            runs,
            failures: 0,
        });
    }
    let mut progress = RunProgress {
        cells: open.len(),
        kept: outcome.kept,
        ..RunProgress::default()
    };
    let mut order = ChaCha8Rng::seed_from_u64(campaign.started_unix_s);
    let work = open
        .iter()
        .map(|open| open.cell.measure.duration_ns as f64)
        .sum::<f64>()
        * real.most_runs as f64;
    let mut done_work = 0.0;
    while !open.is_empty() && !stop.load(Ordering::Relaxed) {
        shuffle(&mut open, &mut order);
        let mut still_open = Vec::new();
        for mut item in open {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let one = item.cell.measure.duration_ns as f64;
            let left = real.most_runs.saturating_sub(item.runs.len()) as f64 * one;
            let fate = run_once(&testbed, &mut item, stop);
            let is_over = match fate {
                Fate::Ran => {
                    store
                        .write_runs(&item.cell.id(), &item.runs)
                        .map_err(failed_to_store)?;
                    is_done(&item.runs, real.most_runs)
                }
                Fate::Stopped => break,
                Fate::Again => false,
                Fate::GivenUp(_) => true,
            };
            let given_up = match fate {
                Fate::GivenUp(result) => Some(*result),
                _ => None,
            };
            if let Some(error) = given_up.as_ref().and_then(|result| result.error.as_ref()) {
                outcome.failed.push((describe(item.cell), error.clone()));
                progress.failed += 1;
            }
            // What was measured before it failed stands.
            if let Some(mut result) = middle(&item.runs).or(given_up) {
                result.commit.clone_from(&campaign.commit);
                store.write(&result).map_err(failed_to_store)?;
            }
            done_work += if is_over { left } else { one };
            progress.last = describe(item.cell);
            if is_over {
                outcome.ran += 1;
                progress.done += 1;
            } else {
                still_open.push(item);
            }
            progress.share = (done_work / work.max(1.0)).min(1.0);
            progress.elapsed_s = started.elapsed().as_secs_f64();
            watch(&progress);
        }
        open = still_open;
    }
    outcome.stopped = stop.load(Ordering::Relaxed);
    outcome.wall_s = started.elapsed().as_secs_f64();
    let summary = summarise(&store, campaign, &cells).map_err(failed_to_store)?;
    store.write_summary(&summary).map_err(failed_to_store)?;
    Ok(outcome)
}

/// Cells that differ in nothing but the seed are one on a testbed, which repeats it in its own way.
fn without_seeds(plan: &Plan) -> Vec<&Cell> {
    let mut seen = std::collections::BTreeSet::new();
    plan.cells()
        .filter(|cell| seen.insert((&cell.experiment, &cell.at)))
        .collect()
}

enum Fate {
    Ran,
    Again,
    GivenUp(Box<CellResult>),
    Stopped,
}

/// Runs a cell once, or its twin where the machine cannot carry it.
fn run_once(testbed: &Testbed, item: &mut Open<'_>, stop: &AtomicBool) -> Fate {
    let started = Instant::now();
    // Each run has losses of its own: those of the simulator's repeats, one after the other.
    // A run that does not count is made up for with its own.
    let seed = next_seed(item.cell.seed, &item.runs);
    let seeded = |cell: &Cell| Cell {
        seed,
        ..cell.clone()
    };
    let scaled = item
        .runs
        .last()
        .is_some_and(|run| run.marks.contains(&Mark::Scaled));
    let cell = if scaled { twin(item.cell) } else { None };
    let is_twin = cell.is_some();
    let mut result = testbed.run(&seeded(cell.as_ref().unwrap_or(item.cell)), stop);
    let mut is_scaled = is_twin;
    if let Ok(first) = &result
        && !is_twin
        && first.marks.contains(&Mark::HostLimited)
        && let Some(twin) = twin(item.cell)
    {
        match testbed.run(&seeded(&twin), stop) {
            Ok(run) => {
                result = Ok(run);
                is_scaled = true;
            }
            Err(Trouble::Stopped) => return Fate::Stopped,
            // Better a run that is limited by the host than none.
            Err(_) => {}
        }
    }
    match result {
        Ok(mut run) => {
            run.id = item.cell.id();
            run.seed = item.cell.seed;
            run.wall_s = started.elapsed().as_secs_f64();
            if is_scaled {
                run.marks.push(Mark::Scaled);
            }
            item.runs.push(run);
            Fate::Ran
        }
        Err(Trouble::Stopped) => Fate::Stopped,
        Err(Trouble::Skipped(why)) => Fate::GivenUp(Box::new(CellResult {
            skipped: Some(why),
            ..empty(item.cell)
        })),
        Err(trouble) => {
            item.failures += 1;
            if item.failures < MOST_FAILURES {
                return Fate::Again;
            }
            Fate::GivenUp(Box::new(CellResult {
                error: Some(trouble.to_string()),
                ..empty(item.cell)
            }))
        }
    }
}

fn next_seed(first: u64, runs: &[CellResult]) -> u64 {
    let counted = runs
        .iter()
        .filter(|run| !run.marks.contains(&Mark::Invalid));
    first.wrapping_add(counted.count() as u64)
}

fn empty(cell: &Cell) -> CellResult {
    CellResult {
        id: cell.id(),
        experiment: cell.experiment.clone(),
        at: cell.at.clone(),
        testbed: "netns".to_owned(),
        seed: cell.seed,
        ..CellResult::default()
    }
}

/// What a run is judged by: the goodput of all its flows together.
fn figure(run: &CellResult) -> f64 {
    run.flows.iter().map(|flow| flow.steady_goodput_bps).sum()
}

/// A run that the certificate speaks against is made up for, but not for ever.
fn is_done(runs: &[CellResult], most: usize) -> bool {
    let invalid = runs
        .iter()
        .filter(|run| run.marks.contains(&Mark::Invalid))
        .count();
    let extra = invalid.min(most);
    runs.len() >= most + extra || is_settled(runs)
}

/// Whether the median is known well enough, by the runs that count.
fn is_settled(runs: &[CellResult]) -> bool {
    let figures: Vec<f64> = counted(runs).into_iter().map(figure).collect();
    let interval = stats::median_ci(&figures, CONFIDENCE);
    let median = stats::quantile(&figures, 0.5).unwrap_or(0.0);
    interval.is_some_and(|interval| interval.half_width() <= SETTLED * median)
}

/// The runs that the certificate does not speak against; all if there are none.
fn counted(runs: &[CellResult]) -> Vec<&CellResult> {
    let valid: Vec<&CellResult> = runs
        .iter()
        .filter(|run| !run.marks.contains(&Mark::Invalid))
        .collect();
    if valid.is_empty() {
        runs.iter().collect()
    } else {
        valid
    }
}

/// The run in the middle of those that count.
fn middle(runs: &[CellResult]) -> Option<CellResult> {
    let mut eligible = counted(runs);
    eligible.sort_by(|a, b| figure(a).total_cmp(&figure(b)));
    let mut result = (*eligible.get((eligible.len().max(1) - 1) / 2)?).clone();
    result.runs_bps = counted(runs).into_iter().map(figure).collect();
    result.wall_s = runs.iter().map(|run| run.wall_s).sum();
    if !is_settled(runs) {
        result.marks.push(Mark::Unsettled);
    }
    Some(result)
}

/// R. Durstenfeld, Algorithm 235, Communications of the ACM 7, 1964.
fn shuffle<T>(items: &mut [T], rng: &mut ChaCha8Rng) {
    for last in (1..items.len()).rev() {
        let other = (u64::from(rng.next_u32()) * (last as u64 + 1)) >> 32;
        items.swap(last, other as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::FlowResult;

    fn run(bps: f64, marks: &[Mark]) -> CellResult {
        CellResult {
            flows: vec![FlowResult {
                steady_goodput_bps: bps,
                ..FlowResult::default()
            }],
            marks: marks.to_vec(),
            ..CellResult::default()
        }
    }

    #[test]
    fn the_middle_of_the_valid_runs_stands_for_all() {
        let runs = [
            run(9.0, &[]),
            run(1.0, &[Mark::Invalid]),
            run(7.0, &[]),
            run(8.0, &[]),
        ];
        let result = middle(&runs).unwrap();
        assert!((figure(&result) - 8.0).abs() < 1e-9);
        // What the certificate speaks against is made up for, and no longer told.
        assert_eq!(result.runs_bps, [9.0, 7.0, 8.0]);
        assert_eq!(result.marks, [Mark::Unsettled]);
        let result = middle(&runs[1..2]).unwrap();
        assert_eq!(result.marks, [Mark::Invalid, Mark::Unsettled]);
        assert!(middle(&[]).is_none());
    }

    #[test]
    fn six_runs_that_agree_settle_a_cell() {
        let close: Vec<CellResult> = (0..6).map(|k| run(100.0 + f64::from(k), &[])).collect();
        assert!(is_done(&close, 10));
        assert!(!is_done(&close[..5], 10));
        assert!(is_done(&close[..5], 5));
        let wide: Vec<CellResult> = (0..6)
            .map(|k| run(100.0 + 10.0 * f64::from(k), &[]))
            .collect();
        assert!(!is_done(&wide, 10));
        assert!(middle(&close).unwrap().marks.is_empty());
    }

    #[test]
    fn invalid_runs_are_made_up_for() {
        let wide = |n: usize, invalid: usize| -> Vec<CellResult> {
            let marks = |k: usize| {
                if k < invalid {
                    vec![Mark::Invalid]
                } else {
                    vec![]
                }
            };
            (0..n)
                .map(|k| run(100.0 + 10.0 * k as f64, &marks(k)))
                .collect()
        };
        assert!(is_done(&wide(3, 0), 3));
        assert!(!is_done(&wide(3, 1), 3));
        assert!(is_done(&wide(4, 1), 3));
        assert!(!is_done(&wide(5, 5), 3));
        assert!(is_done(&wide(6, 6), 3), "never more than twice as many");
        assert_eq!(next_seed(1, &wide(3, 1)), 3, "with the same losses");
    }

    #[test]
    fn seeds_of_the_simulator_are_one_cell() {
        let text = r#"
            id = "T"
            repeats = 3
            [path.main]
            rate = "1gbit"
            rtt = ["10ms", "20ms"]
            [flow.main]
            protocol = "reno"
            [measure]
            duration = "1s"
        "#;
        let plan = crate::scenario::parse(std::path::Path::new("t.toml"), text, false).unwrap();
        assert_eq!(plan.cells().count(), 6);
        let cells = without_seeds(&plan);
        let rtts: Vec<&str> = cells.iter().map(|cell| cell.at["rtt"].as_str()).collect();
        assert_eq!(rtts, ["10ms", "20ms"]);
    }

    #[test]
    fn a_shuffle_keeps_everybody() {
        let mut items: Vec<u32> = (0..50).collect();
        shuffle(&mut items, &mut ChaCha8Rng::seed_from_u64(3));
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
