//! What was named: the first things that are told.

use super::super::names::kind;
use super::super::report::Trouble;
use super::super::source_dir::SourceDir;
use super::{Gone, Top, Walker};
use howdah_store::StoreError;
use rustix::fs::{AtFlags, FileType};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Walker<'_> {
    /// Things named one by one: those that are no directories first, each part sorted.
    pub(super) fn tops(&mut self, tops: &[Top]) -> Result<(), Gone> {
        let mut dirs = Vec::new();
        let mut others = Vec::new();
        for top in tops {
            let parent = top.path.parent().unwrap_or_else(|| Path::new(""));
            // The root itself has none.
            let name = top.path.file_name().unwrap_or_default();
            let parent = Arc::new(SourceDir {
                root: Arc::clone(&top.root),
                path: parent.to_path_buf(),
                below: PathBuf::new(),
            });
            let stat = parent.open().and_then(|fd| {
                let stat = if name.is_empty() {
                    rustix::fs::fstat(&fd)
                } else {
                    rustix::fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW)
                };
                stat.map_err(|e| StoreError::from_io(&parent.shown(name), "examine", e))
                    .map(|stat| (fd, stat))
            });
            match stat {
                Ok((_, stat)) if kind(&stat) == FileType::Directory => {
                    if self.options.recursive {
                        dirs.push((&top.called, name.to_owned(), parent));
                    } else {
                        let what = "is a directory; copy it with -r";
                        self.book
                            .trouble(Trouble::Failed, &parent.shown(name), what);
                    }
                }
                Ok((fd, stat)) => {
                    others.push((&top.called, name.to_owned(), parent, fd, stat));
                }
                Err(error) => self.unreadable(&parent.shown(name), &error),
            }
        }
        others.sort_by(|a, b| a.0.cmp(b.0));
        dirs.sort_by(|a, b| a.0.cmp(b.0));
        self.moved.at_tops = true;
        for (called, name, dir, fd, stat) in others {
            if self.options.remove_source {
                self.place(&fd)?;
            }
            self.entry(&fd, &dir, name.as_bytes(), called.as_bytes(), &stat)?;
        }
        self.moved.at_tops = false;
        for (called, name, dir) in dirs {
            self.subdir(&dir, name.as_bytes(), called.as_bytes())?;
        }
        Ok(())
    }
}
