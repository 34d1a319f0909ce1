//! How fast the simulator carries the protocol: data packets a second of wall time, one flow at
//! 10 Gbit/s, 8800-byte payloads, 100 ms, on one core.
//!
//! `cargo run --release -p howdah-proto --example sim_speed [SECONDS_OF_VIRTUAL_TIME [RUNS]]`
//!
//! The best of the runs counts: others may use the machine. Processor time (of this one thread,
//! where the system tells) is printed beside wall time for the same reason.

#![expect(clippy::disallowed_methods, reason = "a measurement needs a clock")]

use howdah_core::{ObjectId, Rate, Span, Time};
use howdah_path::{LossModel, PathConfig, QueueLimit};
use howdah_proto::sim::{SimEndpoint, sim_config};
use howdah_sim::{Flow, FlowEnds, World};

/// UDP payload in bytes: with IPv4 and UDP headers, 8828 bytes of MTU.
const PAYLOAD: u32 = 8_800;

fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = |default: u64| {
        args.next()
            .map_or(default, |text| text.parse().expect("a whole number"))
    };
    let (seconds, runs) = (number(20), number(3));
    println!(
        "simulator speed: one flow, 10 Gbit/s, {PAYLOAD}-byte payloads, RTT 100 ms, {seconds} s"
    );
    println!(
        "{:>6} {:>12} {:>8} {:>8} {:>13} {:>13} {:>15} {:>12}",
        "loss",
        "data packets",
        "wall s",
        "cpu s",
        "packets/s",
        "events/s",
        "packets/cpu-s",
        "goodput"
    );
    for loss in [0.0, 0.01] {
        let best = (0..runs.max(1))
            .map(|_| run(loss, seconds))
            .min_by(|a, b| a.wall_s.total_cmp(&b.wall_s))
            .expect("at least one run");
        println!(
            "{:>5.1}% {:>12} {:>8.2} {:>8.2} {:>13.0} {:>13.0} {:>15.0} {:>12}",
            loss * 100.0,
            best.packets,
            best.wall_s,
            best.cpu_s,
            best.packets as f64 / best.wall_s,
            best.events as f64 / best.wall_s,
            best.packets as f64 / best.cpu_s,
            best.goodput.to_string(),
        );
    }
}

struct Result {
    packets: u64,
    events: u64,
    wall_s: f64,
    cpu_s: f64,
    goodput: Rate,
}

fn run(loss: f64, seconds: u64) -> Result {
    let (mut world, ends, id) = build(loss);
    let started = std::time::Instant::now();
    let cpu_before = cpu_s();
    let end = Time::ZERO + Span::from_secs(seconds);
    world.run_until(end);
    let wall_s = started.elapsed().as_secs_f64();
    let cpu_s = cpu_s()
        .zip(cpu_before)
        .map_or(f64::NAN, |(after, before)| after - before);
    let bytes = world.endpoint(ends.b).connection().received_bytes(id);
    Result {
        packets: world.counters(ends.a).sent_datagrams,
        events: world.events(),
        wall_s,
        cpu_s,
        goodput: Rate::from_bytes_over(bytes, end.since(Time::ZERO)),
    }
}

/// Seconds for which this thread has run, where Linux says so.
fn cpu_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let ns: u64 = text.split_whitespace().next()?.parse().ok()?;
    Some(ns as f64 / 1e9)
}

fn build(loss: f64) -> (World<SimEndpoint>, FlowEnds, ObjectId) {
    let path = PathConfig {
        rate: Some(Rate::from_gbit_per_sec(10)),
        delay: Span::from_millis(50),
        queue: QueueLimit::Time(Span::from_millis(25)),
        loss: LossModel::Bernoulli(loss),
        mtu: PAYLOAD + 28,
        ..PathConfig::default()
    };
    let mut world = World::new(7);
    let (near, far) = (world.add_host("near"), world.add_host("far"));
    let link = world.add_link(&path, &path);
    let mut client = SimEndpoint::client(sim_config(), 1);
    let id = client.connection_mut().allocate_object();
    client.connection_mut().send_object(id, None, u64::MAX);
    client.connection_mut().set_readable(id, 1 << 60);
    let mut server = SimEndpoint::server(sim_config(), 1, 2);
    server.connection_mut().receive_object(id, None, None);
    let ends = world.add_flow(Flow::between((near, client), (far, server)).over(link));
    (world, ends, id)
}
