//! Each program that is installed carries something over a real network of 200 Mbit/s and 10 ms.

use super::{ADAPTERS, find};
use crate::catalog::{self, Protocol};
use crate::netns::{Kit, Testbed, Trouble};
use crate::scenario;
use howdah_report::result::CellResult;
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
    run_over(name, size, duration, "")
}

/// `path` is a further line of the path.
fn run_over(name: &str, size: &str, duration: &str, path: &str) -> Option<CellResult> {
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
        "id = \"T\"\n[path.main]\nrate = \"200mbit\"\nrtt = \"10ms\"\nbuffer = \"20ms\"\n{path}\n\
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

/// What a lossy path makes them send again is known of each, or said to be unknown.
#[test]
fn what_is_sent_again_is_counted_or_unknown() {
    let sized = sized();
    for (name, size, is_known) in [
        ("iperf3-cubic", "", true),
        ("nuttcp", "", true),
        ("nuttcp", &*sized, true),
        ("libudt", &sized, true),
        ("srt", &sized, false),
        ("srt", "", true),
        ("quic", &sized, true),
        ("scp", &sized, true),
        ("rsync", &sized, true),
        ("rclone", &sized, true),
        ("qcp", &sized, false),
    ] {
        let duration = if size.is_empty() { "3s" } else { "60s" };
        let Some(result) = run_over(name, size, duration, "loss = \"1%\"") else {
            continue;
        };
        let flow = &result.flows[0];
        let again = flow.retransmitted_bytes;
        let lost = result.links[0].random_losses + result.links[0].queue_drops;
        assert!(lost > 0, "{name}");
        assert_eq!(
            again.is_some_and(|bytes| bytes > 0),
            is_known,
            "{name}: {again:?}"
        );
        assert_eq!(again.is_some(), is_known, "{name}");
        assert!(flow.sent_bytes >= flow.delivered_bytes, "{name}: {flow:?}");
        let share = result.metrics.contains_key("retransmit_share/main");
        assert_eq!(share, is_known, "{name}");
    }
}

/// SRT 1.5.1 takes no larger packets than Ethernet's; on a path that has them it sends those.
#[test]
fn srt_runs_where_packets_are_large() {
    let Some(result) = run_over("srt", "", "3s", "mtu = 9000") else {
        return;
    };
    let flow = &result.flows[0];
    assert!(flow.delivered_bytes > 1_000_000, "{flow:?}");
    let packet_bytes = flow.forward_wire_bytes / flow.forward_packets.max(1);
    assert!((1000..=1514).contains(&packet_bytes), "{packet_bytes}");
}

#[test]
fn each_program_of_the_catalog_has_an_adapter_and_each_adapter_a_name_there() {
    for (name, _) in catalog::describe() {
        if let Some(Protocol::Foreign(name)) = catalog::find(name) {
            assert!(find(name).is_some(), "{name}");
        }
    }
    let adapters = ADAPTERS.into_iter().flatten().map(|adapter| adapter.name);
    let mut seen = std::collections::BTreeSet::new();
    for name in adapters {
        let known = catalog::find(name);
        assert!(
            matches!(known, Some(Protocol::Foreign(_) | Protocol::Quic)),
            "{name}"
        );
        assert!(seen.insert(name), "{name}");
    }
}
