//! How a connection ends.

use crate::codec::CodecError;

/// Why a connection was closed, as it stands in a CLOSE frame.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum CloseCode {
    /// The work is done.
    Done,
    /// The application gave up (its reason is the text).
    Application,
    /// The peer broke the protocol.
    Protocol,
    /// The TLS handshake failed.
    Handshake,
    /// The peer's key is not one that may come in.
    Unauthorized,
    /// The other side speaks another version.
    Version,
    /// Too many packets failed to authenticate under one key.
    IntegrityLimit,
    /// A code of a later version.
    Other(u16),
}

impl CloseCode {
    /// The number on the wire.
    pub fn to_wire(self) -> u16 {
        match self {
            Self::Done => 0,
            Self::Application => 1,
            Self::Protocol => 2,
            Self::Handshake => 3,
            Self::Unauthorized => 4,
            Self::Version => 5,
            Self::IntegrityLimit => 6,
            Self::Other(code) => code,
        }
    }

    /// From the number on the wire.
    pub fn from_wire(code: u16) -> Self {
        match code {
            0 => Self::Done,
            1 => Self::Application,
            2 => Self::Protocol,
            3 => Self::Handshake,
            4 => Self::Unauthorized,
            5 => Self::Version,
            6 => Self::IntegrityLimit,
            code => Self::Other(code),
        }
    }
}

/// What a peer did that the protocol forbids.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerMisbehaved {
    /// A packet that authenticated could not be decoded.
    #[error("sent a packet that cannot be read: {0}")]
    Malformed(#[from] CodecError),
    /// A frame that may not stand in that kind of packet.
    #[error("sent a frame where it may not stand")]
    MisplacedFrame,
    /// A report names a packet that was never sent.
    #[error("reported a packet that was never sent")]
    ReportedUnsent,
    /// A packet number that is millions ahead of the others.
    #[error("used a packet number that is far ahead of the others")]
    NumberTooFar,
    /// Data in so many scattered pieces that remembering them is an attack.
    #[error("scattered its data into too many pieces")]
    TooScattered,
    /// More handshake bytes than any handshake has.
    #[error("sent too many handshake bytes")]
    HandshakeTooLong,
    /// Control bytes beyond the window or a message above its limit.
    #[error("sent too many control bytes")]
    ControlOverflow,
    /// Data beyond the size that it announced, or beyond its credit.
    #[error("sent data beyond the end of the object")]
    DataBeyondEnd,
    /// Transport parameters that make no sense.
    #[error("sent unusable transport parameters")]
    BadParameters,
    /// Several reports, or several confirmations of reports, in one packet.
    #[error("sent more reports in one packet than it may")]
    Repetitious,
    /// Many round trips without a word about a packet that must be reported.
    #[error("reports some packets and withholds what became of others")]
    ReportsWithheld,
    /// A key update before the last one was confirmed.
    #[error("updated its keys too early")]
    EarlyKeyUpdate,
}

/// Why a connection is over.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// Nothing came from the peer for the idle timeout.
    #[error("the peer fell silent")]
    TimedOut,
    /// The handshake got no answer.
    #[error("nobody answered")]
    NoAnswer,
    /// The peer's host says that nobody listens on that port.
    #[error("nobody listens there")]
    Unreachable,
    /// The peer speaks another version of the protocol.
    #[error("the peer speaks version {theirs:#x} of the protocol, this side {ours:#x}")]
    VersionMismatch {
        /// This side's.
        ours: u32,
        /// The peer's.
        theirs: u32,
    },
    /// The peer closed it.
    #[error("the peer closed the connection{}", if reason.is_empty() { String::new() } else { format!(": {reason}") })]
    ClosedByPeer {
        /// Its code.
        code: CloseCode,
        /// Its words.
        reason: String,
    },
    /// This side closed it.
    #[error("closed by this side")]
    ClosedLocally,
    /// The peer broke the protocol.
    #[error("the peer {0}")]
    PeerMisbehaved(#[from] PeerMisbehaved),
    /// TLS refused the peer.
    #[error("the handshake failed: {0}")]
    Handshake(String),
    /// The peer's key is not accepted here.
    #[error("the peer's key is not accepted")]
    PeerKeyRefused,
    /// Too many forged packets.
    #[error("too many packets failed to authenticate")]
    IntegrityLimit,
}
