//! The TLS 1.3 handshake (RFC 8446) with raw public keys (RFC 7250), as handshake bytes in and
//! out, and a stand-in of the same size for simulations.

use crate::codec::ConnectionId;
use crate::keys::{KeyPair, KeySource};
use std::fmt;
use std::sync::Arc;

#[cfg(feature = "sim")]
mod simulated;
#[cfg(feature = "tls")]
mod tls;

#[cfg(all(test, feature = "tls"))]
pub(crate) use tls::provider;
#[cfg(feature = "tls")]
pub use tls::{IdentityError, TlsIdentity};

#[cfg(not(any(feature = "tls", feature = "sim")))]
compile_error!("howdah-proto needs the feature `tls`, or `sim` where nothing real is moved");

/// Decides about a peer by its `SubjectPublicKeyInfo` in DER.
pub type KeyCheck = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// Which end of the handshake this is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    /// Opens the connection.
    Client,
    /// Answers.
    Server,
}

/// Keys that the handshake has just produced.
#[derive(Debug)]
pub(crate) enum NewKeys {
    Handshake(KeyPair),
    Data(KeyPair, KeySource),
}

/// Why the handshake failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum HandshakeError {
    KeyRefused,
    Tls(String),
}

/// Where the secrets come from.
#[derive(Clone, Debug)]
pub enum Security {
    /// TLS 1.3 with this identity.
    #[cfg(feature = "tls")]
    Tls(TlsIdentity),
    /// No secrets, but flights of the same size: for the simulator.
    #[cfg(feature = "sim")]
    Simulated,
}

/// One side of a running handshake.
pub(crate) enum Handshake {
    #[cfg(feature = "tls")]
    Tls(Box<tls::TlsHandshake>),
    #[cfg(feature = "sim")]
    Simulated(simulated::SimulatedHandshake),
    /// Both sides have their keys.
    Over,
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handshake")
    }
}

impl Handshake {
    pub(crate) fn new(
        security: &Security,
        side: Side,
        parameters: Vec<u8>,
    ) -> Result<Self, HandshakeError> {
        match security {
            #[cfg(feature = "sim")]
            Security::Simulated => {
                let simulated = simulated::SimulatedHandshake::new(side, parameters);
                Ok(Self::Simulated(simulated))
            }
            #[cfg(feature = "tls")]
            Security::Tls(identity) => {
                let tls = tls::TlsHandshake::new(identity, side, parameters)?;
                Ok(Self::Tls(Box::new(tls)))
            }
        }
    }

    /// Keys of Initial packets, from the client's first destination id.
    pub(crate) fn initial_keys(security: &Security, id: ConnectionId, side: Side) -> KeyPair {
        match security {
            #[cfg(feature = "sim")]
            Security::Simulated => KeyPair::CLEAR,
            #[cfg(feature = "tls")]
            Security::Tls(_) => tls::TlsHandshake::initial_keys(id, side),
        }
    }

    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<(), HandshakeError> {
        match self {
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.read(bytes),
            #[cfg(feature = "sim")]
            Self::Simulated(sim) => sim.read(bytes),
            Self::Over => Err(HandshakeError::Tls("words after the handshake".to_owned())),
        }
    }

    /// Appends handshake bytes of the level in force; returned keys mean that the next call writes
    /// at the next level.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>) -> Option<NewKeys> {
        match self {
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.write(out),
            #[cfg(feature = "sim")]
            Self::Simulated(sim) => sim.write(out),
            Self::Over => None,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        match self {
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.is_done(),
            #[cfg(feature = "sim")]
            Self::Simulated(sim) => sim.is_done(),
            Self::Over => true,
        }
    }

    pub(crate) fn peer_parameters(&self) -> Option<&[u8]> {
        match self {
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.peer_parameters(),
            #[cfg(feature = "sim")]
            Self::Simulated(sim) => sim.peer_parameters.as_deref(),
            Self::Over => None,
        }
    }

    /// Puts away what it took. Returns the peer's `SubjectPublicKeyInfo` in DER; empty in a simulation.
    pub(crate) fn end(&mut self) -> Vec<u8> {
        match std::mem::replace(self, Self::Over) {
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.peer_key(),
            #[cfg(feature = "sim")]
            Self::Simulated(_) => Vec::new(),
            Self::Over => Vec::new(),
        }
    }
}
