//! `howdah receipt`.

use super::TellingArgs;
use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum ReceiptCommand {
    Check(Box<ReceiptCheckArgs>),
}

/// Holds a receipt of cp or sync --receipt against its signatures, and the files below a directory against it
///
/// The network is not used. DIR is DST of the copy, SRC, or any directory that has the files by the names that they have below
/// DST: of 'howdah cp -r run7 site:store/' the directory that run7 lies in.
///
/// Standard output gets a line for each difference, as of 'howdah verify', where the receipt is A: 'missing in A' is a
/// file that it does not name, 'missing in B' one that is not there, 'differs: contents' one that was changed. Files are looked for
/// that it does not name where everything was copied: in directories that came whole. Symbolic links, empty directories
/// and times are not in a receipt. Who has signed, and when, is said on standard error.
///
/// Exit codes: 0 all is as it was signed, 16 files differ, 10 the receipt is not what was signed, 7 it is signed
/// by others than --signer; 6 something could not be read, whatever else was found.
///
/// Examples:
///
///   howdah cp -r --receipt run7.receipt run7 site:store/
///   howdah receipt check run7.receipt .
///   ssh site howdah receipt check - store < run7.receipt
///   howdah receipt check --signer ~/.config/howdah/known_hosts --signer me.pub run7.receipt .
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct ReceiptCheckArgs {
    /// The receipt; '-' is standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// The directory that has the files
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// Both ends must have signed with one of these keys; may be given several times
    ///
    /// A line as 'howdah key show' prints it, or a file of such lines, also of authorized keys or known hosts. Where more
    /// than one is named, one key for both ends will not do. Without it, whoever has signed is only named.
    #[arg(long = "signer", value_name = "FILE|KEY")]
    pub(crate) signers: Vec<OsString>,

    /// Files that the receipt does not name are no difference
    #[arg(long)]
    pub(crate) allow_extra: bool,

    #[command(flatten)]
    pub(crate) telling: TellingArgs,
}
