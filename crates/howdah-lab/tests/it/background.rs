//! Our `background` policy beside kernel-like TCP: CUBIC gets what it would have got alone.

use howdah_lab::run::{RunOptions, run};
use howdah_lab::scenario::parse;
use howdah_report::store::Store;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Goodput of each flow in bit/s, from 10 s to 40 s; the mean of so many seeds.
fn goodput(low: &str, rtt: &str, buffer: &str, seeds: u32) -> BTreeMap<String, f64> {
    let text = format!(
        "id = \"T\"
repeats = {seeds}
[path.main]
rate = \"200mbit\"
rtt = \"{rtt}\"
buffer = \"{buffer}\"
[flow.low]
protocol = \"{low}\"
[flow.cubic]
protocol = \"cubic\"
start = \"2s\"
[measure]
duration = \"40s\"
warmup = \"10s\"
interval = \"1s\"
"
    );
    let plan = parse(Path::new("t.toml"), &text, false).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = RunOptions::new(dir.path(), "test");
    let outcome = run(&plan, &options, &AtomicBool::new(false), |_| {}).unwrap();
    assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
    let store = Store::open(dir.path()).unwrap();
    let mut means = BTreeMap::new();
    for cell in plan.cells() {
        let result = store.read(&cell.id()).unwrap();
        for flow in &result.flows {
            *means.entry(flow.name.clone()).or_insert(0.0) +=
                flow.steady_goodput_bps / f64::from(seeds);
        }
    }
    means
}

#[test]
fn cubic_hardly_notices_the_background() {
    for (rtt, buffer) in [("20ms", "1bdp"), ("50ms", "0.5bdp"), ("20ms", "100ms")] {
        let alone = goodput("none", rtt, buffer, 1);
        let beside = goodput("howdah-background", rtt, buffer, 1);
        println!("{rtt}, {buffer}: {alone:?}, {beside:?}");
        assert!(beside["cubic"] > 0.97 * alone["cubic"], "{rtt}, {buffer}");
        assert!(beside["low"] < 0.05 * alone["cubic"], "{rtt}, {buffer}");
    }
}

/// A queue that is too short to be seen for long: half of CUBIC's rate was lost there to a background that came back to the full rate again
/// and again, and overflowed it. (At 80 ms it keeps 0.55 to 1.0 of it, 0.73 in the mean of 20 seeds.)
#[test]
fn cubic_keeps_most_in_a_short_queue() {
    for rtt in ["20ms", "80ms"] {
        let alone = goodput("none", rtt, "0.1bdp", 8);
        let beside = goodput("howdah-background", rtt, "0.1bdp", 8);
        println!("{rtt}: {alone:?}, {beside:?}");
        assert!(beside["cubic"] > 0.7 * alone["cubic"], "{rtt}");
    }
}
