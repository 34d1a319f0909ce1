//! F01, F02: `kill -9` of either side of a copy over ssh, over TCP, and between two other machines; then the
//! same command again.
#![cfg(target_os = "linux")]

use crate::support::place::{content, hash_of};
use crate::support::process::Input;
use crate::support::sshd::{Sshd, await_end, await_no_far_processes, far_processes};
use crate::support::{Host, Site, parts};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::time::Duration;

/// Of the file; not a multiple of anything.
const SIZE: usize = (150 << 20) + 12_345;
/// Somebody is killed when so much of it was written.
const KILL_AT: u64 = 120 << 20;
/// What was written and is not claimed yet: the receiver's debt to its disk at most ...
const DEBT: u64 = 64 << 20;
/// ... and groups in which something was missing.
const GROUPS_WITH_HOLES: u64 = 16 << 20;
/// Slow enough that it is noticed in time.
const SLOW: [&str; 2] = ["--limit", "800mbit"];

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Victim {
    Sender,
    Receiver,
    /// Of a copy between two others: who started both.
    Starter,
}

/// How much of an unfinished file below `site` has been written.
fn written(site: &Site) -> u64 {
    let lengths = parts(site.path())
        .into_iter()
        .filter_map(|part| fs::metadata(part).ok());
    lengths.map(|meta| meta.len()).max().unwrap_or(0)
}

fn await_written(site: &Site, bytes: u64) {
    while written(site) < bytes {
        assert!(
            std::time::Instant::now() < site.limit(),
            "only {} bytes come",
            written(site)
        );
        std::thread::yield_now();
    }
}

/// Whether that process has an unfinished file open.
fn is_receiver(pid: Pid) -> bool {
    let fds = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()));
    let names = fds.into_iter().flatten().flatten();
    let mut paths = names.filter_map(|fd| fs::read_link(fd.path()).ok());
    paths.any(|path| path.to_string_lossy().contains(".howdah-part"))
}

/// A copy that is killed, and its second half.
struct Case<'a> {
    options: &'a [&'a str],
    from: &'a str,
    to: &'a str,
    /// Where it lies in the end.
    lies: &'a str,
    victim: Victim,
    /// The side that runs the command; `None`: neither.
    starter: Option<Victim>,
}

fn killed_once(site: &Site, sshd: &Sshd, case: &Case<'_>) {
    let what = format!(
        "{:?} {} {}: {:?}",
        case.options, case.from, case.to, case.victim
    );
    let args = [&SLOW[..], case.options, &[case.from, case.to]].concat();
    let copy = sshd.start_copy(site, Host::Here, &args, Input::None);
    await_written(site, KILL_AT);
    let far = far_processes(site, "internal far-end");
    if case.victim == Victim::Starter || case.starter == Some(case.victim) {
        copy.signal(Signal::KILL);
    } else {
        let receives = case.victim == Victim::Receiver;
        let victims: Vec<Pid> = far
            .iter()
            .copied()
            .filter(|pid| is_receiver(*pid) == receives)
            .collect();
        let [pid] = victims[..] else {
            panic!("{what}: {victims:?} of {far:?}");
        };
        kill_process(pid, Signal::KILL).unwrap();
    }
    let failed = copy.finish();
    assert_ne!(failed.code, Some(0), "{what}");
    for pid in far {
        await_end(pid, Duration::from_secs(20));
    }
    assert!(
        !fs::exists(case.lies).unwrap(),
        "{what}: it is not complete"
    );
    let written = written(site);

    let args = [case.options, &[case.from, case.to]].concat();
    let done = sshd.copy(site, &args);
    done.assert_copied(SIZE as u64, "blake3");
    assert_eq!(hash_of(case.lies), hash_of(&site.file("source")), "{what}");
    let resumed = done.json()["resumed_bytes"].as_u64().unwrap();
    let twice = written.saturating_sub(resumed);
    println!("{what}: {written} bytes were written, {twice} of them twice");
    assert!(twice <= DEBT + GROUPS_WITH_HOLES, "{what}: {twice}");
    assert!(resumed > 0, "{what}");
    fs::remove_file(case.lies).unwrap();
    site.assert_nothing_half_done();
    await_no_far_processes(site, "internal");
}

fn site_with_source() -> Site {
    let site = Site::new(200);
    let source = content("resuming far", SIZE);
    for path in [site.file("source"), site.root("source")] {
        fs::write(path, &source).unwrap();
    }
    site
}

fn there_and_back(options: &[&str]) {
    let site = site_with_source();
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let (here, back, there) = (site.file("source"), site.file("back"), site.root("there"));
    for victim in [Victim::Sender, Victim::Receiver] {
        for (from, to, lies, starter) in [
            (&*here, "far:there", &*there, Victim::Sender),
            ("far:source", &*back, &*back, Victim::Receiver),
        ] {
            let case = Case {
                options,
                from,
                to,
                lies,
                victim,
                starter: Some(starter),
            };
            killed_once(&site, &sshd, &case);
        }
    }
}

#[test]
fn f01_f02_over_ssh_either_side_is_killed_and_the_copy_goes_on() {
    there_and_back(&[]);
}

#[test]
fn f01_f02_over_tcp_either_side_is_killed_and_the_copy_goes_on() {
    there_and_back(&["--transport", "tcp"]);
}

#[test]
fn f01_f02_between_two_others_anybody_is_killed_and_the_copy_goes_on() {
    let site = site_with_source();
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let there = site.root("there");
    for victim in [Victim::Sender, Victim::Receiver, Victim::Starter] {
        let case = Case {
            options: &[],
            from: "far:source",
            to: "far2:there",
            lies: &there,
            victim,
            starter: None,
        };
        killed_once(&site, &sshd, &case);
    }
}
