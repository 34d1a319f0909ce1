//! One file pushed to a server by many processes: `howdah plan FILE howdah://...`, `howdah cp --plan`, `howdah finish`; and what may go
//! wrong on the way. Pulled ones: `leases.rs`.
#![cfg(target_os = "linux")]

use crate::support;
use crate::support::place::{SmallDisk, content, hash_of};
use crate::support::plans::{Planned, rooms_in};
use crate::support::process::{Done, Input, Server};
use crate::support::relay::{Fate, Relay, Way};
use crate::support::sshd::Sshd;
use crate::support::{Host, Site};
use rustix::process::Signal;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MIB: usize = 1 << 20;
// As `howdah --help` lists them.
const USAGE: i32 = 2;
const NOT_FOUND: i32 = 3;
const REFUSED: i32 = 4;
const PARTIAL: i32 = 6;
const NO_SPACE: i32 = 11;
const STOPPED: i32 = 12;
const CHANGED: i32 = 13;

/// A plan of leases of 1 MiB of the client's file `source`, and what is to come of it below the server's root.
struct Plan<'a> {
    planned: Planned<'a>,
    /// As it is printed.
    becomes: String,
    target: String,
}

impl<'a> Plan<'a> {
    fn with(site: &'a Site, options: &[&str], to: &str, target: &str) -> (Self, Done) {
        let source = site.file("source");
        let (planned, done) = Planned::with(site, options, (&source, to), target);
        let (becomes, target) = (to.to_owned(), target.to_owned());
        let plan = Self {
            planned,
            becomes,
            target,
        };
        (plan, done)
    }

    fn try_new(site: &'a Site, to: &str, name: &str) -> (Self, Done) {
        Self::with(site, &["--lease", "1MiB"], to, &site.root(name))
    }

    fn new(site: &'a Site, server: &Server, name: &str) -> Self {
        let (plan, done) = Self::try_new(site, &server.url(name), name);
        assert_eq!(done.code, Some(0), "{}", done.err);
        plan
    }

    fn is_absent(&self) {
        assert!(!Path::new(&self.target).exists(), "{}", self.target);
    }

    /// It has its name and its hash, and nothing is left beside it.
    fn is_finished(&self, done: &Done) {
        assert_eq!(done.code, Some(0), "{}", done.err);
        let hash = hash_of(&self.site.file("source"));
        assert_eq!(hash_of(&self.target), hash);
        let text = format!("{hash}  {}\n", self.becomes);
        assert_eq!(String::from_utf8_lossy(&done.out), text);
        assert_eq!(rooms(self.site), Vec::<PathBuf>::new());
    }
}

impl<'a> Deref for Plan<'a> {
    type Target = Planned<'a>;

    fn deref(&self) -> &Planned<'a> {
        &self.planned
    }
}

fn rooms(site: &Site) -> Vec<PathBuf> {
    rooms_in(&site.root(""))
}

fn write_source(site: &Site, seed: &str, bytes: usize) {
    fs::write(site.file("source"), content(seed, bytes)).unwrap();
}

#[test]
fn a_file_is_pushed_in_any_order_and_more_than_once() {
    let site = Site::new(120);
    let server = site.serve();
    // With and without a last MiB that is not whole; one lease; nothing at all.
    for bytes in [5 * MIB + 12_345, 4 * MIB, 3 * MIB + 1, MIB, 77, 0] {
        write_source(&site, "push", bytes);
        let plan = Plan::new(&site, &server, "target");
        let leases = bytes.div_ceil(MIB).max(1) as u64;
        let first = plan.missing();
        assert_eq!(
            first,
            if leases == 1 {
                "0".into()
            } else {
                format!("0-{}", leases - 1)
            }
        );
        plan.finish(&[])
            .assert_failed(PARTIAL, &["not all leases are moved yet", "the first is 0"]);
        // All at once, and the last one twice.
        let all = (0..leases).rev().chain([leases - 1]);
        let movers: Vec<_> = all
            .map(|lease| plan.start(lease, &["--epoch", "1"]))
            .collect();
        for mover in movers {
            let done = mover.finish();
            assert_eq!(done.code, Some(0), "{}", done.err);
        }
        assert_eq!(plan.missing(), "");
        plan.is_absent();
        // A lease that was moved is left as it is.
        let again = plan.run(0, &[]);
        let length = bytes.min(MIB) as u64;
        again.assert_copied(length, "blake3");
        assert_eq!(again.json()["resumed_bytes"], length);
        // Finishing twice says the same, as long as there are records.
        let kept = plan.finish(&["--keep", "--json"]);
        assert_eq!(kept.code, Some(0), "{}", kept.err);
        assert_eq!(
            kept.json()["blake3"],
            hash_of(&site.file("source")).to_string()
        );
        plan.is_finished(&plan.finish(&[]));
        // Then there is nothing to finish any more, nor to move.
        plan.finish(&[])
            .assert_failed(NOT_FOUND, &["the plan is finished"]);
        plan.run(0, &[])
            .assert_failed(NOT_FOUND, &["the plan is finished"]);
        fs::remove_file(&plan.target).unwrap();
        fs::remove_file(&plan.file).unwrap();
    }
    server.stop();
}

#[test]
fn what_is_pushed_replaces_a_file_and_goes_into_a_directory() {
    use std::os::unix::fs::PermissionsExt as _;
    let site = Site::new(60);
    let server = site.serve();
    write_source(&site, "into", MIB + 5);
    let private = fs::Permissions::from_mode(0o640);
    fs::set_permissions(site.file("source"), private).unwrap();
    fs::create_dir(site.root("dir")).unwrap();
    for (to, becomes) in [
        ("dir", "dir/source"),
        ("dir/", "dir/source"),
        ("", "source"),
    ] {
        let (plan, done) = Plan::try_new(&site, &server.url(to), becomes);
        assert_eq!(done.code, Some(0), "{}", done.err);
        let plan = Plan {
            becomes: server.url(becomes),
            ..plan
        };
        plan.moves(1);
        plan.moves(0);
        plan.is_finished(&plan.finish(&[]));
        let mode = fs::metadata(&plan.target).unwrap().permissions().mode();
        // As a copy has it.
        assert_eq!(mode & 0o777, 0o640 & !support::umask());
        fs::remove_file(&plan.file).unwrap();
    }
    let (_, done) = Plan::try_new(&site, &server.url("none/"), "source");
    done.assert_failed(REFUSED, &["there is no directory none"]);
    let (_, done) = Plan::try_new(&site, &server.url("none/x"), "source");
    done.assert_failed(REFUSED, &["there is no directory none"]);
    server.stop();
}

#[test]
fn a_higher_epoch_fences_a_pushing_mover_that_hangs() {
    let site = Site::new(120);
    let server = site.serve();
    write_source(&site, "fence", 2 * MIB);
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let (plan, done) = Plan::try_new(&site, &relay.url("target"), "target");
    assert_eq!(done.code, Some(0), "{}", done.err);
    // So slow that the other one is through long before.
    let slow = plan.start(0, &["--epoch", "1", "--limit", "2mbit"]);
    relay.await_bytes(Way::ToServer, 200 << 10, site.limit());
    slow.signal(Signal::STOP);
    plan.moves(1);
    plan.run(0, &["--epoch", "2"])
        .assert_copied(MIB as u64, "blake3");
    slow.signal(Signal::CONT);
    let late = slow.finish();
    late.assert_failed(REFUSED, &["is run in epoch 2 already", "this is epoch 1"]);
    plan.is_finished(&plan.finish(&[]));
    server.stop();
}

#[test]
fn movers_and_a_server_that_are_killed_leave_nothing_wrong_behind() {
    let site = Site::new(120);
    let server = site.serve();
    let listen = server.address.to_string();
    write_source(&site, "killed", 4 * MIB);
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let (plan, done) = Plan::try_new(&site, &relay.url("target"), "target");
    assert_eq!(done.code, Some(0), "{}", done.err);
    let mover = plan.start(1, &["--limit", "4mbit"]);
    relay.await_bytes(Way::ToServer, 100 << 10, site.limit());
    mover.signal(Signal::KILL);
    assert_eq!(mover.finish().code, None);
    plan.moves(0);
    assert_eq!(plan.missing(), "1-3");
    plan.finish(&[])
        .assert_failed(PARTIAL, &["3 are missing, the first is 1"]);
    plan.is_absent();
    plan.moves(1);
    // The server, in the middle of a lease.
    let mover = plan.start(2, &["--limit", "2mbit", "--idle-timeout", "1s"]);
    relay.await_bytes(Way::ToServer, 1500 << 10, site.limit());
    server.signal(Signal::KILL);
    assert_eq!(server.process.finish().code, None);
    assert_eq!(mover.finish().code, Some(5));
    let server = site.serve_at(Host::Here, &listen, &site.root(""));
    assert_eq!(plan.missing(), "2-3");
    plan.moves(2);
    plan.moves(3);
    // A record that is torn is none.
    let record = rooms(&site).pop().unwrap().join("1/record-2");
    let whole = fs::read(&record).unwrap();
    fs::write(&record, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(plan.missing(), "1");
    plan.moves(1);
    plan.is_finished(&plan.finish(&[]));
    server.stop();
}

#[test]
fn a_source_that_has_changed_is_not_pushed() {
    let site = Site::new(60);
    let server = site.serve();
    write_source(&site, "before", 2 * MIB);
    let plan = Plan::new(&site, &server, "target");
    plan.moves(0);
    write_source(&site, "after", 2 * MIB);
    plan.run(1, &[])
        .assert_failed(CHANGED, &["not the one that was planned", "plan anew"]);
    let source = site.file("source");
    fs::remove_file(&source).unwrap();
    fs::create_dir(&source).unwrap();
    let told = ["it is a directory now", "plan anew"];
    plan.run(1, &[]).assert_failed(CHANGED, &told);
    fs::remove_dir(&source).unwrap();
    plan.finish(&[]).assert_failed(PARTIAL, &["the first is 1"]);
    plan.is_absent();
    fs::remove_file(&plan.file).unwrap();
    // While it is read, which is up to 64 MiB ahead of what is sent.
    write_source(&site, "while", 128 * MIB);
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let (plan, done) = Plan::with(
        &site,
        &["--lease", "128MiB"],
        &relay.url("other"),
        &site.root("other"),
    );
    assert_eq!(done.code, Some(0), "{}", done.err);
    let mover = plan.start(0, &["--limit", "100mbit"]);
    relay.await_bytes(Way::ToServer, 300 << 10, site.limit());
    let file = fs::OpenOptions::new()
        .write(true)
        .open(site.file("source"))
        .unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"x", 7).unwrap();
    mover
        .finish()
        .assert_failed(CHANGED, &["changed while it was read"]);
    assert_eq!(plan.missing(), "0");
    plan.is_absent();
    server.stop();
}

#[test]
fn pushed_plans_are_not_mixed() {
    let site = Site::new(60);
    let server = site.serve();
    write_source(&site, "mixed", 2 * MIB);
    let (one, other) = (
        Plan::new(&site, &server, "one"),
        Plan::new(&site, &server, "other"),
    );
    for plan in [&one, &other] {
        plan.moves(0);
        plan.moves(1);
    }
    // Records of another plan.
    let room = |name: &str| {
        let mut rooms = rooms(&site);
        rooms.retain(|room| room.to_str().unwrap().contains(&format!("/.{name}.")));
        rooms.pop().unwrap()
    };
    let (from, to) = (
        room("other").join("1/record-1"),
        room("one").join("1/record-1"),
    );
    let own = fs::read(&to).unwrap();
    fs::copy(from, &to).unwrap();
    one.finish(&[])
        .assert_failed(USAGE, &["two plans share a directory"]);
    one.is_absent();
    fs::write(&to, own).unwrap();
    let text = fs::read_to_string(&one.file).unwrap();
    let edited = |from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        fs::write(&one.file, text.replace(from, to)).unwrap();
    };
    // A plan that somebody has edited.
    edited("1048576", "2097152");
    let told = ["is of another plan than this one"];
    one.run(0, &[]).assert_failed(USAGE, &told);
    one.finish(&[]).assert_failed(USAGE, &told);
    // One whose room has another name.
    edited("/one\"", "/other\"");
    one.run(0, &[]).assert_failed(NOT_FOUND, &["there is no"]);
    // One that leads out, and into the room itself.
    for place in ["/../one\"", "/.one.0123456789abcdef.howdah-plan/part\""] {
        edited("/one\"", place);
        one.run(0, &[]).assert_failed(REFUSED, &[]);
        one.finish(&[]).assert_failed(REFUSED, &[]);
    }
    fs::write(&one.file, &text).unwrap();
    one.run(2, &[])
        .assert_failed(USAGE, &["has no lease 2: they are 0 to 1"]);
    assert_eq!(one.finish(&[]).code, Some(0));
    other.is_finished(&other.finish(&[]));
    server.stop();
}

#[test]
fn a_full_disk_of_a_server_shows_before_anything_is_pushed_or_loses_nothing() {
    let site = Site::new(60);
    fs::create_dir(site.root("small")).unwrap();
    let Some(disk) = SmallDisk::mount(&site.root("small"), 3) else {
        return;
    };
    let server = site.serve();
    write_source(&site, "full", 8 * MIB);
    let new = || Plan::try_new(&site, &server.url("small/target"), "small/target");
    let (_, done) = new();
    done.assert_failed(NO_SPACE, &["reserve space for", "make room there"]);
    assert_eq!(fs::read_dir(site.root("small")).unwrap().count(), 0);
    // There is room for the file, and not for what comes beside it.
    disk.resize(9);
    let (plan, done) = new();
    assert_eq!(done.code, Some(0), "{}", done.err);
    let filler = content("filler", MIB);
    let _ = fs::write(site.root("small/filler"), filler);
    plan.run(7, &["--wait-for-space", "0"])
        .assert_failed(NO_SPACE, &[]);
    assert_eq!(plan.missing(), "0-7");
    plan.is_absent();
    disk.resize(20);
    (0..8).for_each(|lease| plan.moves(lease));
    assert_eq!(plan.finish(&[]).code, Some(0));
    assert_eq!(hash_of(&plan.target), hash_of(&site.file("source")));
    server.stop();
}

#[test]
fn h17_only_who_may_write_plans_and_the_room_is_of_one_key() {
    let site = Site::new(100);
    let other = site.make_key("ben");
    site.grant("");
    let keys = site.config("server").join("authorized_keys");
    let client = fs::read_to_string(&keys).unwrap();
    let list = |options: &str| {
        let line = if options.is_empty() {
            client.clone()
        } else {
            format!("{options} {client}")
        };
        fs::write(&keys, format!("{line}\n{other}")).unwrap();
    };
    let again = |server: &mut Server| {
        server.process.signal(Signal::HUP);
        server.await_line("read again", Duration::from_secs(20));
    };
    list("");
    let mut server = site.serve();
    write_source(&site, "rights", 2 * MIB);
    let plan = Plan::new(&site, &server, "target");
    plan.moves(0);
    // Another key of the same server.
    let args = ["--accept-new", "--plan", &plan.file, "--lease", "1"];
    let args = [&["cp", "--json"], &args[..]].concat();
    site.run(Host::Here, "ben", &args, Input::None)
        .assert_failed(REFUSED, &["is the room of another key"]);
    for options in [&["--check"][..], &[]] {
        plan.finish_as("ben", options)
            .assert_failed(REFUSED, &["is the room of another key"]);
    }
    // Nobody sees the room from outside, nor writes into it.
    let room = rooms(&site).pop().unwrap();
    let room = room.file_name().unwrap().to_str().unwrap();
    let done = site.copy(
        Host::Here,
        &site.file("source"),
        &server.url(&format!("{room}/part")),
    );
    done.assert_failed(REFUSED, &["kept for unfinished copies"]);
    // Who may not write any more does not go on.
    list("read-only");
    again(&mut server);
    let told = ["may read here and not write"];
    plan.run(1, &[]).assert_failed(REFUSED, &told);
    plan.finish(&[]).assert_failed(REFUSED, &told);
    let (_, done) = Plan::try_new(&site, &server.url("new"), "new");
    done.assert_failed(REFUSED, &told);
    // Who may only write may do all of it.
    list("write-only");
    again(&mut server);
    plan.moves(1);
    plan.is_finished(&plan.finish(&[]));
    // Who may only add replaces nothing: neither at the beginning nor at the end.
    list("no-delete");
    again(&mut server);
    fs::remove_file(&plan.file).unwrap();
    let (_, done) = Plan::try_new(&site, &server.url("target"), "target");
    done.assert_failed(REFUSED, &["target"]);
    let plan = Plan::new(&site, &server, "added");
    plan.moves(0);
    plan.moves(1);
    fs::write(site.root("added"), "was first").unwrap();
    plan.finish(&[]).assert_failed(REFUSED, &["added"]);
    assert_eq!(fs::read(site.root("added")).unwrap(), b"was first");
    fs::remove_file(site.root("added")).unwrap();
    plan.is_finished(&plan.finish(&[]));
    // As much as a session may bring.
    list("max-bytes=\"1048576\"");
    again(&mut server);
    let (_, done) = Plan::try_new(&site, &server.url("much"), "much");
    done.assert_failed(REFUSED, &["more than 1048576 bytes"]);
    assert_eq!(rooms(&site), Vec::<PathBuf>::new());
    server.stop();
}

/// Holes, and a machine that ssh reaches.
#[test]
fn a_file_with_holes_is_pushed_over_ssh() {
    let site = Site::new(120);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let path = site.file("source");
    let file = fs::File::create(&path).unwrap();
    file.set_len(6 * MIB as u64 + 5).unwrap();
    let at = 3 * MIB as u64 - 9;
    std::os::unix::fs::FileExt::write_all_at(&file, &content("hole", MIB), at).unwrap();
    drop(file);
    let ssh = sshd.ssh();
    let options = ["--lease", "1MiB", "--ssh", &ssh];
    let to = format!("far:{}", site.root(""));
    let (plan, done) = Plan::with(&site, &options, &to, &site.root("source"));
    assert_eq!(done.code, Some(0), "{}", done.err);
    let plan = Plan {
        becomes: format!("{to}source"),
        ..plan
    };
    for lease in 0..7 {
        let done = plan.run(lease, &["--ssh", &ssh]);
        assert_eq!(done.code, Some(0), "{}", done.err);
    }
    plan.is_finished(&plan.finish(&["--ssh", &ssh]));
}

#[test]
fn who_interrupts_a_push_is_told_what_to_do_next() {
    let site = Site::new(60);
    let server = site.serve();
    write_source(&site, "interrupted", MIB);
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let (plan, done) = Plan::try_new(&site, &relay.url("target"), "target");
    assert_eq!(done.code, Some(0), "{}", done.err);
    let mover = plan.start(0, &["--limit", "2mbit"]);
    relay.await_bytes(Way::ToServer, 100 << 10, site.limit());
    mover.signal(Signal::INT);
    let done = mover.finish();
    done.assert_failed(STOPPED, &["the same lease can be run again"]);
    assert!(!done.err.contains("where this one ended"), "{}", done.err);
    plan.moves(0);
    plan.is_finished(&plan.finish(&[]));
    server.stop();
}

/// What was right of a lease does not come twice: when its connection is lost, when its mover is killed and runs again in the same epoch, and when
/// it is run in the next one.
#[test]
fn an_interrupted_lease_goes_on_where_it_ended() {
    const LEASE: u64 = 16 << 20;
    // What was under way when it ended, and the parts that were not whole. Anew it would be 8 MiB.
    const TWICE: u64 = 4 << 20;
    let site = Site::new(240);
    let mut server = site.serve();
    write_source(&site, "lost", 3 * LEASE as usize + 99);
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let to = relay.url("target");
    let (plan, done) = Plan::with(&site, &["--lease", "16MiB"], &to, &site.root("target"));
    assert_eq!(done.code, Some(0), "{}", done.err);
    let slow = ["--idle-timeout", "1s", "--limit", "40mbit"];
    let until_half = || {
        let before = relay.bytes(Way::ToServer);
        relay.await_bytes(Way::ToServer, before + LEASE / 2, site.limit());
        before
    };
    let is_once = |before: u64| {
        let sent = relay.bytes(Way::ToServer) - before;
        // Headers, and what the rest of the protocol says, are 5 % of it at most.
        assert!(sent < LEASE * 21 / 20 + TWICE, "{sent} bytes were sent");
    };
    let goes_on = "going on with a lease that was interrupted";
    // The server knows it, of one after the other.
    let has_failed = |server: &mut Server| {
        let line = "put a lease of \"target\" failed";
        server.await_line(line, Duration::from_secs(40));
    };
    // The connection.
    let mut mover = plan.start(0, &[&slow[..], &["--reconnect", "60s"]].concat());
    let before = until_half();
    server.signal(Signal::STOP);
    mover.await_line("connecting again", Duration::from_secs(40));
    server.signal(Signal::CONT);
    let done = mover.finish();
    done.assert_copied(LEASE, "blake3");
    assert!(done.json()["reconnects"].as_u64() > Some(0));
    assert!(done.err.contains(goes_on), "{}", done.err);
    is_once(before);
    has_failed(&mut server);
    // The mover, which is run again as it was: at once, while the server takes it for alive.
    let epoch = ["--epoch", "7"];
    let mover = plan.start(1, &[&slow[..], &epoch].concat());
    let before = until_half();
    mover.signal(Signal::KILL);
    assert_eq!(mover.finish().code, None);
    let done = plan.run(1, &epoch);
    done.assert_copied(LEASE, "blake3");
    assert!(done.err.contains(goes_on), "{}", done.err);
    is_once(before);
    has_failed(&mut server);
    // And in the next epoch, when the server has found out.
    let mover = plan.start(2, &slow);
    let before = until_half();
    mover.signal(Signal::KILL);
    assert_eq!(mover.finish().code, None);
    has_failed(&mut server);
    let done = plan.run(2, &[]);
    done.assert_copied(LEASE, "blake3");
    assert!(done.err.contains(goes_on), "{}", done.err);
    is_once(before);
    // What it had come to is gone.
    let room = rooms(&site).pop().unwrap();
    for lease in 0..3 {
        let names = fs::read_dir(room.join(lease.to_string())).unwrap();
        let names = names.map(|name| name.unwrap().file_name().into_string().unwrap());
        let left: Vec<_> = names
            .filter(|name| !name.starts_with("claim-") && !name.starts_with("record-"))
            .collect();
        assert_eq!(left, Vec::<String>::new());
    }
    plan.moves(3);
    plan.is_finished(&plan.finish(&[]));
    server.stop();
}

#[test]
fn what_cannot_be_pushed_is_said() {
    let site = Site::new(60);
    let server = site.serve();
    write_source(&site, "words", 10);
    fs::create_dir(site.file("dir")).unwrap();
    let fails = |options: &[&str], source: &str, to: &str, code: i32, parts: &[&str]| {
        let file = site.file("no.plan");
        let args = ["plan", "--accept-new", "-o", &file];
        let args = [&args[..], options, &[source, to]].concat();
        site.run(Host::Here, "client", &args, Input::None)
            .assert_failed(code, parts);
        assert!(!Path::new(&file).exists());
        assert_eq!(rooms(&site), Vec::<PathBuf>::new());
    };
    let (source, to) = (site.file("source"), server.url("target"));
    let no_trees = ["no regular file", "howdah cp -r"];
    fails(&[], &site.file("dir"), &to, USAGE, &no_trees);
    let there = server.url("there");
    fs::create_dir(site.root("there")).unwrap();
    let inside = site.file("dir/.");
    fails(&["-a"], &inside, &there, REFUSED, &["is there already"]);
    fails(
        &["-a"],
        &site.file("dir"),
        &site.file("x"),
        USAGE,
        &no_trees,
    );
    fails(&[], &site.file("none"), &to, NOT_FOUND, &["none"]);
    fails(&[], "zero:9", &to, USAGE, &["no file"]);
    fails(&[], "/dev/null", &to, USAGE, &["no regular file"]);
    fails(&["--lease", "3MiB"], &source, &to, USAGE, &["power of two"]);
    let long = server.url(&"y".repeat(256));
    fails(&[], &source, &long, REFUSED, &["longer than 255 bytes"]);
    let room = server.url(".x.0123456789abcdef.howdah-plan/part");
    fails(&[], &source, &room, REFUSED, &["unfinished copies"]);
    std::os::unix::fs::symlink("target", site.root("link")).unwrap();
    fails(&[], &source, &server.url("link"), REFUSED, &["link"]);
    server.stop();
}

/// Source and destination are both paths that all hosts see.
#[test]
fn a_file_is_moved_by_many_between_two_directories() {
    let site = Site::new(60);
    write_source(&site, "local", 3 * MIB + 7);
    let target = site.file("copied");
    let (plan, done) = Plan::with(&site, &["--lease", "1MiB"], &target, &target);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(plan.missing(), "0-3");
    let movers: Vec<_> = [3, 0, 2, 1, 1]
        .map(|lease| plan.start(lease, &["--epoch", "1"]))
        .into();
    for mover in movers {
        let done = mover.finish();
        assert_eq!(done.code, Some(0), "{}", done.err);
    }
    plan.is_finished(&plan.finish(&[]));
    assert_eq!(rooms_in(&site.file("")), Vec::<PathBuf>::new());
    fs::remove_file(&plan.file).unwrap();
    let (plan, done) = Plan::with(&site, &["--lease", "1MiB"], &target, &target);
    assert_eq!(done.code, Some(0), "{}", done.err);
    plan.moves(0);
    write_source(&site, "changed", 3 * MIB + 7);
    plan.run(1, &[])
        .assert_failed(CHANGED, &["not the one that was planned", "plan anew"]);
}
