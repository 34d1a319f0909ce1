//! What a server says to a stranger without keeping anything of it.

use crate::codec::{CodecError, ConnectionId, Reader, VERSION, Writer};

/// Bytes of a [`Cookie`].
pub const COOKIE_LEN: usize = 20;

const FIRST_BYTE_VERSION: u8 = 0x80;
const FIRST_BYTE_RETRY: u8 = 0x81;
const FIRST_BYTE_BUSY: u8 = 0x82;

/// Label of [`KnockKey`], which no other key is made with.
const KNOCK_CONTEXT: &str = "howdah 1 2026-11 first packet to a server whose key is known";

/// What those have in common who know a server's public key: with it a client shows in its first packet that it is one of
/// them, and a server under load can tell it from those who send to any address that there is.
///
/// It is shown in the ids that the packet carries anyway: the first destination id is a MAC over the client's id. To whoever does
/// not know the server's key it is as random as one that was drawn.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct KnockKey([u8; 32]);

impl std::fmt::Debug for KnockKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KnockKey")
    }
}

impl KnockKey {
    /// Of the server with this `SubjectPublicKeyInfo` in DER.
    pub fn of(server: &[u8]) -> Self {
        Self(blake3::derive_key(KNOCK_CONTEXT, server))
    }

    /// The first destination id of a client that knows the server's key and has drawn `client` for itself.
    pub fn first_destination(&self, client: ConnectionId) -> ConnectionId {
        let mac = blake3::keyed_hash(&self.0, &client.0.to_be_bytes());
        let mut id = [0; 8];
        id.copy_from_slice(&mac.as_bytes()[..8]);
        ConnectionId(u64::from_be_bytes(id))
    }

    /// Whether that is the one. A guess is right once in 2^64, and gains a small answer.
    pub fn is_shown(&self, first_destination: ConnectionId, client: ConnectionId) -> bool {
        self.first_destination(client) == first_destination
    }
}

/// Proves that a client receives what is sent to its address. Only the server that made it can
/// read it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cookie(pub [u8; COOKIE_LEN]);

/// A packet that belongs to no connection of its sender: the answer to a first packet that opens
/// none.
///
/// Version: first byte 0x80, u32 the version that the sender speaks, u64 destination id, u64 source
/// id, u32 the version that it was addressed in. Retry: first byte 0x81, u32 version, u64 destination
/// id, u64 source id, 20 bytes cookie. Busy: first byte 0x82, the same with the cookie of the packet that it answers, u16 seconds.
/// All are in the clear and carry the two ids of the packet that
/// they answer, exchanged: who has not seen that packet must guess 128 bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RetryPacket {
    /// The client's id.
    pub destination: ConnectionId,
    /// The id that the client made up for the server.
    pub source: ConnectionId,
    /// What it says.
    pub answer: RetryAnswer,
}

/// What a [`RetryPacket`] says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RetryAnswer {
    /// "I speak another version."
    Version {
        /// The one that the sender speaks.
        spoken: u32,
        /// The one of the packet that is answered.
        refused: u32,
    },
    /// "Say that again, with this cookie."
    Retry(Cookie),
    /// "There is no room; come again." Only for a packet with a good cookie, which it shows.
    Busy {
        /// That of the packet that is answered.
        cookie: Cookie,
        /// When to come again.
        seconds: u16,
    },
}

impl RetryPacket {
    /// The answer to a first packet with these ids.
    pub fn to(first_destination: ConnectionId, client: ConnectionId, answer: RetryAnswer) -> Self {
        Self {
            destination: client,
            source: first_destination,
            answer,
        }
    }

    /// Reads a whole datagram.
    pub fn decode(datagram: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::new(datagram);
        let first = reader.u8()?;
        if !(FIRST_BYTE_VERSION..=FIRST_BYTE_BUSY).contains(&first) {
            return Err(CodecError::UnknownPacket);
        }
        let version = reader.u32()?;
        let destination = ConnectionId(reader.u64()?);
        let source = ConnectionId(reader.u64()?);
        let answer = if first == FIRST_BYTE_VERSION {
            RetryAnswer::Version {
                spoken: version,
                refused: reader.u32()?,
            }
        } else if version != VERSION {
            return Err(CodecError::Inconsistent);
        } else if first == FIRST_BYTE_RETRY {
            RetryAnswer::Retry(Cookie(reader.array()?))
        } else {
            RetryAnswer::Busy {
                cookie: Cookie(reader.array()?),
                seconds: u16::from_be_bytes(reader.array()?),
            }
        };
        if !reader.is_empty() {
            return Err(CodecError::Inconsistent);
        }
        Ok(Self {
            destination,
            source,
            answer,
        })
    }

    /// Appends the packet.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (first, version) = match self.answer {
            RetryAnswer::Version { spoken, .. } => (FIRST_BYTE_VERSION, spoken),
            RetryAnswer::Retry(_) => (FIRST_BYTE_RETRY, VERSION),
            RetryAnswer::Busy { .. } => (FIRST_BYTE_BUSY, VERSION),
        };
        let mut writer = Writer::new(out);
        writer.u8(first);
        writer.u32(version);
        writer.u64(self.destination.0);
        writer.u64(self.source.0);
        match self.answer {
            RetryAnswer::Version { refused, .. } => writer.u32(refused),
            RetryAnswer::Retry(cookie) => writer.bytes(&cookie.0),
            RetryAnswer::Busy { cookie, seconds } => {
                writer.bytes(&cookie.0);
                writer.bytes(&seconds.to_be_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Header, Level};
    use proptest::prelude::*;

    fn bytes(packet: &RetryPacket) -> Vec<u8> {
        let mut out = Vec::new();
        packet.encode(&mut out);
        out
    }

    fn unhex(text: &str) -> Vec<u8> {
        let digits = (0..text.len()).step_by(2).map(|i| &text[i..i + 2]);
        digits
            .map(|digits| u8::from_str_radix(digits, 16).expect("digits"))
            .collect()
    }

    #[test]
    fn answers_of_another_version_are_none_but_for_what_says_so() {
        let answer = |answer| bytes(&RetryPacket::to(ConnectionId(1), ConnectionId(2), answer));
        let mut retry = answer(RetryAnswer::Retry(Cookie([7; 20])));
        assert!(RetryPacket::decode(&retry).is_ok());
        retry[4] ^= 1;
        assert_eq!(RetryPacket::decode(&retry), Err(CodecError::Inconsistent));
    }

    #[test]
    fn what_a_server_is_known_by_is_not_shown() {
        let shown = format!("{:?}", KnockKey::of(b"server"));
        assert_eq!(shown, "KnockKey");
    }

    #[test]
    fn the_vectors_of_the_specification() {
        let packet = |answer| {
            RetryPacket::to(
                ConnectionId(0x1122_3344_5566_7788),
                ConnectionId(0xaabb_ccdd_eeff_0011),
                answer,
            )
        };
        let version = packet(RetryAnswer::Version {
            spoken: VERSION,
            refused: VERSION + 1,
        });
        assert_eq!(
            bytes(&version),
            unhex("8048574401aabbccddeeff0011112233445566778848574402")
        );
        let cookie = Cookie(std::array::from_fn(|i| i as u8));
        assert_eq!(
            bytes(&packet(RetryAnswer::Busy {
                cookie,
                seconds: 17
            })),
            unhex(
                "8248574401aabbccddeeff00111122334455667788000102030405060708090a0b0c0d0e0f101112130011"
            )
        );
        assert_eq!(
            bytes(&packet(RetryAnswer::Retry(cookie))),
            unhex(
                "8148574401aabbccddeeff00111122334455667788000102030405060708090a0b0c0d0e0f10111213"
            )
        );
    }

    #[test]
    fn who_knows_the_servers_key_shows_it_in_its_ids() {
        // The vector of the specification: an Ed25519 key of bytes 0, 1, .., 31.
        let prefix = unhex("302a300506032b6570032100");
        let server = [prefix, (0..32).collect()].concat();
        let key = KnockKey::of(&server);
        let client = ConnectionId(0xaabb_ccdd_eeff_0011);
        let first = key.first_destination(client);
        assert_eq!(first, ConnectionId(0xafd2_8e29_6d7d_ddf6));
        assert!(key.is_shown(first, client));
        for bit in 0..64 {
            let other = |id: ConnectionId| ConnectionId(id.0 ^ 1 << bit);
            assert!(!key.is_shown(other(first), client) && !key.is_shown(first, other(client)));
        }
        for byte in 0..server.len() {
            let mut another = server.clone();
            another[byte] ^= 1;
            assert!(!KnockKey::of(&another).is_shown(first, client), "{byte}");
        }
    }

    #[test]
    fn a_first_packet_with_a_cookie_is_as_specified() {
        let header = Header::Handshake {
            level: Level::Initial,
            version: VERSION,
            destination: ConnectionId(0x1122_3344_5566_7788),
            source: ConnectionId(0xaabb_ccdd_eeff_0011),
            number: 0,
            cookie: Some(Cookie(std::array::from_fn(|i| i as u8))),
        };
        let mut out = Vec::new();
        header.encode(&mut out);
        let want = "c2485744011122334455667788aabbccddeeff001100000000\
                    000102030405060708090a0b0c0d0e0f10111213";
        assert_eq!(out, unhex(want));
        assert_eq!(Header::decode(&out), Ok((header, out.len())));
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail_and_what_decodes_round_trips(
            mut bytes in prop::collection::vec(any::<u8>(), 0..64),
            first in 0x7f..0x84u8,
        ) {
            if let Some(byte) = bytes.first_mut() {
                *byte = first;
            }
            if bytes.len() >= 5 && first != FIRST_BYTE_VERSION {
                bytes[1..5].copy_from_slice(&VERSION.to_be_bytes());
            }
            for len in 0..=bytes.len() {
                if let Ok(packet) = RetryPacket::decode(&bytes[..len]) {
                    let mut out = Vec::new();
                    packet.encode(&mut out);
                    prop_assert_eq!(&out[..], &bytes[..len]);
                }
            }
        }
    }
}
