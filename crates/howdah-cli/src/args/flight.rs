//! The flight recorder of a copy.

use clap::Args;
use std::path::PathBuf;

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "What is told")]
pub(crate) struct FlightArgs {
    /// Write what the path did to FILE here, for 'howdah lab replay'
    ///
    /// Rates, round trips, queue, losses, and what held the copy back, in time: at most 1 MiB however long it takes, and no name of a file,
    /// no content, no host and no address. FILE appears when the copy ends, also when it fails. Not for copies between two other machines.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dry_run", "no_record"])]
    pub(crate) record: Option<PathBuf>,

    /// Keep no recording of a copy that is held up for long
    ///
    /// Without it, a copy that gets less than half of what its path carries for more than a minute leaves its recording in
    /// ~/.local/state/howdah/recordings (the last sixteen, readable by their owner only), and says so.
    #[arg(long)]
    pub(crate) no_record: bool,
}
