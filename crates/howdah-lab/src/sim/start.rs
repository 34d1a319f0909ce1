//! The first round trips of a flow, looked at more finely than the rest.

use super::build::Built;
use crate::figures::{bound_bps, route_rtt_s, seconds};
use crate::scenario::Cell;
use howdah_core::{Observe as _, Span, Time};
use howdah_report::metrics::{self, Progress};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Looks in each round trip.
const LOOKS: u64 = 32;
/// The window in which a rate is looked for is a quarter of a round trip.
const WINDOW: f64 = 0.25;

/// What one flow had delivered, look by look.
pub(crate) struct Start {
    step: Span,
    delivered: Rc<RefCell<Vec<u64>>>,
}

/// Looks at each flow from now on, if the scenario wants that.
pub(crate) fn watch(cell: &Cell, built: &mut Built) -> Vec<Start> {
    if !cell.measure.start {
        return Vec::new();
    }
    let flows = cell.flows.iter().zip(&built.flows);
    flows
        .map(|(spec, placed)| {
            let rtt = Span::from_secs_f64(route_rtt_s(cell, spec));
            let step = (rtt / LOOKS).max(Span::from_micros(10));
            let delivered = Rc::new(RefCell::new(Vec::new()));
            let noted = Rc::clone(&delivered);
            let receiver = placed.ends.b;
            built.world.sample_every(step, move |_, world| {
                noted
                    .borrow_mut()
                    .push(world.endpoint(receiver).delivered_bytes());
            });
            Start { step, delivered }
        })
        .collect()
}

/// Adds, for each flow, from the first packet of its handshake on and in round trips of the idle path:
///
/// - `start_t90_rtt/FLOW`: until the mean over a quarter of a round trip first reaches 90 % of the bound (missing where it never does);
/// - `start_cost_rtt/FLOW`: the time lost by the end, against a flow that has the bound from its first packet on;
/// - `start_share/FLOW`: what the last quarter of the time has of the bound;
/// - `start_overflow/FLOW`: packets that queues on the way dropped, as a share of those that were sent.
///
/// The bound is the payload's share of the link, less random loss. Moments are those at which packets pass the
/// bottleneck and not those of their arrival: the way from there is no fault of a start.
pub(crate) fn add(
    cell: &Cell,
    built: &Built,
    starts: &[Start],
    end: Time,
    out: &mut BTreeMap<String, f64>,
) {
    for (index, start) in starts.iter().enumerate() {
        let (spec, placed) = (&cell.flows[index], &built.flows[index]);
        let rtt_s = route_rtt_s(cell, spec);
        let counters = built.world.counters(placed.ends.a);
        let way = |at: &usize| {
            let path = &cell.paths[*at];
            if spec.reverse {
                &path.backward
            } else {
                &path.forward
            }
        };
        let overhead_bytes = spec.via.iter().map(|at| way(at).overhead_bytes).max();
        let each = u64::from(placed.header_bytes + overhead_bytes.unwrap_or(0));
        let wire = counters.sent_bytes + each * counters.sent_datagrams;
        let payload = built.world.endpoint(placed.ends.a).snapshot().sent_bytes;
        let bound = bound_bps(cell, spec, payload as f64 / wire.max(1) as f64, 0);
        let Some(bound) = bound.filter(|bps| *bps > 0.0 && rtt_s > 0.0) else {
            continue;
        };
        let delivered = start.delivered.borrow();
        let progress = Progress {
            step_s: start.step.as_secs_f64(),
            bytes: &delivered,
        };
        let way_s = seconds(spec.via.iter().map(|at| way(at).delay_ns).sum());
        let (from_s, to_s) = (seconds(spec.start_ns) + way_s, end.as_secs_f64());
        let name = &spec.name;
        if let Some(t90) = metrics::ramp(progress, from_s, to_s, WINDOW * rtt_s, bound) {
            out.insert(format!("start_t90_rtt/{name}"), t90 / rtt_s);
        }
        let lost_s = (to_s - from_s) * (1.0 - progress.mean_bps(from_s, to_s) / bound);
        out.insert(format!("start_cost_rtt/{name}"), lost_s / rtt_s);
        let late_s = from_s + 0.75 * (to_s - from_s);
        let share = progress.mean_bps(late_s, to_s) / bound;
        out.insert(format!("start_share/{name}"), share);
        let drops: u64 = spec
            .via
            .iter()
            .map(|&at| {
                let link = built.links[at];
                let id = if spec.reverse {
                    link.backward
                } else {
                    link.forward
                };
                let counters = built.world.path(id).counters();
                counters.dropped_queue + counters.dropped_aqm
            })
            .sum();
        let sent = counters.sent_datagrams.max(1);
        out.insert(format!("start_overflow/{name}"), drops as f64 / sent as f64);
    }
}
