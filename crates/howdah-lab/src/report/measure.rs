//! What can be read off a cell: one number per run, with its name and unit.

use super::format::Quantity;
use crate::result::{CellResult, LinkResult};
use std::collections::BTreeSet;

/// Bytes in a GiB.
const GIB: f64 = 1_073_741_824.0;

/// Reads a number off a run, if the run has one.
pub(crate) type Get = Box<dyn Fn(&CellResult) -> Option<f64>>;

/// One number per run.
pub(crate) struct Measure {
    /// Name for fragments and looking up.
    pub(crate) key: String,
    /// Title of its figure.
    pub(crate) title: String,
    /// Label of its axis, without the unit.
    pub(crate) label: String,
    /// What it counts.
    pub(crate) quantity: Quantity,
    /// Shown at once; the others start folded.
    pub(crate) first: bool,
    /// The number, if this run has one.
    pub(crate) get: Get,
}

impl Measure {
    fn new(
        key: &str,
        title: &str,
        label: &str,
        quantity: Quantity,
        get: impl Fn(&CellResult) -> Option<f64> + 'static,
    ) -> Self {
        Self {
            key: key.to_owned(),
            title: title.to_owned(),
            label: label.to_owned(),
            quantity,
            first: false,
            get: Box::new(get),
        }
    }

    fn first(mut self) -> Self {
        self.first = true;
        self
    }
}

/// The measures that say something about these cells: those for which a cell has a value, and not
/// only zeros.
pub(crate) fn measures(cells: &[&CellResult]) -> Vec<Measure> {
    let mut all = vec![
        goodput(),
        Measure::new(
            "completion",
            "Completion time",
            "time until all bytes were known to be delivered",
            Quantity::Seconds,
            completion,
        )
        .first(),
    ];
    for name in names(cells, |c| c.groups.iter().map(|g| g.name.clone()).collect()) {
        all.extend(group_measures(&name));
    }
    all.push(
        Measure::new(
            "stream_loss",
            "Loss of the constant-rate streams",
            "packets lost, all streams together",
            Quantity::Percent,
            |cell| {
                let (sent, lost) = cell.streams.iter().fold((0, 0), |(sent, lost), s| {
                    (sent + s.sent_packets, lost + s.lost_packets)
                });
                (sent > 0).then(|| lost as f64 / sent as f64)
            },
        )
        .first(),
    );
    all.push(
        Measure::new(
            "stream_jitter",
            "Jitter of the constant-rate streams",
            "smoothed interarrival jitter (RFC 3550), mean of the streams",
            Quantity::Millis,
            |cell| mean(cell.streams.iter().map(|s| s.jitter_ms)),
        )
        .first(),
    );
    all.extend(
        names(cells, |c| c.metrics.keys().cloned().collect())
            .iter()
            .map(|key| metric(key)),
    );
    all.extend(costs());
    all.retain(|measure| {
        let mut values = cells.iter().filter_map(|cell| (measure.get)(cell));
        // A stream without losses is a result; a flow that never timed out is none.
        values.any(|v| v != 0.0) || (measure.key == "stream_loss" && has_streams(cells))
    });
    all
}

fn has_streams(cells: &[&CellResult]) -> bool {
    cells.iter().any(|cell| !cell.streams.is_empty())
}

/// Goodput of all long-lived flows together, each over its whole activity: the papers' mean.
pub(crate) fn goodput() -> Measure {
    Measure::new(
        "goodput",
        "Goodput",
        "goodput, mean over the flow's activity",
        Quantity::Rate,
        |cell| (!cell.flows.is_empty()).then(|| cell.flows.iter().map(|f| f.goodput_bps).sum()),
    )
    .first()
}

/// The same after the warm-up.
fn steady_goodput() -> Measure {
    Measure::new(
        "steady",
        "Goodput after the warm-up",
        "goodput of all long-lived flows after the warm-up",
        Quantity::Rate,
        |cell| {
            (!cell.flows.is_empty()).then(|| cell.flows.iter().map(|f| f.steady_goodput_bps).sum())
        },
    )
}

/// Time until the last flow was done; nothing where one was not.
fn completion(cell: &CellResult) -> Option<f64> {
    let all: Option<Vec<f64>> = cell.flows.iter().map(|f| f.completion_s).collect();
    all?.into_iter().reduce(f64::max)
}

fn group_measures(name: &str) -> Vec<Measure> {
    let find = |name: &str| {
        let name = name.to_owned();
        move |cell: &CellResult| cell.groups.iter().find(|g| g.name == name).cloned()
    };
    let (rate, median, tail, load) = (find(name), find(name), find(name), find(name));
    vec![
        Measure::new(
            &format!("{name}-throughput"),
            &format!("Throughput of the short flows ({name})"),
            "sum of sizes over sum of durations",
            Quantity::Rate,
            move |cell| rate(cell).map(|g| g.throughput_bps),
        )
        .first(),
        Measure::new(
            &format!("{name}-p50"),
            &format!("Completion time of the short flows ({name}), median"),
            "completion time, p50",
            Quantity::Seconds,
            move |cell| median(cell).map(|g| g.completion_s[0]),
        ),
        Measure::new(
            &format!("{name}-p99"),
            &format!("Completion time of the short flows ({name}), 99th percentile"),
            "completion time, p99",
            Quantity::Seconds,
            move |cell| tail(cell).map(|g| g.completion_s[2]),
        ),
        Measure::new(
            &format!("{name}-load"),
            &format!("Load offered by the short flows ({name})"),
            "bytes offered over the run's time",
            Quantity::Rate,
            move |cell| {
                let g = load(cell)?;
                (cell.duration_s > 0.0).then(|| g.offered_bytes as f64 * 8.0 / cell.duration_s)
            },
        ),
    ]
}

/// A figure that the runner computed, with the unit from its name.
fn metric(key: &str) -> Measure {
    let (quantity, name) = [
        ("_ms", Quantity::Millis),
        ("_s", Quantity::Seconds),
        ("_bps", Quantity::Rate),
        ("_bytes", Quantity::Bytes),
        ("_share", Quantity::Share),
        ("_percent", Quantity::Number),
    ]
    .into_iter()
    .find_map(|(suffix, quantity)| Some((quantity, key.strip_suffix(suffix)?)))
    .unwrap_or((Quantity::Number, key));
    let known = [
        ("jain", "Jain's fairness index of the flows"),
        (
            "t90",
            "Time to 90 % of the new rate after a change of the path",
        ),
        ("harm", "Harm done (Ware et al. 2019)"),
        (
            "asymmetry",
            "Asymmetry: (tested \u{2212} other) / (tested + other)",
        ),
        ("convergence", "Convergence time"),
    ];
    let title = known
        .iter()
        .find(|known| known.0 == name)
        .map_or_else(|| key.replace('_', " "), |known| known.1.to_owned());
    let label = match key {
        "jain" => "Jain's index".to_owned(),
        _ => name.replace('_', " "),
    };
    let quantity = if key == "jain" {
        Quantity::Share
    } else {
        quantity
    };
    let owned = key.to_owned();
    let measure = Measure::new(key, &title, &label, quantity, move |cell| {
        cell.metrics.get(&owned).copied()
    });
    if known.iter().any(|known| known.0 == name) {
        measure.first()
    } else {
        measure
    }
}

/// What the rate costs: waiting, repetitions, feedback, processor time.
fn costs() -> Vec<Measure> {
    vec![
        steady_goodput(),
        Measure::new(
            "utilisation",
            "Utilisation of the bottleneck",
            "share of the link's rate in use, forward",
            Quantity::Percent,
            |cell| forward(cell).map(|link| link.utilisation).reduce(f64::max),
        ),
        Measure::new(
            "queue_p95",
            "Waiting time in the bottleneck",
            "waiting time, p95",
            Quantity::Millis,
            queue_p95,
        ),
        Measure::new(
            "queue_drops",
            "Packets dropped by the bottleneck's queue",
            "share of the packets offered",
            Quantity::Percent,
            |cell| {
                let (offered, drops) = forward(cell).fold((0, 0), |(o, d), link| {
                    (o + link.offered_packets, d + link.queue_drops)
                });
                (offered > 0).then(|| drops as f64 / offered as f64)
            },
        ),
        Measure::new(
            "retransmit_share",
            "Retransmitted bytes",
            "share of the payload bytes sent",
            Quantity::Percent,
            retransmit_share,
        ),
        Measure::new(
            "feedback",
            "Feedback",
            "bytes on the wire from receiver to sender, per GiB of data",
            Quantity::Bytes,
            |cell| {
                let delivered: u64 = cell.flows.iter().map(|f| f.delivered_bytes).sum();
                let back: u64 = cell.flows.iter().map(|f| f.feedback_wire_bytes).sum();
                (delivered > 0).then(|| back as f64 * GIB / delivered as f64)
            },
        ),
        Measure::new(
            "ramp",
            "Time to 90 % of the flow's own rate",
            "time from the flow's start, slowest flow",
            Quantity::Seconds,
            ramp,
        ),
        Measure::new(
            "timeouts",
            "Retransmission timeouts",
            "timeouts of the long-lived flows",
            Quantity::Count,
            |cell| {
                (!cell.flows.is_empty())
                    .then(|| cell.flows.iter().map(|f| f.timeouts).sum::<u64>() as f64)
            },
        ),
        Measure::new(
            "sender_cpu",
            "Processor time of the sender (host cost model)",
            "seconds of one core per Gbit of data",
            Quantity::Number,
            |cell| cpu_per_gbit(cell, |f| f.sender_cpu_s),
        ),
        Measure::new(
            "receiver_cpu",
            "Processor time of the receiver (host cost model)",
            "seconds of one core per Gbit of data",
            Quantity::Number,
            |cell| cpu_per_gbit(cell, |f| f.receiver_cpu_s),
        ),
    ]
}

fn cpu_per_gbit(
    cell: &CellResult,
    of: impl Fn(&crate::result::FlowResult) -> Option<f64>,
) -> Option<f64> {
    let seconds: Option<Vec<f64>> = cell.flows.iter().map(of).collect();
    let bytes: u64 = cell.flows.iter().map(|f| f.delivered_bytes).sum();
    let seconds: f64 = seconds?.into_iter().sum();
    (bytes > 0).then(|| seconds / (bytes as f64 * 8e-9))
}

/// Repetitions among the payload bytes sent.
pub(crate) fn retransmit_share(cell: &CellResult) -> Option<f64> {
    let sent: u64 = cell.flows.iter().map(|f| f.sent_bytes).sum();
    let again: u64 = cell.flows.iter().map(|f| f.retransmitted_bytes).sum();
    (sent > 0).then(|| again as f64 / sent as f64)
}

/// Waiting time in the worst forward bottleneck, p95, in milliseconds.
pub(crate) fn queue_p95(cell: &CellResult) -> Option<f64> {
    forward(cell).map(|link| link.queue_ms[1]).reduce(f64::max)
}

fn ramp(cell: &CellResult) -> Option<f64> {
    let all: Option<Vec<f64>> = cell.flows.iter().map(|f| f.ramp_s).collect();
    all?.into_iter().reduce(f64::max)
}

/// Links in the direction of the data; all of them where none says so.
pub(crate) fn forward(cell: &CellResult) -> impl Iterator<Item = &LinkResult> {
    let named = cell.links.iter().any(|link| link.name.ends_with("forward"));
    cell.links
        .iter()
        .filter(move |link| !named || link.name.ends_with("forward"))
}

/// Rate of the narrowest forward link in bit/s; nothing where none is limited.
pub(crate) fn link_rate(cell: &CellResult) -> Option<f64> {
    forward(cell)
        .map(|link| link.rate_bps)
        .filter(|rate| *rate > 0.0)
        .reduce(f64::min)
}

/// The figures of our own protocol's map.
pub(crate) fn map_measures(cells: &[&CellResult]) -> Vec<Measure> {
    let mut all: Vec<Measure> = names(cells, |c| c.metrics.keys().cloned().collect())
        .iter()
        .filter(|key| key.contains("bound") || key.contains("ideal"))
        .map(|key| metric(key).first())
        .collect();
    if !all.iter().any(|m| m.key.contains("bound")) {
        all.insert(
            0,
            Measure::new(
                "rate_share",
                "Goodput as a share of the link's rate",
                "goodput / rate of the bottleneck",
                Quantity::Share,
                |cell| Some((goodput().get)(cell)? / link_rate(cell)?),
            ),
        );
    }
    if !all.iter().any(|m| m.key.contains("ideal")) {
        all.push(Measure::new(
            "above_ideal",
            "Completion time above the ideal",
            "completion time less size / rate of the bottleneck",
            Quantity::Seconds,
            |cell| {
                let bits = cell.flows.iter().map(|f| f.delivered_bytes).sum::<u64>() as f64 * 8.0;
                Some(completion(cell)? - bits / link_rate(cell)?)
            },
        ));
    }
    all.extend(
        costs()
            .into_iter()
            .filter(|m| ["ramp", "feedback", "retransmit_share", "queue_p95"].contains(&&*m.key)),
    );
    all.retain(|m| {
        cells
            .iter()
            .filter_map(|cell| (m.get)(cell))
            .any(|v| v != 0.0)
    });
    for measure in &mut all {
        measure.first = true;
    }
    all
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0usize), |(sum, n), v| (sum + v, n + 1));
    (n > 0).then(|| sum / n as f64)
}

fn names(cells: &[&CellResult], of: impl Fn(&CellResult) -> Vec<String>) -> BTreeSet<String> {
    cells.iter().flat_map(|cell| of(cell)).collect()
}
