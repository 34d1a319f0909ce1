//! Tsunami's formats. Numbers are in network byte order.

use howdah_core::HeaderBytes;

/// Protocol revision of version 1.1.
pub(super) const REVISION: u32 = 0x2006_1025;
/// Bytes of the server's challenge and of the client's proof (MD5). Their contents are not modelled.
pub(super) const CHALLENGE_BYTES: usize = 64;
pub(super) const PROOF_BYTES: usize = 16;
/// Bytes of a datagram before its block.
pub(super) const HEADER_BYTES: usize = 6;
/// Bytes of a request: a C structure, with two bytes of padding behind the type.
pub(super) const REQUEST_BYTES: usize = 12;
pub(super) const PARAMETER_BYTES: usize = 20;
pub(super) const FILE_BYTES: usize = 20;

/// What a datagram is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum BlockKind {
    /// Sent in order, `O`.
    Original,
    /// Sent on request, `R`.
    Retransmission,
    /// The last block, `X`, again and again until the client stops the server.
    Terminate,
}

pub(super) fn header(block: u32, kind: BlockKind) -> HeaderBytes {
    let letter = match kind {
        BlockKind::Original => b'O',
        BlockKind::Retransmission => b'R',
        BlockKind::Terminate => b'X',
    };
    let mut bytes = HeaderBytes::from_slice(&block.to_be_bytes());
    bytes.extend_from_slice(&[0, letter]);
    bytes
}

pub(super) fn read_header(bytes: &[u8]) -> Option<(u32, BlockKind)> {
    let [a, b, c, d, high, low] = *bytes.first_chunk::<HEADER_BYTES>()?;
    let kind = match (high, low) {
        (0, b'O') => BlockKind::Original,
        (0, b'R') => BlockKind::Retransmission,
        (0, b'X') => BlockKind::Terminate,
        _ => return None,
    };
    Some((u32::from_be_bytes([a, b, c, d]), kind))
}

/// What the client asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Request {
    /// This block again.
    Retransmit(u32),
    /// Go on from this block.
    Restart(u32),
    /// Enough.
    Stop,
    /// Error rate in thousandths of a per cent.
    ErrorRate(u32),
}

impl Request {
    pub(super) fn encode(self) -> [u8; REQUEST_BYTES] {
        let (kind, block, error) = match self {
            Self::Retransmit(block) => (0_u16, block, 0),
            Self::Restart(block) => (1, block, 0),
            Self::Stop => (2, 0, 0),
            Self::ErrorRate(error) => (3, 0, error),
        };
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..2].copy_from_slice(&kind.to_be_bytes());
        bytes[4..8].copy_from_slice(&block.to_be_bytes());
        bytes[8..].copy_from_slice(&error.to_be_bytes());
        bytes
    }

    pub(super) fn decode(bytes: [u8; REQUEST_BYTES]) -> Option<Self> {
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        match u16::from_be_bytes([bytes[0], bytes[1]]) {
            0 => Some(Self::Retransmit(word(4))),
            1 => Some(Self::Restart(word(4))),
            2 => Some(Self::Stop),
            3 => Some(Self::ErrorRate(word(8))),
            _ => None,
        }
    }
}

/// What the client asks of the whole transfer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Parameters {
    pub(super) block_bytes: u32,
    pub(super) target_bps: u32,
    pub(super) error_threshold: u32,
    pub(super) slower: (u16, u16),
    pub(super) faster: (u16, u16),
}

impl Parameters {
    pub(super) fn encode(&self) -> [u8; PARAMETER_BYTES] {
        let mut bytes = [0; PARAMETER_BYTES];
        bytes[..4].copy_from_slice(&self.block_bytes.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.target_bps.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.error_threshold.to_be_bytes());
        bytes[12..14].copy_from_slice(&self.slower.0.to_be_bytes());
        bytes[14..16].copy_from_slice(&self.slower.1.to_be_bytes());
        bytes[16..18].copy_from_slice(&self.faster.0.to_be_bytes());
        bytes[18..].copy_from_slice(&self.faster.1.to_be_bytes());
        bytes
    }

    pub(super) fn decode(b: [u8; PARAMETER_BYTES]) -> Self {
        let word = |at: usize| u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        let half = |at: usize| u16::from_be_bytes([b[at], b[at + 1]]);
        Self {
            block_bytes: word(0),
            target_bps: word(4),
            error_threshold: word(8),
            slower: (half(12), half(14)),
            faster: (half(16), half(18)),
        }
    }
}

/// What the server says of the file: size (8 bytes), block size, number of blocks and start of the
/// transfer in seconds (4 each).
pub(super) fn file(size_bytes: u64, block_bytes: u32, blocks: u32) -> [u8; FILE_BYTES] {
    let mut bytes = [0; FILE_BYTES];
    bytes[..8].copy_from_slice(&size_bytes.to_be_bytes());
    bytes[8..12].copy_from_slice(&block_bytes.to_be_bytes());
    bytes[12..16].copy_from_slice(&blocks.to_be_bytes());
    bytes
}

/// Size, block size, number of blocks.
pub(super) fn read_file(b: [u8; FILE_BYTES]) -> (u64, u32, u32) {
    let word = |at: usize| u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
    let size = u64::from(word(0)) << 32 | u64::from(word(4));
    (size, word(8), word(12))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn formats_are_those_of_the_program() {
        assert_eq!(
            header(0x0102_0304, BlockKind::Original)[..],
            [1, 2, 3, 4, 0, 0x4f]
        );
        assert_eq!(header(1, BlockKind::Retransmission)[5], 0x52);
        assert_eq!(header(1, BlockKind::Terminate)[5], 0x58);
        assert_eq!(
            Request::Retransmit(0x0a0b_0c0d).encode(),
            [0, 0, 0, 0, 10, 11, 12, 13, 0, 0, 0, 0]
        );
        assert_eq!(
            Request::Restart(258).encode(),
            [0, 1, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0]
        );
        assert_eq!(Request::Stop.encode(), [0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            Request::ErrorRate(7500).encode(),
            [0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0x1d, 0x4c]
        );
        let parameters = Parameters {
            block_bytes: 32_768,
            target_bps: 650_000_000,
            error_threshold: 7500,
            slower: (25, 24),
            faster: (5, 6),
        };
        assert_eq!(
            parameters.encode(),
            [
                0, 0, 0x80, 0, 0x26, 0xbe, 0x36, 0x80, 0, 0, 0x1d, 0x4c, 0, 25, 0, 24, 0, 5, 0, 6
            ]
        );
        assert_eq!(
            file(5_000_000_000, 1024, 4_882_813),
            [
                0, 0, 0, 1, 0x2a, 0x05, 0xf2, 0, 0, 0, 4, 0, 0, 0x4a, 0x81, 0x7d, 0, 0, 0, 0
            ]
        );
        assert_eq!(REVISION.to_be_bytes(), [0x20, 0x06, 0x10, 0x25]);
    }

    proptest! {
        #[test]
        fn requests_survive_the_round_trip(bytes: [u8; REQUEST_BYTES]) {
            if let Some(request) = Request::decode(bytes) {
                prop_assert_eq!(Request::decode(request.encode()), Some(request));
            } else {
                prop_assert!(bytes[0] > 0 || bytes[1] > 3);
            }
        }

        #[test]
        fn parameters_survive_the_round_trip(bytes: [u8; PARAMETER_BYTES]) {
            prop_assert_eq!(Parameters::decode(bytes).encode(), bytes);
        }

        #[test]
        fn files_survive_the_round_trip(size: u64, block: u32, blocks: u32) {
            prop_assert_eq!(read_file(file(size, block, blocks)), (size, block, blocks));
        }

        #[test]
        fn headers_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            if let Some((block, kind)) = read_header(&bytes) {
                prop_assert_eq!(&header(block, kind)[..], &bytes[..HEADER_BYTES]);
            }
        }
    }
}
