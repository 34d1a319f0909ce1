//! Integers and the other primitives, in any order.
#![no_main]

use arbitrary::Arbitrary;
use howdah_proto::codec::{Reader, Writer, limits};
use libfuzzer_sys::fuzz_target;

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

fuzz_target!(|input: (Vec<Field>, &[u8])| {
    let (fields, bytes) = input;
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
});
