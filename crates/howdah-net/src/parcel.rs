//! What comes from the socket in one piece, and goes from loop to loop.

use howdah_core::Time;
use howdah_proto::endpoint::ConnKey;
use quinn_udp::RecvMeta;

/// What one receive gave: a packet, or several of one sender.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) buffer: Vec<u8>,
    pub(crate) meta: RecvMeta,
    pub(crate) rx_time: Time,
    /// Where turns are counted: whose it was when it was read.
    pub(crate) counted_for: Option<ConnKey>,
}

impl Parcel {
    pub(crate) fn stride(&self) -> usize {
        self.meta.stride.clamp(1, self.meta.len.max(1))
    }

    pub(crate) fn packets(&self) -> usize {
        self.meta.len.div_ceil(self.stride())
    }

    /// The first packet.
    pub(crate) fn first(&self) -> &[u8] {
        &self.buffer[..self.stride().min(self.meta.len)]
    }

    /// Memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Whether it begins as packets of connections do, and not of handshakes.
    pub(crate) fn is_known(&self) -> bool {
        self.buffer.first().is_some_and(|first| first & !1 == 0x40)
    }

    /// The same in little more memory than it needs, and the buffer that is free then.
    pub(crate) fn fitted(mut self) -> (Self, Option<Vec<u8>>) {
        if self.meta.len * 4 > self.buffer.len() {
            return (self, None);
        }
        let fitted = self.buffer[..self.meta.len].to_vec();
        let spare = std::mem::replace(&mut self.buffer, fitted);
        (self, Some(spare))
    }

    /// One packet of several.
    pub(crate) fn of_one(packet: &[u8], mut meta: RecvMeta, rx_time: Time) -> Self {
        (meta.len, meta.stride) = (packet.len(), packet.len());
        Self {
            buffer: packet.to_vec(),
            meta,
            rx_time,
            counted_for: None,
        }
    }
}
