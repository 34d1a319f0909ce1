//! `howdah daemon`.

use crate::limit::Limit;
use clap::Args;
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
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct DaemonArgs {
    #[command(flatten)]
    pub(crate) place: DaemonPlace,

    /// Jobs that run at a time
    #[arg(long, value_name = "N", default_value = "4")]
    pub(crate) max_running: NonZeroUsize,

    /// Jobs that speak with one machine at a time
    #[arg(long, value_name = "N", default_value = "2")]
    pub(crate) max_per_host: NonZeroUsize,

    /// Listen on that address, too, for whoever shows a token: 127.0.0.1:8470
    ///
    /// Only addresses of this machine alone. Tokens are in the file 'tokens' of the daemon's directory, which is made if it is not there; each
    /// is for a role: read, submit or admin.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,

    /// Show the console in a browser, logged in; with --listen it listens there, otherwise on 127.0.0.1:8470
    ///
    /// If a daemon is there already, its console is shown.
    #[arg(long)]
    pub(crate) open: bool,

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
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
}
