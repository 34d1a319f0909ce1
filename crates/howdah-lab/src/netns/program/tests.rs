//! Each program that is installed carries something over a real network of 200 Mbit/s and 10 ms.

use super::{describe, find};
use crate::netns::{Kit, Testbed, Trouble};
use crate::result::CellResult;
use crate::scenario;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

/// One at a time: they would take each other's processor.
static TURN: Mutex<()> = Mutex::new(());
const SIZE: u64 = 8_000_000;

/// `target/peers`, where `make peers` puts them.
fn peers() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
        PathBuf::from,
    );
    target.join("peers")
}

/// Runs the program once, `size` being a line of the flow; says why if it cannot.
fn run(name: &str, size: &str, duration: &str) -> Option<CellResult> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // Our own program is not needed for those of others: `true` makes its keys.
    let kit = Kit::new("true".into(), peers()).unwrap();
    let testbed = match Testbed::prepare(kit) {
        Ok(testbed) => testbed,
        Err(why) => {
            println!("skipped: {why}");
            return None;
        }
    };
    let text = format!(
        "id = \"T\"\n[path.main]\nrate = \"200mbit\"\nrtt = \"10ms\"\nbuffer = \"20ms\"\n\
         [flow.main]\nprotocol = \"{name}\"\n{size}\n\
         [measure]\nduration = \"{duration}\"\nuntil_complete = true\n"
    );
    let plan = scenario::parse(Path::new("t.toml"), &text, false).unwrap();
    let cell = plan.cells().next().unwrap();
    match testbed.run(cell, &AtomicBool::new(false)) {
        Ok(result) => {
            let flow = &result.flows[0];
            println!(
                "{name}: {}, {} bytes, {:?} s",
                flow.algorithm, flow.delivered_bytes, flow.completion_s
            );
            Some(result)
        }
        Err(Trouble::Skipped(why)) => {
            println!("skipped: {why}");
            None
        }
        Err(trouble) => panic!("{name}: {trouble}"),
    }
}

fn carries(name: &str, size: &str) {
    let duration = if size.is_empty() { "1s" } else { "30s" };
    let Some(result) = run(name, size, duration) else {
        return;
    };
    let flow = &result.flows[0];
    assert_ne!(flow.algorithm, "", "{name}");
    let least = if size.is_empty() { 1_000_000 } else { SIZE };
    assert!(
        flow.delivered_bytes >= least,
        "{name}: {}",
        flow.delivered_bytes
    );
    assert_eq!(flow.completion_s.is_some(), !size.is_empty(), "{name}");
    let cpu = [flow.sender_cpu_s, flow.receiver_cpu_s];
    assert!(
        cpu.iter()
            .all(|cpu_s| cpu_s.is_none_or(|cpu_s| cpu_s > 0.0)),
        "{name}: {cpu:?}"
    );
}

fn sized() -> String {
    format!("size = \"{SIZE}bytes\"")
}

#[test]
fn iperf3() {
    carries("iperf3-cubic", "");
    carries("iperf3-bbr", "");
}

#[test]
fn nuttcp() {
    carries("nuttcp", "");
    carries("nuttcp", &sized());
}

#[test]
fn libudt() {
    carries("libudt", "");
    carries("libudt", &sized());
}

#[test]
fn srt() {
    carries("srt", "");
    carries("srt", &sized());
}

#[test]
fn quic() {
    carries("quic", "");
    carries("quic", &sized());
    carries("quic-bbr", &sized());
}

#[test]
fn copies_over_ssh() {
    for name in ["scp", "rsync", "rclone", "qcp"] {
        carries(name, &sized());
    }
}

#[test]
fn a_size_that_takes_too_long_is_cut_off() {
    for name in ["nuttcp", "libudt", "srt", "quic", "scp", "qcp"] {
        let Some(result) = run(name, "size = \"1GB\"", "1s") else {
            continue;
        };
        let flow = &result.flows[0];
        assert_eq!(flow.completion_s, None, "{name}");
        assert!((1..1_000_000_000).contains(&flow.delivered_bytes), "{name}");
    }
}

#[test]
fn names_are_different() {
    let names: Vec<&str> = describe().map(|program| program.name).collect();
    for name in &names {
        let times = names.iter().filter(|other| *other == name).count();
        assert_eq!(times, 1, "{name}");
        assert!(find(name).is_some());
    }
}
