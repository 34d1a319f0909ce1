//! `howdah daemon`.

use super::audit::AuditArgs;
use crate::limit::Limit;
use clap::Args;
use howdah_daemon::tls::Fingerprint;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Runs jobs: copies that outlive the terminals they were submitted from
///
/// 'howdah job submit' gives it work, by a socket that only this user (and root) can reach. Each job is a process of its own. If the
/// daemon ends or is killed, jobs go on; the next daemon finds them again. Nothing is lost, and nothing runs twice.
///
/// Examples:
///
///   howdah daemon
///   howdah daemon --max-running 8 --max-per-host 1
///   howdah daemon --open
///   howdah daemon --limit 'mon-fri 08:00-18:00 500mbit, else none'
///   howdah daemon --listen 0.0.0.0:8470 --tls
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct DaemonArgs {
    /// Directory of the daemon: its database, its socket, what jobs say [default: ~/.local/state/howdah/daemon]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,

    /// Jobs that run at a time
    #[arg(long, value_name = "N", default_value = "4")]
    pub(crate) max_running: NonZeroUsize,

    /// Jobs that speak with one machine at a time
    #[arg(long, value_name = "N", default_value = "2")]
    pub(crate) max_per_host: NonZeroUsize,

    /// Listen on that address, too, for whoever shows a token: 127.0.0.1:8470
    ///
    /// Other addresses than those of this machine alone need --tls, or --tls-cert and --tls-key. Tokens are in the file 'tokens' of the daemon's directory, which is made if it is not there; each
    /// is for a role: read, submit or admin.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,

    /// Speak TLS there, with a certificate that the daemon makes once and signs itself; its fingerprint is printed
    #[arg(long, requires = "listen", conflicts_with = "tls_cert")]
    pub(crate) tls: bool,

    /// Speak TLS there, with that certificate (PEM, with those that lead to one that clients know)
    #[arg(long, value_name = "FILE", requires = "listen", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The private key of that certificate (PEM), which nobody else may read
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Show the console in a browser, logged in; with --listen it listens there, otherwise on 127.0.0.1:8470
    ///
    /// If a daemon is there already, its console is shown.
    #[arg(long)]
    pub(crate) open: bool,

    #[command(flatten)]
    pub(crate) audit: AuditArgs,

    /// File (TOML) that says who is told what becomes of jobs: webhooks, commands and mail (docs/daemon.md) [default: notify.toml in the daemon's directory, if it is there]
    #[arg(long, value_name = "FILE")]
    pub(crate) notify: Option<PathBuf>,

    /// Tell everybody in that file that this is a test, say how that went, and end
    #[arg(long)]
    pub(crate) notify_test: bool,

    /// Jobs may touch that directory of this machine, with all below it, and no other; may be given several times
    #[arg(long, value_name = "DIR")]
    pub(crate) allow: Vec<PathBuf>,

    /// What all running copies take of the wire together: 2gbit, or a timetable as of 'howdah cp --limit'
    ///
    /// Each gets the same share; what one cannot take is for the others. 'howdah job limit' changes it at once.
    #[arg(long, value_name = "LIMIT")]
    pub(crate) limit: Option<Limit>,
}

/// Which daemon.
#[derive(Args, Clone, Debug)]
pub(crate) struct DaemonPlace {
    /// Directory of the daemon: its database, its socket, what jobs say [default: ~/.local/state/howdah/daemon]
    #[arg(long, value_name = "DIR", conflicts_with = "daemon")]
    pub(crate) state: Option<PathBuf>,

    /// Ask the daemon at that address, with a token: https://HOST:8470 [default: $HOWDAH_DAEMON]
    #[arg(long, value_name = "URL")]
    pub(crate) daemon: Option<String>,

    /// With --daemon: the file that the token is in, alone or in a line of the daemon's file [default: $HOWDAH_DAEMON_TOKEN_FILE]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// With --daemon: its certificate is the one with that SHA-256, as the daemon has printed it [default: $HOWDAH_DAEMON_FINGERPRINT]
    #[arg(long, value_name = "SHA256", conflicts_with = "ca")]
    pub(crate) fingerprint: Option<Fingerprint>,

    /// With --daemon: its certificate is for that host, and one of those in that file (PEM) vouches for it [default: $HOWDAH_DAEMON_CA]
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}
