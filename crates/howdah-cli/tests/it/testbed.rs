//! `howdah lab run --on netns`: real namespaces, the emulator, the kernel's TCP, our own transports over real sockets. Without
//! root or /dev/net/tun these tests say so and pass. What is asserted of rates is loose, and only within one run.
#![cfg(target_os = "linux")]

use crate::support::testbed::{at, can_run, cells, command, goodput_mbps, site};
use serde_json::Value;

#[track_caller]
fn run(scenario: &str) -> Vec<Value> {
    let dir = site(scenario);
    let state = dir.path().join("state");
    let mut command = command(dir.path(), "--on netns --runs 1");
    command
        .env("XDG_STATE_HOME", &state)
        .env_remove("HOWDAH_CONFIG_DIR");
    let output = command.output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    // All runs have the same addresses: what one has learnt must not be where another, or a copy of this user, begins.
    assert!(!state.join("howdah/paths").exists(), "a path is remembered");
    cells(dir.path())
}

const PATH: &str = r#"
[path.main]
rate = "100mbit"
rtt = "20ms"
mtu = 1500
buffer = "20ms"
"#;

#[test]
fn transports_run_and_are_measured_from_outside() {
    if !can_run() {
        return;
    }
    let cells = run(&format!(
        r#"
id = "T"
[axes]
protocol = ["howdah", "cubic", "reno", "udt", "rbudp", "rwtp-like", "libudt", "sabul"]
{PATH}
loss = "1%"
[flow.main]
via = ["main"]
protocol = "$protocol"
rate = "90mbit"
[measure]
duration = "4s"
warmup = "1s"
interval = "500ms"
"#
    ));
    let cell = |name| at(&cells, "protocol", name);
    for name in ["howdah", "cubic", "reno", "udt", "rbudp", "rwtp-like"] {
        let cell = cell(name);
        assert_eq!(cell["testbed"], "netns");
        assert_eq!(cell["error"], Value::Null, "{name}");
        let flow = &cell["flows"][0];
        assert!(goodput_mbps(cell, 0) > 0.5, "{name}: {flow}");
        assert!(goodput_mbps(cell, 0) < 100.0, "{name}: {flow}");
        assert!(
            flow["forward_wire_bytes"].as_u64() > flow["delivered_bytes"].as_u64(),
            "{name}: {flow}"
        );
        assert!(
            flow["feedback_wire_bytes"].as_u64().unwrap() > 0,
            "{name}: {flow}"
        );
        let lost = &cell["links"][0]["random_losses"];
        assert!(lost.as_u64().unwrap() > 0, "{name}: {lost}");
        let certificate = &cell["certificate"];
        assert!(
            certificate["environment"]["kernel"].is_string(),
            "{certificate}"
        );
        assert!(
            certificate["emulator"]["elapsed_s"].as_f64().unwrap() > 4.0,
            "{certificate}"
        );
    }
    // What the field knows for certain about a path of 20 ms that loses 1 %.
    let (ours, cubic) = (
        goodput_mbps(cell("howdah"), 0),
        goodput_mbps(cell("cubic"), 0),
    );
    assert!(ours > 2.0 * cubic, "howdah {ours}, CUBIC {cubic}");
    assert_eq!(cell("cubic")["flows"][0]["algorithm"], "kernel cubic");
    assert_eq!(
        cell("reno")["certificate"]["environment"]["tcp_congestion"],
        "reno"
    );
    // One that is not built or not real is skipped in words.
    assert!(
        cell("sabul")["skipped"]
            .as_str()
            .unwrap()
            .contains("simulator only")
    );
    let udt = cell("libudt");
    if let Some(why) = udt["skipped"].as_str() {
        assert!(why.contains("make peers"), "{why}");
    } else {
        assert!(goodput_mbps(udt, 0) > 0.5, "{udt}");
    }
}

#[test]
fn flows_compete_beside_short_ones_and_streams_while_the_path_changes() {
    if !can_run() {
        return;
    }
    let cells = run(r#"
id = "T"
[path.nic]
rate = "100mbit"
[path.main]
rate = "50mbit"
rtt = "10ms"
buffer = "20ms"
[flow.one]
via = ["nic", "main"]
protocol = "reno"
[flow.two]
via = ["main"]
protocol = "reno"
start = "1s"
[group.web]
via = ["main"]
protocol = "cubic"
count = 10
mean = "20KB"
shape = 1.3
window = "2s"
[stream.call]
via = ["main"]
rate = "1mbit"
packet = "200bytes"
[[timeline]]
path = "main"
at = "3s"
rtt = "40ms"
[measure]
duration = "6s"
interval = "500ms"
"#);
    let cell = &cells[0];
    let (one, two) = (goodput_mbps(cell, 0), goodput_mbps(cell, 1));
    assert!(one > 1.0 && two > 1.0, "{one} {two}");
    assert!(one + two < 50.0, "{one} {two}");
    let start_s = cell["flows"][1]["start_s"].as_f64().unwrap();
    assert!((start_s - 1.0).abs() < 1e-9, "{start_s}");
    let group = &cell["groups"][0];
    assert_eq!(group["flows"], 10);
    assert!(group["finished"].as_u64().unwrap() >= 8, "{group}");
    let stream = &cell["streams"][0];
    // 1 Mbit/s of 200 bytes for 6 s.
    let sent = stream["sent_packets"].as_u64().unwrap();
    assert!((3600..=3800).contains(&sent), "{stream}");
    assert!(
        stream["lost_packets"].as_u64().unwrap() < sent / 2,
        "{stream}"
    );
    assert!(stream["delivered_bytes"].as_u64().unwrap() > 0, "{stream}");
    let metrics = &cell["metrics"];
    assert!(metrics["jain"].as_f64().unwrap() > 0.5, "{metrics}");
    assert!(
        metrics["change_bps/one/1"].as_f64().unwrap() > 0.0,
        "{metrics}"
    );
}

#[test]
fn a_sized_transfer_ends_the_run_and_repeats_settle_it() {
    if !can_run() {
        return;
    }
    let scenario = format!(
        r#"
id = "T"
[axes]
protocol = ["howdah", "cubic", "udt"]
{PATH}
[flow.main]
via = ["main"]
protocol = "$protocol"
size = "4MiB"
[measure]
duration = "30s"
until_complete = true
"#
    );
    let dir = site(&scenario);
    let output = command(dir.path(), "--on netns --runs 2").output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    for cell in cells(dir.path()) {
        let flow = &cell["flows"][0];
        assert_eq!(flow["delivered_bytes"], 4 << 20, "{flow}");
        let took = flow["completion_s"].as_f64().unwrap();
        assert!(took > 0.3 && took < 25.0, "{flow}");
        // Two, unless the machine was so busy that the certificate speaks against more runs than are made up for.
        let counted = cell["runs_bps"].as_array().unwrap().len();
        let marks = cell["marks"].as_array();
        let is_invalid = marks.is_some_and(|marks| marks.contains(&"invalid".into()));
        let expected = if is_invalid { 1..=4 } else { 1..=2 };
        assert!(expected.contains(&counted), "{cell}");
        assert!(cell["metrics"]["duration_s/main"].as_f64().unwrap() > 0.3);
    }
    // What is there is not run again.
    let again = command(dir.path(), "--on netns --runs 2 --json")
        .output()
        .unwrap();
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((&again["ran"], &again["kept"]), (&0.into(), &3.into()));
}

/// A start is looked at on sockets as in virtual time, and one that is warm has had a transfer before it, which nobody else remembers.
#[test]
fn starts_are_looked_at_cold_and_warm() {
    if !can_run() {
        return;
    }
    let cells = run(&format!(
        r#"
id = "T"
[axes]
start = [
    {{ name = "cold", first = false, second = false }},
    {{ name = "warm", first = true, second = false }},
    {{ name = "second", first = false, second = true }},
]
{PATH}
[flow.main]
protocol = "howdah"
warm = "$start.first"
[flow.more]
protocol = "howdah"
warm = "$start.second"
[measure]
duration = "1500ms"
interval = "100ms"
start = true
"#
    ));
    for start in ["cold", "warm"] {
        let cell = at(&cells, "start", start);
        assert_eq!(cell["error"], Value::Null, "{start}");
        for name in ["cost_rtt", "share", "overflow"] {
            let figure = &cell["metrics"][format!("start_{name}/main")];
            assert!(figure.is_number(), "{start}: {name} of {cell}");
        }
        // Of 24 round trips no flow loses more, nor less than its handshake.
        let cost = cell["metrics"]["start_cost_rtt/main"].as_f64().unwrap();
        assert!((0.9..24.1).contains(&cost), "{start}: {cost}");
    }
    let second = &at(&cells, "start", "second")["skipped"];
    assert!(
        second.as_str().unwrap().contains("write it first"),
        "{second}"
    );
}

#[test]
fn what_cannot_be_emulated_is_skipped_and_said() {
    if !can_run() {
        return;
    }
    let cells = run(r#"
id = "T"
[path.main]
rate = "10mbit"
rtt = "10ms"
buffer = "50ms"
aqm = "codel"
[flow.main]
via = ["main"]
protocol = "reno"
[measure]
duration = "2s"
"#);
    let why = cells[0]["skipped"].as_str().unwrap();
    assert!(why.contains("'main'") && why.contains("CoDel"), "{why}");
}

#[test]
fn the_simulator_skips_real_programs() {
    let dir = site(
        r#"
id = "T"
[path.main]
rate = "10mbit"
[flow.main]
via = ["main"]
protocol = "libudt"
[measure]
duration = "1s"
"#,
    );
    let output = command(dir.path(), "").output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let why = cells(dir.path())[0]["skipped"].as_str().unwrap().to_owned();
    assert!(why.contains("--on netns"), "{why}");
}
