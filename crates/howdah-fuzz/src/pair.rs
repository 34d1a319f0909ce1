//! Two connections with real TLS, and a path between them that loses, doubles, delays, damages and makes up. It holds no keys:
//! whatever it does, no byte arrives that was not sent, and once it stops both sides go on as if nothing had been.

use crate::structured;
use arbitrary::Arbitrary;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use howdah_core::{Ecn, Span, Time};
use howdah_proto::ConnectionId;
use howdah_proto::{
    Arriving, Config, Connection, Event, Handled, PacketOut, PacketSink, Part, Role, Security,
    TlsIdentity,
};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

const SPKI_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0,
];
const HALF_RTT: Span = Span::from_millis(5);
const SIZE: u64 = 40_000;
/// The path misbehaves for so many deliveries at most: less than a handshake waits for.
const MOVES: usize = 48;

/// What happens to the next datagram.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Move<'a> {
    Pass,
    Lose,
    Double,
    /// It comes behind the next ones.
    Late(u8),
    Flip {
        at: u16,
        xor: u8,
    },
    Cut(u16),
    /// What stands at its end is another datagram's.
    Grow(&'a [u8]),
    /// Before it comes something else.
    Forge(&'a [u8]),
    /// Before it comes an older one with these first bytes.
    Replay {
        back: u8,
        head: &'a [u8],
    },
}

fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host], 4433))
}

/// A key of one side, the same in every run.
fn identity(seed: u8) -> Arc<CertifiedKey> {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).expect("keys work");
    let spki = [&SPKI_PREFIX[..], pair.public_key().as_ref()].concat();
    let pkcs8 = pair.to_pkcs8().expect("keys work");
    let private = PrivatePkcs8KeyDer::from(pkcs8.as_ref().to_vec());
    let signer = rustls::crypto::aws_lc_rs::sign::any_eddsa_type(&private).expect("keys work");
    Arc::new(CertifiedKey::new(vec![CertificateDer::from(spki)], signer))
}

fn config(seed: u8) -> Config {
    static KEYS: LazyLock<[Arc<CertifiedKey>; 2]> = LazyLock::new(|| [identity(1), identity(2)]);
    let key = Arc::clone(&KEYS[usize::from(seed & 1)]);
    let check = Arc::new(|_: &[u8]| true);
    Config::new(Security::Tls(
        TlsIdentity::new(key, check).expect("keys work"),
    ))
}

fn byte_at(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

#[derive(Default)]
struct Sealer(Vec<Vec<u8>>);

impl PacketSink for Sealer {
    fn packet(&mut self, packet: &PacketOut<'_>) {
        let mut body = packet.frames.to_vec();
        if let Some((_, range)) = packet.payload {
            body.extend((range.start..range.end).map(byte_at));
        }
        body.resize(body.len() + packet.padding, 0);
        let tag = packet.key.seal(packet.number, packet.header, &mut body);
        self.0.push([packet.header, &body, &tag].concat());
    }
}

struct Pair {
    now: Time,
    ends: [Connection; 2],
    wires: [VecDeque<(Time, Vec<u8>)>; 2],
    seen: Vec<Vec<u8>>,
    bytes: [u64; 2],
    closed: [Option<String>; 2],
}

impl Pair {
    fn new() -> Self {
        let begin = |role, seed, id, peer| {
            Connection::new(
                Time::ZERO,
                role,
                config(seed),
                ConnectionId(id),
                address(peer),
                id,
            )
            .expect("TLS begins")
        };
        let client = begin(Role::Client, 0, 1, 2);
        let role = Role::Server {
            first_destination: client.first_destination(),
            client: ConnectionId(1),
        };
        Self {
            now: Time::ZERO,
            ends: [client, begin(role, 1, 2, 1)],
            wires: Default::default(),
            seen: Vec::new(),
            bytes: [0; 2],
            closed: [None, None],
        }
    }

    fn arrive(&mut self, end: usize, mut datagram: Vec<u8>) {
        let arriving = Arriving {
            from: address(2 - end as u8),
            rx_time: self.now,
            ecn: Ecn::NotEct,
            absent: 0,
            accept_data: true,
        };
        let handled = self.ends[end].handle_datagram(self.now, &arriving, &mut datagram);
        if let Handled::Data { parts, .. } = handled {
            self.check(end, &datagram, &parts);
        }
        while let Some((_, bytes, parts)) = self.ends[end].poll_early(self.now) {
            self.check(end, &bytes, &parts);
        }
    }

    fn check(&mut self, end: usize, bytes: &[u8], parts: &[Part]) {
        for part in parts {
            for (i, at) in (part.range.start..part.range.end).enumerate() {
                assert_eq!(bytes[part.at + i], byte_at(at), "byte {at}");
            }
            self.bytes[end] += part.range.len();
        }
    }

    fn drain(&mut self) {
        for end in 0..2 {
            let mut sealer = Sealer::default();
            let mut count = 0;
            while self.ends[end]
                .poll_transmit(self.now, 8, 65_000, &mut sealer)
                .is_some()
            {
                count += 1;
                assert!(count < 10_000, "it never stops sending");
            }
            let arrival = self.now + HALF_RTT;
            self.wires[end].extend(sealer.0.into_iter().map(|d| (arrival, d)));
            while let Some(event) = self.ends[end].poll_event() {
                if let Event::Closed(error) = event {
                    self.closed[end] = Some(error.to_string());
                }
            }
        }
    }

    fn deliver<'m>(&mut self, end: usize, moves: &mut impl Iterator<Item = Move<'m>>) {
        let Some((_, mut datagram)) = self.wires[1 - end].pop_front() else {
            return;
        };
        let next = moves.next().unwrap_or(Move::Pass);
        if self.seen.len() < 64 {
            self.seen.push(datagram.clone());
        }
        match next {
            Move::Pass => {}
            Move::Lose => return,
            Move::Double => self.arrive(end, datagram.clone()),
            Move::Late(by) => {
                let at = self.now + Span::from_millis(u64::from(by));
                // Still in the order of arrival.
                let wire = &mut self.wires[1 - end];
                let place = wire.partition_point(|(other, _)| *other <= at);
                wire.insert(place, (at, datagram));
                return;
            }
            Move::Flip { at, xor } => {
                let at = usize::from(at) % datagram.len().max(1);
                datagram[at] ^= xor;
            }
            Move::Cut(len) => datagram.truncate(len.into()),
            Move::Grow(bytes) => datagram.extend_from_slice(bytes),
            Move::Forge(bytes) => self.arrive(end, bytes.to_vec()),
            Move::Replay { back, head } => {
                let back = usize::from(back) % self.seen.len();
                let mut old = self.seen[back].clone();
                for (byte, new) in old.iter_mut().zip(head) {
                    *byte = *new;
                }
                self.arrive(end, old);
            }
        }
        self.arrive(end, datagram);
    }

    fn run_until<'m>(&mut self, limit: Time, moves: &mut impl Iterator<Item = Move<'m>>) {
        loop {
            self.drain();
            let timers = self.ends.iter().filter_map(|c| Some(c.poll_timeout()?.0));
            let wires = self.wires.iter().filter_map(|w| Some(w.front()?.0));
            let Some(next) = timers.chain(wires).min().filter(|&at| at <= limit) else {
                self.now = limit;
                return;
            };
            self.now = next.max(self.now);
            for end in 0..2 {
                while self.wires[1 - end]
                    .front()
                    .is_some_and(|(at, _)| *at <= self.now)
                {
                    self.deliver(end, moves);
                }
                self.ends[end].handle_timeout(self.now);
            }
        }
    }
}

/// See the module.
pub fn pair(bytes: &[u8]) {
    let Some(moves) = structured::<Vec<Move<'_>>>(bytes) else {
        return;
    };
    let mut moves = moves.into_iter().take(MOVES);
    let mut pair = Pair::new();
    let object = pair.ends[0].allocate_object();
    pair.ends[0].send_object(object, Some(SIZE), u64::MAX);
    pair.ends[0].set_readable(object, SIZE);
    assert!(pair.ends[1].receive_object(object, Some(SIZE), None));
    pair.run_until(Time::ZERO + Span::from_secs(8), &mut moves);
    assert_eq!(pair.closed, [None, None], "whoever holds no keys ended it");
    assert_eq!(pair.bytes, [0, SIZE]);
    assert_eq!(pair.ends[0].acked_bytes(object), SIZE);
}
