//! F13, F15: a disk, a quota or a table of inodes that is full. The copy says so with the file, what is missing and what
//! to do; what came is kept; and the same command goes on when there is room.
#![cfg(target_os = "linux")]

use crate::support;
use crate::support::place::{SmallDisk, content, hash_of};
use crate::support::process::{Done, Input};
use crate::support::relay::{Fate, Relay, Way};
use crate::support::sshd::Sshd;
use crate::support::{Host, Site, parts};
use std::fs;
use std::process::Command;
use std::time::Duration;

// As `howdah --help` lists it.
const NO_SPACE: i32 = 11;
const MIB: usize = 1 << 20;
/// For a line that comes.
const PATIENCE: Duration = Duration::from_secs(40);
/// As before anybody waited.
const AT_ONCE: [&str; 2] = ["--wait-for-space", "0"];
/// What a copy says when it begins to wait.
const WAITS: &str = "waiting up to";
const GOES_ON: &str = "there is room again";
/// Longer than a side that says nothing would be taken for alive.
const SILENCE: Duration = Duration::from_secs(12);

/// Everything that was said, in whatever form.
fn said(done: &Done) -> String {
    format!("{}{}", done.err, String::from_utf8_lossy(&done.out))
}

/// Another program takes all that is left, to the last page.
fn fill(path: &str) -> fs::File {
    let mut other = fs::File::create(path).unwrap();
    let filled = std::io::copy(&mut std::io::repeat(1), &mut other);
    assert_eq!(filled.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    other
}

/// If not, that is printed.
fn strace_injects() -> bool {
    let probe = [
        "-f",
        "-o",
        "/dev/null",
        "-e",
        "inject=fsync:error=EIO",
        "true",
    ];
    match Command::new("strace").args(probe).output() {
        Ok(output) if output.status.success() => true,
        other => {
            println!("skipped: strace cannot inject failures here: {other:?}");
            false
        }
    }
}

/// A file that is larger than the disk is refused before anything is sent.
#[test]
fn f13_what_cannot_fit_is_refused_at_once() {
    let site = Site::new(60);
    let Some(_disk) = SmallDisk::mount(&site.root(""), 8) else {
        return;
    };
    let server = site.serve();
    fs::write(site.file("big"), content("big", 32 * MIB)).unwrap();
    let put = site.copy(Host::Here, &site.file("big"), &server.url("big"));
    put.assert_failed(
        NO_SPACE,
        &[
            "\"big\"",
            "32.0 MiB more are needed and",
            " are free",
            "make room",
        ],
    );
    // A tree's large file, too.
    fs::create_dir(site.file("tree")).unwrap();
    fs::rename(site.file("big"), site.file("tree/big")).unwrap();
    let put = site.copy_with(
        Host::Here,
        &["-r", &site.file("tree/."), &server.url("")],
        Input::None,
    );
    put.assert_failed(
        NO_SPACE,
        &["\"big\"", "32.0 MiB more are needed and", "make room"],
    );
    assert_eq!(parts(site.root("")).len(), 0);
    // With holes instead of data it fits.
    let sparse = fs::File::create(site.file("sparse")).unwrap();
    sparse.set_len(64 << 20).unwrap();
    site.copy(Host::Here, &site.file("sparse"), &server.url("sparse"))
        .assert_copied(64 << 20, "blake3");
    server.stop();
}

/// Another program fills the disk meanwhile; then somebody makes room.
#[test]
fn f13_a_disk_that_fills_up_keeps_what_came_and_the_same_command_goes_on() {
    const SIZE: usize = 80 * MIB;
    let site = Site::new(120);
    let Some(_disk) = SmallDisk::mount(&site.root(""), 100) else {
        return;
    };
    let server = site.serve();
    fs::write(site.file("source"), content("full", SIZE)).unwrap();
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let (source, target) = (site.file("source"), relay.url("target"));
    let client = site.start_copy(
        Host::Here,
        &[&AT_ONCE[..], &["--limit", "200mbit", &source, &target]].concat(),
        Input::None,
    );
    relay.await_bytes(Way::ToServer, 50 << 20, site.limit());
    let other = fill(&site.root("other"));
    let done = client.finish();
    done.assert_failed(
        NO_SPACE,
        &[
            "\"target\"",
            "more are needed and",
            "make room",
            "the same command goes on where this one ended",
        ],
    );
    assert_eq!(done.json_error(), "no_space");
    assert!(!fs::exists(site.root("target")).unwrap());
    assert_eq!(parts(site.root("")).len(), 1, "it is kept");
    // Nothing changes by trying again too early.
    let target = server.url("target");
    let early = [AT_ONCE[0], AT_ONCE[1], &source, &target];
    let early = site.copy_with(Host::Here, &early, Input::None);
    early.assert_failed(NO_SPACE, &["\"target\"", "more are needed and"]);
    drop(other);
    fs::remove_file(site.root("other")).unwrap();
    let done = site.copy(Host::Here, &source, &target);
    done.assert_copied(SIZE as u64, "blake3");
    let resumed = done.json()["resumed_bytes"].as_u64().unwrap();
    assert!(resumed >= 16 << 20, "{resumed}: {}", said(&done));
    assert_eq!(hash_of(&site.root("target")), hash_of(&source));
    site.assert_nothing_half_done();
    server.stop();
}

/// Small files: complete ones have their names, and the same command copies the rest.
#[test]
fn f13_a_tree_on_a_full_disk_goes_on() {
    let site = Site::new(120);
    let Some(disk) = SmallDisk::mount(&site.root(""), 12) else {
        return;
    };
    let server = site.serve();
    fs::create_dir(site.file("tree")).unwrap();
    for i in 0..40 {
        let bytes = content(&format!("tree {i}"), MIB / 2);
        fs::write(site.file(&format!("tree/{i}")), bytes).unwrap();
    }
    let (from, to) = (site.file("tree/."), server.url("there"));
    let args = [AT_ONCE[0], AT_ONCE[1], "-r", &from, &to];
    let done = site.copy_with(Host::Here, &args, Input::None);
    done.assert_failed(NO_SPACE, &["more are needed and", "make room"]);
    for entry in fs::read_dir(site.root("there")).into_iter().flatten() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.bytes().all(|byte| byte.is_ascii_digit()) {
            let (there, here) = (
                site.root(&format!("there/{name}")),
                site.file(&format!("tree/{name}")),
            );
            assert_eq!(hash_of(&there), hash_of(&here), "{name}");
        }
    }
    disk.resize(64);
    let done = site.copy_with(Host::Here, &args, Input::None);
    assert_eq!(done.code, Some(0), "{}", done.err);
    for i in 0..40 {
        let (there, here) = (
            site.root(&format!("there/{i}")),
            site.file(&format!("tree/{i}")),
        );
        assert_eq!(hash_of(&there), hash_of(&here), "{i}");
    }
    site.assert_nothing_half_done();
    server.stop();
}

/// There is space, but no inode.
#[test]
fn f15_a_disk_without_inodes_says_so_and_the_same_command_goes_on() {
    let site = Site::new(60);
    let Some(disk) = SmallDisk::mount(&site.root(""), 12) else {
        return;
    };
    disk.remount("nr_inodes=12");
    let server = site.serve();
    fs::create_dir(site.file("tree")).unwrap();
    for i in 0..40 {
        fs::write(site.file(&format!("tree/{i}")), content("inode", 100)).unwrap();
    }
    let (from, to) = (site.file("tree/."), server.url(""));
    let args = [AT_ONCE[0], AT_ONCE[1], "-r", &from, &to];
    let done = site.copy_with(Host::Here, &args, Input::None);
    done.assert_failed(NO_SPACE, &["no inode is free", "remove some files"]);
    disk.remount("nr_inodes=100");
    let done = site.copy_with(Host::Here, &args, Input::None);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(fs::read_dir(site.root("")).unwrap().count(), 40);
    server.stop();
}

/// A quota that ends in the middle: this kernel may have none, so the call says so.
#[test]
fn f15_a_quota_is_called_a_quota_and_what_came_is_kept() {
    const SIZE: usize = 60 * MIB;
    let site = Site::new(300);
    if !strace_injects() {
        return;
    }
    fs::write(site.file("source"), content("quota", SIZE)).unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--root", &site.root("")];
    let traced = |call: &str, when: &str| {
        let options = ["-f", "--seccomp-bpf", "-o", "/dev/null", "-e"];
        let mut options: Vec<_> = options.iter().map(ToString::to_string).collect();
        options.push(format!("trace={call}"));
        options.push("-e".to_owned());
        options.push(format!("inject={call}:error=EDQUOT:when={when}"));
        support::process::Server::new(site.start_traced(&options, "server", &serve))
    };
    // At once, where the space is reserved.
    let server = traced("fallocate", "1");
    let (source, target) = (site.file("source"), server.url("target"));
    let args = [AT_ONCE[0], AT_ONCE[1], &source, &target];
    let done = site.copy_with(Host::Here, &args, Input::None);
    done.assert_failed(
        NO_SPACE,
        &[
            "\"target\"",
            "the quota there is used up (60.0 MiB more are needed)",
            "raised",
        ],
    );
    assert_eq!(parts(site.root("")).len(), 0, "nothing had come");
    server.process.signal(rustix::process::Signal::KILL);
    drop(server);
    // Somebody has it raised.
    let server = traced("fallocate", "1");
    let raised = server.url("raised");
    let done = site.copy(Host::Here, &source, &raised);
    done.assert_copied(SIZE as u64, "blake3");
    assert!(done.err.contains(WAITS), "{}", done.err);
    server.process.signal(rustix::process::Signal::KILL);
    drop(server);
    // On the way, where it cannot be: the first claim (its data, the journal's head, the claim) is on the disk, the next data
    // is too much, as network file systems say it. That claim is of what came in a second, which others may take from us.
    let mut kept = 0;
    for round in 0..10 {
        let name = format!("target{round}");
        let server = traced("fdatasync", "4+");
        let target = server.url(&name);
        let args = ["--limit", "200mbit", &source, &target];
        let done = site.copy_with(Host::Here, &args, Input::None);
        done.assert_failed(NO_SPACE, &[&name, "the quota there is used up"]);
        server.process.signal(rustix::process::Signal::KILL);
        drop(server);
        let server = site.serve();
        let done = site.copy(Host::Here, &source, &server.url(&name));
        done.assert_copied(SIZE as u64, "blake3");
        assert_eq!(hash_of(&site.root(&name)), hash_of(&source));
        site.assert_nothing_half_done();
        server.stop();
        kept = done.json()["resumed_bytes"].as_u64().unwrap();
        println!("{kept} bytes were kept");
        assert!(kept > 0);
        if kept >= 8 << 20 {
            break;
        }
    }
    assert!(kept >= 8 << 20, "{kept}");
}

/// Names take some of a quota, too (Btrfs): what there is room for gets its name, and nothing stays that only takes room.
#[test]
fn f15_a_quota_that_is_used_up_by_names_keeps_what_came() {
    let site = Site::new(60);
    if !strace_injects() {
        return;
    }
    fs::create_dir(site.file("tree")).unwrap();
    for i in 0..60 {
        let bytes = content(&format!("names {i}"), 9_000);
        fs::write(site.file(&format!("tree/{i}")), bytes).unwrap();
    }
    let serve = ["serve", "--listen", "127.0.0.1:0", "--root", &site.root("")];
    let options = [
        "-f",
        "--seccomp-bpf",
        "-o",
        "/dev/null",
        "-e",
        "trace=renameat2,renameat",
        "-e",
        "inject=renameat2,renameat:error=EDQUOT:when=4",
    ];
    let options: Vec<_> = options.iter().map(ToString::to_string).collect();
    let from = site.file("tree/.");
    // On a machine that is slow for a moment nothing may be behind the one that has no room when the copy ends.
    let (there, named) = (0..6)
        .map(|attempt| {
            let there = format!("there{attempt}");
            let server = site.start_traced(&options, "server", &serve);
            let server = support::process::Server::new(server);
            let args = [AT_ONCE[0], AT_ONCE[1], "-r", &from, &server.url(&there)];
            let done = site.copy_with(Host::Here, &args, Input::None);
            done.assert_failed(NO_SPACE, &["the quota there is used up"]);
            // Threads that were writing take theirs away.
            support::await_no_parts(&site.root(&there), PATIENCE);
            server.process.signal(rustix::process::Signal::KILL);
            drop(server);
            let names = fs::read_dir(site.root(&there)).unwrap();
            let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let named = names.filter(|name| !name.starts_with('.')).count();
            println!("{named} have their names");
            (there, named)
        })
        .find(|&(_, named)| named > 3)
        .expect("those behind the one that had no room, too");
    site.assert_nothing_half_done();
    let server = site.serve();
    let done = site.copy_with(Host::Here, &["-r", &from, &server.url(&there)], Input::None);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(done.json()["tree"]["unchanged"], named, "{}", said(&done));
    server.stop();
}

/// The disk fills up on the way; the copy waits and is done when there is room, without a second command.
#[test]
fn f13_a_put_goes_on_by_itself_when_space_returns() {
    const SIZE: usize = 80 * MIB;
    let site = Site::new(120);
    let Some(_disk) = SmallDisk::mount(&site.root(""), 100) else {
        return;
    };
    let mut server = site.serve();
    fs::write(site.file("source"), content("waits", SIZE)).unwrap();
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let (source, target) = (site.file("source"), relay.url("target"));
    let mut client = site.start_copy(
        Host::Here,
        &["--limit", "200mbit", &source, &target],
        Input::None,
    );
    relay.await_bytes(Way::ToServer, 30 << 20, site.limit());
    let other = fill(&site.root("other"));
    let line = client.await_line(WAITS, PATIENCE);
    assert!(
        line.contains("\"target\"") && line.contains("more are needed and"),
        "{line}"
    );
    server.await_line("waits: no space left", PATIENCE);
    std::thread::sleep(SILENCE);
    assert!(!fs::exists(site.root("target")).unwrap());
    drop(other);
    fs::remove_file(site.root("other")).unwrap();
    client.await_line(GOES_ON, PATIENCE);
    let done = client.finish();
    done.assert_copied(SIZE as u64, "blake3");
    assert_eq!(hash_of(&site.root("target")), hash_of(&source));
    site.assert_nothing_half_done();
    server.stop();
}

#[test]
fn f13_a_get_goes_on_by_itself_when_space_returns() {
    const SIZE: usize = 80 * MIB;
    let site = Site::new(120);
    fs::create_dir(site.file("disk")).unwrap();
    let Some(_disk) = SmallDisk::mount(&site.file("disk"), 100) else {
        return;
    };
    let server = site.serve();
    fs::write(site.root("source"), content("waits here", SIZE)).unwrap();
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let target = site.file("disk/target");
    let mut client = site.start_copy(
        Host::Here,
        &["--limit", "200mbit", &relay.url("source"), &target],
        Input::None,
    );
    relay.await_bytes(Way::ToClient, 30 << 20, site.limit());
    let other = fill(&site.file("disk/other"));
    client.await_line(WAITS, PATIENCE);
    std::thread::sleep(SILENCE);
    drop(other);
    fs::remove_file(site.file("disk/other")).unwrap();
    client.await_line(GOES_ON, PATIENCE);
    client.finish().assert_copied(SIZE as u64, "blake3");
    assert_eq!(hash_of(&target), hash_of(&site.root("source")));
    assert_eq!(parts(site.file("disk")).len(), 0);
    server.stop();
}

/// Nobody makes room: the wait has a bound, and then it is as if nobody had waited.
#[test]
fn f13_nobody_waits_for_ever() {
    let site = Site::new(60);
    let Some(_disk) = SmallDisk::mount(&site.root(""), 12) else {
        return;
    };
    let server = site.serve();
    // Of a stream nobody knows the size.
    let bytes = content("stream", 20 * MIB);
    fs::write(site.file("source"), &bytes).unwrap();
    let args = ["--wait-for-space", "2s", "-", &server.url("target")];
    let done = site.copy_with(Host::Here, &args, Input::Bytes(bytes));
    done.assert_failed(NO_SPACE, &["\"target\"", WAITS, "make room"]);
    // O5: who gives up has found no room.
    assert!(!said(&done).contains(GOES_ON), "{}", said(&done));
    assert_eq!(parts(site.root("")).len(), 0);
    assert!(!fs::exists(site.root("target")).unwrap());
    server.stop();
}

/// A little room is none for a large file: nothing goes on before the rest of it fits.
#[test]
fn o5_room_is_room_for_what_comes() {
    let site = Site::new(90);
    let Some(disk) = SmallDisk::mount(&site.root(""), 24) else {
        return;
    };
    let server = site.serve();
    let other = fs::File::create(site.root("other")).unwrap();
    rustix::fs::fallocate(&other, rustix::fs::FallocateFlags::empty(), 0, 14 << 20).unwrap();
    fs::write(site.file("source"), content("large", 20 * MIB)).unwrap();
    let url = server.url("target");
    let args = ["--wait-for-space", "5s", &site.file("source"), &url];
    let mut client = site.start_copy(Host::Here, &args, Input::None);
    client.await_line(WAITS, PATIENCE);
    other.set_len(10 << 20).unwrap();
    let done = client.finish();
    done.assert_failed(NO_SPACE, &["\"target\"", WAITS, "make room"]);
    assert!(!said(&done).contains(GOES_ON), "{}", said(&done));
    assert_eq!(parts(site.root("")).len(), 0);
    drop(other);
    fs::remove_file(site.root("other")).unwrap();
    // And in a tree.
    fs::create_dir(site.file("tree")).unwrap();
    for i in 0..30 {
        let bytes = content(&format!("tree {i}"), MIB);
        fs::write(site.file(&format!("tree/{i}")), bytes).unwrap();
    }
    let url = server.url("tree");
    let args = ["--wait-for-space", "5s", "-r", &site.file("tree"), &url];
    let mut client = site.start_copy(Host::Here, &args, Input::None);
    client.await_line(WAITS, PATIENCE);
    disk.resize(26);
    let done = client.finish();
    assert_eq!(done.code, Some(NO_SPACE), "{}", done.err);
    assert!(!said(&done).contains(GOES_ON), "{}", said(&done));
    server.stop();
}

/// Small files, a large one and directories, up and down.
#[test]
fn f13_a_tree_goes_on_by_itself_when_space_returns() {
    let site = Site::new(120);
    fs::create_dir(site.file("disk")).unwrap();
    let Some(here) = SmallDisk::mount(&site.file("disk"), 12) else {
        return;
    };
    let Some(there) = SmallDisk::mount(&site.root(""), 12) else {
        return;
    };
    let server = site.serve();
    fs::create_dir(site.file("tree")).unwrap();
    for i in 0..40 {
        fs::create_dir(site.file(&format!("tree/{i}"))).unwrap();
        let bytes = content(&format!("tree {i}"), MIB / 2);
        fs::write(site.file(&format!("tree/{i}/small")), bytes).unwrap();
    }
    fs::write(site.file("tree/large"), content("large", 10 * MIB)).unwrap();
    for (from, to, disk) in [
        (site.file("tree/."), server.url("there"), &there),
        (server.url("there/."), site.file("disk/back"), &here),
    ] {
        let mut client = site.start_copy(Host::Here, &["-r", &from, &to], Input::None);
        client.await_line(WAITS, PATIENCE);
        disk.resize(64);
        client.await_line(GOES_ON, PATIENCE);
        let done = client.finish();
        assert_eq!(done.code, Some(0), "{}", done.err);
    }
    for i in 0..40 {
        let path = format!("{i}/small");
        let back = hash_of(&site.file(&format!("disk/back/{path}")));
        assert_eq!(back, hash_of(&site.file(&format!("tree/{path}"))), "{path}");
    }
    let back = hash_of(&site.file("disk/back/large"));
    assert_eq!(back, hash_of(&site.file("tree/large")));
    site.assert_nothing_half_done();
    server.stop();
}

#[test]
fn f15_a_tree_goes_on_by_itself_when_there_are_inodes_again() {
    let site = Site::new(60);
    let Some(disk) = SmallDisk::mount(&site.root(""), 12) else {
        return;
    };
    disk.remount("nr_inodes=12");
    let server = site.serve();
    fs::create_dir(site.file("tree")).unwrap();
    for i in 0..40 {
        fs::write(site.file(&format!("tree/{i}")), content("inode", 100)).unwrap();
        fs::create_dir(site.file(&format!("tree/dir {i}"))).unwrap();
        std::os::unix::fs::symlink("0", site.file(&format!("tree/link {i}"))).unwrap();
    }
    let args = ["-r", &site.file("tree/."), &server.url("")];
    let mut client = site.start_copy(Host::Here, &args, Input::None);
    let line = client.await_line(WAITS, PATIENCE);
    assert!(line.contains("no inode is free"), "{line}");
    disk.remount("nr_inodes=200");
    let done = client.finish();
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(fs::read_dir(site.root("")).unwrap().count(), 120);
    server.stop();
}

/// Between two other machines, one file and a tree: who started it hears of the wait.
#[test]
fn f13_a_copy_between_two_others_goes_on_by_itself_when_space_returns() {
    let site = Site::new(120);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    fs::create_dir_all(site.root("tree")).unwrap();
    fs::create_dir(site.root("disk")).unwrap();
    let Some(_disk) = SmallDisk::mount(&site.root("disk"), 20) else {
        return;
    };
    fs::write(site.root("tree/file"), content("others", 9 * MIB)).unwrap();
    let cases: [(&[&str], _); 2] = [
        (&["far:tree/file", "far2:disk/one"], "disk/one"),
        (&["-r", "far:tree", "far2:disk"], "disk/tree/file"),
    ];
    for (args, lies) in cases {
        let other = fill(&site.root("disk/other"));
        let mut client = sshd.start_copy(&site, Host::Here, args, Input::None);
        let line = client.await_line(WAITS, PATIENCE);
        assert!(line.contains("far: far2:"), "{line}");
        drop(other);
        fs::remove_file(site.root("disk/other")).unwrap();
        client.await_line(GOES_ON, PATIENCE);
        client.finish().assert_copied(9 << 20, "blake3");
        assert_eq!(hash_of(&site.root(lies)), hash_of(&site.root("tree/file")));
        // Who does not want to wait does not.
        fs::remove_file(site.root(lies)).unwrap();
        let other = fill(&site.root("disk/other"));
        let done = sshd.copy(&site, &[&AT_ONCE[..], args].concat());
        done.assert_failed(NO_SPACE, &["far: far2:", "make room"]);
        drop(other);
        fs::remove_file(site.root("disk/other")).unwrap();
    }
    site.assert_nothing_half_done();
}
