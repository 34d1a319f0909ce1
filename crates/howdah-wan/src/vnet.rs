//! The header in front of every packet on a TUN device: `struct virtio_net_hdr` (virtio 1.2,
//! section 5.1.6), little-endian, without the count of merged buffers.

/// Its length in bytes.
pub(crate) const VNET_HEADER_LEN: usize = 10;

pub(crate) const FLAG_NEEDS_CSUM: u8 = 1;
pub(crate) const GSO_NONE: u8 = 0;
pub(crate) const GSO_TCPV4: u8 = 1;
pub(crate) const GSO_TCPV6: u8 = 4;
pub(crate) const GSO_UDP_L4: u8 = 5;
/// Flag on top of the type: the segments carry ECN's CWR on the first one only.
pub(crate) const GSO_ECN: u8 = 0x80;

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct VnetHeader {
    pub flags: u8,
    /// Type with [`GSO_ECN`] masked out.
    pub gso_type: u8,
    pub ecn: bool,
    /// Bytes of headers; what the kernel writes here is only a hint.
    pub hdr_len: u16,
    /// Payload bytes of a segment.
    pub gso_size: u16,
    /// Where the checksum begins and, from there, where it is stored.
    pub csum_start: u16,
    pub csum_offset: u16,
}

impl VnetHeader {
    pub(crate) fn parse(bytes: &[u8; VNET_HEADER_LEN]) -> Self {
        let word = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        Self {
            flags: bytes[0],
            gso_type: bytes[1] & !GSO_ECN,
            ecn: bytes[1] & GSO_ECN != 0,
            hdr_len: word(2),
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        }
    }

    pub(crate) fn encode(&self) -> [u8; VNET_HEADER_LEN] {
        let mut bytes = [0; VNET_HEADER_LEN];
        bytes[0] = self.flags;
        bytes[1] = self.gso_type | if self.ecn { GSO_ECN } else { 0 };
        bytes[2..4].copy_from_slice(&self.hdr_len.to_le_bytes());
        bytes[4..6].copy_from_slice(&self.gso_size.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.csum_start.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.csum_offset.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_what_it_parses() {
        let bytes = [1, 0x84, 0x34, 0x12, 0xa8, 0x05, 40, 0, 16, 0];
        let header = VnetHeader::parse(&bytes);
        assert_eq!(header.gso_type, GSO_TCPV6);
        assert!(header.ecn);
        assert_eq!(header.gso_size, 1448);
        assert_eq!(header.encode(), bytes);
    }
}
