//! Howdah's trees: many files as three byte streams, and large files as objects of their own.
//!
//! `howdah-store` moves one object at a time; this is what is above it:
//!
//! * [`TreeSender`] walks a tree and says what is there, [`TreeReceiver`] compares, asks for what it wants, and gives each file its
//!   place, its name and its metadata; [`TreeOptions`](howdah_session::TreeOptions) says how.
//! * [`TreeDescriber`] says what is in a tree with the hashes of it, and [`TreeComparison`] and [`TreeListing`] read that.
//! * [`expand`] finds what a pattern means, [`Leftovers`] what interrupted copies have left below a directory.
//!
//! The threads in here know nothing of a network: they have ends of byte streams ([`pipe()`]), which the engine carries.
//! docs/trees.md says what is in them and why.

#![forbid(unsafe_code)]

pub mod accounts;
mod backup;
mod bounds;
mod buffers;
mod clock;
mod codec;
mod commit;
mod compare;
mod delete;
mod describe;
mod disks;
mod existing;
mod firsts;
mod glob;
mod hashing;
mod ignored;
mod ignores;
mod inside;
mod kept;
mod leftovers;
mod linked;
mod links;
mod meta;
mod moved;
mod names;
mod noted;
mod open;
mod pipe;
mod place;
mod placed;
mod progress;
mod queue;
mod ranges;
mod receive;
mod report;
mod send;
mod sent;
mod shared;
mod small;
mod source_dir;
mod spellings;
mod stamps;
mod sum;
mod target;
mod tree_source;
mod turns;
mod unfinished;
mod walk;
mod workers;
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
mod further_tests;
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
mod spared_tests;
#[cfg(test)]
mod sync_tests;
#[cfg(test)]
mod taken_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod torn_tests;

pub use bounds::{LARGE_OPEN, PACKED_MAX};
pub use compare::{
    ComparisonState, Difference, DifferenceKind, EntryKind, Listed, Listing, Next, OwnerSeen,
    Tally, TreeComparison, TreeListing, comparison_ends,
};
pub use describe::{TreeDescriber, TreeSubject};
pub use glob::{MATCHES_MAX, Matched, Place as GlobPlace, could_mean, expand, has_wildcards};
pub use leftovers::{Fate, Leftover, Leftovers};
pub use pipe::{PipeReader, PipeWriter, pipe};
pub use placed::PlacedFile;
pub use progress::TreeProgress;
pub use receive::{LargeOpening, LargeTarget, ReceiverEnds, TreeReceiver};
pub use report::NOTES;
pub use send::{LargeFile, SenderEnds, TreeSender};
pub use target::{TreeTarget, is_directory};
pub use tree_source::TreeSource;
pub use unfinished::{is_begun, origin_of};
