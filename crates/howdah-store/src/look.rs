//! Single names below a root: what they are, what is in a directory, and the small changes that are no copies.

use crate::calls::retry;
use crate::descriptors::opened;
use crate::plain::check;
use crate::{Root, SourceIdentity, StoreError, is_reserved, is_room};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// What something is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FoundKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link that leads out of the root, or to nothing.
    Link,
    /// A device, a fifo, a socket.
    Other,
}

/// Something that has a name below a root. A link that stays below is what it leads to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Found {
    /// What it is.
    pub kind: FoundKind,
    /// The name is that of a symbolic link.
    pub is_link: bool,
    /// Size in bytes, times, and number: the same as long as nobody writes to it or replaces it.
    pub identity: SourceIdentity,
    /// Type and permissions, as `stat` tells them.
    pub mode: u32,
    /// Its owner's number.
    pub uid: u32,
    /// Its group's number.
    pub gid: u32,
}

impl Found {
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_lossless,
        clippy::useless_conversion,
        reason = "the fields' types differ between systems"
    )]
    fn new(stat: &Stat, is_link: bool) -> Self {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => FoundKind::File,
            FileType::Directory => FoundKind::Directory,
            FileType::Symlink => FoundKind::Link,
            _ => FoundKind::Other,
        };
        Self {
            kind,
            is_link,
            identity: SourceIdentity {
                size: stat.st_size as u64,
                mtime: (stat.st_mtime as i64, stat.st_mtime_nsec as u32),
                ctime: (stat.st_ctime as i64, stat.st_ctime_nsec as u32),
                inode: stat.st_ino as u64,
            },
            mode: stat.st_mode as u32,
            uid: stat.st_uid,
            gid: stat.st_gid,
        }
    }

    /// What an open file is now.
    ///
    /// # Errors
    /// What the system reports; `path` is for the message.
    pub fn of(file: &File, path: &Path) -> Result<Self, StoreError> {
        let stat = rustix::fs::fstat(file);
        let stat = stat.map_err(|e| StoreError::from_io(path, "examine", e))?;
        Ok(Self::new(&stat, false))
    }
}

impl Root {
    /// What has that name; the root itself if `path` is empty. Links that stay below are followed.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::PathEscapes`], and what the system reports.
    pub fn look(&self, path: &Path) -> Result<Found, StoreError> {
        if path.as_os_str().is_empty() {
            let stat = rustix::fs::fstat(self.dir());
            let stat = stat.map_err(|e| StoreError::from_io(self.path(), "examine", e))?;
            return Ok(Found::new(&stat, false));
        }
        let (parent, name) = self.parent_of(path)?;
        self.look_at(parent.as_fd(), path, name)
    }

    /// What `name` in the directory `parent` is; `path` is where it lies below the root.
    fn look_at(&self, parent: impl AsFd, path: &Path, name: &OsStr) -> Result<Found, StoreError> {
        let at = |flags| retry(|| rustix::fs::statat(&parent, name, flags));
        let stat = at(AtFlags::SYMLINK_NOFOLLOW);
        let stat = stat.map_err(|e| StoreError::from_io(path, "examine", e))?;
        let itself = Found::new(&stat, false);
        if itself.kind != FoundKind::Link {
            return Ok(itself);
        }
        let behind = if self.is_of_user() {
            at(AtFlags::empty()).ok()
        } else {
            let found = self.open_followed(path, OFlags::PATH | OFlags::CLOEXEC);
            found.ok().and_then(|fd| rustix::fs::fstat(fd).ok())
        };
        // One that leads out, or to nothing, is itself.
        let behind = behind.map(|stat| Found::new(&stat, true));
        Ok(behind.unwrap_or(Found {
            is_link: true,
            ..itself
        }))
    }

    /// The directory that `path` lies in; links on the way are followed if they stay below.
    fn parent_of<'p>(&self, path: &'p Path) -> Result<(OwnedFd, &'p OsStr), StoreError> {
        let mut names = check(path)?;
        let name = names.pop().unwrap_or_default();
        let parent = path.parent().unwrap_or_else(|| Path::new(""));
        Ok((self.open_listed(parent)?, name))
    }

    /// Opens a directory; links are followed if they stay below.
    fn open_listed(&self, path: &Path) -> Result<OwnedFd, StoreError> {
        if path.as_os_str().is_empty() {
            return self.open_dir(path);
        }
        check(path)?;
        self.open_followed(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC)
    }

    /// Tells of each name in a directory, in no order. Names of unfinished copies are left out, and so is what is gone by the
    /// time that it is looked at.
    ///
    /// # Errors
    /// As [`look`](Self::look), [`StoreError::NotADirectory`], and what `each` returns.
    pub fn look_into(
        &self,
        path: &Path,
        each: &mut dyn FnMut(&OsStr, Found) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let failed = |e| StoreError::from_io(path, "read the directory", e);
        if self.look(path)?.kind != FoundKind::Directory {
            let path = path.to_path_buf();
            return Err(StoreError::NotADirectory { path });
        }
        let dir = self.open_listed(path)?;
        let names = Dir::read_from(&dir).map_err(failed)?;
        for entry in names {
            let entry = entry.map_err(failed)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." || is_reserved(name) || is_room(name) {
                continue;
            }
            match self.look_at(dir.as_fd(), &path.join(name), name) {
                Ok(found) => each(name, found)?,
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Makes a directory, with `parents` also those that it lies in; says how many. Without `parents`, one that is there already
    /// is an error. No link is followed.
    ///
    /// # Errors
    /// [`StoreError::TargetNotAFile`] if something has the name, [`StoreError::NoDirectory`], and what the system reports.
    pub fn make_dir(&self, path: &Path, parents: bool) -> Result<u64, StoreError> {
        let names = check(path)?;
        let mut made = 0;
        let mut at = OsString::new();
        for (depth, name) in (1..).zip(&names) {
            if !at.is_empty() {
                at.push("/");
            }
            at.push(name);
            let is_last = depth == names.len();
            if !is_last && !parents {
                continue;
            }
            made += u64::from(self.make_one(Path::new(&at), !parents)?);
        }
        Ok(made)
    }

    /// Whether it was not there yet.
    fn make_one(&self, path: &Path, anew: bool) -> Result<bool, StoreError> {
        let (parent, name) = self.open_parent(path).map_err(|e| match e {
            StoreError::NotFound { path } => StoreError::NoDirectory { path },
            other => other,
        })?;
        let mode = Mode::from_raw_mode(0o777);
        match retry(|| rustix::fs::mkdirat(&parent, name, mode)) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => {
                let found = self.look_at(parent.as_fd(), path, name)?;
                if found.kind == FoundKind::Directory && !anew {
                    return Ok(false);
                }
                let what = match found.kind {
                    FoundKind::Directory => "a directory",
                    FoundKind::File => "a file",
                    FoundKind::Link => "a symbolic link",
                    FoundKind::Other => "a device, fifo or socket",
                };
                let path = path.to_path_buf();
                Err(StoreError::TargetNotAFile { path, what })
            }
            Err(e) => Err(StoreError::from_io(path, "make the directory", e)),
        }
    }

    /// Removes a file or link, or an empty directory if that is said. No link is followed.
    ///
    /// # Errors
    /// What the system reports.
    pub fn remove(&self, path: &Path, is_dir: bool) -> Result<(), StoreError> {
        let (parent, name) = self.open_parent(path)?;
        let flags = if is_dir {
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        let removed = retry(|| rustix::fs::unlinkat(&parent, name, flags));
        removed.map_err(|e| StoreError::from_io(path, "remove", e))
    }

    /// Gives something another name, below this root or another one; what has that name is replaced, as `rename` does it. No link
    /// is followed.
    ///
    /// # Errors
    /// What the system reports.
    pub fn rename(&self, path: &Path, there: &Self, target: &Path) -> Result<(), StoreError> {
        let (from, old) = self.open_parent(path)?;
        let (to, new) = there.open_parent(target)?;
        let renamed = retry(|| rustix::fs::renameat(&from, old, &to, new));
        renamed.map_err(|e| StoreError::from_io(path, "rename", e))
    }

    /// Opens something below the root; links are followed if they stay below.
    fn open_followed(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, StoreError> {
        if self.is_of_user() {
            let named = self.path().join(path);
            let fd = opened(|| rustix::fs::openat(self.dir(), path, flags, Mode::empty()));
            return fd.map_err(|e| StoreError::from_io(&named, "open", e));
        }
        self.open_below(path, flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn site() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("root/sub")).unwrap();
        fs::write(dir.path().join("secret"), "s").unwrap();
        fs::write(dir.path().join("root/sub/file"), "four").unwrap();
        let root = Root::open(dir.path().join("root")).unwrap();
        (dir, root)
    }

    fn names(root: &Root, path: &str) -> Vec<(String, FoundKind, bool)> {
        let mut all = Vec::new();
        let mut each = |name: &OsStr, found: Found| {
            all.push((name.to_str().unwrap().to_owned(), found.kind, found.is_link));
            Ok(())
        };
        root.look_into(Path::new(path), &mut each).unwrap();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    #[test]
    fn a73_a_directory_is_told_and_links_out_of_the_root_are_not_followed() {
        let (dir, root) = site();
        let at = |name: &str| dir.path().join("root").join(name);
        symlink("../secret", at("out")).unwrap();
        symlink("sub/file", at("in")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        symlink("sub", at("way")).unwrap();
        fs::write(at(".x.0123456789abcdef.howdah-part"), "x").unwrap();
        let link = |name: &str, kind| (name.to_owned(), kind, true);
        assert_eq!(
            names(&root, ""),
            [
                link("dangling", FoundKind::Link),
                link("in", FoundKind::File),
                link("out", FoundKind::Link),
                ("sub".to_owned(), FoundKind::Directory, false),
                link("way", FoundKind::Directory),
            ]
        );
        assert_eq!(names(&root, "way").len(), 1);
        assert_eq!(root.look(Path::new("way/file")).unwrap().identity.size, 4);
        assert_eq!(root.look(Path::new("out")).unwrap().kind, FoundKind::Link);
        for bad in ["../secret", "/etc", "sub/../../secret"] {
            let error = root.look(Path::new(bad)).unwrap_err();
            assert!(matches!(error, StoreError::PathEscapes { .. }), "{error}");
        }
        let error = root.look_into(Path::new("in"), &mut |_, _| Ok(()));
        assert!(matches!(error, Err(StoreError::NotADirectory { .. })));
    }

    #[test]
    fn a73_names_are_made_changed_and_removed_below_the_root_only() {
        let (dir, root) = site();
        let at = |name: &str| dir.path().join("root").join(name);
        fs::create_dir(dir.path().join("elsewhere")).unwrap();
        symlink("../elsewhere", at("out")).unwrap();
        assert_eq!(root.make_dir(Path::new("a/b/c"), true).unwrap(), 3);
        assert_eq!(root.make_dir(Path::new("a/b/d"), true).unwrap(), 1);
        let error = root.make_dir(Path::new("a"), false).unwrap_err();
        assert!(error.to_string().contains("is a directory"), "{error}");
        let error = root.make_dir(Path::new("no/x"), false).unwrap_err();
        assert!(matches!(error, StoreError::NoDirectory { .. }), "{error}");
        root.rename(Path::new("sub/file"), &root, Path::new("a/file"))
            .unwrap();
        assert_eq!(fs::read(at("a/file")).unwrap(), b"four");
        assert!(root.remove(Path::new("a"), true).is_err(), "not empty");
        root.remove(Path::new("a/file"), false).unwrap();
        root.remove(Path::new("a/b/c"), true).unwrap();
        let error = root.make_dir(Path::new("out/new"), true).unwrap_err();
        assert!(error.to_string().contains("a symbolic link"), "{error}");
        for result in [
            root.remove(Path::new("out/x"), false),
            root.rename(Path::new("sub"), &root, Path::new("out/sub")),
            root.remove(Path::new("../secret"), false),
        ] {
            let error = result.unwrap_err();
            assert!(matches!(error, StoreError::PathEscapes { .. }), "{error}");
        }
        assert_eq!(
            fs::read_dir(dir.path().join("elsewhere")).unwrap().count(),
            0
        );
    }
}
