//! What a tree transfer does and cannot do, counted while it runs.

use super::queue::lock;
use howdah_session::TreeReport;
use howdah_session::naming::quoted;
use howdah_store::StoreError;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Notes of each kind that are kept; the others are only counted.
pub const NOTES: usize = 8;
/// Longest note, in bytes.
const NOTE_BYTES: usize = 400;

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
    /// What has come, whether it gets a name or not.
    pub(crate) come_bytes: AtomicU64,
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
