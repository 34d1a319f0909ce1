//! Whether a file that appeared meanwhile is the very one that was to appear.
//!
//! Two copies of one source may end one after the other: a client that was killed when all had arrived, and the same command
//! given again. The second finds its work done, which is no conflict.

use crate::root::retry;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes that are compared at a time.
const BLOCK: usize = 1 << 20;

/// The regular file `name` in `dir`, if it has the same `size` bytes as `ours`. What cannot be read is another one.
pub(crate) fn same_file(dir: &OwnedFd, name: &OsStr, ours: &File, size: u64) -> Option<File> {
    const FLAGS: OFlags = OFlags::RDONLY
        .union(OFlags::NOFOLLOW)
        .union(OFlags::NONBLOCK)
        .union(OFlags::NOCTTY)
        .union(OFlags::CLOEXEC);
    let theirs = retry(|| rustix::fs::openat(dir, name, FLAGS, Mode::empty())).ok()?;
    let theirs = File::from(theirs);
    let meta = theirs.metadata().ok()?;
    if !meta.is_file() || meta.len() != size {
        return None;
    }
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
        for name in ["shorter", "other", "link", "directory", "missing"] {
            assert!(!is_same(name), "{name}");
        }
    }
}
