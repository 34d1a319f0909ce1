//! How far a tree transfer is.

use super::report::{Book, get};

/// How far a tree transfer is.
#[derive(Clone, Debug, Default)]
pub struct TreeProgress {
    /// Files moved.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that were there already.
    pub unchanged: u64,
    /// Files that are to be moved, as far as it is known.
    pub wanted_files: u64,
    /// Their bytes.
    pub wanted_bytes: u64,
    /// What has been worked on lately.
    pub current: String,
}

impl TreeProgress {
    pub(crate) fn of(book: &Book) -> Self {
        Self {
            files: get(&book.files),
            bytes: get(&book.bytes).max(get(&book.come_bytes)),
            unchanged: get(&book.unchanged) + get(&book.linked),
            wanted_files: get(&book.wanted_files),
            wanted_bytes: get(&book.wanted_bytes),
            current: book.current(),
        }
    }
}
