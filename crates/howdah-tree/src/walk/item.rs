//! What a walk meets and tells.

use crate::hashing::Pending;
use crate::source_dir::SourceDir;
use howdah_session::entry::{Entry, Stamp};
use howdah_store::identity::Identity;
use howdah_store::{Root, StoreError};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;

/// A file that the receiver has been told about and has not answered yet.
#[derive(Debug)]
pub(crate) struct Offered {
    pub(crate) dir: Arc<SourceDir>,
    pub(crate) name: OsString,
    /// In the copy, if it is called otherwise there.
    pub(crate) called: Option<Box<OsStr>>,
    pub(crate) size: u64,
    pub(crate) mtime: Stamp,
    /// What it was then, if it is to go.
    pub(crate) version: Option<Box<Identity>>,
    /// It was named.
    pub(crate) is_top: bool,
    /// In a dry run: why it cannot be read.
    pub(crate) unread: Option<Box<StoreError>>,
}

impl Offered {
    /// In the copy.
    pub(crate) fn below(&self) -> PathBuf {
        self.dir
            .below
            .join(self.called.as_deref().unwrap_or(&self.name))
    }
}

pub(super) enum ManifestItem {
    Entry(Entry),
    /// A file whose hash is missing in `entry`.
    File {
        entry: Entry,
        offered: Offered,
        hash: Pending,
    },
}

/// What a name in a directory is to the walk.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Class {
    /// To be told at once.
    Other,
    Dir,
    /// To be followed: what it leads to is the one or the other.
    Link,
    /// A link that has led to a directory.
    DirLink,
    /// Left out here, and not deleted at the destination.
    Kept,
    TooLong,
}

impl Class {
    const ALL: [Self; 6] = [
        Self::Other,
        Self::Dir,
        Self::Link,
        Self::DirLink,
        Self::Kept,
        Self::TooLong,
    ];

    /// Of what was noted with a name.
    pub(super) fn of(number: u8) -> Self {
        let known = Self::ALL.get(usize::from(number)).copied();
        known.unwrap_or(Self::Other)
    }
}

/// Where something really is: a path below a root, without links.
pub(super) type Real = (Arc<Root>, PathBuf);
