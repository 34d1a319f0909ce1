//! Results as JSON, with the names that `--json` has (docs/json.md).

use howdah::{
    Difference, DifferenceKind, Error, ErrorKind, OwnerSeen, Progress, Rate, Verification,
};
use serde_json::{Value, json};

/// The JSON of a result.
pub(crate) fn text(value: &impl serde::Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|e| Error::new(ErrorKind::Io, e.to_string()))
}

pub(crate) fn verification(found: &Verification) -> Result<String, Error> {
    let value = serde_json::to_value(found);
    let mut value = value.map_err(|e| Error::new(ErrorKind::Io, e.to_string()))?;
    value["seconds"] = json!(found.seconds);
    text(&value)
}

pub(crate) fn progress(now: &Progress) -> String {
    json!({
        "bytes": now.bytes,
        "resumed_bytes": now.resumed_bytes,
        "total_bytes": now.total_bytes,
        "files_done": now.files_done,
        "files_total": now.files_total,
        "current": now.current,
        "elapsed_seconds": now.elapsed.as_secs_f64(),
        "goodput_bps": now.goodput_now.bits_per_sec(),
        "wire_bps": now.wire_rate_now.bits_per_sec(),
        "rtt_seconds": now.rtt.as_secs_f64(),
        "loss_rate": now.loss,
        "limit_bps": now.limit.map(Rate::bits_per_sec),
        "paused": now.paused,
    })
    .to_string()
}

/// A name as bytes, in hexadecimal: it need not be text.
fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or('0');
    let digits = |byte: &u8| [digit(byte >> 4), digit(byte & 15)];
    bytes.iter().flat_map(digits).collect()
}

fn time((seconds, nanoseconds): (i64, u32)) -> Value {
    json!(i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds))
}

fn owner(owner: &OwnerSeen) -> Value {
    json!([owner.user.0, owner.group.0])
}

/// What differs, and how it is at A and at B.
pub(crate) fn difference(found: &Difference) -> String {
    let (what, a, b) = match &found.what {
        DifferenceKind::MissingInA { inside } => ("missing_in_a", Value::Null, json!(inside)),
        DifferenceKind::MissingInB { inside } => ("missing_in_b", json!(inside), Value::Null),
        DifferenceKind::Kind { a, b } => ("kind", json!(a), json!(b)),
        DifferenceKind::Size { a, b } => ("size_bytes", json!(a), json!(b)),
        DifferenceKind::Contents { start, end } => ("contents", json!(start), json!(end)),
        DifferenceKind::Target { a, b } => ("target", json!(lossy(a)), json!(lossy(b))),
        DifferenceKind::Mode { a, b } => ("mode", json!(a), json!(b)),
        DifferenceKind::Time { a, b } => ("time_ns", time(*a), time(*b)),
        DifferenceKind::Owner { a, b } => ("owner", owner(a), owner(b)),
        DifferenceKind::Attributes(names) => {
            let names: Vec<_> = names.iter().map(|name| lossy(name)).collect();
            ("attributes", json!(names), Value::Null)
        }
        DifferenceKind::HardLinks => ("hard_links", Value::Null, Value::Null),
        DifferenceKind::Unread { a, b } => ("unread", json!(a), json!(b)),
    };
    json!({
        "path_hex": hex(&found.path), "is_directory": found.is_dir, "what": what, "a": a, "b": b,
    })
    .to_string()
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
