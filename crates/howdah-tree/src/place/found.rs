//! Files of the manifest that are decided about, and where equal ones may be.

use crate::hashing::Pending;
use crate::target::TargetDir;
use howdah_session::Reasons;
use howdah_session::entry::Meta;
use howdah_store::Root;
use howdah_store::identity::Identity;
use rustix::fd::OwnedFd;
use rustix::fs::Stat;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// A file is wanted, with what stands there now, or not.
pub(super) enum Decision {
    Want(Option<Identity>, Reasons),
    /// It is right.
    There,
    /// What is there stays, as it was asked for.
    Stays,
    /// It cannot be had.
    Skip,
    /// That depends on what is there.
    Hash {
        pending: Pending,
        expected: [u8; 32],
        of: Of,
    },
    /// An equal file elsewhere gets this name; if that cannot be, it is wanted.
    Link(Like),
}

/// What is compared by content.
pub(super) enum Of {
    There(Box<Stat>),
    Elsewhere(Like),
}

/// A file of the manifest.
pub(super) struct Found {
    pub(super) dir: Arc<TargetDir>,
    /// That directory, where it has been looked into.
    pub(super) fd: Option<Arc<OwnedFd>>,
    pub(super) name: OsString,
    pub(super) size: u64,
    pub(super) meta: Meta,
    pub(super) index: u64,
    /// It has further names.
    pub(super) link: Option<u64>,
    pub(super) hash: Option<[u8; 32]>,
    /// Where else an equal file may be.
    pub(super) past: Option<PastHere>,
    /// In a dry run: its content would not come.
    pub(super) is_unread: bool,
    pub(super) decision: Decision,
}

impl Found {
    /// As the copy calls it, below the root.
    pub(super) fn path(&self) -> PathBuf {
        self.dir.named().join(&self.name)
    }
}

/// A directory of the copy in those of [`Past`] that have it: each with its place in the list of the request.
pub(super) type PastHere = Arc<[(usize, Arc<OwnedFd>)]>;

/// The directories that equal files may be in.
pub(super) struct Past {
    /// Their places in the list of the request, roots, and paths below these.
    pub(super) dirs: Vec<(usize, Arc<Root>, PathBuf)>,
    /// Where the copy's own directory is, which stands for each of them.
    pub(super) base: PathBuf,
    /// Pairs of disks from one of which to the other no clone goes.
    pub(super) no_clones: Vec<(u64, u64)>,
    /// That has been told.
    pub(super) told: bool,
}

/// An equal file.
pub(super) struct Like {
    /// In the list of the directories here.
    pub(super) place: usize,
    /// In the list of the request.
    pub(super) asked: usize,
    pub(super) dir: Arc<OwnedFd>,
    pub(super) stat: Box<Stat>,
    /// What has the name in the copy, and why another is to have it.
    pub(super) before: Option<Identity>,
    pub(super) reasons: Reasons,
}
