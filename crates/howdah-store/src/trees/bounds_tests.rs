//! What is kept of a tree while it moves does not grow with it.

use super::tests::{contents, look, recursive};
use super::*;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

/// More than the receiver keeps waiting.
const NAMES: usize = 17_000;

#[test]
fn further_names_are_given_on_the_way_if_they_are_many() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    for sub in ["a", "b", "c"] {
        fs::create_dir_all(from.join(sub)).unwrap();
    }
    fs::write(from.join("a/first"), "content").unwrap();
    for i in 1..NAMES {
        let sub = ["b", "c"][i % 2];
        fs::hard_link(from.join("a/first"), from.join(format!("{sub}/{i}"))).unwrap();
    }
    // This one has a name outside, so it never comes to an end.
    fs::write(dir.path().join("outside"), "other").unwrap();
    for name in ["a/inside", "c/inside"] {
        fs::hard_link(dir.path().join("outside"), from.join(name)).unwrap();
    }
    let options = TreeOptions {
        archive: true,
        ..recursive()
    };
    let moved = contents(&from, &to, &options).unwrap();
    assert_eq!(moved.receiver.notes, Vec::<String>::new());
    assert_eq!(moved.receiver.files, 2);
    assert_eq!(moved.receiver.links, NAMES as u64);
    let meta = |name: &str| fs::metadata(to.join(name)).unwrap();
    assert_eq!(meta("a/first").nlink(), NAMES as u64);
    assert_eq!(meta("a/inside").ino(), meta("c/inside").ino());
    assert_eq!(meta("a/inside").nlink(), 2);
    for sub in ["a", "b", "c"] {
        let before = fs::metadata(from.join(sub)).unwrap().modified().unwrap();
        assert_eq!(meta(sub).modified().unwrap(), before, "{sub}");
    }
}

#[test]
fn many_directories_get_their_times_although_no_file_is_written() {
    /// More than wait for their times.
    const DIRS: usize = 5000;
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    for i in 0..DIRS {
        let sub = from.join(format!("{}/{i}", i % 7));
        fs::create_dir_all(&sub).unwrap();
        fs::File::open(&sub).unwrap().set_modified(time).unwrap();
    }
    let moved = contents(&from, &to, &recursive()).unwrap();
    assert_eq!(moved.receiver.notes, Vec::<String>::new());
    assert_eq!(look(&from), look(&to));
}

#[test]
fn h5_further_names_come_also_for_files_that_have_left_the_memory() {
    /// More than stay in memory, in tests.
    const FILES: usize = 1500;
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    for sub in ["a/deep", "b", "c"] {
        fs::create_dir_all(from.join(sub)).unwrap();
    }
    let path = |sub: &str, i: usize| format!("{sub}/{i}");
    for i in 0..FILES {
        let first = from.join(path("a/deep", i));
        fs::write(&first, i.to_string()).unwrap();
        for sub in ["b", "c"] {
            fs::hard_link(&first, from.join(path(sub, i))).unwrap();
        }
    }
    let options = TreeOptions {
        archive: true,
        ..recursive()
    };
    for links in [2 * FILES as u64, 0] {
        let moved = contents(&from, &to, &options).unwrap();
        assert_eq!(moved.receiver.notes, Vec::<String>::new());
        assert_eq!(moved.receiver.links, links);
        for i in 0..FILES {
            let inode = |sub| fs::metadata(to.join(path(sub, i))).unwrap().ino();
            assert_eq!(inode("a/deep"), inode("b"), "{i}");
            assert_eq!(inode("b"), inode("c"), "{i}");
        }
        assert_eq!(look(&from), look(&to));
        assert_eq!(fs::read_dir(&to).unwrap().count(), 3);
    }
}
