//! Reading: any range, any number of times, and never a mix of two versions.

use crate::common::{Engine, hash, random_bytes};
use howdah_store::{Limits, Root, Source, SourceSpec, StoreError};
use std::fs::{File, FileTimes, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

const TINY: Limits = Limits {
    prefetch_bytes: 2 << 20,
    pipe_bytes: 4096,
    pipe_ahead_bytes: 4096,
    queue_bytes: 8192,
    reorder_start_bytes: 4096,
    reorder_bytes: 4096,
    dirty_bytes: 1 << 20,
    cached_bytes: 1 << 20,
};

fn read_all(engine: &Engine, source: &mut Source, step: usize) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let at = out.len() as u64;
        let end = engine.wait(|| {
            let end = source.ready_end();
            (end > at || source.size() == Some(at)).then_some(end)
        });
        if end == at {
            return out;
        }
        let mut buf = vec![0; step.min((end - at) as usize)];
        source.read_at(at, &mut buf).unwrap();
        out.extend_from_slice(&buf);
        source.note_sent_through(out.len() as u64);
        source.release_through((out.len() as u64).saturating_sub(1000));
        if source.size() == Some(out.len() as u64) {
            source.release_through(out.len() as u64);
        }
    }
}

#[test]
fn files_of_all_sizes_are_read_and_hashed() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path()).unwrap();
    for size in [0, 1, 8900, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 7_654_321] {
        let data = random_bytes(size);
        std::fs::write(dir.path().join("file"), &data).unwrap();
        for hashed in [true, false] {
            let engine = Engine::new();
            let spec = SourceSpec::File(Path::new("file"), &root);
            let mut source = Source::open_with(spec, hashed, engine.wake(), &TINY).unwrap();
            assert_eq!(source.size(), Some(size as u64));
            assert!(read_all(&engine, &mut source, 62_300) == data);
            let finished = engine.finished(&mut source).unwrap();
            assert_eq!(finished.hash, hashed.then(|| hash(&data)));
            assert!(source.poll_finished().is_none());
            source.verify_unchanged().unwrap();
            // A retransmission after the end.
            let mut again = vec![0; size / 2];
            source.read_at((size / 3) as u64, &mut again).unwrap();
            assert!(again == data[size / 3..size / 3 + size / 2]);
        }
    }
}

#[test]
fn reading_ahead_stops_at_the_window() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, random_bytes(6 << 20)).unwrap();
    let engine = Engine::new();
    let spec = SourceSpec::LocalFile(&path);
    let source = Source::open_with(spec, true, engine.wake(), &TINY).unwrap();
    engine.wait(|| (source.ready_end() >= 2 << 20).then_some(()));
    assert_eq!(source.ready_end(), 2 << 20);
    source.note_sent_through(1);
    engine.wait(|| (source.ready_end() == 3 << 20).then_some(()));
    source.note_sent_through(6 << 20);
    engine.wait(|| (source.ready_end() == 6 << 20).then_some(()));
}

#[test]
fn a_source_that_changes_is_found_out() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 5] = [
        ("grown", |path| {
            OpenOptions::new()
                .append(true)
                .open(path)
                .unwrap()
                .write_all(b"more")
                .unwrap();
        }),
        ("truncated", |path| {
            OpenOptions::new()
                .write(true)
                .open(path)
                .unwrap()
                .set_len(3 << 20)
                .unwrap();
        }),
        ("emptied", |path| drop(File::create(path).unwrap())),
        ("rewritten, mtime restored", |path| {
            let mtime = std::fs::metadata(path).unwrap().modified().unwrap();
            let file = OpenOptions::new().write(true).open(path).unwrap();
            file.write_all_at(b"other", 1 << 20).unwrap();
            file.set_times(FileTimes::new().set_modified(mtime))
                .unwrap();
        }),
        ("replaced", |path| {
            std::fs::write(path.with_extension("new"), "other").unwrap();
            std::fs::rename(path.with_extension("new"), path).unwrap();
        }),
    ];
    for (what, change) in changes {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, random_bytes(6 << 20)).unwrap();
        let engine = Engine::new();
        let spec = SourceSpec::LocalFile(&path);
        let mut source = Source::open_with(spec, true, engine.wake(), &TINY).unwrap();
        engine.wait(|| (source.ready_end() == 2 << 20).then_some(()));
        change(&path);
        source.note_sent_through(6 << 20);
        let result = engine.finished(&mut source);
        assert!(
            matches!(result, Err(StoreError::SourceChanged { .. })),
            "{what}: {result:?}"
        );
        assert!(source.verify_unchanged().is_err());
    }
}

#[test]
fn reading_beyond_a_truncated_end_is_an_error_not_a_signal() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, random_bytes(100_000)).unwrap();
    let engine = Engine::new();
    let source = Source::open(SourceSpec::LocalFile(&path), false, engine.wake()).unwrap();
    drop(File::create(&path).unwrap());
    let result = source.read_at(50_000, &mut [0; 10]);
    assert!(
        matches!(result, Err(StoreError::SourceChanged { .. })),
        "{result:?}"
    );
}

#[test]
fn only_regular_files_and_nothing_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path()).unwrap();
    std::fs::create_dir(dir.path().join("dir")).unwrap();
    let fifo = dir.path().join("fifo");
    let made = std::process::Command::new("mkfifo")
        .arg(&fifo)
        .status()
        .unwrap();
    assert!(made.success());
    let _listener = UnixListener::bind(dir.path().join("socket")).unwrap();
    let engine = Engine::new();
    for (name, want) in [("dir", "a directory"), ("fifo", "a fifo")] {
        for spec in [
            SourceSpec::File(Path::new(name), &root),
            SourceSpec::LocalFile(&dir.path().join(name)),
        ] {
            match Source::open(spec, true, engine.wake()) {
                Err(StoreError::NotAFile { what, .. }) => assert_eq!(what, want),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
    let open = |path: &Path| Source::open(SourceSpec::LocalFile(path), true, engine.wake());
    assert!(matches!(
        open(Path::new("/dev/zero")),
        Err(StoreError::NotAFile { .. })
    ));
    assert!(open(&dir.path().join("socket")).is_err());
    assert!(matches!(
        open(&dir.path().join("none")),
        Err(StoreError::NotFound { .. })
    ));
    assert!(matches!(
        Source::open(
            SourceSpec::File(Path::new("../x"), &root),
            true,
            engine.wake()
        ),
        Err(StoreError::PathEscapes { .. })
    ));
}

#[test]
fn zeros() {
    for size in [0, 1, 3_000_000] {
        let engine = Engine::new();
        let spec = SourceSpec::Zero(size);
        let mut source = Source::open_with(spec, true, engine.wake(), &TINY).unwrap();
        let data = read_all(&engine, &mut source, 62_300);
        assert!(data.len() as u64 == size && data.iter().all(|&b| b == 0));
        assert_eq!(
            engine.finished(&mut source).unwrap().hash,
            Some(hash(&data))
        );
        assert!(source.read_at(size, &mut [0]).is_err());
    }
    let engine = Engine::new();
    let spec = SourceSpec::Zero(u64::MAX >> 2);
    let mut endless = Source::open(spec, false, engine.wake()).unwrap();
    assert_eq!(endless.poll_finished().unwrap().unwrap().hash, None);
}
