//! A45, A55, F39: what somebody else has put where a copy keeps its unfinished files.
#![cfg(target_os = "linux")]

use crate::common::{Engine, batch, hash, names_in, random_bytes};
use howdah_store::{GROUP, Limits, Sink, SinkOptions, Source, SourceSpec, StoreError, Target};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

/// As docs/resume.md says.
fn left_name(target: &str, suffix: &str) -> String {
    let digits = u64::from_le_bytes(hash(target.as_bytes())[..8].try_into().unwrap());
    format!(".{target}.{digits:016x}.howdah-{suffix}")
}

/// Copies `bytes` to `path` as something that could be gone on with; how much of it was there.
fn copy(source: &Path, path: &Path, bytes: &[u8]) -> Result<u64, StoreError> {
    let engine = Engine::new();
    let mut from = Source::open(SourceSpec::LocalFile(source), true, engine.wake())?;
    engine.finished(&mut from)?;
    let options = SinkOptions {
        size: Some(bytes.len() as u64),
        source: from.identity(),
        limits: Limits {
            dirty_bytes: GROUP,
            ..Limits::default()
        },
        ..SinkOptions::default()
    };
    let mut sink = Sink::resume(Target::open_local(path)?, &options, engine.wake())?;
    let held = sink.held().byte_count();
    for (index, value) in from.take_values(100) {
        sink.tell_values(index, &[value])?;
    }
    for start in (held as usize..bytes.len()).step_by(60_000) {
        let len = 60_000.min(bytes.len() - start);
        engine.submit(&mut sink, batch(bytes, &[(start, len)]));
    }
    let whole = (held == 0).then(|| hash(bytes));
    sink.finish(bytes.len() as u64, whole);
    engine.outcome(&mut sink)?;
    Ok(held)
}

#[test]
fn a55_what_has_the_name_of_an_unfinished_file_is_neither_followed_nor_believed() {
    type Plant = fn(&Path, &Path);
    let plants: [(&str, Plant); 5] = [
        ("a link", |part, canary| symlink(canary, part).unwrap()),
        ("a dangling link", |part, canary| {
            symlink(canary.with_file_name("new"), part).unwrap();
        }),
        ("a further name", |part, canary| {
            fs::hard_link(canary, part).unwrap();
        }),
        ("a directory", |part, _| fs::create_dir(part).unwrap()),
        ("a fifo", |part, _| {
            let mode = rustix::fs::Mode::from_raw_mode(0o666);
            rustix::fs::mkfifoat(rustix::fs::CWD, part, mode).unwrap();
        }),
    ];
    let bytes = random_bytes((5 << 20) + 1);
    for suffix in ["part", "journal"] {
        for (what, plant) in plants {
            let dir = tempfile::tempdir().unwrap();
            let there = dir.path().join("there");
            fs::create_dir(&there).unwrap();
            let (source, canary) = (dir.path().join("source"), dir.path().join("canary"));
            fs::write(&source, &bytes).unwrap();
            fs::write(&canary, "untouched").unwrap();
            plant(&there.join(left_name("file", suffix)), &canary);
            let held = copy(&source, &there.join("file"), &bytes);
            assert_eq!(held.unwrap(), 0, "{suffix} is {what}");
            assert!(
                fs::read(there.join("file")).unwrap() == bytes,
                "{suffix} is {what}"
            );
            assert_eq!(
                fs::read(&canary).unwrap(),
                b"untouched",
                "{suffix} is {what}"
            );
            assert!(!dir.path().join("new").exists(), "{suffix} is {what}");
        }
    }
}

/// Somebody on the same machine makes a part and a journal that claims all of it; only its owner tells.
#[test]
fn a45_a_journal_of_another_user_is_not_believed() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root can give files away");
        return;
    }
    let bytes = random_bytes(6 << 20);
    let dir = tempfile::tempdir().unwrap();
    let (source, path) = (dir.path().join("source"), dir.path().join("file"));
    fs::write(&source, &bytes).unwrap();
    // An interrupted copy of ours, all of it claimed.
    let engine = Engine::new();
    let mut from = Source::open(SourceSpec::LocalFile(&source), true, engine.wake()).unwrap();
    engine.finished(&mut from).unwrap();
    let options = SinkOptions {
        size: Some(6 << 20),
        source: from.identity(),
        limits: Limits {
            dirty_bytes: GROUP,
            ..Limits::default()
        },
        ..SinkOptions::default()
    };
    let mut sink =
        Sink::resume(Target::open_local(&path).unwrap(), &options, engine.wake()).unwrap();
    for (index, value) in from.take_values(100) {
        sink.tell_values(index, &[value]).unwrap();
    }
    for start in (0..bytes.len()).step_by(1 << 19) {
        engine.submit(&mut sink, batch(&bytes, &[(start, 1 << 19)]));
    }
    engine.wait(|| (sink.kept_bytes() == 6 << 20).then_some(()));
    drop(sink);
    let identity = from.identity().unwrap();
    while Target::open_local(&path)
        .unwrap()
        .is_being_written_from(&identity)
    {
        std::thread::yield_now();
    }
    assert!(Target::open_local(&path).unwrap().held().is_some());
    // The same by somebody else: with other bytes in it.
    let part = dir.path().join(left_name("file", "part"));
    let journal = dir.path().join(left_name("file", "journal"));
    let file = fs::File::options().write(true).open(&part).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"forged", 0).unwrap();
    drop(file);
    let nobody = Some(rustix::process::Uid::from_raw(65_534));
    for path in [&part, &journal] {
        let path = path.as_path();
        rustix::fs::chownat(
            rustix::fs::CWD,
            path,
            nobody,
            None,
            rustix::fs::AtFlags::empty(),
        )
        .unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    assert!(Target::open_local(&path).unwrap().held().is_none());
    assert_eq!(copy(&source, &path, &bytes).unwrap(), 0);
    assert!(fs::read(&path).unwrap() == bytes);
}

/// Thousands of copies to the same place were killed before they had claimed anything.
#[test]
fn f39_what_killed_copies_left_goes_with_the_next_one() {
    const LEFT: u64 = 20_000;
    let dir = tempfile::tempdir().unwrap();
    let there = dir.path().join("there");
    fs::create_dir(&there).unwrap();
    let source = dir.path().join("source");
    let bytes = random_bytes(5 << 20);
    fs::write(&source, &bytes).unwrap();
    for i in 0..LEFT {
        let name = there.join(format!(".file.{i:016x}.howdah-part"));
        let file = fs::File::create(name).unwrap();
        file.set_permissions(fs::Permissions::from_mode(0o600))
            .unwrap();
    }
    assert_eq!(copy(&source, &there.join("file"), &bytes).unwrap(), 0);
    assert_eq!(names_in(&there), ["file"]);
}
