//! `howdah bench`: short runs of real copies, and a verdict.

mod disk;
mod verdict;

use crate::args::{BenchArgs, Command};
use crate::settings::{self, Failure};
use crate::ui::{self, Reporter, Wishes};
use howdah::{Error, ErrorKind, Summary};
use howdah_core::{Rate, units};
use std::ffi::OsString;
use verdict::{Leg, Side, Speed, verdict};

/// Version of the JSON object.
const SCHEMA: u32 = 1;
/// The first run of a direction whose rate nobody knows.
const FIRST_BYTES: u64 = 4 << 20;
/// Each further run has at most so many times the bytes of the one before.
const GROWTH: f64 = 16.0;
const RUNS: usize = 5;
/// Left behind empty.
const FAR_FILE: &str = "howdah-bench.tmp";
/// A far disk gets at most that much.
const FAR_DISK_MAX: u64 = 8 << 30;

pub(super) fn run(args: &BenchArgs) -> anyhow::Result<()> {
    let target = Target::parse(&args.target)?;
    let say = |text: &str| {
        if !args.json {
            ui::say(text);
        }
    };
    let mut legs = Vec::new();
    say("memory here to memory there");
    let time = format!("{}ns", args.time.as_nanos());
    let sent = copy(args, &["--time", &time, "zero:", &target.path("null:")])?;
    let rate = sent.goodput_bps;
    legs.push(Leg::new("memory here -> memory there", Side::Here, sent));
    say("memory there to memory here");
    let received = grow(args, |bytes| {
        copy(args, &[&target.path(&format!("zero:{bytes}")), "null:"])
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
        let file = target.path(FAR_FILE);
        let bytes = (rate / 8.0 * args.time.as_secs_f64()) as u64;
        let bytes = bytes.clamp(FIRST_BYTES, FAR_DISK_MAX);
        let written = copy(args, &[&format!("zero:{bytes}"), &file]);
        let read = written.is_ok().then(|| copy(args, &[&file, "null:"]));
        // Whatever came of it: the space is given back.
        copy(args, &["zero:0", &file])?;
        legs.push(Leg::new("memory here -> disk there", Side::Here, written?));
        if let Some(read) = read {
            legs.push(Leg::new("disk there -> memory here", Side::There, read?));
        }
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

/// `howdah cp` with these words.
fn copy(args: &BenchArgs, words: &[&str]) -> anyhow::Result<Summary> {
    copy_with(args.copy_options(), words)
}

/// A second of a copy to that host, for its figures.
pub(super) fn glance(host: &str) -> anyhow::Result<Summary> {
    let target = Target::parse(host)?.path("null:");
    let options = ["--quiet", "--limit=none"].map(OsString::from);
    copy_with(options.to_vec(), &["--time", "1s", "zero:", &target])
}

fn copy_with(options: Vec<OsString>, words: &[&str]) -> anyhow::Result<Summary> {
    let line = ["howdah", "cp"].into_iter().map(OsString::from);
    let line = line.chain(options).chain(words.iter().map(OsString::from));
    let cli = settings::parse(line).map_err(|failure| match failure {
        Failure::Usage(error) => {
            let text = error.to_string();
            let text = text.trim_start_matches("error: ").trim().to_owned();
            Error::new(ErrorKind::Usage, text)
        }
        Failure::Settings(error) => error,
    })?;
    let Command::Cp(copy) = cli.command else {
        return Err(Error::new(ErrorKind::Usage, "that is no copy").into());
    };
    let reporter = Reporter::new(Wishes {
        quiet: true,
        ..Wishes::default()
    })?;
    super::cp::copy(&copy, &reporter)
}

/// The host, and a directory on it.
#[derive(Clone, Debug, PartialEq)]
struct Target {
    /// Everything up to the path: `howdah://h:1/`, `anna@site:`.
    head: String,
    directory: String,
}

impl Target {
    fn parse(text: &str) -> Result<Self, Error> {
        let refused = |why: &str| {
            let text =
                format!("'{text}' {why}; write howdah://HOST:PORT[/DIR] or [USER@]HOST[:DIR]");
            Error::new(ErrorKind::Usage, text)
        };
        let (head, directory) = if let Some(rest) = text
            .strip_prefix("howdah://")
            .or_else(|| text.strip_prefix("ssh://"))
        {
            let scheme = &text[..text.len() - rest.len()];
            let (host, directory) = rest.split_once('/').unwrap_or((rest, ""));
            (format!("{scheme}{host}/"), directory)
        } else if let Some(at) = text.strip_prefix('[').and_then(|rest| rest.find("]:")) {
            (text[..at + 3].to_owned(), &text[at + 3..])
        } else {
            let (host, directory) = text.split_once(':').unwrap_or((text, ""));
            if host.contains('/') {
                return Err(refused("is no host"));
            }
            (format!("{host}:"), directory)
        };
        if text.is_empty() || head.starts_with(':') || head.ends_with("///") {
            return Err(refused("names no host"));
        }
        Ok(Self {
            head,
            directory: directory.to_owned(),
        })
    }

    fn has_directory(&self) -> bool {
        !self.directory.is_empty()
    }

    /// A file in the directory, or made-up bytes.
    fn path(&self, name: &str) -> String {
        let directory = self.directory.trim_end_matches('/');
        if name.contains(':') || directory.is_empty() {
            let root = if self.directory.starts_with('/') && !name.contains(':') {
                "/"
            } else {
                ""
            };
            format!("{}{root}{name}", self.head)
        } else {
            format!("{}{directory}/{name}", self.head)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_host_with_or_without_a_directory() {
        for (text, null, file) in [
            ("howdah://h:1", "howdah://h:1/null:", "howdah://h:1/f"),
            (
                "howdah://[::1]:1/a/b/",
                "howdah://[::1]:1/null:",
                "howdah://[::1]:1/a/b/f",
            ),
            ("anna@site", "anna@site:null:", "anna@site:f"),
            ("site:/data", "site:null:", "site:/data/f"),
            ("site:/", "site:null:", "site:/f"),
            ("[::1]:data", "[::1]:null:", "[::1]:data/f"),
        ] {
            let target = Target::parse(text).unwrap();
            assert_eq!(target.path("null:"), null, "{text}");
            assert_eq!(target.path("f"), file, "{text}");
        }
        for text in ["", ":x", "howdah:///x", "a/b"] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
    }
}
