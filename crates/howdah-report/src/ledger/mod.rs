//! The ledger: what the four papers state, what we find, and a verdict on each statement.
//!
//! A [`Statement`] is one sentence of a paper that a run can confirm or contradict, in our own
//! words, with a [`Check`] in code. [`entries`] runs every check over the cells of a campaign. The
//! meaning of the papers' words ("near 1 Gbit/s", "starved") is fixed in [`words`], which was
//! written before the first run. Nothing is left out: a statement that fails stays in the table
//! with what was tried, and one whose data are missing says what to run.
//!
//! A statement whose figure was used to choose a parameter of a model is marked as fitted, and one that
//! follows from fits, from constants or from other statements as implied; [`Tally`] counts those apart, for they
//! predict nothing. A statement is judged in each trial that the paper would have seen (a seed, or the best
//! of four), and its verdict is that of the middle trial. A check without data for all of its parts cannot be judged.

mod grid;
mod jgn06;
mod judge;
mod k13app;
mod k14proto;
mod page;
mod results;
mod series;
mod sweep;
mod table;
mod testbed;
#[cfg(test)]
mod tests;
pub mod words;
mod wtrl10;

pub use page::{Page, Provenance};
pub use results::{Cells, Results};
pub use sweep::SWEEP;
pub use table::{Tally, table};
pub use testbed::OnTestbed;

use crate::result::CellResult;
use judge::Mark;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The papers.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Paper {
    /// Kachan, Siemens: bare protocols at 10 Gbit/s (2014).
    K14proto,
    /// Kachan, Siemens, Shuvalov: commercial file movers at 10 Gbit/s (2013).
    K13app,
    /// Kumazoe and others: high-speed TCPs and UDT among other traffic at 1 Gbit/s (2006).
    Jgn06,
    /// Wang, Tang, Ren, Li: end-system aware tools at 1 Gbit/s (2010).
    Wtrl10,
}

impl Paper {
    /// The paper's short name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::K14proto => "K14proto",
            Self::K13app => "K13app",
            Self::Jgn06 => "JGN06",
            Self::Wtrl10 => "WTRL10",
        }
    }
}

/// What sort of statement it is. [`words`] says what "in shape" means for each.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A number ("=").
    Number,
    /// A bound or a range ("<>").
    Bound,
    /// One thing above another (">").
    Order,
    /// How something moves with something else, or over time ("~").
    Trend,
    /// A remark about the paper itself; nothing to measure.
    Remark,
}

impl Kind {
    /// The sign used in the table.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Number => "=",
            Self::Bound => "<>",
            Self::Order => ">",
            Self::Trend => "~",
            Self::Remark => "note",
        }
    }
}

/// A verdict.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// The statement holds as it is written, within the tolerances of [`words`].
    Holds,
    /// The direction is right, the size or a part of the protocols is not.
    ShapeHolds,
    /// The runs contradict it.
    Fails,
    /// There is nothing to judge by, and why.
    CannotBeJudged(String),
}

impl Verdict {
    /// The verdict in words.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::ShapeHolds => "shape holds",
            Self::Fails => "fails",
            Self::CannotBeJudged(_) => "cannot be judged",
        }
    }
}

/// What a check found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Finding {
    /// Our figures, for people. Rates are in Mbit/s of goodput unless it says otherwise.
    pub ours: String,
    /// What a reader has to know beside it.
    pub note: String,
    /// What each part says.
    pub(crate) marks: Vec<Mark>,
    /// Parts without data.
    pub(crate) missing: Vec<String>,
    /// Which scenario gives them.
    pub(crate) run: String,
}

impl Finding {
    /// The verdict of a statement of that kind. All parts are needed; of a reduced set, which leaves some out by design, half.
    pub fn verdict(&self, kind: Kind, reduced: bool) -> Verdict {
        let enough = if reduced {
            self.marks.len() >= self.missing.len()
        } else {
            self.missing.is_empty()
        };
        if enough && !self.marks.is_empty() {
            return judge::verdict(kind, &self.marks);
        }
        let lacking = match &self.missing[..] {
            [] => "no data".to_owned(),
            parts => format!("no data of {}", parts.join(", ")),
        };
        let run = match &*self.run {
            "" => String::new(),
            run => format!("; run: howdah lab run {run}"),
        };
        Verdict::CannotBeJudged(lacking + &run)
    }
}

/// How results name the simulator.
const SIM: &str = "sim";

/// Judges a statement by results.
pub type Check = fn(&Results<'_>) -> Finding;
/// The same in one of several readings of the paper's set-up.
pub type SetUpCheck = fn(&Results<'_>, &str) -> Finding;

/// How a statement is judged.
#[derive(Clone, Copy, Debug)]
pub enum Judge {
    /// By one check.
    Once(Check),
    /// In each of these set-ups; the statement's own verdict is that of the middle one, the worse of two.
    InSetUps(&'static [&'static str], SetUpCheck),
}

/// What a verdict counts for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Standing {
    /// It is a prediction.
    #[default]
    Counts,
    /// The paper's figure, or the behaviour itself, was used to choose a parameter of a model.
    Fitted,
    /// It follows, and from what: from fits, from a constant, or from another statement.
    Implied(&'static str),
}

impl Standing {
    /// In one word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counts => "counts",
            Self::Fitted => "fitted",
            Self::Implied(_) => "implied",
        }
    }
}

/// One sentence of a paper that a run can confirm or contradict.
#[derive(Clone, Copy, Debug)]
pub struct Statement {
    /// Id, unique: "J.a2f".
    pub id: &'static str,
    /// The paper.
    pub paper: Paper,
    /// Experiment that it is about, as scenarios name it: "J-A2".
    pub experiment: &'static str,
    /// The statement in our words.
    pub statement: &'static str,
    /// What the paper gives, in its own units.
    pub stated: &'static str,
    /// What sort of statement it is.
    pub kind: Kind,
    /// What its verdict counts for.
    pub standing: Standing,
    /// What was tried where it fails; empty if nothing was.
    pub tried: &'static str,
    /// The check.
    pub judge: Judge,
}

impl Statement {
    const fn of(
        paper: Paper,
        id: &'static str,
        experiment: &'static str,
        statement: &'static str,
        stated: &'static str,
        kind: Kind,
        check: Check,
    ) -> Self {
        Self {
            id,
            paper,
            experiment,
            statement,
            stated,
            kind,
            standing: Standing::Counts,
            tried: "",
            judge: Judge::Once(check),
        }
    }

    /// The same; a parameter of a model was chosen with it in view.
    const fn fitted(self) -> Self {
        Self {
            standing: Standing::Fitted,
            ..self
        }
    }

    /// The same; it follows from this.
    const fn implied(self, why: &'static str) -> Self {
        Self {
            standing: Standing::Implied(why),
            ..self
        }
    }

    /// The same; what was tried where it fails.
    const fn tried(self, tried: &'static str) -> Self {
        Self { tried, ..self }
    }
}

/// One line of the ledger, for people and for programs.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Entry {
    /// Id of the statement.
    pub id: String,
    /// Short name of the paper.
    pub paper: String,
    /// Experiment.
    pub experiment: String,
    /// The statement in our words.
    pub statement: String,
    /// What the paper gives.
    pub stated: String,
    /// "=", "<>", ">", "~" or "note".
    pub kind: String,
    /// Our figures.
    pub ours: String,
    /// "holds", "shape holds", "fails" or "cannot be judged": that of the middle trial, the lower one of two.
    pub verdict: String,
    /// "counts", "fitted" or "implied"; "set-up" for one reading of a statement that is counted once.
    pub standing: String,
    /// Judged by a reduced set (`--quick`), by half of its parts if need be.
    pub reduced: bool,
    /// Trials in which it holds, holds in shape, fails: one for each seed, or for each choice of four where the paper shows the
    /// best of four.
    pub trials: [usize; 3],
    /// Commits of the programs that ran the cells it was judged by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commits: Vec<String>,
    /// Reason, limits, today's protocols in the same experiment, what was tried.
    pub note: String,
    /// Where values that the paper does not state were swept: each set-up and the verdict in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub swept: Vec<(String, String)>,
    /// The same statement by real kernels and programs, where there are results of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub testbed: Option<OnTestbed>,
}

/// Every statement of the four papers, in the order of the papers' experiments.
pub fn statements() -> Vec<Statement> {
    let mut all = k14proto::statements();
    all.extend(k13app::statements());
    all.extend(jgn06::statements());
    all.extend(wtrl10::statements());
    all
}

/// Judges every statement by the simulated cells, and beside that by those of the testbed, if there are any.
pub fn entries(cells: &[CellResult]) -> Vec<Entry> {
    let mut entries = entries_on(cells, SIM);
    let real = testbed::entries(cells);
    for (entry, real) in entries.iter_mut().zip(real) {
        entry.testbed = testbed::told(real);
    }
    entries
}

/// Judges every statement by the cells of one testbed, "sim" or "netns".
pub fn entries_on(cells: &[CellResult], testbed: &str) -> Vec<Entry> {
    match testbed {
        testbed::NETNS => testbed::entries(cells),
        other => sweep::entries(cells, |cells| judge_all(cells, other)),
    }
}

fn judge_all(cells: &[CellResult], testbed: &str) -> Vec<Entry> {
    let results = Results::new(cells, testbed);
    // JGN06 and WTRL10 show single trials, the others the best of four.
    let (single, fours) = (results.trials(1), results.trials(4));
    let judged = statements().into_iter().flat_map(|statement| {
        let trials = match statement.paper {
            Paper::K14proto | Paper::K13app => &fours,
            Paper::Jgn06 | Paper::Wtrl10 => &single,
        };
        judge_statement(&statement, &results, trials)
    });
    judged.collect()
}

/// Whether any of the cells is of an experiment that a statement is about.
pub fn concerns(cells: &[CellResult]) -> bool {
    let known: Vec<&str> = statements().iter().map(|s| s.experiment).collect();
    let is_known = |name: &str| {
        known
            .iter()
            .any(|one| name == *one || name.starts_with(&format!("{one}-")))
    };
    cells.iter().any(|cell| is_known(&cell.experiment))
}

/// A statement's line, and behind it one for each set-up, if it has some.
fn judge_statement(statement: &Statement, all: &Results<'_>, trials: &[Results<'_>]) -> Vec<Entry> {
    let (setups, check) = match statement.judge {
        Judge::Once(check) => return vec![entry(statement, all, trials, check)],
        Judge::InSetUps(setups, check) => (setups, check),
    };
    let each: Vec<Entry> = (setups.iter())
        .map(|setup| {
            let own = entry(statement, all, trials, |r| check(r, setup));
            Entry {
                id: format!("{}/{setup}", own.id),
                standing: "set-up".to_owned(),
                ..own
            }
        })
        .collect();
    let mut judged: Vec<&Entry> = each.iter().filter(|e| rank(&e.verdict).is_some()).collect();
    judged.sort_by_key(|e| rank(&e.verdict));
    let mut own = Entry {
        standing: statement.standing.name().to_owned(),
        id: statement.id.to_owned(),
        ..each[0].clone()
    };
    if let Some(middle) = judged.get(judged.len().saturating_sub(1) / 2) {
        own.verdict.clone_from(&middle.verdict);
        own.trials = middle.trials;
        own.ours = String::new();
        let verdicts = setups
            .iter()
            .zip(&each)
            .map(|(setup, e)| format!("{setup} {}", e.verdict));
        let verdicts: Vec<String> = verdicts.collect();
        own.note = format!("the middle one of its set-ups: {}", verdicts.join(", "));
    }
    std::iter::once(own).chain(each).collect()
}

/// The place of a verdict among those that judge.
fn rank(verdict: &str) -> Option<usize> {
    ["fails", "shape holds", "holds"]
        .iter()
        .position(|name| *name == verdict)
}

fn entry(
    statement: &Statement,
    all: &Results<'_>,
    trials: &[Results<'_>],
    check: impl Fn(&Results<'_>) -> Finding,
) -> Entry {
    let (mut finding, looked) = all.watched(&check);
    if all.are_real() {
        // What gives the missing parts is the simulator's.
        finding.run.clear();
    }
    let reduced = looked.reduced;
    let commits = looked.commits.iter().filter(|commit| !commit.is_empty());
    let commits = commits.map(|commit| page::short(commit)).collect();
    let mut verdict = finding.verdict(statement.kind, reduced);
    let mut counts = [0; 3];
    if !matches!(verdict, Verdict::CannotBeJudged(_)) {
        let mut seen = BTreeSet::new();
        for trial in trials {
            let (found, looked) = trial.watched(&check);
            // Where others have more seeds than what this is about.
            if !seen.insert(looked.seeds) {
                continue;
            }
            match found.verdict(statement.kind, looked.reduced) {
                Verdict::Holds => counts[0] += 1,
                Verdict::ShapeHolds => counts[1] += 1,
                Verdict::Fails => counts[2] += 1,
                Verdict::CannotBeJudged(_) => {}
            }
        }
        verdict = middle(counts).unwrap_or(verdict);
    }
    let mut notes = Vec::new();
    if let Verdict::CannotBeJudged(reason) = &verdict {
        notes.push(reason.clone());
    } else if !finding.missing.is_empty() {
        notes.push(format!(
            "not {}: {}",
            all.where_parts_lack(),
            finding.missing.join(", ")
        ));
    }
    if let Standing::Implied(why) = statement.standing {
        notes.push(format!("implied: {why}"));
    }
    if !finding.note.is_empty() {
        notes.push(finding.note);
    }
    let missed = matches!(verdict, Verdict::Fails | Verdict::ShapeHolds);
    if missed && !statement.tried.is_empty() {
        notes.push(format!("tried: {}", statement.tried));
    }
    Entry {
        id: statement.id.to_owned(),
        paper: statement.paper.name().to_owned(),
        experiment: statement.experiment.to_owned(),
        statement: statement.statement.to_owned(),
        stated: statement.stated.to_owned(),
        kind: statement.kind.sign().to_owned(),
        ours: finding.ours,
        verdict: verdict.name().to_owned(),
        standing: statement.standing.name().to_owned(),
        reduced,
        trials: counts,
        commits,
        note: notes.join("; "),
        swept: Vec::new(),
        testbed: None,
    }
}

/// The verdict of the middle trial, of an even number the worse of the two.
const fn middle([holds, shape, fails]: [usize; 3]) -> Option<Verdict> {
    let all = holds + shape + fails;
    if all == 0 {
        None
    } else if 2 * fails >= all {
        Some(Verdict::Fails)
    } else if 2 * (fails + shape) >= all {
        Some(Verdict::ShapeHolds)
    } else {
        Some(Verdict::Holds)
    }
}

impl Entry {
    /// In how many trials it holds, for people; empty where there was one.
    pub fn spread(&self) -> String {
        let [holds, shape, fails] = self.trials;
        let all = holds + shape + fails;
        if all < 2 {
            return String::new();
        }
        let parts = [("holds", holds), ("in shape", shape), ("fails", fails)];
        let parts: Vec<String> = (parts.iter())
            .filter(|(_, count)| *count > 0)
            .map(|(word, count)| format!("{word} in {count}"))
            .collect();
        format!("{} of {all}", parts.join(", "))
    }

    /// The results gave a verdict.
    pub fn is_judged(&self) -> bool {
        rank(&self.verdict).is_some()
    }

    /// It has a say in how many statements hold.
    pub fn counts(&self) -> bool {
        self.standing == Standing::Counts.name()
    }
}

/// The check of a remark.
fn remark(_: &Results<'_>) -> Finding {
    Finding {
        missing: vec![
            "anything: a remark about the paper itself; there is nothing to measure".to_owned(),
        ],
        ..Finding::default()
    }
}
