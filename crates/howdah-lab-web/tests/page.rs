//! What the page does, without a browser: several instances run cells, one makes the report.

use howdah_lab_web::laboratory::Laboratory;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

const SCENARIO: &str = r#"
include = "parts/../base.toml"
id = "short"
[axes]
protocol = ["howdah", "reno", "srt"]
[flow.one]
protocol = "$protocol"
"#;

const BASE: &str = r#"
seed = 3
[path.trunk]
rate = "50mbit"
rtt = "20ms"
buffer = "1bdp"
[measure]
duration = "3s"
"#;

fn request(scenario: &str) -> Vec<u8> {
    let files: BTreeMap<&str, &str> = [("mine/a.toml", scenario), ("mine/base.toml", BASE)].into();
    let request = json!({"path": "mine/a.toml", "files": files, "machine": {"browser": "test"}});
    request.to_string().into_bytes()
}

#[test]
fn cells_that_several_ran_make_one_report_as_on_any_machine() {
    let request = request(SCENARIO);
    let (mut collector, opened) = Laboratory::open(&request).unwrap();
    assert_eq!(opened.cells.len(), 3);
    assert!(
        opened.cells[0].name.contains("protocol=howdah"),
        "{opened:?}"
    );
    assert!(opened.cells[0].cost > 0.0);
    let results: Vec<Vec<u8>> = (0..3)
        .map(|index| Laboratory::open(&request).unwrap().0.run(index).unwrap())
        .collect();
    for (index, result) in results.iter().enumerate().rev() {
        collector.add(index, result, 0.5).unwrap();
    }
    let report = collector.report();
    assert!(
        report.contains("class=\"chart\"") && report.contains("howdah"),
        "{report}"
    );
    // The testbed's rival has its reason in its place.
    assert!(report.contains("only --on netns runs it"));
    // As the command has it.
    let result = howdah_report::parcel::unwrap(&results[0]).unwrap();
    let texts = [("mine/a.toml", SCENARIO), ("mine/base.toml", BASE)];
    let files = texts.map(|(path, text)| (PathBuf::from(path), text.to_owned()));
    let plan = howdah_lab::scenario::parse_among(
        files.into(),
        Path::new("mine/a.toml"),
        howdah_lab::scenario::Wanted::default(),
    );
    let plan = plan.unwrap();
    let cell = plan.cells().next().unwrap();
    let native = howdah_lab::sim::run(cell, &AtomicBool::new(false)).unwrap();
    assert_eq!(result.fingerprint, native.fingerprint);
    assert_eq!(result.flows, native.flows);
    assert!(!result.flows[0].intervals.is_empty());
    assert!(
        result.flows[0].goodput_bps > 40e6,
        "{}",
        result.flows[0].goodput_bps
    );
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let wrong = SCENARIO.replace("include = \"parts/../base.toml\"", "include = \"no.toml\"");
    let error = Laboratory::open(&request(&wrong)).unwrap_err();
    assert_eq!(error, "mine/a.toml:2: mine/no.toml: there is no such file");
    let error = Laboratory::open(&request("id = 3")).unwrap_err();
    assert!(error.starts_with("mine/a.toml"), "{error}");
    assert!(Laboratory::open(b"no JSON").is_err());
    let (mut laboratory, _) = Laboratory::open(&request(SCENARIO)).unwrap();
    let result = laboratory.run(0).unwrap();
    assert_eq!(laboratory.run(3).unwrap_err(), "there is no cell 3");
    assert_eq!(
        laboratory.add(1, &result, 0.1).unwrap_err(),
        "that is no result of cell 1"
    );
    assert!(laboratory.add(0, &result[..9], 0.1).is_err());
}
