//! What a sender of a tree is told to send.

use super::names::kind;
use super::walk::Top;
use howdah_session::Metadata;
use howdah_session::naming::{is_contents, plain};
use howdah_store::{Root, StoreError};
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is to be copied: files and directories below open roots.
#[derive(Debug, Default)]
pub struct TreeSource {
    pub(super) tops: Vec<Top>,
    /// What was named and is not there, while something else is.
    pub(super) missing: Vec<StoreError>,
    pub(super) shows: Metadata,
}

fn not_a_directory(path: &Path) -> StoreError {
    StoreError::NotADirectory {
        path: path.to_path_buf(),
    }
}

impl TreeSource {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds something that the user of this process names. Links in the path are followed, the last one
    /// too.
    pub fn add_local(&mut self, path: &Path, contents: bool) -> Result<(), StoreError> {
        if contents || is_contents(path) {
            let root = Root::open(path).map_err(|error| match error {
                StoreError::Io { source, .. } if source.kind() == io::ErrorKind::NotADirectory => {
                    not_a_directory(path)
                }
                error => error,
            })?;
            let root = root.of_user();
            // "." of a shell whose directory somebody has removed: nothing will ever be in it.
            if root.is_removed() {
                let path = path.to_path_buf();
                return Err(StoreError::NotFound { path });
            }
            return self.add(Arc::new(root), PathBuf::new(), None);
        }
        // A slash at the end, as the Tab key puts it there, changes nothing.
        let without_slash = plain(path);
        let is_link = without_slash.is_symlink();
        match std::fs::metadata(path) {
            Ok(_) => {}
            // It points to nothing, or to itself: it is copied as a link.
            Err(e) if is_link && leads_nowhere(&e) => {}
            Err(e) => return Err(StoreError::from_io(path, "examine", e)),
        }
        let path = &*without_slash;
        // A link that is named stands for what it points to, under its own name.
        let real = match std::fs::canonicalize(path) {
            Ok(real) if is_link => real,
            _ => path.to_path_buf(),
        };
        let called = path.file_name();
        let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else {
            // The link leads to the root directory, which has a name in the copy only.
            let root = Root::open(&real)?.of_user();
            return self.add(Arc::new(root), PathBuf::new(), called);
        };
        let parent = if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        };
        let root = Root::open(parent)?.of_user();
        self.add(Arc::new(root), PathBuf::from(name), called)
    }

    /// Adds something below a root, as a peer names it; an empty path is the root's content, or the root itself if that is called
    /// something. In the copy it is `called` so.
    pub fn add_below(
        &mut self,
        root: &Arc<Root>,
        path: &Path,
        called: Option<&OsStr>,
        contents: bool,
    ) -> Result<(), StoreError> {
        let path = plain(path);
        if path.as_os_str().is_empty() || contents {
            let path = if path.as_os_str().is_empty() {
                path
            } else {
                root.resolve(&path)?
            };
            root.open_dir(&path)
                .map_err(|error| match root.open_plain(&path) {
                    Ok(_) => not_a_directory(&path),
                    Err(_) => error,
                })?;
            let called = called.filter(|_| !contents);
            return self.add(Arc::clone(root), path, called);
        }
        let real = root.resolve(&path)?;
        self.add(Arc::clone(root), real, called.or_else(|| path.file_name()))
    }

    /// Whether something is a directory, of which names would be told that nobody has named.
    pub fn has_directory(&self) -> bool {
        self.tops.iter().any(|top| {
            let is_root = top.path.as_os_str().is_empty();
            is_root || top.root.open_dir(&top.path).is_ok()
        })
    }

    /// No more of the metadata is shown, whatever is asked for.
    #[must_use]
    pub fn showing(mut self, shows: Metadata) -> Self {
        self.shows = shows;
        self
    }

    /// What was named is not there. As long as something else is, that is an error of this name only.
    pub fn note_missing(&mut self, error: StoreError) {
        self.missing.push(error);
    }

    /// What came of adding one of `named` things: what one of several lacks keeps no other from coming.
    ///
    /// # Errors
    ///
    /// What makes no sense of the whole, and whatever the only one lacks but that it is not there, which
    /// [`check`](Self::check) tells.
    pub fn or_missing(
        &mut self,
        added: Result<(), StoreError>,
        named: usize,
    ) -> Result<(), StoreError> {
        match added {
            Err(error @ StoreError::SameName { .. }) => Err(error),
            Err(error) if named > 1 || matches!(error, StoreError::NotFound { .. }) => {
                self.note_missing(error);
                Ok(())
            }
            result => result,
        }
    }

    /// Links that were named and lead nowhere are missing: who does not copy links asked for what they point to.
    pub fn refuse_dangling(&mut self) {
        let (tops, missing) = (&mut self.tops, &mut self.missing);
        tops.retain(|top| {
            let Ok((dir, name)) = top.root.open_parent(&top.path) else {
                return true;
            };
            let stat = rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW);
            let is_link = stat.is_ok_and(|stat| kind(&stat) == FileType::Symlink);
            if is_link {
                let path = top.root.path().join(&top.path);
                missing.push(StoreError::Dangling { path });
            }
            !is_link
        });
    }

    /// The error if nothing of what was named is there.
    pub fn check(&self) -> Result<(), StoreError> {
        match (self.tops.is_empty(), self.missing.first()) {
            (true, Some(error)) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Where each of them lies.
    pub fn places(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.tops.iter().map(|top| {
            let place = top.root.path().join(&top.path);
            std::fs::canonicalize(&place).unwrap_or(place)
        })
    }

    fn add(
        &mut self,
        root: Arc<Root>,
        path: PathBuf,
        called: Option<&OsStr>,
    ) -> Result<(), StoreError> {
        let called = called
            .or_else(|| path.file_name())
            .unwrap_or_default()
            .to_owned();
        if self.tops.iter().any(|top| top.called == called) {
            return Err(StoreError::SameName {
                name: called.into(),
            });
        }
        self.tops.push(Top { root, path, called });
        Ok(())
    }

    /// Whether the one source is a directory's content, not the directory.
    pub fn is_contents(&self) -> bool {
        self.tops.iter().any(|top| top.called.is_empty())
    }

    /// How many were named: of several none takes the destination's name, also if the others are missing.
    pub fn len(&self) -> usize {
        self.tops.len() + self.missing.len()
    }

    /// Whether nothing was named.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Whether it is what following a link to nothing, or in a circle, gives.
pub(crate) fn leads_nowhere(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || Errno::from_io_error(error) == Some(Errno::LOOP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TreeTarget;
    use crate::tests::{recursive, transfer};
    use std::fs;
    use std::os::unix::fs::symlink;

    /// `../` as the Tab key writes it was what is in this directory, and so was `//`; in a move that went.
    #[test]
    fn a_path_that_ends_in_dots_and_slashes_is_the_directory_that_it_leads_to() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("a/b")).unwrap();
        symlink("/", top.join("root")).unwrap();
        symlink("a/b", top.join("way")).unwrap();
        let at = |path: &str| format!("{}/{path}", top.display());
        for (path, real, contents) in [
            (at("a/.."), at(""), true),
            (at("a/../"), at(""), true),
            (at("a/b/..//"), at("a"), true),
            (at("way/../"), at("a"), true),
            (at("a/."), at("a"), true),
            (at("a/./"), at("a"), true),
            ("/".to_owned(), "/".to_owned(), true),
            ("//".to_owned(), "/".to_owned(), true),
            ("/./".to_owned(), "/".to_owned(), true),
            ("/../".to_owned(), "/".to_owned(), true),
            (at("a"), at("a"), false),
            (at("a/"), at("a"), false),
            (at("way/"), at("a/b"), false),
            (at("root"), "/".to_owned(), false),
            (at("root/"), "/".to_owned(), false),
        ] {
            let mut source = TreeSource::new();
            source.add_local(Path::new(&path), false).unwrap();
            let places: Vec<PathBuf> = source.places().collect();
            assert_eq!(places, [Path::new(&real)], "{path}");
            assert_eq!(source.is_contents(), contents, "{path}");
        }
    }

    /// What a link to the root directory is called: that it has no other name.
    #[test]
    fn a_root_that_is_called_something_has_that_name_in_the_copy() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("sub")).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(from.join("sub/f"), "text").unwrap();
        let root = Arc::new(Root::open(&from).unwrap().of_user());
        let mut source = TreeSource::new();
        let called = Some(OsStr::new("all"));
        source
            .add_below(&root, Path::new(""), called, false)
            .unwrap();
        transfer(source, TreeTarget::local(&to).unwrap(), &recursive()).unwrap();
        assert_eq!(fs::read(to.join("all/sub/f")).unwrap(), b"text");
    }
}
