//! JGN06: high-speed TCPs and UDT beside other traffic, 1 Gbit/s.
//!
//! The paper numbers no statements; the ids here follow its experiments: `J.a2f` is the statement
//! about FAST in experiment J-A2. Statements about UDT have ids of their own (`...u`): our UDT 2 is a
//! reconstruction, and those about TCP are judged without it.

mod alone;
mod cbr;
mod change;
mod pairs;
mod shorts;

use super::{Check, Kind, Paper, Statement};

pub(super) fn statements() -> Vec<Statement> {
    [
        alone::STATEMENTS,
        change::STATEMENTS,
        pairs::STATEMENTS,
        shorts::STATEMENTS,
        cbr::STATEMENTS,
    ]
    .concat()
}

/// A statement of this paper.
const fn state(
    id: &'static str,
    experiment: &'static str,
    statement: &'static str,
    stated: &'static str,
    kind: Kind,
    check: Check,
) -> Statement {
    Statement::of(Paper::Jgn06, id, experiment, statement, stated, kind, check)
}
