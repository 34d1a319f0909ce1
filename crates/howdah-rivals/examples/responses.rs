//! What the congestion controls do in the simulator: the mean window under a loss ratio against
//! the formula, and how a path of JGN06 is filled.
//!
//! `cargo run --release -p howdah-rivals --example responses [-- PART]`, where PART is `losses`
//! or `filling`.

#![allow(unreachable_pub, dead_code, reason = "modules shared with the tests")]

#[path = "../tests/it/responses/formulas.rs"]
mod formulas;
#[path = "../tests/it/responses/support.rs"]
mod support;

use howdah_core::{Rate, Span};
use howdah_path::PathConfig;
use howdah_rivals::tcp::cc::{ALL, Entry};
use support::{Losses, Run, Stack, jgn_path, window_under_loss};

/// Twice 1 Gbit/s times 180 ms.
const SOCKET_BUFFER_BYTES: u64 = 45_000_000;
/// Losses per measurement.
const EVENTS: u32 = 80;

fn main() {
    let part = std::env::args().nth(1).unwrap_or_default();
    if part != "filling" {
        losses();
    }
    if part != "losses" {
        filling();
    }
}

/// The stack that an algorithm belongs to.
fn stack(entry: Entry) -> Stack {
    match entry.name {
        "cubic" | "bbr1" | "bbr3" => Stack::modern(entry),
        _ => Stack::linux24(entry),
    }
}

fn formula(name: &str, p: f64, rtt_s: f64) -> Option<f64> {
    Some(match name {
        "reno" => formulas::reno(p),
        "hstcp" => formulas::hstcp(p),
        "scalable" => formulas::scalable(p),
        "scalable-linux" => 2.0 * formulas::scalable(p),
        "cubic2005" | "cubic2005-linux" => formulas::cubic(p, 0.8, rtt_s),
        "cubic-2.6.32" | "cubic" => formulas::cubic(p, 0.7, rtt_s),
        // Without a queue the least RTT is the greatest, so beta is at its upper end.
        "htcp" => formulas::htcp(p, 0.8, rtt_s),
        _ => return None,
    })
}

fn losses() {
    let rtt = Span::from_millis(100);
    println!(
        "Mean window in segments, RTT {rtt}, an acknowledgement for every segment, {EVENTS} losses"
    );
    println!(
        "{:<16} {:>7} {:>10} {:>10} {:>7} {:>10} {:>7}",
        "", "p", "formula", "periodic", "ratio", "random", "ratio"
    );
    // BBR does not go by losses; nor does FAST, which a path without a queue lets double and halve.
    let others = ["fast", "bbr1", "bbr3"];
    for entry in ALL.iter().filter(|entry| !others.contains(&entry.name)) {
        for p in [1e-3, 1e-4, 1e-5] {
            let stack = stack(*entry).acking_every(1);
            let stated = formula(entry.name, p, rtt.as_secs_f64());
            let near = stated.unwrap_or_else(|| formulas::hstcp(p));
            let measured = |losses| window_under_loss(&stack, (losses, p), rtt, near, EVENTS);
            let (periodic, random) = (measured(Losses::Periodic), measured(Losses::Random));
            let stated_text = stated.map_or_else(|| "-".to_owned(), |w| format!("{w:.0}"));
            let ratio = |w: f64| stated.map_or_else(|| "-".to_owned(), |f| format!("{:.2}", w / f));
            println!(
                "{:<16} {p:>7.0e} {stated_text:>10} {periodic:>10.0} {:>7} {random:>10.0} {:>7}",
                entry.name,
                ratio(periodic),
                ratio(random)
            );
        }
    }
    println!();
}

fn filling() {
    let rate = Rate::from_gbit_per_sec(1);
    let rtt = Span::from_millis(180);
    for (title, interface, queue) in [
        (
            "host with an interface of 1 Gbit/s, router 0.5 % slower",
            true,
            127,
        ),
        (
            "host with an interface of 1 Gbit/s, router 0.5 % slower",
            true,
            512,
        ),
        ("host without an interface, router of 1 Gbit/s", false, 127),
    ] {
        println!("180 ms, {title}, {queue} packets of queue: share of the link's payload rate");
        println!(
            "{:<16} {:>7} {:>7} {:>9} {:>9} {:>7}",
            "", "0-120 s", "60-120", "lost", "events", "RTOs"
        );
        for entry in ALL {
            let mut path = jgn_path(rate, rtt, queue).to_vec();
            if !interface {
                path.remove(0);
                path[0].rate = Some(rate);
            }
            fill(*entry, &path, rtt);
        }
        println!();
    }
}

fn fill(entry: Entry, path: &[PathConfig], rtt: Span) {
    let mut stack = stack(entry).acking_every(2);
    // A tuned stack of the time: with one bandwidth-delay product every repair would stall.
    if stack.sender.initial_window_segments < 10 {
        stack.sender.send_buffer_bytes = SOCKET_BUFFER_BYTES;
    }
    let mut run = Run::new(&stack, 1, path, rtt);
    run.run_until(60.0);
    let half = run.delivered_bytes();
    run.run_until(120.0);
    let all = run.delivered_bytes();
    // 1448 of 1538 bytes on the wire.
    let rate = path[path.len() - 1].rate.map_or(0.0, Rate::as_f64);
    let share = |bytes: u64, seconds: f64| bytes as f64 * 8.0 / seconds / (rate * 1448.0 / 1538.0);
    let counters = run.world.path(run.bottleneck).counters();
    let sender = run.sender();
    println!(
        "{:<16} {:>7.3} {:>7.3} {:>9} {:>9} {:>7}",
        entry.name,
        share(all, 120.0),
        share(all - half, 60.0),
        counters.dropped_queue,
        sender.congestion_events,
        sender.timeouts
    );
}
