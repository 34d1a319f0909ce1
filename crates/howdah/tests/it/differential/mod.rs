//! Trees that are made up, with changes that are made up, are moved by `cp -a` or `rsync -aHAX --delete`, and by howdah in
//! both directions: the results are the same, but for what docs/trees.md section 7 lists. And whatever is
//! mirrored twice changes nothing the second time.
//!
//! `HOWDAH_CASES` says how many trees, `HOWDAH_SEED` which ones, `HOWDAH_CASE` that only this one is to be tried,
//! `HOWDAH_TEST_DIR` on which disk.
#![cfg(target_os = "linux")]

mod apply;
mod look;
mod ops;
mod place;

use apply::{Able, age};
use howdah::TreeOptions;
use look::{difference, look, special};
use ops::{Ops, ops};
use place::{Place, test_dir};
use proptest::prelude::*;
use proptest::test_runner::{
    Config, RngAlgorithm, TestCaseError, TestCaseResult, TestRng, TestRunner,
};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Debian's `nobody`.
const NOBODY: u32 = 65_534;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap())
}

/// Tries as many made-up values as are asked for, one in `share` of them here. One that fails is made small.
fn try_all<S: Strategy>(strategy: &S, share: u64, test: impl Fn(u64, S::Value) -> TestCaseResult) {
    let cases = number("HOWDAH_CASES").unwrap_or(24).div_ceil(share);
    let seed = number("HOWDAH_SEED").unwrap_or(18);
    let only = number("HOWDAH_CASE");
    for case in (0..cases).filter(|case| only.is_none_or(|only| only == *case)) {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        bytes[8..16].copy_from_slice(&case.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let config = Config {
            max_shrink_iters: 2000,
            max_shrink_time: 60_000,
            failure_persistence: None,
            ..Config::default()
        };
        let mut runner = TestRunner::new_with_rng(config, rng);
        let value = strategy.new_tree(&mut runner).unwrap();
        if let Err(error) = runner.run_one(value, |value| test(case, value)) {
            panic!("HOWDAH_SEED={seed} HOWDAH_CASE={case}\n{error}");
        }
    }
}

fn failed(text: String) -> TestCaseError {
    TestCaseError::fail(text)
}

/// Another program's copy; whether it says that it has copied all.
fn run(program: &str, args: &[&str], paths: [&Path; 2]) -> bool {
    let done = Command::new(program)
        .args(args)
        .args(paths)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        println!(
            "{program} gives up: {}",
            said.lines().next().unwrap_or_default()
        );
    }
    done.status.success()
}

fn is_there(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output();
    let there = there.is_ok_and(|done| done.status.success());
    if !there {
        println!("skipped: there is no {program} here");
    }
    there
}

const TREES: [&str; 4] = ["from", "others", "put", "get"];

/// As `sync -a --delete --delete-all`.
fn mirror() -> TreeOptions {
    TreeOptions {
        mirror: true,
        permissions: true,
        archive: true,
        delete: true,
        delete_all: true,
        ..TreeOptions::default()
    }
}

fn archive() -> TreeOptions {
    TreeOptions {
        archive: true,
        ..TreeOptions::default()
    }
}

/// What is at a path now, as what it was before.
type Changes = (Ops, Ops, Ops);

fn changes() -> impl Strategy<Value = Changes> {
    (ops(30), ops(8), ops(12))
}

#[test]
fn howdah_makes_the_trees_that_cp_and_rsync_make() {
    if !is_there("rsync") || !is_there("cp") {
        return;
    }
    let place = Place::open();
    let able = Able::probe(&place.path(""));
    try_all(&changes(), 1, |case, changes| {
        place.clear(&TREES);
        for name in TREES {
            fs::create_dir(place.path(name)).unwrap();
        }
        let (at_first, there, later) = changes;
        let (from, others) = (place.path("from"), place.path("others"));
        able.apply(&from, &at_first);
        age(&from);
        let slash = |path: &Path| path.join("");
        let done = if case % 2 == 0 {
            run("cp", &["-a", "-T"], [&from, &others])
        } else {
            run("rsync", &["-aHAX"], [&slash(&from), &slash(&others)])
        };
        compare(&place, done, &archive())?;

        // Both sides change, and the source is mirrored.
        for name in &TREES[1..] {
            able.apply(&place.path(name), &there);
        }
        able.apply(&from, &later);
        age(&from);
        let mirrored = ["-aHAX", "--delete", "--modify-window=-1"];
        let done = run("rsync", &mirrored, [&slash(&from), &slash(&others)]);
        compare(&place, done, &mirror())
    });
}

/// Copies there and back with howdah, and compares with what others have made: the source, if they could not.
fn compare(place: &Place, others_could: bool, options: &TreeOptions) -> TestCaseResult {
    let left_out = special(&place.path("from"));
    let seen = |name: &str| look(&place.path(name), false, &left_out);
    let from = seen("from");
    let others = seen(if others_could { "others" } else { "from" });
    for (to, put) in [("put", true), ("get", false)] {
        let said = |text: String| failed(format!("{to}, mirror {}: {text}", options.mirror));
        let report = place.copy(("from", to), put, options).map_err(said)?;
        if (report.failed, report.changed, report.not_kept) != (0, 0, 0) {
            return Err(said(format!("{report:?}")));
        }
        if let Some(what) = difference(&seen(to), &others, &from) {
            return Err(said(format!("{what}\n{report:?}")));
        }
        let left = place.left_over(to);
        if !left.is_empty() {
            return Err(said(format!("left over: {left:?}")));
        }
    }
    Ok(())
}

#[derive(Clone, Debug)]
struct Flags {
    archive: bool,
    delete: bool,
    backup: bool,
    checksum: bool,
    put: bool,
}

fn flags() -> impl Strategy<Value = Flags> {
    (
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        prop::bool::weighted(0.2),
        any::<bool>(),
    )
        .prop_map(|(archive, delete, backup, checksum, put)| Flags {
            archive,
            delete,
            backup,
            checksum,
            put,
        })
}

#[test]
fn whatever_is_mirrored_twice_changes_nothing_the_second_time() {
    let place = Place::open();
    mirror_twice(&[&place, &place], 1, 0);
}

/// Times that the destination's disk makes others of: what it keeps counts, and that is said once.
#[test]
fn t17_whatever_is_mirrored_twice_to_a_disk_with_other_times_changes_nothing_the_second_time() {
    // Keeps any time (and no more of it than nanoseconds).
    let memory = Path::new("/dev/shm");
    if let Err(error) = tempfile::tempfile_in(memory) {
        println!(
            "skipped: nothing can be written to {}: {error}",
            memory.display()
        );
        return;
    }
    let both_ways = |disk: &Path| {
        let place = |put| Place::across(memory, disk, put);
        mirror_twice(&[&place(false), &place(true)], 2, 1);
    };
    both_ways(&test_dir());
    // Seconds only, from 1901 to 2038.
    let site = tempfile::tempdir().unwrap();
    if let Some(disk) = SmallInodes::mount(site.path()) {
        both_ways(&disk.0);
    }
}

/// An ext4 as those of twenty years ago. Dropping it unmounts it.
struct SmallInodes(PathBuf);

impl SmallInodes {
    /// Mounts one in that directory; `None` with a printed reason.
    fn mount(dir: &Path) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can mount a disk");
            return None;
        }
        let (image, at) = (dir.join("image"), dir.join("disk"));
        fs::create_dir(&at).unwrap();
        fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let run = |program: &str, args: &[&str], paths: &[&Path]| {
            let done = Command::new(program).args(args).args(paths).output();
            let is_done = done.as_ref().is_ok_and(|done| done.status.success());
            if !is_done {
                println!("skipped: {program}: {done:?}");
            }
            is_done
        };
        let made = run("mkfs.ext4", &["-q", "-F", "-I", "128"], &[&image])
            && run("mount", &["-o", "loop"], &[&image, &at]);
        made.then_some(Self(at))
    }
}

impl Drop for SmallInodes {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// Mirrors made-up trees twice, with the first place if they are fetched, and with the second if they are put. `news`: how
/// much of what cannot be kept may be said the first time.
fn mirror_twice(places: &[&Place; 2], share: u64, news: u64) {
    let able = places.map(|place| {
        let (one, other) = (place.path(""), place.own(""));
        let able = Able::probe(&one).and(Able::probe(&other));
        Able {
            // One of two disks may have less room for them.
            has_xattrs: able.has_xattrs && news == 0,
            ..able
        }
    });
    let all = (ops(25), ops(25), flags());
    try_all(&all, share, |_, (here, there, flags)| {
        let at = usize::from(flags.put);
        let (place, able) = (places[at], able[at]);
        let names = ["from", "to"];
        place.clear(&names);
        let paths = if flags.put {
            [place.own("from"), place.path("to")]
        } else {
            [place.path("from"), place.own("to")]
        };
        for (path, ops) in paths.iter().zip([here, there]) {
            fs::create_dir(path).unwrap();
            able.apply(path, &ops);
        }
        let options = TreeOptions {
            archive: flags.archive,
            delete: flags.delete,
            checksum: flags.checksum,
            backup_dir: flags.backup.then(|| ".old".into()),
            ..mirror()
        };
        let sync = |options: &TreeOptions| place.copy_heard(("from", "to"), flags.put, options);
        let first = sync(&options).0.map_err(failed)?;
        // Without --delete a directory that is not empty stays in the way.
        if flags.delete && first.failed != 0 || first.not_kept > news || first.changed != 0 {
            return Err(failed(format!("the first time: {first:?}")));
        }
        let seen = |at: usize| look(&paths[at], true, &[]);
        let before = seen(1);
        let dry = TreeOptions {
            dry_run: true,
            ..options.clone()
        };
        let (done, heard) = sync(&dry);
        let report = done.map_err(failed)?;
        if !heard.is_empty() || report.failed != first.failed {
            return Err(failed(format!("a dry run says {heard:?}, {report:?}")));
        }
        let second = sync(&options).0.map_err(failed)?;
        let done = (second.files, second.links, second.deleted, second.not_kept);
        if done != (0, 0, 0, 0) || second.failed != first.failed {
            return Err(failed(format!(
                "the second time: {second:?}, first: {first:?}"
            )));
        }
        match difference(&seen(1), &before, &seen(0)) {
            Some(what) => Err(failed(format!("the second run changed\n{what}"))),
            None => Ok(()),
        }
    });
}

/// Directories that are closed to their owner, and attributes of what may not be written to, are nothing for root.
#[test]
fn all_that_is_true_of_somebody_who_is_not_root() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: the other tests do this");
        return;
    }
    // Where nobody may come to, nothing can be started.
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = dir.path().join("tests");
    let own = std::env::current_exe().unwrap();
    if fs::hard_link(&own, &program).is_err() {
        fs::copy(&own, &program).unwrap();
    }
    let site = tempfile::tempdir_in(dir.path()).unwrap();
    chown(site.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    for test in [
        "differential::howdah_makes_the_trees_that_cp_and_rsync_make",
        "differential::whatever_is_mirrored_twice_changes_nothing_the_second_time",
        "differential::t17_whatever_is_mirrored_twice_to_a_disk_with_other_times_changes_nothing_the_second_time",
    ] {
        let done = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&program)
            .args([test, "--exact", "--nocapture"])
            .env("HOWDAH_TEST_DIR", site.path())
            .env("HOME", site.path())
            .stdin(Stdio::null())
            .output();
        let Ok(done) = done else {
            println!("skipped: there is no setpriv here");
            return;
        };
        let said = String::from_utf8_lossy(&done.stdout);
        let wrong = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{said}{wrong}");
        assert!(said.contains("1 passed"), "{said}");
    }
}
