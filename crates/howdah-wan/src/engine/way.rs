//! Where packets go, and what went there.

use crate::surgery::Layout;
use serde::Serialize;

/// What was counted at an end of a way.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Traffic {
    /// Packets as they would be on the wire.
    pub packets: u64,
    /// IP bytes of them, headers included.
    pub ip_bytes: u64,
    /// What remains of these bytes without IP and TCP or UDP headers.
    pub payload_bytes: u64,
}

impl Traffic {
    /// `packet` is what the layout is of, its beginning at least.
    pub(crate) fn count(&mut self, layout: &Layout, packet: &[u8]) {
        let segments = u64::from(layout.segments);
        let headers = layout.header_bytes(packet);
        let ip_bytes = layout.ip_bytes();
        self.packets += segments;
        self.ip_bytes += ip_bytes;
        self.payload_bytes += ip_bytes.saturating_sub(segments * headers);
    }

    /// Bytes as a counter of an Ethernet interface sees them: IP and 14 bytes a packet.
    pub fn wire_bytes(&self) -> u64 {
        self.ip_bytes + 14 * self.packets
    }
}

/// From one device to another, over lanes.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    /// By index; not empty.
    pub lanes: Vec<usize>,
    /// Device at the end, by index.
    pub exit: usize,
    /// What the device at its beginning was given to send.
    pub sent: Traffic,
    /// What the device at its end was given.
    pub delivered: Traffic,
}
