//! What is replaced or deleted, kept in the directory for backups.

use super::inside::number;
use super::kept::{Kept, or_undone};
use super::meta::{self, Keeper};
use super::names::kind;
use super::open::open_below;
use super::open::open_plain_at;
use super::queue::lock;
use super::report::Trouble;
use super::shared::Shared;
use super::stamps::{modified, set_time};
use howdah_session::entry::Meta;
use howdah_session::naming::plain;
use howdah_store::calls::retry;
use howdah_store::descriptors::opened;
use howdah_store::identity::Identity;
use howdah_store::names::{rename_file, sync_dir};
use howdah_store::{StoreError, sparse, stale, unwritable};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

/// Gives what has that name the next free one of `NAME.~1~`, `NAME.~2~` and so on, if it is a directory or not as told.
fn keep_aside(dir: &OwnedFd, name: &OsStr, is_dir: bool) -> Result<(), Errno> {
    const NUMBERS: u32 = 10_000;
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if (kind(&stat) == FileType::Directory) == is_dir => {}
        Ok(_) | Err(Errno::NOENT) => return Ok(()),
        Err(e) => return Err(e),
    }
    for number in 1..NUMBERS {
        let suffix = format!(".~{number}~");
        let room = stale::name_max(dir).saturating_sub(suffix.len());
        let mut aside = OsStr::from_bytes(stale::kept_of(name.as_bytes(), room)).to_owned();
        aside.push(suffix);
        match rename_file(dir, name, dir, &aside, false) {
            Err(Errno::EXIST | Errno::NOTEMPTY) => {}
            result => return result,
        }
    }
    Err(Errno::EXIST)
}

/// Whether a file stays where it is until something replaces it.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Keep {
    Link,
    Move,
}

impl Shared {
    /// Keeps a directory that goes; what was in it is kept already. So an empty one is kept, too.
    pub(crate) fn back_up_dir(&self, path: &Path, stat: &Stat) -> Result<(), Errno> {
        let Some(backup) = &self.options.backup_dir else {
            return Ok(());
        };
        let kept = self.backup_of(backup, path)?;
        // Later runs put more into it.
        let mode = Mode::from_raw_mode(stat.st_mode) | Mode::RWXU;
        let _ = rustix::fs::fchmod(&kept, mode & Mode::from_raw_mode(0o777));
        let _ = set_time(&kept, modified(stat));
        Ok(())
    }

    /// That directory in the one for backups, made if need be.
    fn backup_of(&self, backup: &str, above: &Path) -> Result<OwnedFd, Errno> {
        let top = lock(&self.top).clone();
        let mut to = self.root.open_dir(&top).map_err(|_| Errno::NOENT)?;
        let backup = plain(Path::new(backup));
        // What an earlier run kept below it under a name that is to be a directory makes room, and stays. The place
        // itself is the user's.
        let parts = backup.iter().map(|part| (part, false));
        for (part, is_ours) in parts.chain(above.iter().map(|part| (part, true))) {
            let make = || rustix::fs::mkdirat(&to, part, Mode::RWXU);
            let mut made = make();
            if made == Err(Errno::EXIST) && is_ours {
                keep_aside(&to, part, false)?;
                made = make();
            }
            match made {
                Ok(()) | Err(Errno::EXIST) => to = open_below(&to, part)?,
                Err(e) => return Err(e),
            }
        }
        self.disks.note(&to);
        Ok(to)
    }

    /// Puts what has that name into the backup directory, under the same path. On another disk it becomes a copy, which is
    /// durable before anything is taken away. What can be undone of it.
    pub(crate) fn back_up(
        &self,
        dir: &OwnedFd,
        name: &OsStr,
        path: &Path,
        keep: Keep,
    ) -> Result<Option<Kept>, Errno> {
        let Some(backup) = &self.options.backup_dir else {
            return Ok(None);
        };
        let above = path.parent().unwrap_or_else(|| Path::new(""));
        let to = self.backup_of(backup, above)?;
        keep_aside(&to, name, true)?;
        let before = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kept = match keep {
            Keep::Move => move_to(dir, name, &to),
            Keep::Link => link_or_move(dir, name, &to),
        };
        if kept == Err(Errno::XDEV) {
            self.keep_copy(dir, name, &before, path, (&to, keep))?;
        } else {
            kept?;
        }
        let there = rustix::fs::statat(&to, name, AtFlags::SYMLINK_NOFOLLOW);
        let place = lock(&self.top).join(plain(Path::new(backup)));
        // Joined with nothing it would get a slash.
        let place = plain(&place.join(above));
        Ok(there.ok().map(|there| Kept {
            root: Arc::clone(&self.root),
            to: place,
            was: number(&before),
            there: number(&there),
        }))
    }

    /// Puts something else under that name. What has it is kept when `put` asks for that, and is no backup if nothing takes the name after all.
    pub(crate) fn replacing<T>(
        &self,
        dir: &OwnedFd,
        name: &OsStr,
        path: &Path,
        put: impl FnOnce(&mut dyn FnMut() -> Result<(), Errno>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let mut kept = None;
        let taken = put(&mut || {
            kept = self.back_up(dir, name, path, Keep::Link)?;
            Ok(())
        });
        or_undone(taken, kept.as_ref(), dir, name)
    }

    /// The same where that directory is on another disk.
    fn keep_copy(
        &self,
        dir: &OwnedFd,
        name: &OsStr,
        before: &Stat,
        path: &Path,
        (to, keep): (&OwnedFd, Keep),
    ) -> Result<(), Errno> {
        let backup = self.options.backup_dir.as_deref().unwrap_or_default();
        let above = path.parent().unwrap_or_else(|| Path::new(""));
        self.copy_to(dir, name, before, path, to)?;
        self.sync_way(backup, above)?;
        if keep == Keep::Move {
            let now = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if Identity::new(&now) != Identity::new(before) {
                return Err(Errno::BUSY);
            }
            retry(|| rustix::fs::unlinkat(dir, name, AtFlags::empty()))?;
        }
        Ok(())
    }

    /// Tries to keep what is called `path` until there is room for it, as far as patience goes. What else is wrong is only that
    /// name's.
    pub(crate) fn until_kept<T>(
        &self,
        dir: &OwnedFd,
        path: &Path,
        mut attempt: impl FnMut() -> Result<T, Errno>,
    ) -> Result<Result<T, StoreError>, StoreError> {
        let backup = self.options.backup_dir.as_deref().unwrap_or_default();
        let kept = lock(&self.top).join(backup).join(path);
        // How much room it takes is not how much is to come.
        let as_it_is = |error| error;
        self.room.until_room(
            || false,
            as_it_is,
            || match attempt() {
                Err(e @ (Errno::NOSPC | Errno::DQUOT)) => {
                    Err(StoreError::from_io(&kept, "back up", e))
                }
                result => Ok(result.map_err(|e| failure(dir, path, e))),
            },
        )
    }

    /// Copies a file or a link with all that it has to a directory on another disk.
    fn copy_to(
        &self,
        dir: &OwnedFd,
        name: &OsStr,
        stat: &Stat,
        path: &Path,
        to: &OwnedFd,
    ) -> Result<(), Errno> {
        let keeper = Keeper::of_everything()?;
        let meta = meta::of_stat(stat, true);
        let temp = stale::temp_name(to, name);
        let make_link = || {
            let target = rustix::fs::readlinkat(dir, name, Vec::new())?;
            rustix::fs::symlinkat(&target, to, &temp)?;
            Ok(keeper.apply_to_link(to, &temp, &meta))
        };
        let made = match kind(stat) {
            FileType::RegularFile => {
                let (xattrs, left_out) = meta::xattrs(dir, name)?;
                if left_out == meta::LeftOut::TooMany {
                    return Err(Errno::TOOBIG);
                }
                let meta = Meta {
                    xattrs,
                    ..meta.clone()
                };
                self.copy_file(dir, name, stat, (to, &temp))
                    .and_then(|file| {
                        let not_kept = keeper.apply(&file, &meta, false);
                        let synced = file.sync_all();
                        synced.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
                        Ok(not_kept)
                    })
            }
            FileType::Symlink => make_link().map(Vec::from_iter),
            // Nothing of this kind is ever copied.
            _ => return Err(Errno::XDEV),
        };
        let not_kept = made.inspect_err(|_| {
            let _ = rustix::fs::unlinkat(to, &temp, AtFlags::empty());
        })?;
        stale::give_name(to, &temp, name, true, || match kind(stat) {
            FileType::Symlink => make_link().map(drop),
            // Its lock has kept it.
            _ => Err(Errno::NOENT),
        })?;
        for (what, e) in not_kept {
            let what = format!("{what} of its backup not kept: {e}");
            self.book.trouble(Trouble::NotKept, path, what);
        }
        Ok(())
    }

    /// Its content, to a new file that nobody else can read.
    fn copy_file(
        &self,
        dir: &OwnedFd,
        name: &OsStr,
        stat: &Stat,
        (to, temp): (&OwnedFd, &OsStr),
    ) -> Result<File, Errno> {
        let from = open_plain_at(dir, name)?;
        let is_still =
            || rustix::fs::fstat(&from).map(|now| Identity::new(&now) == Identity::new(stat));
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let made = File::from(opened(|| rustix::fs::openat(to, temp, flags, mode))?);
        // Nobody tidies it up meanwhile.
        stale::lock(&made);
        let copied = sparse::copy(&from, &made, || !self.unsettled.is_stopped());
        let copied = copied.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::CANCELED));
        match copied.and_then(|()| is_still()) {
            Ok(true) => Ok(made),
            other => {
                let _ = rustix::fs::unlinkat(to, temp, AtFlags::empty());
                // Somebody writes to it.
                Err(other.err().unwrap_or(Errno::BUSY))
            }
        }
    }

    /// Makes the names durable that lead to what was kept there.
    fn sync_way(&self, backup: &str, above: &Path) -> Result<(), Errno> {
        let top = lock(&self.top).clone();
        let mut at = self.root.open_dir(&top).map_err(|_| Errno::NOENT)?;
        sync_dir(&at)?;
        let backup = plain(Path::new(backup));
        for part in backup.iter().chain(above) {
            at = open_below(&at, part)?;
            sync_dir(&at)?;
        }
        Ok(())
    }
}

/// Gives it a further name there, or moves it where the file system has none, or not of this.
fn link_or_move(dir: &OwnedFd, name: &OsStr, to: &OwnedFd) -> Result<(), Errno> {
    let temp = stale::temp_name(to, name);
    let link = || rustix::fs::linkat(dir, name, to, &temp, AtFlags::empty());
    match link() {
        Ok(()) => {
            let renamed = stale::give_name(to, &temp, name, true, link);
            // It is still there if an interrupted copy has kept the very same: then both names stay (rename(2)).
            let _ = rustix::fs::unlinkat(to, &temp, AtFlags::empty());
            renamed
        }
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => {
            rename_file(dir, name, to, name, true)
        }
        Err(e) => Err(e),
    }
}

/// Moves it there, also where an interrupted copy has given the very same that name already.
fn move_to(dir: &OwnedFd, name: &OsStr, to: &OwnedFd) -> Result<(), Errno> {
    rename_file(dir, name, to, name, true)?;
    let at = |dir: &OwnedFd| rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok();
    match (at(dir), at(to)) {
        (Some(here), Some(kept)) if number(&here) == number(&kept) => {
            retry(|| rustix::fs::unlinkat(dir, name, AtFlags::empty()))
        }
        _ => Ok(()),
    }
}

/// Why something in `dir` could not be kept.
pub(crate) fn failure(dir: &OwnedFd, path: &Path, error: Errno) -> StoreError {
    match error {
        Errno::XDEV => unwritable::not_writable(
            path,
            "it is neither file nor link, which are all that is kept on another disk, where the directory for backups lies; move it away",
        ),
        Errno::TOOBIG => unwritable::not_writable(
            path,
            "it has more than 64 extended attributes, which are not all kept on another disk, where the directory for backups lies; move it away",
        ),
        Errno::NOENT => unwritable::not_writable(
            path,
            "it cannot be kept: another program has removed or renamed the directory for backups, or what has that name, meanwhile",
        ),
        Errno::BUSY => StoreError::TargetChanged {
            path: path.to_path_buf(),
        },
        e => unwritable::from_changing(dir, path, "back up", e),
    }
}

#[cfg(test)]
mod tests {
    use crate::sync_tests::{Pair, deleting};
    use howdah_session::TreeOptions;
    use std::fs;

    /// Between keeping a file and replacing or deleting it a copy is interrupted: both names are of one file, and rename(2) leaves both.
    #[test]
    fn what_an_interrupted_copy_has_kept_goes_all_the_same_and_is_kept_once() {
        let pair = Pair::new(&["replaced"], &["replaced", "gone", ".old/before"]);
        for name in ["replaced", "gone"] {
            fs::write(pair.to(name), "what was there").unwrap();
            fs::hard_link(pair.to(name), pair.to(".old").join(name)).unwrap();
        }
        let options = TreeOptions {
            backup_dir: Some(".old".to_owned()),
            ..deleting()
        };
        let moved = pair.sync(&options).unwrap();
        assert_eq!(moved.receiver.deleted, 1, "{:?}", moved.receiver);
        let left = [
            ".old",
            ".old/before",
            ".old/gone",
            ".old/replaced",
            "replaced",
        ];
        assert_eq!(pair.names(), left);
        for name in ["replaced", "gone"] {
            let kept = fs::read(pair.to(".old").join(name)).unwrap();
            assert_eq!(kept, b"what was there");
        }
        assert_eq!(
            fs::read(pair.to("replaced")).unwrap(),
            fs::read(pair.from("replaced")).unwrap()
        );
    }
}
