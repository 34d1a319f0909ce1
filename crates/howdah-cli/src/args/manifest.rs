//! Lists of files and their hashes.

use clap::{Args, ValueEnum};
use howdah::ManifestHash;
use std::path::PathBuf;

/// Where the list of a copy goes.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "What is told")]
pub(crate) struct ManifestArgs {
    /// Write a list of all files of the copy and their hashes to FILE here, as b3sum and sha256sum write it
    ///
    /// A line 'HEX  PATH' for each file that DST has now, those that were there already too, with its path below DST, sorted by
    /// bytes. 'howdah verify --manifest', 'b3sum -c' and 'sha256sum -c' check it. FILE appears when the copy is complete; one
    /// that is not writes none. What the copy has not verified itself is hashed on this side. Not for copies between two
    /// other machines.
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    pub(crate) manifest: Option<PathBuf>,

    /// Have both ends sign what was copied, and write that to FILE here
    ///
    /// The receipt has each file of the copy with size and BLAKE3, both keys and addresses, and when it was. The other end reads its files once
    /// more and signs with its own key, through ssh with the one that 'howdah key new' has made for its user; it is asked before the copy begins whether it does. 'howdah receipt
    /// check' verifies it. FILE appears when the copy is complete. Not for copies between two other machines.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dry_run", "manifest"])]
    pub(crate) receipt: Option<PathBuf>,

    /// Which hash the list has; without it SHA-256 if FILE is called so (SHA256SUMS, x.sha256), otherwise BLAKE3
    #[arg(long, value_name = "HASH", value_enum, requires = "manifest")]
    pub(crate) manifest_hash: Option<HashName>,
}

/// A hash by the name of its program.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum HashName {
    /// BLAKE3, as of b3sum
    #[value(alias = "blake3")]
    B3,
    /// SHA-256, as of sha256sum; the files on this side are read once more for it
    Sha256,
}

impl From<HashName> for ManifestHash {
    fn from(name: HashName) -> Self {
        match name {
            HashName::B3 => Self::Blake3,
            HashName::Sha256 => Self::Sha256,
        }
    }
}
