//! Tools whose receiver sets the sender's rate: `PA-UDP` and GTP.
//!
//! Neither program nor full text could be had. What is published are the rules for the rate; the
//! machine around them is **a model**: one machine for both, with a three-way start, packets that
//! name their number, holes that are asked for when they are discovered and again when they are not
//! filled in time, and repetitions that go first.

mod messages;
mod receiver;
mod rule;
mod sender;
#[cfg(test)]
mod tests;

pub(crate) use receiver::Receiver;
pub use rule::{PacedRule, pa_udp_rate};
pub(crate) use sender::Sender;

use howdah_core::{Rate, Span};

/// What a pair of endpoints is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PacedSettings {
    /// Whose rule it is.
    pub rule: PacedRule,
    /// Bits of payload per second that the receiver can take in (`r_recv`).
    pub receive_rate: Rate,
    /// Payload of a packet, without the packet number.
    pub payload_bytes: u32,
    /// The receiver's memory in front of its disk.
    pub memory_bytes: u64,
    /// Rate of that disk (`r_d`); `None` is without limit.
    pub disk: Option<Rate>,
    /// Time between two updates of the rate. Not published.
    pub period: Span,
    /// Bytes to carry; `None` for 2^32 - 1 packets.
    pub size_bytes: Option<u64>,
}

impl PacedSettings {
    /// `PA-UDP` with 256 MiB of memory and no disk behind it.
    pub const fn pa_udp(receive_rate: Rate, size_bytes: Option<u64>) -> Self {
        Self {
            rule: PacedRule::PaUdp,
            receive_rate,
            payload_bytes: 1460,
            memory_bytes: 256 << 20,
            disk: None,
            period: Span::from_millis(100),
            size_bytes,
        }
    }

    /// GTP.
    pub const fn gtp(receive_rate: Rate, size_bytes: Option<u64>) -> Self {
        Self {
            rule: PacedRule::Gtp,
            ..Self::pa_udp(receive_rate, size_bytes)
        }
    }
}
