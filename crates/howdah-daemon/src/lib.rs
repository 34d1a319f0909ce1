//! The service: jobs that outlive the terminals they were submitted from.
//!
//! Each job is a process of its own, `howdah COMMAND --json`, in a session of its own. The daemon starts it and follows what it
//! writes into files; it may be killed, upgraded and started again, and finds its children by what they left there.
//!
//! Rooms, from what decides to what acts: [`job`] (what a job is), [`queue`] (what is to start, and what an end means; no
//! clock, no disk), [`schedule`] (when a
//! job comes again), `state` (`SQLite`: the truth), [`process`] (children, and how they are found again), `manager` (the
//! one thread that writes), [`notices`] (who is told), [`api`] (HTTP over a Unix socket), [`client`].

#![cfg(target_os = "linux")]

pub mod api;
pub mod bounds;
pub mod client;
mod extent;
mod follower;
pub mod job;
pub mod limits;
mod lines;
mod listen;
mod manager;
pub mod metrics;
pub mod notices;
mod order;
pub mod outside;
pub mod pace;
mod pacer;
mod position;
mod private;
pub mod process;
pub mod queue;
pub mod schedule;
mod state;
mod time;
pub mod times;
pub mod tls;
pub mod tokens;
pub mod watch;
mod watcher;

pub use howdah_audit::Level;
use job::Grammar;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// What a daemon is told when it begins.
pub struct Config {
    /// Where everything of it lies. Made if it is not there; only its user may enter.
    pub directory: PathBuf,
    /// The program whose commands are jobs.
    pub program: PathBuf,
    /// What may run at a time.
    pub limits: queue::Limits,
    /// An address to listen on, too, for who has a token: without TLS one of this machine alone.
    pub listen: Option<SocketAddr>,
    /// What those who come over TCP are shown; None: nothing is encrypted there.
    pub tls: Option<tls::Tls>,
    /// Where is written down who asks for what.
    pub audit: Option<howdah_audit::AuditFile>,
    /// Who is told what becomes of jobs; None: whom the file [`notices::FILE`] in the directory names, if there is one.
    pub notify: Option<PathBuf>,
    /// Hears what the administrator should.
    pub log: fn(Level, &str),
    /// Directories that jobs may touch, with all below them; none: every one.
    pub allow: Vec<PathBuf>,
    /// Directories and files that no job may touch, besides the daemon's own directory: its configuration and keys.
    pub kept: Vec<PathBuf>,
    /// Where whoever browses begins: the home of this user.
    pub home: PathBuf,
    /// What all running jobs share, in words; the API can set something else.
    pub limit: Option<String>,
    /// The command line's own parser.
    pub grammar: Arc<dyn Grammar>,
    /// What else the program knows.
    pub outside: Arc<dyn outside::Outside>,
}

/// Why a daemon does not begin, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its directory cannot be used.
    #[error("{}: {why}", path.display())]
    Directory {
        /// Which one.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Another one is there.
    #[error("another daemon has {}: 'howdah job list' asks it", .0.display())]
    Taken(PathBuf),
    /// Others could reach it without anything being encrypted.
    #[error(
        "{0} is no address of this machine alone, and nothing is encrypted: add --tls (or --tls-cert and --tls-key), or listen on 127.0.0.1 or ::1 and reach it from elsewhere through ssh -L"
    )]
    NotLoopback(SocketAddr),
    /// The address cannot be had.
    #[error("cannot listen on {address}: {source}; choose another with --listen")]
    Listen {
        /// Which one.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// What is written down cannot be read or written.
    #[error("{0}")]
    State(#[from] StateError),
    /// The system refuses something.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the system says.
        source: std::io::Error,
    },
}

pub use api::{Door, serve};
pub use private::write_new as write_private;
pub use state::StateError;
