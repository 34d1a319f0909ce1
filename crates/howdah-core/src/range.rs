//! A half-open range of bytes of an object.

use std::fmt;

/// Bytes `start..end` of an object.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl ByteRange {
    /// `start..end`; empty if `end` is not above `start`.
    pub const fn new(start: u64, end: u64) -> Self {
        Self { start, end }
    }

    /// `len` bytes from `start`.
    pub const fn with_len(start: u64, len: u64) -> Self {
        Self {
            start,
            end: start.saturating_add(len),
        }
    }

    /// Number of bytes.
    pub const fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether it holds no byte.
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// Cuts off the first `at` bytes: `(head, rest)`.
    #[must_use]
    pub fn split_at(self, at: u64) -> (Self, Self) {
        let middle = self.start.saturating_add(at).min(self.end);
        (Self::new(self.start, middle), Self::new(middle, self.end))
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}
