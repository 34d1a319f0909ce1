//! What a file goes through before it appears, and who hears of it.

use clap::{Args, ValueEnum};
use howdah_core::{Span, units};

#[derive(Args, Clone, Debug)]
pub(crate) struct ArrivalArgs {
    /// Begin anew, whatever an interrupted copy has left at the destination
    #[arg(long)]
    pub(crate) no_resume: bool,

    /// How a file is verified before it appears: as it is written, or also read back from the device
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    pub(crate) verify: Verify,

    /// If the destination's disk or quota is full: wait that long for space, then end with exit code 11; 0: at once
    #[arg(long, value_name = "TIME", value_parser = units::parse_span, default_value = "5min")]
    pub(crate) wait_for_space: Span,

    /// If the connection is lost: connect again and go on, until nothing has come for that long; 0: end with exit code 5 at once
    #[arg(long, value_name = "TIME", value_parser = units::parse_span, default_value = "5min")]
    pub(crate) reconnect: Span,

    /// Tell of each file of a tree that is in place: its name, or with --json an event, and a line in the log
    #[arg(long, short = 'v', visible_alias = "verbose")]
    pub(crate) each_file: bool,
}

/// What a file goes through before it appears.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Verify {
    /// What was written is hashed as the system gives it back, and then synced
    #[default]
    Written,
    /// When it is synced, it is read from the device and hashed once more
    Reread,
}
