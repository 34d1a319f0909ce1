//! Two connections driven by hand, with packets really sealed and opened if the security is TLS,
//! and addresses that may change.

use howdah_core::{ByteRange, Ecn, ObjectId, Rate, Span, Time};
use howdah_proto::codec::{ConnectionId, Header};
use howdah_proto::{
    Arriving, Config, Connection, Event, Handled, PacketOut, PacketSink, Part, Role, Security,
    TAG_LEN, TlsIdentity,
};
use rustls::crypto::aws_lc_rs::sign::any_eddsa_type;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

/// An Ed25519 identity made of a number; lets everybody in.
pub fn identity(seed: u8) -> TlsIdentity {
    // PKCS #8 of Ed25519 (RFC 8410 section 7) before the 32 bytes of the key.
    let mut pkcs8 = vec![
        0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04,
        0x20,
    ];
    pkcs8.extend([seed; 32]);
    let key = PrivatePkcs8KeyDer::from(pkcs8);
    let key = any_eddsa_type(&key).expect("an Ed25519 key");
    let public = key.public_key().expect("its public half");
    let certificate = CertificateDer::from(public.as_ref().to_vec());
    let key = Arc::new(CertifiedKey::new(vec![certificate], key));
    TlsIdentity::new(key, Arc::new(|_| true)).expect("an identity")
}

pub fn tls_config(seed: u8) -> Config {
    Config::new(Security::Tls(identity(seed)))
}

/// What byte `offset` of every object is.
fn content(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9) >> 24) as u8
}

/// A packet on its way.
#[derive(Clone, Debug)]
pub struct Packet {
    pub to_server: bool,
    /// How many went that way before.
    pub index: u64,
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub ecn: Ecn,
    bytes: Vec<u8>,
    absent: u32,
}

impl Packet {
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64 + u64::from(self.absent)
    }

    pub fn is_data(&self) -> bool {
        self.len() > 600 && self.is_of_session()
    }

    /// Behind the handshake.
    pub fn is_of_session(&self) -> bool {
        matches!(Header::decode(&self.bytes), Ok((Header::Data { .. }, _)))
    }
}

/// Builds packets; seals them if they are to be sealed.
struct Builder {
    sealed: bool,
    built: Vec<(Vec<u8>, u32)>,
    /// Numbers of data packets, to see that none is used twice.
    numbers: BTreeSet<u64>,
}

impl PacketSink for Builder {
    fn packet(&mut self, packet: &PacketOut<'_>) {
        let is_data = packet.header[0] & 0x80 == 0;
        if is_data {
            assert!(self.numbers.insert(packet.number), "a nonce is used twice");
        }
        let mut bytes = [packet.header, packet.frames].concat();
        if !self.sealed {
            let absent = packet.wire_len() - bytes.len();
            let handshake = if is_data { 0 } else { absent };
            bytes.resize(bytes.len() + handshake, 0);
            self.built.push((bytes, (absent - handshake) as u32));
            return;
        }
        if let Some((_, range)) = packet.payload {
            bytes.extend((range.start..range.end).map(content));
        }
        bytes.resize(bytes.len() + packet.padding, 0);
        let (header, body) = bytes.split_at_mut(packet.header.len());
        let tag = packet.key.seal(packet.number, header, body);
        bytes.extend(tag);
        assert_eq!(bytes.len(), packet.wire_len());
        self.built.push((bytes, 0));
    }
}

/// One side.
pub struct HandSide {
    pub connection: Connection,
    pub events: Vec<Event>,
    /// Bytes placed.
    pub placed: u64,
    builder: Builder,
    sent: u64,
}

impl HandSide {
    fn new(connection: Connection, sealed: bool) -> Self {
        Self {
            connection,
            events: Vec::new(),
            placed: 0,
            builder: Builder {
                sealed,
                built: Vec::new(),
                numbers: BTreeSet::new(),
            },
            sent: 0,
        }
    }

    fn note_events(&mut self) {
        while let Some((_, bytes, parts)) = self.connection.poll_early(Time::ZERO) {
            self.place(&bytes, &parts);
        }
        while let Some(event) = self.connection.poll_event() {
            self.events.push(event);
        }
    }

    fn receive(&mut self, now: Time, packet: &Packet) {
        let mut bytes = packet.bytes.clone();
        let arriving = Arriving {
            from: packet.from,
            rx_time: now,
            ecn: packet.ecn,
            absent: packet.absent,
            accept_data: true,
        };
        let handled = self.connection.handle_datagram(now, &arriving, &mut bytes);
        if let Handled::Data { parts, .. } = handled {
            self.place(&bytes, &parts);
        }
        self.note_events();
    }

    fn place(&mut self, bytes: &[u8], parts: &[Part]) {
        for part in parts {
            self.placed += part.range.len();
            if self.builder.sealed {
                check_content(&bytes[part.at..], part.range);
            }
        }
    }
}

fn check_content(bytes: &[u8], range: ByteRange) {
    let got = &bytes[..range.len() as usize];
    let want = (range.start..range.end).map(content);
    assert!(got.iter().copied().eq(want), "wrong bytes at {range}");
}

/// Both sides and the packets between them.
pub struct Hand {
    pub now: Time,
    pub client: HandSide,
    pub server: HandSide,
    /// Where the client is, as the server sees it; packets to other addresses vanish.
    pub client_address: SocketAddr,
    pub server_address: SocketAddr,
    pub delay: Span,
    /// Rate of each direction; 0 is no limit. Nothing is dropped.
    pub mbit_per_sec: u64,
    /// UDP payloads that hosts send at most; what is larger is refused.
    pub most_bytes: usize,
    /// What the path makes of the ECN field of packets to the server.
    pub carry_ecn: fn(Ecn) -> Ecn,
    /// When each direction has sent what it was given.
    free_at: [Time; 2],
    wire: BTreeMap<(Time, u64), Packet>,
    sequence: u64,
}

/// What the path does to a packet: extra delays of its copies. Empty: lost.
pub type Fates = Vec<Span>;

impl Hand {
    pub fn new(client: Config, server: Config, delay: Span) -> Self {
        let client_address = "192.0.2.1:1111".parse().expect("an address");
        let server_address = "192.0.2.2:2222".parse().expect("an address");
        let sealed = matches!(client.security, Security::Tls(_));
        let (near, far) = (ConnectionId(101), ConnectionId(202));
        let client = Connection::new(Time::ZERO, Role::Client, client, near, server_address, 1)
            .expect("TLS begins");
        let role = Role::Server {
            first_destination: client.first_destination(),
            client: near,
        };
        let server =
            Connection::new(Time::ZERO, role, server, far, client_address, 2).expect("TLS begins");
        Self {
            now: Time::ZERO,
            client: HandSide::new(client, sealed),
            server: HandSide::new(server, sealed),
            client_address,
            server_address,
            delay,
            mbit_per_sec: 0,
            most_bytes: usize::MAX,
            carry_ecn: |ecn| ecn,
            free_at: [Time::ZERO; 2],
            wire: BTreeMap::new(),
            sequence: 0,
        }
    }

    /// Starts an object of `size` bytes in one direction.
    pub fn transfer(&mut self, upward: bool, size: u64) -> ObjectId {
        let (from, to) = if upward {
            (&mut self.client, &mut self.server)
        } else {
            (&mut self.server, &mut self.client)
        };
        let id = from.connection.allocate_object();
        from.connection.send_object(id, Some(size), u64::MAX);
        from.connection.set_readable(id, size);
        assert!(to.connection.receive_object(id, Some(size), None));
        id
    }

    fn flush(&mut self, to_server: bool, fates: &mut impl FnMut(Time, &Packet) -> Fates) {
        let (from, side) = if to_server {
            (self.client_address, &mut self.client)
        } else {
            (self.server_address, &mut self.server)
        };
        side.note_events();
        while let Some(info) =
            side.connection
                .poll_transmit(self.now, 64, usize::MAX, &mut side.builder)
        {
            if info.segment_size > self.most_bytes {
                side.builder.built.clear();
                side.connection.on_datagram_too_big(self.now, &info);
            }
            for (bytes, absent) in side.builder.built.drain(..) {
                let packet = Packet {
                    to_server,
                    index: side.sent,
                    from,
                    to: info.destination,
                    ecn: if to_server {
                        (self.carry_ecn)(info.ecn)
                    } else {
                        info.ecn
                    },
                    bytes,
                    absent,
                };
                side.sent += 1;
                let mut left = self.now;
                if self.mbit_per_sec > 0 {
                    let free_at = &mut self.free_at[usize::from(to_server)];
                    let rate = Rate::from_mbit_per_sec(self.mbit_per_sec);
                    left = self.now.max(*free_at) + rate.span_for(packet.len());
                    *free_at = left;
                }
                for extra in fates(self.now, &packet) {
                    self.sequence += 1;
                    let at = left + self.delay + extra;
                    self.wire.insert((at, self.sequence), packet.clone());
                }
            }
        }
        side.note_events();
    }

    /// Runs until `done`, asking `fates` about every packet. Returns false if `limit` came first.
    pub fn run(
        &mut self,
        limit: Time,
        done: impl FnMut(&Self) -> bool,
        fates: impl FnMut(Time, &Packet) -> Fates,
    ) -> bool {
        self.run_with_sources(limit, done, fates, |packet| packet.from)
    }

    /// As [`run`](Self::run), with `source` to say where a packet seems to come from.
    pub fn run_with_sources(
        &mut self,
        limit: Time,
        mut done: impl FnMut(&Self) -> bool,
        mut fates: impl FnMut(Time, &Packet) -> Fates,
        mut source: impl FnMut(&Packet) -> SocketAddr,
    ) -> bool {
        loop {
            self.flush(true, &mut fates);
            self.flush(false, &mut fates);
            if done(self) {
                return true;
            }
            let packet = self.wire.first_key_value().map(|(&(at, _), _)| at);
            let client = self.client.connection.poll_timeout().map(|t| t.0);
            let server = self.server.connection.poll_timeout().map(|t| t.0);
            let Some(next) = [packet, client, server].into_iter().flatten().min() else {
                return false;
            };
            if next > limit {
                self.now = limit;
                return false;
            }
            self.now = self.now.max(next);
            if packet == Some(next) {
                let (_, mut packet) = self.wire.pop_first().expect("it was there");
                packet.from = source(&packet);
                self.arrive(&packet);
            } else if client == Some(next) {
                self.client.connection.handle_timeout(self.now);
            } else {
                self.server.connection.handle_timeout(self.now);
            }
        }
    }

    /// A packet of whoever has the keys of the client comes to the server from that address. How many bytes it has.
    pub fn forge(&mut self, from: SocketAddr, bytes: Vec<u8>) -> u64 {
        let packet = Packet {
            to_server: true,
            index: 0,
            from,
            to: self.server_address,
            ecn: Ecn::NotEct,
            bytes,
            absent: TAG_LEN as u32,
        };
        self.server.receive(self.now, &packet);
        packet.len()
    }

    fn arrive(&mut self, packet: &Packet) {
        assert!(packet.len() >= TAG_LEN as u64);
        if packet.to_server {
            assert_eq!(packet.to, self.server_address);
            self.server.receive(self.now, packet);
        } else if packet.to == self.client_address {
            self.client.receive(self.now, packet);
        }
    }
}
