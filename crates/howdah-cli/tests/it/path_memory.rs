//! What a transfer learnt of a path is kept for the next one, and only for its user.
#![cfg(target_os = "linux")]

use crate::support::place::{content, hash_of, world};
use crate::support::process::{Input, Server};
use crate::support::{Host, Site};
use howdah_core::{Rate, Span};
use howdah_path::{PathConfig, QueueLimit};
use howdah_wan::WanConfig;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

/// Paths that the client remembers.
fn remembered(site: &Site) -> Vec<PathBuf> {
    let dir = fs::read_dir(site.config("client").join("paths"));
    dir.into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .collect()
}

fn doctor(site: &Site) -> String {
    let dir = site.file("");
    let done = site.run(
        Host::Here,
        "client",
        &["doctor", "--json", &dir],
        Input::None,
    );
    let report: serde_json::Value = serde_json::from_slice(&done.out).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let paths = checks.iter().find(|check| check["id"] == "paths").unwrap();
    assert_eq!(paths["state"], "ok");
    paths["text"].as_str().unwrap().to_owned()
}

/// A path that is slower than any machine: on loopback a start has no end while others take all of the processor.
fn path() -> WanConfig {
    let lane = PathConfig {
        rate: Some(Rate::from_mbit_per_sec(400)),
        queue: QueueLimit::Time(Span::from_millis(25)),
        delay: Span::from_millis(30),
        mtu: 9_000,
        ..PathConfig::default()
    };
    WanConfig {
        forward: lane.clone(),
        backward: lane,
        mtu: 9_000,
        ..WanConfig::default()
    }
}

#[test]
fn a_path_is_remembered_in_private_and_forgotten_when_told_so() {
    let site = Site::new(120);
    let Some(world) = world(&path()) else { return };
    let (near, far) = (Host::In(world.near()), Host::In(world.far()));
    let server = site.serve_at(far, "10.88.0.2:0", &site.root(""));
    let source = site.file("source");
    fs::write(&source, content("memory of paths", 12 << 20)).unwrap();
    let copy = |options: &[&str], source: &str, target: &str| {
        let args = [options, &["--limit", "2gbit", source, target]].concat();
        let done = site.copy_with(near, &args, Input::None);
        assert_eq!(done.code, Some(0), "{}", done.err);
    };
    copy(&["--no-memory"], &source, &server.url("none"));
    assert_eq!(remembered(&site), Vec::<PathBuf>::new());
    // A limit hides what the path can do.
    copy(&[], &source, &server.url("limited"));
    assert_eq!(remembered(&site), Vec::<PathBuf>::new());
    assert!(doctor(&site).contains("no path is remembered"));

    let put = |bytes: u64| {
        let source = format!("zero:{bytes}");
        let done = site.copy_with(near, &[&source, &server.url("null:")], Input::None);
        assert_eq!(done.code, Some(0), "{}", done.err);
    };
    // Start-up is over after some MiB, and a tenth of a second is seen: how much that is
    // depends on the machine.
    let files = (0..6)
        .map(|doublings| {
            put(20_000_000 << doublings);
            remembered(&site)
        })
        .find(|files| !files.is_empty())
        .unwrap_or_default();
    let [file] = &files[..] else {
        panic!("{files:?}");
    };
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(file), 0o600);
    assert_eq!(mode(file.parent().unwrap()), 0o700);
    assert!(fs::metadata(file).unwrap().len() <= 1_024);
    let text = doctor(&site);
    assert!(
        text.contains("1 path is remembered") && text.contains("10.88.0.2"),
        "{text}"
    );

    // With a memory, without its use, and with one that is damaged.
    let before = fs::read(file).unwrap();
    copy(&["--no-memory"], &source, &server.url("without"));
    assert_eq!(fs::read(file).unwrap(), before);
    for (name, damage) in [("warm", None), ("damaged", Some("\0\u{ff}garbage"))] {
        if let Some(damage) = damage {
            fs::write(file, damage).unwrap();
        }
        copy(&[], &source, &server.url(name));
        assert_eq!(hash_of(&site.root(name)), hash_of(&source));
    }
}

/// Whoever knows a path fills it with large packets at once: a little file then takes less of the wire.
#[test]
fn a_server_remembers_for_each_key_what_it_has_sent_to_it() {
    let site = Site::new(240);
    let Some(world) = world(&path()) else { return };
    let (near, far) = (Host::In(world.near()), Host::In(world.far()));
    let line = site.make_key("other");
    let keys = site.config("server").join("authorized_keys");
    let listed = fs::read_to_string(&keys).unwrap() + &line;
    fs::write(&keys, listed).unwrap();
    let get = |server: &Server, who: &str, bytes: u64, options: &[&str]| {
        let source = server.url(&format!("zero:{bytes}"));
        let copy = ["cp", "--json", "--accept-new", &source, "null:"];
        let done = site.run(near, who, &[&copy, options].concat(), Input::None);
        assert_eq!(done.code, Some(0), "{}", done.err);
        done.json()["wire_bytes"].as_u64().unwrap()
    };
    let wire_bytes = |server: &Server, who: &str, bytes: u64| get(server, who, bytes, &[]);
    let server = site.serve_at(far, "10.88.0.2:0", &site.root(""));
    let cold = wire_bytes(&server, "client", 30_000);
    let is_warm = |bytes: u64| bytes < cold * 3 / 4;
    assert!(!is_warm(wire_bytes(&server, "client", 30_000)));
    // A limit hides what the path can do, and who gives way takes less than it has.
    get(&server, "client", 40_000_000, &["--limit", "300mbit"]);
    get(&server, "client", 40_000_000, &["--policy", "background"]);
    for _ in 0..3 {
        assert!(!is_warm(wire_bytes(&server, "client", 30_000)), "held back");
    }
    // A busy machine may take longer for a handshake than the path did, and then begins cold.
    let (mut looks, mut learns) = (0, 20_000_000);
    while !is_warm(wire_bytes(&server, "client", 30_000)) {
        if looks % 10 == 0 {
            wire_bytes(&server, "client", learns);
            learns *= 2;
        }
        looks += 1;
        assert!(looks < 50, "it has learnt nothing");
    }
    for _ in 0..3 {
        assert!(
            !is_warm(wire_bytes(&server, "other", 30_000)),
            "of another key"
        );
    }
    server.stop();
    let server = site.serve_at(far, "10.88.0.2:0", &site.root(""));
    for _ in 0..3 {
        assert!(
            !is_warm(wire_bytes(&server, "client", 30_000)),
            "of another process"
        );
    }
}
