//! What interrupted copies have left: found, and removed if nobody writes to it.

use howdah_session::reserved::{is_part, is_room, is_unfinished};
use howdah_store::descriptors::had;
use howdah_store::stale::{self, InUse};
use howdah_store::unwritable::lets_go;
use howdah_store::{Root, StoreError};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directories in each other.
const DEPTH: usize = 2048;

/// What became of it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Fate {
    /// It is gone, or would be in a dry run.
    Removed,
    /// Somebody writes to it, or it cannot be known: the disk may be another host's, too.
    InUse,
    /// It could not be removed.
    Failed,
}

/// An unfinished file or its journal.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Leftover {
    /// Below the place.
    pub path: PathBuf,
    /// Bytes that it takes on the disk.
    pub bytes: u64,
    /// What became of it.
    pub fate: Fate,
}

/// What is to be removed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leftovers {
    /// Nothing is.
    pub dry_run: bool,
    /// Only what was not modified since then, in seconds since 1970.
    pub modified_until: Option<i64>,
}

impl Leftovers {
    /// Goes through a directory and all below it; links and other file systems are followed as little as with a copy of it.
    /// `each` hears of what is found, and ends it with an error. Directories that cannot be read are told at the end.
    pub fn clean(
        &self,
        root: &Arc<Root>,
        at: &Path,
        each: &mut dyn FnMut(Leftover) -> Result<(), StoreError>,
    ) -> Result<Vec<StoreError>, StoreError> {
        self.clean_with(root, at, each, &mut |_, _| false)
    }

    /// The same; `on_room` hears of each directory in which the hosts of a plan meet, by the one that it lies in and its name, and says
    /// whether it is gone.
    pub fn clean_with(
        &self,
        root: &Arc<Root>,
        at: &Path,
        each: &mut dyn FnMut(Leftover) -> Result<(), StoreError>,
        on_room: &mut dyn FnMut(&OwnedFd, &OsStr) -> bool,
    ) -> Result<Vec<StoreError>, StoreError> {
        let mut unread = Vec::new();
        let mut tell = |error: StoreError| {
            if unread.len() < 8 {
                unread.push(error);
            }
        };
        // Paths, not descriptors: a tree may be deep and wide.
        let mut waiting = vec![PathBuf::new()];
        while let Some(path) = waiting.pop() {
            // Joined with nothing it would get a slash.
            let whole = if path.as_os_str().is_empty() {
                at.to_path_buf()
            } else {
                at.join(&path)
            };
            let dir = match root.open_dir(&whole) {
                Ok(dir) => dir,
                Err(error) if path.as_os_str().is_empty() => return Err(error),
                // It went away meanwhile.
                Err(StoreError::NotFound { .. }) => continue,
                Err(error) => {
                    tell(error);
                    continue;
                }
            };
            let failed = |e| StoreError::from_io(&whole, "list", e);
            let entries = had(|| Dir::read_from(&dir)).map_err(failed)?;
            let mut found: Vec<OsString> = Vec::new();
            for entry in entries {
                let entry = match entry {
                    Ok(entry) => entry,
                    Err(Errno::NOENT) => break,
                    // What lies behind it is not known.
                    Err(e) => {
                        tell(failed(e));
                        break;
                    }
                };
                let name = entry.file_name().to_bytes();
                if name == b"." || name == b".." {
                    continue;
                }
                if is_unfinished(name) {
                    found.push(OsString::from_vec(name.to_vec()));
                } else if is_dir(&dir, name, entry.file_type()) && path.iter().count() < DEPTH {
                    let name = OsStr::from_bytes(name);
                    if is_room(name) && on_room(&dir, name) {
                        continue;
                    }
                    waiting.push(path.join(name));
                }
            }
            found.sort();
            // Parts come after their journals, which says nothing: both go together.
            for name in found {
                if let Some((bytes, fate)) = self.one(&dir, &name) {
                    each(Leftover {
                        path: path.join(&name),
                        bytes,
                        fate,
                    })?;
                }
            }
        }
        Ok(unread)
    }

    /// `None`: it is none of ours, too young, or went with another one.
    #[allow(
        clippy::unnecessary_cast,
        reason = "the fields' types differ between systems"
    )]
    fn one(&self, dir: &OwnedFd, name: &OsStr) -> Option<(u64, Fate)> {
        let user = rustix::process::geteuid();
        let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let is_stand_in = stale::is_stand_in(&stat) && is_part(name.as_bytes());
        let is_ours = |stat: &Stat| {
            (is_stand_in || stale::is_plain(stat))
                && (user.is_root() || stat.st_uid == user.as_raw())
        };
        // What has other names was modified whenever, and holds nothing of its own.
        let (since, bytes) = if is_stand_in {
            (stat.st_ctime as i64, 0)
        } else {
            (stat.st_mtime as i64, stat.st_blocks as u64 * 512)
        };
        let is_young = self.modified_until.is_some_and(|until| since > until);
        if !is_ours(&stat) || is_young {
            return None;
        }
        let in_use = if is_stand_in {
            stale::stand_in_use(dir, name)
        } else {
            stale::in_use(dir, name)
        };
        // Locked until it is gone.
        let _lock = match in_use {
            InUse::Perhaps => return Some((bytes, Fate::InUse)),
            InUse::No(lock) => lock,
        };
        let gone = if self.dry_run {
            lets_go(dir, name, false).is_ok()
        } else {
            rustix::fs::unlinkat(dir, name, AtFlags::empty()).is_ok()
        };
        Some((bytes, if gone { Fate::Removed } else { Fate::Failed }))
    }
}

fn is_dir(dir: &OwnedFd, name: &[u8], kind: FileType) -> bool {
    match kind {
        FileType::Directory => true,
        FileType::Unknown => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(dir, OsStr::from_bytes(name), flags, Mode::empty()).is_ok()
        }
        _ => false,
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn make(path: &Path, bytes: usize) -> File {
        fs::write(path, vec![1; bytes]).expect("written");
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("changed");
        File::open(path).expect("opened")
    }

    #[test]
    fn what_nobody_writes_goes_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let sub = place.path().join("sub/deep");
        fs::create_dir_all(&sub).unwrap();
        let part = |digit: &str| format!(".t.{}.howdah-part", digit.repeat(16));
        let journal = |digit: &str| format!(".t.{}.howdah-journal", digit.repeat(16));
        make(&place.path().join(part("0")), 5_000);
        make(&place.path().join(journal("0")), 100);
        make(&sub.join(part("1")), 10);
        make(&sub.join(journal("2")), 10);
        let held = make(&sub.join(part("3")), 10);
        make(&sub.join(journal("3")), 10);
        assert_eq!(stale::lock(&held), stale::Lock::Ours);
        make(&sub.join("t"), 10);
        make(&sub.join(".t.howdah-part"), 10);
        // A link and a further name that were to take the place of something else.
        symlink("t", sub.join(part("4"))).unwrap();
        fs::hard_link(sub.join("t"), sub.join(part("6"))).unwrap();
        fs::create_dir(sub.join(part("5"))).unwrap();
        symlink(place.path(), sub.join("loop")).unwrap();
        let root = Arc::new(Root::open(place.path()).unwrap());
        let clean = |what: Leftovers| {
            let mut found = Vec::new();
            let unread = what.clean(&root, Path::new(""), &mut |left| {
                found.push((left.path, left.fate));
                Ok(())
            });
            assert!(unread.unwrap().is_empty());
            found.sort();
            found
        };
        let all = |fate: &dyn Fn(&str) -> Fate| {
            let deep = PathBuf::from("sub/deep");
            let mut all: Vec<_> = [("", "0", 2), ("sub/deep", "1", 1), ("", "", 0)]
                .into_iter()
                .filter(|(.., n)| *n > 0)
                .flat_map(|(dir, digit, n)| {
                    let names = [part(digit), journal(digit)];
                    names
                        .into_iter()
                        .take(n)
                        .map(move |name| Path::new(dir).join(name))
                })
                .collect();
            let others = [journal("2"), part("3"), journal("3"), part("4"), part("6")];
            all.extend(others.map(|name| deep.join(name)));
            let mut all: Vec<_> = all
                .into_iter()
                .map(|path| {
                    let fate = fate(&path.display().to_string());
                    (path, fate)
                })
                .collect();
            all.sort();
            all
        };
        let fate = |path: &str| {
            if path.contains("3333") {
                Fate::InUse
            } else {
                Fate::Removed
            }
        };
        let expected = all(&fate);
        let dry = Leftovers {
            dry_run: true,
            ..Leftovers::default()
        };
        assert_eq!(clean(dry), expected);
        let old = Leftovers {
            modified_until: Some(1_000),
            ..Leftovers::default()
        };
        assert!(clean(old).is_empty(), "all of them are young");
        assert_eq!(clean(Leftovers::default()), expected);
        let mut below = 0;
        let found = dry.clean(&root, Path::new("sub"), &mut |_| {
            below += 1;
            Ok(())
        });
        assert!(found.is_ok() && below == 2, "{below}");
        let left = clean(Leftovers::default());
        assert!(
            left.iter().all(|(_, fate)| *fate == Fate::InUse),
            "{left:?}"
        );
        assert!(sub.join("t").exists() && sub.join(part("5")).exists());
        drop(held);
        assert_eq!(clean(Leftovers::default()).len(), 2);
    }
    /// A dry run promises nothing that cannot be.
    #[test]
    fn what_cannot_be_removed_is_told_before_it_is_tried() {
        let place = tempfile::tempdir().unwrap();
        let closed = place.path().join("closed");
        fs::create_dir(&closed).unwrap();
        make(
            &closed.join(format!(".t.{}.howdah-part", "0".repeat(16))),
            10,
        );
        let Some(_closed) = crate::moved_tests::Closed::make(&closed) else {
            return;
        };
        let root = Arc::new(Root::open(place.path()).unwrap());
        for dry_run in [true, false] {
            let mut found = Vec::new();
            let what = Leftovers {
                dry_run,
                ..Leftovers::default()
            };
            let unread = what.clean(&root, Path::new(""), &mut |left| {
                found.push(left.fate);
                Ok(())
            });
            assert!(unread.unwrap().is_empty());
            assert_eq!(found, [Fate::Failed], "{dry_run}");
        }
    }
}
