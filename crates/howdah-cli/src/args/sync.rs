//! `howdah sync`.

use super::{
    ArrivalArgs, ConnectArgs, FlightArgs, OutcomeArgs, SelectArgs, TellingArgs, TreeArgs, location,
};
use clap::Args;
use howdah::Location;
use std::path::PathBuf;

/// Makes a directory on one machine like one on another
///
/// What is in SRC goes into DST, which is made if it is not there. SRC and DST are written as for
/// 'howdah cp'; one of them is remote. A file is left alone if DST has one of the same size and time of
/// modification (--checksum: the same content). Given again after an interruption, the same command goes
/// on.
///
/// Without --delete nothing is deleted at DST.
///
/// Examples:
///
///   howdah sync data anna@site:data
///   howdah sync --delete --max-delete 100 site:results results
///   howdah sync --exclude '*.o' --exclude /target/ --dry-run src site:src
///   find . -type f -newer stamp -print0 | howdah sync --files-from - -0 . site:store
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct SyncArgs {
    /// The directory that is
    #[arg(value_name = "SRC", value_parser = location())]
    pub(crate) source: Location,

    /// The directory that is to be like it
    #[arg(value_name = "DST", value_parser = location())]
    pub(crate) destination: Location,

    #[command(flatten)]
    pub(crate) tree: TreeArgs,

    /// Delete at DST what SRC does not have, after everything else is in place
    ///
    /// Nothing is deleted if a part of SRC cannot be read, and nothing that --exclude names.
    #[arg(long, conflicts_with = "files_from")]
    pub(crate) delete: bool,

    /// Delete also if there is nothing at all at SRC, which otherwise deletes nothing
    #[arg(long, requires = "delete")]
    pub(crate) delete_all: bool,

    /// Delete no more than N names, those that give way included; of what SRC does not have all, or nothing
    #[arg(long, value_name = "N", requires = "delete")]
    pub(crate) max_delete: Option<u64>,

    /// Keep what is deleted or replaced in DIR, a path below DST
    #[arg(long, value_name = "DIR")]
    pub(crate) backup_dir: Option<String>,

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
    pub(crate) flight: FlightArgs,

    /// Write progress to FILE ten times a second, a JSON object per line
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}
