//! Whole directories to and from a real server.
#![cfg(target_os = "linux")]

use crate::support::place::content;
use crate::support::process::{Done, Input, Server};
use crate::support::{Host, Site, parts};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What a copy keeps, by path.
fn look(dir: &str) -> BTreeMap<PathBuf, String> {
    fn into(dir: &Path, below: &Path, all: &mut BTreeMap<PathBuf, String>) {
        let path = dir.join(below);
        // A server that has just noticed that a client is gone tidies up.
        let Ok(meta) = fs::symlink_metadata(&path) else {
            return;
        };
        let what = if meta.is_symlink() {
            format!("link {}", fs::read_link(&path).unwrap().display())
        } else {
            let (mode, time) = (meta.permissions().mode(), (meta.mtime(), meta.mtime_nsec()));
            if meta.is_dir() {
                for entry in fs::read_dir(&path).unwrap() {
                    into(dir, &below.join(entry.unwrap().file_name()), all);
                }
                format!("{mode:o} {time:?}")
            } else {
                let hash = blake3::hash(&fs::read(&path).unwrap_or_default());
                format!("{mode:o} {time:?} {hash}")
            }
        };
        all.insert(below.to_owned(), what);
    }
    let mut all = BTreeMap::new();
    into(Path::new(dir), Path::new(""), &mut all);
    all
}

/// Small files, large ones, links, odd names.
fn make_tree(dir: &str) {
    let dir = Path::new(dir);
    for sub in ["a/b/c", "a/empty", "odd \u{1b}[2J\nname"] {
        fs::create_dir_all(dir.join(sub)).unwrap();
    }
    for i in 0..300 {
        let name = format!("a/b/file{i}");
        fs::write(dir.join(&name), content(&name, i * 17)).unwrap();
    }
    for (name, size) in [
        ("large", 5 << 20),
        ("a/larger", 9 << 20),
        ("a/b/c/edge", 4 << 20),
    ] {
        fs::write(dir.join(name), content(name, size)).unwrap();
    }
    fs::write(dir.join("odd \u{1b}[2J\nname/-rf"), "x").unwrap();
    symlink("a/b", dir.join("link")).unwrap();
    symlink("/nowhere", dir.join("a/dangling")).unwrap();
    // No umask takes anything from these.
    fs::set_permissions(dir.join("a/b/file7"), fs::Permissions::from_mode(0o400)).unwrap();
    fs::set_permissions(dir.join("a/empty"), fs::Permissions::from_mode(0o500)).unwrap();
}

#[test]
fn a_tree_goes_there_and_back_and_again_for_nothing() {
    let site = Site::new(100);
    make_tree(&site.file("src"));
    let server = site.serve();
    let put = site.copy_with(
        Host::Here,
        &["-r", &site.file("src"), &server.url("dst")],
        Input::None,
    );
    assert_eq!(put.code, Some(0), "{}", put.err);
    let json = put.json();
    assert_eq!(json["tree"]["files"], 304, "{json}");
    assert_eq!(json["verified"], "blake3", "{json}");
    assert_eq!(look(&site.file("src")), look(&site.root("dst")));

    let get = |args: &[&str]| site.copy_with(Host::Here, args, Input::None);
    let back = get(&["-r", &server.url("dst"), &site.file("back")]);
    assert_eq!(back.code, Some(0), "{}", back.err);
    assert_eq!(look(&site.file("src")), look(&site.file("back")));

    let again = get(&["-r", &server.url("dst/."), &site.file("back")]);
    assert_eq!(again.code, Some(0), "{}", again.err);
    let json = again.json();
    assert_eq!(json["tree"]["files"], 0, "{json}");
    assert_eq!(json["tree"]["unchanged"], 304, "{json}");

    // Several things into a directory; a directory only with -r.
    let several = [
        &*site.file("src/large"),
        &site.file("src/a"),
        &server.url("dst"),
    ];
    let some = get(&several);
    some.assert_failed(6, &["is a directory; copy it with -r"]);
    let missing = get(&["-r", &site.file("nothing"), &server.url("dst")]);
    missing.assert_failed(3, &["nothing"]);
    let missing = get(&["-r", &server.url("nothing"), &site.file("x")]);
    missing.assert_failed(3, &["nothing"]);
    let escape = get(&["-r", &server.url("dst/../.."), &site.file("x")]);
    escape.assert_failed(4, &["refused"]);
    let escape = get(&["-r", &site.file("src"), &server.url("../x")]);
    escape.assert_failed(4, &["refused"]);
    site.assert_nothing_half_done();
    server.stop();
}

fn names(dir: &str) -> Vec<String> {
    let all = look(dir);
    let names = all.keys().map(|path| path.display().to_string());
    names.filter(|name| !name.is_empty()).collect()
}

fn sync(site: &Site, args: &[&str]) -> Done {
    let args = [&["sync", "--accept-new"], args].concat();
    site.start(Host::Here, "client", &args, Input::None)
        .finish()
}

#[test]
fn a_mirror_follows_both_ways_and_asks_before_it_deletes_much() {
    let site = Site::new(100);
    let server = site.serve();
    for name in ["src/a.c", "src/a.o", "src/d/b.c", "src/d/e/f"] {
        let path = site.file(name);
        fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
        fs::write(path, content(name, 100)).unwrap();
    }
    for name in ["dst/old", "dst/gone/x", "dst/keep.o"] {
        let path = site.root(name);
        fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }
    let (from, to) = (site.file("src"), server.url("dst"));
    let rules = ["--exclude", "*.o", "--delete"];

    let dry = sync(&site, &[&rules[..], &["--dry-run", &from, &to]].concat());
    assert_eq!(dry.code, Some(0), "{}", dry.err);
    let out = String::from_utf8(dry.out).unwrap();
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    let expected = [
        "change . (time)",
        "copy a.c (new)",
        "copy d/b.c (new)",
        "copy d/e/f (new)",
        "delete gone (extra)",
        "delete gone/x (extra)",
        "delete old (extra)",
        "mkdir d (new)",
        "mkdir d/e (new)",
    ];
    assert_eq!(lines, expected);
    assert_eq!(
        names(&site.root("dst")),
        ["gone", "gone/x", "keep.o", "old"]
    );

    let few = sync(
        &site,
        &[&rules[..], &["--max-delete", "2", &from, &to]].concat(),
    );
    few.assert_failed(8, &["3 names would"]);
    assert!(fs::exists(site.root("dst/old")).unwrap());

    let all = sync(
        &site,
        &[&rules[..], &["--backup-dir", ".old", &from, &to]].concat(),
    );
    assert_eq!(all.code, Some(0), "{}", all.err);
    let expected = [
        ".old",
        ".old/gone",
        ".old/gone/x",
        ".old/old",
        "a.c",
        "d",
        "d/b.c",
        "d/e",
        "d/e/f",
        "keep.o",
    ];
    assert_eq!(names(&site.root("dst")), expected);

    // And back, with a list of files on standard input.
    let list = Input::Bytes(b"d/b.c\0".to_vec());
    let back = site.file("back");
    let args = [
        "sync",
        "--accept-new",
        "--files-from",
        "-",
        "-0",
        &to,
        &back,
    ];
    let some = site.start(Host::Here, "client", &args, list).finish();
    assert_eq!(some.code, Some(0), "{}", some.err);
    assert_eq!(names(&back), ["d", "d/b.c"]);
    let dry = sync(&site, &["-n", &to, &back]);
    assert_eq!(dry.code, Some(0), "{}", dry.err);
    assert!(
        String::from_utf8(dry.out)
            .unwrap()
            .contains("copy d/e/f (new)\n"),
        "{}",
        dry.err
    );
    let rest = sync(&site, &[&to, &back]);
    assert_eq!(rest.code, Some(0), "{}", rest.err);
    assert_eq!(look(&site.root("dst")), look(&back));

    // A mirror is made under its name with a slash at the end, too, there and here.
    let (slash, here) = (server.url("made/"), site.file("made-here/"));
    let dry = sync(&site, &["-n", &from, &slash]);
    assert_eq!(dry.code, Some(0), "{}", dry.err);
    assert!(dry.err.contains("nothing was written"), "{}", dry.err);
    assert!(!dry.err.contains("verified"), "{}", dry.err);
    assert!(!fs::exists(site.root("made")).unwrap());
    for (from, to) in [(&from, &slash), (&slash, &here)] {
        let made = sync(&site, &[from, to]);
        assert_eq!(made.code, Some(0), "{}", made.err);
    }
    assert_eq!(names(&site.root("made")), names(&from));
    assert_eq!(names(&here), names(&from));

    let bad = sync(&site, &["--backup-dir", "../x", &from, &to]);
    bad.assert_failed(2, &["does not lie below the destination"]);
    let bad = sync(&site, &["--exclude", "a[", &from, &to]);
    bad.assert_failed(2, &["makes no sense"]);
    server.stop();
}

/// Small and large files are read from the device before they get their names, by either side.
#[test]
fn a_tree_is_read_back_if_that_is_asked_for() {
    let strace = std::process::Command::new("strace").arg("-V").output();
    if strace.is_err() {
        println!("skipped: no strace");
        return;
    }
    let site = Site::new(100);
    fs::create_dir_all(site.file("src/d")).unwrap();
    for (name, size) in [
        ("a", 10),
        ("empty", 0),
        ("d/b", 70_000),
        ("d/large", 5 << 20),
    ] {
        fs::write(site.file(&format!("src/{name}")), content(name, size)).unwrap();
    }
    let log = site.file("strace");
    let options = ["-f", "-y", "-o", &log, "-e", "trace=fcntl"].map(str::to_owned);
    // Each unfinished file is read past the page cache, by the descriptor that wrote it.
    let read_back = || {
        let log = fs::read_to_string(&log).unwrap();
        let lines = log.lines();
        lines
            .filter(|l| {
                ["howdah-part", "F_SETFL", "O_DIRECT"]
                    .iter()
                    .all(|w| l.contains(w))
            })
            .count()
    };
    let args = ["cp", "--json", "--accept-new", "--verify", "reread", "-r"];
    let serve = ["serve", "--listen", "127.0.0.1:0", "--root", &site.root("")];
    let server = Server::new(site.start_traced(&options, "server", &serve));
    let (from, there) = (site.file("src"), server.url("dst"));
    let put = [&args[3..], &[&*from, &*there]].concat();
    let put = site.copy_with(Host::Here, &put, Input::None);
    assert_eq!(put.code, Some(0), "{}", put.err);
    assert_eq!(put.json()["verified"], "reread");
    assert_eq!(read_back(), 4);
    assert_eq!(look(&from), look(&site.root("dst")));
    drop(server);

    let server = site.serve();
    let (there, back) = (server.url("dst"), site.file("back"));
    let get = [&args[..], &[&*there, &*back]].concat();
    let get = site.start_traced(&options, "client", &get).finish();
    assert_eq!(get.code, Some(0), "{}", get.err);
    assert_eq!(get.json()["verified"], "reread");
    assert_eq!(read_back(), 4);
    assert_eq!(look(&from), look(&back));
    server.stop();
}

/// The files `file*` in a directory.
fn files(dir: &str) -> BTreeMap<PathBuf, String> {
    let mut all = look(dir);
    all.retain(|path, _| path.to_string_lossy().starts_with("file"));
    all
}

/// Waits until a name that is no temporary one is in `dir`.
fn await_file(dir: &str, limit: Instant) {
    loop {
        let entries = fs::read_dir(dir).into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        if names.into_iter().any(|name| name.starts_with("file")) {
            return;
        }
        assert!(Instant::now() < limit, "nothing comes");
        std::thread::yield_now();
    }
}

#[test]
fn f01_a_killed_copy_goes_on_where_it_was() {
    const FILES: u64 = 500;
    let site = Site::new(100);
    fs::create_dir(site.file("src")).unwrap();
    for i in 0..FILES {
        let name = format!("file{i}");
        fs::write(site.file(&format!("src/{name}")), content(&name, 20_000)).unwrap();
    }
    let server = site.serve();
    // The sender is killed, and then the receiver.
    let slow = ["--policy", "fixed", "--rate", "20mbit", "-r"];
    let (src, there) = (site.file("src"), server.url("dst"));
    let (inside, back) = (server.url("dst/."), site.file("back"));
    let args = [&slow[..], &[&src, &there]].concat();
    let put = site.start_copy(Host::Here, &args, Input::None);
    await_file(&site.root("dst"), site.limit());
    put.signal(Signal::KILL);
    put.finish();
    let args = [&slow[..], &[&inside, &back]].concat();
    let sofar = files(&site.root("dst")).len() as u64;
    assert!(sofar < FILES, "{sofar}");
    let again = site.copy_with(
        Host::Here,
        &["-r", &site.file("src/."), &server.url("dst")],
        Input::None,
    );
    assert_eq!(again.code, Some(0), "{}", again.err);
    let tree = &again.json()["tree"];
    let (moved, there) = (
        tree["files"].as_u64().unwrap(),
        tree["unchanged"].as_u64().unwrap(),
    );
    assert!(moved + there == FILES && there > 0, "{tree}");
    // The server may not know yet that the killed client is gone: its unfinished files are still there.
    assert!(files(&site.file("src")) == files(&site.root("dst")));

    let get = site.start_copy(Host::Here, &args, Input::None);
    await_file(&site.file("back"), site.limit());
    get.signal(Signal::KILL);
    get.finish();
    // What is under a right name is right, whatever else lies there.
    for name in names(&site.file("back"))
        .iter()
        .filter(|name| name.starts_with("file"))
    {
        let bytes = fs::read(site.file(&format!("back/{name}"))).unwrap();
        assert!(bytes == content(name, 20_000), "{name}");
    }
    let again = site.copy_with(
        Host::Here,
        &["-r", &server.url("dst/."), &site.file("back")],
        Input::None,
    );
    assert_eq!(again.code, Some(0), "{}", again.err);
    let there = again.json()["tree"]["unchanged"].as_u64().unwrap();
    assert!(there > 0 && there < FILES, "{there}");
    // What the killed one left behind is gone as well.
    assert!(files(&site.file("src")) == files(&site.file("back")));
    assert_eq!(parts(site.file("back")), Vec::<PathBuf>::new());
    server.stop();
}
