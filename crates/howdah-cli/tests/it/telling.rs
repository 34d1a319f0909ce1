//! What a copy tells scripts and people: the event stream against its schema, the log, progress without a terminal.
#![cfg(target_os = "linux")]

use crate::support::process::{Done, Input};
use crate::support::schema::violations;
use crate::support::{Host, Site};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

fn schema() -> Value {
    let text = include_str!("../../../../docs/howdah-events.schema.json");
    serde_json::from_str(text).unwrap()
}

/// The objects on standard output; each must be what the schema says.
#[track_caller]
fn events(done: &Done) -> Vec<Value> {
    let schema = schema();
    let out = String::from_utf8(done.out.clone()).unwrap();
    let events: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for event in &events {
        let wrong = violations(&schema, event);
        assert!(wrong.is_empty(), "{event}: {wrong:?}");
    }
    events
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|e| e["event"].as_str()).collect()
}

#[test]
fn the_events_of_a_copy_are_those_of_the_schema() {
    let site = Site::new(60);
    let server = site.serve();
    let log = site.file("log");
    let put = ["--log-file", &log, "zero:3MB", &server.url("new")];
    let done = site.copy_with(Host::Here, &put, Input::None);
    done.assert_copied(3_000_000, "blake3");
    let seen = events(&done);
    let seen_names = names(&seen);
    assert_eq!(seen_names.first(), Some(&"start"));
    assert_eq!(seen_names.last(), Some(&"summary"));
    assert_eq!(seen[0]["sources"][0], "zero:3000000");
    assert_eq!(seen[0]["policy"], "fair");

    // Back into a file with a name that a terminal would act upon (A59).
    let evil = site.file("evil\x1b]0;title\x07");
    let get = site.copy(Host::Here, &server.url("new"), &evil);
    get.assert_copied(3_000_000, "blake3");
    let seen = events(&get);
    let file = seen.iter().find(|e| e["event"] == "file").unwrap();
    assert!(
        file["name"]
            .as_str()
            .unwrap()
            .ends_with(r"evil\u{1b}]0;title\u{7}")
    );
    assert!(file["name_base64"].is_string());
    assert!(!get.out.contains(&0x1b) && !get.err.contains('\x1b'));

    let missing = ["--log-file", &log, &*server.url("evil\x1b[2J"), "null:"];
    let done = site.copy_with(Host::Here, &missing, Input::None);
    assert_eq!(done.code, Some(3), "{}", done.err);
    let seen = events(&done);
    assert_eq!(names(&seen).last(), Some(&"error"));
    let error = &seen.last().unwrap()["error"];
    assert_eq!(error["exit_code"], 3);
    assert_eq!(error["retry_may_help"], false);
    assert!(!done.out.contains(&0x1b) && !done.err.contains('\x1b'));

    // Two copies, one log.
    let log = fs::read_to_string(log).unwrap();
    let parts = [
        "cp zero:3000000 to",
        "content verified",
        r"evil\u{1b}[2J",
        "failed: ",
    ];
    for part in parts {
        assert!(log.contains(part), "{part}: {log}");
    }
    assert!(!log.contains('\x1b'));
    server.stop();
}

/// Names and sizes of the files that were told.
fn files(events: &[Value]) -> BTreeMap<Vec<u8>, u64> {
    let mut all = BTreeMap::new();
    for event in events.iter().filter(|event| event["event"] == "file") {
        let name = match event["name_base64"].as_str() {
            Some(exact) => STANDARD.decode(exact).unwrap(),
            None => event["name"].as_str().unwrap().as_bytes().to_vec(),
        };
        assert_eq!(
            (&event["state"], &event["verified"]),
            (&"done".into(), &"blake3".into())
        );
        let twice = all.insert(name, event["bytes"].as_u64().unwrap());
        assert_eq!(twice, None, "{event}");
    }
    all
}

#[test]
fn each_file_of_a_tree_is_told_whichever_side_writes() {
    let site = Site::new(100);
    let server = site.serve();
    let mut expected = BTreeMap::new();
    let names = (0..40).map(|i| (format!("a/small{i}").into_bytes(), i * 100));
    let others = [
        (&b"large"[..], 5 << 20),
        (b"a/b/empty", 0),
        (b"odd\xff\x1b[2J\n", 9),
    ];
    let others = others.map(|(name, size)| (name.to_vec(), size));
    fs::create_dir_all(site.file("src/a/b")).unwrap();
    for (name, size) in names.chain(others) {
        let path = Path::new(&site.file("src")).join(OsStr::from_bytes(&name));
        fs::write(path, vec![7; size]).unwrap();
        expected.insert(name, size as u64);
    }
    symlink("large", site.file("src/link")).unwrap();
    // A directory that is not there yet is made under another name, and told by that of the source.
    let below = |top: &str| {
        let names = expected.iter();
        let names = names.map(|(name, size)| ([top.as_bytes(), name].concat(), *size));
        names.collect::<BTreeMap<_, _>>()
    };
    let log = site.file("log");
    let each = "--each-file";
    let put = [
        "-r",
        each,
        "--log-file",
        &log,
        &site.file("src"),
        &server.url("dst"),
    ];
    let put = site.copy_with(Host::Here, &put, Input::None);
    assert_eq!(put.code, Some(0), "{}", put.err);
    let seen = events(&put);
    assert_eq!(files(&seen), below("src/"));
    assert_eq!(names_of_ends(&seen), ("start", "summary"));
    let get = ["-r", each, &server.url("dst"), &site.file("back")];
    let get = site.copy_with(Host::Here, &get, Input::None);
    assert_eq!(get.code, Some(0), "{}", get.err);
    assert_eq!(files(&events(&get)), below("dst/"));
    assert!(!get.out.contains(&0x1b) && !put.out.contains(&0x1b));
    // What is there already was not moved.
    fs::write(site.file("src/a/small7"), "changed").unwrap();
    let again = ["-r", each, &site.file("src/."), &server.url("dst")];
    let again = site.copy_with(Host::Here, &again, Input::None);
    assert_eq!(again.code, Some(0), "{}", again.err);
    let one = BTreeMap::from([(b"a/small7".to_vec(), 7)]);
    assert_eq!(files(&events(&again)), one);
    let log = fs::read_to_string(log).unwrap();
    let done = log.lines().filter(|line| line.contains(" done: "));
    assert_eq!(done.count(), expected.len(), "{log}");
    // Names for people, and none unless that is asked for.
    fs::write(site.file("src/a/small8"), "changed, too").unwrap();
    let args = [
        "sync",
        "--accept-new",
        each,
        &site.file("src"),
        &server.url("dst"),
    ];
    let plain = site
        .start(Host::Here, "client", &args, Input::None)
        .finish();
    assert_eq!((plain.code, &*plain.out), (Some(0), &b"a/small8\n"[..]));
    let silent = ["-r", &server.url("dst"), &site.file("silent")];
    let silent = site.copy_with(Host::Here, &silent, Input::None);
    assert_eq!(files(&events(&silent)), BTreeMap::new());
    server.stop();
}

/// The first event and the last one.
fn names_of_ends(events: &[Value]) -> (&str, &str) {
    let names = names(events);
    (names[0], names[names.len() - 1])
}

#[test]
fn without_a_terminal_nothing_but_the_end_is_said() {
    let site = Site::new(60);
    let server = site.serve();
    let copy = |extra: &[&str]| {
        let url = server.url("null:");
        let args = [&["cp", "--accept-new"], extra, &["zero:3MB", &url]].concat();
        site.start(Host::Here, "client", &args, Input::None)
            .finish()
    };
    let plain = copy(&[]);
    assert_eq!(plain.code, Some(0), "{}", plain.err);
    assert_eq!(plain.err.lines().count(), 1, "{}", plain.err);
    assert!(
        plain.err.starts_with("howdah: 2.9 MiB in "),
        "{}",
        plain.err
    );
    assert!(plain.out.is_empty());

    let quiet = copy(&["--quiet"]);
    assert_eq!((quiet.code, &*quiet.err), (Some(0), ""));

    // It lasts until it has been seen.
    let args = ["cp", "--accept-new", "--progress", "-", &server.url("held")];
    let input = Input::Held(vec![7; 1 << 20]);
    let mut forced = site.start(Host::Here, "client", &args, input);
    forced.await_line("goodput", Duration::from_secs(30));
    forced.end_input();
    let forced = forced.finish();
    assert_eq!(forced.code, Some(0), "{}", forced.err);
    assert!(!forced.err.contains('\x1b'), "{}", forced.err);
    server.stop();
}
