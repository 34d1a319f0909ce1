//! UDT 4.11, the version-2 bracket and SABUL over a grid of round-trip times and losses: goodput and
//! feedback, the table of docs/rivals/udt.md.
//!
//! `cargo run --release -p howdah-rivals --example udt_grid [-- GBIT PACKET_BYTES SECONDS]`, by default
//! 10 Gbit/s, packets of 8800 bytes and 180 s. Nothing is lost in a queue.

use howdah_core::{Observe, Rate, Span, Time, Transport};
use howdah_path::{LossModel, PathConfig};
use howdah_rivals::sabul::{SabulEndpoint, SabulSettings};
use howdah_rivals::udt::{UdtConfig, UdtEndpoint};
use howdah_sim::{Flow, INTERFACE_BYTES, IPV4_UDP_BYTES, World};

const RTTS_US: [u64; 5] = [150, 50_000, 100_000, 200_000, 400_000];
const LOSSES: [f64; 4] = [0.0, 0.001, 0.003, 0.01];

struct Cell {
    rate: Rate,
    rtt: Span,
    loss: f64,
    seconds: u64,
}

impl Cell {
    /// Goodput in Mbit/s, and MiB of feedback on the interface per GiB of data.
    fn run<T: Transport + Observe>(&self, near: T, far: T) -> (f64, f64) {
        let backward = PathConfig {
            delay: self.rtt / 2,
            loss: if self.loss > 0.0 {
                LossModel::Bernoulli(self.loss)
            } else {
                LossModel::None
            },
            ..PathConfig::default()
        };
        let forward = PathConfig {
            rate: Some(self.rate),
            ..backward.clone()
        };
        let mut world = World::new(1);
        let (left, right) = (world.add_host("left"), world.add_host("right"));
        let link = world.add_link(&forward, &backward);
        let ends = world.add_flow(Flow::between((left, near), (right, far)).over(link));
        world.run_until(Time::ZERO + Span::from_secs(self.seconds));
        let bytes = world.endpoint(ends.b).snapshot().delivered_bytes as f64;
        let back = world.counters(ends.b);
        let headers = u64::from(IPV4_UDP_BYTES + INTERFACE_BYTES);
        let feedback = (back.sent_bytes + back.sent_datagrams * headers) as f64;
        let mbit = bytes * 8e-6 / self.seconds as f64;
        (mbit, feedback / bytes.max(1.0) * 1024.0)
    }
}

fn main() {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|argument| argument.parse().ok())
        .collect();
    let number = |nth: usize, default| numbers.get(nth).copied().unwrap_or(default);
    let (gbit, seconds) = (number(0, 10), number(2, 180));
    let packet_bytes = number(1, 8800) as u32;
    let rate = Rate::from_gbit_per_sec(gbit);
    println!("{gbit} Gbit/s, packets of {packet_bytes} bytes, {seconds} s: Mbit/s (MiB/GiB)");
    for (name, config) in [("udt", UdtConfig::default()), ("udt2", UdtConfig::v2())] {
        let config = UdtConfig {
            packet_bytes,
            ..config
        };
        table(name, rate, seconds, |cell| {
            let near = UdtEndpoint::sender(&config, None, 1);
            cell.run(near, UdtEndpoint::receiver(&config, 2))
        });
    }
    let settings = SabulSettings {
        packet_bytes,
        ..SabulSettings::default()
    };
    let settings = settings.at_most(rate);
    table("sabul", rate, seconds, |cell| {
        let near = SabulEndpoint::sender(&settings, None);
        cell.run(near, SabulEndpoint::receiver(&settings))
    });
}

fn table(name: &str, rate: Rate, seconds: u64, run: impl Fn(&Cell) -> (f64, f64)) {
    print!("{name:<8}");
    for rtt in RTTS_US {
        print!("{:>16}", format!("{} ms", rtt as f64 / 1e3));
    }
    println!();
    for loss in LOSSES {
        print!("{:<8}", format!("{} %", loss * 100.0));
        for rtt in RTTS_US {
            let rtt = Span::from_micros(rtt);
            let (mbit, feedback) = run(&Cell {
                rate,
                rtt,
                loss,
                seconds,
            });
            print!("{:>16}", format!("{mbit:.0} ({feedback:.2})"));
        }
        println!();
    }
}
