//! Flows that share a queue of a millisecond or two, in virtual time.

use howdah_core::{ObjectId, Rate, Span, Time};
use howdah_path::{LossModel, PathConfig, QueueLimit};
use howdah_proto::sim::{SimEndpoint, sim_config};
use howdah_sim::{Flow, World};

const RATE_MBIT: u64 = 200;

fn endpoints(seed: u64) -> (SimEndpoint, SimEndpoint) {
    let mut client = SimEndpoint::client(sim_config(), seed);
    let id = client.connection_mut().allocate_object();
    client.connection_mut().send_object(id, None, u64::MAX);
    client.connection_mut().set_readable(id, 1 << 60);
    let mut server = SimEndpoint::server(sim_config(), seed, seed + 1_000);
    server.connection_mut().receive_object(id, None, None);
    (client, server)
}

/// What flows get that start 2 s apart, as shares of the rate, and the share of packets that the queue drops,
/// over the last `seconds` of 60.
fn share(loss: f64, rtts_ms: &[u64], seconds: u64) -> (Vec<f64>, f64) {
    let path = |rtt_ms: u64| PathConfig {
        rate: Some(Rate::from_mbit_per_sec(RATE_MBIT)),
        delay: Span::from_millis(rtt_ms) / 2,
        // 1.5 ms, as 127 packets at 1 Gbit/s.
        queue: QueueLimit::Packets(25),
        loss: LossModel::Bernoulli(loss),
        mtu: 1_500,
        ..PathConfig::default()
    };
    let shared = path(rtts_ms[0]);
    let mut world = World::new(5);
    let link = world.add_link(&shared, &shared);
    let mut flows = Vec::new();
    for (n, &rtt_ms) in rtts_ms.iter().enumerate() {
        let more = PathConfig {
            delay: Span::from_millis(rtt_ms - rtts_ms[0]) / 2,
            ..PathConfig::default()
        };
        let longer = world.add_link(&more, &more);
        let (near, far) = (world.add_host("near"), world.add_host("far"));
        let (client, server) = endpoints(n as u64 * 7 + 1);
        let flow = Flow::between((near, client), (far, server))
            .over(longer)
            .over(link);
        let start = Time::ZERO + Span::from_secs(2) * n as u64;
        flows.push(world.add_flow(flow.start_at(start)));
    }
    let received = |world: &World<SimEndpoint>| -> Vec<u64> {
        let each = flows.iter();
        each.map(|f| {
            world
                .endpoint(f.b)
                .connection()
                .received_bytes(ObjectId::new(0))
        })
        .collect()
    };
    world.run_until(Time::ZERO + Span::from_secs(60 - seconds));
    let (before, counters) = (received(&world), world.path(link.forward).counters());
    world.run_until(Time::ZERO + Span::from_secs(60));
    let after = received(&world);
    let end = world.path(link.forward).counters();
    let dropped = (end.dropped_queue - counters.dropped_queue) as f64;
    let all = (RATE_MBIT * 1_000_000 / 8 * seconds) as f64;
    let shares = before.iter().zip(&after).map(|(b, a)| (a - b) as f64 / all);
    (
        shares.collect(),
        dropped / (end.offered - counters.offered) as f64,
    )
}

#[test]
fn a_lone_flow_fills_the_path_and_loses_little() {
    let (shares, dropped) = share(0.0, &[100], 40);
    assert!(shares[0] > 0.87, "{shares:?}");
    assert!(dropped < 0.003, "{dropped}");
}

#[test]
fn two_flows_become_equal() {
    for (loss, rtts) in [(0.0, [100, 100]), (0.01, [100, 100]), (0.0, [38, 152])] {
        let (shares, dropped) = share(loss, &rtts, 20);
        let case = format!("loss {loss}, RTTs {rtts:?}: {shares:?}, {dropped}");
        assert!(shares.iter().sum::<f64>() > 0.82, "{case}");
        assert!(shares.iter().all(|&s| s > 0.25), "{case}");
        assert!(dropped < 0.01, "{case}");
    }
}
