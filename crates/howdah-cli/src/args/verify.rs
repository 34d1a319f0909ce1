//! `howdah verify`.

use super::manifest::HashName;
use super::{ConnectArgs, SelectArgs, TellingArgs, location};
use clap::Args;
use howdah::Location;
use std::path::PathBuf;

/// Compares two places, here or on other machines, and changes neither
///
/// A and B are written as for 'howdah cp'. Both are files, or both are directories whose contents are
/// compared. Each side hashes its own files (BLAKE3); only hashes travel. With --manifest a list of hashes is A
/// and a directory here is B.
///
/// Standard output gets a line for each difference, in a fixed order, and nothing if there is none:
///
///   missing in A  PATH              only B has it; a directory with all that is in it
///   missing in B  PATH
///   differs: kind (file, symlink)  PATH
///   differs: size (100, 90)  PATH
///   differs: contents (first difference within bytes 0..1048576)  PATH
///   differs: target|mode|time|owner|attributes|hard links ...  PATH
///   unread in A  PATH               it could not be compared; also 'in B', 'in A and B'
///
/// Two blanks stand before PATH and nowhere earlier. Directories end with a slash; control characters
/// are escaped.
///
/// Exit codes: 0 equal, 15 different; 6 something could not be read and 13 something changed meanwhile,
/// whatever else was found.
///
/// Examples:
///
///   howdah verify data anna@site:data
///   howdah verify -a /backup/results site:results
///   howdah verify --exclude '*.tmp' howdah://site/run7 /scratch/run7
///   howdah verify --reread /mnt/usb/run7 site:run7
///   howdah verify --quick site-a:archive site-b:archive
///   howdah verify --manifest run7.b3 /scratch/run7
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    override_usage = "howdah verify [OPTIONS] <A> <B>\n       howdah verify [OPTIONS] --manifest <FILE> [DIR]"
)]
pub(crate) struct VerifyArgs {
    /// One place; with --manifest the directory that its paths lie below
    #[arg(value_name = "A", value_parser = location(), required_unless_present = "manifest")]
    pub(crate) a: Option<Location>,

    /// The other one
    #[arg(value_name = "B", value_parser = location(), required_unless_present = "manifest", conflicts_with = "manifest")]
    pub(crate) b: Option<Location>,

    /// Check files against a list in FILE ('-': standard input) as cp and sync --manifest, b3sum and sha256sum write it
    ///
    /// The files lie below DIR, which is given instead of A and B and is here, and no path or link leads out of it. Without DIR the
    /// paths mean what they mean as they are. All is checked before anything is read: a line that is none ends it with code 2.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["archive", "quick", "reread"])]
    pub(crate) manifest: Option<PathBuf>,

    /// What the list has; lines that say it themselves (SHA256 (PATH) = HEX) are what they say
    ///
    /// Without it SHA-256 if FILE is called so (SHA256SUMS, x.sha256), otherwise BLAKE3.
    #[arg(long, value_name = "HASH", value_enum, requires = "manifest")]
    pub(crate) manifest_hash: Option<HashName>,

    /// Compare modes, times, owners, extended attributes, ACLs and hard links as well
    #[arg(long, short = 'a')]
    pub(crate) archive: bool,

    /// Compare files by size and time of modification, read none
    #[arg(long)]
    pub(crate) quick: bool,

    /// Read files from their devices, not from memory: the page cache is passed by on both sides
    #[arg(long, conflicts_with = "quick")]
    pub(crate) reread: bool,

    #[command(flatten)]
    pub(crate) select: SelectArgs,

    #[command(flatten)]
    pub(crate) telling: TellingArgs,

    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}
