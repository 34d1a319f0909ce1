//! Names below the directory of a plan. A source decides what a tree has, a plan may come from somebody else, and others may write beside
//! us: so each name is opened from the directory that it lies in, and no link is followed, neither at its end nor on the way.

use howdah_lease::Time;
use rustix::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{
    self as sys, AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, Stat, Timespec,
    Timestamps, UTIME_OMIT,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// A directory on the way to something else: whoever may not list it may pass.
const WAY: OFlags = {
    #[cfg(target_os = "linux")]
    let flags = DIRECTORY.union(OFlags::PATH);
    #[cfg(not(target_os = "linux"))]
    let flags = DIRECTORY;
    flags
};
/// A fifo must not block, a terminal must not adopt us.
const FILE: OFlags = OFlags::NOFOLLOW
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// An open directory: the same one, whatever becomes of its name.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    path: PathBuf,
}

/// What has a name, by itself: a link is a link.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub kind: FileType,
    /// Permissions, with special bits.
    pub mode: u32,
    pub owner: u32,
    pub size: u64,
    pub inode: u64,
    pub mtime: Time,
    pub ctime: Time,
}

impl Seen {
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_lossless,
        reason = "the fields' types differ between systems"
    )]
    fn new(stat: &Stat) -> Self {
        Self {
            kind: FileType::from_raw_mode(stat.st_mode),
            mode: stat.st_mode as u32 & 0o7777,
            owner: stat.st_uid,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            inode: stat.st_ino as u64,
            mtime: (stat.st_mtime as i64, stat.st_mtime_nsec as u32),
            ctime: (stat.st_ctime as i64, stat.st_ctime_nsec as u32),
        }
    }

    pub fn is_file(&self) -> bool {
        self.kind == FileType::RegularFile
    }

    pub fn is_dir(&self) -> bool {
        self.kind == FileType::Directory
    }

    pub fn is_link(&self) -> bool {
        self.kind == FileType::Symlink
    }
}

/// Whether there is no such name, or the way to it is none: something on it is no directory, perhaps a link.
pub fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || is_no_way(error)
}

/// Whether something on the way, or what has the name, is a link, or no directory where it should be one.
pub fn is_no_way(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::LOOP | Errno::NOTDIR))
}

impl Dir {
    /// Opens a directory by a path that the user or the plan gives: links count.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = DIRECTORY.difference(OFlags::NOFOLLOW);
        let fd = retry(|| sys::open(path, flags, Mode::empty()))?;
        let path = path.to_path_buf();
        Ok(Self { fd, path })
    }

    /// One that is open already; the path is for messages.
    pub fn of(fd: OwnedFd, path: PathBuf) -> Self {
        Self { fd, path }
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The same directory once more.
    pub fn again(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }

    /// Whether that name is still the name of this very directory.
    pub fn has_that(&self, name: &Path, that: &Self) -> bool {
        let named = self
            .parent(name)
            .and_then(|(parent, last)| Ok(sys::statat(&parent, last, AtFlags::SYMLINK_NOFOLLOW)?));
        let id = |stat: &Stat| (stat.st_dev, stat.st_ino);
        matches!((named, sys::fstat(&that.fd)), (Ok(a), Ok(b)) if id(&a) == id(&b))
    }

    /// What it was opened as, for messages alone: others may give the name to something else.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A directory below; itself if that is nothing.
    pub fn dir(&self, below: &Path) -> io::Result<Self> {
        let fd = self.walk(below, DIRECTORY)?;
        let path = self.path.join(below);
        Ok(Self { fd, path })
    }

    /// Opens a directory below, a name after the other.
    fn walk(&self, below: &Path, last: OFlags) -> io::Result<OwnedFd> {
        let mut at: Option<OwnedFd> = None;
        let mut names = below.iter().peekable();
        while let Some(name) = names.next() {
            let flags = if names.peek().is_some() { WAY } else { last };
            let from = at.as_ref().map_or_else(|| self.fd.as_fd(), OwnedFd::as_fd);
            at = Some(retry(|| sys::openat(from, name, flags, Mode::empty()))?);
        }
        at.map_or_else(|| self.fd.try_clone(), Ok)
    }

    /// The directory that a name lies in, and the last part of it.
    fn parent<'n>(&self, name: &'n Path) -> io::Result<(OwnedFd, &'n OsStr)> {
        let last = name.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = self.walk(name.parent().unwrap_or_else(|| Path::new("")), WAY)?;
        Ok((parent, last))
    }

    /// What has that name; the directory itself if that is nothing.
    pub fn look(&self, name: &Path) -> io::Result<Seen> {
        if name.as_os_str().is_empty() {
            return Ok(Seen::new(&sys::fstat(&self.fd)?));
        }
        let (parent, last) = self.parent(name)?;
        let stat = retry(|| sys::statat(&parent, last, AtFlags::SYMLINK_NOFOLLOW))?;
        Ok(Seen::new(&stat))
    }

    pub fn has(&self, name: impl AsRef<Path>) -> bool {
        self.look(name.as_ref()).is_ok()
    }

    fn file(&self, name: &Path, flags: OFlags, mode: u32) -> io::Result<File> {
        let (parent, last) = self.parent(name)?;
        let bits = Mode::from_raw_mode(mode as sys::RawMode);
        let file = File::from(retry(|| sys::openat(&parent, last, FILE | flags, bits))?);
        let seen = Seen::new(&sys::fstat(&file)?);
        if !seen.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        // A umask that keeps even the owner out.
        let lost = mode & 0o600 & !seen.mode;
        if flags.contains(OFlags::CREATE) && lost != 0 {
            let bits = Mode::from_raw_mode((seen.mode | lost) as sys::RawMode);
            let _ = sys::fchmod(&file, bits);
        }
        Ok(file)
    }

    pub fn read(&self, name: &Path) -> io::Result<File> {
        self.file(name, OFlags::RDONLY, 0)
    }

    /// Its content; an error if there is more of it.
    pub fn content(&self, name: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
        bounded(self.read(name)?, most_bytes)
    }

    /// To be read and written.
    pub fn write(&self, name: &Path) -> io::Result<File> {
        self.file(name, OFlags::RDWR, 0)
    }

    /// An empty one, which stays as it is if it is there.
    pub fn touch(&self, name: &Path) -> io::Result<File> {
        self.file(name, OFlags::WRONLY | OFlags::CREATE, 0o666)
    }

    /// One that was not there.
    pub fn create(&self, name: &Path, mode: u32) -> io::Result<File> {
        self.file(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, mode)
    }

    pub fn make_dir(&self, name: &Path) -> io::Result<()> {
        self.make_dir_with(name, 0o777)
    }

    /// For its owner alone.
    pub fn make_own_dir(&self, name: &Path) -> io::Result<()> {
        self.make_dir_with(name, 0o700)
    }

    fn make_dir_with(&self, name: &Path, mode: u32) -> io::Result<()> {
        let (parent, last) = self.parent(name)?;
        let bits = Mode::from_raw_mode(mode as sys::RawMode);
        sys::mkdirat(&parent, last, bits)?;
        let made = self.look(name)?.mode;
        let lost = mode & 0o700 & !made;
        if lost != 0 {
            self.set_mode(name, made | lost)?;
        }
        Ok(())
    }

    /// Removes an empty one.
    pub fn remove_dir(&self, name: &Path) -> io::Result<()> {
        let (parent, last) = self.parent(name)?;
        Ok(sys::unlinkat(&parent, last, AtFlags::REMOVEDIR)?)
    }

    /// Removes a directory and all that is in it, or all that is in this one if that is nothing. What cannot be removed stays; the first
    /// such failure is told.
    pub fn clear(&self, below: &Path) -> io::Result<()> {
        let mut todo = vec![(below.to_path_buf(), false)];
        let mut first = Ok(());
        while let Some((dir, is_done)) = todo.pop() {
            if is_done {
                let removed = self.remove_dir(&dir);
                first = first.and(removed);
                continue;
            }
            if self.look(&dir).is_ok_and(|seen| seen.mode & 0o700 != 0o700) {
                let _ = self.set_mode(&dir, 0o700);
            }
            let names = match self.dir(&dir).and_then(|dir| dir.names()) {
                Ok(names) => names,
                Err(error) => {
                    first = first.and(Err(error));
                    continue;
                }
            };
            if !dir.as_os_str().is_empty() {
                todo.push((dir.clone(), true));
            }
            for name in names {
                let path = dir.join(name);
                let removed = self.remove_file(&path);
                match removed.as_ref().map_err(Errno::from_io_error) {
                    // A directory; of some systems' words also something that cannot be removed.
                    Err(Some(Errno::ISDIR | Errno::PERM)) => todo.push((path, false)),
                    _ => first = first.and(removed),
                }
            }
        }
        first
    }

    pub fn remove_file(&self, name: &Path) -> io::Result<()> {
        let (parent, last) = self.parent(name)?;
        Ok(sys::unlinkat(&parent, last, AtFlags::empty())?)
    }

    /// What has the new name is replaced.
    pub fn rename(&self, name: &Path, to: &Self, new: &Path) -> io::Result<()> {
        let (from, old) = self.parent(name)?;
        let (to, new) = to.parent(new)?;
        Ok(sys::renameat(&from, old, &to, new)?)
    }

    /// What has the new name stays: that is an error.
    pub fn rename_new(&self, name: &Path, to: &Self, new: &Path) -> io::Result<()> {
        let ((from, old), (at, last)) = (self.parent(name)?, to.parent(new)?);
        match sys::renameat_with(&from, old, &at, last, RenameFlags::NOREPLACE) {
            // Not every file system can do both at once.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if to.has(new) => {
                Err(io::ErrorKind::AlreadyExists.into())
            }
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                Ok(sys::renameat(&from, old, &at, last)?)
            }
            Err(Errno::EXIST | Errno::NOTEMPTY) => Err(io::ErrorKind::AlreadyExists.into()),
            result => Ok(result?),
        }
    }

    /// A file with a name of its own in there, to be written and renamed.
    pub fn create_beside(&self, name: &Path) -> io::Result<(File, PathBuf)> {
        let number = RandomState::new().build_hasher().finish();
        let beside = name.with_file_name(format!(".tmp-{number:016x}"));
        Ok((self.create(&beside, 0o600)?, beside))
    }

    /// A file that nobody else sees and that goes with its last descriptor.
    pub fn nameless(&self) -> io::Result<File> {
        #[cfg(target_os = "linux")]
        {
            let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(0o600);
            match retry(|| sys::openat(&self.fd, ".", flags, mode)) {
                // Not every file system has them.
                Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
                file => return Ok(File::from(file?)),
            }
        }
        let (file, name) = self.create_beside(Path::new("scratch"))?;
        self.remove_file(&name)?;
        Ok(file)
    }

    pub fn sync(&self) -> io::Result<()> {
        match retry(|| sys::fsync(&self.fd)) {
            // Some file systems have no such thing.
            Err(Errno::INVAL) => Ok(()),
            synced => Ok(synced?),
        }
    }

    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in sys::Dir::read_from(&self.fd)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        Ok(names)
    }

    /// Changes the permissions of what is no link.
    pub fn set_mode(&self, name: &Path, mode: u32) -> io::Result<()> {
        let bits = Mode::from_raw_mode(mode as sys::RawMode);
        if name.as_os_str().is_empty() {
            return Ok(sys::fchmod(&self.fd, bits)?);
        }
        let (parent, last) = self.parent(name)?;
        match retry(|| sys::openat(&parent, last, FILE | OFlags::RDONLY, Mode::empty())) {
            Ok(fd) => return Ok(sys::fchmod(&fd, bits)?),
            // Its owner may not read it, but may change that.
            Err(Errno::ACCESS) => {}
            Err(error) => return Err(error.into()),
        }
        #[cfg(target_os = "linux")]
        {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let fd = retry(|| sys::openat(&parent, last, flags, Mode::empty()))?;
            // A link cannot be changed that way.
            Ok(sys::chmod(
                format!("/proc/self/fd/{}", fd.as_raw_fd()),
                bits,
            )?)
        }
        #[cfg(not(target_os = "linux"))]
        Ok(sys::chmodat(
            &parent,
            last,
            bits,
            AtFlags::SYMLINK_NOFOLLOW,
        )?)
    }

    /// Sets the time of the last modification.
    pub fn set_mtime(&self, name: &Path, (seconds, ns): Time) -> io::Result<()> {
        let (parent, last) = self.parent(name)?;
        let at = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
        let times = Timestamps {
            last_access: at(0, UTIME_OMIT),
            last_modification: at(seconds, ns.into()),
        };
        Ok(sys::utimensat(
            &parent,
            last,
            &times,
            AtFlags::SYMLINK_NOFOLLOW,
        )?)
    }

    /// Whether files that this process makes in there are of another owner than the directory.
    pub fn is_of_others(&self) -> io::Result<bool> {
        let owner = self.look(Path::new(""))?.owner;
        if owner == rustix::process::geteuid().as_raw() {
            return Ok(false);
        }
        // Servers of files may take one user for another one.
        let ours = sys::fstat(&self.nameless()?)?.st_uid;
        Ok(ours != owner)
    }
}

/// Nobody else has it locked, and nobody gets it as long as it is open. `false`: somebody has.
pub fn lock(file: impl AsFd) -> io::Result<bool> {
    locked(file, FlockOperation::NonBlockingLockExclusive)
}

/// The same beside others who do this.
pub fn lock_shared(file: impl AsFd) -> io::Result<bool> {
    locked(file, FlockOperation::NonBlockingLockShared)
}

fn locked(file: impl AsFd, how: FlockOperation) -> io::Result<bool> {
    match retry(|| sys::flock(&file, how)) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// All of a file that has no more than that.
pub fn bounded(file: File, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.take(most_bytes + 1).read_to_end(&mut text)?;
    if text.len() as u64 > most_bytes {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(text)
}

/// Repeats a call that a signal interrupted.
fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}
