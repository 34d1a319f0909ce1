//! From what was seen and said to the result.

use super::course::{Course, Route, STEP_S};
use super::plan::Plan;
use super::stage::{Acted, Played};
use super::tcp_counts::{TcpCounts, segment_bytes};
use crate::figures::{self, Course as Series};
use crate::scenario::{Cell, GroupSpec, StreamSpec};
use crate::start::{self, Seen};
use howdah_load::short_flows::ShortReport;
use howdah_load::stream::SinkReport;
use howdah_load::tcp::TcpSample;
use howdah_report::metrics::{self, Progress};
use howdah_report::result::{
    CellResult, CertificateNote, FlowResult, GroupResult, Interval, LinkResult, Mark, StreamResult,
};
use howdah_report::stats;
use std::collections::BTreeMap;

/// From this share of the run on without processor time to spare, the machine is said to be the limit.
const HOST_LIMITED: f64 = 0.5;

pub(super) fn result(cell: &Cell, plan: &Plan, played: &Played) -> CellResult {
    let id = cell.id();
    // The steps of its series are no shorter than those in which the emulator is looked at.
    let mut cell = cell.clone();
    cell.measure.interval_ns = cell.measure.interval_ns.max((STEP_S * 1e9) as u64);
    let cell = &cell;
    let end_s = played.end_s;
    let course = &played.course;
    let steps: Vec<Vec<u64>> = (0..cell.flows.len())
        .map(|index| {
            let scale = scale(course, plan, &played.flows[index], index, end_s);
            let mut bytes = course.series(end_s, |routes| payload(&routes[plan.flow(index).route]));
            for count in &mut bytes {
                *count = (*count as f64 * scale) as u64;
            }
            bytes
        })
        .collect();
    let mut flows: Vec<FlowResult> = (0..cell.flows.len())
        .map(|index| flow(cell, plan, played, index, &steps[index]))
        .collect();
    for (index, flow) in flows.iter_mut().enumerate() {
        flow.intervals = intervals(cell, plan, played, index, &steps[index]);
    }
    let metrics = {
        let series: Vec<Series<'_>> = flows
            .iter()
            .zip(&steps)
            .map(|(flow, bytes)| Series {
                progress: progress(bytes),
                intervals: &flow.intervals,
            })
            .collect();
        let mut metrics = figures::figures(cell, &series, &flows, end_s);
        figures::changes(cell, &series, &flows, end_s, &mut metrics);
        if cell.measure.start {
            starts(cell, plan, played, &flows, &mut metrics);
        }
        for (spec, acted) in cell.flows.iter().zip(&played.flows) {
            for (role, used) in [("sender", &acted.sender), ("receiver", &acted.receiver)] {
                let name = format!("memory_{role}_bytes/{}", spec.name);
                metrics.insert(name, used.peak_rss_bytes as f64);
            }
        }
        metrics
    };
    let certificate = &played.certificate;
    let mut marks = Vec::new();
    if certificate.machine_saturated_share > HOST_LIMITED {
        marks.push(Mark::HostLimited);
    } else if !certificate.valid {
        marks.push(Mark::Invalid);
    }
    CellResult {
        id,
        experiment: cell.experiment.clone(),
        at: cell.at.clone(),
        testbed: "netns".to_owned(),
        seed: cell.seed,
        duration_s: end_s,
        marks,
        certificate: Some(CertificateNote {
            valid: certificate.valid,
            objections: certificate.objections.clone(),
            emulator: serde_json::to_value(certificate).unwrap_or_default(),
            environment: played.environment.clone(),
        }),
        groups: (cell.groups.iter().zip(&played.groups))
            .map(|(spec, played)| group(spec, played, offered(cell, spec, end_s)))
            .collect(),
        streams: (cell.streams.iter().zip(&played.streams))
            .map(|(spec, (sent, sink))| stream(cell, spec, *sent, sink, end_s))
            .collect(),
        links: links(cell, played),
        metrics,
        flows,
        ..CellResult::default()
    }
}

/// Adds the figures of each flow's start.
fn starts(
    cell: &Cell,
    plan: &Plan,
    played: &Played,
    flows: &[FlowResult],
    out: &mut BTreeMap<String, f64>,
) {
    let course = &played.course;
    for (index, (spec, flow)) in cell.flows.iter().zip(flows).enumerate() {
        let route = plan.flow(index).route;
        let Some(first_s) = course.first_sent_s(route) else {
            continue;
        };
        let scale = scale(course, plan, &played.flows[index], index, played.end_s);
        let bytes: Vec<u64> = (course.fine_series(played.end_s, |routes| payload(&routes[route])))
            .into_iter()
            .map(|bytes| (bytes as f64 * scale) as u64)
            .collect();
        let dropped = spec.via.iter().map(|&path| {
            let way = played
                .certificate
                .directions
                .get(2 * path + usize::from(spec.reverse));
            way.map_or(0, |(_, way)| way.path.dropped_queue + way.path.dropped_aqm)
        });
        let seen = Seen {
            progress: Progress {
                step_s: course.step_s(),
                bytes: &bytes,
            },
            payload_share: figures::payload_share(cell, spec, flow),
            from_s: first_s + figures::way_s(cell, spec),
            end_s: played.end_s,
            sent: flow.forward_packets,
            dropped: dropped.sum(),
        };
        start::add(cell, spec, &seen, out);
    }
}

/// Payload that has reached the receiving host of a route.
fn payload(route: &Route) -> u64 {
    let [(_, delivered), _] = route;
    delivered.payload_bytes
}

const fn progress(bytes: &[u64]) -> Progress<'_> {
    Progress {
        step_s: STEP_S,
        bytes,
    }
}

/// User bytes for each byte of payload that the emulator saw arrive: less than 1, because of the protocol's
/// own headers and of what came twice. 1 where the program does not tell.
fn scale(course: &Course, plan: &Plan, acted: &Acted, index: usize, end_s: f64) -> f64 {
    let seen = payload(&course.at(end_s, plan.flow(index).route));
    match acted.figures.delivered_bytes {
        Some(bytes) if seen > 0 => (bytes as f64 / seen as f64).min(1.0),
        _ => 1.0,
    }
}

fn flow(cell: &Cell, plan: &Plan, played: &Played, index: usize, steps: &[u64]) -> FlowResult {
    let spec = &cell.flows[index];
    let acted = &played.flows[index];
    let said = &acted.figures;
    let route = plan.flow(index).route;
    let start_s = acted.started_s.min(played.end_s);
    let completion_s = acted
        .ended_s
        .map(|ended_s| said.seconds.unwrap_or(ended_s - start_s));
    let end_s = completion_s.map_or(played.end_s, |took| (start_s + took).min(played.end_s));
    let [(sent, _), (fed_back, _)] = played.course.at(played.end_s, route);
    let delivered_bytes = said
        .delivered_bytes
        // Of an endless flow the programs also count what a queue still held at the end.
        .filter(|_| completion_s.is_some())
        .unwrap_or_else(|| steps.last().copied().unwrap_or(0));
    let goodput_bps = metrics::goodput_bps(delivered_bytes, end_s - start_s);
    let warm_s = (cell.measure.warmup_ns as f64 / 1e9).max(start_s);
    let steady = if end_s - warm_s > STEP_S && warm_s > start_s {
        progress(steps).mean_bps(warm_s, end_s)
    } else {
        goodput_bps
    };
    let counted = counted(acted);
    let segment = segment_bytes(plan.mtu(route));
    let again = counted.map(|counts| counts.retransmitted_segments * segment);
    FlowResult {
        name: spec.name.clone(),
        protocol: spec.protocol.clone(),
        algorithm: said.algorithm.clone(),
        reverse: spec.reverse,
        connections: None,
        start_s,
        end_s,
        delivered_bytes,
        goodput_bps,
        steady_goodput_bps: steady,
        completion_s,
        failed: None,
        sent_bytes: said.sent_bytes.unwrap_or(sent.payload_bytes),
        retransmitted_bytes: said.retransmitted_bytes.or(again),
        forward_packets: sent.packets,
        forward_wire_bytes: sent.wire_bytes(),
        feedback_packets: fed_back.packets,
        feedback_wire_bytes: fed_back.wire_bytes(),
        congestion_events: counted.map(|counts| counts.recoveries),
        timeouts: counted.map(|counts| counts.timeouts),
        ramp_s: metrics::ramp(
            progress(steps),
            start_s,
            end_s,
            figures::ramp_window_s(cell, spec),
            steady,
        ),
        sender_cpu_s: acted.sender.cpu_s,
        receiver_cpu_s: acted.receiver.cpu_s,
        intervals: Vec::new(),
    }
}

fn intervals(
    cell: &Cell,
    plan: &Plan,
    played: &Played,
    index: usize,
    steps: &[u64],
) -> Vec<Interval> {
    let length_s = figures::seconds(cell.measure.interval_ns);
    let route = plan.flow(index).route;
    let wire = played
        .course
        .series(played.end_s, |routes| routes[route][0].0.wire_bytes());
    let acted = &played.flows[index];
    let segment = segment_bytes(plan.mtu(route));
    let mut before = 0;
    (1..=(played.end_s / length_s + 1e-6) as usize)
        .map(|number| {
            let (from_s, t_s) = ((number - 1) as f64 * length_s, number as f64 * length_s);
            let state = state_at(&acted.figures.samples, t_s - acted.started_s);
            let retransmitted = if acted.figures.samples.is_empty() {
                retransmitted_until(acted, t_s)
            } else {
                state.retransmitted_segments
            };
            let interval = Interval {
                t_s,
                goodput_bps: progress(steps).mean_bps(from_s, t_s),
                wire_bps: progress(&wire).mean_bps(from_s, t_s),
                retransmitted_bytes: (retransmitted - before) * segment,
                cwnd_bytes: state.cwnd_bytes,
                in_flight_bytes: state.in_flight_bytes,
                srtt_ms: state.srtt_ms,
                queue_ms: 0.0,
            };
            before = retransmitted;
            interval
        })
        .collect()
}

/// What the kernel counted of the flow, if its TCP carries it.
fn counted(acted: &Acted) -> Option<TcpCounts> {
    let (_, counts) = acted.counts.last().filter(|_| acted.figures.over_tcp)?;
    Some(*counts)
}

/// Segments that the kernel's TCP had sent again by then; 0 of other transports, which do not tell.
fn retransmitted_until(acted: &Acted, t_s: f64) -> u64 {
    let mut before = acted.counts.iter().rev().filter(|(at_s, _)| *at_s <= t_s);
    let latest = before.next().filter(|_| acted.figures.over_tcp);
    latest.map_or(0, |(_, counts)| counts.retransmitted_segments)
}

/// The last sample before that moment.
fn state_at(samples: &[TcpSample], t_s: f64) -> TcpSample {
    let found = samples.iter().rfind(|sample| sample.t_s <= t_s);
    found.copied().unwrap_or_default()
}

/// Of the flows that have begun by the end.
fn offered(cell: &Cell, spec: &GroupSpec, end_s: f64) -> u64 {
    let flows = crate::sim::draw(spec, cell.seed);
    let begun = (flows.iter()).filter(|short| figures::seconds(short.start_ns) < end_s);
    begun.map(|short| short.size_bytes).sum()
}

fn group(
    spec: &GroupSpec,
    (report, timeouts): &(ShortReport, Option<u64>),
    offered_bytes: u64,
) -> GroupResult {
    let mut times: Vec<f64> = report.finished.iter().map(|(_, took)| *took).collect();
    times.sort_by(f64::total_cmp);
    let quantile = |share| stats::quantile(&times, share);
    GroupResult {
        name: spec.name.clone(),
        reverse: spec.reverse,
        algorithm: format!("kernel {}", report.congestion),
        flows: report.started,
        finished: report.finished.len() as u64,
        bytes: report.finished.iter().map(|(bytes, _)| bytes).sum(),
        offered_bytes,
        throughput_bps: metrics::short_throughput_bps(report.finished.iter().copied()),
        completion_s: figures::percentiles(&times),
        completion_cdf_s: (0..=100)
            .filter_map(|percent| quantile(f64::from(percent) / 100.0))
            .collect(),
        timeouts: *timeouts,
    }
}

fn stream(
    cell: &Cell,
    spec: &StreamSpec,
    sent: u64,
    sink: &SinkReport,
    end_s: f64,
) -> StreamResult {
    let length_s = figures::seconds(cell.measure.interval_ns);
    let begin_s = figures::seconds(spec.start_ns);
    let ends = (1..=(end_s / length_s + 1e-6) as usize).map(|number| number as f64 * length_s);
    let (intervals, jitter_series_ms) = ends
        .map(|t_s| {
            let [(before, _), (now, jitter_ms)] =
                [t_s - length_s, t_s].map(|at_s| seen_at(&sink.samples, at_s - begin_s));
            let interval = Interval {
                t_s,
                goodput_bps: (now - before) * 8.0 / length_s,
                ..Interval::default()
            };
            (interval, jitter_ms)
        })
        .unzip();
    StreamResult {
        name: spec.name.clone(),
        reverse: spec.reverse,
        sent_packets: sent,
        // Every datagram has had its time to arrive before the sink was ended.
        lost_packets: sent.saturating_sub(sink.packets),
        jitter_ms: sink.jitter_ms,
        delivered_bytes: sink.bytes,
        jitter_series_ms,
        intervals,
    }
}

/// Bytes so far and jitter in milliseconds so long after the first datagram; between two samples bytes come evenly.
fn seen_at(samples: &[(f64, u64, f64)], at_s: f64) -> (f64, f64) {
    let next = samples.partition_point(|sample| sample.0 <= at_s);
    let Some(&(from_s, bytes, jitter_ms)) = next.checked_sub(1).and_then(|at| samples.get(at))
    else {
        return (0.0, 0.0);
    };
    let more = samples.get(next).map_or(0.0, |&(to_s, then, _)| {
        (then.saturating_sub(bytes)) as f64 * (at_s - from_s) / (to_s - from_s)
    });
    (bytes as f64 + more, jitter_ms)
}

fn links(cell: &Cell, played: &Played) -> Vec<LinkResult> {
    let certificate = &played.certificate;
    let mut all = Vec::new();
    for (index, path) in cell.paths.iter().enumerate() {
        let changed = cell.timeline.iter().rfind(|change| change.path == index);
        let specs = match changed {
            Some(change) => [&change.forward, &change.backward],
            None => [&path.forward, &path.backward],
        };
        for (side, name) in ["forward", "backward"].into_iter().enumerate() {
            let Some((_, direction)) = certificate.directions.get(2 * index + side) else {
                continue;
            };
            let counters = &direction.path;
            let rate_bps = specs[side].mean_rate_bps() as f64;
            let end_ns = (played.end_s * 1e9) as u64;
            let capacity_bits = figures::capacity_bits(cell, index, side == 1, (0, end_ns));
            let carried = counters.bytes_delivered + counters.bytes_dropped_loss;
            let packets = counters.delivered + counters.dropped_loss;
            let link_bytes = carried + packets * u64::from(specs[side].overhead_bytes);
            all.push(LinkResult {
                name: format!("{}/{name}", path.name),
                rate_bps,
                offered_packets: counters.offered,
                queue_drops: counters.dropped_queue,
                aqm_drops: counters.dropped_aqm,
                marked: counters.marked,
                random_losses: counters.dropped_loss,
                utilisation: if capacity_bits > 0.0 {
                    link_bytes as f64 * 8.0 / capacity_bits
                } else {
                    0.0
                },
                queue_ms: direction.queue_ms,
                queue_mean_ms: None,
                rates_bps: figures::rates_bps(cell, index, side == 1, end_ns),
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;
    use std::path::Path;

    #[test]
    fn a_stream_has_a_series() {
        let text = "id = 'T'\n[path.main]\nrate = '10mbit'\nrtt = '10ms'\n[stream.video]\nrate = '1mbit'\nstart = '1s'\n\
                    [measure]\nduration = '4s'\n";
        let plan = scenario::parse(Path::new("t.toml"), text, false).unwrap();
        let cell = plan.cells().next().unwrap();
        // 1 Mbit/s for a second and a half, and nothing more.
        let sample = |at: u32| (f64::from(at) / 10.0, u64::from(at) * 12_500, f64::from(at));
        let sink = SinkReport {
            samples: (0..=15).map(sample).collect(),
            ..SinkReport::default()
        };
        let found = stream(cell, &cell.streams[0], 15, &sink, 4.0);
        let rates = found
            .intervals
            .iter()
            .map(|interval| interval.goodput_bps.round() as u64);
        assert_eq!(rates.collect::<Vec<_>>(), [0, 1_000_000, 500_000, 0]);
        let ends = found
            .intervals
            .iter()
            .map(|interval| interval.t_s.round() as u64);
        assert_eq!(ends.collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(found.jitter_series_ms, [0.0, 10.0, 15.0, 15.0]);
    }
}
