//! Simulation beside testbed: where a campaign has a cell on both, how far they are apart.

use super::experiment::{Experiment, Point};
use super::figures;
use super::format::plain;
use super::html::{Table, escape, folded};
use super::measure::{self, Measure};
use super::names;
use super::sections;
use crate::result::Mark;
use std::fmt::Write as _;

/// Cells within this share of each other agree.
const AGREE: f64 = 0.10;
/// The axis that is made where cells of both testbeds are in a campaign.
const TESTBED: &str = "testbed";

/// A cell on both testbeds.
struct Pair<'e, 'a> {
    sim: Option<&'e Point<'a>>,
    real: Option<&'e Point<'a>>,
}

impl Pair<'_, '_> {
    /// Simulation over testbed, less one.
    fn deviation(&self, measure: &Measure) -> Option<f64> {
        let of = |point: Option<&Point<'_>>| Some(figures::spread(point?, measure)?.median);
        let (sim, real) = (of(self.sim)?, of(self.real)?);
        (real > 0.0).then(|| sim / real - 1.0)
    }

    /// Whether the testbed stands for its figure: its machine was not the bottleneck, its
    /// certificate has no objections, and it ran this cell and not a scaled one.
    fn counts(&self) -> bool {
        let stands = |point: &&Point<'_>| {
            point.runs.iter().all(|run| {
                let valid = run.certificate.as_ref().is_none_or(|c| c.valid);
                valid && run.marks.iter().all(|mark| *mark == Mark::Unsettled)
            })
        };
        self.real.as_ref().is_some_and(stands)
    }
}

/// The cells of an experiment that was run on both, in the order of its axes; none where it was not.
fn pairs<'e, 'a>(experiment: &'e Experiment<'a>) -> Vec<Pair<'e, 'a>> {
    let Some(testbed) = experiment.axes.iter().position(|a| a.name == TESTBED) else {
        return Vec::new();
    };
    experiment
        .split(&experiment.others(&[testbed]))
        .into_iter()
        .map(|(_, points)| {
            let on = |name: &str| points.iter().copied().find(|p| p.at[testbed] == name);
            Pair {
                sim: on("sim"),
                real: on("netns"),
            }
        })
        .collect()
}

/// What is compared: goodput, and the time of sized transfers.
fn compared(experiment: &Experiment<'_>) -> Vec<Measure> {
    let runs = experiment.runs();
    let all = measure::measures(&runs).into_iter();
    all.filter(|m| ["goodput", "completion"].contains(&m.key.as_str()))
        .collect()
}

/// Within, counted and left out, for goodput.
fn count(pairs: &[Pair<'_, '_>]) -> (usize, usize, usize) {
    let goodput = measure::goodput();
    let counted = || pairs.iter().filter(|pair| pair.counts());
    let known: Vec<f64> = counted()
        .filter_map(|pair| pair.deviation(&goodput))
        .collect();
    let within = known.iter().filter(|d| d.abs() <= AGREE).count();
    (within, known.len(), pairs.len() - known.len())
}

fn words(pairs: &[Pair<'_, '_>]) -> String {
    let (within, counted, left_out) = count(pairs);
    let mut text = format!("{within} of {counted} cells within 10 %");
    if left_out > 0 {
        let _ = write!(
            text,
            "; {left_out} not counted: without a result on one side, host-limited, scaled, or with objections of the certificate"
        );
    }
    text
}

/// The table of one experiment; nothing where it was run on one testbed only.
pub(crate) fn table(experiment: &Experiment<'_>) -> String {
    let pairs = pairs(experiment);
    if pairs.is_empty() {
        return String::new();
    }
    let testbed = experiment.axes.iter().position(|a| a.name == TESTBED);
    let axes = experiment.others(&testbed.into_iter().collect::<Vec<_>>());
    let measures = compared(experiment);
    let mut table = Table::new(
        "Medians over the seeds or runs. Deviation: simulation over testbed, less one; in brackets where it is not counted",
    );
    for axis in &axes {
        table = table.text(escape(&names::axis(&experiment.axes[*axis].name)));
    }
    if axes.is_empty() {
        table = table.text("cell");
    }
    let mut units = Vec::new();
    for measure in &measures {
        let values = experiment.points.iter();
        let highest = values
            .filter_map(|p| figures::spread(p, measure))
            .map(|s| s.median.abs())
            .fold(0.0, f64::max);
        let unit = measure.quantity.unit(highest);
        for side in ["simulation", "testbed"] {
            let head = format!(
                "{}, {side}<br><small>{}</small>",
                escape(&measure.short),
                unit.name
            );
            table = table.number(head);
        }
        table = table.number("deviation<br><small>%</small>");
        units.push(unit);
    }
    table = table.text("notes");
    for pair in &pairs {
        let Some(some) = pair.sim.or(pair.real) else {
            continue;
        };
        let mut row: Vec<String> = axes
            .iter()
            .map(|&axis| escape(&experiment.value(axis, some.at[axis])))
            .collect();
        if row.is_empty() {
            row.push(escape(experiment.id));
        }
        let mut class = "";
        for (measure, unit) in measures.iter().zip(&units) {
            for side in [pair.sim, pair.real] {
                let value = side.and_then(|point| figures::spread(point, measure));
                row.push(value.map_or_else(|| "\u{2013}".to_owned(), |s| unit.write(s.median)));
            }
            let deviation = pair.deviation(measure);
            row.push(match deviation {
                None => String::new(),
                Some(share) if pair.counts() => signed(share),
                Some(share) => format!("({})", signed(share)),
            });
            if measure.key == "goodput"
                && deviation.is_some_and(|d| d.abs() > AGREE)
                && pair.counts()
            {
                class = "apart";
            }
        }
        let mut notes = Vec::new();
        for (name, side) in [("simulation", pair.sim), ("testbed", pair.real)] {
            match side {
                None => notes.push(format!("{name}: not run")),
                Some(point) => notes.extend(
                    sections::notes(point)
                        .iter()
                        .map(|note| format!("{name}: {note}")),
                ),
            }
        }
        row.push(escape(&notes.join("; ")));
        table.classed_row(class, row);
    }
    let summary = format!(
        "<p><strong>Simulation beside testbed: {}.</strong></p>\n",
        escape(&words(&pairs))
    );
    let html = table.html();
    if table.len() > 24 {
        summary + &folded("Cell by cell", &html)
    } else {
        summary + &html
    }
}

/// All experiments that were run on both; nothing where there is none.
pub(crate) fn overview(experiments: &[Experiment<'_>]) -> Option<String> {
    let both: Vec<(&Experiment<'_>, Vec<Pair<'_, '_>>)> = experiments
        .iter()
        .map(|experiment| (experiment, pairs(experiment)))
        .filter(|(_, pairs)| !pairs.is_empty())
        .collect();
    if both.is_empty() {
        return None;
    }
    let mut table = Table::new("")
        .text("experiment")
        .number("cells")
        .number("counted")
        .number("within 10 %")
        .number("median deviation, %")
        .number("not counted");
    let goodput = measure::goodput();
    let (mut all_within, mut all_counted) = (0, 0);
    for (experiment, pairs) in &both {
        let (within, counted, left_out) = count(pairs);
        all_within += within;
        all_counted += counted;
        let counting = pairs.iter().filter(|pair| pair.counts());
        let sizes = counting.filter_map(|pair| Some(pair.deviation(&goodput)?.abs()));
        let middle = super::stats::Spread::of(sizes);
        table.row(vec![
            format!(
                "<a href=\"#{}\">{}</a>",
                sections::anchor(experiment),
                escape(experiment.id)
            ),
            pairs.len().to_string(),
            counted.to_string(),
            within.to_string(),
            middle.map_or_else(String::new, |s| plain(s.median * 100.0, 1)),
            left_out.to_string(),
        ]);
    }
    Some(format!(
        "<p><strong>{all_within} of {all_counted} cells within 10 %</strong> (goodput, medians; simulation over testbed). Cells whose testbed was the bottleneck, ran a scaled twin or has objections of its certificate are shown and not counted. Each experiment's table has the cells.</p>\n{}",
        table.html()
    ))
}

/// A share in per cent with its sign.
fn signed(share: f64) -> String {
    let text = plain(share * 100.0, 1);
    if share > 0.0 {
        format!("+{text}")
    } else {
        text
    }
}
