//! Symbolic links and further names at the place where a tree is put.

use super::firsts::First;
use super::ignored::Told;
use super::meta::{self, Keeper, NotKept};
use super::names::kind;
use super::open::open_plain_at;
use super::report::{Book, Trouble, add};
use super::shared::Shared;
use super::stamps::modified;
use super::target::{DirState, TargetDir};
use howdah_session::entry::Meta;
use howdah_session::{Act, Reasons};
use howdah_store::descriptors::opened;
use howdah_store::same::same_file;
use howdah_store::stale::{give_name, temp_name};
use howdah_store::{StoreError, unwritable};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

/// A further name that a file is to get when it is there.
pub(super) struct LinkLater {
    pub(super) dir: Arc<TargetDir>,
    pub(super) name: OsString,
    pub(super) link: u64,
    /// No other name of that file comes.
    pub(super) last: bool,
    /// Among all links.
    pub(super) number: u64,
    /// `.gitignore` files of the source that hold in that directory.
    pub(super) rules: Option<Arc<Told>>,
}

/// Makes a link, in the place of a file or another link if need be, which `back_up` keeps. Whether it had to be
/// made, and what of it could not be kept.
pub(super) fn put_symlink(
    dir: &OwnedFd,
    name: &OsStr,
    target: &OsStr,
    (meta, keeper): (&Meta, &Keeper),
    add_only: bool,
    back_up: impl FnOnce() -> Result<(), Errno>,
) -> Result<(bool, Option<NotKept>), Errno> {
    let now = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Some(stat),
        Err(Errno::NOENT) => None,
        Err(e) => return Err(e),
    };
    match now.as_ref().map(|stat| (kind(stat), stat)) {
        None | Some((FileType::RegularFile, _)) => {}
        Some((FileType::Symlink, stat)) => {
            let there = rustix::fs::readlinkat(dir, name, Vec::new())?;
            if there.as_bytes() == target.as_bytes() {
                let differs = !keeper.link_differs(dir, stat, meta).is_empty();
                let not_kept = if add_only || keeper.link_is_owned(stat, meta) && !differs {
                    None
                } else if differs && stat.st_nlink > 1 {
                    // Its other names are not of this copy, which gives each link one.
                    make_symlink(dir, name, target, (meta, keeper), true)?
                } else {
                    keeper.apply_to_link(dir, name, meta)
                };
                return Ok((false, not_kept));
            }
        }
        Some(_) => return Err(Errno::EXIST),
    }
    if add_only && now.is_some() {
        return Err(Errno::EXIST);
    }
    if now.is_some() {
        back_up()?;
    }
    match make_symlink(dir, name, target, (meta, keeper), now.is_some()) {
        // Somebody else made the very same meanwhile.
        Err(Errno::EXIST) if is_link_to(dir, name, target) => Ok((true, None)),
        made => Ok((true, made?)),
    }
}

/// Whether a name is a link to that already.
pub(super) fn is_link_to(dir: &OwnedFd, name: &OsStr, target: &OsStr) -> bool {
    let there = rustix::fs::readlinkat(dir, name, Vec::new());
    there.is_ok_and(|there| there.as_bytes() == target.as_bytes())
}

/// Makes a link, with all that it is to have before it has its name; what of that could not be kept.
fn make_symlink(
    dir: &OwnedFd,
    name: &OsStr,
    target: &OsStr,
    (meta, keeper): (&Meta, &Keeper),
    replace: bool,
) -> Result<Option<NotKept>, Errno> {
    if unwritable::keeps_names(dir) {
        return Err(Errno::PERM);
    }
    let temp = temp_name(dir, name);
    let mut not_kept = None;
    let mut make = || {
        rustix::fs::symlinkat(target, dir, &temp)?;
        not_kept = keeper.apply_to_link(dir, &temp, meta);
        Ok(())
    };
    make()?;
    give_name(dir, &temp, name, replace, make)?;
    Ok(not_kept)
}

/// Why a link would have to be made, or changed: no reason if it is there.
pub(super) fn why_symlink(
    dir: &OwnedFd,
    name: &OsStr,
    target: &OsStr,
    (meta, keeper): (&Meta, &Keeper),
    (add_only, opens): (bool, bool),
) -> Result<(Act, Reasons), Errno> {
    let reasons = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if kind(&stat) == FileType::Symlink => {
            let there = rustix::fs::readlinkat(dir, name, Vec::new())?;
            if there.as_bytes() == target.as_bytes() {
                let differs = keeper.link_differs(dir, &stat, meta);
                let reasons = if add_only {
                    Reasons::default()
                } else {
                    differs
                };
                return Ok((Act::Change, reasons));
            }
            Reasons::TARGET
        }
        Ok(_) => Reasons::KIND,
        Err(Errno::NOENT) => Reasons::NEW,
        Err(e) => return Err(e),
    };
    if add_only && reasons != Reasons::NEW {
        return Err(Errno::EXIST);
    }
    unwritable::takes_files(dir, opens)?;
    if reasons != Reasons::NEW && unwritable::will_protect(dir, name).is_some() {
        return Err(Errno::PERM);
    }
    Ok((Act::Symlink, reasons))
}

/// Notes why a link could not be made in `dir`.
pub(super) fn note_no_symlink(book: &Book, dir: &OwnedFd, path: &Path, error: Errno) {
    let name = path.file_name().filter(|_| error == Errno::PERM);
    if name.is_some_and(|name| unwritable::protection(dir, name).is_some()) {
        return book.unwritten(&unwritable::from_changing(
            dir,
            path,
            "make the link",
            error,
        ));
    }
    let what = match error {
        Errno::ISDIR | Errno::EXIST => {
            "something else has the name of this link and was left alone"
        }
        // symlink(2): how Linux says that there are none.
        Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP => {
            "is a symbolic link, which the file system there does not have; exclude it, or copy to a disk that has them"
        }
        e => {
            return book.unwritten(&StoreError::from_io(path, "make the link", e));
        }
    };
    book.trouble(Trouble::Failed, path, what);
}

/// Gives a file that is there a further name. Whether it has it then, or would.
pub(super) fn link_later(shared: &Shared, first: Option<&First>, later: &LinkLater) -> bool {
    if shared.options.dry_run {
        return later.dir.state != DirState::Broken && first.is_some();
    }
    if matches!(later.dir.state, DirState::Broken | DirState::Absent) {
        return false;
    }
    let path = later.dir.named().join(&later.name);
    let made = first.map(|first| {
        let from = shared.root.open_dir(&first.path)?;
        let to = shared.root.open_dir(&later.dir.path)?;
        let (old, name, add_only) = (&first.name, &later.name, shared.add_only);
        let put = shared.replacing(&to, name, &shared.below_top(&path), |back_up| {
            put_link(&from, old, &to, name, add_only, back_up)
        });
        put.map_err(|e| StoreError::from_io(&path, "make the further name", e))
    });
    let is_there = matches!(made, Some(Ok(_)));
    if is_there {
        shared.placed.keep(later.dir.named(), &later.name);
    }
    match made {
        Some(Ok(Put::There)) => {}
        Some(Ok(Put::Linked)) => add(&shared.book.links, 1),
        Some(Ok(Put::Copied(e))) => {
            let what = format!("further name not kept, it is a copy: {e}");
            shared.book.trouble(Trouble::NotKept, &path, what);
        }
        Some(Err(StoreError::NotFound { .. })) => {
            let what = "is a further name of a file that does not come";
            shared.book.trouble(Trouble::Failed, &path, what);
        }
        Some(Err(error)) => shared.book.note(Trouble::Failed, || error.to_string()),
        None => {
            let what = "is a further name of a file that was not announced";
            shared.book.trouble(Trouble::Failed, &path, what);
        }
    }
    is_there
}

/// How a further name came to be.
enum Put {
    There,
    Linked,
    /// The file system has none, as it said.
    Copied(Errno),
}

/// The same, where both directories are open.
fn put_link(
    from: &OwnedFd,
    old: &OsStr,
    to: &OwnedFd,
    name: &OsStr,
    add_only: bool,
    back_up: impl FnOnce() -> Result<(), Errno>,
) -> Result<Put, Errno> {
    let source = rustix::fs::statat(from, old, AtFlags::SYMLINK_NOFOLLOW)?;
    if kind(&source) != FileType::RegularFile {
        return Err(Errno::NOENT);
    }
    let replace = match rustix::fs::statat(to, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(there) if (there.st_dev, there.st_ino) == (source.st_dev, source.st_ino) => {
            return Ok(Put::There);
        }
        Ok(there) => match kind(&there) {
            FileType::RegularFile | FileType::Symlink if !add_only => Some(there),
            // It is another file with the same content, and stays.
            FileType::RegularFile if is_same_content(from, old, to, name)? => {
                return Ok(Put::There);
            }
            _ => return Err(Errno::EXIST),
        },
        Err(Errno::NOENT) => None,
        Err(e) => return Err(e),
    };
    if replace.is_some() && !replace.is_some_and(|there| is_copy(&there, &source)) {
        back_up()?;
    }
    if replace.is_some() && unwritable::keeps_names(to) {
        return Err(Errno::PERM);
    }
    let temp = temp_name(to, name);
    let first = if replace.is_some() { &temp } else { name };
    let link = |name: &OsStr| rustix::fs::linkat(from, old, to, name, AtFlags::empty());
    match link(first) {
        Ok(()) => {
            if replace.is_some() {
                give_name(to, &temp, name, true, || link(&temp))?;
            }
            Ok(Put::Linked)
        }
        // Somebody else made the very same meanwhile.
        Err(Errno::EXIST)
            if rustix::fs::statat(to, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|there| {
                (there.st_dev, there.st_ino) == (source.st_dev, source.st_ino)
            }) =>
        {
            Ok(Put::There)
        }
        Err(e @ (Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK)) => {
            // An earlier run may have made the copy.
            if !replace.is_some_and(|there| is_copy(&there, &source)) {
                let copy = || copy_within(from, old, to, &temp, &source);
                copy()?;
                give_name(to, &temp, name, replace.is_some(), copy)?;
            }
            Ok(Put::Copied(e))
        }
        Err(e) => Err(e),
    }
}

fn is_same_content(from: &OwnedFd, old: &OsStr, to: &OwnedFd, name: &OsStr) -> Result<bool, Errno> {
    let source = open_plain_at(from, old)?;
    let size = rustix::fs::fstat(&source)?.st_size as u64;
    Ok(same_file(to, name, &source, size).is_some())
}

/// As files are compared by size and time.
fn is_copy(there: &Stat, source: &Stat) -> bool {
    kind(there) == FileType::RegularFile
        && there.st_size == source.st_size
        && modified(there).is_same_moment(modified(source))
}

/// Copies a file that is there, durably and with all that it has, to a name that nobody has.
fn copy_within(
    from: &OwnedFd,
    old: &OsStr,
    to: &OwnedFd,
    temp: &OsStr,
    source: &Stat,
) -> Result<(), Errno> {
    let mut read = open_plain_at(from, old)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let write = opened(|| rustix::fs::openat(to, temp, flags, Mode::RUSR | Mode::WUSR))?;
    let mut write = File::from(write);
    let copied = std::io::copy(&mut read, &mut write).and_then(|_| {
        let meta = Meta {
            xattrs: meta::xattrs(from, old).map_or_else(|_| Vec::new(), |(found, _)| found),
            ..meta::of_stat(source, true)
        };
        // What a file system without links does not keep either is no loss. Nobody gets the rights of an owner whose it is not.
        let _ = Keeper::of_everything()?.apply(&write, &meta, false);
        write.sync_all()
    });
    copied.map_err(|e| {
        let _ = rustix::fs::unlinkat(to, temp, AtFlags::empty());
        Errno::from_io_error(&e).unwrap_or(Errno::IO)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

    /// A file may have more names at its source than the disk here gives it (65,000 on ext4). The copy in the place of one of
    /// them is made by root as often as not, and must not be a program that anybody runs as root.
    #[test]
    fn a_copy_in_the_place_of_a_further_name_belongs_to_whom_the_file_does() {
        let dir = tempfile::tempdir().unwrap();
        let first = dir.path().join("first");
        fs::write(&first, "text").unwrap();
        if rustix::process::geteuid().is_root() {
            chown(&first, Some(12_345), Some(12_346)).unwrap();
        }
        fs::set_permissions(&first, fs::Permissions::from_mode(0o4755)).unwrap();
        let file = File::open(&first).unwrap();
        let flags = rustix::fs::XattrFlags::empty();
        // Not every disk has them.
        let _ = rustix::fs::fsetxattr(&file, "user.a", b"value", flags);
        let at: OwnedFd = File::open(dir.path()).unwrap().into();
        let (old, temp) = (OsStr::new("first"), OsStr::new("copy"));
        let stat = rustix::fs::fstat(&file).unwrap();
        copy_within(&at, old, &at, temp, &stat).unwrap();
        let look = |name: &OsStr| {
            let path = dir.path().join(name);
            let meta = fs::metadata(&path).unwrap();
            let (found, _) = meta::xattrs(&at, name).unwrap();
            let owner = (meta.uid(), meta.gid());
            (
                owner,
                meta.mode(),
                meta.modified().unwrap(),
                found,
                fs::read(path).unwrap(),
            )
        };
        assert_eq!(look(temp), look(old));
    }
}
