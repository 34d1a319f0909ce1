//! What the two ends of a kernel TCP run say at the end.

use serde::{Deserialize, Serialize};

/// From the sender.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct SendReport {
    /// Congestion control, read back from the socket.
    pub congestion: String,
    /// User and system CPU time, in seconds.
    pub cpu_seconds: f64,
    /// Largest send buffer that the kernel would grow to, in bytes.
    pub buffer_limit: u64,
    /// Bytes that the kernel took.
    #[serde(default)]
    pub bytes: u64,
    /// From the first connection to the end: of a sized transfer, until the other end has taken all.
    #[serde(default)]
    pub seconds: f64,
    /// Segments sent again, all connections together.
    #[serde(default)]
    pub retransmitted_segments: u64,
    /// Largest segment in bytes of payload.
    #[serde(default)]
    pub mss_bytes: u32,
    /// Every 100 ms, what `TCP_INFO` says.
    #[serde(default)]
    pub samples: Vec<TcpSample>,
}

/// All connections of a flow together.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct TcpSample {
    /// Seconds since the first connection.
    pub t_s: f64,
    /// Sum of the congestion windows, in bytes.
    pub cwnd_bytes: u64,
    /// Sum of what is sent and not acknowledged, in bytes.
    pub in_flight_bytes: u64,
    /// Mean of the smoothed round-trip times, in milliseconds.
    pub srtt_ms: f64,
    /// Segments sent again so far.
    pub retransmitted_segments: u64,
}

/// From the receiver.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ReceiveReport {
    /// Bytes read.
    pub bytes: u64,
    /// From the first accepted connection to the last reading, in seconds.
    pub seconds: f64,
    /// User and system CPU time, in seconds.
    pub cpu_seconds: f64,
    /// Largest receive buffer that the kernel would grow to, in bytes.
    pub buffer_limit: u64,
    /// Every 100 ms: seconds since the connection, bytes so far.
    pub samples: Vec<(f64, u64)>,
}
