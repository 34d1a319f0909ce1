//! The first round trips of one flow alone, in virtual time: what `scenarios/starts.toml` looks at, quickly, for those who work on start-up.
//!
//! `cargo run --release -p howdah-proto --features sim --example starts -- [RATES_MBIT [RTTS_MS [QUEUES_MS [LOSSES_PERCENT [SEEDS [HOSTS]]]]]]`
//!
//! Lists are written with commas, `-` is the usual list; HOSTS is `ideal`, `testbed` or both. With `WARM=1` the path
//! is remembered from a transfer before, with `WARM=2` when it had twice today's capacity. With `TRAIN=0` the first flight is no train. `MTU=9000` has packets of that size at any rate (usual: from 1.5 Gbit/s on, else 1500). With `TRACE=1` each cell tells what its rate control
//! thinks. A line for each group: cells, share of cells as asked (t90 of at most 5 RTT, at most 3.5 RTT lost, at most 0.3 % dropped by the queue), medians and 90th percentiles.

use howdah_core::{Rate, Span, Time};
use howdah_path::{LossModel, PathConfig, QueueLimit};
use howdah_proto::PathKnowledge;
use howdah_proto::sim::{SimEndpoint, sim_config};
use howdah_sim::{Costs, Disturbance, Flow, PacketCost, SocketBuffer, Stalls, Tail, World};
use std::cell::RefCell;
use std::rc::Rc;

const LOOKS: u64 = 32;

#[derive(Clone, Copy)]
struct Cell {
    mbit: f64,
    rtt_ms: f64,
    queue_ms: f64,
    loss: f64,
    seed: u64,
    testbed: bool,
}

struct Start {
    t90: f64,
    cost: f64,
    overflow: f64,
    share: f64,
    /// Start-up was over by then.
    ended: bool,
}

/// Whether the path is remembered, and what share of today's capacity it had then.
fn warm() -> Option<f64> {
    let share = std::env::var("WARM").ok()?;
    Some(share.parse().expect("a share"))
}

fn testbed() -> Costs {
    let cost = PacketCost {
        per_packet: Span::from_nanos(210),
        per_report: Span::from_micros(2),
        per_byte_ps: 153,
    };
    Costs {
        sent: cost,
        received: cost,
        per_wake: Span::from_micros(3),
        datagrams_per_call: 7,
        socket: Some(SocketBuffer {
            bytes: 64 << 20,
            charge_percent: 180,
        }),
        disturbance: Disturbance {
            tail: Some(Tail {
                most: Span::from_micros(500),
                calls: 16,
            }),
            gather: Span::from_micros(60),
            first: Span::from_micros(300),
            stalls: Some(Stalls {
                every: Span::from_millis(250),
                least: Span::from_millis(1),
                most: Span::from_millis(10),
            }),
        },
    }
}

fn run(cell: &Cell, verbose: bool) -> Start {
    let usual = if cell.mbit > 1_500.0 { 9_000 } else { 1_500 };
    let mtu: u32 = std::env::var("MTU").map_or(usual, |mtu| mtu.parse().expect("bytes"));
    let link_rate = Rate::from_mbit_per_sec(cell.mbit as u64);
    let config = PathConfig {
        rate: Some(link_rate),
        delay: Span::from_secs_f64(cell.rtt_ms / 2e3),
        queue: QueueLimit::Time(Span::from_secs_f64(cell.queue_ms / 1e3)),
        loss: LossModel::Bernoulli(cell.loss / 100.0),
        mtu,
        ..PathConfig::default()
    };
    let mut world = World::new(cell.seed);
    let (near, far) = (world.add_host("near"), world.add_host("far"));
    let link = world.add_link(&config, &config);
    let mut settings = sim_config();
    settings.path = warm().map(|share| PathKnowledge {
        capacity: link_rate.mul_f64(0.98 * share),
        rtt: Span::from_secs_f64(cell.rtt_ms / 1e3),
        loss: cell.loss / 100.0,
        age: Span::ZERO,
        datagram_bytes: mtu as u16 - 28,
    });
    settings.train = std::env::var_os("TRAIN").is_none_or(|train| train != "0");
    let mut client = SimEndpoint::client(settings, cell.seed);
    let id = client.connection_mut().allocate_object();
    client.connection_mut().send_object(id, None, u64::MAX);
    client.connection_mut().set_readable(id, 1 << 60);
    let mut server = SimEndpoint::server(sim_config(), cell.seed, cell.seed + 1_000);
    server.connection_mut().receive_object(id, None, None);
    let flow = world.add_flow(Flow::between((near, client), (far, server)).over(link));
    if cell.testbed {
        for (end, host) in [(flow.a, near), (flow.b, far)] {
            let core = world.add_core(host);
            world.run_on(end, core, core, testbed());
        }
    }
    let rtt = Span::from_secs_f64(cell.rtt_ms / 1e3);
    let step = rtt / LOOKS;
    let log: Rc<RefCell<Vec<u64>>> = Rc::default();
    let sink = Rc::clone(&log);
    let rtt_ms = cell.rtt_ms;
    world.sample_every(step, move |now, world| {
        let mut log = sink.borrow_mut();
        log.push(world.endpoint(flow.b).connection().received_bytes(id));
        if verbose && log.len().is_multiple_of(4) {
            let counters = world.path(link.forward).counters();
            let queue = world.path(link.forward).queue_delay(now);
            let c = world.endpoint(flow.a).connection();
            eprintln!(
                "{:5.2} q={queue} drops {} {}",
                now.as_secs_f64() * 1e3 / rtt_ms,
                counters.dropped_queue,
                c.describe_rate()
            );
        }
    });
    world.run_until(Time::ZERO + rtt * 24);
    let log = log.borrow();
    let payload = f64::from(mtu) - 28.0 - 13.0 - 10.0 - 16.0;
    let bound = cell.mbit * 1e6 * (1.0 - cell.loss / 100.0) * payload / f64::from(mtu + 38);
    let per_look = bound / 8.0 * step.as_secs_f64();
    let (from, window) = (LOOKS as usize / 2, LOOKS as usize / 4);
    let t90 = (from + window..log.len())
        .find(|&i| (log[i] - log[i - window]) as f64 >= 0.9 * per_look * window as f64)
        .map_or(99.0, |i| (i - from + 1) as f64 / LOOKS as f64);
    let looks = log.len() - from;
    let got = *log.last().unwrap_or(&0) as f64;
    let late = log.len() * 3 / 4;
    let counters = world.path(link.forward).counters();
    Start {
        t90,
        cost: (looks as f64 - got / per_look) / LOOKS as f64,
        overflow: 100.0 * counters.dropped_queue as f64 / counters.offered.max(1) as f64,
        share: (got - log[late] as f64) / per_look / (log.len() - late) as f64,
        ended: world
            .endpoint(flow.a)
            .connection()
            .path_knowledge()
            .is_some(),
    }
}

fn list(text: Option<String>, default: &[f64]) -> Vec<f64> {
    text.filter(|t| t != "-").map_or_else(
        || default.to_vec(),
        |t| t.split(',').map(|x| x.parse().expect("a number")).collect(),
    )
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

fn row(name: &str, starts: &[&Start]) {
    if starts.is_empty() {
        return;
    }
    let asked = |s: &&&Start| s.t90 <= 5.0 && s.cost <= 3.5 && s.overflow <= 0.3;
    let good = starts.iter().filter(asked).count();
    let at = |f: &dyn Fn(&Start) -> f64, q: f64| {
        let mut all: Vec<f64> = starts.iter().map(|s| f(s)).collect();
        all.sort_by(f64::total_cmp);
        all[((all.len() - 1) as f64 * q) as usize]
    };
    println!(
        "{name:16} {:5} {:6.1} %  t90 {:5.2} {:6.2}  cost {:5.2} {:6.2}  overflow {:6.3} {:6.2}  share {:.3} {:.3}  over {:.0} %",
        starts.len(),
        100.0 * good as f64 / starts.len() as f64,
        at(&|s| s.t90, 0.5),
        at(&|s| s.t90, 0.9),
        at(&|s| s.cost, 0.5),
        at(&|s| s.cost, 0.9),
        at(&|s| s.overflow, 0.5),
        at(&|s| s.overflow, 0.9),
        at(&|s| s.share, 0.5),
        at(&|s| s.share, 0.1),
        100.0 * starts.iter().filter(|s| s.ended).count() as f64 / starts.len() as f64,
    );
}

fn main() {
    let mut args = std::env::args().skip(1);
    let rates = list(args.next(), &[100.0, 1_000.0, 10_000.0, 40_000.0]);
    let rtts = list(args.next(), &[5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 400.0]);
    let queues = list(args.next(), &[5.0, 25.0, 100.0]);
    let losses = list(args.next(), &[0.0, 0.01, 0.1, 0.5, 1.0, 2.0]);
    let seeds = list(args.next(), &[1.0]);
    let hosts = args.next().unwrap_or_else(|| "ideal,testbed".to_owned());
    let verbose = std::env::var_os("TRACE").is_some();
    let each = std::env::var_os("CELLS").is_some() || verbose;
    let mut all: Vec<(Cell, Start)> = Vec::new();
    for testbed in [false, true] {
        if !hosts.contains(if testbed { "testbed" } else { "ideal" }) {
            continue;
        }
        for &mbit in rates.iter().filter(|&&mbit| !testbed || mbit < 40_000.0) {
            for &rtt_ms in &rtts {
                for &queue_ms in &queues {
                    for &loss in &losses {
                        for &seed in &seeds {
                            // Other losses in each cell.
                            let mixed =
                                seed as u64 * 7_919 + (mbit + 31.0 * rtt_ms + queue_ms) as u64;
                            let cell = Cell {
                                mbit,
                                rtt_ms,
                                queue_ms,
                                loss,
                                seed: mixed,
                                testbed,
                            };
                            let start = run(&cell, verbose);
                            if each {
                                println!(
                                    "{mbit} Mbit/s {rtt_ms} ms, queue {queue_ms} ms, loss {loss} %, seed {seed} testbed {testbed}: t90 {:.2} cost {:.2} overflow {:.3} % share {:.3}",
                                    start.t90, start.cost, start.overflow, start.share
                                );
                            }
                            all.push((cell, start));
                        }
                    }
                }
            }
        }
    }
    let group = |name: &str, keep: &dyn Fn(&Cell) -> bool| {
        let starts: Vec<&Start> = all
            .iter()
            .filter(|(c, _)| keep(c))
            .map(|(_, s)| s)
            .collect();
        row(name, &starts);
    };
    group("all", &|_| true);
    group("ideal", &|c| !c.testbed);
    group("testbed", &|c| c.testbed);
    for &v in &queues {
        group(&format!("queue {v} ms"), &|c| same(c.queue_ms, v));
    }
    for &v in &losses {
        group(&format!("loss {v} %"), &|c| same(c.loss, v));
    }
    for &v in &rates {
        group(&format!("ideal {v} Mbit"), &|c| {
            same(c.mbit, v) && !c.testbed
        });
        group(&format!("testb {v} Mbit"), &|c| {
            same(c.mbit, v) && c.testbed
        });
    }
    for &v in &rtts {
        group(&format!("rtt {v} ms"), &|c| same(c.rtt_ms, v));
    }
}
