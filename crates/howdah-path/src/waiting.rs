//! A packet in a stored queue.

use howdah_core::{Ecn, Time};

/// A packet that waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Waiting {
    pub(crate) arrived: Time,
    pub(crate) ip_bytes: u32,
    /// Its number among all packets offered to the path.
    pub(crate) index: u64,
    pub(crate) ecn: Ecn,
    /// Whose it is.
    pub(crate) flow: u64,
    /// Whether it was marked when it came.
    pub(crate) marked: bool,
}
