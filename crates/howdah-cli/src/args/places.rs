//! `howdah ls`, `howdah du` and `howdah clean`.

use super::{ConnectArgs, location};
use clap::Args;
use howdah::Location;
use howdah_core::{Span, units};

/// Lists what is at places, here or on other machines
///
/// A PLACE is written as for 'howdah cp': a directory, whose names are listed, or a file. Wildcards (*, ?, [a-z]) in the name of a
/// place on another machine are expanded there; quote them. Names are sorted by their bytes, directories end with a slash, control
/// characters are escaped. Links are named, not followed. A key that may not read is refused.
///
/// Exit codes: as of 'howdah cp'; 6 if something could not be read.
///
/// Examples:
///
///   howdah ls anna@site:incoming
///   howdah ls -l 'site:data/*.tar'
///   howdah ls -R --json howdah://site/run7
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct LsArgs {
    /// What to list
    #[arg(value_name = "PLACE", num_args = 1.., required = true, value_parser = location())]
    pub(crate) places: Vec<Location>,

    /// Kind, mode, owner, group, bytes and time of modification (UTC) of each name, too
    #[arg(long, short = 'l')]
    pub(crate) long: bool,

    /// List what is in directories as well, each name with its path below PLACE
    #[arg(long, short = 'R')]
    pub(crate) recursive: bool,

    /// Print a JSON object per name, and one at the end
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// Counts the bytes and names at places, here or on other machines
///
/// A line for each directory with all that is in it: bytes, names, path. Bytes are those of the files' contents, as a copy of them would
/// move; each name of a file counts. A PLACE is written as for 'howdah ls'.
///
/// Exit codes: as of 'howdah cp'; 6 if something could not be read.
///
/// Examples:
///
///   howdah du -s anna@site:projects
///   howdah du -b 'site:run*' howdah://site/run7
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct DuArgs {
    /// What to count
    #[arg(value_name = "PLACE", num_args = 1.., required = true, value_parser = location())]
    pub(crate) places: Vec<Location>,

    /// Only a line for each PLACE
    #[arg(long, short = 's')]
    pub(crate) summarize: bool,

    /// Print bytes as a number, not as KiB, MiB and so on
    #[arg(long, short = 'b')]
    pub(crate) bytes: bool,

    /// Print a JSON object per line, and one at the end
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// Removes what interrupted copies have left at places, here or on other machines
///
/// An interrupted copy leaves an unfinished file (.NAME.DIGITS.howdah-part) and its journal, for the same command to go on
/// with. Those in directory PLACE and below it are removed, unless somebody writes to them; each is told. Where locks prove nothing,
/// as on NFS, nothing is removed. A key must have the right to write and to delete.
///
/// Examples:
///
///   howdah clean --dry-run anna@site:incoming
///   howdah clean --older-than 7d /scratch site:scratch
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct CleanArgs {
    /// Directories to look in
    #[arg(value_name = "PLACE", num_args = 1.., required = true, value_parser = location())]
    pub(crate) places: Vec<Location>,

    /// Say what would be removed, and remove nothing
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,

    /// Only what nobody has written to for that long
    #[arg(long, value_name = "TIME", value_parser = units::parse_span)]
    pub(crate) older_than: Option<Span>,

    /// Print a JSON object per name, and one at the end
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}
