//! `howdah daemon` and `howdah job`: jobs from submission to end, and daemons that are killed at any moment.
#![cfg(target_os = "linux")]

use crate::support;
use crate::support::place::content;
use crate::support::process::{Input, Process, ok};
use crate::support::service::{PATIENCE, Service};
use crate::support::{HOWDAH, Host, Site, serve_as_us};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn same(a: impl AsRef<Path>, b: impl AsRef<Path>) -> bool {
    fs::read(a).unwrap() == fs::read(b).unwrap_or_default()
}

#[test]
fn a_job_is_submitted_runs_and_is_told_of() {
    let site = Site::new(120);
    let server = site.serve();
    let (from, to) = (site.file("big"), server.url("big"));
    fs::write(&from, content("big", 3 << 20)).unwrap();
    let service = Service::new(&site, &[]);
    let job = service.submit(&["--label", "first"], &["cp", "--accept-new", &from, &to]);
    let done = service.job(&["wait", &job]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(same(&from, site.root("big")));
    let shown = service.show(&job);
    assert_eq!(shown["state"], "done", "{shown}");
    assert_eq!(shown["exit_code"], 0, "{shown}");
    assert_eq!(shown["hosts"][0], "127.0.0.1", "{shown}");
    assert_eq!(shown["last"]["event"], "summary", "{shown}");
    assert_eq!(shown["attempts"].as_array().unwrap().len(), 1, "{shown}");
    let listed = service.job(&["list"]);
    let listed = String::from_utf8(listed.out).unwrap();
    assert!(
        listed.starts_with(&format!("{job}  done  cp ")) && listed.contains("[first]"),
        "{listed}"
    );
    let list = |options: &[&str]| {
        let listed = ok(&service.job(&[&["list"], options].concat()));
        listed.lines().count()
    };
    for (options, count) in [
        (&["--label", "first"][..], 1),
        (&["--label", "fir"], 0),
        (&["--host", "127.0.0.1", "--is", "done"], 1),
        (&["--host", "127.0.0.2"], 0),
        (&["--text", "BIG accept"], 1),
        (&["--text", "100% & more"], 0),
        (&["--before", &job], 0),
        (&["--before", "100"], 1),
    ] {
        assert_eq!(list(options), count, "{options:?}");
    }
    let log = service.job(&["log", "--json", &job]);
    let log = String::from_utf8(log.out).unwrap();
    let events: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events.first().unwrap()["event"], "start", "{log}");
    assert_eq!(events.last().unwrap()["event"], "summary", "{log}");
    server.stop();
}

#[test]
fn a_submission_given_twice_is_one_job() {
    let site = Site::new(120);
    let service = Service::new(&site, &[]);
    let first = service.submit(&["--id", "x", "--hold"], &["verify", "a", "b"]);
    assert_eq!(
        service.submit(&["--id", "x", "--hold"], &["verify", "a", "b"]),
        first
    );
    let other = service.job(&["submit", "--id", "x", "--hold", "verify", "a", "c"]);
    other.assert_failed(4, &["was submitted before", "something else"]);
}

#[test]
fn a_job_fails_as_its_command_does_and_who_follows_it_too() {
    let site = Site::new(120);
    let service = Service::new(&site, &[]);
    let nothing = site.file("nothing");
    let job = service.submit(&["--hold"], &["verify", &nothing, &nothing]);
    let follower = service.submit(&["--after", &job], &["verify", &nothing, &nothing]);
    assert_eq!(service.show(&follower)["state"], "waiting");
    assert_eq!(service.job(&["release", &job]).code, Some(0));
    let done = service.job(&["wait", &job]);
    assert_eq!(done.code, Some(3), "{}", done.err);
    let shown = service.await_job(&follower, |job| job["state"] == "failed");
    assert!(
        shown["reason"]
            .as_str()
            .unwrap()
            .contains(&format!("job {job}")),
        "{shown}"
    );
    assert_eq!(service.starts().get(&follower), None);
}

#[test]
fn what_a_job_has_said_and_nobody_can_print_is_no_fault_of_the_daemon() {
    let site = Site::new(120);
    let service = Service::new(&site, &[]);
    let nothing = site.file("nothing");
    let job = service.submit(&[], &["verify", &nothing, &nothing]);
    assert_eq!(service.job(&["wait", &job]).code, Some(3));
    for (to, code) in [(">/dev/null", 0), (">/dev/full", 1), (">&-", 1)] {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("exec {HOWDAH} job log {job} {to}")])
            .env("HOWDAH_CONFIG_DIR", site.config("client"))
            .env("XDG_RUNTIME_DIR", site.run_dir());
        let done = Process::start(command, Input::None, site.limit()).finish();
        assert_eq!(done.code, Some(code), "{to}: {}", done.err);
        assert!(!done.err.contains("went away"), "{to}: {}", done.err);
    }
}

#[test]
fn what_fails_without_an_event_that_tells_why_is_told_in_its_own_words() {
    let site = Site::new(120);
    let service = Service::new(&site, &[]);
    let [a, b, out] = ["a", "b", "out"].map(|name| site.file(name));
    for (dir, text) in [(&a, "a"), (&b, "b")] {
        fs::create_dir(dir).unwrap();
        fs::write(format!("{dir}/file"), text).unwrap();
    }
    let nothing = site.file("nothing.toml");
    for (command, part) in [
        (&["verify", &*a, &b][..], "differences"),
        (&["lab", "run", "--out", &out, &nothing], &nothing),
    ] {
        let job = service.submit(&[], command);
        let job = service.await_job(&job, |job| job["state"] == "failed");
        assert!(job["reason"].as_str().unwrap().contains(part), "{job}");
    }
}

#[test]
fn what_no_command_line_can_say_and_programs_are_refused_at_once() {
    let site = Site::new(120);
    let service = Service::new(&site, &[]);
    for (command, part) in [
        (
            &["cp", "--ssh", "sh -c id", "a", "h:b"][..],
            "program to run",
        ),
        (
            &["cp", "--remote-howdah", "x", "a", "h:b"],
            "program to run",
        ),
        (&["cp", "a", "--frobnicate", "h:b"], "--frobnicate"),
        (&["cp", "-", "h:b"], "standard input"),
        (&["serve", "--root", "/"], "a job is cp"),
        (&["verify", "a"], "required"),
    ] {
        let done = service.job(&[&["submit", "--"], command].concat());
        done.assert_failed(2, &[part]);
    }
    service
        .job(&["show", "77"])
        .assert_failed(3, &["no job 77"]);
    service
        .job(&["submit", "--after", "77", "verify", "a", "b"])
        .assert_failed(4, &["no job 77"]);
    let open = site.file("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, PermissionsExt::from_mode(0o755)).unwrap();
    let done = site.run(
        Host::Here,
        "client",
        &["daemon", "--state", &open],
        Input::None,
    );
    done.assert_failed(4, &["entered by others"]);
    let second = site.run(Host::Here, "client", &["daemon"], Input::None);
    second.assert_failed(4, &["another daemon"]);
}

#[test]
fn without_a_daemon_a_client_says_so() {
    let site = Site::new(60);
    let done = site.run(Host::Here, "client", &["job", "list"], Input::None);
    done.assert_failed(5, &["no daemon answers", "howdah daemon"]);
}

/// A copy that takes longer than the test.
fn slow(service: &Service<'_>, from: &str, to: &str) -> String {
    let job = service.submit(&[], &["cp", "--accept-new", "--limit", "1mbit", from, to]);
    service.await_job(&job, |job| job["last"]["event"] == "progress");
    job
}

#[test]
fn a_running_job_is_cancelled_and_a_held_one_too() {
    let site = Site::new(120);
    let server = site.serve();
    let (from, to) = (site.file("big"), server.url("big"));
    fs::write(&from, content("big", 8 << 20)).unwrap();
    let service = Service::new(&site, &[]);
    let job = slow(&service, &from, &to);
    service.job(&["hold", &job]).assert_failed(4, &["running"]);
    assert_eq!(service.job(&["cancel", &job]).code, Some(0));
    let done = service.job(&["wait", &job]);
    assert_eq!(done.code, Some(12), "{}", done.err);
    let shown = service.show(&job);
    assert_eq!(shown["state"], "cancelled", "{shown}");
    assert!(!Path::new(&site.root("big")).exists());
    service.job(&["cancel", &job]).assert_failed(4, &["over"]);
    let held = service.submit(&["--hold"], &["verify", "a", "b"]);
    assert_eq!(service.job(&["cancel", &held]).code, Some(0));
    assert_eq!(service.show(&held)["state"], "cancelled");
    server.stop();
}

#[test]
fn what_may_pass_is_tried_again_later() {
    let site = Site::new(120);
    let from = site.file("a");
    fs::write(&from, "a").unwrap();
    let service = Service::new(&site, &[]);
    // Nobody listens there.
    let job = service.submit(
        &[],
        &[
            "cp",
            "--accept-new",
            "--reconnect",
            "0",
            "--transport",
            "udp",
            &from,
            "howdah://127.0.0.1:9/a",
        ],
    );
    let shown = service.await_job(&job, |job| job["not_before_ms"].is_u64());
    assert_eq!(shown["state"], "waiting", "{shown}");
    assert_eq!(shown["exit_code"], 5, "{shown}");
    assert!(
        shown["reason"].as_str().unwrap().contains("code 5"),
        "{shown}"
    );
    assert!(
        shown["not_before_ms"].as_u64() > shown["attempts"][0]["ended_ms"].as_u64(),
        "{shown}"
    );
}

#[test]
fn a_copy_goes_on_while_there_is_no_daemon_and_the_next_one_finds_it() {
    let site = Site::new(180);
    let server = site.serve();
    let (from, to) = (site.file("big"), server.url("big"));
    fs::write(&from, content("big", 1 << 20)).unwrap();
    let mut service = Service::new(&site, &[]);
    let job = service.submit(&[], &["cp", "--accept-new", "--limit", "2mbit", &from, &to]);
    let before = service.await_job(&job, |job| job["last"]["event"] == "progress");
    service.kill();
    service.start(&[]);
    let after = service.show(&job);
    if after["state"] == "running" {
        assert_eq!(
            after["attempts"][0]["pid"], before["attempts"][0]["pid"],
            "{after}"
        );
    }
    service.kill();
    // It ends while nobody looks.
    let end = Instant::now() + PATIENCE;
    while !same(&from, site.root("big")) {
        assert!(Instant::now() < end);
    }
    service.start(&[]);
    let done = service.job(&["wait", &job]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(service.starts()[&job], 1);
    server.stop();
}

#[test]
fn a_daemon_killed_at_any_moment_loses_no_job_and_runs_none_twice() {
    // More of them: HOWDAH_TEST_KILLS=300 HOWDAH_TEST_SEED=7
    let number = |name: &str, usual: u64| std::env::var(name).map_or(usual, |n| n.parse().unwrap());
    let (kills, seed) = (
        number("HOWDAH_TEST_KILLS", 20),
        number("HOWDAH_TEST_SEED", 20),
    );
    let site = Site::new(100 + 10 * kills);
    let (a, b) = (site.file("a"), site.file("b"));
    fs::write(&a, content("a", 1 << 16)).unwrap();
    fs::write(&b, content("a", 1 << 16)).unwrap();
    let mut service = Service::new(&site, &["--max-running", "3"]);
    let mut random = support::random::SplitMix(seed);
    let mut jobs = Vec::new();
    for round in 0..kills {
        // Some are in the midst of being submitted when the daemon dies: then they are submitted again by the same name.
        let moment = Duration::from_micros(random.next() % 60_000);
        let names: Vec<_> = (0..3).map(|n| format!("{round}-{n}")).collect();
        let clients: Vec<_> = names
            .iter()
            .map(|name| {
                let args = [
                    "job",
                    "submit",
                    "--retries",
                    "0",
                    "--id",
                    name,
                    "verify",
                    &a,
                    &b,
                ];
                site.start(Host::Here, "client", &args, Input::None)
            })
            .collect();
        // Not a wait for anything: the moment is what is tried.
        std::thread::sleep(moment);
        service.kill();
        let told: Vec<_> = clients.into_iter().map(Process::finish).collect();
        service.start(&["--max-running", "3"]);
        for (name, done) in names.iter().zip(told) {
            let job = service.submit(&["--retries", "0", "--id", name], &["verify", &a, &b]);
            if done.code == Some(0) {
                let before = String::from_utf8(done.out).unwrap();
                assert_eq!(before.trim(), job, "what was answered is true");
            }
            jobs.push(job);
        }
    }
    for job in &jobs {
        let done = service.job(&["wait", job]);
        assert_eq!(
            done.code,
            Some(0),
            "job {job}: {}\n{}",
            done.err,
            service.show(job)
        );
    }
    let starts = service.starts();
    let mut given_up = 0;
    for job in &jobs {
        assert_eq!(starts[job], 1, "job {job}: {}", service.show(job));
        let shown = service.show(job);
        let attempts = shown["attempts"].as_array().unwrap();
        let (last, before) = attempts.split_last().unwrap();
        given_up += before.len();
        assert_eq!(last["ended"]["code"], 0, "{shown}");
        assert!(
            before
                .iter()
                .all(|attempt| attempt["ended"] == "never_began"),
            "{shown}"
        );
    }
    assert_eq!(starts.len(), jobs.len());
    println!(
        "{} jobs, {kills} kills, {given_up} attempts that never began",
        jobs.len()
    );
}

#[test]
fn nobody_else_can_ask() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be somebody else");
        return;
    }
    let site = Site::new(60);
    let service = Service::new(&site, &[]);
    // Even if the directory were open, the kernel says who asks.
    let mut open = Command::new("chmod");
    open.arg("-R").arg("a+rwX").arg(site.path());
    assert!(open.status().unwrap().success());
    let mut other = Command::new("setpriv");
    other.args([
        "--reuid",
        "65534",
        "--clear-groups",
        HOWDAH,
        "job",
        "list",
        "--state",
    ]);
    other.arg(service.dir());
    serve_as_us(&mut other);
    let Ok(done) = other.output() else {
        println!("skipped: there is no setpriv");
        return;
    };
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(4), "{said}");
    assert!(said.contains("somebody else"), "{said}");
}
