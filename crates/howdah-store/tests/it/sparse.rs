//! F33, F34: files with holes arrive with the same bytes and without the space that they do not need.
#![cfg(target_os = "linux")]

use crate::common::{Engine, batch, hash, names_in, random_bytes};
use howdah_core::{ByteRange, RangeSet};
use howdah_store::{
    GROUP, Limits, Outcome, Sink, SinkOptions, Source, SourceSpec, StoreError, Target, Wake,
    hash_file,
};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

const MIB: u64 = GROUP;

/// Makes a file of that size in which only these ranges are data.
fn make(path: &Path, size: u64, data: &[(u64, u64)]) {
    let file = File::create(path).unwrap();
    file.set_len(size).unwrap();
    for &(at, len) in data {
        file.write_all_at(&random_bytes(len as usize), at).unwrap();
    }
    file.sync_all().unwrap();
}

fn allocated(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

/// A place whose file system tells holes, or `None` with a printed reason.
fn place() -> Option<tempfile::TempDir> {
    let dir = tempfile::tempdir().unwrap();
    make(&dir.path().join("probe"), MIB, &[(0, 1)]);
    let known = allocated(&dir.path().join("probe")) < MIB;
    if !known {
        println!("SKIPPED: the file system of temporary files has no holes");
    }
    fs::remove_file(dir.path().join("probe")).unwrap();
    known.then_some(dir)
}

struct Copy {
    engine: Engine,
    source: Source,
    sink: Sink,
    size: u64,
}

impl Copy {
    fn begin(from: &Path, to: &Path) -> Result<Self, StoreError> {
        let engine = Engine::new();
        let source = Source::open(SourceSpec::LocalFile(from), true, engine.wake())?;
        let size = source.size().unwrap();
        let options = SinkOptions {
            size: Some(size),
            source: source.identity(),
            holes: source.holes().cloned(),
            limits: Limits {
                // A claim for each MiB.
                dirty_bytes: GROUP,
                ..Limits::default()
            },
            ..SinkOptions::default()
        };
        let sink = Sink::resume(Target::open_local(to)?, &options, engine.wake())?;
        source.go_on_without(sink.held());
        Ok(Self {
            engine,
            source,
            sink,
            size,
        })
    }

    /// Sends what is neither a hole nor there, at most so many bytes of it; says how many.
    fn send(&mut self, max: u64) -> u64 {
        let mut sent = 0;
        let mut there = self.source.holes().cloned().unwrap_or_default();
        for range in self.sink.held().iter() {
            there.insert(range);
        }
        for range in there.missing(ByteRange::new(0, self.size)) {
            for start in (range.start..range.end).step_by(60_000) {
                if sent >= max {
                    return sent;
                }
                let mut bytes = vec![0; (range.end - start).min(60_000) as usize];
                self.source.read_at(start, &mut bytes).unwrap();
                let mut batch = batch(&bytes, &[(0, bytes.len())]);
                batch.parts[0].offset = start;
                self.engine.submit(&mut self.sink, batch);
                sent += bytes.len() as u64;
            }
        }
        sent
    }

    fn tell_values(&mut self) {
        for (index, value) in self.source.take_values(usize::MAX) {
            self.sink.tell_values(index, &[value]).unwrap();
        }
    }

    fn finish(mut self) -> Result<Outcome, StoreError> {
        let finished = loop {
            self.source.note_sent_through(self.source.ready_end());
            self.tell_values();
            if let Some(finished) = self.source.poll_finished() {
                break finished?;
            }
            std::thread::yield_now();
        };
        self.tell_values();
        self.sink.finish(finished.size, finished.hash);
        self.engine.outcome(&mut self.sink)
    }
}

/// Copies and compares; gives back how many bytes were sent.
#[track_caller]
fn copy(from: &Path, to: &Path) -> u64 {
    let mut copy = Copy::begin(from, to).unwrap();
    let sent = copy.send(u64::MAX);
    let outcome = copy.finish().unwrap();
    let expected = hash_file(from).unwrap();
    assert_eq!(outcome.hash, Some(expected));
    assert_eq!(hash_file(to).unwrap(), expected);
    assert_eq!(
        fs::metadata(to).unwrap().len(),
        fs::metadata(from).unwrap().len()
    );
    sent
}

#[test]
fn f33_holes_are_neither_sent_nor_stored() {
    /// Name, size, what of it is data, how much is sent.
    type Case<'a> = (&'a str, u64, &'a [(u64, u64)], u64);
    let Some(dir) = place() else { return };
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let alternating: Vec<_> = (0..2_048).map(|i| (i * 8_192, 4_096)).collect();
    let cases: [Case<'_>; 7] = [
        ("start", 40 * MIB, &[(32 * MIB, 8 * MIB)], 8 * MIB),
        (
            "middle",
            40 * MIB + 5,
            &[(0, 4 * MIB), (36 * MIB, 4 * MIB + 5)],
            8 * MIB + 5,
        ),
        ("end", 40 * MIB, &[(0, 8 * MIB)], 8 * MIB),
        ("all", 1 << 30, &[], 0),
        ("all but a tail", 5 * MIB + 7, &[], 7),
        (
            "not whole groups",
            9 * MIB,
            &[(MIB / 2, MIB), (7 * MIB + 1, 1)],
            3 * MIB,
        ),
        ("alternating", 16 * MIB, &alternating, 16 * MIB),
    ];
    for (name, size, data, sent) in cases {
        make(&from, size, data);
        assert_eq!(copy(&from, &to), sent, "{name}");
        let (source, target) = (allocated(&from), allocated(&to));
        println!("{name}: {source} bytes on the disk here, {target} there, {sent} sent");
        assert!(
            target <= source + source / 20 + 8_192,
            "{name}: {source} became {target}"
        );
    }
    assert_eq!(names_in(dir.path()), ["from", "to"]);
}

/// Somebody reserved that space on purpose.
#[test]
fn a_file_without_holes_gets_none() {
    let Some(dir) = place() else { return };
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::write(&from, vec![0; 6 << 20]).unwrap();
    assert_eq!(copy(&from, &to), 6 * MIB);
    assert!(allocated(&to) >= 6 * MIB, "{}", allocated(&to));
}

#[test]
fn f34_sizes_about_the_limits_of_integers_are_exact() {
    let Some(dir) = place() else { return };
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    for size in [(1 << 31) - 1, (1 << 32) + 1] {
        make(&from, size, &[(size - 3, 3), (size / 2, 1)]);
        let mut copy = Copy::begin(&from, &to).unwrap();
        // The group in the middle, and the last ones as far as they go.
        let tail = size % MIB;
        let last = if tail >= 3 { tail } else { MIB + tail };
        assert_eq!(copy.send(u64::MAX), MIB + last, "{size}");
        // Both sides hash the whole and compare; reading it once more would take long.
        assert!(copy.finish().unwrap().hash.is_some());
        assert_eq!(fs::metadata(&to).unwrap().len(), size);
        for at in [0, size / 2, size - 3] {
            let (mut here, mut there) = ([1; 3], [2; 3]);
            File::open(&from)
                .unwrap()
                .read_exact_at(&mut here, at)
                .unwrap();
            File::open(&to)
                .unwrap()
                .read_exact_at(&mut there, at)
                .unwrap();
            assert_eq!(here, there, "{size}: at {at}");
        }
    }
    for size in [0, 1] {
        make(&from, size, &[(0, size)]);
        assert_eq!(copy(&from, &to), size);
    }
}

fn left_in(dir: &Path, suffix: &str) -> File {
    let names = names_in(dir);
    let name = names.iter().find(|name| name.ends_with(suffix)).unwrap();
    let options = File::options().read(true).write(true).open(dir.join(name));
    options.unwrap()
}

/// Begins a copy of half holes and gives it up when something of it is claimed. What is claimed after that is
/// forgotten again, and what nobody vouches for is garbage, as it may be after a power cut.
fn interrupted(from: &Path, to: &Path) {
    let dir = to.parent().unwrap();
    let mut copy = Copy::begin(from, to).unwrap();
    copy.send(3 * MIB);
    let holes = copy.source.holes().map_or(0, RangeSet::byte_count);
    copy.engine.wait(|| {
        copy.source.note_sent_through(copy.source.ready_end());
        for (index, value) in copy.source.take_values(usize::MAX) {
            copy.sink.tell_values(index, &[value]).unwrap();
        }
        (copy.sink.kept_bytes() >= holes + MIB).then_some(())
    });
    let identity = copy.source.identity().unwrap();
    drop(copy);
    // Its threads hold the lock for a moment longer.
    while Target::open_local(to)
        .unwrap()
        .is_being_written_from(&identity)
    {
        std::thread::yield_now();
    }
    // The first claims may be of holes alone.
    let journal = left_in(dir, ".howdah-journal");
    let mut claims = vec![0; journal.metadata().unwrap().len() as usize];
    journal.read_exact_at(&mut claims, 0).unwrap();
    let mut end = 0;
    let held = loop {
        assert!(end < claims.len(), "no data is claimed");
        let len: [u8; 4] = claims[end..end + 4].try_into().unwrap();
        end += 4 + u32::from_le_bytes(len) as usize + 16;
        journal.set_len(0).unwrap();
        journal.write_all_at(&claims[..end], 0).unwrap();
        let target = Target::open_local(to).unwrap();
        // Begins with data, of which no more than this was sent.
        let data = ByteRange::new(0, 3 * MIB);
        if let Some(held) = target.held()
            && held.ranges.missing(data).map(ByteRange::len).sum::<u64>() < data.len()
        {
            break held.ranges.clone();
        }
    };
    let size = fs::metadata(from).unwrap().len();
    let part = left_in(dir, ".howdah-part");
    for range in held.missing(ByteRange::new(0, size)) {
        let garbage = vec![0xa5; range.len() as usize];
        part.write_all_at(&garbage, range.start).unwrap();
    }
}

#[test]
fn a_copy_with_holes_goes_on_and_what_was_garbage_becomes_zeros() {
    let Some(dir) = place() else { return };
    let there = dir.path().join("there");
    fs::create_dir(&there).unwrap();
    let (from, to) = (dir.path().join("from"), there.join("to"));
    // Data, holes, and zeros within a group of data at the end.
    make(
        &from,
        24 * MIB,
        &[(0, 6 * MIB), (20 * MIB, MIB / 2), (21 * MIB, 3 * MIB)],
    );
    interrupted(&from, &to);
    let sent = copy(&from, &to);
    assert!(sent < 10 * MIB, "{sent} bytes were sent");
    assert!(
        allocated(&to) <= allocated(&from) + MIB,
        "{}",
        allocated(&to)
    );
    assert_eq!(names_in(&there), ["to"]);
}

const CHILD_DIR: &str = "HOWDAH_STORE_SPARSE_DIR";

/// Run by [`without_holes_at_the_target_the_content_is_right`] under strace; alone it does nothing.
#[test]
fn child_goes_on_with_a_sparse_copy() {
    let Ok(dir) = std::env::var(CHILD_DIR) else {
        return;
    };
    let dir = Path::new(&dir);
    let sent = copy(&dir.join("from"), &dir.join("to"));
    println!("SENT {sent}");
}

/// A file system that neither tells holes nor makes them: every zero is compared or written.
#[test]
fn without_holes_at_the_target_the_content_is_right() {
    let Some(dir) = place() else { return };
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    make(&from, 24 * MIB, &[(0, 6 * MIB), (21 * MIB, 3 * MIB)]);
    for inject in ["lseek:error=EINVAL", "fallocate:error=EOPNOTSUPP"] {
        interrupted(&from, &to);
        let (call, _) = inject.split_once(':').unwrap();
        let output = Command::new("strace")
            .args(["-f", "-o", "/dev/null", "-e", &format!("trace={call}")])
            .args(["-e", &format!("inject={inject}")])
            .arg(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "sparse::child_goes_on_with_a_sparse_copy",
                "--nocapture",
            ])
            .env(CHILD_DIR, dir.path())
            .output();
        match output {
            Ok(output) if output.status.success() => {
                let text = String::from_utf8_lossy(&output.stdout);
                assert!(text.contains("SENT"), "{inject}: {text}");
            }
            Ok(output) if String::from_utf8_lossy(&output.stdout).contains("panicked") => {
                panic!("{inject}: {}", String::from_utf8_lossy(&output.stdout));
            }
            other => {
                println!("SKIPPED: cannot inject {inject} with strace: {other:?}");
                return;
            }
        }
        assert_eq!(
            hash_file(&to).unwrap(),
            hash_file(&from).unwrap(),
            "{inject}"
        );
        fs::remove_file(&to).unwrap();
    }
    assert_eq!(names_in(dir.path()), ["from"]);
}

/// Holes are part of what the sender's hash covers.
#[test]
fn a43_holes_that_the_source_does_not_have_are_found() {
    let Some(dir) = place() else { return };
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    make(&from, 6 * MIB, &[(0, MIB)]);
    let mut copy = Copy::begin(&from, &to).unwrap();
    copy.send(u64::MAX);
    // The root of a source that is not zeros only behind its first group.
    let mut other = fs::read(&from).unwrap();
    other[3 << 20] = 1;
    copy.sink.finish(6 * MIB, Some(hash(&other)));
    let outcome = copy.engine.outcome(&mut copy.sink);
    assert!(
        matches!(outcome, Err(StoreError::HashMismatch { .. })),
        "{outcome:?}"
    );
    assert!(!to.exists());
}

/// Both sides hash what is said to be a hole, which takes hours for TiB: not for somebody who has gone.
#[test]
fn a41_nobody_hashes_a_hole_for_whoever_has_gone() {
    let Some(dir) = place() else {
        return;
    };
    let size = 8 << 40;
    let there = dir.path().join("there");
    if File::create(&there).unwrap().set_len(size).is_err() {
        println!("SKIPPED: the file system of temporary files has no files of 8 TiB");
        return;
    }
    for name in ["new", "there"] {
        let wake: Wake = Arc::new(|| ());
        let mut holes = RangeSet::new();
        holes.insert(ByteRange::new(0, size));
        let options = SinkOptions {
            hash: true,
            size: Some(size),
            holes: Some(holes),
            ..SinkOptions::default()
        };
        let target = Target::open_local(&dir.path().join(name)).unwrap();
        let begin = if name == "new" {
            Sink::resume
        } else {
            Sink::compare
        };
        let mut sink = begin(target, &options, Arc::clone(&wake)).unwrap();
        sink.finish(size, Some([0; 32]));
        drop(sink);
        // Its threads have a clone each.
        let limit = Instant::now() + Duration::from_mins(1);
        while Arc::strong_count(&wake) > 1 {
            assert!(Instant::now() < limit, "{name}: it is hashed all the same");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    assert_eq!(names_in(dir.path()), ["there"]);
}
