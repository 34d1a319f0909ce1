//! `howdah predict`.

mod source;

use super::path_model::{self, rate};
use super::probe::{self, Target};
use crate::args::PredictArgs;
use crate::ui::{self, Signals};
use howdah::{Error, ErrorKind, Recording};
use howdah_core::units;
use howdah_lab::replay::{Change, Forecast, Prediction, ReplayError, predict};
use serde_json::json;
use source::Source;
use std::fmt::Write as _;

/// Version of the JSON object.
const SCHEMA: u32 = 1;
/// Files that are smaller on average cost more than their bytes.
const SMALL_BYTES: u64 = 64 << 10;

pub(super) fn run(args: &PredictArgs) -> anyhow::Result<()> {
    let target = Target::parse(&args.target)?;
    let say = |text: &str| {
        if !args.json {
            ui::say(text);
        }
    };
    let source = if args.sources.is_empty() {
        Source::made_up(args.size)
    } else {
        say("reading some of what would be copied");
        Source::look(&args.sources, args.time)?
    };
    if source.bytes == 0 {
        return Err(Error::new(
            ErrorKind::Usage,
            "there is not a byte to copy; name another SRC",
        )
        .into());
    }
    say("looking at the path");
    let (recording, reached_bps) = record(args, &target)?;
    let mut disks = Disks {
        here_bps: source.read_bps,
        there_bps: None,
    };
    if target.has_directory() {
        say("the disk there");
        let (written, _) = probe::far_disk(&args.probe, &target, reached_bps, args.time)?;
        disks.there_bps = Some(written.goodput_bps);
    }
    say("running the copy in the simulator");
    let jobs = args
        .jobs
        .or_else(|| std::thread::available_parallelism().ok());
    let signals = Signals::install()?;
    let stop = signals.cancel().flag();
    let prediction = predict(&recording, source.bytes, jobs.map_or(1, usize::from), &stop);
    let prediction = prediction.map_err(|error| match error {
        ReplayError::Stopped => {
            anyhow::Error::from(Error::new(ErrorKind::Cancelled, "interrupted"))
        }
        ReplayError::Recording(why) => {
            let text = format!(
                "{}: {why}; look at the path for longer: --time 20s",
                args.target
            );
            Error::new(ErrorKind::Network, text).into()
        }
        error => error.into(),
    })?;
    let told = Told {
        source: &source,
        prediction: &prediction,
        disks,
    };
    ui::print(&if args.json {
        told.as_json().to_string()
    } else {
        told.table()
    })?;
    Ok(())
}

/// A copy from memory to memory, and its rate in bit/s.
fn record(args: &PredictArgs, target: &Target) -> anyhow::Result<(Recording, f64)> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("probe.flight");
    let time = format!("{}ns", args.time.as_nanos());
    let name = file.to_string_lossy();
    let words = [
        "--time",
        &time,
        "--record",
        &name,
        "zero:",
        &target.path("null:"),
    ];
    let summary = probe::copy(&args.probe, &words)?;
    let recording = Recording::decode(&std::fs::read(&file)?)
        .map_err(|error| anyhow::anyhow!("the recording of the probe: {error}"))?;
    Ok((recording, summary.goodput_bps))
}

/// What the disks at both ends give and take, in bit/s, where that was measured.
#[derive(Clone, Copy, Debug)]
struct Disks {
    here_bps: Option<f64>,
    there_bps: Option<f64>,
}

struct Told<'a> {
    source: &'a Source,
    prediction: &'a Prediction,
    disks: Disks,
}

impl Told<'_> {
    /// The slower disk and how long it takes for all, in seconds.
    fn disk(&self) -> Option<(&'static str, f64)> {
        let Disks {
            here_bps,
            there_bps,
        } = self.disks;
        let all = [("disk here", here_bps), ("disk there", there_bps)];
        let known = all.into_iter().filter_map(|(name, bps)| Some((name, bps?)));
        let slowest = known.min_by(|a, b| a.1.total_cmp(&b.1))?;
        Some((
            slowest.0,
            self.source.bytes as f64 * 8.0 / slowest.1.max(1.0),
        ))
    }

    /// No copy is done before its disks are.
    fn with_disks(&self, seconds: f64) -> f64 {
        seconds.max(self.disk().map_or(0.0, |disk| disk.1))
    }

    fn as_is(&self) -> Forecast {
        let network = self.prediction.as_is;
        Forecast {
            likely_s: self.with_disks(network.likely_s),
            least_s: self.with_disks(network.least_s),
            most_s: self.with_disks(network.most_s),
        }
    }

    /// What holds the copy: "network", "disk here", "disk there", "hosts".
    fn limit(&self) -> &'static str {
        match self.disk() {
            Some((name, seconds)) if seconds > self.prediction.as_is.likely_s => name,
            _ if self.prediction.path.has_programs() => "hosts",
            _ => "network",
        }
    }

    fn is_of_small_files(&self) -> bool {
        self.source.files > 1000 && self.source.bytes / self.source.files < SMALL_BYTES
    }

    fn table(&self) -> String {
        let mut text = path_model::line(&self.prediction.path);
        let _ = write!(text, "\ncopy: {}", self.source);
        for (name, bps) in [
            ("read here", self.disks.here_bps),
            ("written there", self.disks.there_bps),
        ] {
            if let Some(bps) = bps {
                let _ = write!(text, ", {name} at {}", rate(bps));
            }
        }
        text.push_str("\n\n");
        let as_is = self.as_is();
        let mut line = |name: &str, seconds: f64, more: &str| {
            let goodput = rate(self.source.bytes as f64 * 8.0 / seconds.max(1e-9)).to_string();
            let _ = writeln!(text, "{name:<28} {:>12} {goodput:>14}{more}", time(seconds));
        };
        let more = format!(
            "  between {} and {}, limited by the {}",
            time(as_is.least_s),
            time(as_is.most_s),
            self.limit()
        );
        line("as it is", as_is.likely_s, &more);
        if self
            .disk()
            .is_some_and(|disk| disk.1 > self.prediction.as_is.likely_s)
        {
            line("with a faster disk", self.prediction.as_is.likely_s, "");
        }
        for (change, seconds) in &self.prediction.changed {
            line(title(*change), self.with_disks(*seconds), "");
        }
        if self.is_of_small_files() {
            text.push_str(
                "files as small as these take longer than their bytes; see docs/performance.md\n",
            );
        }
        text.truncate(text.trim_end().len());
        text
    }

    fn as_json(&self) -> serde_json::Value {
        let as_is = self.as_is();
        let changed = self.prediction.changed.iter();
        let changed: serde_json::Map<String, serde_json::Value> = changed
            .map(|(change, seconds)| (change.name().to_owned(), json!(self.with_disks(*seconds))))
            .collect();
        json!({
            "schema": SCHEMA,
            "bytes": self.source.bytes,
            "files": self.source.files,
            "likely_s": as_is.likely_s,
            "least_s": as_is.least_s,
            "most_s": as_is.most_s,
            "limit": self.limit(),
            "network_s": self.prediction.as_is.likely_s,
            "read_here_bps": self.disks.here_bps,
            "written_there_bps": self.disks.there_bps,
            "changed_s": changed,
            "path": path_model::as_json(&self.prediction.path),
        })
    }
}

fn title(change: Change) -> &'static str {
    match change {
        Change::Jumbo => "with packets of 9000 bytes",
        Change::Deeper => "with four times the queue",
        Change::Background => "with --policy background",
        Change::Cubic => "TCP CUBIC, one connection",
        Change::Bbr => "TCP BBR v1, one connection",
    }
}

/// For people: `40 ms`, `12.3 s`, `12 min 30 s`, `3 h 20 min`, `2 d 4 h`.
fn time(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    let two = |large: u64, unit: &str, small: u64, less: &str| {
        format!("{} {unit} {} {less}", whole / large, whole % large / small)
    };
    match whole {
        _ if seconds < 0.95 => format!("{:.0} ms", seconds * 1e3),
        0..60 => format!("{seconds:.1} s"),
        60..3600 => two(60, "min", 1, "s"),
        3600..172_800 => two(3600, "h", 60, "min"),
        _ => two(86_400, "d", 3600, "h"),
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = units::format_bytes(self.bytes);
        match self.files {
            0 => write!(f, "{bytes} that are made up"),
            1 => write!(f, "a file of {bytes}"),
            files => write!(f, "{files} files of {bytes} in all"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_two_units() {
        for (seconds, text) in [
            (0.04, "40 ms"),
            (59.4, "59.4 s"),
            (750.0, "12 min 30 s"),
            (12_000.0, "3 h 20 min"),
            (187_200.0, "2 d 4 h"),
        ] {
            assert_eq!(time(seconds), text);
        }
    }
}
