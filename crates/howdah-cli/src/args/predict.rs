//! `howdah predict`.

use super::{ProbeArgs, values};
use clap::Args;
use howdah_core::{Span, units};
use std::path::PathBuf;

/// Says how long a copy to a host would take, and what would change that
///
/// Moves made-up bytes from memory to memory for some seconds, with a real copy's protocol, and runs the copy over the path that was
/// seen in the simulator of the laboratory: as it is, and with another network or transport. The more the path changed meanwhile, the
/// further apart are the times that are told. SRC is looked through, and some of it is read; with a directory behind HOST the disk there
/// is measured, too: then howdah-bench.tmp is written in it and left behind empty.
///
/// HOST is howdah://HOST:PORT[/DIR] or, over ssh, [USER@]HOST[:DIR].
///
/// Examples:
///
///   howdah predict anna@site /data/run7
///   howdah predict --size 4TiB --time 20s howdah://site:4433
///   howdah predict howdah://site/incoming *.h5
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct PredictArgs {
    /// Where to, with a directory if its disk counts, too
    #[arg(value_name = "HOST")]
    pub(crate) target: String,

    /// What would be copied [default: made-up bytes, as many as --size says]
    #[arg(value_name = "SRC")]
    pub(crate) sources: Vec<PathBuf>,

    /// How much would be copied
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes, default_value = "10GiB", conflicts_with = "sources")]
    pub(crate) size: u64,

    /// How long the path is looked at
    #[arg(long, value_name = "TIME", value_parser = values::measured, default_value = "5s")]
    pub(crate) time: Span,

    /// Simulations at a time [default: one for each core]
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<std::num::NonZeroUsize>,

    /// For programs: JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) probe: ProbeArgs,
}
