//! Machines that are not infinitely fast.

use super::super::cell::{CostSpec, HostSpec};
use super::super::error::ScenarioError;
use super::super::read::Table;
use super::super::values::Amount;
use howdah_core::Span;

const HOST_KEYS: [&str; 14] = [
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
    let span = |key: &str| Ok(table.span(key)?.unwrap_or(Span::ZERO).as_nanos());
    let cost = |kind: &str| -> Result<CostSpec, ScenarioError> {
        Ok(CostSpec {
            packet_ns: span(&format!("{kind}_packet"))?,
            report_ns: span(&format!("{kind}_report"))?,
            byte_ps: table
                .parse(&format!("{kind}_byte"), picoseconds)?
                .unwrap_or(0),
        })
    };
    let charge = table.number("charge")?.unwrap_or(1.0);
    if !(0.1..=100.0).contains(&charge) {
        return Err(table.error_at("charge", "what a byte is charged with, from 0.1 to 100"));
    }
    let socket = table.parse("socket", |text| {
        Amount::parse(text)?.bytes(None, Span::ZERO)
    })?;
    let helpers = table.number("helpers")?;
    if helpers.is_some_and(|helpers| !(0.0..=100.0).contains(&helpers)) {
        return Err(table.error_at(
            "helpers",
            "work of other threads for each work, from 0 to 100",
        ));
    }
    let small = |key: &str| Ok(table.whole(key, 1)?.unwrap_or(1).min(1024) as u32);
    Ok(HostSpec {
        name: name.to_owned(),
        cores: small("cores")?,
        split: table.truth("split")?.unwrap_or(false),
        sent: cost("sent")?,
        received: cost("received")?,
        wake_ns: span("wake")?,
        batch: small("batch")?,
        helpers,
        poll: table.probability("poll")?,
        socket: socket.map(|bytes| (bytes, (charge * 100.0).round() as u32)),
    })
}

/// `0.05ns` is 50 ps: fractions of a nanosecond matter for single bytes.
fn picoseconds(text: &str) -> Result<u64, String> {
    text.strip_suffix("ns")
        .and_then(|number| number.trim().parse::<f64>().ok())
        .filter(|ns| (0.0..1e6).contains(ns))
        .map(|ns| (ns * 1000.0).round() as u64)
        .ok_or_else(|| format!("'{text}' is not a time for one byte; write it like 0.05ns"))
}
