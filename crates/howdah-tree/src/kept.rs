//! What was kept of something that is to be replaced, and undone where nothing replaces it: it would be a second name of what is still in
//! use, and whoever writes to the one writes to the other.

use super::inside::number;
use howdah_store::Root;
use howdah_store::names::rename_file;
use rustix::fd::OwnedFd;
use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What was kept of a name that something is to take, for as long as nobody knows whether it comes.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) root: Arc<Root>,
    /// The directory below the root that it was kept in.
    pub(crate) to: PathBuf,
    /// Device and inode of what had the name, and of what was kept: the same where it got a further name, or was moved.
    pub(crate) was: (u64, u64),
    pub(crate) there: (u64, u64),
}

impl Kept {
    /// Bytes that it takes, about.
    pub(crate) fn weight(&self) -> u64 {
        (size_of::<Self>() + self.to.as_os_str().len()) as u64
    }

    /// Nothing takes that name in that directory: what has it, or had to be moved, is there as before and nowhere else.
    pub(crate) fn undo(&self, dir: &OwnedFd, name: &OsStr) {
        let Ok(to) = self.root.open_dir(&self.to) else {
            return;
        };
        let at = |dir: &OwnedFd| {
            let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
            stat.map(|stat| number(&stat))
        };
        if at(&to) != Ok(self.there) {
            return;
        }
        match at(dir) {
            Ok(here) if here == self.was => {
                let _ = rustix::fs::unlinkat(&to, name, AtFlags::empty());
            }
            Err(Errno::NOENT) if self.was == self.there => {
                let _ = rename_file(&to, name, dir, name, false);
            }
            _ => {}
        }
    }

    /// The same of a name in the directory at that path.
    pub(crate) fn undo_at(&self, dir: &Path, name: &OsStr) {
        if let Ok(dir) = self.root.open_dir(dir) {
            self.undo(&dir, name);
        }
    }
}

/// The outcome of taking that name: what was kept for it is no backup if it has failed.
pub(crate) fn or_undone<T, E>(
    taken: Result<T, E>,
    kept: Option<&Kept>,
    dir: &OwnedFd,
    name: &OsStr,
) -> Result<T, E> {
    if let (Err(_), Some(kept)) = (&taken, kept) {
        kept.undo(dir, name);
    }
    taken
}
