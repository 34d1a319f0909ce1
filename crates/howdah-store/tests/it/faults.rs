//! Disks that are full or broken. Needs root or strace; says so where they are missing.
#![cfg(target_os = "linux")]

use crate::common::{Engine, batch, hash, names_in, random_bytes, slices};
use howdah_store::{
    GROUP, Limits, Outcome, Sink, SinkOptions, SinkSpec, Source, SourceSpec, StoreError, Target,
};
use std::path::Path;
use std::process::Command;

/// A small tmpfs, unmounted on drop.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(options: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "howdah-test"])
            .arg(dir.path())
            .output();
        match mount {
            Ok(output) if output.status.success() => Some(Self(dir)),
            other => {
                println!("SKIPPED: cannot mount a small tmpfs (needs root): {other:?}");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

fn copy(path: &Path, data: &[u8], hint: Option<u64>) -> Result<Outcome, StoreError> {
    let engine = Engine::new();
    let mut sink = Sink::create(SinkSpec::LocalFile(path), true, hint, engine.wake())?;
    for part in slices(data.len(), 60_000) {
        let mut batch = Some(batch(data, &[part]));
        let failed = engine.wait(|| match sink.submit(batch.take()?) {
            Ok(()) => Some(None),
            Err(back) => {
                batch = Some(back);
                sink.poll_outcome().map(Some)
            }
        });
        if let Some(outcome) = failed {
            return outcome;
        }
    }
    sink.finish(data.len() as u64, Some(hash(data)));
    engine.outcome(&mut sink)
}

#[test]
fn a_full_disk_leaves_neither_part_nor_target() {
    let Some(disk) = SmallDisk::mount("size=4m") else {
        return;
    };
    let data = random_bytes(6 << 20);
    for hint in [None, Some(3 << 20), Some(data.len() as u64)] {
        let result = copy(&disk.path().join("file"), &data, hint);
        assert!(
            matches!(result, Err(StoreError::NoSpace { .. })),
            "{hint:?}: {result:?}"
        );
        assert!(names_in(disk.path()).is_empty());
    }
    // The space came back.
    copy(&disk.path().join("file"), &data[..3 << 20], Some(3 << 20)).unwrap();
}

#[test]
fn a_disk_that_is_too_small_is_known_at_once() {
    let Some(disk) = SmallDisk::mount("size=4m") else {
        return;
    };
    let engine = Engine::new();
    let path = disk.path().join("file");
    let result = Sink::create(
        SinkSpec::LocalFile(&path),
        true,
        Some(5 << 20),
        engine.wake(),
    );
    assert!(
        matches!(result, Err(StoreError::NoSpace { .. })),
        "{result:?}"
    );
    assert!(names_in(disk.path()).is_empty());
}

#[test]
fn no_inode_left() {
    let Some(disk) = SmallDisk::mount("size=4m,nr_inodes=1") else {
        return;
    };
    let result = copy(&disk.path().join("file"), b"x", None);
    assert!(
        matches!(result, Err(StoreError::NoSpace { .. })),
        "{result:?}"
    );
}

#[test]
fn a_read_only_disk_is_an_error() {
    let Some(disk) = SmallDisk::mount("size=4m,ro") else {
        return;
    };
    let message = copy(&disk.path().join("file"), b"x", None)
        .unwrap_err()
        .to_string();
    assert!(message.contains("read-only"), "{message}");
}

/// An ext4 that promises 64 MiB on a tmpfs that has 12: `write` succeeds, writeback does not.
#[test]
fn a_disk_that_fails_at_writeback_publishes_nothing() {
    let data = random_bytes(30 << 20);
    for hint in [None, Some(data.len() as u64)] {
        let Some(backing) = SmallDisk::mount("size=12m") else {
            return;
        };
        let Some(disk) = ext4_on(&backing.path().join("image")) else {
            return;
        };
        let path = disk.path().join("file");
        let result = copy(&path, &data, hint);
        println!("{hint:?}: {result:?}");
        assert!(result.is_err(), "a disk that lost data was believed");
        assert!(!path.exists());
    }
}

/// The same with a journal: whatever it claims when writeback has failed is really there.
#[test]
fn f14_a_failed_writeback_is_an_error_and_nothing_false_is_claimed() {
    let data = random_bytes(30 << 20);
    let (Some(backing), Some(sources)) =
        (SmallDisk::mount("size=12m"), SmallDisk::mount("size=40m"))
    else {
        return;
    };
    let Some(disk) = ext4_on(&backing.path().join("image")) else {
        return;
    };
    let source = sources.path().join("source");
    std::fs::write(&source, &data).unwrap();
    let path = disk.path().join("file");
    let engine = Engine::new();
    let mut opened = Source::open(SourceSpec::LocalFile(&source), true, engine.wake()).unwrap();
    engine.finished(&mut opened).unwrap();
    let options = SinkOptions {
        size: Some(data.len() as u64),
        source: opened.identity(),
        limits: Limits {
            // A claim for each MiB.
            dirty_bytes: GROUP,
            ..Limits::default()
        },
        ..SinkOptions::default()
    };
    let target = Target::open_local(&path).unwrap();
    let mut sink = Sink::resume(target, &options, engine.wake()).unwrap();
    for (index, value) in opened.take_values(1_000) {
        sink.tell_values(index, &[value]).unwrap();
    }
    let mut result = None;
    for part in slices(data.len(), 60_000) {
        let mut batch = Some(batch(&data, &[part]));
        result = engine.wait(|| match sink.submit(batch.take()?) {
            Ok(()) => Some(None),
            Err(back) => {
                batch = Some(back);
                sink.poll_outcome().map(Some)
            }
        });
        if result.is_some() {
            break;
        }
    }
    let result = result.unwrap_or_else(|| {
        sink.finish(data.len() as u64, Some(hash(&data)));
        engine.outcome(&mut sink)
    });
    println!("{result:?}; {} bytes are kept", sink.kept_bytes());
    assert!(result.is_err(), "a disk that lost data was believed");
    assert!(!path.exists());
    // Its journal, read by the same code, and the part as the device has it.
    drop(sink);
    let names = names_in(disk.path());
    let Some(part) = names.iter().find(|name| name.ends_with(".howdah-part")) else {
        return;
    };
    let Some(held) = Target::open_local(&path).unwrap().held().cloned() else {
        println!("the file system takes no more writes: nothing can be gone on with now");
        return;
    };
    let part = std::fs::File::open(disk.path().join(part)).unwrap();
    rustix::fs::fadvise(&part, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    for range in held.ranges.iter() {
        let mut bytes = vec![0; range.len() as usize];
        std::os::unix::fs::FileExt::read_exact_at(&part, &mut bytes, range.start).unwrap();
        assert!(
            bytes == data[range.start as usize..range.end as usize],
            "{range}"
        );
    }
}

/// A 64 MiB ext4 in a sparse file.
fn ext4_on(image: &Path) -> Option<SmallDisk> {
    std::fs::File::create(image)
        .unwrap()
        .set_len(64 << 20)
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let made = Command::new("mkfs.ext4")
        .args(["-q", "-F"])
        .arg(image)
        .output();
    let mount = made.and_then(|_| {
        let options = ["-o", "loop,errors=remount-ro"];
        Command::new("mount")
            .args(options)
            .arg(image)
            .arg(dir.path())
            .output()
    });
    match mount {
        Ok(output) if output.status.success() => Some(SmallDisk(dir)),
        other => {
            println!("SKIPPED: no mkfs.ext4 or no loop device: {other:?}");
            None
        }
    }
}

const CHILD_DIR: &str = "HOWDAH_STORE_FAULT_DIR";

/// Run by [`failing_calls_publish_nothing`] under strace; alone it does nothing.
#[test]
fn child_copies_one_file() {
    let Ok(dir) = std::env::var(CHILD_DIR) else {
        return;
    };
    let data = random_bytes(1 << 20);
    let result = copy(&Path::new(&dir).join("file"), &data, Some(1 << 20));
    println!("RESULT {result:?}");
}

#[test]
fn failing_calls_publish_nothing() {
    // (call, error, what is left, word in the result)
    let cases: [(&str, &str, &[&str], &str); 8] = [
        ("fsync:error=EIO:when=1", "fsync", &[], "\"sync\""),
        (
            "fsync:error=EIO:when=2",
            "fsync",
            &["file"],
            "sync the directory",
        ),
        ("fsync:error=ENOSPC:when=1", "fsync", &[], "NoSpace"),
        ("renameat2:error=EIO:when=1", "renameat2", &[], "rename"),
        ("pwritev:error=EIO:when=1", "pwritev", &[], "\"write\""),
        ("pwritev:error=EINTR:when=1..3", "pwritev", &["file"], "Ok("),
        ("fallocate:error=EOPNOTSUPP", "fallocate", &["file"], "Ok("),
        ("fallocate:error=ENOSPC", "fallocate", &[], "NoSpace"),
    ];
    for (inject, call, left, word) in cases {
        let dir = tempfile::tempdir().unwrap();
        let output = Command::new("strace")
            .args(["-f", "-o", "/dev/null", "-e", &format!("trace={call}")])
            .args(["-e", &format!("inject={inject}")])
            .arg(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "faults::child_copies_one_file",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(CHILD_DIR, dir.path())
            .output();
        let output = match output {
            Ok(output) if output.status.success() => output,
            other => {
                println!("SKIPPED: cannot inject {inject} with strace: {other:?}");
                return;
            }
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let result = text
            .lines()
            .find(|line| line.contains("RESULT"))
            .unwrap_or_default();
        assert!(result.contains(word), "{inject}: {text}");
        assert_eq!(names_in(dir.path()), left, "{inject}: {result}");
    }
}
