//! RTT x loss heat maps, one per protocol and value of the other axes.

use super::{Figure, sign, spread, spread_words, with_unit};
use crate::report::chart::heat::{Cell, Heat};
use crate::report::chart::round::{nice_step, round_up};
use crate::report::experiment::Experiment;
use crate::report::format::Quantity;
use crate::report::measure::Measure;
use crate::report::names;
use crate::report::papers;

/// The measure over RTT and loss. The experiment must have both axes.
pub(super) fn figure(experiment: &Experiment<'_>, measure: &Measure) -> Figure {
    let (rtt, loss) = experiment.grid().unwrap_or((0, 0));
    let columns: Vec<String> = values(experiment, loss);
    let rows: Vec<String> = values(experiment, rtt);
    let medians: Vec<f64> = experiment
        .points
        .iter()
        .filter_map(|point| Some(spread(point, measure)?.median))
        .collect();
    let high = medians.iter().copied().fold(0.0, f64::max);
    let low = medians.iter().copied().fold(f64::INFINITY, f64::min);
    let unit = measure.quantity.unit(high);
    let log = low > 0.0 && high / low > 30.0;
    let range = if log {
        (unit.of(low), unit.of(high))
    } else {
        range(unit.of(low), unit.of(high), measure.quantity)
    };
    let label = with_unit(&measure.label, &unit);
    let mut with_stated = false;
    let maps: Vec<(String, Vec<Option<Cell>>)> = experiment
        .split(&experiment.others(&[rtt, loss]))
        .iter()
        .map(|(title, points)| {
            let mut cells = vec![None; rows.len() * columns.len()];
            for point in points {
                let row = place(experiment, rtt, point.at[rtt]);
                let column = place(experiment, loss, point.at[loss]);
                let words = experiment.place(point, &experiment.others(&[]));
                let stated = papers::stated(experiment, &measure.key, point, None);
                with_stated |= stated.is_some();
                let also = stated.map_or_else(String::new, |s| format!("; {}", s.words(&unit)));
                let found = spread(point, measure);
                let cell = Cell {
                    value: found.map(|f| unit.of(f.median)),
                    text: found.map_or_else(
                        || "\u{2013}".to_owned(),
                        |f| format!("{}{}", unit.write(f.median), sign(point)),
                    ),
                    stated: stated.map(|s| s.is.write(&unit)),
                    tip: match found {
                        Some(f) => format!("{words}: {}{also}", spread_words(&f, &unit)),
                        None => format!("{words}: no result{also}"),
                    },
                };
                let shown = cell.value.is_some() || cell.stated.is_some();
                cells[row * columns.len() + column] = shown.then_some(cell);
            }
            let number = points
                .first()
                .and_then(|point| papers::panel(experiment, &measure.key, point));
            let title = match number {
                Some(number) => format!("{title} \u{2013} paper's {number}"),
                None => title.clone(),
            };
            (title, cells)
        })
        .collect();
    let scale = if log {
        " Colours follow the logarithm."
    } else {
        ""
    };
    let stated = if with_stated {
        " A second number, with a corner, is stated in the paper."
    } else {
        ""
    };
    let chart = Heat {
        x_label: &names::axis(&experiment.axes[loss].name),
        y_label: &names::axis(&experiment.axes[rtt].name),
        label: &label,
        columns: &columns,
        rows: &rows,
        maps: &maps,
        range,
        log,
    };
    Figure {
        key: measure.key.clone(),
        title: format!("{} over RTT and loss", measure.title),
        chart: chart.chart(),
        caption: format!(
            "{}{}Median over the seeds in each cell; the interval is told when the pointer rests on it. All maps share their colours.{scale}{stated}",
            measure.about,
            if measure.about.is_empty() { "" } else { " " }
        ),
        folded: !measure.first,
    }
}

/// A round range of colours: shares keep 1 as their end, and begin at zero unless all are high.
fn range(low: f64, high: f64, quantity: Quantity) -> (f64, f64) {
    if quantity == Quantity::Share {
        let low = (low * 10.0).floor() / 10.0;
        return (if low >= 0.5 { low } else { low.min(0.0) }, high.max(1.0));
    }
    let step = nice_step(high - low.min(0.0), 4);
    let low = (low.min(0.0) / step).floor() * step;
    (low, round_up(high, 4))
}

fn values(experiment: &Experiment<'_>, axis: usize) -> Vec<String> {
    let values = &experiment.axes[axis].values;
    values.iter().map(|v| experiment.value(axis, v)).collect()
}

fn place(experiment: &Experiment<'_>, axis: usize, value: &str) -> usize {
    let values = &experiment.axes[axis].values;
    values.iter().position(|v| v == value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_span_a_round_range() {
        assert_eq!(range(0.93, 0.99, Quantity::Share), (0.9, 1.0));
        assert_eq!(range(0.2, 0.99, Quantity::Share), (0.0, 1.0));
        assert_eq!(range(3.0, 17.0, Quantity::Seconds), (0.0, 20.0));
    }
}
