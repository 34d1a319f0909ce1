//! What becomes of the source, and of files that change.

use clap::Args;

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "What becomes of the source")]
pub(crate) struct OutcomeArgs {
    /// Take of files that others append to what stands there when reading begins, and say so
    ///
    /// Without it a file that is written to while it is read is not copied, and the exit code is 13. What is emptied,
    /// replaced or written over meanwhile is that with it, too.
    #[arg(long)]
    pub(crate) growing: bool,

    /// Remove each file and link from SRC when it is at DST, verified and durable: a move
    ///
    /// What DST has already, equal in size and time, is sent once more, or compared with --checksum: only what is known to be
    /// there goes. Directories stay, and so does what is left out, could not be copied, or was changed after it was read, which
    /// is said.
    #[arg(long, conflicts_with = "copy_links")]
    pub(crate) remove_source_files: bool,
}
