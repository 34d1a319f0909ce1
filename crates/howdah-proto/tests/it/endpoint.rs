//! Many clients and strangers at one endpoint, in virtual time: a server whose loop takes its time for each datagram, and a socket
//! that holds so many of them.

use howdah_core::{Ecn, Span, Time};
use howdah_proto::codec::limits::MIN_DATAGRAM;
use howdah_proto::codec::{COOKIE_LEN, ConnectionId, Cookie, Header, KnockKey, Level, VERSION};
use howdah_proto::endpoint::{
    ARRIVALS_MAX, Arrivals, Attended, ConnKey, Endpoint, EndpointConfig, Found, Incoming, Owner,
};
use howdah_proto::sim::sim_config;
use howdah_proto::{Arriving, Event, PacketOut, PacketSink};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};

const SERVER: SocketAddr = SocketAddr::V4(std::net::SocketAddrV4::new(
    Ipv4Addr::new(198, 51, 100, 1),
    7,
));
const HALF_RTT: Span = Span::from_millis(20);
const RTT: Span = Span::from_millis(40);
/// What the server's loop takes for a datagram, whosever it is: 200,000 a second.
const COST: Span = Span::from_micros(5);
/// Datagrams that its socket holds.
const SOCKET: usize = 2_000;
const SERVERS_KEY: [u8; 32] = [9; 32];

#[derive(Clone, Debug)]
struct Packet {
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

#[derive(Default)]
struct Wire(Vec<Vec<u8>>);

impl PacketSink for Wire {
    fn packet(&mut self, packet: &PacketOut<'_>) {
        let mut body = packet.frames.to_vec();
        let payload = packet.payload.map_or(0, |(_, range)| range.len() as usize);
        body.resize(body.len() + payload + packet.padding, 0);
        let tag = packet.key.seal(packet.number, packet.header, &mut body);
        self.0.push([packet.header, &body, &tag].concat());
    }
}

fn endpoint(accept: bool, knows: bool, seed: u8) -> Endpoint {
    let mut protocol = sim_config();
    protocol.knock = knows.then(|| KnockKey::of(&SERVERS_KEY));
    Endpoint::new(EndpointConfig { protocol, accept }, [seed; 32])
}

/// Lets those whose turn it is say what they have to say. Returns what happened, and whether others wait for another turn.
fn turn(
    at: &mut Endpoint,
    now: Time,
    here: SocketAddr,
    out: &mut Vec<Packet>,
) -> (Vec<(ConnKey, Event)>, bool) {
    let (mut due, nobody, mut events) = (Vec::new(), BTreeSet::new(), Vec::new());
    at.take_due(now, Attended::Only(&nobody), &mut due);
    let others = at.choose(&mut due, |key| key.0);
    for key in due {
        let Some(connection) = at.visit(now, key) else {
            continue;
        };
        let (mut wire, to) = (Wire::default(), connection.remote());
        while connection
            .poll_transmit(now, 16, 16 * 1_500, &mut wire)
            .is_some()
        {}
        out.extend(wire.0.into_iter().map(|bytes| Packet {
            from: here,
            to,
            bytes,
        }));
        let told: Vec<_> = std::iter::from_fn(|| connection.poll_event()).collect();
        let is_over = connection.is_closed();
        for event in told {
            if matches!(event, Event::Connected { .. }) {
                at.on_established(key, key.0);
            }
            events.push((key, event));
        }
        at.settle(key, false);
        if is_over {
            at.remove(key);
        }
    }
    (events, others)
}

/// Gives an endpoint one datagram; what it answers to nobody's.
fn take(at: &mut Endpoint, now: Time, packet: &Packet, waited: Span) -> Option<Packet> {
    let incoming = Incoming {
        from: packet.from,
        local_ip: None,
        datagram: &packet.bytes,
        waited,
        stays: false,
    };
    match at.find(now, &incoming, |_| false) {
        Found::Connection(key) => {
            let arriving = Arriving {
                from: packet.from,
                rx_time: now,
                ecn: Ecn::NotEct,
                absent: 0,
                accept_data: true,
            };
            at.handle(now, key, &arriving, &mut packet.bytes.clone());
            None
        }
        Found::Answer(bytes) => {
            assert!(bytes.len() < packet.bytes.len(), "an answer is smaller");
            Some(Packet {
                from: packet.to,
                to: packet.from,
                bytes,
            })
        }
        Found::Nobody | Found::Elsewhere(_) => None,
    }
}

/// A stranger's first packet that nobody stands behind.
fn first_packet(n: u64) -> Packet {
    let mut bytes = Vec::new();
    Header::Handshake {
        level: Level::Initial,
        version: VERSION,
        destination: ConnectionId(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        source: ConnectionId(n),
        number: 0,
        cookie: None,
    }
    .encode(&mut bytes);
    bytes.resize(MIN_DATAGRAM, 0);
    let network = (n % 200) as u8;
    Packet {
        from: ([10, network, 1, (n / 200) as u8], 1_000).into(),
        to: SERVER,
        bytes,
    }
}

/// A crowd of clients at one server.
struct World {
    now: Time,
    server: Endpoint,
    arrivals: Arrivals<(Time, Packet)>,
    socket: VecDeque<(Time, Packet)>,
    /// Datagrams that found no place in the socket, or behind it.
    dropped: u64,
    clients: BTreeMap<SocketAddr, (Endpoint, Time)>,
    on_the_way: BTreeMap<(Time, u64), Packet>,
    sent: u64,
    /// How long each client took to be connected.
    took: Vec<Span>,
    most_handshakes: usize,
    /// Of all that was sent.
    history: blake3::Hasher,
}

impl World {
    fn new(seed: u8) -> Self {
        Self {
            now: Time::ZERO + Span::from_secs(1),
            server: endpoint(true, true, seed),
            arrivals: Arrivals::default(),
            socket: VecDeque::new(),
            dropped: 0,
            clients: BTreeMap::new(),
            on_the_way: BTreeMap::new(),
            sent: 0,
            took: Vec::new(),
            most_handshakes: 0,
            history: blake3::Hasher::new(),
        }
    }

    fn send(&mut self, out: Vec<Packet>) {
        for packet in out {
            self.history.update(&packet.bytes);
            self.sent += 1;
            self.on_the_way
                .insert((self.now + HALF_RTT, self.sent), packet);
        }
    }

    fn join(&mut self, n: u8, knows: bool) {
        let address = SocketAddr::from(([192, 0, n, 2], 2_000));
        let mut client = endpoint(false, knows, n);
        client.connect(self.now, SERVER).expect("it begins");
        self.clients.insert(address, (client, self.now));
    }

    /// What has arrived by now is in the socket, or with its client.
    fn deliver(&mut self) {
        while let Some(entry) = self.on_the_way.first_entry()
            && entry.key().0 <= self.now
        {
            let ((at, _), packet) = entry.remove_entry();
            if packet.to == SERVER {
                if self.socket.len() < SOCKET {
                    self.socket.push_back((at, packet));
                } else {
                    self.dropped += 1;
                }
            } else if let Some((client, _)) = self.clients.get_mut(&packet.to) {
                take(client, self.now, &packet, Span::ZERO);
            }
        }
    }

    /// One turn of everybody's loop.
    fn turn(&mut self) {
        self.deliver();
        let mut out = Vec::new();
        self.arrivals.begin_turn();
        for _ in self.arrivals.len()..ARRIVALS_MAX {
            let Some((at, packet)) = self.socket.pop_front() else {
                break;
            };
            let owner = self.server.owner(&packet.bytes, packet.from.ip());
            let refused = self.arrivals.put(owner, 1, (at, packet));
            self.dropped += u64::from(refused.is_some());
        }
        while let Some((at, packet)) = self.arrivals.take() {
            self.now += COST;
            out.extend(take(
                &mut self.server,
                self.now,
                &packet,
                self.now.since(at),
            ));
        }
        turn(&mut self.server, self.now, SERVER, &mut out);
        self.most_handshakes = self.most_handshakes.max(self.server.handshakes());
        for (&address, (client, began)) in &mut self.clients {
            let (events, _) = turn(client, self.now, address, &mut out);
            let connected =
                |(_, event): &(ConnKey, Event)| matches!(event, Event::Connected { .. });
            if events.iter().any(connected) {
                self.took.push(self.now.since(*began));
            }
        }
        self.send(out);
        self.now += COST;
    }
}

const CLIENTS: u8 = 40;
const SECONDS: u64 = 2;

/// Clients that come one after the other, beside so many first packets a second of others.
fn crowd(seed: u8, flood_per_s: u64, knows: bool) -> World {
    let mut world = World::new(seed);
    let (begin, mut made, mut joined) = (world.now, 0, 0);
    while world.now.since(begin) < Span::from_secs(SECONDS) {
        let passed = world.now.since(begin);
        let strangers = passed.as_micros() * flood_per_s / 1_000_000;
        for n in made..strangers {
            let packet = first_packet(u64::from(seed) << 32 | n);
            world.sent += 1;
            world.on_the_way.insert((world.now, world.sent), packet);
        }
        made = strangers;
        let there = passed.as_millis() * u64::from(CLIENTS) / (SECONDS * 1_000 - 500);
        while joined < there.min(u64::from(CLIENTS)) as u8 {
            world.join(joined, knows);
            joined += 1;
        }
        world.turn();
    }
    world
}

#[test]
fn h10_clients_that_know_the_servers_key_get_in_beside_a_flood() {
    for seed in 1..4 {
        let quiet = crowd(seed, 0, true);
        assert_eq!(quiet.took.len(), usize::from(CLIENTS));
        let without = quiet.took.iter().copied().max().expect("they are");
        assert!(
            without < RTT + Span::from_millis(10),
            "one round trip: {without}"
        );
        // Of what the loop can look at this is half.
        let flooded = crowd(seed, 100_000, true);
        assert_eq!(flooded.took.len(), usize::from(CLIENTS), "seed {seed}");
        let with = flooded.took.iter().copied().max().expect("they are");
        assert!(
            with < without * 2 + Span::from_millis(10),
            "seed {seed}: {with}, not {without}"
        );
        assert!(flooded.most_handshakes <= 256);
    }
}

#[test]
fn h10_more_than_a_loop_can_look_at_shuts_nobody_out() {
    let flooded = crowd(1, 400_000, true);
    assert!(flooded.dropped > 10_000, "it was too much");
    assert!(
        flooded.took.len() > usize::from(CLIENTS) / 2,
        "{}",
        flooded.took.len()
    );
}

#[test]
fn equal_seeds_make_equal_histories_and_others_do_not() {
    let history = |seed| crowd(seed, 20_000, false).history.finalize();
    assert_eq!(history(1), history(1));
    assert_ne!(history(1), history(2));
}

#[derive(Clone, Debug)]
enum Act {
    /// A first packet from one of these addresses, with one of these cookies.
    First {
        host: u8,
        network: u8,
        id: u8,
        cookie: Option<u8>,
    },
    /// Any bytes.
    Noise {
        first: u8,
        len: u16,
        id: u8,
    },
    /// The client says what it has to say, of which one byte is changed.
    Client {
        change: Option<(u16, u8)>,
    },
    Pass {
        ms: u16,
    },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (any::<u8>(), 0..4u8, any::<u8>(), any::<Option<u8>>())
            .prop_map(|(host, network, id, cookie)| Act::First { host, network, id, cookie }),
        2 => (any::<u8>(), 0..1_500u16, any::<u8>())
            .prop_map(|(first, len, id)| Act::Noise { first, len, id }),
        2 => any::<Option<(u16, u8)>>().prop_map(|change| Act::Client { change }),
        1 => (0..5_000u16).prop_map(|ms| Act::Pass { ms }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever arrives: no more is kept than may be, nobody has an answer that is larger than the question, whoever is gone is
    /// forgotten altogether, and time goes on.
    #[test]
    fn whatever_arrives_an_endpoint_keeps_its_bounds(acts in proptest::collection::vec(act(), 1..600)) {
        const MOST: usize = 50;
        let mut server = endpoint(true, false, 3);
        server.keep_at_most(MOST);
        let here = SocketAddr::from(([192, 0, 2, 2], 5));
        let mut client = endpoint(false, false, 4);
        let mut now = Time::ZERO + Span::from_secs(1);
        client.connect(now, SERVER).expect("it begins");
        for act in acts {
            let mut out = Vec::new();
            match act {
                Act::First { host, network, id, cookie } => {
                    let mut bytes = Vec::new();
                    Header::Handshake {
                        level: Level::Initial,
                        version: VERSION,
                        destination: ConnectionId(id.into()),
                        source: ConnectionId(host.into()),
                        number: 0,
                        cookie: cookie.map(|byte| Cookie([byte; COOKIE_LEN])),
                    }
                    .encode(&mut bytes);
                    bytes.resize(MIN_DATAGRAM, id);
                    let from = SocketAddr::from(([10, 0, network, host], 1_000));
                    out.push(Packet { from, to: SERVER, bytes });
                }
                Act::Noise { first, len, id } => {
                    let mut bytes = vec![id; len.into()];
                    bytes.iter_mut().take(1).for_each(|byte| *byte = first);
                    out.push(Packet { from: here, to: SERVER, bytes });
                }
                Act::Client { change } => {
                    turn(&mut client, now, here, &mut out);
                    if let (Some((at, xor)), Some(packet)) = (change, out.first_mut()) {
                        let at = usize::from(at) % packet.bytes.len();
                        packet.bytes[at] ^= xor;
                    }
                }
                Act::Pass { ms } => now += Span::from_millis(ms.into()),
            }
            let mut answers = Vec::new();
            for packet in &out {
                let owner = server.owner(&packet.bytes, packet.from.ip());
                if let Owner::Connection(key) = owner {
                    prop_assert!(server.remote(key).is_some(), "it is there");
                }
                answers.extend(take(&mut server, now, packet, Span::ZERO));
            }
            turn(&mut server, now, SERVER, &mut answers);
            prop_assert!(server.len() <= MOST);
            prop_assert!(server.handshakes() <= server.len());
            for packet in answers.iter().filter(|packet| packet.to == here) {
                take(&mut client, now, packet, Span::ZERO);
            }
            let nobody = BTreeSet::new();
            let next = server.next_at(Attended::Only(&nobody));
            prop_assert!(server.has_touched() || next.is_none_or(|at| at > now));
        }
        // Silence ends all of them.
        for _ in 0..200 {
            now += Span::from_secs(1);
            turn(&mut server, now, SERVER, &mut Vec::new());
        }
        prop_assert!(server.is_empty(), "{} are kept for ever", server.len());
    }
}
