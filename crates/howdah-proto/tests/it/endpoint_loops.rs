//! Several endpoints of one port, in virtual time: whichever loop a datagram comes to, it ends with the one that has its connection,
//! and nothing is kept of who is gone.

use howdah_core::{Ecn, Span, Time};
use howdah_proto::codec::{ConnectionId, Header};
use howdah_proto::endpoint::{
    Attended, ConnKey, Endpoint, EndpointConfig, Found, Incoming, LOOPS_MAX, Moved, Order, Owner,
};
use howdah_proto::error::CloseCode;
use howdah_proto::sim::sim_config;
use howdah_proto::{Arriving, Event, PacketOut, PacketSink};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

const LOOPS: usize = 3;
const CLIENTS: u8 = 12;
const STEP: Span = Span::from_millis(1);

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

/// To whom, or from whom, and what.
type Datagram = (SocketAddr, Vec<u8>);

enum Letter {
    Order(Order),
    Moved(Box<Moved>),
}

fn endpoint(accept: bool, seed: u8) -> Endpoint {
    let mut protocol = sim_config();
    protocol.idle_timeout = Span::from_secs(5);
    Endpoint::new(EndpointConfig { protocol, accept }, [seed; 32])
}

fn address(client: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, client, 2], 2_000))
}

/// What it sends, and what happens to it.
fn turn(at: &mut Endpoint, now: Time) -> (Vec<Datagram>, Vec<(ConnKey, Event)>) {
    let (mut due, nobody) = (Vec::new(), BTreeSet::new());
    let (mut out, mut events) = (Vec::new(), Vec::new());
    at.take_due(now, Attended::Only(&nobody), &mut due);
    for key in due {
        let Some(connection) = at.visit(now, key) else {
            continue;
        };
        let (mut wire, to) = (Wire::default(), connection.remote());
        while connection
            .poll_transmit(now, 16, 16 * 1_500, &mut wire)
            .is_some()
        {}
        out.extend(wire.0.into_iter().map(|bytes| (to, bytes)));
        events.extend(std::iter::from_fn(|| connection.poll_event()).map(|event| (key, event)));
        let is_over = connection.is_closed();
        at.settle(key, false);
        if is_over {
            at.remove(key);
        }
    }
    (out, events)
}

struct World {
    now: Time,
    rng: ChaCha8Rng,
    loops: Vec<Endpoint>,
    mail: Vec<Vec<Letter>>,
    /// Datagrams with each loop: from whom.
    lying: Vec<VecDeque<Datagram>>,
    clients: BTreeMap<SocketAddr, Endpoint>,
    /// What each client said, and the loop that heard it.
    heard: BTreeMap<Vec<u8>, usize>,
    /// Ids that the server has had.
    ids: BTreeMap<ConnectionId, ConnKey>,
    connected: usize,
    most_hops: usize,
}

impl World {
    fn new(seed: u8) -> Self {
        let mut loops: Vec<_> = (0..LOOPS).map(|n| endpoint(true, seed + n as u8)).collect();
        for (index, endpoint) in loops.iter_mut().enumerate() {
            endpoint.among(index, LOOPS);
        }
        Self {
            now: Time::ZERO + Span::from_secs(1),
            rng: ChaCha8Rng::seed_from_u64(seed.into()),
            loops,
            mail: (0..LOOPS).map(|_| Vec::new()).collect(),
            lying: vec![VecDeque::new(); LOOPS],
            clients: BTreeMap::new(),
            heard: BTreeMap::new(),
            ids: BTreeMap::new(),
            connected: 0,
            most_hops: 0,
        }
    }

    fn join(&mut self, client: u8) {
        let mut endpoint = endpoint(false, 100 + client);
        let target = SocketAddr::from(([198, 51, 100, 1], 7));
        let key = endpoint.connect(self.now, target).expect("it begins");
        let connection = endpoint.connection_mut(key).expect("it is there");
        connection.send_control(&[client]);
        self.clients.insert(address(client), endpoint);
    }

    fn post(&mut self, from: usize) {
        for (to, order) in self.loops[from].take_orders() {
            assert_ne!(to, from);
            self.mail[to].push(Letter::Order(order));
        }
    }

    /// One turn of a loop: letters, what lies there, and what it has to say.
    fn loop_turn(&mut self, at: usize) {
        for letter in std::mem::take(&mut self.mail[at]) {
            match letter {
                Letter::Order(order) => self.loops[at].obey(self.now, order),
                Letter::Moved(moved) => self.loops[at].take_in(*moved),
            }
        }
        for (from, bytes) in std::mem::take(&mut self.lying[at]) {
            let incoming = Incoming {
                from,
                local_ip: None,
                datagram: &bytes,
                waited: Span::ZERO,
                stays: false,
            };
            let owner = self.loops[at].owner(&bytes, from.ip());
            match self.loops[at].find(self.now, &incoming, |_| false) {
                Found::Elsewhere(to) => {
                    assert_eq!(owner, Owner::Elsewhere(to));
                    assert_ne!(to, at);
                    self.lying[to].push_back((from, bytes));
                    self.most_hops += 1;
                }
                Found::Connection(key) => {
                    let arriving = Arriving {
                        from,
                        rx_time: self.now,
                        ecn: Ecn::NotEct,
                        absent: 0,
                        accept_data: true,
                    };
                    self.loops[at].handle(self.now, key, &arriving, &mut bytes.clone());
                    if let Some(connection) = self.loops[at].connection_mut(key) {
                        self.ids.insert(connection.local_id(), key);
                    }
                }
                Found::Answer(_) | Found::Nobody => {}
            }
        }
        let (out, events) = turn(&mut self.loops[at], self.now);
        self.post(at);
        for (to, bytes) in out {
            if let Some(client) = self.clients.get_mut(&to) {
                arrive(client, self.now, &bytes);
            }
        }
        for (key, event) in events {
            match event {
                Event::Connected { .. } => {
                    assert_eq!(at, 0, "handshakes are at the door");
                    self.connected += 1;
                    self.loops[0].on_established(key, key.0);
                    if let Some((to, moved)) = self.loops[0].hand_over(key) {
                        assert_ne!(to, 0);
                        self.mail[to].push(Letter::Moved(Box::new(moved)));
                    }
                }
                Event::Control(bytes) => {
                    self.heard.insert(bytes, at);
                }
                _ => {}
            }
        }
    }

    fn step(&mut self) {
        // Any loop may be late.
        for at in 0..LOOPS {
            if self.rng.next_u64().is_multiple_of(2) {
                self.loop_turn(at);
            }
        }
        for (&from, client) in &mut self.clients {
            for (_, bytes) in turn(client, self.now).0 {
                let to = (self.rng.next_u64() % LOOPS as u64) as usize;
                self.lying[to].push_back((from, bytes));
            }
        }
        self.now += STEP;
    }

    /// Whether a loop knows a data packet with that id.
    fn is_known(&self, at: usize, id: ConnectionId) -> bool {
        let mut datagram = Vec::new();
        let header = Header::Data {
            phase: false,
            destination: id,
            number_low: 1,
        };
        header.encode(&mut datagram);
        datagram.resize(100, 0);
        let from = IpAddr::from([192, 0, 2, 1]);
        match self.loops[at].owner(&datagram, from) {
            Owner::Connection(_) => true,
            // Who has not heard of it believes the id.
            Owner::Elsewhere(to) => at == 0 || to as u64 != id.0 % LOOPS_MAX as u64,
            Owner::Stranger(_) => false,
        }
    }
}

fn arrive(client: &mut Endpoint, now: Time, bytes: &[u8]) {
    let from = SocketAddr::from(([198, 51, 100, 1], 7));
    let incoming = Incoming {
        from,
        local_ip: None,
        datagram: bytes,
        waited: Span::ZERO,
        stays: false,
    };
    if let Found::Connection(key) = client.find(now, &incoming, |_| false) {
        let arriving = Arriving {
            from,
            rx_time: now,
            ecn: Ecn::NotEct,
            absent: 0,
            accept_data: true,
        };
        client.handle(now, key, &arriving, &mut bytes.to_vec());
    }
}

#[test]
fn whichever_loop_a_datagram_comes_to_it_finds_its_connection() {
    for seed in 0..20 {
        let mut world = World::new(seed);
        for client in 0..CLIENTS {
            world.join(client);
        }
        for _ in 0..1_500 {
            world.step();
        }
        assert_eq!(world.connected, usize::from(CLIENTS), "seed {seed}");
        assert_eq!(world.heard.len(), usize::from(CLIENTS), "seed {seed}");
        for at in 0..LOOPS {
            assert_eq!(world.loops[at].len(), usize::from(CLIENTS) / LOOPS);
            assert_eq!(world.loops[at].handshakes(), 0);
        }
        assert!(world.most_hops > 100);
        // All go, half of them without a word.
        let now = world.now;
        for (n, client) in world.clients.values_mut().enumerate() {
            let key = ConnKey(1);
            if let Some(connection) = client.connection_mut(key).filter(|_| n % 2 == 0) {
                connection.close(now, CloseCode::Done, "");
                client.touch(key);
            }
        }
        for _ in 0..1_000 {
            world.step();
        }
        world.clients.clear();
        for _ in 0..15_000 {
            world.step();
        }
        for at in 0..LOOPS {
            assert!(world.loops[at].is_empty(), "seed {seed}, loop {at}");
            for &id in world.ids.keys() {
                assert!(!world.is_known(at, id), "seed {seed}, loop {at}");
            }
        }
    }
}

/// Whose handshake is never done is forgotten by the loop that it would have come to, too.
#[test]
fn a_handshake_that_comes_to_nothing_leaves_nothing() {
    let mut world = World::new(7);
    for client in 0..CLIENTS {
        world.join(client);
    }
    while world.loops[0].handshakes() < usize::from(CLIENTS) {
        world.step();
        // They hear nothing.
        for client in 0..CLIENTS {
            if world.loops[0].handshakes() == usize::from(CLIENTS) {
                world.clients.remove(&address(client));
            }
        }
        if world.connected > 0 {
            break;
        }
    }
    world.clients.clear();
    for _ in 0..15_000 {
        world.step();
    }
    assert!(!world.ids.is_empty());
    for at in 0..LOOPS {
        assert!(world.loops[at].is_empty());
        for &id in world.ids.keys() {
            assert!(!world.is_known(at, id), "loop {at}");
        }
    }
}

#[test]
fn one_that_is_alone_does_as_if_there_were_no_loops() {
    let mut one = endpoint(true, 3);
    one.among(0, 1);
    assert_eq!(one.goes_to(ConnKey(1)), None);
    assert!(one.take_orders().is_empty() && one.hand_over(ConnKey(1)).is_none());
}
