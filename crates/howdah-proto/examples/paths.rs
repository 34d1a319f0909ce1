//! Runs one or two flows over many kinds of path in virtual time: slow and fast links, shallow and
//! deep queues, jitter, a second flow that starts later, a capacity that changes.
//!
//! `cargo run --release -p howdah-proto --example paths`

use howdah_core::{ObjectId, Rate, Span, Time};
use howdah_path::{Jitter, LossModel, PathConfig, QueueLimit};
use howdah_proto::sim::{SimEndpoint, sim_config};
use howdah_sim::{Flow, FlowEnds, World};
use std::fmt::Write as _;

fn endpoints(seed: u64) -> (SimEndpoint, SimEndpoint) {
    let mut client = SimEndpoint::client(sim_config(), seed);
    let id = client.connection_mut().allocate_object();
    client.connection_mut().send_object(id, None, u64::MAX);
    client.connection_mut().set_readable(id, 1 << 60);
    let mut server = SimEndpoint::server(sim_config(), seed, seed + 1000);
    server.connection_mut().receive_object(id, None, None);
    (client, server)
}

fn path(rate: Rate, rtt_ms: f64, queue_ms: f64, loss: f64, mtu: u32) -> PathConfig {
    PathConfig {
        rate: Some(rate),
        delay: Span::from_secs_f64(rtt_ms / 2e3),
        queue: QueueLimit::Time(Span::from_secs_f64(queue_ms / 1e3)),
        loss: LossModel::Bernoulli(loss),
        mtu,
        ..PathConfig::default()
    }
}

fn received(world: &World<SimEndpoint>, flow: FlowEnds) -> u64 {
    world
        .endpoint(flow.b)
        .connection()
        .received_bytes(ObjectId::new(0))
}

/// Goodput share of each flow in consecutive windows.
fn run(
    name: &str,
    config: &PathConfig,
    flows: usize,
    stagger: Span,
    seconds: u64,
    change: Option<(u64, PathConfig)>,
) {
    let mut world = World::new(11);
    let (near, far) = (world.add_host("near"), world.add_host("far"));
    let link = world.add_link(config, config);
    if let Some((at, changed)) = change {
        world.at(Time::ZERO + Span::from_secs(at), move |w| {
            w.set_path_config(link.forward, &changed);
        });
    }
    let flows: Vec<FlowEnds> = (0..flows)
        .map(|n| {
            let (client, server) = endpoints(n as u64 * 7 + 1);
            let flow = Flow::between((near, client), (far, server)).over(link);
            world.add_flow(flow.start_at(Time::ZERO + stagger * n as u64))
        })
        .collect();
    let rate = config.rate.unwrap_or(Rate::MAX).as_f64();
    let windows = 10;
    let mut last = vec![0; flows.len()];
    let mut rows = vec![String::new(); flows.len()];
    let mut queues = Vec::new();
    for w in 1..=windows {
        let steps = 20;
        for s in 1..=steps {
            let at = (seconds * 1000 * (w - 1) / windows) + seconds * 1000 * s / windows / steps;
            world.run_until(Time::ZERO + Span::from_millis(at));
            if w > windows / 2 {
                queues.push(
                    world
                        .path(link.forward)
                        .queue_delay(world.now())
                        .as_secs_f64()
                        * 1e3,
                );
            }
        }
        for (i, &flow) in flows.iter().enumerate() {
            let bytes = received(&world, flow);
            let share = (bytes - last[i]) as f64 * 8.0 / (seconds as f64 / windows as f64) / rate;
            last[i] = bytes;
            let _ = write!(rows[i], " {share:.2}");
        }
    }
    queues.sort_by(f64::total_cmp);
    let path = world.path(link.forward).counters();
    println!(
        "{name:34} queue p50 {:6.1} p95 {:6.1} ms, queue drops {:5.2} %",
        queues[queues.len() / 2],
        queues[queues.len() * 95 / 100],
        path.dropped_queue as f64 * 100.0 / path.offered.max(1) as f64,
    );
    for (i, row) in rows.iter().enumerate() {
        let stats = world.endpoint(flows[i].a).connection().stats();
        println!(
            "    flow {i}{row}   late {} rtt {}",
            stats.packets_late, stats.rtt
        );
    }
}

fn main() {
    let m = Rate::from_mbit_per_sec;
    for (rate, seconds) in [(m(10), 40), (m(100), 30), (m(1_000), 20), (m(10_000), 10)] {
        for rtt in [2.0, 50.0, 300.0] {
            for (queue, loss) in [(5.0, 0.0), (25.0, 0.01), (200.0, 0.01)] {
                let config = path(rate, rtt, queue, loss, 1500);
                let name = format!("{rate} {rtt} ms q{queue} loss {loss}");
                run(&name, &config, 1, Span::ZERO, seconds, None);
            }
        }
    }
    for (queue, rtt) in [(25.0, 50.0), (100.0, 100.0), (10.0, 20.0)] {
        let config = path(m(1_000), rtt, queue, 0.001, 9000);
        run(
            &format!("two flows, q{queue} rtt {rtt}"),
            &config,
            2,
            Span::from_secs(6),
            60,
            None,
        );
        run(
            &format!("four flows, q{queue} rtt {rtt}"),
            &config,
            4,
            Span::from_secs(2),
            60,
            None,
        );
    }
    let mut jitter = path(m(1_000), 50.0, 50.0, 0.001, 9000);
    jitter.jitter = Jitter::Uniform(Span::from_millis(5));
    run("jitter 5 ms", &jitter, 1, Span::ZERO, 20, None);
    jitter.reorder = 0.2;
    run(
        "jitter 5 ms, reordering 20 %",
        &jitter,
        1,
        Span::ZERO,
        20,
        None,
    );
    let wide = path(m(1_000), 50.0, 50.0, 0.001, 9000);
    let narrow = path(m(200), 50.0, 50.0, 0.001, 9000);
    run(
        "1 Gbit/s to 200 Mbit/s at 10 s",
        &wide,
        1,
        Span::ZERO,
        20,
        Some((10, narrow.clone())),
    );
    run(
        "200 Mbit/s to 1 Gbit/s at 10 s",
        &narrow,
        1,
        Span::ZERO,
        20,
        Some((10, wide)),
    );
}
