//! The flight recorder: what a copy leaves, what is not in it, and what the laboratory makes of it.
#![cfg(target_os = "linux")]

use crate::support::process::{Done, Input, ok};
use crate::support::{Host, Site, umask};
use howdah::{Held, Recording};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const MIB: usize = 1 << 20;
/// Stands in names and in contents, and nowhere else.
const SECRET: &str = "Quetzalcoatl";

fn recorded(path: &str) -> Recording {
    Recording::decode(&fs::read(path).unwrap()).unwrap()
}

fn lab(site: &Site, args: &[&str]) -> Done {
    let args = [&["lab", "replay"], args].concat();
    site.run(Host::Here, "client", &args, Input::None)
}

/// A file of that size in which the word stands again and again.
fn secret_file(path: &str, bytes: usize) {
    fs::write(path, SECRET.repeat(bytes / SECRET.len() + 1)).unwrap();
}

#[test]
fn a_recording_names_nothing_and_is_a_file_as_others() {
    let site = Site::new(120);
    let server = site.serve();
    let source = site.file(SECRET);
    fs::create_dir(&source).unwrap();
    secret_file(&format!("{source}/{SECRET}.txt"), 3 * MIB);
    let (put, got, synced) = (site.file("put"), site.file("got"), site.file("synced"));
    let (url, back) = (server.url(SECRET), site.file("back"));
    let file = format!("{source}/{SECRET}.txt");
    let one = server.url("one");
    for args in [
        &["cp", "--accept-new", "-r", "--record", &put, &source, &url][..],
        &["sync", "--accept-new", "--record", &synced, &url, &back],
        &["cp", "--accept-new", "--record", &got, &file, &one],
    ] {
        ok(&site.run(Host::Here, "client", args, Input::None));
    }
    let port = url.rsplit(':').next().unwrap().split('/').next().unwrap();
    for path in [&put, &got, &synced] {
        let bytes = fs::read(path).unwrap();
        assert!(bytes.len() <= MIB);
        let text = String::from_utf8_lossy(&bytes);
        for word in [
            SECRET,
            "127.0.0.1",
            "localhost",
            port,
            "files",
            "client",
            "root",
            "zalcoa",
        ] {
            assert!(!text.contains(word), "{word} is in it");
        }
        let mode = fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o666 & !umask());
        let recording = recorded(path);
        assert!(recording.facts.completed);
        assert!(recording.facts.moved_bytes >= 3 * MIB as u64);
        let came: u64 = recording.intervals.iter().map(|i| i.delivered_bytes).sum();
        assert!(came >= 3 * MIB as u64, "{came}");
    }
    // Nothing but what was asked for: nobody was held up for a minute, and nothing unfinished lies about.
    assert!(!site.config("client").join("recordings").exists());
    let mut names: Vec<_> = fs::read_dir(site.file(""))
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, [SECRET, "back", "got", "put", "synced"]);
}

#[test]
fn what_is_recorded_is_shown_and_run_again() {
    let site = Site::new(180);
    let server = site.serve();
    let recording = site.file("a.flight");
    // A cap makes it last, whatever the machine does.
    let args = [
        "--limit",
        "40mbit",
        "--record",
        &recording,
        "zero:10MB",
        &server.url("null:"),
    ];
    let done = site.copy_with(Host::Here, &args, Input::None);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let verdict = recorded(&recording).verdict();
    let capped = verdict.held_s[Held::Cap.index()];
    assert!(capped > 0.5 * verdict.seconds, "{verdict:?}");

    let shown = ok(&lab(&site, &["--show", &recording]));
    assert!(
        shown.contains("10000000 bytes in ") && shown.contains("rate cap"),
        "{shown}"
    );
    let shown: serde_json::Value =
        serde_json::from_str(&ok(&lab(&site, &["--show", "--json", &recording]))).unwrap();
    assert_eq!(shown["facts"]["moved_bytes"], 10_000_000);

    let scenario = site.file("again.toml");
    let table = ok(&lab(
        &site,
        &[
            &recording,
            "--protocols",
            "howdah,cubic",
            "--out",
            &scenario,
        ],
    ));
    for part in [
        "as recorded",
        "howdah",
        "cubic",
        "hosts or a cap held it back",
    ] {
        assert!(table.contains(part), "{part} is not in: {table}");
    }
    let replayed: serde_json::Value =
        serde_json::from_str(&ok(&lab(&site, &[&recording, "--json"]))).unwrap();
    assert_eq!(replayed["outcomes"].as_array().unwrap().len(), 5);
    assert_eq!(replayed["outcomes"][0]["protocol"], "howdah");
    // It is a scenario as others, and is not written over.
    let list = site.run(
        Host::Here,
        "client",
        &["lab", "list", &scenario],
        Input::None,
    );
    assert!(ok(&list).contains("replay"));
    lab(&site, &[&recording, "--out", &scenario]).assert_failed(2, &["is there already"]);
    // A mistake leaves no file behind, which the next try would find there.
    let other = site.file("other.toml");
    let mistaken = [&recording, "--protocols", "cubik", "--out", &other];
    lab(&site, &mistaken).assert_failed(2, &["no protocol 'cubik'"]);
    assert!(!Path::new(&other).exists());
}

#[test]
fn a_copy_that_fails_is_recorded_and_what_cannot_be_is_told_before_it_begins() {
    let site = Site::new(120);
    let server = site.serve();
    let recording = site.file("a.flight");
    let missing = server.url("missing");
    let done = site.copy_with(
        Host::Here,
        &["--record", &recording, &missing, &site.file("b")],
        Input::None,
    );
    assert_eq!(done.code, Some(3), "{}", done.err);
    assert!(!recorded(&recording).facts.completed);
    lab(&site, &[&recording]).assert_failed(2, &["a.flight: "]);

    let source = site.file("source");
    fs::write(&source, "x").unwrap();
    let nowhere = site.file("no/a.flight");
    for (path, code, part) in [
        (&*nowhere, 4, "no such directory"),
        ("/dev/null", 2, "something else than a file"),
    ] {
        let args = [
            "cp",
            "--accept-new",
            "--record",
            path,
            &source,
            &server.url("x"),
        ];
        site.run(Host::Here, "client", &args, Input::None)
            .assert_failed(code, &["--record", part]);
    }
    assert!(!Path::new(&site.root("x")).exists(), "it was copied");
    let between = ["cp", "--record", &recording, "a.example:x", "b.example:y"];
    site.run(Host::Here, "client", &between, Input::None)
        .assert_failed(2, &["sees nothing of it"]);
}

#[test]
fn what_is_no_recording_is_refused_by_name() {
    let site = Site::new(60);
    let path = site.file("notes.txt");
    fs::write(&path, "no recording").unwrap();
    lab(&site, &["--show", &path]).assert_failed(2, &["notes.txt: it is no recording of howdah"]);
    fs::write(&path, vec![0; 2 * MIB]).unwrap();
    lab(&site, &["--show", &path]).assert_failed(2, &["notes.txt: "]);
    lab(&site, &["--show", &site.file("none")]).assert_failed(3, &["cannot read"]);
}
