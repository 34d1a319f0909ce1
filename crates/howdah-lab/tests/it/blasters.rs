//! The blasting tools as a scenario names them.

use howdah_lab::scenario::parse;
use howdah_lab::sim;
use howdah_report::result::CellResult;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The results of all cells, in order.
fn run(text: &str) -> Vec<CellResult> {
    let plan = parse(Path::new("t.toml"), text, false).unwrap();
    let never = AtomicBool::new(false);
    plan.cells()
        .map(|cell| sim::run(cell, &never).unwrap())
        .collect()
}

const ONE: &str = "\
id = \"T\"
[path.main]
rate = \"100mbit\"
rtt = \"20ms\"
buffer = \"1bdp\"
[flow.main]
protocol = [\"rbudp\", \"tsunami\", \"rtsunami-like\", \"pa-udp\", \"gtp\"]
rate = \"80mbit\"
size = \"20MB\"
[measure]
duration = \"60s\"
until_complete = true
";

#[test]
fn every_tool_carries_a_file_and_displays_a_rate() {
    for result in run(ONE) {
        let flow = &result.flows[0];
        let name = &flow.protocol;
        assert_eq!(flow.delivered_bytes, 20_000_000, "{name}");
        assert!(flow.completion_s.is_some(), "{name}");
        let displayed = result.metrics["tool_bps/main"] / 1e6;
        assert!((30.0..=81.0).contains(&displayed), "{name}: {displayed}");
        // The negotiation is in the goodput only.
        assert!(flow.goodput_bps / 1e6 < displayed, "{name}");
        assert!(flow.feedback_wire_bytes > 0, "{name}");
    }
}

#[test]
fn a_file_that_does_not_fit_ends_the_run() {
    let text = ONE.replace("size =", "memory = \"10MB\"\nsize =");
    let rbudp = &run(&text)[0];
    assert_eq!(rbudp.flows[0].delivered_bytes, 0);
    assert_eq!(rbudp.flows[0].completion_s, None);
    assert!(rbudp.duration_s < 1.0, "{}", rbudp.duration_s);
}

#[test]
fn options_reach_the_tools() {
    let displayed = |extra: &str, at: usize| {
        let text = ONE.replace("size =", &format!("{extra}\nsize ="));
        run(&text)[at].metrics["tool_bps/main"] / 1e6
    };
    // 50 kB that stay charged for 10 ms are 40 Mbit/s.
    let held = displayed("held = true\nsend_buffer = \"50KB\"", 0);
    assert!((held - 39.0).abs() < 2.0, "{held}");
    // 10 MB of memory and a disk of 30 Mbit/s: 20 MB take as long as the disk, 5.3 s.
    let disk = displayed("memory = \"10MB\"\nwrite = \"30mbit\"", 3);
    assert!((disk - 30.0).abs() < 0.5, "{disk}");
    // A chunk of 1 MB costs a round trip, a delayed acknowledgement and its own 0.1 s.
    let chunks = displayed("chunk = \"1MB\"", 0);
    assert!((chunks - 66.0).abs() < 5.0, "{chunks}");
}

#[test]
fn a_budget_is_shared_and_netems_limit_bounds() {
    let text = "\
id = \"T\"
[path.main]
rate = \"100mbit\"
rtt = \"20ms\"
delay_buffer = [\"unlimited\", \"20packets\"]
[flow.a]
protocol = \"gtp\"
rate = \"80mbit\"
[flow.b]
protocol = \"gtp\"
rate = \"80mbit\"
[measure]
duration = \"5s\"
warmup = \"1s\"
";
    let results = run(text);
    let rates = |at: usize| {
        let flows = &results[at].flows;
        [0, 1].map(|n| flows[n].steady_goodput_bps / 1e6)
    };
    assert!(
        rates(0).iter().all(|rate| (rate - 40.0).abs() < 1.0),
        "{:?}",
        rates(0)
    );
    // 20 packets in 10 ms, or fewer.
    assert!(rates(1).iter().sum::<f64>() < 23.5, "{:?}", rates(1));
}

#[test]
fn a_rate_is_asked_for() {
    let text = ONE.replace("rate = \"80mbit\"\n", "");
    let error = parse(Path::new("t.toml"), &text, false).unwrap_err();
    assert!(
        error.to_string().contains("'rbudp' must be told its rate"),
        "{error}"
    );
}
