//! A segment of the control channel.

use howdah_core::HeaderBytes;

/// Bytes of a segment's header: with the 28 bytes of IPv4 and UDP that the simulator adds, a
/// segment weighs what TCP's does over IPv4 with timestamps, 20 + 20 + 12.
pub(super) const SEGMENT_HEADER_BYTES: usize = 24;
/// Most bytes of the stream in one segment: what TCP with timestamps carries in 1500 bytes.
pub(super) const MSS_BYTES: usize = 1448;
/// Positions in the stream are 48 bits wide.
pub(super) const MAX_POSITION: u64 = (1 << 48) - 1;

/// Opens a connection.
pub(super) const SYN: u8 = 1;
/// The acknowledgement and the echoed time mean something.
pub(super) const ACK: u8 = 2;
/// The last byte of the payload is the end of the stream, and nothing else.
pub(super) const FIN: u8 = 4;

/// A segment: flags (1 byte), window in units of 1 KiB (1), payload length (2), position of the first payload byte (6),
/// position that the sender of this segment waits for (6), time of sending (4) and the time that it
/// echoes (4), both in microseconds modulo 2^32; all big-endian.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Segment<'a> {
    pub(super) flags: u8,
    pub(super) window_kib: u8,
    pub(super) position: u64,
    pub(super) awaited: u64,
    pub(super) sent_us: u32,
    pub(super) echo_us: u32,
    pub(super) payload: &'a [u8],
}

impl<'a> Segment<'a> {
    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (header, payload) = bytes.split_first_chunk::<SEGMENT_HEADER_BYTES>()?;
        let flags = header[0];
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let sound = flags & !(SYN | ACK | FIN) == 0;
        if !sound || length != payload.len() || length > MSS_BYTES {
            return None;
        }
        let wide = |at: usize| {
            header[at..at + 6]
                .iter()
                .fold(0, |sum, &byte| sum << 8 | u64::from(byte))
        };
        let narrow = |at: usize| wide(at - 2) as u32;
        Some(Self {
            flags,
            window_kib: header[1],
            position: wide(4),
            awaited: wide(10),
            sent_us: narrow(16),
            echo_us: narrow(20),
            payload,
        })
    }

    /// The header; the payload goes behind it.
    pub(super) fn encode(&self) -> HeaderBytes {
        let mut bytes = HeaderBytes::new();
        bytes.push(self.flags);
        bytes.push(self.window_kib);
        bytes.extend_from_slice(&(self.payload.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&self.position.to_be_bytes()[2..]);
        bytes.extend_from_slice(&self.awaited.to_be_bytes()[2..]);
        bytes.extend_from_slice(&self.sent_us.to_be_bytes());
        bytes.extend_from_slice(&self.echo_us.to_be_bytes());
        bytes.extend_from_slice(self.payload);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn survives_the_round_trip(
            flags in 0..8u8,
            window_kib: u8,
            position in 0..=MAX_POSITION,
            awaited in 0..=MAX_POSITION,
            sent_us: u32,
            echo_us: u32,
            payload in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let segment = Segment { flags, window_kib, position, awaited, sent_us, echo_us, payload: &payload };
            let bytes = segment.encode();
            prop_assert_eq!(bytes.len(), SEGMENT_HEADER_BYTES + payload.len());
            prop_assert_eq!(Segment::decode(&bytes), Some(segment));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(segment) = Segment::decode(&bytes) {
                prop_assert_eq!(&segment.encode()[..], &bytes[..]);
            }
        }
    }
}
