//! Whole runs: from a scenario's text to files, and back.

use howdah_lab::run::{RunError, RunOptions, run};
use howdah_lab::scenario::{Plan, parse};
use howdah_report::store::Store;
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
        jobs,
        ..RunOptions::new(dir, "test")
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
fn cells_can_be_asked_for_by_their_values() {
    let plan = plan(TWO_CELLS);
    let dir = tempfile::tempdir().unwrap();
    let never = AtomicBool::new(false);
    let mut far = options(dir.path(), 1);
    far.only = vec!["rtt=40ms".parse().unwrap()];
    let first = run(&plan, &far, &never, |_| {}).unwrap();
    assert_eq!((first.ran, first.kept), (1, 0));
    let summary = Store::open(dir.path()).unwrap().summary().unwrap();
    assert_eq!(summary.cells[0].at["rtt"], "40ms");
    // All are planned, and the others follow.
    assert_eq!((summary.cells.len(), summary.campaign.cells.len()), (1, 2));
    let rest = run(&plan, &options(dir.path(), 1), &never, |_| {}).unwrap();
    assert_eq!((rest.ran, rest.kept), (1, 1));
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

/// What a report would lack is run again.
#[test]
fn a_cell_whose_series_is_gone_or_torn_is_no_finished_one() {
    let plan = plan(TWO_CELLS);
    let dir = tempfile::tempdir().unwrap();
    let run = || {
        let stop = AtomicBool::new(false);
        let outcome = run(&plan, &options(dir.path(), 2), &stop, |_| {}).unwrap();
        (outcome.ran, outcome.kept)
    };
    assert_eq!(run(), (2, 0));
    assert_eq!(run(), (0, 2));
    let store = Store::open(dir.path()).unwrap();
    let series: Vec<_> = (plan.cells())
        .map(|cell| store.intervals_path(&cell.id()))
        .collect();
    let whole = std::fs::read(&series[0]).unwrap();
    std::fs::remove_file(&series[0]).unwrap();
    assert_eq!(run(), (1, 1));
    assert_eq!(std::fs::read(&series[0]).unwrap(), whole);
    for torn in [&whole[..whole.len() - 1], &whole[..3], &[]] {
        std::fs::write(&series[0], torn).unwrap();
        assert_eq!(run(), (1, 1));
        assert_eq!(std::fs::read(&series[0]).unwrap(), whole);
    }
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

const MIXED: &str = "\
id = \"M\"
[path.main]
rate = \"100mbit\"
rtt = \"20ms\"
buffer = \"127packets\"
[flow.first]
protocol = \"reno\"
era = \"linux24\"
[flow.second]
protocol = \"howdah\"
start = \"2s\"
[flow.alone]
protocol = \"none\"
[group.web]
protocol = \"reno\"
count = 40
mean = \"50KB\"
shape = 1.3
window = \"8s\"
[stream.voice]
rate = \"1.6mbit\"
packet = \"200bytes\"
[stream.bursts]
rate = \"8mbit\"
on = \"500ms\"
off = \"500ms\"
stop = \"5s\"
[measure]
duration = \"12s\"
";

fn one_cell(text: &str) -> howdah_report::result::CellResult {
    let plan = plan(text);
    let cell = plan.cells().next().unwrap();
    howdah_lab::sim::run(cell, &AtomicBool::new(false)).unwrap()
}

#[test]
fn everything_at_once() {
    let result = one_cell(MIXED);
    let algorithms: Vec<&str> = result.flows.iter().map(|f| f.algorithm.as_str()).collect();
    assert_eq!(algorithms, ["reno", "howdah/fair"]);
    let web = &result.groups[0];
    assert_eq!(
        (web.flows, web.finished, web.algorithm.as_str()),
        (40, 40, "reno")
    );
    assert_eq!(web.bytes, web.offered_bytes);
    assert!(
        web.completion_s.unwrap()[0] > 0.04,
        "{:?}",
        web.completion_s
    );
    let voice = &result.streams[0];
    // 1000 packets a second, the last at 12 s.
    assert_eq!(voice.sent_packets, 12_001);
    assert!(voice.jitter_ms > 0.0 && voice.jitter_series_ms.len() == 12);
    // 8 Mbit/s half of the time until 5 s: 3 on-periods and 2.5 s of 1470-byte packets.
    let bursts = result.streams[1].sent_packets as f64 * 1470.0 * 8.0;
    assert!((bursts / 20e6 - 1.0).abs() < 0.25, "{bursts}");
    let (jain, least) = (result.metrics["jain"], result.metrics["jain_min"]);
    assert!(least <= jain + 1e-9 && jain <= 1.0, "{least} {jain}");
    assert!(result.metrics.contains_key("asymmetry"));
    let carried: f64 = result
        .flows
        .iter()
        .map(|flow| flow.delivered_bytes as f64)
        .sum();
    assert!(carried * 8.0 / 12.0 < 100e6);
    assert!(
        result.links[0].utilisation > 0.8,
        "{}",
        result.links[0].utilisation
    );
    assert_eq!(one_cell(MIXED).fingerprint, result.fingerprint);
}

#[test]
fn a_change_of_the_path_is_answered() {
    let text = "\
id = \"C\"
[path.main]
rate = \"100mbit\"
rtt = \"20ms\"
buffer = \"1bdp\"
[flow.main]
protocol = \"howdah\"
[[timeline]]
at = \"5s\"
rate = \"50mbit\"
[[timeline]]
at = \"10s\"
rate = \"100mbit\"
[measure]
duration = \"15s\"
";
    let result = one_cell(text);
    let metric = |name: &str| result.metrics[name];
    assert!(metric("t90_ms/main/2") < 3000.0, "{:?}", result.metrics);
    assert!((metric("change_bps/main/1") / 47e6 - 1.0).abs() < 0.05);
    assert!((metric("change_bps/main/2") / 94e6 - 1.0).abs() < 0.05);
    // The capacity that the utilisation is measured against follows the timeline.
    let link = &result.links[0];
    assert!(
        link.utilisation > 0.9 && link.utilisation <= 1.0,
        "{}",
        link.utilisation
    );
    assert!((link.rate_bps - 100e6).abs() < 1.0);
}

#[test]
fn a_sized_transfer_ends_the_cell_and_has_a_completion_time() {
    let text = "\
id = \"S\"
[path.main]
rate = \"100mbit\"
rtt = \"20ms\"
buffer = \"1bdp\"
[flow.main]
protocol = \"howdah\"
size = \"20MB\"
[measure]
duration = \"60s\"
until_complete = true
";
    for text in [text.to_owned(), text.replace("howdah", "cubic")] {
        let result = one_cell(&text);
        let flow = &result.flows[0];
        let took = flow.completion_s.unwrap();
        assert!((1.6..4.0).contains(&took), "{took}");
        assert!(result.duration_s < 4.1, "{}", result.duration_s);
        assert_eq!(flow.delivered_bytes, 20_000_000);
        assert!((flow.goodput_bps - 160e6 / took).abs() < 1.0);
    }
}

#[test]
fn a_settled_mean_ends_the_cell() {
    let text = TWO_CELLS
        .replace("duration = \"3s\"", "duration = \"100s\"\nsettle = \"2%\"")
        .replace("500ms", "100ms");
    let result = one_cell(&text);
    assert!(
        result.shortened && result.duration_s < 30.0,
        "{}",
        result.duration_s
    );
}

/// Harm needs a cell in which the same flow is alone.
#[test]
fn harm_is_measured_against_the_flow_alone() {
    let text = "\
id = \"H\"
[axes]
other = [\"none\", \"reno\"]
[path.main]
rate = \"50mbit\"
rtt = \"20ms\"
buffer = \"1bdp\"
[flow.main]
protocol = \"reno\"
[flow.second]
protocol = \"$other\"
[measure]
duration = \"10s\"
";
    let plan = plan(text);
    let dir = tempfile::tempdir().unwrap();
    run(
        &plan,
        &options(dir.path(), 2),
        &AtomicBool::new(false),
        |_| {},
    )
    .unwrap();
    let cells = Store::open(dir.path()).unwrap().summary().unwrap().cells;
    assert!(!cells[0].metrics.contains_key("harm/main"));
    let harm = cells[1].metrics["harm/main"];
    assert!((0.2..0.8).contains(&harm), "{harm}");
    assert!(cells[1].metrics.contains_key("harm/second"));
}

#[test]
fn a_directory_of_other_scenarios_is_refused_and_a_still_flow_is_told_of() {
    let never = AtomicBool::new(false);
    let dir = tempfile::tempdir().unwrap();
    let text = "id = \"S\"\n[path.main]\nrate = \"10mbit\"\nrtt = \"10ms\"\n[flow.main]\nprotocol = \"reno\"\n\
                [[timeline]]\nat = \"2s\"\nloss = \"99.9999999%\"\n[measure]\nduration = \"10s\"\n";
    let one = parse(Path::new("one/same.toml"), text, false).unwrap();
    let outcome = run(&one, &options(dir.path(), 1), &never, |_| {}).unwrap();
    let [(flow, seconds)] = &outcome.stalls[..] else {
        panic!("{:?}", outcome.stalls);
    };
    assert!(
        flow.contains("S main") && *seconds >= 5.0,
        "{flow} {seconds}"
    );
    let other = text.replace("10mbit", "20mbit");
    let two = parse(Path::new("two/same.toml"), &other, false).unwrap();
    let refused = run(&two, &options(dir.path(), 1), &never, |_| {}).unwrap_err();
    assert!(refused.to_string().contains("one/same.toml"), "{refused}");
    // The same scenario, changed, goes on there.
    let changed = parse(Path::new("one/same.toml"), &other, false).unwrap();
    let outcome = run(&changed, &options(dir.path(), 1), &never, |_| {}).unwrap();
    assert_eq!(outcome.ran, 1);
}

/// A rate that falls to a fifth for the second half: the link is full, not three times full.
#[test]
fn the_utilisation_of_a_traced_rate_counts_what_the_trace_lets_pass() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("rate"), "0s 20mbit\n5s 4mbit\n").unwrap();
    let text = "id = \"U\"\n[path.main]\nrate = { trace = \"rate\" }\nrtt = \"10ms\"\nbuffer = \"20packets\"\n\
                [flow.main]\nprotocol = \"howdah-fixed\"\nrate = \"30mbit\"\n[measure]\nduration = \"10s\"\nwarmup = \"1s\"\n";
    let plan = parse(&dir.path().join("u.toml"), text, false).unwrap();
    let never = AtomicBool::new(false);
    run(&plan, &options(&dir.path().join("out"), 1), &never, |_| {}).unwrap();
    let summary = Store::open(&dir.path().join("out"))
        .unwrap()
        .summary()
        .unwrap();
    let link = &summary.cells[0].links[0];
    assert!(
        (0.97..=1.01).contains(&link.utilisation),
        "{}",
        link.utilisation
    );
}

/// Records of a file in the form of pcap: time, bytes on the wire, and what is kept of them.
fn records(path: &Path) -> Vec<(u64, u32, Vec<u8>)> {
    let file = std::fs::read(path).unwrap();
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    assert_eq!(
        [word(0), word(20)],
        [0xa1b2_3c4d, 101],
        "{}",
        path.display()
    );
    let (mut at, mut found) = (24, Vec::new());
    while at < file.len() {
        let [seconds, nanos, kept, len] = [0, 4, 8, 12].map(|offset| word(at + offset));
        let end = at + 16 + kept as usize;
        let time = u64::from(seconds) * 1_000_000_000 + u64::from(nanos);
        found.push((time, len, file[at + 16..end].to_vec()));
        at = end;
    }
    found
}

/// As a receiver would: the sum over a header with its checksum.
fn header_sum(header: &[u8]) -> u32 {
    let sum: u32 = header
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]))
        .sum();
    (sum & 0xffff) + (sum >> 16)
}

#[test]
fn packets_are_written_as_they_pass_both_ends() {
    let text = TWO_CELLS.replace("[measure]", "[flow.reno]\nprotocol = \"reno\"\n\n[measure]");
    let plan = plan(&text);
    let dir = tempfile::tempdir().unwrap();
    let never = AtomicBool::new(false);
    let plain = run(&plan, &options(dir.path(), 1), &never, |_| ()).unwrap();
    assert_eq!(plain.ran, 2);
    let before = contents(dir.path(), &plan);
    let mut options = options(dir.path(), 2);
    options.pcap = true;
    let outcome = run(&plan, &options, &never, |_| ()).unwrap();
    // They are run again, and looking changes nothing.
    assert_eq!(
        (outcome.ran, outcome.failed, outcome.notes),
        (2, vec![], vec![])
    );
    assert_eq!(before, contents(dir.path(), &plan));
    for cell in plan.cells() {
        let side = |side: &str| {
            let name = format!("{}.{side}.pcap", cell.id());
            records(&dir.path().join("pcap").join(name))
        };
        let [sender, receiver] = [side("sender"), side("receiver")];
        for packets in [&sender, &receiver] {
            assert!(packets.windows(2).all(|pair| pair[0].0 <= pair[1].0));
            for (_, len, bytes) in packets {
                assert_eq!(header_sum(&bytes[..20]), 0xffff);
                assert_eq!(u32::from(bytes[2]) << 8 | u32::from(bytes[3]), *len);
            }
        }
        // Whatever comes has left, over the way that the path takes.
        let from = |packets: &[(u64, u32, Vec<u8>)], host: u8| {
            let of = packets.iter().filter(|(_, _, bytes)| bytes[15] == host);
            of.map(|(at, _, bytes)| (bytes.clone(), *at))
                .collect::<Vec<_>>()
        };
        let (left, came) = (from(&sender, 1), from(&receiver, 1));
        assert!(came.len() > 100 && came.len() <= left.len());
        let (first, first_came) = (&left[0], &came[0]);
        assert_eq!(first.0, first_came.0);
        assert!(first_came.1 > first.1);
        let syn = came
            .iter()
            .find(|(bytes, _)| bytes[9] == 6)
            .expect("a TCP's");
        assert_eq!(syn.0[33], 0x02, "the first is a SYN");
        assert!(came.iter().any(|(bytes, _)| bytes[9] == 17), "and UDP's");
        assert!(!from(&sender, 2).is_empty(), "answers come back");
    }
}

/// A cell has the same name on both testbeds: neither is taken for the other, nor written over it.
#[test]
fn results_of_a_testbed_are_none_of_the_simulator() {
    let plan = plan(TWO_CELLS);
    let never = AtomicBool::new(false);
    let dir = tempfile::tempdir().unwrap();
    run(&plan, &options(dir.path(), 2), &never, |_| {}).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let first = plan.cells().next().unwrap().id();
    let mut real = store.read(&first).unwrap();
    real.testbed = "netns".to_owned();
    store.write_again(&real).unwrap();
    let error = run(&plan, &options(dir.path(), 2), &never, |_| {}).unwrap_err();
    assert!(
        matches!(&error, RunError::OtherTestbed { testbed, .. } if testbed == "netns"),
        "{error}"
    );
    assert_eq!(store.read(&first), Some(real.clone()));
    // What it could not run is no result, and not done either.
    real.skipped = Some("no such program".to_owned());
    store.write_again(&real).unwrap();
    let outcome = run(&plan, &options(dir.path(), 2), &never, |_| {}).unwrap();
    assert_eq!((outcome.ran, outcome.kept), (1, 1));
    assert_eq!(store.read(&first).unwrap().testbed, "sim");
}

/// The commit does not say what ran a cell whose program was built of changed sources.
#[test]
fn cells_of_changed_sources_are_told_of() {
    let plan = plan(TWO_CELLS);
    let never = AtomicBool::new(false);
    let dir = tempfile::tempdir().unwrap();
    run(&plan, &options(dir.path(), 2), &never, |_| {}).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut campaign = store.campaign().unwrap();
    campaign.dirty = true;
    store.write_campaign(&campaign).unwrap();
    let outcome = run(&plan, &options(dir.path(), 2), &never, |_| {}).unwrap();
    assert_eq!(outcome.kept, 2);
    assert!(
        outcome
            .notes
            .iter()
            .any(|note| note.starts_with("2 cells were run by this commit")),
        "{:?}",
        outcome.notes
    );
}
