//! How many data packets the models carry through the simulator in a second of processor time:
//!
//! `cargo run --release -p howdah-rivals --example model_speed`

use howdah_core::{Rate, Span, Time};
use howdah_path::{LossModel, PathConfig, QueueLimit};
use howdah_rivals::model::{
    ModelEndpoint, Settings, fasp_like, filecatalyst_like, mtp_like, rwtp_like,
};
use howdah_sim::{Flow, World};

fn main() {
    println!("10 Gbit/s, 10 s of virtual time; best of three");
    for settings in [rwtp_like(), filecatalyst_like(), fasp_like(), mtp_like()] {
        for (rtt_ms, loss) in [(0, 0.0), (100, 0.001), (400, 0.02)] {
            measure(&settings, rtt_ms, loss);
        }
    }
}

fn measure(settings: &Settings, rtt_ms: u64, loss: f64) {
    let mut best = f64::INFINITY;
    let (mut packets, mut mbit) = (0, 0.0);
    for _ in 0..3 {
        let path = PathConfig {
            rate: Some(Rate::from_gbit_per_sec(10)),
            queue: QueueLimit::Bytes(64_000_000),
            delay: Span::from_millis(rtt_ms) / 2,
            loss: LossModel::Bernoulli(loss),
            ..PathConfig::default()
        };
        let mut world = World::new(1);
        let (left, right) = (world.add_host("left"), world.add_host("right"));
        let link = world.add_link(&path, &path);
        let near = ModelEndpoint::sender(settings, None).expect("settings of ours");
        let far = ModelEndpoint::receiver(settings).expect("settings of ours");
        let ends = world.add_flow(Flow::between((left, near), (right, far)).over(link));
        let start = cpu_seconds();
        world.run_until(Time::ZERO + Span::from_secs(10));
        best = best.min(cpu_seconds() - start);
        packets = world.counters(ends.a).sent_datagrams;
        mbit = world.endpoint(ends.b).delivered_bytes() as f64 * 8e-7;
    }
    println!(
        "{:<18} {rtt_ms:>3} ms {:>4} %: {:>6.2} Mpkt/cpu s, {packets:>8} packets, {mbit:>7.0} Mbit/s",
        settings.name,
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
