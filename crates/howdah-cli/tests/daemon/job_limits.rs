//! Limits that jobs share: at once, at any time, also for the next daemon; and times that jobs are to be done by.
#![cfg(target_os = "linux")]

use crate::support::Site;
use crate::support::place::content;
use crate::support::process::{Server, ok};
use crate::support::service::{PATIENCE, Service};
use serde_json::Value;
use std::fs;
use std::time::Instant;

const SIZE: usize = 40 << 20;

#[track_caller]
fn limits(service: &Service<'_>, args: &[&str]) -> Value {
    let args = [&["job", "limit", "--json"], args].concat();
    serde_json::from_str(&ok(&service.ask(&args))).unwrap()
}

/// What running copies may take, by what they were told.
fn shares(service: &Service<'_>) -> Vec<Option<u64>> {
    let limits = limits(service, &[]);
    let running = limits["running"].as_array().unwrap().clone();
    running
        .iter()
        .map(|running| running["pace"]["share_bps"].as_u64())
        .collect()
}

/// What copies say that they keep to, and from whom they have it.
fn kept(service: &Service<'_>) -> Vec<(Option<u64>, String)> {
    let out = ok(&service.ask(&["ctl", "list", "--json"]));
    let copies = out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    copies
        .filter(|copy| copy["command"] != "serve")
        .map(|copy| {
            (
                copy["limit_bps"].as_u64(),
                copy["limit_from"].as_str().unwrap().to_owned(),
            )
        })
        .collect()
}

#[track_caller]
fn until<T: std::fmt::Debug>(look: impl Fn() -> T, wanted: impl Fn(&T) -> bool) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        let found = look();
        if wanted(&found) {
            return found;
        }
        assert!(Instant::now() < end, "{found:?}");
    }
}

/// A copy to a server that needs all of its limit.
fn copy(
    service: &Service<'_>,
    site: &Site,
    server: &Server,
    name: &str,
    options: &[&str],
) -> String {
    let (from, to) = (site.file(name), server.url(name));
    fs::write(&from, content(name, SIZE)).unwrap();
    service.submit(options, &["cp", "--accept-new", &from, &to])
}

#[test]
fn running_copies_share_a_limit_that_is_changed_at_once() {
    let site = Site::new(240);
    let server = site.serve();
    let mut service = Service::new(&site, &["--limit", "800kbit"]);
    let first = copy(&service, &site, &server, "a", &[]);
    until(
        || kept(&service),
        |kept| *kept == [(Some(800_000), "daemon".to_owned())],
    );
    let second = copy(&service, &site, &server, "b", &[]);
    let half = (Some(400_000), "daemon".to_owned());
    until(
        || kept(&service),
        |kept| *kept == [half.clone(), half.clone()],
    );
    // What the copy itself was told holds as well, if it is less.
    let pid = service.show(&first)["attempts"][0]["pid"].to_string();
    ok(&service.ask(&["ctl", "limit", "100kbit", &pid]));
    until(
        || kept(&service),
        |kept| kept.contains(&(Some(100_000), "ctl".to_owned())),
    );
    ok(&service.ask(&["ctl", "limit", "auto", &pid]));
    // Less, at once; also for the next daemon.
    let set = limits(&service, &["400kbit"]);
    assert_eq!(
        (&set["set"], &set["allowed_bps"]),
        (&Value::Bool(true), &400_000.into()),
        "{set}"
    );
    until(|| shares(&service), |shares| *shares == [Some(200_000); 2]);
    service.kill();
    service.start(&["--limit", "800kbit"]);
    until(|| shares(&service), |shares| *shares == [Some(200_000); 2]);
    // One of its own.
    ok(&service.ask(&["job", "limit", "100kbit", &second]));
    let shown = until(
        || service.show(&second),
        |job| job["pace"]["share_bps"] == 100_000,
    );
    assert_eq!(shown["limit"], "100kbit", "{shown}");
    assert!(
        shown["history"]
            .as_array()
            .unwrap()
            .iter()
            .any(|event| event["what"] == "limited"),
        "{shown}"
    );
    until(
        || shares(&service),
        |shares| *shares == [Some(300_000), Some(100_000)],
    );
    let text = ok(&service.ask(&["job", "limit"]));
    assert!(
        text.starts_with("limit 400kbit") && text.contains("share 300.0 kbit/s"),
        "{text}"
    );
    // Back to that of the command line; then to nothing at all, and everything.
    assert_eq!(limits(&service, &["auto"])["limit"], "800kbit");
    until(
        || shares(&service),
        |shares| *shares == [Some(700_000), Some(100_000)],
    );
    assert_eq!(service.job(&["cancel", &second]).code, Some(0));
    until(|| shares(&service), |shares| *shares == [Some(800_000)]);
    limits(&service, &["pause"]);
    until(
        || ok(&service.ask(&["ctl", "list"])),
        |text| text.contains("paused"),
    );
    limits(&service, &["none"]);
    let done = service.job(&["wait", &first]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    server.stop();
}

#[test]
fn a_job_is_done_by_its_time_with_the_least_rate_and_says_if_it_cannot_be() {
    let site = Site::new(240);
    let server = site.serve();
    let service = Service::new(&site, &["--limit", "2mbit"]);
    let job = copy(&service, &site, &server, "a", &["--by", "10m"]);
    let shown = until(
        || service.show(&job),
        |job| {
            // What it needs is known when its size is, and it is told a moment later.
            let pace = &job["pace"];
            pace["needed_bps"].is_u64() && pace["share_bps"] == pace["needed_bps"]
        },
    );
    let share = shown["pace"]["share_bps"].as_u64();
    // 40 MiB in ten minutes, a tenth more for what is around it; some was there before it was told.
    assert!((100_000..700_000).contains(&share.unwrap()), "{shown}");
    assert_eq!(shown["pace"]["meets"], true, "{shown}");
    service.await_job(&job, |job| job["last"]["event"] == "progress");
    // From its beginning on: how much there is was seen before it said so.
    let said = fs::read_to_string(service.dir().join(format!("attempts/{job}-1/events"))).unwrap();
    let kept: Vec<_> = said
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["event"] == "progress")
        .map(|event| event["limit_bps"].as_u64().unwrap())
        .collect();
    assert!(
        !kept.is_empty() && kept.iter().all(|kept| *kept < 700_000),
        "{kept:?}"
    );
    service.job(&["cancel", &job]);
    limits(&service, &["64kbit"]);
    let late = copy(&service, &site, &server, "b", &["--by", "10m"]);
    let shown = until(|| service.show(&late), |job| job["reason"].is_string());
    let reason = shown["reason"].as_str().unwrap();
    assert!(reason.contains("cannot be done by its time"), "{reason}");
    assert_eq!(shown["pace"]["meets"], false, "{shown}");
    assert_eq!(shown["state"], "running", "{shown}");
    server.stop();
}

#[test]
fn a_machine_has_limits_of_its_own() {
    let site = Site::new(240);
    let server = site.serve();
    let service = Service::new(&site, &[]);
    let set = [
        "job",
        "host",
        "127.0.0.1",
        "--limit",
        "200kbit",
        "--max-running",
        "1",
        "--json",
    ];
    let host: Value = serde_json::from_str(&ok(&service.ask(&set))).unwrap();
    assert_eq!(
        (&host["set"]["max_running"], &host["allowed_bps"]),
        (&1.into(), &200_000.into()),
        "{host}"
    );
    let first = copy(&service, &site, &server, "a", &[]);
    until(
        || kept(&service),
        |kept| *kept == [(Some(200_000), "daemon".to_owned())],
    );
    let second = copy(&service, &site, &server, "b", &[]);
    let all = || -> Value {
        serde_json::from_str(&ok(&service.ask(&["job", "hosts", "--json"]))).unwrap()
    };
    let host = all();
    assert_eq!(
        (&host["running"], &host["waiting"]),
        (&1.into(), &1.into()),
        "{host}"
    );
    assert_eq!(host["facts"]["keys"].as_array().unwrap().len(), 1, "{host}");
    // What is not said stays.
    ok(&service.ask(&["job", "host", "127.0.0.1", "--limit", "none"]));
    assert_eq!(all()["set"]["max_running"], 1);
    let done = service.job(&["wait", &first, &second]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let text = ok(&service.ask(&["job", "hosts"]));
    assert!(
        text.contains("0 running") && text.contains("at most 1 run"),
        "{text}"
    );
    server.stop();
}

#[test]
fn limits_that_make_no_sense_are_refused() {
    let site = Site::new(120);
    let service = Service::new(&site, &[]);
    let held = service.submit(&["--hold"], &["cp", "a", "h:b"]);
    for (args, code, part) in [
        (&["job", "limit", "fast"][..], 2, "'fast' is not a rate"),
        (&["job", "limit", "1kbit", &held], 2, "at least 64.0 kbit/s"),
        (&["job", "limit", "1mbit", "77"], 3, "no job 77"),
        (
            &["job", "host", "a/b", "--limit", "1mbit"],
            2,
            "no name of a machine",
        ),
        (
            &["job", "host", "a b", "--limit", "1mbit"],
            2,
            "no name of a machine",
        ),
        (&["job", "host", "site"], 2, "--limit"),
        (&["daemon", "--limit", "fast"], 2, "'fast'"),
        (
            &["job", "submit", "--by", "25:00", "cp", "a", "h:b"],
            2,
            "06:00",
        ),
        (
            &["job", "submit", "--by", "8h", "verify", "a", "h:b"],
            2,
            "move bytes",
        ),
    ] {
        service.ask(args).assert_failed(code, &[part]);
    }
    service.job(&["cancel", &held]);
    service
        .job(&["limit", "1mbit", &held])
        .assert_failed(4, &["is over"]);
}
