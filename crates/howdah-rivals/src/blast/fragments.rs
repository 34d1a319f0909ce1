//! IP fragments: datagrams that are larger than the path's packets.
//!
//! A fragment is lost alone and takes its datagram with it. In the simulator a fragment begins with
//! 8 bytes that stand for what IP's header says (which datagram, which part of how many, how long it
//! is); they stand in the place of as many bytes of the datagram, so fragments weigh exactly what
//! they weigh on a wire.

use howdah_core::{Datagram, HeaderBytes};
use std::collections::VecDeque;

const PREFIX_BYTES: usize = 8;
/// Bytes of an IPv4 header and of a UDP header.
const IP_BYTES: u32 = 20;
const UDP_BYTES: u32 = 8;
/// Datagrams that may be incomplete at a time. Linux's limit is memory, 256 KiB at that time.
const SLOTS: usize = 64;

/// Cuts and joins.
#[derive(Debug)]
pub(super) struct Fragments {
    /// Bytes of IP payload in a full fragment, a multiple of 8.
    piece_bytes: u32,
    next: u32,
    waiting: VecDeque<Datagram>,
    slots: Vec<Slot>,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    number: u32,
    have: u64,
    header: HeaderBytes,
}

/// What the 8 bytes say.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Prefix {
    number: u32,
    index: u8,
    count: u8,
    total_bytes: u16,
}

impl Prefix {
    fn encode(self) -> HeaderBytes {
        let mut bytes = HeaderBytes::from_slice(&self.number.to_be_bytes());
        bytes.push(self.index);
        bytes.push(self.count);
        bytes.extend_from_slice(&self.total_bytes.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (prefix, rest) = bytes.split_first_chunk::<PREFIX_BYTES>()?;
        let [a, b, c, d, index, count, high, low] = *prefix;
        let prefix = Self {
            number: u32::from_be_bytes([a, b, c, d]),
            index,
            count,
            total_bytes: u16::from_be_bytes([high, low]),
        };
        (prefix.index < prefix.count && prefix.count <= 64).then_some((prefix, rest))
    }
}

impl Fragments {
    /// For IP packets of at most `mtu` bytes.
    pub(super) fn new(mtu: u32) -> Self {
        let room = mtu.clamp(576, 65_535) - IP_BYTES;
        Self {
            // 64 pieces must do for any datagram.
            piece_bytes: (room / 8 * 8).max(1032),
            next: 0,
            waiting: VecDeque::new(),
            slots: vec![Slot::default(); SLOTS],
        }
    }

    /// Cuts a datagram; the pieces are [taken](Self::pop) one after the other.
    pub(super) fn cut(&mut self, datagram: &Datagram) {
        let total = datagram.wire_len();
        let count = (total + UDP_BYTES).div_ceil(self.piece_bytes);
        self.next = self.next.wrapping_add(1);
        for index in 0..count {
            let prefix = Prefix {
                number: self.next,
                index: index as u8,
                count: count as u8,
                total_bytes: total as u16,
            };
            let mut bytes = prefix.encode();
            if index == 0 {
                bytes.extend_from_slice(&datagram.bytes);
            }
            let piece = self
                .piece_bytes
                .min(total + UDP_BYTES - index * self.piece_bytes);
            // The simulator adds 28 bytes; a fragment has 20.
            let weight = piece - UDP_BYTES.min(piece);
            let absent = weight.saturating_sub(bytes.len() as u32);
            self.waiting.push_back(Datagram { bytes, absent });
        }
    }

    /// The next piece.
    pub(super) fn pop(&mut self) -> Option<Datagram> {
        self.waiting.pop_front()
    }

    /// Takes in a piece; header and absent bytes of its datagram if that is complete now.
    pub(super) fn join(&mut self, bytes: &[u8]) -> Option<(HeaderBytes, u32)> {
        let (prefix, rest) = Prefix::decode(bytes)?;
        let slot = &mut self.slots[prefix.number as usize % SLOTS];
        if slot.number != prefix.number {
            *slot = Slot {
                number: prefix.number,
                ..Slot::default()
            };
        }
        let all = u64::MAX >> (64 - u32::from(prefix.count));
        if slot.have == all {
            return None;
        }
        slot.have |= 1 << prefix.index;
        if prefix.index == 0 {
            slot.header = HeaderBytes::from_slice(rest);
        }
        (slot.have == all).then(|| {
            let header = slot.header.clone();
            let absent = u32::from(prefix.total_bytes).saturating_sub(header.len() as u32);
            (header, absent)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn datagram(absent: u32) -> Datagram {
        Datagram {
            bytes: HeaderBytes::from_slice(&[1, 2, 3, 4, 5, 6]),
            absent,
        }
    }

    #[test]
    fn a_block_of_32_kib_makes_23_packets_of_ethernet() {
        let mut fragments = Fragments::new(1500);
        fragments.cut(&datagram(32_768));
        let pieces: Vec<Datagram> = std::iter::from_fn(|| fragments.pop()).collect();
        assert_eq!(pieces.len(), 23);
        assert!(
            pieces[..22]
                .iter()
                .all(|piece| piece.wire_len() + 28 == 1500)
        );
        // 23 headers of IP, one of UDP, and the datagram.
        let weight: u32 = pieces.iter().map(|piece| piece.wire_len() + 28).sum();
        assert_eq!(weight, 23 * 20 + 8 + 32_774);
    }

    proptest! {
        #[test]
        fn pieces_make_the_datagram_in_any_order(absent in 0..65_000u32, mtu in 600..9000u32, turn in 0..64usize) {
            let mut near = Fragments::new(mtu);
            let mut far = Fragments::new(mtu);
            near.cut(&datagram(absent));
            let mut pieces: Vec<Datagram> = std::iter::from_fn(|| near.pop()).collect();
            let turn = turn % pieces.len();
            pieces.rotate_left(turn);
            let mut whole = None;
            for (at, piece) in pieces.iter().enumerate() {
                prop_assert!(whole.is_none());
                // Twice: a duplicate changes nothing.
                whole = far.join(&piece.bytes);
                prop_assert!(far.join(&piece.bytes).is_none() || at + 1 < pieces.len());
            }
            let (header, rest) = whole.expect("all pieces came");
            prop_assert_eq!(&header[..], &[1, 2, 3, 4, 5, 6]);
            prop_assert_eq!(rest, absent);
        }

        #[test]
        fn any_bytes_are_survived(all in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..24), 0..50)) {
            let mut fragments = Fragments::new(1500);
            for bytes in all {
                let _ = fragments.join(&bytes);
            }
        }
    }
}
