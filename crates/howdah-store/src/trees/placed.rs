//! Files that are in place, for whoever wants to hear of each.

use super::queue::lock;
use super::target::Wanted;
use crate::Wake;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

/// A file of a tree that is complete, verified, durable and in place.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PlacedFile {
    /// Its place among all files of the manifest.
    pub index: u64,
    /// Below the top of the copy, as the sender calls it; empty at a receiver to which nobody listens.
    pub path: PathBuf,
    /// Bytes in it.
    pub bytes: u64,
}

/// What a receiver has put in place and not told yet.
pub(crate) struct PlacedFiles {
    list: Mutex<Vec<PlacedFile>>,
    /// Somebody wants to hear of it.
    wanted: bool,
    /// And of the names.
    with_names: bool,
    /// The directory that paths are told below, once it is known.
    top: OnceLock<PathBuf>,
    /// The sender's name of the one thing at the top, if that got another one.
    called: OnceLock<OsString>,
    wake: Wake,
}

impl PlacedFiles {
    pub(crate) fn new(wanted: bool, with_names: bool, wake: Wake) -> Self {
        Self {
            list: Mutex::default(),
            wanted,
            with_names,
            top: OnceLock::new(),
            called: OnceLock::new(),
            wake,
        }
    }

    pub(crate) fn set_top(&self, top: &Path) {
        let _ = self.top.set(top.to_path_buf());
    }

    pub(crate) fn set_called(&self, name: &OsStr) {
        let _ = self.called.set(name.to_owned());
    }

    pub(crate) fn put(&self, wanted: &Wanted, bytes: u64) {
        if !self.wanted {
            return;
        }
        let mut path = PathBuf::new();
        if self.with_names {
            let whole = wanted.path();
            let top = self
                .top
                .get()
                .map_or_else(|| Path::new(""), PathBuf::as_path);
            let below = whole.strip_prefix(top).unwrap_or(&whole);
            path = match self.called.get() {
                // The sender's name of what got another one.
                Some(called) => std::iter::once(&**called)
                    .chain(below.iter().skip(1))
                    .collect(),
                None => below.to_path_buf(),
            };
        }
        let index = wanted.index;
        lock(&self.list).push(PlacedFile { index, path, bytes });
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
}

/// What a sender has sent and nobody has said to be in place: bounded, whatever the receiver says.
#[derive(Debug, Default)]
pub(crate) struct SentFiles {
    waiting: BTreeMap<u64, (PathBuf, u64)>,
    placed: Vec<PlacedFile>,
}

impl SentFiles {
    /// More than can be under way.
    const MAX: usize = 2 * super::UNSETTLED as usize;

    pub(crate) fn put(&mut self, index: u64, path: PathBuf, bytes: u64) {
        self.waiting.insert(index, (path, bytes));
        if self.waiting.len() > Self::MAX {
            self.waiting.pop_first();
        }
    }

    /// These are in place. Whatever else the receiver names is nothing.
    pub(crate) fn are_placed(&mut self, first: u64, count: u64) {
        let these = self.waiting.range(first..first.saturating_add(count));
        let these: Vec<u64> = these.map(|(index, _)| *index).collect();
        for index in these {
            if let Some((path, bytes)) = self.waiting.remove(&index) {
                self.placed.push(PlacedFile { index, path, bytes });
            }
        }
    }

    pub(crate) fn take(&mut self) -> Vec<PlacedFile> {
        std::mem::take(&mut self.placed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_told_once_and_what_was_not_never() {
        let mut sent = SentFiles::default();
        for index in [3, 4, 5, 9] {
            sent.put(index, PathBuf::from(format!("f{index}")), index * 10);
        }
        sent.are_placed(4, 3);
        sent.are_placed(0, 2);
        sent.are_placed(9, u64::MAX);
        let told = |sent: &mut SentFiles| {
            let files = sent.take().into_iter();
            files
                .map(|file| (file.index, file.bytes))
                .collect::<Vec<_>>()
        };
        assert_eq!(told(&mut sent), [(4, 40), (5, 50), (9, 90)]);
        sent.are_placed(0, u64::MAX);
        assert_eq!(told(&mut sent), [(3, 30)]);
        sent.are_placed(0, u64::MAX);
        assert!(told(&mut sent).is_empty());
    }
}
