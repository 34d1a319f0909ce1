//! Which figures an experiment gets, and their common parts.

mod bars;
mod cdf;
mod grid;
mod pairs;
mod scatter;
mod series;
mod slices;
mod thin;

pub(crate) use bars::{flow_name, flow_names, flow_of};

use super::chart::{self, Chart};
use super::experiment::{Experiment, Point};
use super::format::Unit;
use super::measure::{self, Measure};
use super::names;
use super::papers::{self, Stated};
use super::stats::Spread;
use crate::result::{CellResult, Mark};

/// A figure, before it has a number.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    /// What it shows, as [`super::papers`] calls it: the key of its measure, or "flows", "pair-sum",
    /// "pair-share", "over-time-...", "times-...".
    pub(crate) key: String,
    /// Title, as text.
    pub(crate) title: String,
    /// How it is drawn, with its data.
    pub(crate) chart: Chart,
    /// What a reader must know to read it, as text.
    pub(crate) caption: String,
    /// Starts folded.
    pub(crate) folded: bool,
}

/// How a value looks that a paper states: across bars, as a level.
const STATED: &str =
    " A line across is stated in the paper; a triangle at it says \"at least\" or \"at most\".";
/// The same at one place beside lines.
const STATED_AT: &str = " A hollow diamond in the colour of its line is stated in the paper; a triangle at it says \"at least\" or \"at most\".";
/// Most panels in one figure; more are not drawn, and the caption says so.
pub(crate) const MOST_PANELS: usize = 48;

/// All figures of an experiment: what is asked first, then the rest, folded.
pub(crate) fn all(
    experiment: &Experiment<'_>,
    mtu: Option<f64>,
    points_per_line: usize,
) -> Vec<Figure> {
    let mut figures = Vec::new();
    if experiment.runs().is_empty() {
        return figures;
    }
    let measures = measures(experiment, mtu);
    figures.extend(slices::figures(experiment, &measures));
    if experiment.grid().is_some() {
        figures.extend(measures.iter().map(|m| grid::figure(experiment, m)));
        figures.extend(cdf::figures(experiment));
        figures.extend(series::figures(experiment, points_per_line));
    } else {
        let bars = |of: &dyn Fn(&&Measure) -> bool| -> Vec<Figure> {
            let chosen = measures.iter().filter(of);
            chosen.filter_map(|m| bars::figure(experiment, m)).collect()
        };
        figures.extend(pairs::figures(experiment));
        figures.extend(bars::flows(experiment));
        figures.extend(bars(&|m| m.key == "goodput"));
        figures.extend(series::figures(experiment, points_per_line));
        figures.extend(bars(&|m| m.first && m.key != "goodput"));
        figures.extend(cdf::figures(experiment));
        figures.extend(scatter::figure(experiment));
        figures.extend(bars(&|m| !m.first));
    }
    // What a paper has too comes first, in the paper's order, and is never folded.
    let place = |figure: &Figure| {
        papers::beside(experiment, &figure.key)
            .first()
            .and_then(|(paper, beside)| {
                let paper = papers::all().into_iter().find(|p| p.name == *paper)?;
                paper.figures.iter().position(|f| f.number == beside.number)
            })
    };
    for figure in &mut figures {
        figure.folded &= place(figure).is_none();
    }
    figures.sort_by_key(|figure| (figure.folded, place(figure).unwrap_or(usize::MAX)));
    figures
}

/// The measures of an experiment; our own map has its own.
pub(crate) fn measures(experiment: &Experiment<'_>, mtu: Option<f64>) -> Vec<Measure> {
    let runs = experiment.runs();
    match experiment.grid() {
        Some((_, loss)) if names::is_own_map(experiment.id) => {
            measure::map_measures(&runs, mtu, &experiment.axes[loss].name)
        }
        _ => measure::measures(&runs),
    }
}

/// Lines that the time series of an experiment would draw, to share out the file's size.
pub(crate) fn lines(experiment: &Experiment<'_>) -> usize {
    experiment.points.len() * experiment.flows().max(1) * series::QUANTITIES
}

/// Median and interval of a measure at a point.
pub(crate) fn spread(point: &Point<'_>, measure: &Measure) -> Option<Spread> {
    Spread::of(point.runs.iter().filter_map(|run| (measure.get)(run)))
}

/// A spread in words, with what its interval is.
pub(crate) fn spread_words(spread: &Spread, unit: &Unit) -> String {
    use super::stats::Interval;
    let name = if unit.name.is_empty() {
        String::new()
    } else {
        format!(" {}", unit.name)
    };
    let value = unit.write(spread.median);
    let ends = format!("{} to {}", unit.write(spread.low), unit.write(spread.high));
    match spread.kind {
        Interval::None => format!("{value}{name}, one seed"),
        Interval::Exact => format!("{value}{name}, the same with {} seeds", spread.n),
        Interval::Range => format!("median {value}{name}, range {ends}, {} seeds", spread.n),
        Interval::Confidence => {
            format!(
                "median {value}{name}, 95 % confidence {ends}, {} seeds",
                spread.n
            )
        }
    }
}

/// What the intervals of these spreads are, for a caption.
pub(crate) fn interval_words(spreads: &[Spread]) -> &'static str {
    use super::stats::Interval;
    let any = |kind| spreads.iter().any(|s| s.kind == kind);
    if any(Interval::Confidence) {
        "Median over the seeds; whiskers are its 95 % confidence interval by order statistics, or the range where there are fewer than six seeds."
    } else if any(Interval::Range) {
        "Median over the seeds; whiskers are the range, as fewer than six seeds give no 95 % confidence interval."
    } else if any(Interval::Exact) {
        "All seeds gave the same value."
    } else {
        "One seed, so no interval."
    }
}

/// What a paper states, in the unit of a drawing.
fn mark(stated: &Stated, unit: &Unit) -> chart::Mark {
    let (low, high) = stated.is.ends();
    chart::Mark {
        low: low.map(|v| unit.of(v)),
        high: high.map(|v| unit.of(v)),
        tip: stated.words(unit),
    }
}

/// A sign behind a value that its testbed does not stand for.
fn sign(point: &Point<'_>) -> &'static str {
    let doubtful = |run: &&CellResult| {
        let objected = run.certificate.as_ref().is_some_and(|c| !c.valid);
        objected || run.marks.iter().any(|mark| *mark != Mark::Unsettled)
    };
    if point.runs.iter().any(doubtful) {
        "\u{2020}"
    } else {
        ""
    }
}

/// A label with its unit.
pub(crate) fn with_unit(label: &str, unit: &Unit) -> String {
    if unit.name.is_empty() {
        label.to_owned()
    } else {
        format!("{label}, {}", unit.name)
    }
}
