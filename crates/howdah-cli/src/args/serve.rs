//! `howdah serve`.

use super::audit::AuditArgs;
use clap::Args;
use howdah::Throttle;
use howdah_core::{Rate, Span, units};
use std::net::{SocketAddr, ToSocketAddrs as _};
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
/// In front of a key may stand, separated by commas, root="/data/anna", read-only, write-only, no-delete, no-list,
/// max-rate="2gbit", metadata="all" and others (docs/serve.md). The file is read again when it changes, and on SIGHUP.
///
/// Clients whose networks let no UDP through come over TCP, to the same port number.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct ServeArgs {
    /// Directory that clients read and write below
    #[arg(long, value_name = "DIR")]
    pub(crate) root: PathBuf,

    /// Serve although the list of keys, the private key or the audit log lies below a root: clients are trusted with them
    #[arg(long)]
    pub(crate) keys_below_root: bool,

    /// Address and port, for UDP and TCP; unused if systemd hands sockets over
    #[arg(long, value_name = "ADDR:PORT", default_value = "[::]:4433", value_parser = address)]
    pub(crate) listen: SocketAddr,

    /// Keys of the clients that may come in [default: ~/.config/howdah/authorized_keys]
    #[arg(long, value_name = "FILE")]
    pub(crate) authorized_keys: Option<PathBuf>,

    /// Private key of this machine, made if absent [default: ~/.config/howdah/id_ed25519.pem]
    #[arg(long, value_name = "FILE")]
    pub(crate) identity: Option<PathBuf>,

    /// User that it runs as once its port is open, if root starts it; root itself only if it is named here
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,

    /// Leave this process all that its user may do: no Landlock, no seccomp (for trouble; HOWDAH_SANDBOX=off, too)
    #[arg(long)]
    pub(crate) no_sandbox: bool,

    /// What all clients may move together, in each direction; shared fairly among those who move something
    #[arg(long, value_name = "RATE", value_parser = max_rate)]
    pub(crate) max_rate: Option<Rate>,

    /// Threads that move all data, 1 to 8, each with a socket of the port; a session is on one of them [default: as many as cores, up to 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) loops: Option<u8>,

    /// Unfinished files that nobody has gone on with for that long are removed, at the start and each day; 0s: never
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = units::parse_span)]
    pub(crate) expire_unfinished: Span,

    #[command(flatten)]
    pub(crate) audit: AuditArgs,

    /// Tell Prometheus how the server does, at http://ADDR:PORT/metrics: figures only, no names, and nothing is encrypted
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) metrics: Option<SocketAddr>,

    /// Memory that the tree of a client that asks for more may take, with its --memory
    #[arg(long, value_name = "SIZE", default_value = "48MiB", value_parser = super::values::memory)]
    pub(crate) memory: u64,
}

/// A rate at which something still moves.
fn max_rate(text: &str) -> Result<Rate, String> {
    let rate = units::parse_rate(text).map_err(|e| e.to_string())?;
    let least = Throttle::MIN;
    if rate < least {
        return Err(format!(
            "less than {} bit/s moves nothing",
            least.bits_per_sec()
        ));
    }
    Ok(rate)
}

/// An address and a port; a link-local address may have the name of its link behind it (`[fe80::1%eth0]:4433`).
fn address(text: &str) -> Result<SocketAddr, String> {
    let plain = match text.parse() {
        Ok(address) => return Ok(address),
        Err(e) if text.contains('%') => e,
        Err(e) => return Err(format!("{e}: write ADDR:PORT, an IPv6 address in brackets")),
    };
    // No name is looked up: those that it takes have a '%', which no host has.
    let parts = text
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]:"));
    let (ip, port) = parts.ok_or_else(|| plain.to_string())?;
    let port: u16 = port.parse().map_err(|_| plain.to_string())?;
    let found = (ip, port).to_socket_addrs();
    let mut found = found.map_err(|e| format!("{plain}: {e}"))?;
    found.next().ok_or_else(|| plain.to_string())
}
