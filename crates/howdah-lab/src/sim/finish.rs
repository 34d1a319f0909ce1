//! From what was noted to the result.

use super::build::{Built, Placed};
use super::sample::{Log, current};
use super::shorts::Short;
use crate::metrics;
use crate::result::{CellResult, FlowResult, GroupResult, LinkResult, StreamResult};
use crate::scenario::{Cell, FlowSpec, GroupSpec, StreamSpec};
use crate::stats;
use howdah_core::{Observe as _, Span, Time};
use std::collections::BTreeMap;

/// Window of the search for 90 % of a rate: a round trip, but at least this many seconds.
const LEAST_WINDOW_S: f64 = 0.1;

pub(crate) fn result(
    cell: &Cell,
    built: &Built,
    mut log: Log,
    end: Time,
    shortened: bool,
) -> CellResult {
    log.account_all(cell, built);
    let mut flows: Vec<FlowResult> = (0..cell.flows.len())
        .map(|index| flow(cell, built, &log, index, end))
        .collect();
    let groups = (cell.groups.iter().zip(&built.groups))
        .map(|(spec, placed)| group(spec, placed, built))
        .collect();
    let mut metrics = figures(cell, &log, &flows, end);
    for (spec, placed) in cell.flows.iter().zip(&built.flows) {
        let rate = [placed.ends.a, placed.ends.b]
            .into_iter()
            .find_map(|end| built.world.endpoint(end).tool_rate());
        if let Some(rate) = rate {
            metrics.insert(format!("tool_bps/{}", spec.name), rate.as_f64());
        }
    }
    changes(cell, &log, &flows, end, &mut metrics);
    let streams = (cell.streams.iter().enumerate())
        .map(|(index, spec)| stream(spec, &built.streams[index], built, &mut log, index))
        .collect();
    let links = links(cell, built, &mut log, end);
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
        fingerprint: format!("{:016x}", built.world.fingerprint()),
        flows,
        groups,
        streams,
        links,
        metrics,
        ..CellResult::default()
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn flow(cell: &Cell, built: &Built, log: &Log, index: usize, end: Time) -> FlowResult {
    let spec = &cell.flows[index];
    let Placed {
        ends, header_bytes, ..
    } = built.flows[index];
    let sender = built.world.endpoint(ends.a).snapshot();
    let receiver = built.world.endpoint(ends.b).snapshot();
    let (there, back) = (built.world.counters(ends.a), built.world.counters(ends.b));
    // IP and the 14 bytes of an Ethernet header: what interface counters see.
    let per_packet = u64::from(header_bytes) + 14;
    let start_s = seconds(spec.start_ns).min(end.as_secs_f64());
    let finished = sender.finished_at.filter(|_| spec.size_bytes.is_some());
    let end_s = finished.map_or(end.as_secs_f64(), Time::as_secs_f64);
    let progress = log.progress(index);
    let warm_s = seconds(cell.measure.warmup_ns).max(start_s);
    let goodput_bps = metrics::goodput_bps(receiver.delivered_bytes, end_s - start_s);
    let steady = if end_s - warm_s > log.step_s && warm_s > start_s {
        progress.mean_bps(warm_s, end_s)
    } else {
        goodput_bps
    };
    let window_s = route_rtt_s(cell, spec).max(LEAST_WINDOW_S);
    let busy = |host: Option<usize>, end| {
        host.map(|at| {
            let busy = built.world.endpoint_busy(end).as_secs_f64();
            let idle = (end_s - start_s - busy).max(0.0);
            let host = &cell.hosts[at];
            busy * (1.0 + host.helpers.unwrap_or(0.0)) + host.poll.unwrap_or(0.0) * idle
        })
    };
    FlowResult {
        name: spec.name.clone(),
        protocol: spec.protocol.clone(),
        algorithm: sender.algorithm.into_owned(),
        start_s,
        end_s,
        delivered_bytes: receiver.delivered_bytes,
        goodput_bps,
        steady_goodput_bps: steady,
        completion_s: finished.map(|_| end_s - start_s),
        sent_bytes: sender.sent_bytes,
        retransmitted_bytes: sender.retransmitted_bytes,
        forward_packets: there.sent_datagrams,
        forward_wire_bytes: there.sent_bytes + per_packet * there.sent_datagrams,
        feedback_packets: back.sent_datagrams,
        feedback_wire_bytes: back.sent_bytes + per_packet * back.sent_datagrams,
        congestion_events: sender.congestion_events,
        timeouts: sender.timeouts,
        ramp_s: metrics::ramp(progress, start_s, end_s, window_s, steady),
        sender_cpu_s: busy(spec.ends[0], ends.a),
        receiver_cpu_s: busy(spec.ends[1], ends.b),
        intervals: Vec::new(),
    }
}

/// Round-trip time of the route at the start, without queues.
fn route_rtt_s(cell: &Cell, spec: &FlowSpec) -> f64 {
    let ns: u64 = spec
        .via
        .iter()
        .map(|&path| cell.paths[path].forward.delay_ns + cell.paths[path].backward.delay_ns)
        .sum();
    seconds(ns)
}

fn group(spec: &GroupSpec, placed: &[(Short, Placed)], built: &Built) -> GroupResult {
    let mut result = GroupResult {
        name: spec.name.clone(),
        flows: placed.len() as u64,
        ..GroupResult::default()
    };
    let mut times = Vec::with_capacity(placed.len());
    let mut done = Vec::with_capacity(placed.len());
    for (short, flow) in placed {
        let sender = built.world.endpoint(flow.ends.a).snapshot();
        result.offered_bytes += short.size_bytes;
        result.timeouts += sender.timeouts;
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
    result.throughput_bps = metrics::short_throughput_bps(done);
    result.completion_s = percentiles(&times);
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
    let log = &mut log.streams[index];
    StreamResult {
        name: spec.name.clone(),
        sent_packets: built.world.endpoint(placed.ends.a).sent_packets(),
        // What is on the way at the end is not lost.
        lost_packets: received.lost(),
        jitter_ms: received.mean_smoothed_jitter().as_secs_f64() * 1e3,
        delivered_bytes: received.bytes,
        jitter_series_ms: std::mem::take(&mut log.jitter_ms),
        intervals: std::mem::take(&mut log.intervals),
    }
}

fn percentiles(values: &[f64]) -> [f64; 3] {
    [0.5, 0.95, 0.99].map(|q| stats::quantile(values, q).unwrap_or(0.0))
}

fn links(cell: &Cell, built: &Built, log: &mut Log, end: Time) -> Vec<LinkResult> {
    let mut all = Vec::new();
    for (index, path) in cell.paths.iter().enumerate() {
        let link = built.links[index];
        for (side, (name, id)) in [("forward", link.forward), ("backward", link.backward)]
            .into_iter()
            .enumerate()
        {
            let at = 2 * index + side;
            let counters = built.world.path(id).counters();
            let spec = current(cell, at, end);
            let log = &mut log.links[at];
            let waits = built.world.path(id).waits();
            all.push(LinkResult {
                name: format!("{}/{name}", path.name),
                rate_bps: spec.mean_rate_bps() as f64,
                offered_packets: counters.offered,
                queue_drops: counters.dropped_queue,
                random_losses: counters.dropped_loss,
                utilisation: if log.capacity_bits > 0.0 {
                    log.carried_bits / log.capacity_bits
                } else {
                    0.0
                },
                queue_ms: [0.5, 0.95, 0.99].map(|share| {
                    let wait = waits.map(|waits| waits.quantile(share));
                    wait.unwrap_or(Span::ZERO).as_secs_f64() * 1e3
                }),
            });
        }
    }
    all
}

/// Figures of single flows, and of all flows together.
fn figures(cell: &Cell, log: &Log, flows: &[FlowResult], end: Time) -> BTreeMap<String, f64> {
    let mut out = BTreeMap::new();
    let mut put = |name: String, value: Option<f64>| {
        out.extend(value.filter(|v| v.is_finite()).map(|value| (name, value)));
    };
    for flow in flows {
        let name = &flow.name;
        put(
            format!("feedback_bytes_per_gib/{name}"),
            metrics::feedback_per_gib(flow.feedback_wire_bytes, flow.delivered_bytes),
        );
        put(
            format!("forward_efficiency/{name}"),
            metrics::forward_efficiency(flow.delivered_bytes, flow.forward_wire_bytes),
        );
        put(
            format!("retransmit_share/{name}"),
            metrics::retransmit_share(flow.retransmitted_bytes, flow.sent_bytes),
        );
    }
    for ((flow, spec), log) in flows.iter().zip(&cell.flows).zip(&log.flows) {
        let peak = log.intervals.iter().map(|i| i.in_flight_bytes).max();
        put(
            format!("in_flight_peak_bytes/{}", flow.name),
            peak.filter(|&bytes| bytes > 0).map(|bytes| bytes as f64),
        );
        if let Some(took) = moved(cell, spec, flow) {
            for (name, value) in took {
                put(format!("{name}/{}", flow.name), Some(value));
            }
        }
    }
    let rates: Vec<f64> = flows.iter().map(|flow| flow.goodput_bps).collect();
    put(
        "sum_goodput_bps".to_owned(),
        (!rates.is_empty()).then(|| rates.iter().sum()),
    );
    if flows.len() < 2 {
        return out;
    }
    put("jain".to_owned(), metrics::jain(&rates));
    put("maxmin".to_owned(), metrics::max_min(&rates));
    if let [tested, partner] = rates[..] {
        put("asymmetry".to_owned(), metrics::asymmetry(tested, partner));
    }
    let last_start = flows.iter().map(|flow| flow.start_s).fold(0.0, f64::max);
    let from_s = last_start.max(seconds(cell.measure.warmup_ns));
    let interval_s = seconds(cell.measure.interval_ns);
    // The least Jain index of any second (RFC 5166 asks for fairness over time as well).
    let intervals = log
        .flows
        .iter()
        .map(|flow| flow.intervals.len())
        .min()
        .unwrap_or(0);
    let per_second = ((1.0 / interval_s).round() as usize).max(1);
    let first = (from_s / interval_s).ceil() as usize;
    let least = (first..intervals.saturating_sub(per_second - 1))
        .step_by(per_second)
        .filter_map(|at| {
            let second: Vec<f64> = log
                .flows
                .iter()
                .map(|flow| {
                    flow.intervals[at..at + per_second]
                        .iter()
                        .map(|i| i.goodput_bps)
                        .sum()
                })
                .collect();
            metrics::jain(&second)
        })
        .min_by(f64::total_cmp);
    put("jain_min".to_owned(), least);
    let progress: Vec<_> = (0..flows.len()).map(|index| log.progress(index)).collect();
    if last_start < end.as_secs_f64() {
        put(
            "convergence_s".to_owned(),
            metrics::converged_after(&progress, last_start, 10.0_f64.max(interval_s)),
        );
    }
    out
}

/// What somebody sees who moves a file (K13app, equations 1 to 3): the whole duration with the mover's
/// service time, the rate that it displays, and what they leave unexplained.
fn moved(cell: &Cell, spec: &FlowSpec, flow: &FlowResult) -> Option<[(&'static str, f64); 4]> {
    let (size, took_s) = (spec.size_bytes?, flow.completion_s?);
    let rtt = Span::from_secs_f64(route_rtt_s(cell, spec));
    let service_s =
        crate::movers::find(&spec.protocol).map_or(0.0, |mover| mover.service(rtt).as_secs_f64());
    let displayed_bps = size as f64 * 8.0 / took_s.max(1e-9);
    let duration_s = took_s + service_s;
    let slowest = spec
        .via
        .iter()
        .map(|&path| cell.paths[path].forward.mean_rate_bps());
    let slowest = slowest.filter(|&bps| bps > 0).min()?;
    let ideal_s = size as f64 * 8.0 / slowest as f64;
    Some([
        ("duration_s", duration_s),
        ("displayed_bps", displayed_bps),
        (
            "discrepancy_s",
            duration_s - size as f64 * 8.0 / displayed_bps,
        ),
        ("overhead_s", duration_s - ideal_s),
    ])
}

/// How each endless flow took each change of the path: `t90_ms/FLOW/1` for the first change, and
/// so on; `change_bps/FLOW/1` is the rate it settled at and `after_change_bps/FLOW/1` the mean of
/// the first five seconds.
fn changes(
    cell: &Cell,
    log: &Log,
    flows: &[FlowResult],
    end: Time,
    out: &mut BTreeMap<String, f64>,
) {
    let mut times: Vec<f64> = cell.timeline.iter().map(|c| seconds(c.at_ns)).collect();
    times.dedup();
    for (number, &at) in times.iter().enumerate() {
        let until = times.get(number + 1).copied().unwrap_or(end.as_secs_f64());
        for (index, flow) in flows.iter().enumerate() {
            if cell.flows[index].size_bytes.is_some() || until - at < 1.0 || flow.start_s > at {
                continue;
            }
            let progress = log.progress(index);
            let settled = progress.mean_bps(f64::midpoint(at, until), until);
            let window_s = route_rtt_s(cell, &cell.flows[index]).max(LEAST_WINDOW_S);
            let number = number + 1;
            let name = &flow.name;
            if let Some(t90) = metrics::ramp(progress, at, until, window_s, settled) {
                out.insert(format!("t90_ms/{name}/{number}"), t90 * 1e3);
            }
            out.insert(format!("change_bps/{name}/{number}"), settled);
            let first = progress.mean_bps(at, (at + 5.0).min(until));
            out.insert(format!("after_change_bps/{name}/{number}"), first);
        }
    }
}
