//! Symbolic links and further names at the place where a tree is put.

use super::entry::Meta;
use super::meta;
use super::receive::Shared;
use super::report::{Trouble, add};
use super::target::{DirState, TargetDir};
use super::walk::kind;
use crate::StoreError;
use crate::durable::rename_file;
use crate::stale::temp_name;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

/// A further name that a file is to get when it is there.
pub(super) struct LinkLater {
    pub(super) dir: Arc<TargetDir>,
    pub(super) name: OsString,
    pub(super) link: u64,
    /// No other name of that file comes.
    pub(super) last: bool,
}

/// Makes a link, in the place of a file or another link if need be. Whether it had to be made.
pub(super) fn put_symlink(
    dir: &OwnedFd,
    name: &OsStr,
    target: &OsStr,
    meta: &Meta,
    add_only: bool,
) -> Result<bool, Errno> {
    let now = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Some(stat),
        Err(Errno::NOENT) => None,
        Err(e) => return Err(e),
    };
    match now.as_ref().map(kind) {
        None | Some(FileType::RegularFile) => {}
        Some(FileType::Symlink) => {
            let there = rustix::fs::readlinkat(dir, name, Vec::new())?;
            if there.as_bytes() == target.as_bytes() {
                return Ok(false);
            }
        }
        Some(_) => return Err(Errno::EXIST),
    }
    if add_only && now.is_some() {
        return Err(Errno::EXIST);
    }
    let temp = temp_name(name);
    rustix::fs::symlinkat(target, dir, &temp)?;
    // Not every file system has times of links.
    let times = meta::times(meta.mtime);
    let _ = rustix::fs::utimensat(dir, &temp, &times, AtFlags::SYMLINK_NOFOLLOW);
    let renamed = rename_file(dir, &temp, dir, name, now.is_some());
    if renamed.is_err() {
        let _ = rustix::fs::unlinkat(dir, &temp, AtFlags::empty());
    }
    renamed.map(|()| true)
}

/// Gives a file that is there a further name.
pub(super) fn link_later(
    shared: &Shared,
    linked: &HashMap<u64, (Arc<TargetDir>, OsString)>,
    later: &LinkLater,
) {
    if shared.options.dry_run || matches!(later.dir.state, DirState::Broken | DirState::Absent) {
        return;
    }
    let path = later.dir.path.join(&later.name);
    let made = linked.get(&later.link).map(|(dir, name)| {
        let from = shared.root.open_dir(&dir.path)?;
        let to = shared.root.open_dir(&later.dir.path)?;
        put_link(&from, name, &to, &later.name, shared.add_only)
            .map_err(|e| StoreError::from_io(&path, "make the further name", e))
    });
    match made {
        Some(Ok(made)) => add(&shared.book.links, u64::from(made)),
        Some(Err(error)) => shared.book.note(Trouble::Failed, || error.to_string()),
        None => {
            let what = "is a further name of a file that was not announced";
            shared.book.trouble(Trouble::Failed, &path, what);
        }
    }
}

/// The same, where both directories are open. Whether it had to be made.
fn put_link(
    from: &OwnedFd,
    old: &OsStr,
    to: &OwnedFd,
    name: &OsStr,
    add_only: bool,
) -> Result<bool, Errno> {
    let source = rustix::fs::statat(from, old, AtFlags::SYMLINK_NOFOLLOW)?;
    if kind(&source) != FileType::RegularFile {
        return Err(Errno::NOENT);
    }
    let replace = match rustix::fs::statat(to, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(there) if (there.st_dev, there.st_ino) == (source.st_dev, source.st_ino) => {
            return Ok(false);
        }
        Ok(there) => match kind(&there) {
            FileType::RegularFile | FileType::Symlink if !add_only => true,
            _ => return Err(Errno::EXIST),
        },
        Err(Errno::NOENT) => false,
        Err(e) => return Err(e),
    };
    if !replace {
        rustix::fs::linkat(from, old, to, name, AtFlags::empty())?;
        return Ok(true);
    }
    let temp = temp_name(name);
    rustix::fs::linkat(from, old, to, &temp, AtFlags::empty())?;
    let renamed = rename_file(to, &temp, to, name, true);
    if renamed.is_err() {
        let _ = rustix::fs::unlinkat(to, &temp, AtFlags::empty());
    }
    renamed.map(|()| true)
}
