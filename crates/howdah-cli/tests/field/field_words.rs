//! What a copy says of itself is so: what limited it, which files are under way, what was sent again.

use crate::support::place::content;
use crate::support::process::{Done, Input, Process};
use crate::support::relay::{Fate, Relay};
use crate::support::{Host, Site};
use std::fs;
use std::process::Command;

#[track_caller]
fn bottleneck(done: &Done) -> String {
    assert_eq!(done.code, Some(0), "{}", done.err);
    done.json()["bottleneck"].as_str().unwrap().to_owned()
}

/// A tree of small files, and a directory.
fn tree(at: &str) {
    fs::create_dir_all(format!("{at}/sub")).unwrap();
    for i in 0..40 {
        fs::write(format!("{at}/sub/{i}"), content(&i.to_string(), 20_000)).unwrap();
    }
}

/// Makes copies until the limit explains one's time, and tells that it says so: a disk that is slow just then is what limits it.
#[track_caller]
fn says_rate_cap(limit_mbit: f64, mut copy: impl FnMut(usize) -> Done) {
    for attempt in 0..8 {
        let done = copy(attempt);
        let verdict = bottleneck(&done);
        let copied = done.json();
        let capped_seconds = copied["bytes"].as_f64().unwrap() * 8e-6 / limit_mbit;
        // The verdict is "it was the limit" from 0.6 on, so at 0.7 it has to be.
        if capped_seconds >= 0.7 * copied["seconds"].as_f64().unwrap() || verdict == "rate cap" {
            assert_eq!(verdict, "rate cap", "{copied}");
            return;
        }
        eprintln!("attempt {attempt}: the machine was slower than the limit: {copied}");
    }
    panic!("no copy of eight went at {limit_mbit} Mbit/s");
}

#[test]
fn o4_a_limit_that_is_reached_is_what_limited_the_copy() {
    let site = Site::new(120);
    let server = site.serve();
    for (name, bytes) in [("small", 200_000), ("large", 3 << 20)] {
        fs::write(site.file(name), content(name, bytes)).unwrap();
        fs::write(site.root(name), content(name, bytes)).unwrap();
    }
    tree(&site.file("tree"));
    tree(&site.root("tree"));
    for (limit_mbit, name, flags) in [
        (4.0, "small", &[][..]),
        (20.0, "large", &[]),
        (10.0, "tree", &["-r"]),
    ] {
        let limit = format!("{limit_mbit}mbit");
        let (ours, theirs) = (site.file(name), server.url(name));
        says_rate_cap(limit_mbit, |attempt| {
            let there = server.url(&format!("{name}.{attempt}"));
            let args = [&["--limit", &limit], flags, &[&ours, &there]].concat();
            site.copy_with(Host::Here, &args, Input::None)
        });
        says_rate_cap(limit_mbit, |attempt| {
            let here = site.file(&format!("{name}.{attempt}"));
            let args = [&["--limit", &limit], flags, &[&theirs, &here]].concat();
            site.copy_with(Host::Here, &args, Input::None)
        });
    }
    // Of the environment.
    says_rate_cap(4.0, |attempt| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_howdah"));
        let url = server.url(&format!("of_environment.{attempt}"));
        command
            .args(["cp", "--json", "--accept-new", &site.file("small"), &url])
            .env("HOWDAH_CONFIG_DIR", site.config("client"))
            .env("XDG_RUNTIME_DIR", site.run_dir())
            .env("HOWDAH_LIMIT", "4mbit");
        Process::start(command, Input::None, site.limit()).finish()
    });
    // And one that is far away says nothing.
    let args = [
        "--limit",
        "100gbit",
        &site.file("large"),
        &server.url("fast"),
    ];
    let done = site.copy_with(Host::Here, &args, Input::None);
    assert_ne!(bottleneck(&done), "rate cap");
}

#[test]
fn o4_the_limit_of_a_key_is_one_in_both_directions() {
    let site = Site::new(120);
    site.grant("max-rate=\"20mbit\"");
    let server = site.serve();
    fs::write(site.file("f"), content("f", 4 << 20)).unwrap();
    fs::write(site.root("f"), content("f", 4 << 20)).unwrap();
    tree(&site.file("tree"));
    fs::copy(site.file("f"), site.file("tree/f")).unwrap();
    for (flags, from, to) in [
        (&[][..], site.file("f"), server.url("new")),
        (&[], server.url("f"), site.file("back")),
        (&["-r"], site.file("tree"), server.url("tree")),
    ] {
        says_rate_cap(20.0, |attempt| {
            let to = format!("{to}.{attempt}");
            let args = [flags, &[&from, &to]].concat();
            site.copy_with(Host::Here, &args, Input::None)
        });
    }
}

/// What `--json` said to be under way.
fn names(done: &Done) -> Vec<Vec<String>> {
    let text = String::from_utf8_lossy(&done.out).into_owned();
    let events = text.lines().filter_map(|l| serde_json::from_str(l).ok());
    events
        .filter(|event: &serde_json::Value| event["event"] == "progress")
        .filter(|event| event["bytes"].as_u64() > Some(0))
        .map(|event| serde_json::from_value(event["current"].clone()).unwrap())
        .collect()
}

#[test]
fn o6_the_file_that_moves_is_the_one_that_is_named() {
    let site = Site::new(120);
    let server = site.serve();
    for top in [site.file("t"), site.root("t")] {
        fs::create_dir(&top).unwrap();
        fs::write(format!("{top}/a-small"), "x").unwrap();
        fs::write(format!("{top}/large"), content("large", 12 << 20)).unwrap();
    }
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    for (from, to) in [
        (site.file("t"), relay.url("new")),
        (relay.url("t"), site.file("back")),
    ] {
        let args = ["-r", "--limit", "30mbit", &from, &to];
        let done = site.copy_with(Host::Here, &args, Input::None);
        assert_eq!(done.code, Some(0), "{}", done.err);
        let names = names(&done);
        assert!(names.len() >= 2, "{names:?}");
        // The first may still have the small one beside it.
        for (at, named) in names.iter().enumerate() {
            assert!(
                named.iter().any(|name| name.ends_with("large")),
                "{at}: {names:?}"
            );
        }
        assert_eq!(names.last().unwrap().len(), 1, "{names:?}");
    }
}
