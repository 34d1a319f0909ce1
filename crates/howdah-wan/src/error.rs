//! What can go wrong while a world is made.

use std::io;

/// Why there is no emulated WAN.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WanError {
    /// The process may not create network namespaces.
    #[error(
        "the WAN emulator must create network namespaces and needs root (or CAP_SYS_ADMIN and \
         CAP_NET_ADMIN); try again with sudo"
    )]
    NotPermitted,
    /// `/dev/net/tun` is missing.
    #[error("the WAN emulator needs /dev/net/tun ({0}); load the tun driver or pass the device in")]
    NoTun(#[source] io::Error),
    /// `ip` is missing.
    #[error("the WAN emulator needs the program 'ip' from the iproute2 package ({0})")]
    NoIproute(#[source] io::Error),
    /// `ip` refused.
    #[error("'{command}' failed: {message}")]
    Ip {
        /// What was asked of it.
        command: String,
        /// What it wrote on standard error.
        message: String,
    },
    /// The program that should run in the near namespace could not be started.
    #[error("cannot run '{program}': {source}")]
    Run {
        /// Its name.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// Any other system call.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The configuration makes no sense.
    #[error("{0}")]
    BadConfig(String),
}

impl WanError {
    /// For `map_err`: names what was tried.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }
}
