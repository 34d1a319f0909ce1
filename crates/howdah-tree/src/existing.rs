//! Directories and files at the receiver's place: made, found, kept, synced.

use super::meta;
use super::names::kind;
use super::open::open_closed;
use super::report::Trouble;
use super::shared::Shared;
use super::target::DirState;
use howdah_session::entry::Meta;
use howdah_store::StoreError;
use howdah_store::calls::retry;
use howdah_store::unwritable::takes_names;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::path::Path;

/// Makes a directory unless it is there. In a dry run (`dry_run`: of a copy that opens directories or not) none.
pub(crate) fn make_dir(
    parent: &OwnedFd,
    name: &OsStr,
    dry_run: Option<bool>,
) -> Result<DirState, Errno> {
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if kind(&stat) == FileType::Directory => Ok(DirState::There),
        Ok(_) => Err(Errno::NOTDIR),
        Err(Errno::NOENT) => {
            if let Some(opens) = dry_run {
                return takes_names(parent, opens).map(|()| DirState::Absent);
            }
            // Nobody else looks in before it is finished.
            let mode = Mode::RWXU;
            match retry(|| rustix::fs::mkdirat(parent, name, mode)) {
                Ok(()) => Ok(DirState::Fresh),
                Err(Errno::EXIST) => Ok(DirState::There),
                Err(e) => Err(e),
            }
        }
        Err(e) => Err(e),
    }
}

/// The content is right; the rest may not be.
pub(crate) fn refresh(
    shared: &Shared,
    dir: &OwnedFd,
    path: &Path,
    name: &OsStr,
    stat: &Stat,
    meta: &Meta,
) {
    let keeper = &shared.keeper;
    let found = || meta::xattrs(dir, name).map(|(found, _)| found);
    // What cannot be kept is said each time.
    let owned = keeper.is_owner(meta, stat.st_uid, stat.st_gid);
    if owned && keeper.differs(dir, stat, meta, false, found).is_empty() {
        return;
    }
    match open_closed(dir, name, stat) {
        Ok((file, was)) => {
            let not_kept = keeper.apply(&file, meta, false);
            if let Some(was) = was.filter(|_| !keeper.sets_modes()) {
                let _ = retry(|| rustix::fs::fchmod(&file, was));
            }
            for (what, e) in not_kept {
                let what = format!("{what} not kept: {e}");
                shared.book.trouble(Trouble::NotKept, path, what);
            }
        }
        Err(e) => {
            let what = format!("its attributes cannot be set: {e}");
            shared.book.trouble(Trouble::NotKept, path, what);
        }
    }
}

/// Waits while there is no room for it, as far as patience goes.
pub(crate) fn until_room<T>(
    shared: &Shared,
    path: &Path,
    operation: &'static str,
    mut attempt: impl FnMut() -> Result<T, Errno>,
) -> Result<Result<T, Errno>, StoreError> {
    shared.until_room(|| match attempt() {
        Err(e @ (Errno::NOSPC | Errno::DQUOT)) => Err(StoreError::from_io(path, operation, e)),
        result => Ok(result),
    })
}
