//! Moves big data over long fat networks at the rate of the link.
//!
//! This is the library behind the `howdah` command: [`copy()`] moves one object between two
//! [`Location`]s, [`copy_tree`] whole directories, [`verify()`] compares two places, [`Server`] answers such copies on one UDP port.

#![forbid(unsafe_code)]

mod access;
mod ask;
mod cancel;
mod client;
mod copy;
mod error;
mod files;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod keys;
mod list;
mod listed;
mod location;
mod manifest;
mod path_bytes;
mod paths;
mod reach;
mod reconnect;
pub mod sandbox;
mod server;
mod session;
mod ssh;
mod summary;
mod throttle;
mod trees;
mod verify;
mod versions;

pub use ask::{Cleaned, Expanded, clean, expand, is_pattern};
pub use cancel::Cancel;
pub use copy::{CopyConfig, RatePolicy, copy};
pub use error::{Error, ErrorKind};
pub use files::{ChangeLog, FileLog, Hears};
pub use howdah_store::{
    Act, Change, Difference, EntryKind, Fate, LINK_DESTS, Leftovers, Listed, Listing, Memory,
    ModeChanges, OwnerSeen, PathList, PathListBuilder, PlacedFile, Rule, RuleList, RuleRef, Tally,
    TreeOptions, TreeReport, What,
};
pub use keys::{AuthorizedKeys, Identity, KnownHosts, PublicKey, Trust};
pub use list::list;
pub use listed::Reread;
pub use location::{DEFAULT_PORT, Location, ParseLocationError, SshLocation, SshTarget};
pub use manifest::{Manifest, ManifestHash, Sums, check_manifest};
pub use path_bytes::PathBytes;
pub use paths::{PathMemory, RememberedPath, default_path_memory};
pub use reach::Transport;
pub use server::{Inherited, Log, Server, ServerConfig, ServerControl, SessionStatus};
pub use ssh::{DEFAULT_PORTS, FarEndHost, SshConfig, SshSharing, serve_over_ssh};
pub use summary::{Progress, SideUsage, Summary};
pub use throttle::Throttle;
pub use trees::{check_sources, copy_tree};
pub use verify::{Verification, verify};
pub use versions::name_build;
