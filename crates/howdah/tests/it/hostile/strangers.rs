//! Who has no key: what he sends.

use super::{Stage, fresh_id};
use howdah_core::Time;
use howdah_proto::{Config, Connection, PacketOut, PacketSink, Role};
use std::collections::VecDeque;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// TCP connections that are left open.
const OPEN: usize = 64;

/// What a stranger sends: the bytes of the n-th packet.
pub(crate) type Words = Box<dyn FnMut(u64) -> Vec<u8> + Send>;

struct Packets(Vec<Vec<u8>>);

impl PacketSink for Packets {
    fn packet(&mut self, packet: &PacketOut<'_>) {
        let mut body = packet.frames.to_vec();
        body.resize(body.len() + packet.padding, 0);
        let tag = packet.key.seal(packet.number, packet.header, &mut body);
        self.0.push([packet.header, &body, &tag].concat());
    }
}

fn first_packet(target: SocketAddr, config: &Config) -> Vec<u8> {
    let id = fresh_id();
    let client = Connection::new(Time::ZERO, Role::Client, config.clone(), id, target, id.0);
    let mut client = client.expect("TLS begins");
    let mut first = Packets(Vec::new());
    let _ = client.poll_transmit(Time::ZERO, 1, 1_200, &mut first);
    first.0.pop().expect("a first packet")
}

/// Says those words to the server; how many bytes he sent and was sent.
pub(crate) fn say(target: SocketAddr, stage: &Stage, mut words: Words) -> (u64, u64) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    socket.set_nonblocking(true).expect("a socket");
    let (mut sent, mut heard) = (0, 0);
    let mut buffer = [0; 1_500];
    stage.in_time(|n| {
        let packet = words(n);
        sent += socket.send_to(&packet, target).unwrap_or(0) as u64;
        while let Ok(bytes) = socket.recv(&mut buffer) {
            heard += bytes as u64;
        }
    });
    (sent, heard)
}

/// Opens TCP connections to the server one after the other, says those words on each, and leaves it open for a while. How many
/// came about.
pub(crate) fn call(target: SocketAddr, stage: &Stage, mut words: Words) -> u64 {
    let (mut open, mut count) = (VecDeque::new(), 0);
    stage.in_time(|n| {
        // Where the queue of those who wait is full, the next one comes.
        if let Ok(mut stream) = TcpStream::connect_timeout(&target, Duration::from_millis(100)) {
            count += 1;
            // Who has been turned away hears it here.
            let _ = stream.write_all(&words(n));
            open.push_back(stream);
        }
        if open.len() > OPEN {
            open.pop_front();
        }
    });
    count
}

/// What is said over TCP; what begins a tunnel is in docs/protocol.md.
pub(crate) fn callers(target: SocketAddr, knowing: Config) -> Vec<(&'static str, Words)> {
    const PREFACE: &[u8] = b"howdah/1";
    let framed = |datagram: &[u8]| [&(datagram.len() as u16).to_be_bytes()[..], datagram].concat();
    vec![
        ("TCP connections that say nothing", Box::new(|_| Vec::new())),
        ("noise over TCP", Box::new(|n| vec![n as u8; 1_000])),
        (
            "tunnels full of noise",
            Box::new(move |n| {
                let noise = framed(&[n as u8; 1_100]).repeat(10);
                [PREFACE, &noise].concat()
            }),
        ),
        (
            "tunnels with first packets",
            Box::new(move |_| [PREFACE, &framed(&first_packet(target, &knowing))].concat()),
        ),
    ]
}

/// All kinds that come over UDP; `knowing` is how one begins who knows the server's public key, `unknowing` how the others do.
pub(crate) fn kinds(
    target: SocketAddr,
    knowing: Config,
    unknowing: Config,
) -> Vec<(&'static str, Words)> {
    let one = first_packet(target, &knowing);
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
    let len = one.len();
    let (same, cookie) = (one.clone(), one.clone());
    vec![
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
            Box::new(move |_| first_packet(target, &unknowing)),
        ),
        (
            "first packets that show the key",
            Box::new(move |_| first_packet(target, &knowing)),
        ),
        ("the same first packet", Box::new(move |_| same.clone())),
        ("first packets of any length", cut(1)),
        ("first packets of other versions", damaged(1, 5)),
        ("first packets with other ids", damaged(5, 21)),
        ("first packets that do not open", damaged(25, len)),
        (
            "cookies that are none",
            Box::new(move |n| {
                let mut packet = cookie.clone();
                packet[0] = 0xc2;
                packet[30] = n as u8;
                packet
            }),
        ),
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
    ]
}
