//! Which version of which file something is.

use crate::StoreError;
use howdah_session::SourceIdentity;
use rustix::fs::Stat;
use std::fs::File;
use std::path::Path;

/// (dev, ino, size, mtime, ctime): changes whenever somebody writes to or replaces a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Identity {
    dev: u64,
    ino: u64,
    size: u64,
    mtime: (i64, u64),
    ctime: (i64, u64),
    /// How many it has, this one included.
    names: u64,
}

impl Identity {
    /// What `stat` tells of it.
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_lossless,
        reason = "the fields' types differ between systems"
    )]
    pub fn new(stat: &Stat) -> Self {
        Self {
            dev: stat.st_dev as u64,
            ino: stat.st_ino as u64,
            size: stat.st_size as u64,
            mtime: (stat.st_mtime as i64, stat.st_mtime_nsec as u64),
            ctime: (stat.st_ctime as i64, stat.st_ctime_nsec as u64),
            names: stat.st_nlink as u64,
        }
    }

    /// Of an open file; `path` is what it is called in an error.
    pub fn of(file: &File, path: &Path) -> Result<Self, StoreError> {
        let stat = rustix::fs::fstat(file).map_err(|e| StoreError::from_io(path, "examine", e))?;
        Ok(Self::new(&stat))
    }

    /// Whether `now` is the same version of the same file. That another of its names went, as when that was replaced
    /// a moment ago, counts as a change of the file, but is none.
    pub fn is_still(&self, now: &Self) -> bool {
        let same = |now: &Self| {
            (self.dev, self.ino, self.size, self.mtime) == (now.dev, now.ino, now.size, now.mtime)
        };
        self == now || now.names < self.names && same(now)
    }

    /// The same of what is there and was looked at before. A file with several names changes whenever one of them goes, comes
    /// (as a backup) or is moved (into one), which this copy may have done a moment ago; none of these is a new version.
    pub fn is_still_there(&self, now: &Self) -> bool {
        let has_others = self.names > 1 || now.names > 1;
        self.is_still(now)
            || has_others
                && (self.dev, self.ino, self.size, self.mtime)
                    == (now.dev, now.ino, now.size, now.mtime)
    }

    /// In bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether `now` may be the same file with something behind its end. Other names and rights do not matter: a log
    /// that is full gets another name.
    pub fn may_have_grown_to(&self, now: &Self) -> bool {
        (self.dev, self.ino) == (now.dev, now.ino)
            && (now.size > self.size || (now.size, now.mtime) == (self.size, self.mtime))
    }

    pub(crate) fn as_source(&self) -> SourceIdentity {
        SourceIdentity {
            size: self.size,
            mtime: (self.mtime.0, self.mtime.1 as u32),
            ctime: (self.ctime.0, self.ctime.1 as u32),
            inode: self.ino,
        }
    }
}
