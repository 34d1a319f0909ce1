//! Tsunami 1.1 (Meiss 2002; the tsunami-udp source tree), and a model of `RTsunami`.
//!
//! A server sends the numbered blocks of a file at a distance in time, the inter-packet delay; the
//! client asks for what is missing on TCP and reports an error rate every 350 ms, by which the server
//! shortens or lengthens the delay. Requests go out again with each report until they are answered.
//!
//! Messages, defaults and rules are read from the program. What versions do differently, and what is
//! simplified, stands in docs/rivals/tsunami.md.

mod client;
mod law;
mod messages;
mod server;
#[cfg(test)]
mod tests;

pub(crate) use client::Client;
pub(crate) use server::Server;

use howdah_core::{Rate, Span};

/// What the client's error rate is made of.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum TsunamiErrors {
    /// Requests among blocks, and the fill of the ring in front of the disk: Tsunami.
    #[default]
    RequestsAndRing,
    /// The fill of the ring alone: a **model** of `RTsunami` (Ren et al., NCA 2009), of which only
    /// the abstract could be read: the rate follows the receiver's state instead of the losses.
    RingAlone,
}

/// What a pair of Tsunami endpoints is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TsunamiSettings {
    /// Bytes of a block: 32768 until December 2008, 1024 after.
    pub block_bytes: u32,
    /// Target rate, in bits of blocks per second.
    pub target: Rate,
    /// Error rate above which the server slows down, in thousandths of a per cent.
    pub error_threshold: u32,
    /// Factor of the delay when there are errors: numerator and denominator.
    pub slower: (u16, u16),
    /// Factor of the delay when there are none.
    pub faster: (u16, u16),
    /// Bytes to carry; `None` for 2^32 - 1 blocks.
    pub size_bytes: Option<u64>,
    /// Blocks of the client's ring in front of its disk.
    pub ring_blocks: u32,
    /// Rate of that disk; `None` is without limit.
    pub disk: Option<Rate>,
    /// The pause after a retransmission where that is fixed (75 us in 2006); the inter-packet delay
    /// without it.
    pub retransmit_pause: Option<Span>,
    /// What the error rate is made of.
    pub errors: TsunamiErrors,
}

impl Default for TsunamiSettings {
    /// Version 1.1 after December 2008.
    fn default() -> Self {
        Self {
            block_bytes: 1024,
            target: Rate::from_mbit_per_sec(650),
            error_threshold: 7500,
            slower: (25, 24),
            faster: (5, 6),
            size_bytes: None,
            ring_blocks: 4096,
            disk: None,
            retransmit_pause: None,
            errors: TsunamiErrors::RequestsAndRing,
        }
    }
}

impl TsunamiSettings {
    fn blocks(&self) -> u32 {
        let size = self.size_bytes.unwrap_or(u64::MAX);
        let blocks = size.div_ceil(u64::from(self.block_bytes.max(1)));
        blocks.min(u64::from(u32::MAX)) as u32
    }
}
