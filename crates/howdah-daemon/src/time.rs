//! Time of day, as it is written down.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Says what time it is, as [`now_ms`] does. People set clocks, and machines sleep: it may say anything at any time.
pub(crate) type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Milliseconds since 1970, UTC.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0))
}

/// As in all that this project writes: `2026-11-26T13:05:49.123Z`.
pub(crate) fn printed(time_ms: u64) -> String {
    let time = i64::try_from(time_ms).ok();
    let time = time.and_then(|time| jiff::Timestamp::from_millisecond(time).ok());
    let time = time.unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}
