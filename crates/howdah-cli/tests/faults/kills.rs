//! F01, F02, F03: `kill -9` of the receiver, the sender, or both, at any moment; then the same command
//! again.
//!
//! A round kills once and then lets the copy end. The moments come from a seed that is printed;
//! `HOWDAH_KILL_SEED` brings them back, `HOWDAH_KILLS` sets how many rounds there are (`make kill-test`: 200), `HOWDAH_KILL_FIRST` the first.
#![cfg(target_os = "linux")]

use crate::support::place::{content, hash_of};
use crate::support::process::{Input, Server};
use crate::support::relay::{Fate, Relay, Way};
use crate::support::{Host, Site, await_kept, parts};
use rustix::process::Signal;
use std::fs;

/// Of the file; not a multiple of anything.
const SIZE: usize = (160 << 20) + 12_345;
/// What was written and is not claimed yet: the receiver's debt to its disk at most ...
const DEBT: u64 = 64 << 20;
/// ... and groups in which something was missing.
const GROUPS_WITH_HOLES: u64 = 16 << 20;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Victim {
    Receiver,
    Sender,
    Both,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Direction {
    Put,
    Get,
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn f01_f02_f03_kills_at_any_moment_lose_nothing() {
    let (rounds, seed) = (number("HOWDAH_KILLS", 6), number("HOWDAH_KILL_SEED", 1));
    let first = number("HOWDAH_KILL_FIRST", 0);
    println!("HOWDAH_KILLS={rounds} HOWDAH_KILL_SEED={seed} HOWDAH_KILL_FIRST={first}");
    let site = Site::new(60 + 20 * rounds);
    let source = content("kills", SIZE);
    for path in [site.file("source"), site.root("source")] {
        fs::write(path, &source).unwrap();
    }
    let hash = blake3::hash(&source);
    let mut worst = 0;
    for round in first..first + rounds {
        let random = content(&format!("{seed} {round}"), 16);
        let number = |at: usize| u64::from_le_bytes(random[at..at + 8].try_into().unwrap());
        let direction = [Direction::Put, Direction::Get][round as usize % 2];
        let victim = [Victim::Sender, Victim::Receiver, Victim::Both][number(0) as usize % 3];
        // Some at the very end: while it is verified, synced and renamed.
        let at = (number(8) % (SIZE as u64 * 7 / 6)).min(SIZE as u64);
        let twice = killed_once(&site, direction, victim, at, hash);
        println!("{round}: {direction:?}, {victim:?} killed at {at}: {twice} bytes written twice");
        worst = worst.max(twice);
    }
    println!("at most {} MiB were written twice", worst >> 20);
}

/// One copy that is killed when `at` bytes have passed the relay, and its second half. Returns how many
/// bytes were written in both.
fn killed_once(
    site: &Site,
    direction: Direction,
    victim: Victim,
    at: u64,
    hash: blake3::Hash,
) -> u64 {
    let server = site.serve();
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let (way, to) = match direction {
        Direction::Put => (Way::ToServer, site.root("target")),
        Direction::Get => (Way::ToClient, site.file("target")),
    };
    let args = |server: &Server, relay: Option<&Relay>| {
        let url = |path: &str| relay.map_or_else(|| server.url(path), |relay| relay.url(path));
        match direction {
            Direction::Put => [site.file("source"), url("target")],
            Direction::Get => [url("source"), site.file("target")],
        }
    };
    let [from, there] = args(&server, Some(&relay));
    let client = site.start_copy(
        Host::Here,
        &["--idle-timeout", "1s", &from, &there],
        Input::None,
    );
    relay.await_bytes(way, at, site.limit());
    let kill_server = match victim {
        Victim::Both => true,
        Victim::Receiver => direction == Direction::Put,
        Victim::Sender => direction == Direction::Get,
    };
    if !kill_server || victim == Victim::Both {
        client.signal(Signal::KILL);
    }
    if kill_server {
        server.process.signal(Signal::KILL);
    }
    let server = if kill_server {
        drop(server);
        site.serve()
    } else {
        server
    };
    client.finish();
    // Nothing but the whole has the name.
    let complete = fs::exists(&to).unwrap();
    if complete {
        assert_eq!(hash_of(&to), hash, "a wrong file under the right name");
        fs::remove_file(&to).unwrap();
    }
    let lengths = parts(site.path())
        .into_iter()
        .map(|part| fs::metadata(part).unwrap().len());
    let written = lengths.max().unwrap_or(0);
    let [from, there] = args(&server, None);
    let done = site.copy(Host::Here, &from, &there);
    done.assert_copied(SIZE as u64, "blake3");
    assert_eq!(hash_of(&to), hash);
    let resumed = done.json()["resumed_bytes"].as_u64().unwrap();
    fs::remove_file(&to).unwrap();
    site.assert_nothing_half_done();
    server.stop();
    // A server that has everything finishes without its sender, after we looked: nothing was left to go on with.
    let finished = resumed == 0
        && at == SIZE as u64
        && direction == Direction::Put
        && victim == Victim::Sender;
    if complete || finished {
        return 0;
    }
    let twice = written.saturating_sub(resumed);
    assert!(
        twice <= DEBT + GROUPS_WITH_HOLES,
        "{written} bytes were written, and only {resumed} were kept"
    );
    twice
}

/// A large file of a tree goes on, too; what is complete is left as it is.
#[test]
fn f01_a_killed_tree_goes_on_with_its_large_file() {
    const LARGE: usize = 60 << 20;
    let site = Site::new(120);
    fs::create_dir(site.file("tree")).unwrap();
    fs::write(site.file("tree/large"), content("large", LARGE)).unwrap();
    fs::write(site.file("tree/small"), content("small", 1_000)).unwrap();
    // With "/." it is the content that goes to `there`, whether that exists already or not.
    for victim in [Victim::Receiver, Victim::Sender] {
        let server = site.serve();
        let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
        let args = [
            "-r",
            "--limit",
            "100mbit",
            "--idle-timeout",
            "1s",
            &*site.file("tree"),
        ];
        let client = site.start_copy(
            Host::Here,
            &[&args[..], &[&*relay.url("there")]].concat(),
            Input::None,
        );
        await_kept(&site, &site.root(""));
        let server = if victim == Victim::Receiver {
            server.process.signal(Signal::KILL);
            drop(server);
            client.finish();
            site.serve()
        } else {
            client.signal(Signal::KILL);
            client.finish();
            let mut server = server;
            server.await_line("failed", std::time::Duration::from_secs(10));
            server
        };
        assert!(!fs::exists(site.root("there/large")).unwrap());
        let again = ["-r", &*site.file("tree/."), &*server.url("there")];
        let done = site.copy_with(Host::Here, &again, Input::None);
        assert_eq!(done.code, Some(0), "{}", done.err);
        // Not by what was sent: a receiver whose disk is slow has some of it sent again.
        let summary = done.json();
        let resumed = summary["resumed_bytes"].as_u64().unwrap();
        assert!(resumed > 0, "{victim:?}: all was sent anew: {summary}");
        let there = site.root("there/large");
        assert_eq!(hash_of(&there), hash_of(&site.file("tree/large")));
        site.assert_nothing_half_done();
        server.stop();
        fs::remove_dir_all(site.root("there")).unwrap();
    }
}
