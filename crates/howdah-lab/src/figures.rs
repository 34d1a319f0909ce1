//! Figures that follow from the course of the flows, in virtual time and on a testbed alike.

use crate::scenario::{Cell, FlowSpec, LossSpec, OneWaySpec};
use howdah_core::Span;
use howdah_report::metrics::{self, Progress};
use howdah_report::result::{FlowResult, Interval};
use howdah_report::stats;
use std::collections::BTreeMap;

/// Window of the search for 90 % of a rate: a round trip, but at least this many seconds.
const LEAST_WINDOW_S: f64 = 0.1;

/// The course of one flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course<'a> {
    /// Bytes delivered, at equal steps.
    pub(crate) progress: Progress<'a>,
    /// Its intervals.
    pub(crate) intervals: &'a [Interval],
}

/// Half, 95 % and 99 % of them are no longer than that; `None` of nothing.
pub(crate) fn percentiles(values: &[f64]) -> Option<[f64; 3]> {
    let of = |share| stats::quantile(values, share);
    Some([of(0.5)?, of(0.95)?, of(0.99)?])
}

pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Window in which a rate is looked for: a round trip of the flow, but not too short.
pub(crate) fn ramp_window_s(cell: &Cell, spec: &FlowSpec) -> f64 {
    route_rtt_s(cell, spec).max(LEAST_WINDOW_S)
}

/// Round-trip time of the route at the start, without queues.
pub(crate) fn route_rtt_s(cell: &Cell, spec: &FlowSpec) -> f64 {
    let ns: u64 = spec
        .via
        .iter()
        .map(|&path| cell.paths[path].forward.delay_ns + cell.paths[path].backward.delay_ns)
        .sum();
    seconds(ns)
}

/// A direction of a path as it is from a moment on.
fn way_at(cell: &Cell, path: usize, backward: bool, at_ns: u64) -> &OneWaySpec {
    let changed =
        (cell.timeline.iter()).rfind(|change| change.path == path && change.at_ns <= at_ns);
    let (forward, back) = match changed {
        Some(change) => (&change.forward, &change.backward),
        None => (&cell.paths[path].forward, &cell.paths[path].backward),
    };
    if backward { back } else { forward }
}

/// Bits that a direction of a path lets pass from `from_ns` to `end_ns`, whatever changes on the way; 0 is unlimited.
pub(crate) fn capacity_bits(
    cell: &Cell,
    path: usize,
    backward: bool,
    (from_ns, end_ns): (u64, u64),
) -> f64 {
    let changes = cell.timeline.iter().filter(|change| change.path == path);
    let mut times: Vec<u64> = std::iter::once(from_ns)
        .chain(changes.map(|change| change.at_ns.clamp(from_ns, end_ns)))
        .collect();
    times.push(end_ns);
    times
        .windows(2)
        .map(|part| way_at(cell, path, backward, part[0]).capacity_bits(part[0], part[1]))
        .sum()
}

/// What a direction of a path lets pass in each of the intervals that a cell is measured in, on average, in bit/s. Empty if that is the same
/// in all of them, or if nothing limits it for a while: 0 is nothing.
pub(crate) fn rates_bps(cell: &Cell, path: usize, backward: bool, end_ns: u64) -> Vec<f64> {
    let interval_ns = cell.measure.interval_ns;
    let changes = cell.timeline.iter().filter(|change| change.path == path);
    let mut moments = std::iter::once(0).chain(changes.map(|change| change.at_ns));
    let is_open = |way: &OneWaySpec| way.rate_bps.is_none() && way.rate_trace.is_none();
    if moments.any(|at_ns| is_open(way_at(cell, path, backward, at_ns))) {
        return Vec::new();
    }
    let rates: Vec<f64> = (0..end_ns / interval_ns)
        .map(|at| {
            let part = (at * interval_ns, (at + 1) * interval_ns);
            let bits = capacity_bits(cell, path, backward, part);
            (bits / (interval_ns as f64 / 1e9)).round()
        })
        .collect();
    let is_one = rates.windows(2).all(|pair| (pair[0] - pair[1]).abs() < 1.0);
    if is_one { Vec::new() } else { rates }
}

/// What user bytes can at most pass a flow's route in a second from a moment on, in bits, where random loss is independent of
/// everything: the share of the narrowest path that is payload and is not lost. `None` without a rate, or with another loss.
pub(crate) fn bound_bps(
    cell: &Cell,
    spec: &FlowSpec,
    payload_share: f64,
    at_ns: u64,
) -> Option<f64> {
    let mut least: Option<f64> = None;
    let mut passes = 1.0;
    for &path in &spec.via {
        let there = way_at(cell, path, spec.reverse, at_ns);
        passes *= match there.loss {
            LossSpec::None => 1.0,
            LossSpec::Bernoulli(p) => 1.0 - p,
            _ => return None,
        };
        if let Some(bps) = lets_pass_bps(there) {
            least = Some(least.map_or(bps, |least| least.min(bps)));
        }
    }
    least.map(|bps| bps * payload_share * passes)
}

/// What a direction of a path lets pass on average in bit/s: as fast as its link, and no more than its token bucket. `None` without either.
fn lets_pass_bps(way: &OneWaySpec) -> Option<f64> {
    let rates = [way.mean_rate_bps(), way.bucket.map_or(0, |bucket| bucket.0)];
    let limits = rates.into_iter().filter(|&bps| bps > 0);
    limits.min().map(|bps| bps as f64)
}

/// How many flows, this one among them, go through the narrowest place of its route in its direction.
fn sharers(cell: &Cell, spec: &FlowSpec, at_ns: u64) -> usize {
    let rate = |&path: &usize| lets_pass_bps(way_at(cell, path, spec.reverse, at_ns));
    let limited = spec
        .via
        .iter()
        .filter_map(|path| Some((rate(path)?, *path)));
    let Some((_, narrowest)) = limited.min_by(|a, b| a.0.total_cmp(&b.0)) else {
        return 1;
    };
    let there = (cell.flows.iter())
        .filter(|flow| flow.reverse == spec.reverse && flow.via.contains(&narrowest));
    there.count().max(1)
}

/// From the sending to the receiving host at the start, without queues.
pub(crate) fn way_s(cell: &Cell, spec: &FlowSpec) -> f64 {
    let ways = spec
        .via
        .iter()
        .map(|&path| way_at(cell, path, spec.reverse, 0).delay_ns);
    seconds(ways.sum())
}

/// The share of what a flow puts on its narrowest link that is payload.
pub(crate) fn payload_share(cell: &Cell, spec: &FlowSpec, flow: &FlowResult) -> f64 {
    let ways = (spec.via.iter()).map(|&path| way_at(cell, path, spec.reverse, 0).overhead_bytes);
    // Counted with the 14 bytes that an interface sees.
    let more = u64::from(ways.max().unwrap_or(14).max(14)) - 14;
    let wire = flow.forward_wire_bytes + more * flow.forward_packets;
    flow.sent_bytes as f64 / wire.max(1) as f64
}

/// The longest time that a flow stood still between its first byte and its end: whole intervals in which nothing arrived.
fn longest_stall_s(flow: &FlowResult, intervals: &[Interval], interval_s: f64) -> f64 {
    let active = (intervals.iter())
        .skip_while(|interval| interval.goodput_bps <= 0.0)
        .take_while(|interval| interval.t_s <= flow.end_s + 1e-9);
    let (mut longest, mut still) = (0_u32, 0_u32);
    for interval in active {
        still = if interval.goodput_bps > 0.0 {
            0
        } else {
            still + 1
        };
        longest = longest.max(still);
    }
    f64::from(longest) * interval_s
}

/// Figures of single flows, and of all flows together.
pub(crate) fn figures(
    cell: &Cell,
    course: &[Course<'_>],
    flows: &[FlowResult],
    end_s: f64,
) -> BTreeMap<String, f64> {
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
            (flow.retransmitted_bytes)
                .and_then(|again| metrics::retransmit_share(again, flow.sent_bytes)),
        );
    }
    for ((flow, spec), course) in flows.iter().zip(&cell.flows).zip(course) {
        put(
            format!("longest_stall_s/{}", flow.name),
            Some(longest_stall_s(
                flow,
                course.intervals,
                seconds(cell.measure.interval_ns),
            )),
        );
        let peak = course.intervals.iter().map(|i| i.in_flight_bytes).max();
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
    // Over the time in which any of them was active: means over different times do not add up.
    let from_s = flows
        .iter()
        .map(|flow| flow.start_s)
        .fold(f64::MAX, f64::min);
    let to_s = flows.iter().map(|flow| flow.end_s).fold(0.0, f64::max);
    let bytes = flows.iter().map(|flow| flow.delivered_bytes).sum();
    put(
        "sum_goodput_bps".to_owned(),
        (!flows.is_empty()).then(|| metrics::goodput_bps(bytes, to_s - from_s)),
    );
    let warm_s = seconds(cell.measure.warmup_ns);
    let steady_bps = if warm_s <= from_s {
        // All of it is, and the steps of the progress would round what takes a few of them.
        metrics::goodput_bps(bytes, to_s - from_s)
    } else {
        let flows = course.iter();
        let each = flows.map(|flow| flow.progress.mean_bps(warm_s, to_s));
        each.sum()
    };
    put(
        "sum_steady_goodput_bps".to_owned(),
        (warm_s.max(from_s) < to_s).then_some(steady_bps),
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
    // Who is done lacks nothing: as long as all have something to send.
    let all_until_s = flows.iter().map(|flow| flow.end_s).fold(end_s, f64::min);
    // The least Jain index of any second (RFC 5166 asks for fairness over time as well).
    let intervals = course.iter().map(|flow| flow.intervals.len());
    let whole = (all_until_s / interval_s + 1e-9).floor() as usize;
    let intervals = intervals.fold(whole, usize::min);
    let per_second = ((1.0 / interval_s).round() as usize).max(1);
    let first = (from_s / interval_s).ceil() as usize;
    let least = (first..intervals.saturating_sub(per_second - 1))
        .step_by(per_second)
        .filter_map(|at| {
            let second: Vec<f64> = course
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
    let progress: Vec<_> = course
        .iter()
        .map(|flow| flow.progress.until(all_until_s))
        .collect();
    if last_start < all_until_s {
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
        crate::catalog::mover(&spec.protocol).map_or(0.0, |mover| mover.service(rtt).as_secs_f64());
    let displayed_bps = size as f64 * 8.0 / took_s.max(1e-9);
    let duration_s = took_s + service_s;
    let ways = spec.via.iter();
    let slowest = ways.map(|&path| way_at(cell, path, spec.reverse, 0).mean_rate_bps());
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

/// How each endless flow took each change of the path: `t90_ms/FLOW/1` for the first change, and so on, until it has 90 % of
/// its even share of what its route lets pass from then on (missing where it never does); `change_bps/FLOW/1` is the rate it
/// settled at and `after_change_bps/FLOW/1` the mean of the first five seconds.
pub(crate) fn changes(
    cell: &Cell,
    course: &[Course<'_>],
    flows: &[FlowResult],
    end_s: f64,
    out: &mut BTreeMap<String, f64>,
) {
    let mut times: Vec<f64> = cell.timeline.iter().map(|c| seconds(c.at_ns)).collect();
    times.dedup();
    for (number, &at) in times.iter().enumerate() {
        let until = times.get(number + 1).copied().unwrap_or(end_s);
        for (index, flow) in flows.iter().enumerate() {
            if cell.flows[index].size_bytes.is_some() || until - at < 1.0 || flow.start_s > at {
                continue;
            }
            let progress = course[index].progress;
            let settled = progress.mean_bps(f64::midpoint(at, until), until);
            let window_s = ramp_window_s(cell, &cell.flows[index]);
            let number = number + 1;
            let name = &flow.name;
            let share = payload_share(cell, &cell.flows[index], flow);
            let at_ns = (at * 1e9).round() as u64;
            let bound = bound_bps(cell, &cell.flows[index], share, at_ns);
            let even = bound.map(|bps| bps / sharers(cell, &cell.flows[index], at_ns) as f64);
            let t90 = even.and_then(|bps| metrics::ramp(progress, at, until, window_s, bps));
            if let Some(t90) = t90 {
                out.insert(format!("t90_ms/{name}/{number}"), t90 * 1e3);
            }
            out.insert(format!("change_bps/{name}/{number}"), settled);
            let first = progress.mean_bps(at, (at + 5.0).min(until));
            out.insert(format!("after_change_bps/{name}/{number}"), first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::parse;
    use std::path::Path;

    /// Two flows over a path that is ten times as fast for its second half.
    const TEXT: &str = "id = 'x'\n[path.main]\nrate = '10mbit'\nrtt = '20ms'\n[flow.a]\nprotocol = 'reno'\n\
                        [flow.b]\nprotocol = 'reno'\n[[timeline]]\nat = '30s'\nrate = '100mbit'\n[measure]\nduration = '60s'\n";

    fn cell_of(text: &str) -> Cell {
        let plan = parse(Path::new("x.toml"), text, false).unwrap();
        plan.cells().next().unwrap().clone()
    }

    fn cell() -> Cell {
        cell_of(TEXT)
    }

    fn flow(name: &str, start_s: f64, end_s: f64, mbit: f64) -> FlowResult {
        let bytes = (mbit * 1e6 / 8.0 * (end_s - start_s)) as u64;
        FlowResult {
            name: name.to_owned(),
            start_s,
            end_s,
            delivered_bytes: bytes,
            goodput_bps: mbit * 1e6,
            // A packet in a thousand bytes of payload, with 42 of IP and the interface's 14.
            sent_bytes: bytes,
            forward_packets: bytes / 1000,
            forward_wire_bytes: bytes + bytes / 1000 * 56,
            ..FlowResult::default()
        }
    }

    /// Bytes so far at steps of 10 ms, at a rate in Mbit/s until a time and another after it.
    fn course(before: f64, until_s: f64, after: f64) -> Vec<u64> {
        let mut sum = 0.0;
        (0..6000)
            .map(|step| {
                let mbit = if f64::from(step) * 0.01 < until_s {
                    before
                } else {
                    after
                };
                sum += mbit * 1e6 / 8.0 * 0.01;
                sum as u64
            })
            .collect()
    }

    fn seconds_of(bytes: &[u64]) -> Vec<Interval> {
        let at = |index: usize| if index == 0 { 0 } else { bytes[index - 1] };
        (1..=60)
            .map(|second| Interval {
                t_s: second as f64,
                goodput_bps: (at(100 * second) - at(100 * (second - 1))) as f64 * 8.0,
                ..Interval::default()
            })
            .collect()
    }

    fn with<T>(bytes: [&Vec<u64>; 2], look: impl FnOnce(&[Course<'_>]) -> T) -> T {
        let intervals = bytes.map(|bytes| seconds_of(bytes));
        let course = [0, 1].map(|at| Course {
            progress: Progress {
                step_s: 0.01,
                bytes: bytes[at],
            },
            intervals: &intervals[at],
        });
        look(&course)
    }

    #[test]
    fn flows_that_are_active_at_different_times_have_no_more_than_the_link() {
        // Each has all of 100 Mbit/s, one after the other.
        let flows = [flow("a", 0.0, 30.0, 100.0), flow("b", 30.0, 60.0, 100.0)];
        let (a, b) = (course(100.0, 30.0, 0.0), course(0.0, 30.0, 100.0));
        let found = with([&a, &b], |course| figures(&cell(), course, &flows, 60.0));
        for name in ["sum_goodput_bps", "sum_steady_goodput_bps"] {
            assert!(
                (found[name] / 1e8 - 1.0).abs() < 1e-3,
                "{name} {}",
                found[name]
            );
        }
        // b comes late, which is no stall, and a ends in time, which is none either.
        assert!(found["longest_stall_s/a"] < 1e-9 && found["longest_stall_s/b"] < 1e-9);
    }

    /// The steps of the progress are longer than it takes.
    #[test]
    fn a_flow_of_milliseconds_has_its_goodput_in_the_sums() {
        let flows = [flow("a", 0.0, 0.002, 6.0), flow("b", 0.0, 0.002, 1.0)];
        let (a, b) = (vec![1500; 6000], vec![250; 6000]);
        let found = with([&a, &b], |course| figures(&cell(), course, &flows, 0.002));
        for name in ["sum_goodput_bps", "sum_steady_goodput_bps"] {
            assert!(
                (found[name] / 7e6 - 1.0).abs() < 1e-3,
                "{name} {}",
                found[name]
            );
        }
    }

    #[test]
    fn a_flow_that_stands_still_is_found() {
        let flows = [flow("a", 0.0, 60.0, 50.0), flow("b", 0.0, 60.0, 50.0)];
        let mut a = course(50.0, 20.0, 0.0);
        // On from 45 s.
        for (index, bytes) in a.iter_mut().enumerate().skip(4500) {
            *bytes += (index as u64 - 4499) * 62_500;
        }
        let b = course(50.0, 60.0, 0.0);
        let found = with([&a, &b], |course| figures(&cell(), course, &flows, 60.0));
        assert!((found["longest_stall_s/a"] - 25.0).abs() < 1e-9);
        assert!(found["longest_stall_s/b"] < 1e-9);
    }

    /// A flow that stays slow when its path becomes ten times as fast has not arrived, however steady it is.
    #[test]
    fn the_time_after_a_change_is_told_by_what_the_path_lets_pass() {
        let flows = [flow("a", 0.0, 60.0, 25.0), flow("b", 0.0, 60.0, 5.0)];
        let (a, b) = (course(4.5, 32.0, 47.0), course(4.5, 32.0, 5.0));
        let mut found = BTreeMap::new();
        with([&a, &b], |course| {
            changes(&cell(), course, &flows, 60.0, &mut found);
        });
        // An even share is half of 100 Mbit/s, of which 1000 of 1080 bytes are payload.
        let t90 = found["t90_ms/a/1"];
        assert!((2000.0..2150.0).contains(&t90), "{t90}");
        assert!(!found.contains_key("t90_ms/b/1"), "{found:?}");
        assert!((found["change_bps/b/1"] / 5e6 - 1.0).abs() < 1e-3);
    }

    /// Who goes the other way takes nothing of it, and a bucket of half the rate lets half of it pass.
    #[test]
    fn a_share_is_of_those_who_go_the_same_way() {
        let flows = [flow("a", 0.0, 60.0, 25.0), flow("b", 0.0, 60.0, 5.0)];
        let (a, b) = (course(4.5, 32.0, 47.0), course(4.5, 32.0, 5.0));
        let t90 = |text: &str| {
            let mut found = BTreeMap::new();
            with([&a, &b], |course| {
                changes(&cell_of(text), course, &flows, 60.0, &mut found);
            });
            found.get("t90_ms/a/1").copied()
        };
        let both_ways = TEXT.replace(
            "protocol = 'reno'\n[[",
            "protocol = 'reno'\nreverse = true\n[[",
        );
        assert_ne!(both_ways, TEXT);
        assert_eq!(t90(&both_ways), None, "47 of 92.6 Mbit/s");
        let bucket = "rate = '100mbit'\nbucket = { rate = '50mbit', burst = '3kB' }";
        let half = both_ways.replace("rate = '100mbit'", bucket);
        assert!(t90(&half).is_some(), "47 of 46.3 Mbit/s");
    }

    #[test]
    fn what_a_path_lets_pass_follows_its_changes() {
        let cell = cell();
        let all = 60_000_000_000;
        let bits = capacity_bits(&cell, 0, false, (0, all));
        assert!((bits / 3.3e9 - 1.0).abs() < 1e-9, "{bits}");
        let rates = rates_bps(&cell, 0, false, all);
        let seconds = cell.measure.interval_ns as f64 / 1e9;
        let sum: f64 = rates.iter().map(|rate| rate * seconds).sum();
        assert!((sum / 3.3e9 - 1.0).abs() < 1e-6, "{sum}");
        let still = rates_bps(&cell, 0, false, cell.measure.interval_ns * 3);
        assert!(still.is_empty(), "{still:?}");
        // What is not limited has no rate, and is not shut.
        let open = TEXT.replace("rate = '100mbit'", "rate = 'unlimited'");
        assert!(rates_bps(&cell_of(&open), 0, false, all).is_empty());
    }
}
