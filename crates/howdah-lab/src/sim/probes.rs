//! How long the packets of streams are under way: latency under load, if a stream is sparse.

use super::build::Built;
use crate::scenario::Cell;
use howdah_core::Time;
use howdah_path::DelayHistogram;
use howdah_rivals::udp;
use howdah_sim::Fate;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Of each stream, one-way delays of the packets that arrived behind the warm-up.
pub(crate) struct Probes(Vec<Rc<RefCell<DelayHistogram>>>);

/// Begins to look at all streams of a cell.
pub(crate) fn watch(cell: &Cell, built: &mut Built) -> Probes {
    let warm = Time::from_nanos(cell.measure.warmup_ns);
    let watched = built.streams.iter().map(|stream| {
        let delays = Rc::new(RefCell::new(DelayHistogram::default()));
        let seen = Rc::clone(&delays);
        built.world.on_arrival(stream.ends.b, move |now, datagram| {
            if now >= warm
                && let Some(sent_at) = udp::sent_at(&datagram.bytes)
            {
                seen.borrow_mut().record(now.since(sent_at));
            }
            Fate::Deliver
        });
        delays
    });
    Probes(watched.collect())
}

/// Adds `delay_p50_ms/STREAM` and its like.
pub(crate) fn add(cell: &Cell, probes: &Probes, metrics: &mut BTreeMap<String, f64>) {
    for (spec, delays) in cell.streams.iter().zip(&probes.0) {
        let delays = delays.borrow();
        if delays.count() == 0 {
            continue;
        }
        for (name, share) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
            let delay_ms = delays.quantile(share).as_secs_f64() * 1e3;
            metrics.insert(format!("delay_{name}_ms/{}", spec.name), delay_ms);
        }
        let delay_ms = delays.max().as_secs_f64() * 1e3;
        metrics.insert(format!("delay_max_ms/{}", spec.name), delay_ms);
    }
}
