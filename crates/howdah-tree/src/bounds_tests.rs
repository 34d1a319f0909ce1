//! What is kept of a tree while it moves does not grow with it.

use super::codec::ManifestWriter;
use super::tests::{contents, look, recursive};
use super::*;
use howdah_session::entry::{Entry, Meta};
use howdah_session::{TreeOptions, TreeReport};
use howdah_store::StoreError;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

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
    let time = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
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

/// A receiver that gets these entries and no file.
fn received(
    to: &Path,
    entries: impl Iterator<Item = Entry> + Send + 'static,
) -> Result<TreeReport, StoreError> {
    let (wake, wakes) = channel();
    let wake: howdah_store::Wake = Arc::new(move || {
        let _ = wake.send(());
    });
    let options = TreeOptions {
        archive: true,
        ..recursive()
    };
    let target = TreeTarget::local(to).unwrap();
    let (mut receiver, ends) = TreeReceiver::start(target, true, &options, false, wake)?;
    let ReceiverEnds {
        manifest,
        mut packs,
        mut answers,
    } = ends;
    let teller = std::thread::spawn(move || {
        let mut writer = ManifestWriter::new(manifest)?;
        for entry in entries {
            writer.put(&entry)?;
        }
        writer.flush()
    });
    let listener = std::thread::spawn(move || io::copy(&mut answers, &mut io::sink()));
    io::Write::write_all(&mut packs, &[1, 0]).unwrap();
    let outcome = loop {
        if let Some(outcome) = receiver.poll_outcome() {
            break outcome;
        }
        let _ = wakes.recv_timeout(Duration::from_millis(100));
    };
    drop(packs);
    for thread in receiver.stop() {
        thread.join().unwrap();
    }
    // Whoever is refused cannot say the rest.
    let told = teller.join().unwrap();
    assert!(told.is_ok() || outcome.is_err());
    listener.join().unwrap().unwrap();
    outcome
}

/// A peer says of each directory what would fill the memory, and never leaves one; honest ones beside each other pass.
#[test]
fn h5_attributes_of_directories_do_not_stay_in_memory() {
    /// A MiB each.
    const DIRS: usize = 100;
    let dir_named = |name: String| Entry::Dir {
        name: name.into_bytes(),
        meta: Meta {
            mode: 0o755,
            xattrs: (0..16)
                .map(|n| (format!("user.{n}").into_bytes(), vec![7; 64 << 10]))
                .collect(),
            ..Meta::default()
        },
    };
    let end = || Entry::End { complete: true };
    let dir = tempfile::tempdir().unwrap();
    let nested = (0..DIRS).map(move |n| dir_named(format!("{n}")));
    let ups = || std::iter::repeat_with(|| Entry::Up { complete: true });
    let error = received(dir.path(), nested.chain(ups().take(DIRS)).chain([end()])).unwrap_err();
    assert!(error.to_string().contains("32 MiB"), "{error}");

    let dir = tempfile::tempdir().unwrap();
    let flat =
        (0..DIRS).flat_map(move |n| [dir_named(format!("{n:03}")), Entry::Up { complete: true }]);
    let report = received(dir.path(), flat.chain([end()])).unwrap();
    assert_eq!(report.directories, DIRS as u64);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), DIRS);
}

/// A name that no path can reach any more is told of, whatever goes through the tree; the rest is as it should be.
#[test]
fn t01_what_lies_deeper_than_a_path_can_say_is_named_and_the_rest_comes() {
    use rustix::fs::{Mode, OFlags, mkdirat, openat, symlinkat};
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::create_dir(&from).unwrap();
    let open = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let make = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    let mut at = rustix::fs::open(&from, open, Mode::empty()).unwrap();
    // 20 * 201 bytes; 75 are left.
    for level in 0..20 {
        let name = format!("{level:0200}");
        mkdirat(&at, &*name, Mode::RWXU).unwrap();
        at = openat(&at, &*name, open, Mode::empty()).unwrap();
    }
    for len in [74, 75, 76, 200] {
        let name = |what: &str| format!("{what}{}", "n".repeat(len - 1));
        mkdirat(&at, name("d"), Mode::RWXU).unwrap();
        openat(&at, name("f"), make, Mode::RUSR).unwrap();
        symlinkat("to", &at, name("l")).unwrap();
    }
    let reached = |top: &Path| {
        let list = std::process::Command::new("find")
            .arg(".")
            .current_dir(top)
            .output();
        String::from_utf8(list.unwrap().stdout)
            .unwrap()
            .lines()
            .count()
    };
    let whole = reached(&from);
    let moved = contents(&from, &to, &recursive()).unwrap();
    assert_eq!(moved.sender.failed, 6, "{:?}", moved.sender.notes);
    assert!(
        moved
            .sender
            .notes
            .iter()
            .all(|note| note.contains("4095 bytes"))
    );
    assert_eq!(moved.receiver.failed, 0, "{:?}", moved.receiver.notes);
    assert_eq!(reached(&to), whole - 6);
    // Nothing goes for it that is only not seen.
    let mirror = TreeOptions {
        delete: true,
        mirror: true,
        ..recursive()
    };
    let moved = contents(&from, &to, &mirror).unwrap();
    assert_eq!((moved.sender.failed, moved.receiver.deleted), (6, 0));
    assert_eq!(reached(&to), whole - 6);
    // And the two are compared.
    let describe = |path: &Path| {
        let subject = TreeSubject::local(path).unwrap();
        TreeDescriber::start(subject, &recursive(), Arc::new(|| {})).unwrap()
    };
    let ((one, ends), (other, other_ends)) = (describe(&from), describe(&to));
    let comparison = TreeComparison::start(ends, other_ends, &recursive()).unwrap();
    loop {
        match comparison.next(Duration::from_mins(1)) {
            Next::Found(_) => {}
            Next::End => break,
            Next::Nothing => panic!("it hangs"),
        }
    }
    assert!(comparison.error().is_none(), "{:?}", comparison.error());
    assert_eq!((one.report().failed, other.report().failed), (6, 0));
}
