//! What happened to the packets.

use serde::Serialize;

/// Packets and IP bytes since the path was made.
///
/// `offered = delivered + dropped_queue + dropped_loss + dropped_mtu`, in packets and in bytes.
/// A duplicate is not counted as delivered a second time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct PathCounters {
    /// Packets that entered.
    pub offered: u64,
    /// Packets that got a delivery time, damaged ones too.
    pub delivered: u64,
    /// Packets that the full queue refused.
    pub dropped_queue: u64,
    /// Packets lost behind the bottleneck.
    pub dropped_loss: u64,
    /// Packets larger than the MTU.
    pub dropped_mtu: u64,
    /// Delivered packets that were delivered a second time.
    pub duplicated: u64,
    /// Delivered packets that were damaged.
    pub corrupted: u64,
    /// IP bytes that entered.
    pub bytes_offered: u64,
    /// IP bytes of `delivered`.
    pub bytes_delivered: u64,
    /// IP bytes of `dropped_queue`.
    pub bytes_dropped_queue: u64,
    /// IP bytes of `dropped_loss`.
    pub bytes_dropped_loss: u64,
    /// IP bytes of `dropped_mtu`.
    pub bytes_dropped_mtu: u64,
}
