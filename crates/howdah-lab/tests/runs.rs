//! Whole runs: from a scenario's text to files, and back.
#![expect(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use howdah_lab::run::{RunOptions, Store, run};
use howdah_lab::scenario::{Plan, parse};
use std::path::Path;
use std::sync::atomic::AtomicBool;

const TWO_CELLS: &str = "\
id = \"T\"
[path.main]
rate = \"100mbit\"
rtt = [\"10ms\", \"40ms\"]
buffer = \"1bdp\"
loss = \"0.1%\"
[flow.main]
protocol = \"howdah\"
[measure]
duration = \"3s\"
warmup = \"1s\"
interval = \"500ms\"
";

fn plan(text: &str) -> Plan {
    parse(Path::new("t.toml"), text, false).unwrap()
}

fn options(dir: &Path, jobs: usize) -> RunOptions {
    RunOptions {
        out: dir.to_owned(),
        jobs,
        shard: None,
        again: false,
        quick: false,
        command: "test".to_owned(),
    }
}

/// Every cell's file without what depends on the machine, and its Parquet file.
fn contents(dir: &Path, plan: &Plan) -> Vec<(String, Vec<u8>)> {
    let store = Store::open(dir).unwrap();
    plan.cells()
        .map(|cell| {
            let mut result = store.read(&cell.id()).unwrap();
            result.wall_s = 0.0;
            let text = serde_json::to_string(&result).unwrap();
            let series = std::fs::read(store.intervals_path(&cell.id())).unwrap();
            (text, series)
        })
        .collect()
}

#[test]
fn one_and_two_threads_write_the_same_bytes() {
    let plan = plan(TWO_CELLS);
    let never = AtomicBool::new(false);
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for (dir, jobs) in dirs.iter().zip([1, 2]) {
        let outcome = run(&plan, &options(dir.path(), jobs), &never, |_| {}).unwrap();
        assert_eq!(
            (outcome.ran, outcome.failed.len()),
            (2, 0),
            "{:?}",
            outcome.failed
        );
    }
    assert_eq!(
        contents(dirs[0].path(), &plan),
        contents(dirs[1].path(), &plan)
    );
}

#[test]
fn a_campaign_goes_on_where_it_was() {
    let plan = plan(TWO_CELLS);
    let dir = tempfile::tempdir().unwrap();
    let never = AtomicBool::new(false);
    let mut shard = options(dir.path(), 1);
    shard.shard = Some("1/2".parse().unwrap());
    let first = run(&plan, &shard, &never, |_| {}).unwrap();
    assert_eq!((first.ran, first.kept), (1, 0));
    let mut seen = Vec::new();
    let rest = run(&plan, &options(dir.path(), 2), &never, |progress| {
        seen.push((progress.done, progress.cells, progress.kept));
    })
    .unwrap();
    assert_eq!((rest.ran, rest.kept), (1, 1));
    assert_eq!(seen.last(), Some(&(1, 1, 1)));
    let stopped = run(
        &plan,
        &options(dir.path(), 2),
        &AtomicBool::new(true),
        |_| {},
    )
    .unwrap();
    assert_eq!((stopped.ran, stopped.kept, stopped.stopped), (0, 2, true));

    let summary = Store::open(dir.path()).unwrap().summary().unwrap();
    assert_eq!(summary.cells.len(), 2);
    let order: Vec<&str> = summary
        .cells
        .iter()
        .map(|cell| cell.at["rtt"].as_str())
        .collect();
    assert_eq!(order, ["10ms", "40ms"]);
    assert_eq!(summary.campaign.cells.len(), 2);
}

#[test]
fn series_come_back_from_their_file() {
    let plan = plan(TWO_CELLS);
    let dir = tempfile::tempdir().unwrap();
    run(
        &plan,
        &options(dir.path(), 2),
        &AtomicBool::new(false),
        |_| {},
    )
    .unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut result = store.read(&plan.cells().next().unwrap().id()).unwrap();
    let flow = &result.flows[0];
    assert!(flow.intervals.is_empty());
    assert_eq!(flow.algorithm, "howdah/fair");
    assert!(
        flow.goodput_bps > 50e6 && flow.goodput_bps < 100e6,
        "{}",
        flow.goodput_bps
    );
    assert!(
        flow.steady_goodput_bps > 90e6,
        "{}",
        flow.steady_goodput_bps
    );
    store.read_intervals(&mut result).unwrap();
    let flow = &result.flows[0];
    let times: Vec<f64> = flow.intervals.iter().map(|interval| interval.t_s).collect();
    assert_eq!(times, [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]);
    let sum: f64 = flow
        .intervals
        .iter()
        .map(|i| i.goodput_bps * 0.5 / 8.0)
        .sum();
    assert!((sum - flow.delivered_bytes as f64).abs() < 1.0, "{sum}");
    let link = &result.links[0];
    assert_eq!(link.name, "main/forward");
    assert!(
        link.utilisation > 0.95 && link.utilisation <= 1.0,
        "{}",
        link.utilisation
    );
    assert!(link.random_losses > 0);
}
