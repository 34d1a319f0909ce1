//! A protocol over a grid of RTT and loss: how checks of K14proto and K13app look at it.
//!
//! K14proto and K13app show the best of four repeats, so a rate here is the highest over the seeds; and
//! they take means over cells that succeed only, so [`Grid::mean`] does.

use super::judge::{Mark, mbit, number};
use super::{Finding, Results};
use crate::metrics;
use crate::result::{CellResult, FlowResult};

/// "Successful" is a cell with more than this, in bit/s (K14proto).
pub(crate) const SUCCESS_BPS: f64 = 100e6;

/// One cell of the grid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point<'a> {
    pub(crate) rtt_ms: f64,
    pub(crate) loss_percent: f64,
    pub(crate) cell: &'a CellResult,
    flow: &'a FlowResult,
}

/// The cells of one protocol, the best seed of each.
#[derive(Clone, Debug)]
pub(crate) struct Grid<'a>(Vec<Point<'a>>);

impl Point<'_> {
    /// The rate in bit/s: what a mover displays if it is one, else goodput; behind the warm-up where the
    /// cell ended early, so that the start does not weigh more than in the whole run.
    pub(crate) fn rate(&self) -> f64 {
        let whole = if self.cell.shortened {
            self.flow.steady_goodput_bps
        } else {
            self.flow.goodput_bps
        };
        self.metric("displayed_bps").unwrap_or(whole)
    }

    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let key = format!("{name}/{}", self.flow.name);
        self.cell.metrics.get(&key).copied()
    }

    fn cpu(&self, seconds: Option<f64>) -> Option<f64> {
        let took = self.flow.end_s - self.flow.start_s;
        metrics::cpu_per_gbps(seconds?, took, self.flow.goodput_bps)
    }

    /// CPU % of a core per Gbit/s at the sender.
    pub(crate) fn sender_cpu(&self) -> Option<f64> {
        self.cpu(self.flow.sender_cpu_s)
    }

    /// CPU % of a core, at the sender and at the receiver.
    pub(crate) fn cores(&self) -> Option<(f64, f64)> {
        let took = self.flow.end_s - self.flow.start_s;
        let share = |seconds: Option<f64>| seconds.map(|s| s / took * 100.0);
        share(self.flow.sender_cpu_s).zip(share(self.flow.receiver_cpu_s))
    }

    /// Sender's CPU over the receiver's.
    pub(crate) fn cpu_ratio(&self) -> Option<f64> {
        let (sender, receiver) = self.cores()?;
        (receiver > 0.0).then(|| sender / receiver)
    }

    /// Feedback in KiB for each GiB of data.
    pub(crate) fn feedback_kib(&self) -> Option<f64> {
        self.metric("feedback_bytes_per_gib")
            .map(|bytes| bytes / 1024.0)
    }

    pub(crate) fn succeeds(&self) -> bool {
        self.rate() > SUCCESS_BPS
    }
}

fn leading(text: Option<&String>) -> Option<f64> {
    let text = text?;
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'));
    text[..end.unwrap_or(text.len())].parse().ok()
}

impl<'a> Grid<'a> {
    /// The cells of an experiment whose first flow is of one of `names`, with an axis of RTT.
    pub(crate) fn of(r: &Results<'a>, experiment: &str, names: &[&str]) -> Self {
        let mut points: Vec<Point<'a>> = Vec::new();
        for cell in r.experiment(experiment).iter() {
            let Some(flow) = cell.flows.first() else {
                continue;
            };
            if !names.contains(&flow.protocol.as_str()) || cell.flows.len() > 1 {
                continue;
            }
            let new = Point {
                rtt_ms: leading(cell.at.get("rtt")).unwrap_or(0.0),
                loss_percent: leading(cell.at.get("loss")).unwrap_or(0.0),
                cell,
                flow,
            };
            let same = |p: &&mut Point<'_>| {
                (p.rtt_ms - new.rtt_ms).abs() < 1e-9
                    && (p.loss_percent - new.loss_percent).abs() < 1e-9
            };
            match points.iter_mut().find(same) {
                Some(old) if old.rate() >= new.rate() => {}
                Some(old) => *old = new,
                None => points.push(new),
            }
        }
        Self(points)
    }

    /// Only cells that `keep` wants.
    pub(crate) fn only(&self, keep: impl Fn(&Point<'_>) -> bool) -> Self {
        Self(self.0.iter().filter(|point| keep(point)).copied().collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Point<'a>> {
        self.0.iter()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn at(&self, rtt_ms: f64, loss_percent: f64) -> Option<&Point<'a>> {
        self.0.iter().find(|p| {
            (p.rtt_ms - rtt_ms).abs() < 1e-9 && (p.loss_percent - loss_percent).abs() < 1e-9
        })
    }

    pub(crate) fn rate(&self, rtt_ms: f64, loss_percent: f64) -> Option<f64> {
        self.at(rtt_ms, loss_percent).map(Point::rate)
    }

    /// The cell with the highest rate.
    pub(crate) fn best(&self) -> Option<&Point<'a>> {
        self.0.iter().max_by(|a, b| a.rate().total_cmp(&b.rate()))
    }

    /// The cells of one loss, by RTT.
    pub(crate) fn row(&self, loss_percent: f64) -> Vec<&Point<'a>> {
        let mut row: Vec<&Point<'a>> = self
            .0
            .iter()
            .filter(|p| (p.loss_percent - loss_percent).abs() < 1e-9)
            .collect();
        row.sort_by(|a, b| a.rtt_ms.total_cmp(&b.rtt_ms));
        row
    }

    /// Mean over the cells that succeed.
    pub(crate) fn mean(&self, value: impl Fn(&Point<'a>) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self
            .0
            .iter()
            .filter(|p| p.succeeds())
            .filter_map(value)
            .collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }
}

/// Several findings that make one statement, each with its words.
#[derive(Default)]
pub(crate) struct Parts {
    ours: Vec<String>,
    found: Finding,
}

impl Parts {
    /// One part; without a value it is missing.
    pub(crate) fn add(&mut self, what: &str, case: Option<(String, Mark)>) -> &mut Self {
        match case {
            Some((ours, mark)) => {
                let text = format!("{what} {ours}{}", mark.sign());
                self.ours.push(text.trim().to_owned());
                self.found.marks.push(mark);
            }
            None if what.is_empty() => self.found.missing.push("it".to_owned()),
            None => self.found.missing.push(what.to_owned()),
        }
        self
    }

    /// The statement is about so many cells of a protocol: those that are not there are missing.
    pub(crate) fn of_cells(&mut self, grid: &Grid<'_>, cells: usize) -> &mut Self {
        let there = grid.iter().count();
        if there < cells {
            let lacking = format!("{} of {cells} cells", cells - there);
            self.found.missing.push(lacking);
        }
        self
    }

    /// A number that the paper gives.
    pub(crate) fn number(&mut self, what: &str, ours: Option<f64>, stated: f64) -> &mut Self {
        let digits = usize::from(stated < 10.0);
        let case = ours.map(|value| (format!("{value:.digits$}"), number(value, stated)));
        self.add(what, case)
    }

    /// A rate that the paper gives, in bit/s.
    pub(crate) fn rate(&mut self, what: &str, ours: Option<f64>, stated: f64) -> &mut Self {
        self.add(what, ours.map(|bps| (mbit(bps), number(bps, stated))))
    }

    /// A word beside it.
    pub(crate) fn note(&mut self, note: impl Into<String>) -> &mut Self {
        self.found.note = note.into();
        self
    }

    /// All parts together.
    pub(crate) fn finding(&self, run: &str) -> Finding {
        Finding {
            ours: self.ours.join(", "),
            run: run.to_owned(),
            ..self.found.clone()
        }
    }
}
