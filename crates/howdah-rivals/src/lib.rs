//! Every other transport, as a sans-IO state machine behind [`howdah_core::Transport`].
//!
//! * [`blast`]: tools that blast UDP and repair over a control connection.
//! * [`sabul`]: UDT's ancestor, with control over TCP.
//! * [`tcp`]: one TCP engine and, apart from it, a file for each congestion control.
//! * [`model`]: behavioural models of transports whose inside is not public.
//! * [`udp`]: streams that react to nothing, to load a path and to measure it.
//! * [`udt`]: UDT 4.11 and the version 2 of JGN06.

#![forbid(unsafe_code)]

pub mod blast;
pub mod model;
pub mod sabul;
pub mod tcp;
pub mod udp;
pub mod udt;
