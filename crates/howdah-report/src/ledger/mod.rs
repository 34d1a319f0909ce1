//! The ledger: what the four papers state, what we find, and a verdict on each statement.
//!
//! A [`Statement`] is one sentence of a paper that a run can confirm or contradict, in our own
//! words, with a [`Check`] in code. [`entries`] runs every check over the cells of a campaign. The
//! meaning of the papers' words ("near 1 Gbit/s", "starved") is fixed in [`words`], which was
//! written before the first run. Nothing is left out: a statement that fails stays in the table
//! with what was tried, and one whose data are missing says what to run.
//!
//! A statement whose figure was used to choose a parameter of a model is marked as fitted;
//! [`Tally`] counts those apart, for they predict nothing.

mod grid;
mod jgn06;
mod judge;
mod k13app;
mod k14proto;
mod results;
mod series;
mod table;
#[cfg(test)]
mod tests;
pub mod words;
mod wtrl10;

pub use results::{Cells, Results};
pub use table::{Tally, table};

use crate::result::CellResult;
use serde::{Deserialize, Serialize};

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

/// What sort of statement it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A number ("=").
    Number,
    /// A bound or a range ("<>").
    Range,
    /// An order or a shape ("~").
    Shape,
    /// A remark about the paper itself; nothing to measure.
    Remark,
}

impl Kind {
    /// The sign used in the table.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Number => "=",
            Self::Range => "<>",
            Self::Shape => "~",
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
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// Our figures, for people. Rates are in Mbit/s of goodput unless it says otherwise.
    pub ours: String,
    /// The verdict.
    pub verdict: Verdict,
    /// What a reader has to know beside it.
    pub note: String,
}

impl Finding {
    /// Nothing to judge by.
    pub fn unknown(reason: impl Into<String>) -> Self {
        Self {
            ours: String::new(),
            verdict: Verdict::CannotBeJudged(reason.into()),
            note: String::new(),
        }
    }
}

/// Judges a statement by results.
pub type Check = fn(&Results<'_>) -> Finding;

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
    /// The paper's figure, or the behaviour itself, was used to choose a parameter of a model.
    pub fitted: bool,
    /// What was tried where it fails; empty if nothing was.
    pub tried: &'static str,
    /// The check.
    pub check: Check,
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
            fitted: false,
            tried: "",
            check,
        }
    }

    /// The same; a parameter of a model was chosen with it in view.
    const fn fitted(self) -> Self {
        Self {
            fitted: true,
            ..self
        }
    }

    /// The same; what was tried where it fails.
    const fn tried(self, tried: &'static str) -> Self {
        Self { tried, ..self }
    }
}

/// One line of the ledger, for people and for programs.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
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
    /// "=", "<>", "~" or "note".
    pub kind: String,
    /// Our figures.
    pub ours: String,
    /// "holds", "shape holds", "fails" or "cannot be judged".
    pub verdict: String,
    /// Used to fit a model: no prediction.
    pub fitted: bool,
    /// Reason, limits, today's protocols in the same experiment, what was tried.
    pub note: String,
}

/// Every statement of the four papers, in the order of the papers' experiments.
pub fn statements() -> Vec<Statement> {
    let mut all = k14proto::statements();
    all.extend(k13app::statements());
    all.extend(jgn06::statements());
    all.extend(wtrl10::statements());
    all
}

/// Judges every statement by the simulated cells.
pub fn entries(cells: &[CellResult]) -> Vec<Entry> {
    entries_on(cells, "sim")
}

/// Judges every statement by the cells of one testbed, "sim" or "netns".
pub fn entries_on(cells: &[CellResult], testbed: &str) -> Vec<Entry> {
    let results = Results::new(cells, testbed);
    statements()
        .iter()
        .map(|statement| entry(statement, (statement.check)(&results)))
        .collect()
}

fn entry(statement: &Statement, finding: Finding) -> Entry {
    let verdict = finding.verdict.name().to_owned();
    let mut notes = Vec::new();
    if let Verdict::CannotBeJudged(reason) = &finding.verdict {
        notes.push(reason.clone());
    }
    if !finding.note.is_empty() {
        notes.push(finding.note);
    }
    let missed = matches!(finding.verdict, Verdict::Fails | Verdict::ShapeHolds);
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
        verdict,
        fitted: statement.fitted,
        note: notes.join("; "),
    }
}

/// The check of a remark.
fn remark(_: &Results<'_>) -> Finding {
    Finding::unknown("a remark about the paper itself; there is nothing to measure")
}
