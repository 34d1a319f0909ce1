//! What a name stands for is looked at before it is opened: devices and fifos notice that somebody opens them, and a tape
//! rewinds (H13).

use super::READ_FLAGS;
use crate::StoreError;
use crate::descriptors::opened;
use crate::plain::irregular;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;

/// Opens a regular file for reading. `open` opens it by its name, with those flags.
pub(super) fn open_regular(
    path: &Path,
    open: impl Fn(OFlags) -> Result<OwnedFd, StoreError>,
) -> Result<File, StoreError> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fd::AsRawFd as _;
        // Such a descriptor opens nothing.
        let found = open(OFlags::PATH | OFlags::CLOEXEC)?;
        examine(&found, path)?;
        // The very same, whoever has renamed it meanwhile. Where there is no /proc, or it is closed to this process, it goes
        // by its name once more.
        let same = format!("/proc/self/fd/{}", found.as_raw_fd());
        if let Ok(fd) = opened(|| rustix::fs::open(&same, READ_FLAGS, Mode::empty())) {
            return regular(fd, path);
        }
    }
    regular(open(READ_FLAGS)?, path)
}

fn regular(fd: OwnedFd, path: &Path) -> Result<File, StoreError> {
    examine(&fd, path)?;
    Ok(File::from(fd))
}

/// Refuses what is no regular file.
fn examine(fd: impl AsFd, path: &Path) -> Result<(), StoreError> {
    let stat = rustix::fs::fstat(fd).map_err(|e| StoreError::from_io(path, "examine", e))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => Err(super::resolve_error(path, "open", Errno::LOOP)),
        kind => match irregular(kind) {
            None => Ok(()),
            Some(what) => Err(StoreError::NotAFile {
                path: path.to_path_buf(),
                what,
            }),
        },
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::super::{Root, open_local};
    use super::*;
    use rustix::fs::inotify;
    use std::mem::MaybeUninit;

    /// H13: a tape rewinds when it is opened, and who waits for a reader of a fifo goes on.
    #[test]
    fn h13_what_is_no_file_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, mode, 0).unwrap();
        std::os::unix::fs::symlink("fifo", dir.path().join("link")).unwrap();
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let watch = inotify::init(flags).unwrap();
        inotify::add_watch(&watch, &fifo, inotify::WatchFlags::OPEN).unwrap();
        let was_opened = || {
            let mut events = [MaybeUninit::uninit(); 1024];
            rustix::io::read(&watch, &mut events).is_ok()
        };
        let root = Root::open(dir.path()).unwrap();
        let plain = Root::open(dir.path()).unwrap().without_openat2();
        let name = Path::new("fifo");
        for result in [
            root.open_read(name),
            root.open_read(Path::new("link")),
            root.open_plain(name),
            plain.open_read(name),
            plain.open_plain(name),
            open_local(&fifo),
        ] {
            let error = result.unwrap_err();
            assert!(
                matches!(error, StoreError::NotAFile { what: "a fifo", .. }),
                "{error}"
            );
        }
        assert!(!was_opened());
        // That would have been seen.
        rustix::fs::open(&fifo, READ_FLAGS, Mode::empty()).unwrap();
        assert!(was_opened());
    }
}
