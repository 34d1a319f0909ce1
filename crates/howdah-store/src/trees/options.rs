//! What both sides of a tree transfer must know.

use serde::{Deserialize, Serialize};

/// How a tree is to be copied. Goes over the wire.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct TreeOptions {
    /// The content of the one source goes into the destination, not the source itself.
    pub contents: bool,
    /// Directories may be copied.
    pub recursive: bool,
    /// Owners, hard links, extended attributes, ACLs and the special mode bits are kept, too.
    pub archive: bool,
    /// Contents are compared, not sizes and times.
    pub checksum: bool,
    /// Nothing is written.
    pub dry_run: bool,
}
