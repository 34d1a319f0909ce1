//! A session that stays open: single files are looked at and read, many at a time, and answers come in any order.
//!
//! Questions are control messages; all answers go through one object of unknown length, so that the window of that object bounds
//! what is under way. docs/protocol.md section 16.7 specifies it.

pub(crate) mod attest;
pub(crate) mod serving;
pub(crate) mod wire;
mod worker;

use crate::{Error, ErrorKind};

/// Of what was asked and is not answered, as [`FilesRequest::cost`](wire::FilesRequest::cost) counts it, in bytes.
pub(crate) const OPEN_COST: u64 = 4 << 20;
/// Ranges of one question.
pub(crate) const RANGES_MAX: usize = 1024;
/// Questions of one message: as many as surely fit, in bytes of cost.
pub(crate) const MESSAGE_COST: u64 = 24 << 10;
/// The longest header of an answer, in bytes.
pub(crate) const HEADER_MAX: usize = 48 << 10;

pub(crate) fn protocol(text: &str) -> Error {
    Error::new(ErrorKind::Protocol, text)
}
