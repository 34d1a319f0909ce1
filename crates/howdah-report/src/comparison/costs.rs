//! What each system's rate cost on the testbed.

use super::{SUCCESS_BPS, words};
use crate::metrics;
use crate::result::{CellResult, FlowResult, Mark};
use crate::stats;
use std::fmt::Write as _;

const KIB: f64 = 1024.0;
const MIB: f64 = 1_048_576.0;

/// One system, or its scaled or host-limited cells.
#[derive(Default)]
struct Row {
    name: String,
    flows: usize,
    /// Per cent of a core per Gbit/s.
    cpu: [Vec<f64>; 2],
    feedback_kib: Vec<f64>,
    memory_mib: [Vec<f64>; 2],
    /// Per cent.
    again: Vec<f64>,
}

pub(super) fn table(out: &mut String, cells: &[&CellResult]) {
    let mut rows: Vec<Row> = Vec::new();
    for cell in cells {
        let Some(kind) = kind(cell) else { continue };
        let mut protocols: Vec<&str> = cell.flows.iter().map(|f| f.protocol.as_str()).collect();
        protocols.dedup();
        for flow in &cell.flows {
            // The matrix may call a system by another name than its protocol ("tcp-cubic-x8").
            let system = match protocols.len() {
                1 => words::system(cell),
                _ => &flow.protocol,
            };
            let name = format!("{}{kind}", words::clean(system));
            let at = rows.iter().position(|row| row.name == name);
            let at = at.unwrap_or_else(|| {
                rows.push(Row {
                    name,
                    ..Row::default()
                });
                rows.len() - 1
            });
            rows[at].add(cell, flow);
        }
    }
    if rows.is_empty() {
        return;
    }
    out.push_str(
        "| system | flows | CPU, % of a core per Gbit/s | feedback, KiB per GiB | memory, MiB | sent again, % |\n\
         | --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for row in &rows {
        let _ = writeln!(
            out,
            "| {} | {} | {} / {} | {} | {} / {} | {} |",
            row.name,
            row.flows,
            spread(&row.cpu[0], 1),
            spread(&row.cpu[1], 1),
            spread(&row.feedback_kib, 1),
            spread(&row.memory_mib[0], 0),
            spread(&row.memory_mib[1], 0),
            spread(&row.again, 2),
        );
    }
}

/// Cells that belong together; `None` of those that count for nothing.
fn kind(cell: &CellResult) -> Option<&'static str> {
    let has = |mark| cell.marks.contains(&mark);
    match (has(Mark::Scaled), has(Mark::HostLimited)) {
        _ if has(Mark::Invalid) => None,
        (false, false) => Some(""),
        (true, false) => Some(", scaled"),
        (false, true) => Some(", host-limited"),
        (true, true) => Some(", scaled, host-limited"),
    }
}

impl Row {
    fn add(&mut self, cell: &CellResult, flow: &FlowResult) {
        let metric = |name: &str| cell.metrics.get(&format!("{name}/{}", flow.name)).copied();
        self.flows += 1;
        for (role, at) in [("sender", 0), ("receiver", 1)] {
            let bytes = metric(&format!("memory_{role}_bytes"));
            self.memory_mib[at].extend(bytes.filter(|bytes| *bytes > 0.0).map(|b| b / MIB));
        }
        self.again
            .extend(metric("retransmit_share").map(|share| share * 100.0));
        if flow.steady_goodput_bps <= SUCCESS_BPS {
            return;
        }
        let took = flow.end_s - flow.start_s;
        for (used, at) in [(flow.sender_cpu_s, 0), (flow.receiver_cpu_s, 1)] {
            let cost = used.and_then(|s| metrics::cpu_per_gbps(s, took, flow.goodput_bps));
            self.cpu[at].extend(cost);
        }
        let feedback = metric("feedback_bytes_per_gib");
        self.feedback_kib.extend(feedback.map(|bytes| bytes / KIB));
    }
}

/// Processor time of the first flow's ends per Gbit/s, in campaigns whose paths differ in rate: what it costs depends on that
/// more than on the system.
pub(super) fn cpu_at_rate(cell: &CellResult) -> Option<String> {
    cell.at.get("rate")?;
    let flow = cell.flows.first()?;
    let cost = |used: Option<f64>| {
        let cost = metrics::cpu_per_gbps(used?, flow.end_s - flow.start_s, flow.goodput_bps)?;
        Some(format!("{cost:.1}"))
    };
    let (sender, receiver) = (cost(flow.sender_cpu_s)?, cost(flow.receiver_cpu_s)?);
    Some(format!("{sender} / {receiver}"))
}

/// The median, with least and greatest where there are several; "-" of nothing.
fn spread(values: &[f64], digits: usize) -> String {
    let at = |share| stats::quantile(values, share);
    let (Some(least), Some(middle), Some(most)) = (at(0.0), at(0.5), at(1.0)) else {
        return "-".to_owned();
    };
    match values.len() {
        1 => format!("{middle:.digits$}"),
        _ => format!("{middle:.digits$} ({least:.digits$}\u{2013}{most:.digits$})"),
    }
}
