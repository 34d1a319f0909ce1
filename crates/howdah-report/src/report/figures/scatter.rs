//! Throughput against delay, a point for each protocol: what each pays for its rate.

use super::{Figure, interval_words, spread_words, with_unit};
use crate::report::chart::Looks;
use crate::report::chart::scatter::{self, Dot, ends};
use crate::report::experiment::{Experiment, Point};
use crate::report::format::Quantity;
use crate::report::measure;
use crate::report::stats::Spread;
use crate::result::CellResult;
use std::fmt::Write as _;

/// With more panels nobody compares them.
const MOST: usize = 24;

/// What packets wait, in ms: the worst 95th percentile of the probes' one-way delays, or, without probes, of the queues.
fn delay_ms(run: &CellResult) -> Option<f64> {
    let probes = run.metrics.iter();
    let probes = probes.filter(|(key, _)| key.starts_with("delay_p95_ms/"));
    let probed = probes.map(|(_, delay_ms)| *delay_ms).reduce(f64::max);
    let queues = || {
        run.links
            .iter()
            .map(|link| link.queue_ms[1])
            .reduce(f64::max)
    };
    probed.or_else(queues)
}

/// A panel for each place on the other axes; nothing where there is one protocol only, or no queue.
pub(super) fn figure(experiment: &Experiment<'_>) -> Option<Figure> {
    let axis = experiment.protocol()?;
    let protocols = &experiment.axes[axis].values;
    let goodput = measure::goodput();
    let spreads = |point: &Point<'_>| {
        let delay = Spread::of(point.runs.iter().filter_map(|run| delay_ms(run)))?;
        let rate = super::spread(point, &goodput)?;
        Some((delay, rate))
    };
    let all: Vec<(Spread, Spread)> = experiment.points.iter().filter_map(spreads).collect();
    let most = |of: fn(&(Spread, Spread)) -> f64| all.iter().map(of).fold(0.0, f64::max);
    let (delay, rate) = (most(|s| s.0.high), most(|s| s.1.high));
    if protocols.len() < 2 || delay <= 0.0 || rate <= 0.0 {
        return None;
    }
    let (delay, rate) = (Quantity::Millis.unit(delay), Quantity::Rate.unit(rate));
    let panels = experiment.split(&experiment.others(&[axis]));
    let labels = (
        with_unit("delay, 95th percentile", &delay),
        with_unit("goodput of all flows", &rate),
    );
    let dropped = panels.len().saturating_sub(MOST);
    let panels: Vec<(String, Vec<Dot>)> = panels
        .into_iter()
        .take(MOST)
        .map(|(title, points)| {
            let dots = points
                .iter()
                .filter_map(|point| {
                    let (x, y) = spreads(point)?;
                    let name = point.at[axis];
                    Some(Dot {
                        look: protocols.iter().position(|p| p == name).unwrap_or(0),
                        tip: format!(
                            "{name}: {} at {}",
                            spread_words(&y, &rate),
                            spread_words(&x, &delay)
                        ),
                        x: ends(&x, |value| delay.of(value)),
                        y: ends(&y, |value| rate.of(value)),
                    })
                })
                .collect();
            (title, dots)
        })
        .collect();
    let looks = Looks::of(protocols.iter().map(|name| (*name).clone()).enumerate());
    let kinds: Vec<Spread> = all.into_iter().flat_map(|(x, y)| [x, y]).collect();
    let mut caption = format!(
        "Up and right is better. Delay is that of the probes where there are streams, else the wait in the fullest queue. {}",
        interval_words(&kinds)
    );
    if dropped > 0 {
        let _ = write!(caption, " {dropped} more places are not drawn.");
    }
    Some(Figure {
        key: "delay-goodput".to_owned(),
        title: "Goodput against delay".to_owned(),
        chart: scatter::chart((&labels.0, &labels.1), &looks, &panels),
        caption,
        folded: true,
    })
}
