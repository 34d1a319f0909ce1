//! Names that are of another kind at the destination: they give way in a mirror, are kept where that was asked for, and a
//! second run finds nothing to do.

use super::sync_tests::{Pair, deleting};
use super::tests::{Moved, contents, recursive};
use howdah_session::TreeOptions;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// What a name may be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Is {
    Absent,
    Text(u8),
    Link(u8),
    Empty,
    Full(u8),
    Fifo,
    /// A further name of `twin`.
    Twin,
}

const ALL: [Is; 9] = [
    Is::Absent,
    Is::Text(1),
    Is::Text(2),
    Is::Link(1),
    Is::Link(2),
    Is::Empty,
    Is::Full(1),
    Is::Fifo,
    Is::Twin,
];

fn make(dir: &Path, name: &str, is: Is) {
    let path = dir.join(name);
    match is {
        Is::Absent => {}
        Is::Text(n) => fs::write(path, format!("text {n}").repeat(usize::from(n))).unwrap(),
        Is::Link(1) => symlink("/nowhere", path).unwrap(),
        // To a directory: never followed.
        Is::Link(_) => symlink("kept", path).unwrap(),
        Is::Empty => fs::create_dir(path).unwrap(),
        Is::Full(n) => {
            fs::create_dir_all(path.join("in")).unwrap();
            fs::write(path.join("in/file"), format!("full {n}")).unwrap();
        }
        Is::Fifo => rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap(),
        Is::Twin => {
            let twin = dir.join("twin");
            fs::write(&twin, "twin").unwrap();
            fs::hard_link(twin, path).unwrap();
        }
    }
}

/// A source and a destination with these names in both, and a directory that is the same.
fn pair(names: &[(Is, Is)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for side in ["from", "to"] {
        fs::create_dir_all(dir.path().join(side).join("kept")).unwrap();
        fs::write(dir.path().join(side).join("kept/stays"), side).unwrap();
    }
    for (index, &(from, to)) in names.iter().enumerate() {
        make(&dir.path().join("from"), &format!("n{index}"), from);
        make(&dir.path().join("to"), &format!("n{index}"), to);
    }
    dir
}

fn mirror() -> TreeOptions {
    TreeOptions {
        mirror: true,
        ..recursive()
    }
}

fn sync(dir: &Path, options: &TreeOptions) -> Moved {
    contents(&dir.join("from"), &dir.join("to"), options).unwrap()
}

/// Every name below, without the backups and without what is never copied.
fn names(dir: &Path) -> BTreeSet<String> {
    fn list(top: &Path, dir: &Path, all: &mut BTreeSet<String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                list(top, &path, all);
            }
            all.insert(path.strip_prefix(top).unwrap().display().to_string());
        }
    }
    let mut all = BTreeSet::new();
    list(dir, dir, &mut all);
    all.retain(|name| !name.starts_with(".old"));
    all
}

#[test]
fn t11_whatever_is_replaced_or_deleted_is_kept_where_that_was_asked_for() {
    for from in ALL.into_iter().filter(|is| *is != Is::Fifo) {
        for to in [Is::Text(2), Is::Link(1), Is::Link(2), Is::Full(1), Is::Fifo] {
            if from == to {
                continue;
            }
            let dir = pair(&[(from, to)]);
            let options = TreeOptions {
                delete: true,
                archive: true,
                backup_dir: Some(".old".into()),
                ..mirror()
            };
            let before = pair(&[(Is::Absent, to)]);
            let report = sync(dir.path(), &options).receiver;
            assert_eq!(report.failed, 0, "{from:?} over {to:?}: {report:?}");
            let case = format!("{from:?} over {to:?}");
            let (old, was) = (dir.path().join("to/.old/n0"), before.path().join("to/n0"));
            match to {
                Is::Full(_) => {
                    // What is in a directory that comes stays where it is, if it comes.
                    if !matches!(from, Is::Full(_)) {
                        let kept = fs::read(old.join("in/file")).expect(&case);
                        assert_eq!(kept, b"full 1", "{case}");
                    }
                }
                Is::Link(_) => assert_eq!(
                    fs::read_link(&old).expect(&case),
                    fs::read_link(&was).unwrap(),
                    "{case}"
                ),
                Is::Fifo => {
                    use std::os::unix::fs::FileTypeExt as _;
                    let kind = fs::symlink_metadata(&old).expect(&case).file_type();
                    assert!(kind.is_fifo(), "{case}");
                }
                _ => assert_eq!(
                    fs::read(&old).expect(&case),
                    fs::read(&was).unwrap(),
                    "{case}"
                ),
            }
            assert_eq!(
                fs::read(dir.path().join("to/kept/stays")).unwrap(),
                b"from",
                "a link was followed: {case}"
            );
        }
    }
}

#[test]
fn t11_a_backup_keeps_what_an_earlier_one_kept_under_a_name_of_another_kind() {
    let dir = pair(&[(Is::Full(1), Is::Text(1))]);
    let options = TreeOptions {
        delete: true,
        backup_dir: Some(".old".into()),
        ..mirror()
    };
    assert_eq!(sync(dir.path(), &options).receiver.failed, 0);
    // Now the directory goes for a file, and then the file for a directory once more.
    for is in [Is::Text(2), Is::Full(2)] {
        let from = dir.path().join("from");
        let _ = fs::remove_dir_all(from.join("n0"));
        let _ = fs::remove_file(from.join("n0"));
        make(&from, "n0", is);
        let report = sync(dir.path(), &options).receiver;
        assert_eq!(report.failed, 0, "{report:?}");
    }
    let old = dir.path().join("to/.old");
    assert_eq!(fs::read(old.join("n0.~1~")).unwrap(), b"text 1");
    assert_eq!(fs::read(old.join("n0.~2~/in/file")).unwrap(), b"full 1");
    assert_eq!(fs::read(old.join("n0")).unwrap(), b"text 2text 2");
}

#[test]
fn t25_without_delete_only_an_empty_directory_gives_way() {
    let dir = pair(&[
        (Is::Text(1), Is::Full(1)),
        (Is::Text(1), Is::Empty),
        (Is::Link(1), Is::Full(1)),
        (Is::Link(1), Is::Empty),
        (Is::Full(1), Is::Link(2)),
    ]);
    let report = sync(dir.path(), &mirror()).receiver;
    assert_eq!(report.failed, 2, "{report:?}");
    assert!(
        report
            .notes
            .iter()
            .any(|m| m.contains("--delete lets it go")),
        "{report:?}"
    );
    let to = dir.path().join("to");
    for name in ["n0/in/file", "n2/in/file", "n4/in/file"] {
        assert!(to.join(name).is_file(), "{name}");
    }
    assert!(!to.join("n4").is_symlink());
    assert!(to.join("n1").is_file() && to.join("n3").is_symlink());
}

#[test]
fn t25_a_plain_copy_takes_nothing_of_another_kind_away() {
    let dir = pair(&[
        (Is::Full(1), Is::Text(1)),
        (Is::Text(1), Is::Empty),
        (Is::Text(1), Is::Fifo),
    ]);
    let report = sync(dir.path(), &recursive()).receiver;
    assert_eq!(report.failed, 3, "{report:?}");
    assert!(dir.path().join("to/n0").is_file() && dir.path().join("to/n1").is_dir());
}

#[test]
fn t25_what_is_too_much_to_delete_stays_in_the_way() {
    let dir = pair(&[(Is::Text(1), Is::Full(1))]);
    let options = TreeOptions {
        delete: true,
        max_delete: Some(2),
        ..mirror()
    };
    let report = sync(dir.path(), &options).receiver;
    assert_eq!((report.failed, report.deleted), (1, 0), "{report:?}");
    assert!(dir.path().join("to/n0/in/file").is_file());
}

/// What gives way counts with what is deleted, and one with the other: each alone was few enough.
#[test]
fn t25_what_gives_way_is_not_counted_one_by_one() {
    // Each directory has two names in it.
    let dir = pair(&[
        (Is::Text(1), Is::Full(1)),
        (Is::Text(2), Is::Full(2)),
        (Is::Absent, Is::Text(1)),
    ]);
    let options = TreeOptions {
        delete: true,
        max_delete: Some(3),
        ..mirror()
    };
    let report = sync(dir.path(), &options).receiver;
    assert_eq!((report.failed, report.deleted), (2, 3), "{report:?}");
    assert!(dir.path().join("to/n1/in/file").is_file());
    assert!(dir.path().join("to/n2").is_file());
}

/// The last further names are made after what is deleted has been counted: together more than that went.
#[test]
fn t25_what_gives_way_to_a_further_name_is_counted_with_what_is_deleted() {
    for dry_run in [true, false] {
        let dir = pair(&[]);
        let at = |path: &str| dir.path().join(path);
        fs::write(at("from/a"), "twice").unwrap();
        fs::hard_link(at("from/a"), at("from/b")).unwrap();
        fs::create_dir(at("to/b")).unwrap();
        for extra in ["b/in", "e1", "e2", "e3"] {
            fs::write(at("to").join(extra), extra).unwrap();
        }
        let options = TreeOptions {
            delete: true,
            archive: true,
            max_delete: Some(3),
            dry_run,
            ..mirror()
        };
        let report = sync(dir.path(), &options).receiver;
        let counts = (report.deleted, report.refused_deletes, report.failed);
        assert_eq!(counts, (2, 3, 1), "{report:?}");
        assert!(
            ["e1", "e2", "e3"]
                .iter()
                .all(|name| at("to").join(name).exists())
        );
        assert_eq!(at("to/b").is_dir(), dry_run);
    }
}

/// A fifo gave way without being counted.
#[test]
fn t25_whatever_gives_way_is_counted() {
    for (max, counts, is_left) in [(2, (1, 1), true), (1, (1, 1), true), (3, (0, 0), false)] {
        for dry_run in [true, false] {
            let dir = pair(&[
                (Is::Text(1), Is::Fifo),
                (Is::Link(1), Is::Fifo),
                (Is::Absent, Is::Text(1)),
            ]);
            let options = TreeOptions {
                delete: true,
                max_delete: Some(max),
                dry_run,
                ..mirror()
            };
            let report = sync(dir.path(), &options).receiver;
            let refused = if max == 1 { (2, 2) } else { counts };
            assert_eq!(
                (report.failed, report.refused_deletes),
                refused,
                "{max} {report:?}"
            );
            assert_eq!(dir.path().join("to/n2").exists(), is_left || dry_run);
        }
    }
}

fn any_is() -> impl Strategy<Value = Is> {
    prop::sample::select(ALL.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn t25_a_mirror_converges_whatever_kind_gives_way_to_which(
        names in prop::collection::vec((any_is(), any_is()), 1..6),
        delete in any::<bool>(),
        archive in any::<bool>(),
        backup in any::<bool>(),
    ) {
        // One file with several names is enough.
        let twins = names.iter().filter(|(from, to)| *from == Is::Twin || *to == Is::Twin).count();
        prop_assume!(twins <= 1);
        let dir = pair(&names);
        let options = TreeOptions {
            delete,
            archive,
            backup_dir: backup.then(|| ".old".into()),
            ..mirror()
        };
        let first = sync(dir.path(), &options);
        // A file whose first name cannot be had has no further one either.
        let in_the_way = |(from, to): &(Is, Is)| match from {
            Is::Text(_) | Is::Link(_) if matches!(to, Is::Full(_)) => 1,
            Is::Twin if matches!(to, Is::Full(_)) => 1 + u64::from(archive),
            _ => 0,
        };
        let in_the_way: u64 = names.iter().map(in_the_way).sum::<u64>() * u64::from(!delete);
        prop_assert_eq!(first.receiver.failed, in_the_way, "{:?}", first.receiver);
        let second = sync(dir.path(), &options);
        let report = &second.receiver;
        prop_assert_eq!(report.failed, in_the_way, "{:?}", report);
        prop_assert_eq!((report.files, report.deleted), (0, 0), "{:?}", report);
        if delete {
            let (mut from, to) = (names_of(&dir, "from"), names_of(&dir, "to"));
            for (index, (is, there)) in names.iter().enumerate() {
                // A fifo is not copied, and what has its name stays.
                if *is == Is::Fifo {
                    from.remove(&format!("n{index}"));
                    if *there != Is::Absent {
                        from.extend(to.iter().filter(|n| n.starts_with(&format!("n{index}"))).cloned());
                    }
                }
            }
            prop_assert_eq!(from, to);
        }
    }
}

fn names_of(dir: &tempfile::TempDir, side: &str) -> BTreeSet<String> {
    names(&dir.path().join(side))
}

#[test]
fn t29_an_empty_source_deletes_nothing_unless_that_is_said() {
    for dry_run in [true, false] {
        let pair = Pair::new(&[], &["a", "d/b"]);
        let options = TreeOptions {
            dry_run,
            ..deleting()
        };
        let report = pair.sync(&options).unwrap().receiver;
        assert_eq!((report.deleted, report.failed), (0, 1), "{report:?}");
        assert!(
            report
                .notes
                .iter()
                .any(|note| note.contains("--delete-all"))
        );
        assert_eq!(pair.names(), ["a", "d", "d/b"]);
        let all = TreeOptions {
            delete_all: true,
            ..options
        };
        let report = pair.sync(&all).unwrap().receiver;
        assert_eq!((report.deleted, report.failed), (3, 0), "{report:?}");
        assert_eq!(pair.names().is_empty(), !dry_run);
    }
}

/// An empty directory is something, too: deleted, in another one, and in the place of a file or link.
#[test]
fn t11_empty_directories_are_kept_where_that_was_asked_for() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    for (delete, comes) in [
        (true, Is::Absent),
        (true, Is::Text(1)),
        (false, Is::Link(1)),
        (false, Is::Text(2)),
    ] {
        let dir = pair(&[(comes, Is::Empty), (Is::Empty, Is::Empty)]);
        let to = dir.path().join("to");
        if delete {
            fs::create_dir_all(to.join("n1/extra/empty")).unwrap();
        }
        fs::set_permissions(to.join("n0"), fs::Permissions::from_mode(0o750)).unwrap();
        let was = fs::metadata(to.join("n0")).unwrap().modified().unwrap();
        let options = TreeOptions {
            delete,
            backup_dir: Some(".old".into()),
            ..mirror()
        };
        let report = sync(dir.path(), &options).receiver;
        assert_eq!(report.failed, 0, "{comes:?}: {report:?}");
        let kept = fs::metadata(to.join(".old/n0")).unwrap();
        assert_eq!(
            (kept.mode() & 0o777, kept.modified().unwrap()),
            (0o750, was)
        );
        assert_eq!(to.join(".old/n1/extra/empty").is_dir(), delete);
        let again = sync(dir.path(), &options).receiver;
        assert_eq!(
            (again.files, again.links, again.deleted, again.failed),
            (0, 0, 0, 0)
        );
    }
}

/// As with rsync: an empty source is one that holds nothing, not one of which nothing takes part.
#[test]
fn t29_a_source_of_which_all_is_left_out_is_not_empty() {
    use howdah_session::Rule;
    for dry_run in [true, false] {
        let pair = Pair::new(&["a.tmp", "b.tmp"], &["c.tmp", "d/e"]);
        let options = TreeOptions {
            dry_run,
            rules: vec![Rule {
                include: false,
                listed: false,
                pattern: "*.tmp".into(),
            }]
            .into(),
            ..deleting()
        };
        let report = pair.sync(&options).unwrap().receiver;
        assert_eq!((report.deleted, report.failed), (2, 0), "{report:?}");
        let left: &[&str] = if dry_run {
            &["c.tmp", "d", "d/e"]
        } else {
            &["c.tmp"]
        };
        assert_eq!(pair.names(), left);
    }
}
