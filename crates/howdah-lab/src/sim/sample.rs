//! What is noted while a cell runs.

use super::build::{Built, current};
use super::plan::Plan;
use crate::scenario::{Cell, Change};
use howdah_core::{Observe as _, Time};
use howdah_path::{DelayHistogram, PathCounters};
use howdah_report::metrics::{self, Progress};
use howdah_report::result::Interval;
use howdah_rivals::udp::Received;
use howdah_sim::PathId;

/// Longest step between two looks.
const MAX_STEP_NS: u64 = 10_000_000;

/// Everything that was noted.
pub(crate) struct Log {
    steps: u64,
    steps_per_interval: u64,
    /// Step at which the warm-up is over.
    warm_at: u64,
    pub(crate) step_s: f64,
    pub(crate) flows: Vec<FlowLog>,
    pub(crate) streams: Vec<StreamLog>,
    /// Forward and backward of each path in turn.
    pub(crate) links: Vec<LinkLog>,
    /// Sum of all flows' goodput in each interval after the warm-up.
    rates: Vec<f64>,
}

/// The course of one flow.
#[derive(Default)]
pub(crate) struct FlowLog {
    /// Bytes delivered after each step.
    pub(crate) delivered: Vec<u64>,
    pub(crate) intervals: Vec<Interval>,
    at_last_interval: Counted,
    queue_ms_sum: f64,
}

/// The course of one stream.
#[derive(Default)]
pub(crate) struct StreamLog {
    pub(crate) intervals: Vec<Interval>,
    pub(crate) jitter_ms: Vec<f64>,
    at_last_interval: Received,
}

#[derive(Clone, Copy, Default)]
struct Counted {
    delivered: u64,
    wire: u64,
    retransmitted: u64,
}

/// The course of one direction of a path.
#[derive(Default)]
pub(crate) struct LinkLog {
    /// Bits that crossed the bottleneck, and that could have, behind the warm-up.
    pub(crate) carried_bits: f64,
    pub(crate) capacity_bits: f64,
    /// Since when, with what had been accepted by then.
    since: Option<(Time, Accepted)>,
    /// Waiting times that a watch has counted before.
    pub(crate) waited: Option<DelayHistogram>,
}

/// What a path has accepted, and how much of that has not left its queue.
#[derive(Clone, Copy)]
pub(super) struct Accepted {
    counters: PathCounters,
    queued_bytes: u64,
}

impl Accepted {
    pub(super) fn now(built: &Built, path: PathId) -> Self {
        let path = built.world.path(path);
        Self {
            counters: path.counters(),
            queued_bytes: path.queued_bytes(built.world.now()),
        }
    }

    /// Bytes that have passed the bottleneck, link overhead included. What waits in a stored queue has been accepted, and not been delivered yet.
    pub(super) fn passed_bytes(&self, overhead_bytes: u32) -> u64 {
        let counters = &self.counters;
        let packets = (counters.offered + counters.dropped_loss) - counters.dropped();
        let bytes =
            (counters.bytes_offered + counters.bytes_dropped_loss) - counters.bytes_dropped();
        (bytes + packets * u64::from(overhead_bytes)).saturating_sub(self.queued_bytes)
    }
}

impl Log {
    pub(crate) fn new(cell: &Cell, built: &mut Built) -> Self {
        let interval = cell.measure.interval_ns;
        let steps_per_interval = interval.div_ceil(MAX_STEP_NS);
        let step_ns = interval as f64 / steps_per_interval as f64;
        let mut log = Self {
            steps: 0,
            steps_per_interval,
            warm_at: (cell.measure.warmup_ns as f64 / step_ns).ceil() as u64,
            step_s: step_ns / 1e9,
            flows: cell.flows.iter().map(|_| FlowLog::default()).collect(),
            streams: cell.streams.iter().map(|_| StreamLog::default()).collect(),
            links: (0..2 * built.links.len())
                .map(|_| LinkLog::default())
                .collect(),
            rates: Vec::new(),
        };
        if log.warm_at == 0 {
            log.start_links(built);
        }
        log
    }

    /// When to look next.
    pub(crate) fn next_step(&self, cell: &Cell) -> Time {
        let step = u128::from(self.steps + 1) * u128::from(cell.measure.interval_ns);
        Time::from_nanos((step / u128::from(self.steps_per_interval)) as u64)
    }

    /// Looks. Returns whether an interval ends here.
    pub(crate) fn step(&mut self, cell: &Cell, built: &mut Built) -> bool {
        self.steps += 1;
        let now = built.world.now();
        if self.steps == self.warm_at {
            self.start_links(built);
        }
        for (log, (flow, spec)) in self
            .flows
            .iter_mut()
            .zip(built.flows.iter().zip(&cell.flows))
        {
            let receiver = built.world.endpoint(flow.ends.b);
            log.delivered.push(receiver.delivered_bytes());
            let wait: f64 = spec
                .via
                .iter()
                .map(|&path| {
                    let link = built.links[path];
                    let there = if spec.reverse {
                        link.backward
                    } else {
                        link.forward
                    };
                    built.world.path(there).queue_delay(now).as_secs_f64() * 1e3
                })
                .sum();
            log.queue_ms_sum += wait;
        }
        let ends = self.steps.is_multiple_of(self.steps_per_interval);
        if ends {
            self.end_interval(cell, built, now);
        }
        ends
    }

    fn end_interval(&mut self, cell: &Cell, built: &Built, now: Time) {
        let seconds = cell.measure.interval_ns as f64 / 1e9;
        let mut sum = 0.0;
        for (log, flow) in self.flows.iter_mut().zip(&built.flows) {
            let sender = built.world.endpoint(flow.ends.a).snapshot();
            let counters = built.world.counters(flow.ends.a);
            let header = u64::from(flow.header_bytes);
            let counted = Counted {
                delivered: log.delivered.last().copied().unwrap_or(0),
                wire: counters.sent_bytes + header * counters.sent_datagrams,
                retransmitted: sender.retransmitted_bytes,
            };
            let before = std::mem::replace(&mut log.at_last_interval, counted);
            let goodput_bps = metrics::goodput_bps(counted.delivered - before.delivered, seconds);
            sum += goodput_bps;
            log.intervals.push(Interval {
                t_s: now.as_secs_f64(),
                goodput_bps,
                wire_bps: metrics::goodput_bps(counted.wire - before.wire, seconds),
                retransmitted_bytes: counted.retransmitted - before.retransmitted,
                cwnd_bytes: sender.cwnd_bytes.unwrap_or(0),
                in_flight_bytes: sender.in_flight_bytes,
                srtt_ms: sender.srtt.map_or(0.0, |rtt| rtt.as_secs_f64() * 1e3),
                queue_ms: log.queue_ms_sum / self.steps_per_interval as f64,
            });
            log.queue_ms_sum = 0.0;
        }
        if self.steps > self.warm_at {
            self.rates.push(sum);
        }
        for (log, stream) in self.streams.iter_mut().zip(&built.streams) {
            let received = built.world.endpoint(stream.ends.b).received();
            let news = received.since(&log.at_last_interval);
            log.at_last_interval = received;
            log.jitter_ms.push(received.smoothed_jitter_ns / 1e6);
            log.intervals.push(Interval {
                t_s: now.as_secs_f64(),
                goodput_bps: metrics::goodput_bps(news.bytes, seconds),
                ..Interval::default()
            });
        }
    }

    /// The mean is known as well as the scenario asks for.
    pub(crate) fn is_settled(&self, cell: &Cell) -> bool {
        cell.measure
            .settle
            .is_some_and(|share| metrics::settled(&self.rates, share))
    }

    /// Closes the books of a path before it becomes another one.
    pub(crate) fn before_change(&mut self, cell: &Cell, built: &Built, change: &Change) {
        let link = built.links[change.path];
        for (side, path) in [link.forward, link.backward].into_iter().enumerate() {
            self.account(cell, built, 2 * change.path + side, path);
        }
    }

    /// Closes the books of all paths.
    pub(crate) fn account_all(&mut self, cell: &Cell, built: &Built) {
        for (at, path) in paths(built).enumerate() {
            self.account(cell, built, at, path);
        }
    }

    /// The measured part begins.
    fn start_links(&mut self, built: &mut Built) {
        let ids: Vec<PathId> = paths(built).collect();
        for (log, path) in self.links.iter_mut().zip(ids) {
            log.since = Some((built.world.now(), Accepted::now(built, path)));
            log.waited = built.world.path(path).waits().cloned();
            built.world.count_waits(path);
        }
    }

    /// Puts the plan's stretch, as often as it says, behind its first time.
    pub(crate) fn repeat(&mut self, cell: &Cell, plan: &Plan) {
        let steps = self.steps_per_interval as usize;
        let interval_s = cell.measure.interval_ns as f64 / 1e9;
        let width = plan.to - plan.from;
        for log in &mut self.flows {
            let at = |step: usize| {
                step.checked_sub(1)
                    .map_or(0, |before| log.delivered[before])
            };
            let (start, end) = (at(plan.from * steps), at(plan.to * steps));
            let more = |skipped: usize| {
                let copies = (skipped / (width * steps)) as u64;
                copies * (end - start) + at(plan.from * steps + skipped % (width * steps)) - start
            };
            let stretch: Vec<u64> = (1..=plan.skipped * steps)
                .map(|skipped| end + more(skipped))
                .collect();
            let all = more(plan.skipped * steps);
            log.delivered[plan.to * steps..]
                .iter_mut()
                .for_each(|bytes| *bytes += all);
            log.delivered
                .splice(plan.to * steps..plan.to * steps, stretch);
            let seen = log.intervals[plan.from..plan.to].to_vec();
            let stretch = seen.into_iter().cycle().take(plan.skipped);
            log.intervals.splice(plan.to..plan.to, stretch);
            for (index, interval) in log.intervals.iter_mut().enumerate().skip(plan.to) {
                interval.t_s = (index + 1) as f64 * interval_s;
            }
        }
    }

    /// Adds what was carried since the last time. The rate is the one that the timeline has given
    /// the path before now.
    fn account(&mut self, cell: &Cell, built: &Built, at: usize, path: PathId) {
        let now = built.world.now();
        let log = &mut self.links[at];
        let Some((since, before)) = log.since else {
            // Still warming up.
            return;
        };
        let after = Accepted::now(built, path);
        log.since = Some((now, after));
        let spec = current(cell, at, now);
        let bytes = after.passed_bytes(spec.overhead_bytes) as f64
            - before.passed_bytes(spec.overhead_bytes) as f64;
        log.carried_bits += bytes * 8.0;
        log.capacity_bits += spec.capacity_bits(since.as_nanos(), now.as_nanos());
    }

    /// Bytes delivered over time.
    pub(crate) fn progress(&self, flow: usize) -> Progress<'_> {
        Progress {
            step_s: self.step_s,
            bytes: &self.flows[flow].delivered,
        }
    }
}

/// All directions, forward and backward of each path in turn.
fn paths(built: &Built) -> impl Iterator<Item = PathId> {
    built
        .links
        .iter()
        .flat_map(|link| [link.forward, link.backward])
}
