//! Limits that change while a copy runs: `howdah ctl`, signals, the config file.
#![cfg(target_os = "linux")]

use crate::support::place::content;
use crate::support::process::{Done, Input, Process};
use crate::support::{Host, Site, write_own};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::time::Duration;

const SIZE: usize = 40 << 20;
/// What a copy of 64 kbit/s cannot reach before the test's time is over.
const LITTLE: u64 = 4 << 20;
const PATIENCE: Duration = Duration::from_secs(30);

fn howdah(site: &Site, args: &[&str]) -> Done {
    site.run(Host::Here, "client", args, Input::None)
}

/// What `howdah ctl list --json` says, copy by copy; of servers it tells as well.
fn list(site: &Site) -> Vec<Value> {
    let done = howdah(site, &["ctl", "list", "--json"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let out = String::from_utf8(done.out).unwrap();
    out.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|value: &Value| value["command"] != "serve")
        .collect()
}

/// A copy that is under way.
fn begin(site: &Site, args: &[&str]) -> Process {
    let args = [&["--progress"], args].concat();
    let mut copy = site.start_copy(Host::Here, &args, Input::None);
    copy.await_line("goodput", PATIENCE);
    copy
}

#[track_caller]
fn order(site: &Site, args: &[&str], part: &str) {
    let done = howdah(site, &[&["ctl"], args].concat());
    assert_eq!(done.code, Some(0), "{}", done.err);
    let out = String::from_utf8(done.out).unwrap();
    assert!(out.contains(part), "{part}: {out}");
}

#[test]
fn the_far_sender_keeps_the_limit_until_it_is_lifted() {
    let site = Site::new(90);
    let server = site.serve();
    let bytes = content("big", SIZE);
    fs::write(site.root("big"), &bytes).unwrap();
    let (url, target) = (server.url("big"), site.file("big"));
    let copy = begin(&site, &["--limit", "64kbit", &url, &target]);
    let copies = list(&site);
    assert_eq!(copies.len(), 1, "{copies:?}");
    assert_eq!(copies[0]["limit_bps"], 64_000);
    assert_eq!(copies[0]["limit_from"], "auto");
    assert_eq!(copies[0]["destination"], target);
    assert!(copies[0]["bytes"].as_u64().unwrap() < LITTLE, "{copies:?}");

    order(&site, &["limit", "128kbit"], "limit 128.0 kbit/s (ctl)");
    order(&site, &["limit", "auto"], "limit 64.0 kbit/s (auto)");
    let refused = howdah(&site, &["ctl", "limit", "fast"]);
    refused.assert_failed(2, &["'fast' is not a rate"]);
    order(&site, &["limit", "none"], "no limit");
    let done = copy.finish();
    done.assert_copied(SIZE as u64, "blake3");
    assert!(fs::read(&target).unwrap() == bytes);
    assert_eq!(list(&site).len(), 0, "its socket is gone");
    howdah(&site, &["ctl", "pause"]).assert_failed(3, &["no copy of yours"]);
    server.stop();
}

#[test]
fn a_paused_copy_lives_and_goes_on() {
    let site = Site::new(90);
    let server = site.serve();
    let log = site.file("log");
    let source = format!("zero:{SIZE}");
    let args = [
        "--limit",
        "64kbit",
        "--log-file",
        &log,
        &source,
        &server.url("a"),
    ];
    let first = begin(&site, &args);
    let second = begin(&site, &["--limit", "64kbit", &source, &server.url("b")]);
    let copies = list(&site);
    assert_eq!(copies.len(), 2, "{copies:?}");
    for copy in &copies {
        assert!(copy["bytes"].as_u64().unwrap() < LITTLE, "{copies:?}");
    }
    // Which one?
    howdah(&site, &["ctl", "pause"]).assert_failed(2, &["several copies", "all"]);
    order(&site, &["pause", "all"], "paused");
    assert!(list(&site).iter().all(|copy| copy["paused"] == true));
    order(&site, &["limit", "none", "all"], "paused, no limit");
    order(&site, &["resume", "all"], "no limit");
    for copy in [first, second] {
        copy.finish().assert_copied(SIZE as u64, "blake3");
    }
    let log = fs::read_to_string(log).unwrap();
    for part in [
        "paused (by howdah ctl)",
        "limit none (by howdah ctl)",
        "resumed",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
    server.stop();
}

#[test]
fn signals_ask_and_read_the_config_file_again() {
    let site = Site::new(90);
    let server = site.serve();
    let config = site.config("client").join("config.toml");
    let text = format!("[host.\"{}\"]\nlimit = '64kbit'\n", server.address.ip());
    write_own(&config, &text);
    let source = format!("zero:{SIZE}");
    let mut copy = begin(&site, &[&source, &server.url("a")]);
    assert_eq!(list(&site)[0]["limit_bps"], 64_000);
    copy.signal(Signal::USR1);
    copy.await_line("limit 64.0 kbit/s", PATIENCE);
    // A mistake changes nothing.
    write_own(&config, "limt = 'none'\n");
    copy.signal(Signal::USR2);
    copy.await_line("did you mean 'limit'?", PATIENCE);
    assert_eq!(list(&site)[0]["limit_bps"], 64_000);
    write_own(&config, "limit = 'none'\n");
    copy.signal(Signal::USR2);
    copy.finish().assert_copied(SIZE as u64, "blake3");
    server.stop();
}

#[test]
fn config_show_names_the_source_of_each_value() {
    let site = Site::new(30);
    let config = site.config("client").join("config.toml");
    let path = config.to_str().unwrap();
    write_own(
        &config,
        "limit = '1gbit'\n[host.\"far\"]\npolicy = 'background'\n",
    );
    let lines = |args: &[&str]| -> Vec<String> {
        let done = howdah(&site, &[&["config", "show"], args].concat());
        assert_eq!(done.code, Some(0), "{}", done.err);
        let out = String::from_utf8(done.out).unwrap();
        out.lines().map(str::to_owned).collect()
    };
    let has = |lines: &[String], start: &str, source: &str| {
        let found = lines.iter().find(|line| line.starts_with(start));
        let found = found.unwrap_or_else(|| panic!("{start}: {lines:?}"));
        assert!(found.ends_with(&format!("# {source}")), "{found}");
    };
    let plain = lines(&[]);
    has(&plain, "limit = 1gbit", &format!("{path}:1"));
    has(&plain, "policy = (not set)", "default");
    has(&plain, "idle-timeout = 8s", "default");
    let far = lines(&["--host", "FAR"]);
    has(
        &far,
        "policy = background",
        &format!("{path}:3 [host.\"far\"]"),
    );
    let done = howdah(&site, &["config", "path"]);
    assert_eq!(String::from_utf8(done.out).unwrap(), format!("{path}\n"));
    howdah(&site, &["config", "show", "lab"]).assert_failed(2, &["'lab' has no settings"]);
}
