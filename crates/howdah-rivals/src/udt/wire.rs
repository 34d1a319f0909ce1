//! UDT's packets, encoded and decoded.
//!
//! The format of version 4 is that of draft-gg-udt-03, section 3, with what the 4.11 library adds
//! to it: control packets without a body carry four bytes of padding, an acknowledgement has one of
//! three lengths, a handshake ends in a cookie and an address. All words are big-endian.
//!
//! [`Format::Compact`] stands for the older header of one word. No source of version 2 was found,
//! so its field widths follow the description of draft-gg-udt-01 from memory; what matters to an
//! experiment is that a data packet has 12 bytes less of header.

use super::sequence::MASK;
use howdah_core::HeaderBytes;

/// Most words of a loss report that are looked at: a datagram of 64 KiB holds no more.
pub const MAX_LOSS_WORDS: usize = 16_384;

const CONTROL: u32 = 1 << 31;
const RANGE: u32 = 1 << 31;
/// Message numbers have 29 bits.
const MESSAGE_MASK: u32 = (1 << 29) - 1;

/// How headers look.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format {
    /// Version 4: four words.
    Udt4,
    /// Version 2: one word, reconstructed.
    Compact,
}

impl Format {
    /// Bytes of a header.
    pub const fn header_bytes(self) -> u32 {
        match self {
            Self::Udt4 => 16,
            Self::Compact => 4,
        }
    }
}

/// A datagram that is not of this protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum WireError {
    /// It ends within its header or its body.
    #[error("a packet of {0} bytes is too short")]
    Short(usize),
    /// A type that no version has.
    #[error("a control packet of type {0}")]
    Type(u32),
    /// A range of losses that ends before it begins, or has no end.
    #[error("a loss report with a range that has no proper end")]
    LossRange,
}

/// Header of a data packet.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DataHeader {
    /// 31 bits.
    pub sequence: u32,
    /// The first packet of an application's write.
    pub first: bool,
    /// The last one.
    pub last: bool,
    /// Messages must be delivered in order.
    pub in_order: bool,
    /// 29 bits: number of the write, from 1.
    pub message: u32,
    /// Microseconds since the sender's socket was made, modulo 2^32.
    pub timestamp_us: u32,
    /// The receiver's socket.
    pub destination: u32,
}

/// Body of a handshake.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Handshake {
    /// 4.
    pub version: u32,
    /// 1 is a stream, 2 are messages.
    pub socket_type: u32,
    /// First sequence number, of both directions.
    pub initial_sequence: u32,
    /// Largest IP packet in bytes ("MSS").
    pub packet_bytes: u32,
    /// Most packets in flight.
    pub flight_packets: u32,
    /// 1 asks, -1 asks with the cookie or answers, 1002 refuses.
    pub request: i32,
    /// The sender's socket.
    pub socket: u32,
    /// What the listener gave.
    pub cookie: u32,
    /// The address at which the other side is seen; zero if the driver did not say.
    pub address: [u32; 4],
}

impl Handshake {
    /// First request of a connection, and the listener's answer with a cookie.
    pub const REQUEST: i32 = 1;
    /// Second request, and the answer that ends the handshake.
    pub const RESPONSE: i32 = -1;
    /// The listener refuses.
    pub const REFUSED: i32 = 1002;
}

/// What a full acknowledgement says beyond the sequence number.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Report {
    /// Smoothed round-trip time in microseconds.
    pub rtt_us: u32,
    /// Its mean deviation in microseconds.
    pub rtt_var_us: u32,
    /// Packets that the receiver has room for, or its flow window where it computes one.
    pub window_packets: u32,
    /// Speed at which packets arrive, in packets per second; 0 is unknown.
    pub arrival_pps: Option<u32>,
    /// Estimated capacity of the link, in packets per second.
    pub capacity_pps: Option<u32>,
}

/// An acknowledgement.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ack {
    /// Number of the acknowledgement itself; 0 in a light one.
    pub number: u32,
    /// Every packet before this sequence number has arrived.
    pub next: u32,
    /// `None` in a light acknowledgement.
    pub report: Option<Report>,
}

/// Which packets are missing: words as they came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Losses<'a>(&'a [u8]);

impl<'a> Losses<'a> {
    /// Checks every range.
    fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let whole = bytes.len().min(MAX_LOSS_WORDS * 4) & !3;
        let bytes = &bytes[..whole];
        if bytes.is_empty() {
            return Err(WireError::Short(0));
        }
        let mut at = 0;
        while let Some(word) = word(bytes, at) {
            at += 4;
            if word & RANGE == 0 {
                continue;
            }
            let end = self::word(bytes, at).ok_or(WireError::LossRange)?;
            at += 4;
            let length = end.wrapping_sub(word) & MASK;
            if end & RANGE != 0 || length > MASK / 2 {
                return Err(WireError::LossRange);
            }
        }
        Ok(Self(bytes))
    }

    /// First and last sequence number of each gap, in the order of the report.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> + 'a {
        let bytes = self.0;
        let mut at = 0;
        std::iter::from_fn(move || {
            let first = word(bytes, at)?;
            at += 4;
            if first & RANGE == 0 {
                return Some((first, first));
            }
            let last = word(bytes, at)?;
            at += 4;
            Some((first & MASK, last))
        })
    }
}

/// Appends a gap to the words of a report; both ends are missing.
pub fn push_loss(words: &mut Vec<u32>, first: u32, last: u32) {
    if first == last {
        words.push(first & MASK);
    } else {
        words.push(first & MASK | RANGE);
        words.push(last & MASK);
    }
}

/// What a control packet says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Body<'a> {
    /// Type 0.
    Handshake(Handshake),
    /// Type 1.
    KeepAlive,
    /// Type 2.
    Ack(Ack),
    /// Type 3.
    Nak(Losses<'a>),
    /// Type 4, which nobody sends any more.
    Warning,
    /// Type 5.
    Shutdown,
    /// Type 6: the acknowledgement with this number has arrived.
    Ack2(u32),
    /// Type 7: packets `first` to `last` of a message will never come.
    MessageDrop {
        /// The message.
        message: u32,
        /// First sequence number.
        first: u32,
        /// Last one, itself included.
        last: u32,
    },
    /// Type 8: the peer has an error.
    PeerError(u32),
    /// Type 0x7fff, for congestion controls that bring their own messages.
    User,
}

/// A control packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Control<'a> {
    /// Microseconds since the sender's socket was made, modulo 2^32.
    pub timestamp_us: u32,
    /// The receiver's socket; 0 is a listener.
    pub destination: u32,
    /// What it says.
    pub body: Body<'a>,
}

/// Any packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Packet<'a> {
    /// With payload.
    Data(DataHeader),
    /// Without.
    Control(Control<'a>),
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_be_bytes(*bytes))
}

/// Decodes a datagram. Of a data packet only the header is looked at.
pub fn decode(format: Format, bytes: &[u8]) -> Result<Packet<'_>, WireError> {
    let short = || WireError::Short(bytes.len());
    let first = word(bytes, 0).ok_or_else(short)?;
    let header = format.header_bytes() as usize;
    if bytes.len() < header {
        return Err(short());
    }
    let field = |at| word(bytes, at).unwrap_or(0);
    let (info, timestamp_us, destination) = match format {
        Format::Udt4 => (field(4), field(8), field(12)),
        Format::Compact => (first & 0xffff, 0, 0),
    };
    if first & CONTROL == 0 {
        let message = if format == Format::Udt4 { info } else { 0 };
        return Ok(Packet::Data(DataHeader {
            sequence: first,
            first: message >> 31 == 1,
            last: message >> 30 & 1 == 1,
            in_order: message >> 29 & 1 == 1,
            message: message & MESSAGE_MASK,
            timestamp_us,
            destination,
        }));
    }
    let kind = match format {
        Format::Udt4 => first >> 16 & 0x7fff,
        Format::Compact => first >> 28 & 7,
    };
    let rest = &bytes[header..];
    let body = match kind {
        0 => Body::Handshake(handshake(format, rest).ok_or_else(short)?),
        1 => Body::KeepAlive,
        2 => Body::Ack(ack(info, rest).ok_or_else(short)?),
        3 => Body::Nak(Losses::new(rest)?),
        4 => Body::Warning,
        5 => Body::Shutdown,
        6 => Body::Ack2(info),
        7 => Body::MessageDrop {
            message: info & MESSAGE_MASK,
            first: word(rest, 0).ok_or_else(short)? & MASK,
            last: word(rest, 4).ok_or_else(short)? & MASK,
        },
        8 => Body::PeerError(info),
        0x7fff => Body::User,
        other => return Err(WireError::Type(other)),
    };
    Ok(Packet::Control(Control {
        timestamp_us,
        destination,
        body,
    }))
}

fn ack(number: u32, body: &[u8]) -> Option<Ack> {
    let next = word(body, 0)? & MASK;
    if body.len() < 16 {
        return Some(Ack {
            number: 0,
            next,
            report: None,
        });
    }
    // 16 bytes: no rates; 20: the capacity (before version 4); 24: both.
    let (arrival_pps, capacity_pps) = match (word(body, 16), word(body, 20)) {
        (Some(arrival), Some(capacity)) => (Some(arrival), Some(capacity)),
        (capacity, _) => (None, capacity),
    };
    Some(Ack {
        number,
        next,
        report: Some(Report {
            rtt_us: word(body, 4)?,
            rtt_var_us: word(body, 8)?,
            window_packets: word(body, 12)?,
            arrival_pps,
            capacity_pps,
        }),
    })
}

fn handshake(format: Format, body: &[u8]) -> Option<Handshake> {
    let field = |n: usize| word(body, n * 4);
    match format {
        Format::Udt4 => Some(Handshake {
            version: field(0)?,
            socket_type: field(1)?,
            initial_sequence: field(2)? & MASK,
            packet_bytes: field(3)?,
            flight_packets: field(4)?,
            request: field(5)?.cast_signed(),
            socket: field(6)?,
            cookie: field(7)?,
            address: [field(8)?, field(9)?, field(10)?, field(11)?],
        }),
        Format::Compact => Some(Handshake {
            version: field(0)?,
            initial_sequence: field(1)? & MASK,
            packet_bytes: field(2)?,
            flight_packets: field(3)?,
            request: field(4)?.cast_signed(),
            ..Handshake::default()
        }),
    }
}

fn put(out: &mut HeaderBytes, words: &[u32]) {
    for word in words {
        out.extend_from_slice(&word.to_be_bytes());
    }
}

/// Encodes the header of a data packet.
#[inline]
pub fn encode_data(format: Format, header: &DataHeader) -> HeaderBytes {
    let mut out = HeaderBytes::new();
    let sequence = header.sequence & MASK;
    match format {
        Format::Udt4 => {
            let flags = u32::from(header.first) << 31
                | u32::from(header.last) << 30
                | u32::from(header.in_order) << 29;
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&sequence.to_be_bytes());
            bytes[4..8].copy_from_slice(&(flags | header.message & MESSAGE_MASK).to_be_bytes());
            bytes[8..12].copy_from_slice(&header.timestamp_us.to_be_bytes());
            bytes[12..].copy_from_slice(&header.destination.to_be_bytes());
            out.extend_from_slice(&bytes);
        }
        Format::Compact => out.extend_from_slice(&sequence.to_be_bytes()),
    }
    out
}

fn begin(format: Format, kind: u32, info: u32, timestamp_us: u32, destination: u32) -> HeaderBytes {
    let mut out = HeaderBytes::new();
    match format {
        Format::Udt4 => put(
            &mut out,
            &[CONTROL | kind << 16, info, timestamp_us, destination],
        ),
        Format::Compact => put(&mut out, &[CONTROL | kind << 28 | info & 0xffff]),
    }
    out
}

/// Encodes a loss report from words made by [`push_loss`].
pub fn encode_nak(
    format: Format,
    words: &[u32],
    timestamp_us: u32,
    destination: u32,
) -> HeaderBytes {
    let mut out = begin(format, 3, 0, timestamp_us, destination);
    put(&mut out, words);
    out
}

/// Encodes any control packet. A loss report keeps its words.
pub fn encode_control(format: Format, control: &Control<'_>) -> HeaderBytes {
    let start = |kind, info| {
        begin(
            format,
            kind,
            info,
            control.timestamp_us,
            control.destination,
        )
    };
    // A body of nothing is sent as four bytes of padding (4.11, packet.cpp).
    let bare = |kind, info| {
        let mut out = start(kind, info);
        put(&mut out, &[0]);
        out
    };
    match &control.body {
        Body::Handshake(hs) => {
            let mut out = start(0, 0);
            let request = hs.request.cast_unsigned();
            let sequence = hs.initial_sequence & MASK;
            match format {
                Format::Udt4 => {
                    put(&mut out, &[hs.version, hs.socket_type, sequence]);
                    put(&mut out, &[hs.packet_bytes, hs.flight_packets, request]);
                    put(&mut out, &[hs.socket, hs.cookie]);
                    put(&mut out, &hs.address);
                }
                Format::Compact => {
                    put(&mut out, &[hs.version, sequence, hs.packet_bytes]);
                    put(&mut out, &[hs.flight_packets, request, 0]);
                }
            }
            out
        }
        Body::KeepAlive => bare(1, 0),
        Body::Ack(ack) => {
            let mut out = start(2, ack.number);
            put(&mut out, &[ack.next & MASK]);
            if let Some(report) = &ack.report {
                put(&mut out, &[report.rtt_us, report.rtt_var_us]);
                put(&mut out, &[report.window_packets]);
                let rates = [report.arrival_pps, report.capacity_pps];
                for rate in rates.into_iter().flatten() {
                    put(&mut out, &[rate]);
                }
            }
            out
        }
        Body::Nak(losses) => {
            let mut out = start(3, 0);
            out.extend_from_slice(losses.0);
            out
        }
        Body::Warning => bare(4, 0),
        Body::Shutdown => bare(5, 0),
        Body::Ack2(number) => bare(6, *number),
        Body::MessageDrop {
            message,
            first,
            last,
        } => {
            let mut out = start(7, message & MESSAGE_MASK);
            put(&mut out, &[first & MASK, last & MASK]);
            out
        }
        Body::PeerError(error) => bare(8, *error),
        Body::User => bare(0x7fff, 0),
    }
}
