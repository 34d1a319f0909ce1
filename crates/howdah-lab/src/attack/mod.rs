//! Looks for the network on which a transport fails worst, and for the simplest one on which it still does.
//!
//! [`attack`] searches the space of paths and neighbours (`conditions`) in virtual time, scores each network by a [`Goal`], goes
//! back from the worst one to the simplest that is nearly as bad, and tries that one with other seeds. What it gives is a
//! scenario, which `howdah lab run` repeats, also with real programs.

mod conditions;
mod goal;
mod search;

pub use goal::Goal;

use crate::catalog::{self, Protocol};
use crate::scenario::{Cell, parse};
use crate::sim;
use conditions::{Bounds, Conditions};
use search::Search;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Seeds that a finding is tried with.
const SEEDS: u64 = 5;

/// What is attacked, and with how much.
#[derive(Clone, Debug)]
pub struct AttackOptions {
    /// The transport, as scenarios name it.
    pub protocol: String,
    /// What is looked for.
    pub goal: Goal,
    /// Networks that are tried. The way back to a simple one comes on top.
    pub runs: usize,
    /// The search, without the way back, ends after this long; then two machines may find different things.
    pub time: Option<Duration>,
    /// Of the search, and of the networks.
    pub seed: u64,
    /// Networks at a time.
    pub jobs: usize,
    /// Fastest path in bit/s. Faster ones take longer to simulate.
    pub most_rate_bps: u64,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The scenario.
    pub scenario: String,
    /// What it is made of.
    pub conditions: Vec<(&'static str, &'static str)>,
    /// How bad it is, from 0 to 1; [`Goal::told`] says it in words.
    pub score: f64,
    /// With each of five seeds, the first one included.
    pub scores: Vec<f64>,
    /// The worst network of the search, which may have been less simple.
    pub worst_score: f64,
    /// How bad the plainest network is: 100 Mbit/s, 40 ms, a queue of one bandwidth-delay product.
    pub plain_score: f64,
    /// Networks that were simulated.
    pub simulated: usize,
}

/// Why there is nothing.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AttackError {
    /// The protocol is none, or has no model.
    #[error("{0}")]
    Protocol(String),
    /// It was told to stop before anything was known.
    #[error("stopped")]
    Stopped,
    /// The simulator failed, which is a fault of its own.
    #[error("the simulator failed on this scenario: {message}\n{scenario}")]
    Failed {
        /// What it says.
        message: String,
        /// What it failed on.
        scenario: String,
    },
}

/// How far a search is: networks tried, and the worst score.
pub type Watch<'a> = dyn FnMut(usize, f64) + 'a;

/// Attacks. `stop` ends the search with what is known by then.
///
/// # Errors
///
/// See [`AttackError`].
pub fn attack(
    options: &AttackOptions,
    stop: &AtomicBool,
    watch: &mut Watch<'_>,
) -> Result<Found, AttackError> {
    check(&options.protocol)?;
    let bounds = Bounds::new(options.most_rate_bps, options.goal.needs_neighbour());
    let range = Range {
        options,
        stop,
        failure: Mutex::new(None),
    };
    let deadline = options.time.map(|time| Instant::now() + time);
    let is_over = AtomicBool::new(false);
    let (mut tried, mut worst) = (0, 0.0_f64);
    let mut score = |networks: &[Conditions]| {
        let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if late && !is_over.load(Ordering::Relaxed) {
            return None;
        }
        let scores = range.scores(networks)?;
        tried += networks.len();
        worst = scores.iter().copied().fold(worst, f64::max);
        watch(tried, worst);
        Some(scores)
    };
    let mut search = Search::new(bounds, &mut score);
    search.run(options.runs, options.seed);
    is_over.store(true, Ordering::Relaxed);
    let found = search.worst().map(|worst| {
        let simple = search.simplified(worst);
        let scores = [simple, worst, Conditions::plain(bounds)].map(|c| search.score_of(c));
        (simple, scores, search.scored())
    });
    if let Some(failure) = range.failed() {
        return Err(failure);
    }
    let (simple, [score, worst_score, plain_score], simulated) =
        found.ok_or(AttackError::Stopped)?;
    let mut scores = vec![score];
    for seed in 1..SEEDS {
        scores.extend(range.score(simple, options.seed + seed));
    }
    if let Some(failure) = range.failed() {
        return Err(failure);
    }
    let id = format!("attack-{}-{}", options.protocol, options.goal.name());
    Ok(Found {
        scenario: simple.scenario(&id, &options.protocol, options.seed),
        conditions: simple.described(bounds),
        score,
        scores,
        worst_score,
        plain_score,
        simulated,
    })
}

/// Whether the simulator has that protocol, and it needs to be told nothing.
fn check(name: &str) -> Result<(), AttackError> {
    let refused = |why: String| Err(AttackError::Protocol(why));
    match catalog::find(name) {
        None => refused(format!(
            "there is no protocol '{name}'; 'howdah lab list --protocols' shows them"
        )),
        Some(Protocol::Foreign(_)) => refused(format!(
            "'{name}' is a real program, and attacks are made in the simulator"
        )),
        Some(_) => catalog::check(name, &catalog::Options::default())
            .or_else(|(_, why)| refused(format!("{why}, and an attack has none to tell"))),
    }
}

/// Where networks are tried.
struct Range<'a> {
    options: &'a AttackOptions,
    stop: &'a AtomicBool,
    failure: Mutex<Option<AttackError>>,
}

impl Range<'_> {
    fn failed(&self) -> Option<AttackError> {
        self.failure.lock().ok()?.take()
    }

    /// The score of each; `None` if it was stopped.
    fn scores(&self, networks: &[Conditions]) -> Option<Vec<f64>> {
        let next = AtomicUsize::new(0);
        let scores = Mutex::new(vec![0.0; networks.len()]);
        let is_whole = AtomicBool::new(true);
        std::thread::scope(|scope| {
            for _ in 0..self.options.jobs.clamp(1, networks.len().max(1)) {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(&network) = networks.get(at) else {
                            break;
                        };
                        let Some(score) = self.score(network, self.options.seed) else {
                            is_whole.store(false, Ordering::Relaxed);
                            break;
                        };
                        if let Ok(mut scores) = scores.lock() {
                            scores[at] = score;
                        }
                    }
                });
            }
        });
        let scores = scores.into_inner().ok()?;
        is_whole.into_inner().then_some(scores)
    }

    /// `None` if it was stopped, or the simulator failed.
    fn score(&self, network: Conditions, seed: u64) -> Option<f64> {
        let text = network.scenario("attack", &self.options.protocol, seed);
        let failed = |message: String| {
            if let Ok(mut failure) = self.failure.lock() {
                failure.get_or_insert(AttackError::Failed {
                    message,
                    scenario: text.clone(),
                });
            }
        };
        let cell = match parse(Path::new("attack.toml"), &text, false) {
            Ok(plan) => plan.cells().next().cloned()?,
            Err(error) => {
                failed(error.to_string());
                return None;
            }
        };
        let goal = self.options.goal;
        let score = |cell: &Cell| {
            let result = sim::run(cell, self.stop).ok()?;
            let warmup_s = cell.measure.warmup_ns as f64 / 1e9;
            Some(goal.score(&result, network.bound_bps(), warmup_s))
        };
        match catch_unwind(AssertUnwindSafe(|| score(&cell))) {
            Ok(score) => score,
            Err(panic) => {
                failed(sim::what_failed(&*panic).to_owned());
                None
            }
        }
    }
}
