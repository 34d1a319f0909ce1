//! A protocol's congestion control under the headings of RFC 9743 (BCP 133, "Specifying New Congestion
//! Control Algorithms", 2025), chapters 5 to 7.
//!
//! [`headings`] says which cells speak to which heading, for any protocol as the subject. Beside it
//! stand the same cells with Reno, CUBIC (RFC 9438) and BBR v3 in the subject's place: the RFC asks for
//! harm no greater than that of the standards. A heading without cells says so; nothing is inferred.

mod headings;

use self::headings::HEADINGS;
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

/// Of two flows that stand against each other, behind the warm-up, when both are there.
fn part_of_others(cell: &CellResult, subject: &str) -> Option<f64> {
    let [one, two] = &cell.flows[..] else {
        return None;
    };
    let (own, other) = match (one.protocol == subject, two.protocol == subject) {
        (true, false) => (one, two),
        (false, true) => (two, one),
        _ => return None,
    };
    let both = own.steady_goodput_bps + other.steady_goodput_bps;
    (both > 0.0).then(|| other.steady_goodput_bps / both)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_kind_has_is_its_part_of_what_both_have() {
        let flow = |protocol: &str, steady_goodput_bps| FlowResult {
            protocol: protocol.to_owned(),
            steady_goodput_bps,
            // The first is alone for a while, which is nobody's company.
            goodput_bps: 900.0,
            ..FlowResult::default()
        };
        let cell = |flows: &[FlowResult]| CellResult {
            flows: flows.to_vec(),
            ..CellResult::default()
        };
        let pair = cell(&[flow("howdah", 30.0), flow("cubic", 10.0)]);
        assert_eq!(part_of_others(&pair, "howdah"), Some(0.25));
        assert_eq!(part_of_others(&pair, "cubic"), Some(0.75));
        assert_eq!(part_of_others(&pair, "reno"), None);
        let alike = cell(&[flow("cubic", 30.0), flow("cubic", 10.0)]);
        assert_eq!(part_of_others(&alike, "cubic"), None);
        let still = cell(&[flow("howdah", 0.0), flow("cubic", 0.0)]);
        assert_eq!(part_of_others(&still, "howdah"), None);
        assert_eq!(part_of_others(&cell(&pair.flows[..1]), "howdah"), None);
    }
}
