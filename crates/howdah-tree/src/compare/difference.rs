//! What a comparison finds.

use howdah_session::entry::{Entry, Other};
use serde::Serialize;

/// One thing in which the two sides differ. The first side is A, the second B.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Difference {
    /// Below the two places; empty for the places themselves if they are directories, and the name in A if
    /// they are files. As it is: to be escaped where it is shown.
    pub path: Vec<u8>,
    /// It is a directory, where it is one.
    pub is_dir: bool,
    /// What it is.
    pub what: DifferenceKind,
}

/// A kind of difference.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DifferenceKind {
    /// Only B has it, with so many names in it.
    MissingInA {
        /// Names in it, if it is a directory.
        inside: u64,
    },
    /// Only A has it, with so many names in it.
    MissingInB {
        /// Names in it, if it is a directory.
        inside: u64,
    },
    /// Something else has its name.
    Kind {
        /// In A.
        a: EntryKind,
        /// In B.
        b: EntryKind,
    },
    /// Files of different sizes, in bytes.
    Size {
        /// In A.
        a: u64,
        /// In B.
        b: u64,
    },
    /// Files of the same size with different contents.
    Contents {
        /// The first different byte is at or behind this offset ...
        start: u64,
        /// ... and before this one.
        end: u64,
    },
    /// What a symbolic link points to.
    Target {
        /// In A.
        a: Vec<u8>,
        /// In B.
        b: Vec<u8>,
    },
    /// The lower twelve bits of the mode.
    Mode {
        /// In A.
        a: u32,
        /// In B.
        b: u32,
    },
    /// Time of modification, in seconds since 1970 and nanoseconds.
    Time {
        /// In A.
        a: (i64, u32),
        /// In B.
        b: (i64, u32),
    },
    /// User and group.
    Owner {
        /// In A.
        a: OwnerSeen,
        /// In B.
        b: OwnerSeen,
    },
    /// Extended attributes, ACLs among them: the names of those that differ.
    Attributes(Vec<Vec<u8>>),
    /// Names of one file on one side are names of several on the other.
    HardLinks,
    /// It could not be compared: these sides could not read it, or not all that is in it.
    Unread {
        /// A could not.
        a: bool,
        /// B could not.
        b: bool,
    },
}

/// What has a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A fifo.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
}

impl EntryKind {
    /// `None`: it could not be read.
    pub(super) fn of(entry: &Entry) -> Option<Self> {
        match entry {
            Entry::Dir { .. } | Entry::Ahead { .. } | Entry::Top { .. } => Some(Self::Directory),
            Entry::File { .. } => Some(Self::File),
            Entry::Symlink { .. } => Some(Self::Symlink),
            Entry::Other { what, .. } => match what {
                Other::Unread => None,
                Other::Fifo => Some(Self::Fifo),
                Other::Socket => Some(Self::Socket),
                Other::CharacterDevice => Some(Self::CharacterDevice),
                Other::BlockDevice => Some(Self::BlockDevice),
            },
            _ => None,
        }
    }
}

/// A user and a group, each by number and by the name that the side has for it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct OwnerSeen {
    /// The user.
    pub user: (u32, Option<Vec<u8>>),
    /// The group.
    pub group: (u32, Option<Vec<u8>>),
}

/// What has been compared, and what came of it.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Tally {
    /// Files that are on both sides.
    pub files: u64,
    /// Bytes of each side that were hashed and compared.
    pub bytes: u64,
    /// Directories on both sides.
    pub directories: u64,
    /// Symbolic links, fifos, sockets and devices on both sides.
    pub others: u64,
    /// Names that only B has, those in its directories counted.
    pub missing_in_a: u64,
    /// Names that only A has, likewise.
    pub missing_in_b: u64,
    /// Differences of what is on both sides; a file may have several.
    pub differing: u64,
    /// What could not be compared because a side could not read it.
    pub unread: u64,
    /// Bytes that are known to be to hash and compare so far.
    #[serde(skip)]
    pub wanted_bytes: u64,
}

impl Tally {
    /// Whether both sides were read in whole and nothing differs.
    pub fn is_equal(&self) -> bool {
        self.missing_in_a == 0 && self.missing_in_b == 0 && self.differing == 0 && self.unread == 0
    }

    pub(super) fn add(&mut self, what: &DifferenceKind) {
        match what {
            DifferenceKind::MissingInA { inside } => self.missing_in_a += 1 + inside,
            DifferenceKind::MissingInB { inside } => self.missing_in_b += 1 + inside,
            DifferenceKind::Unread { .. } => self.unread += 1,
            _ => self.differing += 1,
        }
    }
}
