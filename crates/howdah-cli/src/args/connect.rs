//! How a command that moves files reaches its server.

use super::{PaceArgs, SshArgs, values};
use clap::Args;
use howdah_core::Span;
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(next_help_heading = "The other side")]
pub(crate) struct ConnectArgs {
    #[command(flatten)]
    pub(crate) ssh: SshArgs,

    #[command(flatten)]
    pub(crate) keys: KeysArgs,

    /// Neither begin with what the last transfer learnt of the path, nor remember what this one learns
    #[arg(long)]
    pub(crate) no_memory: bool,

    #[command(flatten)]
    pub(crate) pace: PaceArgs,

    /// Give up after this long without a sign of life from the peer
    #[arg(long, value_name = "TIME", value_parser = values::patience, default_value = "8s")]
    pub(crate) idle_timeout: Span,
}

/// Who this is, and who the other side is.
#[derive(Args, Debug)]
pub(crate) struct KeysArgs {
    /// Trust a server that was never met, and remember its key
    #[arg(long)]
    pub(crate) accept_new: bool,

    /// Private key of this machine [default: ~/.config/howdah/id_ed25519.pem]
    #[arg(long, value_name = "FILE")]
    pub(crate) identity: Option<PathBuf>,

    /// Keys of servers [default: ~/.config/howdah/known_hosts]
    #[arg(long, value_name = "FILE")]
    pub(crate) known_hosts: Option<PathBuf>,
}
