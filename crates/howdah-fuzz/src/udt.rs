//! UDT's packets, and both sides of an open connection that gets them: nothing panics, and what is
//! understood is written so that it reads the same.

use crate::structured;
use howdah_core::{Arrival, Span, Time, Transport};
use howdah_rivals::udt::wire::{Format, Packet, decode, encode_control, encode_data};
use howdah_rivals::udt::{UdtConfig, UdtEndpoint};

fn arrive(endpoint: &mut UdtEndpoint, now: Time, bytes: &[u8], absent: u32) {
    let arrival = Arrival {
        bytes,
        absent,
        corrupt: false,
    };
    endpoint.handle_datagram(now, arrival);
}

/// Lets two sides talk for a while.
fn talk(sides: &mut [UdtEndpoint; 2], now: Time) {
    let mut out = Vec::new();
    for _ in 0..8 {
        for from in 0..2 {
            sides[from].handle_timeout(now);
            sides[from].poll_transmit(now, 16, &mut out);
            for datagram in out.drain(..) {
                arrive(&mut sides[1 - from], now, &datagram.bytes, datagram.absent);
            }
        }
    }
}

/// See the module.
pub fn udt(bytes: &[u8]) {
    let Some((compact, packets)) = structured::<(bool, Vec<Vec<u8>>)>(bytes) else {
        return;
    };
    let config = if compact {
        UdtConfig::v2()
    } else {
        UdtConfig::default()
    };
    let format = if compact {
        Format::Compact
    } else {
        Format::Udt4
    };
    let mut sides = [
        UdtEndpoint::sender(&config, Some(1 << 20), 1),
        UdtEndpoint::receiver(&config, 2),
    ];
    let mut now = Time::ZERO;
    talk(&mut sides, now);
    for bytes in packets {
        match decode(format, &bytes) {
            Ok(Packet::Data(header)) => {
                let again = encode_data(format, &header);
                assert_eq!(decode(format, &again), Ok(Packet::Data(header)));
            }
            Ok(Packet::Control(control)) => {
                let again = encode_control(format, &control);
                assert_eq!(decode(format, &again), Ok(Packet::Control(control)));
            }
            Err(_) => {}
        }
        for side in &mut sides {
            arrive(side, now, &bytes, 100);
        }
        now += Span::from_millis(7);
        talk(&mut sides, now);
    }
}
