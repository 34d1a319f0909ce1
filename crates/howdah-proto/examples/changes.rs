//! Links whose rate halves or doubles under a flow, in virtual time: after how many round trips 90 % of the new rate arrive, and how much
//! the queue dropped meanwhile, in its own length.
//!
//! `cargo run --release -p howdah-proto --features sim --example changes [-- MBIT,... RTT_MS,... QUEUE_MS,... LOSS_PERCENT,... FACTOR,...]`

use howdah_core::{ObjectId, Rate, Span, Time};
use howdah_path::{LossModel, PathConfig, QueueLimit};
use howdah_proto::sim::{SimEndpoint, sim_config};
use howdah_sim::{Flow, World};

/// When it changes; the flow has found its rate by then.
const CHANGE: Span = Span::from_secs(20);
/// Round trips that are looked at.
const LOOK: u64 = 60;

#[derive(Clone, Copy)]
struct Place {
    rate: Rate,
    rtt: Span,
    queue: Span,
    loss: f64,
    seed: u64,
    factor: f64,
}

/// Round trips until 90 % of what the link carries arrive in one, and what the queue dropped in these `LOOK`, in queues.
fn run(place: &Place) -> (Option<f64>, f64) {
    let bytes = place.rate.bytes_in(place.queue);
    let path = |factor: f64| PathConfig {
        rate: Some(place.rate.mul_f64(factor)),
        delay: place.rtt / 2,
        queue: QueueLimit::Bytes(bytes),
        stored_queue: true,
        loss: LossModel::Bernoulli(place.loss),
        mtu: 1_500,
        ..PathConfig::default()
    };
    let mut world = World::new(place.seed);
    let link = world.add_link(&path(1.0), &path(1.0));
    let (near, far) = (world.add_host("near"), world.add_host("far"));
    let mut client = SimEndpoint::client(sim_config(), place.seed);
    let id = client.connection_mut().allocate_object();
    client.connection_mut().send_object(id, None, u64::MAX);
    client.connection_mut().set_readable(id, 1 << 60);
    let mut server = SimEndpoint::server(sim_config(), place.seed, place.seed + 1_000);
    server.connection_mut().receive_object(id, None, None);
    let flow = world.add_flow(Flow::between((near, client), (far, server)).over(link));
    // Not at the same moment of what the flow does by itself (drains, steps of probing).
    let change = CHANGE + place.rtt.mul_f64(0.37 * place.seed as f64);
    world.run_until(Time::ZERO + change);
    world.set_path_config(link.forward, &path(place.factor));
    let before = world.path(link.forward).counters().dropped_queue;
    // Bytes of an object for those of the wire: headers, seals, and what is lost by chance.
    let bound = place.rate.mul_f64(place.factor).as_f64() * 0.93 * (1.0 - place.loss);
    let parts = 4;
    let mut received = vec![
        world
            .endpoint(flow.b)
            .connection()
            .received_bytes(ObjectId::new(0)),
    ];
    for part in 1..=LOOK * parts {
        world.run_until(Time::ZERO + change + place.rtt.mul_f64(part as f64 / parts as f64));
        received.push(
            world
                .endpoint(flow.b)
                .connection()
                .received_bytes(ObjectId::new(0)),
        );
    }
    // What was under way when it changed says nothing of the flow: after a fall the round trips that count are those with the queue gone or not.
    let enough = 0.9 * bound / 8.0 * place.rtt.as_secs_f64();
    let width = parts as usize;
    let found = (0..received.len() - width)
        .find(|&i| (received[i + width] - received[i]) as f64 >= enough)
        .map(|i| (i + width) as f64 / parts as f64);
    let dropped = world.path(link.forward).counters().dropped_queue - before;
    (found, dropped as f64 * 1_500.0 / bytes as f64)
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mut list = |usual: &str| -> Vec<f64> {
        let text = args.next().unwrap_or_else(|| usual.to_owned());
        let numbers = text.split(',').map(str::parse);
        numbers.collect::<Result<_, _>>().expect("numbers")
    };
    let (rates, rtts) = (list("100,1000"), list("10,50,200"));
    let (queues, losses) = (list("5,25,100"), list("0,0.1"));
    println!(
        "| change, RTT | places | t90, RTT: median | 90 % | never | overflow, queues: median | 90 % |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    let factors = list("0.5,2,4");
    for factor in factors {
        for &rtt in &rtts {
            let mut found = Vec::new();
            let mut dropped = Vec::new();
            for &rate in &rates {
                for &queue in &queues {
                    for &loss in &losses {
                        for seed in 1..=3 {
                            let place = Place {
                                rate: Rate::from_bits_per_sec((rate * 1e6) as u64),
                                rtt: Span::from_secs_f64(rtt / 1e3),
                                queue: Span::from_secs_f64(queue / 1e3),
                                loss: loss / 100.0,
                                seed,
                                factor,
                            };
                            let (t90, overflow) = run(&place);
                            found.push(t90.unwrap_or(f64::INFINITY));
                            dropped.push(overflow);
                            if std::env::var_os("EACH").is_some() {
                                println!(
                                    "{rate} Mbit/s x {factor}, {rtt} ms, {queue} ms, {loss} %, {seed}: {t90:?} {overflow:.2}"
                                );
                            }
                        }
                    }
                }
            }
            found.sort_by(f64::total_cmp);
            dropped.sort_by(f64::total_cmp);
            let at = |list: &[f64], share: f64| list[((list.len() - 1) as f64 * share) as usize];
            let never = found.iter().filter(|t| t.is_infinite()).count();
            println!(
                "| x {factor}, {rtt} ms | {} | {:.1} | {:.1} | {never} | {:.2} | {:.2} |",
                found.len(),
                at(&found, 0.5),
                at(&found, 0.9),
                at(&dropped, 0.5),
                at(&dropped, 0.9),
            );
        }
    }
}
