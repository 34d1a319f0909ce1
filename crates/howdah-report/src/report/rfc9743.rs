//! A protocol's congestion control under the headings of RFC 9743 (BCP 133, "Specifying New Congestion
//! Control Algorithms", 2025), chapters 5 to 7.
//!
//! The table below says which cells speak to which heading, for any protocol as the subject. Beside it
//! stand the same cells with Reno, CUBIC (RFC 9438) and BBR v3 in the subject's place: the RFC asks for
//! harm no greater than that of the standards. A heading without cells says so; nothing is inferred.

use super::experiment::Experiment;
use super::format::Quantity;
use super::html::{Table, escape};
use super::measure;
use super::names;
use super::papers::At;
use super::sections;
use super::stats::Spread;
use crate::result::{CellResult, FlowResult};
use std::fmt::Write as _;

/// Protocols whose figures stand beside the subject's.
const REFERENCES: [&str; 3] = ["reno", "cubic", "bbr3"];

/// A heading of the RFC.
struct Heading {
    /// Chapter and title.
    title: &'static str,
    /// What it asks, in a line.
    asks: &'static str,
    /// What speaks to it.
    evidence: &'static [Evidence],
    /// What is to be said where nothing was measured, or what the cells do not tell.
    remark: &'static str,
}

/// Cells that speak to a heading.
struct Evidence {
    /// Experiments; a star at the end stands for anything.
    experiments: &'static [&'static str],
    /// Cells of them; all where it is empty.
    at: At,
    /// What is measured.
    what: &'static str,
    quantity: Quantity,
    /// The figure of a run, with that protocol as the subject.
    of: fn(&CellResult, &str) -> Option<f64>,
}

const fn of(
    experiments: &'static [&'static str],
    at: At,
    what: &'static str,
    quantity: Quantity,
    of: fn(&CellResult, &str) -> Option<f64>,
) -> Evidence {
    Evidence {
        experiments,
        at,
        what,
        quantity,
        of,
    }
}

const RATE: Quantity = Quantity::Rate;
const PERCENT: Quantity = Quantity::Percent;
const MILLIS: Quantity = Quantity::Millis;
const SHARE: Quantity = Quantity::Share;

const HEADINGS: &[Heading] = &[
    Heading {
        title: "5.1.1 Protection against congestion collapse",
        asks: "Does it back off fully, or stop, under persistent congestion?",
        evidence: &[of(
            &["F8"],
            &[],
            "bytes sent again on 1 to 100 Mbit/s with short buffers",
            PERCENT,
            again,
        )],
        remark: "A bottleneck overloaded for long, and the loss of all feedback, are not measured here.",
    },
    Heading {
        title: "5.1.2 Protection against bufferbloat",
        asks: "Does it keep queues short where buffers are long?",
        evidence: &[
            of(
                &["J-A1", "J-A2"],
                &[],
                "waiting time in the bottleneck, p95, alone on 1 Gbit/s",
                MILLIS,
                queue,
            ),
            of(
                &["F4-buffer"],
                &[("aqm", &["droptail"])],
                "the same on 10 Gbit/s, buffers of 0.01 to 1 BDP",
                MILLIS,
                queue,
            ),
            of(
                &["P1"],
                &[],
                "the same over the papers' grid, buffer of 64 MB",
                MILLIS,
                queue,
            ),
        ],
        remark: "",
    },
    Heading {
        title: "5.1.3 Protection against high packet loss",
        asks: "Does it avoid causing loss?",
        evidence: &[
            of(
                &["J-A1", "J-A2"],
                &[],
                "packets dropped by the bottleneck's queue, alone",
                PERCENT,
                drops,
            ),
            of(&["J-D"], &[], "the same, two flows of it", PERCENT, drops),
            of(
                &["F4-buffer", "F4-bell"],
                &[],
                "the same on 10 Gbit/s, by buffer and with four flows",
                PERCENT,
                drops,
            ),
        ],
        remark: "",
    },
    Heading {
        title: "5.1.4 Fairness within the proposed congestion control algorithm",
        asks: "How do flows of it share?",
        evidence: &[
            of(
                &["J-D"],
                &[("rtt2", &["38ms"])],
                "Jain's index of two flows, same RTT",
                SHARE,
                jain,
            ),
            of(
                &["J-D"],
                &[("rtt2", &["76ms", "152ms"])],
                "Jain's index, the second with two and four times the RTT",
                SHARE,
                jain,
            ),
            of(
                &["F4-bell", "W3-2", "W3-4"],
                &[],
                "Jain's index of two or four flows",
                SHARE,
                jain,
            ),
        ],
        remark: "",
    },
    Heading {
        title: "5.1.5 Short flows",
        asks: "How do short and long flows of it affect each other?",
        evidence: &[],
        remark: "The short flows of the experiments are standard TCP: see 5.2.3.",
    },
    Heading {
        title: "5.2.1 Existing general-purpose congestion control",
        asks: "What does it leave to Reno, CUBIC and what is widely deployed; can it starve them?",
        evidence: &[
            of(
                &["J-E0"],
                &[],
                "Reno's goodput beside it, 1 Gbit/s, 180 ms",
                RATE,
                others,
            ),
            of(&["J-E2"], &[], "HSTCP's goodput beside it", RATE, others),
            of(
                &["F3-tcp"],
                &[],
                "goodput of one and four CUBIC flows beside it, together",
                RATE,
                others,
            ),
            of(
                &["F4-lot"],
                &[],
                "goodput of a CUBIC flow over each of two bottlenecks, together",
                RATE,
                others,
            ),
            of(
                &["F8", "W4", "W5"],
                &[],
                "Reno's goodput beside it",
                RATE,
                others,
            ),
        ],
        remark: "",
    },
    Heading {
        title: "5.2.2 Real-time congestion control",
        asks: "Does it coexist with real-time flows?",
        evidence: &[
            of(
                &["J-G1", "J-G2"],
                &[],
                "packets that constant-rate streams lose beside it",
                PERCENT,
                stream_loss,
            ),
            of(
                &["J-G1", "J-G2"],
                &[],
                "their jitter",
                MILLIS,
                stream_jitter,
            ),
            of(
                &["F3-cbr"],
                &[],
                "loss of constant and on-off streams of 1 to 30 % of 10 Gbit/s",
                PERCENT,
                stream_loss,
            ),
        ],
        remark: "The streams do not react: real-time congestion controls themselves are not measured.",
    },
    Heading {
        title: "5.2.3 Short and long flows",
        asks: "How do it and short flows of other algorithms affect each other?",
        evidence: &[
            of(
                &["J-F1", "J-F3"],
                &[],
                "throughput of 3000 short Reno flows beside it",
                RATE,
                shorts,
            ),
            of(
                &["J-F1", "J-F3"],
                &[],
                "their completion time, p99",
                Quantity::Seconds,
                shorts_tail,
            ),
            of(
                &["J-F1", "J-F3"],
                &[],
                "its own goodput beside them",
                RATE,
                own,
            ),
            of(
                &["F3-web"],
                &[],
                "throughput of short CUBIC flows beside it, 10 Gbit/s",
                RATE,
                shorts,
            ),
        ],
        remark: "",
    },
    Heading {
        title: "5.3.1 Differences with congestion control principles",
        asks: "Where does it deviate from RFC 2914?",
        evidence: &[],
        remark: "A matter of the specification: docs/rate-control.md.",
    },
    Heading {
        title: "5.3.2 Incremental deployment",
        asks: "Can it be deployed step by step?",
        evidence: &[],
        remark: "A matter of the specification.",
    },
    Heading {
        title: "6.1 Paths with tail-drop queues",
        asks: "Does it meet the criteria where a FIFO queue drops what does not fit?",
        evidence: &[
            of(
                &["J-A2"],
                &[("buffer", &["127packets"])],
                "goodput, 1 Gbit/s, 180 ms, buffer of 127 packets (0.8 % of a BDP)",
                RATE,
                own,
            ),
            of(
                &["J-A2"],
                &[("buffer", &["512packets"])],
                "the same, 512 packets",
                RATE,
                own,
            ),
            of(
                &["F4-buffer"],
                &[("aqm", &["droptail"])],
                "goodput on 10 Gbit/s, 0.01 to 1 BDP",
                RATE,
                own,
            ),
        ],
        remark: "",
    },
    Heading {
        title: "6.2 Tunnel behavior",
        asks: "What do explicit signals become in a tunnel?",
        evidence: &[],
        remark: "",
    },
    Heading {
        title: "6.3 Wired paths",
        asks: "The baseline: little loss, a steady capacity.",
        evidence: &[
            of(&["J-A1"], &[], "goodput alone, 1 Gbit/s, 180 ms", RATE, own),
            of(
                &["P1"],
                &[("loss", &["0%"])],
                "goodput alone, 10 Gbit/s, 0 to 400 ms",
                RATE,
                own,
            ),
        ],
        remark: "",
    },
    Heading {
        title: "6.4 Wireless paths",
        asks: "Losses that are not congestion, varying capacity, jitter.",
        evidence: &[
            of(
                &["P1"],
                &[("loss", &["0.1%"])],
                "goodput with 0.1 % random loss, 10 Gbit/s",
                RATE,
                own,
            ),
            of(
                &["P1"],
                &[("loss", &["1%", "1.5%", "2%"])],
                "goodput with 1 to 2 % random loss",
                RATE,
                own,
            ),
            of(&["F12"], &[], "goodput with losses in bursts", RATE, own),
            of(&["F2"], &[], "goodput with jitter", RATE, own),
        ],
        remark: "Link-layer retransmission is not modelled.",
    },
    Heading {
        title: "7 Active queue management (AQM)",
        asks: "How does it respond to CoDel, PIE, L4S?",
        evidence: &[
            of(
                &["F4-buffer"],
                &[("aqm", &["codel"])],
                "goodput through CoDel, 10 Gbit/s",
                RATE,
                own,
            ),
            of(
                &["F4-buffer"],
                &[("aqm", &["codel"])],
                "waiting time there, p95",
                MILLIS,
                queue,
            ),
        ],
        remark: "FQ-CoDel, PIE, L4S and ECN are not measured.",
    },
    Heading {
        title: "7 Operation with the envelope set by network circuit breakers",
        asks: "Does it react before a circuit breaker would?",
        evidence: &[],
        remark: "",
    },
    Heading {
        title: "7 Paths with varying delay",
        asks: "Is it robust where the least delay changes?",
        evidence: &[
            of(
                &["J-C1"],
                &[],
                "time to 90 % of the rate after 38 to 80 ms and back, the slower",
                MILLIS,
                t90,
            ),
            of(
                &["F2"],
                &[("reorder", &["0%"])],
                "goodput with jitter of 1 to 10 ms, in order",
                RATE,
                own,
            ),
        ],
        remark: "",
    },
    Heading {
        title: "7 Internet of Things",
        asks: "Very low rates, constrained nodes.",
        evidence: &[of(
            &["F8"],
            &[],
            "goodput on 1 to 100 Mbit/s beside Reno",
            RATE,
            own,
        )],
        remark: "",
    },
    Heading {
        title: "7 Paths with high delay",
        asks: "Long paths, as by satellite.",
        evidence: &[
            of(
                &["P1"],
                &[("rtt", &["400ms"])],
                "goodput at 400 ms, 10 Gbit/s",
                RATE,
                own,
            ),
            of(
                &["H-*"],
                &[("rtt", &["400ms"])],
                "goodput at 400 ms on our map",
                RATE,
                own,
            ),
        ],
        remark: "",
    },
    Heading {
        title: "7 Misbehaving nodes",
        asks: "Non-compliant senders, receivers, routers; attackers.",
        evidence: &[],
        remark: "Tests of the protocol hold what it does with impossible reports; no cell measures it.",
    },
    Heading {
        title: "7 Extreme packet reordering",
        asks: "Packets in any order.",
        evidence: &[of(
            &["F2"],
            &[("reorder", &["100%"])],
            "goodput where each packet has a delay of its own",
            RATE,
            own,
        )],
        remark: "",
    },
    Heading {
        title: "7 Transient events",
        asks: "Sudden congestion, changes of the route.",
        evidence: &[
            of(
                &["J-C2"],
                &[],
                "time to 90 % of the rate after the capacity fell to a quarter and came back, the slower",
                MILLIS,
                t90,
            ),
            of(
                &["J-F2"],
                &[],
                "goodput with 3000 short flows from 50 to 350 s",
                RATE,
                own,
            ),
        ],
        remark: "",
    },
    Heading {
        title: "7 Sudden changes in the path",
        asks: "The route itself changes.",
        evidence: &[
            of(
                &["J-C1"],
                &[],
                "time to 90 % of the rate after the longer and the shorter path came, the slower",
                MILLIS,
                t90,
            ),
            of(
                &["J-C1"],
                &[],
                "bytes sent again over such a run",
                PERCENT,
                again,
            ),
        ],
        remark: "",
    },
    Heading {
        title: "7 Multipath transport",
        asks: "Several paths in one connection.",
        evidence: &[],
        remark: "",
    },
    Heading {
        title: "7 Data centers",
        asks: "RTT below 2 ms, many at once.",
        evidence: &[of(
            &["P1"],
            &[("rtt", &["0ms"])],
            "goodput alone at 10 Gbit/s, RTT 0.15 ms",
            RATE,
            own,
        )],
        remark: "Many senders at once (incast) are not measured.",
    },
];

/// Flows of the subject.
fn mine<'c>(cell: &'c CellResult, subject: &str) -> impl Iterator<Item = &'c FlowResult> {
    let subject = subject.to_owned();
    cell.flows.iter().filter(move |f| f.protocol == subject)
}

fn own(cell: &CellResult, subject: &str) -> Option<f64> {
    mine(cell, subject).next()?;
    let flows = mine(cell, subject);
    Some(flows.map(|f| measure::goodput_of(cell, f)).sum())
}

fn others(cell: &CellResult, subject: &str) -> Option<f64> {
    // The second of two flows of the subject itself is no other.
    let others = || cell.flows.iter().filter(|f| f.protocol != subject);
    others().next()?;
    Some(others().map(|f| measure::goodput_of(cell, f)).sum())
}

fn jain(cell: &CellResult, subject: &str) -> Option<f64> {
    let alike = cell.flows.iter().all(|f| f.protocol == subject);
    if !alike || cell.flows.len() < 2 {
        return None;
    }
    cell.metrics.get("jain").copied()
}

fn queue(cell: &CellResult, _: &str) -> Option<f64> {
    let limited = measure::with_data(cell).filter(|link| link.rate_bps > 0.0);
    limited.map(|link| link.queue_ms[1]).reduce(f64::max)
}

fn drops(cell: &CellResult, _: &str) -> Option<f64> {
    let limited = measure::with_data(cell).filter(|l| l.rate_bps > 0.0 && l.offered_packets > 0);
    limited
        .map(|link| (link.queue_drops + link.aqm_drops) as f64 / link.offered_packets as f64)
        .reduce(f64::max)
}

fn again(cell: &CellResult, subject: &str) -> Option<f64> {
    let sent = mine(cell, subject).map(|f| f.sent_bytes).sum();
    let again: Option<u64> = mine(cell, subject).map(|f| f.retransmitted_bytes).sum();
    crate::metrics::retransmit_share(again?, sent)
}

fn shorts(cell: &CellResult, _: &str) -> Option<f64> {
    cell.groups.first().map(|group| group.throughput_bps)
}

fn shorts_tail(cell: &CellResult, _: &str) -> Option<f64> {
    Some(cell.groups.first()?.completion_s?[2])
}

fn stream_loss(cell: &CellResult, _: &str) -> Option<f64> {
    let sent: u64 = cell.streams.iter().map(|s| s.sent_packets).sum();
    let lost: u64 = cell.streams.iter().map(|s| s.lost_packets).sum();
    (sent > 0).then(|| lost as f64 / sent as f64)
}

fn stream_jitter(cell: &CellResult, _: &str) -> Option<f64> {
    let n = cell.streams.len();
    (n > 0).then(|| cell.streams.iter().map(|s| s.jitter_ms).sum::<f64>() / n as f64)
}

/// The slowest recovery from a change; nothing where it did not come back within the run.
fn t90(cell: &CellResult, _: &str) -> Option<f64> {
    let all = cell.metrics.iter();
    let times = all.filter(|(name, _)| name.starts_with("t90_ms/"));
    times.map(|(_, value)| *value).reduce(f64::max)
}

/// Whether a cell was made for this protocol: the axis of protocols says so, or one of its flows is
/// where no axis does.
fn is_subject(cell: &CellResult, subject: &str) -> bool {
    let axis = cell
        .at
        .iter()
        .find(|(name, _)| ["protocol", "tool"].contains(&name.rsplit('.').next().unwrap_or(name)));
    let has = cell.flows.iter().any(|f| f.protocol == subject);
    match axis {
        // A matrix may call a variant otherwise than its protocol; such variants are no subject.
        Some((_, value)) => has && value.split('+').any(|part| part == subject),
        None => has,
    }
}

/// The section; nothing where no cell speaks to any heading.
pub(crate) fn section(experiments: &[Experiment<'_>], wanted: Option<&str>) -> Option<String> {
    let mut subjects: Vec<&str> = Vec::new();
    for experiment in experiments
        .iter()
        .filter(|e| HEADINGS.iter().any(|h| speaks(h, e.id)))
    {
        for run in experiment.runs() {
            for flow in &run.flows {
                let name = flow.protocol.as_str();
                if !subjects.contains(&name) && is_subject(run, name) {
                    subjects.push(name);
                }
            }
        }
    }
    subjects.sort_by_key(|name| (names::protocol_rank(name), *name));
    let first = wanted
        .filter(|name| subjects.contains(name))
        .or_else(|| subjects.iter().copied().find(|name| *name == "howdah"))
        .or_else(|| subjects.first().copied())?;
    let mut out = String::from(
        "<p>What the cells of this report say about one protocol's congestion control, under the headings of RFC 9743 (BCP 133), chapters 5 to 7: an aid for judging it, not a verdict. Values are medians over the cells and seeds, with the least and the greatest in brackets. The columns behind it are the same cells with another protocol in the subject's place.</p>\n<p><label>Subject: <select data-subjects>",
    );
    for name in &subjects {
        let selected = if *name == first { " selected" } else { "" };
        let _ = write!(
            out,
            "<option value=\"{}\"{selected}>{}</option>",
            escape(name),
            escape(&names::protocol(name))
        );
    }
    out.push_str("</select></label></p>\n");
    for name in &subjects {
        let hidden = if *name == first { "" } else { " hidden" };
        let _ = writeln!(
            out,
            "<div data-subject=\"{}\"{hidden}>\n{}</div>",
            escape(name),
            table(experiments, name)
        );
    }
    Some(out)
}

fn speaks(heading: &Heading, experiment: &str) -> bool {
    heading.evidence.iter().any(|e| named(e, experiment))
}

fn named(evidence: &Evidence, experiment: &str) -> bool {
    evidence.experiments.iter().any(|name| {
        name.strip_suffix('*')
            .map_or(*name == experiment, |start| experiment.starts_with(start))
    })
}

fn table(experiments: &[Experiment<'_>], subject: &str) -> String {
    let references: Vec<&str> = REFERENCES.into_iter().filter(|r| *r != subject).collect();
    let mut table = Table::new("")
        .text("heading")
        .text("measured")
        .text("experiment")
        .number("cells")
        .number(escape(&names::protocol(subject)));
    for name in &references {
        table = table.number(escape(&names::protocol(name)));
    }
    for heading in HEADINGS {
        let title = format!(
            "{}<br><small>{}</small>",
            escape(heading.title),
            escape(heading.asks)
        );
        let mut lead = Some(title);
        for evidence in heading.evidence {
            let of = |name: &str| values(experiments, evidence, name);
            let own = of(subject);
            let Some(spread) = Spread::of(own.iter().copied()) else {
                continue;
            };
            let unit = evidence
                .quantity
                .unit(spread.high.abs().max(spread.low.abs()));
            let tell = |spread: &Spread| {
                let median = unit.write(spread.median);
                if spread.n < 2 || spread.high <= spread.low {
                    return median;
                }
                let (low, high) = (unit.write(spread.low), unit.write(spread.high));
                format!("{median} <small>[{low},&nbsp;{high}]</small>")
            };
            let links: Vec<String> = experiments
                .iter()
                .filter(|e| named(evidence, e.id))
                .map(|e| format!("<a href=\"#{}\">{}</a>", sections::anchor(e), escape(e.id)))
                .collect();
            let name = if unit.name.is_empty() {
                String::new()
            } else {
                format!(", {}", unit.name)
            };
            let mut row = vec![
                lead.take().unwrap_or_default(),
                format!("{}{name}", escape(evidence.what)),
                links.join(", "),
                own.len().to_string(),
                format!("<b>{}</b>", tell(&spread)),
            ];
            for reference in &references {
                let spread = Spread::of(of(reference));
                row.push(spread.map_or_else(|| "\u{2013}".to_owned(), |s| tell(&s)));
            }
            table.row(row);
        }
        let unmeasured = lead.is_some();
        if unmeasured || !heading.remark.is_empty() {
            let verdict = if unmeasured { "not measured. " } else { "" };
            let mut row = vec![
                lead.take().unwrap_or_default(),
                format!("<em>{verdict}{}</em>", escape(heading.remark)),
            ];
            row.resize(5 + references.len(), String::new());
            table.classed_row(if unmeasured { "v-none" } else { "" }, row);
        }
    }
    format!("<div class=\"index\">{}</div>", table.html())
}

/// The figures of all runs that speak, with that protocol as the subject.
fn values(experiments: &[Experiment<'_>], evidence: &Evidence, subject: &str) -> Vec<f64> {
    let mut values = Vec::new();
    for experiment in experiments.iter().filter(|e| named(evidence, e.id)) {
        for point in &experiment.points {
            let fits = |(axis, wanted): &(&str, &[&str])| {
                experiment
                    .at(point, axis)
                    .is_some_and(|value| wanted.contains(&value))
            };
            if !evidence.at.iter().all(fits) {
                continue;
            }
            let runs = point.runs.iter().filter(|run| is_subject(run, subject));
            values.extend(
                runs.filter_map(|run| (evidence.of)(run, subject))
                    .filter(|value| value.is_finite()),
            );
        }
    }
    values
}
