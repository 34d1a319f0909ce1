//! The contract between a protocol state machine and whatever drives it.

use crate::num::saturating_u32;
use crate::{Ecn, Time, WakeReason};
use smallvec::SmallVec;

/// Header bytes of one datagram. Data packets' headers fit inline.
pub type HeaderBytes = SmallVec<[u8; 64]>;

/// A datagram that leaves a [`Transport`]: its real header bytes, and how many bytes of payload
/// stand behind them without being there.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Datagram {
    /// Everything that the protocol really encoded.
    pub bytes: HeaderBytes,
    /// Payload and padding bytes (and AEAD tag) that follow on the wire but are not carried here.
    pub absent: u32,
}

impl Datagram {
    /// UDP payload length on the wire, in bytes.
    pub fn wire_len(&self) -> u32 {
        saturating_u32(self.bytes.len()).saturating_add(self.absent)
    }
}

/// A datagram that reaches a [`Transport`].
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// As [`Datagram::bytes`]; `corrupt` arrivals may have any content.
    pub bytes: &'a [u8],
    /// As [`Datagram::absent`].
    pub absent: u32,
    /// The path damaged this datagram: a sealed protocol must throw it away, a clear one may
    /// be fooled.
    pub corrupt: bool,
}

/// A transport protocol without socket, clock, thread or randomness of its own.
///
/// # How to drive it
///
/// Mutate once, then drain:
///
/// 1. call exactly one of [`handle_datagram`](Self::handle_datagram),
///    [`handle_timeout`](Self::handle_timeout) or an application call of the concrete type;
/// 2. call [`poll_transmit`](Self::poll_transmit) until it returns 0, sending what it gave;
/// 3. ask [`poll_timeout`](Self::poll_timeout) and arrange to call `handle_timeout` then.
///
/// `now` never goes back between calls. Calling `handle_timeout` early is harmless.
/// A transport that paces asks for its next departure through `poll_timeout`.
pub trait Transport {
    /// Takes in one datagram from the network.
    fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>);

    /// Lets time pass.
    fn handle_timeout(&mut self, now: Time);

    /// Asked right after [`handle_datagram`](Self::handle_datagram): whether [`poll_transmit`](Self::poll_transmit) would give nothing
    /// at `now` and [`poll_timeout`](Self::poll_timeout) what it said last, so that neither need be asked. By default both are.
    fn is_settled(&mut self, now: Time) -> bool {
        let _ = now;
        false
    }

    /// Appends at most `max_datagrams` datagrams that may leave at `now`; returns how many.
    fn poll_transmit(&mut self, now: Time, max_datagrams: usize, out: &mut Vec<Datagram>) -> usize;

    /// The host's own queue has no room for the datagram that `poll_transmit` gave last, alone. The
    /// driver polls no more until the next event.
    ///
    /// A transport that keeps what its host refuses, or gives it up, returns `None`. By default the
    /// datagram comes back: the call that sends it waits until there is room, as on a blocking
    /// socket.
    fn handle_refused(&mut self, now: Time, datagram: Datagram) -> Option<Datagram> {
        let _ = now;
        Some(datagram)
    }

    /// The ECN field of a datagram that this transport sends. By default it knows no marks.
    fn ecn(&self, datagram: &Datagram) -> Ecn {
        let _ = datagram;
        Ecn::NotEct
    }

    /// The ECN field of the datagram that [`handle_datagram`](Self::handle_datagram) gets next, if it is not zero. By default
    /// nobody cares.
    fn handle_ecn(&mut self, now: Time, ecn: Ecn) {
        let _ = (now, ecn);
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) next, and why.
    fn poll_timeout(&self) -> Option<(Time, WakeReason)>;
}
