//! Answers copies on one UDP port.

use crate::{Cancel, Error, ErrorKind};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Directory that clients may read and write below.
    pub root: PathBuf,
    /// Address and UDP port.
    pub listen: SocketAddr,
}

/// A bound server.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
}

impl Server {
    /// Opens the root and the socket.
    pub fn bind(config: ServerConfig) -> Result<Self, Error> {
        Ok(Self { config })
    }

    /// The address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.config.listen
    }

    /// Serves until cancelled.
    pub fn run(self, _cancel: &Cancel) -> Result<(), Error> {
        Err(Error::new(ErrorKind::Usage, "cannot serve yet"))
    }
}
