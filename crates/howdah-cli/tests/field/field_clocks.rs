//! Clocks that are wrong: of one side, hours or years apart, or set while a copy runs; and times of files that have not come yet.

#![cfg(target_os = "linux")]

use crate::support::place::{content, hash_of};
use crate::support::process::{Done, Input, Server};
use crate::support::relay::{Fate, Relay, Way};
use crate::support::ways::every_way;
use crate::support::{HOWDAH, Host, Site};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

const MIB: usize = 1 << 20;

/// What sets the clock of one process; without it, that is printed.
fn faketime() -> Option<String> {
    let arch = std::env::consts::ARCH;
    let places = [
        std::env::var("HOWDAH_FAKETIME").unwrap_or_default(),
        format!("/usr/lib/{arch}-linux-gnu/faketime/libfaketimeMT.so.1"),
        "/usr/lib64/faketime/libfaketimeMT.so.1".to_owned(),
        "/usr/lib/faketime/libfaketimeMT.so.1".to_owned(),
    ];
    let found = places.into_iter().find(|path| Path::new(path).is_file());
    if found.is_none() {
        println!("skipped: no libfaketime here, which sets the clock of one process");
    }
    found
}

/// howdah with a clock that a file sets, now and then.
fn with_clock(library: &str, clock: &str) -> Command {
    let mut command = Command::new(HOWDAH);
    command
        .env("LD_PRELOAD", library)
        .env("FAKETIME_TIMESTAMP_FILE", clock)
        .env("FAKETIME_NO_CACHE", "1")
        // As the kernel keeps it: only the wall clock is ever set.
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    command
}

fn make_tree(at: &str) {
    fs::create_dir_all(format!("{at}/sub")).unwrap();
    for i in 0..100 {
        let bytes = content(&format!("clock {i}"), 20_000);
        fs::write(format!("{at}/sub/{i}"), bytes).unwrap();
    }
    fs::write(format!("{at}/large"), content("clock", 9 * MIB)).unwrap();
}

fn assert_same(a: &str, b: &str) {
    for name in ["large", "sub/0", "sub/99"] {
        let (a, b) = (format!("{a}/{name}"), format!("{b}/{name}"));
        assert_eq!(hash_of(&a), hash_of(&b), "{name}");
        let time = |path: &str| fs::metadata(path).unwrap().modified().unwrap();
        assert_eq!(time(&a), time(&b), "{name}");
    }
}

#[test]
fn one_side_s_clock_may_be_hours_and_years_wrong() {
    let Some(library) = faketime() else {
        return;
    };
    let site = Site::new(120);
    make_tree(&site.file("tree"));
    let (clock, list) = (site.file("clock"), site.file("list"));
    for wrong in ["-9h", "+9h", "-20y", "+20y"] {
        fs::write(&clock, wrong).unwrap();
        // The server's, then the client's.
        for server_s in [true, false] {
            let serve = ["serve", "--listen", "127.0.0.1:0", "--root", &site.root("")];
            let server = if server_s {
                let command = with_clock(&library, &clock);
                Server::new(site.start_by(command, "server", &serve, Input::None))
            } else {
                site.serve()
            };
            let howdah = |args: &[&str]| -> Done {
                let command = if server_s {
                    Command::new(HOWDAH)
                } else {
                    with_clock(&library, &clock)
                };
                let args = [&args[..1], &["--json", "--accept-new"], &args[1..]].concat();
                let done = site
                    .start_by(command, "client", &args, Input::None)
                    .finish();
                assert_eq!(done.code, Some(0), "{wrong} {args:?}: {}", done.err);
                done
            };
            let (tree, back) = (site.file("tree"), site.file("back"));
            let there = server.url("there");
            howdah(&["cp", "-r", "--manifest", &list, &tree, &there]);
            assert_eq!(fs::read_to_string(&list).unwrap().lines().count(), 101);
            let again = howdah(&["sync", &tree, &there]);
            assert_eq!(again.json()["tree"]["files"], 0, "{}", again.err);
            howdah(&["cp", "-r", &there, &back]);
            assert_same(&tree, &back);
            let done = site.run(
                Host::Here,
                "client",
                &["verify", "-a", "--accept-new", &tree, &there],
                Input::None,
            );
            assert_eq!(done.code, Some(0), "{}", done.err);
            server.stop();
            fs::remove_dir_all(&back).unwrap();
            fs::remove_dir_all(site.root("there")).unwrap();
        }
    }
    site.assert_nothing_half_done();
}

/// Nothing waits for an hour, ends early or takes a step for a loss, a change or an age.
#[test]
fn a_clock_that_is_set_during_a_copy_changes_nothing() {
    let Some(library) = faketime() else {
        return;
    };
    let site = Site::new(120);
    make_tree(&site.file("tree"));
    make_tree(&site.root("tree"));
    let (clock, list) = (site.file("clock"), site.file("list"));
    fs::write(&clock, "+0").unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--root", &site.root("")];
    let command = with_clock(&library, &clock);
    let server = Server::new(site.start_by(command, "server", &serve, Input::None));
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let (there, back) = (relay.url("there"), site.file("back"));
    let (tree, far) = (site.file("tree"), relay.url("tree"));
    for (way, from, to) in [(Way::ToServer, &tree, &there), (Way::ToClient, &far, &back)] {
        let args = [
            "cp",
            "-r",
            "--json",
            "--accept-new",
            "--limit",
            "60mbit",
            "--manifest",
            &list,
            from,
            to,
        ];
        let client = site.start_by(with_clock(&library, &clock), "client", &args, Input::None);
        for (at, step) in [(2, "-9h"), (4, "+9h"), (6, "-2y"), (8, "+0")] {
            relay.await_bytes(way, at << 20, site.limit());
            fs::write(&clock, step).unwrap();
        }
        let done = client.finish();
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert_eq!(fs::read_to_string(&list).unwrap().lines().count(), 101);
    }
    assert_same(&tree, &site.root("there"));
    assert_same(&site.root("tree"), &back);
    server.stop();
    site.assert_nothing_half_done();
}

/// Files from a machine whose clock is ahead: copied once, never "new" again, and rules about ages take them as of now.
#[test]
fn times_that_have_not_come_yet_are_times_like_others() {
    every_way(240, |way| {
        let (source, target) = ((way.source)("tree"), (way.target)("there"));
        make_tree(&source);
        let hours = |hours: u64| SystemTime::now() + Duration::from_secs(hours * 3600);
        for (i, ahead) in [1, 30, 24 * 365 * 10].into_iter().enumerate() {
            let file = fs::File::options()
                .write(true)
                .open(format!("{source}/sub/{i}"));
            file.unwrap().set_modified(hours(ahead)).unwrap();
        }
        let dir = fs::File::open(format!("{source}/sub")).unwrap();
        dir.set_modified(hours(5)).unwrap();
        way.ok(&["sync"], "tree", "there");
        assert_same(&source, &target);
        let again = way.ok(&["sync"], "tree", "there");
        assert_eq!(
            again.json()["tree"]["files"],
            0,
            "{}: {}",
            way.what,
            again.err
        );
        let again = way.ok(&["sync", "--update"], "tree", "there");
        assert_eq!(
            again.json()["tree"]["files"],
            0,
            "{}: {}",
            way.what,
            again.err
        );
        // What is newer at the destination stays with --update, however far ahead.
        fs::write(format!("{target}/sub/0"), "newer").unwrap();
        let file = fs::File::options()
            .write(true)
            .open(format!("{target}/sub/0"));
        file.unwrap().set_modified(hours(2)).unwrap();
        way.ok(&["sync", "--update"], "tree", "there");
        assert_eq!(fs::read(format!("{target}/sub/0")).unwrap(), b"newer");
        fs::remove_dir_all(&target).unwrap();
        way.ok(&["sync", "--max-age", "1h"], "tree", "there");
        assert_same(&source, &target);
        fs::remove_dir_all(&target).unwrap();
        way.ok(&["sync", "--min-age", "1h"], "tree", "there");
        assert!(
            !fs::exists(format!("{target}/sub/0")).unwrap(),
            "{}",
            way.what
        );
        let _ = fs::remove_dir_all(&target);
        fs::remove_dir_all(&source).unwrap();
    });
}
