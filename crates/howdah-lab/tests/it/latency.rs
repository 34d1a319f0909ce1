//! Latency under load: sparse probes beside bulk flows both ways, by queue; and Poisson background against what was asked for.

use howdah_lab::{scenario, sim};
use howdah_report::result::CellResult;
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn run(text: &str) -> CellResult {
    let plan = scenario::parse(Path::new("t.toml"), text, false).unwrap();
    let cell = plan.cells().next().unwrap();
    sim::run(cell, &AtomicBool::new(false)).unwrap()
}

/// Two CUBIC flows each way on 50 Mbit/s over 40 ms with a buffer of 200 ms, a probe each way.
fn under_load(aqm: &str) -> CellResult {
    run(&format!(
        "id = \"T\"
[path.main]
rate = \"50mbit\"
rtt = \"40ms\"
buffer = \"200ms\"
aqm = \"{aqm}\"
[flow.down]
protocol = \"cubic\"
[flow.down2]
protocol = \"cubic\"
start = \"100ms\"
[flow.up]
protocol = \"cubic\"
start = \"30ms\"
reverse = true
[flow.up2]
protocol = \"cubic\"
start = \"180ms\"
reverse = true
[stream.probe]
rate = \"25kbit\"
packet = \"64bytes\"
[stream.reply]
rate = \"25kbit\"
packet = \"64bytes\"
reverse = true
[measure]
duration = \"20s\"
warmup = \"5s\"
"
    ))
}

#[test]
fn probes_tell_what_a_queue_does_under_load() {
    let delay = |cell: &CellResult, name: &str| cell.metrics[name];
    let full = under_load("droptail");
    let lines = under_load("fq_codel");
    let pie = under_load("pie");
    for probe in ["probe", "reply"] {
        let median = format!("delay_p50_ms/{probe}");
        let tail = format!("delay_p95_ms/{probe}");
        let text = |cell: &CellResult| format!("{} {}", delay(cell, &median), delay(cell, &tail));
        println!("{probe}: {}, {}, {}", text(&full), text(&lines), text(&pie));
        // CUBIC fills whatever there is.
        assert!((140.0..229.0).contains(&delay(&full, &tail)));
        // A line of its own: the way, and no more than a packet of each of the others and the one that is being sent.
        let most = 20.0 + 4.0 * 1538.0 * 8.0 / 50e3;
        assert!((20.0..most * 1.04).contains(&delay(&lines, &tail)));
        // Held around 15 ms.
        assert!((22.0..45.0).contains(&delay(&pie, &median)));
    }
    // Full, in spite of it, as far as two-way traffic lets it be: acknowledgements wait behind the other way's data.
    for cell in [&full, &lines, &pie] {
        let used = cell.links.iter().map(|link| link.utilisation);
        let used: Vec<f64> = used.collect();
        println!("{used:?}");
        assert!(used.iter().all(|&used| used > 0.7), "{used:?}");
    }
}

/// Flows of 50 KB in segments of 1448 bytes weigh 1538 bytes each on the link, SYN and FIN apart: a load of 20 Mbit/s fills 21.3 % of
/// 100 Mbit/s.
#[test]
fn poisson_background_fills_what_was_asked_for() {
    let cell = run("id = \"T\"
[path.main]
rate = \"100mbit\"
rtt = \"10ms\"
buffer = \"1bdp\"
[group.web]
protocol = \"cubic\"
load = \"20mbit\"
mean = \"50KB\"
sizes = \"exponential\"
[measure]
duration = \"60s\"
warmup = \"1s\"
");
    let offered = cell.metrics["offered_bps/web"];
    println!("{offered} bit/s, {:?}", cell.links[0]);
    // 3000 flows whose sizes have deviation 1, drawn as a sum of a Poisson number of them: 2.6 %.
    assert!((offered / 20e6 - 1.0).abs() < 0.1);
    let used = cell.links[0].utilisation * 100e6;
    let expected = offered * 1538.0 / 1448.0;
    assert!(
        (used / expected - 1.0).abs() < 0.05,
        "{used} and not {expected}"
    );
    assert!(cell.groups[0].finished > cell.groups[0].flows * 98 / 100);
}
