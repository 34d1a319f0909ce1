//! What a tree transfer did and could not do, for people.

use serde::{Deserialize, Serialize};

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
