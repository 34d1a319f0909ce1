//! F33: files with holes, through the whole program: quickly, and with their holes.
#![cfg(target_os = "linux")]

use crate::support;
use crate::support::place::{content, hash_of};
use crate::support::process::Input;
use crate::support::relay::{Fate, Relay, Way};
use crate::support::{Host, Site};
use rustix::process::Signal;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

const MIB: u64 = 1 << 20;

/// A file of that size in which only these ranges are data.
fn make(path: &str, size: u64, data: &[(u64, u64)]) {
    let file = File::create(path).unwrap();
    file.set_len(size).unwrap();
    for &(at, len) in data {
        let bytes = content(&format!("sparse {at}"), len as usize);
        file.write_all_at(&bytes, at).unwrap();
    }
    file.sync_all().unwrap();
}

fn allocated(path: &str) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

/// Whether the places of the tests have holes; prints a reason if not.
fn has_holes(site: &Site) -> bool {
    make(&site.file("probe"), MIB, &[(0, 1)]);
    let has = allocated(&site.file("probe")) < MIB;
    if !has {
        println!("skipped: the file system of the build has no holes");
    }
    has
}

#[test]
fn f33_ten_gib_with_one_mib_of_data_are_one_mib_to_send_and_to_store() {
    const SIZE: u64 = 10 << 30;
    let site = Site::new(900);
    if !has_holes(&site) {
        return;
    }
    let server = site.serve();
    make(&site.file("image"), SIZE, &[(6 << 30, MIB)]);
    let check = |done: &support::process::Done, there: &str| {
        done.assert_copied(SIZE, "blake3");
        let wire = done.json()["wire_bytes"].as_u64().unwrap();
        println!(
            "{} bytes on the wire, {} on the disk, {:?}",
            wire,
            allocated(there),
            done.took
        );
        assert!(wire < 2 * MIB, "{wire} bytes were sent");
        assert!(
            allocated(there) < 2 * MIB,
            "{} bytes are stored",
            allocated(there)
        );
        assert_eq!(fs::metadata(there).unwrap().len(), SIZE);
        let (mut bytes, expected) = (
            vec![1; 3 << 20],
            content(&format!("sparse {}", 6u64 << 30), 1 << 20),
        );
        File::open(there)
            .unwrap()
            .read_exact_at(&mut bytes, (6 << 30) - MIB)
            .unwrap();
        assert!(bytes[..1 << 20].iter().all(|byte| *byte == 0));
        assert!(bytes[1 << 20..2 << 20] == expected);
        assert!(bytes[2 << 20..].iter().all(|byte| *byte == 0));
    };
    let put = site.copy(Host::Here, &site.file("image"), &server.url("put"));
    check(&put, &site.root("put"));
    let get = site.copy(Host::Here, &server.url("put"), &site.file("got"));
    check(&get, &site.file("got"));
    server.stop();
    site.assert_nothing_half_done();
}

/// In trees, always: large files, and small ones whose holes are found as blocks of zeros.
#[test]
fn f33_trees_keep_holes() {
    /// Name, size, what of it is data.
    type File<'a> = (&'a str, u64, &'a [(u64, u64)]);
    let site = Site::new(120);
    if !has_holes(&site) {
        return;
    }
    let server = site.serve();
    fs::create_dir(site.file("tree")).unwrap();
    let files: [File<'_>; 4] = [
        ("large", 300 * MIB + 1, &[(100 * MIB, 5 * MIB)]),
        ("hollow", 64 * MIB, &[]),
        ("small", 3 * MIB, &[(MIB, 9_000)]),
        ("tiny", 100, &[]),
    ];
    for (name, size, data) in files {
        make(&site.file(&format!("tree/{name}")), size, data);
    }
    for (way, from, to, there) in [
        (
            "put",
            site.file("tree/."),
            server.url("copy"),
            site.root("copy"),
        ),
        (
            "get",
            server.url("copy/."),
            site.file("back"),
            site.file("back"),
        ),
    ] {
        let done = site.copy_with(Host::Here, &["-r", &from, &to], Input::None);
        assert_eq!(done.code, Some(0), "{}", done.err);
        let wire = done.json()["wire_bytes"].as_u64().unwrap();
        assert!(wire < 12 * MIB, "{way}: {wire} bytes were sent");
        for (name, size, _) in files {
            let (ours, theirs) = (
                site.file(&format!("tree/{name}")),
                format!("{there}/{name}"),
            );
            assert_eq!(fs::metadata(&theirs).unwrap().len(), size, "{way} {name}");
            assert_eq!(hash_of(&theirs), hash_of(&ours), "{way} {name}");
            let (source, target) = (allocated(&ours), allocated(&theirs));
            assert!(
                target <= source + source / 20 + 8_192,
                "{way} {name}: {source} became {target}"
            );
        }
    }
    server.stop();
    site.assert_nothing_half_done();
}

/// A pipe gets every byte, `null:` counts them.
#[test]
fn where_nothing_is_stored_the_zeros_are_there_all_the_same() {
    let site = Site::new(60);
    if !has_holes(&site) {
        return;
    }
    let server = site.serve();
    make(
        &site.root("image"),
        20 * MIB + 3,
        &[(MIB, 2 * MIB), (19 * MIB, 5)],
    );
    let expected = fs::read(site.root("image")).unwrap();
    let pipe = site.copy(Host::Here, &server.url("image"), "-");
    assert_eq!(pipe.code, Some(0), "{}", pipe.err);
    assert!(pipe.out == expected, "{} bytes came", pipe.out.len());
    let null = site.copy(Host::Here, &server.url("image"), "null:");
    null.assert_copied(20 * MIB + 3, "aead");
    let null = site.copy(Host::Here, &site.root("image"), &server.url("null:"));
    null.assert_copied(20 * MIB + 3, "aead");
    server.stop();
}

#[test]
fn f01_a_killed_copy_of_a_file_with_holes_goes_on() {
    const SIZE: u64 = 1 << 30;
    let site = Site::new(120);
    if !has_holes(&site) {
        return;
    }
    let data = [(200 * MIB, 40 * MIB), (900 * MIB, 40 * MIB + 7)];
    make(&site.file("image"), SIZE, &data);
    let server = site.serve();
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let (from, to) = (site.file("image"), relay.url("image"));
    let args = ["--limit", "200mbit", "--idle-timeout", "1s", &*from, &*to];
    let client = site.start_copy(Host::Here, &args, Input::None);
    relay.await_bytes(Way::ToServer, 60 << 20, site.limit());
    server.process.signal(Signal::KILL);
    drop(server);
    client.finish();
    assert!(!fs::exists(site.root("image")).unwrap());
    let server = site.serve();
    let done = site.copy(Host::Here, &from, &server.url("image"));
    done.assert_copied(SIZE, "blake3");
    let json = done.json();
    let wire = json["wire_bytes"].as_u64().unwrap();
    assert!(json["resumed_bytes"].as_u64().unwrap() > 30 * MIB, "{json}");
    assert!(wire < 60 * MIB, "{wire} bytes were sent again");
    let there = site.root("image");
    assert_eq!(hash_of(&there), hash_of(&from));
    assert!(
        allocated(&there) <= allocated(&from) + 4 * MIB,
        "{}",
        allocated(&there)
    );
    site.assert_nothing_half_done();
    server.stop();
}
