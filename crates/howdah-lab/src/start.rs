//! The first round trips of a flow.

use crate::figures::{bound_bps, route_rtt_s};
use crate::scenario::{Cell, FlowSpec};
use howdah_report::metrics::{self, Progress};
use std::collections::BTreeMap;

/// The window in which a rate is looked for is a quarter of a round trip.
const WINDOW: f64 = 0.25;
/// What comes later is no start any more, in round trips.
const LONGEST_RTTS: f64 = 24.0;

/// How a flow was seen to start.
pub(crate) struct Seen<'a> {
    pub(crate) progress: Progress<'a>,
    /// Of what the flow puts on its narrowest link.
    pub(crate) payload_share: f64,
    /// When its first packet, that of the handshake, is due at the far end.
    pub(crate) from_s: f64,
    /// End of the measurement.
    pub(crate) end_s: f64,
    /// Packets that were sent, and those of them that queues on the way dropped.
    pub(crate) sent: u64,
    pub(crate) dropped: u64,
}

/// Adds, from the first packet of a flow's handshake on and in round trips of the idle path:
///
/// - `start_t90_rtt/FLOW`: until the mean over a quarter of a round trip first reaches 90 % of the bound (missing where it never does);
/// - `start_cost_rtt/FLOW`: the time lost by the end, after 24 round trips at most, against a flow that has the bound from its first packet on;
/// - `start_share/FLOW`: what the last quarter of that time has of the bound;
/// - `start_overflow/FLOW`: packets that queues on the way dropped, as a share of those that were sent.
///
/// The bound is the payload's share of the link, less random loss. Moments are those at which packets pass the
/// bottleneck and not those of their arrival: the way from there is no fault of a start.
pub(crate) fn add(cell: &Cell, spec: &FlowSpec, seen: &Seen<'_>, out: &mut BTreeMap<String, f64>) {
    let rtt_s = route_rtt_s(cell, spec);
    let bound = bound_bps(cell, spec, seen.payload_share, 0);
    let Some(bound) = bound.filter(|bps| *bps > 0.0 && rtt_s > 0.0) else {
        return;
    };
    let (progress, from_s, name) = (seen.progress, seen.from_s, &spec.name);
    let to_s = seen.end_s.min(from_s + LONGEST_RTTS * rtt_s);
    if let Some(t90) = metrics::ramp(progress, from_s, to_s, WINDOW * rtt_s, bound) {
        out.insert(format!("start_t90_rtt/{name}"), t90 / rtt_s);
    }
    let lost_s = (to_s - from_s) * (1.0 - progress.mean_bps(from_s, to_s) / bound);
    out.insert(format!("start_cost_rtt/{name}"), lost_s / rtt_s);
    let late_s = from_s + 0.75 * (to_s - from_s);
    let share = progress.mean_bps(late_s, to_s) / bound;
    out.insert(format!("start_share/{name}"), share);
    out.insert(
        format!("start_overflow/{name}"),
        seen.dropped as f64 / seen.sent.max(1) as f64,
    );
}
