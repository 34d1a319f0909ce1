//! F07, F09: the power goes while a copy arrives, or right after it was told to be done.
//!
//! The receiver writes to an ext4 on a loop device, whose file is copied at one moment. That is what a cut leaves of a
//! device that loses nothing it has confirmed: everything that the file system had not written yet is gone, the
//! rest is there in full. Mounted again, the file system replays its journal as after a real cut. Writes
//! that are torn or reordered within the device (F08) are drawn from a trace in `howdah-store`.
#![cfg(target_os = "linux")]

use crate::support::place::{LoopDisk, content, hash_of};
use crate::support::process::{Input, Process, Server};
use crate::support::relay::{Fate, Relay, Way};
use crate::support::{Host, Site, await_kept, parts};
use rustix::process::Signal;
use std::fs;

const MIB: u64 = 1 << 20;

/// A disk that was cut off, at a place of its own.
struct After {
    root: String,
    _disk: LoopDisk,
}

impl After {
    fn mount(site: &Site, image: &str) -> Option<Self> {
        let root = format!("{image}.mounted");
        fs::create_dir_all(&root).unwrap();
        Some(Self {
            _disk: LoopDisk::mount(image, &root)?,
            root: root.trim_start_matches(&site.file("")).to_owned(),
        })
    }

    fn path(&self, site: &Site, name: &str) -> String {
        format!("{}/{name}", site.file(&self.root))
    }
}

/// A cut while nothing of the server runs. The kernel may still write, so it is a true moment.
fn cut(server: &Server, disk: &LoopDisk, to: &str) {
    server.process.signal(Signal::STOP);
    disk.cut(to);
    server.process.signal(Signal::CONT);
}

/// A copy to "target" that is slow enough to be cut, and patient enough for what the cut takes.
fn slow_copy(site: &Site, server: &Server, source: &str) -> (Relay, Process) {
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let url = relay.url("target");
    let args = ["--limit", "400mbit", "--idle-timeout", "30s", source, &*url];
    let client = site.start_copy(Host::Here, &args, Input::None);
    (relay, client)
}

#[test]
fn f07_after_a_power_cut_nothing_wrong_has_a_name_and_the_copy_goes_on() {
    const SIZE: usize = 200 << 20;
    let site = Site::new(240);
    let Some(disk) = LoopDisk::make(&site.file("image"), 500, &site.root("")) else {
        return;
    };
    let source = site.file("source");
    fs::write(&source, content("power", SIZE)).unwrap();
    let expected = hash_of(&source);
    let server = site.serve();
    let (relay, client) = slow_copy(&site, &server, &source);
    let mut cuts = Vec::new();
    for at in [1, 30, 90, 150, 195] {
        relay.await_bytes(Way::ToServer, at * MIB, site.limit());
        let image = site.file(&format!("cut{at}"));
        cut(&server, &disk, &image);
        cuts.push((at, image));
    }
    client.finish().assert_copied(SIZE as u64, "blake3");
    // Not a moment later, and without stopping anybody.
    let done = site.file("cut-done");
    disk.cut(&done);
    server.stop();
    drop(disk);

    let Some(after) = After::mount(&site, &done) else {
        return;
    };
    let there = after.path(&site, "target");
    assert_eq!(hash_of(&there), expected, "what was said to be durable");
    assert_eq!(fs::metadata(&there).unwrap().len(), SIZE as u64);
    drop(after);
    let mut claimed = Vec::new();
    for (at, image) in cuts {
        let after = After::mount(&site, &image).unwrap();
        let there = after.path(&site, "target");
        assert!(
            !fs::exists(&there).unwrap(),
            "cut at {at} MiB: it was not done"
        );
        let server = site.serve_at(Host::Here, "127.0.0.1:0", &after.path(&site, ""));
        let copied = site.copy(Host::Here, &source, &server.url("target"));
        copied.assert_copied(SIZE as u64, "blake3");
        assert_eq!(hash_of(&there), expected, "cut at {at} MiB");
        assert_eq!(parts(after.path(&site, "")).len(), 0, "cut at {at} MiB");
        let resumed = copied.json()["resumed_bytes"].as_u64().unwrap() / MIB;
        println!("cut when {at} MiB had been sent: {resumed} MiB were there");
        // docs/resume.md: at most 96 MiB are sent twice, and a group per hole.
        assert!(
            resumed + 100 >= at,
            "cut at {at} MiB: {resumed} MiB were there"
        );
        claimed.push(resumed);
        server.stop();
        drop(after);
        fs::remove_file(image).unwrap();
    }
    assert!(claimed.is_sorted(), "{claimed:?}");
}

/// Again and again: each time it gets further.
#[test]
fn f09_five_power_cuts_in_a_row_do_not_stop_a_copy() {
    const SIZE: usize = 200 << 20;
    let site = Site::new(240);
    let Some(disk) = LoopDisk::make(&site.file("image0"), 500, &site.root("")) else {
        return;
    };
    drop(disk);
    let source = site.file("source");
    fs::write(&source, content("again", SIZE)).unwrap();
    let mut kept = 0;
    for round in 0..5 {
        let image = site.file(&format!("image{round}"));
        let Some(disk) = LoopDisk::mount(&image, &site.root("")) else {
            return;
        };
        let server = site.serve();
        let (relay, client) = slow_copy(&site, &server, &source);
        relay.await_bytes(Way::ToServer, 35 * MIB, site.limit());
        // What a disk that is slow has taken of that may be nothing yet: docs/resume.md promises all but 96 MiB.
        await_kept(&site, &site.root(""));
        cut(&server, &disk, &site.file(&format!("image{}", round + 1)));
        client.signal(Signal::KILL);
        server.process.signal(Signal::KILL);
        client.finish();
        drop((server, disk));
        fs::remove_file(image).unwrap();
    }
    let disk = LoopDisk::mount(&site.file("image5"), &site.root("")).unwrap();
    assert!(!fs::exists(site.root("target")).unwrap());
    let server = site.serve();
    let done = site.copy(Host::Here, &source, &server.url("target"));
    done.assert_copied(SIZE as u64, "blake3");
    kept += done.json()["resumed_bytes"].as_u64().unwrap() / MIB;
    println!("{kept} MiB were there after five cuts of 35 MiB each");
    assert!(kept >= 16, "{kept}");
    assert_eq!(hash_of(&site.root("target")), hash_of(&source));
    server.stop();
    drop(disk);
}

/// Many small files, in batches: whoever has a name is whole.
#[test]
fn f07_a_power_cut_in_a_tree_leaves_whole_files_and_no_others() {
    const FILES: usize = 6_000;
    let site = Site::new(240);
    let Some(disk) = LoopDisk::make(&site.file("image"), 500, &site.root("")) else {
        return;
    };
    fs::create_dir(site.file("tree")).unwrap();
    for i in 0..FILES {
        let dir = site.file(&format!("tree/{}", i / 500));
        fs::create_dir_all(&dir).unwrap();
        // No two are alike.
        fs::write(format!("{dir}/{i}"), content(&format!("tree {i}"), 20_000)).unwrap();
    }
    let server = site.serve();
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let (from, to) = (site.file("tree/."), relay.url("there"));
    let args = [
        "-r",
        "--limit",
        "200mbit",
        "--idle-timeout",
        "30s",
        &from,
        &to,
    ];
    let client = site.start_copy(Host::Here, &args, Input::None);
    let mut cuts = Vec::new();
    for at in [5, 40, 80, 110] {
        relay.await_bytes(Way::ToServer, at * MIB, site.limit());
        let image = site.file(&format!("cut{at}"));
        cut(&server, &disk, &image);
        cuts.push((at, image));
    }
    let done = client.finish();
    assert_eq!(done.code, Some(0), "{}", done.err);
    cuts.push((u64::MAX, site.file("cut-done")));
    disk.cut(&cuts[4].1);
    server.stop();
    drop(disk);
    for (at, image) in cuts {
        let Some(after) = After::mount(&site, &image) else {
            return;
        };
        let mut whole = 0;
        for i in 0..FILES {
            let name = format!("{}/{i}", i / 500);
            let there = after.path(&site, &format!("there/{name}"));
            if fs::exists(&there).unwrap() {
                let here = site.file(&format!("tree/{name}"));
                assert_eq!(hash_of(&there), hash_of(&here), "cut at {at} MiB: {name}");
                whole += 1;
            }
        }
        println!("cut at {at} MiB: {whole} of {FILES} files are there and whole");
        assert!(
            at < u64::MAX || whole == FILES,
            "{whole} of {FILES} after success"
        );
        if at == 80 {
            assert!(whole > 0 && whole < FILES, "{whole}");
            let server = site.serve_at(Host::Here, "127.0.0.1:0", &after.path(&site, ""));
            let args = ["-r", &*from, &*server.url("there")];
            let again = site.copy_with(Host::Here, &args, Input::None);
            assert_eq!(again.code, Some(0), "{}", again.err);
            for i in 0..FILES {
                let name = format!("{}/{i}", i / 500);
                let there = after.path(&site, &format!("there/{name}"));
                assert_eq!(
                    hash_of(&there),
                    hash_of(&site.file(&format!("tree/{name}")))
                );
            }
            assert_eq!(parts(after.path(&site, "")).len(), 0);
            server.stop();
        }
        drop(after);
        fs::remove_file(image).unwrap();
    }
}
