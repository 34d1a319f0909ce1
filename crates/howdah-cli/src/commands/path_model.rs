//! A path that was seen, in words and for programs.

use howdah::Rate;
use howdah_lab::replay::PathModel;
use serde_json::{Value, json};

pub(super) fn rate(bps: f64) -> Rate {
    Rate::from_bits_per_sec(bps as u64)
}

/// On one line.
pub(super) fn line(model: &PathModel) -> String {
    format!(
        "path: {} on average, {:.1} ms, loss {:.3} %, queue up to {:.1} ms ({}), packets of {} bytes",
        rate(model.mean_rate_bps()),
        model.rtt_us as f64 / 1e3,
        model.mean_loss() * 100.0,
        model.buffer_us as f64 / 1e3,
        if model.overflowed {
            "seen to overflow"
        } else {
            "assumed"
        },
        model.mtu_bytes,
    )
}

pub(super) fn as_json(model: &PathModel) -> Value {
    json!({
        "mean_rate_bps": model.mean_rate_bps(),
        "rtt_us": model.rtt_us,
        "mean_loss": model.mean_loss(),
        "buffer_us": model.buffer_us,
        "overflowed": model.overflowed,
        "mtu_bytes": model.mtu_bytes,
        "programs": model.has_programs(),
    })
}
