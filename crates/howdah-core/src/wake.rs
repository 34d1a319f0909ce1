//! Why time matters to a transport.

use core::fmt;

/// Why a [`Transport`](crate::Transport) wants to be woken at a time.
///
/// Shown when a driver finds itself in a busy loop, and asked by tests that wait for one timer among several. The reasons are
/// those of every transport here, in the field's words: what TCP calls an acknowledgement and ours a report is one reason.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum WakeReason {
    /// The first packet of a connection is to be sent.
    Open,
    /// A handshake was not answered yet: it is repeated.
    HandshakeRetry,
    /// A handshake was not answered for so long that it is given up.
    HandshakeTimeout,
    /// The server asked to be tried again later.
    BusyServer,
    /// The next packet may leave then, and not earlier.
    Pacing,
    /// The application will have produced more to send.
    Supply,
    /// What is unacknowledged may be lost: a retransmission, tail probe or reordering timer.
    Retransmission,
    /// What arrived is to be acknowledged: a delayed ACK, a report.
    Acknowledgement,
    /// What is missing is to be named again.
    LossReport,
    /// The next data is to be asked for, where the receiver pulls.
    Request,
    /// The rate of the sender is to be set anew.
    RateUpdate,
    /// A larger packet is to be tried, or a tried one is given up.
    PathMtu,
    /// Packets that were called lost cannot arrive late any more: they are forgotten.
    LatePackets,
    /// The disk has taken what it was given.
    Disk,
    /// The TCP connection beside the data, with timers of its own.
    ControlChannel,
    /// The peer is to be asked whether it is there.
    KeepAlive,
    /// The peer was silent, or nothing advanced, for so long that it is given up.
    IdleTimeout,
    /// The end of the connection is to be told, or is told long enough.
    Close,
}

impl WakeReason {
    /// What it is called in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::HandshakeRetry => "handshake retry",
            Self::HandshakeTimeout => "handshake timeout",
            Self::BusyServer => "busy server",
            Self::Pacing => "pacing",
            Self::Supply => "supply",
            Self::Retransmission => "retransmission",
            Self::Acknowledgement => "acknowledgement",
            Self::LossReport => "loss report",
            Self::Request => "request",
            Self::RateUpdate => "rate update",
            Self::PathMtu => "path MTU",
            Self::LatePackets => "late packets",
            Self::Disk => "disk",
            Self::ControlChannel => "control channel",
            Self::KeepAlive => "keep-alive",
            Self::IdleTimeout => "idle timeout",
            Self::Close => "close",
        }
    }
}

impl fmt::Display for WakeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
