//! F04, F13, F15, F17, F18: the i-th call of each kind fails, for every i, on the side that writes and on
//! the side that reads.
//!
//! `strace` counts the calls of each thread by itself, so that a call fails in every thread that comes so
//! far. Whatever fails: the copy ends well and the file is right, or it ends with an error and nothing wrong
//! has the name; and the same command without the fault then completes and leaves nothing behind.
//!
//! `HOWDAH_FAULTS=all` tries every i (`make kill-test`); otherwise the first two of each kind.
#![cfg(target_os = "linux")]

use crate::support;
use crate::support::place::{content, hash_of};
use crate::support::process::{Process, Server};
use crate::support::{Host, Site};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A call, how it fails, and for what size of a file: the journal has its first entries from 16 MiB on.
const CASES: [(&str, &str, usize); 18] = [
    ("pwritev", "EIO", SMALL),
    ("pwritev", "ENOSPC", SMALL),
    ("pwritev", "EDQUOT", SMALL),
    ("fallocate", "ENOSPC", SMALL),
    ("fallocate", "EIO", SMALL),
    ("ftruncate", "EIO", SMALL),
    ("fchmod", "EPERM", SMALL),
    ("fsync", "EIO", SMALL),
    ("fsync", "ENOSPC", LARGE),
    ("fdatasync", "EIO", LARGE),
    ("pwrite64", "ENOSPC", LARGE),
    ("renameat2", "EIO", SMALL),
    ("unlinkat", "EIO", LARGE),
    ("pread64", "EIO", SMALL),
    ("openat", "EMFILE", SMALL),
    ("openat", "EIO", LARGE),
    ("open", "EMFILE", SMALL),
    ("open", "EIO", SMALL),
];
/// The same for a small tree.
const TREE_CASES: [(&str, &str); 18] = [
    ("openat", "EMFILE"),
    ("openat", "EACCES"),
    ("openat2", "EMFILE"),
    ("open", "EMFILE"),
    ("mkdirat", "ENOSPC"),
    ("mkdirat", "EACCES"),
    ("pwritev", "ENOSPC"),
    ("syncfs", "EIO"),
    ("fsync", "EIO"),
    ("fchmod", "EPERM"),
    ("utimensat", "EPERM"),
    ("renameat2", "EIO"),
    ("renameat2", "EACCES"),
    ("linkat", "EMLINK"),
    ("symlinkat", "EACCES"),
    ("unlinkat", "EACCES"),
    ("getdents64", "EIO"),
    ("newfstatat", "EIO"),
];
const SMALL: usize = (5 << 20) + 7;
const LARGE: usize = (40 << 20) + 7;
/// A bound on i; a copy of that size makes far fewer calls of each kind in a thread.
const MAX_CALLS: u32 = 200;

#[derive(Clone, Copy, Debug)]
enum Side {
    Server,
    Client,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Put,
    Get,
}

fn can_inject() -> bool {
    let inject = [
        "-f",
        "-o",
        "/dev/null",
        "-e",
        "inject=fsync:error=EIO",
        "true",
    ];
    match Command::new("strace").args(inject).output() {
        Ok(output) if output.status.success() => true,
        other => {
            println!("skipped: strace cannot inject failures here: {other:?}");
            false
        }
    }
}

fn every_call_fails(side: Side, way: Way) {
    if !can_inject() {
        return;
    }
    let all = std::env::var("HOWDAH_FAULTS").is_ok_and(|value| value == "all");
    let site = Site::new(if all { 1_800 } else { 240 });
    for size in [SMALL, LARGE] {
        let bytes = content("faults", size);
        for path in [site.file("source"), site.root("source")] {
            fs::write(format!("{path}{size}"), &bytes).unwrap();
        }
    }
    for (call, error, size) in CASES {
        let mut tried = 0;
        for i in 1..MAX_CALLS {
            let injected = one_call_fails(&site, (side, way), (call, error, i), size);
            if !injected || (!all && i == 2) {
                break;
            }
            tried = i;
        }
        println!("{side:?} of {way:?}: {call} {error}: {tried} places");
    }
}

/// Whether there was an `i`-th call to fail.
fn one_call_fails(
    site: &Site,
    (side, way): (Side, Way),
    (call, error, i): (&str, &str, u32),
    size: usize,
) -> bool {
    let what = format!("{side:?} of {way:?}: {call}:error={error}:when={i}");
    let log = site.file("strace");
    let mut options = vec![
        "-f".to_owned(),
        "--seccomp-bpf".to_owned(),
        "-o".to_owned(),
        log.clone(),
        "-e".to_owned(),
        format!("trace={call}"),
        "-e".to_owned(),
        format!("inject={call}:error={error}:when={i}"),
    ];
    // The loader reads and opens, too: only calls for the files count.
    let paths = match call {
        "pread64" => {
            let part = part_of_target();
            vec![
                site.root(&part),
                site.file(&part),
                site.root(&format!("source{size}")),
                site.file(&format!("source{size}")),
            ]
        }
        "openat" => vec![bare(&site.root("")), bare(&site.file(""))],
        // Not the server's root: a server that cannot open it does not begin.
        "open" => vec![bare(&site.file("")), site.file(&format!("source{size}"))],
        _ => Vec::new(),
    };
    for path in paths {
        options.extend(["-P".to_owned(), path]);
    }
    let serve = ["serve", "--listen", "127.0.0.1:0", "--root", &site.root("")];
    let server = match side {
        Side::Server => Server::new(site.start_traced(&options, "server", &serve)),
        Side::Client => site.serve(),
    };
    let (from, to, there) = match way {
        Way::Put => (
            site.file(&format!("source{size}")),
            server.url("target"),
            site.root("target"),
        ),
        Way::Get => (
            server.url(&format!("source{size}")),
            site.file("target"),
            site.file("target"),
        ),
    };
    let copy = [
        "cp",
        "--json",
        "--accept-new",
        "--idle-timeout",
        "3s",
        // It is waited for in `full_disks.rs`.
        "--wait-for-space",
        "0",
        &from,
        &to,
    ];
    let client: Process = match side {
        Side::Server => site.start_copy(Host::Here, &copy[3..], support::process::Input::None),
        Side::Client => site.start_traced(&options, "client", &copy),
    };
    let done = client.finish();
    assert!(!done.err.contains("panicked"), "{what}: {}", done.err);
    let expected = hash_of(&format!("{}{size}", site.file("source")));
    if done.code == Some(0) {
        assert_eq!(hash_of(&there), expected, "{what}: success, and wrong");
    } else if fs::exists(&there).unwrap() {
        // The name may be there after an error of the directory's sync: then with the whole content.
        assert_eq!(
            hash_of(&there),
            expected,
            "{what}: a wrong file under the name"
        );
    }
    let injected = fs::read_to_string(&log).is_ok_and(|log| log.contains("(INJECTED)"));
    server.process.signal(Signal::KILL);
    drop(server);
    let _ = fs::remove_file(&there);
    // Without the fault the same command completes.
    let server = site.serve();
    let (from, to) = match way {
        Way::Put => (from, server.url("target")),
        Way::Get => (server.url(&format!("source{size}")), to),
    };
    let again = site.copy(Host::Here, &from, &to);
    again.assert_copied(size as u64, "blake3");
    assert_eq!(hash_of(&there), expected, "{what}: the second time");
    fs::remove_file(&there).unwrap();
    site.assert_nothing_half_done();
    server.stop();
    injected
}

/// A directory without the slash at its end, as `strace` wants it.
fn bare(dir: &str) -> String {
    dir.trim_end_matches('/').to_owned()
}

/// The unfinished file of `target`, as docs/resume.md says.
fn part_of_target() -> String {
    let hash = blake3::hash(b"target");
    let digits = u64::from_le_bytes(hash.as_bytes()[..8].try_into().unwrap());
    format!(".target.{digits:016x}.howdah-part")
}

#[test]
fn f04_every_call_of_a_receiving_server_fails_once() {
    every_call_fails(Side::Server, Way::Put);
}

#[test]
fn f04_every_call_of_a_receiving_client_fails_once() {
    every_call_fails(Side::Client, Way::Get);
}

#[test]
fn f27_every_read_of_a_sending_client_fails_once() {
    every_call_fails(Side::Client, Way::Put);
}

/// Directories, small files, a large one, links of both kinds.
fn make_tree(top: &str) {
    for sub in ["", "/a", "/a/b", "/empty"] {
        fs::create_dir(format!("{top}{sub}")).unwrap();
    }
    for name in ["one", "two", "a/three", "a/b/four", "a/b/five"] {
        fs::write(format!("{top}/{name}"), content(name, 3_000)).unwrap();
    }
    fs::write(format!("{top}/a/large"), content("large", SMALL)).unwrap();
    fs::hard_link(format!("{top}/one"), format!("{top}/a/b/one again")).unwrap();
    std::os::unix::fs::symlink("../one", format!("{top}/a/link")).unwrap();
}

/// Contents by path; a directory has none.
fn contents(top: &str) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut all = BTreeMap::new();
    let mut dirs = vec![PathBuf::new()];
    while let Some(dir) = dirs.pop() {
        let Ok(entries) = fs::read_dir(Path::new(top).join(&dir)) else {
            continue;
        };
        for entry in entries {
            let below = dir.join(entry.unwrap().file_name());
            let path = Path::new(top).join(&below);
            if path.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                all.insert(below, Some(target.into_os_string().into_encoded_bytes()));
            } else if path.is_dir() {
                all.insert(below.clone(), None);
                dirs.push(below);
            } else {
                all.insert(below, Some(fs::read(&path).unwrap()));
            }
        }
    }
    all
}

/// Whether there was an `i`-th call to fail in a tree's copy.
fn one_call_of_a_tree_fails(site: &Site, side: Side, (call, error, i): (&str, &str, u32)) -> bool {
    let what = format!("{side:?} of a tree: {call}:error={error}:when={i}");
    let (log, from, there) = (site.file("strace"), site.file("tree"), site.root("there"));
    let mut options = ["-f", "--seccomp-bpf", "-o", &log, "-e"]
        .map(str::to_owned)
        .to_vec();
    options.push(format!("trace={call}"));
    options.extend([
        "-e".to_owned(),
        format!("inject={call}:error={error}:when={i}"),
    ]);
    let by_name = call.ends_with("at") && call != "utimensat";
    if by_name || ["open", "openat2", "renameat2", "getdents64"].contains(&call) {
        // Only those for the trees, by the directory that is open.
        let trees = ["", "/a", "/a/b", "/empty"]
            .map(|sub| [&from, &there].map(|top| format!("{top}{sub}")));
        let mut paths = trees.concat();
        paths.push(bare(&site.file("")));
        if call != "open" {
            // A server that cannot open it does not begin.
            paths.push(bare(&site.root("")));
        }
        for path in paths {
            options.extend(["-P".to_owned(), path]);
        }
    }
    let serve = ["serve", "--listen", "127.0.0.1:0", "--root", &site.root("")];
    let server = match side {
        Side::Server => Server::new(site.start_traced(&options, "server", &serve)),
        Side::Client => site.serve(),
    };
    let url = server.url("there");
    let source = format!("{from}/.");
    let copy = [
        "cp",
        "--json",
        "--accept-new",
        "--idle-timeout",
        "3s",
        "--wait-for-space",
        "0",
        "-a",
        &source,
        &url,
    ];
    let client = match side {
        Side::Server => site.start_copy(Host::Here, &copy[3..], support::process::Input::None),
        Side::Client => site.start_traced(&options, "client", &copy),
    };
    let done = client.finish();
    assert!(!done.err.contains("panicked"), "{what}: {}", done.err);
    let expected = contents(&from);
    let found = contents(&there);
    let is_ours = |path: &Path| {
        let name = path.to_string_lossy();
        name.ends_with(".howdah-part") || name.ends_with(".howdah-journal")
    };
    for (path, content) in &found {
        let right = expected.get(path) == Some(content);
        assert!(
            right || is_ours(path),
            "{what}: {} is wrong",
            path.display()
        );
    }
    if done.code == Some(0) {
        // A journal whose removal is what failed speaks of nothing any more, and goes with the next copy.
        let all = expected.keys().all(|path| found.contains_key(path));
        assert!(all, "{what}: success, and not all is there");
    }
    let injected = fs::read_to_string(&log).is_ok_and(|log| log.contains("(INJECTED)"));
    server.process.signal(Signal::KILL);
    drop(server);
    // Without the fault the same command completes.
    let server = site.serve();
    let again = ["-a", &source, &server.url("there")];
    let again = site.copy_with(Host::Here, &again, support::process::Input::None);
    assert_eq!(
        again.code,
        Some(0),
        "{what}: the second time: {}",
        again.err
    );
    let found = contents(&there);
    let names: Vec<_> = found.keys().chain(expected.keys()).collect();
    let wrong = names.iter().find(|n| found.get(**n) != expected.get(**n));
    assert!(
        wrong.is_none(),
        "{what}: the second time: {}",
        wrong.unwrap().display()
    );
    site.assert_nothing_half_done();
    server.stop();
    fs::remove_dir_all(&there).unwrap();
    injected
}

fn every_call_of_a_tree_fails(side: Side) {
    if !can_inject() {
        return;
    }
    let all = std::env::var("HOWDAH_FAULTS").is_ok_and(|value| value == "all");
    let site = Site::new(if all { 1_800 } else { 240 });
    make_tree(&site.file("tree"));
    for (call, error) in TREE_CASES {
        let mut tried = 0;
        for i in 1..MAX_CALLS {
            if !one_call_of_a_tree_fails(&site, side, (call, error, i)) {
                break;
            }
            tried = i;
            if !all && i == 2 {
                break;
            }
        }
        println!("{side:?} of a tree: {call} {error}: {tried} places");
    }
}

#[test]
fn f04_every_call_of_a_server_that_receives_a_tree_fails_once() {
    every_call_of_a_tree_fails(Side::Server);
}

#[test]
fn f27_every_call_of_a_client_that_sends_a_tree_fails_once() {
    every_call_of_a_tree_fails(Side::Client);
}

/// Options of `strace` with which such calls for `path` fail: with `ERROR`, or `ERROR:when=2` and the like.
fn failing(call: &str, error: &str, path: &str) -> Vec<String> {
    let trace = format!("trace={call}");
    let inject = format!("inject={call}:error={error}");
    let options = [
        "-f",
        "--seccomp-bpf",
        "-o",
        "/dev/null",
        "-e",
        &trace,
        "-e",
        &inject,
        "-P",
        path,
    ];
    options.map(str::to_owned).to_vec()
}

/// What a directory has behind a bad block is not known: to leave it out would be a success with names missing.
#[test]
fn f27_names_of_a_directory_that_cannot_be_read_to_its_end_are_no_answer() {
    const NAMES: usize = 3_000;
    if !can_inject() {
        return;
    }
    let site = Site::new(120);
    fs::create_dir(site.root("d")).unwrap();
    fs::create_dir(site.file("got")).unwrap();
    for number in 0..NAMES {
        fs::write(site.root(&format!("d/{number}.tar")), "").unwrap();
    }
    let options = failing("getdents64", "EIO:when=2", &site.root("d"));
    let serve = ["serve", "--listen", "127.0.0.1:0", "--root", &site.root("")];
    let server = Server::new(site.start_traced(&options, "server", &serve));
    let (from, to) = (server.url("d/*.tar"), site.file("got/"));
    let done = site.copy_with(Host::Here, &[&from, &to], support::process::Input::None);
    done.assert_failed(1, &["cannot list", "Input/output error"]);
    assert_eq!(fs::read_dir(&to).unwrap().count(), 0);
    server.process.signal(Signal::KILL);
    drop(server);
    // Another command that reads names.
    let clean = ["clean", &site.root("d")];
    let done = site.start_traced(&options, "client", &clean).finish();
    done.assert_failed(6, &["cannot list", "Input/output error"]);
}

/// Another program that tidies up is quicker, name by name: what it leaves is no success.
#[test]
fn f27_a_directory_that_stays_since_what_lay_in_it_went_is_no_success() {
    if !can_inject() {
        return;
    }
    let site = Site::new(60);
    for dir in [site.root("s"), site.file("d/old")] {
        fs::create_dir_all(dir).unwrap();
    }
    fs::write(site.root("s/kept"), "text").unwrap();
    fs::write(site.file("d/old/gone"), "").unwrap();
    let server = site.serve();
    // Each look at it finds that it is gone, and something else has come.
    let options = failing("newfstatat", "ENOENT", &site.file("d/old"));
    let (from, to) = (server.url("s/"), site.file("d/"));
    let sync = ["sync", "--accept-new", "--delete", &from, &to];
    let done = site.start_traced(&options, "client", &sync).finish();
    done.assert_failed(6, &["old", "not empty"]);
    assert!(fs::exists(site.file("d/old/gone")).unwrap());
    let done = site.start(Host::Here, "client", &sync, support::process::Input::None);
    assert_eq!(done.finish().code, Some(0));
    assert!(!fs::exists(site.file("d/old")).unwrap());
    server.stop();
}

/// NFS, Ceph and some of FUSE cannot rename to a name that has to be free: what has it stays there as well.
#[test]
fn f27_what_an_earlier_run_has_kept_stays_where_renaming_cannot_spare_it() {
    if !can_inject() {
        return;
    }
    let site = Site::new(60);
    for dir in [site.root("s/a"), site.file("d/a"), site.file("d/.old")] {
        fs::create_dir_all(dir).unwrap();
    }
    fs::write(site.root("s/a/f"), "new").unwrap();
    fs::write(site.file("d/a/f"), "what was there").unwrap();
    // It was a file twice.
    for (name, text) in [("a.~1~", "first"), ("a", "second")] {
        fs::write(site.file(&format!("d/.old/{name}")), text).unwrap();
    }
    let server = site.serve();
    let options = failing("renameat2", "EINVAL", &site.file("d/.old"));
    let (from, to) = (server.url("s/"), site.file("d/"));
    let sync = ["sync", "--accept-new", "--backup-dir", ".old", &from, &to];
    let done = site.start_traced(&options, "client", &sync).finish();
    assert_eq!(done.code, Some(0), "{}", done.err);
    for (name, text) in [
        (".old/a.~1~", "first"),
        (".old/a.~2~", "second"),
        (".old/a/f", "what was there"),
        ("a/f", "new"),
    ] {
        let is = fs::read_to_string(site.file(&format!("d/{name}")));
        assert_eq!(is.ok().as_deref(), Some(text), "{name}");
    }
    server.stop();
}

/// Homes on disks of many hosts have no locks (Lustre), or nothing that makes names durable (some of FUSE and SMB).
#[test]
fn f27_keys_and_lists_may_lie_where_there_are_no_locks_and_directories_cannot_be_synced() {
    if !can_inject() {
        return;
    }
    let site = Site::new(120);
    let server = site.serve();
    let known = site.config("client").join("known_hosts");
    let client = site.config("client");
    fs::create_dir(site.root("d")).unwrap();
    fs::create_dir(site.file("lists")).unwrap();
    fs::write(site.root("d/a"), "text").unwrap();
    let (from, to, list) = (server.url("d"), site.file(""), site.file("lists/list"));
    let copy = ["cp", "-r", "--accept-new", "--manifest", &list, &from, &to];
    for (call, error, at) in [
        ("flock", "ENOSYS", &*known),
        ("flock", "ENOLCK", &*known),
        ("fsync", "EINVAL", &*client),
        ("fsync", "EINVAL", Path::new(&site.file("lists"))),
    ] {
        let _ = fs::remove_file(&known);
        let done = site.start_traced(&failing(call, error, at.to_str().unwrap()), "client", &copy);
        let done = done.finish();
        assert_eq!(done.code, Some(0), "{call} {error} {at:?}: {}", done.err);
        let lines = fs::read_to_string(&known).unwrap();
        assert_eq!(lines.lines().count(), 1, "{lines}");
        assert!(fs::read_to_string(&list).unwrap().ends_with("  d/a\n"));
    }
    let options = failing("fsync", "EINVAL", site.config("new").to_str().unwrap());
    let done = site.start_traced(&options, "new", &["key", "new"]).finish();
    assert_eq!(done.code, Some(0), "{}", done.err);
    server.stop();
}
