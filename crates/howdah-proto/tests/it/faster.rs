//! Links that become faster under a flow, and others that go, in virtual time.

use crate::support::{Net, at, config, ms, path, secs};
use howdah_core::{Rate, Span, Time};
use howdah_path::{LossModel, PathConfig, QueueLimit};
use howdah_proto::sim::{SimEndpoint, sim_config};
use howdah_sim::{Flow, FlowEnds, World};

/// When the link changes; the flow has found its rate by then.
const CHANGE: Span = secs(7);

/// Round trips until 90 % of what the link carries after it has become `factor` times as fast arrive in one, and what its queue drops
/// meanwhile, in its own length.
fn after_a_step(seed: u64, mbit: u64, rtt: Span, queue: Span, factor: f64) -> (f64, f64) {
    let rate = Rate::from_mbit_per_sec(mbit);
    let bytes = rate.bytes_in(queue);
    let mtu = if mbit < 1_000 { 1_500 } else { 9_000 };
    let path = |rate: Rate| PathConfig {
        rate: Some(rate),
        delay: rtt / 2,
        queue: QueueLimit::Bytes(bytes),
        stored_queue: true,
        loss: LossModel::Bernoulli(0.001),
        mtu,
        ..PathConfig::default()
    };
    let mut net = Net::with(seed, &path(rate), &path(rate), config(), config());
    let id = net.upload(1 << 44);
    let forward = net.link.forward;
    let change = CHANGE + rtt.mul_f64(0.37 * seed as f64);
    net.world.run_until(at(change));
    net.world
        .set_path_config(forward, &path(rate.mul_f64(factor)));
    let dropped = |net: &Net| net.world.path(forward).counters().dropped_queue;
    let received = |net: &Net| net.server().connection().received_bytes(id);
    let before = dropped(&net);
    // Bytes of an object for those of the wire.
    let enough = 0.9 * 0.94 * factor * rate.as_f64() / 8.0 * rtt.as_secs_f64();
    let mut had = vec![received(&net)];
    let found = (1..=120_u64).find(|&quarter| {
        net.world.run_until(at(change + rtt * quarter / 4));
        had.push(received(&net));
        let a_round_ago = had.len().checked_sub(5).map(|at| had[at]);
        a_round_ago.is_some_and(|ago| (had[had.len() - 1] - ago) as f64 >= enough)
    });
    let round_trips = found.map_or(f64::INFINITY, |quarter| quarter as f64 / 4.0);
    net.world.run_until(at(change + rtt * 20));
    let overflow = (dropped(&net) - before) as f64 * f64::from(mtu) / bytes as f64;
    (round_trips, overflow)
}

/// Steps of probing would need nine to sixteen round trips, and end in an overflow of more than a queue.
#[test]
fn a_link_that_becomes_faster_is_filled_within_a_few_round_trips() {
    let mut bad = Vec::new();
    for (mbit, rtt, queue) in [(100, 50, 25), (1_000, 50, 100), (1_000, 200, 100)] {
        for (seed, factor) in [(1, 2.0), (2, 3.5)] {
            let (found, overflow) = after_a_step(seed, mbit, ms(rtt), ms(queue), factor);
            let place = format!(
                "{mbit} Mbit/s x {factor}, {rtt} ms, queue of {queue} ms: {found} round trips, {overflow:.2} queues"
            );
            println!("{place}");
            if found > 6.0 || overflow > 2.5 {
                bad.push(place);
            }
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

/// Share of what the queue drops in the seconds after the last of four has gone.
fn dropped_after_one_has_gone(seed: u64) -> f64 {
    let (rate, rtt) = (Rate::from_gbit_per_sec(1), ms(80));
    let mut world = World::new(seed);
    let (near, far) = (world.add_host("near"), world.add_host("far"));
    let config = path(rate, rtt, 9_000);
    let link = world.add_link(&config, &config);
    // The last one has what it sends within some ten seconds.
    let sizes = [
        None,
        None,
        None,
        Some(Rate::from_mbit_per_sec(250).bytes_in(secs(10))),
    ];
    let flows: Vec<FlowEnds> = (0..)
        .zip(sizes)
        .map(|(n, size)| {
            let start = at(secs(3 * n) + ms(seed * 13 * n));
            let seed = seed * 100 + n * 7 + 1;
            let sender = SimEndpoint::sender(start, sim_config(), seed, size);
            let receiver = SimEndpoint::receiver(start, sim_config(), seed, seed + 1_000, size);
            let flow = Flow::between((near, sender), (far, receiver)).over(link);
            world.add_flow(flow.start_at(start))
        })
        .collect();
    let last = flows[3].b;
    let whole = sizes[3].unwrap_or(0);
    let in_time = world.run_while(
        |world: &World<SimEndpoint>| world.endpoint(last).delivered_bytes() < whole,
        at(secs(60)),
    );
    assert!(in_time, "the last one is not done");
    let gone: Time = world.now();
    let before = world.path(link.forward).counters();
    world.run_until(gone + secs(3));
    let after = world.path(link.forward).counters();
    let dropped = (after.dropped_queue - before.dropped_queue) as f64;
    dropped / (after.offered - before.offered) as f64
}

/// Whoever is left sees the same room, and nobody takes it for a faster link: together they would send far too much.
#[test]
fn room_that_others_leave_is_not_taken_at_once() {
    let mut dropped: Vec<f64> = (1..=9).map(dropped_after_one_has_gone).collect();
    dropped.sort_by(f64::total_cmp);
    println!("{dropped:.4?} dropped in the seconds after one of four had gone");
    assert!(dropped[4] < 0.005, "{dropped:?}");
}
