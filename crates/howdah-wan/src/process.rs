//! Programs under test: in a namespace, in a group of their own that counts their processor time,
//! never outliving this process.

use crate::{Namespace, WanError, sys};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Every group's name begins like this and goes on with the owner's process id.
const PREFIX: &str = "howdah-run-";
/// How often a program that was told to end is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// What a program and all that it started have used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// User and system processor time in seconds; `None` without a second version of control groups.
    pub cpu_s: Option<f64>,
    /// Most resident memory that was seen at once, in bytes; shared pages count for each process.
    pub peak_rss_bytes: u64,
}

/// A control group (version 2): counts the processor time of a program and of all that it starts, ended ones
/// too. Removed when dropped, with every process that is still in it.
#[derive(Debug)]
struct Group {
    path: PathBuf,
}

impl Group {
    /// `None` where there is no writable hierarchy.
    fn create() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let root = hierarchy()?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = root.join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&path).ok()?;
        Some(Self { path })
    }

    fn cpu_s(&self) -> Option<f64> {
        let text = fs::read_to_string(self.path.join("cpu.stat")).ok()?;
        let us: f64 = text
            .lines()
            .find_map(|line| line.strip_prefix("usage_usec "))?
            .trim()
            .parse()
            .ok()?;
        Some(us / 1e6)
    }

    fn pids(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    fn kill(&self) {
        // Linux 5.14; before that, one by one.
        if fs::write(self.path.join("cgroup.kill"), "1").is_err() {
            for pid in self.pids() {
                kill(pid, Signal::KILL);
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let end = Instant::now() + Duration::from_secs(2);
        while !self.pids().is_empty() && Instant::now() < end {
            self.kill();
            std::thread::sleep(LOOK);
        }
        let _ = fs::remove_dir(&self.path);
    }
}

fn kill(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // It may have ended meanwhile.
        let _ = kill_process(pid, signal);
    }
}

/// Where control groups of version 2 are; groups of dead owners are removed when it is first asked for.
fn hierarchy() -> Option<&'static Path> {
    static ROOT: OnceLock<Option<PathBuf>> = OnceLock::new();
    ROOT.get_or_init(|| {
        let mounts = fs::read_to_string("/proc/mounts").ok()?;
        let root = mounts.lines().find_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let (_, at, kind) = (fields.next()?, fields.next()?, fields.next()?);
            (kind == "cgroup2").then(|| PathBuf::from(at))
        })?;
        remove_stale(&root);
        Some(root)
    })
    .as_deref()
}

fn remove_stale(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| {
            name.strip_prefix(PREFIX)?
                .split('-')
                .next()?
                .parse::<u32>()
                .ok()
        });
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            drop(Group { path: entry.path() });
        }
    }
}

/// A running program. Dropping it kills it, with all that it started.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    status: Option<ExitStatus>,
    group: Option<Group>,
    used: Used,
    cpu_before: f64,
}

impl Process {
    /// Starts `command` (see [`Namespace::command`]), with nothing on its standard input, its output and
    /// errors in these files. It dies with the calling *thread*, which must live as long as it should.
    ///
    /// # Errors
    ///
    /// [`WanError::Run`] if it cannot be started.
    pub fn spawn(
        name: impl Into<String>,
        mut command: Command,
        stdout: File,
        stderr: File,
    ) -> Result<Self, WanError> {
        let name = name.into();
        let group = Group::create();
        if let Some(group) = &group {
            let procs = fs::OpenOptions::new()
                .write(true)
                .open(group.path.join("cgroup.procs"))
                .map_err(WanError::system("open a control group"))?;
            sys::join_group_before_exec(&mut command, procs);
        }
        sys::detach_before_exec(&mut command);
        let child = command
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .map_err(|source| WanError::Run {
                program: name.clone(),
                source,
            })?;
        Ok(Self {
            name,
            child,
            status: None,
            group,
            used: Used::default(),
            cpu_before: 0.0,
        })
    }

    /// As given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Of the program itself.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }

    /// Asks it to end (SIGINT); kills it, and all that it started, if it lives on after `grace`.
    pub fn stop(&mut self, grace: Duration) {
        if self.ended().is_none() {
            kill(self.child.id(), Signal::INT);
            let end = Instant::now() + grace;
            while self.ended().is_none() && Instant::now() < end {
                std::thread::sleep(LOOK);
            }
        }
        self.look();
        if self.ended().is_none() {
            let _ = self.child.kill();
            self.status = self.child.wait().ok();
        }
        if let Some(group) = &self.group {
            group.kill();
        }
    }

    /// Counts processor time from now on only: what a server took to start is not a transfer's.
    pub fn begin_count(&mut self) {
        self.cpu_before = self.group.as_ref().and_then(Group::cpu_s).unwrap_or(0.0);
    }

    /// Takes note of the memory in use; to be called now and then while it runs.
    pub fn look(&mut self) {
        let pids = match &self.group {
            Some(group) => group.pids(),
            None => vec![self.child.id()],
        };
        let rss = pids.into_iter().filter_map(resident_bytes).sum();
        self.used.peak_rss_bytes = self.used.peak_rss_bytes.max(rss);
        if let Some(cpu_s) = self.group.as_ref().and_then(Group::cpu_s) {
            self.used.cpu_s = Some(cpu_s - self.cpu_before);
        }
    }

    /// What it and all that it started have used up to the last [look](Self::look), and of
    /// processor time up to now.
    pub fn used(&mut self) -> Used {
        self.look();
        self.used
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

fn resident_bytes(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

impl Namespace {
    /// Whether somebody inside listens on that TCP port, or has bound that UDP port.
    pub fn has_port(&self, port: u16, udp: bool) -> io::Result<bool> {
        let names = if udp {
            ["udp", "udp6"]
        } else {
            ["tcp", "tcp6"]
        };
        self.run_in(|| {
            names.iter().any(|name| {
                let text = fs::read_to_string(format!("/proc/thread-self/net/{name}"));
                text.is_ok_and(|text| mentions(&text, port, udp))
            })
        })
    }
}

/// Whether a table of `/proc/net` has a socket that waits at this port.
fn mentions(table: &str, port: u16, udp: bool) -> bool {
    // State 0A is a listening TCP socket, 07 an unconnected UDP one.
    let (ending, state) = (format!(":{port:04X}"), if udp { "07" } else { "0A" });
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (local, _, is) = (fields.next(), fields.next(), fields.next());
        local.is_some_and(|local| local.ends_with(&ending)) && is == Some(state)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let null = || File::options().write(true).open("/dev/null").unwrap();
        Process::spawn("sh", command, null(), null()).unwrap()
    }

    #[test]
    fn processor_time_of_children_counts_too() {
        let mut process = run("(i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done) & wait");
        while process.ended().is_none() {
            process.look();
            std::thread::sleep(LOOK);
        }
        let used = process.used();
        match used.cpu_s {
            Some(cpu_s) => assert!(cpu_s > 0.01, "{used:?}"),
            None => println!("skipped: no writable control groups of version 2"),
        }
        assert!(used.peak_rss_bytes > 100_000, "{used:?}");
    }

    #[test]
    fn what_it_started_ends_with_it() {
        let mut process = run("sleep 1000 & echo; sleep 1000");
        let Some(group) = process.group.as_ref().map(|group| group.path.clone()) else {
            println!("skipped: no writable control groups of version 2");
            return;
        };
        process.stop(Duration::from_millis(100));
        assert!(process.ended().is_some());
        drop(process);
        assert!(!group.exists());
    }

    #[test]
    fn listening_ports_are_found() {
        let table = "  sl  local_address rem_address   st tx_queue\n   \
            0: 0100007F:1451 00000000:0000 0A 00000000:00000000\n   \
            1: 0100007F:1452 0100007F:1451 01 00000000:00000000\n";
        assert!(mentions(table, 5201, false));
        assert!(!mentions(table, 5202, false));
        assert!(!mentions(table, 5201, true));
    }
}
