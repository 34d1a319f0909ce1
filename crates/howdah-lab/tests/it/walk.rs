//! Linux 2.4's walk of the retransmission queue in scenarios.

use howdah_lab::scenario::{Cell, ScenarioError, parse};
use howdah_report::result::CellResult;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// A gigabit and 60 ms, which overflow a queue of 100 packets now and then.
fn text(flow: &str) -> String {
    let host = if flow.contains("slow") {
        "[host.slow]\nsent_packet = \"1us\""
    } else {
        ""
    };
    format!(
        r#"
id = "T"
{host}
[path.nic]
rate = "1gbit"
mtu = 1500
buffer = "unlimited"
[path.main]
rate = "1gbit"
mtu = 1500
overhead = 42
rtt = "60ms"
buffer = "100packets"
[flow.main]
via = ["nic", "main"]
protocol = "scalable"
socket_buffer = "1.5bdp"
{flow}
[measure]
duration = "20s"
"#
    )
}

fn read(flow: &str) -> Result<Cell, ScenarioError> {
    let plan = parse(Path::new("t.toml"), &text(flow), false)?;
    Ok(plan.cells().next().unwrap().clone())
}

fn run(flow: &str) -> CellResult {
    howdah_lab::sim::run(&read(flow).unwrap(), &AtomicBool::new(false)).unwrap()
}

#[test]
fn a_walk_that_takes_no_time_is_none_at_all() {
    let without = read("era = \"linux24\"").unwrap();
    let with = read("era = \"linux24\"\nsack_walk = \"0ns\"").unwrap();
    assert_eq!(without.id(), with.id());
}

#[test]
fn a_walk_costs_linux_24_its_acknowledgements_and_others_nothing() {
    let free = run("era = \"linux24\"");
    let slow = run("era = \"linux24\"\nsack_walk = \"150ns\"");
    let dropped = |result: &CellResult| result.metrics.get("backlog_drops/main").copied();
    println!(
        "{:.0} Mbit/s without, {:.0} with, {:?} dropped",
        free.flows[0].goodput_bps / 1e6,
        slow.flows[0].goodput_bps / 1e6,
        dropped(&slow)
    );
    assert!(free.flows[0].retransmitted_bytes > Some(0));
    assert_eq!(dropped(&free), None);
    assert!(dropped(&slow) > Some(100.0), "{:?}", slow.metrics);
    assert_ne!(free.fingerprint, slow.fingerprint);
    // Later kernels remember where they were.
    let later = run("era = \"linux26\"");
    let same = run("era = \"linux26\"\nsack_walk = \"150ns\"");
    assert_eq!(later.fingerprint, same.fingerprint);
}

#[test]
fn it_is_not_said_of_hosts_with_other_costs() {
    for other in [
        "from = \"slow\"",
        "streams = 2",
        "read = \"1gbit\"",
        "write = \"1gbit\"",
    ] {
        let error = read(&format!("sack_walk = \"40ns\"\n{other}")).unwrap_err();
        assert!(error.to_string().contains("not together with"), "{error}");
        read(&format!("sack_walk = \"0ns\"\n{other}")).unwrap();
    }
}
