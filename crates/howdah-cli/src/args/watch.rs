//! `howdah watch`.

use super::{DaemonPlace, JobTimes, JobTraits};
use clap::{Args, Subcommand};
use howdah_core::{Span, units};
use std::path::PathBuf;

/// Directories whose files are copied when they are complete
///
/// A file that has been quiet for some seconds, or is renamed into place, becomes part of a job of the daemon. No file is copied twice while it
/// stays as it is, and none is forgotten, whatever becomes of the daemon in between. 'howdah job list' shows the jobs.
///
/// Examples:
///
///   howdah watch add /data/out -- cp --archive site:in
///   howdah watch add /data/out --quiet 1m --label detector -- cp --remove-source-files site:in
///   howdah watch list
///   howdah watch remove 2
#[derive(Debug, Subcommand)]
#[command(verbatim_doc_comment, subcommand_required = true)]
pub(crate) enum WatchCommand {
    Add(WatchAddArgs),
    /// Lists watched directories, the oldest first
    List(WatchListArgs),
    /// Shows all about a watched directory
    Show(WatchOneArgs),
    /// Watches directories no more, and forgets which of their files were copied; jobs are left alone
    Remove(WatchActArgs),
    /// Lets watches rest; what comes meanwhile is found when they are resumed
    Pause(WatchActArgs),
    /// Lets them go on
    Resume(WatchActArgs),
}

/// Watches a directory with all below it, and prints the number of the watch
///
/// COMMAND is cp or sync with options and the place where the files go, which comes last; what is copied is not said. What is in DIR
/// already is copied, too.
///
/// Examples:
///
///   howdah watch add /data/out -- cp --archive site:in
///   howdah watch add /data/out --quiet 1m -- cp --remove-source-files site:in
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct WatchAddArgs {
    /// The directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// A file that has not changed for so long is complete; from 1s to 1d
    #[arg(long, value_name = "TIME", value_parser = units::parse_span, default_value = "5s")]
    pub(crate) quiet: Span,

    #[command(flatten)]
    pub(crate) traits: JobTraits,

    #[command(flatten)]
    pub(crate) times: JobTimes,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: DaemonPlace,

    /// cp or sync, options, and where the files go
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) command: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct WatchListArgs {
    /// Print a JSON object per directory
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: DaemonPlace,
}

#[derive(Args, Debug)]
pub(crate) struct WatchOneArgs {
    /// Its number
    #[arg(value_name = "WATCH")]
    pub(crate) watch: i64,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: DaemonPlace,
}

#[derive(Args, Debug)]
pub(crate) struct WatchActArgs {
    /// Their numbers
    #[arg(value_name = "WATCH", required = true)]
    pub(crate) watches: Vec<i64>,

    /// Print a JSON object per directory
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: DaemonPlace,
}
