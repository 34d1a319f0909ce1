//! All cells of a campaign as lines of rounded values: what people read and what the gate compares.
//!
//! Nothing here depends on the machine or on the time of day, so equal programs give equal tables.

use crate::result::{CellResult, FlowResult, GroupResult, LinkResult, StreamResult, Summary};
use std::fmt::Write as _;

/// One cell.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Line {
    /// Which cell: `J-A1 protocol=fast seed=1`.
    pub key: String,
    /// What it gave, rounded: `main 931 Mbit/s, 0.12 % sent again`.
    pub value: String,
}

/// The table, in the order of the scenarios.
pub fn lines(summary: &Summary) -> Vec<Line> {
    summary.cells.iter().map(line).collect()
}

fn line(cell: &CellResult) -> Line {
    let mut key = cell.experiment.clone();
    for (axis, value) in &cell.at {
        let _ = write!(key, " {axis}={value}");
    }
    let _ = write!(key, " seed={}", cell.seed);
    let mut parts = Vec::new();
    if let Some(error) = &cell.error {
        parts.push(format!("no result: {}", error.lines().next().unwrap_or("")));
    }
    parts.extend(cell.flows.iter().map(flow));
    parts.extend(cell.groups.iter().map(group));
    parts.extend(cell.streams.iter().map(stream));
    parts.extend(
        cell.links
            .iter()
            .filter(|link| link.queue_drops + link.aqm_drops + link.marked > 0)
            .map(drops),
    );
    Line {
        key,
        value: parts.join("; "),
    }
}

fn mbit(bps: f64) -> String {
    format!("{:.1}", bps / 1e6)
}

fn flow(flow: &FlowResult) -> String {
    let mut text = format!(
        "{} ({}) {} Mbit/s",
        flow.name,
        flow.algorithm,
        mbit(flow.goodput_bps)
    );
    if let Some(seconds) = flow.completion_s {
        let _ = write!(text, " in {seconds:.2} s");
    }
    let repeated = (flow.retransmitted_bytes)
        .and_then(|again| crate::metrics::retransmit_share(again, flow.sent_bytes));
    if let Some(share) = repeated.filter(|&share| share > 0.0) {
        let _ = write!(text, ", {:.3} % again", share * 100.0);
    }
    if let Some(timeouts) = flow.timeouts.filter(|&timeouts| timeouts > 0) {
        let _ = write!(text, ", {timeouts} timeouts");
    }
    text
}

fn group(group: &GroupResult) -> String {
    let median = group.completion_s.map_or_else(
        || "no median".to_owned(),
        |[half, ..]| format!("median {half:.2} s"),
    );
    format!(
        "{} ({}) {} of {} flows, {} Mbit/s, {median}",
        group.name,
        group.algorithm,
        group.finished,
        group.flows,
        mbit(group.throughput_bps),
    )
}

fn stream(stream: &StreamResult) -> String {
    format!(
        "{} {} lost of {}, jitter {:.3} ms",
        stream.name, stream.lost_packets, stream.sent_packets, stream.jitter_ms
    )
}

fn drops(link: &LinkResult) -> String {
    let mut text = format!("{} dropped {}", link.name, link.queue_drops);
    if link.aqm_drops + link.marked > 0 {
        let _ = write!(
            text,
            ", its AQM dropped {} and marked {}",
            link.aqm_drops, link.marked
        );
    }
    text
}
