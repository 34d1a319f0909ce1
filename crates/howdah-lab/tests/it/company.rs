//! Ours beside others that fill queues: neither side starves, whoever was there first, in queues of a tenth of the path's
//! bandwidth-delay product and of four times that.

use howdah_lab::scenario::parse;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Goodput of both flows in Mbit/s, from 15 s to 40 s at 100 Mbit/s, of so many seeds: by what the first has.
fn goodputs(seeds: usize, first: &str, second: &str, rtt: &str, buffer: &str) -> Vec<[f64; 2]> {
    let text = format!(
        "id = \"T\"
repeats = {seeds}
[path.main]
rate = \"100mbit\"
rtt = \"{rtt}\"
buffer = \"{buffer}\"
[flow.first]
protocol = \"{first}\"
[flow.second]
protocol = \"{second}\"
start = \"5s\"
start_within = \"1s\"
[measure]
duration = \"40s\"
warmup = \"15s\"
interval = \"1s\"
"
    );
    let plan = parse(Path::new("t.toml"), &text, false).unwrap();
    let mut all: Vec<[f64; 2]> = plan
        .cells()
        .map(|cell| {
            let result = howdah_lab::sim::run(cell, &AtomicBool::new(false)).unwrap();
            ["first", "second"].map(|name| {
                let flow = result.flows.iter().find(|f| f.name == name).unwrap();
                flow.steady_goodput_bps / 1e6
            })
        })
        .collect();
    all.sort_by(|a, b| a[0].total_cmp(&b[0]));
    all
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
        // One seed in fifty leaves Reno 3 to 9 in a tenth of a product, where the middle has 15: five would tell of chance alone.
        let seeds = if first == "reno" { 40 } else { 5 };
        let all = goodputs(seeds, first, second, rtt, buffer);
        let line = format!("{second} joins {first}, {rtt}, {buffer}: {all:.1?} Mbit/s");
        println!("{line}");
        assert_eq!(all.len(), seeds);
        assert!(all[seeds / 2].iter().all(|&mbit| mbit > 12.0), "{line}");
        let least = if first == "reno" { 9.0 } else { 12.0 };
        let starved = all
            .iter()
            .filter(|got| got.iter().any(|&mbit| mbit <= least));
        assert!(starved.count() <= seeds / 13, "{line}");
        assert!(
            all.iter().all(|got| got.iter().sum::<f64>() > 80.0),
            "{line}"
        );
    }
}
