//! "All systems, all matrices": one Markdown table of campaigns' results, with a table for each experiment behind
//! it. docs/comparison.md is what it writes.

use crate::metrics;
use crate::result::{CellResult, FlowResult, Summary};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// More than this is a success, in bit/s (K14proto).
const SUCCESS_BPS: f64 = 100e6;

/// What one system shows in one experiment.
#[derive(Clone, Debug, Default)]
struct Row {
    /// Cells, and those of them that succeed and that ended early.
    cells: usize,
    successes: usize,
    shortened: usize,
    /// Rates in bit/s, of every cell.
    rates: Vec<f64>,
    /// Seconds that sized transfers took, service time included; those that did not end are missing.
    durations: Vec<f64>,
    /// CPU % of a core per Gbit/s, of successful cells.
    sender_cpu: Vec<f64>,
    receiver_cpu: Vec<f64>,
    /// KiB of feedback for each GiB, of successful cells.
    feedback_kib: Vec<f64>,
    /// Most bytes under way: what a sender must keep or be able to read again.
    in_flight_mib: Vec<f64>,
    /// It has sized transfers.
    sized: bool,
}

/// Systems of one experiment, by their name in the matrix.
type Table = BTreeMap<String, Row>;

/// Markdown of all experiments of `campaigns`, each given with the command that repeats it.
pub fn markdown(campaigns: &[(String, Summary)]) -> String {
    let mut experiments: Vec<(String, String, Table)> = Vec::new();
    for (_, summary) in campaigns {
        for cell in &summary.cells {
            if cell.error.is_some() || cell.flows.is_empty() {
                continue;
            }
            let known = experiments.iter_mut().position(|e| e.0 == cell.experiment);
            let at = known.unwrap_or_else(|| {
                let notes = summary.campaign.experiments.iter();
                let note = notes.clone().find(|note| note.id == cell.experiment);
                let title = note.map_or_else(String::new, |note| note.title.clone());
                experiments.push((cell.experiment.clone(), title, Table::new()));
                experiments.len() - 1
            });
            add(&mut experiments[at].2, cell);
        }
    }
    let mut out = String::from("# All systems, all matrices\n\n");
    head(&mut out, campaigns);
    overview(&mut out, &experiments);
    for (id, title, table) in &experiments {
        section(&mut out, id, title, table);
    }
    out
}

fn head(out: &mut String, campaigns: &[(String, Summary)]) {
    out.push_str(
        "Generated from results of the simulator by `howdah lab report --comparison`; do not edit. Names that end in\n\
         `-like` are behavioural models of proprietary systems, partly fitted to the papers (docs/rivals). Processor\n\
         times come from a cost model: those of the papers' programs are fitted to a Xeon of 2010, those of ours and of\n\
         TCP were measured on a newer machine, so that columns compare within a group only.\n\n\
         - **rate**: Mbit/s of user data; in matrices that ended early (\"shortened\") the rate behind the warm-up; of file\n\
         \x20 movers what they display. Mean over all cells, and least and most.\n\
         - **duration**: seconds of a sized transfer from command to end, service time included: least and most; `n` did not end in the time given.\n\
         - **CPU**: per cent of one core per Gbit/s, sender / receiver. **Feedback**: KiB per GiB, IP + 14 bytes. Both are means over cells above 100 Mbit/s.\n\
         - **memory**: MiB under way at most, i.e. what a sender must keep, or be able to read again.\n\n```\n",
    );
    for (dir, summary) in campaigns {
        let _ = writeln!(
            out,
            "{}   # commit {}",
            summary.campaign.command, summary.campaign.commit
        );
        let _ = dir;
    }
    let dirs: Vec<&str> = campaigns.iter().map(|(dir, _)| dir.as_str()).collect();
    let _ = writeln!(
        out,
        "howdah lab report --comparison {}\n```\n",
        dirs.join(" ")
    );
}

fn overview(out: &mut String, experiments: &[(String, String, Table)]) {
    let mut names: Vec<&String> = experiments.iter().flat_map(|e| e.2.keys()).collect();
    names.sort_by_key(|name| (crate::report::protocol_rank(name), name.as_str()));
    names.dedup();
    out.push_str("## Mean rate of each system in each matrix, Mbit/s\n\n|  |");
    for (id, _, _) in experiments {
        let _ = write!(out, " {id} |");
    }
    out.push_str("\n| --- |");
    out.push_str(&" ---: |".repeat(experiments.len()));
    for name in names {
        let _ = write!(out, "\n| {name} |");
        for (_, _, table) in experiments {
            let cell = table.get(name).and_then(|row| mean(&row.rates));
            let text = cell.map_or_else(String::new, |bps| format!("{:.0}", bps / 1e6));
            let _ = write!(out, " {text} |");
        }
    }
    out.push_str("\n\n");
}

fn section(out: &mut String, id: &str, title: &str, table: &Table) {
    let _ = writeln!(out, "## {id}: {title}\n");
    out.push_str(
        "| system | cells | above 100 Mbit/s | shortened | mean rate | least | most | duration s | CPU % per Gbit/s | feedback KiB/GiB | memory MiB |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    let mut rows: Vec<(&String, &Row)> = table.iter().collect();
    rows.sort_by_key(|(name, _)| (crate::report::protocol_rank(name), name.as_str()));
    for (name, row) in rows {
        let mbit =
            |bps: Option<f64>| bps.map_or_else(String::new, |bps| format!("{:.0}", bps / 1e6));
        let missing = row.cells - row.durations.len();
        let duration = match (least(&row.durations), most(&row.durations)) {
            (Some(low), Some(high)) if missing > 0 => format!("{low:.1} to {high:.1}, n {missing}"),
            (Some(low), Some(high)) => format!("{low:.1} to {high:.1}"),
            _ if row.sized => format!("n {missing}"),
            _ => String::new(),
        };
        let one =
            |values: &[f64]| mean(values).map_or_else(|| "-".to_owned(), |v| format!("{v:.1}"));
        let cpu = if row.sender_cpu.is_empty() {
            String::new()
        } else {
            format!("{} / {}", one(&row.sender_cpu), one(&row.receiver_cpu))
        };
        let _ = writeln!(
            out,
            "| {name} | {} | {} | {} | {} | {} | {} | {duration} | {cpu} | {} | {} |",
            row.cells,
            row.successes,
            row.shortened,
            mbit(mean(&row.rates)),
            mbit(least(&row.rates)),
            mbit(most(&row.rates)),
            one(&row.feedback_kib),
            most(&row.in_flight_mib).map_or_else(String::new, |mib| format!("{mib:.0}")),
        );
    }
    out.push('\n');
}

fn add(table: &mut Table, cell: &CellResult) {
    for flow in &cell.flows {
        // The matrix may call a variant by another name than its protocol ("cubic-x7").
        let named = cell.at.get("protocol").filter(|_| cell.flows.len() == 1);
        let row = table
            .entry(named.unwrap_or(&flow.protocol).clone())
            .or_default();
        let metric = |name: &str| cell.metrics.get(&format!("{name}/{}", flow.name)).copied();
        let rate = rate(cell, flow);
        row.cells += 1;
        row.shortened += usize::from(cell.shortened);
        row.rates.push(rate);
        row.sized |= flow.completion_s.is_some();
        row.durations
            .extend(metric("duration_s").or(flow.completion_s));
        row.in_flight_mib
            .extend(metric("in_flight_peak_bytes").map(|bytes| bytes / 1_048_576.0));
        if rate <= SUCCESS_BPS {
            continue;
        }
        row.successes += 1;
        let took = flow.end_s - flow.start_s;
        let cpu = |seconds: Option<f64>| metrics::cpu_per_gbps(seconds?, took, flow.goodput_bps);
        row.sender_cpu.extend(cpu(flow.sender_cpu_s));
        row.receiver_cpu.extend(cpu(flow.receiver_cpu_s));
        row.feedback_kib
            .extend(metric("feedback_bytes_per_gib").map(|bytes| bytes / 1024.0));
    }
}

fn rate(cell: &CellResult, flow: &FlowResult) -> f64 {
    let displayed = cell.metrics.get(&format!("displayed_bps/{}", flow.name));
    let whole = if cell.shortened {
        flow.steady_goodput_bps
    } else {
        flow.goodput_bps
    };
    displayed.copied().unwrap_or(whole)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn least(values: &[f64]) -> Option<f64> {
    values.iter().copied().min_by(f64::total_cmp)
}

fn most(values: &[f64]) -> Option<f64> {
    values.iter().copied().max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(protocol: &str, mbit: f64, shortened: bool) -> CellResult {
        CellResult {
            experiment: "P1".to_owned(),
            shortened,
            flows: vec![FlowResult {
                name: "main".to_owned(),
                protocol: protocol.to_owned(),
                goodput_bps: mbit * 1e6,
                steady_goodput_bps: 2.0 * mbit * 1e6,
                end_s: 10.0,
                sender_cpu_s: Some(1.0),
                ..FlowResult::default()
            }],
            metrics: [("feedback_bytes_per_gib/main".to_owned(), 2048.0)].into(),
            ..CellResult::default()
        }
    }

    #[test]
    fn a_table_has_every_system_and_counts_what_fails() {
        let summary = Summary {
            cells: vec![
                cell("rbudp", 1000.0, false),
                cell("rbudp", 50.0, false),
                cell("howdah", 1000.0, true),
            ],
            ..Summary::default()
        };
        let text = markdown(&[("results/p".to_owned(), summary)]);
        assert!(
            text.contains("| rbudp | 2 | 1 | 0 | 525 | 50 | 1000 |  | 10.0 / - | 2.0 |  |"),
            "{text}"
        );
        assert!(text.contains("| howdah | 1 | 1 | 1 | 2000 |"), "{text}");
        assert!(text.contains("howdah lab report --comparison results/p"));
    }
}
