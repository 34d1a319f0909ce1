//! Figures of small cells against what is known of them without a simulator.

use howdah_lab::run::{Outcome, RunOptions, run as run_campaign};
use howdah_lab::{scenario, sim};
use howdah_report::result::{CellResult, FlowResult, LinkResult};
use howdah_report::store::Store;
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn cells(text: &str) -> Vec<CellResult> {
    let plan = scenario::parse(Path::new("t.toml"), text, false).unwrap();
    let run = |cell| sim::run(cell, &AtomicBool::new(false)).unwrap();
    plan.cells().map(run).collect()
}

fn cell(text: &str) -> CellResult {
    cells(text).remove(0)
}

fn campaign(plan: &scenario::Plan, dir: &Path) -> Outcome {
    let options = RunOptions::new(dir, "test");
    run_campaign(plan, &options, &AtomicBool::new(false), |_| {}).unwrap()
}

fn link<'a>(cell: &'a CellResult, name: &str) -> &'a LinkResult {
    cell.links.iter().find(|link| link.name == name).unwrap()
}

fn flow<'a>(cell: &'a CellResult, name: &str) -> &'a FlowResult {
    cell.flows.iter().find(|flow| flow.name == name).unwrap()
}

/// A stream of twice the link's rate fills it, and half of what is sent waits, however the packets are kept that do. A bucket of half the rate
/// lets half of it be used.
#[test]
fn a_full_link_is_in_full_use_whatever_kind_of_queue_stands_before_it() {
    let with = |keys: &str| {
        let text = format!(
            "id = 'T'\n[path.main]\nrtt = '20ms'\nbuffer = 'unlimited'\n{keys}\n\
             [stream.s]\nrate = '20mbit'\n[measure]\nduration = '3s'\nwarmup = '500ms'\n"
        );
        link(&cell(&text), "main/forward").utilisation
    };
    for keys in [
        "rate = '10mbit'",
        "rate = '10mbit'\nstored_queue = true",
        "rate = { steps = '0s 10mbit' }",
        "rate = '10mbit'\naqm = 'codel'",
        "rate = '10mbit'\naqm = 'fq_codel'",
        "rate = '10mbit'\naqm = 'dualpi2'",
    ] {
        let used = with(keys);
        assert!((used - 1.0).abs() < 0.001, "{keys}: {used}");
    }
    let used = with("rate = '10mbit'\nbucket = { rate = '5mbit', burst = '3kB' }");
    assert!((used - 0.5).abs() < 0.001, "{used}");
}

/// Of 2000 packets in two seconds, a path that fails after the first has lost half. Nobody comes later to tell the receiver.
#[test]
fn what_is_lost_at_the_end_of_a_stream_is_lost() {
    let text = "id = 'T'\n[path.main]\nrate = '100mbit'\nrtt = '20ms'\nbuffer = '25ms'\n\
                [stream.s]\nrate = '8mbit'\npacket = '1000bytes'\nstop = '2s'\n\
                [stream.on]\nrate = '8mbit'\npacket = '1000bytes'\nreverse = true\n\
                [[timeline]]\nat = '999500us'\nforward = { lose = [LIST] }\n[measure]\nduration = '3s'\n";
    let list: Vec<String> = (1000..2000).map(|packet| packet.to_string()).collect();
    let result = cell(&text.replace("LIST", &list.join(", ")));
    let [ended, on] = &result.streams[..] else {
        panic!("two streams");
    };
    assert_eq!(
        (ended.sent_packets, ended.delivered_bytes),
        (2000, 1_000_000)
    );
    assert_eq!(ended.lost_packets, 1000);
    // What is on the way at the end of the measurement is not lost.
    assert!(on.delivered_bytes / 1000 < on.sent_packets, "{on:?}");
    assert_eq!(on.lost_packets, 0);
}

/// Of delays that are spread evenly over 4 ms half are below the middle; a way of 200 ms does not blur them.
#[test]
fn delays_are_told_as_finely_on_a_long_way() {
    let text = "id = 'T'\n[path.main]\nrate = '100mbit'\nrtt = '400ms'\njitter = '4ms'\nreorder = '100%'\n\
                [stream.s]\nrate = '4mbit'\npacket = '500bytes'\n[measure]\nduration = '10s'\n";
    let result = cell(text);
    let sent_ms = (500.0 + 28.0 + 38.0) * 8.0 / 100e3;
    for (name, share) in [("p50", 0.5), ("p95", 0.95)] {
        let beyond_ms = result.metrics[&format!("delay_{name}_ms/s")] - 200.0 - sent_ms;
        // A 32nd too long at most, and what 10,000 draws are apart.
        let even_ms = share * 4.0;
        assert!(
            (even_ms - 0.08..even_ms * 33.0 / 32.0 + 0.08).contains(&beyond_ms),
            "{name}: {beyond_ms}"
        );
    }
}

/// 20 times 10 MB over 1 Mbit/s take half an hour: in five seconds none is done, which is no median of nothing.
#[test]
fn of_short_flows_that_are_not_done_there_is_no_median() {
    let text = "id = 'T'\n[path.main]\nrate = '1mbit'\nrtt = '20ms'\nbuffer = '100packets'\n\
                [group.g]\nprotocol = 'reno'\ncount = 20\nmean = '10MB'\nwindow = '1s'\n[measure]\nduration = '5s'\n";
    let result = cell(text);
    let group = &result.groups[0];
    assert_eq!((group.flows, group.finished), (20, 0));
    assert_eq!(group.completion_s, None);
    let written = serde_json::to_string(&result).unwrap();
    assert!(!written.contains("completion_s\":{"), "{written}");
    assert_eq!(
        serde_json::from_str::<CellResult>(&written).unwrap().groups,
        result.groups
    );
}

/// A run that ends with its file ends before the short flows begin: none was started, and none was left undone.
#[test]
fn short_flows_that_had_not_begun_are_not_unfinished() {
    let text = "id = 'T'\n[path.main]\nrate = '20mbit'\nrtt = '40ms'\nbuffer = '1bdp'\n[flow.a]\nprotocol = 'reno'\nsize = '1MB'\n\
                [group.g]\nprotocol = 'reno'\ncount = 10\nmean = '100kB'\nstart = '3s'\nwindow = '1s'\n\
                [measure]\nduration = '60s'\nuntil_complete = true\n";
    let result = cell(text);
    assert!(result.duration_s < 1.0, "{}", result.duration_s);
    assert_eq!(
        (result.groups[0].flows, result.groups[0].offered_bytes),
        (0, 0)
    );
}

/// 2 MB over 10 Mbit/s are 1.6 s, over 100 Mbit/s 0.16, whatever the other direction could do; socket buffers are shares of that product, too.
#[test]
fn a_file_that_goes_backward_is_held_against_the_way_back() {
    let text = "id = 'T'\n[path.main]\nrate = '100mbit'\nrtt = '20ms'\nbuffer = '100packets'\n[path.main.backward]\nrate = '10mbit'\n\
                [flow.a]\nprotocol = 'cubic'\nsize = '2MB'\nsocket_buffer = '4bdp'\nreverse = [false, true]\n\
                [measure]\nduration = '5s'\nuntil_complete = true\n";
    let plan = scenario::parse(Path::new("t.toml"), text, false).unwrap();
    let buffers = plan
        .cells()
        .map(|cell| cell.flows[0].options.send_buffer_bytes.unwrap());
    assert_eq!(buffers.collect::<Vec<_>>(), [1_000_000, 100_000]);
    for (result, ideal_s) in cells(text).iter().zip([0.16, 1.6]) {
        let took_s = flow(result, "a").completion_s.unwrap();
        let over_s = result.metrics["overhead_s/a"];
        assert!(
            (took_s - ideal_s - over_s).abs() < 1e-9,
            "{took_s} {over_s}"
        );
    }
}

/// Two equal flows of 75 and 200 MB: while both have something to send each has its half; that one is done sooner is not unfair.
#[test]
fn a_flow_that_is_done_is_not_treated_unfairly() {
    let text = "id = 'T'\n[path.main]\nrate = '100mbit'\nrtt = '20ms'\nbuffer = '50ms'\naqm = 'fq_codel'\n[flow.a]\nprotocol = 'cubic'\nsize = '75MB'\n\
                [flow.b]\nprotocol = 'cubic'\nsize = '200MB'\n[measure]\nduration = '40s'\nuntil_complete = true\nwarmup = '1s'\n";
    let result = cell(text);
    assert!(flow(&result, "a").end_s < flow(&result, "b").end_s - 5.0);
    let least = result.metrics["jain_min"];
    assert!(least > 0.95, "{least}");
    let converged_s = result.metrics["convergence_s"];
    assert!((converged_s - 10.0).abs() < 0.5, "{converged_s}");
}

/// Harm holds each seed's flow against the flow alone, whatever starts the seeds have drawn.
#[test]
fn harm_is_known_of_each_flow_and_seed() {
    let text = "id = 'T'\nrepeats = 3\n[path.main]\nrate = '20mbit'\nrtt = '20ms'\nbuffer = '50ms'\n[flow.first]\nprotocol = 'cubic'\n\
                [flow.second]\nprotocol = ['none', 'cubic']\n[measure]\nduration = '4s'\n";
    let plan = scenario::parse(Path::new("t.toml"), text, false).unwrap();
    let dir = tempfile::tempdir().unwrap();
    campaign(&plan, dir.path());
    let all = Store::open(dir.path()).unwrap().summary().unwrap().cells;
    let alone = all.iter().filter(|cell| cell.flows.len() == 1);
    let alone: Vec<f64> = alone.map(|cell| cell.flows[0].goodput_bps).collect();
    let alone = alone.iter().sum::<f64>() / alone.len() as f64;
    let pairs: Vec<&CellResult> = all.iter().filter(|cell| cell.flows.len() == 2).collect();
    assert_eq!(pairs.len(), 3);
    for pair in pairs {
        for flow in &pair.flows {
            let harm = pair.metrics[&format!("harm/{}", flow.name)];
            let expected = 1.0 - flow.goodput_bps / alone;
            assert!(
                (harm - expected).abs() < 1e-9,
                "seed {}: {harm} {expected}",
                pair.seed
            );
        }
    }
}

/// A file that is larger than RBUDP's memory is never begun, and over a way that brings nothing back there is no connection: both are said.
#[test]
fn a_flow_that_has_moved_nothing_is_told_of() {
    let with = |keys: &str, flow: &str| {
        let text = format!(
            "id = 'T'\n[path.main]\nrate = '10mbit'\nrtt = '20ms'\nbuffer = '1bdp'\n{keys}\n[flow.a]\n{flow}\n[measure]\nduration = '3s'\n"
        );
        let plan = scenario::parse(Path::new("t.toml"), &text, false).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let outcome = campaign(&plan, dir.path());
        outcome.gave_up
    };
    let small = with(
        "",
        "protocol = 'rbudp'\nsize = '10MB'\nrate = '5mbit'\nmemory = '1MB'",
    );
    assert_eq!(small.len(), 1);
    assert_ne!(small[0].1, "nothing arrived", "the tool says why");
    let deaf = with(
        "[path.main.backward]\nlose = [0, 1, 2, 3, 4, 5, 6, 7]",
        "protocol = 'reno'",
    );
    assert_eq!(deaf, [("T a".to_owned(), "nothing arrived".to_owned())]);
    assert_eq!(with("", "protocol = 'reno'"), []);
}
