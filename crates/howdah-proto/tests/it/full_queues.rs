//! Many that begin at once fill a short queue before any of them has seen the path without it, so what it drops looks like chance: loss that is
//! there while no queue is to be seen. Drains that go below what arrives tell the two apart.

use howdah_core::{Rate, Span, Time};
use howdah_path::{PathConfig, QueueLimit};
use howdah_proto::Share;
use howdah_proto::sim::{SimEndpoint, sim_config};
use howdah_sim::{Flow, World};

const RATE: Rate = Rate::from_mbit_per_sec(100);
const CROWD: u64 = 8;
const SECONDS: u64 = 30;

/// Share of packets that the queue drops from the 10th second on, and what the
/// first of all had in Mbit/s: it was alone for five seconds.
fn run(seed: u64, rtt: Span, queue: Span, share: Share) -> (f64, f64) {
    let path = PathConfig {
        rate: Some(RATE),
        delay: rtt / 2,
        queue: QueueLimit::Bytes(RATE.bytes_in(queue)),
        mtu: 1_500,
        ..PathConfig::default()
    };
    let mut world = World::new(seed);
    let (near, far) = (world.add_host("near"), world.add_host("far"));
    let link = world.add_link(&path, &path);
    let mut add = |n: u64, start: Span, share: Share| {
        let (start, seed) = (Time::ZERO + start, seed * 100 + n);
        let config = howdah_proto::Config {
            share,
            ..sim_config()
        };
        let sender = SimEndpoint::sender(start, config.clone(), seed, None);
        let receiver = SimEndpoint::receiver(start, config, seed, seed + 1_000, None);
        let flow = Flow::between((near, sender), (far, receiver)).over(link);
        world.add_flow(flow.start_at(start))
    };
    let first = add(0, Span::ZERO, Share::WHOLE);
    for n in 1..=CROWD {
        // In an order and at distances that differ from seed to seed.
        let after = Span::from_millis(5_000 + (n * 97 + seed * 131) % 400);
        add(n, after, share);
    }
    world.run_until(Time::ZERO + Span::from_secs(10));
    let counters = world.path(link.forward).counters();
    let (dropped, offered) = (counters.dropped_queue, counters.offered);
    let had = world.endpoint(first.b).delivered_bytes();
    world.run_until(Time::ZERO + Span::from_secs(SECONDS));
    let counters = world.path(link.forward).counters();
    let dropped = (counters.dropped_queue - dropped) as f64;
    let bytes = world.endpoint(first.b).delivered_bytes() - had;
    (
        dropped / (counters.offered - offered) as f64,
        bytes as f64 * 8.0 / 1e6 / (SECONDS - 10) as f64,
    )
}

#[test]
fn a_queue_that_was_full_from_the_beginning_is_not_taken_for_chance() {
    for (rtt_ms, queue_ms, share) in [
        (20, 10, Share::WHOLE),
        (80, 16, Share::WHOLE),
        (20, 10, Share::one_of(CROWD)),
    ] {
        let (rtt, queue) = (Span::from_millis(rtt_ms), Span::from_millis(queue_ms));
        let runs: Vec<(f64, f64)> = (1..=6).map(|s| run(s, rtt, queue, share)).collect();
        println!("{rtt_ms} ms, {queue_ms} ms, {share}: {runs:.3?}");
        for (dropped, _) in &runs {
            assert!(*dropped < 0.1, "{rtt_ms} ms, {share}: {runs:?}");
        }
        let mean = runs.iter().map(|r| r.0).sum::<f64>() / runs.len() as f64;
        assert!(mean < 0.04, "{rtt_ms} ms, {share}: {runs:?}");
        if share != Share::WHOLE {
            // A stripe is one flow, so the one that was there keeps about half.
            let least = runs.iter().map(|r| r.1).fold(f64::MAX, f64::min);
            assert!(least > 15.0, "{runs:?}");
        }
    }
}
