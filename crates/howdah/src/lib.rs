//! Moves big data over long fat networks at the rate of the link.
//!
//! This is the library behind the `howdah` command: [`copy()`] moves one object between two
//! [`Location`]s, [`Server`] answers such copies on one UDP port.

#![forbid(unsafe_code)]

mod cancel;
mod copy;
mod error;
mod location;
mod server;
mod summary;

pub use cancel::Cancel;
pub use copy::{CopyConfig, RatePolicy, copy};
pub use error::{Error, ErrorKind};
pub use location::{Location, ParseLocationError};
pub use server::{Server, ServerConfig};
pub use summary::{Progress, SideUsage, Summary};
