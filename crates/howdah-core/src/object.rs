//! What is sent in ranges, named.

use core::fmt;

/// Which object of a connection: a stream of bytes of known or unknown size that comes in any order.
///
/// Whoever sends an object gives it its number: a client an even one, a server an odd one, each greater than those before.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize, serde::Serialize),
    serde(transparent)
)]
pub struct ObjectId(u64);

impl ObjectId {
    /// The object of that number: what was read from the wire, or what a test means.
    #[inline]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number, for the wire.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
