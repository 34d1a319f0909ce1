//! Time series: one small panel per cell, so that many protocols can be compared.

use super::bars::{flow_name, flow_names};
use super::thin::{thin_extremes, thin_means};
use super::{Figure, MOST_PANELS, STATED, mark, with_unit};
use crate::report::chart::Looks;
use crate::report::chart::lines::{Level, Line, Lines, Panel, StatedAt};
use crate::report::experiment::{Experiment, Point};
use crate::report::format::Quantity;
use crate::report::measure::{link_rate, link_rates};
use crate::report::papers::{self, Stated};
use crate::result::{CellResult, FlowResult, Interval};
use std::fmt::Write as _;

/// Series that a flow can have.
pub(super) const QUANTITIES: usize = 4;

/// A quantity over time.
struct Kind {
    key: &'static str,
    title: &'static str,
    label: &'static str,
    quantity: Quantity,
    of: fn(&Interval) -> f64,
    /// Waiting time is the bottleneck's, whichever flow tells it.
    of_link: bool,
    /// The axis need not begin at zero.
    own_axis: bool,
    /// Zero means that there is none.
    zero_is_none: bool,
    /// Thinned to means, else to extremes.
    means: bool,
}

const KINDS: [Kind; QUANTITIES] = [
    Kind {
        key: "over-time-goodput",
        title: "Goodput over time",
        label: "goodput",
        quantity: Quantity::Rate,
        of: |i| i.goodput_bps,
        of_link: false,
        own_axis: false,
        zero_is_none: false,
        means: true,
    },
    Kind {
        key: "over-time-window",
        title: "Congestion window over time",
        label: "congestion window",
        quantity: Quantity::Bytes,
        of: |i| i.cwnd_bytes as f64,
        of_link: false,
        own_axis: false,
        zero_is_none: true,
        means: false,
    },
    Kind {
        key: "over-time-rtt",
        title: "Round-trip time over time",
        label: "smoothed RTT",
        quantity: Quantity::Millis,
        of: |i| i.srtt_ms,
        of_link: false,
        own_axis: true,
        zero_is_none: true,
        means: false,
    },
    Kind {
        key: "over-time-queue",
        title: "Queue over time",
        label: "waiting time in the bottleneck",
        quantity: Quantity::Millis,
        of: |i| i.queue_ms,
        of_link: true,
        own_axis: false,
        zero_is_none: false,
        means: false,
    },
];

/// What a panel holds: which cells, and what its lines are.
struct Layout<'e, 'a> {
    /// Title and cells of each panel.
    panels: Vec<(String, Vec<&'e Point<'a>>)>,
    /// Axis whose values are the lines; flows are the lines where there is none.
    series: Option<usize>,
    /// Panels that are not drawn.
    left_out: usize,
}

/// A panel before it is drawn: title, lines, rates of the link and until when each holds, what a paper states.
type Drawn = (String, Vec<Line>, Vec<(f64, f64)>, Option<&'static Stated>);

/// Steps of the line that shows the link.
const MOST_STEPS: usize = 120;

/// The figures, of the run with the lowest seed in each cell.
pub(super) fn figures(experiment: &Experiment<'_>, points_per_line: usize) -> Vec<Figure> {
    let layout = layout(experiment);
    let mut figures = Vec::new();
    for (n, kind) in KINDS.iter().enumerate() {
        let flows = if kind.of_link { 1 } else { usize::MAX };
        let many = layout.panels.len() > 16 || experiment.grid().is_some();
        let figure = draw(experiment, &layout, kind, |run| {
            run.flows
                .iter()
                .take(flows)
                .map(|flow| (flow.name.clone(), values(flow, kind, points_per_line)))
                .collect()
        });
        figures.extend(figure.map(|mut figure| {
            figure.folded = n > 0 || many;
            figure
        }));
    }
    figures.extend(jain(experiment, &layout, points_per_line));
    figures.extend(jitter(experiment, &layout, points_per_line));
    figures
}

fn layout<'e, 'a>(experiment: &'e Experiment<'a>) -> Layout<'e, 'a> {
    let several = experiment.flows() > 1;
    let taken: Vec<usize> = experiment.protocol().into_iter().collect();
    let series = if several {
        None
    } else {
        experiment.series(&experiment.others(&taken))
    };
    let panel_axes = experiment.others(&series.into_iter().collect::<Vec<_>>());
    let mut panels = experiment.split(&panel_axes);
    panels.retain(|(_, points)| points.iter().any(|point| shown(point).is_some()));
    for (title, _) in &mut panels {
        if title.is_empty() {
            experiment.id.clone_into(title);
        }
    }
    let count = panels.len();
    if count > MOST_PANELS {
        // Spread over the matrix, so that its far ends are among them.
        let mut n = 0;
        panels.retain(|_| {
            let kept = n * MOST_PANELS / count != (n + 1) * MOST_PANELS / count;
            n += 1;
            kept
        });
    }
    Layout {
        left_out: count - panels.len(),
        panels,
        series,
    }
}

/// The run that is drawn: the one with the lowest seed, which is no choice.
fn shown<'a>(point: &Point<'a>) -> Option<&'a CellResult> {
    point.runs.first().copied()
}

fn values(flow: &FlowResult, kind: &Kind, most: usize) -> Vec<(f64, f64)> {
    let points: Vec<(f64, f64)> = flow
        .intervals
        .iter()
        .map(|interval| (interval.t_s, (kind.of)(interval)))
        .filter(|(t, v)| t.is_finite() && v.is_finite() && !(kind.zero_is_none && *v <= 0.0))
        .collect();
    if kind.means {
        thin_means(&points, most)
    } else {
        thin_extremes(&points, most)
    }
}

/// A figure of the series that `of` reads off a run, each with its name.
fn draw(
    experiment: &Experiment<'_>,
    layout: &Layout<'_, '_>,
    kind: &Kind,
    of: impl Fn(&CellResult) -> Vec<(String, Vec<(f64, f64)>)>,
) -> Option<Figure> {
    let mut names: Vec<(usize, String)> = Vec::new();
    let flows = flow_names(experiment);
    let mut with_stated = false;
    let mut panels: Vec<Drawn> = layout
        .panels
        .iter()
        .map(|(title, points)| {
            let mut lines = Vec::new();
            let mut rates = Vec::new();
            for point in points {
                let Some(run) = shown(point) else { continue };
                let over_time = link_rates(run, MOST_STEPS);
                if !over_time.is_empty() {
                    rates = over_time;
                } else if let Some(rate) = link_rate(run) {
                    rates = vec![(rate, f64::INFINITY)];
                }
                for (n, (name, points)) in of(run).into_iter().enumerate() {
                    let (look, name) = match layout.series {
                        Some(axis) => {
                            let all = &experiment.axes[axis].values;
                            let look = all.iter().position(|v| v == point.at[axis]);
                            (
                                look.unwrap_or(0),
                                experiment.named_value(axis, point.at[axis]),
                            )
                        }
                        None if experiment.flows() > 1 && !kind.of_link => {
                            let known = flows.iter().position(|flow| *flow == name);
                            match known {
                                Some(n) => (n, flow_name(experiment, n)),
                                None if name.is_empty() => (n, flow_name(experiment, n)),
                                None => (n, name),
                            }
                        }
                        None => (n, name),
                    };
                    if !names.iter().any(|(l, _)| *l == look) {
                        names.push((look, name.clone()));
                    }
                    lines.push(Line {
                        look,
                        name: format!("{name} (seed {})", run.seed),
                        points,
                        steps: false,
                    });
                }
            }
            let first = points.first();
            let stated = first.and_then(|p| papers::stated(experiment, kind.key, p, None));
            let number = first.and_then(|p| papers::panel(experiment, kind.key, p));
            let title = match number {
                Some(number) => format!("{title} \u{2013} paper's {number}"),
                None => title.clone(),
            };
            (title, lines, rates, stated)
        })
        .collect();
    let count = panels.len();
    panels.retain(|(_, lines, _, _)| lines.iter().any(|line| !line.points.is_empty()));
    let without = count - panels.len();
    let all = || {
        panels
            .iter()
            .flat_map(|p| &p.1)
            .flat_map(|line| &line.points)
    };
    let high = all().map(|p| p.1).fold(0.0, f64::max);
    let stated = panels.iter().filter_map(|p| p.3);
    let high = stated.map(|s| s.is.highest()).fold(high, f64::max);
    if high <= 0.0 {
        return None;
    }
    // Zero means that there is no sample yet.
    let low = all().map(|p| p.1).filter(|v| *v > 0.0).fold(high, f64::min);
    let until = all().map(|p| p.0).fold(0.0, f64::max);
    let unit = kind.quantity.unit(high);
    let goodput = kind.quantity == Quantity::Rate;
    let (mut with_level, mut in_steps) = (false, false);
    let mut top = unit.of(high);
    let panels: Vec<Panel> = panels
        .into_iter()
        .map(|(title, mut lines, rates, stated)| {
            let marks: Vec<StatedAt> = stated
                .map(|stated| (None, 0, mark(stated, &unit)))
                .into_iter()
                .collect();
            with_stated |= !marks.is_empty();
            let highest = rates.iter().map(|rate| rate.0).fold(0.0, f64::max);
            let level = (goodput && highest > 0.0 && highest <= high * 4.0).then(|| {
                let word = match rates[..] {
                    [(rate, _)] => Quantity::Rate.text(rate),
                    _ => format!("up to {}", Quantity::Rate.text(highest)),
                };
                let values = rates.iter();
                Level {
                    values: values
                        .map(|&(rate, end)| (unit.of(rate), end.min(until)))
                        .collect(),
                    word: format!("link: {word}"),
                }
            });
            let levels: Vec<Level> = level.into_iter().collect();
            with_level |= !levels.is_empty();
            in_steps |= levels.iter().any(|level| level.values.len() > 1);
            if !levels.is_empty() {
                top = top.max(unit.of(highest));
            }
            for point in lines.iter_mut().flat_map(|line| &mut line.points) {
                point.1 = unit.of(point.1);
            }
            Panel {
                title,
                lines,
                levels,
                stated: marks,
            }
        })
        .collect();
    names.sort();
    let moments: Vec<(f64, String)> = experiment
        .notes
        .moments
        .iter()
        .filter(|(t, _)| *t < until)
        .map(|(t, word)| (*t, (*word).to_owned()))
        .collect();
    let chart = Lines {
        wide: false,
        x_label: "time, s",
        y_label: &with_unit(kind.label, &unit),
        x: (0.0, until),
        x_log: false,
        y: (if kind.own_axis { unit.of(low) } else { 0.0 }, top),
        looks: &Looks::of(names),
        moments: &moments,
        panels: &panels,
    };
    let mut caption = format!(
        "One run per cell, the one with the lowest seed ({}). Panels share their axes.",
        seeds(layout)
    );
    if kind.own_axis {
        caption.push_str(" The axis may begin above zero.");
    }
    if with_level {
        let changes = moments.iter().any(|(_, word)| word.ends_with("bit/s"));
        let when = if changes && !in_steps {
            " at the end"
        } else {
            ""
        };
        let _ = write!(caption, " Dotted: the rate of the link{when}.");
    }
    if with_stated {
        caption.push_str(STATED);
    }
    if without > 0 {
        let cells = if without == 1 {
            "One cell has"
        } else {
            "Some cells have"
        };
        let _ = write!(caption, " {cells} no such series and no panel.");
    }
    if layout.left_out > 0 {
        let _ = write!(
            caption,
            " {} further cells are not drawn; their series are in the campaign's intervals directory.",
            layout.left_out
        );
    }
    Some(Figure {
        key: kind.key.to_owned(),
        title: kind.title.to_owned(),
        chart: chart.chart(),
        caption,
        folded: true,
    })
}

fn seeds(layout: &Layout<'_, '_>) -> String {
    let runs = layout.panels.iter().flat_map(|(_, points)| points);
    let seeds = runs.filter_map(|point| Some(shown(point)?.seed));
    format!("seed {}", crate::report::format::ranges(seeds))
}

/// Jain's index of the goodputs of the flows that are active, over time.
fn jain(experiment: &Experiment<'_>, layout: &Layout<'_, '_>, most: usize) -> Option<Figure> {
    if experiment.flows() < 2 {
        return None;
    }
    let kind = Kind {
        key: "over-time-jain",
        title: "Jain's fairness index over time",
        label: "Jain's index of the active flows' goodput",
        quantity: Quantity::Share,
        of: |_| 0.0,
        of_link: true,
        own_axis: false,
        zero_is_none: false,
        means: true,
    };
    let mut figure = draw(experiment, layout, &kind, |run| {
        vec![(
            "Jain's index".to_owned(),
            thin_means(&jain_series(run), most),
        )]
    })?;
    figure.caption.insert_str(
        0,
        "1 is an equal share for each flow, 1/n is everything for one of n. ",
    );
    Some(figure)
}

/// (sum x)^2 / (n sum x^2) over the flows that are active in an interval (Jain, Chiu and Hawe 1984).
/// Intervals with fewer than two active flows, or none that got anything, have no index.
fn jain_series(run: &CellResult) -> Vec<(f64, f64)> {
    let Some(first) = run.flows.iter().max_by_key(|flow| flow.intervals.len()) else {
        return Vec::new();
    };
    // Flows report at common moments; one walk through all of them.
    let mut next = vec![0; run.flows.len()];
    let mut series = Vec::new();
    for interval in &first.intervals {
        let t = interval.t_s;
        let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for (flow, at) in run.flows.iter().zip(&mut next) {
            while flow.intervals.get(*at).is_some_and(|i| i.t_s < t - 1e-6) {
                *at += 1;
            }
            let active = t > flow.start_s && (flow.end_s <= 0.0 || t <= flow.end_s + 1e-6);
            if let Some(found) = flow.intervals.get(*at)
                && (found.t_s - t).abs() < 1e-6
                && active
            {
                n += 1.0;
                sum += found.goodput_bps;
                squares += found.goodput_bps * found.goodput_bps;
            }
        }
        if n >= 2.0 && squares > 0.0 {
            series.push((t, sum * sum / (n * squares)));
        }
    }
    series
}

/// Jitter of the constant-rate streams over time, where it was kept.
fn jitter(experiment: &Experiment<'_>, layout: &Layout<'_, '_>, most: usize) -> Option<Figure> {
    let kind = Kind {
        key: "over-time-jitter",
        title: "Jitter of the constant-rate streams over time",
        label: "smoothed interarrival jitter",
        quantity: Quantity::Millis,
        of: |_| 0.0,
        of_link: false,
        own_axis: false,
        zero_is_none: false,
        means: false,
    };
    draw(experiment, layout, &kind, |run| {
        run.streams
            .iter()
            .map(|stream| {
                let moments = stream.intervals.iter().map(|interval| interval.t_s);
                let points: Vec<(f64, f64)> = moments
                    .zip(stream.jitter_series_ms.iter().copied())
                    .collect();
                (stream.name.clone(), thin_extremes(&points, most))
            })
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_changes_is_drawn_as_it_was() {
        let link = |rates_bps: &[f64]| crate::result::LinkResult {
            name: "main/forward".to_owned(),
            rate_bps: 2e8,
            rates_bps: rates_bps.to_vec(),
            ..crate::result::LinkResult::default()
        };
        let mut run = CellResult {
            duration_s: 4.0,
            links: vec![link(&[1e8, 1e8, 3e8, 2e8])],
            ..CellResult::default()
        };
        assert_eq!(link_rates(&run, 120), [(1e8, 2.0), (3e8, 3.0), (2e8, 4.0)]);
        assert_eq!(link_rates(&run, 2), [(1e8, 2.0), (2.5e8, 4.0)]);
        // The narrowest of a route.
        run.links.push(link(&[]));
        assert_eq!(link_rates(&run, 120), [(1e8, 2.0), (2e8, 4.0)]);
        run.links.remove(0);
        assert_eq!(link_rates(&run, 120), []);
    }

    /// A trace that carries nothing for a while, over intervals of a second of which the run has half a one more.
    #[test]
    fn an_outage_is_drawn_where_it_was() {
        let second = |t_s: f64| Interval {
            t_s,
            ..Interval::default()
        };
        let run = CellResult {
            duration_s: 4.5,
            links: vec![crate::result::LinkResult {
                name: "main/forward".to_owned(),
                rates_bps: vec![1e8, 0.0, 0.0, 1e8],
                ..crate::result::LinkResult::default()
            }],
            flows: vec![FlowResult {
                intervals: [1.0, 2.0, 3.0, 4.0].map(second).into(),
                ..FlowResult::default()
            }],
            ..CellResult::default()
        };
        assert_eq!(link_rates(&run, 120), [(1e8, 1.0), (0.0, 3.0), (1e8, 4.0)]);
    }

    #[test]
    fn fairness_counts_the_active_flows() {
        let flow = |rates: &[(f64, f64)], start_s| FlowResult {
            start_s,
            end_s: 9.0,
            intervals: rates
                .iter()
                .map(|&(t_s, goodput_bps)| Interval {
                    t_s,
                    goodput_bps,
                    ..Interval::default()
                })
                .collect(),
            ..FlowResult::default()
        };
        let run = CellResult {
            flows: vec![
                flow(&[(1.0, 5.0), (2.0, 5.0), (3.0, 8.0)], 0.0),
                flow(&[(1.0, 0.0), (2.0, 5.0), (3.0, 0.0)], 1.5),
            ],
            ..CellResult::default()
        };
        let series = jain_series(&run);
        assert_eq!(series.len(), 2);
        assert!((series[0].1 - 1.0).abs() < 1e-9 && (series[1].1 - 0.5).abs() < 1e-9);
    }
}
