//! A directory that a copy has made and not finished says so, and the same command goes on in it.
//!
//! `cp -r dir new` makes `new` if it is not there and copies to `new/dir` if it is. Without a sign the same command, given
//! again after an interruption, would begin anew one directory further down.

use crate::root::retry;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, Timespec, Timestamps};
use std::path::Path;

/// The sign: an empty file. Trees are copied without it.
pub(crate) const NAME: &str = ".howdah-unfinished";

/// Puts the sign there. A directory that takes no file is copied to without.
pub(crate) fn mark(dir: impl AsFd) {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let _ = retry(|| rustix::fs::openat(&dir, NAME, flags, mode));
}

/// Whether a copy to that directory was begun and not finished.
pub(crate) fn is_marked(dir: impl AsFd) -> bool {
    rustix::fs::statat(&dir, NAME, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_size == 0
    })
}

/// The same of a local path.
pub(crate) fn is_begun(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir())
        && std::fs::File::open(path).is_ok_and(is_marked)
}

/// Takes the sign away.
pub(crate) fn unmark(dir: impl AsFd) {
    if is_marked(&dir) {
        let _ = rustix::fs::unlinkat(&dir, NAME, AtFlags::empty());
    }
}

/// Takes the sign away from a directory that has its modes and times already, and is on the disk.
pub(crate) fn finish(dir: impl AsFd) {
    let Ok(stat) = rustix::fs::fstat(&dir) else {
        return;
    };
    let mode = Mode::from_raw_mode(stat.st_mode);
    // Perhaps not even its owner may write to it.
    let is_open = mode.contains(Mode::RWXU);
    if !is_open {
        let _ = rustix::fs::fchmod(&dir, mode | Mode::RWXU);
    }
    unmark(&dir);
    if !is_open {
        let _ = rustix::fs::fchmod(&dir, mode);
    }
    let _ = rustix::fs::futimens(&dir, &times(&stat));
    let _ = rustix::fs::fsync(&dir);
}

fn times(stat: &Stat) -> Timestamps {
    let at = |tv_sec, nanos: u64| Timespec {
        tv_sec,
        tv_nsec: i64::try_from(nanos).unwrap_or(0),
    };
    Timestamps {
        last_access: at(stat.st_atime, stat.st_atime_nsec),
        last_modification: at(stat.st_mtime, stat.st_mtime_nsec),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trees::tests::{look, recursive, transfer};
    use crate::trees::{TreeSource, TreeTarget};
    use std::fs;

    fn copy(from: &Path, to: &Path) {
        let mut source = TreeSource::new();
        source.add_local(from, false).unwrap();
        transfer(source, TreeTarget::local(to).unwrap(), &recursive()).unwrap();
    }

    #[test]
    fn the_same_command_goes_on_in_the_directory_that_it_made() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("data"), dir.path().join("new"));
        fs::create_dir_all(from.join("sub")).unwrap();
        fs::write(from.join("a"), "one").unwrap();
        fs::write(from.join("sub/b"), "two").unwrap();
        // What an interrupted copy leaves.
        fs::create_dir(&to).unwrap();
        fs::write(to.join("a"), "one").unwrap();
        mark(fs::File::open(&to).unwrap());
        // The sign of the source is not copied.
        mark(fs::File::open(from.join("sub")).unwrap());

        copy(&from, &to);
        assert!(!to.join("data").exists());
        assert!(!to.join(NAME).exists() && !to.join("sub").join(NAME).exists());
        fs::remove_file(from.join("sub").join(NAME)).unwrap();
        let times = |dir: &Path| fs::metadata(dir).unwrap().modified().unwrap();
        assert_eq!(times(&to), times(&from));
        assert_eq!(fs::read(to.join("sub/b")).unwrap(), b"two");

        // Now it is finished, and cp's rule holds.
        copy(&from, &to);
        assert_eq!(look(&to.join("data")), look(&from));
    }

    #[test]
    fn a_new_directory_carries_the_sign_until_it_is_finished() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("data"), dir.path().join("new"));
        fs::create_dir(&from).unwrap();
        copy(&from, &to);
        assert!(fs::read_dir(&to).unwrap().next().is_none());
        fs::write(to.join(NAME), "not ours").unwrap();
        assert!(!is_marked(fs::File::open(&to).unwrap()), "ours is empty");
    }
}
