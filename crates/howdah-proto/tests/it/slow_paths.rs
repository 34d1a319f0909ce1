//! Paths of a few Mbit/s, on which a round trip has few packets, in virtual time.

use howdah_core::{ObjectId, Rate, Span, Time};
use howdah_path::{PathConfig, QueueLimit};
use howdah_proto::sim::{SimEndpoint, sim_config};
use howdah_sim::{Flow, World};

/// Share of the rate that a flow has alone over the seconds from `from` to `to`, and the share of packets that the queue drops. At
/// `change.0` seconds the rate becomes `change.1` times what it was.
fn alone(
    rate_kbit: u64,
    rtt_ms: u64,
    queue: QueueLimit,
    change: Option<(u64, f64)>,
    (from, to): (u64, u64),
) -> (f64, f64) {
    let path = |factor: f64| PathConfig {
        rate: Some(Rate::from_bits_per_sec(rate_kbit * 1_000).mul_f64(factor)),
        delay: Span::from_millis(rtt_ms) / 2,
        queue,
        mtu: 1_500,
        ..PathConfig::default()
    };
    let mut world = World::new(5);
    let link = world.add_link(&path(1.0), &path(1.0));
    let (near, far) = (world.add_host("near"), world.add_host("far"));
    let mut client = SimEndpoint::client(sim_config(), 1);
    let id = client.connection_mut().allocate_object();
    client.connection_mut().send_object(id, None, u64::MAX);
    client.connection_mut().set_readable(id, 1 << 60);
    let mut server = SimEndpoint::server(sim_config(), 1, 2);
    server.connection_mut().receive_object(id, None, None);
    let flow = world.add_flow(Flow::between((near, client), (far, server)).over(link));
    let mut factor = 1.0;
    if let Some((at, by)) = change {
        factor = by;
        let (slower, forward) = (path(factor), link.forward);
        world.at(Time::ZERO + Span::from_secs(at), move |world| {
            world.set_path_config(forward, &slower);
        });
    }
    world.run_until(Time::ZERO + Span::from_secs(from));
    let received = |world: &World<SimEndpoint>| {
        world
            .endpoint(flow.b)
            .connection()
            .received_bytes(ObjectId::new(0))
    };
    let (before, counters) = (received(&world), world.path(link.forward).counters());
    world.run_until(Time::ZERO + Span::from_secs(to));
    let end = world.path(link.forward).counters();
    let dropped = (end.dropped_queue - counters.dropped_queue) as f64;
    let all = rate_kbit as f64 * 125.0 * factor * (to - from) as f64;
    (
        (received(&world) - before) as f64 / all,
        dropped / (end.offered - counters.offered) as f64,
    )
}

#[test]
fn a_path_slower_than_the_opening_rate_is_not_flooded() {
    let products =
        |rate_kbit: u64, rtt_ms: u64| QueueLimit::Packets((rate_kbit * rtt_ms / 12_000).max(20));
    let mut bad = Vec::new();
    for rate_kbit in [1_000, 2_500, 5_000, 10_000, 12_000, 20_000, 50_000] {
        for rtt_ms in [5, 20, 40, 100, 300] {
            if (rate_kbit, rtt_ms) == (50_000, 5) {
                // docs/rate-control.md, 13: a full queue nearly as long as the target.
                continue;
            }
            let queue = products(rate_kbit, rtt_ms);
            let (share, dropped) = alone(rate_kbit, rtt_ms, queue, None, (10, 30));
            if share < 0.85 || dropped > 0.02 {
                bad.push(format!(
                    "{rate_kbit} kbit/s, {rtt_ms} ms: {share}, {dropped}"
                ));
            }
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

#[test]
fn a_rate_that_falls_is_followed() {
    for (rate_kbit, rtt_ms) in [(10_000, 20), (10_000, 80), (20_000, 40), (100_000, 20)] {
        for by in [0.5, 0.25] {
            let queue = QueueLimit::Packets(20);
            let (share, dropped) = alone(rate_kbit, rtt_ms, queue, Some((10, by)), (15, 30));
            let case = format!("{rate_kbit} kbit/s, {rtt_ms} ms, by {by}: {share}, {dropped}");
            assert!(share > 0.8, "{case}");
            assert!(dropped < 0.05, "{case}");
        }
    }
}
