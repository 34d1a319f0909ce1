//! Two loops of one port, over real sockets: each has some of the connections, what comes to the wrong one is handed over, and a
//! client that changes its port goes on.
#![cfg(target_os = "linux")]

use crate::support;
use howdah_core::{ObjectId, Span, Time};
use howdah_net::{
    Application, Attended, Clock, ConnKey, Endpoint, EndpointConfig, Placement, bind, share,
};
use howdah_proto::{Connection, Event};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

const LOCAL: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);
const SIZE: u64 = 2_000_000;
const OBJECT: ObjectId = ObjectId::new(0);

/// Where all of them are.
struct Course {
    /// Clients that are not connected yet.
    missing: AtomicUsize,
    /// Of which the server has not heard what comes.
    unheard: AtomicUsize,
    /// Whose change of port the server has not seen.
    unmoved: AtomicUsize,
}

/// Takes whatever is sent, on one of the loops.
struct Taker<'a> {
    stop: &'a AtomicBool,
    course: &'a Course,
    active: BTreeSet<ConnKey>,
    /// Bytes of each connection that were placed here.
    placed: BTreeMap<ConnKey, u64>,
    came: BTreeSet<ConnKey>,
    moved: BTreeSet<ConnKey>,
    closed: &'a AtomicUsize,
    now: Time,
}

impl<'a> Taker<'a> {
    fn new(stop: &'a AtomicBool, course: &'a Course, closed: &'a AtomicUsize) -> Self {
        Self {
            stop,
            course,
            active: BTreeSet::new(),
            placed: BTreeMap::new(),
            came: BTreeSet::new(),
            moved: BTreeSet::new(),
            closed,
            now: Time::ZERO,
        }
    }
}

impl Application for Taker<'_> {
    fn on_event(&mut self, _: Time, key: ConnKey, connection: &mut Connection, event: Event) {
        match event {
            Event::Control(_) => {
                self.active.insert(key);
                self.course.unheard.fetch_sub(1, Ordering::Relaxed);
                assert!(connection.receive_object(OBJECT, Some(SIZE), None));
            }
            Event::PathChanged(_) if self.moved.insert(key) => {
                self.course.unmoved.fetch_sub(1, Ordering::Relaxed);
            }
            Event::Closed(_) => {
                self.active.remove(&key);
                self.closed.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    fn read(&mut self, _: ConnKey, _: ObjectId, _: u64, buffer: &mut [u8]) {
        buffer.fill(0);
    }

    fn accepts_data(&mut self, _: ConnKey) -> bool {
        true
    }

    fn place(&mut self, key: ConnKey, _: ObjectId, _: &mut Vec<u8>, parts: &[Placement]) {
        let bytes = parts.iter().map(|part| part.range.len()).sum::<u64>();
        *self.placed.entry(key).or_default() += bytes;
    }

    fn take_spare(&mut self) -> Option<Vec<u8>> {
        None
    }

    fn poll(&mut self, _: Time, _: ConnKey, _: &mut Connection) {}

    fn hand_over(&mut self, key: ConnKey) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(key))
    }

    fn take_in(&mut self, _: Time, key: ConnKey, guest: Box<dyn Any + Send>) {
        assert_eq!(guest.downcast_ref(), Some(&key), "what was given with it");
        assert!(self.came.insert(key));
    }

    fn attended(&self) -> Attended<'_> {
        Attended::Only(&self.active)
    }

    fn keep_running(&mut self, now: Time) -> bool {
        self.now = now;
        !self.stop.load(Ordering::Relaxed)
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.now + Span::from_millis(50))
    }
}

/// Sends one object when all others are there, too, and closes when it has arrived.
struct Giver<'a> {
    course: &'a Course,
    active: BTreeSet<ConnKey>,
    is_sending: bool,
    /// Of its object.
    readable: u64,
    is_closing: bool,
    over: Option<String>,
    now: Time,
}

impl Application for Giver<'_> {
    fn on_event(&mut self, _: Time, key: ConnKey, _: &mut Connection, event: Event) {
        match event {
            Event::Connected { .. } => {
                self.active.insert(key);
                self.course.missing.fetch_sub(1, Ordering::Relaxed);
            }
            Event::Closed(error) => self.over = Some(error.to_string()),
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

    fn poll(&mut self, now: Time, key: ConnKey, connection: &mut Connection) {
        if !self.active.contains(&key) {
            return;
        }
        if !self.is_sending && self.course.missing.load(Ordering::Relaxed) == 0 {
            self.is_sending = true;
            assert_eq!(connection.allocate_object(), OBJECT);
            connection.send_control(b"an object comes");
            connection.send_object(OBJECT, Some(SIZE), u64::MAX);
        }
        if self.is_sending && self.readable < SIZE {
            let unmoved = self.course.unmoved.load(Ordering::Relaxed);
            let unheard = self.course.unheard.load(Ordering::Relaxed);
            self.readable = match (unmoved, unheard) {
                (0, _) => SIZE,
                // A packet now and then, until it is seen from where they come.
                (_, 0) => SIZE.min(self.readable + 1_000),
                _ => self.readable,
            };
            connection.set_readable(OBJECT, self.readable);
        }
        if self.is_sending && !self.is_closing && connection.acked_bytes(OBJECT) == SIZE {
            self.is_closing = true;
            connection.close(now, howdah_proto::error::CloseCode::Done, "");
        }
    }

    fn attended(&self) -> Attended<'_> {
        Attended::Only(&self.active)
    }

    fn keep_running(&mut self, now: Time) -> bool {
        self.now = now;
        self.over.is_none()
    }

    fn next_deadline(&self) -> Option<Time> {
        (self.readable < SIZE).then(|| self.now + Span::from_millis(5))
    }
}

fn endpoint(socket: UdpSocket, accept: bool) -> Endpoint {
    let protocol = support::config();
    Endpoint::new(socket, EndpointConfig { protocol, accept }, Clock::new()).expect("a socket")
}

fn give(target: SocketAddr, course: &Course) {
    let mut endpoint = endpoint(bind(LOCAL.into()).expect("a port"), false);
    endpoint.connect(target).expect("a connection");
    let mut giver = Giver {
        course,
        active: BTreeSet::new(),
        is_sending: false,
        readable: 0,
        is_closing: false,
        over: None,
        now: Time::ZERO,
    };
    endpoint.run(&mut giver).expect("a socket");
    assert!(giver.is_closing, "{:?}", giver.over);
}

/// What became of each loop: whose bytes it placed, how many came to it, how many of its clients moved, what it handed over.
struct Told {
    placed: BTreeMap<ConnKey, u64>,
    came: usize,
    moves: usize,
    handed: u64,
}

/// Two loops, of which the first has the first socket, take what `clients` give, of whom so many change their port.
fn serve(
    first: UdpSocket,
    others: Vec<UdpSocket>,
    (clients, that_move): (usize, usize),
    give: impl Fn(SocketAddr, &Course) + Sync,
) -> [Told; 2] {
    let mut door = endpoint(first, true);
    let target = door.local_addr();
    let others = door.further(others, 2).expect("a loop");
    assert_eq!(others.len(), 1);
    let (stop, closed) = (AtomicBool::new(false), AtomicUsize::new(0));
    let course = Course {
        missing: AtomicUsize::new(clients),
        unheard: AtomicUsize::new(clients),
        unmoved: AtomicUsize::new(that_move),
    };
    let run = |mut endpoint: Endpoint| {
        let mut taker = Taker::new(&stop, &course, &closed);
        endpoint.run(&mut taker).expect("a socket");
        Told {
            placed: taker.placed,
            came: taker.came.len(),
            moves: taker.moved.len(),
            handed: endpoint.handed_over(),
        }
    };
    std::thread::scope(|scope| {
        let loops: Vec<_> = std::iter::once(door)
            .chain(others)
            .map(|endpoint| scope.spawn(|| run(endpoint)))
            .collect();
        let givers: Vec<_> = (0..clients)
            .map(|_| scope.spawn(|| give(target, &course)))
            .collect();
        let gave: Vec<_> = givers.into_iter().map(ScopedJoinHandle::join).collect();
        if gave.iter().all(Result::is_ok) {
            while closed.load(Ordering::Relaxed) < clients {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        stop.store(true, Ordering::Relaxed);
        let told = loops.into_iter().map(ScopedJoinHandle::join);
        let told: Vec<_> = told.map(|told| told.expect("no panic")).collect();
        assert!(gave.iter().all(Result::is_ok));
        told.try_into().unwrap_or_else(|_| panic!("two loops"))
    })
}

fn two_sockets() -> (UdpSocket, UdpSocket) {
    let first = bind(LOCAL.into()).expect("a port");
    let mut others = share(&first, 2).expect("another socket of it");
    let other = others.pop().expect("another socket");
    (first, other)
}

/// Each loop has `each` connections, and all of each one's bytes.
fn assert_spread(told: &[Told; 2], each: usize) {
    for told in told {
        assert_eq!(told.placed.len(), each);
        for bytes in told.placed.values() {
            assert!(*bytes >= SIZE, "{bytes}");
        }
    }
    assert_eq!((told[0].came, told[1].came), (0, each));
}

#[test]
fn connections_are_spread_over_the_loops() {
    let (first, other) = two_sockets();
    let told = serve(first, vec![other], (8, 0), give);
    assert_spread(&told, 4);
}

#[test]
fn what_comes_to_the_wrong_loop_is_handed_over() {
    // The kernel gives each loop what is meant for the other one.
    let (first, other) = two_sockets();
    let told = serve(other, vec![first], (8, 0), give);
    assert_spread(&told, 4);
    for told in told {
        assert!(told.handed > 100, "{}", told.handed);
    }
}

#[test]
fn a_loop_without_a_socket_is_handed_everything() {
    let told = serve(
        bind(LOCAL.into()).expect("a port"),
        Vec::new(),
        (4, 0),
        give,
    );
    assert_spread(&told, 2);
    assert!(told[0].handed > 100, "{}", told[0].handed);
}

/// Gives by way of somebody whose port towards the target changes, as that of a router that has forgotten it.
fn give_from_two_ports(target: SocketAddr, course: &Course) {
    let inside = UdpSocket::bind(LOCAL).expect("a port");
    let here = inside.local_addr().expect("an address");
    let ports = [(); 2].map(|()| UdpSocket::bind(LOCAL).expect("a port"));
    for socket in ports.iter().chain([&inside]) {
        let patience = Some(Duration::from_millis(20));
        socket.set_read_timeout(patience).expect("a time");
    }
    let (stop, client) = (AtomicBool::new(false), OnceLock::new());
    let goes_on = || !stop.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = vec![0; 1 << 16];
            while goes_on() {
                if let Ok((len, from)) = inside.recv_from(&mut buffer) {
                    client.get_or_init(|| from);
                    // A handshake stays where it began.
                    let is_later = course.unheard.load(Ordering::Relaxed) == 0;
                    let _ = ports[usize::from(is_later)].send_to(&buffer[..len], target);
                }
            }
        });
        for port in &ports {
            scope.spawn(|| {
                let mut buffer = vec![0; 1 << 16];
                while goes_on() {
                    if let (Ok(len), Some(client)) = (port.recv(&mut buffer), client.get()) {
                        let _ = inside.send_to(&buffer[..len], client);
                    }
                }
            });
        }
        let gave = std::panic::catch_unwind(|| give(here, course));
        stop.store(true, Ordering::Relaxed);
        assert!(gave.is_ok());
    });
}

#[test]
fn a_client_that_changes_its_port_goes_on() {
    let (first, other) = two_sockets();
    let told = serve(first, vec![other], (2, 2), give_from_two_ports);
    assert_spread(&told, 1);
    assert_eq!(told.map(|told| told.moves), [1, 1]);
    // The same where the kernel sends everything to the wrong one.
    let (first, other) = two_sockets();
    let told = serve(other, vec![first], (2, 2), give_from_two_ports);
    assert_spread(&told, 1);
    assert_eq!(told.map(|told| told.moves), [1, 1]);
}
