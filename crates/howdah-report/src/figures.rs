//! All numbers of a cell under the names that CSV and tables give them.

use crate::result::CellResult;
use serde_json::Value;

/// Suffixes of names and what they count in.
const UNITS: [(&str, &str); 9] = [
    ("_bps", "bit/s"),
    ("_bytes_per_gib", "byte/GiB"),
    ("_bytes", "byte"),
    ("_packets", "packet"),
    ("_ms", "ms"),
    ("_rtt", "round trip"),
    ("_s", "s"),
    ("_share", "share"),
    ("utilisation", "share"),
];

/// A number.
pub(crate) struct Figure {
    /// A flow, a group, a stream or a link; empty if it is of the whole cell.
    pub(crate) subject: String,
    pub(crate) name: String,
    pub(crate) value: serde_json::Number,
}

/// All numbers of a cell.
pub(crate) fn of(cell: &CellResult) -> Vec<Figure> {
    let mut all = Vec::new();
    let whole = serde_json::to_value(cell).unwrap_or_default();
    for kind in ["flows", "groups", "streams", "links"] {
        for part in whole[kind].as_array().into_iter().flatten() {
            let subject = part["name"].as_str().unwrap_or_default();
            flatten(subject, "", part, &mut all);
        }
    }
    for (key, value) in &cell.metrics {
        // What stands behind the first slash is the subject.
        let (name, subject) = key.split_once('/').unwrap_or((key, ""));
        all.extend(serde_json::Number::from_f64(*value).map(|value| Figure {
            subject: subject.to_owned(),
            name: name.to_owned(),
            value,
        }));
    }
    all
}

/// Numbers under their names; those of an object (percentiles) with its name in front.
fn flatten(subject: &str, before: &str, part: &Value, out: &mut Vec<Figure>) {
    for (key, value) in part.as_object().into_iter().flatten() {
        let name = match before {
            "" => key.clone(),
            // `queue_ms` and `p95`: `queue_p95_ms`, with the unit last as everywhere.
            before => match before.rsplit_once('_') {
                Some((stem, unit)) => format!("{stem}_{key}_{unit}"),
                None => format!("{before}_{key}"),
            },
        };
        match value {
            Value::Number(value) => out.push(Figure {
                subject: subject.to_owned(),
                name,
                value: value.clone(),
            }),
            Value::Object(_) => flatten(subject, &name, value, out),
            _ => {}
        }
    }
}

/// What a figure of this name counts in; empty for a plain number.
pub(crate) fn unit(name: &str) -> &'static str {
    let known = UNITS.iter().find(|(suffix, _)| name.ends_with(suffix));
    known.map_or("", |(_, unit)| unit)
}
