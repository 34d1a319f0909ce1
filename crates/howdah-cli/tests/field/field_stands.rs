//! T35: a side that stood still (stopped, suspended, moved to another machine) for longer than the other one's patience. The copy
//! ends well by itself, the two sides are equal, and nothing is left over.
#![cfg(target_os = "linux")]

use crate::support;
use crate::support::place::{content, hash_of};
use crate::support::process::{Input, Process};
use crate::support::sshd::{Sshd, await_end, far_processes};
use crate::support::{Host, Site};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const SIZE: usize = 40 << 20;
const LOST: &str = "connecting again for up to";
const PATIENCE: Duration = Duration::from_mins(1);
/// A loss is noticed soon; the copies are slow enough to be stopped in their middle.
const OPTIONS: [&str; 7] = [
    "--json",
    "--idle-timeout",
    "1s",
    "--reconnect",
    "2min",
    "--limit",
    "100mbit",
];

/// A file, or a tree with many small files and a large one.
fn make(at: &str, tree: bool) {
    if !tree {
        return fs::write(at, content("still", SIZE)).unwrap();
    }
    fs::create_dir_all(format!("{at}/sub")).unwrap();
    for i in 0..300 {
        fs::write(
            format!("{at}/sub/{i}"),
            content(&format!("small {i}"), 20_000 + i),
        )
        .unwrap();
    }
    fs::write(format!("{at}/large"), content("large", SIZE)).unwrap();
}

/// All names below, without their top.
fn names(top: &Path, below: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        found.push(path.strip_prefix(top).unwrap().display().to_string());
        if path.is_dir() {
            names(top, &path, found);
        }
    }
}

#[track_caller]
fn assert_equal(one: &str, other: &str) {
    if !Path::new(one).is_dir() {
        assert_eq!(hash_of(one), hash_of(other));
        return;
    }
    let [mut here, mut there] = [one, other].map(|top| {
        let mut found = Vec::new();
        names(Path::new(top), Path::new(top), &mut found);
        found
    });
    here.sort();
    there.sort();
    assert_eq!(here, there);
    for name in here {
        let [one, other] = [one, other].map(|top| format!("{top}/{name}"));
        if !Path::new(&one).is_dir() {
            assert_eq!(hash_of(&one), hash_of(&other), "{name}");
        }
    }
}

/// Waits until something has come to an unfinished file in `place`.
fn await_part(site: &Site, place: &str) {
    let has_come = |part: &std::path::PathBuf| {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata(part).is_ok_and(|part| part.blocks() > (4 << 20) / 512)
    };
    while !support::parts(place).iter().any(has_come) {
        assert!(Instant::now() < site.limit(), "nothing comes");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[track_caller]
fn assert_well(site: &Site, copy: Process, (from, to): (&str, &str)) {
    let done = copy.finish();
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_equal(from, to);
    site.assert_nothing_half_done();
}

/// Each case: the command, and whether it goes up.
const CASES: [(&[&str], bool); 6] = [
    (&["cp"], true),
    (&["cp"], false),
    (&["cp", "-r"], true),
    (&["cp", "-a"], false),
    (&["sync", "--delete"], true),
    (&["sync", "--delete"], false),
];

fn is_tree(what: &[&str]) -> bool {
    what.len() > 1
}

#[test]
fn t35_a_server_or_client_that_stood_still_goes_on() {
    let site = Site::new(400);
    let mut server = site.serve();
    for (number, (what, up)) in CASES.into_iter().enumerate() {
        for client_stops in [false, true] {
            let name = format!("{number}{client_stops}");
            let (here, there) = (site.file(&name), site.root(&name));
            let (from, to) = if up { (&here, &there) } else { (&there, &here) };
            make(from, is_tree(what));
            let url = server.url(&name);
            let ends = if up { [&*here, &*url] } else { [&*url, &*here] };
            let args = [what, &["--accept-new"], &OPTIONS, &ends].concat();
            let mut copy = site.start(Host::Here, "client", &args, Input::None);
            await_part(&site, &if up { site.root("") } else { site.file("") });
            if client_stops {
                copy.signal(Signal::STOP);
                server.await_line("failed: ", PATIENCE);
                copy.signal(Signal::CONT);
            } else {
                server.signal(Signal::STOP);
                copy.await_line(LOST, PATIENCE);
                server.signal(Signal::CONT);
            }
            assert_well(&site, copy, (from, to));
        }
    }
    server.stop();
}

#[test]
fn t35_over_ssh_a_side_that_stood_still_goes_on() {
    let site = Site::new(400);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let ssh = sshd.ssh();
    for (number, (what, up)) in CASES.into_iter().enumerate() {
        for client_stops in [false, true] {
            let name = format!("{number}{client_stops}");
            let (here, there) = (site.file(&name), site.root(&name));
            let (from, to) = if up { (&here, &there) } else { (&there, &here) };
            make(from, is_tree(what));
            let url = format!("far:{name}");
            let ends = if up { [&*here, &*url] } else { [&*url, &*here] };
            let args = [what, &["--ssh", &ssh], &OPTIONS, &ends].concat();
            let mut copy = site.start(Host::Here, "nobody", &args, Input::None);
            await_part(&site, &if up { site.root("") } else { site.file("") });
            let far: Vec<Pid> = far_processes(&site, "internal far-end");
            assert!(!far.is_empty());
            if client_stops {
                copy.signal(Signal::STOP);
                for pid in far {
                    await_end(pid, PATIENCE);
                }
                copy.signal(Signal::CONT);
            } else {
                for &pid in &far {
                    kill_process(pid, Signal::STOP).unwrap();
                }
                copy.await_line(LOST, PATIENCE);
                // Another one has been started meanwhile, or will be.
                for &pid in &far {
                    let _ = kill_process(pid, Signal::CONT);
                }
            }
            assert_well(&site, copy, (from, to));
        }
    }
}

/// It comes back while another far end is at the same place.
#[test]
fn t35_a_far_end_that_comes_back_late_changes_nothing() {
    let site = Site::new(300);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let ssh = sshd.ssh();
    for (number, tree) in [false, true].into_iter().enumerate() {
        let (here, there) = (
            site.file(&number.to_string()),
            site.root(&number.to_string()),
        );
        make(&here, tree);
        let url = format!("far:{number}");
        let what = if tree { &["cp", "-r"][..] } else { &["cp"] };
        let args = [what, &["--ssh", &ssh], &OPTIONS, &[&here, &url]].concat();
        let mut copy = site.start(Host::Here, "nobody", &args, Input::None);
        await_part(&site, &site.root(""));
        let far = far_processes(&site, "internal far-end");
        for &pid in &far {
            kill_process(pid, Signal::STOP).unwrap();
        }
        copy.await_line(LOST, PATIENCE);
        copy.await_line("connected again", PATIENCE);
        for &pid in &far {
            // ssh's end may have taken it along.
            let _ = kill_process(pid, Signal::CONT);
        }
        let done = copy.finish();
        assert_eq!(done.code, Some(0), "{}", done.err);
        for pid in far {
            await_end(pid, PATIENCE);
        }
        assert_equal(&here, &there);
        site.assert_nothing_half_done();
    }
}
