//! Machines that are not infinitely fast.

use super::super::cell::{CostSpec, DisturbanceSpec, HostSpec};
use super::super::error::ScenarioError;
use super::super::read::Table;
use super::super::values::Amount;
use howdah_core::Span;

const HOST_KEYS: [&str; 21] = [
    "like",
    "tail",
    "tail_calls",
    "gather",
    "first",
    "stall",
    "stall_every",
    "sent_packet",
    "sent_report",
    "sent_byte",
    "received_packet",
    "received_report",
    "received_byte",
    "wake",
    "batch",
    "cores",
    "split",
    "socket",
    "charge",
    "poll",
    "helpers",
];

pub(super) fn hosts(top: &Table<'_>) -> Result<Vec<HostSpec>, ScenarioError> {
    let Some(table) = top.node.get("host") else {
        return Ok(Vec::new());
    };
    table
        .entries()
        .iter()
        .map(|entry| {
            let what = format!("[host.{}]", entry.key);
            let table = Table::open(top.sources, &entry.node, what, &HOST_KEYS)?;
            host(&table, &entry.key)
        })
        .collect()
}

fn host(table: &Table<'_>, name: &str) -> Result<HostSpec, ScenarioError> {
    let usual = match table.text("like")?.as_deref() {
        None | Some("ideal") => HostSpec::default(),
        Some("testbed") => testbed(),
        Some(_) => return Err(table.error_at("like", "'testbed' or 'ideal'")),
    };
    let span = |key: &str, usual_ns: u64| -> Result<u64, ScenarioError> {
        Ok(table.span(key)?.map_or(usual_ns, Span::as_nanos))
    };
    let cost = |kind: &str, usual: &CostSpec| -> Result<CostSpec, ScenarioError> {
        Ok(CostSpec {
            packet_ns: span(&format!("{kind}_packet"), usual.packet_ns)?,
            report_ns: span(&format!("{kind}_report"), usual.report_ns)?,
            byte_ps: table
                .parse(&format!("{kind}_byte"), picoseconds)?
                .unwrap_or(usual.byte_ps),
        })
    };
    let socket = socket(table, usual.socket)?;
    let helpers = table.number("helpers")?;
    if helpers.is_some_and(|helpers| !(0.0..=100.0).contains(&helpers)) {
        return Err(table.error_at(
            "helpers",
            "work of other threads for each work, from 0 to 100",
        ));
    }
    let small = |key: &str, usual: u32| -> Result<u32, ScenarioError> {
        Ok(table.within(key, 1..=1024)?.unwrap_or(usual).max(1))
    };
    let tail_ns = span("tail", usual.disturbance.tail_ns)?;
    if table.has("tail_calls") && tail_ns == 0 && !table.has("tail") {
        return Err(table.error_at("tail_calls", "of which length? 'tail' is missing"));
    }
    if table.truth("split")? == Some(true) && !table.has("cores") && usual.cores < 2 {
        let message =
            "sending and receiving are on one core if there is no other: 'cores' is missing";
        return Err(table.error_at("split", message));
    }
    Ok(HostSpec {
        name: name.to_owned(),
        cores: small("cores", usual.cores)?,
        split: table.truth("split")?.unwrap_or(usual.split),
        sent: cost("sent", &usual.sent)?,
        received: cost("received", &usual.received)?,
        wake_ns: span("wake", usual.wake_ns)?,
        batch: small("batch", usual.batch)?,
        disturbance: DisturbanceSpec {
            tail_ns,
            // Without tails nothing is said of how many.
            tail_calls: small("tail_calls", usual.disturbance.tail_calls)? * u32::from(tail_ns > 0),
            gather_ns: span("gather", usual.disturbance.gather_ns)?,
            first_ns: span("first", usual.disturbance.first_ns)?,
            ..stalls(table, &usual.disturbance)?
        },
        helpers,
        poll: table.probability("poll")?,
        socket,
    })
}

/// The receive buffer of a socket in bytes, and what it charges for a byte in per cent.
fn socket(
    table: &Table<'_>,
    usual: Option<(u64, u32)>,
) -> Result<Option<(u64, u32)>, ScenarioError> {
    let charge = table.number("charge")?;
    if charge.is_some_and(|charge| !(0.1..=100.0).contains(&charge)) {
        return Err(table.error_at("charge", "what a byte is charged with, from 0.1 to 100"));
    }
    let charge = charge.map(|charge| (charge * 100.0).round() as u32);
    let bytes = table.parse("socket", |text| {
        Amount::parse(text)?.bytes(None, Span::ZERO)
    })?;
    let bytes = bytes.or_else(|| usual.map(|usual| usual.0));
    if charge.is_some() && bytes.is_none() {
        return Err(table.error_at("charge", "of which buffer? 'socket' is missing"));
    }
    let charge = charge.or_else(|| usual.map(|usual| usual.1)).unwrap_or(100);
    Ok(bytes.map(|bytes| (bytes, charge)))
}

/// A core that stands still more often never runs.
const SHORTEST_NS: u64 = 10_000;

/// For how long a core stands still at most, and how often.
fn stalls(table: &Table<'_>, usual: &DisturbanceSpec) -> Result<DisturbanceSpec, ScenarioError> {
    let every = table.span("stall_every")?.map(Span::as_nanos);
    if every.is_some_and(|every| every < SHORTEST_NS) {
        return Err(table.error_at("stall_every", "at least 10us"));
    }
    let most = table.span("stall")?.map(Span::as_nanos);
    if every.is_some() != most.is_some() {
        return Err(table
            .error("'stall', the longest, and 'stall_every', their mean distance, go together"));
    }
    Ok(DisturbanceSpec {
        stall_every_ns: every.unwrap_or(usual.stall_every_ns),
        // The shortest is a tenth of the longest.
        stall_ns: most.map_or(usual.stall_ns, |most| [most / 10, most]),
        ..DisturbanceSpec::default()
    })
}

/// A machine of two cores with our own protocol on it, as docs/lab.md says it was measured.
fn testbed() -> HostSpec {
    let cost = CostSpec {
        packet_ns: 210,
        report_ns: 2_000,
        byte_ps: 153,
    };
    HostSpec {
        cores: 1,
        sent: cost,
        received: cost,
        wake_ns: 3_000,
        batch: 7,
        socket: Some((64 << 20, 180)),
        disturbance: DisturbanceSpec {
            tail_ns: 500_000,
            tail_calls: 16,
            gather_ns: 60_000,
            first_ns: 300_000,
            stall_every_ns: 250_000_000,
            stall_ns: [1_000_000, 10_000_000],
        },
        ..HostSpec::default()
    }
}

/// `0.05ns` is 50 ps: fractions of a nanosecond matter for single bytes.
fn picoseconds(text: &str) -> Result<u64, String> {
    text.strip_suffix("ns")
        .and_then(|number| number.trim().parse::<f64>().ok())
        .filter(|ns| (0.0..1e6).contains(ns))
        .map(|ns| (ns * 1000.0).round() as u64)
        .ok_or_else(|| format!("'{text}' is not a time for one byte; write it like 0.05ns"))
}
