//! Further names of more files than are held in memory.

use super::tests::transfer;
use super::*;
use howdah_session::TreeOptions;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// More than are held in memory by tests.
const MANY: usize = 600;

/// What the destination has of a file's first name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum There {
    Nothing,
    Newer,
    Same,
}

fn put(path: &Path, text: &str, age_s: u64) {
    fs::write(path, text).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 - age_s);
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(time).unwrap();
}

/// Files in `a`, and a further name of each in `b`, which comes after all of `a`.
fn pair(there: impl Fn(usize) -> There) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let at = |path: &str| place.path().join(path);
    for dir in ["from/a", "from/b", "to/a"] {
        fs::create_dir_all(at(dir)).unwrap();
    }
    for n in 0..MANY {
        let first = at(&format!("from/a/{n:05}"));
        put(&first, "new", 100);
        fs::hard_link(&first, at(&format!("from/b/{n:05}"))).unwrap();
        let to = at(&format!("to/a/{n:05}"));
        match there(n) {
            There::Nothing => {}
            There::Newer => put(&to, "other", 0),
            There::Same => put(&to, "new", 100),
        }
    }
    place
}

fn archive() -> TreeOptions {
    TreeOptions {
        contents: true,
        recursive: true,
        archive: true,
        ..TreeOptions::default()
    }
}

fn copy(place: &Path, options: &TreeOptions, add_only: bool) -> howdah_session::TreeReport {
    let mut source = TreeSource::new();
    source.add_local(&place.join("from"), true).unwrap();
    let target = TreeTarget::local(&place.join("to")).unwrap();
    let report = transfer(source, target.add_only(add_only), options).unwrap();
    report.receiver
}

fn count(dir: &Path) -> usize {
    fs::read_dir(dir).map_or(0, Iterator::count)
}

/// They were none beyond a bound on the first names that stay, which is not told of again.
#[test]
fn names_of_what_stays_are_made_however_many_there_are() {
    let newer = |n| {
        if n < MANY - 20 {
            There::Newer
        } else {
            There::Same
        }
    };
    for (ignore_existing, remove_source) in
        [(true, false), (false, false), (true, true), (false, true)]
    {
        let place = pair(newer);
        let options = TreeOptions {
            ignore_existing,
            update: !ignore_existing,
            remove_source,
            ..archive()
        };
        let report = copy(place.path(), &options, false);
        let at = |path: &str| place.path().join(path);
        assert_eq!(report.failed, 0, "{options:?}: {:?}", report.notes);
        assert_eq!(count(&at("to/b")), MANY);
        for n in 0..MANY {
            let [a, b] = ["a", "b"].map(|dir| fs::metadata(at(&format!("to/{dir}/{n:05}"))));
            assert_eq!(a.unwrap().ino(), b.unwrap().ino());
            // What is not at the destination stays.
            for dir in ["a", "b"] {
                let goes = remove_source && !ignore_existing && newer(n) == There::Same;
                let is_there = at(&format!("from/{dir}/{n:05}")).exists();
                assert_eq!(is_there, !goes, "{dir} {n} {options:?}");
            }
        }
    }
}

#[test]
fn what_cannot_be_replaced_gives_no_names_however_many_there_are() {
    for remove_source in [false, true] {
        let place = pair(|_| There::Newer);
        let options = TreeOptions {
            remove_source,
            ..archive()
        };
        let report = copy(place.path(), &options, true);
        let at = |path: &str| place.path().join(path);
        assert_eq!(report.failed, 2 * MANY as u64);
        assert_eq!(count(&at("to/b")), 0);
        assert_eq!((count(&at("from/a")), count(&at("from/b"))), (MANY, MANY));
    }
}

#[test]
fn what_comes_gets_its_names_however_many_there_are() {
    for remove_source in [false, true] {
        let place = pair(|_| There::Nothing);
        let options = TreeOptions {
            remove_source,
            ..archive()
        };
        let report = copy(place.path(), &options, false);
        let at = |path: &str| place.path().join(path);
        assert_eq!((report.failed, report.links), (0, MANY as u64));
        let left = if remove_source { 0 } else { MANY };
        assert_eq!((count(&at("from/a")), count(&at("from/b"))), (left, left));
    }
}

/// It promised the further names, which do not come.
#[test]
fn a_dry_run_fails_for_names_of_what_cannot_be_replaced() {
    let place = pair(|_| There::Newer);
    let both = [true, false].map(|dry_run| {
        let options = TreeOptions {
            dry_run,
            ..archive()
        };
        copy(place.path(), &options, true).failed
    });
    assert_eq!(both, [2 * MANY as u64; 2]);
}
