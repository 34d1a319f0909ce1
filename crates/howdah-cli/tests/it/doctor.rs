//! `howdah doctor` and `howdah bench`, on this machine and in a network of their own; man pages.
#![cfg(target_os = "linux")]

use crate::support::process::Input;
use crate::support::{Host, Site, place, write_own};
use howdah_wan::WanConfig;
use serde_json::Value;
use std::fs;
use std::process::Command;

const HOWDAH: &str = env!("CARGO_BIN_EXE_howdah");

/// Exit code and report of `howdah doctor --json` after `before`, as the shell reads it.
fn doctor(mut shell: Command, before: &str, dir: &str) -> (Option<i32>, Value) {
    let script = format!("{before} exec \"$0\" doctor --json \"$1\"");
    let output = shell.args(["-c", &script, HOWDAH, dir]).output().unwrap();
    let report = serde_json::from_slice(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    (
        output.status.code(),
        report.unwrap_or_else(|_| panic!("{error}")),
    )
}

fn check<'a>(report: &'a Value, id: &str) -> &'a Value {
    let checks = report["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["id"] == id);
    found.unwrap_or_else(|| panic!("no {id}: {report}"))
}

#[test]
fn the_doctor_names_what_is_wrong_and_the_line_that_changes_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let (code, report) = doctor(Command::new("sh"), "ulimit -n 256;", path);
    assert_eq!(code, Some(14), "{report}");
    assert_eq!(
        (&report["schema"], &report["ok"]),
        (&1.into(), &false.into())
    );
    let files = check(&report, "open-files");
    assert_eq!(files["state"], "change");
    assert_eq!(files["remedy"][0], "ulimit -n 1024");
    for id in [
        "udp-receive",
        "udp-send",
        "udp-gso",
        "udp-gro",
        "udp-port",
        "mtu",
        "aes",
        "processors",
        "clock-source",
        "clock-sync",
        "ssh",
        "file-system",
        "free-space",
        "fsync",
        "write-speed",
        "sparse-files",
        "reflink",
        "xattrs",
    ] {
        check(&report, id);
    }
    assert_eq!(
        fs::read_dir(path).unwrap().count(),
        0,
        "nothing stays behind"
    );

    let (code, report) = doctor(Command::new("sh"), "", "/nonexistent");
    assert_eq!(code, Some(14));
    assert_eq!(check(&report, "file-system")["state"], "change");
}

#[test]
fn the_doctor_sees_the_network_that_it_is_in() {
    let Some(world) = place::world(&WanConfig::default()) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let near = || world.near().command("sh");
    let (_, report) = doctor(near(), "", path);
    let mtu = check(&report, "mtu");
    assert_eq!(mtu["state"], "ok", "{mtu}");
    assert!(mtu["text"].as_str().unwrap().starts_with("wan0: "), "{mtu}");
    let (code, report) = doctor(near(), "ip link set dev wan0 mtu 1000;", path);
    assert_eq!(code, Some(14), "{report}");
    let mtu = check(&report, "mtu");
    assert_eq!(mtu["state"], "change", "{mtu}");
    assert_eq!(mtu["remedy"][0], "ip link set dev wan0 mtu 1500");
}

#[test]
fn the_bench_measures_both_ways_and_the_disks() {
    let site = Site::new(120);
    let server = site.serve();
    fs::create_dir(site.root("in")).unwrap();
    // A habit must not spoil the figures.
    let config = site.config("client").join("config.toml");
    write_own(&config, "limit = '64kbit'\n");
    let here = site.file("");
    let url = server.url("in");
    let args = [
        "bench",
        "--json",
        "--accept-new",
        "--time",
        "300ms",
        "--disk",
        &here,
        &url,
    ];
    let done = site.run(Host::Here, "client", &args, Input::None);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let report: Value = serde_json::from_slice(&done.out).unwrap();
    let legs = report["legs"].as_array().unwrap();
    let names: Vec<&str> = legs
        .iter()
        .map(|leg| leg["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "memory here -> memory there",
            "memory there -> memory here",
            "memory here -> disk there",
            "disk there -> memory here"
        ]
    );
    for leg in legs {
        assert!(leg["bps"].as_f64().unwrap() > 1e6, "{leg}");
    }
    assert_eq!(report["disks"].as_array().unwrap().len(), 2);
    let verdicts = report["verdicts"].as_array().unwrap();
    assert_eq!(verdicts.len(), 2, "{report}");
    assert!(
        verdicts[0]["text"]
            .as_str()
            .unwrap()
            .contains("limited by the ")
    );
    assert_eq!(
        fs::metadata(site.root("in/howdah-bench.tmp"))
            .unwrap()
            .len(),
        0
    );
    assert_eq!(fs::read_dir(&here).unwrap().count(), 0);

    let args = ["doctor", "--json", "--peer", &server.url(""), &here];
    let done = site.run(Host::Here, "client", &args, Input::None);
    let report: Value = serde_json::from_slice(&done.out).unwrap();
    let path = check(&report, "path-mtu");
    assert!(
        path["text"].as_str().unwrap().contains(" bytes, RTT "),
        "{path}"
    );

    // What this machine is stays told if the other one cannot be reached.
    let nobody = ["doctor", "--json", "--peer", "howdah://127.0.0.1:9/", &here];
    let done = site.run(Host::Here, "client", &nobody, Input::None);
    assert_eq!(done.code, Some(5), "{}", done.err);
    let report: Value = serde_json::from_slice(&done.out).unwrap();
    assert_eq!(report["ok"], false, "{report}");
    assert!(check(&report, "udp-receive")["text"].is_string());

    // What would fail in the end fails before anybody is asked.
    let file = site.file("file");
    fs::write(&file, "").unwrap();
    for (disk, why) in [
        (&*file, "is no directory"),
        ("/proc", "takes no files"),
        (&site.file("none"), "No such file"),
    ] {
        let nobody = ["bench", "--disk", disk, "howdah://127.0.0.1:9/"];
        let done = site.run(Host::Here, "client", &nobody, Input::None);
        done.assert_failed(4, &[&format!("--disk {disk}: "), why, "name a directory"]);
    }

    let nobody = ["bench", "howdah://127.0.0.1:9/"];
    let done = site.run(Host::Here, "client", &nobody, Input::None);
    done.assert_failed(5, &["nobody listens"]);
    server.stop();
}

#[test]
fn a_prediction_is_of_what_would_be_copied_and_names_what_it_counts_on() {
    let site = Site::new(180);
    let server = site.serve();
    fs::create_dir(site.root("in")).unwrap();
    fs::create_dir(site.file("src")).unwrap();
    fs::write(site.file("src/large"), vec![7; 4 << 20]).unwrap();
    fs::write(site.file("src/small"), "small").unwrap();
    let predict = |more: &[&str]| {
        let args = [&["predict", "--accept-new", "--time", "4s"][..], more].concat();
        site.run(Host::Here, "client", &args, Input::None)
    };
    let done = predict(&["--json", &server.url("in"), &site.file("src")]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let told: Value = serde_json::from_slice(&done.out).unwrap();
    assert_eq!(
        (&told["bytes"], &told["files"]),
        (&((4 << 20) + 5).into(), &2.into())
    );
    let seconds = |name: &str| told[name].as_f64().unwrap();
    assert!(seconds("least_s") <= seconds("likely_s"), "{told}");
    assert!(seconds("likely_s") <= seconds("most_s"), "{told}");
    // No copy is done before its disks are.
    for name in ["read_here_bps", "written_there_bps"] {
        let disk_s = f64::from(((4 << 20) + 5) * 8) / seconds(name);
        assert!(seconds("least_s") >= disk_s * 0.999, "{name}: {told}");
    }
    assert!(told["changed_s"]["tcp_cubic"].is_f64(), "{told}");
    assert_eq!(
        fs::metadata(site.root("in/howdah-bench.tmp"))
            .unwrap()
            .len(),
        0
    );
    // For people, and of as much as is said.
    let done = predict(&["--size", "100MB", &server.url("")]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let text = String::from_utf8(done.out).unwrap();
    for part in [
        "path: ",
        "95.4 MiB that are made up",
        "as it is",
        "between",
        "TCP CUBIC",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    predict(&[&server.url(""), &site.file("none")]).assert_failed(3, &["cannot read", "none"]);
    let both = predict(&["--size", "1GiB", &server.url(""), &site.file("src")]);
    both.assert_failed(2, &["--size"]);
    fs::write(site.file("empty"), "").unwrap();
    let nothing = predict(&[&server.url(""), &site.file("empty")]);
    nothing.assert_failed(2, &["not a byte"]);
    server.stop();
}

#[test]
fn every_command_has_a_man_page() {
    let dir = tempfile::tempdir().unwrap();
    let status = Command::new(HOWDAH)
        .arg("man")
        .arg(dir.path())
        .status()
        .unwrap();
    assert!(status.success());
    let page = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    assert!(page("howdah.1").contains("Exit codes"));
    assert!(page("howdah-cp.1").contains("\\-\\-limit"));
    for name in [
        "howdah-serve.1",
        "howdah-ctl-limit.1",
        "howdah-doctor.1",
        "howdah-bench.1",
        "howdah-predict.1",
    ] {
        page(name);
    }
    assert!(
        !dir.path().join("howdah-internal.1").exists(),
        "not for people"
    );
}
