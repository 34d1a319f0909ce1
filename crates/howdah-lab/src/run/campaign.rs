//! The course of a campaign: rounds of one run of each open cell, until no cell is open.

use super::record::{self, Origin};
use super::{Outcome, RunError, RunOptions, RunProgress, STILL_S, describe};
use crate::derive;
use crate::scenario::{Cell, Plan};
use howdah_report::result::{Campaign, CellResult, Summary};
use howdah_report::store::{Store, StoreError};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// Between two words about the progress at most.
const WATCH_EVERY: Duration = Duration::from_millis(500);

/// What runs cells: the simulator, or programs over an emulated network.
pub(super) trait Testbed: Sync {
    /// As results name it.
    const NAME: &'static str;
    /// How often a cell may fail before it is given up.
    const MOST_FAILURES: usize;

    /// The cells of a plan that are different ones here.
    fn cells<'p>(&self, plan: &'p Plan) -> Vec<&'p Cell>;
    /// How many are run at a time if `wished` are wished for.
    fn jobs(&self, wished: usize) -> usize;
    /// How often a cell is run at most.
    fn most_runs(&self) -> usize;
    /// How long a run of a cell takes, in any unit.
    fn cost(&self, cell: &Cell) -> f64;
    /// Puts the cells of a round in order.
    fn order(&mut self, open: &mut [Open<'_>]);
    /// The runs of a cell that are there and count.
    fn found(&self, store: &Store, cell: &Cell) -> Vec<CellResult>;
    /// Whether these runs are enough.
    fn is_done(&self, runs: &[CellResult]) -> bool;
    /// Runs a cell once more.
    fn run(&self, cell: &Cell, before: &[CellResult], stop: &AtomicBool) -> Attempt;
    /// Writes down what the next command goes on from, where the result alone does not say it.
    fn keep(&self, _: &Store, _: &Cell, _: &[CellResult]) -> Result<(), StoreError> {
        Ok(())
    }
    /// What stands for a cell of these runs.
    fn result(&self, runs: &[CellResult]) -> Option<CellResult>;
}

/// What became of a run.
pub(super) enum Attempt {
    /// Figures.
    Ran(Box<CellResult>),
    /// This testbed cannot run such a cell.
    Skipped(String),
    /// It went wrong.
    Failed(String),
    /// It was told to stop.
    Stopped,
}

/// A cell that is not done.
pub(super) struct Open<'p> {
    pub(super) cell: &'p Cell,
    runs: Vec<CellResult>,
    failures: usize,
}

/// Runs all cells that are not done. `stop` makes it end with what is done by then; `watch` is told after each
/// run, and about twice a second.
pub(super) fn run<T: Testbed>(
    testbed: &mut T,
    plan: &Plan,
    options: &RunOptions,
    stop: &AtomicBool,
    mut watch: impl FnMut(&RunProgress),
) -> Result<Outcome, RunError> {
    let started = Instant::now();
    let store = Store::create(&options.out).map_err(|error| match error {
        StoreError::Others(_) => RunError::NotOurs(error),
        error => RunError::Store { error, finished: 0 },
    })?;
    let failed_to_store = |error| RunError::Store {
        error,
        finished: store.finished(),
    };
    let cells = testbed.cells(plan);
    let campaign = record::campaign(plan, &cells, options.quick, Origin::here(&options.command));
    refuse_others(&store, &campaign)?;
    let asked = || cells.iter().enumerate();
    let asked = asked().filter(|(index, cell)| options.asks_for(*index, cell));
    refuse_other_testbed::<T>(&store, asked.map(|(_, cell)| *cell))?;
    let was_changed = store.campaign().is_ok_and(|before| before.dirty);
    store.write_campaign(&campaign).map_err(failed_to_store)?;

    let mut course = Course {
        outcome: Outcome::default(),
        progress: RunProgress::default(),
        work: 0.0,
        done_work: 0.0,
        store: &store,
        commit: &campaign.commit,
        unclear: (was_changed || campaign.dirty).then_some(0),
        quick: options.quick,
    };
    let mut open = Vec::new();
    for (index, &cell) in cells.iter().enumerate() {
        if !options.asks_for(index, cell) {
            continue;
        }
        let runs = if options.again {
            Vec::new()
        } else {
            testbed.found(&store, cell)
        };
        if testbed.is_done(&runs) {
            course.has(cell);
        } else {
            course.work += left(testbed, cell, &runs);
            open.push(Open {
                cell,
                runs,
                failures: 0,
            });
        }
    }
    course.progress.cells = open.len();
    while !open.is_empty() && !stop.load(Ordering::Relaxed) {
        testbed.order(&mut open);
        let round = course.round(testbed, open, options.jobs, stop, |progress| {
            progress.elapsed_s = started.elapsed().as_secs_f64();
            watch(progress);
        });
        open = round.map_err(failed_to_store)?;
    }
    let mut outcome = course.outcome;
    if let Some(cells) = course.unclear.filter(|cells| *cells > 0) {
        outcome.notes.push(format!(
            "{cells} cells were run by this commit, whose sources were changed then or are now; --again runs them with this program"
        ));
    }
    outcome.stopped = stop.load(Ordering::Relaxed);
    outcome.wall_s = started.elapsed().as_secs_f64();
    let summary = summarise(&store, campaign, &cells).map_err(failed_to_store)?;
    store.write_summary(&summary).map_err(failed_to_store)?;
    Ok(outcome)
}

/// How much work a cell is at most, with these runs of it done.
fn left<T: Testbed>(testbed: &T, cell: &Cell, runs: &[CellResult]) -> f64 {
    // One that wants another run is no less work than that.
    testbed.most_runs().saturating_sub(runs.len()).max(1) as f64 * testbed.cost(cell)
}

/// A campaign under way.
struct Course<'s> {
    outcome: Outcome,
    progress: RunProgress,
    work: f64,
    done_work: f64,
    store: &'s Store,
    commit: &'s str,
    /// Cells of that commit that were done before, where it does not say by which sources.
    unclear: Option<usize>,
    quick: bool,
}

impl Course<'_> {
    /// A cell was done before.
    fn has(&mut self, cell: &Cell) {
        self.outcome.kept += 1;
        self.progress.kept += 1;
        let commit = self.store.read(&cell.id()).map(|result| result.commit);
        if let Some(commit) = commit.filter(|commit| commit != self.commit) {
            *self.outcome.kept_from.entry(commit).or_default() += 1;
        } else if let Some(cells) = &mut self.unclear {
            *cells += 1;
        }
    }

    /// Runs each cell once, and returns those that are open still.
    fn round<'p, T: Testbed>(
        &mut self,
        testbed: &T,
        open: Vec<Open<'p>>,
        jobs: usize,
        stop: &AtomicBool,
        mut watch: impl FnMut(&mut RunProgress),
    ) -> Result<Vec<Open<'p>>, StoreError> {
        let jobs = testbed.jobs(jobs).clamp(1, open.len().max(1));
        let todo = Mutex::new(open.into_iter());
        let abort = AtomicBool::new(false);
        let (sender, runs) = mpsc::channel();
        let mut still_open = Vec::new();
        let mut failure = None;
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                let (sender, todo, abort) = (sender.clone(), &todo, &abort);
                scope.spawn(move || {
                    let next = || todo.lock().unwrap_or_else(PoisonError::into_inner).next();
                    while !stop.load(Ordering::Relaxed) && !abort.load(Ordering::Relaxed) {
                        let Some(item) = next() else {
                            break;
                        };
                        let started = Instant::now();
                        let mut attempt = testbed.run(item.cell, &item.runs, stop);
                        if let Attempt::Ran(result) = &mut attempt {
                            result.wall_s = started.elapsed().as_secs_f64();
                        }
                        if sender.send((item, attempt)).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(sender);
            loop {
                match runs.recv_timeout(WATCH_EVERY) {
                    Ok((item, attempt)) => match self.record(testbed, item, attempt) {
                        Ok(open) => still_open.extend(open),
                        Err(error) => {
                            failure.get_or_insert(error);
                            abort.store(true, Ordering::Relaxed);
                        }
                    },
                    Err(mpsc::RecvTimeoutError::Timeout) => {}
                    Err(mpsc::RecvTimeoutError::Disconnected) => break,
                }
                watch(&mut self.progress);
            }
        });
        failure.map_or(Ok(still_open), Err)
    }

    /// Writes down what came of a run; gives the cell back if it wants another one.
    fn record<'p, T: Testbed>(
        &mut self,
        testbed: &T,
        mut item: Open<'p>,
        attempt: Attempt,
    ) -> Result<Option<Open<'p>>, StoreError> {
        let cell = item.cell;
        let before = left(testbed, cell, &item.runs);
        let mut skipped = false;
        let given_up = match attempt {
            Attempt::Stopped => return Ok(None),
            Attempt::Ran(result) => {
                item.runs.push(*result);
                testbed.keep(self.store, cell, &item.runs)?;
                None
            }
            Attempt::Skipped(why) => {
                let place = describe(cell);
                self.outcome.skipped.push((place, why.clone()));
                skipped = true;
                Some(CellResult {
                    skipped: Some(why),
                    ..record::empty(cell, T::NAME)
                })
            }
            Attempt::Failed(error) => {
                item.failures += 1;
                if item.failures < T::MOST_FAILURES {
                    return Ok(Some(item));
                }
                self.outcome.failed.push((describe(cell), error.clone()));
                self.progress.failed += 1;
                Some(CellResult {
                    error: Some(error),
                    ..record::empty(cell, T::NAME)
                })
            }
        };
        let is_over = given_up.is_some() || testbed.is_done(&item.runs);
        // What was measured before it failed stands.
        if let Some(mut result) = testbed.result(&item.runs).or(given_up) {
            record::sign(&mut result, cell, self.commit, self.quick);
            if is_over {
                self.outcome.stalls.extend(stalls(cell, &result));
                self.outcome.gave_up.extend(gave_up(cell, &result));
            }
            self.store.write(&result)?;
        }
        let after = if is_over {
            0.0
        } else {
            left(testbed, cell, &item.runs)
        };
        self.done_work += before - after;
        self.progress.share = (self.done_work / self.work.max(f64::MIN_POSITIVE)).min(1.0);
        self.progress.last = describe(cell);
        if is_over {
            self.outcome.ran += usize::from(!skipped);
            self.progress.done += 1;
        }
        Ok((!is_over).then_some(item))
    }
}

/// Flows that stood still for long.
fn stalls(cell: &Cell, result: &CellResult) -> Vec<(String, f64)> {
    let named = result.metrics.iter().filter_map(|(name, &seconds)| {
        let flow = name.strip_prefix("longest_stall_s/")?;
        (seconds >= STILL_S).then(|| (format!("{} {flow}", describe(cell)), seconds))
    });
    named.collect()
}

/// Flows that gave up, and those that have had nothing to give up.
fn gave_up(cell: &Cell, result: &CellResult) -> Vec<(String, String)> {
    let named = result.flows.iter().filter_map(|flow| {
        let why = match &flow.failed {
            Some(why) => why.clone(),
            None if flow.delivered_bytes == 0 => "nothing arrived".to_owned(),
            None => return None,
        };
        Some((format!("{} {}", describe(cell), flow.name), why))
    });
    named.collect()
}

/// Results of one scenario would be shown as those of another. The same files may come again, with others or without.
fn refuse_others(store: &Store, campaign: &Campaign) -> Result<(), RunError> {
    let Ok(before) = store.campaign() else {
        return Ok(());
    };
    let files = |campaign: &Campaign| -> BTreeSet<String> {
        let files = campaign.experiments.iter().map(|note| note.file.clone());
        files.filter(|file| !file.is_empty()).collect()
    };
    let (old, new) = (files(&before), files(campaign));
    let text = |campaign: &Campaign, file: &str| {
        let found = campaign.scenarios.iter().find(|text| text.path == file);
        found.map(|found| found.text.clone())
    };
    let is_same = |a: &str, b: &str| {
        let place = |file: &str| std::fs::canonicalize(file).ok();
        a == b
            || (place(a).is_some() && place(a) == place(b))
            || (text(&before, a).is_some() && text(&before, a) == text(campaign, b))
    };
    let meets = old.iter().any(|a| new.iter().any(|b| is_same(a, b)));
    if old.is_empty() || new.is_empty() || meets {
        return Ok(());
    }
    Err(RunError::Taken {
        dir: store.dir().to_owned(),
        others: old.into_iter().collect::<Vec<_>>().join(", "),
    })
}

/// A cell has the same name on all testbeds: results of one would be taken for those of the other, or written over them.
fn refuse_other_testbed<'c, T: Testbed>(
    store: &Store,
    mut cells: impl Iterator<Item = &'c Cell>,
) -> Result<(), RunError> {
    let others = |cell: &Cell| {
        let there = store.read(&cell.id());
        let there = there.filter(|result| result.error.is_none() && result.skipped.is_none());
        Some(there?.testbed).filter(|testbed| testbed != T::NAME)
    };
    let Some(testbed) = cells.find_map(others) else {
        return Ok(());
    };
    Err(RunError::OtherTestbed {
        dir: store.dir().to_owned(),
        testbed,
    })
}

/// All finished cells in the order of the scenarios, with what only their neighbours can tell, which
/// is added to their files too.
fn summarise(store: &Store, campaign: Campaign, cells: &[&Cell]) -> Result<Summary, StoreError> {
    let mut results: Vec<CellResult> = Vec::new();
    let mut specs = Vec::new();
    for &cell in cells {
        if let Some(result) = store.read(&cell.id()) {
            results.push(result);
            specs.push(cell);
        }
    }
    for changed in derive::harm(&specs, &mut results) {
        store.write_again(&results[changed])?;
    }
    Ok(Summary {
        campaign,
        cells: results,
    })
}
