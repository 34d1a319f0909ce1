//! What a dry run tells of one name: what would be done, and why.

use crate::entry::bounds;
use std::path::{Path, PathBuf};

/// What would be done with a name.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Act {
    /// A file's content is moved.
    Copy,
    /// It is removed.
    Delete,
    /// The content is right, what else is kept of it is not.
    Change,
    /// A further name of a file is made: of one of this copy, or of an equal one elsewhere.
    Link,
    /// A symbolic link is made.
    Symlink,
    /// A directory is made.
    Mkdir,
    /// It goes at the source.
    Remove,
}

impl Act {
    /// By their numbers on the wire.
    const ALL: [Self; 7] = [
        Self::Copy,
        Self::Delete,
        Self::Change,
        Self::Link,
        Self::Symlink,
        Self::Mkdir,
        Self::Remove,
    ];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Delete => "delete",
            Self::Change => "change",
            Self::Link => "link",
            Self::Symlink => "symlink",
            Self::Mkdir => "mkdir",
            Self::Remove => "remove",
        }
    }
}

/// Why, as a set.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Reasons(u16);

impl Reasons {
    /// Nothing has that name.
    pub const NEW: Self = Self(1);
    /// Something of another kind has it.
    pub const KIND: Self = Self(1 << 1);
    /// The sizes differ.
    pub const SIZE: Self = Self(1 << 2);
    /// The times of modification differ.
    pub const TIME: Self = Self(1 << 3);
    /// The contents differ, as far as they are compared.
    pub const CONTENT: Self = Self(1 << 4);
    /// A link points elsewhere, or is a name of another file.
    pub const TARGET: Self = Self(1 << 5);
    /// The permissions differ.
    pub const MODE: Self = Self(1 << 6);
    /// User or group differ.
    pub const OWNER: Self = Self(1 << 7);
    /// Extended attributes or ACLs differ.
    pub const ATTRIBUTES: Self = Self(1 << 8);
    /// The source does not have it.
    pub const EXTRA: Self = Self(1 << 9);
    /// It is at the destination, or would be by then.
    pub const MOVED: Self = Self(1 << 10);

    /// An equal file is in a directory that was named for that.
    pub const LINK_DEST: Self = Self(1 << 11);

    const WORDS: [&'static str; 12] = [
        "new",
        "kind",
        "size",
        "time",
        "content",
        "target",
        "mode",
        "owner",
        "attributes",
        "extra",
        "moved",
        "link-dest",
    ];

    /// The same and `other` if it `holds`.
    #[must_use]
    pub fn and(self, other: Self, holds: bool) -> Self {
        Self(self.0 | if holds { other.0 } else { 0 })
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// A word for each, always in the same order.
    pub fn words(self) -> Vec<&'static str> {
        let all = Self::WORDS.iter().enumerate();
        let has = all.filter(|(bit, _)| self.0 & 1 << bit != 0);
        has.map(|(_, word)| *word).collect()
    }
}

/// One name with which something would be done.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Change {
    /// What would be done with it.
    pub act: Act,
    /// Why.
    pub reasons: Reasons,
    /// Below the top; empty for the top itself.
    pub path: PathBuf,
}

impl Change {
    /// What and why in one number.
    pub fn word(&self) -> u64 {
        let act = Act::ALL.iter().position(|act| *act == self.act);
        u64::from(self.reasons.0) << 4 | act.unwrap_or_default() as u64
    }

    /// From that number; none if it makes no sense.
    pub fn from_word(word: u64, path: PathBuf) -> Option<Self> {
        let act = *Act::ALL.get((word & 15) as usize)?;
        let reasons = u16::try_from(word >> 4).ok()?;
        let known = (1u16 << Reasons::WORDS.len()) - 1;
        (reasons & !known == 0).then_some(Self {
            act,
            reasons: Reasons(reasons),
            path,
        })
    }

    /// A path as it goes over the wire.
    pub fn told_path(path: &Path) -> &[u8] {
        let path = path.as_os_str().as_encoded_bytes();
        &path[..path.len().min(bounds::NOTE)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t21_what_and_why_survive_the_wire_and_nonsense_does_not() {
        for act in Act::ALL {
            for bit in 0..Reasons::WORDS.len() {
                let reasons = Reasons(1 << bit).and(Reasons::TIME, true);
                let path = PathBuf::from("a/b");
                let change = Change { act, reasons, path };
                let again = Change::from_word(change.word(), change.path.clone());
                assert_eq!(again, Some(change));
            }
        }
        assert_eq!(Reasons::NEW.words(), ["new"]);
        assert_eq!(Reasons::EXTRA.words(), ["extra"]);
        let both = Reasons::OWNER.and(Reasons::SIZE, true);
        assert_eq!(both.words(), ["size", "owner"]);
        for nonsense in [7, 15, 1 << 16, 1 << 20, u64::MAX] {
            assert_eq!(Change::from_word(nonsense, PathBuf::new()), None);
        }
    }
}
