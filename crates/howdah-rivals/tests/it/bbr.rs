//! BBR v1 and v3 in the TCP engine over simulated paths. Jumbo frames, to spend fewer packets.

use howdah_core::{Observe, Rate, Span, Time};
use howdah_path::{LossModel, PathConfig, QueueLimit};
use howdah_rivals::tcp::cc::{self, Entry};
use howdah_rivals::tcp::{IPV4_BYTES, ReceiverConfig, Supply, TcpConfig, TcpEndpoint};
use howdah_sim::{Flow, FlowEnds, World};
use std::cell::RefCell;
use std::rc::Rc;

const MTU: u32 = 9000;
/// Payload of 8948 bytes in a slot of 9038.
const EFFICIENCY: f64 = 8948.0 / 9038.0;

#[derive(Clone, Copy)]
struct Cell {
    rate: Rate,
    rtt: Span,
    /// Queue in bandwidth-delay products.
    queue_bdp: f64,
    loss: f64,
    /// What is measured: from, to, in seconds.
    window: (u64, u64),
    seed: u64,
}

const GIGABIT: Cell = Cell {
    rate: Rate::from_gbit_per_sec(1),
    rtt: Span::from_millis(50),
    queue_bdp: 2.0,
    loss: 0.0,
    window: (4, 14),
    seed: 3,
};

struct Outcome {
    /// Goodput of each flow as a share of what the link can carry of payload.
    shares: Vec<f64>,
    /// Queueing delay in round-trip times of the empty path, sorted.
    queue: Vec<f64>,
    timeouts: u64,
}

impl Outcome {
    fn quantile(&self, q: f64) -> f64 {
        self.queue[((self.queue.len() - 1) as f64 * q) as usize]
    }
}

fn entry(name: &str) -> Entry {
    *cc::find(name).expect("registered")
}

/// Flows start a second apart.
fn run(cell: Cell, names: &[&str]) -> Outcome {
    let bdp = cell.rate.bytes_in(cell.rtt) as f64;
    let forward = PathConfig {
        rate: Some(cell.rate),
        queue: QueueLimit::Bytes((bdp * cell.queue_bdp) as u64),
        loss: LossModel::Bernoulli(cell.loss),
        delay: cell.rtt / 2,
        ..PathConfig::default()
    };
    let backward = PathConfig {
        delay: cell.rtt / 2,
        ..PathConfig::default()
    };
    let mut world = World::new(cell.seed);
    let (left, right) = (world.add_host("left"), world.add_host("right"));
    let link = world.add_link(&forward, &backward);
    let flows: Vec<FlowEnds> = (0u64..)
        .zip(names)
        .map(|(nth, name)| {
            let config = TcpConfig {
                mtu: MTU,
                ..TcpConfig::modern().with(entry(name))
            };
            let receiver = ReceiverConfig {
                mtu: MTU,
                ..ReceiverConfig::modern()
            };
            let near = TcpEndpoint::sender(&config, Supply::Endless, world.next_seed());
            let far = TcpEndpoint::receiver(&receiver);
            let flow = Flow::between((left, near), (right, far))
                .over(link)
                .header_bytes(IPV4_BYTES)
                .start_at(Time::ZERO + Span::from_secs(nth));
            world.add_flow(flow)
        })
        .collect();
    let (from, to) = cell.window;
    world.run_until(Time::ZERO + Span::from_secs(from));
    let delivered = |world: &World<TcpEndpoint>| -> Vec<u64> {
        let bytes = |f: &FlowEnds| world.endpoint(f.b).snapshot().delivered_bytes;
        flows.iter().map(bytes).collect()
    };
    let before = delivered(&world);
    let queue: Rc<RefCell<Vec<f64>>> = Rc::default();
    let sink = Rc::clone(&queue);
    world.sample_every(Span::from_millis(5), move |now, world| {
        let delay = world.path(link.forward).queue_delay(now);
        sink.borrow_mut()
            .push(delay.as_secs_f64() / cell.rtt.as_secs_f64());
    });
    world.run_until(Time::ZERO + Span::from_secs(to));
    let ceiling = cell.rate.as_f64() * EFFICIENCY * (to - from) as f64 / 8.0;
    let shares = delivered(&world)
        .iter()
        .zip(&before)
        .map(|(after, before)| (after - before) as f64 / ceiling)
        .collect();
    for (flow, name) in flows.iter().zip(names) {
        assert_eq!(world.endpoint(flow.a).snapshot().algorithm, *name);
    }
    let mut queue = queue.borrow().clone();
    queue.sort_by(f64::total_cmp);
    Outcome {
        shares,
        queue,
        timeouts: flows
            .iter()
            .map(|f| world.endpoint(f.a).snapshot().timeouts)
            .sum(),
    }
}

/// Jain's index of two shares.
fn jain(a: f64, b: f64) -> f64 {
    (a + b).powi(2) / (2.0 * (a * a + b * b))
}

#[test]
fn v1_fills_a_gigabit_whatever_is_lost() {
    for loss in [0.0, 0.001, 0.01, 0.02] {
        let cell = Cell {
            loss,
            window: (3, 11),
            ..GIGABIT
        };
        let outcome = run(cell, &["bbr1"]);
        let share = outcome.shares[0] / (1.0 - loss);
        // 1 % of pacing margin and 2 to 3 % of PROBE_RTT are its own.
        assert!(share > 0.94, "{share} at {loss}");
        assert_eq!(outcome.timeouts, 0, "at {loss}");
        assert!(outcome.quantile(0.5) < 0.1, "at {loss}");
        assert!(outcome.quantile(1.0) < 0.5, "at {loss}");
    }
}

#[test]
fn two_of_v1_share_and_queue_a_bdp() {
    let cell = Cell {
        window: (10, 40),
        ..GIGABIT
    };
    let outcome = run(cell, &["bbr1", "bbr1"]);
    let (a, b) = (outcome.shares[0], outcome.shares[1]);
    assert!(jain(a, b) > 0.95, "{a} {b}");
    assert!(a + b > 0.95, "{a} {b}");
    // Both overestimate what they have, so that the windows of 2 BDP are what binds: one BDP on
    // the way, one in the queue (Hock, Bless, Zitterbart 2017).
    let queue = outcome.quantile(0.5);
    assert!((0.7..1.3).contains(&queue), "{queue}");
}

#[test]
fn v1_starves_reno_where_the_buffer_is_short() {
    let cell = Cell {
        queue_bdp: 0.1,
        window: (10, 30),
        ..GIGABIT
    };
    let outcome = run(cell, &["reno", "bbr1"]);
    assert!(outcome.shares[0] < 0.1, "{:?}", outcome.shares);
    assert!(outcome.shares[1] > 0.8, "{:?}", outcome.shares);
}

#[test]
fn v3_leaves_reno_more_than_v1_does() {
    let cell = Cell {
        queue_bdp: 0.5,
        window: (10, 40),
        ..GIGABIT
    };
    let beside_1 = run(cell, &["reno", "bbr1"]).shares[0];
    let beside_3 = run(cell, &["reno", "bbr3"]).shares[0];
    assert!(beside_3 > 1.2 * beside_1, "{beside_1} {beside_3}");
}

#[test]
fn v3_bears_one_per_cent_and_not_three() {
    let share = |loss| {
        let cell = Cell {
            loss,
            window: (4, 14),
            ..GIGABIT
        };
        run(cell, &["bbr3"]).shares[0]
    };
    let (none, tenth, one, three) = (share(0.0), share(0.001), share(0.01), share(0.03));
    assert!(none > 0.94, "{none}");
    // Each lossy round between two probes costs the loss and the pacing margin.
    assert!(tenth > 0.82, "{tenth}");
    assert!(one > 0.65, "{one}");
    assert!(three < 0.3, "{three}");
}

#[test]
fn ten_gigabit_at_100_ms_and_a_thousandth_are_filled() {
    for (name, least) in [("bbr1", 0.93), ("bbr3", 0.82)] {
        let cell = Cell {
            rate: Rate::from_gbit_per_sec(10),
            rtt: Span::from_millis(100),
            queue_bdp: 0.5,
            loss: 0.001,
            window: (5, 9),
            ..GIGABIT
        };
        let outcome = run(cell, &[name]);
        assert!(outcome.shares[0] > least, "{name} {}", outcome.shares[0]);
        assert_eq!(outcome.timeouts, 0, "{name}");
    }
}
