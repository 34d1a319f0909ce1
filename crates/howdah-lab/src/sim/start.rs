//! Looks at the first round trips of a flow, more finely than at the rest.

use super::build::Built;
use crate::figures::{route_rtt_s, seconds, way_s};
use crate::scenario::Cell;
use crate::start::Seen;
use howdah_core::{Observe as _, Span, Time};
use howdah_report::metrics::Progress;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Looks in each round trip.
const LOOKS: u64 = 32;

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

/// Adds the figures of each flow's start.
pub(crate) fn add(
    cell: &Cell,
    built: &Built,
    starts: &[Start],
    end: Time,
    out: &mut BTreeMap<String, f64>,
) {
    for (index, start) in starts.iter().enumerate() {
        let (spec, placed) = (&cell.flows[index], &built.flows[index]);
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
        let drops = spec.via.iter().map(|&at| {
            let link = built.links[at];
            let id = if spec.reverse {
                link.backward
            } else {
                link.forward
            };
            let counters = built.world.path(id).counters();
            counters.dropped_queue + counters.dropped_aqm
        });
        let seen = Seen {
            progress: Progress {
                step_s: start.step.as_secs_f64(),
                bytes: &start.delivered.borrow(),
            },
            payload_share: payload as f64 / wire.max(1) as f64,
            from_s: seconds(spec.start_ns) + way_s(cell, spec),
            end_s: end.as_secs_f64(),
            sent: counters.sent_datagrams,
            dropped: drops.sum(),
        };
        crate::start::add(cell, spec, &seen, out);
    }
}
