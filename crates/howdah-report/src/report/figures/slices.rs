//! Figures that are made because a paper has one like them: a row of a grid as lines, a protocol each,
//! and the least value over a grid.

use super::{Figure, STATED, STATED_AT, mark, sign, spread, with_unit};
use crate::report::chart::Looks;
use crate::report::chart::bars::{Bar, Bars, Group};
use crate::report::chart::lines::{Line, Lines, Panel, StatedAt};
use crate::report::experiment::{Experiment, Point};
use crate::report::measure::Measure;
use crate::report::names;
use crate::report::papers::{self, Stated};

/// The figures that the papers ask for: "key@axis=value", "key@least".
pub(super) fn figures(experiment: &Experiment<'_>, measures: &[Measure]) -> Vec<Figure> {
    let wanted = papers::wanted(experiment.id);
    let made = wanted.into_iter().filter_map(|key| {
        let (base, slice) = key.split_once('@')?;
        let measure = measures.iter().find(|m| m.key == base)?;
        match slice.split_once('=') {
            Some((axis, value)) => along(experiment, measure, key, axis, value),
            None => least(experiment, measure, key),
        }
    });
    made.collect()
}

/// A line per protocol where `axis` has that value, over the other axis of the grid.
fn along(
    experiment: &Experiment<'_>,
    measure: &Measure,
    key: &str,
    axis: &str,
    value: &str,
) -> Option<Figure> {
    let (rtt, loss) = experiment.grid()?;
    let category = experiment.protocol()?;
    let fits = |n: usize| experiment.axes[n].name.rsplit('.').next() == Some(axis);
    let over = if fits(loss) { rtt } else { loss };
    let points: Vec<&Point<'_>> = experiment
        .points
        .iter()
        .filter(|point| experiment.at(point, axis) == Some(value))
        .collect();
    let place = |point: &Point<'_>| {
        let number = names::order(point.at[over])?;
        // Milliseconds, or per cent.
        Some(if over == rtt { number * 1e3 } else { number })
    };
    let median = |point: &Point<'_>| Some(spread(point, measure)?.median);
    let stated = |point: &Point<'_>| papers::stated(experiment, &measure.key, point, None);
    let known = || points.iter().filter_map(|point| stated(point));
    let high = points.iter().filter_map(|p| median(p)).fold(0.0, f64::max);
    let low = points.iter().filter_map(|p| median(p)).fold(0.0, f64::min);
    let high = known().map(|s| s.is.highest()).fold(high, f64::max);
    if points.is_empty() || high <= low {
        return None;
    }
    let unit = measure.quantity.unit(high.max(-low));
    let mut lines = Vec::new();
    let mut looks = Looks::default();
    let mut marks: Vec<StatedAt> = Vec::new();
    for (look, protocol) in experiment.axes[category].values.iter().enumerate() {
        let mine = || points.iter().filter(|p| p.at[category] == protocol);
        let name = names::protocol(protocol);
        let curve: Vec<(f64, f64)> = mine()
            .filter_map(|p| Some((place(p)?, unit.of(median(p)?))))
            .collect();
        if curve.is_empty() {
            continue;
        }
        looks.add(look, &name);
        marks.extend(mine().filter_map(|p| {
            let mut mark = mark(stated(p)?, &unit);
            mark.tip = format!("{name}, {}: {}", experiment.place(p, &[over]), mark.tip);
            Some((Some(place(p)?), look, mark))
        }));
        lines.push(Line {
            look,
            name,
            points: curve,
            steps: false,
        });
    }
    let until = points.iter().filter_map(|p| place(p)).fold(0.0, f64::max);
    let stated = if marks.is_empty() { "" } else { STATED_AT };
    let unit_of_axis = if over == rtt { "ms" } else { "%" };
    let chart = Lines {
        wide: true,
        x_label: &format!(
            "{}, {unit_of_axis}",
            names::axis(&experiment.axes[over].name)
        ),
        y_label: &with_unit(&measure.label, &unit),
        x: (0.0, until),
        x_log: false,
        y: (unit.of(low), unit.of(high)),
        looks: &looks,
        moments: &[],
        panels: &[Panel {
            title: format!("{} {}", names::axis(axis), names::value(value)),
            lines,
            stated: marks,
            ..Panel::default()
        }],
    };
    Some(Figure {
        key: key.to_owned(),
        title: format!(
            "{} at {} {}",
            measure.title,
            names::axis(axis),
            names::value(value)
        ),
        chart: chart.chart(),
        caption: format!("Median over the seeds.{stated} {}", measure.about)
            .trim_end()
            .to_owned(),
        folded: false,
    })
}

/// The least value of each protocol over the whole grid.
fn least(experiment: &Experiment<'_>, measure: &Measure, key: &str) -> Option<Figure> {
    let category = experiment.protocol()?;
    let mut rows: Vec<(&Point<'_>, f64, Option<&'static Stated>)> = Vec::new();
    for protocol in &experiment.axes[category].values {
        let mine = experiment
            .points
            .iter()
            .filter(|p| p.at[category] == protocol);
        let values = mine.filter_map(|p| Some((p, spread(p, measure)?.median)));
        if let Some((point, value)) = values.min_by(|a, b| a.1.total_cmp(&b.1)) {
            rows.push((point, value, papers::stated(experiment, key, point, None)));
        }
    }
    let highest = |row: &(&Point<'_>, f64, Option<&Stated>)| {
        row.2.map_or(row.1, |stated| stated.is.highest().max(row.1))
    };
    let high = rows.iter().map(highest).fold(0.0, f64::max);
    if rows.is_empty() {
        return None;
    }
    let unit = measure.quantity.unit(high);
    let groups: Vec<Group> = rows
        .iter()
        .map(|(point, value, stated)| Group {
            name: experiment.named_value(category, point.at[category]),
            bars: vec![Bar {
                look: 0,
                value: Some(unit.of(*value)),
                interval: None,
                half: None,
                stated: stated.map(|stated| mark(stated, &unit)),
                text: format!("{}{}", unit.write(*value), sign(point)),
                tip: format!(
                    "{}: {} {}",
                    experiment.place(point, &experiment.others(&[])),
                    unit.write(*value),
                    unit.name
                ),
            }],
        })
        .collect();
    let stated = if rows.iter().any(|row| row.2.is_some()) {
        STATED
    } else {
        ""
    };
    let chart = Bars {
        label: &with_unit(&measure.label, &unit),
        looks: &Looks::of([(0, String::new())]),
        panels: &[(String::new(), groups)],
        range: (0.0, unit.of(high)),
        log: false,
    };
    Some(Figure {
        key: key.to_owned(),
        title: format!("{}: the least of all cells", measure.title),
        chart: chart.chart(),
        caption: format!(
            "The lowest median over the seeds of any cell; which cell is told when the pointer rests on the bar.{stated}"
        ),
        folded: false,
    })
}
