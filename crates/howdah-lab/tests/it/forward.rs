//! Fast-forward: what is repeated agrees with what is simulated, and nothing is repeated that may not be.

use howdah_lab::{scenario, sim};
use howdah_report::result::CellResult;
use std::path::Path;
use std::sync::atomic::AtomicBool;

const ALONE: &str = "\
id = \"F\"
[path.main]
rate = \"100mbit\"
rtt = \"20ms\"
buffer = \"2bdp\"
loss = \"0.5%\"
[host.near]
sent_packet = \"10us\"
[host.far]
received_packet = \"10us\"
[flow.main]
protocol = \"howdah\"
from = \"near\"
to = \"far\"
[measure]
duration = \"120s\"
warmup = \"20s\"
interval = \"500ms\"
";

/// The same cell whole and forwarded.
fn both(text: &str) -> [CellResult; 2] {
    ["false", "true"].map(|switch| {
        let text = format!("{text}fast_forward = {switch}\n");
        let plan = scenario::parse(Path::new("f.toml"), &text, false).unwrap();
        sim::run(plan.cells().next().unwrap(), &AtomicBool::new(false)).unwrap()
    })
}

fn assert_near(name: &str, whole: f64, short: f64, share: f64) {
    assert!(
        (short - whole).abs() <= share * whole,
        "{name}: {short} instead of {whole}"
    );
}

fn assert_alike(whole: &CellResult, short: &CellResult) {
    let note = short
        .forwarded
        .unwrap_or_else(|| panic!("{:?}", short.not_forwarded));
    assert!(note.from_s > 0.0 && note.error < 0.01, "{note:?}");
    assert!(whole.forwarded.is_none() && whole.not_forwarded.is_none());
    let [one, two] = [whole, short].map(|cell| &cell.flows[0]);
    assert_near("goodput", one.goodput_bps, two.goodput_bps, 0.01);
    assert_near(
        "steady",
        one.steady_goodput_bps,
        two.steady_goodput_bps,
        0.01,
    );
    assert_near(
        "packets",
        one.forward_packets as f64,
        two.forward_packets as f64,
        0.01,
    );
    assert_near(
        "feedback",
        one.feedback_wire_bytes as f64,
        two.feedback_wire_bytes as f64,
        0.02,
    );
    assert_near(
        "cpu",
        one.sender_cpu_s.unwrap(),
        two.sender_cpu_s.unwrap(),
        0.01,
    );
    assert_near(
        "cpu",
        one.receiver_cpu_s.unwrap(),
        two.receiver_cpu_s.unwrap(),
        0.01,
    );
    let again = |cell: &CellResult| cell.flows[0].retransmitted_bytes.unwrap() as f64;
    assert_near("repetitions", again(whole), again(short), 0.02);
    let [one, two] = [whole, short].map(|cell| &cell.links[0]);
    assert_near(
        "offered",
        one.offered_packets as f64,
        two.offered_packets as f64,
        0.01,
    );
    assert_near(
        "losses",
        one.random_losses as f64,
        two.random_losses as f64,
        0.01,
    );
    assert_near("utilisation", one.utilisation, two.utilisation, 0.01);
    assert_near(
        "queue",
        one.queue_mean_ms.unwrap(),
        two.queue_mean_ms.unwrap(),
        0.01,
    );
}

/// A series has all of its intervals, and they add up to what was delivered.
fn assert_whole_series(cell: &CellResult, interval_s: f64) {
    let flow = &cell.flows[0];
    let intervals = &flow.intervals;
    assert_eq!(intervals.len(), (cell.duration_s / interval_s) as usize);
    for (index, interval) in intervals.iter().enumerate() {
        assert!(
            (interval.t_s - (index + 1) as f64 * interval_s).abs() < 1e-9,
            "{index}: {}",
            interval.t_s
        );
    }
    let bytes: f64 = intervals
        .iter()
        .map(|at| at.goodput_bps * interval_s / 8.0)
        .sum();
    // What came behind the last whole interval is in none.
    let least = flow.delivered_bytes as f64 - 100e6 / 8.0 * interval_s;
    assert!(
        (least..=flow.delivered_bytes as f64 + 1.0).contains(&bytes),
        "{bytes} {}",
        flow.delivered_bytes
    );
}

#[test]
fn a_steady_flow_is_forwarded_and_agrees() {
    let [whole, short] = both(&ALONE.replace("loss = \"0.5%\"\n", ""));
    assert_alike(&whole, &short);
    assert_whole_series(&short, 0.5);
}

#[test]
fn losses_of_a_forwarded_flow_are_those_of_the_whole_run() {
    let [whole, short] = both(&ALONE.replace("\"howdah\"", "\"rwtp-like\"\nrate = \"80mbit\""));
    assert!(whole.links[0].random_losses > 100, "{:?}", whole.links[0]);
    assert_alike(&whole, &short);
    let note = short.forwarded.unwrap();
    assert!(
        (note.to_s + note.skipped_s - 120.0).abs() < 1e-9,
        "{note:?}"
    );
    assert!((short.duration_s - 120.0).abs() < 1e-9);
    assert_whole_series(&short, 0.5);
    assert_ne!(whole.id, short.id);
}

/// The end of a transfer is simulated, and its size is what was asked for.
#[test]
fn a_sized_flow_is_forwarded_in_its_middle() {
    let text = ALONE
        .replace("loss = \"0.5%\"\n", "")
        .replace(
            "protocol = \"howdah\"",
            "protocol = \"howdah\"\nsize = \"2400MB\"",
        )
        .replace("warmup = \"20s\"\n", "until_complete = true\n")
        .replace("120s", "600s");
    let [whole, short] = both(&text);
    assert_alike(&whole, &short);
    let took = |cell: &CellResult| cell.flows[0].completion_s.unwrap();
    assert_near("completion", took(&whole), took(&short), 0.01);
    assert_eq!(short.flows[0].delivered_bytes, 2_400_000_000);
    let note = short.forwarded.unwrap();
    assert!(note.to_s + note.skipped_s < took(&short), "{note:?}");
    assert_whole_series(&short, 0.5);
}

/// A window that grows by a packet in a round trip is at every moment much like it was a moment ago.
#[test]
fn a_flow_in_start_up_is_not_forwarded() {
    let text = ALONE
        .replace(
            "protocol = \"howdah\"",
            "protocol = \"reno\"\nssthresh = 20",
        )
        .replace("100mbit", "1gbit")
        .replace("20ms", "200ms")
        .replace("loss = \"0.5%\"\n", "");
    let [whole, short] = both(&text);
    assert_eq!(short.forwarded, None);
    assert!(short.not_forwarded.unwrap().contains("were alike"));
    assert_eq!(whole.fingerprint, short.fingerprint);
    assert_eq!(whole.metrics, short.metrics);
    assert_eq!(whole.flows, short.flows);
    assert_eq!(whole.links, short.links);
}

#[test]
fn where_flows_interact_or_the_network_changes_nothing_is_forwarded() {
    let other = "[flow.other]\nprotocol = \"howdah\"\n[measure]";
    let stream = "[stream.probe]\nrate = \"1mbit\"\n[measure]";
    let change = "[[timeline]]\nat = \"119s\"\npath = \"main\"\nrate = \"99mbit\"\n[measure]";
    for (what, why) in [
        (other, "other traffic"),
        (stream, "other traffic"),
        (change, "timeline"),
    ] {
        let [_, short] = both(
            &ALONE
                .replace("[measure]", what)
                .replace("100mbit", "10mbit"),
        );
        assert_eq!(short.forwarded, None, "{what}");
        let said = short.not_forwarded.unwrap();
        assert!(said.contains(why), "{said}");
    }
}
