//! Cutting a super-packet into the runs of segments that survive.
//!
//! A super-packet is one IP packet whose TCP or UDP payload stands for many segments of
//! `gso_size` bytes (the last may be shorter). A run of neighbouring segments is again a
//! super-packet, with what a segment's header depends on written anew: IPv4 total length,
//! identification and header checksum or IPv6 payload length; TCP sequence number and flags or UDP
//! length; and the pseudo-header sum in the checksum field, which covers the length. The rest of
//! the checksum stays for whoever needs it (`NEEDS_CSUM`), so no payload byte is looked at.

mod checksum;
#[cfg(test)]
mod tests;

use crate::vnet::{
    FLAG_NEEDS_CSUM, GSO_NONE, GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, VNET_HEADER_LEN, VnetHeader,
};

/// Longest IP and TCP headers that are cut: IPv4 60 + TCP 60, or IPv6 with extension headers.
const MAX_HEADERS: usize = 256;
const UDP_HEADER: usize = 8;
const TCP_MIN_HEADER: usize = 20;
const TCP_SEQUENCE: usize = 4;
const TCP_FLAGS: usize = 13;
const TCP_FIN_PSH: u8 = 0x01 | 0x08;
const TCP_CWR: u8 = 0x80;

/// How a packet divides into segments.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Layout {
    /// IP and transport headers, in bytes; 0 for a packet that is one segment.
    headers: usize,
    /// Where the transport header begins.
    transport: usize,
    /// Payload bytes of a segment.
    gso_size: usize,
    /// Bytes of the whole packet.
    total: usize,
    /// Segments on the wire, at least 1.
    pub segments: u32,
}

impl Layout {
    /// Reads the layout. Whatever does not look like a super-packet of a known kind is one segment.
    pub(crate) fn of(vnet: &VnetHeader, packet: &[u8]) -> Self {
        Self::of_super_packet(vnet, packet)
            .filter(|layout| layout.total == packet.len())
            .unwrap_or(Self {
                headers: 0,
                transport: 0,
                gso_size: packet.len(),
                total: packet.len(),
                segments: 1,
            })
    }

    /// Reads the layout of a packet whose end may have been cut off since, as long as the headers
    /// are there: the lengths come from the IP header.
    pub(crate) fn of_beginning(vnet: &VnetHeader, packet: &[u8]) -> Self {
        Self::of_super_packet(vnet, packet).unwrap_or_else(|| Self::of(vnet, packet))
    }

    /// As [`of`](Self::of), for a packet of `total` bytes of which only the headers are at hand.
    pub(crate) fn of_piece(vnet: &VnetHeader, headers: &[u8], total: usize) -> Self {
        Self::of_super_packet(vnet, headers).unwrap_or(Self {
            headers: 0,
            transport: 0,
            gso_size: total,
            total,
            segments: 1,
        })
    }

    /// How many bytes of the packet are needed for the segments before number `end`.
    pub(crate) fn bytes_before(&self, end: u32) -> usize {
        self.total.min(self.headers + end as usize * self.gso_size)
    }

    fn of_super_packet(vnet: &VnetHeader, packet: &[u8]) -> Option<Self> {
        let gso_size = usize::from(vnet.gso_size);
        if gso_size == 0 || vnet.flags & FLAG_NEEDS_CSUM == 0 {
            return None;
        }
        // The kernel's checksum start is where the transport header begins; that spares walking
        // IPv6 extension headers.
        let transport = usize::from(vnet.csum_start);
        let length = |at: usize| {
            let bytes = packet.get(at..)?.first_chunk::<2>()?;
            Some(usize::from(u16::from_be_bytes(*bytes)))
        };
        let (ip_header, total) = match packet.first()? >> 4 {
            4 => (usize::from(packet[0] & 0x0f) * 4, length(2)?),
            6 => (40, 40 + length(4)?),
            _ => return None,
        };
        if ip_header < 20 || transport < ip_header {
            return None;
        }
        let transport_header = match vnet.gso_type {
            GSO_TCPV4 | GSO_TCPV6 => {
                let words = packet.get(transport + 12)? >> 4;
                (usize::from(words) * 4).max(TCP_MIN_HEADER)
            }
            GSO_UDP_L4 => UDP_HEADER,
            _ => return None,
        };
        let headers = transport + transport_header;
        let payload = total.checked_sub(headers)?;
        if headers > MAX_HEADERS || packet.len() < headers || payload <= gso_size {
            return None;
        }
        let segments = payload.div_ceil(gso_size) as u32;
        Some(Self {
            headers,
            transport,
            gso_size,
            total,
            segments,
        })
    }

    /// IP and transport header bytes of each segment.
    pub(crate) fn header_bytes(&self, packet: &[u8]) -> u64 {
        match self.headers {
            0 => headers_of(packet).unwrap_or(0) as u64,
            headers => headers as u64,
        }
    }

    /// IP bytes of all segments together.
    pub(crate) fn ip_bytes(&self) -> u64 {
        (self.total + (self.segments as usize - 1) * self.headers) as u64
    }

    /// Bytes of the IP packet that each segment but the last is on the wire.
    pub(crate) fn segment_ip_bytes(&self) -> u32 {
        (self.headers + self.gso_size) as u32
    }

    /// Bytes of the IP packet that the last segment is on the wire.
    pub(crate) fn last_segment_ip_bytes(&self) -> u32 {
        (self.total - (self.segments as usize - 1) * self.gso_size) as u32
    }
}

/// IP and TCP or UDP header bytes of one packet without IPv6 extension headers.
fn headers_of(packet: &[u8]) -> Option<usize> {
    const TCP: u8 = 6;
    const UDP: u8 = 17;
    let (ip, protocol) = match packet.first()? >> 4 {
        4 => (usize::from(packet[0] & 0x0f) * 4, *packet.get(9)?),
        6 => (40, *packet.get(6)?),
        _ => return None,
    };
    Some(match protocol {
        TCP => ip + usize::from(packet.get(ip + 12)? >> 4) * 4,
        UDP => ip + UDP_HEADER,
        _ => ip,
    })
}

/// A run of segments ready to be written: new headers (the `virtio_net_hdr` first), and which
/// bytes of the super-packet follow them.
#[derive(Debug)]
pub(crate) struct Piece {
    head: [u8; VNET_HEADER_LEN + MAX_HEADERS],
    head_len: usize,
    payload: (usize, usize),
}

impl Piece {
    pub(crate) fn head(&self) -> &[u8] {
        &self.head[..self.head_len]
    }

    /// The payload, out of the packet that was cut.
    pub(crate) fn payload<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        &packet[self.payload.0..self.payload.1]
    }
}

/// Cuts out `count` segments from number `first` on.
pub(crate) fn cut(
    vnet: &VnetHeader,
    layout: &Layout,
    packet: &[u8],
    first: u32,
    count: u32,
) -> Piece {
    let Layout {
        headers,
        transport,
        gso_size,
        total,
        segments,
    } = *layout;
    let skipped = first as usize * gso_size;
    let start = headers + skipped;
    let end = total.min(start + count as usize * gso_size);
    let mut piece = Piece {
        head: [0; VNET_HEADER_LEN + MAX_HEADERS],
        head_len: VNET_HEADER_LEN + headers,
        payload: (start, end),
    };
    let mut new_vnet = *vnet;
    let ip = &mut piece.head[VNET_HEADER_LEN..VNET_HEADER_LEN + headers];
    ip.copy_from_slice(&packet[..headers]);
    if headers > 0 {
        let new_total = headers + end - start;
        write_ip(ip, new_total, first);
        write_transport(
            &mut ip[transport..],
            vnet,
            (total - transport, new_total - transport),
            skipped,
            first == 0,
            first + count >= segments,
        );
        new_vnet.hdr_len = headers as u16;
        new_vnet.ecn = vnet.ecn && first == 0;
        if count == 1 {
            new_vnet.gso_type = GSO_NONE;
            new_vnet.gso_size = 0;
            new_vnet.ecn = false;
        }
    }
    piece.head[..VNET_HEADER_LEN].copy_from_slice(&new_vnet.encode());
    piece
}

fn write_ip(ip: &mut [u8], total: usize, first_segment: u32) {
    if ip[0] >> 4 == 6 {
        ip[4..6].copy_from_slice(&((total - 40) as u16).to_be_bytes());
        return;
    }
    ip[2..4].copy_from_slice(&(total as u16).to_be_bytes());
    // Segmentation counts the identification up from segment to segment.
    let id = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(first_segment as u16);
    ip[4..6].copy_from_slice(&id.to_be_bytes());
    ip[10..12].fill(0);
    let header = usize::from(ip[0] & 0x0f) * 4;
    let sum = !checksum::sum(&ip[..header]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// `lengths`: of transport header and payload, before and after.
fn write_transport(
    header: &mut [u8],
    vnet: &VnetHeader,
    lengths: (usize, usize),
    skipped: usize,
    is_first: bool,
    is_last: bool,
) {
    if vnet.gso_type == GSO_UDP_L4 {
        header[4..6].copy_from_slice(&(lengths.1 as u16).to_be_bytes());
    } else {
        let at = TCP_SEQUENCE;
        let sequence =
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let sequence = sequence.wrapping_add(skipped as u32);
        header[at..at + 4].copy_from_slice(&sequence.to_be_bytes());
        if !is_first {
            header[TCP_FLAGS] &= !TCP_CWR;
        }
        if !is_last {
            header[TCP_FLAGS] &= !TCP_FIN_PSH;
        }
    }
    let at = usize::from(vnet.csum_offset);
    if let Some(field) = header.get_mut(at..at + 2) {
        let old = u16::from_be_bytes([field[0], field[1]]);
        let new = checksum::replace(old, lengths.0 as u32, lengths.1 as u32);
        field.copy_from_slice(&new.to_be_bytes());
    }
}

/// Damages a packet of one segment (`virtio_net_hdr` included) the way a line does: one bit of the
/// transport payload (or header) flips, and the checksum is the one of the undamaged packet.
pub(crate) fn damage(record: &mut [u8], bit: u64) {
    let Some((head, packet)) = record.split_first_chunk_mut::<VNET_HEADER_LEN>() else {
        return;
    };
    let mut vnet = VnetHeader::parse(head);
    let start = usize::from(vnet.csum_start);
    if vnet.flags & FLAG_NEEDS_CSUM != 0 && start < packet.len() {
        // The sum starts from the pseudo-header's, which stands in the checksum field.
        let sum = !checksum::sum(&packet[start..]);
        let at = start + usize::from(vnet.csum_offset);
        let is_udp = vnet.csum_offset == 6;
        if let Some(field) = packet.get_mut(at..at + 2) {
            // For UDP, zero means "no checksum" (RFC 768).
            let sum = if is_udp && sum == 0 { 0xffff } else { sum };
            field.copy_from_slice(&sum.to_be_bytes());
        }
    }
    // The receiver must look at the checksum itself.
    vnet.flags = 0;
    vnet.csum_start = 0;
    vnet.csum_offset = 0;
    *head = vnet.encode();
    let ip_header = match packet.first().map(|byte| byte >> 4) {
        Some(4) => 20,
        Some(6) => 40,
        _ => 0,
    };
    // Behind ports and lengths where there is something, so that it reaches the right socket's
    // checksum test.
    let from = if packet.len() > ip_header + 8 {
        ip_header + 8
    } else {
        0
    };
    let bits = (packet.len() - from) as u64 * 8;
    if bits > 0 {
        let bit = bit % bits;
        packet[from + (bit / 8) as usize] ^= 1 << (bit % 8);
    }
}
