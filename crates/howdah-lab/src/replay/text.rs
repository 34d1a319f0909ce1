//! The scenario of a network that was recorded.

use super::path::PathModel;
use std::fmt::{Display, Write as _};

/// As a trace's lines.
fn lines<T: Copy, D: Display>(steps: &[(u64, T)], value: impl Fn(T) -> D) -> String {
    let mut text = String::new();
    for (at_us, it) in steps {
        let _ = writeln!(text, "{at_us}us {}", value(*it));
    }
    text
}

/// The scenario: the programs at both ends, the path, what it loses.
pub(super) fn scenario(model: &PathModel, protocols: &[String], rate_bps: u64) -> String {
    let mut text = format!(
        "# Made of a recording by howdah lab replay: what its path did, without who used it for what.\n\
         id = \"replay\"\n\
         title = \"A recorded copy of {} bytes that took {:.3} s\"\n\n",
        model.moved_bytes, model.recorded_s
    );
    let mut via = Vec::new();
    let mtu = model.mtu_bytes;
    if !model.programs.is_empty() {
        via.push("\"programs\"");
        let _ = write!(
            text,
            "# What source, sink, hosts and a cap gave and took.\n[path.programs]\nmtu = \"{mtu}bytes\"\nhost_queue = \"64packets\"\n\
             forward.rate = {{ steps = \"\"\"\n{}\"\"\" }}\n\n",
            lines(&model.programs, |bps| format!("{bps}bit"))
        );
    }
    via.push("\"path\"");
    let assumed = if model.overflowed {
        "The queue was seen to overflow at that length."
    } else {
        "The queue was never seen to overflow: its length is assumed."
    };
    let _ = write!(
        text,
        "# {assumed}\n[path.path]\nmtu = \"{mtu}bytes\"\nrtt = \"{}us\"\nbuffer = \"{}bytes\"\n",
        model.rtt_us,
        model.buffer_bytes()
    );
    if !model.longer_us.is_empty() {
        let _ = write!(
            text,
            "forward.jitter = {{ steps = \"\"\"\n{}\"\"\" }}\n",
            lines(&model.longer_us, |us| format!("{us}us"))
        );
    }
    // Of the data's way only: the way back is not known to be narrow.
    let _ = write!(
        text,
        "forward.rate = {{ steps = \"\"\"\n{}\"\"\" }}\n\n",
        lines(&model.rate, |bps| format!("{bps}bit"))
    );
    if !model.loss.is_empty() {
        via.push("\"losses\"");
        let first = model.loss.first().map_or(0.0, |step| step.1);
        let _ = write!(
            text,
            "[path.losses]\nmtu = \"{mtu}bytes\"\nforward.loss = \"{:.5}%\"\n\n",
            first * 100.0
        );
    }
    let names: Vec<String> = protocols.iter().map(|name| format!("\"{name}\"")).collect();
    let _ = write!(
        text,
        "[flow.copy]\nprotocol = [{}]\nsize = \"{}bytes\"\nvia = [{}]\n",
        names.join(", "),
        model.moved_bytes,
        via.join(", ")
    );
    if protocols
        .iter()
        .any(|name| name == crate::catalog::HOWDAH_FIXED)
        && rate_bps > 0
    {
        let _ = writeln!(text, "rate = \"{rate_bps}bit\"");
    }
    let _ = write!(
        text,
        "\n[measure]\nduration = \"{:.0}ms\"\nuntil_complete = true\ninterval = \"{:.0}ms\"\n",
        model.patience_s() * 1e3,
        (model.recorded_s).max(100.0)
    );
    for (at_us, loss) in model.loss.iter().skip(1) {
        let _ = write!(
            text,
            "\n[[timeline]]\nat = \"{at_us}us\"\npath = \"losses\"\nforward.loss = \"{:.5}%\"\n",
            loss * 100.0
        );
    }
    text
}
