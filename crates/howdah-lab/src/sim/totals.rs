//! All that a result counts, up to a moment.

use super::build::{Built, Placed};
use super::sample::{Accepted, Log};
use crate::scenario::Cell;
use howdah_core::Observe as _;
use howdah_path::DelayHistogram;

/// What was counted since the beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    /// By index of [`Cell::flows`].
    pub(crate) flows: Vec<FlowTotals>,
    /// Forward and backward of each path in turn.
    pub(crate) links: Vec<LinkTotals>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowTotals {
    pub(crate) delivered_bytes: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) retransmitted_bytes: u64,
    pub(crate) congestion_events: u64,
    pub(crate) timeouts: u64,
    pub(crate) there: Sent,
    pub(crate) back: Sent,
    /// Processor time of sender and receiver in nanoseconds.
    pub(crate) busy_ns: [u64; 2],
}

/// What an endpoint gave to its first path; bytes without IP and UDP.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) datagrams: u64,
    pub(crate) bytes: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct LinkTotals {
    pub(crate) offered: u64,
    pub(crate) queue_drops: u64,
    pub(crate) aqm_drops: u64,
    pub(crate) marked: u64,
    pub(crate) random_losses: u64,
    /// That have left the bottleneck, link overhead included.
    pub(crate) passed_bytes: u64,
    /// Of the measured part, where they are counted.
    pub(crate) waits: Option<DelayHistogram>,
}

impl Totals {
    pub(crate) fn now(cell: &Cell, built: &Built) -> Self {
        let ways = built
            .links
            .iter()
            .zip(&cell.paths)
            .flat_map(|(link, path)| {
                [
                    (link.forward, &path.forward),
                    (link.backward, &path.backward),
                ]
            });
        Self {
            flows: built
                .flows
                .iter()
                .map(|flow| FlowTotals::now(built, flow))
                .collect(),
            links: ways
                .map(|(id, spec)| {
                    let path = built.world.path(id);
                    let counters = path.counters();
                    LinkTotals {
                        offered: counters.offered,
                        queue_drops: counters.dropped_queue,
                        aqm_drops: counters.dropped_aqm,
                        marked: counters.marked,
                        random_losses: counters.dropped_loss,
                        passed_bytes: Accepted::now(built, id).passed_bytes(spec.overhead_bytes),
                        waits: path.waits().cloned(),
                    }
                })
                .collect(),
        }
    }

    /// The same, with all waiting times that were counted, those before the measured part included.
    pub(crate) fn with_all_waits(cell: &Cell, built: &Built, log: &Log) -> Self {
        let mut totals = Self::now(cell, built);
        for (link, log) in totals.links.iter_mut().zip(&log.links) {
            if let (Some(waits), Some(before)) = (&mut link.waits, &log.waited) {
                waits.add(before, 1);
            }
        }
        totals
    }

    /// Adds what came to pass between two moments, so many times.
    pub(crate) fn repeat(&mut self, from: &Self, to: &Self, times: u64) {
        for (mine, (from, to)) in self.flows.iter_mut().zip(from.flows.iter().zip(&to.flows)) {
            mine.repeat(from, to, times);
        }
        for (mine, (from, to)) in self.links.iter_mut().zip(from.links.iter().zip(&to.links)) {
            mine.repeat(from, to, times);
        }
    }
}

fn add(mine: &mut u64, from: u64, to: u64, times: u64) {
    *mine += times * (to - from);
}

impl FlowTotals {
    fn now(built: &Built, flow: &Placed) -> Self {
        let ends = flow.ends;
        let sender = built.world.endpoint(ends.a).snapshot();
        let [there, back] = [ends.a, ends.b].map(|end| {
            let counters = built.world.counters(end);
            Sent {
                datagrams: counters.sent_datagrams,
                bytes: counters.sent_bytes,
            }
        });
        Self {
            delivered_bytes: built.world.endpoint(ends.b).snapshot().delivered_bytes,
            sent_bytes: sender.sent_bytes,
            retransmitted_bytes: sender.retransmitted_bytes,
            congestion_events: sender.congestion_events,
            timeouts: sender.timeouts,
            there,
            back,
            busy_ns: [ends.a, ends.b].map(|end| built.world.endpoint_busy(end).as_nanos()),
        }
    }

    fn repeat(&mut self, from: &Self, to: &Self, times: u64) {
        let mut all = |part: fn(&mut Self) -> &mut u64| {
            let (mut from, mut to) = (*from, *to);
            add(part(self), *part(&mut from), *part(&mut to), times);
        };
        all(|flow| &mut flow.delivered_bytes);
        all(|flow| &mut flow.sent_bytes);
        all(|flow| &mut flow.retransmitted_bytes);
        all(|flow| &mut flow.congestion_events);
        all(|flow| &mut flow.timeouts);
        all(|flow| &mut flow.there.datagrams);
        all(|flow| &mut flow.there.bytes);
        all(|flow| &mut flow.back.datagrams);
        all(|flow| &mut flow.back.bytes);
        all(|flow| &mut flow.busy_ns[0]);
        all(|flow| &mut flow.busy_ns[1]);
    }
}

impl LinkTotals {
    fn repeat(&mut self, from: &Self, to: &Self, times: u64) {
        add(&mut self.offered, from.offered, to.offered, times);
        add(
            &mut self.queue_drops,
            from.queue_drops,
            to.queue_drops,
            times,
        );
        add(&mut self.aqm_drops, from.aqm_drops, to.aqm_drops, times);
        add(&mut self.marked, from.marked, to.marked, times);
        add(
            &mut self.random_losses,
            from.random_losses,
            to.random_losses,
            times,
        );
        add(
            &mut self.passed_bytes,
            from.passed_bytes,
            to.passed_bytes,
            times,
        );
        if let (Some(waits), Some(from), Some(to)) = (&mut self.waits, &from.waits, &to.waits) {
            waits.add(&to.since(from), times);
        }
    }
}
