//! A file that was looked at, here or on another machine.

use howdah_store::SourceIdentity;

/// A regular file that was looked at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SourceFile {
    /// Which version it is.
    pub identity: SourceIdentity,
    /// Its permission bits, if that machine has some.
    pub mode: Option<u32>,
}
