//! The papers' figures: what each shows, which of ours stands beside it, and the values that the text
//! of the paper states, to be drawn into ours.
//!
//! One file per paper; the source of everything in them is the fact sheet of the papers' experiments
//! (the ledger's statements have the same ids). Values are in base units: bit/s, bytes, seconds, and
//! shares from 0 to 1. Nothing was read off a printed curve: a figure whose values the text does not
//! give says so.

mod jgn06;
mod k13app;
mod k14proto;
#[cfg(test)]
mod tests;
mod wtrl10;

use super::experiment::{Experiment, Point};
use super::format::Unit;
use crate::ledger;
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// Which cells: axes by the last part of their names, and the values that are meant; all must fit.
/// "protocol" is the axis of protocols whatever its name is, "flow" the name of a flow.
pub(crate) type At = &'static [(&'static str, &'static [&'static str])];

/// A paper with its figures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paper {
    /// Short name.
    pub(crate) name: &'static str,
    /// Its figures, in their order.
    pub(crate) figures: &'static [PaperFigure],
    /// What else holds for all of them.
    pub(crate) about: &'static str,
}

/// A figure or a table of a paper.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PaperFigure {
    /// As the paper calls it: "Fig. 3", "Table 4".
    pub(crate) number: &'static str,
    /// What it shows, in a line.
    pub(crate) shows: &'static str,
    /// Our figures of the same: experiment and key of the figure.
    pub(crate) ours: &'static [(&'static str, &'static str)],
    /// The panels of ours that it is about; all where it is empty.
    pub(crate) panels: At,
    /// What the text states of it beside values of single cells.
    pub(crate) also: &'static str,
    /// Why we have none.
    pub(crate) missing: &'static str,
}

impl PaperFigure {
    const fn of(
        number: &'static str,
        shows: &'static str,
        ours: &'static [(&'static str, &'static str)],
    ) -> Self {
        Self {
            number,
            shows,
            ours,
            panels: &[],
            also: "",
            missing: "",
        }
    }

    const fn panels(self, panels: At) -> Self {
        Self { panels, ..self }
    }

    const fn also(self, also: &'static str) -> Self {
        Self { also, ..self }
    }

    const fn missing(number: &'static str, shows: &'static str, missing: &'static str) -> Self {
        Self {
            missing,
            ..Self::of(number, shows, &[])
        }
    }

    /// Whether the text states values of it that are drawn into ours.
    pub(crate) fn has_values(&self) -> bool {
        let drawn = |stated: &Stated| {
            self.ours.iter().any(|(experiment, key)| {
                stated.experiments.contains(experiment)
                    && same_figure(stated.key, key)
                    && compatible(self.panels, stated.at)
            })
        };
        all().iter().flat_map(|p| values(p.name)).any(drawn)
    }
}

/// A value that a paper's text states.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stated {
    /// Experiments that it is about.
    pub(crate) experiments: &'static [&'static str],
    /// Key of our figure.
    pub(crate) key: &'static str,
    /// Cells that it is about.
    pub(crate) at: At,
    /// The value, in base units.
    pub(crate) is: Is,
    /// The ledger's statement that it is part of.
    pub(crate) id: &'static str,
}

/// What is stated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Is {
    /// About this.
    Number(f64),
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
    /// Within these.
    Between(f64, f64),
}

impl Is {
    /// Lower and upper end; nothing where there is none.
    pub(crate) fn ends(self) -> (Option<f64>, Option<f64>) {
        match self {
            Self::Number(value) => (Some(value), Some(value)),
            Self::AtMost(high) => (None, Some(high)),
            Self::AtLeast(low) => (Some(low), None),
            Self::Between(low, high) => (Some(low), Some(high)),
        }
    }

    /// The highest value named.
    pub(crate) fn highest(self) -> f64 {
        let (low, high) = self.ends();
        high.or(low).unwrap_or(0.0)
    }

    /// As it is written in a unit, without the unit's name.
    pub(crate) fn write(self, unit: &Unit) -> String {
        match self {
            Self::Number(value) => unit.write(value),
            Self::AtMost(high) => format!("\u{2264}{}", unit.write(high)),
            Self::AtLeast(low) => format!("\u{2265}{}", unit.write(low)),
            Self::Between(low, high) => format!("{}\u{2013}{}", unit.write(low), unit.write(high)),
        }
    }
}

impl Stated {
    /// In words, for a tip.
    pub(crate) fn words(&self, unit: &Unit) -> String {
        let name = if unit.name.is_empty() {
            String::new()
        } else {
            format!(" {}", unit.name)
        };
        let fitted = if is_fitted(self.id) {
            ", used to fit the model"
        } else {
            ""
        };
        format!(
            "stated in the paper: {}{name} ({}{fitted})",
            self.is.write(unit),
            self.id
        )
    }
}

/// All papers.
pub(crate) fn all() -> [Paper; 4] {
    [jgn06::PAPER, k14proto::PAPER, k13app::PAPER, wtrl10::PAPER]
}

/// The values that a paper states.
pub(crate) fn values(paper: &str) -> &'static [Stated] {
    match paper {
        "JGN06" => jgn06::STATED,
        "K14proto" => k14proto::STATED,
        "K13app" => k13app::STATED,
        "WTRL10" => wtrl10::STATED,
        _ => &[],
    }
}

/// The paper that a family of experiments is from, by the family's title.
pub(crate) fn of_family(title: &str) -> Option<Paper> {
    all().into_iter().find(|paper| {
        title
            .strip_prefix(paper.name)
            .is_some_and(|rest| rest.starts_with(':'))
    })
}

/// The papers' figures that one of ours stands beside: of those that are panels of ours, the ones that
/// this campaign has.
pub(crate) fn beside(experiment: &Experiment<'_>, key: &str) -> Vec<(&'static str, PaperFigure)> {
    let shown = |figure: &PaperFigure| {
        let fits = |point: &Point<'_>| matches(figure.panels, &|axis| experiment.at(point, axis));
        figure.panels.is_empty() || experiment.points.iter().any(fits)
    };
    let mut found = Vec::new();
    for paper in all() {
        for figure in paper.figures {
            if figure.ours.contains(&(experiment.id, key)) && shown(figure) {
                found.push((paper.name, *figure));
            }
        }
    }
    found
}

/// The number that a paper gives a panel of our figure, where its figures are panels of ours.
pub(crate) fn panel(
    experiment: &Experiment<'_>,
    key: &str,
    point: &Point<'_>,
) -> Option<&'static str> {
    let found = beside(experiment, key).into_iter().map(|(_, f)| f);
    let mut fits = found
        .filter(|f| !f.panels.is_empty() && matches(f.panels, &|axis| experiment.at(point, axis)));
    fits.next().map(|f| f.number)
}

/// Keys of our figures of an experiment that are made only because a paper has one like it.
pub(crate) fn wanted(experiment: &str) -> Vec<&'static str> {
    let mut keys = Vec::new();
    for paper in all() {
        for (id, key) in paper.figures.iter().flat_map(|f| f.ours) {
            if *id == experiment && key.contains('@') && !keys.contains(key) {
                keys.push(*key);
            }
        }
    }
    keys
}

/// What is stated of a cell in a figure; the first that fits in the order of the paper's table. `flow`
/// is the name of the flow where the figure tells flows apart.
pub(crate) fn stated(
    experiment: &Experiment<'_>,
    key: &str,
    point: &Point<'_>,
    flow: Option<&str>,
) -> Option<&'static Stated> {
    let at = |axis: &str| match axis {
        "flow" => flow,
        axis => experiment.at(point, axis),
    };
    let mut all = all().into_iter().flat_map(|paper| values(paper.name));
    all.find(|stated| {
        stated.experiments.contains(&experiment.id) && stated.key == key && matches(stated.at, &at)
    })
}

fn matches<'a>(at: At, of: &dyn Fn(&str) -> Option<&'a str>) -> bool {
    at.iter()
        .all(|(axis, values)| of(axis).is_some_and(|value| values.contains(&value)))
}

/// A slice ("key@loss=0%") shows what its key shows.
fn same_figure(stated: &str, ours: &str) -> bool {
    stated == ours || ours.split_once('@').is_some_and(|(key, _)| key == stated)
}

/// Whether some cell can be in both.
fn compatible(one: At, other: At) -> bool {
    one.iter().all(|(axis, values)| {
        let same = other.iter().find(|(name, _)| name == axis);
        same.is_none_or(|(_, others)| values.iter().any(|value| others.contains(value)))
    })
}

/// Whether a statement was used to choose a parameter of a model.
fn is_fitted(id: &str) -> bool {
    static FITTED: OnceLock<BTreeSet<&'static str>> = OnceLock::new();
    let fitted = FITTED.get_or_init(|| {
        let all = ledger::statements();
        all.iter()
            .filter(|s| s.standing == ledger::Standing::Fitted)
            .map(|s| s.id)
            .collect()
    });
    fitted.contains(id)
}
