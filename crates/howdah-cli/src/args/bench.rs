//! `howdah bench`.

use super::{ProbeArgs, values};
use clap::Args;
use howdah_core::Span;
use std::path::PathBuf;

/// Measures what a copy to and from a host could reach, and says what would limit it
///
/// Moves made-up bytes from memory to memory in both directions for some seconds each, with a real copy's protocol. With --disk it
/// measures a local directory, too, and with a directory behind HOST the disk there: then it writes howdah-bench.tmp in it and leaves it
/// behind empty. Limits of the config file do not count.
///
/// HOST is howdah://HOST:PORT[/DIR] or, over ssh, [USER@]HOST[:DIR].
///
/// Examples:
///
///   howdah bench anna@site
///   howdah bench --time 10s howdah://site:4433
///   howdah bench --disk /data howdah://site/incoming
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct BenchArgs {
    /// Where to, with a directory if its disk is to be measured, too
    #[arg(value_name = "HOST")]
    pub(crate) target: String,

    /// How long each direction is measured, about
    #[arg(long, value_name = "TIME", value_parser = values::measured, default_value = "3s")]
    pub(crate) time: Span,

    /// Measure the disk of this local directory, too
    #[arg(long, value_name = "DIR")]
    pub(crate) disk: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) probe: ProbeArgs,
}
