//! How many data packets of one flow a rival and the simulator carry in a second on one core: of
//! wall time, and of processor time as Linux counts it, which other programs on the machine disturb
//! less.
//!
//! `cargo run --release -p howdah-rivals --example speed [-- NAME]` runs the cases whose names
//! ("Reno, 10 Gbit/s, 100 ms") contain NAME. Every case runs three times and the best counts. Our own
//! protocol is measured in the same way by `cargo run --release -p howdah-proto --example sim_speed`.

use howdah_core::{Observe, Rate, Span, Time, Transport};
use howdah_path::{LossModel, PathConfig, QueueLimit};
use howdah_rivals::tcp::{IPV4_BYTES, ReceiverConfig, Supply, TcpConfig, TcpEndpoint};
use howdah_rivals::udt::{UdtConfig, UdtEndpoint};
use howdah_sim::{Flow, FlowEnds, IPV4_UDP_BYTES, World};

/// One measurement.
struct Case {
    name: &'static str,
    gbit: u64,
    rtt_ms: u64,
    loss: f64,
    simulated_s: u64,
}

const CASES: [Case; 6] = [
    Case {
        name: "1 Gbit/s, 180 ms",
        gbit: 1,
        rtt_ms: 180,
        loss: 0.0,
        simulated_s: 60,
    },
    Case {
        name: "1 Gbit/s, 180 ms, 0.1 %",
        gbit: 1,
        rtt_ms: 180,
        loss: 0.001,
        simulated_s: 3000,
    },
    Case {
        name: "10 Gbit/s, 100 ms",
        gbit: 10,
        rtt_ms: 100,
        loss: 0.0,
        simulated_s: 10,
    },
    Case {
        name: "10 Gbit/s, 100 ms, 0.1 %",
        gbit: 10,
        rtt_ms: 100,
        loss: 0.001,
        simulated_s: 2000,
    },
    Case {
        name: "10 Gbit/s, 400 ms",
        gbit: 10,
        rtt_ms: 400,
        loss: 0.0,
        simulated_s: 10,
    },
    Case {
        name: "10 Gbit/s, 1 ms",
        gbit: 10,
        rtt_ms: 1,
        loss: 0.0,
        simulated_s: 5,
    },
];

fn main() {
    let only = std::env::args()
        .skip(1)
        .find(|arg| !arg.starts_with('-'))
        .unwrap_or_default();
    println!(
        "{:<34} {:>10} {:>10} {:>10} {:>10} {:>8}",
        "one flow", "Mpkt/s", "Mpkt/cpu s", "cpu ns/pkt", "packets", "Mbit/s"
    );
    for case in &CASES {
        report("Reno", case, &only, || reno(case));
    }
    for (rival, config) in [("UDT 4", UdtConfig::default()), ("UDT 2", UdtConfig::v2())] {
        for case in &CASES {
            report(rival, case, &only, || udt(case, config));
        }
    }
}

/// A world with one flow over a path of this case.
fn world<T: Transport>(case: &Case, header_bytes: u32, near: T, far: T) -> (World<T>, FlowEnds) {
    let rtt = Span::from_millis(case.rtt_ms);
    let forward = PathConfig {
        rate: Some(Rate::from_gbit_per_sec(case.gbit)),
        queue: QueueLimit::Unlimited,
        delay: rtt / 2,
        loss: if case.loss > 0.0 {
            LossModel::Bernoulli(case.loss)
        } else {
            LossModel::None
        },
        ..PathConfig::default()
    };
    let backward = PathConfig {
        delay: rtt / 2,
        ..PathConfig::default()
    };
    let mut world = World::new(1);
    let (left, right) = (world.add_host("left"), world.add_host("right"));
    let link = world.add_link(&forward, &backward);
    let flow = Flow::between((left, near), (right, far))
        .over(link)
        .header_bytes(header_bytes);
    let ends = world.add_flow(flow);
    (world, ends)
}

/// Bytes of a path's product, and a little more.
fn window(case: &Case) -> u64 {
    Rate::from_gbit_per_sec(case.gbit).bytes_in(Span::from_millis(case.rtt_ms)) + 1_000_000
}

/// A flow whose window is held by the receiver at the path's product where nothing is lost, so
/// that it is full and stays full.
fn reno(case: &Case) -> (World<TcpEndpoint>, FlowEnds) {
    let receiver = ReceiverConfig {
        receive_buffer_bytes: window(case),
        window_share: 1.0,
        autotune_from_bytes: None,
        ..ReceiverConfig::modern()
    };
    let near = TcpEndpoint::sender(&TcpConfig::modern(), Supply::Endless, 1);
    let far = TcpEndpoint::receiver(&receiver);
    world(case, IPV4_BYTES, near, far)
}

/// The same with UDT's buffers.
fn udt(case: &Case, config: UdtConfig) -> (World<UdtEndpoint>, FlowEnds) {
    let packets = (window(case) / u64::from(config.payload_bytes())) as u32;
    let config = UdtConfig {
        flight_packets: packets,
        send_buffer_packets: packets,
        receive_buffer_packets: packets,
        ..config
    };
    let near = UdtEndpoint::sender(&config, None, 1);
    let far = UdtEndpoint::receiver(&config, 2);
    world(case, IPV4_UDP_BYTES, near, far)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark needs a clock")]
fn report<T: Transport + Observe>(
    rival: &str,
    case: &Case,
    only: &str,
    make: impl Fn() -> (World<T>, FlowEnds),
) {
    let name = format!("{rival}, {}", case.name);
    if !name.contains(only) {
        return;
    }
    let (mut wall, mut cpu) = (f64::INFINITY, f64::INFINITY);
    let (mut packets, mut mbit) = (0, 0.0);
    for _ in 0..3 {
        let (mut world, ends) = make();
        let (start, used) = (std::time::Instant::now(), cpu_seconds());
        world.run_until(Time::ZERO + Span::from_secs(case.simulated_s));
        wall = wall.min(start.elapsed().as_secs_f64());
        cpu = cpu.min(cpu_seconds() - used);
        packets = world.counters(ends.a).sent_datagrams;
        let bytes = world.endpoint(ends.b).snapshot().delivered_bytes;
        mbit = bytes as f64 * 8e-6 / case.simulated_s as f64;
    }
    println!(
        "{name:<34} {:>10.2} {:>10.2} {:>10.1} {packets:>10} {mbit:>8.1}",
        packets as f64 / wall / 1e6,
        packets as f64 / cpu / 1e6,
        cpu * 1e9 / packets as f64,
    );
}

/// Processor time of this thread; zero where the system does not say.
fn cpu_seconds() -> f64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse().ok())
        .map_or(0.0, |ns: f64| ns / 1e9)
}
