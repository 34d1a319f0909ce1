//! `howdah cp`.

use super::{PaceArgs, SshArgs, TellingArgs};
use clap::Args;
use howdah::Location;
use howdah_core::{Span, units};
use std::path::PathBuf;

/// Copies a file or a stream to or from another machine
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
/// ./NAME.
///
/// Exactly one of them is remote. A file appears under its name only when it is complete, verified
/// and on disk. Data goes to standard output, everything else to standard error.
///
/// Examples:
///
///   howdah cp big.tar anna@site:incoming/
///   howdah cp site:/data/results.h5 .
///   howdah cp big.tar howdah://site:4433/incoming/
///   howdah cp howdah://site/results.h5 .
///   tar c data | howdah cp - howdah://site/data.tar
///   howdah cp --time 20s --json zero: howdah://site/null:
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct CpArgs {
    /// What to copy
    #[arg(value_name = "SRC")]
    pub(crate) source: Location,

    /// Where to
    #[arg(value_name = "DST")]
    pub(crate) destination: Location,

    #[command(flatten)]
    pub(crate) telling: TellingArgs,

    #[command(flatten)]
    pub(crate) ssh: SshArgs,

    /// Trust a server that was never met, and remember its key
    #[arg(long)]
    pub(crate) accept_new: bool,

    /// Private key of this machine [default: ~/.config/howdah/id_ed25519.pem]
    #[arg(long, value_name = "FILE")]
    pub(crate) identity: Option<PathBuf>,

    /// Keys of servers [default: ~/.config/howdah/known_hosts]
    #[arg(long, value_name = "FILE")]
    pub(crate) known_hosts: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) pace: PaceArgs,

    /// Give up after this long without a sign of life from the peer
    #[arg(long, value_name = "TIME", value_parser = units::parse_span, default_value = "8s")]
    pub(crate) idle_timeout: Span,

    /// Stop after this long, as if the source had ended: for measuring with zero:
    #[arg(long, value_name = "TIME", value_parser = units::parse_span)]
    pub(crate) time: Option<Span>,

    /// Write progress to FILE ten times a second, a JSON object per line
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}
