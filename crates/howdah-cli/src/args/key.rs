//! `howdah key`.

use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Makes a private key and prints its public line; never overwrites one
    New(NewKeyArgs),
    /// Prints the public line: what a server lists to let this machine in
    Show(KeyArgs),
    /// Prints fingerprints, as a server's log and the question about a new server show them
    Fingerprint(FingerprintArgs),
}

#[derive(Args, Debug)]
pub(crate) struct NewKeyArgs {
    /// What stands behind the key in lists and logs [default: USER@HOST]
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,

    #[command(flatten)]
    pub(crate) key: KeyArgs,
}

#[derive(Args, Debug)]
pub(crate) struct FingerprintArgs {
    /// A private key file, a file of public lines, or a public line itself [default: this machine's key]
    #[arg(value_name = "FILE|KEY")]
    pub(crate) of: Vec<OsString>,

    #[command(flatten)]
    pub(crate) key: KeyArgs,
}

#[derive(Args, Debug)]
pub(crate) struct KeyArgs {
    /// Private key file [default: ~/.config/howdah/id_ed25519.pem]
    #[arg(long, value_name = "FILE")]
    pub(crate) identity: Option<PathBuf>,
}
