//! What the two processes of a kernel TCP run say at the end.

use serde::{Deserialize, Serialize};

/// From the sender.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct SendReport {
    /// Congestion control, read back from the socket.
    pub(crate) congestion: String,
    /// User and system CPU time, in seconds.
    pub(crate) cpu_seconds: f64,
    /// Largest send buffer that the kernel would grow to, in bytes.
    pub(crate) buffer_limit: u64,
}

/// From the receiver.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct ReceiveReport {
    /// Bytes read.
    pub(crate) bytes: u64,
    /// From the accepted connection to the last reading, in seconds.
    pub(crate) seconds: f64,
    /// User and system CPU time, in seconds.
    pub(crate) cpu_seconds: f64,
    /// Largest receive buffer that the kernel would grow to, in bytes.
    pub(crate) buffer_limit: u64,
    /// Every 100 ms: seconds since the connection, bytes so far.
    pub(crate) samples: Vec<(f64, u64)>,
}
