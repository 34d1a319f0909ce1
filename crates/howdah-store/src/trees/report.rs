//! What a tree transfer did and could not do, for people.

use super::queue::lock;
use crate::StoreError;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Notes of each kind that are kept; the others are only counted.
pub const NOTES: usize = 8;
/// Longest note, in bytes.
const NOTE_BYTES: usize = 400;

/// What one side did.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)] // Where it is told in JSON, an older version does not tell all of it.
pub struct TreeReport {
    /// Files whose content was moved.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of them, those that an interrupted copy had brought before.
    pub resumed_bytes: u64,
    /// Files that were there already.
    pub unchanged: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links, and further names of files.
    pub links: u64,
    /// Names that were removed because the source does not have them.
    pub deleted: u64,
    /// Names that would have been removed, but were too many.
    pub refused_deletes: u64,
    /// Names that could not be copied.
    pub failed: u64,
    /// Files that changed or vanished while they were read.
    pub changed: u64,
    /// Fifos, sockets and devices, which are never copied.
    pub special: u64,
    /// Attributes (owner, mode, ACL and so on) that could not be kept.
    pub not_kept: u64,
    /// The first of each kind of trouble, one line each.
    pub notes: Vec<String>,
    /// Of those that could not be copied, those that the destination takes no file for.
    pub unwritable: u64,
    /// What is no trouble, and may not be what was meant.
    #[serde(default)]
    pub notices: Vec<String>,
    /// Files that grew while they were read, of which what stood at first was taken.
    #[serde(default)]
    pub grown: u64,
    /// Files and links that were removed from the source.
    #[serde(default)]
    pub removed: u64,
    /// The one thing at the top became the destination itself, under that name; otherwise what came lies in it. Known to a
    /// receiver, which tells it apart from the rest.
    #[serde(skip)]
    pub renamed: Option<bool>,
    /// Of all files whose content was moved: one hash of paths, sizes and contents (docs/serve.md, "The audit log"), if that is
    /// [wanted](super::TreeOptions::sums) on this side and each content was hashed.
    #[serde(skip)]
    pub blake3: Option<[u8; 32]>,
    /// Files that are further names, or clones, of equal ones in directories that were named for that.
    #[serde(default)]
    pub linked: u64,
}

impl TreeReport {
    /// Whether the destination took nothing at all, although something was to be copied.
    pub fn is_refused(&self) -> bool {
        // Another machine may have said these numbers: their sum is none.
        let done = [
            self.files,
            self.unchanged,
            self.linked,
            self.links,
            self.deleted,
        ];
        self.unwritable > 0
            && self.failed == self.unwritable
            && done.iter().all(|count| *count == 0)
    }

    /// What both sides did: each counts its own troubles.
    pub fn merged(sender: &Self, receiver: &Self) -> Self {
        let mut notes = sender.notes.clone();
        notes.extend_from_slice(&receiver.notes);
        Self {
            failed: sender.failed.saturating_add(receiver.failed),
            changed: sender.changed.saturating_add(receiver.changed),
            special: sender.special.saturating_add(receiver.special),
            not_kept: sender.not_kept.saturating_add(receiver.not_kept),
            grown: sender.grown.saturating_add(receiver.grown),
            removed: sender.removed,
            blake3: sender.blake3.or(receiver.blake3),
            notes,
            notices: [&*sender.notices, &*receiver.notices].concat(),
            ..*receiver
        }
    }
}

/// A kind of trouble.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Trouble {
    Failed,
    Changed,
    Special,
    NotKept,
    Grown,
    /// None: what somebody should know all the same.
    Notice,
}

/// Counters that the threads of one side share.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) files: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) resumed_bytes: AtomicU64,
    pub(crate) unchanged: AtomicU64,
    pub(crate) linked: AtomicU64,
    pub(crate) directories: AtomicU64,
    pub(crate) links: AtomicU64,
    pub(crate) deleted: AtomicU64,
    pub(crate) refused_deletes: AtomicU64,
    pub(crate) removed: AtomicU64,
    /// Content that is known to be wanted so far.
    pub(crate) wanted_files: AtomicU64,
    pub(crate) wanted_bytes: AtomicU64,
    /// Of what failed.
    unwritable: AtomicU64,
    troubles: Mutex<[(u64, Vec<String>); 6]>,
    current: Mutex<String>,
}

/// Quoted and escaped, so that a hostile name cannot forge a line.
#[expect(clippy::unnecessary_debug_formatting, reason = "Debug escapes")]
pub(crate) fn quoted(path: &Path) -> String {
    let top = Path::new(".");
    let path = if path.as_os_str().is_empty() {
        top
    } else {
        path
    };
    format!("{:?}", path.as_os_str())
}

/// Of a text that is too long for a note its beginning and its end, where the reason stands.
fn shortened(mut text: String) -> String {
    const END: usize = 160;
    if text.len() > NOTE_BYTES {
        let mut start = NOTE_BYTES - END - 3;
        let mut end = text.len() - END;
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        while !text.is_char_boundary(end) {
            end += 1;
        }
        text.replace_range(start..end, "...");
    }
    text
}

pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

pub(crate) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Book {
    /// Notes a trouble with `path`.
    pub(crate) fn trouble(&self, kind: Trouble, path: &Path, what: impl std::fmt::Display) {
        self.note(kind, || format!("{}: {what}", quoted(path)));
    }

    /// Notes a trouble; `text` names the path, quoted and escaped.
    pub(crate) fn note(&self, kind: Trouble, text: impl FnOnce() -> String) {
        let mut troubles = lock(&self.troubles);
        let (count, notes) = &mut troubles[kind as usize];
        *count += 1;
        if notes.len() < NOTES {
            notes.push(shortened(text()));
        }
    }

    /// Notes why something could not be written at the destination.
    pub(crate) fn unwritten(&self, error: &StoreError) {
        self.note_refusal(error);
        self.note(Trouble::Failed, || error.to_string());
    }

    /// The same of something that is noted in other words.
    pub(crate) fn note_refusal(&self, error: &StoreError) {
        let is_refused = matches!(
            error,
            StoreError::NotWritable { .. } | StoreError::PermissionDenied { .. }
        );
        add(&self.unwritable, u64::from(is_refused));
    }

    /// Notes why a file that was told could not be read.
    pub(crate) fn unread(&self, shown: &Path, error: &StoreError) {
        match error {
            StoreError::NotFound { .. } => {
                self.trouble(Trouble::Changed, shown, "vanished before it could be read");
            }
            StoreError::SourceChanged { .. } => self.note(Trouble::Changed, || error.to_string()),
            error => self.note(Trouble::Failed, || error.to_string()),
        }
    }

    pub(crate) fn set_current(&self, path: &Path) {
        // For somebody who watches: not worth a wait.
        if let Ok(mut current) = self.current.try_lock() {
            *current = path.to_string_lossy().into_owned();
        }
    }

    pub(crate) fn current(&self) -> String {
        lock(&self.current).clone()
    }

    pub(crate) fn report(&self, dry_run: bool) -> TreeReport {
        let troubles = lock(&self.troubles);
        let count = |kind: Trouble| troubles[kind as usize].0;
        TreeReport {
            files: get(if dry_run {
                &self.wanted_files
            } else {
                &self.files
            }),
            bytes: get(if dry_run {
                &self.wanted_bytes
            } else {
                &self.bytes
            }),
            resumed_bytes: get(&self.resumed_bytes),
            unchanged: get(&self.unchanged),
            directories: get(&self.directories),
            links: get(&self.links),
            deleted: get(&self.deleted),
            refused_deletes: get(&self.refused_deletes),
            failed: count(Trouble::Failed),
            changed: count(Trouble::Changed),
            special: count(Trouble::Special),
            not_kept: count(Trouble::NotKept),
            grown: count(Trouble::Grown),
            removed: get(&self.removed),
            notes: troubles[..Trouble::Notice as usize]
                .iter()
                .flat_map(|(_, notes)| notes.clone())
                .collect(),
            unwritable: get(&self.unwritable),
            notices: troubles[Trouble::Notice as usize].1.clone(),
            renamed: None,
            blake3: None,
            linked: get(&self.linked),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h16_numbers_that_another_machine_tells_have_no_sum_that_is_too_large() {
        let told = TreeReport {
            failed: 1,
            unwritable: 1,
            files: u64::MAX,
            unchanged: u64::MAX,
            ..TreeReport::default()
        };
        assert!(!told.is_refused());
        let nothing = TreeReport {
            failed: 1,
            unwritable: 1,
            ..TreeReport::default()
        };
        assert!(nothing.is_refused());
        let all = TreeReport::merged(&told, &told);
        assert_eq!((all.failed, all.files), (2, u64::MAX));
    }
}
