//! Whether a file that appeared meanwhile is the very one that was to appear.
//!
//! Two copies of one source may end one after the other: a client that was killed when all had arrived, and the same command
//! given again. The second finds its work done, which is no conflict.

use crate::descriptors::opened;
use howdah_core::RangeSet;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes that are compared at a time.
const BLOCK: usize = 1 << 20;

/// The regular file `name` in `dir`, if it has the same `size` bytes as `ours`. What cannot be read is another one.
pub fn same_file(dir: &OwnedFd, name: &OsStr, ours: &File, size: u64) -> Option<File> {
    let theirs = open(dir, name, size)?;
    let (mut one, mut other) = (vec![0; BLOCK], vec![0; BLOCK]);
    let mut at = 0;
    while at < size {
        let len = (size - at).min(BLOCK as u64) as usize;
        ours.read_exact_at(&mut one[..len], at).ok()?;
        theirs.read_exact_at(&mut other[..len], at).ok()?;
        if one[..len] != other[..len] {
            return None;
        }
        at += len as u64;
    }
    Some(theirs)
}

/// The regular file `name` in `dir`, if it holds just these bytes.
pub fn same_bytes(dir: &OwnedFd, name: &OsStr, bytes: &[u8]) -> Option<File> {
    let theirs = open(dir, name, bytes.len() as u64)?;
    let mut other = vec![0; bytes.len().min(BLOCK)];
    let mut at = 0;
    for block in bytes.chunks(BLOCK) {
        let other = &mut other[..block.len()];
        theirs.read_exact_at(other, at).ok()?;
        if *other != *block {
            return None;
        }
        at += block.len() as u64;
    }
    Some(theirs)
}

/// Whether `name` in `dir` is a regular file of `size` bytes of which those `ranges` of `ours` are a part, as far as some
/// samples tell: whoever asks cannot wait for all of them.
pub(crate) fn is_likely_part_of(
    dir: &OwnedFd,
    name: &OsStr,
    ours: &File,
    size: u64,
    ranges: &RangeSet,
) -> bool {
    const SAMPLES: u64 = 16;
    const SAMPLE: u64 = 4096;
    let Some(theirs) = open(dir, name, size) else {
        return false;
    };
    let is_same = |at: u64, len: u64| {
        let (mut one, mut other) = (vec![0; len as usize], vec![0; len as usize]);
        ours.read_exact_at(&mut one, at).is_ok()
            && theirs.read_exact_at(&mut other, at).is_ok()
            && one == other
    };
    let step = (ranges.byte_count() / SAMPLES).max(1);
    ranges.iter().all(|range| {
        let mut starts =
            (range.start..range.end).step_by(usize::try_from(step).unwrap_or(usize::MAX));
        starts.all(|at| is_same(at, SAMPLE.min(range.end - at)))
    })
}

/// Opens a regular file of `size` bytes.
pub(crate) fn open(dir: &OwnedFd, name: &OsStr, size: u64) -> Option<File> {
    const FLAGS: OFlags = OFlags::RDONLY
        .union(OFlags::NOFOLLOW)
        .union(OFlags::NONBLOCK)
        .union(OFlags::NOCTTY)
        .union(OFlags::CLOEXEC);
    let file = opened(|| rustix::fs::openat(dir, name, FLAGS, Mode::empty())).ok()?;
    let file = File::from(file);
    let meta = file.metadata().ok()?;
    (meta.is_file() && meta.len() == size).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_regular_file_with_the_same_bytes_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).unwrap();
        let mut bytes = vec![7; BLOCK + 10];
        put("ours", &bytes);
        put("same", &bytes);
        put("shorter", &bytes[1..]);
        bytes[BLOCK + 9] = 8;
        put("other", &bytes);
        std::os::unix::fs::symlink("same", dir.path().join("link")).unwrap();
        std::fs::create_dir(dir.path().join("directory")).unwrap();
        let ours = File::open(dir.path().join("ours")).unwrap();
        let fd = OwnedFd::from(File::open(dir.path()).unwrap());
        let is_same =
            |name: &str| same_file(&fd, OsStr::new(name), &ours, BLOCK as u64 + 10).is_some();
        assert!(is_same("same"));
        bytes[BLOCK + 9] = 7;
        let same_bytes = |name: &str| same_bytes(&fd, OsStr::new(name), &bytes).is_some();
        assert!(same_bytes("same"));
        let mut ranges = RangeSet::new();
        ranges.insert(howdah_core::ByteRange::new(5, 10));
        ranges.insert(howdah_core::ByteRange::new(1000, BLOCK as u64 + 10));
        let part_of = |name: &str| {
            is_likely_part_of(&fd, OsStr::new(name), &ours, BLOCK as u64 + 10, &ranges)
        };
        assert!(part_of("same"));
        put("far", &vec![6; BLOCK + 10]);
        assert!(!part_of("far"));
        for name in ["shorter", "other", "link", "directory", "missing"] {
            assert!(!is_same(name) && !same_bytes(name), "{name}");
            assert!(name == "other" || !part_of(name), "{name}");
        }
    }
}
