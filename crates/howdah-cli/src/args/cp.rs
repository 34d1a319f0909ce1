//! `howdah cp`.

use super::{
    ArrivalArgs, ConnectArgs, FlightArgs, LeaseArgs, OutcomeArgs, SelectArgs, TellingArgs,
    TreeArgs, location, values,
};
use clap::Args;
use howdah::Location;
use howdah_core::Span;
use std::path::PathBuf;

/// Copies files, directories or a stream to or from another machine
///
/// SRC and DST are each one of:
///
///   path                    a local file (DST: or an existing directory)
///   -                       standard input or output
///   zero:SIZE               that many zero bytes (SRC only; no SIZE: endless)
///   null:                   counted and thrown away (DST only)
///   [USER@]HOST:path        a file on a machine that ssh reaches, as with scp;
///                           ssh://USER@HOST:PORT/path names the port of its sshd
///   howdah://HOST:PORT/path a file below the root of 'howdah serve' on HOST
///
/// The path on the other machine may also be zero:SIZE or null:. A local name with a colon is written
/// ./NAME, and so is a file of such a name there (HOST:./null:). Wildcards (*, ?, [a-z]) in the path of a SRC on another machine are expanded there; quote them.
///
/// SRC or DST is remote, or both are HOST:path: then the data flows from one to the other. There may be several SRC on the same side. If DST is a directory,
/// they go below it under their names; otherwise the one SRC becomes DST. With -r a directory goes with
/// all that is in it ('dir/.': only what is in it); files that are at DST already, by size and time of
/// modification, are left as they are. If a copy is interrupted, the same command goes on where it ended. A
/// file appears under its name only when it is complete, verified and on disk. Data goes to standard output,
/// everything else to standard error.
///
/// Examples:
///
///   howdah cp big.tar anna@site:incoming/
///   howdah cp site:/data/results.h5 .
///   howdah cp big.tar howdah://site:4433/incoming/
///   howdah cp site-a:/data/run7.tar site-b:/data/
///   howdah cp howdah://site/results.h5 .
///   howdah cp -r run1 run2 anna@site:store/
///   howdah cp -a site:projects .
///   howdah cp -r --manifest run7.b3 run7 site:store/
///   tar c data | howdah cp - howdah://site/data.tar
///   howdah cp --time 20s --json zero: howdah://site/null:
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    override_usage = "howdah cp [OPTIONS] <SRC>... <DST>\n       howdah cp [OPTIONS] --plan <PLAN> --lease <ID>"
)]
pub(crate) struct CpArgs {
    /// What to copy, and at the end where to
    // Two names in one, as options may stand between the two.
    #[arg(value_name = "SRC> <DST", num_args = 1.., required_unless_present = "plan", value_parser = location())]
    pub(crate) paths: Vec<Location>,

    /// Copy directories with all that is in them
    #[arg(long, short = 'r', visible_short_alias = 'R')]
    pub(crate) recursive: bool,

    /// Make permissions equal, and keep the time of modification of a single file; trees always keep times
    ///
    /// Without it (and without -a) a new file gets the source's permissions through the umask, as with cp and scp,
    /// and what is there keeps its own.
    #[arg(long, short = 'p')]
    pub(crate) preserve: bool,

    #[command(flatten)]
    pub(crate) tree: TreeArgs,

    #[command(flatten)]
    pub(crate) outcome: OutcomeArgs,

    #[command(flatten)]
    pub(crate) select: SelectArgs,

    #[command(flatten)]
    pub(crate) telling: TellingArgs,

    #[command(flatten)]
    pub(crate) connect: ConnectArgs,

    #[command(flatten)]
    pub(crate) arrival: ArrivalArgs,

    #[command(flatten)]
    pub(crate) lease: LeaseArgs,

    /// Stop after this long, as if the source had ended: for measuring with zero:
    #[arg(long, value_name = "TIME", value_parser = values::measured)]
    pub(crate) time: Option<Span>,

    /// Threads that move one file (or zero:), 1 to 8, each with a connection of its own, as far as the server has as many loops
    ///
    /// For copies that end at what one core can do: 'howdah serve' has a loop for each core. Together they count as one flow to others.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8), default_value = "1")]
    pub(crate) loops: u8,

    #[command(flatten)]
    pub(crate) flight: FlightArgs,

    /// Write progress to FILE ten times a second, a JSON object per line
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

impl CpArgs {
    pub(crate) fn sources(&self) -> &[Location] {
        self.paths.split_last().map_or(&[], |(_, sources)| sources)
    }

    pub(crate) fn destination(&self) -> &Location {
        self.paths.last().unwrap_or(&Location::Stdio)
    }

    /// Whether it is a copy of files with names, not of one object's bytes.
    pub(crate) fn is_tree(&self) -> bool {
        self.recursive
            || self.preserve
            || self.tree.about_names().is_some()
            || self.paths.len() > 2
            || self.outcome.remove_source_files
            || !self.select.is_empty()
    }
}
