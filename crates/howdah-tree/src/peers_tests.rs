//! Copies of the same tree to the same place at the same time, as a peer that stood still and the connection that
//! took its place make them.

use super::tests::{contents, look, recursive, transfer};
use super::*;
use howdah_session::TreeOptions;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

const FILES: usize = 60;

fn make(at: &Path, version: usize) {
    for dir in ["", "a", "a/b", "c"] {
        fs::create_dir_all(at.join(dir)).unwrap();
        for i in 0..FILES {
            let bytes = vec![(i + version) as u8; 1000 * i + version];
            fs::write(at.join(dir).join(format!("f{i}")), bytes).unwrap();
        }
    }
    fs::write(at.join("a/large"), vec![version as u8; (3 << 20) + 5]).unwrap();
    let target = format!("f{version}");
    let link = at.join("c/link");
    let _ = fs::remove_file(&link);
    symlink(target, link).unwrap();
    if version == 1 {
        fs::hard_link(at.join("a/f7"), at.join("c/further")).unwrap();
    }
}

fn all_names(at: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(at).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            names.extend(all_names(&entry.path()));
        }
        names.push(entry.file_name().into_string().unwrap());
    }
    names
}

#[test]
fn n6_copies_of_the_same_tree_that_meet_all_end_well() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("from");
    make(&from, 1);
    for archive in [false, true] {
        for (round, add_only) in [(0, false), (1, false), (2, true), (3, false)] {
            let to = dir.path().join(format!("to-{archive}-{round}"));
            fs::create_dir(&to).unwrap();
            if round == 1 {
                // An older state is replaced by all of them.
                make(&to, 2);
            }
            let options = TreeOptions {
                archive,
                contents: true,
                ..recursive()
            };
            std::thread::scope(|scope| {
                let copy = || {
                    let mut source = TreeSource::new();
                    source.add_local(&from, true).unwrap();
                    let target = TreeTarget::local(&to).unwrap().add_only(add_only);
                    transfer(source, target, &options).unwrap()
                };
                let copies: Vec<_> = (0..3).map(|_| scope.spawn(copy)).collect();
                for copy in copies {
                    let report = copy.join().unwrap().receiver;
                    assert_eq!(report.notes, Vec::<String>::new(), "{round}");
                    assert_eq!((report.failed, report.changed), (0, 0), "{round}");
                }
            });
            let (mut here, mut there) = (look(&from), look(&to));
            if add_only {
                // Directories that were there are left as they are.
                here.retain(|_, what| !what.starts_with("dir"));
                there.retain(|_, what| !what.starts_with("dir"));
            }
            for (path, what) in &here {
                assert_eq!(Some(what), there.get(path), "{path:?} {round}");
            }
            assert_eq!(here.len(), there.len(), "{round}");
            let left = all_names(&to);
            assert!(!left.iter().any(|name| name.contains("howdah")), "{left:?}");
            let again = contents(&from, &to, &options).unwrap().receiver;
            assert_eq!(again.files, 0, "{round}");
        }
    }
}

#[test]
fn o2_who_may_only_add_may_add_the_same_again_whatever_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    make(&from, 1);
    fs::create_dir(&to).unwrap();
    let copy = |archive| {
        let mut source = TreeSource::new();
        source.add_local(&from, true).unwrap();
        let target = TreeTarget::local(&to).unwrap().add_only(true);
        let options = TreeOptions {
            archive,
            contents: true,
            ..recursive()
        };
        transfer(source, target, &options).unwrap().receiver
    };
    assert_eq!(copy(false).failed, 0);
    // The same with other times, and a further name that came as a copy.
    for path in ["a/large", "a/f7", "c/f59"] {
        let file = fs::File::options()
            .write(true)
            .open(from.join(path))
            .unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
    }
    for archive in [false, true] {
        let report = copy(archive);
        assert_eq!(report.notes, Vec::<String>::new());
        assert_eq!(report.failed, 0);
    }
    let there = fs::metadata(to.join("a/large"))
        .unwrap()
        .modified()
        .unwrap();
    assert_ne!(there, std::time::UNIX_EPOCH, "nothing is changed");
    // Other content of the same size is still refused, and stays.
    let was = fs::read(to.join("a/large")).unwrap();
    for (path, len) in [("a/large", (3 << 20) + 5), ("a/f7", 7001)] {
        fs::write(from.join(path), vec![9; len]).unwrap();
    }
    let report = copy(false);
    // The further name is one of them.
    assert_eq!(report.failed, 3, "{:?}", report.notes);
    assert!(
        report
            .notes
            .iter()
            .all(|note| note.contains("none may be replaced"))
    );
    assert!(fs::read(to.join("a/large")).unwrap() == was);
    assert!(!all_names(&to).iter().any(|name| name.contains("howdah")));
}
