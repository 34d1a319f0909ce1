//! The header of a segment (RFC 9293 section 3.1) with the options that are used here:
//! MSS, window scale and timestamps (RFC 7323), selective acknowledgement (RFC 2018).

use howdah_core::HeaderBytes;

/// Header without options, in bytes.
pub const BASE_HEADER_BYTES: u32 = 20;
/// Timestamps option with its padding, in bytes.
pub const TIMESTAMPS_BYTES: u32 = 12;
/// Largest header in bytes: the data offset has four bits.
pub const MAX_HEADER_BYTES: usize = 60;
/// Most SACK blocks: without timestamps. With them there is room for three.
pub const MAX_SACK_BLOCKS: usize = 4;

/// No more data from the sender of this.
pub const FIN: u8 = 0x01;
/// Synchronise sequence numbers.
pub const SYN: u8 = 0x02;
/// Reset.
pub const RST: u8 = 0x04;
/// Hand the data to the application.
pub const PSH: u8 = 0x08;
/// The acknowledgement number counts.
pub const ACK: u8 = 0x10;

/// Ports carry no meaning here; one connection is one flow.
pub(super) const SENDER_PORT: u16 = 40_000;
const RECEIVER_PORT: u16 = 5_001;

/// Option kinds.
const KIND_END: u8 = 0;
const KIND_NOP: u8 = 1;
const KIND_MSS: u8 = 2;
const KIND_WINDOW_SCALE: u8 = 3;
const KIND_SACK_PERMITTED: u8 = 4;
const KIND_SACK: u8 = 5;
const KIND_TIMESTAMPS: u8 = 8;

/// Which side sends: it decides the ports.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Side {
    /// The one that has the data.
    #[default]
    Sender,
    /// The one that gets them.
    Receiver,
}

/// The timestamps option.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Timestamps {
    /// `TSval`: the clock of the side that sends this.
    pub value: u32,
    /// `TSecr`: what it echoes.
    pub echo: u32,
}

/// SACK blocks: left and right edge, in sequence numbers, newest first.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SackBlocks {
    blocks: [(u32, u32); MAX_SACK_BLOCKS],
    len: u8,
}

impl SackBlocks {
    /// Appends a block; returns false if there is no room.
    pub fn push(&mut self, left: u32, right: u32) -> bool {
        let Some(place) = self.blocks.get_mut(usize::from(self.len)) else {
            return false;
        };
        *place = (left, right);
        self.len += 1;
        true
    }

    /// The blocks.
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.len)]
    }
}

/// A segment's header.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Segment {
    /// Who sends it.
    pub side: Side,
    /// Sequence number of the first byte (or of SYN or FIN).
    pub seq: u32,
    /// Next sequence number expected.
    pub ack: u32,
    /// [`FIN`], [`SYN`], ...
    pub flags: u8,
    /// Window, not scaled.
    pub window: u16,
    /// MSS option, in SYN.
    pub mss: Option<u16>,
    /// Window scale option, in SYN.
    pub window_scale: Option<u8>,
    /// SACK-permitted option, in SYN.
    pub sack_permitted: bool,
    /// Timestamps option.
    pub timestamps: Option<Timestamps>,
    /// SACK option.
    pub sack: SackBlocks,
}

impl Segment {
    /// Whether a flag is set.
    #[inline]
    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The header as bytes. SACK blocks for which there is no room are left out (from the end).
    #[inline]
    pub fn encode(&self) -> HeaderBytes {
        let mut out = [0_u8; 64];
        let (source, target) = match self.side {
            Side::Sender => (SENDER_PORT, RECEIVER_PORT),
            Side::Receiver => (RECEIVER_PORT, SENDER_PORT),
        };
        out[0..2].copy_from_slice(&source.to_be_bytes());
        out[2..4].copy_from_slice(&target.to_be_bytes());
        out[4..8].copy_from_slice(&self.seq.to_be_bytes());
        out[8..12].copy_from_slice(&self.ack.to_be_bytes());
        out[13] = self.flags;
        out[14..16].copy_from_slice(&self.window.to_be_bytes());
        // Checksum and urgent pointer stay zero.
        let mut at = 20;
        if self.mss.is_some() || self.window_scale.is_some() || self.sack_permitted {
            at = self.encode_syn_options(&mut out, at);
        } else if let Some(stamps) = self.timestamps {
            out[at..at + 4].copy_from_slice(&[KIND_NOP, KIND_NOP, KIND_TIMESTAMPS, 10]);
            at = put_timestamps(&mut out, at + 4, stamps);
        }
        let room = (MAX_HEADER_BYTES - at).saturating_sub(4) / 8;
        let blocks = &self.sack.as_slice()[..usize::from(self.sack.len).min(room)];
        if !blocks.is_empty() {
            let len = 2 + 8 * blocks.len() as u8;
            out[at..at + 4].copy_from_slice(&[KIND_NOP, KIND_NOP, KIND_SACK, len]);
            at += 4;
            for (left, right) in blocks {
                out[at..at + 4].copy_from_slice(&left.to_be_bytes());
                out[at + 4..at + 8].copy_from_slice(&right.to_be_bytes());
                at += 8;
            }
        }
        debug_assert!(at % 4 == 0 && at <= MAX_HEADER_BYTES);
        out[12] = (at as u8 / 4) << 4;
        HeaderBytes::from_buf_and_len(out, at)
    }

    /// Options of a SYN in the order in which Linux writes them. Returns where they end.
    fn encode_syn_options(&self, out: &mut [u8; 64], mut at: usize) -> usize {
        if let Some(mss) = self.mss {
            out[at..at + 2].copy_from_slice(&[KIND_MSS, 4]);
            out[at + 2..at + 4].copy_from_slice(&mss.to_be_bytes());
            at += 4;
        }
        match (self.sack_permitted, self.timestamps) {
            (true, Some(stamps)) => {
                out[at..at + 4].copy_from_slice(&[KIND_SACK_PERMITTED, 2, KIND_TIMESTAMPS, 10]);
                at = put_timestamps(out, at + 4, stamps);
            }
            (false, Some(stamps)) => {
                out[at..at + 4].copy_from_slice(&[KIND_NOP, KIND_NOP, KIND_TIMESTAMPS, 10]);
                at = put_timestamps(out, at + 4, stamps);
            }
            (true, None) => {
                out[at..at + 4].copy_from_slice(&[KIND_NOP, KIND_NOP, KIND_SACK_PERMITTED, 2]);
                at += 4;
            }
            (false, None) => {}
        }
        if let Some(shift) = self.window_scale {
            out[at..at + 4].copy_from_slice(&[KIND_NOP, KIND_WINDOW_SCALE, 3, shift]);
            at += 4;
        }
        at
    }

    /// Reads a header: exactly one, for payload is not carried. `None` if it is not one.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < BASE_HEADER_BYTES as usize || bytes.len() > MAX_HEADER_BYTES {
            return None;
        }
        if usize::from(bytes[12] >> 4) * 4 != bytes.len() {
            return None;
        }
        let side = match (be16(bytes, 0), be16(bytes, 2)) {
            (SENDER_PORT, RECEIVER_PORT) => Side::Sender,
            (RECEIVER_PORT, SENDER_PORT) => Side::Receiver,
            _ => return None,
        };
        let mut segment = Self {
            side,
            seq: be32(bytes, 4),
            ack: be32(bytes, 8),
            flags: bytes[13],
            window: be16(bytes, 14),
            ..Self::default()
        };
        let options = &bytes[20..];
        // What nearly all segments carry.
        if options.len() >= 12 && options[..4] == [KIND_NOP, KIND_NOP, KIND_TIMESTAMPS, 10] {
            segment.timestamps = Some(timestamps(options, 4));
            if options.len() == 12 {
                return Some(segment);
            }
            segment.decode_options(&options[12..])?;
        } else {
            segment.decode_options(options)?;
        }
        Some(segment)
    }

    /// Unknown options are skipped by their length, as RFC 9293 wants it.
    fn decode_options(&mut self, mut options: &[u8]) -> Option<()> {
        while let Some(&kind) = options.first() {
            match kind {
                KIND_END => return Some(()),
                KIND_NOP => options = &options[1..],
                _ => {
                    let len = usize::from(*options.get(1)?);
                    if len < 2 || len > options.len() {
                        return None;
                    }
                    self.decode_option(kind, &options[..len])?;
                    options = &options[len..];
                }
            }
        }
        Some(())
    }

    fn decode_option(&mut self, kind: u8, option: &[u8]) -> Option<()> {
        match (kind, option.len()) {
            (KIND_MSS, 4) => self.mss = Some(be16(option, 2)),
            (KIND_WINDOW_SCALE, 3) => self.window_scale = Some(option[2]),
            (KIND_SACK_PERMITTED, 2) => self.sack_permitted = true,
            (KIND_TIMESTAMPS, 10) => self.timestamps = Some(timestamps(option, 2)),
            (KIND_SACK, len) if len >= 10 && (len - 2) % 8 == 0 => {
                self.sack = SackBlocks::default();
                for at in (2..len).step_by(8) {
                    self.sack.push(be32(option, at), be32(option, at + 4));
                }
            }
            (
                KIND_MSS | KIND_WINDOW_SCALE | KIND_SACK_PERMITTED | KIND_TIMESTAMPS | KIND_SACK,
                _,
            ) => {
                return None;
            }
            _ => {}
        }
        Some(())
    }
}

#[inline]
fn put_timestamps(out: &mut [u8; 64], at: usize, stamps: Timestamps) -> usize {
    out[at..at + 4].copy_from_slice(&stamps.value.to_be_bytes());
    out[at + 4..at + 8].copy_from_slice(&stamps.echo.to_be_bytes());
    at + 8
}

#[inline]
fn timestamps(bytes: &[u8], at: usize) -> Timestamps {
    Timestamps {
        value: be32(bytes, at),
        echo: be32(bytes, at + 4),
    }
}

#[inline]
fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The 64-bit position nearest to `near` whose low half is `wire`: undoes the wrapping of sequence
/// numbers, correct for whatever is less than 2 GiB away. `None` if it would lie before zero.
#[inline]
pub(crate) const fn unwrap_near(near: u64, wire: u32) -> Option<u64> {
    let distance = wire.wrapping_sub(near as u32).cast_signed();
    near.checked_add_signed(distance as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_data_segment_byte_by_byte() {
        let segment = Segment {
            seq: 0x0102_0304,
            ack: 0x0506_0708,
            flags: ACK | PSH,
            window: 0x1122,
            timestamps: Some(Timestamps {
                value: 0xaabb_ccdd,
                echo: 0x0000_0001,
            }),
            ..Segment::default()
        };
        let expected = [
            0x9c, 0x40, 0x13, 0x89, 1, 2, 3, 4, 5, 6, 7, 8, 0x80, 0x18, 0x11, 0x22, 0, 0, 0, 0, 1,
            1, 8, 10, 0xaa, 0xbb, 0xcc, 0xdd, 0, 0, 0, 1,
        ];
        assert_eq!(segment.encode().as_slice(), expected);
    }

    #[test]
    fn a_syn_byte_by_byte() {
        let segment = Segment {
            seq: 7,
            flags: SYN,
            window: 65_535,
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 9, echo: 0 }),
            ..Segment::default()
        };
        let expected = [
            0x9c, 0x40, 0x13, 0x89, 0, 0, 0, 7, 0, 0, 0, 0, 0xa0, 0x02, 0xff, 0xff, 0, 0, 0, 0, 2,
            4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 7,
        ];
        assert_eq!(segment.encode().as_slice(), expected);
    }

    #[test]
    fn an_acknowledgement_with_sack_byte_by_byte() {
        let mut segment = Segment {
            side: Side::Receiver,
            seq: 1,
            ack: 2,
            flags: ACK,
            window: 3,
            ..Segment::default()
        };
        segment.sack.push(0x10, 0x20);
        segment.sack.push(0x30, 0x40);
        let expected = [
            0x13, 0x89, 0x9c, 0x40, 0, 0, 0, 1, 0, 0, 0, 2, 0xa0, 0x10, 0, 3, 0, 0, 0, 0, 1, 1, 5,
            18, 0, 0, 0, 0x10, 0, 0, 0, 0x20, 0, 0, 0, 0x30, 0, 0, 0, 0x40,
        ];
        assert_eq!(segment.encode().as_slice(), expected);
    }

    #[test]
    fn three_blocks_fit_beside_timestamps_and_four_without() {
        let mut segment = Segment::default();
        for block in 0..4 {
            assert!(segment.sack.push(block, block + 1));
        }
        assert!(!segment.sack.push(9, 10));
        let bare = Segment::decode(&segment.encode()).unwrap();
        assert_eq!(bare.sack.as_slice().len(), 4);
        segment.timestamps = Some(Timestamps::default());
        let bytes = segment.encode();
        assert_eq!(bytes.len(), MAX_HEADER_BYTES);
        assert_eq!(Segment::decode(&bytes).unwrap().sack.as_slice().len(), 3);
    }

    #[test]
    fn unwrapping_takes_the_nearest() {
        assert_eq!(unwrap_near(5, 7), Some(7));
        assert_eq!(unwrap_near(0x1_0000_0001, 0xffff_fff0), Some(0xffff_fff0));
        assert_eq!(unwrap_near(0xffff_fff0, 3), Some(0x1_0000_0003));
        assert_eq!(unwrap_near(3, 0xffff_fff0), None);
    }

    fn any_segment() -> impl Strategy<Value = Segment> {
        let stamps = prop::option::of(any::<(u32, u32)>());
        let blocks = prop::collection::vec(any::<(u32, u32)>(), 0..4);
        let syn = (any::<bool>(), any::<u16>(), 0..15_u8, any::<bool>());
        (any::<(u32, u32, u8, u16, bool)>(), stamps, blocks, syn).prop_map(
            |((seq, ack, flags, window, near), stamps, blocks, (syn, mss, scale, permitted))| {
                let mut segment = Segment {
                    side: if near { Side::Sender } else { Side::Receiver },
                    seq,
                    ack,
                    flags,
                    window,
                    timestamps: stamps.map(|(value, echo)| Timestamps { value, echo }),
                    ..Segment::default()
                };
                if syn {
                    segment.mss = Some(mss);
                    segment.window_scale = Some(scale);
                    segment.sack_permitted = permitted;
                } else {
                    for (left, right) in blocks {
                        segment.sack.push(left, right);
                    }
                }
                segment
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(segment in any_segment()) {
            let bytes = segment.encode();
            prop_assert_eq!(bytes.len() % 4, 0);
            prop_assert_eq!(Segment::decode(&bytes), Some(segment));
        }

        #[test]
        fn garbage_never_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..80), honest in any::<bool>()) {
            if honest && bytes.len() >= 20 && bytes.len() <= 60 {
                // Get past the checks of the fixed part.
                bytes.truncate(bytes.len() / 4 * 4);
                bytes[..4].copy_from_slice(&[0x9c, 0x40, 0x13, 0x89]);
                bytes[12] = (bytes.len() as u8 / 4) << 4;
            }
            if let Some(segment) = Segment::decode(&bytes) {
                prop_assert!(segment.sack.as_slice().len() <= MAX_SACK_BLOCKS);
            }
        }

        #[test]
        fn unwrapping_undoes_wrapping(near in (1_u64 << 31)..(1 << 40), distance in -(1_i64 << 31)..(1 << 31)) {
            let at = near.checked_add_signed(distance).unwrap();
            prop_assert_eq!(unwrap_near(near, at as u32), Some(at));
        }
    }
}
