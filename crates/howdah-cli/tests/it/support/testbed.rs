//! `howdah lab run --on netns` for tests: where it can run, what it wrote, what it left.

use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) fn can_run() -> bool {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: the testbed needs root");
        return false;
    }
    if !Path::new("/dev/net/tun").exists() {
        println!("skipped: no /dev/net/tun");
        return false;
    }
    true
}

pub(crate) fn command(dir: &Path, words: &str) -> Command {
    super::process::hear_signals();
    let mut command = Command::new(env!("CARGO_BIN_EXE_howdah"));
    command
        .args(["lab", "run", "t.toml", "--out", "out"])
        .args(words.split_whitespace())
        .current_dir(dir);
    command
}

/// The same in a mount namespace of its own, where an empty directory lies over `hidden`. `None` with a printed reason where
/// that cannot be made.
pub(crate) fn command_without(hidden: &str, dir: &Path, words: &str) -> Option<Command> {
    let within = |script: &str| {
        let mut unshare = Command::new("unshare");
        let mount = format!("mount -t tmpfs none \"$1\" && {script}");
        unshare.args(["--mount", "--", "sh", "-c", &mount, "sh", hidden]);
        unshare
    };
    match within("true").output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr);
            println!("skipped: {hidden} cannot be hidden: {why}");
            return None;
        }
        Err(error) => {
            println!("skipped: {hidden} cannot be hidden: {error}");
            return None;
        }
    }
    let inner = command(dir, words);
    let mut outer = within("shift && exec \"$@\"");
    outer.arg(inner.get_program()).args(inner.get_args());
    outer.current_dir(dir);
    Some(outer)
}

pub(crate) fn site(scenario: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("t.toml"), scenario).unwrap();
    dir
}

pub(crate) fn cells(dir: &Path) -> Vec<Value> {
    let text = std::fs::read(dir.join("out/summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&text).unwrap();
    summary["cells"].as_array().unwrap().clone()
}

/// The cell where `axis` has that value.
#[track_caller]
pub(crate) fn at<'a>(cells: &'a [Value], axis: &str, value: &str) -> &'a Value {
    let found = cells.iter().find(|cell| cell["at"][axis] == value);
    found.unwrap_or_else(|| panic!("no cell with {axis} = {value}: {cells:#?}"))
}

pub(crate) fn goodput_mbps(cell: &Value, flow: usize) -> f64 {
    cell["flows"][flow]["goodput_bps"].as_f64().unwrap() / 1e6
}

/// No namespace, control group or process of that run is left.
pub(crate) fn assert_nothing_is_left(pid: u32) {
    let begins = |name: &str| {
        ["howdah-", "howdah-run-", "howdah-lab-"]
            .iter()
            .any(|prefix| name.starts_with(&format!("{prefix}{pid}-")))
    };
    let left = || -> Vec<String> {
        [
            "/run/netns",
            "/sys/fs/cgroup",
            "/sys/fs/cgroup/unified",
            "/dev/shm",
            "/tmp",
        ]
        .iter()
        .filter_map(|dir| std::fs::read_dir(dir).ok())
        .flat_map(Iterator::flatten)
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| begins(name))
        .collect()
    };
    // The guardian of a killed run needs a moment.
    let end = Instant::now() + Duration::from_secs(20);
    while !left().is_empty() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(left(), Vec::<String>::new());
}
