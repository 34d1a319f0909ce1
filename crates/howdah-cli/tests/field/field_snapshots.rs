//! `--link-dest`: what is equal in another directory of the destination gets a further name, and stays what it is.
#![cfg(target_os = "linux")]

use crate::support::place::SmallDisk;
use crate::support::process::{Done, Input};
use crate::support::schema::violations;
use crate::support::ways::every_way;
use crate::support::{Host, Site};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

const USAGE: i32 = 2;
const REFUSED: i32 = 4;

fn write(path: impl AsRef<Path>, text: &str, mode: u32, seconds: u64) {
    let path = path.as_ref();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    set(path, mode, seconds);
}

fn set(path: impl AsRef<Path>, mode: u32, seconds: u64) {
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    let time = UNIX_EPOCH + Duration::from_secs(seconds);
    File::open(path).unwrap().set_modified(time).unwrap();
}

fn inode(path: impl AsRef<Path>) -> u64 {
    fs::symlink_metadata(path).map_or(0, |meta| meta.ino())
}

/// By their names, what is kept of files: mode, time, content.
type Files = BTreeMap<String, (u32, i64, i64, Vec<u8>)>;

/// All files below.
fn files(dir: &str) -> Files {
    fn walk(dir: &Path, below: &str, found: &mut Files) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{below}{}", path.file_name().unwrap().to_str().unwrap());
            let meta = fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                walk(&path, &format!("{name}/"), found);
            } else if meta.is_file() {
                let kept = (meta.mode(), meta.mtime(), meta.mtime_nsec());
                let content = fs::read(&path).unwrap();
                found.insert(name, (kept.0, kept.1, kept.2, content));
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(Path::new(dir), "", &mut found);
    found
}

/// Those of the files below `dir` that are names of the same file as in `other`.
fn shared(dir: &str, other: &str) -> BTreeSet<String> {
    let is_shared =
        |name: &String| inode(format!("{dir}/{name}")) == inode(format!("{other}/{name}"));
    files(dir).into_keys().filter(is_shared).collect()
}

fn rsync(args: &[&str]) -> bool {
    let done = Command::new("rsync").args(args).output();
    match done {
        Ok(done) => {
            let why = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(done.status.success(), "{args:?}: {why}");
            true
        }
        Err(e) => {
            println!("not compared with rsync: {e}");
            false
        }
    }
}

fn events(done: &Done, what: &str) -> Vec<Value> {
    let schema = include_str!("../../../../docs/howdah-events.schema.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    let out = String::from_utf8_lossy(&done.out).into_owned();
    let events = out.lines().map(|line| {
        let event: Value = serde_json::from_str(line).unwrap();
        let wrong = violations(&schema, &event);
        assert!(wrong.is_empty(), "{event}: {wrong:?}");
        event
    });
    events.filter(|event| event["event"] == what).collect()
}

fn linked(done: &Done) -> (u64, u64, u64) {
    let tree = &done.json()["tree"];
    let count = |what: &str| tree[what].as_u64().unwrap();
    (count("files"), count("unchanged"), count("linked"))
}

/// Trees that look random, and what becomes of them.
fn grow(dir: &str) {
    for n in 0..40u64 {
        let deep = ["", "a/", "a/b/", "c d/"][n as usize % 4];
        let text = "x".repeat(n as usize * 37 % 5000);
        let modes = [0o644, 0o600, 0o755, 0o440];
        write(
            format!("{dir}/{deep}f{n}"),
            &text,
            modes[n as usize % 3],
            1_000_000 + n,
        );
    }
    // One that travels as an object of its own.
    let large = File::create(format!("{dir}/large")).unwrap();
    large.set_len(5 << 20).unwrap();
    set(format!("{dir}/large"), 0o644, 77);
    fs::hard_link(format!("{dir}/f0"), format!("{dir}/a/twin-of-0")).unwrap();
    fs::hard_link(format!("{dir}/f4"), format!("{dir}/twin-of-4")).unwrap();
    symlink("f0", format!("{dir}/link")).unwrap();
}

fn change(dir: &str) {
    write(format!("{dir}/f8"), "longer than it was", 0o644, 1_000_008);
    set(format!("{dir}/f12"), 0o600, 1_000_012);
    set(format!("{dir}/f16"), 0o640, 2_000_000);
    set(format!("{dir}/a/f5"), 0o644, 2_000_000);
    fs::remove_file(format!("{dir}/f20")).unwrap();
    fs::remove_file(format!("{dir}/f24")).unwrap();
    fs::create_dir(format!("{dir}/f24")).unwrap();
    write(format!("{dir}/f24/in"), "in", 0o644, 5);
    write(format!("{dir}/new"), "new", 0o644, 5);
    // Both names change.
    set(format!("{dir}/f4"), 0o640, 1_000_004);
    let f9 = File::open(format!("{dir}/a/f9")).unwrap();
    let set = rustix::fs::fsetxattr(&f9, "user.x", b"1", rustix::fs::XattrFlags::empty());
    if let Err(e) = set {
        println!("no attributes here: {e}");
    }
    if rustix::process::geteuid().is_root() {
        chown(format!("{dir}/c d/f7"), Some(12), Some(13)).unwrap();
    }
}

#[test]
fn link_dest_links_what_rsync_links() {
    every_way(400, |way| {
        let (from, day) = ((way.source)("s"), |n: &str| {
            (way.target)(&format!("snaps/{n}"))
        });
        grow(&from);
        let _ = fs::create_dir((way.target)("snaps"));
        way.ok(&["sync", "-a"], "s", "snaps/day1");
        change(&from);
        let before = files(&day("day1"));
        let rsync_to = |to: &str, dirs: &[&str]| {
            let dirs: Vec<String> = dirs.iter().map(|d| format!("--link-dest={d}")).collect();
            let mut args = vec!["-aHX"];
            args.extend(dirs.iter().map(|d| &**d));
            let (from, to) = (format!("{from}/"), day(to));
            args.extend([&*from, &*to]);
            rsync(&args)
        };
        let flags = ["--link-dest", "../day1"];
        let done = way.ok(&[&["sync", "-a"], &flags[..]].concat(), "s", "snaps/day2");
        let (day1, day2) = (day("day1"), day("day2"));
        assert_eq!(files(&from), files(&day2), "{}", way.what);
        let ours = shared(&day2, &day1);
        assert!(ours.len() > 30 && ours.contains("large"), "{ours:?}");
        assert!(ours.contains("a/twin-of-0"), "{ours:?}");
        assert_eq!(linked(&done).2, ours.len() as u64 - 1, "{}", way.what);
        if rsync_to("rsynced2", &["../day1"]) {
            assert_eq!(ours, shared(&day("rsynced2"), &day1), "{}", way.what);
        }
        // Further names are those of the copy.
        for (a, b) in [("f0", "a/twin-of-0"), ("f4", "twin-of-4")] {
            assert_eq!(inode(format!("{day2}/{a}")), inode(format!("{day2}/{b}")));
        }
        // Again: nothing to do.
        let inodes: Vec<u64> = ours
            .iter()
            .map(|name| inode(format!("{day2}/{name}")))
            .collect();
        let again = [&["sync", "-a"], &flags[..]].concat();
        let done = way.ok(&again, "s", "snaps/day2");
        let (copied, unchanged, more) = linked(&done);
        assert_eq!((copied, more), (0, 0), "{}", way.what);
        assert!(unchanged > 40);
        let now: Vec<u64> = ours
            .iter()
            .map(|name| inode(format!("{day2}/{name}")))
            .collect();
        assert_eq!(inodes, now);
        let done = way.ok(&[&again[..], &["--dry-run"]].concat(), "s", "snaps/day2");
        assert_eq!(events(&done, "change"), Vec::<Value>::new());

        // The first that has it counts; what only the older one has comes from there.
        set(format!("{from}/f8"), 0o600, 3_000_000);
        set(format!("{from}/f12"), 0o644, 1_000_012);
        let flags = ["--link-dest", "../day2", "--link-dest", "../day1"];
        let done = way.ok(&[&["sync", "-a"], &flags[..]].concat(), "s", "snaps/day3");
        let day3 = day("day3");
        assert_eq!(files(&from), files(&day3), "{}", way.what);
        assert_eq!(
            inode(format!("{day3}/f12")),
            inode(format!("{day1}/f12")),
            "{}",
            way.what
        );
        assert_eq!(inode(format!("{day3}/new")), inode(format!("{day2}/new")));
        assert_eq!(linked(&done).0, 1, "only f8: {}", done.err);
        if rsync_to("rsynced3", &["../day2", "../day1"]) {
            assert_eq!(shared(&day3, &day2), shared(&day("rsynced3"), &day2));
            assert_eq!(shared(&day3, &day1), shared(&day("rsynced3"), &day1));
        }
        assert_eq!(files(&day1), before, "{}", way.what);
    });
}

/// rsync's known trap: permissions and times that are put right in place change the snapshot, too.
#[test]
fn link_dest_never_changes_what_is_linked() {
    every_way(400, |way| {
        let from = (way.source)("s");
        let day = |n: &str| (way.target)(&format!("snaps/{n}"));
        let names = ["content", "resized", "mode", "time", "both", "kept"];
        for name in names {
            write(format!("{from}/{name}"), "text", 0o644, 1000);
        }
        write(format!("{from}/one"), "text", 0o644, 1000);
        fs::hard_link(format!("{from}/one"), format!("{from}/two")).unwrap();
        let _ = fs::create_dir((way.target)("snaps"));
        way.ok(&["sync", "-a"], "s", "snaps/day1");
        let before = files(&day("day1"));
        let link: &[&str] = &["--link-dest", "../day1"];
        for (n, (kept, again)) in [
            (&["-a"][..], link),
            (&["-a", "--checksum"], link),
            (&[], link),
            (&["--size-only"], link),
            // Who forgets it the second time.
            (&[], &[]),
        ]
        .into_iter()
        .enumerate()
        {
            let to = format!("snaps/to{n}");
            for name in names {
                write(format!("{from}/{name}"), "text", 0o644, 1000);
            }
            set(format!("{from}/one"), 0o644, 1000);
            way.ok(&[&["sync"], kept, link].concat(), "s", &to);
            let made = day(&format!("to{n}"));
            assert_eq!(
                shared(&made, &day("day1")).len(),
                8,
                "{} {kept:?}",
                way.what
            );
            write(format!("{from}/content"), "txet", 0o644, 2000);
            write(format!("{from}/resized"), "longer", 0o644, 1000);
            set(format!("{from}/mode"), 0o600, 1000);
            set(format!("{from}/time"), 0o644, 3000);
            set(format!("{from}/both"), 0o600, 3000);
            set(format!("{from}/one"), 0o600, 3000);
            way.ok(&[&["sync"], kept, again].concat(), "s", &to);
            assert_eq!(files(&day("day1")), before, "{} {kept:?}", way.what);
            let (mut ours, mut theirs) = (files(&made), files(&from));
            if kept.contains(&"--size-only") {
                // It is not to see that.
                ours.get_mut("content").unwrap().3 = b"txet".to_vec();
            }
            assert_eq!(&mut ours, &mut theirs, "{} {kept:?}", way.what);
            if kept.contains(&"-a") {
                let twins = ["one", "two"].map(|name| inode(format!("{made}/{name}")));
                assert_eq!(twins[0], twins[1], "{} {kept:?}", way.what);
            }
            assert_eq!(
                shared(&made, &day("day1")),
                ["kept".to_owned()].into(),
                "{} {kept:?}",
                way.what
            );
        }
        // What is changed in the other directory afterwards stays there.
        way.ok(&["sync", "-a"], "s", "snaps/day1");
        let later = files(&day("to0"));
        fs::write(format!("{from}/kept"), "other").unwrap();
        way.ok(&["sync", "-a"], "s", "snaps/day1");
        assert_eq!(files(&day("to0")), later);
    });
}

/// What is seen of a name itself: mode, owner, time, target or content.
fn known(path: &str) -> (u32, u32, i64, i64, Vec<u8>) {
    let meta = fs::symlink_metadata(path).unwrap();
    let content = if meta.is_symlink() {
        fs::read_link(path).unwrap().into_os_string().into_vec()
    } else {
        fs::read(path).unwrap()
    };
    let time = (meta.mtime(), meta.mtime_nsec());
    (meta.mode(), meta.uid(), time.0, time.1, content)
}

/// As `cp -al` keeps an older state: what names lie outside of the destination, nothing is changed through those inside.
#[test]
fn t26_what_has_names_outside_of_the_destination_is_not_changed_through_them() {
    let is_root = rustix::process::geteuid().is_root();
    every_way(400, |way| {
        let from = (way.source)("s");
        let names = ["one", "two", "alone", "sub/three", "large", "link"];
        let cases: [(&[&str], bool); 8] = [
            (&["sync", "-a"], true),
            (&["sync", "-a", "--checksum"], true),
            (&["sync", "-a", "--delete", "--backup-dir", ".old"], true),
            (&["sync"], true),
            (&["sync", "-a", "--size-only"], true),
            (&["sync", "-a", "--chmod", "F640"], false),
            (&["cp", "-a"], true),
            (&["cp", "-rp"], true),
        ];
        for (n, (flags, is_equal)) in cases.into_iter().enumerate() {
            let _ = fs::remove_dir_all(&from);
            for name in ["one", "alone"] {
                write(format!("{from}/{name}"), "text", 0o644, 1000);
            }
            fs::create_dir(format!("{from}/sub")).unwrap();
            for further in ["two", "sub/three"] {
                fs::hard_link(format!("{from}/one"), format!("{from}/{further}")).unwrap();
            }
            let large = File::create(format!("{from}/large")).unwrap();
            large.set_len(5 << 20).unwrap();
            set(format!("{from}/large"), 0o644, 1000);
            fs::hard_link(format!("{from}/large"), format!("{from}/sub/large2")).unwrap();
            symlink("one", format!("{from}/link")).unwrap();
            let (to, old) = (format!("x{n}/to"), (way.target)(&format!("x{n}/old")));
            fs::create_dir_all(format!("{old}/sub")).unwrap();
            let source = if flags[0] == "cp" { "s/." } else { "s" };
            way.ok(flags, source, &to);
            let made = (way.target)(&to);
            for name in names {
                fs::hard_link(format!("{made}/{name}"), format!("{old}/{name}")).unwrap();
            }
            let all = |dir: &str| names.map(|name| known(&format!("{dir}/{name}")));
            let before = all(&old);

            // All but the content.
            for name in ["one", "alone", "large"] {
                set(format!("{from}/{name}"), 0o600, 1000);
            }
            if is_root {
                chown(format!("{from}/one"), Some(12), Some(13)).unwrap();
            }
            let time = rustix::fs::Timespec {
                tv_sec: 5000,
                tv_nsec: 0,
            };
            let times = rustix::fs::Timestamps {
                last_access: time,
                last_modification: time,
            };
            let nofollow = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
            let link = format!("{from}/link");
            rustix::fs::utimensat(rustix::fs::CWD, &link, &times, nofollow).unwrap();
            way.ok(flags, source, &to);
            assert_eq!(all(&old), before, "{} {flags:?}", way.what);
            if is_equal {
                let (ours, theirs) = (all(&made), all(&from));
                for (ours, theirs) in ours.iter().zip(&theirs) {
                    let owned = !flags.contains(&"-a") || ours.1 == theirs.1;
                    let rest = |of: &(u32, u32, i64, i64, Vec<u8>)| (of.0, of.2, of.4.len());
                    assert!(
                        owned && rest(ours) == rest(theirs),
                        "{} {flags:?} {:?} {:?}",
                        way.what,
                        rest(ours),
                        rest(theirs)
                    );
                }
            }
            // Times, too, and then there is nothing to do.
            for name in ["one", "alone", "large"] {
                set(format!("{from}/{name}"), 0o600, 3000);
            }
            way.ok(flags, source, &to);
            assert_eq!(all(&old), before, "{} {flags:?}", way.what);
            if flags.contains(&"-a") {
                for further in ["two", "sub/three"] {
                    let twin = inode(format!("{made}/{further}"));
                    assert_eq!(twin, inode(format!("{made}/one")), "{} {flags:?}", way.what);
                }
            }
            let again = way.ok(flags, source, &to);
            assert_eq!(linked(&again).0, 0, "{} {flags:?}", way.what);
            if flags[0] == "sync" {
                let dry = way.ok(&[flags, &["--dry-run"]].concat(), source, &to);
                assert_eq!(events(&dry, "change"), Vec::<Value>::new(), "{flags:?}");
            }
            fs::remove_dir_all((way.target)(&format!("x{n}"))).unwrap();
        }
    });
}

#[test]
fn link_dest_takes_nothing_that_a_copy_would_not_be() {
    every_way(300, |way| {
        let from = (way.source)("s");
        let day1 = (way.target)("x/day1");
        // No umask takes anything from that.
        for name in ["same", "open", "other", "later"] {
            write(format!("{from}/{name}"), "text", 0o600, 1000);
            write(format!("{day1}/{name}"), "text", 0o600, 1000);
        }
        set(format!("{day1}/open"), 0o644, 1000);
        // Same size and time, and not the same.
        write(format!("{day1}/other"), "txet", 0o600, 1000);
        set(format!("{day1}/later"), 0o600, 2000);
        symlink("same", format!("{day1}/new")).unwrap();
        write(format!("{from}/new"), "text", 0o600, 1000);
        let link = ["--link-dest", "../day1"];
        for (flags, to, expected) in [
            // Nobody gets more of it than of the source, whatever is kept.
            (&["cp", "-r"][..], "x/plain", &["other", "same"][..]),
            (&["sync"], "x/synced", &["other", "same"]),
            (&["sync", "-a", "--checksum"], "x/summed", &["same"]),
            (&["sync", "--chmod", "F644"], "x/changed", &["open"]),
        ] {
            way.ok(&[flags, &link].concat(), "s", to);
            let made = (way.target)(to);
            let found = shared(&made, &day1);
            let expected = expected.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(found, expected, "{} {flags:?}", way.what);
            if to != "x/changed" {
                let mode = fs::metadata(format!("{made}/open")).unwrap().mode();
                assert_eq!(mode & 0o777, 0o600);
            }
        }
        // What is replaced is kept, and a dry run says it all.
        fs::remove_file((way.target)("x/synced/same")).unwrap();
        write((way.target)("x/synced/same"), "was different", 0o600, 5);
        fs::remove_file((way.target)("x/synced/later")).unwrap();
        let flags = ["sync", "--backup-dir", "old", "--link-dest", "../plain"];
        let dry = way.ok(&[&flags[..], &["--dry-run"]].concat(), "s", "x/synced");
        let mut said: Vec<String> = events(&dry, "change")
            .iter()
            .filter(|event| event["path"] != ".")
            .map(|event| format!("{} {} {}", event["what"], event["path"], event["reasons"]))
            .collect();
        said.sort();
        // Between two others nobody here hears of it.
        if way.what != "between" {
            assert_eq!(
                said,
                [
                    "\"link\" \"later\" [\"new\",\"link-dest\"]",
                    "\"link\" \"same\" [\"size\",\"time\",\"link-dest\"]",
                ],
                "{}",
                way.what
            );
        }
        let done = way.ok(&flags, "s", "x/synced");
        assert_eq!((linked(&done).0, linked(&done).2), (0, 2), "{}", way.what);
        let old = fs::read((way.target)("x/synced/old/same")).unwrap();
        assert_eq!(old, b"was different");
        assert_eq!(
            inode((way.target)("x/synced/same")),
            inode((way.target)("x/plain/same"))
        );
    });
}

#[test]
fn link_dest_that_is_not_there_is_a_warning_and_nonsense_an_error() {
    every_way(400, |way| {
        write((way.source)("s/f"), "text", 0o600, 1000);
        write((way.target)("x/file"), "text", 0o600, 1000);
        let bad = ["../none", "../file", "../none/../none"];
        for (n, dir) in bad.into_iter().enumerate() {
            let to = format!("x/d{n}");
            let done = way.ok(&["sync", "-a", "--link-dest", dir], "s", &to);
            assert_eq!(linked(&done), (1, 0, 0), "{}", way.what);
            let is_said = done.err.contains("--link-dest") && done.err.contains(dir);
            assert!(is_said, "{} {dir}: {}", way.what, done.err);
        }
        // A copy of one file, too: seen from the directory that it is in.
        write((way.target)("x/day1/f"), "text", 0o600, 1000);
        let one = (way.target)("x/one");
        fs::create_dir(&one).unwrap();
        way.ok(&["cp", "--link-dest", "../day1"], "s/f", "x/one/f");
        assert_eq!(inode(format!("{one}/f")), inode((way.target)("x/day1/f")));
    });
    let site = Site::new(60);
    let nobody = "howdah://127.0.0.1:9/x";
    let many: Vec<&str> = std::iter::repeat_n(["--link-dest", "d"], 21)
        .flatten()
        .collect();
    for (flags, part) in [
        (&["--link-dest", ""][..], "--link-dest"),
        (&["--link-dest", &"d/".repeat(3000)], "4095"),
        (&many, "21 times"),
    ] {
        for command in ["cp", "sync"] {
            let args = [&[command], flags, &["src", nobody]].concat();
            let done = site.run(Host::Here, "client", &args, Input::None);
            done.assert_failed(USAGE, &[part]);
        }
    }
    for stream in ["-", "zero:1"] {
        let args = ["cp", "--link-dest", "d", stream, nobody];
        let done = site.run(Host::Here, "client", &args, Input::None);
        done.assert_failed(USAGE, &["--link-dest", stream]);
    }
}

#[test]
fn link_dest_does_not_lead_out_of_a_servers_root() {
    let site = Site::new(120);
    let server = site.serve();
    for dir in [site.file("s"), site.file("secret"), site.root("day1")] {
        write(format!("{dir}/f"), "text", 0o644, 1000);
    }
    symlink(site.file("secret"), site.root("link")).unwrap();
    symlink("../../files/secret", site.root("day1/link")).unwrap();
    let run = |dir: &str, to: &str| {
        let (from, to) = (site.file("s"), server.url(to));
        let args = [
            "sync",
            "--json",
            "--accept-new",
            "-a",
            "--link-dest",
            dir,
            &from,
            &to,
        ];
        site.run(Host::Here, "client", &args, Input::None)
    };
    for dir in [
        "../../files/secret",
        "..//../files/secret",
        "/../files/secret",
        "../x/../../files/secret",
    ] {
        let done = run(dir, "out");
        done.assert_failed(
            REFUSED,
            &["--link-dest", "below the directory that is served"],
        );
        assert!(!fs::exists(site.root("out/f")).unwrap(), "{dir}");
    }
    // Links are not followed, and the root of the machine is not meant.
    let absolute = site.file("secret");
    for (n, dir) in ["../link", "../day1/link", &absolute].iter().enumerate() {
        let to = format!("in{n}");
        let done = run(dir, &to);
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert_eq!(linked(&done), (1, 0, 0), "{dir}");
        assert!(done.err.contains("nothing is linked"), "{}", done.err);
        assert_ne!(
            inode(site.root(&format!("{to}/f"))),
            inode(site.file("secret/f"))
        );
    }
    for (n, dir) in ["../day1", "/day1", ".././day1/"].iter().enumerate() {
        let done = run(dir, &format!("well{n}"));
        assert_eq!(
            (done.code, linked(&done)),
            (Some(0), (0, 0, 1)),
            "{dir}: {}",
            done.err
        );
    }
    // A link to a directory inside of DIR leads nowhere, either.
    write(site.file("s/link/f"), "text", 0o644, 1000);
    let done = run("../day1", "deep");
    assert_eq!(
        (done.code, linked(&done)),
        (Some(0), (1, 0, 1)),
        "{}",
        done.err
    );
    server.stop();

    // Who may not look learns nothing by it; who may only add may link.
    for (options, refused) in [
        ("write-only", true),
        ("no-list", true),
        ("no-delete", false),
    ] {
        site.grant(options);
        let server = site.serve();
        let (from, to) = (site.file("s"), server.url(options));
        let args = [
            "sync",
            "--json",
            "--accept-new",
            "--link-dest",
            "../day1",
            &from,
            &to,
        ];
        let done = site.run(Host::Here, "client", &args, Input::None);
        if refused {
            done.assert_failed(REFUSED, &["--link-dest", "would tell what is there"]);
            assert!(!fs::exists(site.root(options)).unwrap());
        } else {
            assert_eq!(
                (done.code, linked(&done)),
                (Some(0), (1, 0, 1)),
                "{}",
                done.err
            );
        }
        server.stop();
    }
}

/// Btrfs makes no further names across its subvolumes, but clones.
#[test]
fn link_dest_clones_where_the_disk_cannot_link() {
    let site = Site::new(120);
    let (image, at) = (site.file("image"), site.root("disk"));
    fs::create_dir(&at).unwrap();
    File::create(&image).unwrap().set_len(256 << 20).unwrap();
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can mount a disk");
        return;
    }
    let tool = |name: &str, args: &[&str]| match Command::new(name).args(args).output() {
        Ok(done) if done.status.success() => true,
        other => {
            println!("skipped: {name}: {other:?}");
            false
        }
    };
    let mounted =
        tool("mkfs.btrfs", &["-q", &image]) && tool("mount", &["-o", "loop", &image, &at]);
    if !mounted {
        return;
    }
    let _disk = SmallDisk::mounted(&at);
    for volume in ["day1", "day2"] {
        if !tool("btrfs", &["subvolume", "create", &format!("{at}/{volume}")]) {
            return;
        }
    }
    for n in 0..8 {
        let text = format!("{n}").repeat(100_000);
        write(site.file(&format!("s/f{n}")), &text, 0o640, 1000 + n);
    }
    let server = site.serve();
    let run = |flags: &[&str], to: &str| {
        let (from, to) = (site.file("s"), server.url(to));
        let args = [
            &["sync", "--json", "--accept-new", "-a"],
            flags,
            &[&from, &to],
        ]
        .concat();
        site.run(Host::Here, "client", &args, Input::None)
    };
    assert_eq!(run(&[], "disk/day1").code, Some(0));
    let done = run(&["--link-dest", "../day1"], "disk/day2");
    assert_eq!(
        (done.code, linked(&done)),
        (Some(0), (0, 0, 8)),
        "{}",
        done.err
    );
    assert_eq!(files(&site.file("s")), files(&format!("{at}/day2")));
    let done = run(&["--link-dest", "../day1"], "disk/day2");
    assert_eq!(linked(&done), (0, 8, 0), "{}", done.err);
    // And where it can do neither, they come, which is said.
    let done = run(&["--link-dest", "../disk/day1"], "elsewhere");
    assert_eq!(
        (done.code, linked(&done)),
        (Some(0), (8, 0, 0)),
        "{}",
        done.err
    );
    assert!(done.err.contains("on another disk"), "{}", done.err);
    server.stop();
}
