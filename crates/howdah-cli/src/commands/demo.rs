//! `howdah demo`.

use super::wan;
use crate::args::DemoArgs;
use crate::demo::{Demo, Run, Running, hash, make_random, page, table};
use crate::own_file;
use crate::ui::{self, Signals};
use anyhow::{Context as _, ensure};
use howdah::keys::{AuthorizedKeys, Identity, KnownHosts};
use howdah::{Cancel, DEFAULT_PORT, Error, ErrorKind};
use howdah_core::{Span, units};
use howdah_load::READY;
use howdah_load::tcp::{ReceiveReport, SendReport};
use howdah_wan::{Certificate, WanConfig, World};
use rustix::fs::statvfs;
use serde::Deserialize;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Address of the far host in an emulated world.
const FAR: &str = "10.88.0.2";
const TCP_PORT: u16 = 5201;
/// How long a process may take to say that it is ready.
const START: Duration = Duration::from_secs(20);
/// How long the copy of the file may take: more than the slowest machine needs.
const COPY: Duration = Duration::from_mins(10);

pub(super) fn run(args: &DemoArgs) -> anyhow::Result<()> {
    own_file::check("--html", &args.html, own_file::is_page)?;
    let signals = Signals::install()?;
    let lab = Lab::prepare(args, signals.cancel())?;
    let mut demo = Demo {
        path: describe(args),
        machine: machine(),
        command: command_line(std::env::args_os()),
        file_bytes: args.bytes,
        link: args.path.rate,
        ..Demo::default()
    };
    demo.notes.extend(notes(args));
    demo.runs.push(lab.howdah(&mut demo.notes)?);
    for congestion in ["bbr", "cubic"] {
        match lab.tcp(congestion, &mut demo.notes) {
            Ok(run) => demo.runs.push(run),
            Err(error) if signals.cancel().is_cancelled() => return Err(error),
            Err(error) => demo
                .notes
                .push(format!("No run of TCP {congestion}: {error:#}.")),
        }
    }
    ui::print(&format!("\n{}", table(&demo)))?;
    own_file::replace(&args.html, &page(&demo))?;
    let html = args
        .html
        .canonicalize()
        .unwrap_or_else(|_| args.html.clone());
    ui::print(&format!("Throughput over time: {}", html.display()))?;
    Ok(())
}

/// Everything that a run needs. The world is made anew for each, so that none inherits queues,
/// counters or the kernel's memory of the path from the one before.
struct Lab<'a> {
    args: &'a DemoArgs,
    cancel: &'a Cancel,
    config: WanConfig,
    program: PathBuf,
    dir: TempDir,
    hash: blake3::Hash,
}

impl<'a> Lab<'a> {
    fn prepare(args: &'a DemoArgs, cancel: &'a Cancel) -> anyhow::Result<Self> {
        let config = wan::config(&args.path);
        // Whoever may not make a world learns it before the file is made.
        drop(World::create(&config).map_err(|error| wan::wan_error(&error))?);
        let program = std::env::current_exe().context("cannot find the howdah program")?;
        let dir = tempfile::Builder::new().prefix("howdah-demo-").tempdir()?;
        check_space(dir.path(), args.bytes)?;
        let size = units::format_bytes(args.bytes);
        ui::say(&format!(
            "making {size} of random bytes in {}",
            dir.path().display()
        ));
        fs::create_dir(dir.path().join("root"))?;
        let hash = make_random(&dir.path().join("file"), args.bytes, args.path.seed)?;
        Self {
            args,
            cancel,
            config,
            program,
            dir,
            hash,
        }
        .with_keys()
    }

    /// Keys for this demo only.
    fn with_keys(self) -> anyhow::Result<Self> {
        let (server, client) = (Identity::generate()?, Identity::generate()?);
        server.save_new(&self.path("server.pem"))?;
        client.save_new(&self.path("client.pem"))?;
        KnownHosts::load(&self.path("known_hosts"))?.add(FAR, DEFAULT_PORT, server.public_key())?;
        let authorized = self.path("authorized_keys");
        fs::write(&authorized, format!("{}\n", client.public_key()))?;
        ensure!(
            AuthorizedKeys::load(&authorized)?.len() == 1,
            "the demo cannot read its own keys"
        );
        Ok(self)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Moves the file with howdah, from disk to disk.
    fn howdah(&self, notes: &mut Vec<String>) -> anyhow::Result<Run> {
        ui::say("moving the file with howdah");
        let world = World::create(&self.config).map_err(|error| wan::wan_error(&error))?;
        let mut serve = world.far().command(&self.program);
        serve
            .arg("serve")
            .args(["--listen", &format!("{FAR}:{DEFAULT_PORT}")]);
        if rustix::process::geteuid().is_root() {
            // Its network is its own, and so are its files.
            serve.args(["--user", "root"]);
        }
        serve.arg("--root").arg(self.path("root"));
        serve.arg("--identity").arg(self.path("server.pem"));
        serve
            .arg("--authorized-keys")
            .arg(self.path("authorized_keys"));
        let mut serve = Running::start("howdah serve", serve)?;
        serve.wait_for("serving ", START, self.cancel)?;

        let mut cp = world.near().command(&self.program);
        // Kernel TCP begins cold, too.
        cp.args(["cp", "--json", "--no-memory"]);
        cp.arg("--trace").arg(self.path("trace"));
        cp.arg("--identity").arg(self.path("client.pem"));
        cp.arg("--known-hosts").arg(self.path("known_hosts"));
        cp.arg(self.path("file"))
            .arg(format!("howdah://{FAR}:{DEFAULT_PORT}/file"));
        let out = Running::start("howdah cp", cp)?.finish(COPY, self.cancel)?;
        serve.stop();
        doubts("howdah", &world.certificate(), notes);
        let report: CopyReport = last_json(&out)?;

        ui::say("comparing what arrived with what was sent");
        let arrived = self.path("root/file");
        ensure!(
            hash(&arrived)? == self.hash,
            Error::new(
                ErrorKind::Integrity,
                "the file that arrived is not the file that was sent"
            )
        );
        fs::remove_file(arrived)?;
        Ok(Run {
            name: "howdah".to_owned(),
            bytes: report.bytes,
            seconds: report.seconds,
            sender_cpu_seconds: report.sender.cpu_seconds,
            receiver_cpu_seconds: report.receiver.cpu_seconds,
            feedback_bytes: Some(report.feedback_bytes),
            verified: report.verified.to_ascii_uppercase(),
            samples: samples(&fs::read_to_string(self.path("trace"))?, &report),
        })
    }

    /// Runs kernel TCP, from memory to memory.
    fn tcp(&self, congestion: &str, notes: &mut Vec<String>) -> anyhow::Result<Run> {
        let time = self.args.tcp_time;
        let name = format!("TCP {}", congestion.to_ascii_uppercase());
        ui::say(&format!("running kernel {name} for {time}"));
        let world = World::create(&self.config).map_err(|error| wan::wan_error(&error))?;
        // Twice what the path holds, as the tuning guides for such paths say.
        let path = self
            .args
            .path
            .rate
            .bytes_in(self.args.path.rtt + Span::from_millis(100));
        let buffer = path.saturating_mul(2).clamp(16 << 20, 1 << 30).to_string();
        let time = format!("{}ns", time.as_nanos());
        let to = format!("{FAR}:{TCP_PORT}");
        let mut receive = world.far().command(&self.program);
        receive.args(["internal", "tcp-recv", "--listen", &to, "--time", &time]);
        receive.args(["--buffer", &buffer]);
        let mut receive = Running::start("the TCP receiver", receive)?;
        receive.wait_for(READY, START, self.cancel)?;
        let mut send = world.near().command(&self.program);
        send.args(["internal", "tcp-send", "--to", &to, "--time", &time]);
        send.args(["--buffer", &buffer, "--congestion", congestion]);
        let patience = START + Duration::from(self.args.tcp_time);
        let sent = Running::start("the TCP sender", send)?.finish(patience, self.cancel)?;
        let sent: SendReport = last_json(&sent)?;
        let received: ReceiveReport = last_json(&receive.finish(START, self.cancel)?)?;
        let certificate = world.certificate();
        doubts(&name, &certificate, notes);
        let granted = sent.buffer_limit.min(received.buffer_limit);
        if granted < path {
            notes.push(format!(
                "{name} was held back: the kernel allows it buffers of only {} here.",
                units::format_bytes(granted)
            ));
        }
        Ok(Run {
            name: format!("TCP {}", sent.congestion.to_ascii_uppercase()),
            bytes: received.bytes,
            seconds: received.seconds,
            sender_cpu_seconds: sent.cpu_seconds,
            receiver_cpu_seconds: received.cpu_seconds,
            feedback_bytes: Some(certificate.backward().path.bytes_delivered),
            verified: "no".to_owned(),
            samples: received.samples,
        })
    }
}

/// What speaks against a run.
fn doubts(name: &str, certificate: &Certificate, notes: &mut Vec<String>) {
    if !certificate.valid {
        let objections = certificate.objections.join("; ");
        notes.push(format!(
            "The emulator doubts the run of {name}: {objections}."
        ));
    }
}

/// The fields of `howdah cp --json` that the demo shows.
#[derive(Deserialize)]
struct CopyReport {
    bytes: u64,
    seconds: f64,
    feedback_bytes: u64,
    verified: String,
    sender: Usage,
    receiver: Usage,
}

#[derive(Deserialize)]
struct Usage {
    cpu_seconds: f64,
}

fn last_json<T: for<'de> Deserialize<'de>>(lines: &[String]) -> anyhow::Result<T> {
    let line = lines
        .last()
        .context("a process of the demo printed no result")?;
    serde_json::from_str(line).context("a process of the demo printed something unexpected")
}

/// The trace of a copy, closed with its result.
fn samples(trace: &str, report: &CopyReport) -> Vec<(f64, u64)> {
    #[derive(Deserialize)]
    struct Line {
        seconds: f64,
        bytes: u64,
    }
    let mut samples: Vec<(f64, u64)> = trace
        .lines()
        .filter_map(|line| serde_json::from_str::<Line>(line).ok())
        .map(|line| (line.seconds, line.bytes))
        .filter(|&(seconds, bytes)| seconds < report.seconds && bytes < report.bytes)
        .collect();
    samples.push((report.seconds, report.bytes));
    samples
}

fn describe(args: &DemoArgs) -> String {
    let path = &args.path;
    let back = path.loss_back.unwrap_or(path.loss);
    let loss = if (back - path.loss).abs() < f64::EPSILON {
        format!("{} % in each direction", path.loss * 100.0)
    } else {
        format!("{} % there and {} % back", path.loss * 100.0, back * 100.0)
    };
    format!(
        "{}, RTT {}, random loss {loss}, MTU {}",
        path.rate, path.rtt, path.mtu
    )
}

fn machine() -> String {
    let system = rustix::system::uname();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let processor = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    format!(
        "{cores} cores of {}, Linux {}, sender, receiver and emulator together",
        processor.as_deref().unwrap_or("an unnamed processor"),
        system.release().to_string_lossy()
    )
}

/// What was typed, the program without its directory.
fn command_line(mut words: impl Iterator<Item = OsString>) -> String {
    words.next();
    std::iter::once("howdah".to_owned())
        .chain(words.map(|word| word.to_string_lossy().into_owned()))
        .collect::<Vec<_>>()
        .join(" ")
}

fn notes(args: &DemoArgs) -> [String; 3] {
    let seconds = args.tcp_time.as_secs_f64();
    [
        "howdah: a real file from disk to disk, every packet encrypted, the content hashed, \
         synced and renamed into place."
            .to_owned(),
        format!(
            "TCP: plain sockets from memory to memory for {seconds} s, nothing encrypted or \
             stored; 'about' is a projection at its mean rate."
        ),
        "CPU: user and system time of each process per Gbit of payload; feedback: IP bytes from \
         receiver to sender."
            .to_owned(),
    ]
}

fn check_space(dir: &Path, bytes: u64) -> anyhow::Result<()> {
    // The file, its copy, and room for others.
    let needed = bytes.saturating_mul(2).saturating_add(64 << 20);
    let system = statvfs(dir)?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    if free < needed {
        let text = format!(
            "the demo needs {} in {} and only {} are free; set TMPDIR to another place, or use \
             a smaller --bytes",
            units::format_bytes(needed),
            dir.display(),
            units::format_bytes(free)
        );
        return Err(Error::new(ErrorKind::NoSpace, text).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_ends_with_the_result() {
        let report: CopyReport = serde_json::from_str(
            r#"{"bytes":10,"seconds":1.5,"feedback_bytes":1,"verified":"blake3","more":1,
                "sender":{"cpu_seconds":0.1},"receiver":{"cpu_seconds":0.2}}"#,
        )
        .unwrap();
        let trace = "{\"seconds\":0.5,\"bytes\":4,\"rtt_us\":1}\n{\"seconds\":2.0,\"bytes\":10}\nx";
        assert_eq!(samples(trace, &report), vec![(0.5, 4), (1.5, 10)]);
    }

    #[test]
    fn the_command_can_be_typed_again() {
        let words = ["/usr/bin/howdah", "demo", "--rtt", "200ms"].map(OsString::from);
        assert_eq!(command_line(words.into_iter()), "howdah demo --rtt 200ms");
        let last: anyhow::Result<CopyReport> = last_json(&[]);
        assert!(last.is_err());
    }
}
