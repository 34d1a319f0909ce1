//! The Howdah protocol as a state machine without socket, clock, thread or payload.
//!
//! [`Connection`] is the machine, [`endpoint::Endpoint`] many of them behind one port. The driver moves the bytes: when the machine says "send header H
//! with bytes 4096..13029 of object 7", the driver reads those bytes from the file, seals and
//! sends them; when a packet arrives, the machine opens it, and says where its payload belongs.
//! So the machine's memory is a few bytes per packet in flight, whatever the
//! bandwidth-delay product.
//!
//! The wire format is specified in docs/protocol.md, the rate control in docs/rate-control.md.
//!
//! # Features
//!
//! `sim` adds connections without secrets ([`Security`]`::Simulated`, the module `sim`) for simulators
//! and tests. A connection gets its security from its [`Config`] alone and never changes it: one that
//! was given a [`TlsIdentity`] either speaks TLS or does not come about, with the feature or without.
//! Without `tls`, which is there by default, it has no cryptography and needs none built: the laboratory in a browser.
//! `wire` shows the codec of packets to tests and fuzzers, which make some by hand.
//! The library `howdah` and the driver `howdah-net` do not ask for the feature, so a build of them
//! alone contains no way to send anything in the clear.
//!
//! # Driving a connection
//!
//! 1. Call one of [`Connection::handle_datagram`], [`Connection::handle_timeout`] or an
//!    application call ([`Connection::send_object`], [`Connection::send_control`], ...).
//! 2. Call [`Connection::poll_transmit`] until it returns `None`, and send what it made.
//! 3. Call [`Connection::poll_event`] until it returns `None`.
//! 4. Call [`Connection::handle_timeout`] when [`Connection::poll_timeout`] says so.

#![forbid(unsafe_code)]
// Not in tests, which count with numbers that they have chosen.
#![cfg_attr(
    not(test),
    warn(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

#[cfg(feature = "wire")]
pub mod codec;
#[cfg(not(feature = "wire"))]
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "who makes packets by hand reaches them, and nobody else"
)]
mod codec;
mod config;
mod connection;
mod control;
pub mod endpoint;
pub mod error;
#[cfg_attr(
    not(feature = "tls"),
    allow(
        unused,
        reason = "who simulates has nothing to seal and nobody to refuse"
    )
)]
mod handshake;
#[cfg_attr(
    not(feature = "tls"),
    allow(
        unused,
        reason = "who simulates has nothing to seal and nobody to refuse"
    )
)]
mod keys;
mod marking;
mod meter;
mod objects;
mod pacer;
mod pmtud;
mod rate;
mod received;
mod rtt;
mod sent;
#[cfg(feature = "sim")]
pub mod sim;
mod space;
mod trap;
mod unconfirmed;
mod unsent;
mod witness;

pub use codec::limits::{MAX_DATAGRAM, MIN_DATAGRAM};
pub use codec::{ConnectionId, KnockKey, SinkState, VERSION as WIRE_VERSION};
pub use config::Config;
pub use connection::{
    Arriving, Connection, Event, Handled, PacketOut, PacketSink, Part, Role, SendLimit, Stats,
    TransmitInfo,
};
#[cfg(feature = "tls")]
pub use handshake::{IdentityError, TlsIdentity};
pub use handshake::{KeyCheck, Security, Side};
pub use keys::{AeadKey, TAG_LEN};
pub use marking::{EcnFault, EcnState};
pub use rate::{PathKnowledge, Phase, Policy, Share};
