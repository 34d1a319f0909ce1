//! What two hosts say about files and trees, and what of it is let in. Without IO: no clock, socket, disk or thread.
//!
//! * A [`Message`](message::Message) is what one says on the control stream, with what it drags: [`questions`], the [`files`] of a
//!   session that stays open, the [`pace`] of a copy, what of it is there already ([`resume`]), and a [`selection`] that is too long for
//!   one message.
//! * [`server`] and [`client`] are the two ends of a session: which message may come when and what it means; what their drivers need for
//!   a [`transfer`] of one object, a tree, a question is kept in them.
//! * [`TreeOptions`] is what one asks the other for, with its [rules](RuleList), its [list of paths](PathList), and what
//!   a [`Filter`] makes of both.
//! * An [`Entry`](entry::Entry) is what a manifest says about one name.
//! * [`ManifestEncoder`] and [`ManifestDecoder`], [`AnswerEncoder`] and [`decode_answer`] are the streams in bytes: whoever drives them
//!   gives what has come, and is told when more is needed.
//! * A [`Gate`] is what everything that a manifest names must pass: received is a subset of requested.
//! * What of a tree goes at the destination ([`deletion`]), which of its files are wanted ([`verdict`](mod@verdict)), which have no further names
//!   ([`doubts`]), and which sources may go ([`unconfirmed`]) is decided here from what others have looked up.
//! * [`Metadata`] is the right of a session to set metadata, or to be shown it.
//! * [`PathBytes`] is a path of another machine, [`WaitClock`] how long its next word is waited for, [`Window`] how much may be under way.
//!
//! docs/protocol.md section 16 and docs/trees.md are the specification.

#![forbid(unsafe_code)]
#![warn(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss
)]

mod allowed;
mod answers;
mod change;
pub mod classes;
pub mod client;
pub mod deletion;
pub mod doubts;
pub mod entry;
mod error;
mod failure;
pub mod files;
mod filter;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gate;
pub mod holes;
pub mod lanes;
mod manifest;
mod matcher;
mod memory;
pub mod message;
mod modes;
pub mod names;
pub mod naming;
mod options;
pub mod pace;
mod path_bytes;
mod paths;
pub mod plans;
pub mod questions;
mod report;
pub mod reserved;
pub mod resume;
mod rules;
pub mod selection;
pub mod server;
pub mod transfer;
pub mod unconfirmed;
pub mod verdict;
mod waits;
mod window;
pub mod wire;

pub use allowed::Metadata;
pub use answers::{Answer, AnswerEncoder, decode_answer};
pub use change::{Act, Change, Reasons};
pub use error::{SessionError, refused};
pub use failure::{FailureKind, Misbehaved};
pub use filter::Filter;
pub use gate::{Asked, Gate};
pub use manifest::{ManifestDecoder, ManifestEncoder};
pub use memory::Memory;
pub use modes::{BadModes, ModeChanges};
pub use options::{LINK_DESTS, TreeOptions};
pub use path_bytes::PathBytes;
pub use paths::{PathList, PathListBuilder, PathWalk};
pub use report::TreeReport;
pub use resume::SourceIdentity;
pub use rules::{Rule, RuleList, RuleRef};
pub use waits::{Wait, WaitClock};
pub use window::Window;
