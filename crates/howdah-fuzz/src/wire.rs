//! What stands in a datagram.

use crate::structured;
use arbitrary::Arbitrary;
use howdah_proto::codec::{
    COOKIE_LEN, DATA_HEADER_LEN, Frame, FrameWriter, HANDSHAKE_HEADER_LEN, Header, Reader, Report,
    RetryPacket, Writer, expand_packet_number, frames as read_frames, limits,
};

/// A datagram's first bytes: they decode or they do not, and what decodes is written the same. The first eight bytes are
/// the number that is expected.
pub fn header(bytes: &[u8]) {
    let Some((expected, datagram)) = bytes.split_first_chunk() else {
        return;
    };
    let expected = u64::from_be_bytes(*expected);
    if let Ok(packet) = RetryPacket::decode(datagram) {
        let mut out = Vec::new();
        packet.encode(&mut out);
        assert_eq!(out, datagram);
        assert!(Header::decode(datagram).is_err(), "one packet, one kind");
    }
    let Ok((header, used)) = Header::decode(datagram) else {
        return;
    };
    let mut out = Vec::new();
    header.encode(&mut out);
    assert_eq!(out, datagram[..used]);
    match header {
        Header::Handshake { cookie, .. } => {
            let cookie = cookie.map_or(0, |_| COOKIE_LEN);
            assert_eq!(used, HANDSHAKE_HEADER_LEN + cookie);
        }
        Header::Data { number_low, .. } => {
            assert_eq!(used, DATA_HEADER_LEN);
            // Packet numbers stay far below 2^62, whatever a peer sends.
            let expected = expected >> 2;
            let number = expand_packet_number(expected, number_low);
            assert_eq!(number as u32, number_low);
            assert!(number.abs_diff(expected) <= 1 << 31 || number < 1 << 32);
        }
    }
}

/// The body of an opened packet: what decodes is written the same.
pub fn frames(body: &[u8]) {
    let mut iter = read_frames(body);
    let mut seen = Vec::new();
    while let Some(frame) = iter.next() {
        let Ok(frame) = frame else {
            assert!(iter.next().is_none(), "frames behind an error");
            return;
        };
        seen.push(frame);
    }
    let mut out = Vec::new();
    for frame in &seen {
        FrameWriter::new(&mut out).frame(frame);
        if let Frame::Data { object, .. } = *frame {
            assert!(FrameWriter::data_header_len(object) <= FrameWriter::MAX_DATA_HEADER);
        }
    }
    let read: Vec<_> = read_frames(&out)
        .map(|frame| frame.expect("we wrote it"))
        .collect();
    assert_eq!(read, seen);
    assert!(
        out.len() <= body.len(),
        "there is a shorter way to write it"
    );
}

/// Feedback reports: what decodes holds together, and is written so that it reads the same.
pub fn report(bytes: &[u8]) {
    let Ok(report) = Report::decode(&mut Reader::new(bytes)) else {
        return;
    };
    assert!(report.coverage.len() as u64 <= limits::MAX_COVERAGE_BLOCKS);
    assert!(report.late.len() as u64 <= limits::MAX_LATE);
    assert!(report.samples.len() as u64 <= limits::MAX_SAMPLES);
    for coverage in &report.coverage {
        let covered: u64 = coverage
            .runs
            .iter()
            .map(|run| run.received + run.lost)
            .sum();
        assert_eq!(covered, coverage.len);
        assert!(coverage.len <= limits::MAX_COVERAGE_SPAN);
        assert!(coverage.from + coverage.len <= report.largest.saturating_add(1));
        // A run takes a byte at least: no small packet makes many of them.
        assert!(coverage.runs.len() <= bytes.len());
    }
    assert!(report.late.iter().all(|&number| number <= report.largest));
    assert!(
        report
            .samples
            .iter()
            .all(|sample| sample.number <= report.largest)
    );
    let mut out = Vec::new();
    report.encode(&mut Writer::new(&mut out));
    let again = Report::decode(&mut Reader::new(&out));
    assert_eq!(again.as_ref(), Ok(&report));
}

#[derive(Arbitrary, Debug)]
enum Field {
    U8,
    U16,
    U32,
    U64,
    Varint,
    VarintAtMost(u64),
    Offset,
    Bytes(u16),
}

/// Integers and the other primitives, in any order.
pub fn varint(bytes: &[u8]) {
    let Some((fields, bytes)) = structured::<(Vec<Field>, &[u8])>(bytes) else {
        return;
    };
    let mut reader = Reader::new(bytes);
    let mut out = Vec::new();
    for field in fields {
        let mut writer = Writer::new(&mut out);
        let read = match field {
            Field::U8 => reader.u8().map(|v| writer.u8(v)),
            Field::U16 => reader.u16().map(|v| writer.u16(v)),
            Field::U32 => reader.u32().map(|v| writer.u32(v)),
            Field::U64 => reader.u64().map(|v| writer.u64(v)),
            Field::Varint => reader.varint().map(|v| writer.varint(v)),
            Field::VarintAtMost(limit) => reader.varint_at_most(limit).map(|v| {
                assert!(v <= limit);
                writer.varint(v);
            }),
            Field::Offset => reader.offset().map(|v| {
                assert!(v <= limits::MAX_OFFSET);
                writer.u64(v);
            }),
            Field::Bytes(len) => reader.bytes(len.into()).map(|v| writer.bytes(v)),
        };
        if read.is_err() {
            return;
        }
        // There is one way to write each value.
        assert_eq!(out, bytes[..out.len()]);
        assert_eq!(reader.rest(), &bytes[out.len()..]);
    }
}
