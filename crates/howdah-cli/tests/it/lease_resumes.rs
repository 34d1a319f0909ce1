//! A lease that is fetched from a server and whose mover was killed: the next run goes on with what has come, if that is what it was.
#![cfg(target_os = "linux")]

use crate::support::place::{content, hash_of};
use crate::support::plans::{Planned, rooms_in};
use crate::support::process::{Done, Input, Server};
use crate::support::relay::{Fate, Relay, Way};
use crate::support::{HOWDAH, Site};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;
/// Of the plans of this page.
const LEASE: u64 = 16 * MIB;
/// What has come when a mover is killed, and the parts of it that were not told of, or not whole, in bytes.
const KILLED_AT: u64 = 8 * MIB;
const UNKNOWN: u64 = 4 * MIB;
/// So that there is time to kill it.
const SLOW: [&str; 2] = ["--limit", "60mbit"];
// As `howdah --help` lists them.
const REFUSED: i32 = 4;
const INTEGRITY: i32 = 10;
const STOPPED: i32 = 12;
const CHANGED: i32 = 13;

/// A file of a server behind a relay that counts, and its plan.
struct Case<'a> {
    plan: Planned<'a>,
    relay: Relay,
    source: String,
    target: String,
    site: &'a Site,
}

impl<'a> Case<'a> {
    fn new(site: &'a Site, server: &Server, name: &str, leases: u64) -> Self {
        let source = site.root(name);
        let bytes = usize::try_from(leases * LEASE - MIB / 2).unwrap();
        fs::write(&source, content(name, bytes)).unwrap();
        let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
        let target = site.file(name);
        let from = relay.url(name);
        let (plan, done) = Planned::with(site, &["--lease", "16MiB"], (&from, &target), &target);
        assert_eq!(done.code, Some(0), "{}", done.err);
        Self {
            plan,
            relay,
            source,
            target,
            site,
        }
    }

    fn room(&self) -> PathBuf {
        let mut rooms = rooms_in(&self.site.file(""));
        assert_eq!(rooms.len(), 1);
        rooms.pop().unwrap()
    }

    /// What the room has of a lease beside claims, records and the list of what it has.
    fn beside(&self, lease: u64) -> Vec<String> {
        let names = fs::read_dir(self.room().join(lease.to_string())).unwrap();
        let names = names.map(|name| name.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names
            .filter(|name| {
                !["claim-", "record-", "sheet"]
                    .iter()
                    .any(|kind| name.starts_with(kind))
            })
            .collect();
        names.sort();
        names
    }

    /// Half of it comes, and its mover gets that signal.
    fn ended(&self, lease: u64, options: &[&str], signal: Signal) -> Done {
        let mover = self.plan.start(lease, &[&SLOW[..], options].concat());
        let before = self.relay.bytes(Way::ToClient);
        let (bytes, limit) = (before + KILLED_AT, self.site.limit());
        self.relay.await_bytes(Way::ToClient, bytes, limit);
        mover.signal(signal);
        mover.finish()
    }

    fn killed(&self, lease: u64, options: &[&str]) {
        let done = self.ended(lease, options, Signal::KILL);
        assert_eq!(done.code, None);
    }

    /// The rest of a lease of which half has come; how much there was, in bytes.
    fn goes_on(&self, lease: u64, options: &[&str]) -> u64 {
        let done = self.plan.run(lease, options);
        assert_eq!(done.code, Some(0), "{}", done.err);
        let resumed = done.json()["resumed_bytes"].as_u64().unwrap();
        assert!(resumed >= KILLED_AT - UNKNOWN, "{resumed}");
        assert!(resumed < LEASE - 2 * MIB, "{resumed}");
        let goes_on = "going on with a lease that was interrupted";
        assert!(done.err.contains(goes_on), "{}", done.err);
        assert_eq!(self.beside(lease), Vec::<String>::new());
        resumed
    }

    /// All of a lease comes.
    fn comes_anew(&self, lease: u64) {
        let done = self.plan.run(lease, &[]);
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert_eq!(done.json()["resumed_bytes"], 0);
        assert_eq!(self.beside(lease), Vec::<String>::new());
    }

    fn is_finished(&self) {
        let done = self.plan.finish(&[]);
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert_eq!(hash_of(&self.target), hash_of(&self.source));
        assert_eq!(rooms_in(&self.site.file("")), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_lease_goes_on_where_its_mover_was_ended() {
    let site = Site::new(240);
    let server = site.serve();
    let case = Case::new(&site, &server, "killed", 3);
    // In the next epoch, in the same one, and one that was interrupted; the last one has the end of the source.
    case.killed(0, &[]);
    assert_eq!(case.beside(0), ["come-1", "held-1"]);
    case.goes_on(0, &[]);
    case.killed(1, &["--epoch", "7"]);
    case.goes_on(1, &["--epoch", "7"]);
    let done = case.ended(2, &[], Signal::INT);
    done.assert_failed(STOPPED, &["the same lease can be run again"]);
    // Nobody sends to that one any more: what comes is for the next.
    let before = case.relay.bytes(Way::ToClient);
    let resumed = case.goes_on(2, &["--epoch", "9"]);
    let sent = case.relay.bytes(Way::ToClient) - before;
    // Headers, what the rest of the protocol says, and the end, which is sent more than once; anew it would be 16 MiB.
    let most = (LEASE - MIB / 2 - resumed) * 21 / 20 + 2 * MIB;
    assert!(sent < most, "{sent} bytes were sent, {resumed} were there");
    case.is_finished();
    server.stop();
}

/// Nobody knows what lies there: what is not what it was comes again.
#[test]
fn what_has_come_counts_as_it_was_told_and_no_more() {
    let site = Site::new(240);
    let server = site.serve();
    let case = Case::new(&site, &server, "altered", 4);
    (0..4).for_each(|lease| case.killed(lease, &[]));
    let room = case.room();
    let whole = |lease: u64| fs::read(room.join(format!("{lease}/held-1"))).unwrap();
    let (first, second) = (whole(0), whole(1));
    // Another lease's, with another lease's bytes; a torn one.
    fs::write(room.join("0/held-1"), &second).unwrap();
    fs::copy(room.join("1/come-1"), room.join("0/come-1")).unwrap();
    fs::write(room.join("1/held-1"), &second[..second.len() - 1]).unwrap();
    case.comes_anew(0);
    let notes = |held: &[u8]| held.len() as u64 / 48;
    let done = case.plan.run(1, &[]);
    let resumed = done.json()["resumed_bytes"].as_u64().unwrap();
    assert_eq!(resumed, (notes(&second) - 1) * MIB, "{}", done.err);
    // One that tells of more than is there any more, and one of which a byte is another: of them the other groups count.
    let come = |lease: u64| {
        let path = room.join(format!("{lease}/come-1"));
        fs::OpenOptions::new().write(true).open(path).unwrap()
    };
    come(2).set_len(MIB + 5).unwrap();
    let done = case.plan.run(2, &[]);
    assert_eq!(done.json()["resumed_bytes"], MIB, "{}", done.err);
    come(3).write_all_at(&first, MIB + 77).unwrap();
    let told = notes(&whole(3));
    let done = case.plan.run(3, &[]);
    let resumed = done.json()["resumed_bytes"].as_u64().unwrap();
    assert_eq!(resumed, (told - 1) * MIB, "{}", done.err);
    case.is_finished();
    server.stop();
}

/// Locks may be of one host alone: somebody else may write to what has come already.
#[test]
fn what_is_altered_while_the_rest_comes_gets_no_record() {
    let site = Site::new(120);
    let server = site.serve();
    let case = Case::new(&site, &server, "shared", 1);
    let mover = case.plan.start(0, &SLOW);
    let limit = site.limit();
    case.relay.await_bytes(Way::ToClient, KILLED_AT, limit);
    let come = case.room().join("0/come-1");
    let come = fs::OpenOptions::new().write(true).open(come).unwrap();
    come.write_all_at(b"of another version", MIB + 77).unwrap();
    let told = ["does not give back", "run it again"];
    mover.finish().assert_failed(INTEGRITY, &told);
    assert_eq!(case.plan.missing(), "0");
    assert_eq!(case.beside(0), Vec::<String>::new());
    case.comes_anew(0);
    case.is_finished();
    server.stop();
}

#[test]
fn a_mover_that_lives_keeps_what_it_has() {
    let site = Site::new(120);
    let server = site.serve();
    let case = Case::new(&site, &server, "lives", 1);
    let mover = case.plan.start(0, &SLOW);
    let limit = site.limit();
    case.relay.await_bytes(Way::ToClient, KILLED_AT, limit);
    mover.signal(Signal::STOP);
    // In its own epoch, in the next one, and in one before.
    let early = case.ended(0, &["--epoch", "1"], Signal::KILL);
    assert_eq!(early.code, None);
    let done = case.plan.run(0, &["--epoch", "2"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(done.json()["resumed_bytes"], 0);
    mover.signal(Signal::CONT);
    let told = ["is run in epoch 2 already", "this is epoch 1"];
    mover.finish().assert_failed(REFUSED, &told);
    assert_eq!(case.beside(0), Vec::<String>::new());
    case.is_finished();
    server.stop();
}

#[test]
fn what_has_come_of_another_version_is_not_gone_on_with() {
    let site = Site::new(120);
    let server = site.serve();
    let case = Case::new(&site, &server, "changed", 2);
    case.killed(1, &[]);
    fs::write(&case.source, content("other", 24 << 20)).unwrap();
    let done = case.plan.run(1, &[]);
    done.assert_failed(CHANGED, &["not the one that was planned", "plan anew"]);
    assert_eq!(case.beside(1), Vec::<String>::new());
    assert!(!Path::new(&case.target).exists());
    server.stop();
}

/// Where nobody can be locked out nobody could go on with what another one may still write to: it has no name.
#[test]
fn without_locks_what_comes_is_of_its_mover_alone() {
    let site = Site::new(120);
    let server = site.serve();
    let case = Case::new(&site, &server, "unlocked", 1);
    let lease = ["--plan", &case.plan.file, "--lease", "0"];
    let start = |options: &[&str]| {
        let mut command = std::process::Command::new("strace");
        command.args(["-f", "--seccomp-bpf", "-qq", "-e", "trace=flock"]);
        command.args(["-e", "inject=flock:error=ENOLCK", "-o", "/dev/null", HOWDAH]);
        let args = [&["cp", "--json", "--accept-new"], &lease[..], options].concat();
        site.start_by(command, "client", &args, Input::None)
    };
    let has_strace = std::process::Command::new("strace").arg("-V").output();
    if !has_strace.is_ok_and(|output| output.status.success()) {
        println!("skipped: no strace here, which makes locks fail");
        return;
    }
    let mover = start(&SLOW);
    case.relay
        .await_bytes(Way::ToClient, KILLED_AT, site.limit());
    assert_eq!(case.beside(0), Vec::<String>::new());
    let done = mover.finish();
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(done.json()["resumed_bytes"], 0);
    case.is_finished();
    server.stop();
}

/// A range of a large file in a tree, too.
#[test]
fn a_large_file_of_a_tree_goes_on() {
    let site = Site::new(120);
    let server = site.serve();
    fs::create_dir(site.root("tree")).unwrap();
    let source = site.root("tree/large");
    fs::write(&source, content("large", 24 << 20)).unwrap();
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let target = site.file("tree");
    let from = relay.url("tree");
    let (plan, done) = Planned::with(
        &site,
        &["-a", "--lease", "16MiB"],
        (&from, &target),
        &target,
    );
    assert_eq!(done.code, Some(0), "{}", done.err);
    let case = Case {
        plan,
        relay,
        source,
        target: site.file("tree/large"),
        site: &site,
    };
    // The first lease has the small files, of which there are none.
    case.killed(1, &[]);
    case.goes_on(1, &[]);
    case.plan.moves(0);
    case.plan.moves(2);
    case.is_finished();
    server.stop();
}
