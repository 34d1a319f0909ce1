//! Packet headers: in the clear, authenticated as the AEAD's associated data.

use crate::codec::{CodecError, Cookie, Reader, Writer};

/// Protocol version 1, "HWD" and a number. It stands in every handshake packet.
pub const VERSION: u32 = 0x4857_4401;

/// Bytes of a handshake packet's header without cookie.
pub const HANDSHAKE_HEADER_LEN: usize = 25;

/// Bytes of a data packet's header.
pub const DATA_HEADER_LEN: usize = 13;

const FIRST_BYTE_HANDSHAKE: u8 = 0xc0;
const FIRST_BYTE_INITIAL_WITH_COOKIE: u8 = 0xc2;
const FIRST_BYTE_DATA: u8 = 0x40;

/// Names a connection at the host that chose it, whatever address packets come from.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ConnectionId(pub u64);

/// Which keys seal a handshake packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Level {
    /// Keys that anybody can derive from the client's first destination id (RFC 9001 section 5.2).
    Initial,
    /// Keys from the key exchange; the peer is not authenticated yet.
    Handshake,
}

impl Level {
    /// Index for per-level arrays.
    pub fn index(self) -> usize {
        match self {
            Self::Initial => 0,
            Self::Handshake => 1,
        }
    }
}

/// A packet's header.
///
/// Handshake: first byte (0xc0 initial, 0xc1 handshake, 0xc2 initial with cookie), u32 version,
/// u64 destination id, u64 source id, u32 packet number, and after 0xc2 20 bytes of cookie.
///
/// Data: first byte (0x40, lowest bit the key phase),
/// u64 destination id, u32 low half of the packet number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Header {
    /// Carries the TLS handshake.
    Handshake {
        /// Which keys.
        level: Level,
        /// Must be [`VERSION`].
        version: u32,
        /// The receiver's id, or the client's random first guess at it.
        destination: ConnectionId,
        /// The id that the sender of this packet wants to be called by.
        source: ConnectionId,
        /// Packet number at this level.
        number: u32,
        /// What the server asked to hear again; Initial level only.
        cookie: Option<Cookie>,
    },
    /// Carries everything else.
    Data {
        /// Key phase bit, flips with every key update.
        phase: bool,
        /// The receiver's id.
        destination: ConnectionId,
        /// Low 32 bits of the packet number.
        number_low: u32,
    },
}

impl Header {
    /// Reads the header off the front of a datagram.
    pub fn decode(datagram: &[u8]) -> Result<(Self, usize), CodecError> {
        let mut reader = Reader::new(datagram);
        let header = match reader.u8()? {
            first @ (0xc0..=0xc2) => Self::Handshake {
                level: if first == 0xc1 {
                    Level::Handshake
                } else {
                    Level::Initial
                },
                version: reader.u32()?,
                destination: ConnectionId(reader.u64()?),
                source: ConnectionId(reader.u64()?),
                number: reader.u32()?,
                cookie: (first == FIRST_BYTE_INITIAL_WITH_COOKIE)
                    .then(|| reader.array().map(Cookie))
                    .transpose()?,
            },
            first @ (0x40 | 0x41) => Self::Data {
                phase: first & 1 == 1,
                destination: ConnectionId(reader.u64()?),
                number_low: reader.u32()?,
            },
            _ => return Err(CodecError::UnknownPacket),
        };
        Ok((header, datagram.len() - reader.rest().len()))
    }

    /// Appends the header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        match *self {
            Self::Handshake {
                level,
                version,
                destination,
                source,
                number,
                cookie,
            } => {
                let cookie = cookie.filter(|_| level == Level::Initial);
                writer.u8(if cookie.is_some() {
                    FIRST_BYTE_INITIAL_WITH_COOKIE
                } else {
                    FIRST_BYTE_HANDSHAKE | u8::from(level == Level::Handshake)
                });
                writer.u32(version);
                writer.u64(destination.0);
                writer.u64(source.0);
                writer.u32(number);
                if let Some(Cookie(bytes)) = cookie {
                    writer.bytes(&bytes);
                }
            }
            Self::Data {
                phase,
                destination,
                number_low,
            } => {
                writer.bytes(&data_header(phase, destination, number_low));
            }
        }
    }

    /// The id that the receiver looks the connection up by.
    pub fn destination(&self) -> ConnectionId {
        match *self {
            Self::Handshake { destination, .. } | Self::Data { destination, .. } => destination,
        }
    }
}

/// Key phase and low half of the number of a data packet; `None` of any other. What nearly all datagrams are, read without the
/// detour over [`Header`].
#[inline]
pub(crate) fn read_data_header(datagram: &[u8]) -> Option<(bool, u32)> {
    let (header, _) = datagram.split_first_chunk::<DATA_HEADER_LEN>()?;
    let [first, .., a, b, c, d] = *header;
    (first & !1 == FIRST_BYTE_DATA).then(|| (first & 1 == 1, u32::from_be_bytes([a, b, c, d])))
}

/// The header of a data packet.
pub(crate) fn data_header(
    phase: bool,
    destination: ConnectionId,
    number_low: u32,
) -> [u8; DATA_HEADER_LEN] {
    let mut header = [0; DATA_HEADER_LEN];
    header[0] = FIRST_BYTE_DATA | u8::from(phase);
    header[1..9].copy_from_slice(&destination.0.to_be_bytes());
    header[9..].copy_from_slice(&number_low.to_be_bytes());
    header
}

/// The full packet number nearest to `expected` whose low half is `low`
/// (RFC 9000 appendix A.3 with a window of 2^32).
pub fn expand_packet_number(expected: u64, low: u32) -> u64 {
    expand(1 << 32, expected, low.into())
}

/// The same for a window of any power of two.
fn expand(window: u64, expected: u64, low: u64) -> u64 {
    let candidate = (expected & !(window - 1)) | low;
    if candidate + window / 2 <= expected {
        candidate + window
    } else if candidate > expected + window / 2 && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::COOKIE_LEN;
    use proptest::prelude::*;

    #[test]
    fn headers_have_their_documented_length() {
        let mut out = Vec::new();
        Header::Data {
            phase: true,
            destination: ConnectionId(1),
            number_low: 2,
        }
        .encode(&mut out);
        assert_eq!(out.len(), DATA_HEADER_LEN);
        out.clear();
        Header::Handshake {
            level: Level::Handshake,
            version: VERSION,
            destination: ConnectionId(1),
            source: ConnectionId(2),
            number: 3,
            cookie: None,
        }
        .encode(&mut out);
        assert_eq!(out.len(), HANDSHAKE_HEADER_LEN);
        out.clear();
        Header::Handshake {
            level: Level::Initial,
            version: VERSION,
            destination: ConnectionId(1),
            source: ConnectionId(2),
            number: 3,
            cookie: Some(Cookie([7; COOKIE_LEN])),
        }
        .encode(&mut out);
        assert_eq!(out.len(), HANDSHAKE_HEADER_LEN + COOKIE_LEN);
    }

    #[test]
    fn what_is_written_is_read() {
        let data = [false, true].map(|phase| Header::Data {
            phase,
            destination: ConnectionId(1),
            number_low: 2,
        });
        let cookie = Some(Cookie([7; COOKIE_LEN]));
        let kinds = [
            (Level::Initial, None),
            (Level::Initial, cookie),
            (Level::Handshake, None),
        ];
        let handshakes = kinds.map(|(level, cookie)| Header::Handshake {
            level,
            version: VERSION,
            destination: ConnectionId(1),
            source: ConnectionId(2),
            number: 3,
            cookie,
        });
        for header in data.into_iter().chain(handshakes) {
            let mut out = Vec::new();
            header.encode(&mut out);
            assert_eq!(Header::decode(&out), Ok((header, out.len())));
        }
        assert_eq!([Level::Initial, Level::Handshake].map(Level::index), [0, 1]);
    }

    /// Every number about every expected one, in windows small enough to try them all.
    #[test]
    fn packet_numbers_are_right_in_every_small_case() {
        for window in [2u64, 4, 16, 64] {
            for expected in 0..6 * window {
                for low in 0..window {
                    let got = expand(window, expected, low);
                    assert_eq!(got % window, low);
                    // The nearest that there is; of two that are as near, the later one.
                    let nearest = (0..8 * window)
                        .filter(|number| number % window == low)
                        .min_by_key(|number| (number.abs_diff(expected), u64::MAX - number));
                    assert_eq!(Some(got), nearest, "{window} {expected} {low}");
                }
            }
        }
        // The same edges in the window that is spoken.
        for base in [0u64, 1, 1 << 31, (1 << 32) - 1, 1 << 32, 3 << 31, 1 << 61] {
            for step in [0, 1, 2, (1 << 31) - 1] {
                assert_eq!(
                    expand_packet_number(base, (base + step) as u32),
                    base + step
                );
                let below = base.saturating_sub(step);
                assert_eq!(expand_packet_number(base, below as u32), below);
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail_and_what_decodes_round_trips(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok((header, used)) = Header::decode(&bytes) {
                let mut out = Vec::new();
                header.encode(&mut out);
                prop_assert_eq!(&out[..], &bytes[..used]);
            }
        }

        #[test]
        fn packet_numbers_expand_around_the_expected_one(expected in 0..u64::MAX >> 2, step in -(1i64 << 30)..(1i64 << 30)) {
            let number = expected.saturating_add_signed(step);
            prop_assert_eq!(expand_packet_number(expected, number as u32), number);
        }
    }
}
