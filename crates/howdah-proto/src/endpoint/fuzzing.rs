//! What `howdah-fuzz` calls: each takes any bytes and panics where something is true that must never be.

use super::admission::{Admission, FirstPacket, Load, Verdict};
use crate::codec::limits::MIN_DATAGRAM;
use crate::codec::{COOKIE_LEN, ConnectionId, Cookie, RetryAnswer, VERSION};
use howdah_core::{Span, Time};
use std::net::SocketAddr;

/// A cookie is good for that long, in seconds.
const LIFETIME_S: u64 = 15;

/// Strangers, eight bytes each: nobody is believed to receive at an address but with the very cookie that was sent
/// there, and no answer is larger than the question.
pub fn cookie(bytes: &[u8]) {
    let mut admission = Admission::new(None, [7; 32]);
    let mut now = Time::ZERO;
    let mut given: Vec<(Time, SocketAddr, ConnectionId, ConnectionId, Cookie)> = Vec::new();
    for stranger in bytes.chunks_exact(8).take(256) {
        let [step, host, port, ids, which, at, xor, load] = [
            stranger[0],
            stranger[1],
            stranger[2],
            stranger[3],
            stranger[4],
            stranger[5],
            stranger[6],
            stranger[7],
        ];
        now += Span::from_millis(u64::from(step & 0x7f) * 250);
        let address = SocketAddr::from(([192, 0, 2, host & 3], 1 + u16::from(port & 3)));
        let first = ConnectionId(u64::from(ids & 3));
        let client = ConnectionId(u64::from(ids >> 2 & 3));
        // None, one that was given, perhaps damaged, or any.
        let shown = match which {
            0..64 => None,
            64..224 => {
                let cookie = given.get(usize::from(which - 64) % given.len().max(1));
                cookie.map(|&(.., mut cookie)| {
                    cookie.0[usize::from(at) % COOKIE_LEN] ^= xor;
                    cookie
                })
            }
            _ => Some(Cookie([at; COOKIE_LEN])),
        };
        let knock = FirstPacket {
            version: if step & 0x80 == 0 {
                VERSION
            } else {
                xor.into()
            },
            first_destination: first,
            client,
            cookie: shown,
        };
        let load = Load {
            half_open: load.into(),
            full_for_s: (load == u8::MAX).then_some(1),
            waited: Span::from_millis(u64::from(step & 1) * 20),
        };
        match admission.judge(now, address, &knock, load) {
            Verdict::Admit { validated: true } => {
                let fits = given.iter().any(|&(made, to, destination, by, cookie)| {
                    let age = now.since(made);
                    (to, destination, by, Some(cookie)) == (address, first, client, shown)
                        && age < Span::from_secs(LIFETIME_S + 1)
                });
                assert!(fits, "a cookie that was not given to {address}");
            }
            Verdict::Answer(packet) => {
                let mut out = Vec::new();
                packet.encode(&mut out);
                assert!(out.len() < MIN_DATAGRAM);
                if let RetryAnswer::Retry(cookie) = packet.answer {
                    given.push((now, address, first, client, cookie));
                }
            }
            Verdict::Admit { validated: false } | Verdict::Ignore => {}
        }
    }
}

/// One that comes back with what it was given, and one with what another one was given.
pub fn cookie_samples() -> Vec<Vec<u8>> {
    let ask = [1, 0, 0, 0, 0, 0, 0, 200];
    vec![
        [ask, [1, 0, 0, 0, 64, 0, 0, 200]].concat(),
        [ask, [1, 1, 0, 0, 64, 0, 0, 200]].concat(),
        [
            ask,
            [1, 0, 0, 0, 64, 9, 1, 200],
            [70, 0, 0, 0, 64, 0, 0, 200],
        ]
        .concat(),
        [ask, [0x81, 0, 0, 0, 240, 9, 1, 1]].concat(),
    ]
}
