//! What streams of small packets lose beside a flow of ours in a queue of a millisecond and a half (JGN06, G1).

use howdah_lab::scenario::parse;
use std::path::Path;
use std::sync::atomic::AtomicBool;

const TEXT: &str = r#"
id = "T"
repeats = 3
[path.nic]
rate = "1gbit"
mtu = 1500
buffer = "unlimited"
host_queue = "2000packets"
[path.main]
rate = "1gbit"
mtu = 1500
overhead = 42
rtt = "180ms"
buffer = "127packets"
[flow.main]
via = ["nic", "main"]
protocol = "howdah"
start = "5s"
[stream.one]
via = ["main"]
rate = "8mbit"
packet = "200bytes"
[stream.two]
via = ["main"]
start = "47us"
rate = "8mbit"
packet = "200bytes"
[measure]
duration = "90s"
"#;

/// Less than a thousandth is asked for. The flow fills the queue as seldom as CUBIC would, and has the link all the same.
#[test]
fn streams_in_a_short_queue_lose_next_to_nothing() {
    let plan = parse(Path::new("t.toml"), TEXT, false).unwrap();
    let mut lost = Vec::new();
    for cell in plan.cells() {
        let result = howdah_lab::sim::run(cell, &AtomicBool::new(false)).unwrap();
        let share =
            |s: &howdah_report::result::StreamResult| s.lost_packets as f64 / s.sent_packets as f64;
        let both: Vec<f64> = result.streams.iter().map(share).collect();
        let flow = result.flows[0].goodput_bps / 1e6;
        println!("lost {both:.5?}, {flow:.0} Mbit/s");
        assert!(result.streams.iter().all(|s| s.sent_packets > 400_000));
        assert!(flow > 850.0, "{flow}");
        lost.extend(both);
    }
    assert_eq!(lost.len(), 6);
    assert!(lost.iter().all(|&share| share < 0.001), "{lost:.5?}");
}
