//! `howdah serve`.

use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Answers copies on one port
///
/// Clients read and write below one directory and cannot leave it. Only holders of a key that is
/// listed in the file of authorised keys get in; without that file nobody does.
///
/// Examples:
///
///   howdah serve --root /data
///   howdah serve --root /data --listen 192.0.2.7:4433 --authorized-keys /etc/howdah/keys
///
/// To let a client in, run 'howdah key show' there and append the line that it prints:
///
///   echo 'howdah-ed25519 AAAA... anna@laptop' >> ~/.config/howdah/authorized_keys
///
/// In front of a key may stand, separated by commas, root="/data/anna", read-only, write-only, no-delete,
/// max-rate="2gbit". The file is read again when it changes, and on SIGHUP.
///
/// Clients whose networks let no UDP through come over TCP, to the same port number.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct ServeArgs {
    /// Directory that clients read and write below
    #[arg(long, value_name = "DIR")]
    pub(crate) root: PathBuf,

    /// Address and port, for UDP and TCP; unused if systemd hands sockets over
    #[arg(long, value_name = "ADDR:PORT", default_value = "[::]:4433")]
    pub(crate) listen: SocketAddr,

    /// Keys of the clients that may come in [default: ~/.config/howdah/authorized_keys]
    #[arg(long, value_name = "FILE")]
    pub(crate) authorized_keys: Option<PathBuf>,

    /// Private key of this machine, made if absent [default: ~/.config/howdah/id_ed25519.pem]
    #[arg(long, value_name = "FILE")]
    pub(crate) identity: Option<PathBuf>,
}
