//! RBUDP, Reliable Blast UDP (He, Leigh, Yu, `DeFanti`, Cluster 2002; version 1 of EVL's program).
//!
//! The sender blasts all packets at the rate it was told, ends the blast with a message on TCP and
//! gets back a bitmap of what has arrived; what is missing makes the next blast, until nothing is.
//! No rule reacts to loss. Everything here is read from the program: packet and message formats,
//! the gap of whole microseconds, the catching up after a delay, Nagle's algorithm left on.
//!
//! With p lost and k blasts, T = (S/B) / (1-p) + k RTT.

mod messages;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub(crate) use receiver::Receiver;
pub(crate) use sender::Sender;

use howdah_core::{Rate, Span};

/// What is blasted at a time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RbudpMode {
    /// `sendfile`: the whole file is mapped into memory and makes one object.
    File,
    /// `sendstream`: chunks of this many bytes, one after the other (option `-b`, 64 MiB by
    /// default).
    Stream {
        /// Bytes of a chunk.
        chunk_bytes: u64,
    },
}

/// What a pair of RBUDP endpoints is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RbudpSettings {
    /// Bits of payload per second. The program computes a gap of whole microseconds from it, which
    /// is why the true rate is up to a microsecond a packet higher.
    pub rate: Rate,
    /// Payload of a packet; the packet number makes it 4 bytes longer.
    pub payload_bytes: u32,
    /// What is blasted at a time.
    pub mode: RbudpMode,
    /// Bytes to carry; `None` for a stream without end, which only [`RbudpMode::Stream`] can do.
    pub size_bytes: Option<u64>,
    /// Memory into which a file can be mapped; a larger file fails. Whatever it is, the program
    /// counts a file's bytes in 31 bits.
    pub memory_bytes: Option<u64>,
    /// Receive buffer of the UDP socket, in bytes of payload: what waits there while the receiver
    /// still reads the size of the object. The program asks for 8 MiB.
    pub socket_bytes: u64,
}

impl RbudpSettings {
    /// `sendstream` without end, or of `size_bytes`, in chunks of 64 MiB.
    pub const fn stream(rate: Rate, size_bytes: Option<u64>) -> Self {
        Self {
            rate,
            payload_bytes: 1460,
            mode: RbudpMode::Stream {
                chunk_bytes: 64 << 20,
            },
            size_bytes,
            memory_bytes: None,
            socket_bytes: 8 << 20,
        }
    }

    /// `sendfile`.
    pub const fn file(rate: Rate, size_bytes: u64) -> Self {
        Self {
            mode: RbudpMode::File,
            ..Self::stream(rate, Some(size_bytes))
        }
    }

    /// Distance of two packets: `8 * payload / rate` in whole microseconds, from a rate in whole
    /// kbit/s.
    pub fn gap(&self) -> Span {
        let kbps = (self.rate.bits_per_sec() / 1000).max(1);
        Span::from_micros(u64::from(self.payload_bytes) * 8 * 1000 / kbps)
    }
}

/// Packets of an object and payload of the last one.
fn packets(bytes: u64, payload_bytes: u32) -> (u64, u32) {
    let payload = u64::from(payload_bytes.max(1));
    let count = bytes.div_ceil(payload);
    let last = bytes - payload * count.saturating_sub(1);
    (count, last as u32)
}
