//! Looks for the network on which a transport fails worst, and for the simplest one on which it still does.
//!
//! [`attack`] searches the space of paths and neighbours (`conditions`) in virtual time and scores each network by a [`Goal`]. The
//! worst ones are tried with more seeds, since with one of them a search finds luck; from the worst of these, by the median, it goes
//! back to the simplest that is nearly as bad. What it gives is a scenario, which `howdah lab run` repeats, also with real programs.

mod conditions;
mod goal;
mod search;

pub use goal::Goal;

use crate::catalog::{self, Protocol};
use crate::scenario::{Cell, parse};
use crate::sim;
use conditions::{Bounds, Conditions};
use howdah_report::stats::quantile;
use search::Search;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Seeds that a finding is tried with.
const SEEDS: u64 = 5;
/// The worst networks of the search, which are tried with all of them.
const FINALISTS: usize = 12;

/// What is attacked, and with how much.
#[derive(Clone, Debug)]
pub struct AttackOptions {
    /// The transport, as scenarios name it.
    pub protocol: String,
    /// What is looked for.
    pub goal: Goal,
    /// Networks that are tried. What comes behind the search comes on top.
    pub runs: usize,
    /// The search ends after this long; then two machines may find different things.
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
    pub conditions: Vec<(&'static str, String)>,
    /// How bad it is, from 0 to 1, at the median of five seeds; [`Goal::told`] says it in words.
    pub score: f64,
    /// With each of them.
    pub scores: Vec<f64>,
    /// The worst network of the search, which may have been less simple.
    pub worst_score: f64,
    /// How bad the plainest network is: 100 Mbit/s, 40 ms, a queue of one bandwidth-delay product.
    pub plain_score: f64,
    /// Networks that were simulated, each with one seed or with five.
    pub simulated: usize,
}

/// Why there is nothing.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AttackError {
    /// The protocol is none, or has no model.
    #[error("{0}")]
    Protocol(String),
    /// No path that is tried is that slow.
    #[error("paths are tried from {0} on; --max-rate is less")]
    Rate(&'static str),
    /// It was told to stop.
    #[error("stopped, and nothing is written; '--time' ends a search with what is known by then")]
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

/// Attacks. `stop` ends it with nothing; the time of the options ends the search with what is known by then.
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
    let slowest = howdah_core::units::parse_rate(conditions::SLOWEST);
    if slowest.is_ok_and(|rate| options.most_rate_bps < rate.bits_per_sec()) {
        return Err(AttackError::Rate(conditions::SLOWEST));
    }
    let bounds = Bounds::new(options.most_rate_bps, options.goal.needs_neighbour());
    let range = Range {
        options,
        stop,
        failure: Mutex::new(None),
    };
    let deadline = options.time.map(|time| Instant::now() + time);
    let (mut tried, mut highest) = (0, 0.0_f64);
    let mut once = |networks: &[Conditions]| {
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return None;
        }
        let scores = range.scores(networks, &|network| range.score(network, options.seed))?;
        tried += networks.len();
        highest = scores.iter().copied().fold(highest, f64::max);
        watch(tried, highest);
        Some(scores)
    };
    let mut search = Search::new(bounds, &mut once);
    search.run(options.runs, options.seed);
    let worst = search.worst().iter().copied().take(FINALISTS);
    let finalists: Vec<_> = worst.chain([Conditions::plain(bounds)]).collect();
    let searched = search.scored();

    let mut often =
        |networks: &[Conditions]| range.scores(networks, &|network| range.median(network));
    let mut finals = Search::new(bounds, &mut often);
    let found = finals.simplest(&finalists);
    let simulated = searched + finals.scored();
    let score_of = |network: Conditions| finals.score_of(network);
    let scores = found.map(|(worst, simple)| {
        let plain = Conditions::plain(bounds);
        (simple, [simple, worst, plain].map(score_of))
    });
    if let Some(failure) = range.failed() {
        return Err(failure);
    }
    let (simple, [score, worst_score, plain_score]) = scores.ok_or(AttackError::Stopped)?;
    let id = format!("attack-{}-{}", options.protocol, options.goal.name());
    Ok(Found {
        scenario: simple.scenario(&id, &options.protocol, options.seed),
        conditions: simple.described(bounds),
        score,
        scores: range.each(simple).ok_or(AttackError::Stopped)?,
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

    /// The score with each seed; `None` if it was stopped.
    fn each(&self, network: Conditions) -> Option<Vec<f64>> {
        let seeds = (0..SEEDS).map(|number| self.options.seed.wrapping_add(number));
        seeds.map(|seed| self.score(network, seed)).collect()
    }

    /// The median of those.
    fn median(&self, network: Conditions) -> Option<f64> {
        quantile(&self.each(network)?, 0.5)
    }

    /// The score of each network, as many at a time as there are jobs; `None` if it was stopped.
    fn scores(
        &self,
        networks: &[Conditions],
        score: &(dyn Fn(Conditions) -> Option<f64> + Sync),
    ) -> Option<Vec<f64>> {
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
                        let Some(score) = score(network) else {
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
