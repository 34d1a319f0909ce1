//! Who may touch which files.

use crate::session::from_store;
use crate::{Error, ErrorKind, Location, PublicKey};
use howdah_core::Rate;
use howdah_store::{GlobPlace, Matched, Root, StoreError, is_begun, is_directory, is_reserved};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Lets peers in, by their keys. Asked from the endpoint's thread and during handshakes.
pub(crate) trait Authority: Send + Sync {
    /// Whether the holder of `key` may come in at all.
    fn admits(&self, key: &PublicKey) -> bool;

    /// What a session of the holder of `key` may do; called once when it begins.
    fn enter(&self, key: &PublicKey) -> Result<Rights, Error>;

    /// What the list says about that key: its comment.
    fn comment(&self, _key: &PublicKey) -> String {
        String::new()
    }

    /// Called about ten times a second: lists may have changed meanwhile.
    fn refresh(&self) {}
}

/// What a session may do.
#[derive(Clone, Debug)]
pub(crate) struct Rights {
    reach: Reach,
    read: bool,
    write: bool,
    /// Writes new files only.
    add_only: bool,
    /// What this side sends and takes at most; the peer has no say in it.
    pub(crate) max_rate: Option<Rate>,
}

#[derive(Clone, Debug)]
enum Reach {
    /// What lies below a directory.
    Below(Arc<Root>),
    /// Whatever the user of this process can reach; relative to that home directory.
    User { home: PathBuf },
    /// Nothing, and why.
    Nowhere(Error),
}

/// A path on this machine: below an open directory, which nothing there can lead out of. An empty path
/// is the directory itself.
pub(crate) type Place = (Arc<Root>, PathBuf);

impl Rights {
    fn all(reach: Reach) -> Self {
        Self {
            reach,
            read: true,
            write: true,
            add_only: false,
            max_rate: None,
        }
    }

    /// Everything below `root`.
    pub(crate) fn below(root: Arc<Root>) -> Self {
        Self::all(Reach::Below(root))
    }

    /// Nothing: whatever is asked for is that error.
    pub(crate) fn nowhere(error: Error) -> Self {
        Self::all(Reach::Nowhere(error))
    }

    /// Everything that the user of this process may do, as with scp: absolute paths, `~`, and links in
    /// the path that was named are followed.
    pub(crate) fn of_user(home: PathBuf) -> Self {
        Self::all(Reach::User { home })
    }

    /// Takes rights away.
    pub(crate) fn restricted(mut self, read: bool, write: bool, max_rate: Option<Rate>) -> Self {
        (self.read, self.write, self.max_rate) = (read, write, max_rate);
        self
    }

    /// Takes away the right to replace, change or delete what exists.
    pub(crate) fn adding_only(mut self, add_only: bool) -> Self {
        self.add_only = add_only;
        self
    }

    /// Whether what exists must stay as it is.
    pub(crate) fn is_adding_only(&self) -> bool {
        self.add_only
    }

    /// Refuses what only readers may do.
    pub(crate) fn check_read(&self) -> Result<(), Error> {
        if self.read {
            return Ok(());
        }
        let text = "this key may write here and not read; ask whoever runs the server";
        Err(Error::new(ErrorKind::Refused, text))
    }

    /// Refuses what only writers may do.
    pub(crate) fn check_write(&self) -> Result<(), Error> {
        if self.write {
            return Ok(());
        }
        let text = "this key may read here and not write; ask whoever runs the server";
        Err(Error::new(ErrorKind::Refused, text))
    }

    /// Where something that exists lies. For a user, all links of `path` are followed.
    pub(crate) fn source(&self, path: &Path) -> Result<Place, Error> {
        self.check_read()?;
        match &self.reach {
            Reach::Below(root) => Ok((Arc::clone(root), plain(path))),
            Reach::Nowhere(error) => Err(error.clone()),
            Reach::User { home } => {
                let named = expand(home, path)?;
                let real = match fs::canonicalize(&named) {
                    // A link that leads nowhere is itself.
                    Err(_) if named.is_symlink() => {
                        let above = named.parent().unwrap_or(&named);
                        let above = fs::canonicalize(above).map_err(|e| trouble(&named, &e))?;
                        above.join(named.file_name().unwrap_or_default())
                    }
                    real => real.map_err(|e| trouble(&named, &e))?,
                };
                match (real.parent(), real.file_name()) {
                    (Some(parent), Some(name)) => open(parent, name),
                    _ => open(&real, OsStr::new("")),
                }
            }
        }
    }

    /// What a name with wildcards means, each as it would be named.
    pub(crate) fn expand(
        &self,
        pattern: &Path,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<Matched>, Error> {
        self.check_read()?;
        let stored = |e| from_store(&e);
        match &self.reach {
            Reach::Below(root) => {
                howdah_store::expand(&GlobPlace::Below(root), pattern, is_stopped).map_err(stored)
            }
            Reach::Nowhere(error) => Err(error.clone()),
            Reach::User { home } => {
                let named = expand(home, pattern)?;
                let found = howdah_store::expand(&GlobPlace::User, &named, is_stopped);
                let mut found = found.map_err(stored)?;
                let tilde = pattern.as_os_str().as_bytes().starts_with(b"~");
                for matched in &mut found {
                    let Ok(below) = matched.path.strip_prefix(home) else {
                        continue;
                    };
                    let made_up = Location::try_from(below.as_os_str());
                    if tilde {
                        matched.path = Path::new("~").join(below);
                    } else if pattern.is_relative() {
                        // A file may be called like something that is made up.
                        matched.path = match made_up {
                            Ok(Location::File(_)) => below.to_owned(),
                            _ => Path::new(".").join(below),
                        };
                    }
                }
                Ok(found)
            }
        }
    }

    /// A directory whose leftovers are to be removed: a right to write, and to delete.
    pub(crate) fn leftovers(&self, path: &Path) -> Result<Place, Error> {
        let (root, at) = self.target(path)?;
        if self.add_only {
            let path = path.to_owned();
            return Err(from_store(&StoreError::MayOnlyAdd { path }));
        }
        let names = at.as_os_str().as_bytes();
        let end = names
            .iter()
            .rposition(|&b| b != b'/')
            .map_or(0, |at| at + 1);
        Ok((root, PathBuf::from(OsStr::from_bytes(&names[..end]))))
    }

    /// Where something is to lie, with directories on the way that are not there yet.
    pub(crate) fn target_to_make(&self, path: &Path) -> Result<Place, Error> {
        let Reach::User { home } = &self.reach else {
            return self.target(path);
        };
        let named = expand(home, path)?;
        let mut above = named.clone();
        while !above.exists() && !above.is_symlink() && above.pop() {}
        match named.strip_prefix(&above) {
            Ok(rest) if rest.iter().count() > 1 || is_directory(path) && !named.is_dir() => {
                self.check_write()?;
                open(&above, rest.as_os_str())
            }
            _ => self.target(path),
        }
    }

    /// Where something is to lie. For a user, a directory that exists is one whatever links lead to it.
    pub(crate) fn target(&self, path: &Path) -> Result<Place, Error> {
        self.check_write()?;
        match &self.reach {
            Reach::Below(root) => {
                // What stands in a journal is believed, so nobody may write one.
                if path.file_name().is_some_and(is_reserved) {
                    return Err(from_store(&StoreError::PathEscapes {
                        path: path.to_owned(),
                        reason: "that name is kept for unfinished copies",
                    }));
                }
                Ok((Arc::clone(root), plain(path)))
            }
            Reach::Nowhere(error) => Err(error.clone()),
            Reach::User { home } => {
                let named = expand(home, path)?;
                let bytes = path.as_os_str().as_bytes();
                let as_directory = bytes.ends_with(b"/") || bytes.ends_with(b"/.");
                // What an interrupted copy has begun is not there yet: the same copy goes on in it.
                let is_new = !as_directory && !named.is_dir() || is_begun(&named);
                match (named.parent(), named.file_name()) {
                    (Some(parent), Some(name)) if is_new => open(parent, name),
                    _ => open(&named, OsStr::new("")),
                }
            }
        }
    }
}

/// The root itself is the empty path.
fn plain(path: &Path) -> PathBuf {
    // Not as paths: "./" is no name.
    let is_root = path.as_os_str() == ".";
    if is_root {
        PathBuf::new()
    } else {
        path.to_owned()
    }
}

fn open(parent: &Path, name: &OsStr) -> Result<Place, Error> {
    let root = Root::open(parent).map_err(|e| match e {
        StoreError::NotFound { path } => from_store(&StoreError::NoDirectory { path }),
        StoreError::Io { source, path, .. }
            if source.kind() == std::io::ErrorKind::NotADirectory =>
        {
            let text = format!("{} is not a directory", path.display());
            Error::new(ErrorKind::Refused, text)
        }
        other => from_store(&other),
    })?;
    Ok((Arc::new(root.of_user()), PathBuf::from(name)))
}

fn trouble(path: &Path, error: &std::io::Error) -> Error {
    use std::io::ErrorKind as Io;
    let (kind, what) = match error.kind() {
        Io::NotFound => (ErrorKind::NotFound, "there is no such file".to_owned()),
        Io::PermissionDenied => (ErrorKind::Refused, "permission denied".to_owned()),
        _ => (ErrorKind::Io, error.to_string()),
    };
    Error::new(kind, format!("{}: {what}", path.display()))
}

/// The path that a user means.
pub(crate) fn expand(home: &Path, path: &Path) -> Result<PathBuf, Error> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.contains(&0) {
        let text = "a path cannot contain a NUL byte";
        return Err(Error::new(ErrorKind::Refused, text));
    }
    match bytes.strip_prefix(b"~") {
        Some(b"") => Ok(home.to_owned()),
        Some(rest) if rest.starts_with(b"/") => {
            let slashes = rest.iter().take_while(|&&byte| byte == b'/').count();
            Ok(home.join(OsStr::from_bytes(&rest[slashes..])))
        }
        Some(_) => Err(Error::new(
            ErrorKind::Refused,
            format!(
                "{path}: only ~ itself is a home directory here; write the path in full, or ./{path} \
                 for a name that begins with ~",
                path = path.display()
            ),
        )),
        None => Ok(home.join(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_user_names_paths_as_with_scp() {
        let dir = tempfile::tempdir().expect("a place");
        let home = dir.path().join("home");
        fs::create_dir_all(home.join("sub")).expect("made");
        fs::write(home.join("sub/file"), "x").expect("written");
        fs::write(dir.path().join("outside"), "x").expect("written");
        symlink(dir.path().join("outside"), home.join("link")).expect("a link");
        symlink(home.join("sub"), dir.path().join("way")).expect("a link");
        let rights = Rights::of_user(home.clone());
        let source = |path: &str| {
            rights
                .source(Path::new(path))
                .map(|(root, name)| root.path().join(name))
                .map_err(|e| (e.kind(), e.to_string()))
        };
        let target = |path: &str| {
            rights
                .target(Path::new(path))
                .map(|(root, name)| (root.path().to_owned(), name))
                .map_err(|e| e.kind())
        };
        let real = |path: &Path| fs::canonicalize(path).expect("exists");
        for path in ["sub/file", "~/sub/file", "./sub/../sub/file"] {
            assert_eq!(source(path), Ok(real(&home.join("sub/file"))), "{path}");
        }
        let outside = dir.path().join("outside");
        assert_eq!(source("link"), Ok(real(&outside)), "links are followed");
        assert_eq!(source("../outside"), Ok(real(&outside)));
        assert_eq!(source(&outside.display().to_string()), Ok(real(&outside)));
        assert_eq!(source("").map(|p| real(&p)), Ok(real(&home)));
        assert_eq!(source("/").as_deref(), Ok(Path::new("/")));
        assert_eq!(source("none").expect_err("absent").0, ErrorKind::NotFound);
        assert_eq!(source("~anna/x").expect_err("other").0, ErrorKind::Refused);

        let way = dir.path().join("way");
        let name = |name: &str| PathBuf::from(name);
        assert_eq!(target("new"), Ok((home.clone(), name("new"))));
        assert_eq!(target("sub"), Ok((home.join("sub"), name(""))));
        for path in ["", "~", "~/"] {
            let (root, rest) = target(path).expect("the home directory");
            assert_eq!((real(&root), rest), (real(&home), name("")), "{path:?}");
        }
        let through = format!("{}/new", way.display());
        assert_eq!(target(&through), Ok((way.clone(), name("new"))));
        assert_eq!(target("none/new"), Err(ErrorKind::Refused));
        assert_eq!(target("none/"), Err(ErrorKind::Refused));
        assert_eq!(target("sub/file/"), Err(ErrorKind::Refused));
    }

    #[test]
    fn rights_that_were_taken_away_are_missed() {
        let home = std::env::temp_dir();
        let reader = Rights::of_user(home.clone()).restricted(true, false, None);
        assert!(reader.source(Path::new("")).is_ok());
        assert_eq!(
            reader
                .target(Path::new("x"))
                .map(|_| ())
                .map_err(|e| e.kind()),
            Err(ErrorKind::Refused)
        );
        let writer = Rights::of_user(home).restricted(false, true, None);
        assert!(writer.target(Path::new("x")).is_ok());
        assert_eq!(
            writer
                .source(Path::new(""))
                .map(|_| ())
                .map_err(|e| e.kind()),
            Err(ErrorKind::Refused)
        );
    }
}
