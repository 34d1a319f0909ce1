//! Many connections on one socket: those that are idle are not looked at, and one that breaks is the only one that ends.

use crate::support::config;
use howdah_core::{ObjectId, Span, Time};
use howdah_net::{
    Application, Attended, Clock, ConnKey, Endpoint, EndpointConfig, Placement, bind,
};
use howdah_proto::{Connection, Event};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

const IDLE: usize = 300;
const SIZE: u64 = 20_000_000;
const OBJECT: ObjectId = ObjectId::new(0);

fn endpoint(accept: bool) -> Endpoint {
    let socket = bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
    let protocol = config();
    Endpoint::new(socket, EndpointConfig { protocol, accept }, Clock::new()).expect("a socket")
}

/// Takes whatever is sent.
struct Taker<'a> {
    stop: &'a AtomicBool,
    active: BTreeSet<ConnKey>,
    placed: u64,
    rounds: u64,
    now: Time,
    /// Its next poll panics.
    breaking: Option<ConnKey>,
    /// Connections that panicked.
    broken: Vec<(ConnKey, Option<SocketAddr>)>,
    stands_still: bool,
    stood_still_at: Option<Time>,
    /// A connection had a turn after that.
    lives_on: bool,
    closed: usize,
}

impl<'a> Taker<'a> {
    fn new(stop: &'a AtomicBool) -> Self {
        Self {
            stop,
            active: BTreeSet::new(),
            placed: 0,
            rounds: 0,
            now: Time::ZERO,
            breaking: None,
            broken: Vec::new(),
            stands_still: false,
            stood_still_at: None,
            lives_on: false,
            closed: 0,
        }
    }
}

/// What makes a [`Taker`] panic where it says.
const BREAK_NOW: &[u8] = b"break now";
const BREAK_LATER: &[u8] = b"break at the next poll";
/// It is attended to from then on, and nothing ever comes of it.
const NOTHING_COMES: &[u8] = b"nothing comes";
/// The process stands still, as when it is stopped.
const STAND_STILL: &[u8] = b"stand still";
/// Whoever is not heard for so long is given up.
const PATIENCE: Span = Span::from_secs(3);

impl Application for Taker<'_> {
    fn on_event(&mut self, _: Time, key: ConnKey, connection: &mut Connection, event: Event) {
        if matches!(event, Event::Closed(_)) {
            self.closed += 1;
        }
        if let Event::Control(bytes) = event {
            assert_ne!(bytes, BREAK_NOW, "a fault, for the test's sake");
            if bytes == STAND_STILL {
                self.stands_still = true;
                return;
            }
            self.active.insert(key);
            if bytes == BREAK_LATER {
                self.breaking = Some(key);
                return;
            }
            if bytes != NOTHING_COMES {
                assert!(connection.receive_object(OBJECT, Some(SIZE), None));
            }
        }
    }

    /// All are of one key.
    fn group(&self, _: ConnKey) -> u64 {
        0
    }

    fn read(&mut self, _: ConnKey, _: ObjectId, _: u64, buffer: &mut [u8]) {
        buffer.fill(0);
    }

    fn accepts_data(&mut self, _: ConnKey) -> bool {
        true
    }

    fn place(&mut self, _: ConnKey, _: ObjectId, _: &mut Vec<u8>, parts: &[Placement]) {
        self.placed += parts.iter().map(|part| part.range.len()).sum::<u64>();
    }

    fn take_spare(&mut self) -> Option<Vec<u8>> {
        None
    }

    fn poll(&mut self, now: Time, key: ConnKey, connection: &mut Connection) {
        // The turn that it stood still before goes on.
        self.lives_on |= self.stood_still_at.is_some_and(|at| now > at) && !connection.is_closed();
        assert_ne!(self.breaking, Some(key), "a fault, for the test's sake");
    }

    fn on_panic(&mut self, key: ConnKey, remote: Option<SocketAddr>) {
        self.active.remove(&key);
        self.broken.push((key, remote));
    }

    fn attended(&self) -> Attended<'_> {
        Attended::Only(&self.active)
    }

    fn keep_running(&mut self, now: Time) -> bool {
        self.now = now;
        self.rounds += 1;
        if std::mem::take(&mut self.stands_still) {
            std::thread::sleep((PATIENCE * 2).into());
            self.stood_still_at = Some(now);
        }
        let is_over = self.stood_still_at.is_some() && self.closed > 0;
        !is_over && !self.stop.load(Ordering::Relaxed)
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.now + Span::from_millis(50))
    }
}

/// Opens a few connections at a time, and then sends an object on the first one.
#[derive(Default)]
struct Giver {
    connected: BTreeSet<ConnKey>,
    closed: Vec<String>,
    wanted: usize,
    sending: bool,
    done: bool,
    attended: BTreeSet<ConnKey>,
}

impl Application for Giver {
    fn on_event(&mut self, _: Time, key: ConnKey, _: &mut Connection, event: Event) {
        match event {
            Event::Connected { .. } => {
                self.connected.insert(key);
            }
            Event::Closed(error) => self.closed.push(error.to_string()),
            _ => {}
        }
    }

    fn read(&mut self, _: ConnKey, _: ObjectId, _: u64, buffer: &mut [u8]) {
        buffer.fill(0);
    }

    fn accepts_data(&mut self, _: ConnKey) -> bool {
        true
    }

    fn place(&mut self, _: ConnKey, _: ObjectId, _: &mut Vec<u8>, _: &[Placement]) {}

    fn take_spare(&mut self) -> Option<Vec<u8>> {
        None
    }

    fn poll(&mut self, _: Time, key: ConnKey, connection: &mut Connection) {
        if self.sending && self.attended.contains(&key) {
            self.done |= connection.acked_bytes(OBJECT) == SIZE;
        }
    }

    fn attended(&self) -> Attended<'_> {
        Attended::Only(&self.attended)
    }

    fn keep_running(&mut self, _: Time) -> bool {
        let waits = if self.sending {
            !self.done
        } else {
            self.connected.len() < self.wanted
        };
        waits && self.closed.is_empty()
    }

    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

/// Beside `idle` connections, which say `word` before if there is one.
fn transfer(target: SocketAddr, idle: usize, word: Option<&[u8]>) -> (u64, u64) {
    let mut endpoint = endpoint(false);
    let mut giver = Giver::default();
    // Each waits for the one before: this is no flood.
    for _ in 0..=idle {
        endpoint.connect(target).expect("a connection");
        giver.wanted += 1;
        endpoint.run(&mut giver).expect("a socket");
    }
    assert_eq!(giver.closed, Vec::<String>::new());
    let busy = *giver.connected.first().expect("many");
    for &key in giver.connected.iter().skip(1) {
        if let (Some(word), Some(connection)) = (word, endpoint.connection_mut(key)) {
            connection.send_control(word);
        }
    }
    let connection = endpoint.connection_mut(busy).expect("it is open");
    assert_eq!(connection.allocate_object(), OBJECT);
    connection.send_control(b"an object comes");
    connection.send_object(OBJECT, Some(SIZE), u64::MAX);
    connection.set_readable(OBJECT, SIZE);
    giver.sending = true;
    giver.attended.insert(busy);
    let before = endpoint.visits();
    endpoint.run(&mut giver).expect("a socket");
    assert!(giver.done, "{:?}", giver.closed);
    (
        endpoint.visits() - before,
        connection_count(&mut endpoint, &giver),
    )
}

fn connection_count(endpoint: &mut Endpoint, giver: &Giver) -> u64 {
    let open = giver
        .connected
        .iter()
        .filter(|key| endpoint.connection_mut(**key).is_some());
    open.count() as u64
}

/// What a server did for one that is busy beside others: its visits, its rounds, and how long it ran.
fn beside_others(word: Option<&[u8]>) -> (u64, u64, Span) {
    let mut server = endpoint(true);
    let target = server.local_addr();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let mut taker = Taker::new(&stop);
            server.run(&mut taker).expect("a socket");
            let attended = taker.active.len();
            let ran = taker.now.since(Time::ZERO);
            (taker.placed, attended, (server.visits(), taker.rounds, ran))
        });
        let result = std::panic::catch_unwind(|| transfer(target, IDLE, word));
        stop.store(true, Ordering::Relaxed);
        let (placed, attended, counts) = running.join().expect("no panic");
        let (client_visits, open) = result.expect("a transfer");
        assert_eq!((placed, open), (SIZE, IDLE as u64 + 1));
        assert_eq!(attended, 1 + word.map_or(0, |_| IDLE));
        println!("server: {counts:?}; client: {client_visits} visits");
        assert!(client_visits < 40_000, "{client_visits} visits");
        counts
    })
}

/// Visits of a handshake.
const HANDSHAKES: u64 = 50 * (IDLE as u64 + 1);

#[test]
fn idle_connections_are_not_looked_at_while_one_is_busy() {
    let (visits, rounds, _) = beside_others(None);
    // Looking at all of them in each round would be 300 visits per round. The transfer takes
    // hundreds of rounds at least: a packet train is a millisecond at the most.
    assert!(rounds > 500, "{rounds} rounds");
    assert!(
        visits < 3 * rounds + HANDSHAKES,
        "{visits} visits in {rounds} rounds"
    );
}

/// H11, O1: uploads of one key that never come are looked at now and then, whatever the loop does for others.
#[test]
fn h11_connections_that_have_something_under_way_and_nothing_to_do_cost_others_little() {
    let (visits, rounds, ran) = beside_others(Some(NOTHING_COMES));
    let now_and_then = (ran.as_millis() / 20 + 2) * IDLE as u64;
    assert!(
        visits < 3 * rounds + HANDSHAKES + now_and_then,
        "{visits} visits in {rounds} rounds and {ran:?}"
    );
}

/// N6: the peer of a process that stood still has given it up. What it has sent until then lies in the socket, and makes nothing live
/// on: somebody else may have gone on with it.
#[test]
fn n6_who_stood_still_for_too_long_does_not_live_on_what_lies_in_the_socket() {
    let endpoint = |accept| {
        let socket = bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
        let mut protocol = config();
        protocol.idle_timeout = PATIENCE;
        Endpoint::new(socket, EndpointConfig { protocol, accept }, Clock::new()).expect("a socket")
    };
    let (mut server, mut client) = (endpoint(true), endpoint(false));
    let key = client.connect(server.local_addr()).expect("a connection");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let mut taker = Taker::new(&stop);
            server.run(&mut taker).expect("a socket");
            (taker.stood_still_at.is_some(), taker.lives_on, taker.closed)
        });
        let mut giver = Giver {
            wanted: 1,
            ..Giver::default()
        };
        client.run(&mut giver).expect("a socket");
        let connection = client.connection_mut(key).expect("it is open");
        connection.send_control(STAND_STILL);
        // It asks again and again whether anybody is there, until it gives up.
        giver.wanted = 2;
        client.run(&mut giver).expect("a socket");
        assert_eq!(giver.closed.len(), 1, "{:?}", giver.closed);
        // The other one ends when it has woken and been told of its end.
        assert_eq!(running.join().expect("no panic"), (true, false, 1));
    });
}

/// F06.
#[test]
fn f06_a_panic_in_one_connection_ends_that_one_only() {
    let mut server = endpoint(true);
    let target = server.local_addr();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let mut taker = Taker::new(&stop);
            server.run(&mut taker).expect("a socket");
            (taker.placed, taker.broken)
        });
        let result = std::panic::catch_unwind(|| {
            let mut addresses = Vec::new();
            for words in [BREAK_NOW, BREAK_LATER] {
                let mut endpoint = endpoint(false);
                let key = endpoint.connect(target).expect("a connection");
                let mut giver = Giver {
                    wanted: 1,
                    ..Giver::default()
                };
                endpoint.run(&mut giver).expect("a socket");
                let connection = endpoint.connection_mut(key).expect("it is open");
                connection.send_control(words);
                // One more that is well.
                giver.wanted = 2;
                endpoint.connect(target).expect("a connection");
                endpoint.run(&mut giver).expect("a socket");
                addresses.push(endpoint.local_addr());
                assert_eq!(giver.closed, Vec::<String>::new());
            }
            let (_, open) = transfer(target, 3, None);
            (addresses, open)
        });
        stop.store(true, Ordering::Relaxed);
        let (placed, broken) = running.join().expect("the server lives");
        let (addresses, open) = result.expect("a transfer");
        assert_eq!((placed, open), (SIZE, 4));
        let found: Vec<_> = broken.iter().filter_map(|(_, remote)| *remote).collect();
        assert_eq!(found, addresses);
    });
}
