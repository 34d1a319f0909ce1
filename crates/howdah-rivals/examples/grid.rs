//! One TCP flow on 10 Gbit/s over round-trip time and loss.
//!
//! `cargo run --release -p howdah-rivals --example grid [NAME,.. [SECONDS [RTT_MS,.. [LOSS_%,.. [MIB]]]]]`
//!
//! 9000-byte packets, a queue of 50 ms, independent loss forwards, today's Linux at both ends. The
//! receiver announces MIB mebibytes at most; without it, 1 GiB, the largest window that TCP knows.
//! Goodput in Gbit/s over the second half of the run; the link carries 9.90.

use howdah_core::{Observe, Rate, Span, Time};
use howdah_path::{LossModel, PathConfig, QueueLimit};
use howdah_rivals::tcp::cc::{self, Entry};
use howdah_rivals::tcp::{IPV4_BYTES, ReceiverConfig, Supply, TcpConfig, TcpEndpoint};
use howdah_sim::{Flow, World};

const MTU: u32 = 9000;

fn numbers(text: Option<String>, default: &[f64]) -> Vec<f64> {
    text.map_or_else(
        || default.to_vec(),
        |t| t.split(',').map(|x| x.parse().expect("a number")).collect(),
    )
}

fn main() {
    let mut args = std::env::args().skip(1);
    let names = args.next().unwrap_or_else(|| "bbr1,bbr3".to_owned());
    let seconds = numbers(args.next(), &[40.0])[0];
    let rtts = numbers(args.next(), &[0.2, 50.0, 100.0, 200.0, 400.0]);
    let losses = numbers(args.next(), &[0.0, 0.1, 0.5, 1.0, 2.0]);
    let window_bytes = args
        .next()
        .map_or(1 << 30, |t| t.parse::<u64>().expect("mebibytes") << 20);
    for name in names.split(',') {
        let entry = cc::find(name).expect("a congestion control of cc::ALL");
        print!("\n{name:>10}  loss");
        for loss in &losses {
            print!(" {loss:>6} %");
        }
        println!();
        for &rtt in &rtts {
            print!("{rtt:>10} ms    ");
            for &loss in &losses {
                print!(" {:>8.3}", cell(entry, rtt, loss, seconds, window_bytes));
            }
            println!();
        }
    }
}

/// Goodput in Gbit/s.
fn cell(entry: &Entry, rtt_ms: f64, loss_percent: f64, seconds: f64, window_bytes: u64) -> f64 {
    let one_way = Span::from_secs_f64(rtt_ms / 2e3);
    let forward = PathConfig {
        rate: Some(Rate::from_gbit_per_sec(10)),
        queue: QueueLimit::Time(Span::from_millis(50)),
        loss: LossModel::Bernoulli(loss_percent / 100.0),
        delay: one_way,
        mtu: MTU,
        ..PathConfig::default()
    };
    let backward = PathConfig {
        delay: one_way,
        ..PathConfig::default()
    };
    let mut world = World::new(3);
    let (left, right) = (world.add_host("left"), world.add_host("right"));
    let link = world.add_link(&forward, &backward);
    let config = TcpConfig {
        mtu: MTU,
        ..TcpConfig::modern().with(*entry)
    };
    let receiver = ReceiverConfig {
        mtu: MTU,
        receive_buffer_bytes: window_bytes,
        window_share: 1.0,
        ..ReceiverConfig::modern()
    };
    let near = TcpEndpoint::sender(&config, Supply::Endless, world.next_seed());
    let far = TcpEndpoint::receiver(&receiver);
    let ends = world.add_flow(
        Flow::between((left, near), (right, far))
            .over(link)
            .header_bytes(IPV4_BYTES),
    );
    let half = Span::from_secs_f64(seconds / 2.0);
    world.run_until(Time::ZERO + half);
    let before = world.endpoint(ends.b).snapshot().delivered_bytes;
    world.run_until(Time::ZERO + half * 2);
    let after = world.endpoint(ends.b).snapshot().delivered_bytes;
    Rate::from_bytes_over(after - before, half).as_f64() / 1e9
}
