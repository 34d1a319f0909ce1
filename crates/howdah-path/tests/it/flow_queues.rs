//! FQ-`CoDel` (RFC 8290) and PIE (RFC 8033) on a path, against what the RFCs say and against theory.

use howdah_core::{Ecn, Rate, Span, Time};
use howdah_path::{
    Aqm, CoDelConfig, DropReason, FqCoDelConfig, OneWay, PathConfig, PieConfig, QueueLimit, Switch,
    Verdict,
};
use std::collections::{BTreeMap, VecDeque};

const MBIT: u64 = 100;
/// 1250 bytes at 100 Mbit/s.
const SERVICE_NS: u64 = 100_000;

/// A packet's flow, and what became of it.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    flow: u64,
    offered: Time,
    verdict: Verdict,
}

impl Outcome {
    fn wait(&self) -> Option<Span> {
        match self.verdict {
            Verdict::Deliver(delivery) => Some(delivery.at.since(self.offered)),
            _ => None,
        }
    }
}

/// A path, and the packets that wait in its lines, as a driver has them.
struct Driver {
    path: OneWay,
    waiting: BTreeMap<usize, VecDeque<(Time, u64)>>,
    outcomes: Vec<Outcome>,
}

impl Driver {
    fn new(aqm: Aqm, queue: QueueLimit) -> Self {
        let config = config(aqm, queue);
        Self {
            path: OneWay::new(&config, 1),
            waiting: BTreeMap::new(),
            outcomes: Vec::new(),
        }
    }

    fn settle(&mut self, line: usize, verdict: Verdict) {
        let waiting = self.waiting.get_mut(&line).expect("such a line");
        let (offered, flow) = waiting.pop_front().expect("it waits in that line");
        self.outcomes.push(Outcome {
            flow,
            offered,
            verdict,
        });
    }

    fn release_until(&mut self, now: Time) {
        while let Some(due) = self.path.next_release()
            && due <= now
        {
            // What is overfull is due at once, which lies in the past.
            let at = due.max(self.outcomes.last().map_or(Time::ZERO, |last| last.offered));
            let (line, verdict) = self.path.release_from(at).expect("somebody waits");
            self.settle(line, verdict);
        }
    }

    fn offer(&mut self, now: Time, flow: u64, ecn: Ecn) {
        self.release_until(now);
        let verdict = self.path.offer_flow(now, 1_250, ecn, flow);
        if verdict == Verdict::Queued {
            let line = self.path.queue_of(ecn, flow);
            self.waiting.entry(line).or_default().push_back((now, flow));
        } else {
            self.outcomes.push(Outcome {
                flow,
                offered: now,
                verdict,
            });
        }
        let waiting: usize = self.waiting.values().map(VecDeque::len).sum();
        assert_eq!(self.path.waiting(), waiting);
    }

    /// Packets of each flow, in (distance in ns, flow), offered for some time; then all of them leave.
    fn run(mut self, flows: &[(u64, u64, Ecn)], seconds: u64) -> Self {
        let mut offers: Vec<(u64, u64, Ecn)> = Vec::new();
        for &(gap_ns, flow, ecn) in flows {
            let count = seconds * 1_000_000_000 / gap_ns;
            offers.extend((0..count).map(|n| (n * gap_ns + flow, flow, ecn)));
        }
        offers.sort_unstable_by_key(|&(at, flow, _)| (at, flow));
        for (at, flow, ecn) in offers {
            self.offer(Time::from_nanos(at), flow, ecn);
        }
        self.release_until(Time::MAX);
        let counters = self.path.counters();
        assert_eq!(counters.offered, self.outcomes.len() as u64);
        assert_eq!(counters.offered, counters.delivered + counters.dropped());
        self
    }

    fn of(&self, flow: u64) -> impl Iterator<Item = &Outcome> {
        self.outcomes
            .iter()
            .filter(move |outcome| outcome.flow == flow)
    }

    fn delivered(&self, flow: u64) -> usize {
        self.of(flow)
            .filter(|outcome| outcome.wait().is_some())
            .count()
    }

    fn longest_wait(&self, flow: u64) -> Span {
        self.of(flow)
            .filter_map(Outcome::wait)
            .max()
            .unwrap_or(Span::ZERO)
    }
}

fn config(aqm: Aqm, queue: QueueLimit) -> PathConfig {
    PathConfig {
        rate: Some(Rate::from_mbit_per_sec(MBIT)),
        aqm,
        queue,
        link_overhead_bytes: 0,
        ..PathConfig::default()
    }
}

fn fq() -> Aqm {
    Aqm::FqCoDel(FqCoDelConfig {
        quantum_bytes: 1_250,
        ..FqCoDelConfig::default()
    })
}

/// Two flows that never stop and one packet a tenth of a second: the sparse one waits for the packet that is being sent and no other (it
/// is new each time), behind `CoDel` it waits as long as all.
#[test]
fn a_sparse_flow_does_not_wait_for_bulk() {
    let flows = [
        (SERVICE_NS * 6 / 5, 1, Ecn::NotEct),
        (SERVICE_NS * 6 / 5, 2, Ecn::NotEct),
        (100_000_000, 3, Ecn::NotEct),
    ];
    let apart = Driver::new(fq(), QueueLimit::Packets(10_240)).run(&flows, 10);
    assert_eq!(apart.delivered(3), 100);
    let longest = apart.longest_wait(3);
    assert!(longest <= Span::from_nanos(3 * SERVICE_NS), "{longest}");
    assert!(apart.longest_wait(1) > Span::from_millis(5));
    let together = Aqm::CoDel(CoDelConfig::default());
    let together = Driver::new(together, QueueLimit::Packets(10_240)).run(&flows, 10);
    assert!(together.longest_wait(3) > Span::from_millis(5));
}

/// Bulk flows have equal shares, however much each offers: max-min of 10, 200 and 400 % of the rate is 10, 45 and 45.
#[test]
fn shares_are_max_min() {
    let flows = [
        (SERVICE_NS * 10, 1, Ecn::NotEct),
        (SERVICE_NS / 2, 2, Ecn::NotEct),
        (SERVICE_NS / 4, 3, Ecn::NotEct),
    ];
    let driver = Driver::new(fq(), QueueLimit::Packets(1_000)).run(&flows, 10);
    let all: usize = [1, 2, 3].map(|flow| driver.delivered(flow)).iter().sum();
    assert_eq!(
        driver.delivered(1),
        10_000,
        "below its share nothing is lost"
    );
    for flow in [2, 3] {
        let share = driver.delivered(flow) as f64 / all as f64;
        assert!((share - 0.45).abs() < 0.01, "{flow}: {share}");
    }
}

/// Large packets count for what they weigh: a quantum is bytes (RFC 8290, 4.1).
#[test]
fn deficits_count_bytes() {
    let mut path = OneWay::new(&config(fq(), QueueLimit::Unlimited), 1);
    let mut waiting: BTreeMap<usize, VecDeque<u64>> = BTreeMap::new();
    for n in 0..2_000 {
        for (flow, bytes) in [(1, 1_250), (2, 250)] {
            if path.offer_flow(Time::from_nanos(n), bytes, Ecn::NotEct, flow) == Verdict::Queued {
                let line = path.queue_of(Ecn::NotEct, flow);
                waiting.entry(line).or_default().push_back(u64::from(bytes));
            }
        }
    }
    let small = path.queue_of(Ecn::NotEct, 2);
    let mut sent = [0_u64; 2];
    for _ in 0..1_200 {
        let due = path.next_release().expect("enough wait");
        let (line, _) = path.release_from(due).expect("somebody waits");
        let bytes = waiting.get_mut(&line).and_then(VecDeque::pop_front);
        sent[usize::from(line == small)] += bytes.expect("it waits there");
    }
    assert!(sent[0].abs_diff(sent[1]) <= 2 * 1_250, "{sent:?}");
}

/// Without room the longest line pays, from its head: the sparse flow that finds the queue full loses nothing (RFC 8290, 4.1.1).
#[test]
fn a_full_queue_drops_the_longest_line() {
    let mut driver = Driver::new(fq(), QueueLimit::Packets(100));
    for n in 0..100 {
        driver.offer(Time::from_nanos(n), 1, Ecn::NotEct);
    }
    for flow in 2..6 {
        driver.offer(Time::from_nanos(1_000 + flow), flow, Ecn::NotEct);
    }
    // Half of the 99 that wait goes at once.
    let is_full = |outcome: &&Outcome| outcome.verdict == Verdict::Drop(DropReason::QueueFull);
    assert_eq!(driver.of(1).filter(is_full).count(), 50);
    assert!(
        driver
            .of(1)
            .filter(is_full)
            .all(|first| first.offered.as_nanos() <= 50)
    );
    let driver = driver.run(&[], 0);
    for flow in 2..6 {
        assert_eq!(driver.delivered(flow), 1);
    }
    assert_eq!(driver.path.counters().dropped_queue, 50);
}

/// Each line has a `CoDel` of its own, which marks who can be marked.
#[test]
fn lines_are_controlled_apart() {
    let flows = [(SERVICE_NS, 1, Ecn::NotEct), (SERVICE_NS, 2, Ecn::Ect0)];
    let driver = Driver::new(fq(), QueueLimit::Unlimited).run(&flows, 5);
    let dropped = |flow| {
        driver
            .of(flow)
            .filter(|outcome| outcome.wait().is_none())
            .count()
    };
    let is_marked = |outcome: &&Outcome| matches!(outcome.verdict, Verdict::Deliver(delivery) if delivery.marked);
    assert!(dropped(1) > 20, "{}", dropped(1));
    assert_eq!(dropped(2), 0);
    assert!(driver.of(2).filter(is_marked).count() > 20);
    assert_eq!(driver.of(1).filter(is_marked).count(), 0);
}

/// A queue that becomes another kind while packets wait keeps them all, in lines that its driver knows.
#[test]
fn a_change_of_kind_keeps_what_waits() {
    let limit = QueueLimit::Unlimited;
    let plain = Aqm::CoDel(CoDelConfig::default());
    for (before, after) in [(fq(), plain), (plain, fq())] {
        let mut driver = Driver::new(before, limit);
        for n in 0..10 {
            driver.offer(Time::from_nanos(n), n % 3, Ecn::NotEct);
        }
        let now = Time::from_nanos(10);
        let fates = driver
            .path
            .switch(now, &config(after, limit), Switch::default());
        assert!(fates.is_empty());
        for n in 11..20 {
            driver.offer(Time::from_nanos(n), n % 3, Ecn::NotEct);
        }
        let driver = driver.run(&[], 0);
        assert_eq!(driver.path.counters().delivered, 19);
        let order: Vec<u64> = driver
            .outcomes
            .iter()
            .map(|outcome| outcome.offered.as_nanos())
            .collect();
        assert!(
            order.iter().take(10).all(|&at| at < 10),
            "those that waited first: {order:?}"
        );
    }
}

/// Flows as TCP in congestion avoidance: each sends a window per round trip (base plus queue), one more packet after each, half after a
/// drop or a mark. The mean wait behind the start is PIE's target, whatever their number; the window of a single flow goes down by half
/// of all that is under way, 27 ms of queue, so that its mean is below.
#[test]
fn pie_holds_its_target() {
    for (flows, ecn, target_ms) in [
        (1, Ecn::NotEct, 15),
        (10, Ecn::NotEct, 15),
        (50, Ecn::NotEct, 15),
        (10, Ecn::Ect0, 15),
        (10, Ecn::NotEct, 40),
    ] {
        for stored_queue in [false, true] {
            let pie = PieConfig {
                target: Span::from_millis(target_ms),
                ..PieConfig::default()
            };
            let config = PathConfig {
                stored_queue,
                ..config(Aqm::Pie(pie), QueueLimit::Unlimited)
            };
            let (mean_ms, counters) = reno(&config, flows, ecn);
            let share = mean_ms / target_ms as f64;
            let allowed = if flows == 1 { 0.3..1.0 } else { 0.75..1.25 };
            assert!(
                allowed.contains(&share),
                "{flows} flows, {ecn:?}: {mean_ms} ms of {target_ms}"
            );
            if ecn.is_capable() {
                assert!(counters.marked > 100 && counters.dropped_aqm < counters.marked);
            } else {
                assert!(counters.marked == 0 && counters.dropped_aqm > 1);
            }
        }
    }
}

/// Mean wait in ms over the last 40 of 60 s, and what was counted.
fn reno(config: &PathConfig, flows: usize, ecn: Ecn) -> (f64, howdah_path::PathCounters) {
    /// Of the path without its queue.
    const BASE_NS: u64 = 40_000_000;
    let mut path = OneWay::new(config, 1);
    // When each flow's next packet is due, its window in packets, and until when it takes no further hit.
    let mut state: Vec<(u64, f64, u64)> =
        (0..flows as u64).map(|n| (n * 997_003, 2.0, 0)).collect();
    let mut waiting = VecDeque::new();
    let (mut waited, mut count) = (0.0, 0_u32);
    loop {
        let (flow, &(due, window, deaf_until)) = state
            .iter()
            .enumerate()
            .min_by_key(|(_, flow)| flow.0)
            .expect("flows");
        let now = Time::from_nanos(due);
        if due > 60_000_000_000 {
            break;
        }
        let mut hits = vec![false; flows];
        while let Some(at) = path.next_release().filter(|&at| at <= now) {
            let verdict = path.release(at).expect("somebody waits");
            let owner: usize = waiting.pop_front().expect("an owner");
            hits[owner] |= matches!(verdict, Verdict::Deliver(d) if d.marked);
        }
        let wait_ns = path.queue_delay(now).as_nanos();
        if due > 20_000_000_000 {
            waited += wait_ns as f64 / 1e6;
            count += 1;
        }
        match path.offer_ecn(now, 1_250, ecn) {
            Verdict::Queued => waiting.push_back(flow),
            Verdict::Deliver(delivery) => hits[flow] |= delivery.marked,
            Verdict::Drop(_) => hits[flow] = true,
        }
        let rtt_ns = BASE_NS + wait_ns;
        let grown = window + 1.0 / window;
        state[flow] = (due + (rtt_ns as f64 / window) as u64 + 1, grown, deaf_until);
        for (flow, _) in hits.iter().enumerate().filter(|(_, hit)| **hit) {
            let (_, window, deaf_until) = &mut state[flow];
            if due >= *deaf_until {
                *window = (*window / 2.0).max(2.0);
                *deaf_until = due + rtt_ns;
            }
        }
    }
    (waited / f64::from(count), path.counters())
}
