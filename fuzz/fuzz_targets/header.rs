//! A datagram's first bytes: they decode or they do not, and what decodes is written the same.
#![no_main]

use howdah_proto::codec::{
    COOKIE_LEN, DATA_HEADER_LEN, DoorPacket, HANDSHAKE_HEADER_LEN, Header, expand_packet_number,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u64, &[u8])| {
    let (expected, datagram) = input;
    if let Ok(packet) = DoorPacket::decode(datagram) {
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
});
