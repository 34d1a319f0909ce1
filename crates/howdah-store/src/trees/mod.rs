//! Trees of many files as three byte streams, and large files as objects of their own.
//!
//! The threads in here know nothing of a network: [`TreeSender`] and [`TreeReceiver`] have ends of byte
//! streams, which the engine carries. docs/trees.md says what is in them and why.

mod backup;
mod buffers;
mod clock;
mod codec;
mod commit;
mod compare;
mod crew;
mod delete;
mod describe;
mod disks;
mod existing;
mod hashing;
mod ignores;
mod inside;
mod linked;
mod links;
mod meta;
mod moved;
mod names;
mod noted;
mod pipe;
mod place;
mod placed;
mod queue;
mod ranges;
mod receive;
mod report;
mod send;
mod small;
mod spellings;
mod stamps;
mod sum;
mod target;
mod tree_source;
mod unfinished;
mod walk;
mod write;

/// What [`queue`] is made of: tests have others.
mod locks {
    pub(super) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
}

#[cfg(test)]
mod allowed_tests;
#[cfg(test)]
mod bounds_tests;
#[cfg(test)]
mod dry_tests;
#[cfg(test)]
mod equal_tests;
#[cfg(test)]
mod gate_tests;
#[cfg(test)]
mod kinds_tests;
#[cfg(test)]
mod moved_tests;
#[cfg(test)]
mod parts_tests;
#[cfg(test)]
mod peers_tests;
#[cfg(test)]
mod queue_tests;
#[cfg(test)]
mod quota_tests;
#[cfg(test)]
mod rights_tests;
#[cfg(test)]
mod sync_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod torn_tests;

pub use compare::{
    ComparisonState, Difference, EntryKind, Listed, Listing, Next, OwnerSeen, Tally,
    TreeComparison, TreeListing, What, comparison_ends,
};
pub use describe::{TreeDescriber, TreeSubject};
pub use howdah_session::{
    Act, BadModes, Change, LINK_DESTS, Memory, Metadata, ModeChanges, PathList, PathListBuilder,
    PathWalk, Reasons, Rule, RuleList, RuleRef, TreeOptions, TreeReport,
};
pub use pipe::{Spout, Tap, pipe};
pub use placed::PlacedFile;
pub use receive::{LargeOpening, LargeTarget, ReceiverEnds, TreeReceiver};
pub use report::NOTES;
pub use send::{LargeFile, SenderEnds, TreeSender};
pub use target::{TreeTarget, is_directory};
pub use tree_source::TreeSource;
pub use unfinished::{is_begun, origin_of};

/// Files up to this size travel in packs, larger ones as objects of their own, in bytes. A pack is one
/// object after the other's bytes: no round trip and no half-filled packet per file. A large file can be
/// placed out of order and has its own thread to write and hash.
pub const PACKED_MAX: u64 = 4 << 20;
/// Large files that are under way at a time, well below the protocol's bound for open objects.
pub const LARGE_OPEN: u64 = 24;
/// Files that the sender has told and the receiver not answered, or the receiver has asked for and not
/// got: at 200 ms of round trip still 80,000 files a second.
const WAITING_FILES: usize = 16_384;
/// Files that were asked for and have neither their names nor an error.
const UNSETTLED: u64 = 24_576;
/// Large files that the receiver waits for.
const WAITING_LARGE: u64 = 4096;
/// What a dry run would do that whoever listens has not taken yet.
const CHANGES_WAITING: usize = 16_384;
/// A file's bytes go into a pack in parts of this size.
const PACK_CHUNK: usize = 64 << 10;

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
