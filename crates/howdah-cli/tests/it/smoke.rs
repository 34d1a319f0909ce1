//! A sample of the testbed's campaigns (scenarios/smoke) with loose gates: ratios within the one run, which hold on any machine
//! that can run it at all. Without root or /dev/net/tun this says so and passes.
#![cfg(target_os = "linux")]

use crate::support::testbed::can_run;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

struct Campaign(Vec<Value>);

impl Campaign {
    /// The cell of an experiment where `axis` has that value; `None`, with a line that says why, if it was skipped.
    #[track_caller]
    fn cell(&self, experiment: &str, axis: &str, value: &str) -> Option<&Value> {
        let found = self
            .0
            .iter()
            .find(|cell| cell["experiment"] == experiment && cell["at"][axis] == value);
        let cell = found.unwrap_or_else(|| panic!("no cell {experiment} {axis}={value}"));
        assert_eq!(cell["error"], Value::Null, "{experiment} {value}");
        if let Some(why) = cell["skipped"].as_str() {
            println!("skipped: {experiment} {value}: {why}");
            return None;
        }
        Some(cell)
    }

    #[track_caller]
    fn goodput(&self, experiment: &str, axis: &str, value: &str, flow: usize) -> Option<f64> {
        let cell = self.cell(experiment, axis, value)?;
        let rate = cell["flows"][flow]["goodput_bps"].as_f64().unwrap();
        println!("{experiment} {value} flow {flow}: {:.1} Mbit/s", rate / 1e6);
        Some(rate)
    }
}

#[test]
fn a_sample_of_the_campaigns_keeps_its_ratios() {
    if !can_run() {
        return;
    }
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let out = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_howdah"))
        .args(["lab", "run"])
        .arg(repository.join("scenarios/smoke"))
        .args(["--on", "netns", "--runs", "1", "--out"])
        .arg(out.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = std::fs::read(out.path().join("summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&text).unwrap();
    let campaign = Campaign(summary["cells"].as_array().unwrap().clone());

    // One flow on a path that loses packets: what the field knows since Mathis.
    let today = |name| campaign.goodput("S-TODAY", "protocol", name, 0);
    let ours = today("howdah").unwrap();
    let cubic = today("tcp-cubic").unwrap();
    assert!(ours > 3.0 * cubic);
    let cubics = today("tcp-cubic-x8").unwrap();
    assert!(cubics > 2.0 * cubic && ours > 0.9 * cubics);
    for rival in ["libudt", "rbudp", "rwtp-like", "htcp"] {
        if let Some(theirs) = today(rival) {
            assert!(theirs > 1e6, "{rival} moved nothing");
            assert!(ours > 0.9 * theirs, "{rival}");
        }
    }
    let feedback = |name| {
        let flow = &campaign.cell("S-TODAY", "protocol", name).unwrap()["flows"][0];
        flow["feedback_wire_bytes"].as_f64().unwrap() / flow["delivered_bytes"].as_f64().unwrap()
    };
    assert!(feedback("howdah") < 0.5 * feedback("tcp-cubic"));

    // A file: ours before scp, which waits for its TCP.
    if let Some(scp) = campaign.cell("S-FILE", "protocol", "scp") {
        let ours = campaign.cell("S-FILE", "protocol", "howdah").unwrap();
        let seconds = |cell: &Value| cell["flows"][0]["completion_s"].as_f64();
        let ours = seconds(ours).expect("ours comes to its end");
        // Not done in the time given is longer than that.
        let scp = seconds(scp).unwrap_or(f64::INFINITY);
        println!("S-FILE: howdah {ours} s, scp {scp} s");
        assert!(ours < scp);
    }

    // Two flows: nobody is starved who should not be, and the path is used.
    for pair in ["howdah+howdah", "cubic+cubic", "howdah+cubic", "hstcp+reno"] {
        let rate = |flow| campaign.goodput("S-PAIRS", "pair", pair, flow);
        if let (Some(one), Some(two)) = (rate(0), rate(1)) {
            assert!(one + two > 0.7 * 200e6, "{pair}");
            if pair == "howdah+howdah" {
                assert!(one.min(two) > 0.1 * one.max(two), "{pair}");
            }
        }
    }
}
