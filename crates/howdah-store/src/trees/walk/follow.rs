//! Links that are found on the way and followed (`-L`).

use super::super::inside::number;
use super::super::names::Names;
use super::super::report::Trouble;
use super::{Frame, Gone, SourceDir, Walker, is_unfinished, kind};
use crate::{Root, StoreError};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Stat};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where something really is: a path below a root, without links.
pub(super) type Real = (Arc<Root>, PathBuf);

/// What is known of the links in a directory.
#[derive(Default)]
pub(super) struct Followed(HashMap<Vec<u8>, Link>);

pub(super) enum Link {
    /// It leads nowhere, or not where it may; that has been told.
    Lost,
    To(Found),
}

/// What a link leads to.
pub(super) struct Found {
    real: Real,
    stat: Stat,
}

impl Followed {
    pub(super) fn take(&mut self, name: &[u8]) -> Option<Link> {
        self.0.remove(name)
    }

    /// Where that directory really is, if a link leads to it.
    pub(super) fn take_dir(&mut self, name: &[u8]) -> Option<Real> {
        match self.0.remove(name)? {
            Link::To(found) => Some(found.real),
            Link::Lost => None,
        }
    }
}

impl Walker<'_> {
    /// Sorts the links of a directory to what they lead to.
    pub(super) fn follow_all(
        &self,
        links: &Names,
        frame: &mut Frame,
        (others, ignored): (&mut Names, &mut Names),
    ) {
        for index in 0..links.len() {
            let Some(name) = links.get(index) else { break };
            let below = frame.dir.below.join(OsStr::from_bytes(name));
            let is_admitted = |is_dir| self.filter.is_empty() || self.filter.admits(&below, is_dir);
            if !is_admitted(false) && !is_admitted(true) {
                continue;
            }
            let found = follow(&frame.dir, name);
            let is_dir = found
                .as_ref()
                .is_ok_and(|f| kind(&f.stat) == FileType::Directory);
            if !is_admitted(is_dir) || !is_dir && is_unfinished(name) {
                continue;
            }
            let ignore = |ignores: &Arc<super::Ignores>| ignores.ignore(&below, is_dir);
            if frame.ignores.as_ref().is_some_and(ignore) {
                ignored.push(name);
                continue;
            }
            let link = match found {
                Ok(found) if is_dir && self.way.contains(&number(&found.stat)) => {
                    let what = "is a link to a directory that it lies in, which has no end";
                    self.lost(&frame.dir, name, what)
                }
                Ok(found) => Link::To(found),
                Err(StoreError::NotFound { .. }) => {
                    self.lost(&frame.dir, name, "is a link to something that is not there")
                }
                Err(error) => {
                    let what = format!("is a link that cannot be followed: {error}");
                    self.lost(&frame.dir, name, &what)
                }
            };
            if is_dir && matches!(link, Link::To(_)) {
                frame.subdirs.push(name);
            } else {
                others.push(name);
            }
            frame.followed.0.insert(name.to_vec(), link);
        }
    }

    fn lost(&self, dir: &SourceDir, name: &[u8], what: &str) -> Link {
        let shown = dir.shown(OsStr::from_bytes(name));
        self.book.trouble(Trouble::Failed, &shown, what);
        Link::Lost
    }

    /// Tells about something that is no directory, and that a link of that name leads to.
    pub(super) fn followed_entry(
        &mut self,
        dir: &SourceDir,
        called: &[u8],
        found: &Found,
    ) -> Result<(), Gone> {
        let (root, path) = &found.real;
        let Some((parent, name)) = at(&found.real) else {
            return Ok(());
        };
        let name = OsString::from(name);
        let above = path.parent().unwrap_or_else(|| Path::new(""));
        let dir = Arc::new(SourceDir {
            root: Arc::clone(root),
            path: above.to_path_buf(),
            below: dir.below.clone(),
        });
        match parent {
            Ok(fd) => {
                self.is_followed = true;
                let told = self.entry(&fd, &dir, name.as_bytes(), called, &found.stat);
                self.is_followed = false;
                told
            }
            Err(error) => {
                self.unreadable(&dir.shown(&name), &error);
                self.left_out(called, super::Other::Unread)
            }
        }
    }
}

fn follow(dir: &SourceDir, name: &[u8]) -> Result<Found, StoreError> {
    let real = dir.root.follow(&dir.path.join(OsStr::from_bytes(name)))?;
    let stat = if let Some((parent, name)) = at(&real) {
        rustix::fs::statat(&parent?, name, AtFlags::SYMLINK_NOFOLLOW)
    } else {
        rustix::fs::fstat(&real.0.open_dir(Path::new(""))?)
    };
    let stat = stat.map_err(|e| StoreError::from_io(&real.1, "examine", e))?;
    Ok(Found { real, stat })
}

/// The directory that it lies in, and its name there; `None`: it is the root.
fn at(real: &Real) -> Option<(Result<OwnedFd, StoreError>, &OsStr)> {
    let (root, path) = real;
    let name = path.file_name()?;
    Some((root.open_parent(path).map(|(fd, _)| fd), name))
}
