//! Whether a directory that was opened is still where it was.

use crate::root::is_same;
use crate::{Root, StoreError};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// How a directory was found.
#[derive(Debug)]
pub(crate) enum Way {
    Path(PathBuf),
    Below(Root, PathBuf),
}

impl Way {
    /// That of the directory that a path named by the user of this process lies in.
    pub(crate) fn above(path: &Path) -> Self {
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        Self::Path(above.unwrap_or_else(|| Path::new(".")).to_path_buf())
    }

    /// The same of a path below a root.
    pub(crate) fn above_in(root: &Root, path: &Path) -> Self {
        let above = path.parent().unwrap_or_else(|| Path::new(""));
        Self::Below(root.clone(), above.to_path_buf())
    }

    /// Whether it leads to that directory still. What cannot be told is as it was.
    pub(crate) fn leads_to(&self, dir: &OwnedFd) -> bool {
        match self {
            Self::Path(path) => is_same(dir, rustix::fs::stat(path)),
            Self::Below(root, path) => {
                let now = match root.open_dir(path) {
                    Ok(now) => rustix::fs::fstat(now),
                    // The second one: it is a link now.
                    Err(StoreError::NotFound { .. } | StoreError::PathEscapes { .. }) => {
                        Err(Errno::NOENT)
                    }
                    Err(_) => return true,
                };
                is_same(dir, now) && root.is_in_place()
            }
        }
    }
}
