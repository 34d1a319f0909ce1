//! What a flow that begins warm did before.

use crate::figures::route_rtt_s;
use crate::scenario::{Cell, Measure};
use howdah_core::Span;

/// The transfer before is so many round trips long, and at least that: long enough to know a path.
const EARLIER_RTTS: f64 = 30.0;
const EARLIER_LEAST: Span = Span::from_secs(1);
/// It meets other losses.
const OTHER_SEED: u64 = 0x5761_726d;

/// The transfer from which a flow of `cell` knows its path: the flow alone, over the idle path as it is at the beginning, without end.
pub(crate) fn earlier(cell: &Cell, index: usize) -> Cell {
    let mut flow = cell.flows[index].clone();
    let length = Span::from_secs_f64(EARLIER_RTTS * route_rtt_s(cell, &flow)).max(EARLIER_LEAST);
    flow.start_ns = 0;
    flow.size_bytes = None;
    Cell {
        seed: cell.seed ^ OTHER_SEED,
        flows: vec![flow],
        groups: Vec::new(),
        streams: Vec::new(),
        timeline: Vec::new(),
        measure: Measure {
            duration_ns: length.as_nanos(),
            warmup_ns: 0,
            settle: None,
            until_complete: false,
            start: false,
            fast_forward: false,
            ..cell.measure
        },
        ..cell.clone()
    }
}
