//! How many data packets the blasting tools carry through the simulator in a second of processor
//! time: one flow at 10 Gbit/s, 100 ms, packets of 8800 bytes.
//!
//! `cargo run --release -p howdah-rivals --example blast_speed`
//!
//! The same for our own protocol: `cargo run --release -p howdah-proto --example sim_speed`.

use howdah_core::{Observe, Rate, Span, Time};
use howdah_path::{LossModel, PathConfig, QueueLimit};
use howdah_rivals::blast::{
    BlastEndpoint, PacedSettings, RbudpSettings, SharedBudget, TsunamiSettings,
};
use howdah_sim::{Flow, World};

const RATE: Rate = Rate::from_mbit_per_sec(9_500);

fn pairs() -> Vec<(&'static str, BlastEndpoint, BlastEndpoint)> {
    let rbudp = RbudpSettings {
        payload_bytes: 8800,
        ..RbudpSettings::stream(RATE, None)
    };
    let tsunami = TsunamiSettings {
        block_bytes: 8800,
        // The request has 32 bits for it.
        target: Rate::from_mbit_per_sec(4_200),
        ..TsunamiSettings::default()
    };
    let paced = |settings: PacedSettings| PacedSettings {
        payload_bytes: 8800,
        ..settings
    };
    let pa_udp = paced(PacedSettings::pa_udp(RATE, None));
    let gtp = paced(PacedSettings::gtp(RATE, None));
    vec![
        (
            "rbudp",
            BlastEndpoint::rbudp_sender(&rbudp, None),
            BlastEndpoint::rbudp_receiver(&rbudp),
        ),
        (
            "tsunami",
            BlastEndpoint::tsunami_server(&tsunami, 9000, None),
            BlastEndpoint::tsunami_client(&tsunami, 9000),
        ),
        (
            "pa-udp",
            BlastEndpoint::paced_sender(&pa_udp, None),
            BlastEndpoint::paced_receiver(&pa_udp, None),
        ),
        (
            "gtp",
            BlastEndpoint::paced_sender(&gtp, None),
            BlastEndpoint::paced_receiver(&gtp, Some(&SharedBudget::new(RATE))),
        ),
    ]
}

fn main() {
    println!("10 Gbit/s, 100 ms, 8800 bytes, 20 s of virtual time; best of three");
    for loss in [0.0, 0.01] {
        for at in 0..pairs().len() {
            measure(at, loss);
        }
    }
}

fn measure(at: usize, loss: f64) {
    let mut best = f64::INFINITY;
    let (mut packets, mut mbit, mut name) = (0, 0.0, "");
    for _ in 0..3 {
        let way = PathConfig {
            rate: Some(Rate::from_gbit_per_sec(10)),
            queue: QueueLimit::Time(Span::from_millis(25)),
            delay: Span::from_millis(50),
            loss: LossModel::Bernoulli(loss),
            ..PathConfig::default()
        };
        let mut world = World::new(1);
        let (left, right) = (world.add_host("left"), world.add_host("right"));
        let link = world.add_link(&way, &way);
        let (tool, near, far) = pairs().swap_remove(at);
        let ends = world.add_flow(Flow::between((left, near), (right, far)).over(link));
        let start = cpu_seconds();
        world.run_until(Time::ZERO + Span::from_secs(20));
        best = best.min(cpu_seconds() - start);
        packets = world.counters(ends.a).sent_datagrams;
        mbit = world.endpoint(ends.b).snapshot().delivered_bytes as f64 * 4e-7;
        name = tool;
    }
    println!(
        "{name:<10} {:>4} %: {:>6.2} Mpkt/cpu s, {packets:>8} packets, {mbit:>7.0} Mbit/s",
        loss * 100.0,
        packets as f64 / best / 1e6,
    );
}

/// Processor time of this thread; zero where the system does not say.
fn cpu_seconds() -> f64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse().ok())
        .map_or(0.0, |ns: f64| ns / 1e9)
}
