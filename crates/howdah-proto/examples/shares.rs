//! Flows of ours that come to one queue, one after the other, in virtual time: how equal their shares are once all have been there for half a
//! minute, and what that costs.
//!
//! `cargo run --release -p howdah-proto --features sim --example shares [-- MBIT,... RTT_MS,... QUEUE_MS,... FLOWS,... SEEDS LOSS_PERCENT JITTER_MS]`,
//! jitter being evenly spread;
//! with `EACH=1` a line for each place and seed.

use howdah_core::{Rate, Span, Time};
use howdah_path::{Jitter, LossModel, PathConfig, QueueLimit};
use howdah_proto::sim::{SimEndpoint, sim_config};
use howdah_sim::{Flow, FlowEnds, World};

/// Flows come so far apart, and up to a second later by the seed.
const STAGGER: Span = Span::from_secs(3);
/// After the last has come, shares are judged from then on, for so long.
const SETTLES: Span = Span::from_secs(30);
const JUDGED: Span = Span::from_secs(20);
/// What is asked for.
const EQUAL: f64 = 0.97;

#[derive(Clone, Copy)]
struct Place {
    rate: Rate,
    rtt: Span,
    queue: Span,
    flows: u64,
    loss: f64,
    jitter: Span,
    seed: u64,
}

struct Shares {
    rates: Vec<f64>,
    /// All of them, of what the link carries.
    goodput: f64,
    /// In the middle of all looks.
    queue: Span,
    dropped: f64,
}

impl Shares {
    /// Jain, Chiu and Hawe 1984.
    fn jain(&self) -> f64 {
        let sum: f64 = self.rates.iter().sum();
        let squares: f64 = self.rates.iter().map(|r| r * r).sum();
        sum * sum / squares.max(1.0) / self.rates.len() as f64
    }
}

fn run(place: &Place) -> Shares {
    let path = PathConfig {
        rate: Some(place.rate),
        delay: place.rtt / 2,
        queue: QueueLimit::Time(place.queue),
        loss: LossModel::Bernoulli(place.loss),
        jitter: Jitter::Uniform(place.jitter),
        mtu: 1_500,
        ..PathConfig::default()
    };
    let mut world = World::new(place.seed);
    let link = world.add_link(&path, &path);
    let (near, far) = (world.add_host("near"), world.add_host("far"));
    let mut last = Time::ZERO;
    let start = |n: u64| {
        let late = (place.seed * 7_919 + n * 104_729) % 1_000;
        let start = Time::ZERO + STAGGER * n + Span::from_millis(late);
        last = last.max(start);
        let seed = place.seed * 1_000 + n;
        let sender = SimEndpoint::sender(start, sim_config(), seed, None);
        let receiver = SimEndpoint::receiver(start, sim_config(), seed, seed + 500, None);
        let flow = Flow::between((near, sender), (far, receiver)).over(link);
        world.add_flow(flow.start_at(start))
    };
    let flows: Vec<FlowEnds> = (0..place.flows).map(start).collect();
    let delivered = |world: &World<SimEndpoint>| -> Vec<u64> {
        let ends = flows.iter();
        ends.map(|flow| world.endpoint(flow.b).delivered_bytes())
            .collect()
    };
    let from = last + SETTLES;
    world.run_until(from);
    let (before, counted) = (delivered(&world), world.path(link.forward).counters());
    let mut queues = Vec::new();
    while world.now() < from + JUDGED {
        world.run_until(world.now() + Span::from_millis(20));
        queues.push(world.path(link.forward).queue_delay(world.now()));
    }
    queues.sort();
    let counters = world.path(link.forward).counters();
    let got = delivered(&world);
    let bits = |(now, before): (&u64, &u64)| (now - before) as f64 * 8.0 / JUDGED.as_secs_f64();
    let rates: Vec<f64> = got.iter().zip(&before).map(bits).collect();
    let offered = (counters.offered - counted.offered).max(1);
    Shares {
        goodput: rates.iter().sum::<f64>() / place.rate.as_f64(),
        rates,
        queue: queues[queues.len() / 2],
        dropped: (counters.dropped_queue - counted.dropped_queue) as f64 / offered as f64,
    }
}

/// The row of places that differ in round trip and seed.
fn row(name: &str, places: &[Place]) {
    let all: Vec<Shares> = places.iter().map(run).collect();
    if std::env::var_os("EACH").is_some() {
        for (place, shares) in places.iter().zip(&all) {
            let each: Vec<String> = shares
                .rates
                .iter()
                .map(|r| format!("{:.1}", r / 1e6))
                .collect();
            println!(
                "{name}, {} of RTT, seed {}: Jain {:.3}, {} Mbit/s, queue {}, dropped {:.2} %",
                place.rtt,
                place.seed,
                shares.jain(),
                each.join(" : "),
                shares.queue,
                shares.dropped * 100.0
            );
        }
    }
    let mut jain: Vec<f64> = all.iter().map(Shares::jain).collect();
    jain.sort_by(f64::total_cmp);
    let equal = jain.iter().filter(|&&j| j >= EQUAL).count();
    let mean = |of: &dyn Fn(&Shares) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
    println!(
        "| {name} | {} | {:.0} % | {:.3} | {:.3} | {:.3} | {:.1} | {:.2} % |",
        all.len(),
        equal as f64 * 100.0 / all.len() as f64,
        jain[jain.len() / 2],
        jain[0],
        mean(&|s| s.goodput),
        mean(&|s| s.queue.as_secs_f64() * 1e3),
        mean(&|s| s.dropped * 100.0),
    );
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mut list = |usual: &str| -> Vec<f64> {
        let text = args.next().unwrap_or_else(|| usual.to_owned());
        let numbers = text.split(',').map(str::parse);
        numbers.collect::<Result<_, _>>().expect("numbers")
    };
    let (rates, rtts, queues) = (list("100"), list("1,5,20,80,200"), list("1,5,10,20,50,100"));
    let (flows, seeds, losses) = (list("2,4"), list("3")[0] as u64, list("0"));
    let jitters = list("0");
    println!(
        "| flows, rate, queue | places | Jain >= {EQUAL} | median | worst | goodput | queue, ms | dropped |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for &rate in &rates {
        for &flows in &flows {
            for &queue in &queues {
                let places: Vec<Place> = rtts
                    .iter()
                    .flat_map(|&rtt| (1..=seeds).map(move |seed| (rtt, seed)))
                    .map(|(rtt, seed)| Place {
                        rate: Rate::from_bits_per_sec((rate * 1e6) as u64),
                        rtt: Span::from_secs_f64(rtt / 1e3),
                        queue: Span::from_secs_f64(queue / 1e3),
                        flows: flows as u64,
                        loss: losses[0] / 100.0,
                        jitter: Span::from_secs_f64(jitters[0] / 1e3),
                        seed,
                    })
                    .collect();
                row(
                    &format!("{flows} flows, {rate} Mbit/s, {queue} ms"),
                    &places,
                );
            }
        }
    }
}
