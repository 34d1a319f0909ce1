//! How flows answer marks: a dual queue for L4S, and `CoDel` that marks, in virtual time.

use howdah_core::{Rate, Span, Time};
use howdah_path::{Aqm, CoDelConfig, DualPi2Config, PathConfig, QueueLimit};
use howdah_proto::sim::{SimEndpoint, sim_config};
use howdah_proto::{Config, EcnState, Policy};
use howdah_sim::{Flow, FlowEnds, World};

struct Shared {
    world: World<SimEndpoint>,
    flows: Vec<FlowEnds>,
    path: howdah_sim::PathId,
    rate: Rate,
}

/// What a stretch of time showed.
#[derive(Debug)]
struct Seen {
    /// Of the rate, in UDP payload.
    shares: Vec<f64>,
    mean_queue_ms: f64,
    #[expect(dead_code, reason = "told when a test fails")]
    longest_queue_ms: f64,
    #[expect(dead_code, reason = "told when a test fails")]
    marked: u64,
    dropped: u64,
}

fn link(mbit: u64, rtt_ms: u64, aqm: Aqm) -> PathConfig {
    PathConfig {
        rate: Some(Rate::from_mbit_per_sec(mbit)),
        delay: Span::from_millis(rtt_ms) / 2,
        queue: QueueLimit::Time(Span::from_millis(200)),
        mtu: 1_500,
        aqm,
        ..PathConfig::default()
    }
}

fn endless(policy: Policy) -> Config {
    Config {
        policy,
        ecn: true,
        ..sim_config()
    }
}

impl Shared {
    /// Flows of these policies that start 2 s apart.
    fn new(config: &PathConfig, policies: &[Policy]) -> Self {
        let mut world = World::new(5);
        let back = PathConfig {
            delay: config.delay,
            ..PathConfig::default()
        };
        let link = world.add_link(config, &back);
        let flows = policies.iter().enumerate().map(|(n, &policy)| {
            let start = Time::ZERO + Span::from_secs(2) * n as u64;
            let seed = n as u64 * 7 + 1;
            let config = endless(policy);
            let sender = SimEndpoint::sender(start, config.clone(), seed, None);
            let receiver = SimEndpoint::receiver(start, config, seed, seed + 1_000, None);
            let (near, far) = (world.add_host("near"), world.add_host("far"));
            let flow = Flow::between((near, sender), (far, receiver)).over(link);
            world.add_flow(flow.start_at(start))
        });
        let flows = flows.collect();
        Self {
            world,
            flows,
            path: link.forward,
            rate: config.rate.expect("a rate"),
        }
    }

    fn received(&self) -> Vec<u64> {
        let each = self.flows.iter();
        each.map(|f| self.world.endpoint(f.b).delivered_bytes())
            .collect()
    }

    /// From then to then, in seconds.
    fn between(&mut self, from: u64, to: u64) -> Seen {
        self.world.run_until(Time::ZERO + Span::from_secs(from));
        let (before, counters) = (self.received(), self.world.path(self.path).counters());
        let (mut queues, steps) = (Vec::new(), (to - from) * 200);
        for step in 1..=steps {
            let at = Time::ZERO + Span::from_secs(from) + Span::from_millis(step * 5);
            self.world.run_until(at);
            let queue = self.world.path(self.path).queue_delay(at);
            queues.push(queue.as_secs_f64() * 1e3);
        }
        let after = self.received();
        let end = self.world.path(self.path).counters();
        let bytes = self.rate.as_f64() / 8.0 * (to - from) as f64;
        Seen {
            shares: before
                .iter()
                .zip(after)
                .map(|(b, a)| (a - b) as f64 / bytes)
                .collect(),
            mean_queue_ms: queues.iter().sum::<f64>() / queues.len() as f64,
            longest_queue_ms: queues.iter().copied().fold(0.0, f64::max),
            marked: end.marked - counters.marked,
            dropped: end.dropped_aqm + end.dropped_queue
                - counters.dropped_aqm
                - counters.dropped_queue,
        }
    }

    fn stats(&self, flow: usize) -> howdah_proto::Stats {
        let sender = self.world.endpoint(self.flows[flow].a);
        sender.connection().stats()
    }
}

fn dual() -> Aqm {
    Aqm::DualPi2(DualPi2Config::default())
}

/// What of the wire a full link gives as object bytes, with packets of 1500 bytes.
const WIRE: f64 = 1_433.0 / 1_538.0;

#[test]
fn a_lone_flow_fills_a_dual_queue_and_keeps_it_short() {
    for (mbit, rtt_ms) in [(100, 20), (100, 80), (1_000, 20), (1_000, 40)] {
        let mut shared = Shared::new(&link(mbit, rtt_ms, dual()), &[Policy::Fair]);
        let seen = shared.between(10, 30);
        let case = format!("{mbit} Mbit/s, {rtt_ms} ms: {seen:?}");
        assert_eq!(shared.stats(0).ecn, EcnState::Capable, "{case}");

        assert!(seen.shares[0] >= 0.95 * WIRE, "{case}");
        assert!(seen.mean_queue_ms <= 1.0, "{case}");
        assert_eq!(seen.dropped, 0, "{case}");
        assert!(
            shared.stats(0).packets_marked > 100,
            "{case}: the peer tells of marks"
        );
    }
}

#[test]
fn two_flows_share_a_dual_queue() {
    for (mbit, rtt_ms) in [(100, 20), (100, 80), (1_000, 20), (1_000, 40)] {
        let mut shared = Shared::new(&link(mbit, rtt_ms, dual()), &[Policy::Fair; 2]);
        let seen = shared.between(40, 60);
        let case = format!("{mbit} Mbit/s, {rtt_ms} ms: {seen:?}");
        assert!(seen.shares.iter().sum::<f64>() >= 0.9 * WIRE, "{case}");
        assert!(seen.mean_queue_ms <= 1.0, "{case}");
        let square: f64 = seen.shares.iter().map(|s| s * s).sum();

        let jain = seen.shares.iter().sum::<f64>().powi(2) / (2.0 * square);
        assert!(jain >= 0.97, "{case}: {jain}");
    }
}

/// Marks of a classic queue are answered as losses are: it is held at its target, and nothing is dropped.
#[test]
fn a_classic_queue_marks_instead_of_dropping() {
    let codel = Aqm::CoDel(CoDelConfig::default());
    for (mbit, rtt_ms) in [(100, 20), (100, 80), (1_000, 40)] {
        for flows in [1, 2] {
            let policies = vec![Policy::Fair; flows];
            let mut shared = Shared::new(&link(mbit, rtt_ms, codel), &policies);
            let seen = shared.between(20, 60);
            let case = format!("{mbit} Mbit/s, {rtt_ms} ms: {seen:?}");
            assert_eq!(shared.stats(0).ecn, EcnState::Capable, "{case}");
            assert!(seen.shares.iter().sum::<f64>() >= 0.8 * WIRE, "{case}");
            assert!(seen.mean_queue_ms <= 8.0, "{case}");
            assert_eq!(seen.dropped, 0, "{case}");
        }
    }
}

#[test]
fn background_heeds_marks() {
    let both = [Policy::Fair, Policy::Background];
    let mut shared = Shared::new(&link(100, 40, dual()), &both);
    let seen = shared.between(10, 40);
    assert!(seen.shares[0] >= 0.9 * WIRE, "{seen:?}");
    assert!(seen.mean_queue_ms <= 1.5, "{seen:?}");
    let mut alone = Shared::new(&link(100, 40, dual()), &[Policy::Background]);
    let seen = alone.between(10, 40);
    assert!(seen.shares[0] >= 0.25 * WIRE, "{seen:?}");
    assert!(seen.mean_queue_ms <= 1.5, "{seen:?}");
}
