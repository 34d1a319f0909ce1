//! Paths that cannot leave a directory, whatever they are called and whoever races with us.

mod found;

use crate::descriptors::opened;
use crate::plain::check;
use crate::{StoreError, unwritable};
use rustix::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Flags of every file that we read: a fifo must not block, a terminal must not adopt us.
const READ_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);
const DIR_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// An open directory that paths from the network are resolved below.
///
/// The directory stays the same one even if its name is moved or replaced.
///
/// * A path is a list of names joined by single slashes. `..`, `.`, empty names, absolute paths
///   and NUL bytes are refused before the kernel sees them.
/// * The kernel is the second wall: `openat2` with `RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS`,
///   and `RESOLVE_NO_SYMLINKS` for writing. Where there is no `openat2`, each component is opened
///   by itself with `O_NOFOLLOW`: then no symbolic link is followed at all.
#[derive(Clone, Debug)]
pub struct Root {
    dir: Arc<OwnedFd>,
    /// For messages.
    path: PathBuf,
    openat2: bool,
    /// Links may lead out.
    of_user: bool,
    /// It was opened there, so that it can be looked at again.
    opened_at: Option<PathBuf>,
}

impl Root {
    /// Opens a directory; symbolic links in `path` itself are followed.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref();
        howdah_core::may_wait();
        let dir =
            opened(|| rustix::fs::open(path, DIR_FLAGS, Mode::empty())).map_err(|e| match e {
                Errno::NOTDIR => StoreError::from_io(path, "use as a root directory", e),
                e => StoreError::from_io(path, "open the directory", e),
            })?;
        Ok(Self {
            opened_at: Some(path.to_path_buf()),
            ..Self::of_dir(dir, path)
        })
    }

    /// The same of a directory that is open already; `path` is for messages.
    pub fn of_dir(dir: OwnedFd, path: &Path) -> Self {
        Self {
            dir: Arc::new(dir),
            path: path.to_path_buf(),
            openat2: cfg!(target_os = "linux"),
            of_user: false,
            opened_at: None,
        }
    }

    /// The same for somebody who may go wherever the user of this process may: links that are
    /// followed lead out.
    #[must_use]
    pub fn of_user(mut self) -> Self {
        self.of_user = true;
        self
    }

    /// The same for somebody who does not learn where it lies: messages name what is below it, and nothing that it lies in.
    #[must_use]
    pub fn untold(mut self) -> Self {
        self.path = PathBuf::new();
        self
    }

    /// Which directory it is, as long as it is open.
    pub fn identity(&self) -> Option<(u64, u64)> {
        let stat = rustix::fs::fstat(&self.dir).ok()?;
        Some((stat.st_dev, stat.st_ino))
    }

    /// Whether it has no name any more.
    pub fn is_removed(&self) -> bool {
        rustix::fs::fstat(&self.dir).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// Whether the path that it was opened by leads to it still. What cannot be told is as it was.
    pub fn is_in_place(&self) -> bool {
        let path = self.opened_at.as_ref();
        path.is_none_or(|path| is_same(&self.dir, rustix::fs::stat(path)))
    }

    /// Whether links may lead out of it.
    pub fn is_of_user(&self) -> bool {
        self.of_user
    }

    /// Where a path leads whose last name is a link: a root, and a path below it without any link. It stays below this one
    /// if that is not [of the user](Self::of_user).
    pub fn follow(self: &Arc<Self>, path: &Path) -> Result<(Arc<Self>, PathBuf), StoreError> {
        if !self.of_user {
            let real = self.resolve_below(path)?;
            return Ok((Arc::clone(self), real));
        }
        let named = self.path.join(path);
        let failed = |e| StoreError::from_io(&named, "follow the link", e);
        let real = std::fs::canonicalize(&named);
        let real = real.map_err(|e| failed(Errno::from_io_error(&e).unwrap_or(Errno::IO)))?;
        let below = real.strip_prefix("/").map_err(|_| failed(Errno::INVAL))?;
        Ok((Self::everything()?, below.to_path_buf()))
    }

    /// The directory that all others lie in, for somebody who may go everywhere.
    pub fn everything() -> Result<Arc<Self>, StoreError> {
        static EVERYTHING: Mutex<Option<Arc<Root>>> = Mutex::new(None);
        let mut known = EVERYTHING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(root) = &*known {
            return Ok(Arc::clone(root));
        }
        let root = Arc::new(Self::open("/")?.of_user());
        *known = Some(Arc::clone(&root));
        Ok(root)
    }

    /// Where links in a path lead, as far as they stay below.
    fn resolve_below(&self, path: &Path) -> Result<PathBuf, StoreError> {
        check(path)?;
        #[cfg(target_os = "linux")]
        if self.openat2 {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            match beneath(self.dir.as_fd(), path, flags, false) {
                Ok(found) => {
                    let place = |fd: BorrowedFd<'_>| {
                        std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()
                    };
                    // What it is called may change at once: it is opened anew, and then no link is followed.
                    if let (Some(real), Some(root)) =
                        (place(found.as_fd()), place(self.dir.as_fd()))
                        && let Ok(below) = real.strip_prefix(root)
                    {
                        return Ok(below.to_path_buf());
                    }
                }
                Err(Errno::NOSYS | Errno::PERM) => {}
                Err(e) => return Err(resolve_error(path, "follow the link", e)),
            }
        }
        match self.resolve_last(path)? {
            same if same == path => Err(StoreError::NotFound { path: same }),
            real => Ok(real),
        }
    }

    /// Where it was opened, for messages; empty if whoever reads them is [not to know](Self::untold).
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a regular file below the root for reading. Links that stay below are followed.
    pub fn open_read(&self, path: &Path) -> Result<File, StoreError> {
        let shown = self.path.join(path);
        let opened = found::open_regular(&shown, |flags| self.open_below(path, flags));
        opened.map_err(|error| match error {
            StoreError::NotFound { path: named } if self.is_link(path) => {
                StoreError::Dangling { path: named }
            }
            error => error,
        })
    }

    fn is_link(&self, path: &Path) -> bool {
        let stat = self.open_parent(path).map(|(above, name)| {
            rustix::fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| stat.st_mode)
        });
        matches!(stat, Ok(Ok(mode)) if FileType::from_raw_mode(mode) == FileType::Symlink)
    }

    /// Opens something below the root. Links that stay below are followed.
    pub(crate) fn open_below(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, StoreError> {
        let names = check(path)?;
        let shown = || self.path.join(path);
        let fd = if self.openat2 {
            match beneath(self.dir.as_fd(), path, flags, false) {
                Err(Errno::NOSYS | Errno::PERM) => self.walk(&names, flags),
                Err(Errno::LOOP) if leads_in_a_circle(self.dir.as_fd(), path) => {
                    return Err(StoreError::Circular { path: shown() });
                }
                result => result,
            }
        } else {
            self.walk(&names, flags)
        };
        fd.map_err(|e| resolve_error(&shown(), "open", e))
    }

    /// The directory itself.
    pub(crate) fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Opens a directory below the root, or the root itself if `path` is empty. No link is followed.
    pub fn open_dir(&self, path: &Path) -> Result<OwnedFd, StoreError> {
        let failed = |e| resolve_error(path, "open the directory", e);
        if path.as_os_str().is_empty() {
            let opened = opened(|| rustix::fs::openat(&self.dir, ".", DIR_FLAGS, Mode::empty()));
            return opened.map_err(failed);
        }
        self.open_unlinked(path, DIR_FLAGS).map_err(|e| match e {
            Ok(error) => error,
            Err(errno) => failed(errno),
        })
    }

    /// Opens a regular file below the root for reading. No link is followed.
    pub fn open_plain(&self, path: &Path) -> Result<File, StoreError> {
        found::open_regular(path, |flags| {
            self.open_unlinked(path, flags).map_err(|e| match e {
                Ok(error) => error,
                Err(errno) => resolve_error(path, "open", errno),
            })
        })
    }

    fn open_unlinked(
        &self,
        path: &Path,
        flags: OFlags,
    ) -> Result<OwnedFd, Result<StoreError, Errno>> {
        let names = check(path).map_err(Ok)?;
        if self.openat2 {
            match beneath(self.dir.as_fd(), path, flags, true) {
                Err(Errno::NOSYS | Errno::PERM) => {}
                result => return result.map_err(Err),
            }
        }
        self.walk(&names, flags).map_err(Err)
    }

    /// Opens the directory that `path` lies in, and gives the last name. No link is followed.
    pub fn open_parent<'p>(&self, path: &'p Path) -> Result<(OwnedFd, &'p OsStr), StoreError> {
        let mut names = check(path)?;
        let name = names.pop().unwrap_or_default();
        let parent = path.parent().unwrap_or_else(|| Path::new(""));
        let fd = if names.is_empty() {
            opened(|| rustix::io::fcntl_dupfd_cloexec(&self.dir, 0))
        } else if self.openat2 {
            match beneath(self.dir.as_fd(), parent, DIR_FLAGS, true) {
                Err(Errno::NOSYS | Errno::PERM) => self.walk(&names, DIR_FLAGS),
                result => result,
            }
        } else {
            self.walk(&names, DIR_FLAGS)
        };
        let fd = fd.map_err(|e| resolve_error(parent, "open the directory", e))?;
        Ok((fd, name))
    }

    /// The open directory that `path` lies in, and the last name. No link is followed.
    pub fn above_of(&self, path: &Path) -> Result<(OwnedFd, OsString), StoreError> {
        let (dir, name) = self.open_parent(path)?;
        Ok((dir, name.to_owned()))
    }

    /// Where a path to read leads: links in it are followed as far as they stay below, but a last one that points to nothing.
    pub fn resolve(&self, path: &Path) -> Result<PathBuf, StoreError> {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return self.resolve_last(path);
        };
        match self.open_dir(above) {
            Err(StoreError::PathEscapes { .. }) if check(above).is_ok() => {
                self.resolve_last(&self.resolve_below(above)?.join(name))
            }
            // What is wrong with it is told as always.
            _ => self.resolve_last(path),
        }
    }

    /// A path below the root whose last name is no link, or one that points to nothing below: where links lead
    /// that stand at its end. Those in its middle are not followed, and none leads out.
    pub(crate) fn resolve_last(&self, path: &Path) -> Result<PathBuf, StoreError> {
        /// As many as Linux follows.
        const LINKS: usize = 40;
        let mut at = path.to_path_buf();
        for _ in 0..LINKS {
            // Refuses what leads out before anything is said about it.
            let found = self.open_parent(&at).and_then(|(parent, name)| {
                let stat = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW);
                let stat = stat.map_err(|e| StoreError::from_io(&at, "examine", e))?;
                if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
                    return Ok(None);
                }
                let target = rustix::fs::readlinkat(&parent, name, Vec::new());
                target
                    .map(Some)
                    .map_err(|e| StoreError::from_io(&at, "read the link", e))
            });
            let target = match found {
                Ok(None) => return Ok(at),
                Ok(Some(target)) => PathBuf::from(OsStr::from_bytes(target.as_bytes())),
                // The link that was named points to nothing: it is itself.
                Err(StoreError::NotFound { .. }) if at != path => return Ok(path.to_path_buf()),
                Err(error) => return Err(error),
            };
            let mut next = at.parent().map(Path::to_path_buf).unwrap_or_default();
            for part in target.components() {
                let leads_out = match part {
                    Component::Normal(name) => {
                        next.push(name);
                        false
                    }
                    Component::CurDir => false,
                    Component::ParentDir => !next.pop(),
                    Component::RootDir | Component::Prefix(_) => true,
                };
                if leads_out {
                    return Err(StoreError::PathEscapes {
                        path: path.to_path_buf(),
                        reason: "it is a link that leads out of the directory that is served",
                    });
                }
            }
            if next.as_os_str().is_empty() {
                return Err(StoreError::PathEscapes {
                    path: path.to_path_buf(),
                    reason: "it is a link to the directory that is served itself",
                });
            }
            at = next;
        }
        // In a circle: so is this one.
        Ok(path.to_path_buf())
    }

    /// `openat` name by name without following links, for systems without `openat2`.
    fn walk(&self, names: &[&OsStr], last: OFlags) -> Result<OwnedFd, Errno> {
        let mut at: Option<OwnedFd> = None;
        for (i, name) in names.iter().enumerate() {
            let flags = if i + 1 == names.len() {
                last
            } else {
                DIR_FLAGS
            };
            let dir = at.as_ref().map_or_else(|| self.dir.as_fd(), AsFd::as_fd);
            at = Some(opened(|| {
                rustix::fs::openat(dir, *name, flags | OFlags::NOFOLLOW, Mode::empty())
            })?);
        }
        at.ok_or(Errno::INVAL)
    }

    #[cfg(test)]
    pub(crate) fn without_openat2(mut self) -> Self {
        self.openat2 = false;
        self
    }
}

/// Opens a regular file that the user of this process names; links are followed.
pub(crate) fn open_local(path: &Path) -> Result<File, StoreError> {
    found::open_regular(path, |flags| {
        let fd = opened(|| rustix::fs::open(path, flags, Mode::empty()));
        fd.map_err(|e| match e {
            Errno::NOENT if path.is_symlink() => StoreError::Dangling {
                path: path.to_path_buf(),
            },
            Errno::LOOP => StoreError::Circular {
                path: path.to_path_buf(),
            },
            e => StoreError::from_io(path, "open", e),
        })
    })
}

/// Splits a path that a user of this process names into an open directory and a name.
pub(crate) fn open_local_parent(path: &Path) -> Result<(OwnedFd, &OsStr), StoreError> {
    let bytes = path.as_os_str().as_bytes();
    let not_a_file = || StoreError::TargetNotAFile {
        path: path.to_path_buf(),
        what: "the name of a directory",
    };
    if bytes.ends_with(b"/") || bytes.ends_with(b"/.") {
        return Err(not_a_file());
    }
    let name = path.file_name().ok_or_else(not_a_file)?;
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let fd =
        opened(|| rustix::fs::open(parent, DIR_FLAGS, Mode::empty())).map_err(|e| match e {
            Errno::NOTDIR => {
                unwritable::not_writable(path, "a part of its path is not a directory")
            }
            Errno::LOOP => {
                unwritable::not_writable(path, "its path passes too many symbolic links")
            }
            Errno::NAMETOOLONG => unwritable::not_writable(path, "its path is too long"),
            e => StoreError::from_io(parent, "open the directory", e),
        })?;
    Ok((fd, name))
}

fn resolve_error(path: &Path, operation: &'static str, error: Errno) -> StoreError {
    let reason = match error {
        Errno::XDEV => "it leads out of the root",
        Errno::LOOP => "it passes a symbolic link",
        // O_DIRECTORY|O_NOFOLLOW on a link, or a file where a directory should be.
        Errno::NOTDIR => "a part of it is not a directory",
        // A device without driver or a fifo opened for writing.
        Errno::NXIO | Errno::NODEV => {
            return StoreError::NotAFile {
                path: path.to_path_buf(),
                what: "a socket or device",
            };
        }
        error => return StoreError::from_io(path, operation, error),
    };
    StoreError::PathEscapes {
        path: path.to_path_buf(),
        reason,
    }
}

#[cfg(target_os = "linux")]
fn beneath(
    dir: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    no_links: bool,
) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    /// The kernel gives EAGAIN when somebody renamed something under it.
    const RACES: usize = 128;
    howdah_core::may_wait();
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if no_links {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    let mut last = Errno::AGAIN;
    for _ in 0..RACES {
        match opened(|| rustix::fs::openat2(dir, path, flags, Mode::empty(), resolve)) {
            Err(e @ Errno::AGAIN) => last = e,
            result => return result,
        }
    }
    Err(last)
}

/// Whether it is the number of links that keeps a path from being followed, and not what one of them is.
#[cfg(target_os = "linux")]
fn leads_in_a_circle(dir: BorrowedFd<'_>, path: &Path) -> bool {
    let (flags, beneath) = (
        OFlags::PATH | OFlags::CLOEXEC,
        rustix::fs::ResolveFlags::BENEATH,
    );
    let found = opened(|| rustix::fs::openat2(dir, path, flags, Mode::empty(), beneath));
    found.is_err_and(|errno| errno == Errno::LOOP)
}

#[cfg(not(target_os = "linux"))]
fn leads_in_a_circle(_: BorrowedFd<'_>, _: &Path) -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
fn beneath(_: BorrowedFd<'_>, _: &Path, _: OFlags, _: bool) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

/// Whether what was found now is the open directory `was`.
pub(crate) fn is_same(was: impl AsFd, now: Result<Stat, Errno>) -> bool {
    match (rustix::fs::fstat(was), now) {
        (Ok(was), Ok(now)) => (was.st_dev, was.st_ino) == (now.st_dev, now.st_ino),
        (_, Err(Errno::NOENT | Errno::NOTDIR)) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests;
