//! `howdah lab run --on netns` when something is wrong: programs that crash, a run that is stopped or killed, what the machine
//! lacks. Without root or /dev/net/tun these tests say so and pass.
#![cfg(target_os = "linux")]

use crate::support::testbed::{
    assert_nothing_is_left, at, can_run, cells, command, command_without, goodput_mbps, site,
};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A program of `make peers`, as a script.
fn peer(dir: &Path, name: &str, script: &str) {
    let path = dir.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{script}")).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn a_peer_that_crashes_is_named_and_the_others_go_on() {
    if !can_run() {
        return;
    }
    let dir = site(
        r#"
id = "T"
[path.main]
rate = "50mbit"
rtt = "10ms"
[flow.main]
via = ["main"]
protocol = ["libudt", "reno"]
[measure]
duration = "1s"
"#,
    );
    peer(dir.path(), "udt-measure", "echo out of ideas >&2\nexit 3\n");
    let output = command(dir.path(), "--on netns --runs 1 --peers .")
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(
        err.contains("udt-measure") && err.contains("out of ideas"),
        "{err}"
    );
    let cells = cells(dir.path());
    let crashed = at(&cells, "protocol", "libudt");
    assert!(
        crashed["error"].as_str().unwrap().contains("out of ideas"),
        "{crashed}"
    );
    assert!(goodput_mbps(at(&cells, "protocol", "reno"), 0) > 1.0);
}

/// Other people's programs that hang, each in its own way: a receiver that does nothing, a sender that does not end, and
/// one that the end of the measurement stops, which it takes no notice of. `asleep` is the command of all of them.
fn hanging_peers(dir: &Path, asleep: &str) {
    let howdah = env!("CARGO_BIN_EXE_howdah");
    let hang = format!("trap '' INT\necho still thinking >&2\n{asleep} & wait\n");
    peer(dir, "udt-measure", &hang);
    let receives = format!("[ $1 = sink ] && exec {howdah} internal stream-recv --listen $2\n");
    peer(dir, "quic-measure", &(receives + &hang));
}

/// Processes whose command line is this.
fn running(command: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let wanted = format!("{}\0", command.replace(' ', "\0"));
    lines.filter(|line| *line == wanted.as_bytes()).count()
}

/// Runs programs that hang beside one that does not; the cells, with nothing left of the run.
#[track_caller]
fn run_hanging(scenario: &str) -> Vec<Value> {
    let dir = site(scenario);
    // A second that no other has.
    let name = dir.path().file_name().unwrap().as_encoded_bytes();
    let number = name
        .iter()
        .fold(0_u64, |sum, byte| sum * 31 % 999_983 + u64::from(*byte));
    let asleep = format!("sleep 86399.{number}");
    hanging_peers(dir.path(), &asleep);
    let child = command(dir.path(), "--on netns --runs 1 --peers . --patience 1s")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&stderr);
    assert_eq!(status.code(), Some(1), "{err}");
    assert!(err.contains("still thinking"), "{err}");
    assert_eq!(running(&asleep), 0);
    assert_nothing_is_left(pid);
    let cells = cells(dir.path());
    // Not more than the path has, either, whatever its queue still held at the end.
    let reno = goodput_mbps(at(&cells, "protocol", "reno"), 0);
    assert!(reno > 1.0 && reno < 50.0, "{reno}");
    cells
}

#[track_caller]
fn assert_error(cells: &[Value], protocol: &str, wanted: &str) {
    let cell = at(cells, "protocol", protocol);
    let error = cell["error"].as_str().unwrap();
    assert_eq!(error, wanted, "{cell}");
}

#[test]
fn programs_that_hang_are_ended_and_named_and_the_others_go_on() {
    if !can_run() {
        return;
    }
    let cells = run_hanging(
        r#"
id = "T"
[path.main]
rate = "50mbit"
rtt = "10ms"
[flow.main]
via = ["main"]
protocol = ["libudt", "quic", "reno"]
[measure]
duration = "1s"
"#,
    );
    let wanted = "udt-measure (receiver) is not ready after 1 s: still thinking";
    assert_error(&cells, "libudt", wanted);
    let wanted = "quic-measure (sender) goes on 1 s after the measurement: still thinking";
    assert_error(&cells, "quic", wanted);
}

#[test]
fn a_sender_that_sends_nothing_has_no_rate_of_zero() {
    if !can_run() {
        return;
    }
    let cells = run_hanging(
        r#"
id = "T"
[path.main]
rate = "50mbit"
rtt = "10ms"
[flow.main]
via = ["main"]
protocol = ["quic", "reno"]
size = "1MB"
[measure]
duration = "3s"
"#,
    );
    let wanted = "quic-measure (sender) sent nothing in 3.0 s: still thinking";
    assert_error(&cells, "quic", wanted);
}

fn long_run(dir: &Path) -> std::process::Child {
    command(dir, "--on netns --runs 1")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

const LONG: &str = r#"
id = "T"
[path.main]
rate = "20mbit"
rtt = "10ms"
[flow.main]
via = ["main"]
protocol = ["howdah", "reno"]
[measure]
duration = "60s"
"#;

/// Waits until the run has made its hosts.
fn wait_for_hosts(pid: u32) {
    let end = Instant::now() + Duration::from_secs(30);
    let name = format!("howdah-{pid}");
    loop {
        let names = std::fs::read_dir("/run/netns")
            .into_iter()
            .flatten()
            .flatten();
        let mut names = names.filter_map(|entry| entry.file_name().into_string().ok());
        if names.any(|known| known.starts_with(&name) && known.ends_with("h0b")) {
            return;
        }
        assert!(Instant::now() < end, "no hosts");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

#[test]
fn an_interrupt_ends_everything_in_seconds() {
    if !can_run() {
        return;
    }
    let dir = site(LONG);
    let child = long_run(dir.path());
    let pid = child.id();
    wait_for_hosts(pid);
    signal(pid, rustix::process::Signal::INT);
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&stderr);
    assert!(!status.success());
    assert!(err.contains("the same command goes on from there"), "{err}");
    assert_nothing_is_left(pid);
}

#[test]
fn a_killed_run_leaves_nothing_behind() {
    if !can_run() {
        return;
    }
    let dir = site(LONG);
    let mut child = long_run(dir.path());
    let pid = child.id();
    wait_for_hosts(pid);
    child.kill().unwrap();
    child.wait().unwrap();
    // Its control groups and scratch files are left; the next run removes them.
    let next = site(
        &LONG
            .replace("\"60s\"", "\"1s\"")
            .replace("[\"howdah\", \"reno\"]", "\"reno\""),
    );
    let output = command(next.path(), "--on netns --runs 1")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_nothing_is_left(pid);
}

#[test]
fn without_root_the_reason_is_given() {
    if !can_run() {
        return;
    }
    let dir = site(LONG);
    // World-readable, for user nobody.
    std::fs::set_permissions(
        dir.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o777),
    )
    .unwrap();
    let program = dir.path().join("howdah");
    std::fs::copy(env!("CARGO_BIN_EXE_howdah"), &program).unwrap();
    let mut command = Command::new(&program);
    std::os::unix::process::CommandExt::uid(&mut command, 65_534);
    let output = command
        .args(["lab", "run", "t.toml", "--out", "out", "--on", "netns"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(err.contains("root"), "{err}");
}

/// Two cells of a second.
fn short(protocols: &str) -> String {
    format!(
        r#"
id = "T"
[path.main]
rate = "20mbit"
rtt = "10ms"
[flow.main]
via = ["main"]
protocol = [{protocols}]
[measure]
duration = "1s"
"#
    )
}

/// What it ran, and what was there already.
#[track_caller]
fn ran_and_kept(output: &Output) -> (u64, u64) {
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    (
        said["ran"].as_u64().unwrap(),
        said["kept"].as_u64().unwrap(),
    )
}

#[track_caller]
fn skipped<'a>(cells: &'a [Value], protocol: &str) -> &'a str {
    let cell = at(cells, "protocol", protocol);
    let why = cell["skipped"].as_str();
    why.unwrap_or_else(|| panic!("not skipped: {cell}"))
}

#[test]
fn without_tun_the_reason_is_given_and_finished_cells_are_kept() {
    if !can_run() {
        return;
    }
    let dir = site(&short("\"reno\", \"cubic\""));
    let words = "--on netns --runs 1 --json";
    let Some(mut hidden) = command_without("/dev/net", dir.path(), words) else {
        return;
    };
    let first = command(dir.path(), &format!("{words} --shard 1/2")).output();
    assert_eq!(ran_and_kept(&first.unwrap()), (1, 0));
    let before = cells(dir.path());
    let child = hidden.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{err}");
    assert!(
        err.contains("needs /dev/net/tun") && err.contains("load the tun driver"),
        "{err}"
    );
    assert_nothing_is_left(pid);
    assert_eq!(cells(dir.path()), before);
    let rest = command(dir.path(), words).output().unwrap();
    assert_eq!(ran_and_kept(&rest), (1, 1));
}

#[test]
fn without_btf_the_papers_tcps_are_skipped_and_the_others_run() {
    if !can_run() {
        return;
    }
    let dir = site(&short("\"fast\", \"reno\""));
    let words = "--on netns --runs 1 --json";
    let Some(mut hidden) = command_without("/sys/kernel/btf", dir.path(), words) else {
        return;
    };
    assert_eq!(ran_and_kept(&hidden.output().unwrap()), (1, 0));
    let cells = cells(dir.path());
    let why = skipped(&cells, "fast");
    if why.contains("built without BPF") {
        println!("skipped: {why}");
        assert!(why.contains("make bpf"), "{why}");
    } else {
        assert!(
            why.contains("no BTF") && why.contains("CONFIG_DEBUG_INFO_BTF"),
            "{why}"
        );
    }
    assert!(goodput_mbps(at(&cells, "protocol", "reno"), 0) > 1.0);
}

#[test]
fn without_what_make_bpf_compiles_the_papers_tcps_are_skipped() {
    if !can_run() {
        return;
    }
    let dir = site(&short("\"fast\", \"reno\""));
    let output = command(dir.path(), "--on netns --runs 1 --json")
        .env("HOWDAH_BPF_DIR", dir.path())
        .output()
        .unwrap();
    assert_eq!(ran_and_kept(&output), (1, 0));
    let cells = cells(dir.path());
    let why = skipped(&cells, "fast");
    assert!(why.contains("make bpf"), "{why}");
    assert!(
        why.contains("built without BPF") || why.contains("HOWDAH_BPF_DIR"),
        "{why}"
    );
    assert!(goodput_mbps(at(&cells, "protocol", "reno"), 0) > 1.0);
}

#[test]
fn a_program_that_was_missing_is_looked_for_again() {
    if !can_run() {
        return;
    }
    let dir = site(&short("\"libudt\", \"reno\""));
    let run = || {
        let words = "--on netns --runs 1 --json --peers .";
        command(dir.path(), words).output().unwrap()
    };
    assert_eq!(ran_and_kept(&run()), (1, 0));
    let why = skipped(&cells(dir.path()), "libudt").to_owned();
    assert!(why.contains("make peers"), "{why}");
    peer(dir.path(), "udt-measure", "echo here I am >&2\nexit 3\n");
    assert_eq!(run().status.code(), Some(1));
    let error = at(&cells(dir.path()), "protocol", "libudt")["error"].clone();
    assert!(error.as_str().unwrap().contains("here I am"), "{error}");
}
