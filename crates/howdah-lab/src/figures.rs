//! Figures that follow from the course of the flows, in virtual time and on a testbed alike.

use crate::scenario::{Cell, FlowSpec, LossSpec};
use howdah_core::Span;
use howdah_report::metrics::{self, Progress};
use howdah_report::result::{FlowResult, Interval};
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

/// What user bytes can at most pass a flow's route in a second, in bits, where random loss is independent of everything:
/// the share of the narrowest path that is payload and is not lost. `None` without a rate, or with another loss.
pub(crate) fn bound_bps(cell: &Cell, spec: &FlowSpec, payload_share: f64) -> Option<f64> {
    let mut least: Option<f64> = None;
    let mut passes = 1.0;
    for &path in &spec.via {
        let path = &cell.paths[path];
        let there = if spec.reverse {
            &path.backward
        } else {
            &path.forward
        };
        passes *= match there.loss {
            LossSpec::None => 1.0,
            LossSpec::Bernoulli(p) => 1.0 - p,
            _ => return None,
        };
        let bps = there.mean_rate_bps();
        if bps > 0 {
            least = Some(least.map_or(bps as f64, |least| least.min(bps as f64)));
        }
    }
    least.map(|bps| bps * payload_share * passes)
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
    let intervals = course
        .iter()
        .map(|flow| flow.intervals.len())
        .min()
        .unwrap_or(0);
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
    let progress: Vec<_> = course.iter().map(|flow| flow.progress).collect();
    if last_start < end_s {
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
            if let Some(t90) = metrics::ramp(progress, at, until, window_s, settled) {
                out.insert(format!("t90_ms/{name}/{number}"), t90 * 1e3);
            }
            out.insert(format!("change_bps/{name}/{number}"), settled);
            let first = progress.mean_bps(at, (at + 5.0).min(until));
            out.insert(format!("after_change_bps/{name}/{number}"), first);
        }
    }
}
