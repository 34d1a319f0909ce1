//! Active queue management.

use super::super::error::{ScenarioError, hint};
use super::super::one_way::{AqmSpec, QueueSpec};
use super::super::read::Table;
use howdah_core::{Span, units};
use howdah_path::{FqCoDelConfig, RedConfig};

/// What each kind can be told.
const KINDS: [(&str, &[&str]); 6] = [
    ("droptail", &[]),
    ("codel", &["target", "interval"]),
    ("fq_codel", &["target", "interval", "quantum", "lines"]),
    ("pie", &["target", "max_burst"]),
    ("red", &["min", "max", "probability", "weight", "gentle"]),
    ("dualpi2", &["target"]),
];

/// The kind, and the table in which more is said of it.
fn kind<'a>(table: &Table<'a>) -> Result<(Option<String>, Option<Table<'a>>), ScenarioError> {
    let names = KINDS.map(|kind| kind.0);
    let kind_of = |name: &str| {
        if names.contains(&name) {
            Ok(name.to_owned())
        } else {
            Err(format!("'{name}' is unknown{}", hint(name, &names)))
        }
    };
    let mut known: Vec<&str> = vec!["kind"];
    known.extend(KINDS.iter().flat_map(|kind| kind.1));
    let Some(inner) = table.inner("aqm", &known)? else {
        return Ok((table.parse("aqm", kind_of)?, None));
    };
    let Some(name) = inner.parse("kind", kind_of)? else {
        let message = format!("'kind' is missing: one of {}", names.join(", "));
        return Err(inner.error(message));
    };
    let own = KINDS.iter().find(|kind| kind.0 == name);
    inner.only("kind", &name, own.map_or(&[][..], |kind| kind.1))?;
    Ok((Some(name), Some(inner)))
}

pub(super) fn aqm(table: &Table<'_>, queue: QueueSpec) -> Result<AqmSpec, ScenarioError> {
    let (kind, inner) = kind(table)?;
    let span = |key: &str, default_ms: u64| -> Result<u64, ScenarioError> {
        let span = inner.as_ref().map(|inner| inner.span(key)).transpose()?;
        let span = span.flatten();
        Ok(span.map_or(default_ms * 1_000_000, Span::as_nanos))
    };
    match kind.as_deref() {
        Some(kind @ ("codel" | "fq_codel")) => {
            let (target_ns, interval_ns) = (span("target", 5)?, span("interval", 100)?);
            if target_ns == 0 || target_ns >= interval_ns {
                let message = "'target', the delay that may stand, is above 0 and below 'interval', about a round trip (RFC 8289: a twentieth of it)";
                return Err(table.error_at("aqm", message));
            }
            if kind == "fq_codel" {
                return fq_codel(table, inner.as_ref(), target_ns, interval_ns);
            }
            Ok(AqmSpec::Codel {
                target_ns,
                interval_ns,
            })
        }
        Some(kind @ ("dualpi2" | "pie")) => {
            let target_ns = span("target", 15)?;
            if target_ns == 0 {
                return Err(table.error_at("aqm", "a 'target' of 0 is no delay to hold"));
            }
            if kind == "dualpi2" {
                return Ok(AqmSpec::DualPi2 { target_ns });
            }
            let max_burst_ns = span("max_burst", 150)?;
            Ok(AqmSpec::Pie {
                target_ns,
                max_burst_ns,
            })
        }
        Some("red") => red(table, inner.as_ref(), queue),
        _ => Ok(AqmSpec::Droptail),
    }
}

fn red(
    table: &Table<'_>,
    inner: Option<&Table<'_>>,
    queue: QueueSpec,
) -> Result<AqmSpec, ScenarioError> {
    let number = |key: &str| -> Result<Option<f64>, ScenarioError> {
        let number = inner.map(|inner| inner.number(key)).transpose()?;
        Ok(number.flatten())
    };
    let usual = match queue {
        QueueSpec::Packets(packets) => Some(RedConfig::for_queue_of(packets)),
        _ => None,
    };
    let (Some(min), Some(max)) = (
        number("min")?.or_else(|| usual.map(|usual| usual.min)),
        number("max")?.or_else(|| usual.map(|usual| usual.max)),
    ) else {
        let message = "RED needs 'min' and 'max', or a buffer in packets to take them from";
        return Err(table.error_at("aqm", message));
    };
    if !(min >= 0.0 && max > min) {
        return Err(table.error_at("aqm", "'max' is greater than 'min'"));
    }
    let weight = number("weight")?.unwrap_or(0.002);
    if !(weight > 0.0 && weight <= 1.0) {
        return Err(table.error_at("aqm", "'weight' is above 0, and 1 at most"));
    }
    let probability = inner.map(|inner| inner.probability("probability"));
    let gentle = inner.map(|inner| inner.truth("gentle"));
    Ok(AqmSpec::Red {
        min,
        max,
        probability: probability.transpose()?.flatten().unwrap_or(0.1),
        weight,
        gentle: gentle.transpose()?.flatten().unwrap_or(true),
    })
}

fn fq_codel(
    table: &Table<'_>,
    inner: Option<&Table<'_>>,
    target_ns: u64,
    interval_ns: u64,
) -> Result<AqmSpec, ScenarioError> {
    let usual = FqCoDelConfig::default();
    let quantum = inner
        .map(|inner| inner.parse("quantum", units::parse_bytes))
        .transpose()?;
    let quantum = quantum
        .flatten()
        .unwrap_or_else(|| u64::from(usual.quantum_bytes));
    let lines = inner.map(|inner| inner.whole("lines", 1)).transpose()?;
    let lines = lines.flatten().unwrap_or_else(|| u64::from(usual.lines));
    let within = |number: u64, from: u64, to: u64, what: &str| {
        let inside = u32::try_from(number)
            .ok()
            .filter(|_| (from..=to).contains(&number));
        inside.ok_or_else(|| {
            table.error_at("aqm", format!("{what} {number} is not from {from} to {to}"))
        })
    };
    Ok(AqmSpec::FqCodel {
        target_ns,
        interval_ns,
        quantum_bytes: within(quantum, 64, 1 << 24, "a quantum in bytes of")?,
        lines: within(lines, 1, 65_536, "a number of lines of")?,
    })
}
