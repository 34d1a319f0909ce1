//! Writes small files under temporary names.

use super::disks::SyncWay;
use super::meta::Keeper;
use super::open::from_opening_home;
use super::report::{Book, Trouble};
use super::target::{TargetDir, Wanted};
use howdah_store::descriptors::opened;
use howdah_store::stale::{self, Lock, temp_name};
use howdah_store::unwritable::{check_names, from_making};
use howdah_store::{Root, StoreError, sparse};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Weak};

/// A file that is written and has not got its name.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) wanted: Wanted,
    pub(crate) temp: OsString,
    /// Holds the lock that says that somebody cares for it.
    pub(crate) file: File,
    pub(crate) bytes: u64,
    /// BLAKE3 of what it must hold.
    pub(crate) hash: [u8; 32],
}

/// One writing thread's hands.
pub(crate) struct Writer<'a> {
    pub(crate) root: &'a Root,
    pub(crate) keeper: &'a Keeper,
    pub(crate) book: &'a Book,
    /// The directory of the last file: the next one is mostly in the same. Weak: whoever finishes directories does not
    /// wait for a writer to look for its next file.
    last: Option<(Weak<TargetDir>, OwnedFd)>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(root: &'a Root, keeper: &'a Keeper, book: &'a Book) -> Self {
        Self {
            root,
            keeper,
            book,
            last: None,
        }
    }

    /// Its directory, if files that are to be renamed can be made there.
    fn dir(&mut self, dir: &Arc<TargetDir>, wanted: &Path) -> Result<&OwnedFd, StoreError> {
        let known = self
            .last
            .as_ref()
            .is_some_and(|(last, _)| std::ptr::eq(last.as_ptr(), Arc::as_ptr(dir)));
        if !known {
            self.last = None;
        }
        match &mut self.last {
            Some((_, fd)) => Ok(fd),
            last => {
                let fd = self.root.open_dir(&dir.path);
                let fd = fd.map_err(|error| from_opening_home(wanted, error))?;
                check_names(&fd, wanted)?;
                Ok(&last.insert((Arc::downgrade(dir), fd)).1)
            }
        }
    }

    /// Writes a file under a temporary name. Of one that fails nothing is left.
    pub(crate) fn fill(
        &mut self,
        wanted: &Wanted,
        bytes: &[u8],
    ) -> Result<(OsString, File), StoreError> {
        let path = wanted.path();
        let (keeper, book) = (self.keeper, self.book);
        let dir = self.dir(&wanted.dir, &path)?;
        let (temp, file) = create(dir, &wanted.name)
            .map_err(|e| from_making(dir, &path, "create a file for", e))?;
        // Whether the source has holes is not told of small files: blocks of zeros are always left out.
        let filled = sparse::write_new(&file, bytes)
            .map_err(|e| StoreError::from_io(&path, "write", e))
            .and_then(|()| {
                for (what, e) in keeper.apply_to_file(&file, dir, &wanted.name, &wanted.meta) {
                    book.trouble(Trouble::NotKept, &path, format!("{what} not kept: {e}"));
                }
                if wanted.dir.sync == SyncWay::Each {
                    let synced = file.sync_all();
                    synced.map_err(|e| StoreError::from_io(&path, "sync", e))?;
                }
                Ok(())
            });
        if let Err(error) = filled {
            let _ = rustix::fs::unlinkat(dir, &temp, AtFlags::empty());
            return Err(error);
        }
        Ok((temp, file))
    }
}

/// Makes a file under a temporary name that is to become `name`, and locks it.
pub(super) fn create(dir: &OwnedFd, name: &OsStr) -> Result<(OsString, File), Errno> {
    // For reading, too: it may have to be read back.
    const FLAGS: OFlags = OFlags::RDWR
        .union(OFlags::CREATE)
        .union(OFlags::EXCL)
        .union(OFlags::NOFOLLOW)
        .union(OFlags::CLOEXEC);
    let mut attempts = 0;
    let mut temp = temp_name(dir, name);
    loop {
        let mode = Mode::RUSR | Mode::WUSR;
        match opened(|| rustix::fs::openat(dir, &temp, FLAGS, mode)) {
            // Somebody who tidies up saw the file before it had its lock, and takes it away.
            Ok(fd) if attempts < 16 && (stale::lock(&fd) == Lock::Taken || is_gone(&fd)) => {
                let _ = rustix::fs::unlinkat(dir, &temp, AtFlags::empty());
                temp = temp_name(dir, name);
            }
            Ok(fd) => return Ok((temp, File::from(fd))),
            Err(Errno::EXIST) if attempts < 16 => temp = temp_name(dir, name),
            Err(Errno::NAMETOOLONG) if attempts == 0 => temp = stale::short_temp_name(),
            Err(e) => return Err(e),
        }
        attempts += 1;
    }
}

fn is_gone(file: &OwnedFd) -> bool {
    rustix::fs::fstat(file).is_ok_and(|stat| stat.st_nlink == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{DirState, Finished};
    use howdah_session::Metadata;
    use howdah_session::TreeOptions;
    use howdah_session::entry::Meta;
    use std::path::PathBuf;

    /// A busy host lets a writer stand still behind its last file; the directory is finished all the same.
    #[test]
    fn a_writer_keeps_no_directory_from_being_finished() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("d")).unwrap();
        let root = Root::open(place.path()).unwrap();
        let (keeper, book) = (
            Keeper::new(&TreeOptions::default(), Metadata::All).unwrap(),
            Book::default(),
        );
        let finished = Arc::new(Finished::default());
        let dir = Arc::new(TargetDir {
            number: None,
            path: PathBuf::from("d"),
            called: None,
            state: DirState::Fresh,
            sync: SyncWay::Each,
            meta: Some(Meta::default()),
            finished: Arc::clone(&finished),
            early: None,
            parent: None,
        });
        let wanted = |name: &str| Wanted {
            kept: None,
            dir: Arc::clone(&dir),
            name: name.into(),
            size: 1,
            meta: Meta::default(),
            before: None,
            index: 0,
            link: None,
        };
        let mut writer = Writer::new(&root, &keeper, &book);
        for name in ["a", "b"] {
            writer.fill(&wanted(name), b"x").unwrap();
        }
        drop(dir);
        let paths: Vec<_> = finished.take().into_iter().map(|dir| dir.path).collect();
        assert_eq!(paths, [PathBuf::from("d")]);
    }
}
