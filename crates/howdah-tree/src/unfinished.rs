//! A directory that a copy has made and not finished says so, and the same command goes on in it.
//!
//! `cp -r dir new` makes `new` if it is not there and copies to `new/dir` if it is. Without a sign the same command, given
//! again after an interruption, would begin anew one directory further down. The sign tells whose it is: another source goes below
//! that directory, as always. It is a file that holds the digits of the [source](howdah_session::TreeOptions::origin), or nothing.

use howdah_session::reserved::SIGN;
use howdah_store::descriptors::opened;
use howdah_store::times::times_of;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use std::io::{Read as _, Write as _};
use std::path::Path;

/// Digits of a source in a sign.
const DIGITS: usize = 16;

/// A number for what is copied, from words that say where it is: the same for the same ones, on every machine.
pub fn origin_of<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for word in words {
        hasher.update(&(word.len() as u64).to_le_bytes());
        hasher.update(word);
    }
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(first)
}

/// Puts the sign of that source there. A directory that takes no file is copied to without.
pub(crate) fn mark(dir: impl AsFd, origin: Option<u64>) {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let made = opened(|| rustix::fs::openat(&dir, SIGN, flags, mode));
    let Ok(fd) = made else {
        return;
    };
    // Under a umask that keeps its owner out (0777) nobody could read it, and it would stay.
    let _ = rustix::fs::fchmod(&fd, mode);
    if let Some(origin) = origin {
        let _ = std::fs::File::from(fd).write_all(digits(origin).as_bytes());
    }
}

fn digits(origin: u64) -> String {
    format!("{origin:0DIGITS$x}")
}

/// Whether a copy to that directory was begun and not finished, of whatever source.
pub(crate) fn is_marked(dir: impl AsFd) -> bool {
    read(dir).is_some()
}

/// Whether a copy of that source to that directory was begun and not finished.
pub(crate) fn is_marked_by(dir: impl AsFd, origin: Option<u64>) -> bool {
    // An empty one was put there by somebody who did not say, or by a disk that was full.
    read(dir).is_some_and(|sign| sign.is_empty() || Some(sign) == origin.map(digits))
}

/// What a sign says, if there is one.
fn read(dir: impl AsFd) -> Option<String> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = opened(|| rustix::fs::openat(&dir, SIGN, flags, Mode::empty())).ok()?;
    let stat = rustix::fs::fstat(&fd).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut sign = String::new();
    let file = std::fs::File::from(fd);
    file.take(DIGITS as u64 + 1)
        .read_to_string(&mut sign)
        .ok()?;
    let is_ours = sign.is_empty()
        || sign.len() == DIGITS && sign.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_ours.then_some(sign)
}

/// Whether a copy to the directory of that name was begun and not finished, of whatever source. A path of this
/// process's user.
pub fn is_begun(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir())
        && std::fs::File::open(path).is_ok_and(is_marked)
}

/// Takes the sign away.
pub(crate) fn unmark(dir: impl AsFd) {
    if is_marked(&dir) {
        let _ = rustix::fs::unlinkat(&dir, SIGN, AtFlags::empty());
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
    let _ = rustix::fs::futimens(&dir, &times_of(&stat));
    let _ = rustix::fs::fsync(&dir);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{look, recursive, transfer};
    use crate::{TreeSource, TreeTarget};
    use howdah_session::TreeOptions;
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
        mark(fs::File::open(&to).unwrap(), None);
        // The sign of the source is not copied.
        mark(fs::File::open(from.join("sub")).unwrap(), Some(1));

        copy(&from, &to);
        assert!(!to.join("data").exists());
        assert!(!to.join(SIGN).exists() && !to.join("sub").join(SIGN).exists());
        fs::remove_file(from.join("sub").join(SIGN)).unwrap();
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
        fs::write(to.join(SIGN), "not ours").unwrap();
        assert!(!is_marked(fs::File::open(&to).unwrap()), "ours is empty");
    }

    #[test]
    fn n5_a_sign_is_of_one_source_and_goes_when_the_directory_is_finished_by_whatever_copy() {
        let dir = tempfile::tempdir().unwrap();
        let (from, other, to) = (
            dir.path().join("data"),
            dir.path().join("other"),
            dir.path().join("new"),
        );
        for (source, file) in [(&from, "a"), (&other, "b")] {
            fs::create_dir(source).unwrap();
            fs::write(source.join(file), "text").unwrap();
        }
        let of = |origin| TreeOptions {
            origin: Some(origin),
            ..recursive()
        };
        let copy = |from: &Path, origin| {
            let mut source = TreeSource::new();
            source.add_local(from, false).unwrap();
            transfer(source, TreeTarget::local(&to).unwrap(), &of(origin)).unwrap();
        };
        let begin = |origin| {
            let _ = fs::remove_dir_all(&to);
            fs::create_dir(&to).unwrap();
            mark(fs::File::open(&to).unwrap(), Some(origin));
        };
        begin(1);
        copy(&from, 1);
        assert!(to.join("a").exists() && !to.join("data").exists());

        // Another source goes where it always goes, and the first goes on in its place.
        begin(1);
        copy(&other, 2);
        assert!(to.join("other/b").exists() && !to.join("b").exists());
        assert!(to.join(SIGN).exists(), "still not finished");
        copy(&from, 1);
        assert!(to.join("a").exists() && !to.join("data").exists());
        assert!(!to.join(SIGN).exists());

        // A mirror into it finishes it, too.
        begin(1);
        let mut source = TreeSource::new();
        source.add_local(&from, true).unwrap();
        let options = TreeOptions {
            contents: true,
            ..of(3)
        };
        transfer(source, TreeTarget::local(&to).unwrap(), &options).unwrap();
        assert!(to.join("a").exists() && !to.join(SIGN).exists());
        copy(&from, 1);
        assert!(
            to.join("data/a").exists(),
            "cp's rule for a directory that is there"
        );
    }
}
