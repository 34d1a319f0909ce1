//! Files that are in place, for whoever wants to hear of each.

use super::queue::lock;
use super::sum::FilesSum;
use super::target::Wanted;
use howdah_session::TreeOptions;
use howdah_store::Wake;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

/// A file of a tree that is complete, verified, durable and in place, or was there already.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PlacedFile {
    /// Its place among all files of the manifest.
    pub index: u64,
    /// Below the top of the copy, as the sender calls it; empty at a receiver to which nobody listens.
    pub path: PathBuf,
    /// Bytes in it.
    pub bytes: u64,
    /// BLAKE3 of its content, where it has been verified.
    pub hash: Option<[u8; 32]>,
    /// It was there already, or is a further name: told only if [all](howdah_session::TreeOptions::tells_all) are to be.
    pub kept: bool,
}

/// What a receiver has put in place and not told yet.
pub(crate) struct PlacedFiles {
    list: Mutex<Vec<PlacedFile>>,
    /// Files that have their names, which a power cut could still take.
    unsafe_yet: Mutex<Vec<PlacedFile>>,
    /// Numbers of names that are in place without having been moved, for a sender that removes them.
    settled: Mutex<Vec<u64>>,
    /// Sources go then, so it must be true for good.
    moves: bool,
    /// Somebody wants to hear of it.
    wanted: bool,
    /// And of the names.
    with_names: bool,
    /// And of what was there already.
    with_kept: bool,
    /// The directory that paths are told below, once it is known.
    top: OnceLock<PathBuf>,
    /// The sender's name of the one thing at the top, if that got another one.
    called: OnceLock<OsString>,
    /// Of all that came, if somebody wants that.
    sum: Option<FilesSum>,
    /// Files with several names that are in place since somebody asked: not more than were on their way then.
    firsts: Mutex<Vec<u64>>,
    wake: Wake,
}

impl PlacedFiles {
    pub(crate) fn new(options: &TreeOptions, listens: bool, wake: Wake) -> Self {
        Self {
            list: Mutex::default(),
            unsafe_yet: Mutex::default(),
            settled: Mutex::default(),
            moves: options.remove_source,
            wanted: options.tells_files || options.remove_source,
            with_names: options.tells_files && listens,
            with_kept: options.tells_files && options.tells_all && listens,
            top: OnceLock::new(),
            called: OnceLock::new(),
            sum: (options.sums && !options.dry_run).then(FilesSum::new),
            firsts: Mutex::default(),
            wake,
        }
    }

    pub(crate) fn set_top(&self, top: &Path) {
        let _ = self.top.set(top.to_path_buf());
    }

    pub(crate) fn set_called(&self, name: &OsStr) {
        let _ = self.called.set(name.to_owned());
    }

    /// Whether the one thing at the top got another name than its own.
    pub(crate) fn is_renamed(&self) -> bool {
        self.called.get().is_some()
    }

    /// One hash for all that has come.
    pub(crate) fn blake3(&self) -> Option<[u8; 32]> {
        self.sum.as_ref()?.hash()
    }

    /// Numbers of the files with several names that have come.
    pub(crate) fn take_firsts(&self) -> Vec<u64> {
        std::mem::take(&mut *lock(&self.firsts))
    }

    fn add(&self, wanted: &Wanted, bytes: u64, hash: Option<[u8; 32]>) {
        if let Some(link) = wanted.link {
            lock(&self.firsts).push(link);
        }
        if let Some(sum) = &self.sum {
            sum.add(&self.below_top(&wanted.path()), bytes, hash);
        }
    }

    /// It has its name.
    pub(crate) fn put(&self, wanted: &Wanted, bytes: u64, hash: Option<[u8; 32]>) {
        self.add(wanted, bytes, hash);
        if self.wanted {
            let list = if self.moves {
                &self.unsafe_yet
            } else {
                &self.list
            };
            lock(list).push(self.file(wanted, bytes, hash));
        }
    }

    /// And that is durable.
    pub(crate) fn put_durable(&self, wanted: &Wanted, bytes: u64, hash: Option<[u8; 32]>) {
        self.add(wanted, bytes, hash);
        if self.wanted {
            lock(&self.list).push(self.file(wanted, bytes, hash));
        }
    }

    fn file(&self, wanted: &Wanted, bytes: u64, hash: Option<[u8; 32]>) -> PlacedFile {
        let path = if self.with_names {
            self.below_top(&wanted.path())
        } else {
            PathBuf::new()
        };
        PlacedFile {
            index: wanted.index,
            path,
            bytes,
            hash,
            kept: false,
        }
    }

    /// A file that was there already, or a further name of one that came.
    pub(crate) fn keep(&self, dir: &Path, name: &OsStr) {
        /// Who listens is woken now and then.
        const MANY: usize = 1024;
        if !self.with_kept {
            return;
        }
        let path = self.below_top(&dir.join(name));
        let mut list = lock(&self.list);
        list.push(PlacedFile {
            index: 0,
            path,
            bytes: 0,
            hash: None,
            kept: true,
        });
        if list.len().is_multiple_of(MANY) {
            (self.wake)();
        }
    }

    /// A path below the root as the sender calls it.
    fn below_top(&self, whole: &Path) -> PathBuf {
        let top = self
            .top
            .get()
            .map_or_else(|| Path::new(""), PathBuf::as_path);
        let below = whole.strip_prefix(top).unwrap_or(whole);
        match self.called.get() {
            // The sender's name of what got another one.
            Some(called) => std::iter::once(&**called)
                .chain(below.iter().skip(1))
                .collect(),
            None => below.to_path_buf(),
        }
    }

    /// Everything that was put is durable, and so is what has these numbers.
    pub(crate) fn are_safe(&self, numbers: &[u64]) {
        if self.moves {
            let mut safe = std::mem::take(&mut *lock(&self.unsafe_yet));
            lock(&self.list).append(&mut safe);
            lock(&self.settled).extend_from_slice(numbers);
        }
    }

    /// There may be something to take.
    pub(crate) fn tell(&self) {
        if self.wanted {
            (self.wake)();
        }
    }

    pub(crate) fn take(&self) -> Vec<PlacedFile> {
        std::mem::take(&mut *lock(&self.list))
    }

    pub(crate) fn take_settled(&self) -> Vec<u64> {
        std::mem::take(&mut *lock(&self.settled))
    }
}
