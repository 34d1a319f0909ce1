//! Runs the protocol through the matrix of docs/performance.md in virtual time.
//!
//! `cargo run --release -p howdah-proto --example matrix [RTT_MS,.. [LOSS_PERCENT,.. [SECONDS]]]`

use howdah_core::{Rate, Span, Time};
use howdah_path::{LossModel, PathConfig, QueueLimit};
use howdah_proto::sim::{SimEndpoint, sim_config};
use howdah_sim::{Flow, World};
use std::cell::RefCell;
use std::rc::Rc;

const RATE: Rate = Rate::from_gbit_per_sec(10);
const MTU: u32 = 9000;

fn list(text: Option<String>, default: &[f64]) -> Vec<f64> {
    text.filter(|t| t != "-").map_or_else(
        || default.to_vec(),
        |t| t.split(',').map(|x| x.parse().expect("a number")).collect(),
    )
}

fn main() {
    let mut args = std::env::args().skip(1);
    let rtts = list(args.next(), &[0.0, 50.0, 100.0, 200.0, 400.0]);
    let losses = list(args.next(), &[0.0, 0.1, 1.0, 2.0]);
    let seconds = list(args.next(), &[20.0])[0] as u64;
    let verbose = std::env::var_os("TRACE").is_some();
    println!(
        "rtt_ms loss%   goodput share  t90_rtt  loss%seen  fb_KiB/GiB  queue_ms p50/p95  wall_s"
    );
    for &rtt in &rtts {
        for &loss in &losses {
            cell(rtt, loss, seconds, verbose);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a measurement needs a clock")]
fn cell(rtt_ms: f64, loss_percent: f64, seconds: u64, verbose: bool) {
    let path = PathConfig {
        rate: Some(RATE),
        delay: Span::from_secs_f64(rtt_ms / 2e3).max(Span::from_micros(50)),
        queue: QueueLimit::Time(Span::from_millis(25)),
        loss: LossModel::Bernoulli(loss_percent / 100.0),
        mtu: MTU,
        ..PathConfig::default()
    };
    let started = std::time::Instant::now();
    let mut world = World::new(7);
    let (near, far) = (world.add_host("near"), world.add_host("far"));
    let link = world.add_link(&path, &path);
    let mut client = SimEndpoint::client(sim_config(), 1);
    let id = client.connection_mut().allocate_object();
    client.connection_mut().send_object(id, None, u64::MAX);
    client.connection_mut().set_readable(id, 1 << 60);
    let mut server = SimEndpoint::server(sim_config(), 1, 2);
    server.connection_mut().receive_object(id, None, None);
    let flow = world.add_flow(Flow::between((near, client), (far, server)).over(link));
    let log: Rc<RefCell<Vec<(Time, u64, Span)>>> = Rc::default();
    let sink = Rc::clone(&log);
    world.sample_every(Span::from_millis(10), move |now, world| {
        let bytes = world.endpoint(flow.b).connection().received_bytes(id);
        let queue = world.path(link.forward).queue_delay(now);
        sink.borrow_mut().push((now, bytes, queue));
        if verbose && (now.as_nanos() / 10_000_000).is_multiple_of(5) {
            let c = world.endpoint(flow.a).connection();
            eprintln!("{now} q={queue} {} rtt={}", c.describe_rate(), c.rtt());
        }
    });
    world.run_until(Time::ZERO + Span::from_secs(seconds));
    let log = log.borrow();
    let half = log.len() / 2;
    let (t0, b0, _) = log[half];
    let (t1, b1, _) = log[log.len() - 1];
    let steady = Rate::from_bytes_over(b1 - b0, t1.since(t0));
    let payload = f64::from(MTU) - 28.0 - 13.0 - 10.0 - 16.0;
    let bound = RATE.as_f64() * (1.0 - loss_percent / 100.0) * payload / (f64::from(MTU) + 38.0);
    // First time that a window of one RTT (at least 50 ms) has 90 % of the steady rate.
    let window = (rtt_ms / 10.0).max(5.0) as usize;
    let t90 = (window..log.len()).find(|&i| {
        let rate = Rate::from_bytes_over(
            log[i].1 - log[i - window].1,
            log[i].0.since(log[i - window].0),
        );
        rate.as_f64() >= 0.9 * steady.as_f64()
    });
    let t90 = t90.map_or(f64::NAN, |i| {
        log[i - window].0.as_secs_f64() * 1e3 / rtt_ms.max(0.1)
    });
    let mut queues: Vec<f64> = log[half..]
        .iter()
        .map(|l| l.2.as_secs_f64() * 1e3)
        .collect();
    queues.sort_by(f64::total_cmp);
    let stats = world.endpoint(flow.a).connection().stats();
    let feedback = world.counters(flow.b);
    let feedback_bytes = feedback.sent_bytes + 28 * feedback.sent_datagrams;
    println!(
        "{rtt_ms:6} {loss_percent:5} {:>13} {:5.3} {t90:8.1} {:9.2}% {:10.1} {:8.2} {:6.2} {:9.1}   lost {} late {} tail {}",
        steady.to_string(),
        steady.as_f64() / bound,
        stats.packets_lost as f64 * 100.0 / (stats.packets_lost + stats.packets_acked) as f64,
        feedback_bytes as f64 / 1024.0 / (b1 as f64 / f64::from(1 << 30)),
        queues[queues.len() / 2],
        queues[queues.len() * 95 / 100],
        started.elapsed().as_secs_f64(),
        stats.packets_lost,
        stats.packets_late,
        stats.tail_bytes_repeated,
    );
}
