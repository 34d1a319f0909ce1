//! Byte-exact messages and properties of the decoder. The vectors are written from
//! draft-gg-udt-03 and from packets of Debian's libudt 4.11 (`peers/udt` talks to it).

use crate::udt::wire::{
    Ack, Body, Control, DataHeader, Format, Handshake, Packet, Report, WireError, decode,
    encode_control, encode_data, encode_nak, push_loss,
};
use proptest::prelude::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(u8::is_ascii_hexdigit)
        .map(|digit| (digit as char).to_digit(16).unwrap() as u8)
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

fn control(body: Body<'_>) -> Control<'_> {
    Control {
        timestamp_us: 0x0102_0304,
        destination: 0x1122_3344,
        body,
    }
}

/// Both ways.
fn same(body: Body<'_>, bytes: &str) {
    let control = control(body);
    let encoded = encode_control(Format::Udt4, &control);
    assert_eq!(encoded[..], hex(bytes)[..], "{body:?}");
    assert_eq!(decode(Format::Udt4, &encoded), Ok(Packet::Control(control)));
}

#[test]
fn data_headers_have_four_words() {
    let header = DataHeader {
        sequence: 0x7fff_fffe,
        first: true,
        last: false,
        in_order: true,
        message: 0x0abc_def0,
        timestamp_us: 0xdead_beef,
        destination: 0x1234_5678,
    };
    let bytes = encode_data(Format::Udt4, &header);
    assert_eq!(bytes[..], hex("7ffffffe aabcdef0 deadbeef 12345678")[..]);
    assert_eq!(decode(Format::Udt4, &bytes), Ok(Packet::Data(header)));
    let solo = DataHeader {
        last: true,
        in_order: false,
        ..header
    };
    let bytes = encode_data(Format::Udt4, &solo);
    assert_eq!(bytes[..], hex("7ffffffe cabcdef0 deadbeef 12345678")[..]);
    let compact = encode_data(Format::Compact, &header);
    assert_eq!(compact[..], hex("7ffffffe")[..]);
}

#[test]
fn a_handshake_has_twelve_words_after_the_header() {
    let handshake = Handshake {
        version: 4,
        socket_type: 1,
        initial_sequence: 0x1357_9bdf,
        packet_bytes: 1500,
        flight_packets: 8192,
        request: Handshake::REQUEST,
        socket: 0x2468_ace0,
        cookie: 0,
        address: [0x7f00_0001, 0, 0, 0],
    };
    same(
        Body::Handshake(handshake),
        "80000000 00000000 01020304 11223344
         00000004 00000001 13579bdf 000005dc 00002000 00000001 2468ace0 00000000
         7f000001 00000000 00000000 00000000",
    );
    let second = Handshake {
        request: Handshake::RESPONSE,
        cookie: 0xcafe_babe,
        ..handshake
    };
    same(
        Body::Handshake(second),
        "80000000 00000000 01020304 11223344
         00000004 00000001 13579bdf 000005dc 00002000 ffffffff 2468ace0 cafebabe
         7f000001 00000000 00000000 00000000",
    );
}

#[test]
fn acknowledgements_have_three_lengths() {
    let report = Report {
        rtt_us: 100_000,
        rtt_var_us: 50_000,
        window_packets: 8191,
        arrival_pps: None,
        capacity_pps: None,
    };
    let ack = |report| {
        Body::Ack(Ack {
            number: 7,
            next: 0x1357_9be0,
            report: Some(report),
        })
    };
    same(
        ack(report),
        "80020000 00000007 01020304 11223344 13579be0 000186a0 0000c350 00001fff",
    );
    let rates = Report {
        arrival_pps: Some(80_000),
        capacity_pps: Some(141_044),
        ..report
    };
    same(
        ack(rates),
        "80020000 00000007 01020304 11223344 13579be0 000186a0 0000c350 00001fff 00013880 000226f4",
    );
    let light = Body::Ack(Ack {
        number: 0,
        next: 0x1357_9be0,
        report: None,
    });
    same(light, "80020000 00000000 01020304 11223344 13579be0");
    // With IPv4 and UDP: 48, 60 and 68 bytes.
    let length = |body| encode_control(Format::Udt4, &control(body)).len() + 28;
    assert_eq!(
        [length(light), length(ack(report)), length(ack(rates))],
        [48, 60, 68]
    );
}

#[test]
fn packets_without_a_body_are_padded() {
    same(
        Body::KeepAlive,
        "80010000 00000000 01020304 11223344 00000000",
    );
    same(
        Body::Warning,
        "80040000 00000000 01020304 11223344 00000000",
    );
    same(
        Body::Shutdown,
        "80050000 00000000 01020304 11223344 00000000",
    );
    same(
        Body::Ack2(7),
        "80060000 00000007 01020304 11223344 00000000",
    );
    same(Body::User, "ffff0000 00000000 01020304 11223344 00000000");
    same(
        Body::MessageDrop {
            message: 9,
            first: 0x7fff_ffff,
            last: 2,
        },
        "80070000 00000009 01020304 11223344 7fffffff 00000002",
    );
}

#[test]
fn losses_are_words_and_pairs_of_words() {
    let mut words = Vec::new();
    push_loss(&mut words, 5, 5);
    push_loss(&mut words, 0x7fff_fffe, 3);
    push_loss(&mut words, 9, 10);
    let bytes = encode_nak(Format::Udt4, &words, 0x0102_0304, 0x1122_3344);
    let want = "80030000 00000000 01020304 11223344 00000005 fffffffe 00000003 80000009 0000000a";
    assert_eq!(bytes[..], hex(want)[..]);
    let Ok(Packet::Control(nak)) = decode(Format::Udt4, &bytes) else {
        panic!("{bytes:?}")
    };
    let Body::Nak(losses) = nak.body else {
        panic!("{nak:?}")
    };
    let gaps: Vec<_> = losses.iter().collect();
    assert_eq!(gaps, [(5, 5), (0x7fff_fffe, 3), (9, 10)]);
    // One loss is 48 bytes of IP, one range 52.
    assert_eq!(encode_nak(Format::Udt4, &words[..1], 0, 0).len() + 28, 48);
    assert_eq!(encode_nak(Format::Udt4, &words[1..3], 0, 0).len() + 28, 52);
}

#[test]
fn nonsense_is_refused() {
    let nak = |words: &str| {
        let bytes = hex(&format!("80030000 00000000 00000000 00000000 {words}"));
        decode(Format::Udt4, &bytes).map(|_| ())
    };
    assert_eq!(nak("80000005"), Err(WireError::LossRange));
    assert_eq!(nak("80000005 00000004"), Err(WireError::LossRange));
    assert_eq!(nak("80000005 80000009"), Err(WireError::LossRange));
    assert_eq!(nak(""), Err(WireError::Short(0)));
    assert_eq!(nak("80000005 00000005"), Ok(()));
    assert_eq!(
        decode(Format::Udt4, &hex("80090000 00000000 00000000 00000000")),
        Err(WireError::Type(9))
    );
    assert_eq!(decode(Format::Udt4, &[0; 15]), Err(WireError::Short(15)));
    assert_eq!(decode(Format::Compact, &[0; 3]), Err(WireError::Short(3)));
}

fn any_body() -> impl Strategy<Value = Body<'static>> {
    let word = any::<u32>();
    let sequence = 0..1_u32 << 31;
    let rates = prop_oneof![
        Just((None, None)),
        (any::<u32>(), any::<u32>()).prop_map(|(a, c)| (Some(a), Some(c))),
        any::<u32>().prop_map(|c| (None, Some(c))),
    ];
    prop_oneof![
        Just(Body::KeepAlive),
        Just(Body::Warning),
        Just(Body::Shutdown),
        Just(Body::User),
        word.prop_map(Body::Ack2),
        word.prop_map(Body::PeerError),
        (0..1_u32 << 29, sequence.clone(), sequence.clone()).prop_map(|(message, first, last)| {
            Body::MessageDrop {
                message,
                first,
                last,
            }
        }),
        sequence.clone().prop_map(|next| Body::Ack(Ack {
            number: 0,
            next,
            report: None
        })),
        (word, sequence.clone(), word, word, word, rates).prop_map(
            |(number, next, rtt_us, rtt_var_us, window_packets, (arrival_pps, capacity_pps))| {
                let report = Report {
                    rtt_us,
                    rtt_var_us,
                    window_packets,
                    arrival_pps,
                    capacity_pps,
                };
                Body::Ack(Ack {
                    number,
                    next,
                    report: Some(report),
                })
            }
        ),
        (sequence, any::<[u32; 4]>(), any::<i32>(), any::<[u32; 4]>()).prop_map(
            |(
                initial_sequence,
                [version, packet_bytes, flight_packets, socket],
                request,
                address,
            )| {
                Body::Handshake(Handshake {
                    version,
                    socket_type: 1,
                    initial_sequence,
                    packet_bytes,
                    flight_packets,
                    request,
                    socket,
                    cookie: socket ^ 5,
                    address,
                })
            }
        ),
    ]
}

proptest! {
    #[test]
    fn control_packets_come_back(body in any_body(), timestamp_us: u32, destination: u32) {
        let control = Control { timestamp_us, destination, body };
        let bytes = encode_control(Format::Udt4, &control);
        prop_assert_eq!(decode(Format::Udt4, &bytes), Ok(Packet::Control(control)));
    }

    #[test]
    fn loss_reports_come_back(gaps in prop::collection::vec((0..1_u32 << 31, 0..1000_u32), 1..50)) {
        let mut words = Vec::new();
        let gaps: Vec<_> = gaps
            .into_iter()
            .map(|(first, more)| (first, (first + more) & 0x7fff_ffff))
            .collect();
        for &(first, last) in &gaps {
            push_loss(&mut words, first, last);
        }
        for format in [Format::Udt4, Format::Compact] {
            let bytes = encode_nak(format, &words, 1, 2);
            let Ok(Packet::Control(Control { body: Body::Nak(losses), .. })) =
                decode(format, &bytes)
            else {
                return Err(TestCaseError::fail("not a loss report"));
            };
            prop_assert_eq!(losses.iter().collect::<Vec<_>>(), &gaps[..]);
        }
    }

    /// Whatever comes is refused or understood, and what is understood is written the same way
    /// (so far as the format has room: padding and unused bits are lost).
    #[test]
    fn any_bytes_are_safe(mut bytes in prop::collection::vec(any::<u8>(), 0..120), is_control: bool) {
        if is_control && bytes.len() > 2 {
            bytes[0] = 0x80;
            bytes[1] %= 9;
        }
        for format in [Format::Udt4, Format::Compact] {
            match decode(format, &bytes) {
                Ok(Packet::Data(header)) => {
                    let again = encode_data(format, &header);
                    prop_assert_eq!(decode(format, &again), Ok(Packet::Data(header)));
                }
                Ok(Packet::Control(control)) => {
                    let again = encode_control(format, &control);
                    prop_assert_eq!(decode(format, &again), Ok(Packet::Control(control)));
                }
                Err(_) => {}
            }
        }
    }
}
