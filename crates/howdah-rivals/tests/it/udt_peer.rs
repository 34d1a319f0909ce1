//! Our UDT 4 and Debian's libudt 4.11 move real bytes over the loopback, in both directions and with
//! either side opening the connection. `make peers` builds the other side; without it the test says
//! why it skips.

use howdah_core::{ByteRange, Observe, Span, Time};
use howdah_net::plain::{self, Bytes, Patience};
use howdah_net::{Clock, bind};
use howdah_rivals::udt::{UdtConfig, UdtEndpoint};
use std::io::{self, BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

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

/// The object: made as it is sent, hashed as it comes.
struct Object {
    hash: Fnv,
}

impl Bytes for Object {
    fn read(&mut self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut made = Vec::with_capacity(out.len());
        push_bytes(ByteRange::with_len(offset, out.len() as u64), &mut made);
        out.copy_from_slice(&made);
        Ok(())
    }

    /// UDT places in order.
    fn write(&mut self, _: u64, bytes: &[u8]) -> io::Result<()> {
        self.hash.add(bytes);
        Ok(())
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
    let socket = bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
    let (mut other, peer);
    if we_listen {
        let port = socket.local_addr().expect("bound").port().to_string();
        other = Peer::start(program, &[role, "connect", &port, &size, &mss]);
        peer = plain::Peer::Await;
    } else {
        other = Peer::start(program, &[role, "listen", "0", &size, &mss]);
        let line = other.line();
        assert_eq!(line[0], "port");
        let port = line[1].parse().expect("a port");
        peer = plain::Peer::Call((Ipv4Addr::LOCALHOST, port).into());
    }
    let minute = Span::from_secs(60);
    let patience = Patience {
        contact: minute,
        progress: None,
    };
    let (clock, mut object) = (Clock::new(), Object { hash: Fnv::NEW });
    let in_time = || clock.now() < Time::ZERO + minute;
    let report = plain::drive(socket, peer, &mut endpoint, &mut object, patience, in_time)
        .unwrap_or_else(|error| panic!("{error}: {:?}", endpoint.snapshot()));
    println!(
        "{bytes} bytes in packets of {packet_bytes}, we {} and {}: {:.2} s, {} bytes again",
        if we_send { "send" } else { "receive" },
        if we_listen { "listen" } else { "connect" },
        report.took.as_secs_f64(),
        report.snapshot.retransmitted_bytes,
    );
    let want = Fnv::of_object(bytes);
    let line = other.line();
    assert_eq!(
        line,
        ["done", &size, &format!("{:016x}", want.0)],
        "the peer's side"
    );
    if !we_send {
        assert_eq!(
            (report.written_bytes, object.hash),
            (bytes, want),
            "our side"
        );
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
