//! Our UDT 4 and Debian's libudt 4.11 move real bytes over the loopback, in both directions and with
//! either side opening the connection. `make peers` builds the other side; without it the test says
//! why it skips.

use howdah_core::{Arrival, ByteRange, Datagram, Observe, Time, Transport};
use howdah_rivals::udt::{UdtConfig, UdtEndpoint};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// The header, which is all that the state machine wants to see of a data packet.
const HEADER: usize = 16;

/// The same made-up object as the peer's: `SplitMix64` of 0, 1, 2 and so on.
fn word(at: u64) -> [u8; 8] {
    let mut z = (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ z >> 31).to_le_bytes()
}

fn push_bytes(range: ByteRange, out: &mut Vec<u8>) {
    let mut at = range.start;
    while at < range.end {
        let skip = (at % 8) as usize;
        let count = (8 - skip).min((range.end - at) as usize);
        out.extend_from_slice(&word(at / 8)[skip..skip + count]);
        at += count as u64;
    }
}

/// FNV-1a of 64 bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Fnv(u64);

impl Fnv {
    const NEW: Self = Self(0xcbf2_9ce4_8422_2325);

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn of_object(bytes: u64) -> Self {
        let mut hash = Self::NEW;
        let mut block = Vec::new();
        let mut at = 0;
        while at < bytes {
            let end = (at + (1 << 20)).min(bytes);
            block.clear();
            push_bytes(ByteRange::new(at, end), &mut block);
            hash.add(&block);
            at = end;
        }
        hash
    }
}

/// The other side.
struct Peer {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Peer {
    fn start(program: &PathBuf, arguments: &[&str]) -> Self {
        let mut child = Command::new(program)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the peer starts");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, out }
    }

    fn line(&mut self) -> Vec<String> {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("the peer speaks");
        line.split_whitespace().map(str::to_owned).collect()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Drives an endpoint over a socket, on this thread, as fast as it goes.
struct Driver {
    endpoint: UdtEndpoint,
    socket: UdpSocket,
    peer: Option<SocketAddr>,
    start: Instant,
    /// Packets that came before their turn.
    early: BTreeMap<u64, Vec<u8>>,
    next: u64,
    received: u64,
    hash: Fnv,
}

#[allow(clippy::disallowed_methods, reason = "a driver needs a clock")]
impl Driver {
    fn new(endpoint: UdtEndpoint, peer: Option<SocketAddr>) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        socket.set_nonblocking(true).expect("non-blocking");
        // As the library does, so far as the system lets it: losses here make UDT slow, not wrong.
        let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(8 << 20);
        Self {
            endpoint,
            socket,
            peer,
            start: Instant::now(),
            early: BTreeMap::new(),
            next: 0,
            received: 0,
            hash: Fnv::NEW,
        }
    }

    fn now(&self) -> Time {
        Time::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    /// Until this side knows that it is done; more than a minute is a failure.
    fn run(&mut self) {
        let mut buffer = vec![0; 65_536];
        let mut out = Vec::new();
        let mut wire = Vec::new();
        loop {
            let now = self.now();
            assert!(
                now < Time::from_nanos(60_000_000_000),
                "{:?}",
                self.endpoint.snapshot()
            );
            let mut busy = self.receive(&mut buffer);
            if let Some((due, _)) = self.endpoint.poll_timeout()
                && due <= now
            {
                self.endpoint.handle_timeout(now);
            }
            while self.endpoint.poll_transmit(now, 16, &mut out) > 0 {
                busy = true;
                for datagram in out.drain(..) {
                    self.send(&datagram, &mut wire);
                }
            }
            let snapshot = self.endpoint.snapshot();
            assert_eq!(snapshot.failed, None);
            if snapshot.finished_at.is_some() {
                return;
            }
            if !busy {
                self.rest();
            }
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> bool {
        for nth in 0..32 {
            let (len, from) = match self.socket.recv_from(buffer) {
                Ok(got) => got,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return nth > 0,
                // A listener that is not there yet.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => continue,
                Err(error) => panic!("{error}"),
            };
            self.peer = Some(from);
            // Control packets are seen whole.
            let seen = if buffer[0] & 0x80 == 0 {
                len.min(HEADER)
            } else {
                len
            };
            let now = self.now();
            let arrival = Arrival {
                bytes: &buffer[..seen],
                absent: (len - seen) as u32,
                corrupt: false,
            };
            self.endpoint.handle_datagram(now, arrival);
            if let Some((at, bytes)) = self.endpoint.take_accepted() {
                assert_eq!(bytes as usize, len - HEADER);
                self.early.insert(at, buffer[HEADER..len].to_vec());
                while let Some(payload) = self.early.remove(&self.next) {
                    self.hash.add(&payload);
                    self.received += payload.len() as u64;
                    self.next += 1;
                }
            }
        }
        true
    }

    fn send(&self, datagram: &Datagram, wire: &mut Vec<u8>) {
        wire.clear();
        wire.extend_from_slice(&datagram.bytes);
        if let Some(range) = self.endpoint.payload_of(datagram) {
            push_bytes(range, wire);
        }
        let peer = self.peer.expect("a listener answers only");
        // A full socket buffer is a loss like any other.
        let _ = self.socket.send_to(wire, peer);
    }

    /// Waits for the next thing to do, a millisecond at most.
    fn rest(&self) {
        let due = self
            .endpoint
            .poll_timeout()
            .map_or(Time::MAX, |(due, _)| due);
        let wait = due.since(self.now()).as_micros().min(1000);
        if wait > 80 {
            std::thread::sleep(Duration::from_micros(wait - 60));
        } else {
            std::thread::yield_now();
        }
    }
}

/// One transfer: who sends, who listens.
fn transfer(program: &PathBuf, we_send: bool, we_listen: bool, bytes: u64, packet_bytes: u32) {
    let config = UdtConfig {
        packet_bytes,
        ..UdtConfig::default()
    };
    let mut endpoint = if we_send {
        UdtEndpoint::sender(&config, Some(bytes), 1)
    } else {
        UdtEndpoint::receiver(&config, 1)
    };
    endpoint = if we_listen {
        endpoint.listening(&config, 2)
    } else {
        endpoint.connecting(&config, 2)
    };
    let role = if we_send { "recv" } else { "send" };
    let (size, mss) = (bytes.to_string(), packet_bytes.to_string());
    let (mut peer, mut driver);
    if we_listen {
        driver = Driver::new(endpoint, None);
        let port = driver
            .socket
            .local_addr()
            .expect("bound")
            .port()
            .to_string();
        peer = Peer::start(program, &[role, "connect", &port, &size, &mss]);
    } else {
        peer = Peer::start(program, &[role, "listen", "0", &size, &mss]);
        let line = peer.line();
        assert_eq!(line[0], "port");
        let port = line[1].parse().expect("a port");
        driver = Driver::new(endpoint, Some((Ipv4Addr::LOCALHOST, port).into()));
    }
    driver.run();
    let snapshot = driver.endpoint.snapshot();
    println!(
        "{bytes} bytes in packets of {packet_bytes}, we {} and {}: {:.2} s, {} bytes again",
        if we_send { "send" } else { "receive" },
        if we_listen { "listen" } else { "connect" },
        driver.start.elapsed().as_secs_f64(),
        snapshot.retransmitted_bytes,
    );
    let want = Fnv::of_object(bytes);
    let line = peer.line();
    assert_eq!(
        line,
        ["done", &size, &format!("{:016x}", want.0)],
        "the peer's side"
    );
    if !we_send {
        assert_eq!((driver.received, driver.hash), (bytes, want), "our side");
        assert_eq!(snapshot.delivered_bytes, bytes);
    }
}

#[test]
fn libudt_understands_us_and_we_understand_it() {
    let target = option_env!("CARGO_TARGET_TMPDIR").map_or_else(PathBuf::new, PathBuf::from);
    let program = target.join("../peers/udt-peer");
    if !program.exists() {
        println!(
            "skipped: no {}; `make peers` builds it (libudt-dev)",
            program.display()
        );
        return;
    }
    // Odd sizes: the last write and the last packet are short.
    transfer(&program, true, false, 256 << 20, 1500);
    transfer(&program, false, true, 256 << 20, 1500);
    transfer(&program, true, true, (1 << 20) + 12_345, 9000);
    transfer(&program, false, false, (1 << 20) + 54_321, 9000);
}
