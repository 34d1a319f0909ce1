//! How two congestion controls share one bottleneck: a view of all of them at a glance.
//!
//! `cargo run --release -p howdah-rivals --example share [SECONDS [NAME,..|- [RTT_MS]]]`
//!
//! 1 Gbit/s, 1500-byte packets, 38 and 180 ms, a queue of 127 packets and one of a BDP, no random
//! loss. Row and column name the algorithms; a cell is the goodput of the row's flow and of the
//! column's in Mbit/s over the second half of the run, and Jain's index of the two. The column's
//! flow starts a tenth of a second after the row's. On the diagonal the two are equal twins.

use howdah_core::{Observe, Rate, Span, Time};
use howdah_path::{PathConfig, QueueLimit};
use howdah_rivals::tcp::cc::{self, Entry};
use howdah_rivals::tcp::{IPV4_BYTES, ReceiverConfig, Supply, TcpConfig, TcpEndpoint};
use howdah_sim::{Flow, FlowEnds, World};

const RATE: Rate = Rate::from_gbit_per_sec(1);

struct Bottleneck {
    rtt: Span,
    queue: QueueLimit,
}

fn main() {
    let mut args = std::env::args().skip(1);
    let seconds: u64 = args.next().map_or(120, |t| t.parse().expect("seconds"));
    let names: Option<Vec<String>> = args
        .next()
        .filter(|t| t != "-")
        .map(|t| t.split(',').map(str::to_owned).collect());
    let rtts: Vec<u64> = args
        .next()
        .map_or_else(|| vec![38, 180], |t| vec![t.parse().expect("milliseconds")]);
    let entries: Vec<&Entry> = cc::ALL
        .iter()
        .filter(|e| names.as_ref().is_none_or(|n| n.iter().any(|n| n == e.name)))
        .collect();
    for rtt in rtts.into_iter().map(Span::from_millis) {
        let bdp = RATE.bytes_in(rtt);
        for (name, queue) in [
            ("127 packets", QueueLimit::Packets(127)),
            ("one BDP", QueueLimit::Bytes(bdp)),
        ] {
            println!("\n{RATE}, {rtt}, queue of {name}, {seconds} s");
            table(&entries, &Bottleneck { rtt, queue }, seconds);
        }
    }
}

fn table(entries: &[&Entry], bottleneck: &Bottleneck, seconds: u64) {
    print!("{:12}{:>8}", "", "alone");
    for entry in entries {
        print!(" {:>16}", entry.name);
    }
    println!();
    for (nth, row) in entries.iter().enumerate() {
        let alone = run(&[row], bottleneck, seconds);
        print!("{:12}{:>8.0}", row.name, alone[0]);
        for (other, column) in entries.iter().enumerate() {
            if other < nth {
                print!(" {:>16}", "");
                continue;
            }
            let both = run(&[row, column], bottleneck, seconds);
            let cell = format!("{:.0}+{:.0} {:.2}", both[0], both[1], jain(&both));
            print!(" {cell:>16}");
        }
        println!();
    }
}

/// Jain's fairness index: 1 for equal shares, 1/n if one has everything (Jain, Chiu, Hawe 1984).
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    sum * sum / (shares.len() as f64 * squares)
}

/// Goodput of each flow in Mbit/s over the second half of the run.
fn run(entries: &[&Entry], bottleneck: &Bottleneck, seconds: u64) -> Vec<f64> {
    let forward = PathConfig {
        rate: Some(RATE),
        queue: bottleneck.queue,
        delay: bottleneck.rtt / 2,
        ..PathConfig::default()
    };
    let backward = PathConfig {
        delay: bottleneck.rtt / 2,
        ..PathConfig::default()
    };
    let mut world = World::new(1);
    let (left, right) = (world.add_host("left"), world.add_host("right"));
    let link = world.add_link(&forward, &backward);
    let mut start = Time::ZERO;
    let flows: Vec<FlowEnds> = entries
        .iter()
        .map(|entry| {
            let config = TcpConfig::modern().with(**entry);
            let near = TcpEndpoint::sender(&config, Supply::Endless, world.next_seed());
            let far = TcpEndpoint::receiver(&ReceiverConfig::modern());
            let flow = Flow::between((left, near), (right, far))
                .over(link)
                .header_bytes(IPV4_BYTES)
                .start_at(start);
            start += Span::from_millis(100);
            world.add_flow(flow)
        })
        .collect();
    let delivered = |world: &World<TcpEndpoint>| -> Vec<u64> {
        let bytes = |f: &FlowEnds| world.endpoint(f.b).snapshot().delivered_bytes;
        flows.iter().map(bytes).collect()
    };
    let end = Span::from_secs(seconds);
    world.run_until(Time::ZERO + end / 2);
    let half = delivered(&world);
    world.run_until(Time::ZERO + end);
    delivered(&world)
        .iter()
        .zip(&half)
        .map(|(after, before)| (after - before) as f64 * 8.0 / (end / 2).as_secs_f64() / 1e6)
        .collect()
}
