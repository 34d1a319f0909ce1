//! `--manifest`: the list of a copy, checked by howdah and by the programs whose form it has.
#![cfg(target_os = "linux")]

use crate::support;
use crate::support::place::{content, hash_of};
use crate::support::process::{Done, Input};
use crate::support::schema::violations;
use crate::support::ways::{self, Way};
use crate::support::{Host, Site};
use rustix::process::Signal;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

const USAGE: i32 = 2;
const NOT_FOUND: i32 = 3;
const REFUSED: i32 = 4;
const PARTIAL: i32 = 6;
const INTERRUPTED: i32 = 12;
const DIFFERENT: i32 = 15;

/// Not between two others: there `--manifest` is refused.
fn every_way(check: impl Fn(&Way<'_>)) {
    ways::every_way(400, |way| {
        if way.what != "between" {
            check(way);
        }
    });
}

/// Where a list goes.
fn list(way: &Way<'_>, name: &str) -> String {
    way.site.file(&format!("{}-{name}", way.what))
}

fn write(path: impl AsRef<Path>, bytes: &[u8]) {
    fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    let file = fs::File::open(&path).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000))
        .unwrap();
}

/// All regular files below `dir`, by their paths in it.
fn files(dir: &Path) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(at) = dirs.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                dirs.push(entry.path());
            } else if kind.is_file() {
                let path = entry.path();
                let below = path.strip_prefix(dir).unwrap();
                found.push(below.as_os_str().as_bytes().to_vec());
            }
        }
    }
    found.sort();
    found
}

fn escaped(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for byte in path {
        match byte {
            b'\n' => out.extend(b"\\n"),
            b'\\' => out.extend(b"\\\\"),
            other => out.push(*other),
        }
    }
    out
}

/// The list that `b3sum` would write of these files in `dir`.
fn expected(dir: &Path, paths: &[Vec<u8>]) -> Vec<u8> {
    let mut text = Vec::new();
    for path in paths {
        let shown = escaped(path);
        if shown != *path {
            text.push(b'\\');
        }
        let real = dir.join(OsStr::from_bytes(path));
        let mut hasher = blake3::Hasher::new();
        hasher.update(&fs::read(real).unwrap());
        text.extend(hasher.finalize().to_hex().as_bytes());
        text.extend(b"  ");
        text.extend(if path == b"-" { b"./" } else { &b""[..] });
        text.extend(shown);
        text.push(b'\n');
    }
    text
}

/// Whether `program -c` takes the list of what lies in `dir`.
fn passes(program: &str, dir: &Path, list: &str) {
    match Command::new(program)
        .arg("-c")
        .arg(list)
        .current_dir(dir)
        .output()
    {
        Ok(done) => assert!(
            done.status.success(),
            "{program}: {} {}",
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr)
        ),
        Err(error) => println!("skipped: {program}: {error}"),
    }
}

fn verify(site: &Site, args: &[&str]) -> Done {
    let args = [&["verify"], args].concat();
    site.run(Host::Here, "nobody", &args, Input::None)
}

#[track_caller]
fn assert_list(way: &Way<'_>, list: &str, dir: &str) {
    let dir = Path::new(dir);
    let text = fs::read(list).unwrap();
    let wanted = expected(dir, &files(dir));
    assert_eq!(
        String::from_utf8_lossy(&text),
        String::from_utf8_lossy(&wanted),
        "{}",
        way.what
    );
    passes("b3sum", dir, list);
    let done = verify(way.site, &["--manifest", list, dir.to_str().unwrap()]);
    assert_eq!(done.code, Some(0), "{}: {}", way.what, done.err);
    assert!(done.out.is_empty());
}

fn make_tree(dir: &str) {
    write(format!("{dir}/a b"), b"one");
    write(format!("{dir}/a-b/deep/er"), b"two");
    write(format!("{dir}/a/new\nline"), b"three");
    write(format!("{dir}/a/back\\slash"), b"");
    write(format!("{dir}/-"), b"dash");
    write(format!("{dir}/--help"), b"option");
    write(format!("{dir}/big"), &content("manifest", 3 << 20));
    symlink("big", format!("{dir}/link")).unwrap();
}

#[test]
fn a_manifest_lists_what_the_destination_has_whatever_was_moved() {
    every_way(|way| {
        make_tree(&(way.source)("s"));
        fs::create_dir((way.target)("into")).unwrap();
        let list = list(way, "sums");
        // Into a directory that is there: below its own name.
        let done = way.ok(&["cp", "-r", "--manifest", &list], "s", "into");
        assert_list(way, &list, &(way.target)("into"));
        let text = String::from_utf8(done.out).unwrap();
        let event = text.lines().find(|line| line.contains("\"manifest\""));
        let event: Value = serde_json::from_str(event.unwrap()).unwrap();
        assert_eq!(event["event"], "manifest");
        assert_eq!(event["files"], 7);
        assert_eq!(event["hash"], "blake3");
        assert_eq!(event["path"].as_str(), Some(&*list));
        // What is there already is listed as well.
        fs::remove_file(&list).unwrap();
        let again = way.ok(&["cp", "-r", "--manifest", &list], "s", "into");
        assert_eq!(again.json()["tree"]["files"], 0, "{}", way.what);
        assert_list(way, &list, &(way.target)("into"));
        // And where only some of it is moved, and compared by content.
        write((way.source)("s/a-b/more"), b"more");
        way.ok(&["cp", "-rc", "--manifest", &list], "s", "into");
        assert_list(way, &list, &(way.target)("into"));
        // What becomes the destination has its paths below that.
        way.ok(&["cp", "-r", "--manifest", &list], "s", "made");
        assert_list(way, &list, &(way.target)("made"));
        // A mirror, and an older list that gives way.
        way.ok(&["sync", "--manifest", &list], "s", "mirror");
        assert_list(way, &list, &(way.target)("mirror"));
        // What else is there is none of its files.
        write((way.target)("mirror/own"), b"own");
        way.ok(&["sync", "--manifest", &list], "s", "mirror");
        assert!(!fs::read_to_string(&list).unwrap().contains("own"));
    });
}

#[test]
fn a_manifest_has_further_names_and_single_files() {
    every_way(|way| {
        write((way.source)("s/first"), b"content");
        fs::create_dir((way.source)("s/sub")).unwrap();
        for name in ["s/second", "s/sub/third"] {
            fs::hard_link((way.source)("s/first"), (way.source)(name)).unwrap();
        }
        let list = list(way, "sums");
        for _ in 0..2 {
            way.ok(&["sync", "-a", "--manifest", &list], "s", "linked");
            assert_list(way, &list, &(way.target)("linked"));
        }
        // A single file, small and large, under its name and under another.
        write((way.source)("small"), b"small");
        write((way.source)("large"), &content("large", 2 << 20));
        for name in ["small", "large"] {
            let dir = format!("one-{name}");
            fs::create_dir((way.target)(&dir)).unwrap();
            for to in [dir.clone(), format!("{dir}/other")] {
                way.ok(&["cp", "--manifest", &list], name, &to);
                let text = fs::read_to_string(&list).unwrap();
                let called = to.strip_prefix(&format!("{dir}/")).unwrap_or(name);
                let hash = hash_of(&(way.source)(name)).to_hex();
                assert_eq!(text, format!("{hash}  {called}\n"), "{}", way.what);
            }
            let there = (way.target)(&dir);
            let done = verify(way.site, &["--manifest", &list, &there]);
            assert_eq!(done.code, Some(0), "{}", done.err);
        }
    });
}

#[test]
fn a_manifest_of_sha256_is_sha256sums() {
    every_way(|way| {
        make_tree(&(way.source)("s"));
        write((way.source)("s/c\rr"), b"return");
        let odd = std::ffi::OsString::from_vec(b"not-\xff-utf8".to_vec());
        write(Path::new(&(way.source)("s")).join(odd), b"bytes");
        let (by_name, by_flag) = (list(way, "SHA256SUMS"), list(way, "list"));
        way.ok(&["sync", "--manifest", &by_name], "s", "d");
        let flag = "--manifest-hash=sha256";
        way.ok(&["sync", "--manifest", &by_flag, flag], "s", "d");
        let text = fs::read(&by_name).unwrap();
        assert_eq!(text, fs::read(&by_flag).unwrap());
        let lines = String::from_utf8_lossy(&text).lines().count();
        assert_eq!(lines, 9, "{}", way.what);
        let dir = (way.target)("d");
        passes("sha256sum", Path::new(&dir), &by_name);
        for args in [&[&*by_name, &dir][..], &[&by_flag, &dir, flag]] {
            let done = verify(way.site, &[&["--manifest"], args].concat());
            assert_eq!(done.code, Some(0), "{}", done.err);
        }
        // The other hash is another.
        let done = verify(way.site, &["--manifest", &by_flag, &dir]);
        assert_eq!(done.code, Some(DIFFERENT), "{}", done.err);
    });
}

#[test]
fn a_copy_that_is_not_complete_writes_no_manifest() {
    let site = Site::new(200);
    let server = site.serve();
    let run = |args: &[&str]| {
        let args = [&["cp", "--accept-new"], args].concat();
        site.run(Host::Here, "client", &args, Input::None)
    };
    write(site.file("a"), b"a");
    write(site.root("b"), b"b");
    fs::create_dir(site.root("to")).unwrap();
    fs::create_dir(site.file("to")).unwrap();
    let (list, old) = (site.file("sums"), site.file("old"));
    let was = format!("{}  as it was\n", blake3::hash(b"").to_hex());
    fs::write(&old, &was).unwrap();
    for list in [&list, &old] {
        let missing = site.file("missing");
        for args in [
            [&*site.file("a"), &missing, &server.url("to")],
            [&server.url("b"), &server.url("missing"), &site.file("to")],
        ] {
            let done = run(&[&["--manifest", list], &args[..]].concat());
            assert_eq!(done.code, Some(PARTIAL), "{}", done.err);
            assert!(done.err.contains("no manifest was written"), "{}", done.err);
        }
    }
    assert!(!Path::new(&list).exists());
    assert_eq!(fs::read_to_string(&old).unwrap(), was);
    // Interrupted.
    fs::create_dir(site.file("many")).unwrap();
    fs::write(site.file("many/big"), content("slow", 8 << 20)).unwrap();
    let (many, to) = (site.file("many"), server.url("to"));
    let args = [
        "cp",
        "--accept-new",
        "-r",
        "--progress",
        "--limit",
        "1mbit",
        "--json",
        "--manifest",
        &list,
        &many,
        &to,
    ];
    let mut copy = site.start(Host::Here, "client", &args, Input::None);
    copy.await_line("goodput", Duration::from_mins(1));
    copy.signal(Signal::INT);
    let done = copy.finish();
    assert_eq!(done.code, Some(INTERRUPTED), "{}", done.err);
    let out = String::from_utf8_lossy(&done.out);
    assert!(out.contains("no manifest was written"), "{out}");
    assert!(!Path::new(&list).exists());
    server.stop();
    // Nothing answers.
    let done = run(&["--manifest", &list, &site.file("a"), &to]);
    assert_ne!(done.code, Some(0));
    assert!(!Path::new(&list).exists());
    assert_eq!(
        support::parts(site.file("")),
        Vec::<std::path::PathBuf>::new()
    );
}

#[test]
fn what_a_manifest_cannot_be_for_is_refused_before_a_connection() {
    let site = Site::new(60);
    make_tree(&site.file("s"));
    let (s, list) = (site.file("s"), site.file("sums"));
    fs::create_dir(site.file("dir")).unwrap();
    // Nobody listens there.
    let far = "howdah://127.0.0.1:1/x";
    let (inside, dir) = (site.file("s/a/SUMS"), site.file("dir"));
    let nowhere = site.file("nowhere/SUMS");
    for (code, args, part) in [
        (
            USAGE,
            &["cp", "-rn", "--manifest", &list, &s, far][..],
            "--dry-run",
        ),
        (
            USAGE,
            &["sync", "-n", "--manifest", &list, &s, far],
            "--dry-run",
        ),
        (
            USAGE,
            &["cp", "--manifest", &list, "x:a", "y:b"],
            "neither x:a nor y:b is here",
        ),
        (
            USAGE,
            &["sync", "--manifest", &list, "x:a", "y:b"],
            "neither x:a nor y:b is here",
        ),
        (
            USAGE,
            &["cp", "--manifest", &list, "-", far],
            "--manifest is about files",
        ),
        (
            USAGE,
            &["cp", "--manifest", &list, far, "-"],
            "--manifest is about files",
        ),
        (
            USAGE,
            &["cp", "--manifest", &list, "zero:1", far],
            "--manifest is about files",
        ),
        (
            USAGE,
            &["cp", "-ru", "--manifest", &list, &s, far],
            "--update",
        ),
        (
            USAGE,
            &["sync", "--ignore-existing", "--manifest", &list, &s, far],
            "--ignore-existing",
        ),
        (
            USAGE,
            &[
                "sync",
                "--remove-source-files",
                "--manifest",
                &list,
                &s,
                far,
            ],
            "--remove-source-files",
        ),
        (
            USAGE,
            &["cp", "-r", "--manifest", &inside, &s, far],
            "is copied",
        ),
        (
            USAGE,
            &["sync", "--manifest", &inside, &s, far],
            "is copied",
        ),
        (
            USAGE,
            &["cp", "-r", "--manifest", "-", &s, far],
            "writes to a file",
        ),
        (
            USAGE,
            &["cp", "-r", "--manifest", "/dev/null", &s, far],
            "writes to a file",
        ),
        (
            USAGE,
            &["cp", "-r", "--manifest", &dir, &s, far],
            "writes to a file",
        ),
        (USAGE, &["cp", "-r", "--manifest", "", &s, far], "value"),
        (
            USAGE,
            &["cp", "-r", "--manifest-hash", "b3", &s, far],
            "--manifest",
        ),
        (
            USAGE,
            &[
                "cp",
                "-r",
                "--manifest",
                &list,
                "--manifest-hash",
                "md5",
                &s,
                far,
            ],
            "md5",
        ),
        (
            REFUSED,
            &["cp", "-r", "--manifest", &nowhere, &s, far],
            "cannot be written",
        ),
        (
            USAGE,
            &["verify", "--manifest", &list, "site:dir"],
            "ssh HOST howdah verify",
        ),
        (
            USAGE,
            &["verify", "--manifest", &list, far],
            "ssh HOST howdah verify",
        ),
        (
            USAGE,
            &["verify", "--manifest", &list, &s, &s],
            "--manifest",
        ),
        (
            USAGE,
            &["verify", "--manifest", &list, "--quick", &s],
            "--quick",
        ),
        (
            USAGE,
            &["verify", "--manifest", &list, "-a", &s],
            "--archive",
        ),
        (
            USAGE,
            &["verify", "--manifest", &list, "--exclude", "x", &s],
            "--exclude",
        ),
        (USAGE, &["verify", "--manifest", &list, "-"], "- is none"),
        (
            USAGE,
            &["verify", "--manifest-hash", "b3", &s, &s],
            "--manifest",
        ),
        (USAGE, &["verify", &s], "<B>"),
        (
            NOT_FOUND,
            &["verify", "--manifest", &list, &s],
            "cannot open the list",
        ),
    ] {
        let done = site.run(Host::Here, "client", args, Input::None);
        assert_eq!(done.code, Some(code), "{args:?}: {}", done.err);
        assert!(done.err.contains(part), "{args:?} {part}: {}", done.err);
    }
    assert!(!Path::new(&list).exists());
}

/// The list must not take the place of what the copy has brought.
#[test]
fn a_manifest_replaces_no_file_of_the_copy() {
    let site = Site::new(60);
    let server = site.serve();
    write(site.root("s/SUMS"), b"a file of the source");
    let (list, to) = (site.file("d/SUMS"), site.file("d"));
    fs::create_dir(&to).unwrap();
    let run = |list: &str| {
        let args = [
            "sync",
            "--accept-new",
            "--manifest",
            list,
            &server.url("s"),
            &to,
        ];
        site.run(Host::Here, "client", &args, Input::None)
    };
    let done = run(&list);
    assert_eq!(done.code, Some(USAGE), "{}", done.err);
    assert!(
        done.err.contains("one of the files that were copied"),
        "{}",
        done.err
    );
    assert_eq!(fs::read_to_string(&list).unwrap(), "a file of the source");
    // Beside it there is room, and it is none of the files.
    let beside = site.file("d/sums");
    for _ in 0..2 {
        let done = run(&beside);
        assert_eq!(done.code, Some(0), "{}", done.err);
        let hash = blake3::hash(b"a file of the source").to_hex();
        assert_eq!(
            fs::read_to_string(&beside).unwrap(),
            format!("{hash}  SUMS\n")
        );
    }
    server.stop();
}

#[test]
fn verify_names_what_is_not_as_listed() {
    let site = Site::new(60);
    let dir = site.file("d");
    for name in ["same", "changed", "short", "sub/deep", "odd\u{1b}name"] {
        write(format!("{dir}/{name}"), name.as_bytes());
    }
    let names = [
        "same",
        "changed",
        "short",
        "gone",
        "sub/deep",
        "sub",
        "fifo",
        "same/x",
        "out",
        "odd\u{1b}name",
    ];
    let mut text = String::from("# made by hand\n\n");
    for (at, name) in names.iter().enumerate() {
        let hash = blake3::hash(name.as_bytes()).to_hex();
        let line = match at % 3 {
            0 => format!("{hash}  {name}\n"),
            1 => format!("{hash} *./{name}\n"),
            _ => format!("BLAKE3 ({name}) = {}\n", hash.to_ascii_uppercase()),
        };
        text.push_str(&line);
    }
    let list = site.file("list");
    fs::write(&list, text.trim_end()).unwrap();
    write(format!("{dir}/changed"), b"changeD");
    write(format!("{dir}/short"), b"");
    write(site.file("outside"), b"out");
    symlink("../outside", format!("{dir}/out")).unwrap();
    let fifo = Command::new("mkfifo").arg(format!("{dir}/fifo")).status();
    assert!(fifo.unwrap().success());
    let done = verify(&site, &["--manifest", &list, &dir]);
    let out = String::from_utf8(done.out.clone()).unwrap();
    let mut found: Vec<&str> = out.lines().collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [
            "differs: contents (first difference within bytes 0..0)  short",
            "differs: contents (first difference within bytes 0..7)  changed",
            "differs: kind (file, directory)  sub",
            "differs: kind (file, fifo)  fifo",
            "missing in B  gone",
            "unread in B  out",
            "unread in B  same/x",
        ],
        "{}",
        done.err
    );
    assert_eq!(done.code, Some(PARTIAL), "{}", done.err);
    // Without what cannot be read, it is only different; and in the order of the list.
    let fewer: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains("out") && !line.contains("same/x"))
        .collect();
    let done = site.run(
        Host::Here,
        "nobody",
        &["verify", "--json", "--manifest", "-", &dir],
        Input::Bytes(fewer.join("\n").into_bytes()),
    );
    assert_eq!(done.code, Some(DIFFERENT), "{}", done.err);
    let schema: Value =
        serde_json::from_str(include_str!("../../../../docs/howdah-events.schema.json")).unwrap();
    let out = String::from_utf8(done.out.clone()).unwrap();
    let events: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for event in &events {
        assert_eq!(violations(&schema, event), Vec::<String>::new(), "{event}");
    }
    let named = events.iter().filter(|event| event["event"] == "difference");
    let named: Vec<&str> = named.map(|event| event["name"].as_str().unwrap()).collect();
    assert_eq!(named, ["changed", "short", "gone", "sub", "fifo"]);
    let last = done.json();
    assert_eq!(last["verify"]["equal"], false);
    assert_eq!(last["verify"]["compared_by"], "blake3");
    assert_eq!(last["verify"]["missing_in_b"], 1);
    assert_eq!(last["verify"]["differing"], 4);
    assert_eq!(last["verify"]["unread"], 0);
}

/// A list from elsewhere names nothing outside, makes nobody wait, and says nothing where it is no list.
#[test]
fn verify_takes_no_hostile_manifest() {
    let site = Site::new(120);
    let dir = site.file("d");
    write(format!("{dir}/a"), b"a");
    write(site.file("secret"), b"secret");
    let hash = blake3::hash(b"secret").to_hex();
    let list = site.file("list");
    let secret = site.file("secret");
    for path in [
        &*secret,
        "../secret",
        "a/../../secret",
        "./../secret",
        "a/..",
        "..",
    ] {
        fs::write(&list, format!("{hash}  a\n{hash}  {path}\n")).unwrap();
        let done = verify(&site, &["--manifest", &list, &dir]);
        assert_eq!(done.code, Some(USAGE), "{path}: {}", done.err);
        assert!(
            done.err
                .contains("line 2: the path is absolute or has '..'"),
            "{}",
            done.err
        );
        assert!(done.out.is_empty(), "{path}");
    }
    // Without DIR they are the user's own.
    fs::write(&list, format!("{hash}  {secret}\n")).unwrap();
    assert_eq!(verify(&site, &["--manifest", &list]).code, Some(0));
    // A link on the way out.
    symlink(site.file(""), format!("{dir}/up")).unwrap();
    fs::write(&list, format!("{hash}  up/secret\n")).unwrap();
    let done = verify(&site, &["--manifest", &list, &dir]);
    assert_eq!(done.code, Some(PARTIAL), "{}", done.err);
    // One that stays inside is followed.
    symlink("a", format!("{dir}/b")).unwrap();
    fs::write(&list, format!("{}  b\n", blake3::hash(b"a").to_hex())).unwrap();
    assert_eq!(verify(&site, &["--manifest", &list, &dir]).code, Some(0));
    // What is no list.
    let good = format!("{hash}  a\n");
    let long = format!("{hash}  {}\n", "a".repeat(20_000));
    for (text, part) in [
        (String::new(), "names no file"),
        ("# nothing\n\n".to_owned(), "names no file"),
        (format!("{good}rubbish\n"), "line 2: "),
        (format!("{good}{hash} a\n"), "line 2: "),
        (format!("{good}\\{hash}  a\\x\n"), "line 2: "),
        (
            format!("{good}MD5 (a) = 0cc175b9c0f1b6a831c399e269772661\n"),
            "line 2: ",
        ),
        (format!("{good}{long}"), "line 2 is longer"),
        ("x\n".repeat(1000), "and 995 lines more"),
    ] {
        fs::write(&list, text).unwrap();
        let done = verify(&site, &["--manifest", &list, &dir]);
        assert_eq!(done.code, Some(USAGE), "{part}: {}", done.err);
        assert!(done.err.contains(part), "{part}: {}", done.err);
        assert!(done.err.len() < 2000, "{}", done.err);
    }
    // Without end.
    let done = verify(&site, &["--manifest", "/dev/zero", &dir]);
    assert_eq!(done.code, Some(USAGE), "{}", done.err);
}

/// Whoever mistypes its name loses nothing by it.
#[test]
fn a_list_and_a_receipt_replace_nothing_but_one_of_theirs() {
    let site = Site::new(100);
    let server = site.serve();
    write(site.file("a"), b"a");
    let (a, mine, to) = (site.file("a"), site.file("mine"), server.url("to"));
    let run = |flag: &str, command: &str| {
        let args = [command, "--accept-new", flag, &mine, &a, &to];
        site.run(Host::Here, "client", &args, Input::None)
    };
    let list = format!("{}  a\n", blake3::hash(b"before").to_hex());
    for (flag, theirs) in [
        ("--manifest", list.as_str()),
        ("--receipt", "{\"files\":[]}"),
    ] {
        for command in ["cp", "sync"] {
            fs::write(&mine, "not theirs\n").unwrap();
            run(flag, command).assert_failed(USAGE, &[flag, "another kind of file is there"]);
            assert_eq!(fs::read_to_string(&mine).unwrap(), "not theirs\n");
            assert!(!Path::new(&site.root("to")).exists());
        }
        for replaced in [theirs, ""] {
            fs::write(&mine, replaced).unwrap();
            let done = run(flag, "cp");
            assert_eq!(done.code, Some(0), "{}", done.err);
            assert_ne!(fs::read_to_string(&mine).unwrap(), replaced);
        }
        fs::remove_file(site.root("to")).unwrap();
    }
    server.stop();
}
