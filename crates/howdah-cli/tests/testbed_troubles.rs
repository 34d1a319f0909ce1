//! `howdah lab run --on netns` when something is wrong: programs that crash, a run that is stopped or killed, what the machine
//! lacks. Without root or /dev/net/tun these tests say so and pass.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod support;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::testbed::{assert_nothing_is_left, at, can_run, cells, command, goodput_mbps, site};

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
    let peer = dir.path().join("udt-measure");
    std::fs::write(&peer, "#!/bin/sh\necho out of ideas >&2\nexit 3\n").unwrap();
    std::fs::set_permissions(&peer, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
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
