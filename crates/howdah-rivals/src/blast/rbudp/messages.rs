//! RBUDP's formats.

use crate::blast::blocks::Blocks;
use howdah_core::HeaderBytes;

/// Bytes of a packet's header, the packet number in the sender's byte order. Ours is that of the
/// machines that the program runs on, little-endian.
pub(super) const HEADER_BYTES: usize = 4;
/// Bytes of the file name that `recvfile` asks for.
pub(super) const NAME_BYTES: usize = 256;
/// Bytes of the message that ends a blast.
pub(super) const END_BYTES: usize = 8;

pub(super) fn header(number: u32) -> HeaderBytes {
    HeaderBytes::from_slice(&number.to_le_bytes())
}

pub(super) fn number(header: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(*header.first_chunk::<HEADER_BYTES>()?))
}

/// End of a blast: its number, from 0, and three letters (a C structure, so with a byte of padding).
pub(super) fn end_of_blast(round: u32) -> [u8; END_BYTES] {
    let [a, b, c, d] = round.to_le_bytes();
    [a, b, c, d, b'E', b'E', b'E', 0]
}

/// Whether these are an end of a blast; the program does not look.
pub(super) fn is_end_of_blast(bytes: [u8; END_BYTES]) -> bool {
    bytes[4..7] == *b"EEE"
}

/// Bytes of the error report about `packets` packets.
pub(super) const fn report_bytes(packets: u64) -> usize {
    (packets / 8) as usize + 2
}

/// The error report: 1 if nothing is missing, and a bit for each packet, set if it has arrived. The
/// bits behind the last packet are set.
pub(super) fn report(arrived: &Blocks, packets: u64) -> Vec<u8> {
    let length = report_bytes(packets) - 1;
    let mut bytes = Vec::with_capacity(length + 1);
    bytes.push(u8::from(arrived.marked() >= packets));
    bytes.extend(arrived.bytes(length));
    if let Some(last) = bytes.last_mut() {
        *last |= u8::MAX << (packets % 8);
    }
    bytes
}

/// The packets that a report calls missing, in order.
pub(super) fn missing(report: &[u8], packets: u64) -> Vec<u32> {
    let mut list = Vec::new();
    if report.first() == Some(&1) {
        return list;
    }
    for (at, &byte) in report.iter().skip(1).enumerate() {
        let mut open = !byte;
        while open != 0 {
            let number = at as u64 * 8 + u64::from(open.trailing_zeros());
            if number < packets {
                list.push(number as u32);
            }
            open &= open - 1;
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn formats_are_those_of_the_program() {
        assert_eq!(header(0x0102_0304)[..], [4, 3, 2, 1]);
        assert_eq!(end_of_blast(2), [2, 0, 0, 0, 0x45, 0x45, 0x45, 0]);
        let mut arrived = Blocks::default();
        for number in [0, 2, 8] {
            arrived.mark(number);
        }
        // 9 packets: 3 bytes, and the 7 bits behind the ninth are set.
        assert_eq!(report(&arrived, 9), [0, 0b0000_0101, 0b1111_1111]);
        assert_eq!(missing(&report(&arrived, 9), 9), [1, 3, 4, 5, 6, 7]);
        // A multiple of 8 has a byte of nothing but padding.
        assert_eq!(report(&arrived, 8), [0, 0b0000_0101, 0xff]);
        assert_eq!(report_bytes(7627), 955, "64 MiB of 8800 bytes");
    }

    proptest! {
        #[test]
        fn a_report_names_exactly_what_is_missing(arrived in prop::collection::vec(any::<bool>(), 1..200)) {
            let mut blocks = Blocks::default();
            for (at, _) in arrived.iter().enumerate().filter(|(_, got)| **got) {
                blocks.mark(at as u64);
            }
            let count = arrived.len() as u64;
            let bytes = report(&blocks, count);
            prop_assert_eq!(bytes.len(), report_bytes(count));
            let expected: Vec<u32> = (0..count as u32).filter(|&n| !arrived[n as usize]).collect();
            prop_assert_eq!(bytes[0] == 1, expected.is_empty());
            prop_assert_eq!(missing(&bytes, count), expected);
        }

        #[test]
        fn any_report_is_read(bytes in prop::collection::vec(any::<u8>(), 0..60), packets in 0..500u64) {
            prop_assert!(missing(&bytes, packets).iter().all(|&n| u64::from(n) < packets));
            prop_assert!(number(&bytes).is_some() == (bytes.len() >= 4));
        }
    }
}
