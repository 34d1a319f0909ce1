//! What a dry run says is what the run then does, and nothing is left to say after it.

use super::moved_tests::Closed;
use super::sync_tests::{Pair, deleting};
use super::tests::{contents, contents_unheard, recursive};
use howdah_session::{Act, Change, TreeOptions};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// What a name may be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Is {
    Absent,
    /// Content, mode, time.
    File(u8, u32, i64),
    Link(u8),
    /// With a file in it.
    Dir(u8, u32, i64),
    /// Two names of one file; the second one of another.
    Twins(u8),
    Untwinned(u8),
}

fn is() -> impl Strategy<Value = Is> {
    let mode = prop_oneof![Just(0o644), Just(0o600), Just(0o755)];
    let time = prop_oneof![Just(1_000_000), Just(2_000_000)];
    prop_oneof![
        Just(Is::Absent),
        (1u8..3, mode.clone(), time.clone()).prop_map(|(n, mode, time)| Is::File(n, mode, time)),
        (1u8..3).prop_map(Is::Link),
        (1u8..3, prop_oneof![Just(0o755), Just(0o700)], time)
            .prop_map(|(n, mode, time)| Is::Dir(n, mode, time)),
        (1u8..3).prop_map(Is::Twins),
        (1u8..3).prop_map(Is::Untwinned),
    ]
}

fn set(path: &Path, mode: u32, time: i64) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(time as u64);
    fs::File::open(path).unwrap().set_modified(time).unwrap();
}

fn make(dir: &Path, name: &str, is: Is) {
    let path = dir.join(name);
    let write = |path: &Path, n: u8, time| {
        fs::write(path, format!("content {n}")).unwrap();
        set(path, 0o644, time);
    };
    match is {
        Is::Absent => {}
        Is::File(n, mode, time) => {
            // The first of another size.
            fs::write(&path, "content".repeat(usize::from(n))).unwrap();
            set(&path, mode, time);
        }
        Is::Link(n) => symlink(format!("target {n}"), path).unwrap(),
        Is::Dir(n, mode, time) => {
            fs::create_dir(&path).unwrap();
            write(&path.join("in"), n, i64::from(n) * 1000);
            set(&path, mode, time);
        }
        Is::Twins(n) => {
            write(&path, n, i64::from(n) * 1000);
            fs::hard_link(&path, dir.join(format!("{name}-twin"))).unwrap();
        }
        Is::Untwinned(n) => {
            write(&path, n, i64::from(n) * 1000);
            write(&dir.join(format!("{name}-twin")), n, i64::from(n) * 1000);
        }
    }
}

fn pair(names: &[(Is, Is)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (side, time) in [("from", 5_000_000), ("to", 6_000_000)] {
        let side = dir.path().join(side);
        fs::create_dir(&side).unwrap();
        for (index, &(from, to)) in names.iter().enumerate() {
            let is = if side.ends_with("from") { from } else { to };
            make(&side, &format!("n{index}"), is);
        }
        set(&side, 0o755, time);
    }
    dir
}

/// Everything about each name that a run may change.
fn look(dir: &Path) -> BTreeMap<PathBuf, String> {
    fn into(top: &Path, below: &Path, all: &mut BTreeMap<PathBuf, String>) {
        let path = top.join(below);
        let meta = fs::symlink_metadata(&path).unwrap();
        let kept = (meta.mode(), meta.uid(), meta.gid());
        let time = (meta.mtime(), meta.mtime_nsec());
        let what = if meta.is_dir() {
            for entry in fs::read_dir(&path).unwrap() {
                into(top, &below.join(entry.unwrap().file_name()), all);
            }
            format!("{kept:?} {time:?}")
        } else if meta.is_symlink() {
            format!("{time:?} {:?}", fs::read_link(&path).unwrap())
        } else {
            format!("{kept:?} {time:?} {} {}", meta.ino(), meta.len())
        };
        all.insert(below.to_owned(), what);
    }
    let mut all = BTreeMap::new();
    into(dir, Path::new(""), &mut all);
    all
}

fn changed(
    before: &BTreeMap<PathBuf, String>,
    after: &BTreeMap<PathBuf, String>,
) -> BTreeSet<PathBuf> {
    let all = before.keys().chain(after.keys());
    let differing = all.filter(|path| before.get(*path) != after.get(*path));
    differing.cloned().collect()
}

/// What a dry run says, at the receiver or at the sender.
fn said(dir: &Path, options: &TreeOptions, put: bool) -> Vec<Change> {
    let dry = TreeOptions {
        dry_run: true,
        ..options.clone()
    };
    let (from, to) = (dir.join("from"), dir.join("to"));
    if put {
        let moved = contents_unheard(&from, &to, &dry).unwrap();
        assert_eq!(moved.receiver_changes, []);
        moved.sender_changes
    } else {
        let moved = contents(&from, &to, &dry).unwrap();
        assert_eq!(moved.sender_changes, []);
        moved.receiver_changes
    }
}

fn lines(changes: &[Change]) -> Vec<String> {
    let line = |change: &Change| {
        let why = change.reasons.words().join(", ");
        format!("{} {} ({why})", change.act.word(), change.path.display())
    };
    changes.iter().map(line).collect()
}

fn mirror(archive: bool, checksum: bool) -> TreeOptions {
    TreeOptions {
        archive,
        checksum,
        delete: true,
        delete_all: true,
        mirror: true,
        permissions: true,
        ..recursive()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn t21_a_run_changes_what_the_dry_run_said_and_nothing_is_left_to_say(
        names in prop::collection::vec((is(), is()), 1..8),
        archive in any::<bool>(), checksum in any::<bool>(), put in any::<bool>(),
    ) {
        let dir = pair(&names);
        let dir = dir.path();
        let options = mirror(archive, checksum);
        let before = look(&dir.join("to"));
        let told = said(dir, &options, put);
        prop_assert_eq!(&look(&dir.join("to")), &before);
        contents(&dir.join("from"), &dir.join("to"), &options).unwrap();
        let after = look(&dir.join("to"));
        let paths: BTreeSet<_> = told.iter().map(|change| change.path.clone()).collect();
        prop_assert_eq!(paths.len(), told.len(), "twice: {:?}", lines(&told));
        prop_assert_eq!(paths, changed(&before, &after), "{:?}", lines(&told));
        prop_assert!(told.iter().all(|change| !change.reasons.words().is_empty()));
        prop_assert_eq!(lines(&said(dir, &options, put)), Vec::<String>::new());
    }
}

/// What nothing can be written to: promised by no dry run. Directories that are closed to their owner (not to root) are opened
/// by a mirror only.
#[test]
fn what_the_copy_cannot_write_is_promised_by_no_dry_run() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for name in ["closed", "fixed", "grows"] {
        for (side, time) in [("from", 1_000_000), ("to", 2_000_000)] {
            let place = dir.join(side).join(name);
            fs::create_dir_all(&place).unwrap();
            for file in ["new", "old"] {
                if side == "from" || file == "old" {
                    fs::write(place.join(file), side).unwrap();
                    set(&place.join(file), 0o644, time);
                }
            }
            if side == "from" {
                symlink("old", place.join("link")).unwrap();
                fs::create_dir(place.join("sub")).unwrap();
            }
        }
    }
    let to = dir.join("to");
    fs::write(dir.join("from/alone"), "new").unwrap();
    fs::write(to.join("alone"), "as it was").unwrap();
    set(&to.join("closed"), 0o555, 2_000_000);
    let protect = |sign: &str| {
        for (flag, name) in [("i", "fixed"), ("a", "grows"), ("i", "alone")] {
            let flag = format!("{sign}{flag}");
            // Where it does not work, these are like others.
            let _ = std::process::Command::new("chattr")
                .arg(flag)
                .arg(to.join(name))
                .output();
        }
    };
    let check = |options: &TreeOptions| {
        let before = look(&to);
        protect("+");
        let promised = said(dir, options, false);
        let moved = contents(&dir.join("from"), &to, options);
        protect("-");
        assert!(moved.is_ok(), "{moved:?}");
        let changed = changed(&before, &look(&to));
        let made = promised.iter().filter(|change| change.act != Act::Change);
        for change in made {
            assert!(changed.contains(&change.path), "{change:?}");
        }
    };
    check(&recursive());
    check(&mirror(false, true));
    set(&to.join("closed"), 0o755, 2_000_000);
}

/// Two names of one file, each replaced by a file of its own: that the first goes is no change of the second.
#[test]
fn t21_further_names_at_the_destination_are_replaced_one_by_one() {
    let dir = pair(&[(Is::Untwinned(2), Is::Twins(1))]);
    let moved = contents(
        &dir.path().join("from"),
        &dir.path().join("to"),
        &mirror(false, false),
    )
    .unwrap();
    assert_eq!(moved.receiver.failed, 0, "{:?}", moved.receiver);
    assert_eq!(moved.receiver.files, 2, "{:?}", moved.receiver);
}

/// Each kind of change alone, with its reason.
#[test]
fn t21_each_change_is_told_with_its_reason() {
    let file = Is::File(1, 0o644, 1_000_000);
    let cases = [
        (file, Is::Absent, vec!["copy n0 (new)"]),
        (file, file, vec![]),
        (
            file,
            Is::File(1, 0o600, 1_000_000),
            vec!["change n0 (mode)"],
        ),
        (file, Is::File(1, 0o644, 2_000_000), vec!["copy n0 (time)"]),
        (file, Is::File(2, 0o644, 1_000_000), vec!["copy n0 (size)"]),
        (
            file,
            Is::File(2, 0o600, 2_000_000),
            vec!["copy n0 (size, time, mode)"],
        ),
        (file, Is::Link(1), vec!["copy n0 (kind)"]),
        (
            file,
            Is::Dir(1, 0o755, 1_000_000),
            vec!["delete n0/in (kind)", "copy n0 (kind)"],
        ),
        (Is::Link(1), Is::Absent, vec!["symlink n0 (new)"]),
        (Is::Link(1), Is::Link(2), vec!["symlink n0 (target)"]),
        (Is::Link(1), file, vec!["symlink n0 (kind)"]),
        (
            Is::Dir(1, 0o755, 1_000_000),
            Is::Absent,
            vec!["mkdir n0 (new)", "copy n0/in (new)"],
        ),
        (
            Is::Dir(1, 0o755, 1_000_000),
            Is::Dir(1, 0o700, 2_000_000),
            vec!["change n0 (time, mode)"],
        ),
        (
            Is::Dir(1, 0o755, 1_000_000),
            file,
            vec!["mkdir n0 (kind)", "copy n0/in (new)"],
        ),
        (
            Is::Twins(1),
            Is::Untwinned(1),
            vec!["link n0-twin (target)"],
        ),
        (
            Is::Twins(1),
            Is::Absent,
            vec!["copy n0 (new)", "link n0-twin (new)"],
        ),
        (
            Is::Twins(1),
            Is::Twins(2),
            vec!["copy n0 (time)", "link n0-twin (target)"],
        ),
        (Is::Absent, file, vec!["delete n0 (extra)"]),
    ];
    for (from, to, expected) in cases {
        for put in [false, true] {
            let dir = pair(&[(from, to)]);
            set(&dir.path().join("to"), 0o755, 5_000_000);
            let told = lines(&said(dir.path(), &mirror(true, false), put));
            assert_eq!(told, expected, "{from:?} {to:?}");
        }
    }
}

/// A content of the same size and time is seen where contents are compared.
#[test]
fn t21_content_is_a_reason_where_contents_are_compared() {
    let dir = pair(&[]);
    for (side, text) in [("from", "one"), ("to", "two")] {
        fs::write(dir.path().join(side).join("a"), text).unwrap();
        set(&dir.path().join(side).join("a"), 0o644, 1_000);
        set(&dir.path().join(side), 0o755, 1_000);
    }
    let told = |checksum| lines(&said(dir.path(), &mirror(false, checksum), true));
    assert_eq!(told(false), Vec::<String>::new());
    assert_eq!(told(true), ["copy a (content)"]);
}

/// More than may wait at once: the receiver waits, nothing is lost.
#[test]
fn t21_nothing_is_lost_where_there_is_much_to_say() {
    const FILES: usize = 40_000;
    let dir = pair(&[]);
    for number in 0..FILES {
        fs::write(dir.path().join(format!("from/{number}")), "").unwrap();
    }
    for put in [false, true] {
        let told = said(dir.path(), &recursive(), put);
        let copies = told.iter().filter(|change| change.act == Act::Copy);
        assert_eq!(copies.count(), FILES);
    }
}

/// What nobody can take away is not promised to go: neither what the source does not have, nor what is in the way.
#[test]
fn a_dry_run_promises_no_deletion_that_cannot_be() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: others open their own directories, and root is needed for more");
        return;
    }
    for from in ["other/file", "closed"] {
        let pair = Pair::new(&[from], &["closed/f", "gone"]);
        let closed = pair.to("closed");
        let Some(_closed) = Closed::make(&closed) else {
            return;
        };
        let mut before = None;
        for dry_run in [true, false] {
            let options = TreeOptions {
                dry_run,
                mirror: true,
                ..deleting()
            };
            let report = pair.sync(&options).unwrap().receiver;
            let notes = &report.notes;
            let closed = notes.iter().filter(|note| note.contains("closed"));
            assert!(closed.count() > 0, "{from} {dry_run}: {notes:?}");
            let count = (report.failed, report.deleted);
            assert_eq!(*before.get_or_insert(count), count, "{from}: {notes:?}");
        }
        assert!(closed.join("f").exists() && !pair.to("gone").exists());
    }
}
