//! What a peer can make the other side keep: the table of docs/protocol.md, section 18.1. Each row is tried by a peer that
//! wants more, and what lies in memory then is counted: by an allocator of its own, so this is a program apart.

#[path = "it/support/mod.rs"]
mod support;

use allocation_counter::measure;
use howdah_core::{ObjectId, Span, Time};
use howdah_proto::codec::{ConnectionId, Frame, FrameWriter, Header, Level, VERSION, limits};
use howdah_proto::{AeadKey, Arriving, Config, Connection, PacketOut, PacketSink, Role, Security};
use std::net::SocketAddr;
use support::hand::tls_config;

const CLIENT: ConnectionId = ConnectionId(101);
const SERVER: ConnectionId = ConnectionId(202);
/// Of a peer whose key is not proved.
const BEFORE_THE_KEY: i64 = 64 << 10;
/// Of a connection that has no data under way.
const OF_A_CONNECTION: i64 = 32 << 20;

fn addresses() -> (SocketAddr, SocketAddr) {
    let address = |text: &str| text.parse().expect("an address");
    (address("192.0.2.1:1111"), address("192.0.2.2:2222"))
}

/// Seals, and keeps the keys for packets that an honest client would not send.
#[derive(Default)]
struct Sealed {
    packets: Vec<Vec<u8>>,
    initial: Option<AeadKey>,
    handshake: Option<AeadKey>,
    data: Option<AeadKey>,
}

impl PacketSink for Sealed {
    fn packet(&mut self, packet: &PacketOut<'_>) {
        let key = match Header::decode(packet.header).expect("a header").0 {
            Header::Handshake {
                level: Level::Initial,
                ..
            } => &mut self.initial,
            Header::Handshake { .. } => &mut self.handshake,
            Header::Data { .. } => &mut self.data,
        };
        *key = Some(packet.key.clone());
        let mut bytes = [packet.header, packet.frames].concat();
        bytes.resize(bytes.len() + packet.padding, 0);
        let (header, body) = bytes.split_at_mut(packet.header.len());
        let tag = packet.key.seal(packet.number, header, body);
        bytes.extend(tag);
        self.packets.push(bytes);
    }
}

/// A server whose memory is counted, and a client.
struct Pair {
    now: Time,
    client: Connection,
    server: Option<Connection>,
    /// Bytes that the server holds.
    held: i64,
    most: i64,
    from_client: Sealed,
    from_server: Sealed,
    first: ConnectionId,
    number: u32,
}

impl Pair {
    fn new(client: Config, server: Config) -> Self {
        let (here, there) = addresses();
        let client = Connection::new(Time::ZERO, Role::Client, client, CLIENT, there, 1);
        let client = client.expect("TLS begins");
        let first = client.first_destination();
        let role = Role::Server {
            first_destination: first,
            client: CLIENT,
        };
        let mut pair = Self {
            now: Time::ZERO,
            client,
            server: None,
            held: 0,
            most: 0,
            from_client: Sealed::default(),
            from_server: Sealed::default(),
            first,
            number: 1_000,
        };
        let mut made = None;
        pair.count(|_| made = Connection::new(Time::ZERO, role, server, SERVER, here, 2).ok());
        pair.server = made;
        // The table of connections holds it.
        pair.held += size_of::<Connection>() as i64;
        pair
    }

    fn count(&mut self, work: impl FnOnce(Option<&mut Connection>)) {
        let server = self.server.as_mut();
        let info = measure(|| work(server));
        self.most = self.most.max(self.held + info.bytes_max as i64);
        self.held += info.bytes_current;
    }

    fn tell_server(&mut self, mut packet: Vec<u8>) {
        let now = self.now;
        let arriving = Arriving {
            from: addresses().0,
            rx_time: now,
            ecn: howdah_core::Ecn::NotEct,
            absent: 0,
            accept_data: true,
        };
        self.count(|server| {
            let server = server.expect("a server");
            let _ = server.handle_datagram(now, &arriving, &mut packet);
            while server.poll_event().is_some() {}
        });
    }

    /// What the client says, and the server's answers if it is to hear them.
    fn flight(&mut self, heard: bool) {
        self.now += Span::from_millis(5);
        let now = self.now;
        while self.client.poll_event().is_some() {}
        while self
            .client
            .poll_transmit(now, 64, usize::MAX, &mut self.from_client)
            .is_some()
        {}
        for packet in std::mem::take(&mut self.from_client.packets) {
            self.tell_server(packet);
        }
        let mut out = std::mem::take(&mut self.from_server);
        // Its packets are the network's.
        out.packets.reserve(64);
        let server = self.server.as_mut().expect("a server");
        while server
            .poll_transmit(now, 64, usize::MAX, &mut out)
            .is_some()
        {}
        let answers = std::mem::take(&mut out.packets);
        self.from_server = out;
        for mut packet in answers {
            let arriving = Arriving {
                from: addresses().1,
                rx_time: now,
                ecn: howdah_core::Ecn::NotEct,
                absent: 0,
                accept_data: true,
            };
            if heard {
                let _ = self.client.handle_datagram(now, &arriving, &mut packet);
            }
        }
    }

    /// Until both know each other.
    fn establish(&mut self) {
        for _ in 0..20 {
            self.flight(true);
        }
        assert!(self.client.is_established());
        let server = self.server.as_ref().expect("a server");
        assert!(server.is_established());
    }

    /// A packet that the client has not made.
    fn forge(&mut self, level: Option<Level>, frames: &[Frame<'_>]) {
        let number = self.number;
        self.number += 1;
        self.forge_as((number, level), frames, &[]);
    }

    /// The same with bytes of an object behind.
    fn forge_as(
        &mut self,
        (number, level): (u32, Option<Level>),
        frames: &[Frame<'_>],
        data: &[u8],
    ) {
        let (header, key) = if let Some(level) = level {
            let (destination, key) = match level {
                Level::Initial => (self.first, &self.from_client.initial),
                Level::Handshake => (SERVER, &self.from_client.handshake),
            };
            let header = Header::Handshake {
                level,
                version: VERSION,
                destination,
                source: CLIENT,
                number,
                cookie: None,
            };
            (header, key)
        } else {
            let header = Header::Data {
                phase: false,
                destination: SERVER,
                number_low: number,
            };
            (header, &self.from_client.data)
        };
        let key = key.clone().expect("the client has spoken");
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        let start = bytes.len();
        for frame in frames {
            FrameWriter::new(&mut bytes).frame(frame);
        }
        bytes.extend(data);
        let (header, body) = bytes.split_at_mut(start);
        let tag = key.seal(u64::from(number), header, body);
        bytes.extend(tag);
        self.tell_server(bytes);
    }

    /// What the server's connection says of that.
    fn kept(&self) -> i64 {
        self.server.as_ref().expect("a server").kept_bytes() as i64
    }

    /// Whether that is so, within what accounts need.
    fn check_kept(&self, at_rest: i64) {
        let (kept, held) = (self.kept(), self.held - at_rest);
        assert!(kept <= 2 * held && held <= 2 * kept, "{kept} of {held}");
    }

    /// As many bytes of the handshake as there may be at that level, each second one in a piece of its own, the first
    /// that is missing last.
    fn scatter(&mut self, level: Level) {
        let last = limits::MAX_CRYPTO_BYTES - 1;
        let last = Frame::Crypto {
            offset: last,
            bytes: b"x",
        };
        self.forge(Some(level), &[last]);
        let ends: Vec<u64> = (2_001..limits::MAX_CRYPTO_BYTES).step_by(2).collect();
        for ends in ends.chunks(64) {
            let frames: Vec<_> = ends
                .iter()
                .map(|&offset| Frame::Crypto {
                    offset,
                    bytes: b"x",
                })
                .collect();
            self.forge(Some(level), &frames);
        }
        for offset in (2_000..limits::MAX_CRYPTO_BYTES - 1_000).step_by(1_000) {
            let bytes = &[7; 1_000];
            self.forge(Some(level), &[Frame::Crypto { offset, bytes }]);
        }
    }
}

#[test]
fn a_peer_whose_key_is_not_proved_takes_64_kib() {
    // Does what TLS makes once for all.
    Pair::new(tls_config(1), tls_config(2)).establish();
    let mut pair = Pair::new(tls_config(1), tls_config(2));
    println!("a connection: {} bytes", pair.held);
    // The client hears the answer, so that it has the keys of the next level, and its last words are kept from the server.
    pair.flight(true);
    println!("after the first flight: {} bytes", pair.held);
    let now = pair.now;
    while pair
        .client
        .poll_transmit(now, 64, usize::MAX, &mut pair.from_client)
        .is_some()
    {}
    pair.from_client.packets.clear();
    for level in [Level::Initial, Level::Handshake] {
        pair.scatter(level);
        println!(
            "{level:?} scattered: {} bytes, {} at the most",
            pair.held, pair.most
        );
    }
    let server = pair.server.as_ref().expect("a server");
    assert!(!server.is_established());
    assert!(!server.is_closed(), "it would hold nothing");
    assert!(pair.most <= BEFORE_THE_KEY, "{} bytes", pair.most);
}

#[test]
fn a_connection_without_data_takes_32_mib() {
    Pair::new(tls_config(1), tls_config(2)).establish();
    let mut pair = Pair::new(tls_config(1), tls_config(2));
    pair.establish();
    println!("established: {} bytes", pair.held);
    let at_rest = pair.held;
    assert!(pair.kept() < 4_096, "{}", pair.kept());
    // Control bytes as scattered as can be, with the first one missing: 131,072 pieces.
    let base = 1_000;
    let offsets: Vec<u64> = (base..limits::MAX_CONTROL_AHEAD - 1).step_by(2).collect();
    for offsets in offsets.chunks(150) {
        let frames: Vec<_> = offsets
            .iter()
            .map(|&offset| Frame::Control {
                offset,
                bytes: b"x",
            })
            .collect();
        pair.forge(None, &frames);
    }
    println!("control scattered: {} bytes", pair.held);
    pair.check_kept(at_rest);
    // Bytes of objects that nobody has announced.
    for object in 0..800 {
        let data = Frame::Data {
            object: ObjectId::new(2 * object),
            offset: 0,
        };
        let number = pair.number;
        pair.number += 1;
        pair.forge_as((number, None), &[data], &[7; 1_100]);
    }
    println!("and data: {} bytes", pair.held);
    pair.check_kept(at_rest);
    // Packet numbers as far ahead and as scattered as they may be, and none of its reports confirmed.
    let first = pair.number;
    let now = pair.now;
    for step in 0..20_000u32 {
        pair.now = now + Span::from_micros(500) * u64::from(step);
        let ahead = (limits::MAX_COVERAGE_SPAN as u32 - 10_000) / 20_000 * step;
        pair.forge_as((first + ahead, None), &[Frame::Ping], &[]);
        if step % 64 == 0 {
            let now = pair.now;
            let server = pair.server.as_mut().expect("a server");
            server.handle_timeout(now);
            let mut out = Sealed::default();
            while server
                .poll_transmit(now, 64, usize::MAX, &mut out)
                .is_some()
            {
                out.packets.clear();
            }
        }
    }
    println!(
        "numbers scattered: {} bytes, {} at the most",
        pair.held, pair.most
    );
    let server = pair.server.as_ref().expect("a server");
    assert!(!server.is_closed(), "it would hold nothing");
    assert!(pair.most <= OF_A_CONNECTION, "{} bytes", pair.most);
    pair.check_kept(at_rest);
}

/// Without secrets: what a peer says has the same bounds.
#[test]
fn the_bounds_are_those_of_the_document() {
    let text = include_str!("../../../docs/protocol.md");
    for row in [
        "| a stranger whose address is not proved, while there is load | nothing |",
        "| a peer whose key is not proved | 64 KiB |",
        "| a connection without open data | 32 MiB |",
    ] {
        assert!(text.contains(row), "{row}");
    }
    assert_eq!((BEFORE_THE_KEY, OF_A_CONNECTION), (64 << 10, 32 << 20));
    assert!(matches!(tls_config(1).security, Security::Tls(_)));
}
