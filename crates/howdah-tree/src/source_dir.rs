//! Directories of the source.

use howdah_store::{Root, StoreError};
use rustix::fd::OwnedFd;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

/// A directory of the source, opened anew for each look.
#[derive(Debug)]
pub(crate) struct SourceDir {
    pub(crate) root: Arc<Root>,
    /// Below `root`; empty for the root itself.
    pub(crate) path: PathBuf,
    /// In the copy.
    pub(crate) below: PathBuf,
}

impl SourceDir {
    pub(crate) fn open(&self) -> Result<OwnedFd, StoreError> {
        self.root.open_dir(&self.path)
    }

    /// For messages.
    pub(crate) fn shown(&self, name: &OsStr) -> PathBuf {
        self.root.path().join(&self.path).join(name)
    }
}
