//! Ours beside others that fill queues: neither side starves, whoever was there first, in queues of a tenth of the path's
//! bandwidth-delay product and of four times that.

use howdah_lab::scenario::parse;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Goodput of both flows in Mbit/s, from 15 s to 40 s at 100 Mbit/s.
fn goodput(first: &str, second: &str, rtt: &str, buffer: &str) -> [f64; 2] {
    let text = format!(
        "id = \"T\"
[path.main]
rate = \"100mbit\"
rtt = \"{rtt}\"
buffer = \"{buffer}\"
[flow.first]
protocol = \"{first}\"
[flow.second]
protocol = \"{second}\"
start = \"5s\"
[measure]
duration = \"40s\"
warmup = \"15s\"
interval = \"1s\"
"
    );
    let plan = parse(Path::new("t.toml"), &text, false).unwrap();
    let cell = plan.cells().next().unwrap();
    let result = howdah_lab::sim::run(cell, &AtomicBool::new(false)).unwrap();
    ["first", "second"].map(|name| {
        let flow = result.flows.iter().find(|f| f.name == name).unwrap();
        flow.steady_goodput_bps / 1e6
    })
}

#[test]
fn neither_side_starves() {
    let places = [
        ("howdah", "cubic", "80ms", "0.1bdp"),
        ("reno", "howdah", "80ms", "0.1bdp"),
        ("howdah", "cubic", "20ms", "4bdp"),
        ("howdah", "cubic", "80ms", "4bdp"),
        ("howdah", "quic", "80ms", "1bdp"),
    ];
    for (first, second, rtt, buffer) in places {
        let got = goodput(first, second, rtt, buffer);
        let line = format!("{second} joins {first}, {rtt}, {buffer}: {got:.1?} Mbit/s");
        println!("{line}");
        assert!(got.iter().all(|&mbit| mbit > 12.0), "{line}");
        assert!(got.iter().sum::<f64>() > 80.0, "{line}");
    }
}
