//! `howdah demo`.

use super::PathArgs;
use clap::Args;
use howdah_core::{Span, units};
use std::path::PathBuf;

/// Shows what howdah does on a long fat network, beside kernel TCP (Linux)
///
/// Emulates the path, makes a file of random bytes, moves it with howdah from disk to disk, and
/// runs kernel TCP with BBR and with CUBIC over the same path from memory to memory. Prints a
/// table and writes a page with the picture.
///
/// Examples:
///
///   howdah demo
///   howdah demo --rtt 200ms --loss 0.1% --bytes 4GiB --html /tmp/demo.html
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct DemoArgs {
    /// Size of the file
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes, default_value = "1GiB")]
    pub(crate) bytes: u64,

    /// How long each kernel TCP runs
    #[arg(long, value_name = "TIME", value_parser = units::parse_span, default_value = "10s")]
    pub(crate) tcp_time: Span,

    #[command(flatten)]
    pub(crate) path: PathArgs,

    /// Where to write the page
    #[arg(long, value_name = "FILE", default_value = "howdah-demo.html")]
    pub(crate) html: PathBuf,
}
