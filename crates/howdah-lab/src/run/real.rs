//! A campaign on a testbed: one cell at a time, in random order, each as often as its median needs.

use super::campaign::{self, Attempt, Open, Testbed};
use super::machine::unix_time_s;
use super::{Outcome, RunError, RunOptions, RunProgress};
use crate::netns::{self, Kit, Trouble, twin};
use crate::scenario::{Cell, Plan};
use howdah_report::result::{CellResult, Mark};
use howdah_report::stats;
use howdah_report::store::{Store, StoreError};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::atomic::AtomicBool;

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
    /// A cell is settled, too, once it has two runs that count or more and none of them is further than this share of their median from
    /// it.
    pub agree: Option<f64>,
}

/// As [`run`](super::run), with real programs. Rounds of one run of each open cell follow each other, each in an order of its own.
pub fn run(
    plan: &Plan,
    options: &RunOptions,
    real: RealOptions,
    stop: &AtomicBool,
    watch: impl FnMut(&RunProgress),
) -> Result<Outcome, RunError> {
    let testbed = netns::Testbed::prepare(real.kit)
        .map_err(|trouble| RunError::Testbed(trouble.to_string()))?;
    let mut testbed = Real {
        testbed,
        most_runs: real.most_runs,
        agree: real.agree,
        order: ChaCha8Rng::seed_from_u64(unix_time_s()),
    };
    campaign::run(&mut testbed, plan, options, stop, watch)
}

struct Real {
    testbed: netns::Testbed,
    most_runs: usize,
    agree: Option<f64>,
    order: ChaCha8Rng,
}

impl Testbed for Real {
    const NAME: &'static str = "netns";
    const MOST_FAILURES: usize = 2;

    fn cells<'p>(&self, plan: &'p Plan) -> Vec<&'p Cell> {
        without_seeds(plan)
    }

    /// Two would measure each other.
    fn jobs(&self, _: usize) -> usize {
        1
    }

    fn most_runs(&self) -> usize {
        self.most_runs
    }

    fn cost(&self, cell: &Cell) -> f64 {
        cell.measure.duration_ns as f64
    }

    fn order(&mut self, open: &mut [Open<'_>]) {
        shuffle(open, &mut self.order);
    }

    /// What was skipped is tried again: its program may be there now.
    fn found(&self, store: &Store, cell: &Cell) -> Vec<CellResult> {
        store.read_runs(&cell.id())
    }

    fn is_done(&self, runs: &[CellResult]) -> bool {
        is_done(runs, self.most_runs, self.agree)
    }

    fn run(&self, cell: &Cell, before: &[CellResult], stop: &AtomicBool) -> Attempt {
        match run_once(&self.testbed, cell, before, stop) {
            Ok(result) => Attempt::Ran(Box::new(result)),
            Err(Trouble::Stopped) => Attempt::Stopped,
            Err(Trouble::Skipped(why)) => Attempt::Skipped(why),
            Err(trouble) => Attempt::Failed(trouble.to_string()),
        }
    }

    fn keep(&self, store: &Store, cell: &Cell, runs: &[CellResult]) -> Result<(), StoreError> {
        store.write_runs(&cell.id(), runs)
    }

    fn result(&self, runs: &[CellResult]) -> Option<CellResult> {
        middle(runs, self.agree)
    }
}

/// Cells that differ in nothing but the seed are one on a testbed, which repeats it in its own way.
fn without_seeds(plan: &Plan) -> Vec<&Cell> {
    let mut seen = std::collections::BTreeSet::new();
    plan.cells()
        .filter(|cell| seen.insert((&cell.experiment, &cell.at)))
        .collect()
}

/// Runs a cell once, or its twin where the machine cannot carry it.
fn run_once(
    testbed: &netns::Testbed,
    cell: &Cell,
    before: &[CellResult],
    stop: &AtomicBool,
) -> Result<CellResult, Trouble> {
    // Each run has losses of its own: those of the simulator's repeats, one after the other.
    // A run that does not count is made up for with its own.
    let seed = next_seed(cell.seed, before);
    let run = |cell: &Cell| {
        let seeded = Cell {
            seed,
            ..cell.clone()
        };
        testbed.run(&seeded, stop)
    };
    let scaled = |run: &CellResult| run.marks.contains(&Mark::Scaled);
    let known = twin(cell).filter(|_| before.last().is_some_and(scaled));
    let (mut result, is_scaled) = if let Some(twin) = known {
        (run(&twin)?, true)
    } else {
        let first = run(cell)?;
        let limited = first.marks.contains(&Mark::HostLimited);
        match twin(cell).filter(|_| limited).map(|twin| run(&twin)) {
            Some(Ok(scaled)) => (scaled, true),
            Some(Err(Trouble::Stopped)) => return Err(Trouble::Stopped),
            // Better a run that is limited by the host than none.
            Some(Err(_)) | None => (first, false),
        }
    };
    result.id = cell.id();
    result.seed = cell.seed;
    if is_scaled {
        result.marks.push(Mark::Scaled);
    }
    Ok(result)
}

fn next_seed(first: u64, runs: &[CellResult]) -> u64 {
    let counted = runs
        .iter()
        .filter(|run| !run.marks.contains(&Mark::Invalid));
    first.wrapping_add(counted.count() as u64)
}

/// What a run is judged by: the goodput of all its flows together.
fn figure(run: &CellResult) -> f64 {
    run.flows.iter().map(|flow| flow.steady_goodput_bps).sum()
}

/// A run that the certificate speaks against is made up for, but not for ever.
fn is_done(runs: &[CellResult], most: usize, agree: Option<f64>) -> bool {
    let invalid = runs
        .iter()
        .filter(|run| run.marks.contains(&Mark::Invalid))
        .count();
    let extra = invalid.min(most);
    runs.len() >= most + extra || is_settled(runs, agree)
}

/// Whether the median is known well enough, by the runs that count; two that the certificate speaks against do not agree about anything.
fn is_settled(runs: &[CellResult], agree: Option<f64>) -> bool {
    let counted = counted(runs);
    let is_valid = |run: &&CellResult| !run.marks.contains(&Mark::Invalid);
    let valid = counted.iter().all(is_valid);
    let figures: Vec<f64> = counted.into_iter().map(figure).collect();
    let interval = stats::median_ci(&figures, CONFIDENCE);
    let median = stats::quantile(&figures, 0.5).unwrap_or(0.0);
    let all_within = |share: f64| {
        let mut off = figures.iter().map(|figure| (figure - median).abs());
        valid && figures.len() > 1 && off.all(|off| off <= share * median)
    };
    interval.is_some_and(|interval| interval.half_width() <= SETTLED * median)
        || agree.is_some_and(all_within)
}

/// The runs that the certificate does not speak against; all if there are none. Those of the cell and those of its slower twin have no
/// common median: of these the more numerous.
fn counted(runs: &[CellResult]) -> Vec<&CellResult> {
    let valid = runs
        .iter()
        .filter(|run| !run.marks.contains(&Mark::Invalid));
    let mut counted: Vec<&CellResult> = valid.collect();
    if counted.is_empty() {
        counted = runs.iter().collect();
    }
    let is_scaled = |run: &&CellResult| run.marks.contains(&Mark::Scaled);
    let (scaled, whole): (Vec<_>, Vec<_>) = counted.into_iter().partition(is_scaled);
    if scaled.len() > whole.len() {
        scaled
    } else {
        whole
    }
}

/// The run in the middle of those that count.
fn middle(runs: &[CellResult], agree: Option<f64>) -> Option<CellResult> {
    let mut eligible = counted(runs);
    eligible.sort_by(|a, b| figure(a).total_cmp(&figure(b)));
    let mut result = (*eligible.get((eligible.len().max(1) - 1) / 2)?).clone();
    result.runs_bps = counted(runs).into_iter().map(figure).collect();
    result.wall_s = runs.iter().map(|run| run.wall_s).sum();
    if !is_settled(runs, agree) {
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
    use howdah_report::result::FlowResult;

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
        let result = middle(&runs, None).unwrap();
        assert!((figure(&result) - 8.0).abs() < 1e-9);
        // What the certificate speaks against is made up for, and no longer told.
        assert_eq!(result.runs_bps, [9.0, 7.0, 8.0]);
        assert_eq!(result.marks, [Mark::Unsettled]);
        let result = middle(&runs[1..2], None).unwrap();
        assert_eq!(result.marks, [Mark::Invalid, Mark::Unsettled]);
        assert!(middle(&[], None).is_none());
    }

    /// The machine had no time left in the third run, so that it was one of a tenth of the rate, and those behind it are.
    #[test]
    fn runs_of_a_twin_are_no_runs_of_its_cell() {
        let whole = [run(9.0, &[]), run(9.2, &[])];
        let mut runs = [&whole[..], &[run(0.9, &[Mark::Scaled])]].concat();
        let result = middle(&runs, None).unwrap();
        assert_eq!(result.runs_bps, [9.0, 9.2]);
        assert_eq!(result.marks, [Mark::Unsettled]);
        runs.extend([run(0.92, &[Mark::Scaled]), run(0.94, &[Mark::Scaled])]);
        let result = middle(&runs, None).unwrap();
        assert_eq!(result.runs_bps, [0.9, 0.92, 0.94]);
        assert!(result.marks.contains(&Mark::Scaled));
    }

    #[test]
    fn six_runs_that_agree_settle_a_cell() {
        let close: Vec<CellResult> = (0..6).map(|k| run(100.0 + f64::from(k), &[])).collect();
        assert!(is_done(&close, 10, None));
        assert!(!is_done(&close[..5], 10, None));
        assert!(is_done(&close[..5], 5, None));
        let wide: Vec<CellResult> = (0..6)
            .map(|k| run(100.0 + 10.0 * f64::from(k), &[]))
            .collect();
        assert!(!is_done(&wide, 10, None));
        assert!(middle(&close, None).unwrap().marks.is_empty());
    }

    /// `--agree`: two runs are enough where they say the same, and three are not where one of them does not.
    #[test]
    fn runs_that_agree_are_enough_where_that_is_asked() {
        let five = Some(0.05);
        let close = [run(9.0, &[]), run(9.4, &[])];
        assert!(is_done(&close, 3, five));
        assert!(!is_done(&close, 3, None));
        assert!(!is_done(&close[..1], 3, five));
        assert!(middle(&close, five).unwrap().marks.is_empty());
        let apart = [run(9.0, &[]), run(10.0, &[]), run(9.1, &[])];
        assert!(!is_done(&apart[..2], 3, five));
        assert!(is_done(&apart, 3, five), "three at most");
        assert_eq!(middle(&apart, five).unwrap().marks, [Mark::Unsettled]);
        let doubted = [run(9.0, &[Mark::Invalid]), run(9.0, &[Mark::Invalid])];
        assert!(!is_done(&doubted, 3, five));
        assert!(!is_done(&[run(0.0, &[]), run(0.1, &[])], 3, five));
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
        assert!(is_done(&wide(3, 0), 3, None));
        assert!(!is_done(&wide(3, 1), 3, None));
        assert!(is_done(&wide(4, 1), 3, None));
        assert!(!is_done(&wide(5, 5), 3, None));
        assert!(
            is_done(&wide(6, 6), 3, None),
            "never more than twice as many"
        );
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
