//! Moves, without a network in between.

use super::codec::{AnswerWriter, ManifestReader};
use super::moved::Leaving;
use super::report::{Book, Trouble, get};
use super::sent::Leaver;
use super::source_dir::SourceDir;
use super::tests::transfer;
use super::*;
use howdah_session::entry::Entry;
use howdah_session::{Act, Rule, TreeOptions};
use howdah_store::Root;
use howdah_store::identity::Identity;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

fn leaver(at: &Path, name: &str) -> Leaver {
    let file = fs::File::open(at.join(name)).unwrap();
    Leaver {
        dir: Arc::new(SourceDir {
            root: Arc::new(Root::open(at).unwrap()),
            path: PathBuf::new(),
            below: PathBuf::new(),
        }),
        name: name.into(),
        version: Identity::of(&file, at).unwrap(),
        is_top: false,
    }
}

/// What was done to a file after it was read, whether it may grow, and what kind of trouble keeps it.
#[test]
fn what_was_changed_after_it_was_read_is_kept_and_said() {
    type Change = fn(&Path);
    let append: Change = |path| {
        let mut text = fs::read_to_string(path).unwrap();
        text.push_str("more");
        fs::write(path, text).unwrap();
    };
    let cases: [(&str, Change, bool, Option<Trouble>); 7] = [
        ("nothing", |_| {}, false, None),
        ("grown", append, false, Some(Trouble::Changed)),
        ("grown and may", append, true, Some(Trouble::Grown)),
        (
            "emptied",
            |path| fs::write(path, "").unwrap(),
            true,
            Some(Trouble::Changed),
        ),
        (
            "rewritten",
            |path| fs::write(path, "other").unwrap(),
            true,
            Some(Trouble::Changed),
        ),
        (
            "replaced",
            |path| {
                let new = path.with_extension("new");
                fs::write(&new, "text!").unwrap();
                fs::rename(new, path).unwrap();
            },
            false,
            Some(Trouble::Changed),
        ),
        (
            "another name gone",
            |path| fs::remove_file(path.with_extension("twin")).unwrap(),
            false,
            None,
        ),
    ];
    for (what, change, growing, kept) in cases {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "text!").unwrap();
        fs::hard_link(&path, path.with_extension("twin")).unwrap();
        let (leaving, book) = (Leaving::new(), Book::default());
        leaving.put(vec![leaver(dir.path(), "f")]);
        change(&path);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let wake: howdah_store::Wake = Arc::new(|| {});
                leaving.work(growing, &book, &wake);
            });
            while !leaving.is_empty() {
                std::thread::yield_now();
            }
            leaving.stop();
        });
        assert_eq!(path.exists(), kept.is_some(), "{what}");
        assert_eq!(get(&book.removed), u64::from(kept.is_none()), "{what}");
        let report = book.report(false);
        let said = (report.changed, report.grown);
        let expected = match kept {
            None => (0, 0),
            Some(Trouble::Grown) => (0, 1),
            Some(_) => (1, 0),
        };
        assert_eq!(said, expected, "{what}: {:?}", report.notes);
        assert!(
            report.notes.iter().all(|note| note.contains("kept")),
            "{what}"
        );
    }
}

fn tree(at: &Path) {
    fs::create_dir_all(at.join("d/empty")).unwrap();
    fs::write(at.join("small"), "small").unwrap();
    fs::write(at.join("d/large"), vec![7; (PACKED_MAX + 5) as usize]).unwrap();
    fs::write(at.join("d/same"), "same").unwrap();
    fs::hard_link(at.join("small"), at.join("twin")).unwrap();
    symlink("nowhere", at.join("link")).unwrap();
    fs::write(at.join("left-out"), "x").unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at.join("fifo"), rustix::fs::Mode::RUSR).unwrap();
}

fn names(at: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut dirs = vec![at.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(at).unwrap().display().to_string();
            if path.is_dir() && !path.is_symlink() {
                dirs.push(path);
            } else {
                found.push(name);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn files_and_links_go_and_all_else_stays() {
    for archive in [false, true] {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        tree(&from);
        fs::create_dir_all(to.join("d")).unwrap();
        fs::write(to.join("d/same"), "same").unwrap();
        let time = fs::metadata(from.join("d/same"))
            .unwrap()
            .modified()
            .unwrap();
        let there = fs::File::options().write(true).open(to.join("d/same"));
        there.unwrap().set_modified(time).unwrap();
        // Something in the way of a file.
        fs::create_dir_all(to.join("left-out/not-empty")).unwrap();
        fs::write(from.join("excluded"), "x").unwrap();
        let options = TreeOptions {
            contents: true,
            recursive: true,
            remove_source: true,
            archive,
            rules: vec![Rule {
                include: false,
                pattern: "excluded".to_owned(),
                listed: false,
            }]
            .into(),
            ..TreeOptions::default()
        };
        let run = |options: &TreeOptions| {
            let mut source = TreeSource::new();
            source.add_local(&from, true).unwrap();
            let target = TreeTarget::local(&to).unwrap();
            transfer(source, target, options).unwrap()
        };
        let before = names(&from);
        let dry = run(&TreeOptions {
            dry_run: true,
            ..options.clone()
        });
        assert_eq!(names(&from), before);
        let mut told: Vec<String> = dry
            .receiver_changes
            .iter()
            .filter(|change| change.act == Act::Remove)
            .map(|change| change.path.display().to_string())
            .collect();
        told.sort();
        let gone = ["d/large", "d/same", "link", "small", "twin"];
        assert_eq!(told, gone, "archive: {archive}");
        let moved = run(&options);
        assert_eq!(
            names(&from),
            ["excluded", "fifo", "left-out"],
            "archive: {archive}"
        );
        assert!(from.join("d/empty").is_dir());
        assert_eq!(moved.sender.removed, gone.len() as u64);
        assert_eq!(moved.receiver.failed, 1, "{:?}", moved.receiver.notes);
        for name in gone {
            assert!(to.join(name).symlink_metadata().is_ok(), "{name}");
        }
    }
}

#[test]
fn what_was_named_goes_last() {
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("to");
    fs::create_dir(&to).unwrap();
    let files = ["a", "b"].map(|name| place.path().join(name));
    for file in &files {
        fs::write(file, "x").unwrap();
    }
    let mut source = TreeSource::new();
    for file in &files {
        source.add_local(file, false).unwrap();
    }
    let options = TreeOptions {
        remove_source: true,
        ..TreeOptions::default()
    };
    let moved = transfer(source, TreeTarget::local(&to).unwrap(), &options).unwrap();
    assert_eq!(moved.sender.removed, 2);
    assert_eq!(names(&to), ["a", "b"]);
    assert!(files.iter().all(|file| !file.exists()));
}

/// Whatever way leads to the source's own directory, what is there is not taken for a copy of itself.
#[test]
fn a_move_onto_itself_takes_nothing_away() {
    let kinds = ["file", "large", "link", "twin", "d/file", "d/link"];
    for flags in 0..8 {
        let [checksum, archive, keep_dirlinks] = [1, 2, 4].map(|bit| flags & bit != 0);
        let place = tempfile::tempdir().unwrap();
        let at = place.path().join("at");
        fs::create_dir_all(at.join("d")).unwrap();
        for name in ["file", "d/file"] {
            fs::write(at.join(name), name).unwrap();
        }
        fs::write(at.join("large"), vec![7; (PACKED_MAX + 5) as usize]).unwrap();
        fs::hard_link(at.join("file"), at.join("twin")).unwrap();
        for name in ["link", "d/link"] {
            symlink("nowhere", at.join(name)).unwrap();
        }
        // Another one, of which a part is the same by a link.
        let other = place.path().join("other");
        fs::create_dir(&other).unwrap();
        symlink("../at/d", other.join("d")).unwrap();
        let run = |from: &Path, to: &Path, contents: bool, dry_run: bool| {
            let options = TreeOptions {
                contents,
                recursive: true,
                mirror: contents,
                remove_source: true,
                checksum,
                archive,
                keep_dirlinks,
                dry_run,
                ..TreeOptions::default()
            };
            let mut source = TreeSource::new();
            source.add_local(from, contents).unwrap();
            let target = TreeTarget::local(to).unwrap();
            transfer(source, target, &options).unwrap()
        };
        let named = kinds.map(|name| {
            (
                at.join(name),
                at.join(name).parent().unwrap().to_owned(),
                false,
            )
        });
        let itself = named
            .iter()
            .map(|(from, ..)| (from.clone(), from.clone(), false));
        let itself: Vec<_> = itself.collect();
        let mut ways = vec![
            (at.clone(), at.clone(), true),
            (at.clone(), place.path().to_owned(), false),
        ];
        ways.extend(named);
        ways.extend(itself);
        for (from, to, contents) in ways {
            for dry_run in [true, false] {
                let before = names(&at);
                let moved = run(&from, &to, contents, dry_run);
                let case = format!(
                    "{from:?} {to:?} {flags} {dry_run} {:?}",
                    moved.receiver.notes
                );
                assert_eq!(names(&at), before, "{case}");
                assert_eq!(moved.sender.removed, 0, "{case}");
                assert!(moved.receiver.failed > 0, "{case}");
            }
        }
        // Only a part of it is the same.
        if keep_dirlinks {
            let moved = run(&at, &other, true, false);
            assert_eq!(
                names(&at),
                ["d/file", "d/link"],
                "{:?}",
                moved.receiver.notes
            );
            assert_eq!(names(&other), ["d", "file", "large", "link", "twin"]);
            assert_eq!((moved.sender.removed, moved.receiver.failed), (4, 2));
        }
    }
}

/// In the same directory another name is another file, also if that is a further name of the same one.
#[test]
fn a_move_to_another_name_in_the_same_directory_is_one() {
    for checksum in [false, true] {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let run = |from: &str, to: &str| {
            let options = TreeOptions {
                remove_source: true,
                checksum,
                ..TreeOptions::default()
            };
            let mut source = TreeSource::new();
            source.add_local(&at(from), false).unwrap();
            transfer(source, TreeTarget::local(&at(to)).unwrap(), &options).unwrap()
        };
        fs::write(at("a"), "a").unwrap();
        assert_eq!(run("a", "b").sender.removed, 1);
        assert_eq!(names(place.path()), ["b"]);
        fs::write(at("c"), "other").unwrap();
        assert_eq!(run("b", "c").sender.removed, 1);
        assert_eq!(names(place.path()), ["c"]);
        assert_eq!(fs::read(at("c")).unwrap(), b"a");
    }
}

/// A file and a further name of it, where something else has the first name.
fn with_other_first() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    fs::create_dir(&from).unwrap();
    fs::create_dir(&to).unwrap();
    fs::write(from.join("first"), "new").unwrap();
    fs::hard_link(from.join("first"), from.join("second")).unwrap();
    fs::write(to.join("first"), "other").unwrap();
    (place, from, to)
}

fn archive(remove_source: bool) -> TreeOptions {
    TreeOptions {
        contents: true,
        recursive: true,
        archive: true,
        remove_source,
        ..TreeOptions::default()
    }
}

/// It got its further name all the same, as the other file.
#[test]
fn a_file_that_does_not_come_gets_no_further_name_in_the_shape_of_another_one() {
    for remove_source in [false, true] {
        let (_place, from, to) = with_other_first();
        let mut source = TreeSource::new();
        source.add_local(&from, true).unwrap();
        let target = TreeTarget::local(&to).unwrap().add_only(true);
        let report = transfer(source, target, &archive(remove_source)).unwrap();
        assert_eq!(names(&to), ["first"]);
        assert_eq!(fs::read(to.join("first")).unwrap(), b"other");
        assert_eq!(names(&from), ["first", "second"]);
        assert_eq!(report.receiver.failed, 2, "{:?}", report.receiver.notes);
    }
}

/// With a key that may only add, a file of the same size and time was taken for the same (with `--size-only`: of the same size), and
/// its source went. One that had been compared and was equal stayed for ever, if it came alone.
#[test]
fn what_may_not_be_replaced_is_compared_before_its_source_goes() {
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let put = |path: &Path, text: &str, at: SystemTime| {
        fs::write(path, text).unwrap();
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(at).unwrap();
    };
    for (size_only, same_time, there) in [
        (false, true, "here"),
        (false, false, "here"),
        (true, false, "here"),
        (false, true, "else"),
        (false, false, "else"),
        (true, false, "else"),
    ] {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        fs::create_dir(&from).unwrap();
        fs::create_dir(&to).unwrap();
        put(&from.join("f"), "here", old);
        let later = Duration::from_secs(u64::from(!same_time));
        put(&to.join("f"), there, old + later);
        let options = TreeOptions {
            size_only,
            archive: false,
            ..archive(true)
        };
        let mut source = TreeSource::new();
        source.add_local(&from, true).unwrap();
        let target = TreeTarget::local(&to).unwrap().add_only(true);
        let report = transfer(source, target, &options).unwrap();
        let is_same = there == "here";
        let case = (size_only, same_time, there, &report.receiver.notes);
        assert_eq!(from.join("f").exists(), !is_same, "{case:?}");
        assert_eq!(report.sender.removed, u64::from(is_same), "{case:?}");
        assert_eq!(report.receiver.failed, u64::from(!is_same), "{case:?}");
        assert_eq!(fs::read_to_string(to.join("f")).unwrap(), there);
    }
}

/// More than goes into a pack: its beginning came, and all of it went at the source.
#[test]
fn a_file_that_grows_beyond_a_pack_before_it_is_read_stays() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("log");
    fs::write(&path, "first").unwrap();
    let mut source = TreeSource::new();
    source.add_local(place.path(), true).unwrap();
    let options = TreeOptions {
        contents: true,
        recursive: true,
        growing: true,
        remove_source: true,
        ..TreeOptions::default()
    };
    let (mut sender, ends) = TreeSender::start(source, &options, Arc::new(|| ())).unwrap();
    let mut manifest = ManifestReader::new(ends.manifest);
    while !matches!(manifest.next().unwrap(), Entry::End { .. }) {}
    let log = fs::File::options().write(true).open(&path).unwrap();
    log.set_len(PACKED_MAX + 1).unwrap();
    drop(log);
    let mut answers = AnswerWriter::new(ends.answers).unwrap();
    answers.file(true).unwrap();
    answers.end().unwrap();
    let (mut packs, mut come) = (ends.packs, Vec::new());
    packs.read_to_end(&mut come).unwrap();
    assert!(come.len() as u64 > PACKED_MAX, "{}", come.len());
    sender.are_placed(0, 1);
    sender.all_placed();
    while !sender.has_removed() {
        std::thread::yield_now();
    }
    let report = sender.report();
    assert_eq!((report.removed, report.grown), (0, 1), "{report:?}");
    assert_eq!(fs::metadata(&path).unwrap().len(), PACKED_MAX + 1);
}

/// Its source went, and what it was with it.
#[test]
fn a_name_of_what_stays_there_is_not_moved() {
    let (_place, from, to) = with_other_first();
    let options = TreeOptions {
        ignore_existing: true,
        ..archive(true)
    };
    let mut source = TreeSource::new();
    source.add_local(&from, true).unwrap();
    let report = transfer(source, TreeTarget::local(&to).unwrap(), &options).unwrap();
    assert_eq!(names(&from), ["first", "second"], "{report:?}");
    assert_eq!(fs::read(to.join("first")).unwrap(), b"other");
}

/// Given again after it was interrupted it would delete what it has moved.
#[test]
fn a_move_does_not_delete() {
    let (_place, from, to) = with_other_first();
    let options = TreeOptions {
        delete: true,
        ..archive(true)
    };
    let mut source = TreeSource::new();
    source.add_local(&from, true).unwrap();
    let refused = transfer(source, TreeTarget::local(&to).unwrap(), &options);
    let error = refused.err().map(|error| error.to_string());
    assert!(error.is_some_and(|error| error.contains("what is moved")));
    assert_eq!(names(&from), ["first", "second"]);
}

/// Gives a directory back to its owner, whatever comes of the test.
pub(crate) struct Closed<'a>(&'a Path);

impl<'a> Closed<'a> {
    /// Nobody takes names from it; `None` with a printed reason.
    pub(crate) fn make(dir: &'a Path) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o555)).unwrap();
            return Some(Self(dir));
        }
        match std::process::Command::new("chattr")
            .arg("+i")
            .arg(dir)
            .output()
        {
            Ok(output) if output.status.success() => Some(Self(dir)),
            other => {
                println!("skipped: chattr +i does not work here: {other:?}");
                None
            }
        }
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        let _ = std::process::Command::new("chattr")
            .arg("-i")
            .arg(self.0)
            .output();
        let _ = fs::set_permissions(self.0, fs::Permissions::from_mode(0o755));
    }
}

/// What a directory does not let go stays in the move, which a dry run of it knows.
#[test]
fn a_dry_run_says_what_could_not_be_removed() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    fs::create_dir_all(from.join("closed")).unwrap();
    fs::write(from.join("closed/file"), "text").unwrap();
    symlink("nowhere", from.join("closed/link")).unwrap();
    fs::write(from.join("goes"), "text").unwrap();
    fs::create_dir(&to).unwrap();
    let closed = from.join("closed");
    let Some(_closed) = Closed::make(&closed) else {
        return;
    };
    let run = |dry_run| {
        let options = TreeOptions {
            contents: true,
            recursive: true,
            remove_source: true,
            dry_run,
            ..TreeOptions::default()
        };
        let mut source = TreeSource::new();
        source.add_local(&from, true).unwrap();
        let target = TreeTarget::local(&to).unwrap();
        transfer(source, target, &options).unwrap().sender
    };
    for (dry_run, removed) in [(true, 0), (false, 1)] {
        let report = run(dry_run);
        let notes = &report.notes;
        assert_eq!((report.failed, report.removed), (2, removed), "{notes:?}");
        for name in ["closed/file", "closed/link"] {
            let said = |note: &String| note.contains(name) && note.contains("could not be removed");
            assert!(notes.iter().any(said), "{dry_run} {name}: {notes:?}");
        }
    }
}
