//! Sides that stand still and come back while the other one went on, and the same copy once more: the N and O rows of
//! docs/faults.md about peers that meet their own work.
#![cfg(target_os = "linux")]

use crate::support;
use crate::support::place::{content, hash_of};
use crate::support::process::{Input, Process};
use crate::support::sshd::{Sshd, far_processes};
use crate::support::{Host, Site};
use rustix::process::{Signal, kill_process};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const REFUSED: i32 = 4;
const LARGE: usize = 30 << 20;
const SMALL: usize = 150;
const PACE: [&str; 2] = ["--limit", "80mbit"];
const LASTING: [&str; 4] = ["--idle-timeout", "2s", "--reconnect", "1min"];
const LOST: &str = "connecting again for up to";
const PATIENCE: Duration = Duration::from_secs(40);

fn make_tree(at: &str) {
    fs::create_dir_all(format!("{at}/deep")).unwrap();
    for i in 0..SMALL {
        fs::write(
            format!("{at}/deep/{i}"),
            content(&format!("{i}"), 40_000 + i),
        )
        .unwrap();
    }
    fs::write(format!("{at}/large"), content("large", LARGE)).unwrap();
}

fn assert_same_tree(one: &str, other: &str) {
    let names: Vec<_> = (0..SMALL).map(|i| format!("deep/{i}")).collect();
    for name in names.iter().map(|name| &**name).chain(["large"]) {
        let (one, other) = (format!("{one}/{name}"), format!("{other}/{name}"));
        assert_eq!(hash_of(&one), hash_of(&other), "{name}");
    }
    for dir in ["", "deep"] {
        let time = |at: &str| {
            fs::metadata(format!("{at}/{dir}"))
                .unwrap()
                .modified()
                .unwrap()
        };
        assert_eq!(time(one), time(other), "{dir:?}");
    }
}

/// Waits until something is under way below `place`.
fn await_begun(site: &Site, place: &str) {
    while support::parts(place).is_empty() {
        assert!(Instant::now() < site.limit(), "nothing comes");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whatever of howdah's own lies below `place`.
fn left_over(place: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(place).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(left_over(path.to_str().unwrap()));
        } else if path.to_string_lossy().contains("howdah-") {
            found.push(path);
        }
    }
    found
}

/// The side that stood still needs its time to notice that nobody is there any more.
fn await_nothing_left(site: &Site, place: &str) {
    loop {
        let left = left_over(place);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < site.limit(), "{left:?} stay behind");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The copy has lost its peer, which stood still, and goes on when that comes back.
fn let_it_come_back(client: &mut Process, come_back: impl FnOnce()) {
    client.await_line(LOST, PATIENCE);
    come_back();
}

#[test]
fn n6_a_server_that_stood_still_ends_well_and_leaves_nothing() {
    let site = Site::new(200);
    let server = site.serve();
    let tree = site.file("tree");
    make_tree(&tree);
    let large = format!("{tree}/large");
    for (name, options, from) in [
        ("tree", &["-r"][..], &tree),
        ("mirror", &["-a"], &tree),
        ("file", &[], &large),
    ] {
        let url = server.url(name);
        let args = [options, &LASTING, &PACE, &[from, &url]].concat();
        let mut client = site.start_copy(Host::Here, &args, Input::None);
        await_begun(&site, &site.root(""));
        server.process.signal(Signal::STOP);
        let_it_come_back(&mut client, || server.process.signal(Signal::CONT));
        let done = client.finish();
        assert_eq!(done.code, Some(0), "{name}: {}", done.err);
        await_nothing_left(&site, &site.root(""));
        if name == "file" {
            assert_eq!(hash_of(&large), hash_of(&site.root("file")));
        } else {
            assert_same_tree(&tree, &site.root(name));
        }
    }
    server.stop();
}

/// The far process of ssh stands still, another one takes its place, and then the first wakes.
#[test]
fn n6_a_far_end_that_wakes_behind_its_successor_leaves_nothing() {
    let site = Site::new(200);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let tree = site.file("tree");
    make_tree(&tree);
    let large = format!("{tree}/large");
    for (name, options, from) in [("tree", &["-r"][..], &tree), ("file", &[], &large)] {
        let url = format!("far:{name}");
        let args = [options, &LASTING, &PACE, &[from, &url]].concat();
        let client = sshd.start_copy(&site, Host::Here, &args, Input::None);
        await_begun(&site, &site.root(""));
        let asleep = far_processes(&site, "far-end");
        assert!(!asleep.is_empty());
        for pid in &asleep {
            kill_process(*pid, Signal::STOP).unwrap();
        }
        let done = client.finish();
        for pid in asleep {
            let _ = kill_process(pid, Signal::CONT);
        }
        assert_eq!(done.code, Some(0), "{name}: {}", done.err);
        await_nothing_left(&site, &site.root(""));
        while !far_processes(&site, "far-end").is_empty() {
            assert!(Instant::now() < site.limit(), "a far end stays");
            std::thread::sleep(Duration::from_millis(50));
        }
        if name == "file" {
            assert_eq!(hash_of(&large), hash_of(&site.root("file")));
        } else {
            assert_same_tree(&tree, &site.root(name));
        }
    }
}

/// Of a copy between two other machines either stands still until the other one has given it up.
#[test]
fn n6_a_copy_between_two_others_outlives_a_side_that_stood_still() {
    let site = Site::new(240);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let tree = site.root("tree");
    make_tree(&tree);
    for (name, options, from) in [
        ("of-tree", &["-r"][..], "tree"),
        ("of-file", &[], "tree/large"),
    ] {
        for which in [0, 1] {
            let (to, from) = (format!("{name}{which}"), site.root(from));
            let (source, target) = (format!("far:{from}"), format!("far2:{to}"));
            let args = [options, &LASTING, &PACE, &[&source, &target]].concat();
            let mut client = sshd.start_copy(&site, Host::Here, &args, Input::None);
            await_begun(&site, &site.root(""));
            let ends = far_processes(&site, "far-end");
            assert_eq!(ends.len(), 2, "{ends:?}");
            kill_process(ends[which], Signal::STOP).unwrap();
            let other = ends[1 - which];
            while client.lines_so_far(LOST) == 0 && far_processes(&site, "far-end").contains(&other)
            {
                assert!(Instant::now() < site.limit(), "nobody gives it up");
                std::thread::sleep(Duration::from_millis(50));
            }
            let _ = kill_process(ends[which], Signal::CONT);
            let done = client.finish();
            assert_eq!(done.code, Some(0), "{to}: {}", done.err);
            await_nothing_left(&site, &site.root(""));
            if name == "of-file" {
                assert_eq!(hash_of(&from), hash_of(&site.root(&to)));
            } else {
                assert_same_tree(&tree, &site.root(&to));
            }
        }
    }
}

#[test]
fn n6_a_client_that_stood_still_ends_well_and_leaves_nothing() {
    let site = Site::new(200);
    let mut server = site.serve();
    let tree = site.root("tree");
    make_tree(&tree);
    for (name, options, from) in [("tree", &["-r"][..], "tree"), ("file", &[], "tree/large")] {
        let (url, to) = (server.url(from), site.file(name));
        let args = [options, &LASTING, &PACE, &[&url, &to]].concat();
        let client = site.start_copy(Host::Here, &args, Input::None);
        await_begun(&site, &site.file(""));
        let lost = server.process.lines_so_far("fell silent");
        client.signal(Signal::STOP);
        while server.process.lines_so_far("fell silent") == lost {
            assert!(Instant::now() < site.limit(), "the server waits for ever");
            std::thread::sleep(Duration::from_millis(50));
        }
        client.signal(Signal::CONT);
        let done = client.finish();
        assert_eq!(done.code, Some(0), "{name}: {}", done.err);
        await_nothing_left(&site, &site.file(""));
        if name == "file" {
            assert_eq!(hash_of(&to), hash_of(&site.root(from)));
        } else {
            assert_same_tree(&tree, &to);
        }
    }
    server.stop();
}

/// A key that only adds.
fn grant_adding(site: &Site) {
    site.grant("no-delete,metadata=\"all\"");
}

#[test]
fn o2_the_same_once_more_is_no_change_for_a_key_that_only_adds() {
    let site = Site::new(200);
    grant_adding(&site);
    let server = site.serve();
    let tree = site.file("tree");
    make_tree(&tree);
    let (small, large) = (format!("{tree}/deep/7"), format!("{tree}/large"));
    let empty = site.file("empty");
    fs::write(&empty, "").unwrap();
    let holes = site.file("holes");
    let file = fs::File::create(&holes).unwrap();
    file.set_len(20 << 20).unwrap();
    drop(file);
    for (name, options, from) in [
        ("small", &[][..], &small),
        ("large", &[], &large),
        ("empty", &[], &empty),
        ("holes", &[], &holes),
        ("kept", &["-p"], &small),
        ("tree", &["-r"], &tree),
        ("tree-a", &["-a"], &tree),
    ] {
        let mut url = server.url(name);
        let args = [options, &[from, &url]].concat();
        let done = site.copy_with(Host::Here, &args, Input::None);
        assert_eq!(done.code, Some(0), "{name}: {}", done.err);
        let time = || fs::metadata(site.root(name)).unwrap().modified().unwrap();
        let before = time();
        if name.starts_with("tree") {
            url = server.url(&format!("{name}/"));
        }
        // The second finds it; so does one of another time.
        for touched in [false, true] {
            if touched && fs::metadata(from).unwrap().is_file() {
                let file = fs::File::options().append(true).open(from).unwrap();
                file.set_modified(std::time::SystemTime::now()).unwrap();
            }
            let from = if name.starts_with("tree") {
                format!("{from}/.")
            } else {
                from.clone()
            };
            let args = [options, &[&*from, &*url]].concat();
            let done = site.copy_with(Host::Here, &args, Input::None);
            assert_eq!(done.code, Some(0), "{name}: {}", done.err);
            assert_eq!(time(), before, "{name}: nothing is changed");
        }
        if options.is_empty() {
            let bytes = fs::read(from).unwrap();
            let done = site.copy_with(Host::Here, &["-", &url], Input::Bytes(bytes.clone()));
            assert_eq!(done.code, Some(0), "{name}: {}", done.err);
            // One byte more, one byte other.
            let mut other = bytes.clone();
            other.push(0);
            let mut others = vec![other];
            if let Some(last) = bytes.len().checked_sub(1) {
                let mut other = bytes.clone();
                other[last] ^= 1;
                others.push(other);
            }
            for other in others {
                fs::write(site.file("other"), &other).unwrap();
                for (from, input) in [
                    (site.file("other"), Input::None),
                    ("-".to_owned(), Input::Bytes(other)),
                ] {
                    let done = site.copy_with(Host::Here, &[&*from, &*url], input);
                    done.assert_failed(REFUSED, &["none may be replaced"]);
                }
            }
            assert!(fs::read(site.root(name)).unwrap() == bytes);
        }
    }
    assert_eq!(left_over(&site.root("")), Vec::<PathBuf>::new());
    server.stop();
}

/// The server dies when the file has its name and nobody has heard of it.
#[test]
fn o2_a_complete_file_that_was_not_acknowledged_is_no_conflict() {
    const SIZE: usize = 9 << 20;
    if std::process::Command::new("strace")
        .arg("-V")
        .output()
        .is_err()
    {
        println!("skipped: no strace");
        return;
    }
    let site = Site::new(200);
    grant_adding(&site);
    fs::write(site.file("source"), content("complete", SIZE)).unwrap();
    let source = site.file("source");
    for (name, options) in [("file", &[][..]), ("kept", &["-p"])] {
        let target = site.root(name);
        // Of the directory, behind the new name.
        let words = [
            "-f",
            "-qq",
            "-e",
            "trace=fsync,syncfs",
            "-P",
            &site.root(""),
        ]
        .map(str::to_owned);
        let inject = ["-e", "inject=fsync,syncfs:delay_exit=8000000"].map(str::to_owned);
        let serve = ["serve", "--listen", "127.0.0.1:0", "--root", &site.root("")];
        let traced = site.start_traced(&[&words[..], &inject].concat(), "server", &serve);
        let server = support::process::Server::new(traced);
        let (url, address) = (server.url(name), server.address);
        let args = [options, &LASTING, &[&source, &url]].concat();
        let client = site.start_copy(Host::Here, &args, Input::None);
        while !fs::exists(&target).unwrap() {
            assert!(Instant::now() < site.limit(), "{name} does not come");
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(server);
        while std::net::UdpSocket::bind(address).is_err() {
            assert!(Instant::now() < site.limit(), "{address} is not free");
            std::thread::sleep(Duration::from_millis(20));
        }
        let server = site.serve_at(Host::Here, &address.to_string(), &site.root(""));
        let done = client.finish();
        assert_eq!(done.code, Some(0), "{name}: {}", done.err);
        assert_eq!(hash_of(&target), hash_of(&source));
        server.stop();
    }
    assert_eq!(left_over(&site.root("")), Vec::<PathBuf>::new());
}
