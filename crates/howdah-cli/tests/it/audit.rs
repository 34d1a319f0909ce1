//! What a server writes down of what it does for others.
#![cfg(target_os = "linux")]

use crate::support;
use crate::support::place::SmallDisk;
use crate::support::process::{Input, Server};
use crate::support::{Host, Site};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

const NOT_FOUND: i32 = 3;
const REFUSED: i32 = 4;
const PATIENCE: Duration = Duration::from_mins(1);

fn serve(site: &Site, more: &[&str]) -> Server {
    let (root, log) = (site.root(""), site.root("../audit/log"));
    fs::create_dir_all(site.path().join("audit")).unwrap();
    let args = [
        &["serve", "--listen", "127.0.0.1:0", "--root", &root][..],
        &["--audit", &log],
        more,
    ];
    Server::new(site.start(Host::Here, "server", &args.concat(), Input::None))
}

fn lines(site: &Site) -> Vec<Value> {
    let text = fs::read_to_string(site.path().join("audit/log")).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// What became of requests of that kind: event, first path, bytes.
fn ends<'a>(lines: &'a [Value], request: &str) -> Vec<(&'a str, &'a str, Option<u64>)> {
    let lines = lines.iter().filter(|line| line["request"] == request);
    lines
        .map(|line| {
            let path = line["paths"][0]["path"].as_str().unwrap();
            (
                line["event"].as_str().unwrap(),
                path,
                line["bytes"].as_u64(),
            )
        })
        .collect()
}

/// One hash of files, as docs/serve.md has it.
fn files_hash(files: &[(&str, &[u8])]) -> String {
    let mut lanes = [0_u16; 1_024];
    for (path, content) in files {
        let mut hasher = blake3::Hasher::new();
        hasher.update(blake3::hash(content).as_bytes());
        hasher.update(&(content.len() as u64).to_be_bytes());
        hasher.update(path.as_bytes());
        let mut part = [0; 2_048];
        hasher.finalize_xof().fill(&mut part);
        for (lane, bytes) in lanes.iter_mut().zip(part.as_chunks().0) {
            *lane = lane.wrapping_add(u16::from_le_bytes(*bytes));
        }
    }
    let sum: Vec<u8> = lanes.iter().flat_map(|lane| lane.to_le_bytes()).collect();
    blake3::hash(&sum).to_hex().to_string()
}

#[test]
fn a_tree_has_one_hash_of_what_was_moved_which_both_ends_and_everybody_else_can_make() {
    let site = Site::new(120);
    // One that goes with others, one that goes by itself, and one of several ranges of a comparison.
    let large = support::place::content("large", (9 << 20) + 5);
    let small = &b"small"[..];
    let tree = site.file("tree");
    fs::create_dir_all(format!("{tree}/sub")).unwrap();
    fs::write(format!("{tree}/sub/small"), small).unwrap();
    fs::write(format!("{tree}/large"), &large).unwrap();
    fs::write(format!("{tree}/sub/empty"), "").unwrap();
    let server = serve(&site, &[]);
    let run = |args: &[&str]| {
        let args = [&[args[0], "--json", "--accept-new"], &args[1..]].concat();
        let done = site.run(Host::Here, "client", &args, Input::None);
        assert_eq!(done.code, Some(0), "{}", done.err);
        done.json()["blake3"].as_str().map(str::to_owned)
    };
    let [there, back] = [server.url("there"), site.file("back")];
    let told = [
        run(&["cp", "-r", &tree, &there]),
        run(&["verify", &tree, &there]),
        run(&["sync", &there, &back]),
    ];
    // Nothing is moved any more; then one file is.
    assert_eq!(run(&["sync", &there, &back]), None);
    fs::write(format!("{tree}/sub/new"), "new").unwrap();
    let last = run(&["sync", &tree, &there]);
    let one = run(&["cp", &format!("{tree}/sub/new"), &server.url("one")]);
    server.stop();

    let named = |top: &str| {
        let path = |name: &str| format!("{top}{name}");
        let [a, b, c] = ["large", "sub/empty", "sub/small"].map(path);
        files_hash(&[(&a, &large), (&b, b""), (&c, small)])
    };
    let lines = lines(&site);
    let of = |request: &str| {
        let lines = lines.iter().filter(|line| line["request"] == request);
        lines
            .map(|line| line["blake3"].as_str())
            .collect::<Vec<_>>()
    };
    // A destination that is made gets the source's place: its own name is that of the sender.
    let (put, got) = (named("tree/"), named(""));
    let new = files_hash(&[("sub/new", b"new")]);
    assert_eq!(of("put tree"), [Some(&*put), Some(&*new)]);
    // Of an empty file nothing is read for a comparison.
    let compared = files_hash(&[("large", &large), ("sub/small", small)]);
    assert_eq!(of("verify"), [Some(&*compared)]);
    assert_eq!(of("get tree"), [Some(&*got), None]);
    assert_eq!(told, [Some(put), None, Some(got)]);
    assert_eq!(last, Some(new));
    assert_eq!(one, Some(blake3::hash(b"new").to_hex().to_string()));
}

#[test]
fn it_says_who_did_what_and_how_it_ended() {
    let site = Site::new(120);
    fs::write(site.file("here"), "from the client").unwrap();
    fs::create_dir(site.file("tree")).unwrap();
    for name in ["a", "b"] {
        fs::write(format!("{}/{name}", site.file("tree")), name).unwrap();
    }
    let mut server = serve(&site, &[]);
    let ok = |source: &str, destination: &str| {
        let done = site.copy(Host::Here, source, destination);
        assert_eq!(done.code, Some(0), "{}", done.err);
    };
    ok(&site.file("here"), &server.url("new"));
    ok(&server.url("new"), &site.file("back"));
    let missing = site.copy(Host::Here, &server.url("missing"), &site.file("no"));
    missing.assert_failed(NOT_FOUND, &["missing"]);
    let (tree, there) = (site.file("tree"), server.url("tree"));
    let args = ["sync", "--accept-new", &tree, &there];
    let done = site.run(Host::Here, "client", &args, Input::None);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let args = ["verify", "--accept-new", &tree, &there];
    let done = site.run(Host::Here, "client", &args, Input::None);
    assert_eq!(done.code, Some(0), "{}", done.err);
    // One that goes away in the midst of it.
    let args = ["--limit", "10mbit", "zero:1GiB", &server.url("half")];
    let copy = site.start_copy(Host::Here, &args, Input::None);
    while support::parts(site.root("")).is_empty() {
        assert!(Instant::now() < site.limit(), "nothing comes");
        std::thread::yield_now();
    }
    copy.signal(Signal::TERM);
    copy.finish();
    server.await_line("put \"half\" failed", PATIENCE);
    server.stop();

    let log = site.path().join("audit/log");
    let mode = fs::metadata(log).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let lines = lines(&site);
    let puts = ends(&lines, "put");
    assert_eq!(puts[0], ("done", "new", Some(15)));
    assert_eq!((puts[1].0, puts[1].1), ("failed", "half"));
    let gets = ends(&lines, "get");
    assert_eq!(gets[0], ("done", "new", Some(15)));
    assert_eq!((gets[1].0, gets[1].1), ("failed", "missing"));
    assert_eq!(ends(&lines, "put tree"), [("done", "tree", Some(2))]);
    assert_eq!(ends(&lines, "verify").len(), 1);
    let hash = blake3::hash(b"from the client").to_hex();
    for line in &lines {
        assert_eq!(line["schema"], 1, "{line}");
        assert!(
            line["address"].as_str().unwrap().starts_with("127.0.0.1:"),
            "{line}"
        );
        assert!(
            line["key"].as_str().unwrap().starts_with("SHA256:"),
            "{line}"
        );
        if line["bytes"] == 15 {
            assert_eq!(line["blake3"], hash.as_str(), "{line}");
        }
        if line["event"] == "failed" {
            assert!(!line["error"].as_str().unwrap().is_empty(), "{line}");
        }
    }
    let count = |event: &str| lines.iter().filter(|line| line["event"] == event).count();
    assert_eq!(count("connected"), count("disconnected"));
}

#[test]
fn who_requires_it_does_nothing_while_it_cannot_be_written() {
    let site = Site::new(120);
    let dir = site.root("../audit");
    fs::create_dir(&dir).unwrap();
    let Some(_disk) = SmallDisk::mount(&dir, 1) else {
        return;
    };
    fs::write(site.file("here"), "from the client").unwrap();
    let mut server = serve(&site, &["--audit-required"]);
    let filler = format!("{dir}/filler");
    assert!(fs::write(&filler, vec![0; 2 << 20]).is_err(), "a full disk");
    // Nobody knows yet.
    site.copy(Host::Here, &site.file("here"), &server.url("first"));
    server.await_line("cannot be written", PATIENCE);
    let refused = site.copy(Host::Here, &site.file("here"), &server.url("second"));
    refused.assert_failed(REFUSED, &["cannot write its audit log"]);
    assert!(!fs::exists(site.root("second")).unwrap());

    fs::remove_file(&filler).unwrap();
    server.await_line("is written again", PATIENCE);
    let done = site.copy(Host::Here, &site.file("here"), &server.url("third"));
    done.assert_copied(15, "blake3");
    server.stop();
    let lines = lines(&site);
    let puts = ends(&lines, "put");
    assert_eq!(puts[0].1, "first", "nothing is forgotten");
    assert_eq!((puts[1].0, puts[1].1), ("failed", "second"));
    assert_eq!(puts[2], ("done", "third", Some(15)));
}

#[test]
fn what_makes_no_sense_is_said_before_anybody_is_served() {
    let site = Site::new(60);
    let root = site.root("");
    for (more, code, part) in [
        (&["--audit", "/dev/full"][..], 1, "no regular file"),
        (
            &["--audit", "/nowhere/log"],
            1,
            "cannot open the audit log /nowhere/log",
        ),
        (&["--audit-required"], 2, "--audit <FILE>"),
        (
            &["--audit", "log", "--audit-size", "1"],
            2,
            "less than 64KiB",
        ),
    ] {
        let args = [&["serve", "--root", &root], more].concat();
        let done = site.run(Host::Here, "server", &args, Input::None);
        done.assert_failed(code, &[part]);
    }
}
