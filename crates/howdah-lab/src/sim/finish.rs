//! From what was noted to the result.

use super::build::{Built, Placed, current};
use super::forward::Watch;
use super::node::walk_ns;
use super::plan::Plan;
use super::sample::Log;
use super::shorts::Short;
use super::totals::{FlowTotals, Totals};
use crate::figures::{self, Course, seconds};
use crate::scenario::{Cell, GroupSpec, StreamSpec};
use howdah_core::{Observe as _, Span, Time};
use howdah_report::metrics;
use howdah_report::result::{CellResult, FlowResult, GroupResult, LinkResult, StreamResult};
use howdah_report::stats;
use howdah_rivals::udp;

/// `watched` says what was repeated instead of simulated, and who has seen it.
pub(crate) fn result(
    cell: &Cell,
    built: &Built,
    mut log: Log,
    watched: Option<(&Watch, Plan)>,
    shortened: bool,
) -> CellResult {
    log.account_all(cell, built);
    let (totals, skipped) = match &watched {
        Some((watch, plan)) => {
            let skipped = plan.skipped as u64 * cell.measure.interval_ns;
            (
                watch.forward(cell, built, plan, &mut log),
                Span::from_nanos(skipped),
            )
        }
        None => (Totals::now(cell, built), Span::ZERO),
    };
    let end = built.world.now() + skipped;
    let mut flows: Vec<FlowResult> = (0..cell.flows.len())
        .map(|index| {
            flow(
                cell,
                built,
                &log,
                &totals.flows[index],
                index,
                (end, skipped),
            )
        })
        .collect();
    let groups = (cell.groups.iter().zip(&built.groups))
        .map(|(spec, placed)| group(spec, placed, built))
        .collect();
    let course: Vec<Course<'_>> = (0..cell.flows.len())
        .map(|index| Course {
            progress: log.progress(index),
            intervals: &log.flows[index].intervals,
        })
        .collect();
    let mut metrics = figures::figures(cell, &course, &flows, end.as_secs_f64());
    for (spec, placed) in cell.flows.iter().zip(&built.flows) {
        let rate = [placed.ends.a, placed.ends.b]
            .into_iter()
            .find_map(|end| built.world.endpoint(end).tool_rate());
        if let Some(rate) = rate {
            metrics.insert(format!("tool_bps/{}", spec.name), rate.as_f64());
        }
        if walk_ns(&spec.options).is_some() {
            let dropped = built.world.counters(placed.ends.a).socket_drops;
            metrics.insert(format!("backlog_drops/{}", spec.name), dropped as f64);
        }
    }
    figures::changes(cell, &course, &flows, end.as_secs_f64(), &mut metrics);
    for (spec, placed) in cell.groups.iter().zip(&built.groups) {
        let Some(load_bps) = spec.load_bps else {
            continue;
        };
        // What was drawn, beside what was asked for.
        let bytes: u64 = placed.iter().map(|(short, _)| short.size_bytes).sum();
        let offered_bps = metrics::goodput_bps(bytes, seconds(spec.window_ns));
        metrics.insert(format!("load_bps/{}", spec.name), load_bps as f64);
        metrics.insert(format!("offered_bps/{}", spec.name), offered_bps);
    }
    let streams = (cell.streams.iter().enumerate())
        .map(|(index, spec)| stream(spec, &built.streams[index], built, &mut log, index))
        .collect();
    let links = links(cell, &totals, &log, end);
    for (flow, log) in flows.iter_mut().zip(&mut log.flows) {
        flow.intervals = std::mem::take(&mut log.intervals);
    }
    CellResult {
        id: cell.id(),
        experiment: cell.experiment.clone(),
        at: cell.at.clone(),
        testbed: "sim".to_owned(),
        seed: cell.seed,
        duration_s: end.as_secs_f64(),
        shortened,
        forwarded: watched.map(|(_, plan)| plan.note(cell)),
        fingerprint: format!("{:016x}", built.world.fingerprint()),
        flows,
        groups,
        streams,
        links,
        metrics,
        ..CellResult::default()
    }
}

fn flow(
    cell: &Cell,
    built: &Built,
    log: &Log,
    totals: &FlowTotals,
    index: usize,
    (end, skipped): (Time, Span),
) -> FlowResult {
    let spec = &cell.flows[index];
    let Placed {
        ends, header_bytes, ..
    } = built.flows[index];
    let sender = built.world.endpoint(ends.a).snapshot();
    let (there, back) = (totals.there, totals.back);
    // IP and the 14 bytes of an Ethernet header: what interface counters see.
    let per_packet = u64::from(header_bytes) + 14;
    let start_s = seconds(spec.start_ns).min(end.as_secs_f64());
    let finished = sender.finished_at.filter(|_| spec.size_bytes.is_some());
    let end_s = finished.map_or(end.as_secs_f64(), |at| (at + skipped).as_secs_f64());
    let progress = log.progress(index);
    let warm_s = seconds(cell.measure.warmup_ns).max(start_s);
    let goodput_bps = metrics::goodput_bps(totals.delivered_bytes, end_s - start_s);
    let steady = if end_s - warm_s > log.step_s && warm_s > start_s {
        progress.mean_bps(warm_s, end_s)
    } else {
        goodput_bps
    };
    let window_s = figures::ramp_window_s(cell, spec);
    let busy = |host: Option<usize>, busy_ns| {
        host.map(|at| {
            let busy = seconds(busy_ns);
            let idle = (end_s - start_s - busy).max(0.0);
            let host = &cell.hosts[at];
            busy * (1.0 + host.helpers.unwrap_or(0.0)) + host.poll.unwrap_or(0.0) * idle
        })
    };
    FlowResult {
        name: spec.name.clone(),
        protocol: spec.protocol.clone(),
        algorithm: sender.algorithm.into_owned(),
        reverse: spec.reverse,
        connections: built.world.endpoint(ends.a).connections(),
        start_s,
        end_s,
        delivered_bytes: totals.delivered_bytes,
        goodput_bps,
        steady_goodput_bps: steady,
        completion_s: finished.map(|_| end_s - start_s),
        failed: sender
            .failed
            .or_else(|| built.world.endpoint(ends.b).snapshot().failed),
        sent_bytes: totals.sent_bytes,
        retransmitted_bytes: Some(totals.retransmitted_bytes),
        forward_packets: there.datagrams,
        forward_wire_bytes: there.bytes + per_packet * there.datagrams,
        feedback_packets: back.datagrams,
        feedback_wire_bytes: back.bytes + per_packet * back.datagrams,
        congestion_events: Some(totals.congestion_events),
        timeouts: Some(totals.timeouts),
        ramp_s: metrics::ramp(progress, start_s, end_s, window_s, steady),
        sender_cpu_s: busy(spec.ends[0], totals.busy_ns[0]),
        receiver_cpu_s: busy(spec.ends[1], totals.busy_ns[1]),
        intervals: Vec::new(),
    }
}

fn group(spec: &GroupSpec, placed: &[(Short, Placed)], built: &Built) -> GroupResult {
    // A run that ends early ends before some have begun.
    let now_ns = built.world.now().as_nanos();
    let begun = placed
        .iter()
        .take_while(|(short, _)| short.start_ns < now_ns);
    let placed = &placed[..begun.count()];
    let mut result = GroupResult {
        name: spec.name.clone(),
        flows: placed.len() as u64,
        reverse: spec.reverse,
        ..GroupResult::default()
    };
    let mut timeouts = 0;
    let mut times = Vec::with_capacity(placed.len());
    let mut done = Vec::with_capacity(placed.len());
    for (short, flow) in placed {
        let sender = built.world.endpoint(flow.ends.a).snapshot();
        result.offered_bytes += short.size_bytes;
        timeouts += sender.timeouts;
        if result.algorithm.is_empty() {
            result.algorithm = sender.algorithm.into_owned();
        }
        if let Some(finished) = sender.finished_at {
            let took = finished
                .since(Time::from_nanos(short.start_ns))
                .as_secs_f64();
            result.finished += 1;
            result.bytes += short.size_bytes;
            times.push(took);
            done.push((short.size_bytes, took));
        }
    }
    result.timeouts = Some(timeouts);
    result.throughput_bps = metrics::short_throughput_bps(done);
    result.completion_s = figures::percentiles(&times);
    times.sort_by(f64::total_cmp);
    result.completion_cdf_s = (0..=100)
        .filter_map(|percent| stats::quantile(&times, f64::from(percent) / 100.0))
        .collect();
    result
}

fn stream(
    spec: &StreamSpec,
    placed: &Placed,
    built: &Built,
    log: &mut Log,
    index: usize,
) -> StreamResult {
    let received = built.world.endpoint(placed.ends.b).received();
    let sent_packets = built.world.endpoint(placed.ends.a).sent_packets();
    // What is on the way at the end is not lost, and of what was lost before it it will tell. Of what was sent behind that nobody tells.
    let coming = built.world.under_way(placed.ends.a);
    let last = coming.filter_map(|datagram| udp::sequence(&datagram.bytes));
    let told = received.expected.max(last.max().map_or(0, |last| last + 1));
    let log = &mut log.streams[index];
    StreamResult {
        name: spec.name.clone(),
        reverse: spec.reverse,
        sent_packets,
        lost_packets: received.lost() + sent_packets.saturating_sub(told),
        jitter_ms: received.mean_smoothed_jitter().as_secs_f64() * 1e3,
        delivered_bytes: received.bytes,
        jitter_series_ms: std::mem::take(&mut log.jitter_ms),
        intervals: std::mem::take(&mut log.intervals),
    }
}

fn links(cell: &Cell, totals: &Totals, log: &Log, end: Time) -> Vec<LinkResult> {
    let mut all = Vec::new();
    for (index, path) in cell.paths.iter().enumerate() {
        for (side, name) in ["forward", "backward"].into_iter().enumerate() {
            let at = 2 * index + side;
            let counted = &totals.links[at];
            let spec = current(cell, at, end);
            let log = &log.links[at];
            all.push(LinkResult {
                name: format!("{}/{name}", path.name),
                rate_bps: spec.mean_rate_bps() as f64,
                offered_packets: counted.offered,
                queue_drops: counted.queue_drops,
                aqm_drops: counted.aqm_drops,
                marked: counted.marked,
                random_losses: counted.random_losses,
                utilisation: if log.capacity_bits > 0.0 {
                    log.carried_bits / log.capacity_bits
                } else {
                    0.0
                },
                queue_ms: [0.5, 0.95, 0.99].map(|share| {
                    let wait = counted.waits.as_ref().map(|waits| waits.quantile(share));
                    wait.unwrap_or(Span::ZERO).as_secs_f64() * 1e3
                }),
                queue_mean_ms: (counted.waits.as_ref())
                    .and_then(|waits| Some(waits.mean()?.as_secs_f64() * 1e3)),
                rates_bps: figures::rates_bps(cell, index, side == 1, end.as_nanos()),
            });
        }
    }
    all
}
