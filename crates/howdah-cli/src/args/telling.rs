//! What a command that moves files tells, and how.

use clap::Args;
use std::path::PathBuf;

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "What is told")]
pub(crate) struct TellingArgs {
    /// Print JSON objects, one per line, on standard output (on standard error if DST is '-')
    ///
    /// The events are start, progress (every second), file, warning, and at the end summary or error. Each names the
    /// version of its schema; docs/json.md describes them.
    #[arg(long)]
    pub(crate) json: bool,

    /// Print nothing but errors
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// Print a line of progress every five seconds even where there is no terminal
    #[arg(long)]
    pub(crate) progress: bool,

    /// Append what happens to FILE, a line for each thing, with the time in UTC
    #[arg(long, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,
}
