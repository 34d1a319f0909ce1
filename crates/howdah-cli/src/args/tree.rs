//! What is kept of a tree.

use clap::Args;

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Which files, and what of them")]
pub(crate) struct TreeArgs {
    /// Keep owners, hard links, extended attributes, ACLs and special mode bits as well
    ///
    /// Contents, times of modification and symbolic links are always kept, permissions with 'sync' and -p. What
    /// cannot be kept is counted and said; it is no failure. What the source has no more of these goes.
    #[arg(long, short = 'a')]
    pub(crate) archive: bool,

    /// Keep owners and entries of ACLs by number, not by what these are called on each side
    #[arg(long, requires = "archive")]
    pub(crate) numeric_ids: bool,

    /// Do not go into other file systems below SRC: mount points become empty directories, and nothing is deleted in them
    #[arg(long, short = 'x')]
    pub(crate) one_file_system: bool,

    /// Compare files by content (BLAKE3), not by size and time of modification
    #[arg(long, short = 'c')]
    pub(crate) checksum: bool,

    /// Write nothing; say what would be done with each name, and why
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
}
