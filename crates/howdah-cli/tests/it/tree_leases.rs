//! A tree moved by many processes: `howdah plan -a`, `howdah cp --plan`, `howdah finish`; and what may go wrong on the way.
#![cfg(target_os = "linux")]

use crate::support::place::{SmallDisk, content};
use crate::support::process::{Input, Process, Server};
use crate::support::relay::{Fate, Relay, Way};
use crate::support::sshd::Sshd;
use crate::support::trees::{Plan, look, make_small, make_tree, remove, rooms};
use crate::support::{Host, Site};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const MIB: usize = 1 << 20;
// As `howdah --help` lists them.
const USAGE: i32 = 2;
const NOT_FOUND: i32 = 3;
const REFUSED: i32 = 4;
const PARTIAL: i32 = 6;
const INTEGRITY: i32 = 10;
const NO_SPACE: i32 = 11;
const CHANGED: i32 = 13;

fn copied(site: &Site, server: &Server, options: &[&str]) -> BTreeMap<PathBuf, String> {
    let to = site.file("copy");
    let from = server.url("source");
    let args = [options, &[&from, &to]].concat();
    let done = site.copy_with(Host::Here, &args, Input::None);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let all = look(&to);
    remove(&to);
    all
}

#[test]
fn a_tree_comes_by_leases_as_a_copy_brings_it() {
    let site = Site::new(200);
    make_tree(&site.root("source"));
    let server = site.serve();
    for options in [&["-a"][..], &["-r"], &["-r", "-p"]] {
        let plan = Plan::new(&site, options, &server.url("source"), "target");
        assert_eq!(plan.missing(), format!("0-{}", plan.leases - 1));
        plan.finish(&[])
            .assert_failed(PARTIAL, &["not all leases are moved yet", "the first is 0"]);
        // In any order, and some twice at the same time.
        let (first, last) = (0, plan.leases - 1);
        plan.move_all([first, first, last, last], &["--epoch", "1"]);
        plan.move_all((1..last).rev(), &[]);
        assert_eq!(plan.missing(), "");
        plan.is_absent();
        let again = plan.run(first, &[]);
        assert_eq!(again.code, Some(0), "{}", again.err);
        let json = again.json();
        assert_eq!(json["bytes"], json["resumed_bytes"], "{json}");
        // Finishing twice says the same, as long as there are records.
        let sums = site.file("sums");
        let kept = plan.finish(&["--keep", "--json", "--manifest", &sums]);
        assert_eq!(kept.code, Some(0), "{}", kept.err);
        let json = kept.json();
        assert_eq!(json["files"], 309, "{json}");
        let text = fs::read(&sums).unwrap();
        assert_eq!(json["blake3"], blake3::hash(&text).to_string());
        let done = plan.finish(&[]);
        assert_eq!(done.code, Some(0), "{}", done.err);
        let line = format!("{}  {}\n", blake3::hash(&text), plan.target);
        assert_eq!(String::from_utf8_lossy(&done.out), line);
        assert_eq!(rooms(&site), Vec::<PathBuf>::new());
        let (here, copy) = (look(&plan.target), copied(&site, &server, options));
        for (path, what) in &copy {
            assert_eq!(here.get(path), Some(what), "{options:?} {}", path.display());
        }
        assert_eq!(here.len(), copy.len());
        // All of it is in the list, and as the list has it.
        let check = ["verify", "--manifest", &sums, &plan.target];
        let checked = site.run(Host::Here, "client", &check, Input::None);
        assert_eq!(checked.code, Some(0), "{}", checked.err);
        assert_eq!(text.split(|byte| *byte == b'\n').count(), 310);
        plan.run(0, &[])
            .assert_failed(NOT_FOUND, &["the plan is finished"]);
        remove(&plan.target);
        fs::remove_file(&plan.file).unwrap();
    }
    server.stop();
}

#[test]
fn a_mover_that_dies_or_hangs_leaves_nothing_wrong_behind() {
    let site = Site::new(200);
    make_small(&site.root("source"));
    let server = site.serve();
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let plan = Plan::new(&site, &["-a"], &relay.url("source"), "target");
    assert_eq!(plan.leases, 2);
    let slow = ["--limit", "2mbit"];
    // One is killed amidst, and one stands still.
    let killed = plan.start(0, &slow);
    relay.await_bytes(Way::ToClient, 200 << 10, site.limit());
    killed.signal(Signal::KILL);
    assert_eq!(killed.finish().code, None);
    let hangs = plan.start(1, &[&slow[..], &["--epoch", "1"]].concat());
    relay.await_bytes(Way::ToClient, 400 << 10, site.limit());
    hangs.signal(Signal::STOP);
    assert_eq!(plan.missing(), "0-1");
    plan.move_all([0], &[]);
    plan.move_all([1], &["--epoch", "2"]);
    hangs.signal(Signal::CONT);
    hangs
        .finish()
        .assert_failed(REFUSED, &["is run in epoch 2 already", "this is epoch 1"]);
    // A record that is torn is none.
    let record = plan.room().join("1/record-2");
    let whole = fs::read(&record).unwrap();
    fs::write(&record, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(plan.missing(), "1");
    plan.finish(&[]).assert_failed(PARTIAL, &["the first is 1"]);
    plan.is_absent();
    plan.move_all([1], &[]);
    // Somebody else's file is not taken for one of these.
    let file = plan.room().join("tree/d/file03");
    let own = fs::read(&file).unwrap();
    let put = |bytes: &[u8]| {
        let meta = fs::metadata(&file).unwrap();
        fs::remove_file(&file).unwrap();
        fs::write(&file, bytes).unwrap();
        let opened = fs::File::open(&file).unwrap();
        opened.set_modified(meta.modified().unwrap()).unwrap();
    };
    put(&content("other", own.len()));
    plan.finish(&[])
        .assert_failed(INTEGRITY, &["file03", "somebody else wrote to it"]);
    plan.is_absent();
    put(&own);
    let done = plan.finish(&[]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(look(&plan.target), copied(&site, &server, &["-a"]));
    assert_eq!(rooms(&site), Vec::<PathBuf>::new());
    server.stop();
}

#[test]
fn what_changes_or_vanishes_is_named_and_the_rest_is_not_lost() {
    let site = Site::new(200);
    let source = site.root("source");
    make_small(&source);
    fs::write(site.root("source/large"), content("large", 2 * MIB)).unwrap();
    let server = site.serve();
    let plan = Plan::new(&site, &["-a"], &server.url("source"), "target");
    assert_eq!(plan.leases, 4);
    let planned = copied(&site, &server, &["-a"]);
    let large = plan.lease_of("large");
    plan.move_all([large], &[]);
    fs::write(site.root("source/d/file01"), "changed").unwrap();
    fs::remove_file(site.root("source/d/file02")).unwrap();
    fs::write(site.root("source/large"), content("other", 2 * MIB)).unwrap();
    let lease = plan.lease_of("d/file01");
    let done = plan.run(lease, &[]);
    assert!(
        [Some(PARTIAL), Some(CHANGED)].contains(&done.code),
        "{}",
        done.err
    );
    for part in ["d/file01", "d/file02", "not the one that was planned"] {
        assert!(done.err.contains(part), "{part}: {}", done.err);
    }
    plan.run(large + 1, &[])
        .assert_failed(CHANGED, &["not the one that was planned", "plan anew"]);
    let other = plan.lease_of("d/file23");
    plan.move_all([other], &[]);
    assert_ne!(lease, other);
    assert_eq!(plan.missing(), format!("{lease},{}", large + 1));
    plan.finish(&[]).assert_failed(
        PARTIAL,
        &["3 files changed, vanished", "--partial", "file02"],
    );
    plan.is_absent();
    let done = plan.finish(&["--partial"]);
    done.assert_failed(PARTIAL, &["3 files of the plan are not in"]);
    // All else is there, as it was.
    let here = look(&plan.target);
    let lacks = ["d/file01", "d/file02", "large"];
    for (path, what) in &planned {
        let is_there = !lacks.iter().any(|name| path == Path::new(name));
        assert_eq!(
            here.get(path),
            is_there.then_some(what),
            "{}",
            path.display()
        );
    }
    assert_eq!(rooms(&site), Vec::<PathBuf>::new());
    server.stop();
}

#[test]
fn what_cannot_be_planned_is_said() {
    let site = Site::new(100);
    make_small(&site.root("source"));
    fs::create_dir(site.root("nothing")).unwrap();
    fs::write(site.root("file"), content("file", MIB + 1)).unwrap();
    let server = site.serve();
    let fails = |options: &[&str], source: &str, target: &str, code: i32, parts: &[&str]| {
        let (plan, done) = Plan::try_new(&site, options, source, &site.file(target));
        done.assert_failed(code, parts);
        assert!(!Path::new(&plan.file).exists());
        assert_eq!(rooms(&site), Vec::<PathBuf>::new());
    };
    let source = server.url("source");
    fails(
        &["-a"],
        &site.root("source"),
        "x",
        USAGE,
        &["from another machine or to one"],
    );
    fails(&["-a"], &server.url("none"), "x", NOT_FOUND, &["none"]);
    fails(&["-a"], &source, "none/x", REFUSED, &["none", "mkdir -p"]);
    fails(&["-a", "--lease", "3MiB"], &source, "x", USAGE, &[]);
    // What is there is not mixed with what comes.
    fs::create_dir_all(site.file("dir/source")).unwrap();
    fails(
        &["-a"],
        &source,
        "dir",
        REFUSED,
        &["dir/source is there already"],
    );
    // What is in a directory becomes DST itself.
    let inside = server.url("source/.");
    fails(&["-a"], &inside, "dir", REFUSED, &["dir is there already"]);
    fs::create_dir(site.file("late")).unwrap();
    let plan = Plan::new(&site, &["-r"], &source, "late/new");
    fs::create_dir(&plan.target).unwrap();
    plan.move_all(0..plan.leases, &[]);
    plan.finish(&[])
        .assert_failed(REFUSED, &["is there by now"]);
    fs::remove_dir(&plan.target).unwrap();
    assert_eq!(plan.finish(&[]).code, Some(0));
    // A directory with nothing in it, and one file.
    let plan = Plan::new(&site, &["-a"], &server.url("nothing"), "nothing");
    plan.move_all(0..plan.leases, &[]);
    assert_eq!(plan.finish(&[]).code, Some(0));
    assert_eq!(look(&plan.target), look(&site.root("nothing")));
    let plan = Plan::new(&site, &["-a"], &server.url("file"), "file");
    assert_eq!(plan.leases, 2);
    plan.finish(&["--partial"])
        .assert_failed(USAGE, &["--partial is about trees"]);
    plan.move_all(0..plan.leases, &[]);
    assert_eq!(plan.finish(&[]).code, Some(0));
    server.stop();
}

/// Whoever mistypes the name of a list loses nothing by it, not the plan either.
#[test]
fn a_list_of_hashes_replaces_nothing_but_another_list() {
    let site = Site::new(100);
    fs::create_dir(site.root("source")).unwrap();
    fs::write(site.root("source/a"), "a").unwrap();
    let server = site.serve();
    let plan = Plan::new(&site, &["-r"], &server.url("source"), "new");
    plan.move_all(0..plan.leases, &[]);
    let (mine, dir) = (site.file("mine"), site.file("dir"));
    fs::write(
        &mine,
        "mine, and of some length: more than the first line of a list has, which is 64 digits\n",
    )
    .unwrap();
    fs::create_dir(&dir).unwrap();
    let (before, planned) = (fs::read(&mine).unwrap(), fs::read(&plan.file).unwrap());
    for (list, part) in [
        (&*mine, "another kind of file is there"),
        (&plan.file, "another kind of file is there"),
        (&plan.target, "there the tree is to be"),
        (&dir, "writes to a file"),
        ("/dev/null", "writes to a file"),
        ("-", "writes to a file"),
    ] {
        plan.finish(&["--manifest", list])
            .assert_failed(USAGE, &["--manifest", part]);
        assert!(!Path::new(&plan.target).exists());
    }
    assert_eq!(fs::read(&mine).unwrap(), before);
    assert_eq!(fs::read(&plan.file).unwrap(), planned);
    let list = site.file("list");
    fs::write(&list, format!("{}  a\n", blake3::hash(b"before").to_hex())).unwrap();
    let link = site.file("link");
    std::os::unix::fs::symlink("list", &link).unwrap();
    let done = plan.finish(&["--keep", "--manifest", &link]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let text = format!("{}  a\n", blake3::hash(b"a").to_hex());
    assert_eq!(fs::read_to_string(&list).unwrap(), text);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    server.stop();
}

/// `DIR/.` is what is in it, as `howdah cp` takes it; large files are asked for by names of their own.
#[test]
fn what_is_in_a_directory_is_planned_as_the_directory_is() {
    let site = Site::new(100);
    make_small(&site.root("source"));
    fs::write(site.root("source/large"), content("large", 2 * MIB)).unwrap();
    let server = site.serve();
    let plan = Plan::new(&site, &["-a"], &server.url("source/."), "new/");
    plan.move_all(0..plan.leases, &[]);
    let done = plan.finish(&[]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let told = String::from_utf8(done.out).unwrap();
    assert!(told.ends_with("/new\n"), "{told}");
    assert_eq!(look(&site.file("new")), copied(&site, &server, &["-a"]));
    // A server's root, of which nothing is left without it.
    let plan = Plan::new(&site, &["-a"], &server.url("."), "all");
    plan.move_all(0..plan.leases, &[]);
    let done = plan.finish(&[]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let all = look(&site.file("all/source"));
    assert_eq!(all, copied(&site, &server, &["-a"]));
    server.stop();
}

#[test]
fn finishing_that_is_ended_while_it_clears_up_is_told_and_done_by_the_next() {
    let site = Site::new(100);
    make_small(&site.root("source"));
    let server = site.serve();
    let plan = Plan::new(&site, &["-a"], &server.url("source"), "new");
    plan.move_all(0..plan.leases, &[]);
    plan.finish(&["--manifest", &site.file("none/list")])
        .assert_failed(REFUSED, &["none", "mkdir -p"]);
    let first = plan.finish(&["--keep"]);
    assert_eq!(first.code, Some(0), "{}", first.err);
    let room = plan.room();
    fs::remove_file(room.join("plan")).unwrap();
    fs::remove_file(room.join("shape-0")).unwrap();
    fs::remove_dir_all(room.join("0")).unwrap();
    assert_eq!(plan.missing(), "");
    let again = plan.finish(&[]);
    assert_eq!((again.code, again.out), (Some(0), first.out));
    assert_eq!(rooms(&site), Vec::<PathBuf>::new());
    server.stop();
}

/// Each of them has given it its name, or says that another one has.
#[test]
fn two_that_finish_at_once_agree() {
    let site = Site::new(100);
    make_small(&site.root("source"));
    let server = site.serve();
    let plan = Plan::new(&site, &["-a"], &server.url("source"), "new");
    plan.move_all(0..plan.leases, &[]);
    let both = [0, 1].map(|_| {
        let args = ["finish", "--accept-new", &plan.file];
        site.start(Host::Here, "client", &args, Input::None)
    });
    let done = both.map(Process::finish);
    assert!(done.iter().any(|done| done.code == Some(0)));
    for done in &done {
        match done.code {
            Some(0) => assert!(done.out.ends_with(b"/new\n"), "{:?}", done.out),
            Some(NOT_FOUND) => assert!(
                done.err.contains("another 'howdah finish'")
                    || done.err.contains("the plan is finished"),
                "{}",
                done.err
            ),
            code => panic!("{code:?}: {}", done.err),
        }
    }
    assert_eq!(look(&plan.target), copied(&site, &server, &["-a"]));
    assert_eq!(rooms(&site), Vec::<PathBuf>::new());
    server.stop();
}

#[test]
fn a_full_disk_shows_before_anything_is_moved() {
    let site = Site::new(100);
    fs::create_dir(site.file("small")).unwrap();
    let Some(disk) = SmallDisk::mount(&site.file("small"), 1) else {
        return;
    };
    make_small(&site.root("source"));
    fs::write(site.root("source/large"), content("large", 2 * MIB)).unwrap();
    let server = site.serve();
    // Neither for small files, nor for the large one.
    for mib in [1, 3] {
        disk.resize(mib);
        let (_, done) = Plan::try_new(&site, &["-a"], &server.url("source"), &site.file("small/x"));
        done.assert_failed(NO_SPACE, &["reserve space for", "make room there"]);
        assert_eq!(fs::read_dir(site.file("small")).unwrap().count(), 0);
    }
    disk.resize(6);
    let (plan, done) = Plan::try_new(&site, &["-a"], &server.url("source"), &site.file("small/x"));
    assert_eq!(done.code, Some(0), "{}", done.err);
    for lease in 0..plan.leases {
        plan.move_all([lease], &[]);
    }
    let done = plan.finish(&[]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(look(&plan.target), copied(&site, &server, &["-a"]));
    server.stop();
}

#[test]
fn a_tree_comes_over_ssh() {
    let site = Site::new(100);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let source = site.root("source");
    make_small(&source);
    fs::write(site.root("source/large"), content("large", MIB + 5)).unwrap();
    let through = sshd.ssh();
    let ssh = ["--ssh", &through];
    let options = [&["-a"], &ssh[..]].concat();
    let plan = Plan::new(&site, &options, &format!("far:{source}"), "target");
    assert_eq!(plan.leases, 4);
    for lease in 0..plan.leases {
        plan.move_all([lease], &ssh);
    }
    let done = plan.finish(&[]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(look(&plan.target), look(&source));
}
