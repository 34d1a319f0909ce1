//! Links that are found on the way and followed (`-L`).

use super::super::inside::number;
use super::super::names::kind;
use super::super::report::Trouble;
use super::super::source_dir::SourceDir;
use super::item::{Class, Real};
use super::{Frame, Gone, Top, Walker, is_unfinished};
use howdah_session::entry::Entry;
use howdah_store::StoreError;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Stat};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) enum Link {
    /// It leads nowhere, or not where it may, and why.
    Lost(String),
    /// `.gitignore` leaves it out.
    Ignored,
    To(Found),
}

/// What a link leads to.
pub(super) struct Found {
    real: Real,
    stat: Stat,
}

impl Walker<'_> {
    /// The first symbolic link above a listed path. None is followed to find it.
    pub(super) fn link_on_the_way(&self, tops: &[Top], path: &Path) -> Option<PathBuf> {
        tops.iter().find_map(|top| {
            let called = if self.options.contents {
                OsStr::new("")
            } else {
                &*top.called
            };
            let dir = SourceDir {
                root: Arc::clone(&top.root),
                path: top.path.clone(),
                below: PathBuf::new(),
            };
            let below = path.strip_prefix(called).ok()?;
            let fd = dir.open().ok()?;
            let mut above: Vec<&Path> = below.ancestors().skip(1).collect();
            above.pop();
            for part in above.into_iter().rev() {
                let stat = rustix::fs::statat(&fd, part, AtFlags::SYMLINK_NOFOLLOW).ok()?;
                match kind(&stat) {
                    FileType::Symlink => return Some(Path::new(called).join(part)),
                    FileType::Directory => {}
                    _ => return None,
                }
            }
            None
        })
    }

    /// What a link in a directory leads to; `None`: it is left out.
    pub(super) fn link_to(&self, frame: &Frame, name: &[u8]) -> Option<Link> {
        let below = frame.dir.below.join(OsStr::from_bytes(name));
        let is_admitted = |is_dir| self.filter.is_empty() || self.filter.admits(&below, is_dir);
        if !is_admitted(false) && !is_admitted(true) {
            return None;
        }
        let found = follow(&frame.dir, name);
        let is_dir = found.as_ref().is_ok_and(Found::is_dir);
        if !is_admitted(is_dir) || !is_dir && is_unfinished(name) {
            return None;
        }
        let ignore = |ignores: &Arc<super::Ignores>| ignores.ignore(&below, is_dir);
        if frame.ignores.as_ref().is_some_and(ignore) {
            self.filter.pass_over(&below);
            return Some(Link::Ignored);
        }
        Some(match found {
            Ok(found) if is_dir && self.way.contains(&number(&found.stat)) => {
                Link::Lost("is a link to a directory that it lies in, which has no end".to_owned())
            }
            Ok(found) => Link::To(found),
            Err(StoreError::NotFound { .. }) => {
                Link::Lost("is a link to something that is not there".to_owned())
            }
            Err(error) => Link::Lost(format!("is a link that cannot be followed: {error}")),
        })
    }

    /// Tells of a link that is followed, or notes the directory that it leads to.
    pub(super) fn tell_link(
        &mut self,
        frame: &mut Frame,
        name: &[u8],
        link: &Link,
    ) -> Result<(), Gone> {
        match link {
            Link::Ignored => {
                let name = name.to_vec();
                self.put(Entry::Kept { name })
            }
            Link::Lost(why) => {
                self.lost(&frame.dir, name, why);
                self.left_out(name, super::Other::Unread)
            }
            Link::To(found) if found.is_dir() => {
                frame.subdirs.push(name, Class::DirLink);
                Ok(())
            }
            Link::To(found) => self.followed_entry(&frame.dir, name, found),
        }
    }

    /// Where a directory is that a link leads to, when it is its turn. `None`: there is none, which has been told if it is to be.
    pub(super) fn real_dir(&self, frame: &mut Frame, name: &[u8], class: Class) -> Option<Real> {
        match self.link_to(frame, name)? {
            Link::To(found) if found.is_dir() => return Some(found.real),
            // Told with the files, unless it has become one since.
            Link::To(_) | Link::Ignored => {}
            Link::Lost(why) => {
                if class == Class::DirLink {
                    self.lost(&frame.dir, name, &why);
                }
                // Whether it was one that leads nowhere before is not known here.
                frame.complete = false;
            }
        }
        None
    }

    fn lost(&self, dir: &SourceDir, name: &[u8], what: &str) {
        let shown = dir.shown(OsStr::from_bytes(name));
        self.book.trouble(Trouble::Failed, &shown, what);
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

impl Found {
    fn is_dir(&self) -> bool {
        kind(&self.stat) == FileType::Directory
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
