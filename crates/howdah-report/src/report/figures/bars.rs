//! Bars of one measure, with intervals: a group per protocol, a bar per value of one more axis, a
//! drawing per value of the rest.

use super::{Figure, STATED, interval_words, mark, pairs, sign, spread, spread_words, with_unit};
use crate::report::chart::bars::{Bar, Bars, Group};
use crate::report::chart::{Chart, Looks};
use crate::report::experiment::{Experiment, Point};
use crate::report::format::{Quantity, Unit};
use crate::report::measure::{self, Measure};
use crate::report::names;
use crate::report::papers::{self, Stated};
use crate::report::stats::Spread;
use crate::result::{CellResult, FlowResult};

/// The measure over the experiment's axes; nothing where there is only one cell without a second.
pub(super) fn figure(experiment: &Experiment<'_>, measure: &Measure) -> Option<Figure> {
    if pairs::is_matrix(experiment) {
        // The sum of both and their shares have figures of their own.
        let told = ["goodput", "asymmetry"].contains(&&*measure.key);
        return (!told).then(|| pairs::figure(experiment, measure));
    }
    let category = experiment
        .protocol()
        .or_else(|| (!experiment.axes.is_empty()).then_some(0));
    let taken: Vec<usize> = category.into_iter().collect();
    let series = experiment.series(&experiment.others(&taken));
    let taken: Vec<usize> = category.into_iter().chain(series).collect();
    let facets = experiment.split(&experiment.others(&taken));

    let value = |point: &Point<'_>| spread(point, measure);
    let spreads: Vec<Spread> = experiment.points.iter().filter_map(value).collect();
    let stated = |point: &Point<'_>| papers::stated(experiment, &measure.key, point, None);
    let all_stated: Vec<&Stated> = experiment.points.iter().filter_map(stated).collect();
    let (low, high) = range(&spreads, &all_stated);
    let unit = measure.quantity.unit(high.max(-low));
    let looks = series.map_or(0, |axis| experiment.axes[axis].values.len());
    // A value of the series for which the measure does not exist at all: no jitter without streams.
    let shown = |look: usize| {
        experiment.points.iter().any(|point| {
            let mine = series.is_none_or(|axis| place(experiment, axis, point.at[axis]) == look);
            mine && (value(point).is_some() || !point.failed.is_empty())
        })
    };
    let shown: Vec<bool> = (0..looks.max(1)).map(shown).collect();
    let panels: Vec<(String, Vec<Group>)> = facets
        .iter()
        .map(|(title, points)| {
            let mut groups: Vec<Group> = Vec::new();
            // A cell without flows can have no such value; one that has flows and no value is shown.
            let bare = |point: &&&Point<'_>| {
                let mut runs = point.runs.iter();
                !point.runs.is_empty() && runs.all(|run| run.flows.is_empty())
            };
            for point in points.iter().filter(|p| value(p).is_some() || !bare(p)) {
                let name = category.map_or_else(
                    || experiment.id.to_owned(),
                    |axis| name(experiment, axis, point.at[axis]),
                );
                let look = series.map_or(0, |axis| place(experiment, axis, point.at[axis]));
                if !shown[look] {
                    continue;
                }
                let words = experiment.place(point, &experiment.others(&[]));
                let bar = bar(value(point), look, &unit, &words, point, stated(point));
                match groups.iter_mut().find(|group| group.name == name) {
                    Some(group) => group.bars.push(bar),
                    None => groups.push(Group {
                        name,
                        bars: vec![bar],
                    }),
                }
            }
            (title.clone(), groups)
        })
        .collect();
    let looks = Looks::of((0..looks).filter(|look| shown[*look]).map(|look| {
        let axis = series.unwrap_or(0);
        let value = &experiment.axes[axis].values[look];
        (look, experiment.named_value(axis, value))
    }));
    let label = with_unit(&measure.label, &unit);
    let chart = chart(&label, &looks, &panels, (unit.of(low), unit.of(high)));
    let title = if measure.key == "goodput" && experiment.flows() > 1 {
        "Goodput of all long-lived flows together".to_owned()
    } else {
        measure.title.clone()
    };
    Some(Figure {
        key: measure.key.clone(),
        title,
        chart,
        caption: format!(
            "{}{} {}",
            interval_words(&spreads),
            stated_words(&all_stated),
            measure.about
        )
        .trim_end()
        .to_owned(),
        folded: !measure.first,
    })
}

/// Boxes of distributions: `of` gives the sorted values at a point, evenly spread over the shares.
pub(super) fn boxes(
    experiment: &Experiment<'_>,
    label: &str,
    quantity: Quantity,
    of: impl Fn(&Point<'_>) -> Option<Vec<f64>>,
) -> Option<Chart> {
    let category = experiment.protocol()?;
    let series = experiment.series(&experiment.others(&[category]));
    let taken: Vec<usize> = std::iter::once(category).chain(series).collect();
    let five = |point: &Point<'_>| {
        let values = of(point)?;
        let last = values.len().checked_sub(1)?;
        Some([0.05, 0.25, 0.5, 0.75, 0.95].map(|q| values[(q * last as f64).round() as usize]))
    };
    let found: Vec<(&Point<'_>, [f64; 5])> = experiment
        .points
        .iter()
        .filter_map(|point| Some((point, five(point)?)))
        .collect();
    let low = found.iter().map(|f| f.1[0]).fold(f64::INFINITY, f64::min);
    let high = found.iter().map(|f| f.1[4]).fold(0.0, f64::max);
    let unit = quantity.unit(high);
    let panels: Vec<(String, Vec<Group>)> = experiment
        .split(&experiment.others(&taken))
        .iter()
        .map(|(title, points)| {
            let mut groups: Vec<Group> = Vec::new();
            for point in points {
                let Some((_, five)) = found.iter().find(|f| f.0.at == point.at) else {
                    continue;
                };
                let [p5, p25, p50, p75, p95] = five.map(|v| unit.of(v));
                let words = experiment.place(point, &experiment.others(&[]));
                let name = experiment.named_value(category, point.at[category]);
                let written = five.map(|v| unit.write(v)).join(", ");
                let one = Bar {
                    look: series.map_or(0, |axis| place(experiment, axis, point.at[axis])),
                    value: Some(p50),
                    interval: Some((p5, p95)),
                    half: Some((p25, p75)),
                    stated: None,
                    text: unit.write(five[2]),
                    tip: format!("{words}: p5, p25, p50, p75, p95: {written} {}", unit.name),
                };
                match groups.iter_mut().find(|group| group.name == name) {
                    Some(group) => group.bars.push(one),
                    None => groups.push(Group {
                        name,
                        bars: vec![one],
                    }),
                }
            }
            (title.clone(), groups)
        })
        .collect();
    let looks = Looks::of(series.into_iter().flat_map(|axis| {
        let values = experiment.axes[axis].values.iter().enumerate();
        values.map(move |(look, value)| (look, experiment.named_value(axis, value)))
    }));
    let bars = Bars {
        label: &with_unit(label, &unit),
        looks: &looks,
        panels: &panels,
        range: (unit.of(low), unit.of(high)),
        log: low > 0.0 && high / low > 8.0,
    };
    (!found.is_empty()).then(|| bars.chart())
}

/// Goodput of each flow, where there are two to four.
pub(super) fn flows(experiment: &Experiment<'_>) -> Option<Figure> {
    let count = experiment.flows();
    if !(2..=4).contains(&count) {
        return None;
    }
    let matrix = pairs::is_matrix(experiment);
    let category = experiment
        .protocol()
        .or_else(|| (!experiment.axes.is_empty()).then_some(0));
    let taken: Vec<usize> = if matrix {
        experiment.others(&[])
    } else {
        category.into_iter().collect()
    };
    let facets = experiment.split(&experiment.others(&taken));
    let flow_names = flow_names(experiment);
    let count = flow_names.len();
    let of = |point: &Point<'_>, n: usize| {
        let rates = point.runs.iter().filter_map(|run| {
            let flow = flow_of(run, &flow_names, n)?;
            Some(measure::goodput_of(run, flow))
        });
        Spread::of(rates)
    };
    let spreads: Vec<Spread> = experiment
        .points
        .iter()
        .flat_map(|point| (0..count).filter_map(move |n| of(point, n)))
        .collect();
    // Flows are told apart by their names, which are the same in every cell.
    let stated = |point: &Point<'_>, n: usize| {
        let name = flow_names.get(n).map(String::as_str);
        papers::stated(experiment, "flows", point, name)
    };
    let all_stated: Vec<&Stated> = experiment
        .points
        .iter()
        .flat_map(|point| (0..count).filter_map(move |n| stated(point, n)))
        .collect();
    let (low, high) = range(&spreads, &all_stated);
    let unit = Quantity::Rate.unit(high);
    let panels: Vec<(String, Vec<Group>)> = facets
        .iter()
        .map(|(title, points)| {
            let groups: Vec<Group> = points
                .iter()
                .map(|point| {
                    let words = experiment.place(point, &taken);
                    // A flow that this cell does not have leaves no gap.
                    let bars = (0..count)
                        .filter(|n| of(point, *n).is_some() || point.runs.is_empty())
                        .map(|n| bar(of(point, n), n, &unit, &words, point, stated(point, n)));
                    Group {
                        bars: bars.collect(),
                        name: words,
                    }
                })
                .collect();
            (title.clone(), groups)
        })
        .collect();
    let looks = Looks::of((0..count).map(|n| (n, flow_name(experiment, n))));
    let label = with_unit("goodput, mean over the flow's activity", &unit);
    Some(Figure {
        key: "flows".to_owned(),
        title: "Goodput of each flow".to_owned(),
        chart: chart(&label, &looks, &panels, (unit.of(low), unit.of(high))),
        caption: format!("{}{}", interval_words(&spreads), stated_words(&all_stated)),
        folded: matrix && experiment.points.len() > 12,
    })
}

/// The names of the flows of an experiment, of the run with most flows first; numbers where flows have
/// no names.
pub(crate) fn flow_names(experiment: &Experiment<'_>) -> Vec<String> {
    let mut runs = experiment.runs();
    runs.sort_by_key(|run| std::cmp::Reverse(run.flows.len()));
    let mut names: Vec<String> = Vec::new();
    for flow in runs.iter().flat_map(|run| &run.flows) {
        if flow.name.is_empty() {
            let most = experiment.flows();
            return (1..=most).map(|n| format!("flow {n}")).collect();
        }
        if !names.contains(&flow.name) {
            names.push(flow.name.clone());
        }
    }
    names
}

/// The flow of that name in a run; by its place where flows have no names.
pub(crate) fn flow_of<'r>(
    run: &'r CellResult,
    names: &[String],
    n: usize,
) -> Option<&'r FlowResult> {
    let name = names.get(n)?;
    let named = run.flows.iter().find(|flow| flow.name == *name);
    named.or_else(|| run.flows.get(n).filter(|flow| flow.name.is_empty()))
}

/// Name of a flow in a legend: its name, and its protocol where that is always the same.
pub(crate) fn flow_name(experiment: &Experiment<'_>, n: usize) -> String {
    let all = flow_names(experiment);
    let mut name = all
        .get(n)
        .cloned()
        .unwrap_or_else(|| format!("flow {}", n + 1));
    let runs = experiment.runs();
    let mut protocols = runs.iter().filter_map(|run| flow_of(run, &all, n));
    if let Some(first) = protocols.next() {
        let protocol = names::protocol(&first.protocol);
        let same = protocols.all(|flow| flow.protocol == first.protocol);
        if same && !first.protocol.is_empty() && !name.eq_ignore_ascii_case(&protocol) {
            name = format!("{name} ({protocol})");
        }
    }
    name
}

/// Lowest and highest value of all, and zero.
fn range(spreads: &[Spread], stated: &[&Stated]) -> (f64, f64) {
    let ends = || stated.iter().flat_map(|s| [s.is.ends().0, s.is.ends().1]);
    (
        ends()
            .flatten()
            .chain(spreads.iter().map(|s| s.low))
            .fold(0.0, f64::min),
        ends()
            .flatten()
            .chain(spreads.iter().map(|s| s.high))
            .fold(0.0, f64::max),
    )
}

fn name(experiment: &Experiment<'_>, axis: usize, value: &str) -> String {
    experiment.named_value(axis, value)
}

fn place(experiment: &Experiment<'_>, axis: usize, value: &str) -> usize {
    let values = &experiment.axes[axis].values;
    values.iter().position(|v| v == value).unwrap_or(0)
}

fn bar(
    spread: Option<Spread>,
    look: usize,
    unit: &Unit,
    words: &str,
    point: &Point<'_>,
    stated: Option<&Stated>,
) -> Bar {
    let stated = stated.map(|stated| mark(stated, unit));
    let skipped = point.failed.iter().all(|cell| cell.skipped.is_some());
    match spread {
        Some(spread) => Bar {
            look,
            value: Some(unit.of(spread.median)),
            interval: (spread.high > spread.low)
                .then(|| (unit.of(spread.low), unit.of(spread.high))),
            half: None,
            stated,
            text: format!("{}{}", unit.write(spread.median), sign(point)),
            tip: format!("{words}: {}", spread_words(&spread, unit)),
        },
        None => Bar {
            look,
            value: None,
            interval: None,
            half: None,
            stated,
            text: match point.failed.len() {
                0 => "\u{2013}",
                _ if skipped => "skipped",
                _ => "failed",
            }
            .to_owned(),
            tip: format!("{words}: no result"),
        },
    }
}

fn chart(label: &str, looks: &Looks, panels: &[(String, Vec<Group>)], range: (f64, f64)) -> Chart {
    let bars = Bars {
        label,
        looks,
        panels,
        range,
        log: false,
    };
    bars.chart()
}

fn stated_words(stated: &[&Stated]) -> &'static str {
    if stated.is_empty() { "" } else { STATED }
}
