//! Frames: what a sealed packet says.

use crate::codec::{CodecError, Reader, Report, Writer, limits};
use howdah_core::ObjectId;
use howdah_core::num::saturating_usize;

const PADDING: u8 = 0x00;
const PING: u8 = 0x01;
const CRYPTO: u8 = 0x02;
const CRYPTO_ACK: u8 = 0x03;
const REPORT: u8 = 0x04;
const REPORT_ACK: u8 = 0x05;
const CONTROL: u8 = 0x06;
const DATA: u8 = 0x07;
const PATH_CHALLENGE: u8 = 0x08;
const PATH_RESPONSE: u8 = 0x09;
const CLOSE: u8 = 0x0a;
const HANDSHAKE_DONE: u8 = 0x0b;
const CREDIT: u8 = 0x0c;
const TRAIN: u8 = 0x0d;
const REPORT_ACK_SPARSE: u8 = 0x0e;

/// One frame, borrowed from the packet.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame<'a> {
    /// The rest of the packet is filling.
    Padding,
    /// Asks for a report at once.
    Ping,
    /// Handshake bytes (handshake packets only).
    Crypto {
        /// Where they stand in the level's byte stream.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// All handshake bytes of this level below that offset have arrived.
    CryptoAck(u64),
    /// What has arrived.
    Report(Box<Report>),
    /// Those reports have arrived: `newest`, and `newest - 1 - i` for each set bit `i`.
    ReportAck {
        /// Number of the newest report that arrived.
        newest: u64,
        /// The 64 before it.
        earlier: u64,
        /// Until the next one reports may be as far apart as they ever are: nothing happens that they would tell of. Only to who has the
        /// ability.
        sparse: bool,
    },
    /// Bytes of the ordered control stream.
    Control {
        /// Where they stand in the stream.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Bytes of an object; they are the rest of the packet.
    Data {
        /// Which object.
        object: ObjectId,
        /// Where they stand in the object.
        offset: u64,
    },
    /// To be echoed, to prove that the peer receives at this address.
    PathChallenge(u64),
    /// The echo.
    PathResponse(u64),
    /// The end of the connection.
    Close {
        /// Why, as a number ([`crate::error::CloseCode`]).
        code: u16,
        /// Why, as a text.
        reason: &'a str,
    },
    /// The server holds the client's last handshake message.
    HandshakeDone,
    /// Bytes of `object` below `window_end` may be sent.
    Credit {
        /// Which object.
        object: ObjectId,
        /// First byte that must wait.
        window_end: u64,
    },
    /// How the packets of the client's first flight arrived (handshake packets only).
    Train(TrainSeen),
}

/// What a server saw of the train in a client's first flight, by the numbers of its Initial packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TrainSeen {
    /// The first that came.
    pub first: u32,
    /// The last that came so far, after it and below [`limits::MAX_TRAIN`].
    pub last: u32,
    /// How many came.
    pub packets: u32,
    /// When the first came, by the server's clock, in microseconds.
    pub rx_time_us: u64,
    /// Time between the arrivals of the two, in microseconds.
    pub span_us: u32,
}

impl TrainSeen {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        fn small(reader: &mut Reader<'_>, most: u32) -> Result<u32, CodecError> {
            let number = reader.varint_at_most(most.into())?;
            u32::try_from(number).map_err(|_| CodecError::LimitExceeded)
        }
        let seen = Self {
            first: small(reader, limits::MAX_TRAIN - 1)?,
            last: small(reader, limits::MAX_TRAIN - 1)?,
            packets: small(reader, limits::MAX_TRAIN)?,
            rx_time_us: reader.varint()?,
            span_us: small(reader, u32::MAX)?,
        };
        let is_train = seen.first < seen.last && seen.packets <= seen.last - seen.first + 1;
        is_train.then_some(seen).ok_or(CodecError::LimitExceeded)
    }

    fn encode(self, writer: &mut Writer<'_>) {
        for number in [self.first, self.last, self.packets] {
            writer.varint(number.into());
        }
        writer.varint(self.rx_time_us);
        writer.varint(self.span_us.into());
    }
}

impl Frame<'_> {
    /// Whether the peer must report the packet that carries it.
    pub fn is_ack_eliciting(&self) -> bool {
        !matches!(
            self,
            Self::Padding
                | Self::Report(_)
                | Self::ReportAck { .. }
                | Self::CryptoAck(_)
                | Self::Close { .. }
                | Self::Train(_)
        )
    }
}

/// The frames of an opened packet. Ends after the first error, after [`Frame::Padding`], and after
/// [`Frame::Data`], whose payload is what `rest` of the iterator then gives.
pub fn frames(body: &[u8]) -> FrameIter<'_> {
    FrameIter {
        reader: Reader::new(body),
        done: false,
    }
}

/// Object, offset and payload of a body that begins with a DATA frame, which then is all of it: what nearly all packets are, read
/// without the detour over [`Frame`]. `None` if it begins with another one, or is not well-formed: [`frames`] says why.
#[inline]
pub(crate) fn leading_data(body: &[u8]) -> Option<(ObjectId, u64, &[u8])> {
    let mut reader = match body {
        [DATA, rest @ ..] => Reader::new(rest),
        _ => return None,
    };
    let object = reader.object().ok()?;
    let offset = reader.offset().ok()?;
    Some((object, offset, reader.rest()))
}

/// A DATA frame without its payload, written to the front of `buffer`.
#[inline]
pub(crate) fn data_frame(
    buffer: &mut [u8; FrameWriter::MAX_DATA_HEADER],
    object: ObjectId,
    offset: u64,
) -> &[u8] {
    buffer[0] = DATA;
    let (mut rest, mut at) = (object.get(), 1);
    while rest >= 0x80 {
        buffer[at] = (rest & 0x7f) as u8 | 0x80;
        rest >>= 7;
        at += 1;
    }
    buffer[at] = (rest & 0x7f) as u8;
    let len = at + 1 + size_of_val(&offset);
    buffer[at + 1..len].copy_from_slice(&offset.to_be_bytes());
    &buffer[..len]
}

/// See [`frames`].
#[derive(Clone, Debug)]
pub struct FrameIter<'a> {
    reader: Reader<'a>,
    done: bool,
}

impl<'a> FrameIter<'a> {
    /// Bytes behind the last frame.
    pub fn rest(&self) -> &'a [u8] {
        self.reader.rest()
    }

    fn decode(&mut self) -> Result<Frame<'a>, CodecError> {
        #[cfg(test)]
        tests::DECODED.set(tests::DECODED.get() + 1);
        let reader = &mut self.reader;
        Ok(match reader.u8()? {
            PADDING => Frame::Padding,
            PING => Frame::Ping,
            CRYPTO => {
                let offset = reader.varint_at_most(limits::MAX_CRYPTO_BYTES)?;
                let len = reader.varint_at_most(limits::MAX_CRYPTO_BYTES)?;
                Frame::Crypto {
                    offset,
                    bytes: reader.bytes(saturating_usize(len))?,
                }
            }
            CRYPTO_ACK => Frame::CryptoAck(reader.varint_at_most(limits::MAX_CRYPTO_BYTES)?),
            REPORT => Frame::Report(Box::new(Report::decode(reader)?)),
            kind @ (REPORT_ACK | REPORT_ACK_SPARSE) => Frame::ReportAck {
                newest: reader.varint()?,
                earlier: reader.u64()?,
                sparse: kind == REPORT_ACK_SPARSE,
            },
            CONTROL => {
                let offset = reader.varint_at_most(limits::MAX_OFFSET)?;
                let len = reader.varint_at_most(limits::MAX_DATAGRAM as u64)?;
                Frame::Control {
                    offset,
                    bytes: reader.bytes(saturating_usize(len))?,
                }
            }
            DATA => Frame::Data {
                object: reader.object()?,
                offset: reader.offset()?,
            },
            PATH_CHALLENGE => Frame::PathChallenge(reader.u64()?),
            PATH_RESPONSE => Frame::PathResponse(reader.u64()?),
            CLOSE => {
                let code = reader.u16()?;
                let len = reader.varint_at_most(limits::MAX_REASON as u64)?;
                let reason = std::str::from_utf8(reader.bytes(saturating_usize(len))?)
                    .map_err(|_| CodecError::BadText)?;
                Frame::Close { code, reason }
            }
            HANDSHAKE_DONE => Frame::HandshakeDone,
            CREDIT => Frame::Credit {
                object: reader.object()?,
                window_end: reader.varint_at_most(limits::MAX_OFFSET)?,
            },
            TRAIN => Frame::Train(TrainSeen::decode(reader)?),
            unknown => return Err(CodecError::UnknownFrame(unknown)),
        })
    }
}

impl<'a> Iterator for FrameIter<'a> {
    type Item = Result<Frame<'a>, CodecError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done || self.reader.is_empty() {
            return None;
        }
        let frame = self.decode();
        self.done = matches!(frame, Err(_) | Ok(Frame::Padding | Frame::Data { .. }));
        Some(frame)
    }
}

/// Appends frames to a packet body.
#[derive(Debug)]
pub struct FrameWriter<'a>(Writer<'a>);

impl<'a> FrameWriter<'a> {
    /// Longest header of a DATA frame, in bytes.
    pub const MAX_DATA_HEADER: usize = 1 + 10 + 8;

    /// Appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self(Writer::new(out))
    }

    /// Length of a DATA frame's header for this object, in bytes.
    pub fn data_header_len(object: ObjectId) -> usize {
        1 + (64 - object.get().leading_zeros()).div_ceil(7).max(1) as usize + 8
    }

    /// Appends one frame.
    pub fn frame(&mut self, frame: &Frame<'_>) {
        let writer = &mut self.0;
        match *frame {
            Frame::Padding => writer.u8(PADDING),
            Frame::Ping => writer.u8(PING),
            Frame::Crypto { offset, bytes } => {
                writer.u8(CRYPTO);
                writer.varint(offset);
                writer.prefixed(bytes);
            }
            Frame::CryptoAck(offset) => {
                writer.u8(CRYPTO_ACK);
                writer.varint(offset);
            }
            Frame::Report(ref report) => {
                writer.u8(REPORT);
                report.encode(writer);
            }
            Frame::ReportAck {
                newest,
                earlier,
                sparse,
            } => {
                writer.u8(if sparse {
                    REPORT_ACK_SPARSE
                } else {
                    REPORT_ACK
                });
                writer.varint(newest);
                writer.u64(earlier);
            }
            Frame::Control { offset, bytes } => {
                writer.u8(CONTROL);
                writer.varint(offset);
                writer.prefixed(bytes);
            }
            Frame::Data { object, offset } => {
                let mut buffer = [0; FrameWriter::MAX_DATA_HEADER];
                writer.bytes(data_frame(&mut buffer, object, offset));
            }
            Frame::PathChallenge(token) => {
                writer.u8(PATH_CHALLENGE);
                writer.u64(token);
            }
            Frame::PathResponse(token) => {
                writer.u8(PATH_RESPONSE);
                writer.u64(token);
            }
            Frame::Close { code, reason } => {
                writer.u8(CLOSE);
                writer.u16(code);
                let mut len = reason.len().min(limits::MAX_REASON);
                while !reason.is_char_boundary(len) {
                    len -= 1;
                }
                writer.prefixed(&reason.as_bytes()[..len]);
            }
            Frame::HandshakeDone => writer.u8(HANDSHAKE_DONE),
            Frame::Credit { object, window_end } => {
                writer.u8(CREDIT);
                writer.varint(object.get());
                writer.varint(window_end);
            }
            Frame::Train(seen) => {
                writer.u8(TRAIN);
                seen.encode(writer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    thread_local! {
        pub(super) static DECODED: Cell<usize> = const { Cell::new(0) };
    }

    proptest! {
        /// A packet holds no more frames than it has bytes, and nothing of it is looked at twice: whoever fills it with the
        /// smallest ones there are asks for no more.
        #[test]
        fn h4_a_packet_is_as_much_work_as_it_has_bytes(
            kind in 0..15u8,
            tail in prop::collection::vec(any::<u8>(), 0..40),
            bytes in prop::collection::vec(0..15u8, 0..3_000),
        ) {
            let repeated = [&[kind][..], &tail].concat();
            let repeated = repeated.repeat(limits::MAX_DATAGRAM / repeated.len());
            for body in [repeated, bytes] {
                DECODED.set(0);
                let mut all = frames(&body);
                let (mut seen, mut left) = (0, body.len());
                while let Some(frame) = all.next() {
                    seen += 1;
                    prop_assert!(frame.is_err() || all.rest().len() < left);
                    left = all.rest().len();
                }
                prop_assert!(DECODED.get() == seen && seen <= body.len());
            }
        }
    }

    #[test]
    fn the_longest_data_header_is_as_long_as_it_is_said() {
        for object in [0, 127, 128, u64::MAX].map(ObjectId::new) {
            let mut out = Vec::new();
            FrameWriter::new(&mut out).frame(&Frame::Data {
                object,
                offset: u64::MAX,
            });
            assert_eq!(out.len(), FrameWriter::data_header_len(object));
        }
        let longest = FrameWriter::data_header_len(ObjectId::new(u64::MAX));
        assert_eq!(longest, FrameWriter::MAX_DATA_HEADER);
    }

    #[test]
    fn what_tells_of_reports_asks_for_none() {
        let data = Frame::Data {
            object: ObjectId::new(1),
            offset: 0,
        };
        for frame in [data, Frame::Ping, Frame::HandshakeDone] {
            assert!(frame.is_ack_eliciting(), "{frame:?}");
        }
        for frame in [Frame::Padding, Frame::CryptoAck(0)] {
            assert!(!frame.is_ack_eliciting(), "{frame:?}");
        }
    }

    fn any_frame() -> impl Strategy<Value = (u8, u64, u64, Vec<u8>)> {
        (
            0u8..13,
            any::<u64>(),
            any::<u64>(),
            prop::collection::vec(any::<u8>(), 0..64),
        )
    }

    fn build<'a>(kind: u8, a: u64, b: u64, bytes: &'a [u8], text: &'a str) -> Frame<'a> {
        match kind {
            0 => Frame::Ping,
            1 => Frame::Crypto {
                offset: a % 16_384,
                bytes,
            },
            2 => Frame::CryptoAck(a % 16_384),
            3 => Frame::ReportAck {
                newest: a,
                earlier: b,
                sparse: a & 1 == 1,
            },
            4 => Frame::Control {
                offset: a >> 2,
                bytes,
            },
            5 => Frame::PathChallenge(a),
            6 => Frame::PathResponse(b),
            7 => Frame::Close {
                code: a as u16,
                reason: text,
            },
            8 => Frame::HandshakeDone,
            9 => Frame::Credit {
                object: ObjectId::new(a),
                window_end: b >> 2,
            },
            10 => Frame::Padding,
            11 => {
                let (first, more) = ((a % 10) as u32, 1 + (a >> 8) as u32 % 10);
                Frame::Train(TrainSeen {
                    first,
                    last: first + more,
                    packets: (b >> 32) as u32 % (more + 2),
                    rx_time_us: a,
                    span_us: b as u32,
                })
            }
            _ => Frame::Data {
                object: ObjectId::new(a),
                offset: b >> 2,
            },
        }
    }

    proptest! {
        #[test]
        fn frames_round_trip(list in prop::collection::vec(any_frame(), 0..6), text in "[a-zé]{0,40}") {
            let frames_in: Vec<_> = list.iter().map(|(k, a, b, bytes)| build(*k, *a, *b, bytes, &text)).collect();
            let mut body = Vec::new();
            let mut writer = FrameWriter::new(&mut body);
            for frame in &frames_in {
                writer.frame(frame);
            }
            let out: Result<Vec<_>, _> = frames(&body).collect();
            let out = out.unwrap();
            // Padding and data swallow what follows.
            let keep = frames_in.iter().position(|f| matches!(f, Frame::Padding | Frame::Data { .. }))
                .map_or(frames_in.len(), |at| at + 1);
            prop_assert_eq!(&out[..], &frames_in[..keep]);
        }

        #[test]
        fn any_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for frame in frames(&bytes) {
                if frame.is_err() {
                    break;
                }
            }
        }

        #[test]
        fn data_header_len_is_exact(object in any::<u64>(), shift in 0..64u32) {
            let object = ObjectId::new(object >> shift);
            let mut body = Vec::new();
            FrameWriter::new(&mut body).frame(&Frame::Data { object, offset: 7 });
            prop_assert_eq!(body.len(), FrameWriter::data_header_len(object));
            prop_assert!(body.len() <= FrameWriter::MAX_DATA_HEADER);
        }
    }
}
