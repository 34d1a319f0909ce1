//! What happened to the packets.

use serde::Serialize;

/// Packets and IP bytes since the path was made.
///
/// `offered = delivered + dropped() + waiting`, in packets and in bytes, where `waiting` counts the
/// packets in a stored queue ([`OneWay::waiting`](crate::OneWay::waiting); none in a computed one).
/// A duplicate is not counted as delivered a second time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct PathCounters {
    /// Packets that entered.
    pub offered: u64,
    /// Packets that got a delivery time, damaged ones too.
    pub delivered: u64,
    /// Packets that the full queue refused.
    pub dropped_queue: u64,
    /// Packets that active queue management dropped.
    pub dropped_aqm: u64,
    /// Packets that waited in a queue which a change of the path threw away.
    pub dropped_switch: u64,
    /// Packets lost behind the bottleneck.
    pub dropped_loss: u64,
    /// Packets larger than the MTU.
    pub dropped_mtu: u64,
    /// Delivered packets that were delivered a second time.
    pub duplicated: u64,
    /// Delivered packets that were damaged.
    pub corrupted: u64,
    /// Packets that active queue management marked and let go, lost behind the bottleneck or not.
    pub marked: u64,
    /// IP bytes that entered.
    pub bytes_offered: u64,
    /// IP bytes of `delivered`.
    pub bytes_delivered: u64,
    /// IP bytes of `dropped_queue`.
    pub bytes_dropped_queue: u64,
    /// IP bytes of `dropped_aqm`.
    pub bytes_dropped_aqm: u64,
    /// IP bytes of `dropped_switch`.
    pub bytes_dropped_switch: u64,
    /// IP bytes of `dropped_loss`.
    pub bytes_dropped_loss: u64,
    /// IP bytes of `dropped_mtu`.
    pub bytes_dropped_mtu: u64,
}

impl PathCounters {
    /// Packets that did not arrive, for whatever reason.
    pub const fn dropped(&self) -> u64 {
        self.dropped_queue
            + self.dropped_aqm
            + self.dropped_switch
            + self.dropped_loss
            + self.dropped_mtu
    }

    /// IP bytes that did not arrive, for whatever reason.
    pub const fn bytes_dropped(&self) -> u64 {
        self.bytes_dropped_queue
            + self.bytes_dropped_aqm
            + self.bytes_dropped_switch
            + self.bytes_dropped_loss
            + self.bytes_dropped_mtu
    }
}
