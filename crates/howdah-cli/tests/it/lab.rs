//! `howdah lab` from outside: what it prints, what it writes, how it fails.
#![cfg(target_os = "linux")]

use crate::support::place::SmallDisk;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

const SCENARIO: &str = "\
id = \"T\"
[path.main]
rate = \"20mbit\"
rtt = [\"10ms\", \"20ms\"]
buffer = \"1bdp\"
[flow.main]
protocol = \"reno\"
[measure]
duration = \"2s\"
";

fn lab(dir: &Path, words: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_howdah"))
        .arg("lab")
        .args(words.split_whitespace())
        .current_dir(dir)
        .output()
        .unwrap()
}

fn site(scenario: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("t.toml"), scenario).unwrap();
    dir
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[track_caller]
fn assert_fails(output: &Output, code: i32, part: &str) {
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert!(message.contains(part), "{message}");
}

#[test]
fn one_figure_over_two_axes_is_a_table() {
    let dir = site(SCENARIO);
    let dir = dir.path();
    assert!(lab(dir, "run t.toml --seeds 2").status.success());
    let table = lab(
        dir,
        "table results/t --rows rtt --columns experiment --json",
    );
    let table = json(&table);
    assert_eq!(table["unit"], "Mbit/s");
    assert_eq!(table["columns"], serde_json::json!(["T"]));
    let [short, long] = [0, 1].map(|row| table["rows"][row].clone());
    assert_eq!([&short[0], &long[0]], ["10ms", "20ms"]);
    let goodput = |row: &Value| row[1][0].as_f64().unwrap();
    // What summary.json says, the median of two.
    let summary = std::fs::read(dir.join("results/t/summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    let cells = summary["cells"].as_array().unwrap().iter();
    let of_short = cells.filter(|cell| cell["at"]["rtt"] == "10ms");
    let rates: Vec<f64> = of_short
        .map(|cell| cell["flows"][0]["goodput_bps"].as_f64().unwrap())
        .collect();
    assert_eq!(rates.len(), 2);
    let mean = (rates[0] + rates[1]) / 2e6;
    assert!((goodput(&short) - mean).abs() < 1e-6, "{rates:?} {table}");
    let text_table = text(&lab(dir, "table results/t --rows rtt").stdout);
    assert!(
        text_table.starts_with("T, main: goodput bps by rtt and experiment, Mbit/s (median of up to 2 cells each).\n\n| rtt | T |\n"),
        "{text_table}"
    );
    assert_fails(
        &lab(dir, "table results/t --figure godput"),
        2,
        "goodput_bps",
    );
    assert_fails(
        &lab(dir, "table results/t --only rtt=30ms"),
        2,
        "there are: 10ms, 20ms",
    );
    assert_fails(
        &lab(dir, "table results/t --only rtd=10ms"),
        2,
        "there are: experiment, rtt",
    );
    assert_fails(
        &lab(dir, "table results/t --figure queue_drops"),
        2,
        "main/backward, main/forward",
    );
    assert_fails(&lab(dir, "table results/none"), 2, "no campaign here");
}

/// With a program called python3 that draws, that has no vl-convert, that fails, and without any.
#[test]
fn figures_are_specifications_and_drawn_where_something_can() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = site(SCENARIO);
    let dir = dir.path();
    assert!(lab(dir, "run t.toml --quick").status.success());
    let with = |python: Option<&str>, out: &str| {
        let path = dir.join(format!("path-{out}"));
        std::fs::create_dir(&path).unwrap();
        if let Some(script) = python {
            let file = path.join("python3");
            std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        Command::new(env!("CARGO_BIN_EXE_howdah"))
            .args([
                "lab",
                "report",
                "results/t-quick",
                "--json",
                "--figures",
                out,
            ])
            .current_dir(dir)
            .env("PATH", &path)
            .output()
            .unwrap()
    };
    let draws = "shift 2; for spec; do : > \"${spec%.vl.json}.svg\"; done";
    for (out, python, drawn) in [
        ("drawn", Some(draws), true),
        ("module", Some("exit 3"), false),
        ("none", None, false),
    ] {
        let output = with(python, out);
        let said = json(&output);
        assert_eq!(said["drawn"], drawn, "{out}");
        let figures = said["figures"].as_array().unwrap();
        assert!(!figures.is_empty());
        for figure in figures {
            let path = dir.join(figure.as_str().unwrap());
            let spec: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            assert!(spec["data"]["values"].is_array(), "{figure}");
            let name = figure.as_str().unwrap().replace(".vl.json", ".svg");
            assert_eq!(dir.join(name).is_file(), drawn, "{figure}");
        }
        let remedy = text(&output.stderr).contains("pip install vl-convert-python");
        assert_eq!(remedy, !drawn, "{}", text(&output.stderr));
    }
    let failed = with(Some("echo 'a.vl.json: no such mark' >&2; exit 1"), "failed");
    assert_fails(
        &failed,
        1,
        "did not draw the figures: a.vl.json: no such mark",
    );
}

#[test]
fn from_scenario_to_report_ledger_and_gate() {
    let dir = site(SCENARIO);
    let dir = dir.path();
    let list = json(&lab(dir, "list t.toml --json"));
    assert_eq!(
        (&list[0]["id"], &list[0]["cells"]),
        (&"T".into(), &2.into())
    );
    let shown = text(&lab(dir, "list t.toml").stdout);
    assert!(shown.contains("rtt: 10ms, 20ms") && shown.contains("1 experiments, 2 cells"));

    let run = json(&lab(dir, "run t.toml --jobs 2 --json"));
    assert_eq!((&run["ran"], &run["kept"]), (&2.into(), &0.into()));
    let again = json(&lab(dir, "run t.toml --json"));
    assert_eq!((&again["ran"], &again["kept"]), (&0.into(), &2.into()));
    for file in ["campaign.json", "summary.json"] {
        assert!(dir.join("results/t").join(file).is_file(), "{file}");
    }

    let report = json(&lab(dir, "report results/t --json"));
    assert!(dir.join(report["report"].as_str().unwrap()).is_file());
    let ledger = json(&lab(dir, "ledger results/t --json"));
    let entry = &ledger.as_array().unwrap()[0];
    for key in [
        "id",
        "paper",
        "statement",
        "stated",
        "ours",
        "verdict",
        "standing",
        "trials",
        "note",
    ] {
        assert!(!entry[key].is_null(), "{key}");
    }

    assert_fails(&lab(dir, "gate results/t"), 2, "--update writes it");
    assert!(lab(dir, "gate results/t --update").status.success());
    let gate = lab(dir, "gate results/t");
    assert!(gate.status.success(), "{}", text(&gate.stderr));
    assert!(text(&gate.stdout).starts_with("2 lines compared, 0 changed"));
    let snapshot = std::fs::read_to_string(dir.join("full.snap")).unwrap();
    let other = snapshot.replacen("Mbit/s", "Gbit/s", 1);
    std::fs::write(dir.join("full.snap"), other).unwrap();
    let gate = lab(dir, "gate results/t");
    assert_fails(&gate, 1, "the campaign differs from full.snap");
    let shown = text(&gate.stdout);
    assert!(
        shown.contains("-   main (reno)") && shown.contains("+   main (reno)"),
        "{shown}"
    );

    assert!(
        lab(dir, "ledger results/t --out ledger.md")
            .status
            .success()
    );
    let page = std::fs::read_to_string(dir.join("ledger.md")).unwrap();
    assert!(page.contains("| `howdah lab run t.toml` |"), "{page}");
    let kept: Value =
        serde_json::from_slice(&std::fs::read(dir.join("ledger.json")).unwrap()).unwrap();
    assert_eq!(kept["campaigns"][0]["cells"], 2);
    let wrong = lab(dir, "ledger results/t --out ledger.txt");
    assert_fails(&wrong, 2, "ends in .md");
}

#[test]
fn campaigns_are_not_mixed_and_results_keep_their_directory() {
    let dir = site(SCENARIO);
    let dir = dir.path();
    assert!(lab(dir, "run t.toml --out a").status.success());
    let seeds = json(&lab(dir, "run t.toml --out a --seeds 3 --json"));
    assert_eq!((&seeds["ran"], &seeds["kept"]), (&4.into(), &2.into()));
    // The same name, the same places, another network.
    std::fs::write(dir.join("u.toml"), SCENARIO.replace("20mbit", "10mbit")).unwrap();
    let taken = lab(dir, "run u.toml --out a");
    assert_fails(&taken, 2, "holds the results of t.toml");
    assert!(lab(dir, "run u.toml --out b").status.success());
    assert_fails(&lab(dir, "ledger a b"), 2, "by another scenario or commit");
    assert_fails(
        &lab(dir, "report --fidelity a b"),
        2,
        "by another scenario or commit",
    );
    assert!(lab(dir, "report a b").status.success());
    let page = std::fs::read_to_string(dir.join("a/report.html")).unwrap();
    assert!(page.contains("campaign"), "no axis tells them apart");
    assert!(!page.contains("Ledger of the papers"));
    let subject = lab(dir, "report a --subject rno");
    assert_fails(
        &subject,
        2,
        "nobody knows 'rno'; these campaigns have: reno",
    );
}

/// Whoever mistypes a name loses nothing; what howdah has written there itself is written anew.
#[test]
fn what_others_have_there_is_not_written_over() {
    let dir = site(SCENARIO);
    let dir = dir.path();
    let (mine, names) = (
        "mine",
        [
            "d/summary.json",
            "e/campaign.json",
            "a.md",
            "b.json",
            "a.html",
            "csv/series.csv",
            "thesis",
        ],
    );
    for name in names {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, mine).unwrap();
    }
    assert!(lab(dir, "run t.toml").status.success());
    for (words, name) in [
        ("run t.toml --out d", "d/summary.json"),
        ("run t.toml --out e", "e/campaign.json"),
        ("ledger results/t --out a.md", "a.md"),
        ("ledger results/t --out b.md", "b.json"),
        ("report results/t --out a.html", "a.html"),
        ("report results/t --csv csv", "csv/series.csv"),
        ("gate results/t --update --against thesis", "thesis"),
    ] {
        let refused = lab(dir, words);
        assert_fails(&refused, 2, name);
        assert_fails(&refused, 2, "stays as it is");
    }
    let file = lab(dir, "report results/t --csv a.md");
    assert_fails(&file, 2, "--csv a.md: a file; name a directory");
    for name in names {
        let found = std::fs::read_to_string(dir.join(name)).unwrap();
        assert_eq!(found, mine, "{name}");
        std::fs::remove_file(dir.join(name)).unwrap();
    }
    for _ in 0..2 {
        for words in [
            "run t.toml --out d",
            "ledger results/t --out a.md",
            "report results/t --out a.html",
            "report results/t --csv csv",
            "gate results/t --update --against thesis",
        ] {
            let done = lab(dir, words);
            assert!(done.status.success(), "{words}: {}", text(&done.stderr));
        }
    }
}

#[test]
fn what_cannot_be_run_here_is_said_and_not_counted() {
    let dir = site(&SCENARIO.replace("\"reno\"", "\"iperf3-cubic\""));
    let output = lab(dir.path(), "run t.toml --json");
    let said = json(&output);
    assert_eq!(
        (&said["ran"], said["skipped"].as_array().unwrap().len()),
        (&0.into(), 2)
    );
    let output = lab(dir.path(), "run t.toml --again");
    let shown = text(&output.stderr);
    assert!(
        shown.contains("2 cells skipped: 'iperf3-cubic' is a real program"),
        "{shown}"
    );
    assert!(shown.contains("0 cells run"), "{shown}");
    std::fs::write(dir.path().join("file"), "").unwrap();
    let wrong = lab(dir.path(), "run t.toml --out file");
    assert_fails(&wrong, 2, "--out file: a file; name a directory");
}

#[test]
fn bad_input_is_explained_and_nothing_is_run() {
    let dir = site(&SCENARIO.replace("buffer", "bufer"));
    let output = lab(dir.path(), "run t.toml");
    let wanted = "t.toml:5: unknown key 'bufer' in [path.main]; did you mean 'buffer'?";
    assert_fails(&output, 2, wanted);
    assert!(!dir.path().join("results").exists());

    let dir = site(&SCENARIO.replace("\"reno\"", "\"rno\""));
    let wanted = "t.toml:7: 'protocol': unknown protocol 'rno'; did you mean 'reno'?";
    assert_fails(&lab(dir.path(), "run t.toml"), 2, wanted);
    let wanted = "no/such.toml: there is no such file";
    assert_fails(&lab(dir.path(), "run no/such.toml"), 2, wanted);
    assert_fails(&lab(dir.path(), "report ."), 2, "no campaign here");
    assert_fails(&lab(dir.path(), "run"), 2, "PATH");
    assert_fails(&lab(dir.path(), "run t.toml --shard 3/2"), 2, "write I/N");
}

/// More than any memory has, and what an attack would find out when all of it is done.
#[test]
fn what_cannot_come_to_an_end_is_not_begun() {
    let dir = site(SCENARIO);
    let many = lab(dir.path(), "run t.toml --seeds 99999999999");
    assert_fails(&many, 2, "--seeds: 99999999999 seeds of each cell");
    assert!(!dir.path().join("results").exists());
    let attack = |words: &str| {
        let words = format!("attack reno --goal stall --runs 1 {words}");
        lab(dir.path(), &words)
    };
    assert_fails(&attack("--out none/x.toml"), 4, "cannot write into none");
    assert_fails(&attack("--max-rate 1kbit"), 2, "from 10mbit on");
    let left = std::fs::read_dir(dir.path()).unwrap();
    assert_eq!(left.count(), 1);
}

#[test]
fn a_full_disk_keeps_finished_cells() {
    let dir = site(SCENARIO);
    let dir = dir.path();
    let results = dir.join("results");
    std::fs::create_dir(&results).unwrap();
    let Some(_disk) = SmallDisk::mount(results.to_str().unwrap(), 1) else {
        return;
    };
    assert!(lab(dir, "run t.toml --shard 1/2").status.success());
    let mut filler = std::fs::File::create(results.join("filler")).unwrap();
    while filler.write_all(&[0; 512]).is_ok() {}
    // Its space comes back when nobody has it open any more.
    drop(filler);
    let output = lab(dir, "run t.toml");
    assert_fails(&output, 11, "no space left to write results/t/");
    assert_fails(&output, 11, "1 finished cells are kept");
    std::fs::remove_file(results.join("filler")).unwrap();
    let rest = json(&lab(dir, "run t.toml --json"));
    assert_eq!((&rest["ran"], &rest["kept"]), (&1.into(), &1.into()));
}

/// Whatever is written: it is there whole or as it was, and nothing lies beside it.
#[test]
fn a_full_disk_keeps_what_was_there() {
    let dir = site(SCENARIO);
    let dir = dir.path();
    let full = dir.join("full");
    std::fs::create_dir(&full).unwrap();
    let Some(_disk) = SmallDisk::mount(full.to_str().unwrap(), 1) else {
        return;
    };
    assert!(lab(dir, "run t.toml").status.success());
    let commands = [
        "ledger results/t --out full/ledger.md",
        "gate results/t --update --against full/snap",
        "report results/t --out full/page.html",
        "report results/t --csv full",
    ];
    for words in commands {
        let done = lab(dir, words);
        assert!(done.status.success(), "{words}: {}", text(&done.stderr));
    }
    let found = || {
        let entries = std::fs::read_dir(&full).unwrap();
        let all = entries.map(|entry| {
            let path = entry.unwrap().path();
            let content = std::fs::read(&path).unwrap();
            (path, content)
        });
        all.collect::<BTreeMap<_, _>>()
    };
    let mut filler = std::fs::File::create(full.join("filler")).unwrap();
    while filler.write_all(&[0; 512]).is_ok() {}
    drop(filler);
    let before = found();
    for words in commands {
        assert_fails(&lab(dir, words), 11, "cannot write full/");
        assert!(found() == before, "{words}");
    }
}

/// What it measures is a matter of the machine; that a scenario reads it is not.
#[cfg(target_os = "linux")]
#[test]
fn a_machine_that_was_measured_is_a_host_of_scenarios() {
    let near = SCENARIO.replace("[measure]", "from = \"near\"\n[measure]");
    let dir = site(&format!("include = \"near.toml\"\n{near}"));
    let dir = dir.path();
    let calibrate = |words: &str| lab(dir, &format!("calibrate --time 200ms {words}"));
    let made = calibrate("--name near --out near.toml");
    assert!(made.status.success(), "{}", text(&made.stderr));
    assert!(lab(dir, "run t.toml").status.success());
    let host = std::fs::read_to_string(dir.join("near.toml")).unwrap();
    for key in [
        "[host.near]",
        "cores = ",
        "wake = ",
        "socket = ",
        "charge = ",
    ] {
        assert!(host.contains(key), "{key}: {host}");
    }
    // What a packet costs is measured where namespaces can be had, or it is said why not.
    let is_said = text(&made.stderr).contains("what packets cost is left out");
    assert_ne!(host.contains("sent_packet = "), is_said, "{host}");
    let taken = calibrate("--name near --out near.toml");
    assert_fails(&taken, 2, "near.toml is there already");
    assert_fails(&calibrate("--name a.b"), 2, "--name");
    assert_fails(&lab(dir, "calibrate --time 1ns"), 2, "--time");
    let figures = json(&calibrate("--json"));
    assert!(figures["charge"].as_f64().unwrap() > 1.0, "{figures}");
}
