//! Short flows that come and go on a queue of a thirtieth of the round trip, beside a long-lived one of ours: JGN06's F3 at half its rate.

use howdah_lab::scenario::parse;
use std::path::Path;
use std::sync::atomic::AtomicBool;

const SCENARIO: &str = "\
id = \"T\"
repeats = 3
[path.main]
rate = \"500mbit\"
rtt = \"180ms\"
buffer = \"256packets\"
[path.other]
rate = \"1gbit\"
buffer = \"unlimited\"
[flow.main]
via = [\"main\"]
protocol = \"howdah\"
[group.shorts]
via = [\"other\", \"main\"]
protocol = \"reno\"
era = \"linux24\"
metrics_cache = true
count = 750
mean = \"500KB\"
shape = 1.3
window = \"140s\"
[measure]
duration = \"150s\"
interval = \"1s\"
";

/// A flow that fills the queue again and again leaves them 0.8 of the 2.2 Mbit/s that they have alone, and has 446 itself.
#[test]
fn short_flows_are_left_room_on_a_short_queue() {
    let plan = parse(Path::new("t.toml"), SCENARIO, false).unwrap();
    let mut all: Vec<[f64; 2]> = plan
        .cells()
        .map(|cell| {
            let result = howdah_lab::sim::run(cell, &AtomicBool::new(false)).unwrap();
            let ours = result.flows[0].goodput_bps / 1e6;
            [result.groups[0].throughput_bps / 1e6, ours]
        })
        .collect();
    all.sort_by(|a, b| a[0].total_cmp(&b[0]));
    println!("short flows and ours, Mbit/s: {all:.2?}");
    assert_eq!(all.len(), 3);
    assert!(all[1][0] > 1.1, "{all:.2?}");
    assert!(all.iter().all(|got| got[1] > 410.0), "{all:.2?}");
}
