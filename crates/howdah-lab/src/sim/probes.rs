//! How long the packets of streams are under way: latency under load, if a stream is sparse.

use super::build::Built;
use crate::scenario::{Cell, StreamSpec};
use howdah_core::{Span, Time};
use howdah_path::DelayHistogram;
use howdah_rivals::udp;
use howdah_sim::Fate;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Of each stream, one-way delays of the packets that arrived behind the warm-up.
pub(crate) struct Probes(Vec<Probe>);

/// What is beyond the way's constant delay: a histogram is exact to a share of what it counts, and on a long way that would be more than a queue.
struct Probe {
    least: Span,
    beyond: Rc<RefCell<DelayHistogram>>,
}

/// The least constant delay that a stream's way ever has.
fn least(cell: &Cell, spec: &StreamSpec) -> Span {
    let ns = spec.via.iter().filter_map(|&path| {
        let changes = cell.timeline.iter().filter(|change| change.path == path);
        let changes = changes.map(|change| (&change.forward, &change.backward));
        let first = (&cell.paths[path].forward, &cell.paths[path].backward);
        let ways = std::iter::once(first).chain(changes);
        ways.map(|(forward, backward)| {
            let there = if spec.reverse { backward } else { forward };
            there.delay_ns
        })
        .min()
    });
    Span::from_nanos(ns.sum())
}

/// Begins to look at all streams of a cell.
pub(crate) fn watch(cell: &Cell, built: &mut Built) -> Probes {
    let warm = Time::from_nanos(cell.measure.warmup_ns);
    let watched = built
        .streams
        .iter()
        .zip(&cell.streams)
        .map(|(stream, spec)| {
            let least = least(cell, spec);
            let beyond = Rc::new(RefCell::new(DelayHistogram::default()));
            let seen = Rc::clone(&beyond);
            built.world.on_arrival(stream.ends.b, move |now, datagram| {
                if now >= warm
                    && let Some(sent_at) = udp::sent_at(&datagram.bytes)
                {
                    seen.borrow_mut()
                        .record(now.since(sent_at).saturating_sub(least));
                }
                Fate::Deliver
            });
            Probe { least, beyond }
        });
    Probes(watched.collect())
}

/// Adds `delay_p50_ms/STREAM` and its like.
pub(crate) fn add(cell: &Cell, probes: &Probes, metrics: &mut BTreeMap<String, f64>) {
    for (spec, Probe { least, beyond }) in cell.streams.iter().zip(&probes.0) {
        let delays = beyond.borrow();
        if delays.count() == 0 {
            continue;
        }
        for (name, share) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
            let delay_ms = (*least + delays.quantile(share)).as_secs_f64() * 1e3;
            metrics.insert(format!("delay_{name}_ms/{}", spec.name), delay_ms);
        }
        let delay_ms = (*least + delays.max()).as_secs_f64() * 1e3;
        metrics.insert(format!("delay_max_ms/{}", spec.name), delay_ms);
    }
}
