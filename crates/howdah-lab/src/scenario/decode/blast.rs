//! Options of the blasting tools.

use super::super::error::ScenarioError;
use super::super::read::Table;
use super::super::values;
use crate::catalog::BlastOptions;
use howdah_core::{Rate, units};

pub(super) const KEYS: [&str; 5] = ["block", "chunk", "memory", "budget", "held"];

/// `one_way_ns` is the delay of the route of the data.
pub(super) fn options(table: &Table<'_>, one_way_ns: u64) -> Result<BlastOptions, ScenarioError> {
    let bytes = |key: &str, most: u64| {
        table.parse(key, |text| {
            if text == "none" {
                return Ok(None);
            }
            match units::parse_bytes(text).map_err(|error| error.to_string())? {
                bytes if bytes == 0 || bytes > most => Err(format!("{bytes} bytes; 1 to {most}")),
                bytes => Ok(Some(bytes)),
            }
        })
    };
    let budget = table.parse("budget", |text| match text {
        "none" => Ok(None),
        text => values::rate(text).map(Some),
    })?;
    let held = table.truth("held")?.unwrap_or(false);
    Ok(BlastOptions {
        block_bytes: bytes("block", 65_000)?.flatten().map(|bytes| bytes as u32),
        chunk_bytes: bytes("chunk", 1 << 30)?.flatten(),
        memory_bytes: bytes("memory", u64::MAX)?.flatten(),
        budget_bps: budget.flatten().map(Rate::bits_per_sec),
        held_ns: (held && one_way_ns > 0).then_some(one_way_ns),
    })
}
