//! What is replaced or deleted, kept in the directory for backups.

use super::delete::open_below;
use super::entry::Stamp;
use super::meta;
use super::queue::lock;
use super::receive::Shared;
use super::walk::kind;
use crate::durable::rename_file;
use crate::stale;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

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
        let _ = meta::set_time(&kept, Stamp::modified(stat));
        Ok(())
    }

    /// That directory in the one for backups, made if need be.
    fn backup_of(&self, backup: &str, above: &Path) -> Result<OwnedFd, Errno> {
        let top = lock(&self.top).clone();
        let mut to = self.root.open_dir(&top).map_err(|_| Errno::NOENT)?;
        let backup = super::tree_source::plain(Path::new(backup));
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

    /// Puts what has that name into the backup directory, under the same path.
    pub(crate) fn back_up(
        &self,
        dir: &OwnedFd,
        name: &OsStr,
        path: &Path,
        keep: Keep,
    ) -> Result<(), Errno> {
        let Some(backup) = &self.options.backup_dir else {
            return Ok(());
        };
        let above = path.parent().unwrap_or_else(|| Path::new(""));
        let to = self.backup_of(backup, above)?;
        keep_aside(&to, name, true)?;
        if keep == Keep::Move {
            return rename_file(dir, name, &to, name, true);
        }
        let temp = stale::temp_name(&to, name);
        match rustix::fs::linkat(dir, name, &to, &temp, AtFlags::empty()) {
            Ok(()) => rename_file(&to, &temp, &to, name, true),
            // This file system has no further names, or not of this.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => {
                rename_file(dir, name, &to, name, true)
            }
            Err(e) => Err(e),
        }
    }
}
