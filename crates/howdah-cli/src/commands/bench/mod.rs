//! `howdah bench`: short runs of real copies, and a verdict.

mod disk;
mod verdict;

use super::probe::{self, FIRST_BYTES, Target};
use crate::args::BenchArgs;
use crate::ui;
use howdah::Summary;
use howdah_core::{Rate, units};
use verdict::{Leg, Side, Speed, verdict};

/// Version of the JSON object.
const SCHEMA: u32 = 1;
/// Each further run has at most so many times the bytes of the one before.
const GROWTH: f64 = 16.0;
const RUNS: usize = 5;

pub(super) fn run(args: &BenchArgs) -> anyhow::Result<()> {
    let target = Target::parse(&args.target)?;
    if let Some(dir) = &args.disk {
        disk::check(dir)?;
    }
    let say = |text: &str| {
        if !args.json {
            ui::say(text);
        }
    };
    let mut legs = Vec::new();
    say("memory here to memory there");
    let time = format!("{}ns", args.time.as_nanos());
    let sent = probe::copy(
        &args.probe,
        &["--time", &time, "zero:", &target.path("null:")],
    )?;
    let rate = sent.goodput_bps;
    legs.push(Leg::new("memory here -> memory there", Side::Here, sent));
    say("memory there to memory here");
    let received = grow(args, |bytes| {
        probe::copy(
            &args.probe,
            &[&target.path(&format!("zero:{bytes}")), "null:"],
        )
    })?;
    legs.push(Leg::new(
        "memory there -> memory here",
        Side::There,
        received,
    ));

    let mut disks = Vec::new();
    if let Some(dir) = &args.disk {
        say("disk here");
        let (write, read) = disk::measure(dir, args.time)?;
        disks.push(Speed::new("disk here, write", Side::Here, write));
        disks.push(Speed::new("disk here, read", Side::Here, read));
    }
    if target.has_directory() {
        say("disk there");
        let (written, read) = probe::far_disk(&args.probe, &target, rate, args.time)?;
        legs.push(Leg::new("memory here -> disk there", Side::Here, written));
        legs.push(Leg::new("disk there -> memory here", Side::There, read));
    }
    let socket = howdah_net::socket_report()?;
    let verdicts = verdict(&legs, &disks, socket.receive_buffer as u64);
    if args.json {
        let object = serde_json::json!({
            "schema": SCHEMA,
            "target": ui::printable(&args.target),
            "legs": legs,
            "disks": disks,
            "receive_buffer_bytes": socket.receive_buffer,
            "send_buffer_bytes": socket.send_buffer,
            "verdicts": verdicts,
        });
        ui::print(&object.to_string())?;
        return Ok(());
    }
    for leg in &legs {
        ui::print(&leg.line())?;
    }
    for disk in &disks {
        ui::print(&format!(
            "{:28} {}",
            disk.name,
            Rate::from_bits_per_sec(disk.bps as u64)
        ))?;
    }
    ui::print(&format!(
        "{:28} {} to receive, {} to send{}",
        "socket buffers here",
        units::format_bytes(socket.receive_buffer as u64),
        units::format_bytes(socket.send_buffer as u64),
        if socket.advice().is_some() {
            "; too little: howdah doctor"
        } else {
            ""
        }
    ))?;
    for verdict in &verdicts {
        ui::print(&verdict.text)?;
    }
    Ok(())
}

/// Runs with more and more bytes until they take about the time.
fn grow(
    args: &BenchArgs,
    mut run: impl FnMut(u64) -> anyhow::Result<Summary>,
) -> anyhow::Result<Summary> {
    let mut bytes = FIRST_BYTES;
    let mut summary = run(bytes)?;
    for _ in 1..RUNS {
        if summary.seconds > args.time.as_secs_f64() * 0.6 {
            break;
        }
        let factor = args.time.as_secs_f64() / summary.seconds.max(1e-3);
        bytes = (bytes as f64 * factor.clamp(2.0, GROWTH)) as u64;
        summary = run(bytes)?;
    }
    Ok(summary)
}
