//! `howdah lab replay`.

use super::scenario_file;
use crate::args::LabReplayArgs;
use crate::commands::path_model::{self, rate};
use crate::ui::{self, Signals};
use howdah::{Error, ErrorKind, Held, Recording, Verdict};
use howdah_lab::replay::{Outcome, Replay, ReplayError};
use serde_json::json;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// What runs beside the transport that was recorded.
const OTHERS: [&str; 4] = ["cubic", "bbr1", "bbr3", "quic"];
/// A recording has no more bytes; one more is read, to see that.
const MOST_BYTES: u64 = (1 << 20) + 1;
/// Lines of a course.
const LINES: usize = 40;

pub(super) fn run(args: &LabReplayArgs) -> anyhow::Result<()> {
    let recording = read(&args.file)?;
    if args.show {
        let text = if args.json {
            shown_as_json(&recording).to_string()
        } else {
            shown(&recording)
        };
        ui::print(&text)?;
        return Ok(());
    }
    let usage = |text: String| Error::new(ErrorKind::Usage, text);
    let replay = Replay::new(&recording)
        .map_err(|error| usage(format!("{}: {error}", args.file.display())))?;
    let protocols = if args.protocols.is_empty() {
        let all = [replay.own].into_iter().chain(OTHERS);
        all.map(str::to_owned).collect()
    } else {
        args.protocols.clone()
    };
    Replay::check(&protocols).map_err(|error| usage(error.to_string()))?;
    if let Some(out) = &args.out {
        scenario_file::check(out)?;
        scenario_file::write(out, &replay.scenario(&protocols))?;
    }
    let jobs = args
        .jobs
        .or_else(|| std::thread::available_parallelism().ok());
    let signals = Signals::install()?;
    let stop = signals.cancel().flag();
    let outcomes = replay.run(&protocols, jobs.map_or(1, usize::from), &stop);
    let outcomes = outcomes.map_err(|error| match error {
        ReplayError::Stopped => Error::new(ErrorKind::Cancelled, "interrupted").into(),
        error => anyhow::Error::from(error),
    })?;
    ui::print(&if args.json {
        as_json(&replay, &outcomes).to_string()
    } else {
        table(&replay, &outcomes)
    })?;
    Ok(())
}

fn read(path: &Path) -> Result<Recording, Error> {
    let failed = |e: std::io::Error| {
        let kind = match e.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            std::io::ErrorKind::PermissionDenied => ErrorKind::Refused,
            _ => ErrorKind::Io,
        };
        Error::new(kind, format!("cannot read {}: {e}", path.display()))
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MOST_BYTES)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Recording::decode(&bytes)
        .map_err(|e| Error::new(ErrorKind::Usage, format!("{}: {e}", path.display())))
}

/// What became of the bytes, on one line for each transport.
fn table(replay: &Replay, outcomes: &[Outcome]) -> String {
    let model = &replay.model;
    let mut text = format!(
        "{}{}\n\n",
        path_model::line(model),
        if model.has_programs() {
            "; source, sink, hosts or a cap held it back, and do so here"
        } else {
            ""
        },
    );
    let _ = writeln!(
        text,
        "{:<20} {:>10} {:>16} {:>10}",
        "", "seconds", "goodput", "recorded"
    );
    let recorded = model.recorded_bps();
    let mut line = |name: &str, seconds: Option<f64>, bps: f64| {
        let seconds = seconds.map_or_else(
            || format!("> {:.0}", model.patience_s()),
            |s| format!("{s:.2}"),
        );
        let _ = writeln!(
            text,
            "{name:<20} {seconds:>10} {:>16} {:>9.0} %",
            rate(bps).to_string(),
            bps / recorded * 100.0
        );
    };
    line("as recorded", Some(model.recorded_s), recorded);
    for outcome in outcomes {
        line(&outcome.protocol, outcome.seconds, outcome.goodput_bps);
    }
    text.truncate(text.trim_end().len());
    text
}

fn as_json(replay: &Replay, outcomes: &[Outcome]) -> serde_json::Value {
    let model = &replay.model;
    let outcomes: Vec<_> = outcomes
        .iter()
        .map(|outcome| {
            json!({
                "protocol": outcome.protocol,
                "seconds": outcome.seconds,
                "goodput_bps": outcome.goodput_bps,
                "repeated_bytes": outcome.repeated_bytes,
            })
        })
        .collect();
    json!({
        "recorded": {
            "protocol": replay.own,
            "seconds": model.recorded_s,
            "goodput_bps": model.recorded_bps(),
            "bytes": model.moved_bytes,
        },
        "path": path_model::as_json(model),
        "outcomes": outcomes,
    })
}

fn held(verdict: &Verdict) -> impl Iterator<Item = (Held, f64)> + '_ {
    let all = Held::ALL.into_iter().zip(verdict.held_s);
    all.filter(|(_, seconds)| *seconds > 0.0)
}

/// What was recorded, for people.
fn shown(recording: &Recording) -> String {
    let (facts, verdict) = (&recording.facts, recording.verdict());
    let mut text = format!(
        "{} bytes in {:.2} s, {}; recorded by {} on a machine with {} cores{}{}\n",
        facts.moved_bytes,
        verdict.seconds,
        rate(verdict.goodput_bps),
        facts.recorder,
        facts.cores,
        if facts.completed {
            ""
        } else {
            "; the copy failed"
        },
        if facts.tunnelled {
            "; through a tunnel"
        } else {
            ""
        },
    );
    let capacity = verdict
        .capacity_bps
        .map_or_else(|| "unknown".to_owned(), |bps| rate(bps).to_string());
    let _ = writeln!(
        text,
        "path: capacity {capacity}, round trip from {:.1} ms, queue up to {:.1} ms, loss {:.3} %",
        verdict.base_rtt_ms,
        verdict.queue_ms,
        verdict.loss * 100.0,
    );
    let shares: Vec<String> = held(&verdict)
        .map(|(held, seconds)| format!("{} {seconds:.2} s", held.name()))
        .collect();
    let _ = writeln!(text, "held back by: {}", shares.join(", "));
    if let Some(slow) = verdict.slow {
        let _ = writeln!(
            text,
            "for {:.1} s less than half of the capacity went over it, mostly: {}",
            slow.seconds,
            slow.held.name()
        );
    }
    let _ = write!(
        text,
        "\n{:>9} {:>14} {:>9} {:>9} {:>8}  held back by",
        "from", "arrived", "trip", "queue", "lost"
    );
    let piece = recording.intervals.len().div_ceil(LINES).max(1);
    let mut at_s = 0.0;
    for pieces in recording.intervals.chunks(piece) {
        let Some(whole) = pieces.iter().copied().reduce(|a, b| a.merged(&b)) else {
            continue;
        };
        let _ = write!(
            text,
            "\n{at_s:>7.2} s {:>14} {:>6.1} ms {:>6.1} ms {:>8}  {}",
            rate(whole.delivered_bps()).to_string(),
            whole.rtt_us as f64 / 1e3,
            whole.queue_max_us as f64 / 1e3,
            whole.lost_packets,
            whole.mostly().name(),
        );
        at_s += whole.span_us as f64 / 1e6;
    }
    text
}

fn shown_as_json(recording: &Recording) -> serde_json::Value {
    let (facts, verdict) = (&recording.facts, recording.verdict());
    let held: serde_json::Map<String, serde_json::Value> = held(&verdict)
        .map(|(held, seconds)| (held.name().to_owned(), json!(seconds)))
        .collect();
    let slow = verdict
        .slow
        .map(|slow| json!({ "seconds": slow.seconds, "held": slow.held.name() }));
    json!({
        "facts": facts,
        "seconds": verdict.seconds,
        "goodput_bps": verdict.goodput_bps,
        "capacity_bps": verdict.capacity_bps,
        "base_rtt_ms": verdict.base_rtt_ms,
        "queue_ms": verdict.queue_ms,
        "loss": verdict.loss,
        "held_s": held,
        "slow": slow,
        "intervals": recording.intervals,
    })
}
