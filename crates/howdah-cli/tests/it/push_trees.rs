//! A tree pushed to a server by many processes: `howdah plan -a DIR howdah://...`, `howdah cp --plan`, `howdah finish`; and what may go wrong on
//! the way. Pulled ones: `tree_leases.rs`.
#![cfg(target_os = "linux")]

use crate::support::place::{SmallDisk, content};
use crate::support::plans::rooms_in;
use crate::support::process::{Done, Input, Server};
use crate::support::relay::{Fate, Relay, Way};
use crate::support::sshd::Sshd;
use crate::support::trees::{Plan, look, make_small, make_tree, remove};
use crate::support::{Host, Site};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MIB: usize = 1 << 20;
// As `howdah --help` lists them.
const USAGE: i32 = 2;
const NOT_FOUND: i32 = 3;
const REFUSED: i32 = 4;
const PARTIAL: i32 = 6;
const PROTOCOL: i32 = 7;
const INTEGRITY: i32 = 10;
const NO_SPACE: i32 = 11;
const STOPPED: i32 = 12;
const CHANGED: i32 = 13;

/// As `howdah cp` brings the client's `source`.
fn copied_there(site: &Site, server: &Server, options: &[&str]) -> BTreeMap<PathBuf, String> {
    let (from, to) = (site.file("source"), server.url("copy"));
    let args = [options, &[&from, &to]].concat();
    let done = site.copy_with(Host::Here, &args, Input::None);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let all = look(&site.root("copy"));
    remove(&site.root("copy"));
    all
}

#[test]
fn a_tree_is_pushed_by_leases_as_a_copy_brings_it() {
    let site = Site::new(200);
    make_tree(&site.file("source"));
    let server = site.serve();
    let url = server.url("target");
    for options in [&["-a"][..], &["-r"], &["-r", "-p"]] {
        let plan = Plan::pushed(&site, options, "source", (&url, "target"));
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
        let line = format!("{}  {url}\n", blake3::hash(&text));
        assert_eq!(String::from_utf8_lossy(&done.out), line);
        assert_eq!(rooms_in(&plan.above), Vec::<PathBuf>::new());
        let (there, copy) = (look(&plan.target), copied_there(&site, &server, options));
        for (path, what) in &copy {
            assert_eq!(
                there.get(path),
                Some(what),
                "{options:?} {}",
                path.display()
            );
        }
        assert_eq!(there.len(), copy.len());
        let check = ["verify", "--manifest", &sums, &plan.target];
        let checked = site.run(Host::Here, "client", &check, Input::None);
        assert_eq!(checked.code, Some(0), "{}", checked.err);
        plan.run(0, &[])
            .assert_failed(NOT_FOUND, &["the plan is finished"]);
        remove(&plan.target);
        fs::remove_file(&plan.file).unwrap();
    }
    server.stop();
}

/// Of leases of 1 MiB, which is to become `target`.
fn pushed<'a>(site: &'a Site, to: &str) -> Plan<'a> {
    Plan::pushed(site, &["-a"], "source", (to, "target"))
}

/// It has its name, as a copy has it, and nothing is left beside it.
fn is_finished(site: &Site, server: &Server, plan: &Plan<'_>) {
    let done = plan.finish(&[]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(look(&plan.target), copied_there(site, server, &["-a"]));
    assert_eq!(rooms_in(&plan.above), Vec::<PathBuf>::new());
}

#[test]
fn movers_and_a_server_that_die_or_hang_leave_nothing_wrong_behind() {
    let site = Site::new(200);
    make_small(&site.file("source"));
    fs::write(site.file("source/large"), content("large", 2 * MIB)).unwrap();
    let server = site.serve();
    let listen = server.address.to_string();
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let plan = pushed(&site, &relay.url("target"));
    assert_eq!(plan.leases, 4);
    let before = relay.bytes(Way::ToServer);
    let slow = ["--limit", "2mbit", "--idle-timeout", "1s"];
    // One is killed amidst, and one stands still.
    let killed = plan.start(0, &slow);
    relay.await_bytes(Way::ToServer, before + (200 << 10), site.limit());
    killed.signal(Signal::KILL);
    assert_eq!(killed.finish().code, None);
    let before = relay.bytes(Way::ToServer);
    let hangs = plan.start(1, &["--limit", "2mbit", "--epoch", "1"]);
    relay.await_bytes(Way::ToServer, before + (200 << 10), site.limit());
    hangs.signal(Signal::STOP);
    assert_eq!(plan.missing(), "0-3");
    plan.move_all([0], &[]);
    plan.move_all([1], &["--epoch", "2"]);
    hangs.signal(Signal::CONT);
    hangs
        .finish()
        .assert_failed(REFUSED, &["is run in epoch 2 already", "this is epoch 1"]);
    // The server, in the middle of a lease.
    let before = relay.bytes(Way::ToServer);
    let mover = plan.start(2, &slow);
    relay.await_bytes(Way::ToServer, before + (300 << 10), site.limit());
    server.signal(Signal::KILL);
    assert_eq!(server.process.finish().code, None);
    assert_eq!(mover.finish().code, Some(5));
    let server = site.serve_at(Host::Here, &listen, &site.root(""));
    assert_eq!(plan.missing(), "2-3");
    // A record that is torn is none.
    let record = plan.room().join("1/record-2");
    let whole = fs::read(&record).unwrap();
    fs::write(&record, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(plan.missing(), "1-3");
    plan.finish(&[]).assert_failed(PARTIAL, &["the first is 1"]);
    plan.is_absent();
    for lease in 1..4 {
        plan.move_all([lease], &[]);
    }
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
    is_finished(&site, &server, &plan);
    server.stop();
}

/// What has come of a lease of small files does not come again when a connection is lost.
#[test]
fn a_lost_connection_goes_on_with_a_lease_of_small_files() {
    let site = Site::new(120);
    fs::create_dir_all(site.file("source")).unwrap();
    for i in 0..64 {
        let name = format!("source/file{i:02}");
        fs::write(site.file(&name), content(&name, MIB / 8)).unwrap();
    }
    let server = site.serve();
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let to = relay.url("target");
    let options = ["-a", "--lease", "8MiB"];
    let seen = (&*site.root("target"), &*site.root(""));
    let (plan, done) = Plan::to(&site, &options, (&site.file("source"), &to), seen);
    assert_eq!((done.code, plan.leases), (Some(0), 1), "{}", done.err);
    let before = relay.bytes(Way::ToServer);
    let options = [
        "--reconnect",
        "60s",
        "--idle-timeout",
        "1s",
        "--limit",
        "20mbit",
    ];
    let mut mover = plan.start(0, &options);
    relay.await_bytes(Way::ToServer, before + (6 << 20), site.limit());
    server.signal(Signal::STOP);
    mover.await_line("connecting again", Duration::from_secs(40));
    server.signal(Signal::CONT);
    let done = mover.finish();
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.json()["reconnects"].as_u64() > Some(0));
    // Anew it would be 14 MiB.
    let sent = relay.bytes(Way::ToServer) - before;
    assert!(sent < 11 << 20, "{sent} bytes were sent");
    is_finished(&site, &server, &plan);
    server.stop();
}

#[test]
fn what_changes_or_vanishes_is_named_and_the_rest_is_not_lost() {
    let site = Site::new(200);
    make_small(&site.file("source"));
    fs::write(site.file("source/large"), content("large", 2 * MIB)).unwrap();
    let server = site.serve();
    let plan = pushed(&site, &server.url("target"));
    assert_eq!(plan.leases, 4);
    let planned = copied_there(&site, &server, &["-a"]);
    let large = plan.lease_of("large");
    plan.move_all([large], &[]);
    fs::write(site.file("source/d/file01"), "changed").unwrap();
    fs::remove_file(site.file("source/d/file02")).unwrap();
    fs::write(site.file("source/large"), content("other", 2 * MIB)).unwrap();
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
    assert_eq!(plan.missing(), format!("{lease},{}", large + 1));
    plan.finish(&[]).assert_failed(
        PARTIAL,
        &["3 files changed, vanished", "--partial", "file02"],
    );
    plan.is_absent();
    let done = plan.finish(&["--partial"]);
    done.assert_failed(PARTIAL, &["3 files of the plan are not in"]);
    // All else is there, as it was.
    let there = look(&plan.target);
    let lacks = ["d/file01", "d/file02", "large"];
    for (path, what) in &planned {
        let is_there = !lacks.iter().any(|name| path == Path::new(name));
        let expected = is_there.then_some(what);
        assert_eq!(there.get(path), expected, "{}", path.display());
    }
    assert_eq!(rooms_in(&plan.above), Vec::<PathBuf>::new());
    server.stop();
}

#[test]
fn what_cannot_be_pushed_is_said() {
    let site = Site::new(100);
    make_small(&site.file("source"));
    fs::create_dir(site.file("nothing")).unwrap();
    let server = site.serve();
    let fails = |options: &[&str], source: &str, to: &str, code: i32, parts: &[&str]| {
        let seen = (&*site.root("x"), &*site.root(""));
        let source = site.file(source);
        let (plan, done) = Plan::to(&site, options, (&source, &server.url(to)), seen);
        done.assert_failed(code, parts);
        assert!(!Path::new(&plan.file).exists());
        assert_eq!(rooms_in(&site.root("")), Vec::<PathBuf>::new());
    };
    fails(&["-a"], "none", "x", NOT_FOUND, &["none"]);
    fails(&["-a"], "source", "none/x", REFUSED, &["none", "mkdir -p"]);
    fails(&["-a", "--lease", "3MiB"], "source", "x", USAGE, &[]);
    let room = ".x.0123456789abcdef.howdah-plan/y";
    fails(&["-a"], "source", room, REFUSED, &["unfinished copies"]);
    fs::create_dir_all(site.root("dir/source")).unwrap();
    let there = ["is there already", "howdah sync"];
    fails(&["-a"], "source", "dir", REFUSED, &there);
    // What is in a directory becomes DST itself.
    fails(&["-a"], "source/.", "dir", REFUSED, &there);
    fails(&["-a"], "source/.", "dir/", REFUSED, &there);
    fails(&["-a"], "source/.", "", USAGE, &["names no file"]);
    for (source, to, name) in [
        ("source", "dir/new", "dir/new"),
        ("nothing", "nothing/", "nothing"),
        ("source/.", "inside/", "inside"),
    ] {
        if name == "nothing" {
            fails(&["-a"], source, to, REFUSED, &["no directory nothing"]);
        }
        let to = to.trim_end_matches('/');
        let above = Path::new(&site.root(name)).parent().unwrap().to_owned();
        let seen = (&*site.root(name), above.to_str().unwrap());
        let places = (&*site.file(source), &*server.url(to));
        let (plan, done) = Plan::to(&site, &["-a"], places, seen);
        assert_eq!(done.code, Some(0), "{}", done.err);
        // Somebody else has the name meanwhile.
        fs::create_dir(&plan.target).unwrap();
        plan.move_all(0..plan.leases, &[]);
        plan.finish(&[])
            .assert_failed(REFUSED, &["is there by now"]);
        fs::remove_dir(&plan.target).unwrap();
        let done = plan.finish(&[]);
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert_eq!(look(&plan.target), look(&site.file(source)));
        plan.finish(&[])
            .assert_failed(NOT_FOUND, &["the plan is finished"]);
    }
    server.stop();
}

#[test]
fn who_interrupts_the_plan_of_a_tree_leaves_nothing_behind() {
    let site = Site::new(60);
    make_small(&site.file("source"));
    let server = site.serve();
    // Nothing of what is put arrives, beyond the beginning.
    let mut left = 64 << 10;
    let relay = Relay::start(server.address, move |way, datagram| {
        if way == Way::ToServer {
            left -= i64::try_from(datagram.len()).unwrap();
        }
        if left > 0 {
            Fate::pass(datagram)
        } else {
            Fate::default()
        }
    });
    let (file, to) = (site.file("a.plan"), relay.url("target"));
    let source = site.file("source");
    let args = ["plan", "-a", "--accept-new", "-o", &file, &source, &to];
    let planner = site.start(Host::Here, "client", &args, Input::None);
    relay.await_bytes(Way::ToServer, 3000, site.limit());
    planner.signal(Signal::INT);
    let done = planner.finish();
    // Or it was faster.
    if done.code != Some(0) {
        done.assert_failed(STOPPED, &["nothing is planned"]);
        assert!(!Path::new(&file).exists());
    }
    server.stop();
}

#[test]
fn a_full_disk_of_a_server_shows_before_anything_is_pushed() {
    let site = Site::new(100);
    fs::create_dir(site.root("small")).unwrap();
    let Some(disk) = SmallDisk::mount(&site.root("small"), 1) else {
        return;
    };
    make_small(&site.file("source"));
    fs::write(site.file("source/large"), content("large", 2 * MIB)).unwrap();
    let server = site.serve();
    let to = server.url("small/x");
    let seen = (&*site.root("small/x"), &*site.root("small"));
    let source = site.file("source");
    // Neither for small files, nor for the large one.
    for mib in [1, 3] {
        disk.resize(mib);
        let (_, done) = Plan::to(&site, &["-a"], (&source, &to), seen);
        done.assert_failed(NO_SPACE, &["reserve space for", "make room there"]);
        assert_eq!(fs::read_dir(site.root("small")).unwrap().count(), 0);
    }
    disk.resize(6);
    let (plan, done) = Plan::to(&site, &["-a"], (&source, &to), seen);
    assert_eq!(done.code, Some(0), "{}", done.err);
    for lease in 0..plan.leases {
        plan.move_all([lease], &[]);
    }
    let done = plan.finish(&[]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(look(&plan.target), look(&source));
    server.stop();
}

#[test]
fn a_tree_is_pushed_over_ssh() {
    let site = Site::new(100);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    make_small(&site.file("source"));
    fs::write(site.file("source/large"), content("large", MIB + 5)).unwrap();
    let through = sshd.ssh();
    let ssh = ["--ssh", &through];
    let options = [&["-a"], &ssh[..]].concat();
    let to = format!("far:{}", site.root("target"));
    let plan = Plan::pushed(&site, &options, "source", (&to, "target"));
    assert_eq!(plan.leases, 4);
    for lease in 0..plan.leases {
        plan.move_all([lease], &ssh);
    }
    let done = plan.finish(&ssh);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(look(&plan.target), look(&site.file("source")));
}

#[test]
fn h17_rights_and_rooms_hold_for_pushed_trees() {
    let site = Site::new(100);
    let other = site.make_key("ben");
    site.grant("");
    let keys = site.config("server").join("authorized_keys");
    let client = fs::read_to_string(&keys).unwrap();
    let list = |server: &mut Server, options: &str| {
        let line = format!("{options} {client}");
        let line = line.trim_start();
        fs::write(&keys, format!("{line}\n{other}")).unwrap();
        server.process.signal(Signal::HUP);
        server.await_line("read again", Duration::from_secs(20));
    };
    let mut server = site.serve();
    list(&mut server, "");
    make_small(&site.file("source"));
    fs::write(site.file("source/large"), content("large", 2 * MIB)).unwrap();
    let url = server.url("target");
    let plan = pushed(&site, &url);
    plan.move_all([0], &[]);
    // Another key of the same server: neither leases nor the end, and it sees nothing of it.
    for lease in ["1", "2"] {
        let args = ["--accept-new", "--plan", &plan.file, "--lease", lease];
        let args = [&["cp", "--json"], &args[..]].concat();
        site.run(Host::Here, "ben", &args, Input::None)
            .assert_failed(REFUSED, &["is the room of another key"]);
    }
    let args = ["finish", "--accept-new", &plan.file];
    site.run(Host::Here, "ben", &args, Input::None)
        .assert_failed(REFUSED, &["is the room of another key"]);
    // A tree of his cannot have the name of the room, nor lead into it.
    let room = plan.room();
    let name = room.file_name().unwrap().to_str().unwrap();
    let his = |source: &str, to: &str| -> Done {
        let args = ["cp", "-r", "--json", "--accept-new", source, to];
        site.run(Host::Here, "ben", &args, Input::None)
    };
    let planted = site.file(name);
    fs::create_dir_all(format!("{planted}/tree")).unwrap();
    fs::write(format!("{planted}/tree/evil"), "evil").unwrap();
    for to in [format!("{name}/tree"), format!("{name}/"), name.to_owned()] {
        his(&planted, &server.url(&to)).assert_failed(REFUSED, &["kept for unfinished copies"]);
    }
    his(&planted, &server.url("")).assert_failed(PROTOCOL, &["a name kept for plans"]);
    // Below something else it is passed over.
    fs::create_dir(site.file("his")).unwrap();
    fs::rename(&planted, format!("{}/{name}", site.file("his"))).unwrap();
    let done = his(&site.file("his"), &server.url(""));
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(Path::new(&site.root("his")).exists());
    assert!(!Path::new(&site.root("his")).join(name).exists());
    // A link of his leads nowhere.
    fs::create_dir(site.file("links")).unwrap();
    std::os::unix::fs::symlink(format!("../{name}"), site.file("links/l")).unwrap();
    let done = his(&site.file("links"), &server.url(""));
    assert_eq!(done.code, Some(0), "{}", done.err);
    fs::write(site.file("evil"), "evil").unwrap();
    for to in ["links/l/evil", "links/l/tree/evil", "links/l/"] {
        let done = his(&site.file("evil"), &server.url(to));
        assert_eq!(done.code, Some(REFUSED), "{to}: {}", done.err);
    }
    assert!(!room.join("evil").exists() && !room.join("tree/evil").exists());
    // Who may only write may do all of it.
    list(&mut server, "write-only");
    for lease in 1..plan.leases {
        plan.move_all([lease], &[]);
    }
    let done = plan.finish(&[]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(look(&plan.target), look(&site.file("source")));
    // Who may only add plans what is new, with the times that a plan knows files by.
    list(&mut server, "no-delete,metadata=\"times\"");
    fs::remove_file(&plan.file).unwrap();
    let seen = (&*site.root("added"), &*site.root(""));
    let (plan, done) = Plan::to(
        &site,
        &["-a"],
        (&site.file("source"), &server.url("added")),
        seen,
    );
    assert_eq!(done.code, Some(0), "{}", done.err);
    plan.move_all(0..plan.leases, &[]);
    let done = plan.finish(&[]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(look(&plan.target).len(), look(&site.file("source")).len());
    fs::remove_file(&plan.file).unwrap();
    for (options, parts) in [
        ("metadata=\"none\"", &["may not set times"][..]),
        ("read-only", &["may read here and not write"]),
        ("max-files=\"20\"", &["more than 20 files"]),
        ("max-bytes=\"1048576\"", &["more than 1048576 bytes"]),
    ] {
        list(&mut server, options);
        let seen = (&*site.root("more"), &*site.root(""));
        let places = (&*site.file("source"), &*server.url("more"));
        let (_, done) = Plan::to(&site, &["-a"], places, seen);
        done.assert_failed(REFUSED, parts);
        assert_eq!(rooms_in(&site.root("")), Vec::<PathBuf>::new());
    }
    server.stop();
}
