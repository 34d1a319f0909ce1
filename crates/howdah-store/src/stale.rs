//! Names of unfinished files, and what becomes of them when their process was killed.
//!
//! `.<name>.<16 digits>.howdah-part` is an unfinished file, and the same with `.howdah-journal` at its end
//! the journal of what is right in it. The digits are a hash of the name, so that the next copy finds
//! it, or random: of a copy that cannot go on, and of a second one at the same time.
//!
//! Whoever writes a temporary file holds an exclusive `flock` on it, which ends with the process
//! however it ends. So a file that has the name of one and that nobody has locked is nobody's.
//!
//! The two sides meet like this: a writer creates, locks, and then looks whether the name is still
//! that of its file; a cleaner opens, locks, looks whether the name is still that of the file, and
//! removes. Whoever gets the lock second finds out, and no file with a living writer goes.
//!
//! A symbolic link, or a further name of a file, that is to take the place of something else has such a name for a moment, too, and no
//! lock of its own. It holds nothing that is not elsewhere, so a cleaner removes it without asking, and who finds that his is gone
//! ([`give_name`]) makes it once more.

use crate::calls::retry;
use crate::descriptors::opened;
use crate::names::rename_file;
pub use crate::ours::is_plain;
use crate::ours::{FUSE, is_ours};
use crate::times::keeping_times;
use howdah_session::reserved::{DIGITS, JOURNAL, PART, has_digits, is_part, is_unfinished};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Longest name of a file on any disk, in bytes (`NAME_MAX`).
const MAX_NAME: usize = 255;
/// Names of a directory that are looked at: a quarter of a second's work at most. In larger ones
/// something may stay behind.
const MAX_NAMES: usize = 200_000;

/// Bytes of an unfinished file's name besides what it has of its target's.
const OVERHEAD: usize = 1 + 1 + DIGITS + JOURNAL.len();

/// The name in `dir` of a part file that nobody will look for, cut so that it and its journal's fit.
pub fn temp_name(dir: impl AsFd, name: &OsStr) -> OsString {
    with_digits(name, room_for(dir, name), random())
}

/// The same as short as can be, for a disk that takes shorter names than it says.
pub fn short_temp_name() -> OsString {
    with_digits(OsStr::new(""), 0, random())
}

fn random() -> u64 {
    // Seeded from the operating system; O_EXCL makes sure.
    std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish()
}

/// The name of the part file that the next copy to the same target looks for.
pub fn resume_name(dir: impl AsFd, name: &OsStr) -> OsString {
    let hash = blake3::hash(name.as_bytes());
    let mut digits = [0; 8];
    digits.copy_from_slice(&hash.as_bytes()[..8]);
    with_digits(name, room_for(dir, name), u64::from_le_bytes(digits))
}

fn with_digits(name: &OsStr, room: usize, digits: u64) -> OsString {
    let mut bytes = prefix(name, room);
    bytes.extend_from_slice(format!("{digits:016x}{PART}").as_bytes());
    OsString::from_vec(bytes)
}

/// How much of a target's name in `dir` has room in the names of its unfinished files.
fn room_for(dir: impl AsFd, name: &OsStr) -> usize {
    /// No disk has shorter ones, so it is not asked about these.
    const SURE: usize = 64;
    if name.len() + OVERHEAD <= SURE {
        name.len()
    } else {
        room(name_max(dir))
    }
}

/// The same for any name on a disk with names of so many bytes.
pub fn room(name_max: usize) -> usize {
    name_max.saturating_sub(OVERHEAD)
}

/// The longest name that the disk of that directory takes, in bytes. Those that encrypt names have less than others:
/// 143 with eCryptfs. encfs says 189 and takes 175, so what is less than usual is tried.
pub fn name_max(dir: impl AsFd) -> usize {
    let told = rustix::fs::fstatvfs(&dir).map_or(0, |fs| fs.f_namemax);
    let told = match usize::try_from(told) {
        Ok(max) if (1..MAX_NAME).contains(&max) => max,
        _ => return MAX_NAME,
    };
    let takes = |len: usize| {
        let name = "n".repeat(len);
        let found = rustix::fs::statat(&dir, &*name, AtFlags::SYMLINK_NOFOLLOW);
        !matches!(found, Err(Errno::NAMETOOLONG))
    };
    if takes(told) {
        return told;
    }
    let (mut fits, mut too_long) = (0, told);
    while too_long - fits > 1 {
        let middle = fits.midpoint(too_long);
        if takes(middle) {
            fits = middle;
        } else {
            too_long = middle;
        }
    }
    fits
}

/// The name of a part file's journal.
pub fn journal_name(part: &OsStr) -> Option<OsString> {
    let stem = part.as_bytes().strip_suffix(PART.as_bytes())?;
    Some(OsString::from_vec([stem, JOURNAL.as_bytes()].concat()))
}

/// What stands in front of the digits.
fn prefix(name: &OsStr, room: usize) -> Vec<u8> {
    [b".", kept_of(name.as_bytes(), room), b"."].concat()
}

/// What of a target's name stands in the names of its unfinished files: all of it, or its beginning.
pub fn kept_of(name: &[u8], room: usize) -> &[u8] {
    let mut cut = name.len().min(room);
    while cut < name.len() && cut > 0 && name[cut] & 0xc0 == 0x80 {
        cut -= 1; // not inside of a UTF-8 character
    }
    &name[..cut]
}

/// The same, taken from the name of an unfinished file or of its journal; `None`: it is of neither.
pub fn target_in(candidate: &[u8]) -> Option<&[u8]> {
    if !is_unfinished(candidate) {
        return None;
    }
    let suffix = if candidate.ends_with(PART.as_bytes()) {
        PART
    } else {
        JOURNAL
    };
    let end = candidate.len().checked_sub(suffix.len() + DIGITS + 1)?;
    candidate.get(1..end)
}

/// Whether somebody writes an unfinished file.
#[derive(Debug)]
pub enum InUse {
    /// Nobody, and nobody will as long as this lives.
    No(Option<File>),
    /// Somebody, or it cannot be known.
    Perhaps,
}

/// Whether somebody writes the unfinished file of that name, or the one that a journal of that name is about.
pub fn in_use(dir: &OwnedFd, name: &OsStr) -> InUse {
    const FLAGS: OFlags = OFlags::RDONLY
        .union(OFlags::NONBLOCK)
        .union(OFlags::NOFOLLOW)
        .union(OFlags::NOCTTY)
        .union(OFlags::CLOEXEC);
    let stem = name.as_bytes().strip_suffix(JOURNAL.as_bytes());
    let part = match stem {
        Some(stem) => OsString::from_vec([stem, PART.as_bytes()].concat()),
        None => name.to_owned(),
    };
    match rustix::fs::statat(dir, &part, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return InUse::No(None),
        // Not what we would have made.
        Ok(stat) if !is_plain(&stat) => return InUse::No(None),
        Ok(_) => {}
        Err(_) => return InUse::Perhaps,
    }
    if !locks_are_seen_by_all(dir) {
        return InUse::Perhaps;
    }
    match opened(|| rustix::fs::openat(dir, &part, FLAGS, Mode::empty())) {
        Ok(fd) if lock(&fd) == Lock::Ours => InUse::No(Some(File::from(fd))),
        Err(Errno::NOENT) => InUse::No(None),
        _ => InUse::Perhaps,
    }
}

/// Whether what has the name of an unfinished file is a link or a further name that was to take the place of something else.
pub fn is_stand_in(stat: &Stat) -> bool {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => true,
        FileType::RegularFile => stat.st_nlink > 1,
        _ => false,
    }
}

/// Whether it may go: somebody may write to a file that another has given a further name.
pub fn stand_in_use(dir: &OwnedFd, name: &OsStr) -> InUse {
    if !locks_are_seen_by_all(dir) {
        return InUse::Perhaps;
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match opened(|| rustix::fs::openat(dir, name, flags, Mode::empty())) {
        Ok(fd) if lock(&fd) == Lock::Taken => InUse::Perhaps,
        // It keeps the lock until the name is gone.
        Ok(fd) => InUse::No(Some(File::from(fd))),
        // A link cannot be opened.
        Err(_) => InUse::No(None),
    }
}

/// How often a name that somebody has removed is made once more.
const AGAIN: usize = 3;

/// Gives a link or a further name, made under a temporary name, its own; removes it if that fails. `again` makes it once more where
/// somebody took it for one that nobody needs.
pub fn give_name(
    dir: &OwnedFd,
    temp: &OsStr,
    name: &OsStr,
    replace: bool,
    mut again: impl FnMut() -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut named = rename_file(dir, temp, dir, name, replace);
    for _ in 0..AGAIN {
        if named != Err(Errno::NOENT) {
            break;
        }
        again()?;
        named = rename_file(dir, temp, dir, name, replace);
    }
    named.inspect_err(|_| {
        let _ = rustix::fs::unlinkat(dir, temp, AtFlags::empty());
    })
}

/// Whether `candidate` is the name of a part file of a target whose names begin with `prefix`.
fn is_temp_name(candidate: &[u8], prefix: &[u8]) -> bool {
    has_digits(candidate, prefix, PART)
}

/// What a lock came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lock {
    /// We have it.
    Ours,
    /// Somebody else's.
    Taken,
    /// The file system has no locks.
    Unknown,
}

/// Locks a file until its last descriptor is closed; never waits.
pub fn lock(file: impl AsFd) -> Lock {
    match retry(|| rustix::fs::flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive)) {
        Ok(()) => Lock::Ours,
        Err(Errno::WOULDBLOCK) => Lock::Taken,
        Err(_) => Lock::Unknown,
    }
}

/// Whether `name` in `dir` is that open file, and it has no other name.
pub(crate) fn is_named(dir: &OwnedFd, name: &OsStr, file: impl AsFd) -> bool {
    let (Ok(open), Ok(named)) = (
        rustix::fs::fstat(file.as_fd()),
        rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW),
    ) else {
        return false;
    };
    (open.st_dev, open.st_ino) == (named.st_dev, named.st_ino) && open.st_nlink == 1
}

/// Removes the temporary files of the target `name` that nobody writes to any more, but for one, and returns
/// how many. Failures are nobody's concern: then they stay.
pub(crate) fn remove_stale(dir: &OwnedFd, name: &OsStr, spared: Option<&OsStr>) -> usize {
    if !locks_are_seen_by_all(dir) {
        return 0;
    }
    let Ok(entries) = Dir::read_from(dir) else {
        return 0;
    };
    let prefix = prefix(name, room_for(dir, name));
    let mut removed = 0;
    for entry in entries.take(MAX_NAMES).map_while(Result::ok) {
        let bytes = entry.file_name().to_bytes();
        if spared.is_some_and(|spared| spared.as_bytes() == bytes) {
            continue;
        }
        if is_temp_name(bytes, &prefix) {
            removed += usize::from(remove_if_stale(dir, OsStr::from_bytes(bytes)));
        } else if has_digits(bytes, &prefix, JOURNAL) {
            let stem = &bytes[..bytes.len() - JOURNAL.len()];
            let part = OsString::from_vec([stem, PART.as_bytes()].concat());
            remove_orphan(dir, &part);
        }
    }
    removed
}

/// Removes a part file, and its journal, if nobody writes to it any more.
pub(crate) fn remove_part(dir: &OwnedFd, part: &OsStr) {
    if locks_are_seen_by_all(dir) && remove_if_stale(dir, part) {
        remove_orphan(dir, part);
    }
}

/// The same; where somebody writes to it, it loses its journal: he sees that when he ends, and removes the rest
/// ([`is_condemned`]).
pub(crate) fn condemn_part(dir: &OwnedFd, part: &OsStr) {
    remove_part(dir, part);
    let Some(journal) = journal_name(part).filter(|_| locks_are_seen_by_all(dir)) else {
        return;
    };
    let stat = |name: &OsStr| rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    if stat(part).is_ok_and(|stat| is_plain(&stat))
        && stat(&journal).is_ok_and(|stat| is_ours(dir, &stat))
    {
        keeping_times(dir, || {
            let _ = rustix::fs::unlinkat(dir, &journal, AtFlags::empty());
        });
        // He may have ended before he could see it.
        remove_part(dir, part);
    }
}

/// Whether somebody has taken the journal of a part file away that had one.
pub(crate) fn is_condemned(dir: &OwnedFd, part: &OsStr) -> bool {
    journal_name(part).is_some_and(|journal| {
        let found = rustix::fs::statat(dir, &journal, AtFlags::SYMLINK_NOFOLLOW);
        matches!(found, Err(Errno::NOENT))
    })
}

/// Removes a journal whose part file is gone: its process was killed between the one and the other.
pub fn remove_orphan(dir: &OwnedFd, part: &OsStr) {
    let stat = |name: &OsStr| rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    if let Some(journal) = journal_name(part)
        && matches!(stat(part), Err(Errno::NOENT))
        && stat(&journal).is_ok_and(|stat| is_ours(dir, &stat))
    {
        // Somebody else may have finished this directory.
        keeping_times(dir, || {
            let _ = rustix::fs::unlinkat(dir, &journal, AtFlags::empty());
        });
    }
}

/// Whether the journal beside an unfinished file says that it is one of ours, whatever its mode is.
fn is_claimed(dir: &OwnedFd, part: &OsStr, file: &File) -> bool {
    let journal =
        journal_name(part).and_then(|name| crate::journal::Journal::open(dir, &name, file));
    journal.is_some_and(|(_, past)| crate::journal::speaks_of(&past, file))
}

/// Removes the temporary files of all targets in `dir` that nobody writes to any more, that no copy can go
/// on with (they have no journal), and that hold at most `max_bytes`.
pub fn remove_abandoned(dir: &OwnedFd, max_bytes: u64) -> usize {
    let Ok(entries) = Dir::read_from(dir) else {
        return 0;
    };
    let small = |name: &OsStr| {
        rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| is_stand_in(&stat) || stat.st_size as u64 <= max_bytes)
            && !has_journal(dir, name)
    };
    let mut locks_are_seen = None;
    let names = entries.map_while(Result::ok).filter(|entry| {
        is_part(entry.file_name().to_bytes())
            && *locks_are_seen.get_or_insert_with(|| locks_are_seen_by_all(dir))
    });
    names
        .take(MAX_NAMES)
        .filter(|entry| {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            small(name) && remove_if_stale(dir, name)
        })
        .count()
}

/// What was complete may have got its mode and owner, but not its name. Nobody goes on with one that has no journal.
fn is_left_over(dir: &OwnedFd, name: &OsStr, stat: &Stat) -> bool {
    let user = rustix::process::geteuid();
    is_plain(stat) && (stat.st_uid == user.as_raw() || user.is_root()) && !has_journal(dir, name)
}

fn has_journal(dir: &OwnedFd, part: &OsStr) -> bool {
    journal_name(part)
        .is_none_or(|journal| rustix::fs::statat(dir, &journal, AtFlags::SYMLINK_NOFOLLOW).is_ok())
}

fn remove_stand_in(dir: &OwnedFd, name: &OsStr, stat: &Stat) -> bool {
    let user = rustix::process::geteuid();
    if !user.is_root() && stat.st_uid != user.as_raw() || has_journal(dir, name) {
        return false;
    }
    match stand_in_use(dir, name) {
        InUse::No(_lock) => rustix::fs::unlinkat(dir, name, AtFlags::empty()).is_ok(),
        InUse::Perhaps => false,
    }
}

fn remove_if_stale(dir: &OwnedFd, name: &OsStr) -> bool {
    const FLAGS: OFlags = OFlags::RDONLY
        .union(OFlags::NONBLOCK)
        .union(OFlags::NOFOLLOW)
        .union(OFlags::NOCTTY)
        .union(OFlags::CLOEXEC);
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    if let Some(stat) = stat.as_ref().ok().filter(|stat| is_stand_in(stat)) {
        return remove_stand_in(dir, name, stat);
    }
    // A fifo or a device is not even opened.
    let Some(stat) = stat.ok().filter(is_plain) else {
        return false;
    };
    let Ok(file) = opened(|| rustix::fs::openat(dir, name, FLAGS, Mode::empty())) else {
        return false;
    };
    let file = File::from(file);
    let is_known =
        is_ours(dir, &stat) || is_left_over(dir, name, &stat) || is_claimed(dir, name, &file);
    if !is_known {
        return false;
    }
    let gone = lock(&file) == Lock::Ours
        && is_named(dir, name, &file)
        && rustix::fs::unlinkat(dir, name, AtFlags::empty()).is_ok();
    if let (true, Some(journal)) = (gone, journal_name(name)) {
        let _ = rustix::fs::unlinkat(dir, &journal, AtFlags::empty());
    }
    gone
}

/// On file systems that other hosts may have mounted as well a lock may be seen by this host alone
/// (`nolock`, `local_lock`, `localflock`), and the writer may run on another one.
#[cfg(target_os = "linux")]
pub(crate) fn locks_are_seen_by_all(dir: &OwnedFd) -> bool {
    const SHARED: [u32; 11] = [
        0x0000_6969, // NFS
        0x0000_517b, // SMB
        0xff53_4d42, // CIFS
        0xfe53_4d42, // SMB 2
        FUSE,        // sshfs and others
        0x0102_1997, // 9P
        0x00c3_6400, // Ceph
        0x0bd0_0bd0, // Lustre
        0x4750_4653, // GPFS
        0x1983_0326, // BeeGFS
        0x5346_414f, // AFS
    ];
    // A FUSE file system on a disk of this host (`fuseblk`) has that disk's number.
    let is_disk = || rustix::fs::fstat(dir).is_ok_and(|stat| rustix::fs::major(stat.st_dev) != 0);
    rustix::fs::fstatfs(dir).is_ok_and(|fs| match fs.f_type as u32 {
        FUSE => is_disk(),
        kind => !SHARED.contains(&kind),
    })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn locks_are_seen_by_all(_: &OwnedFd) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    fn open(dir: &Path) -> OwnedFd {
        File::open(dir).unwrap().into()
    }

    fn make(dir: &Path, name: &str, mode: u32) -> File {
        let file = File::create(dir.join(name)).unwrap();
        file.set_permissions(fs::Permissions::from_mode(mode))
            .unwrap();
        file
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_name_is_known_again_and_no_other_one_is() {
        let dir = tempfile::tempdir().unwrap();
        let dir = open(dir.path());
        for target in ["a", "a.b", &"x".repeat(255), &"\u{e9}".repeat(127)] {
            let target = OsStr::new(target);
            let room = room_for(&dir, target);
            for temp in [temp_name(&dir, target), resume_name(&dir, target)] {
                let prefix = |name| prefix(name, room);
                assert!(is_temp_name(temp.as_bytes(), &prefix(target)), "{temp:?}");
                assert!(is_part(temp.as_bytes()));
                assert!(!is_temp_name(temp.as_bytes(), &prefix(OsStr::new("b"))));
                let journal = journal_name(&temp).unwrap();
                assert!(journal.len() <= MAX_NAME);
                assert!(!is_temp_name(journal.as_bytes(), &prefix(target)));
                for name in [&temp, &journal] {
                    let kept = kept_of(target.as_bytes(), super::room(MAX_NAME));
                    assert_eq!(target_in(name.as_bytes()), Some(kept));
                }
            }
            assert_ne!(temp_name(&dir, target), temp_name(&dir, target));
            assert_eq!(resume_name(&dir, target), resume_name(&dir, target));
        }
        assert!(is_part(short_temp_name().as_bytes()));
        let prefix = prefix(OsStr::new("a"), 200);
        for other in [
            ".a.howdah-part",
            ".a.0123456789abcde.howdah-part",
            ".a.0123456789abcdef0.howdah-part",
            ".a.0123456789ABCDEF.howdah-part",
            ".a.0123456789abcdef.howdah-part~",
            "a.0123456789abcdef.howdah-part",
            ".a.b.0123456789abcdef.howdah-part",
            ".a.0123456789abc/ef.howdah-part",
        ] {
            assert!(!is_temp_name(other.as_bytes(), &prefix), "{other}");
            assert_eq!(
                is_part(other.as_bytes()),
                other.starts_with(".a.b."),
                "{other}"
            );
        }
    }

    #[test]
    fn t18_names_fit_what_the_disk_takes() {
        for max in [1, 33, 34, 64, 143, 255] {
            for target in ["a", &"x".repeat(255), &"\u{e9}".repeat(71)] {
                let target = OsStr::new(target);
                let temp = with_digits(target, room(max), 5);
                let journal = journal_name(&temp).unwrap();
                // The shortest has nothing of its target's name.
                assert!(journal.len() <= max.max(OVERHEAD), "{max}");
                let kept = kept_of(target.as_bytes(), room(max));
                for name in [&temp, &journal] {
                    assert_eq!(target_in(name.as_bytes()), Some(kept), "{max}");
                }
            }
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_what_is_ours_and_nobodys_goes() {
        let dir = tempfile::tempdir().unwrap();
        let (path, fd) = (dir.path(), open(dir.path()));
        let temp = |digit: &str| format!(".target.{}.howdah-part", digit.repeat(16));
        let journal = |digit: &str| format!(".target.{}.howdah-journal", digit.repeat(16));
        make(path, &temp("0"), 0o600);
        let held = make(path, &temp("1"), 0o600);
        assert_eq!(lock(&held), Lock::Ours);
        // Complete but for its name, when its process was killed.
        make(path, &temp("2"), 0o644);
        // The same, and somebody else's: only root may make, or take, one.
        make(path, &temp("8"), 0o644);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(path.join(temp("8")), Some(12_345), None).unwrap();
        }
        // A journal that says nothing: perhaps of a later version of ours.
        make(path, &temp("9"), 0o644);
        make(path, &journal("9"), 0o600);
        symlink("elsewhere", path.join(temp("3"))).unwrap();
        fs::create_dir(path.join(temp("4"))).unwrap();
        // A link and a further name that were to take the place of something else; and one that somebody writes to.
        make(path, &temp("5"), 0o644);
        fs::hard_link(path.join(temp("5")), path.join("kept")).unwrap();
        let written = make(path, &temp("a"), 0o600);
        assert_eq!(lock(&written), Lock::Ours);
        fs::hard_link(path.join(temp("a")), path.join("written")).unwrap();
        make(path, ".other.0000000000000000.howdah-part", 0o600);
        make(path, "target", 0o600);
        make(path, &journal("0"), 0o600);
        make(path, &journal("1"), 0o600);
        make(path, &journal("6"), 0o600);
        make(path, &journal("7"), 0o644);
        let mut expected = names(path);
        let parts = [temp("0"), temp("2"), temp("8"), temp("3"), temp("5")];
        let journals = [journal("0"), journal("6")];
        expected.retain(|name| !parts.contains(name) && !journals.contains(name));
        let spared = temp("0");
        assert_eq!(
            remove_stale(&fd, OsStr::new("target"), Some(OsStr::new(&spared))),
            parts.len() - 1
        );
        assert!(names(path).contains(&spared) && names(path).contains(&journal("0")));
        assert_eq!(remove_stale(&fd, OsStr::new("target"), None), 1);
        assert_eq!(names(path), expected);
        drop(held);
        assert_eq!(
            remove_stale(&fd, OsStr::new("target"), None),
            1,
            "its writer is gone"
        );
        fs::write(path.join(".other.0000000000000000.howdah-part"), "large").unwrap();
        // Of another mode, as a file of a tree may have it.
        make(path, &temp("2"), 0o644);
        assert_eq!(remove_abandoned(&fd, 4), 1);
        assert_eq!(remove_abandoned(&fd, 5), 1, "of any target");
        assert!(!names(path).contains(&temp("1")));
        // However large what it stands for is.
        fs::write(path.join("kept"), "larger").unwrap();
        fs::hard_link(path.join("kept"), path.join(temp("b"))).unwrap();
        symlink("elsewhere", path.join(temp("c"))).unwrap();
        assert_eq!(remove_abandoned(&fd, 0), 2);
        assert_eq!(fs::read(path.join("kept")).unwrap(), b"larger");
    }

    #[test]
    fn a_name_that_a_cleaner_took_is_made_once_more() {
        let dir = tempfile::tempdir().unwrap();
        let (path, fd) = (dir.path(), open(dir.path()));
        let (temp, name) = (temp_name(&fd, OsStr::new("link")), OsStr::new("link"));
        let mut made = 0;
        let mut make = || {
            made += 1;
            rustix::fs::symlinkat("to", &fd, &temp)
        };
        make().unwrap();
        assert_eq!(remove_abandoned(&fd, 0), 1);
        assert_eq!(give_name(&fd, &temp, name, true, &mut make), Ok(()));
        assert_eq!(made, 2);
        assert_eq!(fs::read_link(path.join("link")).unwrap(), Path::new("to"));
        // What cannot be had leaves nothing behind.
        rustix::fs::symlinkat("to", &fd, &temp).unwrap();
        let there = give_name(&fd, &temp, name, false, || Ok(()));
        assert_eq!(there, Err(Errno::EXIST));
        assert_eq!(names(path), ["link"]);
        let gone = give_name(&fd, &temp, OsStr::new("other"), true, || Ok(()));
        assert_eq!(gone, Err(Errno::NOENT), "it ends");
    }
}
