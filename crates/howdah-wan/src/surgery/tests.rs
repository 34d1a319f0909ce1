//! Pieces against a naive segmentation that builds every segment from scratch.

use super::checksum::sum;
use super::*;
use crate::vnet::GSO_ECN;
use proptest::prelude::*;

const TCP: u8 = 6;
const UDP: u8 = 17;

#[derive(Clone, Debug)]
struct Made {
    vnet: VnetHeader,
    packet: Vec<u8>,
    payload: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Kind {
    v6: bool,
    tcp: bool,
    /// Bytes of IPv4 options.
    ip_options: usize,
    /// Bytes of TCP options.
    tcp_options: usize,
}

fn ip_header_len(packet: &[u8]) -> usize {
    if packet[0] >> 4 == 6 {
        40
    } else {
        usize::from(packet[0] & 15) * 4
    }
}

/// Pseudo-header sum, straight from RFC 9293 and RFC 8200.
fn pseudo_header(packet: &[u8], transport_len: usize) -> u16 {
    let mut bytes = Vec::new();
    let protocol = if packet[0] >> 4 == 6 {
        bytes.extend_from_slice(&packet[8..40]);
        packet[6]
    } else {
        bytes.extend_from_slice(&packet[12..20]);
        packet[9]
    };
    bytes.extend_from_slice(&(transport_len as u32).to_be_bytes());
    bytes.extend_from_slice(&[0, 0, 0, protocol]);
    sum(&bytes)
}

/// A super-packet as the kernel hands it to a TUN device.
fn make(kind: Kind, gso_size: u16, payload: Vec<u8>, flags: u8, sequence: u32, id: u16) -> Made {
    let transport_header = if kind.tcp { 20 + kind.tcp_options } else { 8 };
    let ip_header = if kind.v6 { 40 } else { 20 + kind.ip_options };
    let transport_len = transport_header + payload.len();
    let total = ip_header + transport_len;
    let mut packet = vec![0; ip_header + transport_header];
    let protocol = if kind.tcp { TCP } else { UDP };
    if kind.v6 {
        packet[0] = 0x60;
        packet[4..6].copy_from_slice(&(transport_len as u16).to_be_bytes());
        packet[6] = protocol;
        packet[7] = 64;
        for (at, byte) in packet[8..40].iter_mut().enumerate() {
            *byte = (at * 37) as u8;
        }
    } else {
        packet[0] = 0x40 | (ip_header / 4) as u8;
        packet[2..4].copy_from_slice(&(total as u16).to_be_bytes());
        packet[4..6].copy_from_slice(&id.to_be_bytes());
        packet[6] = 0x40;
        packet[8] = 64;
        packet[9] = protocol;
        packet[12..20].copy_from_slice(&[10, 88, 0, 1, 10, 88, 0, 2]);
        packet[20..ip_header].fill(1);
        let header_sum = !sum(&packet[..ip_header]);
        packet[10..12].copy_from_slice(&header_sum.to_be_bytes());
    }
    let at = ip_header;
    packet[at..at + 4].copy_from_slice(&[0x12, 0x34, 0x56, 0x78]);
    let csum_offset = if kind.tcp {
        packet[at + 4..at + 8].copy_from_slice(&sequence.to_be_bytes());
        packet[at + 12] = ((transport_header / 4) << 4) as u8;
        packet[at + 13] = flags;
        packet[at + 20..].fill(1);
        16
    } else {
        packet[at + 4..at + 6].copy_from_slice(&(transport_len as u16).to_be_bytes());
        6
    };
    let partial = pseudo_header(&packet, transport_len);
    packet[at + csum_offset..at + csum_offset + 2].copy_from_slice(&partial.to_be_bytes());
    packet.extend_from_slice(&payload);
    let gso = payload.len() > usize::from(gso_size);
    let gso_type = match (gso, kind.tcp, kind.v6) {
        (false, ..) => GSO_NONE,
        (true, true, false) => GSO_TCPV4,
        (true, true, true) => GSO_TCPV6,
        (true, false, _) => GSO_UDP_L4,
    };
    let vnet = VnetHeader {
        flags: FLAG_NEEDS_CSUM,
        gso_type,
        ecn: gso && kind.tcp && flags & TCP_CWR != 0,
        // The kernel writes the length of the linear part here, which may be anything.
        hdr_len: 66,
        gso_size: if gso { gso_size } else { 0 },
        csum_start: ip_header as u16,
        csum_offset: csum_offset as u16,
    };
    Made {
        vnet,
        packet,
        payload,
    }
}

/// Segments as they would be on the wire, checksums complete. Written to be obvious.
fn segment_naively(vnet: &VnetHeader, packet: &[u8]) -> Vec<Vec<u8>> {
    let ip_header = ip_header_len(packet);
    let tcp = vnet.csum_offset == 16;
    let transport_header = if tcp {
        usize::from(packet[ip_header + 12] >> 4) * 4
    } else {
        UDP_HEADER
    };
    let headers = ip_header + transport_header;
    let payload = &packet[headers..];
    let size = if vnet.gso_type == GSO_NONE {
        payload.len().max(1)
    } else {
        usize::from(vnet.gso_size)
    };
    let mut chunks: Vec<&[u8]> = payload.chunks(size).collect();
    if chunks.is_empty() {
        chunks.push(&[]);
    }
    let count = chunks.len();
    let mut segments = Vec::new();
    for (index, chunk) in chunks.into_iter().enumerate() {
        let mut segment = packet[..headers].to_vec();
        segment.extend_from_slice(chunk);
        let total = segment.len();
        if segment[0] >> 4 == 6 {
            segment[4..6].copy_from_slice(&((total - 40) as u16).to_be_bytes());
        } else {
            segment[2..4].copy_from_slice(&(total as u16).to_be_bytes());
            let id = u16::from_be_bytes([packet[4], packet[5]]).wrapping_add(index as u16);
            segment[4..6].copy_from_slice(&id.to_be_bytes());
            segment[10..12].fill(0);
            let header_sum = !sum(&segment[..ip_header]);
            segment[10..12].copy_from_slice(&header_sum.to_be_bytes());
        }
        let at = ip_header;
        if tcp {
            let old = u32::from_be_bytes(packet[at + 4..at + 8].try_into().unwrap());
            let sequence = old.wrapping_add((index * size) as u32);
            segment[at + 4..at + 8].copy_from_slice(&sequence.to_be_bytes());
            if index > 0 {
                segment[at + 13] &= !TCP_CWR;
            }
            if index + 1 < count {
                segment[at + 13] &= !TCP_FIN_PSH;
            }
        } else {
            segment[at + 4..at + 6].copy_from_slice(&((total - at) as u16).to_be_bytes());
        }
        let field = at + usize::from(vnet.csum_offset);
        segment[field..field + 2].fill(0);
        let pseudo = pseudo_header(&segment, total - at);
        let mut all = pseudo.to_be_bytes().to_vec();
        all.extend_from_slice(&segment[at..]);
        let complete = !sum(&all);
        segment[field..field + 2].copy_from_slice(&complete.to_be_bytes());
        segments.push(segment);
    }
    segments
}

/// Finishes the partial checksum the way the hardware does: from the sum in the field on.
fn complete(vnet: &VnetHeader, packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let start = usize::from(vnet.csum_start);
    let field = start + usize::from(vnet.csum_offset);
    let checksum = !sum(&packet[start..]);
    packet[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
    packet
}

fn assert_checksums_verify(packet: &[u8]) {
    let ip_header = ip_header_len(packet);
    if packet[0] >> 4 == 4 {
        assert_eq!(sum(&packet[..ip_header]), 0xffff, "IPv4 header checksum");
    }
    let mut all = pseudo_header(packet, packet.len() - ip_header)
        .to_be_bytes()
        .to_vec();
    all.extend_from_slice(&packet[ip_header..]);
    assert_eq!(sum(&all), 0xffff, "transport checksum");
}

prop_compose! {
    fn made()(
        v6: bool, tcp: bool,
        ip_options in (0usize..=10).prop_map(|words| words * 4),
        tcp_options in (0usize..=10).prop_map(|words| words * 4),
        gso_size in 1u16..1500,
        full in 0usize..44, rest in 0usize..1500,
        flags: u8, sequence: u32, id: u16, fill: u8,
    ) -> Made {
        let kind = Kind { v6, tcp, ip_options, tcp_options };
        let len = full * usize::from(gso_size) + rest % usize::from(gso_size);
        let payload = (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add(fill)).collect();
        make(kind, gso_size, payload, flags, sequence, id)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Segmenting a piece gives exactly the segments of the original that it stands for.
    #[test]
    fn a_piece_stands_for_its_segments(made in made(), first: u32, count: u32) {
        let layout = Layout::of(&made.vnet, &made.packet);
        let expected = segment_naively(&made.vnet, &made.packet);
        prop_assert_eq!(layout.segments as usize, expected.len());
        let last = expected.len() - 1;
        for (index, segment) in expected.iter().enumerate() {
            assert_checksums_verify(segment);
            let bytes = if index == last { layout.last_segment_ip_bytes() } else { layout.segment_ip_bytes() };
            prop_assert_eq!(segment.len(), bytes as usize);
        }
        if layout.segments == 1 {
            return Ok(());
        }
        let first = first % layout.segments;
        let count = 1 + count % (layout.segments - first);
        let piece = cut(&made.vnet, &layout, &made.packet, first, count);
        let (head, headers) = piece.head().split_first_chunk().unwrap();
        let vnet = VnetHeader::parse(head);
        let mut packet = headers.to_vec();
        packet.extend_from_slice(piece.payload(&made.packet));
        prop_assert_eq!(usize::from(vnet.hdr_len), headers.len());
        // The packet may have been cut off behind the piece meanwhile.
        let kept = &made.packet[..layout.bytes_before(first + count)];
        let short = Layout::of_beginning(&made.vnet, kept);
        prop_assert_eq!(short, layout);
        let again = cut(&made.vnet, &short, kept, first, count);
        prop_assert_eq!(again.head(), piece.head());
        prop_assert_eq!(again.payload(kept), piece.payload(&made.packet));
        let got = segment_naively(&vnet, &packet);
        prop_assert_eq!(&got[..], &expected[first as usize..(first + count) as usize]);
        // What the hardware makes of the partial checksum is right, too.
        assert_checksums_verify(&complete(&vnet, &packet));
        // The kernel takes a type other than none only with more than one segment.
        prop_assert_eq!(vnet.gso_type == GSO_NONE, count == 1);
        if vnet.gso_type != GSO_NONE {
            let again = Layout::of(&vnet, &packet);
            prop_assert_eq!(again.segments, count);
        }
        if head[1] & GSO_ECN != 0 {
            prop_assert!(first == 0 && count > 1);
        }
    }

    /// Cut anywhere, the pieces carry every payload byte once and in order.
    #[test]
    fn pieces_concatenate_to_the_payload(made in made(), lengths in prop::collection::vec(1u32..9, 44 * 2)) {
        let layout = Layout::of(&made.vnet, &made.packet);
        if layout.segments == 1 {
            return Ok(());
        }
        let mut joined = Vec::new();
        let mut first = 0;
        for length in lengths {
            let count = length.min(layout.segments - first);
            if count == 0 {
                break;
            }
            let piece = cut(&made.vnet, &layout, &made.packet, first, count);
            joined.extend_from_slice(piece.payload(&made.packet));
            first += count;
        }
        if first == layout.segments {
            prop_assert_eq!(joined, made.payload);
        }
    }

    /// Whatever bytes a device delivers, nothing panics.
    #[test]
    fn nonsense_is_one_segment_or_cuts_without_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        head: [u8; VNET_HEADER_LEN],
        first: u32,
        bit: u64,
    ) {
        let vnet = VnetHeader::parse(&head);
        let layout = Layout::of(&vnet, &bytes);
        prop_assert!(layout.segments >= 1);
        if layout.segments > 1 {
            let piece = cut(&vnet, &layout, &bytes, first % layout.segments, 1);
            prop_assert!(piece.payload(&bytes).len() <= bytes.len());
        }
        let mut record = head.to_vec();
        record.extend_from_slice(&bytes);
        damage(&mut record, bit);
    }

    /// A damaged packet fails its checksum, and differs in one bit from the finished original.
    #[test]
    fn damage_is_one_bit_that_the_checksum_finds(
        v6: bool, tcp: bool, payload in prop::collection::vec(any::<u8>(), 0..1400), bit: u64,
    ) {
        let kind = Kind { v6, tcp, ip_options: 0, tcp_options: 12 };
        let made = make(kind, 1448, payload, 0x18, 7, 9);
        prop_assert_eq!(Layout::of(&made.vnet, &made.packet).segments, 1);
        let mut record = made.vnet.encode().to_vec();
        record.extend_from_slice(&made.packet);
        damage(&mut record, bit);
        let (head, packet) = record.split_first_chunk::<VNET_HEADER_LEN>().unwrap();
        prop_assert_eq!(VnetHeader::parse(head).flags, 0);
        let sound = complete(&made.vnet, &made.packet);
        let flipped: u32 = packet.iter().zip(&sound).map(|(a, b)| (a ^ b).count_ones()).sum();
        // The one case of two: a UDP checksum of zero is written as ones.
        prop_assert!(flipped == 1 || flipped >= 15, "{} bits", flipped);
    }
}
