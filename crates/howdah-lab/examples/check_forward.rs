//! Fast-forward against the whole run: cells of scenarios both ways, and by how much they differ.
//!
//! `cargo run --release -p howdah-lab --example check_forward -- [--every N] [--from K] [--seconds LIMIT] SCENARIO...`
//!
//! Every N-th cell from the K-th on, in the order of the scenarios, until the seconds are over. `settle` is left out of both runs. One row for
//! each cell as Markdown, and a table by protocol at the end.

use howdah_lab::{run, scenario, sim};
use howdah_report::result::CellResult;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

#[derive(Default)]
struct Tally {
    cells: usize,
    forwarded: usize,
    within: usize,
    worst: [f64; 3],
    took_s: [f64; 2],
}

fn main() {
    let (mut every, mut from, mut limit_s) = (1, 0, f64::INFINITY);
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().expect("a value");
        match &*arg {
            "--every" => every = value().parse().expect("a number"),
            "--from" => from = value().parse().expect("a number"),
            "--seconds" => limit_s = value().parse().expect("a number"),
            _ => paths.push(arg.into()),
        }
    }
    let plan = scenario::load(&paths, false).expect("scenarios");
    let begun = Instant::now();
    let mut by_protocol: BTreeMap<String, Tally> = BTreeMap::new();
    println!("| cell | whole, s | forwarded, s | skipped, s | told | rate | loss | queue |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for cell in plan.cells().skip(from).step_by(every) {
        if begun.elapsed().as_secs_f64() > limit_s {
            break;
        }
        let mut cell = cell.clone();
        cell.measure.settle = None;
        let both = [true, false].map(|fast_forward| {
            cell.measure.fast_forward = fast_forward;
            let started_s = cpu_s(begun);
            let never = AtomicBool::new(false);
            let result = sim::run(&cell, &never).expect("nobody stops it");
            let took_s = cpu_s(begun) - started_s;
            (result, took_s)
        });
        let [(short, short_s), (whole, whole_s)] = &both;
        let protocol = cell.flows.first().map_or("none", |flow| &flow.protocol);
        let tally = by_protocol.entry(protocol.to_owned()).or_default();
        tally.cells += 1;
        tally.took_s[0] += whole_s;
        tally.took_s[1] += short_s;
        let place = run::describe(&cell);
        let Some(forwarded) = short.forwarded else {
            let why = short.not_forwarded.as_deref().unwrap_or("");
            println!("| {place} | {whole_s:.1} | {short_s:.1} | | {why} | | | |");
            continue;
        };
        let differences = [rate(short, whole), loss(short, whole), queue(short, whole)];
        tally.forwarded += 1;
        tally.within += usize::from(differences.iter().all(|share| share.abs() <= 0.01));
        for (worst, share) in tally.worst.iter_mut().zip(differences) {
            *worst = worst.max(share.abs());
        }
        let [rate, loss, queue] = differences.map(|share| format!("{:+.2} %", share * 100.0));
        println!(
            "| {place} | {whole_s:.1} | {short_s:.1} | {:.0} | {:.2} % | {rate} | {loss} | {queue} |",
            forwarded.skipped_s,
            forwarded.error * 100.0,
        );
    }
    println!(
        "\n| protocol | cells | forwarded | within 1 % | worst: rate | loss | queue | whole, s | with it, s |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for (protocol, tally) in by_protocol {
        let [rate, loss, queue] = tally.worst.map(|share| format!("{:.2} %", share * 100.0));
        println!(
            "| {protocol} | {} | {} | {} | {rate} | {loss} | {queue} | {:.1} | {:.1} |",
            tally.cells, tally.forwarded, tally.within, tally.took_s[0], tally.took_s[1]
        );
    }
}

fn relative(short: f64, whole: f64, floor: f64) -> f64 {
    (short - whole) / whole.abs().max(floor)
}

fn rate(short: &CellResult, whole: &CellResult) -> f64 {
    let bps = |cell: &CellResult| cell.flows[0].goodput_bps;
    relative(bps(short), bps(whole), 1.0)
}

/// Share of the packets that were lost on the way of the data, at random and in queues. Shares below a thousandth of a per cent count as that.
fn loss(short: &CellResult, whole: &CellResult) -> f64 {
    let share = |cell: &CellResult| {
        let links = cell.links.iter().step_by(2);
        let lost: u64 = links
            .clone()
            .map(|link| link.queue_drops + link.aqm_drops + link.random_losses)
            .sum();
        lost as f64 / links.map(|link| link.offered_packets).sum::<u64>().max(1) as f64
    };
    relative(share(short), share(whole), 1e-3)
}

/// Mean wait of the packets, in all queues on the way of the data. Differences up to 5 us are none.
fn queue(short: &CellResult, whole: &CellResult) -> f64 {
    let mean = |cell: &CellResult| {
        let links = cell.links.iter().step_by(2);
        links.filter_map(|link| link.queue_mean_ms).sum::<f64>()
    };
    let (short, whole) = (mean(short), mean(whole));
    if (short - whole).abs() <= 5e-3 {
        0.0
    } else {
        relative(short, whole, 0.0)
    }
}

/// Seconds for which this thread has run, where Linux says so; else of the clock.
fn cpu_s(begun: Instant) -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ns: Option<f64> = text.and_then(|text| text.split_whitespace().next()?.parse().ok());
    ns.map_or_else(|| begun.elapsed().as_secs_f64(), |ns| ns / 1e9)
}
