//! A server with hostile company: of each kind there is somebody who sends a thousand packets a second, while somebody else copies
//! a file there and back. The copies are done, and nobody has more sent to him than he sent.

mod support;

use howdah::{Cancel, CopyConfig, Identity, KnownHosts, Location, Log, Transport, Trust, copy};
use howdah_core::{Span, Time};
use howdah_net::{
    Application, Attended, Clock, ConnKey, Endpoint, EndpointConfig, Placement, bind,
};
use howdah_proto::codec::{ConnectionId, KnockKey};
use howdah_proto::{Config, Connection, Event, PacketOut, PacketSink, Role, Security, TlsIdentity};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SIZE: usize = 2_000_000;
const PER_SECOND: u64 = 1_000;
/// Each kind does it at least that often.
const LEAST: u64 = 200;

fn config(key: &Identity, knock: Option<KnockKey>) -> Config {
    let tls = TlsIdentity::new(key.rustls_certified_key(), Arc::new(|_: &[u8]| true));
    let mut config = Config::new(Security::Tls(tls.expect("a key")));
    config.knock = knock;
    // A busy machine is no dead peer.
    config.idle_timeout = Span::from_secs(60);
    config
}

/// Calls `act` a thousand times a second with a number that grows, until it is stopped.
fn in_time(stop: &AtomicBool, count: &mut u64, mut act: impl FnMut(u64)) {
    let began = Instant::now();
    while !stop.load(Ordering::Relaxed) || *count < LEAST {
        if began.elapsed().as_micros() as u64 * PER_SECOND / 1_000_000 < *count {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        }
        act(*count);
        *count += 1;
    }
}

struct Packets(Vec<Vec<u8>>);

impl PacketSink for Packets {
    fn packet(&mut self, packet: &PacketOut<'_>) {
        let mut body = packet.frames.to_vec();
        body.resize(body.len() + packet.padding, 0);
        let tag = packet.key.seal(packet.number, packet.header, &mut body);
        self.0.push([packet.header, &body, &tag].concat());
    }
}

fn first_packet(target: SocketAddr, config: &Config, n: u64) -> Vec<u8> {
    let id = ConnectionId(1_000 + n);
    let client = Connection::new(Time::ZERO, Role::Client, config.clone(), id, target, n);
    let mut client = client.expect("TLS begins");
    let mut first = Packets(Vec::new());
    let _ = client.poll_transmit(Time::ZERO, 1, 1_200, &mut first);
    first.0.pop().expect("a first packet")
}

/// What a stranger sends: the bytes of the n-th packet.
type Words = Box<dyn FnMut(u64) -> Vec<u8> + Send>;

/// A stranger; how many bytes he sent and was sent.
fn stranger(target: SocketAddr, stop: &AtomicBool, mut words: Words) -> (u64, u64) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    socket.set_nonblocking(true).expect("a socket");
    let (mut sent, mut heard, mut count) = (0, 0, 0);
    let mut buffer = [0; 1_500];
    in_time(stop, &mut count, |n| {
        let packet = words(n);
        sent += socket.send_to(&packet, target).unwrap_or(0) as u64;
        while let Ok(bytes) = socket.recv(&mut buffer) {
            heard += bytes as u64;
        }
    });
    (sent, heard)
}

/// Somebody with a key, who says one thing again and again once he is in, and comes again when he is sent away.
struct Talker<'a> {
    stop: &'a AtomicBool,
    word: &'a [u8],
    connected: BTreeSet<ConnKey>,
    closed: bool,
    said: u64,
    next: Time,
}

impl Application for Talker<'_> {
    fn on_event(&mut self, _: Time, key: ConnKey, _: &mut Connection, event: Event) {
        match event {
            Event::Connected { .. } => {
                self.connected.insert(key);
            }
            Event::Closed(_) => self.closed = true,
            _ => {}
        }
    }

    fn read(&mut self, _: ConnKey, _: u64, _: u64, buffer: &mut [u8]) {
        buffer.fill(0);
    }

    fn accepts_data(&mut self, _: ConnKey) -> bool {
        true
    }

    fn place(&mut self, _: ConnKey, _: u64, _: &mut Vec<u8>, _: &[Placement]) {}

    fn take_spare(&mut self) -> Option<Vec<u8>> {
        None
    }

    fn poll(&mut self, now: Time, key: ConnKey, connection: &mut Connection) {
        if now >= self.next && self.connected.contains(&key) {
            connection.send_control(self.word);
            self.said += 1;
            self.next = now + Span::from_micros(1_000_000 / PER_SECOND);
        }
    }

    fn attended(&self) -> Attended<'_> {
        Attended::Only(&self.connected)
    }

    fn keep_running(&mut self, now: Time) -> bool {
        self.next = self.next.max(now);
        !(self.closed || self.stop.load(Ordering::Relaxed) && self.said >= LEAST)
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.next)
    }
}

/// Says `word` to the server again and again; how often it came in.
fn talk(target: SocketAddr, stop: &AtomicBool, protocol: &Config, word: &[u8]) -> u64 {
    let (mut said, mut entered) = (0, 0);
    while !stop.load(Ordering::Relaxed) || entered == 0 {
        let socket = bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
        let settings = EndpointConfig {
            protocol: protocol.clone(),
            accept: false,
        };
        let endpoint = Endpoint::new(socket, settings, Clock::new());
        let mut endpoint = endpoint.expect("a socket");
        endpoint.connect(target).expect("a connection");
        let mut talker = Talker {
            stop,
            word,
            connected: BTreeSet::new(),
            closed: false,
            said,
            next: Time::ZERO,
        };
        endpoint.run(&mut talker).expect("a socket");
        entered += u64::from(!talker.connected.is_empty());
        said = talker.said;
    }
    entered
}

#[test]
fn h4_h10_h11_a_copy_is_done_in_any_company() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a place");
    let key = || Identity::generate().expect("a key");
    let (ours, hostile, theirs, stranger_key) = (key(), key(), key(), key());
    let shown = *theirs.public_key();
    let lines = Arc::new(Mutex::new(0_u64));
    let counted = Arc::clone(&lines);
    let log = Log::new(move |_| *counted.lock().expect("no panic") += 1);
    let server = support::server(dir.path(), &[&ours, &hostile], theirs, log);
    let target = server.local_addr();
    let content: Vec<u8> = (0..SIZE).map(|n| (n * 31 % 251) as u8).collect();
    let file = dir.path().join("here");
    std::fs::write(&file, &content).expect("a file");
    let both_ways = || {
        let mut config = CopyConfig::new(ours.clone(), KnownHosts::default());
        config.trust = Trust::Exactly(shown);
        config.transport = Transport::Udp;
        config.idle_timeout = Span::from_secs(60);
        let there: Location = format!("howdah://{target}/there").parse().expect("a place");
        let here = Location::File(file.clone());
        let back = Location::File(dir.path().join("back"));
        for (from, to) in [(&here, &there), (&there, &back)] {
            let done = copy(from, to, &config, &Cancel::new(), &mut |_| {});
            assert_eq!(done.expect("it is done").bytes, SIZE as u64);
        }
        assert_eq!(
            std::fs::read(dir.path().join("back")).expect("there"),
            content
        );
    };
    let knock = KnockKey::of(shown.spki_der());
    let knowing = config(&stranger_key, Some(knock));
    let unknowing = config(&stranger_key, None);
    let one = first_packet(target, &knowing, 0);
    let cut = |at: usize| -> Words {
        let one = one.clone();
        Box::new(move |n| one[..(at + n as usize) % one.len()].to_vec())
    };
    let damaged = |from: usize, to: usize| -> Words {
        let one = one.clone();
        Box::new(move |n| {
            let mut packet = one.clone();
            let at = from + n as usize % (to - from);
            packet[at] ^= 1 << (n % 8);
            packet
        })
    };
    let strangers: Vec<(&str, Words)> = vec![
        (
            "noise",
            Box::new(|n| {
                (0..n * 7 % 1_500)
                    .map(|at| (at * n * 131 % 253) as u8)
                    .collect()
            }),
        ),
        ("nothing", Box::new(|_| Vec::new())),
        (
            "data packets of no connection",
            Box::new(|n| {
                [
                    &[0x40][..],
                    &n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(),
                    &[7; 1_100],
                ]
                .concat()
            }),
        ),
        (
            "first packets",
            Box::new(move |n| first_packet(target, &unknowing, n)),
        ),
        (
            "first packets that show the key",
            Box::new(move |n| first_packet(target, &knowing, 77_000 + n)),
        ),
        ("the same first packet", {
            let one = one.clone();
            Box::new(move |_| one.clone())
        }),
        ("first packets of any length", cut(1)),
        ("first packets of other versions", damaged(1, 5)),
        ("first packets with other ids", damaged(5, 21)),
        ("first packets that do not open", damaged(25, one.len())),
        ("cookies that are none", {
            let one = one.clone();
            Box::new(move |n| {
                let mut packet = one.clone();
                packet[0] = 0xc2;
                packet[30] = n as u8;
                packet
            })
        }),
        (
            "answers of a door",
            Box::new(|n| {
                [
                    &[0x80 + (n % 3) as u8][..],
                    b"HWD\x01",
                    &n.to_be_bytes(),
                    &n.to_be_bytes(),
                    &[9; 22],
                ]
                .concat()
            }),
        ),
    ];
    // With a key: as in docs/protocol.md, A.5, and what is none of these.
    let get_nothing: &[u8] = &[2, 1, 1, b'x', 0, 0, 0, 0];
    let words: [(&str, &[u8]); 5] = [
        ("requests of what is not there", get_nothing),
        ("empty messages", &[]),
        ("noise in messages", &[0xff; 300]),
        ("ends of what never began", &[2, 3, 0, 0xac, 2, 0]),
        ("long messages of nothing", &[0; 16_000]),
    ];
    let stop_server = Cancel::new();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| server.run(&stop_server));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            both_ways();
            for (what, words) in strangers {
                let stop = AtomicBool::new(false);
                let (sent, heard) = std::thread::scope(|scope| {
                    let company = scope.spawn(|| stranger(target, &stop, words));
                    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(both_ways));
                    stop.store(true, Ordering::Relaxed);
                    let company = company.join().expect("no panic");
                    assert!(done.is_ok(), "beside {what}");
                    company
                });
                println!("{what}: {sent} bytes sent, {heard} heard");
                assert!(heard <= sent, "{what}: {sent} bytes brought {heard}");
            }
            for (what, word) in words {
                let protocol = config(&hostile, Some(knock));
                let stop = AtomicBool::new(false);
                let before = *lines.lock().expect("no panic");
                let entered = std::thread::scope(|scope| {
                    let company = scope.spawn(|| talk(target, &stop, &protocol, word));
                    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(both_ways));
                    stop.store(true, Ordering::Relaxed);
                    let company = company.join().expect("no panic");
                    assert!(done.is_ok(), "beside {what}");
                    company
                });
                let said = *lines.lock().expect("no panic") - before;
                println!("{what}: came in {entered} times, {said} lines of the log");
                // Connected, what was wrong up to eight times, gone; and those of the copies.
                assert!(
                    said <= 12 * (entered + 3),
                    "{what}: {said} lines for {entered} sessions"
                );
            }
        }));
        stop_server.cancel();
        running.join().expect("no panic").expect("a server");
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}
