//! UDT: reliable streams over UDP with a rate control of their own (Gu and Grossman).
//!
//! Version 4.11, wire-compatible with the library, and a bracket of the version 2 that JGN06 used;
//! [`Rules`] holds all that tells them apart. A [`UdtEndpoint`] is one side of a connection over
//! which data flow one way. docs/rivals/udt.md has the source of each rule.
//!
//! ```
//! use howdah_rivals::udt::{UdtConfig, UdtEndpoint};
//! let config = UdtConfig { packet_bytes: 8800, ..UdtConfig::default() };
//! let sender = UdtEndpoint::sender(&config, Some(30 << 30), 1);
//! let receiver = UdtEndpoint::receiver(&config, 2);
//! # let _ = (sender, receiver);
//! ```
//!
//! # Simplifications
//!
//! * Data flow one way; a connection with data both ways is two of them.
//! * Streams only: no messages with a time to live, no rendezvous.
//! * The receiving application reads at once.
//! * The library looks at its timers when a packet comes or 10 ms have passed; here they are exact.

mod config;
mod connection;
mod control;
mod endpoint;
mod estimate;
mod receiver;
mod sender;
pub(crate) mod sequence;
#[cfg(test)]
mod tests;
pub(crate) mod window_set;
pub mod wire;

pub use config::{LaterCuts, Repeat, Rules, SYN, Start, UdtConfig, WindowAt};
pub use endpoint::UdtEndpoint;
