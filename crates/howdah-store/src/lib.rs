//! Howdah's files: where an object's bytes come from and where they go.
//!
//! A protocol engine moves ranges of one object in any order and must never wait for a disk. So
//! blocking threads live in here, behind bounded queues:
//!
//! * [`Source`] reads ahead (warming the page cache) and hashes; the engine then reads any range,
//!   any number of times.
//! * [`Sink`] takes received buffers as they come, writes the slices to their places, verifies
//!   what it wrote, makes it durable and only then gives it its name.
//! * [`Root`] opens paths from the network so that they cannot leave a directory.
//!
//! # The durable-write contract
//!
//! A file sink writes to `.<name>.<digits>.howdah-part` in the target's directory. Under the
//! target's own name nothing appears before (1) every byte was written, (2) the BLAKE3 of what
//! the file gives back equals the sender's, (3) `fsync` of the file succeeded, the first time it
//! was tried. Then it is renamed and the directory is synced. Dropping a sink before that removes
//! the temporary file, unless something of it is [kept](Sink::kept_bytes). A killed process leaves one
//! behind, unlocked; the next sink for the same target goes on with it or removes it, except on file
//! systems that other hosts may have mounted, whose locks prove nothing.
//!
//! # Going on after an interruption
//!
//! A sink that knows [which source](SourceIdentity) it copies, and hears the sender's hash of each
//! MiB, keeps a journal beside the unfinished file (docs/resume.md). A [`Target`] finds both again:
//! [`Sink::resume`] goes on if the source is still the same.
//!
//! # Holes
//!
//! Whether there is room for the whole is looked at at the start, so that a full disk shows early. Space is
//! then reserved as content comes, little ahead of it, unless the source has [holes](Source::holes): then
//! nothing is reserved, groups that are holes do not come at all, and blocks of zeros are left unwritten. They are hashed as the zeros that they are.
//!
//! # The page cache
//!
//! Files pass through the page cache, but a large one does not fill it: what lies more than
//! [`Limits::cached_bytes`] behind is given up, unless it was cached before we came. Written data
//! is synced every 64 MiB, so that a slow or failing disk shows while there is still something to
//! do about it.
//!
//! # What other crates make of it
//!
//! `howdah-tree`, which moves many objects at a time, makes, names, locks and removes files by the same calls: the modules that this
//! crate shows have what it takes of them.
//!
//! # Full disks
//!
//! What does not fit is an error, unless somebody has [patience](RoomWait): then what writes tries again now
//! and then, the queues fill up, and the sender is held by them.

#![forbid(unsafe_code)]

mod batch;
pub mod calls;
mod cursor;
pub mod descriptors;
pub mod device;
pub mod durable;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod identity;
mod journal;
mod kept;
mod limits;
mod look;
pub mod names;
mod ours;
mod outcome;
pub mod plain;
mod quota;
pub mod rights;
mod room;
mod root;
pub mod same;
mod shown;
mod sink;
mod source;
mod space;
pub mod sparse;
pub mod stale;
mod target;
pub mod threads;
pub mod times;
mod tree;
pub mod unwritable;
mod way;
pub mod worker;

pub use batch::{Batch, Part};
pub use durable::{Prepare, publish, publish_new};
pub use error::StoreError;
pub use howdah_session::SourceIdentity;
pub use howdah_session::holes::MAX_HOLE_BYTES;
pub use howdah_session::reserved::{is_reserved, is_room, may_be_reserved, may_be_room};
pub use howdah_session::resume::{GROUP, RESUMABLE_MIN};
#[cfg(target_os = "linux")]
pub use kept::keep_out_of;
pub use limits::Limits;
pub use look::{Found, FoundKind};
pub use quota::Quota;
pub use room::RoomWait;
pub use root::Root;
pub use sink::{
    Backlog, GroupValue, Outcome, RangeFile, Sink, SinkOptions, SinkSide, SinkSpec,
    wait_for_leftovers,
};
pub use source::{Finished, Source, SourceReader, SourceSpec, is_generated};
pub use space::Lack;
pub use stale::temp_name;
pub use target::{Held, Target};

use std::path::Path;
use std::sync::Arc;

/// Wakes the engine's thread. Called from any thread; must be cheap and must not wait.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Opens a regular file that the user of this process names, for reading; links are followed. What is no file is not
/// touched.
pub fn open_file(path: &Path) -> Result<std::fs::File, StoreError> {
    root::open_local(path)
}

/// BLAKE3 of a file, the same as `b3sum` prints. Blocks; for tools and tests.
pub fn hash_file(path: impl AsRef<Path>) -> Result<[u8; 32], StoreError> {
    let path = path.as_ref();
    let file = root::open_local(path)?;
    let mut hasher = blake3::Hasher::new();
    hasher
        .update_reader(file)
        .map_err(|e| StoreError::from_io(path, "read", e))?;
    Ok(*hasher.finalize().as_bytes())
}
