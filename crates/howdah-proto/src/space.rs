//! Handshake bytes of one level: reliable, in order, small.

use crate::codec::{ConnectionId, Level, limits};
use crate::error::PeerMisbehaved;
use crate::keys::KeyPair;
use howdah_core::num::saturating_usize;
use howdah_core::{ByteRange, RangeSet};

/// Separate pieces of a flight that are kept; an honest peer sends what it has to say in a few packets. What comes in between is not
/// taken, and comes again.
const MAX_PIECES: usize = 64;

/// Room for what comes grows by so much: by each byte, a peer that sends single ones would have all copied again each time.
const GROWTH: usize = 512;

/// Send and receive state of the handshake at one level.
#[derive(Debug, Default)]
pub(crate) struct HandshakeSpace {
    pub(crate) keys: Option<KeyPair>,
    /// Bytes to send, from offset 0; a flight is at most a few KiB.
    outgoing: Vec<u8>,
    /// Bytes handed to the network since the last (re)start.
    sent: usize,
    /// Confirmed by the peer.
    acked: usize,
    incoming: Vec<u8>,
    received: RangeSet,
    /// Bytes of `incoming` handed to TLS.
    read: usize,
    next_number: u32,
    /// The peer must be told how much has arrived.
    pub(crate) ack_due: bool,
}

impl HandshakeSpace {
    pub(crate) fn push_outgoing(&mut self, bytes: &[u8]) {
        self.outgoing.extend_from_slice(bytes);
    }

    pub(crate) fn take_number(&mut self) -> u32 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    /// How many numbers were taken.
    pub(crate) fn numbers(&self) -> u32 {
        self.next_number
    }

    /// Next bytes to send, at most `max`.
    pub(crate) fn next_chunk(&mut self, max: usize) -> Option<(u64, &[u8])> {
        let start = self.sent.max(self.acked);
        let end = self.outgoing.len().min(start + max);
        if start >= end {
            return None;
        }
        self.sent = end;
        Some((start as u64, &self.outgoing[start..end]))
    }

    /// Takes all as sent.
    pub(crate) fn skip(&mut self) {
        self.sent = self.outgoing.len();
    }

    pub(crate) fn has_unsent(&self) -> bool {
        self.sent.max(self.acked) < self.outgoing.len()
    }

    pub(crate) fn has_unacked(&self) -> bool {
        self.acked < self.outgoing.len()
    }

    /// Sends everything unconfirmed once more.
    pub(crate) fn rewind(&mut self) {
        self.sent = self.acked;
    }

    /// Returns whether anything is newly confirmed.
    pub(crate) fn on_ack(&mut self, offset: u64) -> bool {
        let before = self.acked;
        self.acked = before.max(saturating_usize(offset).min(self.outgoing.len()));
        self.acked > before
    }

    /// Returns whether any byte was new.
    pub(crate) fn on_crypto(&mut self, offset: u64, bytes: &[u8]) -> Result<bool, PeerMisbehaved> {
        let range = ByteRange::with_len(offset, bytes.len() as u64);
        if range.end > limits::MAX_CRYPTO_BYTES {
            return Err(PeerMisbehaved::HandshakeTooLong);
        }
        self.ack_due = true;
        let goes_on = offset <= self.received.prefix_len();
        if !goes_on && self.received.range_count() >= MAX_PIECES {
            return Ok(false);
        }
        let end = saturating_usize(range.end);
        if self.incoming.len() < end {
            // Not twice as much, as vectors like it: whose bytes these are is not known yet.
            if end > self.incoming.capacity() {
                let room = end.next_multiple_of(GROWTH);
                #[cfg(test)]
                tests::STEPS.set(tests::STEPS.get() + self.incoming.len() as u64);
                self.incoming.reserve_exact(room - self.incoming.len());
            }
            self.incoming.resize(end, 0);
        }
        // First bytes win: a later overlap with other content cannot rewrite them.
        let missing: Vec<_> = self.received.missing(range).collect();
        for gap in missing {
            let from = saturating_usize(gap.start - offset);
            let to = saturating_usize(gap.end - offset);
            let place = saturating_usize(gap.start)..saturating_usize(gap.end);
            self.incoming[place].copy_from_slice(&bytes[from..to]);
        }
        Ok(self.received.insert(range) > 0)
    }

    pub(crate) fn ack_offset(&self) -> u64 {
        self.received.prefix_len()
    }

    /// Contiguous bytes that TLS has not seen.
    pub(crate) fn take_readable(&mut self) -> Option<Vec<u8>> {
        let end = saturating_usize(self.received.prefix_len());
        if self.read >= end {
            return None;
        }
        let bytes = self.incoming[self.read..end].to_vec();
        self.read = end;
        Some(bytes)
    }
}

/// Ids of a connection: what each side calls it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ids {
    pub(crate) local: ConnectionId,
    pub(crate) remote: ConnectionId,
}

pub(crate) const LEVELS: [Level; 2] = [Level::Initial, Level::Handshake];

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        /// Bytes that are copied again for want of room.
        pub(super) static STEPS: Cell<u64> = const { Cell::new(0) };
    }

    #[test]
    fn h4_a_flight_of_single_bytes_is_little_work() {
        let mut space = HandshakeSpace::default();
        for offset in 0..limits::MAX_CRYPTO_BYTES {
            space.on_crypto(offset, b"x").unwrap();
        }
        let (steps, log) = (STEPS.get(), u64::from(limits::MAX_CRYPTO_BYTES.ilog2()));
        let most = limits::MAX_CRYPTO_BYTES * (log + 3);
        assert!(steps <= most, "{steps} bytes moved");
    }

    #[test]
    fn bytes_come_out_once_in_order_whatever_the_order_of_arrival() {
        let mut space = HandshakeSpace::default();
        space.on_crypto(3, b"def").unwrap();
        assert_eq!(space.take_readable(), None);
        space.on_crypto(0, b"abcXX").unwrap();
        assert_eq!(space.take_readable().unwrap(), b"abcdef");
        space.on_crypto(0, b"abcdefg").unwrap();
        assert_eq!(space.take_readable().unwrap(), b"g");
        assert_eq!(space.ack_offset(), 7);
        assert_eq!(
            space.on_crypto(limits::MAX_CRYPTO_BYTES, b"x"),
            Err(PeerMisbehaved::HandshakeTooLong)
        );
    }

    #[test]
    fn a_flight_in_crumbs_is_taken_as_it_comes_and_little_is_kept() {
        let mut space = HandshakeSpace::default();
        for offset in (1..4_001).step_by(2) {
            space.on_crypto(offset, b"b").unwrap();
        }
        assert_eq!(space.received.range_count(), MAX_PIECES);
        let mut read = Vec::new();
        for offset in 0..4_001u64 {
            let byte = if offset % 2 == 0 { b"a" } else { b"b" };
            space.on_crypto(offset, byte).unwrap();
            read.extend(space.take_readable().unwrap_or_default());
        }
        assert!(read.iter().copied().eq((0..4_001).map(|n| b"ab"[n % 2])));
        assert!(space.incoming.capacity() < 4_001 + GROWTH);
    }

    #[test]
    fn rewinding_sends_only_what_is_unconfirmed() {
        let mut space = HandshakeSpace::default();
        space.push_outgoing(b"hello world");
        assert_eq!(space.next_chunk(5), Some((0, &b"hello"[..])));
        assert_eq!(space.next_chunk(50), Some((5, &b" world"[..])));
        assert_eq!(space.next_chunk(50), None);
        space.on_ack(5);
        space.rewind();
        assert_eq!(space.next_chunk(50), Some((5, &b" world"[..])));
        space.on_ack(11);
        assert!(!space.has_unacked());
    }
}
