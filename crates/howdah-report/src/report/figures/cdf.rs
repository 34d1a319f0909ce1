//! Distributions of completion times.

use super::{Figure, with_unit};
use crate::report::chart::Looks;
use crate::report::chart::lines::{Line, Lines, Panel};
use crate::report::experiment::{Experiment, Point};
use crate::report::format::{Quantity, Unit};
use crate::report::stats::Spread;
use std::collections::BTreeSet;

/// Fewest values that make a distribution.
const FEWEST: usize = 4;

/// Of sized flows, from each run's times; of short flows, from the groups' distributions.
pub(super) fn figures(experiment: &Experiment<'_>) -> Vec<Figure> {
    let mut figures: Vec<Figure> = sized(experiment).into_iter().collect();
    let runs = experiment.runs();
    let groups: BTreeSet<&str> = runs
        .iter()
        .flat_map(|run| run.groups.iter().map(|group| group.name.as_str()))
        .collect();
    for name in groups {
        figures.extend(short(experiment, name));
        figures.extend(boxes(experiment, name));
    }
    figures
}

fn sized(experiment: &Experiment<'_>) -> Option<Figure> {
    let times = |points: &[&Point<'_>]| -> Vec<f64> {
        let mut times: Vec<f64> = points
            .iter()
            .flat_map(|point| &point.runs)
            .flat_map(|run| run.flows.iter().filter_map(|flow| flow.completion_s))
            .filter(|time| time.is_finite())
            .collect();
        times.sort_by(f64::total_cmp);
        times
    };
    let taken: Vec<usize> = experiment.protocol().into_iter().collect();
    let curves: Vec<(String, Vec<f64>)> = experiment
        .split(&taken)
        .into_iter()
        .map(|(name, points)| (name, times(&points)))
        .filter(|(_, times)| times.len() >= FEWEST)
        .collect();
    if curves.is_empty() {
        return None;
    }
    let all = || curves.iter().flat_map(|(_, times)| times.iter().copied());
    let unit = Quantity::Seconds.unit(all().fold(0.0, f64::max));
    let lines: Vec<Line> = curves
        .iter()
        .enumerate()
        .map(|(look, (name, times))| {
            let n = times.len() as f64;
            let mut points = vec![(unit.of(times[0]), 0.0)];
            points.extend(
                times
                    .iter()
                    .enumerate()
                    .map(|(rank, time)| (unit.of(*time), (rank as f64 + 1.0) / n)),
            );
            line(look, name, points, true)
        })
        .collect();
    Some(figure(
        "Distribution of completion times",
        &share_of(experiment),
        vec![(String::new(), lines)],
        &unit,
    ))
}

/// What the share of a transfer's time is a share of: those that did not end within their runs have none.
fn share_of(experiment: &Experiment<'_>) -> String {
    let runs = experiment.runs();
    let flows = || runs.iter().flat_map(|run| &run.flows);
    let ended = flows().filter(|flow| flow.completion_s.is_some());
    let sized: BTreeSet<&str> = ended.map(|flow| flow.name.as_str()).collect();
    let all = || flows().filter(|flow| sized.contains(flow.name.as_str()));
    let open = all().filter(|flow| flow.completion_s.is_none()).count();
    if open == 0 {
        return "Share of all transfers of the experiment that were done within the time, all cells and seeds together.".to_owned();
    }
    format!(
        "Share of the transfers that came to their end that were done within the time, all cells and seeds together; {open} of {} did not end \
         within their runs, and are not in it.",
        all().count()
    )
}

fn short(experiment: &Experiment<'_>, name: &str) -> Option<Figure> {
    let taken: Vec<usize> = experiment.protocol().into_iter().collect();
    let high = experiment
        .runs()
        .iter()
        .flat_map(|run| run.groups.iter().filter(|g| g.name == name))
        .flat_map(|group| group.completion_cdf_s.iter().copied())
        .fold(0.0, f64::max);
    if high <= 0.0 {
        return None;
    }
    let unit = Quantity::Seconds.unit(high);
    let protocols = experiment
        .protocol()
        .map(|axis| &experiment.axes[axis].values);
    let panels: Vec<(String, Vec<Line>)> = experiment
        .split(&experiment.others(&taken))
        .into_iter()
        .map(|(title, points)| {
            let lines = points
                .iter()
                .filter_map(|point| {
                    let protocol = taken.first().map_or("", |&axis| point.at[axis]);
                    let look = protocols.and_then(|all| all.iter().position(|p| p == protocol));
                    let points = distribution(point, name, &unit)?;
                    Some(line(
                        look.unwrap_or(0),
                        &experiment.place(point, &taken),
                        points,
                        false,
                    ))
                })
                .collect();
            (title, lines)
        })
        .collect();
    Some(figure(
        &format!("Completion times of the short flows ({name})"),
        "Share of the short flows that finished that were done within the time, at each per cent the median over the seeds. Flows that did not finish within the run are not in it; the table counts them.",
        panels,
        &unit,
    ))
}

/// The same as boxes, which hold more protocols than a panel of lines does.
fn boxes(experiment: &Experiment<'_>, name: &str) -> Option<Figure> {
    // Seconds: the unit is chosen where the values are known.
    let seconds = Quantity::Seconds.unit(1.0);
    let chart = super::bars::boxes(experiment, "completion time", Quantity::Seconds, |point| {
        let points = distribution(point, name, &seconds)?;
        Some(points.into_iter().map(|(time, _)| time).collect())
    })?;
    Some(Figure {
        key: "times-boxes".to_owned(),
        title: format!("Completion times of the short flows ({name}), boxes"),
        chart,
        caption: "Line: median flow. Box: the middle half. Whiskers: 5th and 95th percentile. Each over the flows that finished, median over the seeds.".to_owned(),
        folded: false,
    })
}

/// The distribution at a point: for each share of the flows the median over the seeds.
fn distribution(point: &Point<'_>, name: &str, unit: &Unit) -> Option<Vec<(f64, f64)>> {
    let groups: Vec<&[f64]> = point
        .runs
        .iter()
        .flat_map(|run| &run.groups)
        .filter(|group| group.name == name && group.completion_cdf_s.len() > 1)
        .map(|group| group.completion_cdf_s.as_slice())
        .collect();
    let steps = groups.first()?.len();
    let alike = groups.iter().filter(|group| group.len() == steps);
    let alike: Vec<&[f64]> = alike.copied().collect();
    (0..steps)
        .map(|n| {
            let time = Spread::of(alike.iter().map(|group| group[n]))?.median;
            Some((unit.of(time), n as f64 / (steps - 1) as f64))
        })
        .collect()
}

fn line(look: usize, name: &str, points: Vec<(f64, f64)>, steps: bool) -> Line {
    Line {
        look,
        name: if name.is_empty() { "all" } else { name }.to_owned(),
        points,
        steps,
    }
}

fn figure(title: &str, caption: &str, panels: Vec<(String, Vec<Line>)>, unit: &Unit) -> Figure {
    let all = || panels.iter().flat_map(|(_, lines)| lines);
    let times = || all().flat_map(|line| line.points.iter().map(|p| p.0));
    let (low, high) = (
        times().fold(f64::INFINITY, f64::min),
        times().fold(0.0, f64::max),
    );
    let log = low > 0.0 && high / low > 8.0;
    let looks = Looks::of(all().map(|line| (line.look, line.name.clone())));
    let panels: Vec<Panel> = panels
        .into_iter()
        .map(|(title, lines)| Panel {
            title,
            lines,
            ..Panel::default()
        })
        .collect();
    let chart = Lines {
        wide: true,
        x_label: &with_unit("completion time", unit),
        y_label: "share of the transfers",
        x: if log { (low, high) } else { (0.0, high) },
        x_log: log,
        y: (0.0, 1.0),
        looks: &looks,
        moments: &[],
        panels: &panels,
    };
    Figure {
        key: "times".to_owned(),
        title: title.to_owned(),
        chart: chart.chart(),
        caption: caption.to_owned(),
        folded: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::experiment::gather;
    use crate::result::{Campaign, CellResult, FlowResult};

    #[test]
    fn transfers_without_an_end_are_told_of() {
        let cell = |seed: u64, completion_s: Option<f64>| CellResult {
            experiment: "X".to_owned(),
            seed,
            flows: vec![FlowResult {
                name: "main".to_owned(),
                completion_s,
                ..FlowResult::default()
            }],
            ..CellResult::default()
        };
        let mut cells: Vec<CellResult> = (1..=4).map(|n| cell(n, Some(n as f64))).collect();
        let caption = |cells: &[CellResult]| {
            let all = gather(&Campaign::default(), cells);
            figures(&all[0])[0].caption.clone()
        };
        assert!(caption(&cells).contains("of all transfers"));
        cells.extend([cell(5, None), cell(6, None)]);
        assert!(caption(&cells).contains("2 of 6 did not end"));
    }
}
