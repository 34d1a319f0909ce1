//! What can be read off a cell: one number per run, with its name and unit.

use super::format::Quantity;
use crate::result::{CellResult, FlowResult, LinkResult};
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
    /// Head of its column.
    pub(crate) short: String,
    /// Label of its axis, without the unit.
    pub(crate) label: String,
    /// What it counts.
    pub(crate) quantity: Quantity,
    /// What a reader must know beside it; often nothing.
    pub(crate) about: String,
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
            short: SHORT
                .iter()
                .find(|known| known.0 == key)
                .map_or(title, |known| known.1)
                .to_owned(),
            label: label.to_owned(),
            quantity,
            about: String::new(),
            first: false,
            get: Box::new(get),
        }
    }

    fn short(mut self, short: impl Into<String>) -> Self {
        self.short = short.into();
        self
    }

    fn first(mut self) -> Self {
        self.first = true;
        self
    }
}

/// Heads of columns, where the title is too long for one.
const SHORT: &[(&str, &str)] = &[
    ("goodput", "goodput"),
    ("completion", "completion"),
    ("stream_loss", "streams: loss"),
    ("stream_jitter", "streams: jitter"),
    ("steady", "after the warm-up"),
    ("utilisation", "utilisation"),
    ("queue_p95", "queue, p95"),
    ("queue_drops", "queue drops"),
    ("retransmit_share", "sent again"),
    ("feedback", "feedback per GiB"),
    ("ramp", "to 90 % of own rate"),
    ("timeouts", "timeouts"),
    ("sender_cpu", "sender's CPU per Gbit/s"),
    ("receiver_cpu", "receiver's CPU per Gbit/s"),
    ("bound_share", "share of the bound"),
    ("rate_share", "share of the rate"),
    ("above_ideal", "above the ideal"),
];

/// The measures that say something about these cells: those for which a cell has a value, and not
/// only zeros.
pub(crate) fn measures(cells: &[&CellResult]) -> Vec<Measure> {
    let single = cells.iter().all(|cell| cell.flows.len() < 2);
    let mut rate = goodput();
    if cells.iter().any(|cell| cell.shortened) {
        let early = "Cells that ended early show the goodput behind the warm-up.";
        rate.about.push_str(early);
    }
    let mut all = vec![
        rate,
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
            .filter_map(|key| metric(key, single)),
    );
    all.extend(bottlenecks(cells));
    all.extend(costs());
    let warmed_up = |cell: &&CellResult| {
        let flows = cell.flows.iter();
        flows
            .map(|f| (f.steady_goodput_bps - f.goodput_bps).abs())
            .sum::<f64>()
            > 0.0
    };
    let stem = |m: &Measure, words: &[&str]| words.iter().any(|w| m.key.starts_with(w));
    let of_file = ["displayed", "duration", "overhead"];
    all.retain(|measure| {
        // A stream without losses is a result; a flow that never timed out is none.
        let mut values = cells.iter().filter_map(|cell| (measure.get)(cell));
        values.any(|v| v != 0.0) || (measure.key == "stream_loss" && has_streams(cells))
    });
    // What a program displays is worth a look where it is not simply the rate.
    if !all.iter().any(|m| stem(m, &["discrepancy"])) {
        for measure in all.iter_mut().filter(|m| stem(m, &of_file)) {
            measure.first = false;
        }
    }
    if !cells.iter().any(warmed_up) {
        all.retain(|measure| measure.key != "steady");
    }
    all
}

fn has_streams(cells: &[&CellResult]) -> bool {
    cells.iter().any(|cell| !cell.streams.is_empty())
}

/// Goodput of a flow over its whole activity: the papers' mean. Behind the warm-up where the cell ended
/// early, so that the start does not weigh more than in the whole run.
pub(crate) fn goodput_of(cell: &CellResult, flow: &FlowResult) -> f64 {
    if cell.shortened {
        flow.steady_goodput_bps
    } else {
        flow.goodput_bps
    }
}

/// Goodput of all long-lived flows together.
pub(crate) fn goodput() -> Measure {
    Measure::new(
        "goodput",
        "Goodput",
        "goodput, mean over the flow's activity",
        Quantity::Rate,
        sum_goodput,
    )
    .first()
}

/// Of several flows what all of them had over the time in which any was active: means over different times do not add up.
fn sum_goodput(cell: &CellResult) -> Option<f64> {
    match &cell.flows[..] {
        [] => None,
        [flow] => Some(goodput_of(cell, flow)),
        _ if cell.shortened => steady_sum(cell),
        flows => {
            let from_s = flows.iter().map(|f| f.start_s).fold(f64::MAX, f64::min);
            let to_s = flows.iter().map(|f| f.end_s).fold(0.0, f64::max);
            let bytes = flows.iter().map(|f| f.delivered_bytes).sum();
            Some(crate::metrics::goodput_bps(bytes, to_s - from_s))
        }
    }
}

/// The same behind the warm-up; in results of before it was written down the sum of the flows' means.
fn steady_sum(cell: &CellResult) -> Option<f64> {
    let known = cell.metrics.get("sum_steady_goodput_bps").copied();
    let flows = cell.flows.iter().map(|f| f.steady_goodput_bps);
    known.or_else(|| (!cell.flows.is_empty()).then(|| flows.sum()))
}

/// The same after the warm-up.
fn steady_goodput() -> Measure {
    Measure::new(
        "steady",
        "Goodput after the warm-up",
        "goodput of all long-lived flows after the warm-up",
        Quantity::Rate,
        steady_sum,
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
    let (rate, median, tail) = (find(name), find(name), find(name));
    let (load, open) = (find(name), find(name));
    vec![
        Measure::new(
            &format!("{name}-throughput"),
            &format!("Throughput of the short flows ({name})"),
            "sum of sizes over sum of durations",
            Quantity::Rate,
            move |cell| rate(cell).map(|g| g.throughput_bps),
        )
        .short(format!("{name}: throughput"))
        .first(),
        Measure::new(
            &format!("{name}-unfinished"),
            &format!("Short flows that did not finish ({name})"),
            "share of the flows started",
            Quantity::Percent,
            move |cell| {
                let g = open(cell)?;
                (g.flows > 0).then(|| 1.0 - g.finished as f64 / g.flows as f64)
            },
        )
        .short(format!("{name}: unfinished")),
        Measure::new(
            &format!("{name}-p50"),
            &format!("Completion time of the short flows ({name}), median"),
            "completion time, p50",
            Quantity::Seconds,
            move |cell| Some(median(cell)?.completion_s?[0]),
        )
        .short(format!("{name}: p50")),
        Measure::new(
            &format!("{name}-p99"),
            &format!("Completion time of the short flows ({name}), 99th percentile"),
            "completion time, p99",
            Quantity::Seconds,
            move |cell| Some(tail(cell)?.completion_s?[2]),
        )
        .short(format!("{name}: p99")),
        Measure::new(
            &format!("{name}-load"),
            &format!("Load offered by the short flows ({name})"),
            "bytes offered over the run's time",
            Quantity::Rate,
            move |cell| {
                let g = load(cell)?;
                (cell.duration_s > 0.0).then(|| g.offered_bytes as f64 * 8.0 / cell.duration_s)
            },
        )
        .short(format!("{name}: load")),
    ]
}

/// What the runner's figures are called: name without unit, title, label. All but the last are shown
/// at once.
const METRICS: &[(&str, &str, &str)] = &[
    (
        "delay_p50",
        "One-way delay of a stream, median",
        "delay that half of the packets stay within",
    ),
    (
        "delay_p95",
        "One-way delay of a stream, 95th percentile",
        "delay that 95 % of the packets stay within",
    ),
    (
        "jain",
        "Jain's fairness index of the flows' goodput",
        "Jain's index",
    ),
    (
        "asymmetry",
        "Asymmetry of two flows",
        "(first \u{2212} second) / (first + second)",
    ),
    (
        "convergence",
        "Convergence: from the last start until Jain's index over 10 s reaches 0.95, and that of the rest of the run",
        "time",
    ),
    (
        "t90",
        "Time after a change of the path until 90 % of the even share of what it then lets pass",
        "time",
    ),
    (
        "harm",
        "Harm: share of the flow's goodput alone that the others take (Ware et al. 2019)",
        "harm",
    ),
    (
        "maxmin",
        "Fairness: least over greatest of the flows' goodput",
        "least / greatest",
    ),
    (
        "displayed",
        "Displayed rate",
        "rate that the program displays",
    ),
    (
        "tool",
        "Rate that the tool displays",
        "rate that the tool displays",
    ),
    (
        "duration",
        "Duration of the whole command",
        "time from the command to its end",
    ),
    (
        "discrepancy",
        "Discrepancy: duration less size over displayed rate",
        "duration \u{2212} size / displayed rate",
    ),
    (
        "overhead",
        "Duration above the ideal",
        "duration \u{2212} size / rate of the link",
    ),
    (
        EFFICIENCY,
        "Forward efficiency",
        "user bytes over bytes sent forward (IP + 14)",
    ),
];

/// The runner's name of it.
const EFFICIENCY: &str = "forward_efficiency";

/// Figures of the runner that are shown from the raw counters, or are steps to others.
const SHOWN_ELSEWHERE: [&str; 6] = [
    "load_bps",
    "sum_goodput_bps",
    "retransmit_share",
    "feedback_bytes_per_gib",
    "change_bps",
    "after_change_bps",
];

/// A figure that the runner computed, with the unit from its name; behind slashes, the flow and the
/// change of the path that it is about. A single flow is not named.
fn metric(key: &str, single: bool) -> Option<Measure> {
    let mut parts = key.split('/');
    let stem = parts.next().unwrap_or(key);
    if SHOWN_ELSEWHERE.contains(&stem) {
        return None;
    }
    let about: Vec<String> = parts
        .map(|part| match part.parse::<u32>() {
            Ok(n) => format!("change {n}"),
            Err(_) => part.to_owned(),
        })
        .filter(|part| !single || part.starts_with("change "))
        .collect();
    let (quantity, name) = [
        ("_ms", Quantity::Millis),
        ("_s", Quantity::Seconds),
        ("_bps", Quantity::Rate),
        ("_bytes", Quantity::Bytes),
        ("_bytes_per_gib", Quantity::Bytes),
        ("_share", Quantity::Share),
    ]
    .into_iter()
    .find_map(|(suffix, quantity)| Some((quantity, stem.strip_suffix(suffix)?)))
    .unwrap_or((Quantity::Number, stem));
    let known = METRICS.iter().find(|known| known.0 == name);
    let plain = name.replace('_', " ");
    let (title, label) = known.map_or((plain.as_str(), plain.as_str()), |k| (k.1, k.2));
    let title = if about.is_empty() {
        title.to_owned()
    } else {
        format!("{title}: {}", about.join(", "))
    };
    let quantity = if name.starts_with("jain") {
        Quantity::Share
    } else {
        quantity
    };
    let owned = key.to_owned();
    // A transfer that did not end within the run displayed nothing: what arrived until then.
    let of_flow = ["displayed", "tool"].contains(&name);
    let flow = key.split_once('/').map_or("", |(_, flow)| flow).to_owned();
    let mut measure = Measure::new(key, &title, label, quantity, move |cell| {
        let arrived = || {
            let flow = cell.flows.iter().find(|f| of_flow && f.name == flow)?;
            Some(flow.goodput_bps)
        };
        let known = cell.metrics.get(&owned).copied().or_else(arrived);
        // Rounding in the runner's sums is no result.
        known.map(|v| if v.abs() < 1e-9 { 0.0 } else { v })
    });
    if of_flow {
        let arrived = "Where the transfer did not end within the run: the goodput until then.";
        measure.about.push_str(arrived);
    }
    // What a program says of its file is shown at once where there is one file; fairness in this
    // form where a paper has it so.
    let of_file = ["displayed", "tool", "duration", "discrepancy", "overhead"].contains(&name);
    let later = [EFFICIENCY, "maxmin"].contains(&name) || (of_file && !single);
    measure.first = known.is_some() && !later;
    if ["t90", "convergence"].contains(&name) {
        let none = "A cell without a value did not get there within the run.";
        measure.about.push_str(none);
    }
    let head = match stem {
        "jain" => "Jain's index".to_owned(),
        "jain_min" => "Jain's index, least".to_owned(),
        _ => plain,
    };
    measure.short = [vec![head], about].concat().join(", ");
    Some(measure)
}

/// What happens at the bottlenecks in the direction of the data, each apart where there are several: a
/// queue in the sender's own interface is not the router's.
fn bottlenecks(cells: &[&CellResult]) -> Vec<Measure> {
    let links = names(cells, |cell| {
        let limited = with_data(cell).filter(|link| link.rate_bps > 0.0);
        limited.map(|link| link.name.clone()).collect()
    });
    let several = links.len() > 1;
    links
        .iter()
        .flat_map(|link| bottleneck(link, several))
        .collect()
}

fn bottleneck(link: &str, several: bool) -> [Measure; 3] {
    let about = if several {
        format!(": {}", link.trim_end_matches("/forward"))
    } else {
        String::new()
    };
    let find = || {
        let link = link.to_owned();
        move |cell: &CellResult| cell.links.iter().find(|l| l.name == link).cloned()
    };
    let (used, waits, drops) = (find(), find(), find());
    let utilisation = Measure::new(
        "utilisation",
        &format!("Utilisation of the bottleneck{about}"),
        "share of the link's rate in use, in the direction of the data",
        Quantity::Percent,
        move |cell| used(cell).map(|link| link.utilisation),
    );
    let queue = Measure::new(
        "queue_p95",
        &format!("Waiting time in the bottleneck{about}"),
        "waiting time, p95",
        Quantity::Millis,
        move |cell| waits(cell).map(|link| link.queue_ms[1]),
    );
    let dropped = Measure::new(
        "queue_drops",
        &format!("Packets dropped by the bottleneck's queue{about}"),
        "share of the packets offered",
        Quantity::Percent,
        move |cell| {
            let link = drops(cell)?;
            let offered = link.offered_packets;
            (offered > 0).then(|| (link.queue_drops + link.aqm_drops) as f64 / offered as f64)
        },
    );
    [utilisation, queue, dropped].map(|mut measure| {
        measure.short.push_str(&about);
        measure
    })
}

/// What the rate costs: repetitions, feedback, processor time.
fn costs() -> Vec<Measure> {
    vec![
        steady_goodput(),
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
                let all: Option<u64> = cell.flows.iter().map(|f| f.timeouts).sum();
                all.filter(|_| !cell.flows.is_empty())
                    .map(|count| count as f64)
            },
        ),
        Measure::new(
            "sender_cpu",
            "Processor time of the sender per Gbit/s",
            "of one core, per Gbit/s of data",
            Quantity::Percent,
            |cell| cpu_per_gbit(cell, |f| f.sender_cpu_s),
        ),
        Measure::new(
            "receiver_cpu",
            "Processor time of the receiver per Gbit/s",
            "of one core, per Gbit/s of data",
            Quantity::Percent,
            |cell| cpu_per_gbit(cell, |f| f.receiver_cpu_s),
        ),
    ]
}

fn cpu_per_gbit(cell: &CellResult, of: impl Fn(&FlowResult) -> Option<f64>) -> Option<f64> {
    let seconds: Option<Vec<f64>> = cell.flows.iter().map(of).collect();
    let bytes: u64 = cell.flows.iter().map(|f| f.delivered_bytes).sum();
    let seconds: f64 = seconds?.into_iter().sum();
    (bytes > 0).then(|| seconds / (bytes as f64 * 8e-9))
}

/// Repetitions among the payload bytes sent.
pub(crate) fn retransmit_share(cell: &CellResult) -> Option<f64> {
    let sent: u64 = cell.flows.iter().map(|f| f.sent_bytes).sum();
    let again: Option<u64> = cell.flows.iter().map(|f| f.retransmitted_bytes).sum();
    crate::metrics::retransmit_share(again?, sent)
}

fn ramp(cell: &CellResult) -> Option<f64> {
    let all: Option<Vec<f64>> = cell.flows.iter().map(|f| f.ramp_s).collect();
    all?.into_iter().reduce(f64::max)
}

/// Which directions have data, forward and backward: those of the long-lived flows, or of all else where there is none.
fn directions(cell: &CellResult) -> [bool; 2] {
    let mut reversed: Vec<bool> = cell.flows.iter().map(|flow| flow.reverse).collect();
    if reversed.is_empty() {
        reversed.extend(cell.groups.iter().map(|group| group.reverse));
        reversed.extend(cell.streams.iter().map(|stream| stream.reverse));
    }
    let backward = reversed.contains(&true);
    [!backward || reversed.contains(&false), backward]
}

/// Links in the direction of the data; all of them where none says so.
pub(crate) fn with_data(cell: &CellResult) -> impl Iterator<Item = &LinkResult> {
    let [forward, backward] = directions(cell);
    let named = cell.links.iter().any(|link| link.name.ends_with("forward"));
    cell.links.iter().filter(move |link| {
        let has_data = match link.name.rsplit_once('/') {
            Some((_, "backward")) => backward,
            _ => forward && link.name.ends_with("forward"),
        };
        !named || has_data
    })
}

/// Rate of the narrowest link in that direction in bit/s; nothing where none is limited.
pub(crate) fn link_rate(cell: &CellResult) -> Option<f64> {
    with_data(cell)
        .map(|link| link.rate_bps)
        .filter(|rate| *rate > 0.0)
        .reduce(f64::min)
}

/// The same over time, where it changes: rates, and until when each holds, in seconds; at most `most`, each the mean of what it stands for.
/// For as long as a link lets nothing pass it is 0.
pub(crate) fn link_rates(cell: &CellResult, most: usize) -> Vec<(f64, f64)> {
    let count = with_data(cell).map(|link| link.rates_bps.len()).max();
    let Some(count) = count.filter(|count| *count > 0) else {
        return Vec::new();
    };
    let least = |at: usize| {
        with_data(cell)
            .filter_map(|link| match link.rates_bps.get(at) {
                Some(rate) => Some(*rate),
                None => Some(link.rate_bps).filter(|rate| *rate > 0.0),
            })
            .fold(f64::INFINITY, f64::min)
    };
    let rates: Vec<f64> = (0..count).map(least).collect();
    let each = count.div_ceil(most.max(1));
    let step_s = interval_s(cell).unwrap_or(cell.duration_s / count as f64);
    let mut out: Vec<(f64, f64)> = Vec::new();
    for (at, part) in rates.chunks(each).enumerate() {
        let mean = part.iter().sum::<f64>() / part.len() as f64;
        let until_s = (at * each + part.len()) as f64 * step_s;
        match out.last_mut() {
            Some(last) if (last.0 - mean).abs() < 1.0 => last.1 = until_s,
            _ => out.push((mean, until_s)),
        }
    }
    out
}

/// How long an interval of the series is; a run may go on a little behind the last one. `None` without a series.
pub(crate) fn interval_s(cell: &CellResult) -> Option<f64> {
    let flows = cell.flows.iter().map(|flow| &flow.intervals);
    let mut all = flows.chain(cell.streams.iter().map(|stream| &stream.intervals));
    all.find_map(|intervals| Some(intervals.first()?.t_s))
        .filter(|step_s| *step_s > 0.0)
}

/// Bytes of a full packet of ours that are not payload: 28 IPv4 and UDP, 13 packet header, 10 frame
/// header, 16 seal; and around it on the wire, 38 Ethernet (docs/performance.md).
const OUR_HEADERS: f64 = 67.0;
const ETHERNET: f64 = 38.0;

/// The figures of our own protocol's map: an experiment with paths of that MTU, and the loss of a
/// cell by the name of its axis.
pub(crate) fn map_measures(cells: &[&CellResult], mtu: Option<f64>, loss: &str) -> Vec<Measure> {
    let loss = loss.to_owned();
    let share = match mtu {
        Some(mtu) => {
            let mut measure = Measure::new(
                "bound_share",
                "Goodput as a share of the bound",
                "goodput / bound",
                Quantity::Share,
                move |cell| {
                    let lost = howdah_core::units::parse_probability(cell.at.get(&loss)?).ok()?;
                    let full = (mtu - OUR_HEADERS) / (mtu + ETHERNET);
                    Some((goodput().get)(cell)? / (link_rate(cell)? * (1.0 - lost) * full))
                },
            );
            measure.about = format!(
                "The bound is what a sender could deliver that fills the link with full packets from the first moment and repeats nothing in vain: rate \u{d7} (1 \u{2212} loss) \u{d7} {} / {}.",
                mtu - OUR_HEADERS,
                mtu + ETHERNET
            );
            measure
        }
        None => Measure::new(
            "rate_share",
            "Goodput as a share of the link's rate",
            "goodput / rate of the bottleneck",
            Quantity::Share,
            |cell| Some((goodput().get)(cell)? / link_rate(cell)?),
        ),
    };
    let mut above = Measure::new(
        "above_ideal",
        "Completion time above the ideal",
        "completion time less size / rate of the bottleneck",
        Quantity::Seconds,
        |cell| {
            let bits = cell.flows.iter().map(|f| f.delivered_bytes).sum::<u64>() as f64 * 8.0;
            Some(completion(cell)? - bits / link_rate(cell)?)
        },
    );
    above.about.push_str("The ideal is the time that the file's bytes alone take at the rate of the link (K13app, equation 1).");
    let mut all = vec![share, above];
    for key in ["ramp", "feedback", "retransmit_share"] {
        all.extend(costs().into_iter().find(|measure| measure.key == key));
    }
    let queues = bottlenecks(cells).into_iter();
    all.extend(queues.filter(|measure| measure.key == "queue_p95"));
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
