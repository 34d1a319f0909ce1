//! Senders that bring more than they may, in every way but the plain one (H9), or other files than they told (H1).

use super::codec::put_varint;
use super::send::{PACK_END, PACK_FILE, PACK_NEWER};
use super::sync_tests::{file, receive_at};
use super::tests::{contents, recursive};
use super::*;
use howdah_session::TreeOptions;
use howdah_session::entry::{Entry, Meta, Stamp};
use howdah_store::{Quota, StoreError};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::sync::Arc;

fn end() -> Entry {
    Entry::End { complete: true }
}

/// Small files as a sender packs them, each perhaps with a time that is not the manifest's.
fn pack(files: &[(&[u8], Option<i64>)]) -> Vec<u8> {
    let mut bytes = vec![1];
    for (content, time) in files {
        match time {
            None => bytes.push(PACK_FILE),
            Some(secs) => {
                bytes.push(PACK_NEWER);
                bytes.extend(secs.to_be_bytes());
                bytes.extend(0u32.to_be_bytes());
            }
        }
        put_varint(&mut bytes, content.len() as u64);
        bytes.extend_from_slice(blake3::hash(content).as_bytes());
        bytes.extend_from_slice(content);
    }
    bytes.push(PACK_END);
    bytes
}

fn bounded(to: &Path, files: Option<u64>, bytes: Option<u64>) -> (TreeTarget, Quota) {
    let quota = Quota::new(files, bytes);
    let target = TreeTarget::local(to).unwrap().at_most(quota.clone());
    (target, quota)
}

fn count(at: &Path) -> usize {
    let entries = fs::read_dir(at).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            let is_dir = entry.file_type().unwrap().is_dir();
            1 + if is_dir { count(&entry.path()) } else { 0 }
        })
        .sum()
}

#[test]
fn h9_files_that_come_larger_than_they_were_told_are_counted_as_they_come() {
    let dir = tempfile::tempdir().unwrap();
    let entries: Vec<_> = (0..4).map(|i| file(&format!("f{i}"), 0)).collect();
    let entries = [entries, vec![end()]].concat();
    let long = [7; 4];
    let packs = pack(&[(&long[..], None); 4]);
    let (target, _) = bounded(dir.path(), None, Some(10));
    let error = receive_at(target, &recursive(), &entries, &packs).unwrap_err();
    assert!(matches!(error, StoreError::OverQuota { .. }), "{error}");
    let (target, quota) = bounded(dir.path(), None, Some(16));
    receive_at(target, &recursive(), &entries, &packs).unwrap();
    assert!(quota.take_bytes(Path::new("x"), 1).is_err());
    // A large one of a log that grows.
    let growing = TreeOptions {
        growing: true,
        ..recursive()
    };
    let told = PACKED_MAX + 1;
    for (most, fits) in [(told + 9, false), (told + 10, true)] {
        let (target, _) = bounded(dir.path(), None, Some(most));
        let wake: howdah_store::Wake = Arc::new(|| {});
        let (mut receiver, ends) =
            TreeReceiver::start(target, false, &growing, false, wake).unwrap();
        let mut writer = codec::ManifestWriter::new(ends.manifest).unwrap();
        writer.put(&file(&format!("large{most}"), told)).unwrap();
        writer.put(&end()).unwrap();
        drop(writer);
        let admitted = loop {
            match receiver.admit_large(0, told + 10, None, None) {
                // It has not been looked at yet.
                Err(StoreError::BadTree { .. }) => std::thread::yield_now(),
                result => break result,
            }
        };
        assert_eq!(admitted.is_ok(), fits, "{admitted:?}");
    }
}

#[test]
fn h9_directories_and_links_take_names_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("from");
    fs::create_dir_all(from.join("a/b/c")).unwrap();
    for name in ["x", "y"] {
        fs::write(from.join(name), name).unwrap();
    }
    symlink("x", from.join("link")).unwrap();
    fs::hard_link(from.join("x"), from.join("z")).unwrap();
    let archive = TreeOptions {
        archive: true,
        contents: true,
        ..recursive()
    };
    let copy = |to: &Path, files: u64| {
        let mut source = TreeSource::new();
        source.add_local(&from, true).unwrap();
        let (target, quota) = bounded(to, Some(files), None);
        tests::transfer(source, target, &archive).map(|_| quota)
    };
    let to = dir.path().join("to");
    fs::create_dir(&to).unwrap();
    // Three directories, and four files and links.
    copy(&to, 4).unwrap();
    assert_eq!(count(&to), 7);
    // The same once more brings nothing.
    let quota = copy(&to, 0).unwrap();
    assert!(quota.is_bounded());
    for most in 0..4u64 {
        let less = dir.path().join(format!("less{most}"));
        fs::create_dir(&less).unwrap();
        let error = copy(&less, most).unwrap_err();
        assert!(matches!(error, StoreError::OverQuota { .. }), "{error}");
        let made = count(&less) as u64;
        assert!(made <= 2 * most, "{made} names with {most}");
    }
    // A link in the place of another one is one more.
    fs::remove_file(to.join("link")).unwrap();
    symlink("y", to.join("link")).unwrap();
    assert!(copy(&to, 0).is_err());
    copy(&to, 1).unwrap();
    let further = fs::metadata(to.join("z")).unwrap();
    assert_eq!(further.nlink(), 2);
    // And a dry run takes nothing.
    let quota = Quota::new(Some(4), None);
    let other = dir.path().join("other");
    fs::create_dir(&other).unwrap();
    let target = TreeTarget::local(&other).unwrap().at_most(quota.clone());
    let mut source = TreeSource::new();
    source.add_local(&from, true).unwrap();
    let dry = TreeOptions {
        dry_run: true,
        ..archive.clone()
    };
    tests::transfer(source, target, &dry).unwrap();
    for _ in 0..4 {
        quota.take_file(&other).unwrap();
    }
    contents(&from, &other, &archive).unwrap();
}

/// What a key may not bring is promised by no dry run: directories in the place of a file, in one that is not there yet, and on the
/// way to that.
#[test]
fn h9_a_dry_run_counts_the_directories_that_the_copy_would_make() {
    for (name, needs) in [("to", 3), ("new", 4), ("p/q", 5)] {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("from");
        fs::create_dir_all(from.join("a/b/c")).unwrap();
        fs::create_dir(dir.path().join("to")).unwrap();
        fs::write(dir.path().join("to/a"), "gives way").unwrap();
        let root = Arc::new(howdah_store::Root::open(dir.path()).unwrap());
        let copy = |dry_run: bool, most: u64| {
            let options = TreeOptions {
                contents: true,
                mirror: true,
                make_path: true,
                dry_run,
                ..recursive()
            };
            let mut source = TreeSource::new();
            source.add_local(&from, true).unwrap();
            let target = TreeTarget::below_to_make(&root, Path::new(name), false).unwrap();
            let target = target.at_most(Quota::new(Some(most), None));
            tests::transfer(source, target, &options).map(|_| ())
        };
        let error = copy(true, needs - 1).unwrap_err();
        assert!(matches!(error, StoreError::OverQuota { .. }), "{error}");
        copy(true, needs).unwrap();
        // As the copy itself.
        let error = copy(false, needs - 1).unwrap_err();
        assert!(matches!(error, StoreError::OverQuota { .. }), "{error}");
    }
}

#[test]
fn h1_what_changes_on_its_way_is_still_what_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let old = |name: &str, size| match file(name, size) {
        Entry::File {
            name, size, meta, ..
        } => Entry::File {
            name,
            size,
            meta: Meta {
                mtime: Stamp {
                    secs: 1_000,
                    nanos: 0,
                },
                ..meta
            },
            link: None,
            hash: None,
        },
        other => other,
    };
    let options = TreeOptions {
        min_size: Some(2),
        max_size: Some(4),
        modified_until: Some(2_000),
        ..recursive()
    };
    let entries = ["a", "b", "c", "d", "e"].map(|name| old(name, 3));
    let entries = [entries.to_vec(), vec![end()]].concat();
    let packs = pack(&[
        (b"123", None),
        (b"12345", None),
        (b"1", Some(1_500)),
        (b"123", Some(3_000)),
        (b"1234", Some(1_500)),
    ]);
    let target = TreeTarget::local(dir.path()).unwrap();
    let report = receive_at(target, &options, &entries, &packs).unwrap();
    assert_eq!((report.files, report.failed), (2, 3), "{:?}", report.notes);
    let mut names: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["a", "e"]);
}
