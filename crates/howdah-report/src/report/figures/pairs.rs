//! Matrices of protocols beside each other on one link.

use super::Figure;
use crate::report::chart::heat::{Cell, Heat};
use crate::report::chart::round::nice_step;
use crate::report::experiment::{Experiment, Point};
use crate::report::format::Quantity;
use crate::report::measure::{self, Measure};
use crate::report::names;
use crate::report::stats::Spread;
use crate::result::CellResult;

/// What a run says about its row's protocol beside its column's.
type Value<'v> = &'v dyn Fn(&CellResult, usize) -> Option<f64>;

/// Whether every protocol meets several others, so that a matrix says more than bars.
pub(super) fn is_matrix(experiment: &Experiment<'_>) -> bool {
    experiment
        .pairs()
        .is_some_and(|(first, second)| first.len() > 1 && second.len() > 1)
}

/// One measure for every pair.
pub(super) fn figure(experiment: &Experiment<'_>, measure: &Measure) -> Figure {
    let mut figure = matrix(
        experiment,
        &protocols(experiment),
        &format!("{}, for every pair", measure.title),
        &measure.label,
        measure.quantity,
        &|cell, _| (measure.get)(cell),
        &measure.about,
    );
    figure.folded = !measure.first;
    figure.key.clone_from(&measure.key);
    figure
}

fn protocols<'a>(experiment: &Experiment<'a>) -> Vec<&'a str> {
    let (mut protocols, second) = experiment.pairs().unwrap_or_default();
    for protocol in second {
        if !protocols.contains(&protocol) {
            protocols.push(protocol);
        }
    }
    protocols.sort_by_key(|p| (names::protocol_rank(p), *p));
    protocols
}

/// The sum of both flows, and the row's share of it.
pub(super) fn figures(experiment: &Experiment<'_>) -> Vec<Figure> {
    if !is_matrix(experiment) {
        return Vec::new();
    }
    let protocols = protocols(experiment);
    let mut figures = vec![
        matrix(
            experiment,
            &protocols,
            "Goodput of both flows together, for every pair",
            "sum of both flows' goodput",
            Quantity::Rate,
            &|cell, _| (measure::goodput().get)(cell),
            "A pair that uses less than its two identical pairs is inefficient together.",
        ),
        matrix(
            experiment,
            &protocols,
            "Share of the row's protocol beside the column's",
            "goodput of the row / goodput of both",
            Quantity::Share,
            &|cell, of| {
                let had = |flow| measure::goodput_of(cell, flow);
                let sum: f64 = cell.flows.iter().map(had).sum();
                (sum > 0.0).then(|| had(&cell.flows[of]) / sum)
            },
            "0.5 is an equal share; a row of high values takes from everybody. On the diagonal the share is that of the first of two identical flows.",
        ),
    ];
    for (figure, key) in figures.iter_mut().zip(["pair-sum", "pair-share"]) {
        key.clone_into(&mut figure.key);
    }
    figures
}

fn matrix(
    experiment: &Experiment<'_>,
    protocols: &[&str],
    title: &str,
    label: &str,
    quantity: Quantity,
    value: Value<'_>,
    reading: &str,
) -> Figure {
    let axes: Vec<usize> = experiment
        .others(&[])
        .into_iter()
        .filter(|&axis| !experiment.axes[axis].is_protocol())
        .collect();
    let names: Vec<String> = protocols.iter().map(|p| names::protocol(p)).collect();
    let facets = experiment.split(&axes);
    let maps: Vec<(String, Vec<Option<Spread>>)> = facets
        .iter()
        .map(|(title, points)| {
            let cells = protocols
                .iter()
                .flat_map(|row| protocols.iter().map(move |column| (row, column)))
                .map(|(row, column)| pair(points, row, column, value))
                .collect();
            (title.clone(), cells)
        })
        .collect();
    let all = || maps.iter().flat_map(|map| &map.1).flatten();
    let high = all().map(|s| s.median).fold(0.0, f64::max);
    let unit = quantity.unit(high);
    let range = if quantity == Quantity::Share {
        (0.0, 1.0)
    } else {
        let low = all().map(|s| s.median).fold(high, f64::min);
        let step = nice_step((high - low).max(high / 20.0), 4);
        (
            unit.of((low / step).floor() * step),
            unit.of((high / step).ceil() * step),
        )
    };
    let maps: Vec<(String, Vec<Option<Cell>>)> = maps
        .iter()
        .map(|(facet, cells)| {
            let cells = cells
                .iter()
                .enumerate()
                .map(|(at, cell)| {
                    let spread = cell.as_ref()?;
                    let (row, column) = (&names[at / names.len()], &names[at % names.len()]);
                    Some(Cell {
                        value: Some(unit.of(spread.median)),
                        text: if quantity == Quantity::Share {
                            format!("{:.2}", spread.median)
                        } else {
                            unit.write(spread.median)
                        },
                        stated: None,
                        tip: format!(
                            "{row} beside {column}: {}",
                            super::spread_words(spread, &unit)
                        ),
                    })
                })
                .collect();
            (facet.clone(), cells)
        })
        .collect();
    Figure {
        key: String::new(),
        title: title.to_owned(),
        chart: Heat {
            x_label: "beside",
            y_label: "protocol",
            label: &super::with_unit(label, &unit),
            columns: &names,
            rows: &names,
            maps: &maps,
            range,
            log: false,
        }
        .chart(),
        caption: format!("Median over the seeds. {reading}")
            .trim_end()
            .to_owned(),
        folded: false,
    }
}

/// All runs of a pair, whichever of the two was the first flow.
fn pair(points: &[&Point<'_>], row: &str, column: &str, value: Value<'_>) -> Option<Spread> {
    let runs = points.iter().flat_map(|point| point.runs.iter());
    Spread::of(runs.filter_map(|run| match &run.flows[..] {
        [a, b] if a.protocol == row && b.protocol == column => value(run, 0),
        [a, b] if a.protocol == column && b.protocol == row => value(run, 1),
        _ => None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::experiment::gather;
    use crate::result::{Campaign, FlowResult};

    /// One after the other each has all of 100 Mbit/s, and no more than that together; and of a run that ended early what
    /// counts is behind the warm-up.
    #[test]
    fn pairs_have_no_more_than_their_link() {
        let flow = |protocol: &str, start_s: f64, steady_bps: f64| FlowResult {
            name: format!("from {start_s}"),
            protocol: protocol.to_owned(),
            start_s,
            end_s: start_s + 30.0,
            delivered_bytes: 375_000_000,
            goodput_bps: 1e8,
            steady_goodput_bps: steady_bps,
            ..FlowResult::default()
        };
        let cell = |a: &str, b: &str, shortened: bool| CellResult {
            experiment: "X".to_owned(),
            at: [("pair".to_owned(), format!("{a}+{b}"))].into(),
            flows: vec![flow(a, 0.0, 9e7), flow(b, 30.0, 1e7)],
            shortened,
            ..CellResult::default()
        };
        let drawn = |shortened| {
            let pairs = [("reno", "cubic"), ("reno", "reno"), ("cubic", "cubic")];
            let cells = pairs.map(|(a, b)| cell(a, b, shortened));
            let all = gather(&Campaign::default(), &cells);
            figures(&all[0])
                .into_iter()
                .map(|figure| format!("{:?}", figure.chart))
                .collect::<Vec<_>>()
        };
        let all = drawn(false);
        assert!(
            all[0].contains("100 Mbit/s") && !all[0].contains("200 Mbit/s"),
            "{}",
            all[0]
        );
        let early = drawn(true);
        assert!(early[1].contains("0.90"), "{}", early[1]);
    }
}
