//! Paths.

use super::super::cell::PathSpec;
use super::super::error::ScenarioError;
use super::super::node::{Node, Sources};
use super::super::one_way::{OneWaySpec, QueueSpec};
use super::super::read::Table;
use super::super::values::{self, Amount};
use super::aqm::aqm;
use super::impair::{jitter, loss};
use super::trace;
use howdah_core::{Rate, Span, units};
use howdah_path::RateTrace;

/// Keys that a path and each of its directions have.
pub(super) const ONE_WAY_KEYS: [&str; 16] = [
    "rate",
    "bucket",
    "delay",
    "delay_buffer",
    "buffer",
    "aqm",
    "stored_queue",
    "loss",
    "burst",
    "lose",
    "jitter",
    "reorder",
    "duplicate",
    "corrupt",
    "mtu",
    "overhead",
];

/// Keys that only a path as a whole has.
pub(super) const PATH_KEYS: [&str; 5] = ["rtt", "base_rtt", "forward_share", "forward", "backward"];

/// What a path as a whole has and no change can give it.
const FIXED_KEY: &str = "host_queue";

/// Opportunities of mahimahi's traces, in bytes.
const MAHIMAHI_BYTES: u32 = 1504;

pub(super) fn paths(top: &Table<'_>) -> Result<Vec<PathSpec>, ScenarioError> {
    let Some(table) = top.node.get("path") else {
        return Err(top.error("there is no [path.NAME]"));
    };
    table
        .entries()
        .iter()
        .map(|entry| {
            let what = format!("[path.{}]", entry.key);
            path(top.sources, &entry.key, &entry.node, &what)
        })
        .collect()
}

pub(super) fn path(
    sources: &Sources,
    name: &str,
    node: &Node,
    what: &str,
) -> Result<PathSpec, ScenarioError> {
    let known = [&ONE_WAY_KEYS[..], &PATH_KEYS, &[FIXED_KEY]].concat();
    let table = Table::open(sources, node, what, &known)?;
    if table.has("rtt") && table.has("delay") {
        return Err(table.error_at("delay", "a path has 'rtt' (both ways) or 'delay' (one way)"));
    }
    if table.has("base_rtt") && table.has("delay") {
        let message = "it is added to 'rtt'; with 'delay' write each direction for itself";
        return Err(table.error_at("base_rtt", message));
    }
    let rtt =
        table.span("rtt")?.unwrap_or(Span::ZERO) + table.span("base_rtt")?.unwrap_or(Span::ZERO);
    let there = match table.probability("forward_share")? {
        None => rtt / 2,
        Some(_) if table.has("delay") => {
            let message = "a share of 'rtt'; with 'delay' write each direction for itself";
            return Err(table.error_at("forward_share", message));
        }
        Some(_) if !table.has("rtt") && !table.has("base_rtt") => {
            return Err(table.error_at("forward_share", "a share of which 'rtt'? it is missing"));
        }
        Some(share) => rtt.mul_f64(share),
    };
    let back = rtt.saturating_sub(there);
    let direction = |key: &str| -> Result<Node, ScenarioError> {
        let mut node = node.clone();
        for key in PATH_KEYS.into_iter().chain([FIXED_KEY]) {
            let _ = node.take(key);
        }
        if let Some(over) = table.node.get(key) {
            Table::open(sources, over, format!("{what}.{key}"), &ONE_WAY_KEYS)?;
            node.merge(over.clone());
        }
        Ok(node)
    };
    let (forward, backward) = (direction("forward")?, direction("backward")?);
    check_effect(&table, [&forward, &backward])?;
    let delay = |node: &Node, half: Span| -> Result<Span, ScenarioError> {
        let table = Table::open(sources, node, what, &ONE_WAY_KEYS)?;
        Ok(table.span("delay")?.unwrap_or(half))
    };
    let (there, back) = (delay(&forward, there)?, delay(&backward, back)?);
    let rtt = there + back;
    Ok(PathSpec {
        name: name.to_owned(),
        forward: one_way(sources, &forward, what, there, rtt)?,
        backward: one_way(sources, &backward, what, back, rtt)?,
        host_queue_packets: host_queue(&table)?,
    })
}

/// Refuses what has no effect in any direction: keys that need another one beside them.
fn check_effect(table: &Table<'_>, directions: [&Node; 2]) -> Result<(), ScenarioError> {
    let find = |key: &str| directions.into_iter().find_map(|node| node.get(key));
    let fail = |key: &str, message: &str| -> Result<(), ScenarioError> {
        let place = find(key).map_or(table.node.place, |node| node.place);
        let message = format!("'{key}': {message}");
        Err(table.sources.error(place, message))
    };
    let waits = find("rate").or_else(|| find("bucket"));
    if waits.is_none() && find("buffer").is_some_and(|node| node.to_string() != "unlimited") {
        let message =
            "nothing ever waits on a path without a 'rate' (\"unlimited\" if it is meant)";
        return fail("buffer", message);
    }
    if waits.is_none() && find("aqm").is_some() {
        let message =
            "nothing ever waits on a path without a 'rate' (\"unlimited\" if it is meant)";
        return fail("aqm", message);
    }
    let overtakes = find("reorder").is_some_and(|node| node.to_string() != "0%");
    if overtakes && find("jitter").is_none() {
        let message = "packets overtake those that are late, and without a 'jitter' none is (\"0ms\" if it is meant)";
        return fail("reorder", message);
    }
    Ok(())
}

fn one_way(
    sources: &Sources,
    node: &Node,
    what: &str,
    delay: Span,
    rtt: Span,
) -> Result<OneWaySpec, ScenarioError> {
    let table = Table::open(sources, node, what, &ONE_WAY_KEYS)?;
    if delay > Span::from_secs(3600) {
        return Err(table.error("a delay of more than an hour"));
    }
    let rate_trace = match table.inner("rate", &["trace", "steps", "format", "period"])? {
        Some(inner) => Some(trace::read(&inner, |text, period| {
            match inner.text("format")?.as_deref() {
                None | Some("steps") => Ok(RateTrace::parse_steps(text, period)),
                Some("mahimahi") if period.is_some() => {
                    let message = "such a trace comes again after its last line";
                    Err(inner.error_at("period", message))
                }
                Some("mahimahi") => Ok(RateTrace::parse_mahimahi(text, MAHIMAHI_BYTES)),
                Some(_) => Err(inner.error_at("format", "'steps' or 'mahimahi'")),
            }
        })?),
        None => None,
    };
    // For a while it may carry nothing.
    let peak = rate_trace.as_ref().and_then(|spec| spec.trace.peak());
    if peak.is_some_and(|peak| !values::RATES.contains(&peak)) {
        return Err(table.error_at("rate", "the highest rate of a trace: from 1kbit to 10tbit"));
    }
    let rate = match &rate_trace {
        Some(_) => None,
        None => table.parse("rate", rate)?.flatten(),
    };
    let mean = rate.or_else(|| rate_trace.as_ref().map(|spec| spec.trace.mean()));
    let queue = table
        .parse("buffer", |text| Amount::parse(text)?.queue(mean, rtt))?
        .unwrap_or(QueueSpec::Unlimited);
    Ok(OneWaySpec {
        rate_bps: rate.map(Rate::bits_per_sec),
        rate_trace,
        bucket: bucket(&table)?,
        queue,
        aqm: aqm(&table, queue)?,
        stored_queue: table.truth("stored_queue")?.unwrap_or(false),
        loss: loss(&table)?,
        delay_ns: delay.as_nanos(),
        delay_packets: delay_packets(&table)?,
        jitter: jitter(&table)?,
        reorder: table.probability("reorder")?.unwrap_or(0.0),
        duplicate: table.probability("duplicate")?.unwrap_or(0.0),
        corrupt: table.probability("corrupt")?.unwrap_or(0.0),
        mtu_bytes: mtu(&table)?,
        overhead_bytes: table.within("overhead", 0..=10_000)?.unwrap_or(38),
    })
}

/// How many packets a host's port holds before it refuses more.
fn host_queue(table: &Table<'_>) -> Result<Option<u64>, ScenarioError> {
    let packets = table.parse(FIXED_KEY, |text| match Amount::parse(text)? {
        Amount::Unlimited => Ok(None),
        Amount::Packets(packets) if packets > 0 => Ok(Some(packets)),
        _ => Err("write it in packets (2000packets), or unlimited".to_owned()),
    })?;
    Ok(packets.flatten())
}

/// How many packets the delay holds.
fn delay_packets(table: &Table<'_>) -> Result<Option<u64>, ScenarioError> {
    let packets = table.parse("delay_buffer", |text| match Amount::parse(text)? {
        Amount::Unlimited => Ok(None),
        Amount::Packets(packets) => Ok(Some(packets)),
        _ => Err("write it in packets (1000packets), or unlimited".to_owned()),
    })?;
    Ok(packets.flatten())
}

/// A token bucket: a mean rate below the path's, and how much may exceed it at once.
fn bucket(table: &Table<'_>) -> Result<Option<(u64, u64)>, ScenarioError> {
    let Some(inner) = table.inner("bucket", &["rate", "burst"])? else {
        return if table.has("bucket") {
            Err(table.error_at("bucket", "{ rate = \"500mbit\", burst = \"1MB\" }"))
        } else {
            Ok(None)
        };
    };
    let rate = inner.parse("rate", rate)?.flatten();
    let burst = inner.parse("burst", units::parse_bytes)?;
    match (rate, burst) {
        (Some(rate), Some(burst)) if burst > 0 => Ok(Some((rate.bits_per_sec(), burst))),
        _ => Err(inner.error("a 'rate' and a 'burst' that is not 0")),
    }
}

fn rate(text: &str) -> Result<Option<Rate>, String> {
    match text {
        "unlimited" => Ok(None),
        text if units::parse_rate(text) == Ok(Rate::ZERO) => {
            Err("a path of rate 0 carries nothing".to_owned())
        }
        text => values::rate(text).map(Some),
    }
}

fn mtu(table: &Table<'_>) -> Result<u32, ScenarioError> {
    let mtu = table.parse("mtu", |text| {
        let bytes = units::parse_bytes(text).map_err(|error| error.to_string())?;
        match bytes {
            576..=65_535 => Ok(bytes as u32),
            _ => Err(format!("{bytes} bytes; an MTU is from 576 to 65535")),
        }
    })?;
    Ok(mtu.unwrap_or(1500))
}
