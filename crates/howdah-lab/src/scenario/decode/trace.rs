//! Traces: in files of their own, named relative to the scenario, or as a text in it.

use super::super::error::ScenarioError;
use super::super::one_way::TraceSpec;
use super::super::read::Table;
use howdah_core::Span;
use howdah_path::TraceError;
use std::path::Path;

/// What comes again sooner is a mistyped unit.
const SHORTEST: Span = Span::from_millis(1);
/// Bytes of a trace: some hours of a mahimahi one are ten million.
const MAX_BYTES: u64 = 128 << 20;

/// Reads the file that the table's `trace` names, or what stands under `steps` itself.
pub(super) fn read<T>(
    table: &Table<'_>,
    parse: impl FnOnce(&str, Option<Span>) -> Result<Result<T, TraceError>, ScenarioError>,
) -> Result<TraceSpec<T>, ScenarioError> {
    let period = table.span("period")?;
    if period.is_some_and(|period| period < SHORTEST) {
        return Err(table.error_at("period", format!("at least {SHORTEST}")));
    }
    if let Some(text) = table.text("steps")? {
        if table.has("trace") {
            return Err(table.error_at("steps", "a 'trace' in a file or 'steps' here, not both"));
        }
        let trace = parse(&text, period)?;
        let trace = trace.map_err(|error| table.error_at("steps", error.to_string()))?;
        let hash = blake3::hash(format!("{}\n", table.node).as_bytes());
        return Ok(TraceSpec {
            hash: hash.to_hex().to_string(),
            trace,
        });
    }
    let name = table
        .text("trace")?
        .ok_or_else(|| table.error("'trace' is missing"))?;
    let scenario = table.sources.path(table.node.place);
    let path = scenario
        .parent()
        .unwrap_or_else(|| Path::new(""))
        .join(name);
    let text = table.sources.read(&path, MAX_BYTES).map_err(|error| {
        let message = format!("{}: {error}", path.display());
        table.error_at("trace", message)
    })?;
    let trace = parse(&text, period)?.map_err(|error| match error.line() {
        Some(line) => {
            let message = error.to_string();
            let message = message.split_once(": ").map_or(&*message, |(_, rest)| rest);
            ScenarioError::on_line(&path, line, message)
        }
        None => ScenarioError::in_file(&path, error.to_string()),
    })?;
    let mut hash = blake3::Hasher::new();
    hash.update(format!("{}\n", table.node).as_bytes());
    hash.update(text.as_bytes());
    Ok(TraceSpec {
        hash: hash.finalize().to_hex().to_string(),
        trace,
    })
}
