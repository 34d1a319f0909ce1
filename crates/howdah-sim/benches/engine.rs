//! How many datagrams a second of wall time the engine carries, with transports that do nothing.
//!
//! `cargo bench -p howdah-sim`; `cargo bench -p howdah-sim -- one` runs the cases whose names
//! contain "one". Every case runs three times and the best counts.

#[path = "../tests/it/toys/mod.rs"]
mod toys;

use howdah_core::{Rate, Span, Time};
use howdah_path::{Jitter, LossModel, PathConfig};
use howdah_sim::{Flow, Link, World};
use std::hint::black_box;
use toys::{Echo, StopAndWait, Toy};

const DATAGRAMS: u64 = 3_000_000;
const PAYLOAD: u32 = 8_800;

fn main() {
    let only = std::env::args()
        .skip(1)
        .find(|arg| !arg.starts_with('-'))
        .unwrap_or_default();
    println!(
        "{:<34} {:>10} {:>10} {:>9}",
        "case", "Mdgram/s", "Mevent/s", "ns/dgram"
    );
    let plain = wan();
    let lossy = PathConfig {
        loss: LossModel::Bernoulli(0.01),
        ..wan()
    };
    let jittery = PathConfig {
        jitter: Jitter::Uniform(Span::from_millis(1)),
        ..wan()
    };
    let reordering = PathConfig {
        reorder: 0.5,
        ..jittery.clone()
    };
    report(&only, "one flow", || blasters(&[&plain], 1));
    report(&only, "one flow, 1 % loss", || blasters(&[&lossy], 1));
    report(&only, "one flow, 1 ms jitter", || blasters(&[&jittery], 1));
    report(&only, "one flow, 1 ms jitter, reordering", || {
        blasters(&[&reordering], 1)
    });
    report(&only, "one flow over three paths", || {
        blasters(&[&plain, &plain, &plain], 1)
    });
    report(&only, "100 flows on one path", || blasters(&[&plain], 100));
    report(&only, "1000 request-response flows", || echoes(1_000));
}

/// 10 Gbit/s, 100 ms.
fn wan() -> PathConfig {
    PathConfig {
        rate: Some(Rate::from_gbit_per_sec(10)),
        delay: Span::from_millis(100),
        ..PathConfig::default()
    }
}

/// Flows that together offer 9.9 Gbit/s of payload.
fn blasters(paths: &[&PathConfig], flows: u64) -> World<Toy> {
    let mut world = World::new(1);
    let (left, right) = (world.add_host("left"), world.add_host("right"));
    let links: Vec<Link> = paths
        .iter()
        .map(|path| world.add_link(path, &PathConfig::default()))
        .collect();
    for _ in 0..flows {
        let rate = Rate::from_bits_per_sec(9_900_000_000 / flows);
        let sender = Toy::blaster(rate, PAYLOAD, DATAGRAMS / flows);
        let flow = Flow::between((left, sender), (right, Toy::sink()));
        let flow = links.iter().fold(flow, |flow, &link| flow.over(link));
        world.add_flow(flow);
    }
    world
}

fn echoes(flows: u64) -> World<Toy> {
    let mut world = World::new(1);
    let (left, right) = (world.add_host("left"), world.add_host("right"));
    let link = world.add_link(&wan(), &wan());
    for _ in 0..flows {
        let rounds = DATAGRAMS / flows / 2;
        let sender = Toy::StopAndWait(StopAndWait::new(PAYLOAD, rounds, Span::from_secs(3)));
        let echo = Toy::Echo(Echo::new(64));
        world.add_flow(Flow::between((left, sender), (right, echo)).over(link));
    }
    world
}

#[expect(clippy::disallowed_methods, reason = "a benchmark needs a clock")]
fn report(only: &str, name: &str, build: impl Fn() -> World<Toy>) {
    if !name.contains(only) {
        return;
    }
    let mut best: Option<(f64, u64, u64)> = None;
    for _ in 0..3 {
        let mut world = build();
        let start = std::time::Instant::now();
        world.run_until(Time::ZERO + Span::from_secs(100_000));
        let seconds = start.elapsed().as_secs_f64();
        let sent = world
            .endpoints()
            .map(|id| world.counters(id).sent_datagrams)
            .sum();
        black_box(world.fingerprint());
        if best.is_none_or(|(least, ..)| seconds < least) {
            best = Some((seconds, sent, world.events()));
        }
    }
    let (seconds, sent, events) = best.expect("three runs");
    println!(
        "{name:<34} {:>10.2} {:>10.2} {:>9.1}",
        sent as f64 / seconds / 1e6,
        events as f64 / seconds / 1e6,
        seconds * 1e9 / sent as f64
    );
}
