//! Directories with more names than are held at a time.

use super::names::PART_BYTES;
use super::sync_tests::{Pair, deleting};
use super::tests::{look, recursive};
use howdah_session::TreeOptions;
use howdah_store::stale::{journal_name, resume_name};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Names that fill more than two parts.
const MANY: usize = 2 * PART_BYTES / 100;

fn name(i: usize) -> String {
    // In no order.
    format!("{:05}{}", i * 7919 % 99_991, "n".repeat(120))
}

/// Every third one is a directory with something in it.
fn fill(dir: &Path, which: impl Iterator<Item = usize>) {
    fs::create_dir_all(dir).unwrap();
    for i in which {
        let path = dir.join(name(i));
        if i % 3 == 0 {
            fs::create_dir(&path).unwrap();
            fs::write(path.join("in"), "it").unwrap();
        } else {
            fs::write(path, "").unwrap();
        }
    }
}

/// An unfinished file that a copy can go on with, of that name.
fn leave(dir: &Path, name: &str) {
    let part = resume_name(fs::File::open(dir).unwrap(), name.as_ref());
    let journal = journal_name(&part).unwrap();
    for name in [part, journal] {
        fs::write(dir.join(name), "").unwrap();
    }
}

#[test]
fn t34_a_mirror_of_directories_of_many_names_is_equal_and_stays_so() {
    let pair = Pair::new(&[], &[]);
    // As many names in common as not, in a directory and in one below it.
    for below in ["", "d"] {
        fill(&pair.from(below), 0..MANY);
        fill(&pair.to(below), MANY / 2..MANY + MANY / 2);
    }
    // Much there, nothing here; little there, much here.
    fill(&pair.to("gone/deep"), 0..MANY);
    fill(&pair.from("new"), 0..MANY);
    fs::create_dir(pair.to("new")).unwrap();
    fs::write(pair.to("new/extra"), "").unwrap();
    fs::create_dir(pair.from("empty")).unwrap();
    fill(&pair.to("empty"), 0..MANY);
    let left = name(MANY + 1);
    leave(&pair.to("d"), &left);

    let count = 2 * MANY / 2 + MANY / 2 / 3 * 2 + MANY;
    let few = TreeOptions {
        max_delete: Some(count as u64),
        ..deleting()
    };
    let before = look(&pair.to(""));
    let dry = TreeOptions {
        dry_run: true,
        ..deleting()
    };
    let told = pair.sync(&dry).unwrap().receiver.deleted;
    assert!(told > count as u64, "{told}");
    assert_eq!(look(&pair.to("")), before);
    let refused = pair.sync(&few).unwrap().receiver;
    assert_eq!((refused.deleted, refused.refused_deletes), (0, told));

    let moved = pair.sync(&deleting()).unwrap().receiver;
    assert_eq!((moved.deleted, moved.failed), (told, 0), "{moved:?}");
    assert_eq!(look(&pair.from("")), look(&pair.to("")));
    let again = pair.sync(&deleting()).unwrap().receiver;
    assert_eq!((again.deleted, again.files, again.failed), (0, 0, 0));
}

#[test]
fn t34_what_a_copy_can_go_on_with_stays_among_many_names() {
    let pair = Pair::new(&[], &[]);
    fill(&pair.from(""), 1..2);
    fill(&pair.to(""), 2..MANY);
    let dir = pair.to("");
    leave(&dir, &name(1));
    let unfinished = || {
        let entries = fs::read_dir(&dir).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name());
        names.filter(|name| howdah_store::is_reserved(name)).count()
    };
    assert_eq!(unfinished(), 2);
    let dry = TreeOptions {
        dry_run: true,
        ..deleting()
    };
    let told = pair.sync(&dry).unwrap().receiver.deleted as usize;
    // Directories have something in them.
    let directories = (2..MANY).filter(|i| i % 3 == 0).count();
    assert_eq!(told, MANY - 2 + directories);
}

#[test]
fn t34_an_empty_source_deletes_no_names_however_many() {
    let pair = Pair::new(&[], &[]);
    fill(&pair.to(""), 0..MANY);
    let before = pair.names();
    let refused = pair.sync(&deleting()).unwrap().receiver;
    assert_eq!((refused.deleted, refused.failed), (0, 1), "{refused:?}");
    assert!(pair.names() == before);
    let all = TreeOptions {
        delete_all: true,
        ..deleting()
    };
    assert_eq!(pair.sync(&all).unwrap().receiver.failed, 0);
    assert!(pair.names().is_empty());
}

#[test]
fn t34_many_links_are_followed_each_once() {
    let pair = Pair::new(&[], &[]);
    let aside = tempfile::tempdir().unwrap();
    fill(aside.path(), 0..MANY);
    for i in 0..MANY {
        symlink(aside.path().join(name(i)), pair.from(&name(i))).unwrap();
    }
    symlink("nowhere", pair.from("lost")).unwrap();
    let options = TreeOptions {
        copy_links: true,
        ..recursive()
    };
    let moved = pair.sync(&options).unwrap();
    assert_eq!(moved.sender.failed, 1, "{:?}", moved.sender);
    assert_eq!(moved.receiver.failed, 0, "{:?}", moved.receiver);
    let (from, to) = (look(aside.path()), look(&pair.to("")));
    assert_eq!(from.len(), to.len());
    assert!(from.keys().eq(to.keys()));
}
