//! Every other transport, as a sans-IO state machine behind [`howdah_core::Transport`].
//!
//! * [`tcp`]: one TCP engine and, apart from it, a file for each congestion control.

#![forbid(unsafe_code)]

pub mod tcp;
