//! A file or a tree, moved by many hosts into one place.
//!
//! A [`Plan`] cuts a file into leases. Whoever runs a lease (a scheduler may run it twice, or forget that it does) is a [`Mover`]: it
//! fetches the lease's bytes, and when they are known to be those of the planned version it writes them to their place in the one
//! unfinished file and publishes a [`Record`]. [`finish`] reads the records: if they cover the file it joins their subtree hashes to
//! the file's BLAKE3, without reading the file again.
//!
//! What makes it safe is not the scheduler:
//!
//! * **The version is pinned.** The plan names size, times and inode of the source. Bytes are written only after a fetch during which
//!   the source stayed that version. So whoever writes to the unfinished file, however late and however often, writes what belongs there.
//! * **A higher epoch fences a lower one.** A mover claims its epoch first and looks before each write; a slow one gives up as soon as
//!   it sees a higher claim. That saves work; correctness does not hang on it, as no lock is needed (NFS).
//! * **A record is written after the bytes are durable**, appears by a rename, and carries a check of itself: one that is torn is none.
//! * **Two records of one lease agree**, or the file is not finished.
//!
//! A [`TreePlan`] cuts a tree: small files are moved whole, many to a lease ([`RunMover`]), large ones by ranges as above. Each run of small
//! files fetches them to where nobody else writes, and renames those that are as they were planned into the unfinished tree; its
//! [`TreeRecord`] names the hash of each, and what it is known by. [`Cover`] says whether all files are there, and what they hash to together.
//!
//! Nothing in here touches a disk, a network or a clock: `tests/it/hosts.rs` and `tests/it/tree_hosts.rs` run it with hosts that die, stall and come back.

#![forbid(unsafe_code)]

mod cover;
mod join;
mod mover;
mod plan;
mod planned;
mod record;
mod run;
mod seal;
mod tree;

pub use cover::{Cover, Covered, Found, sum_line};
pub use join::{SubtreeHasher, join};
pub use mover::{Action, Mover, Stopped};
pub use plan::{LEASE_MIN, Lease, Plan, PlanError, TEXT_MAX, Version};
pub use planned::Planned;
pub use record::{Finished, NotFinished, Record, finish};
pub use run::{Fetched, Mark, Moved, RunAction, RunMover, TreeRecord};
pub use seal::{Name, Torn, sealed, unsealed};
pub use tree::{
    Cutter, MEMBERS_MAX, Member, SHEET_MAX, Share, Sheet, Time, TreeOrder, TreePlan, is_same_moment,
};

/// 32 bytes of BLAKE3: the chaining value of a subtree, or the hash of a whole file.
pub type Value = [u8; 32];
