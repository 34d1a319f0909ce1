//! The models' messages. The real formats are not public; these are ours, in the sizes that the
//! papers' feedback counts lead to. All integers are big-endian; the first byte is the kind.
//!
//! | kind | bytes | fields |
//! |---|---|---|
//! | 1 data | 16 | flags (1: repetition), payload length (2), stamp (4), unit (8) |
//! | 2 hello | 20 | 0 (1), 0 (2), stamp (4), unit bytes (4), object bytes (8; all ones: without end) |
//! | 3 report | 24 + 4n | flags (1: all written), n (2), echo (4), next (8), end - next (4), credit - next (4); n missing units, each as its distance from next (4) |
//! | 4 request | 24 + padding | flags (1: repetition), 0 (2), stamp (4), first unit (8), count (4), distance from next to first (4) |
//! | 5 goodbye | 8 | 0 (1), 0 (2), 0 (4) |
//!
//! *next* is the first unit that has not arrived, *end* the one after the highest that has, *credit*
//! the first that may not be sent yet. Stamps are microseconds of the clock of who wrote them first,
//! modulo 2^32: a data packet carries the sender's and a report gives it back, moved on by how long
//! the receiver held it; a request carries the receiver's and a data packet gives it back.

use howdah_core::HeaderBytes;

/// Bytes of a data packet's header.
pub const DATA_BYTES: usize = 16;
/// Bytes of a report without its list.
pub const REPORT_BYTES: usize = 24;
/// Bytes of a request without its padding.
pub const REQUEST_BYTES: usize = 24;
/// Most missing units that one report names: it fits a jumbo frame with that.
pub const MAX_HOLES: usize = 2000;

const DATA: u8 = 1;
const HELLO: u8 = 2;
const REPORT: u8 = 3;
const REQUEST: u8 = 4;
const GOODBYE: u8 = 5;

/// Header of a data packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Data {
    /// Sent before.
    pub again: bool,
    /// Payload bytes that follow.
    pub bytes: u16,
    /// See [the module](self).
    pub stamp_us: u32,
    /// Number of the unit.
    pub unit: u64,
}

/// The sender's first word.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hello {
    /// The sender's clock.
    pub stamp_us: u32,
    /// Bytes of each unit but the last.
    pub unit_bytes: u32,
    /// Bytes of the object; `None` without end.
    pub size_bytes: Option<u64>,
}

/// What a receiver has, and what it lacks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Report<'a> {
    /// Everything is there and written.
    pub done: bool,
    /// The sender's clock when this report left, less the way of the data.
    pub echo_us: u32,
    /// First unit that has not arrived.
    pub next: u64,
    /// The one after the highest unit that has arrived, less `next`.
    pub end: u32,
    /// First unit that may not be sent, less `next`.
    pub credit: u32,
    /// Missing units, four bytes each.
    pub holes: &'a [u8],
}

impl Report<'_> {
    /// The missing units.
    pub fn missing(&self) -> impl Iterator<Item = u64> + '_ {
        let distance = |at: &[u8; 4]| u64::from(u32::from_be_bytes(*at));
        let (words, _) = self.holes.as_chunks::<4>();
        words
            .iter()
            .map(move |word| self.next.saturating_add(distance(word)))
    }
}

/// The receiver asks for units.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Request {
    /// It has asked for them before.
    pub again: bool,
    /// The receiver's clock.
    pub stamp_us: u32,
    /// First unit.
    pub first: u64,
    /// How many.
    pub count: u32,
    /// `first` less the first unit that has not arrived.
    pub ahead: u32,
}

/// Any message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Message<'a> {
    /// A unit of the object.
    Data(Data),
    /// The sender's first word.
    Hello(Hello),
    /// What is there.
    Report(Report<'a>),
    /// What is wanted.
    Request(Request),
    /// The sender's last word.
    Goodbye,
}

/// Reads a message; `None` for anything that is none.
pub fn decode(bytes: &[u8]) -> Option<Message<'_>> {
    let (&[kind, flags, high, low], rest) = bytes.split_first_chunk::<4>()?;
    let count = u16::from_be_bytes([high, low]);
    let (stamp, rest) = rest.split_first_chunk::<4>()?;
    let stamp_us = u32::from_be_bytes(*stamp);
    let word = |at: usize| -> Option<u32> {
        let four = rest.get(at..at + 4)?.first_chunk::<4>()?;
        Some(u32::from_be_bytes(*four))
    };
    let long = |at: usize| -> Option<u64> {
        let eight = rest.get(at..at + 8)?.first_chunk::<8>()?;
        Some(u64::from_be_bytes(*eight))
    };
    Some(match kind {
        DATA => Message::Data(Data {
            again: flags & 1 != 0,
            bytes: count,
            stamp_us,
            unit: long(0)?,
        }),
        HELLO => Message::Hello(Hello {
            stamp_us,
            unit_bytes: word(0)?,
            size_bytes: long(4).map(|size| (size != u64::MAX).then_some(size))?,
        }),
        REPORT => Message::Report(Report {
            done: flags & 1 != 0,
            echo_us: stamp_us,
            next: long(0)?,
            end: word(8)?,
            credit: word(12)?,
            holes: rest.get(16..16 + 4 * usize::from(count))?,
        }),
        REQUEST => Message::Request(Request {
            again: flags & 1 != 0,
            stamp_us,
            first: long(0)?,
            count: word(8)?,
            ahead: word(12)?,
        }),
        GOODBYE => Message::Goodbye,
        _ => return None,
    })
}

impl Data {
    /// The header.
    #[inline]
    pub fn encode(&self) -> HeaderBytes {
        let mut bytes = [0; 64];
        bytes[0] = DATA;
        bytes[1] = u8::from(self.again);
        bytes[2..4].copy_from_slice(&self.bytes.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.stamp_us.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.unit.to_be_bytes());
        HeaderBytes::from_buf_and_len(bytes, DATA_BYTES)
    }
}

impl Hello {
    /// The message.
    pub fn encode(&self) -> HeaderBytes {
        let mut out = start(HELLO, false, 0, self.stamp_us);
        out.extend_from_slice(&self.unit_bytes.to_be_bytes());
        out.extend_from_slice(&self.size_bytes.unwrap_or(u64::MAX).to_be_bytes());
        out
    }
}

impl Report<'_> {
    /// The message. `holes` must be whole words, at most [`MAX_HOLES`].
    pub fn encode(&self) -> HeaderBytes {
        let count = (self.holes.len() / 4) as u16;
        let mut out = start(REPORT, self.done, count, self.echo_us);
        out.extend_from_slice(&self.next.to_be_bytes());
        out.extend_from_slice(&self.end.to_be_bytes());
        out.extend_from_slice(&self.credit.to_be_bytes());
        out.extend_from_slice(self.holes);
        out
    }
}

impl Request {
    /// The message, without its padding.
    #[inline]
    pub fn encode(&self) -> HeaderBytes {
        let mut bytes = [0; 64];
        bytes[0] = REQUEST;
        bytes[1] = u8::from(self.again);
        bytes[4..8].copy_from_slice(&self.stamp_us.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.first.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.count.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.ahead.to_be_bytes());
        HeaderBytes::from_buf_and_len(bytes, REQUEST_BYTES)
    }
}

/// The sender's last word.
pub fn goodbye() -> HeaderBytes {
    start(GOODBYE, false, 0, 0)
}

fn start(kind: u8, flag: bool, count: u16, stamp_us: u32) -> HeaderBytes {
    let mut out = HeaderBytes::new();
    out.extend_from_slice(&[kind, u8::from(flag)]);
    out.extend_from_slice(&count.to_be_bytes());
    out.extend_from_slice(&stamp_us.to_be_bytes());
    out
}
