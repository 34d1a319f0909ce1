//! The other end of a copy, started over the system's `ssh`.
//!
//! Both ends make a key for this one session and tell each other its public half through the channel that
//! ssh has opened and authenticated; then the data takes its own way, sealed under these keys. Nothing
//! secret stands in an argument, in an environment variable or in a file. See docs/ssh.md.

mod candidates;
mod channel;
mod command;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
pub(crate) mod handover;
pub(crate) mod kinds;
mod launched;
pub(crate) mod link_local;
mod process;
mod settings;
mod sharing;
mod surroundings;
mod third_party;
mod verdict;
mod watched;
mod within;

pub(crate) use channel::FarEnd;
pub(crate) use third_party::{Order, copy_between};
pub(crate) use watched::Watched;
pub(crate) use within::Within;
