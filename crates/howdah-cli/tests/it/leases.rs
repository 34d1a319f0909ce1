//! One file moved by many processes: `howdah plan`, `howdah cp --plan`, `howdah finish`; and what may go wrong on the way.
#![cfg(target_os = "linux")]

use crate::support;
use crate::support::place::{SmallDisk, content, hash_of};
use crate::support::plans::{Planned, rooms_in};
use crate::support::process::{Done, Input, Server};
use crate::support::relay::{Fate, Relay, Way};
use crate::support::sshd::Sshd;
use crate::support::{Host, Site};
use rustix::process::Signal;
use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MIB: usize = 1 << 20;
// As `howdah --help` lists them.
const USAGE: i32 = 2;
const NOT_FOUND: i32 = 3;
const REFUSED: i32 = 4;
const PARTIAL: i32 = 6;
const INTEGRITY: i32 = 10;
const NO_SPACE: i32 = 11;
const STOPPED: i32 = 12;
const CHANGED: i32 = 13;

/// A plan of leases of 1 MiB, and what is to come of it.
struct Plan<'a> {
    planned: Planned<'a>,
    target: String,
}

impl<'a> Plan<'a> {
    fn try_new(site: &'a Site, source: &str, target: &str) -> (Self, Done) {
        Self::with(site, &["--lease", "1MiB"], source, target)
    }

    fn with(site: &'a Site, options: &[&str], source: &str, target: &str) -> (Self, Done) {
        let (planned, done) = Planned::with(site, options, (source, target), target);
        let target = target.to_owned();
        (Self { planned, target }, done)
    }

    /// Of `source` on that server.
    fn new(site: &'a Site, server: &Server, target: &str) -> Self {
        let (plan, done) = Self::try_new(site, &server.url("source"), &site.file(target));
        assert_eq!(done.code, Some(0), "{}", done.err);
        plan
    }

    fn is_absent(&self) {
        assert!(!Path::new(&self.target).exists(), "{}", self.target);
    }

    /// It has its name and its hash, and nothing is left beside it.
    fn is_finished(&self, done: &Done, source: &str) {
        assert_eq!(done.code, Some(0), "{}", done.err);
        let hash = hash_of(source);
        assert_eq!(hash_of(&self.target), hash);
        let text = format!("{hash}  {}\n", self.target);
        assert_eq!(String::from_utf8_lossy(&done.out), text);
        assert_eq!(rooms(self.site), Vec::<PathBuf>::new());
    }

    fn room(&self) -> PathBuf {
        let name = Path::new(&self.target)
            .file_name()
            .unwrap()
            .display()
            .to_string();
        let mut rooms = rooms(self.site);
        rooms.retain(|room| {
            room.file_name()
                .unwrap()
                .display()
                .to_string()
                .contains(&name)
        });
        rooms.pop().unwrap()
    }
}

impl<'a> Deref for Plan<'a> {
    type Target = Planned<'a>;

    fn deref(&self) -> &Planned<'a> {
        &self.planned
    }
}

fn rooms(site: &Site) -> Vec<PathBuf> {
    rooms_in(&site.file(""))
}

fn write_source(site: &Site, seed: &str, bytes: usize) -> String {
    let path = site.root("source");
    fs::write(&path, content(seed, bytes)).unwrap();
    path
}

#[test]
fn a_file_is_moved_in_any_order_and_more_than_once() {
    let site = Site::new(120);
    let server = site.serve();
    // With and without a last MiB that is not whole; one lease; nothing at all.
    for bytes in [5 * MIB + 12_345, 4 * MIB, 3 * MIB + 1, MIB, 77, 0] {
        let source = write_source(&site, "leases", bytes);
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
        assert_eq!(kept.json()["blake3"], hash_of(&source).to_string());
        plan.is_finished(&plan.finish(&[]), &source);
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
fn a_higher_epoch_fences_a_mover_that_hangs() {
    let site = Site::new(120);
    let server = site.serve();
    let source = write_source(&site, "fence", 2 * MIB);
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let (plan, done) = Plan::try_new(&site, &relay.url("source"), &site.file("target"));
    assert_eq!(done.code, Some(0), "{}", done.err);
    // So slow that the other one is through long before.
    let slow = plan.start(0, &["--epoch", "1", "--limit", "2mbit"]);
    relay.await_bytes(Way::ToClient, 200 << 10, site.limit());
    slow.signal(Signal::STOP);
    plan.moves(1);
    plan.run(0, &["--epoch", "2"])
        .assert_copied(MIB as u64, "blake3");
    slow.signal(Signal::CONT);
    let late = slow.finish();
    late.assert_failed(REFUSED, &["is run in epoch 2 already", "this is epoch 1"]);
    plan.is_finished(&plan.finish(&[]), &source);
    server.stop();
}

#[test]
fn a_mover_that_is_killed_leaves_nothing_wrong_behind() {
    let site = Site::new(120);
    let server = site.serve();
    let source = write_source(&site, "killed", 3 * MIB);
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let (plan, done) = Plan::try_new(&site, &relay.url("source"), &site.file("target"));
    assert_eq!(done.code, Some(0), "{}", done.err);
    let mover = plan.start(1, &["--limit", "4mbit"]);
    relay.await_bytes(Way::ToClient, 100 << 10, site.limit());
    mover.signal(Signal::KILL);
    assert_eq!(mover.finish().code, None);
    plan.moves(0);
    assert_eq!(plan.missing(), "1-2");
    plan.finish(&[])
        .assert_failed(PARTIAL, &["2 are missing, the first is 1"]);
    plan.is_absent();
    plan.moves(1);
    plan.moves(2);
    // A record that is torn is none.
    let record = plan.room().join("1/record-2");
    let whole = fs::read(&record).unwrap();
    fs::write(&record, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(plan.missing(), "1");
    plan.moves(1);
    plan.is_finished(&plan.finish(&[]), &source);
    server.stop();
}

#[test]
fn a_source_that_has_changed_is_not_mixed_with_what_it_was() {
    let site = Site::new(60);
    let server = site.serve();
    write_source(&site, "before", 2 * MIB);
    let plan = Plan::new(&site, &server, "target");
    plan.moves(0);
    write_source(&site, "after", 2 * MIB);
    plan.run(1, &[])
        .assert_failed(CHANGED, &["not the one that was planned", "plan anew"]);
    let source = site.root("source");
    fs::remove_file(&source).unwrap();
    fs::create_dir(&source).unwrap();
    plan.run(1, &[])
        .assert_failed(CHANGED, &["the source has changed", "is a directory"]);
    plan.finish(&[]).assert_failed(PARTIAL, &["the first is 1"]);
    plan.is_absent();
    server.stop();
}

#[test]
fn plans_are_not_mixed() {
    let site = Site::new(60);
    let server = site.serve();
    let source = write_source(&site, "mixed", 2 * MIB);
    let (one, other) = (
        Plan::new(&site, &server, "one"),
        Plan::new(&site, &server, "other"),
    );
    for plan in [&one, &other] {
        plan.moves(0);
        plan.moves(1);
    }
    // Records of another plan.
    let (from, to) = (
        other.room().join("1/record-1"),
        one.room().join("1/record-1"),
    );
    let own = fs::read(&to).unwrap();
    fs::copy(from, &to).unwrap();
    one.finish(&[])
        .assert_failed(USAGE, &["two plans share a directory"]);
    one.is_absent();
    fs::write(&to, own).unwrap();
    // A plan that somebody has edited.
    let text = fs::read_to_string(&one.file).unwrap();
    fs::write(&one.file, text.replace("1048576", "2097152")).unwrap();
    one.run(0, &[])
        .assert_failed(USAGE, &["is of another plan than this one"]);
    one.finish(&[])
        .assert_failed(USAGE, &["is of another plan than this one"]);
    // A plan of another version.
    fs::write(
        &one.file,
        text.replace("\"howdah_plan\": 1", "\"howdah_plan\": 3"),
    )
    .unwrap();
    one.run(0, &[])
        .assert_failed(USAGE, &["format 3", "reads 1 and 2"]);
    fs::write(&one.file, text).unwrap();
    one.run(2, &[])
        .assert_failed(USAGE, &["has no lease 2: they are 0 to 1"]);
    assert_eq!(one.finish(&[]).code, Some(0));
    other.is_finished(&other.finish(&[]), &source);
    server.stop();
}

#[test]
fn somebody_elses_file_is_not_replaced() {
    let site = Site::new(60);
    let server = site.serve();
    write_source(&site, "other", 2 * MIB);
    let plan = Plan::new(&site, &server, "target");
    plan.moves(0);
    plan.moves(1);
    // Somebody cuts the unfinished file.
    let part = fs::OpenOptions::new()
        .write(true)
        .open(plan.room().join("part"))
        .unwrap();
    part.set_len(MIB as u64).unwrap();
    plan.finish(&[])
        .assert_failed(INTEGRITY, &["somebody else wrote to it"]);
    plan.is_absent();
    server.stop();
}

/// What is removed last is what a run needs that is to tell the same.
#[test]
fn finishing_that_is_ended_while_it_clears_up_is_told_and_done_by_the_next() {
    let site = Site::new(60);
    let server = site.serve();
    let source = write_source(&site, "cleared", 2 * MIB);
    let plan = Plan::new(&site, &server, "target");
    plan.moves(0);
    plan.moves(1);
    assert_eq!(plan.finish(&["--keep"]).code, Some(0));
    let room = plan.room();
    fs::remove_file(room.join("plan")).unwrap();
    fs::remove_dir_all(room.join("0")).unwrap();
    // Nobody takes it for a plan that nothing was moved of.
    assert_eq!(plan.missing(), "");
    plan.run(0, &[])
        .assert_failed(NOT_FOUND, &["is finished", "howdah finish"]);
    plan.is_finished(&plan.finish(&[]), &source);
    plan.finish(&[]).assert_failed(NOT_FOUND, &["there is no"]);
    server.stop();
}

#[test]
fn an_unfinished_file_that_somebody_removed_is_told_as_that() {
    let site = Site::new(60);
    let server = site.serve();
    write_source(&site, "removed", 2 * MIB);
    let plan = Plan::new(&site, &server, "target");
    plan.moves(0);
    fs::remove_file(plan.room().join("part")).unwrap();
    let told = ["/part", "removed", "plan anew"];
    plan.run(1, &[]).assert_failed(NOT_FOUND, &told);
    plan.finish(&[]).assert_failed(NOT_FOUND, &told);
    plan.finish(&["--check"]).assert_failed(NOT_FOUND, &told);
    server.stop();
}

/// The last thing before the rename is the source's permissions: what cannot be renamed then is finished by the next run.
#[test]
fn a_file_that_its_owner_may_not_write_gets_its_name_at_the_second_attempt() {
    let site = Site::new(60);
    let server = site.serve();
    let source = write_source(&site, "archived", 2 * MIB);
    let plan = Plan::new(&site, &server, "target");
    plan.moves(0);
    let part = plan.room().join("part");
    fs::set_permissions(&part, fs::Permissions::from_mode(0o444)).unwrap();
    // Permissions are for others than root: without what makes it that.
    let ordinary = |args: &[&str]| {
        let mut command = std::process::Command::new("setpriv");
        command.arg("--bounding-set=-dac_override,-dac_read_search");
        command.arg(env!("CARGO_BIN_EXE_howdah"));
        let process = site.start_by(command, "client", args, Input::None);
        process.finish()
    };
    let moved = ordinary(&["cp", "--plan", &plan.file, "--lease", "1"]);
    assert_eq!(moved.code, Some(0), "{}", moved.err);
    fs::set_permissions(&part, fs::Permissions::from_mode(0o444)).unwrap();
    plan.is_finished(&ordinary(&["finish", &plan.file]), &source);
    server.stop();
}

/// Nothing comes behind the greatest number.
#[test]
fn the_last_epoch_can_be_run_again_and_has_none_behind_it() {
    let site = Site::new(60);
    let server = site.serve();
    let source = write_source(&site, "epochs", MIB);
    let plan = Plan::new(&site, &server, "target");
    let last = u64::MAX.to_string();
    fs::create_dir(plan.room().join("0")).unwrap();
    fs::write(plan.room().join(format!("0/claim-{last}")), "").unwrap();
    plan.run(0, &[])
        .assert_failed(REFUSED, &[&format!("--epoch {last}")]);
    let done = plan.run(0, &["--epoch", &last]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    plan.is_finished(&plan.finish(&[]), &source);
    server.stop();
}

#[test]
fn who_interrupts_a_step_is_told_what_to_do_next() {
    let site = Site::new(60);
    let server = site.serve();
    let source = write_source(&site, "interrupted", MIB);
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let (plan, done) = Plan::try_new(&site, &relay.url("source"), &site.file("target"));
    assert_eq!(done.code, Some(0), "{}", done.err);
    let mover = plan.start(0, &["--limit", "2mbit"]);
    relay.await_bytes(Way::ToClient, 100 << 10, site.limit());
    mover.signal(Signal::INT);
    let done = mover.finish();
    done.assert_failed(STOPPED, &["the same lease can be run again"]);
    assert!(!done.err.contains("where this one ended"), "{}", done.err);
    plan.moves(0);
    // A plan that is read from a pipe: the signal comes before there is one.
    let pipe = site.file("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let args = ["finish", &pipe];
    let finishing = site.start(Host::Here, "client", &args, Input::None);
    let mut end = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    finishing.signal(Signal::INT);
    end.write_all(&fs::read(&plan.file).unwrap()).unwrap();
    drop(end);
    let done = finishing.finish();
    done.assert_failed(STOPPED, &["finish again"]);
    plan.is_absent();
    plan.is_finished(&plan.finish(&[]), &source);
    server.stop();
}

#[test]
fn a_plan_that_cannot_be_written_down_is_none() {
    let site = Site::new(60);
    fs::create_dir(site.file("small")).unwrap();
    let Some(_disk) = SmallDisk::mount(&site.file("small"), 1) else {
        return;
    };
    let server = site.serve();
    write_source(&site, "unwritten", MIB);
    let filled = fs::write(site.file("small/full"), vec![0; 2 * MIB]);
    assert!(filled.is_err());
    let out = site.file("small/a.plan");
    let (source, target) = (server.url("source"), site.file("target"));
    let args = ["plan", "--accept-new", "-o", &out, &source, &target];
    for _ in 0..2 {
        site.run(Host::Here, "client", &args, Input::None)
            .assert_failed(NO_SPACE, &["cannot write the plan", "make room there"]);
        assert!(!Path::new(&out).exists());
        assert_eq!(rooms(&site), Vec::<PathBuf>::new());
    }
    server.stop();
}

#[test]
fn a_full_disk_shows_before_anything_is_moved_or_loses_nothing() {
    let site = Site::new(60);
    fs::create_dir(site.file("small")).unwrap();
    let Some(disk) = SmallDisk::mount(&site.file("small"), 3) else {
        return;
    };
    let server = site.serve();
    let source = write_source(&site, "full", 8 * MIB);
    let (_, done) = Plan::try_new(&site, &server.url("source"), &site.file("small/target"));
    done.assert_failed(NO_SPACE, &["reserve space for", "make room there"]);
    assert_eq!(fs::read_dir(site.file("small")).unwrap().count(), 0);
    // There is room for the file, and not for what is fetched beside it.
    disk.resize(8);
    let (plan, done) = Plan::try_new(&site, &server.url("source"), &site.file("small/target"));
    if done.code == Some(0) {
        plan.run(7, &["--wait-for-space", "0"])
            .assert_failed(NO_SPACE, &["make room there"]);
        assert_eq!(plan.missing(), "0-7");
        plan.is_absent();
    }
    disk.resize(20);
    let (plan, done) = match done.code {
        Some(0) => (plan, done),
        _ => Plan::try_new(&site, &server.url("source"), &site.file("small/target")),
    };
    assert_eq!(done.code, Some(0), "{}", done.err);
    (0..8).for_each(|lease| plan.moves(lease));
    assert_eq!(plan.finish(&[]).code, Some(0));
    assert_eq!(hash_of(&plan.target), hash_of(&source));
    server.stop();
}

#[test]
fn what_cannot_be_planned_is_said() {
    let site = Site::new(60);
    let server = site.serve();
    write_source(&site, "words", 10);
    fs::create_dir(site.root("dir")).unwrap();
    let fails = |source: &str, target: &str, lease: &str, code: i32, parts: &[&str]| {
        let file = site.file("no.plan");
        let args = [
            "plan",
            "--accept-new",
            "--lease",
            lease,
            "-o",
            &file,
            source,
            target,
        ];
        site.run(Host::Here, "client", &args, Input::None)
            .assert_failed(code, parts);
        assert!(!Path::new(&file).exists());
        assert_eq!(rooms(&site), Vec::<PathBuf>::new());
    };
    let (source, target) = (server.url("source"), site.file("target"));
    fails(
        &site.root("dir"),
        &target,
        "1MiB",
        USAGE,
        &["no regular file", "howdah cp -r"],
    );
    fails(&server.url("none"), &target, "1MiB", NOT_FOUND, &["none"]);
    fails(
        &server.url("zero:9"),
        &target,
        "1MiB",
        USAGE,
        &["no regular file"],
    );
    fails(&source, &target, "3MiB", USAGE, &["power of two"]);
    // Places that the file cannot get: found out before anything is moved.
    fails(
        &source,
        &site.file("none/target"),
        "1MiB",
        REFUSED,
        &["none", "mkdir -p"],
    );
    fails(
        &source,
        &site.file("none/"),
        "1MiB",
        REFUSED,
        &["none", "mkdir -p"],
    );
    let far = server.url("there");
    for elsewhere in [far.as_str(), "host:there"] {
        fails(&source, elsewhere, "1MiB", USAGE, &["on another machine"]);
    }
    let long = site.file(&"y".repeat(256));
    fails(&source, &long, "1MiB", USAGE, &["too long"]);
    fails(&source, "/dev/null", "1MiB", REFUSED, &["no regular file"]);
    // Nor can the plan be written: before the source is asked.
    let file = site.file("there.plan");
    fs::write(&file, "mine").unwrap();
    for (out, code, part) in [
        (file.clone(), USAGE, "is there already"),
        (site.file("none/x.plan"), REFUSED, "mkdir -p"),
    ] {
        let args = ["plan", "-o", &out, "howdah://127.0.0.1:1/x", &target];
        let done = site.run(Host::Here, "client", &args, Input::None);
        done.assert_failed(code, &[part]);
    }
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    let args = ["cp", "--plan", "x"];
    let done = site.run(Host::Here, "client", &args, Input::None);
    done.assert_failed(USAGE, &["--lease"]);
    for (plan, lease, part) in [
        ("x", "0-15", "a command of its own"),
        (".", "0", "is a directory"),
    ] {
        let args = ["cp", "--plan", plan, "--lease", lease];
        let done = site.run(Host::Here, "client", &args, Input::None);
        done.assert_failed(USAGE, &[part]);
    }
    server.stop();
}

/// What means something else to `howdah cp` is no name of a file here either, and a plan is not written where its file is to be.
#[test]
fn names_that_mean_something_else_are_no_places_of_a_plan() {
    let site = Site::new(60);
    let server = site.serve();
    write_source(&site, "words", 10);
    let (source, target, file) = (
        server.url("source"),
        site.file("target"),
        site.file("no.plan"),
    );
    let (dir, below) = (site.file("."), site.file("source"));
    for (out, to, parts) in [
        (&*file, "-", &["- is no file", "./-"][..]),
        (&file, "null:", &["null: is no file", "./null:"]),
        (&file, "zero:5", &["zero:5 is no file"]),
        (&file, "s3://bucket/x", &["s3://bucket/x", "howdah://"]),
        ("-", &target, &["--out writes the plan to a file"]),
        (&target, &target, &["that is what the source becomes"]),
        // As it is called below a directory that is there.
        (&below, &dir, &["that is what the source becomes"]),
    ] {
        let args = ["plan", "--accept-new", "-o", out, &source, to];
        let done = site.run(Host::Here, "client", &args, Input::None);
        done.assert_failed(USAGE, parts);
        assert!(!Path::new(&file).exists() && !Path::new(&target).exists());
        assert_eq!(rooms(&site), Vec::<PathBuf>::new());
    }
    server.stop();
}

/// A plan is text: what it cannot name is not planned as something else.
#[test]
fn a_source_whose_name_is_no_text_is_not_planned_as_another() {
    let site = Site::new(60);
    let server = site.serve();
    let odd = Path::new(&site.root(".")).join(OsStr::from_bytes(b"\xffdir"));
    fs::create_dir(&odd).unwrap();
    fs::write(odd.join("file"), "1").unwrap();
    let (file, target) = (site.file("no.plan"), site.file("target"));
    for (kind, source) in [("-r", "*dir"), ("--json", "*dir/file")] {
        let source = server.url(source);
        let args = ["plan", "--accept-new", kind, "-o", &file, &source, &target];
        let done = site.run(Host::Here, "client", &args, Input::None);
        done.assert_failed(USAGE, &["a plan is text", "howdah cp"]);
        assert!(!Path::new(&file).exists());
        assert_eq!(rooms(&site), Vec::<PathBuf>::new());
    }
    server.stop();
}

/// Holes, and a machine that ssh reaches.
#[test]
fn a_file_with_holes_comes_over_ssh() {
    let site = Site::new(120);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let path = site.root("source");
    let file = fs::File::create(&path).unwrap();
    file.set_len(6 * MIB as u64 + 5).unwrap();
    let at = 3 * MIB as u64 - 9;
    std::os::unix::fs::FileExt::write_all_at(&file, &content("hole", MIB), at).unwrap();
    drop(file);
    let ssh = sshd.ssh();
    let options = ["--lease", "1MiB", "--ssh", &ssh];
    let (plan, done) = Plan::with(&site, &options, &format!("far:{path}"), &site.file(""));
    assert_eq!(done.code, Some(0), "{}", done.err);
    let plan = Plan {
        target: site.file("source"),
        ..plan
    };
    for lease in 0..7 {
        let done = plan.run(lease, &["--ssh", &ssh]);
        assert_eq!(done.code, Some(0), "{}", done.err);
    }
    plan.is_finished(&plan.finish(&[]), &path);
}

/// A mover whose clock is an hour behind: nothing asks a clock.
#[test]
fn clocks_do_not_matter() {
    let library = format!(
        "/usr/lib/{}-linux-gnu/faketime/libfaketimeMT.so.1",
        std::env::consts::ARCH
    );
    if !Path::new(&library).is_file() {
        println!("skipped: no libfaketime here, which sets the clock of one process");
        return;
    }
    let site = Site::new(60);
    let server = site.serve();
    let source = write_source(&site, "clocks", 2 * MIB);
    let plan = Plan::new(&site, &server, "target");
    for (lease, clock) in [("0", "-1h"), ("1", "+1h")] {
        let mut command = std::process::Command::new(support::HOWDAH);
        command
            .env("LD_PRELOAD", &library)
            .env("FAKETIME", clock)
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        let args = [
            "cp",
            "--json",
            "--accept-new",
            "--plan",
            &plan.file,
            "--lease",
            lease,
        ];
        let done = site
            .start_by(command, "client", &args, Input::None)
            .finish();
        assert_eq!(done.code, Some(0), "{}", done.err);
    }
    plan.is_finished(&plan.finish(&[]), &source);
    server.stop();
}

/// A connection that is lost in the middle is made again, and what came stays.
#[test]
fn a_lost_connection_goes_on_within_a_lease() {
    let site = Site::new(120);
    let server = site.serve();
    let source = write_source(&site, "lost", 4 * MIB);
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let (from, to) = (relay.url("source"), site.file("target"));
    let (plan, done) = Plan::with(&site, &["--lease", "4MiB"], &from, &to);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let options = [
        "--reconnect",
        "60s",
        "--idle-timeout",
        "1s",
        "--limit",
        "20mbit",
    ];
    let mut mover = plan.start(0, &options);
    relay.await_bytes(Way::ToClient, 5 << 19, site.limit());
    server.signal(Signal::STOP);
    mover.await_line("connecting again", Duration::from_secs(40));
    server.signal(Signal::CONT);
    let done = mover.finish();
    done.assert_copied(4 << 20, "blake3");
    assert!(done.json()["reconnects"].as_u64() > Some(0));
    plan.is_finished(&plan.finish(&[]), &source);
    server.stop();
}
