//! Moves big data over long fat networks at the rate of the link.
//!
//! This is the library behind the `howdah` command. A [`Client`] moves files and directories and compares them, a [`Server`] answers
//! it on one UDP port:
//!
//! ```
//! use howdah::{AuthorizedKeys, Cancel, Client, Identity, Server, ServerConfig, Trust};
//!
//! # let dir = tempfile::tempdir()?;
//! # let (site, here) = (dir.path().join("site"), dir.path().join("here"));
//! # std::fs::create_dir(&site)?;
//! # std::fs::create_dir_all(here.join("data"))?;
//! # std::fs::write(here.join("data/one"), "1")?;
//! // A server of the directory `site`, for whoever holds one key.
//! let client = Identity::generate()?;
//! let authorized = [*client.public_key()].into_iter().collect::<AuthorizedKeys>();
//! let identity = Identity::generate()?;
//! let server_key = *identity.public_key();
//! let server = Server::bind(ServerConfig::new(&site, "127.0.0.1:0".parse()?, identity, authorized))?;
//! let address = server.local_addr();
//! let stop = Cancel::new();
//! let serving = std::thread::spawn({
//!     let stop = stop.clone();
//!     move || server.run(&stop)
//! });
//!
//! // A client that knows the server by its key.
//! let client = Client::new(client).trust(Trust::Exactly(server_key));
//! let there = format!("howdah://{address}/data");
//! let summary = client
//!     .sync(here.join("data"), there.as_str())
//!     .on_progress(|progress| eprintln!("{} bytes", progress.bytes))
//!     .run()?;
//! assert_eq!(summary.bytes, 1);
//! let same = client
//!     .verify(here.join("data"), there.as_str())
//!     .options(|options| options.checksum = true)
//!     .run()?;
//! assert!(same.equal);
//!
//! stop.cancel();
//! serving.join().expect("the server")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The directory `examples` has more of this kind. [`copy()`], [`copy_tree`] and [`verify()`] are the same without a client: they take every
//! setting at once, and tell apart what the client makes one error of.
//!
//! Everything blocks; with the feature `tokio` a [`Transfer`] and a [`Comparison`] can be awaited as well.

#![forbid(unsafe_code)]

mod access;
mod ask;
mod cancel;
mod client;
mod config;
mod connect;
mod copy;
mod desk;
mod error;
mod far_end;
mod far_plan;
mod files;
mod flight;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod inside;
pub mod keys;
#[doc(hidden)]
pub mod lease;
mod list;
mod listed;
mod location;
mod log;
mod manifest;
mod mover;
mod paths;
mod policy;
mod range;
mod reach;
mod receipt;
mod reconnect;
mod remote;
mod rules_digest;
pub mod sandbox;
mod server;
mod session;
mod source_file;
mod ssh;
mod ssh_config;
mod statement;
mod summary;
mod task;
mod throttle;
mod trees;
mod verification;
mod verify;
mod versions;
mod whole;

pub use ask::{Cleaned, Expanded, clean, expand, is_pattern};
pub use cancel::Cancel;
pub use config::CopyConfig;
pub use copy::copy;
pub use desk::FilesAnswer;
pub use error::{Error, ErrorKind};
pub use far_end::{FarEndHost, serve_over_ssh};
pub use files::{ChangeLog, FileLog, Hears};
pub use flight::{FlightRecorder, Kept, default_recordings};
pub use howdah_audit::{AuditFile, Level};
pub use howdah_core::{ByteRange, Rate, Span};
pub use howdah_proto::Share;
pub use howdah_recording::{DecodeError, Facts, Held, Interval, Recording, Slow, Verdict};
pub use howdah_session::PathBytes;
pub use howdah_session::files::{
    AttestedFile, DirEntry, FileInfo, FileKind, FileVersion, FilesRequest,
};
pub use howdah_session::{
    Act, Change, LINK_DESTS, Memory, ModeChanges, PathList, PathListBuilder, Rule, RuleList,
    RuleRef, TreeOptions, TreeReport,
};
pub use howdah_store::SourceIdentity;
#[cfg(target_os = "linux")]
pub use howdah_store::keep_out_of;
pub use howdah_tree::{
    Difference, DifferenceKind, EntryKind, Fate, Leftovers, Listed, Listing, OwnerSeen, PlacedFile,
    Tally,
};
pub use keys::{AuthorizedKeys, Identity, KnownHosts, PublicKey, Trust};
pub use list::list;
pub use listed::Reread;
pub use location::{DEFAULT_PORT, Location, ParseLocationError, SshLocation, SshTarget};
pub use log::Log;
pub use manifest::{Manifest, ManifestHash, Sums, check_manifest};
pub use mover::{Client, Comparison, Place, Transfer};
pub use paths::{PathMemory, RememberedPath, default_path_memory};
pub use policy::{RatePolicy, Transport};
pub use range::{file_version, file_versions, publish};
pub use receipt::{Checked, ReceiptMaker, Wanted, check_receipt};
pub use remote::Files;
pub use server::{
    Inherited, Server, ServerConfig, ServerControl, ServerEvent, ServerRefusal, SessionMoved,
    SessionStatus,
};
pub use source_file::SourceFile;
pub use ssh_config::{DEFAULT_PORTS, SshConfig, SshSharing};
pub use statement::{Direction, End, Receipt, Statement};
pub use summary::{Progress, SideUsage, Summary};
pub use throttle::Throttle;
pub use trees::{check_sources, copy_tree, copy_tree_into};
pub use verification::Verification;
pub use verify::verify;
pub use versions::name_build;
