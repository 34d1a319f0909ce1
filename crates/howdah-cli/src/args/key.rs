//! `howdah key`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Makes a private key and prints its public line; never overwrites one
    New(KeyArgs),
    /// Prints the public line: what a server lists to let this machine in
    Show(KeyArgs),
}

#[derive(Args, Debug)]
pub(crate) struct KeyArgs {
    /// Private key file [default: ~/.config/howdah/id_ed25519.pem]
    #[arg(long, value_name = "FILE")]
    pub(crate) identity: Option<PathBuf>,
}
