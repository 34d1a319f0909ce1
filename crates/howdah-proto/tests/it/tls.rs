//! Two connections with real TLS, driven by hand in virtual time over a path that keeps order.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use howdah_core::{Ecn, Rate, Span, Time};
use howdah_proto::codec::{ConnectionId, Header, Level, VERSION};
use howdah_proto::error::{CloseCode, ConnectionError};
use howdah_proto::{
    Arriving, Config, Connection, Event, Handled, PacketOut, PacketSink, Policy, Role, Security,
    TlsIdentity,
};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

const HALF_RTT: Span = Span::from_millis(50);
const SPKI_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0,
];

fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host], 4433))
}

/// A fresh key and its `SubjectPublicKeyInfo`.
fn key() -> (Arc<CertifiedKey>, Vec<u8>) {
    let pkcs8 =
        Ed25519KeyPair::generate_pkcs8(&aws_lc_rs::rand::SystemRandom::new()).expect("keys work");
    let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).expect("keys work");
    let spki = [&SPKI_PREFIX[..], pair.public_key().as_ref()].concat();
    let private = PrivatePkcs8KeyDer::from(pkcs8.as_ref().to_vec());
    let signer = rustls::crypto::aws_lc_rs::sign::any_eddsa_type(&private).expect("keys work");
    (
        Arc::new(CertifiedKey::new(
            vec![CertificateDer::from(spki.clone())],
            signer,
        )),
        spki,
    )
}

fn config(key: Arc<CertifiedKey>, accept: Option<Vec<u8>>) -> Config {
    let check = Arc::new(move |spki: &[u8]| accept.as_ref().is_none_or(|a| a == spki));
    Config::new(Security::Tls(
        TlsIdentity::new(key, check).expect("keys work"),
    ))
}

/// Seals packets whose payload is the low byte of each offset.
#[derive(Default)]
struct Sealer(Vec<Vec<u8>>);

impl PacketSink for Sealer {
    fn packet(&mut self, packet: &PacketOut<'_>) {
        let mut body = packet.frames.to_vec();
        if let Some((_, range)) = packet.payload {
            body.extend((range.start..range.end).map(|at| at as u8));
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
    events: [Vec<(Time, Event)>; 2],
    bytes: [u64; 2],
}

impl Pair {
    fn new(client: Config, server: Config) -> Self {
        let client = Connection::new(
            Time::ZERO,
            Role::Client,
            client,
            ConnectionId(1),
            address(2),
            7,
        )
        .expect("TLS begins");
        let role = Role::Server {
            first_destination: client.first_destination(),
            client: ConnectionId(1),
        };
        let server = Connection::new(Time::ZERO, role, server, ConnectionId(2), address(1), 8)
            .expect("TLS begins");
        Self {
            now: Time::ZERO,
            ends: [client, server],
            wires: Default::default(),
            events: Default::default(),
            bytes: [0, 0],
        }
    }

    /// Delivers to `end` what claims to come from the other one.
    fn deliver(&mut self, end: usize, datagram: &mut [u8]) {
        let arriving = Arriving {
            from: address(2 - end as u8),
            rx_time: self.now,
            ecn: Ecn::NotEct,
            absent: 0,
            accept_data: true,
        };
        let handled = self.ends[end].handle_datagram(self.now, &arriving, datagram);
        if let Handled::Data { parts, .. } = handled {
            for part in parts {
                for (i, at) in (part.range.start..part.range.end).enumerate() {
                    assert_eq!(datagram[part.at + i], at as u8, "byte {at}");
                }
                self.bytes[end] += part.range.len();
            }
        }
    }

    fn drain(&mut self) {
        for end in 0..2 {
            let mut sealer = Sealer::default();
            while self.ends[end]
                .poll_transmit(self.now, 8, 65_000, &mut sealer)
                .is_some()
            {}
            let arrival = self.now + HALF_RTT;
            self.wires[end].extend(sealer.0.into_iter().map(|d| (arrival, d)));
            while let Some(event) = self.ends[end].poll_event() {
                self.events[end].push((self.now, event));
            }
        }
    }

    fn run_until(&mut self, limit: Time) {
        loop {
            self.drain();
            let timers = self
                .ends
                .iter()
                .filter_map(|c| c.poll_timeout().map(|(at, _)| at));
            let wires = self
                .wires
                .iter()
                .filter_map(|w| w.front().map(|(at, _)| *at));
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
                    let (_, mut datagram) = self.wires[1 - end].pop_front().expect("looked at");
                    self.deliver(end, &mut datagram);
                }
                self.ends[end].handle_timeout(self.now);
            }
        }
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    fn connected_at(&self, end: usize) -> Option<Time> {
        self.events[end]
            .iter()
            .find(|(_, e)| matches!(e, Event::Connected { .. }))
            .map(|(at, _)| *at)
    }

    fn closed(&self, end: usize) -> Option<&ConnectionError> {
        self.events[end].iter().find_map(|(_, e)| match e {
            Event::Closed(error) => Some(error),
            _ => None,
        })
    }
}

fn friends() -> Pair {
    let ((client, client_spki), (server, server_spki)) = (key(), key());
    Pair::new(
        config(client, Some(server_spki)),
        config(server, Some(client_spki)),
    )
}

#[test]
fn the_handshake_takes_one_round_trip_and_tells_the_keys() {
    let mut pair = friends();
    pair.run_until(Pair::at(400));
    assert_eq!(pair.connected_at(0), Some(Pair::at(100)));
    assert_eq!(pair.connected_at(1), Some(Pair::at(150)));
    for end in 0..2 {
        let Some((_, Event::Connected { peer_key })) = pair.events[end].first() else {
            panic!("{:?}", pair.events[end]);
        };
        assert!(peer_key.starts_with(&SPKI_PREFIX));
    }
}

#[test]
fn sealed_bytes_arrive_and_keys_are_updated_on_the_way() {
    let ((client, _), (server, _)) = (key(), key());
    let mut settings = config(client, None);
    settings.key_update_after = 64;
    // Slow enough for more than one.
    settings.policy = Policy::Fixed(Rate::from_mbit_per_sec(8));
    let mut pair = Pair::new(settings, config(server, None));
    let object = pair.ends[0].allocate_object();
    pair.ends[0].send_object(object, Some(3_000_000), u64::MAX);
    pair.ends[0].set_readable(object, 3_000_000);
    assert!(pair.ends[1].receive_object(object, Some(3_000_000), None));
    pair.run_until(Pair::at(5_000));
    assert_eq!(pair.bytes, [0, 3_000_000]);
    assert!(
        pair.events[1]
            .iter()
            .any(|(_, e)| *e == Event::ObjectComplete(object))
    );
    let updates = pair.ends[0].stats().key_updates;
    assert!(updates >= 2, "{updates} key updates");
    assert_eq!(pair.ends[1].stats().key_updates, updates);
    assert_eq!(pair.ends[1].stats().datagrams_refused, 0);
}

#[test]
fn a_key_that_is_not_listed_is_told_so() {
    let ((client, _), (server, _), (_, other)) = (key(), key(), key());
    let mut pair = Pair::new(config(client, None), config(server, Some(other)));
    pair.run_until(Pair::at(3_000));
    assert_eq!(pair.connected_at(1), None);
    assert!(matches!(
        pair.closed(0),
        Some(ConnectionError::ClosedByPeer {
            code: CloseCode::Unauthorized,
            ..
        })
    ));
    assert_eq!(pair.closed(1), Some(&ConnectionError::PeerKeyRefused));
}

/// An Initial packet that anybody can seal who has seen the first one on the wire.
fn forged_initial(first_destination: ConnectionId, body: &[u8], from_client: bool) -> Vec<u8> {
    let suite = rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
    let quic = suite
        .tls13()
        .and_then(rustls::Tls13CipherSuite::quic_suite)
        .expect("keys work");
    let side = if from_client {
        rustls::Side::Client
    } else {
        rustls::Side::Server
    };
    let keys = quic.keys(
        &first_destination.0.to_be_bytes(),
        side,
        rustls::quic::Version::V1,
    );
    let mut header = Vec::new();
    Header::Handshake {
        level: Level::Initial,
        version: VERSION,
        destination: first_destination,
        source: ConnectionId(0xbad),
        number: 77,
        cookie: None,
    }
    .encode(&mut header);
    let mut body = body.to_vec();
    let tag = keys
        .local
        .packet
        .encrypt_in_place(77, &header, &mut body)
        .expect("keys work");
    [&header[..], &body, tag.as_ref()].concat()
}

#[test]
fn forged_initial_packets_do_nothing_to_a_connection() {
    let close = [0x0a, 0, 1, 0];
    let misplaced = [0x0b];
    let mut pair = friends();
    pair.run_until(Pair::at(400));
    for body in [&close[..], &misplaced, &[0x01]] {
        for (end, from_client) in [(0, false), (1, true)] {
            let first = pair.ends[0].first_destination();
            pair.deliver(end, &mut forged_initial(first, body, from_client));
        }
    }
    let object = pair.ends[0].allocate_object();
    pair.ends[0].send_object(object, Some(100_000), u64::MAX);
    pair.ends[0].set_readable(object, 100_000);
    assert!(pair.ends[1].receive_object(object, Some(100_000), None));
    pair.run_until(Pair::at(3_000));
    assert_eq!(pair.bytes[1], 100_000);
    assert!(pair.ends.iter().all(Connection::is_established));
}
