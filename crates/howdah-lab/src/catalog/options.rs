//! What a transport can be told.

use serde::Serialize;

/// Options of a protocol; `None` is the protocol's own default.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Options {
    /// Payload bytes of a full packet.
    pub mss_bytes: Option<u32>,
    /// Send buffer in bytes.
    pub send_buffer_bytes: Option<u64>,
    /// Receive buffer in bytes.
    pub receive_buffer_bytes: Option<u64>,
    /// Operating system of the receiver.
    pub receiver: Option<String>,
    /// Era of the sender.
    pub era: Option<String>,
    /// Whether the sender paces.
    pub pacing: Option<bool>,
    /// Segments that a paced TCP releases at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst_segments: Option<u32>,
    /// Initial window in segments.
    pub initial_window_segments: Option<u32>,
    /// Limited slow start (RFC 3742) above this window, in segments.
    pub max_ssthresh_segments: Option<u32>,
    /// Slow-start threshold that a cache remembers, in segments.
    pub ssthresh_segments: Option<u32>,
    /// The sending host keeps a threshold from one connection to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics_cache: Option<bool>,
    /// What a sending host of Linux 2.4 spends on each segment that a SACK block makes it look at, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sack_walk_ns: Option<u64>,
    /// Segments for each acknowledgement.
    pub ack_every_segments: Option<u32>,
    /// Selective acknowledgement.
    pub sack: Option<bool>,
    /// Timestamps.
    pub timestamps: Option<bool>,
    /// Rate of a protocol that is told its rate, in bit/s.
    pub rate_bps: Option<u64>,
    /// Largest IP packet in bytes, for UDT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet_bytes: Option<u32>,
    /// Most packets in flight, for UDT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flight_packets: Option<u32>,
    /// Bytes that the application writes at once, for UDT; 0 writes whole packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_write_bytes: Option<u32>,
    /// TCP connections that carry the flow together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<u32>,
    /// Rate at which the sender's storage gives bytes, in bit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bps: Option<u64>,
    /// Rate at which the receiver's storage takes them, in bit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_bps: Option<u64>,
    /// What only the blasting tools are told.
    #[serde(skip_serializing_if = "BlastOptions::is_default")]
    pub blast: BlastOptions,
    /// Loss that the protocol is told to expect, as a share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect_loss: Option<f64>,
    /// The flow is one of so many that count as one (howdah).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_of: Option<u16>,
}

/// What only RBUDP, Tsunami, PA-UDP and GTP are told; `None` is the tool's own default.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BlastOptions {
    /// Bytes of a block (Tsunami).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_bytes: Option<u32>,
    /// Bytes of a chunk (RBUDP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk_bytes: Option<u64>,
    /// Memory: of a receiver in front of its disk (PA-UDP, GTP), or for a mapped file (RBUDP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// What the receiving host can take in of all its flows, in bit/s (PA-UDP, GTP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_bps: Option<u64>,
    /// One-way delay of the route in nanoseconds, for which packets stay charged to the sender's
    /// socket because the sending host delays them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_ns: Option<u64>,
}

impl BlastOptions {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
