//! Where a tree goes, and its directories on the way.

use super::disks::SyncWay;
use super::kept::Kept;
use super::queue::lock;
use super::unfinished;
use howdah_session::entry::Meta;
use howdah_session::naming::plain;
use howdah_session::{Asked, Metadata};
use howdah_store::identity::Identity;
use howdah_store::{Quota, RoomWait, Root, StoreError, unwritable};
use rustix::fd::OwnedFd;
use rustix::fs::Mode;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The destination: something below an open root.
#[derive(Debug)]
pub struct TreeTarget {
    pub(crate) root: Arc<Root>,
    /// Below the root; empty for the root itself.
    pub(crate) at: PathBuf,
    /// What is there stays as it is.
    pub(crate) add_only: bool,
    pub(crate) room: RoomWait,
    pub(crate) asked: Asked,
    /// If it is to be made, it is a directory that the sources go into.
    pub(crate) makes_whole: bool,
    /// It is written as a directory: one file does not become it.
    pub(crate) names_directory: bool,
    /// The sender is not to learn what is there.
    pub(crate) blind: bool,
    pub(crate) quota: Quota,
    pub(crate) metadata: Metadata,
}

impl TreeTarget {
    /// A path that the user of this process names, whatever of it is there already: the rest is
    /// [made](howdah_session::TreeOptions::make_path).
    pub fn local_to_make(path: &Path) -> Result<Self, StoreError> {
        let mut above = path.to_path_buf();
        while !above.exists() && !above.is_symlink() && above.pop() {}
        let rest = path.strip_prefix(&above).unwrap_or(path);
        if rest.iter().count() < 2 && !is_directory(path) {
            return Self::local(path);
        }
        let above = if above.as_os_str().is_empty() {
            Path::new(".")
        } else {
            &*above
        };
        let root = Root::open(above).map_err(missing)?.of_user();
        Self::below_to_make(&Arc::new(root), rest, is_directory(path))
    }

    /// The same below a root. `makes_whole`: it is to be a directory.
    pub fn below_to_make(
        root: &Arc<Root>,
        path: &Path,
        makes_whole: bool,
    ) -> Result<Self, StoreError> {
        let at = plain(path);
        if !at.as_os_str().is_empty() {
            howdah_store::plain::check(&at)?;
        }
        Ok(Self {
            root: Arc::clone(root),
            at,
            add_only: false,
            room: RoomWait::default(),
            asked: Asked::default(),
            makes_whole,
            names_directory: makes_whole,
            blind: false,
            quota: Quota::default(),
            metadata: Metadata::All,
        })
    }

    /// The path that it stands for.
    pub fn place(&self) -> PathBuf {
        self.root.path().join(&self.at)
    }

    /// Nothing that exists is replaced, changed or deleted: what would be is an error of that name.
    #[must_use]
    pub fn add_only(mut self, add_only: bool) -> Self {
        self.add_only = add_only;
        self
    }

    /// The sender does not learn what is there already: everything that it names is asked for.
    #[must_use]
    pub fn blind(mut self, blind: bool) -> Self {
        self.blind = blind;
        self
    }

    /// No more than that comes.
    #[must_use]
    pub fn at_most(mut self, quota: Quota) -> Self {
        self.quota = quota;
        self
    }

    /// No more of the metadata is set, whatever is asked for.
    #[must_use]
    pub fn setting(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// Only things of these names may come; the others end the copy.
    #[must_use]
    pub fn expecting(mut self, names: impl IntoIterator<Item = OsString>) -> Self {
        self.asked = Asked::Names(names.into_iter().collect());
        self
    }

    /// Whether it was written as a directory, where that does not show any more.
    #[must_use]
    pub fn written_as_directory(mut self, is_directory: bool) -> Self {
        self.names_directory = is_directory;
        self
    }

    /// How a full disk is waited for.
    #[must_use]
    pub fn waiting(mut self, room: RoomWait) -> Self {
        self.room = room;
        self
    }

    /// The same as a path below the directory that all others lie in.
    pub(crate) fn below_everything(self) -> Result<Self, StoreError> {
        let place = self.root.path();
        let real =
            std::fs::canonicalize(place).map_err(|e| StoreError::from_io(place, "examine", e))?;
        let below = real.strip_prefix("/").unwrap_or(&real).join(&self.at);
        Ok(Self {
            root: Root::everything()?,
            at: plain(&below),
            ..self
        })
    }

    /// A path that the user of this process names; links in it are followed.
    pub fn local(path: &Path) -> Result<Self, StoreError> {
        let names_directory = is_directory(path);
        let plain = if path == Path::new("/") {
            path.to_path_buf()
        } else {
            plain(path)
        };
        let path = if plain.as_os_str().is_empty() {
            Path::new(".")
        } else {
            &*plain
        };
        let (root, at) = match path.file_name() {
            Some(name) if !path.is_dir() || unfinished::is_begun(path) => {
                let parent = match path.parent() {
                    Some(parent) if !parent.as_os_str().is_empty() => parent,
                    _ => Path::new("."),
                };
                (parent, PathBuf::from(name))
            }
            _ => (path, PathBuf::new()),
        };
        let root = Root::open(root).map_err(missing)?.of_user();
        Ok(Self {
            root: Arc::new(root),
            at,
            add_only: false,
            room: RoomWait::default(),
            asked: Asked::default(),
            makes_whole: false,
            names_directory,
            blind: false,
            quota: Quota::default(),
            metadata: Metadata::All,
        })
    }

    /// A path below a directory that the user of this process has opened, whatever becomes of its name: `named` is for messages.
    pub fn opened(dir: OwnedFd, named: &Path, below: &Path) -> Result<Self, StoreError> {
        Self::below(&Arc::new(Root::of_dir(dir, named).of_user()), below)
    }

    /// The same for a peer: no link leads out of that directory.
    pub fn within(dir: OwnedFd, named: &Path, below: &Path) -> Result<Self, StoreError> {
        Self::below(&Arc::new(Root::of_dir(dir, named)), below)
    }

    /// A path below a root, as a peer names it.
    pub fn below(root: &Arc<Root>, path: &Path) -> Result<Self, StoreError> {
        let at = plain(path);
        if !at.as_os_str().is_empty() {
            root.open_parent(&at).map_err(missing)?;
        }
        Ok(Self {
            root: Arc::clone(root),
            at,
            add_only: false,
            room: RoomWait::default(),
            asked: Asked::default(),
            makes_whole: false,
            names_directory: is_directory(path),
            blind: false,
            quota: Quota::default(),
            metadata: Metadata::All,
        })
    }
}

/// Whether a path is written as that of a directory.
pub fn is_directory(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    bytes.ends_with(b"/") || bytes.ends_with(b"/.")
}

fn missing(error: StoreError) -> StoreError {
    match error {
        StoreError::NotFound { path } => StoreError::NoDirectory { path },
        StoreError::Io { path, source, .. }
            if source.kind() == std::io::ErrorKind::NotADirectory =>
        {
            unwritable::not_writable(&path, "it is not a directory")
        }
        error => error,
    }
}

/// What is known of a directory of the destination.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DirState {
    /// Made just now: nothing is in it.
    Fresh,
    /// It was there.
    There,
    /// It is not there, and nothing is to be written.
    Absent,
    /// It cannot be made or entered: everything in it is left out.
    Broken,
}

/// A directory that nobody writes to any more.
#[derive(Debug)]
pub(crate) struct FinishedDir {
    /// Below the root.
    pub(crate) path: PathBuf,
    /// Device and inode of what was entered there, if that can be told again.
    pub(crate) number: Option<(u64, u64)>,
    /// What it is to become; `None`: it is not ours to change.
    pub(crate) meta: Option<Meta>,
    /// That it gets if nobody comes to that any more, or if it is not ours to change.
    pub(crate) early: Option<Mode>,
    /// Bytes that it takes.
    weight: u64,
}

/// Directories that wait to become what they are to be. If that never comes, for the copy has ended, those that were
/// there are closed again, and new ones are as open as they are to be.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    root: Option<Arc<Root>>,
    list: Mutex<Vec<FinishedDir>>,
    /// Bytes that these take, and the directories that something is on its way into.
    held: AtomicU64,
}

impl Finished {
    pub(crate) fn below(root: &Arc<Root>) -> Self {
        Self {
            root: Some(Arc::clone(root)),
            list: Mutex::default(),
            held: AtomicU64::new(0),
        }
    }

    /// Paths and attributes, in bytes.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held.load(Ordering::Acquire)
    }

    pub(crate) fn hold(&self, dir: &TargetDir) {
        self.held.fetch_add(dir.weight(), Ordering::AcqRel);
    }

    fn let_go(&self, bytes: u64) {
        let less = |held: u64| Some(held.saturating_sub(bytes));
        let _ = self
            .held
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
    }

    pub(crate) fn waiting(&self) -> usize {
        lock(&self.list).len()
    }

    /// Those in a directory come before it.
    pub(crate) fn take(&self) -> Vec<FinishedDir> {
        let taken = std::mem::take(&mut *lock(&self.list));
        self.let_go(taken.iter().map(|dir| dir.weight).sum());
        taken
    }
}

impl Drop for Finished {
    fn drop(&mut self) {
        for FinishedDir { path, early, .. } in self.take() {
            if let (Some(root), Some(early)) = (&self.root, early)
                && let Ok(dir) = root.open_dir(&path)
            {
                let _ = rustix::fs::fchmod(dir, early);
            }
        }
    }
}

/// A directory of the destination, for as long as something is on its way into it. What lies in it keeps
/// it, so a directory is finished after all that it contains.
#[derive(Debug)]
pub(crate) struct TargetDir {
    /// Below the root; empty for the root itself.
    pub(crate) path: PathBuf,
    /// What it is called in the copy, if a link that is kept led to it.
    pub(crate) called: Option<Box<Path>>,
    pub(crate) state: DirState,
    pub(crate) sync: SyncWay,
    /// Device and inode, if another program may put another one in its place and that would be seen.
    pub(crate) number: Option<(u64, u64)>,
    /// What it becomes in the end; `None`: it is not ours to change.
    pub(crate) meta: Option<Meta>,
    pub(crate) finished: Arc<Finished>,
    /// The mode that it gets if the copy ends before its time: that it had, if it was opened to its owner.
    pub(crate) early: Option<Mode>,
    pub(crate) parent: Option<Arc<Self>>,
}

impl TargetDir {
    /// Below the root, as the copy calls it.
    pub(crate) fn named(&self) -> &Path {
        self.called.as_deref().unwrap_or(&self.path)
    }

    /// Bytes that it takes, about.
    fn weight(&self) -> u64 {
        let meta = self.meta.as_ref().map_or(0, Meta::weight);
        (size_of::<Self>() + self.path.as_os_str().len() + meta) as u64
    }
}

impl Drop for TargetDir {
    fn drop(&mut self) {
        let weight = self.weight();
        let meta = self.meta.take();
        if (meta.is_some() || self.number.is_some() || self.early.is_some())
            && matches!(self.state, DirState::Fresh | DirState::There)
        {
            let dir = FinishedDir {
                path: std::mem::take(&mut self.path),
                number: self.number,
                meta,
                early: self.early,
                weight,
            };
            lock(&self.finished.list).push(dir);
        } else {
            self.finished.let_go(weight);
        }
        // Deep trees would overflow the stack otherwise.
        let mut parent = self.parent.take();
        while let Some(next) = parent.and_then(Arc::into_inner) {
            let mut next = next;
            parent = next.parent.take();
        }
    }
}

/// A file that was asked for.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) dir: Arc<TargetDir>,
    pub(crate) name: OsString,
    pub(crate) size: u64,
    pub(crate) meta: Meta,
    /// What has its name now.
    pub(crate) before: Option<Identity>,
    /// Its place among all files of the manifest.
    pub(crate) index: u64,
    /// It has further names.
    pub(crate) link: Option<u64>,
    /// What was kept of what it replaces.
    pub(crate) kept: Option<Box<Kept>>,
}

impl Wanted {
    /// Bytes that it takes while it waits, about.
    pub(crate) fn weight(&self) -> u64 {
        let kept = self.kept.as_ref().map_or(0, |kept| kept.weight());
        (size_of::<Self>() + self.name.len() + self.meta.weight()) as u64 + kept
    }

    /// It does not come, or cannot have its name: what was kept for it is no backup. Not to be said where it may yet get its name.
    pub(crate) fn stays_away(&self) {
        if let Some(kept) = &self.kept {
            kept.undo_at(&self.dir.path, &self.name);
        }
    }

    /// Below the root.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.named().join(&self.name)
    }
}
