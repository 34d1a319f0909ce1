//! H14 of docs/security.md: a plan has many steps, and between two of them a source, or somebody beside us, puts a link where a directory
//! or a file was.
#![cfg(target_os = "linux")]

use crate::support::place::content;
use crate::support::process::{Done, Input};
use crate::support::{HOWDAH, Host, Site};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const MIB: usize = 1 << 20;
// As `howdah --help` lists them.
const REFUSED: i32 = 4;
const PARTIAL: i32 = 6;
const INTEGRITY: i32 = 10;
const USAGE: i32 = 2;

/// What nobody has asked to be touched.
struct Victim {
    dir: String,
    before: Vec<(PathBuf, String)>,
}

impl Victim {
    fn new(site: &Site, names: &[&str]) -> Self {
        let dir = site.file("victim");
        fs::create_dir(&dir).unwrap();
        for name in names {
            fs::write(Path::new(&dir).join(name), "mine").unwrap();
        }
        let mut victim = Self {
            dir,
            before: Vec::new(),
        };
        victim.before = victim.look();
        victim
    }

    fn look(&self) -> Vec<(PathBuf, String)> {
        let mut all: Vec<_> = fs::read_dir(&self.dir)
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                let meta = fs::symlink_metadata(&path).unwrap();
                let text = fs::read_to_string(&path).unwrap();
                let time = (meta.mtime(), meta.mtime_nsec());
                (path, format!("{:o} {time:?} {text}", meta.mode()))
            })
            .collect();
        all.sort();
        all
    }

    #[track_caller]
    fn assert_untouched(&self) {
        assert_eq!(self.look(), self.before);
    }
}

/// A source whose `d` has a small file and one of three leases.
fn make_source(site: &Site) -> String {
    let source = site.root("source");
    fs::create_dir_all(format!("{source}/d")).unwrap();
    fs::write(format!("{source}/d/keys"), "evil").unwrap();
    fs::write(format!("{source}/d/large"), content("large", 2 * MIB + 7)).unwrap();
    source
}

struct Plan<'a> {
    site: &'a Site,
    file: String,
    leases: u64,
    /// Options of the command.
    way: Vec<String>,
}

impl<'a> Plan<'a> {
    fn new(site: &'a Site, way: &[&str], recursive: &[&str], source: &str) -> (Self, Done) {
        let (file, target) = (site.file("a.plan"), site.file("target"));
        let args = ["plan", "--json", "--lease", "1MiB", "-o", &file];
        let args = [&args[..], way, recursive, &[source, &target]].concat();
        let done = site.run(Host::Here, "client", &args, Input::None);
        let leases = fs::read_to_string(&file).map_or(0, |_| {
            // What is lacking follows in further lines.
            let out = String::from_utf8_lossy(&done.out);
            let first = out.lines().next().unwrap();
            let told: serde_json::Value = serde_json::from_str(first).unwrap();
            told["leases"].as_u64().unwrap()
        });
        let way = way.iter().map(|word| (*word).to_owned()).collect();
        let plan = Self {
            site,
            file,
            leases,
            way,
        };
        (plan, done)
    }

    fn run(&self, lease: u64) -> Done {
        let lease = lease.to_string();
        let way: Vec<&str> = self.way.iter().map(|word| &**word).collect();
        let args = ["cp", "--quiet", "--plan", &self.file, "--lease", &lease];
        let args = [&args[..], &way].concat();
        self.site.run(Host::Here, "client", &args, Input::None)
    }

    fn finish(&self, options: &[&str]) -> Done {
        let args = [&["finish", &self.file], options].concat();
        self.site.run(Host::Here, "client", &args, Input::None)
    }

    fn room(&self) -> PathBuf {
        let entries = fs::read_dir(self.site.file("")).unwrap();
        let mut all = entries.map(|entry| entry.unwrap().path());
        let is_room = |path: &PathBuf| path.extension().is_some_and(|end| end == "howdah-plan");
        all.find(is_room).unwrap()
    }
}

/// Something that is called as ssh is, and runs the far end here; in one of its sessions the source's `d` is a link to the victim.
fn turning_source(site: &Site, source: &str, victim: &Victim, session: u32) -> String {
    let (ssh, count) = (site.file("turning-ssh"), site.file("sessions"));
    let aside = site.root("aside");
    let script = format!(
        r#"#!/bin/sh
for last; do case "$last" in -G) exit 1;; esac; done
n=$(( $(cat '{count}' 2>/dev/null || echo 0) + 1 ))
echo $n > '{count}'
if [ $n = {session} ]; then mv '{source}/d' '{aside}'; ln -s '{victim}' '{source}/d'
elif [ -L '{source}/d' ]; then rm '{source}/d'; mv '{aside}' '{source}/d'; fi
exec sh -c "$last"
"#,
        victim = victim.dir,
    );
    fs::write(&ssh, script).unwrap();
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
    ssh
}

/// The class of CVE-2024-12087 and its like: what was a directory in one step is a link in the next one.
#[test]
fn h14_a_source_that_turns_a_directory_into_a_link_has_nothing_written_behind_it() {
    let mut turned = 0;
    // Whichever of its steps it is: of the plan, and of each lease.
    for session in 1..=8 {
        let site = Site::new(100);
        let source = make_source(&site);
        let victim = Victim::new(&site, &["keys"]);
        let ssh = turning_source(&site, &source, &victim, session);
        let way = ["--ssh", &ssh, "--remote-howdah", HOWDAH];
        let (plan, _) = Plan::new(&site, &way, &["-a"], &format!("far:{source}"));
        victim.assert_untouched();
        for lease in 0..plan.leases {
            plan.run(lease);
            victim.assert_untouched();
        }
        if plan.leases > 0 {
            plan.finish(&["--partial"]);
            victim.assert_untouched();
        }
        let sessions = fs::read_to_string(site.file("sessions")).unwrap();
        turned += u32::from(sessions.trim().parse::<u32>().unwrap() >= session);
    }
    // It has talked so often that all of it was tried.
    assert!(turned >= 5, "{turned}");
}

#[test]
fn h14_links_in_the_room_of_a_plan_lead_nowhere() {
    // What is put there, and what it is in the way of.
    let cases: [(&str, bool); 4] = [
        ("tree/d", true),
        ("tree/d/large", false),
        ("tree", true),
        ("0", true),
    ];
    for (name, is_dir) in cases {
        let site = Site::new(100);
        make_source(&site);
        let victim = Victim::new(&site, &["keys", "large"]);
        let server = site.serve();
        let (plan, done) = Plan::new(&site, &["--accept-new"], &["-a"], &server.url("source"));
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert_eq!(plan.leases, 4);
        let way = plan.room().join(name);
        let real = site.file("aside");
        fs::rename(&way, &real).unwrap();
        let to = if is_dir { "" } else { "large" };
        symlink(Path::new(&victim.dir).join(to), &way).unwrap();
        let mut refused = 0;
        for lease in 0..plan.leases {
            let done = plan.run(lease);
            refused += u32::from(done.code == Some(INTEGRITY));
            if done.code != Some(0) {
                done.assert_failed(INTEGRITY, &["is a link", "plan anew"]);
            }
            victim.assert_untouched();
        }
        assert!(refused > 0, "{name}");
        // What was moved is not given a name, or removed, behind one.
        fs::remove_file(&way).unwrap();
        fs::rename(&real, &way).unwrap();
        for lease in 0..plan.leases {
            let done = plan.run(lease);
            assert_eq!(done.code, Some(0), "{}", done.err);
        }
        fs::rename(&way, &real).unwrap();
        symlink(Path::new(&victim.dir).join(to), &way).unwrap();
        plan.finish(&["--partial"])
            .assert_failed(INTEGRITY, &["plan anew"]);
        victim.assert_untouched();
        server.stop();
    }
}

#[test]
fn h14_a_link_where_a_file_is_to_come_or_was_lost_leads_nowhere() {
    let site = Site::new(100);
    let source = make_source(&site);
    let victim = Victim::new(&site, &["keys", "large"]);
    let server = site.serve();
    let url = server.url("source/d/large");
    let (plan, done) = Plan::new(&site, &["--accept-new"], &[], &url);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let room = plan.room();
    let (part, claim) = (room.join("part"), room.join("1/claim-1"));
    let real = site.file("aside");
    fs::rename(&part, &real).unwrap();
    symlink(Path::new(&victim.dir).join("large"), &part).unwrap();
    plan.run(0)
        .assert_failed(INTEGRITY, &["part", "is a link", "plan anew"]);
    plan.finish(&[]);
    victim.assert_untouched();
    fs::remove_file(&part).unwrap();
    fs::rename(&real, &part).unwrap();
    // A name that is claimed makes no file elsewhere.
    fs::create_dir(room.join("1")).unwrap();
    symlink(Path::new(&victim.dir).join("new"), &claim).unwrap();
    let args = [
        "cp",
        "--accept-new",
        "--plan",
        &plan.file,
        "--lease",
        "1",
        "--epoch",
        "1",
    ];
    let done = site.run(Host::Here, "client", &args, Input::None);
    done.assert_failed(INTEGRITY, &["is a link"]);
    victim.assert_untouched();
    // Nobody else has anything to do in there.
    assert_eq!(fs::metadata(&room).unwrap().mode() & 0o077, 0);
    fs::remove_dir_all(room).unwrap();
    fs::remove_file(&plan.file).unwrap();
    // What has changed since is removed in the tree and nowhere else.
    fs::remove_file(format!("{source}/d/keys")).unwrap();
    let (plan, done) = Plan::new(&site, &["--accept-new"], &["-a"], &server.url("source"));
    assert_eq!(done.code, Some(0), "{}", done.err);
    fs::write(format!("{source}/d/large"), "changed").unwrap();
    for lease in 0..plan.leases {
        plan.run(lease);
    }
    plan.finish(&[]).assert_failed(PARTIAL, &["--partial"]);
    let way = plan.room().join("tree/d");
    fs::rename(&way, &real).unwrap();
    symlink(&victim.dir, &way).unwrap();
    let done = plan.finish(&["--partial"]);
    assert_ne!(done.code, Some(0), "{}", done.err);
    victim.assert_untouched();
    server.stop();
}

#[test]
fn h14_a_room_that_is_not_this_users_alone_is_refused() {
    let site = Site::new(60);
    make_source(&site);
    let server = site.serve();
    let (plan, done) = Plan::new(&site, &["--accept-new"], &["-a"], &server.url("source"));
    assert_eq!(done.code, Some(0), "{}", done.err);
    let room = plan.room();
    for mode in [0o777, 0o1777, 0o770] {
        fs::set_permissions(&room, fs::Permissions::from_mode(mode)).unwrap();
        plan.run(0)
            .assert_failed(REFUSED, &["others may write to", "chmod go-w"]);
        plan.finish(&["--check"])
            .assert_failed(REFUSED, &["chmod go-w"]);
    }
    fs::set_permissions(&room, fs::Permissions::from_mode(0o755)).unwrap();
    let done = plan.run(0);
    assert_eq!(done.code, Some(0), "{}", done.err);
    if rustix::process::geteuid().is_root() {
        chown(&room, Some(12_345), None).unwrap();
        plan.run(1)
            .assert_failed(REFUSED, &["belongs to another user (12345)"]);
        plan.finish(&[]).assert_failed(REFUSED, &["another user"]);
        chown(&room, Some(0), None).unwrap();
    }
    // Not even if it has the name of ours.
    let elsewhere = site.file("elsewhere");
    fs::rename(&room, &elsewhere).unwrap();
    symlink(&elsewhere, &room).unwrap();
    plan.run(1).assert_failed(INTEGRITY, &["is a link"]);
    server.stop();
}

/// What somebody puts in the place of a room, who may write to the directory that it lies in.
const EXCHANGES: [&str; 2] = [
    // What belongs to the user and lies there, too: as the room, or as what a run has fetched.
    r#"run=$(cd "$aside" && ls -d */run-* 2>/dev/null | head -n 1)
if [ -n "$run" ]; then mkdir -p "$fake/${run%/*}"; at="$room/$run"; mv "$victim" "$fake/$run"; mv "$fake" "$room"
else at="$room"; mv "$victim" "$room"; fi
echo "mv '$at' '$victim'; rm -rf '$room' '$fake'; mv '$aside' '$room'" > "$undo""#,
    // Links to it.
    r#"mkdir "$fake"; ln -s "$victim" "$fake/tree"
for run in $(cd "$aside" && ls -d */run-* 2>/dev/null); do mkdir -p "$fake/${run%/*}"; ln -s "$victim" "$fake/$run"; done
ln -s "$fake" "$room"
echo "rm -rf '$room' '$fake'; mv '$aside' '$room'" > "$undo""#,
];

/// The words of a shell that exchange the room of the plan in `site`, if it is there.
fn exchanging(site: &Site, victim: &Victim, exchange: &str) -> String {
    format!(
        r#"victim='{victim}'; fake='{fake}'; aside='{aside}'; undo='{undo}'
room=$(ls -d '{here}'/.target.*.howdah-plan 2>/dev/null)
if [ -n "$room" ]; then
mv "$room" "$aside"
{exchange}
fi
"#,
        victim = victim.dir,
        fake = site.file("fake"),
        aside = site.file("exchanged"),
        undo = site.file("undo"),
        here = site.file(""),
    )
}

/// Has all as it was; whether there was anything to undo.
fn undo(site: &Site) -> bool {
    let undo = site.file("undo");
    if !Path::new(&undo).exists() {
        return false;
    }
    Command::new("sh").arg(&undo).status().unwrap();
    fs::remove_file(undo).unwrap();
    true
}

/// Who may write to the directory of a destination can rename the room of its plan and put something else there, in any step.
#[test]
fn h14_who_exchanges_the_room_of_a_plan_has_nothing_written_or_removed() {
    let mut exchanged = [0; 2];
    for (kind, exchange) in EXCHANGES.into_iter().enumerate() {
        for session in 1..=8 {
            let site = Site::new(100);
            let source = make_source(&site);
            let victim = Victim::new(&site, &["keys"]);
            let (ssh, count) = (site.file("exchanging-ssh"), site.file("sessions"));
            let script = format!(
                r#"#!/bin/sh
for last; do case "$last" in -G) exit 1;; esac; done
n=$(( $(cat '{count}' 2>/dev/null || echo 0) + 1 ))
echo $n > '{count}'
if [ $n = {session} ]; then
{}fi
exec sh -c "$last"
"#,
                exchanging(&site, &victim, exchange),
            );
            fs::write(&ssh, script).unwrap();
            fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
            let way = ["--ssh", &ssh, "--remote-howdah", HOWDAH];
            let (plan, _) = Plan::new(&site, &way, &["-a"], &format!("far:{source}"));
            exchanged[kind] += u32::from(undo(&site));
            victim.assert_untouched();
            for lease in 0..plan.leases {
                plan.run(lease);
                exchanged[kind] += u32::from(undo(&site));
                victim.assert_untouched();
                // What was exchanged on its way has moved nothing elsewhere, or can be run again.
                let done = plan.run(lease);
                exchanged[kind] += u32::from(undo(&site));
                assert_eq!(done.code, Some(0), "{}", done.err);
                victim.assert_untouched();
            }
            if plan.leases > 0 {
                let done = plan.finish(&[]);
                assert_eq!(done.code, Some(0), "{}", done.err);
                let come = |name: &str| fs::read(site.file(&format!("target/d/{name}"))).unwrap();
                assert_eq!(come("keys"), b"evil");
                assert_eq!(come("large"), content("large", 2 * MIB + 7));
                victim.assert_untouched();
            }
        }
    }
    assert!(exchanged.iter().all(|times| *times >= 5), "{exchanged:?}");
}

/// The same just before what is finished gets its name.
#[test]
fn h14_who_exchanges_the_room_of_a_plan_that_is_finished_has_nothing_removed() {
    if Command::new("strace").arg("-V").output().is_err() {
        println!("skipped: no strace");
        return;
    }
    for of_tree in [true, false] {
        let site = Site::new(100);
        make_source(&site);
        let names = ["keys", "part", "tree"];
        let victim = Victim::new(&site, &names);
        let server = site.serve();
        let (what, recursive) = if of_tree {
            ("source", &["-a"][..])
        } else {
            ("source/d/large", &[][..])
        };
        let (plan, done) = Plan::new(&site, &["--accept-new"], recursive, &server.url(what));
        assert_eq!(done.code, Some(0), "{}", done.err);
        for lease in 0..plan.leases {
            let done = plan.run(lease);
            assert_eq!(done.code, Some(0), "{}", done.err);
        }
        server.stop();
        // The first name that something gets is that of a note, which is made just before the destination.
        let options = [
            "-f",
            "-e",
            "trace=renameat",
            "-e",
            "inject=renameat:signal=STOP:when=1",
        ];
        let args = ["finish", &plan.file];
        let mut traced = site.start_traced(&options.map(str::to_owned), "client", &args);
        traced.await_line("stopped by SIGSTOP", Duration::from_mins(1));
        let script = exchanging(&site, &victim, EXCHANGES[0]);
        assert!(
            Command::new("sh")
                .arg("-c")
                .arg(script)
                .status()
                .unwrap()
                .success()
        );
        let children = format!("/proc/{0}/task/{0}/children", traced.pid().as_raw_pid());
        let children = fs::read_to_string(children).unwrap();
        let pid = Pid::from_raw(children.trim().parse().unwrap()).unwrap();
        kill_process(pid, Signal::CONT).unwrap();
        let done = traced.finish();
        let (room, aside) = (plan.room(), site.file("exchanged"));
        // All of ours has gone, and nothing of the others.
        let left: Vec<_> = fs::read_dir(aside).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        fs::rename(room, &victim.dir).unwrap();
        victim.assert_untouched();
        assert_eq!(done.code, Some(0), "{}", done.err);
        let place = if of_tree { "target/d/large" } else { "target" };
        assert_eq!(
            fs::read(site.file(place)).unwrap(),
            content("large", 2 * MIB + 7)
        );
    }
}

#[test]
fn h14_a_plan_without_end_is_none() {
    let site = Site::new(60);
    let file = site.file("endless.plan");
    let endless = fs::File::create(&file).unwrap();
    endless.set_len(1 << 40).unwrap();
    for args in [
        &["cp", "--plan", &file, "--lease", "0"][..],
        &["finish", &file],
    ] {
        let done = site.run(Host::Here, "client", args, Input::None);
        done.assert_failed(USAGE, &["it is too long"]);
    }
}
