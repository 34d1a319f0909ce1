//! The least that a sealed UDP flow costs on this machine: trains of packets (GSO) of zeros, each sealed with AES-256-GCM where it lies,
//! and a receiver that opens them where they came (GRO). No reports, no recovery, no control of the rate but a fixed one.
//!
//! `floor receive ADDRESS:PORT` ends when it is told to by an empty datagram, and `floor send ADDRESS:PORT PAYLOAD_BYTES MBIT_PER_S SECONDS`
//! sends that. Each prints a line of JSON: bytes of payload, seconds, processor time. `benches/floor.py` sets ours beside it.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use std::error::Error;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// What stands in the clear before what is sealed: the packet's number and as much as ours has besides.
const HEADER: usize = 12;
const TAG: usize = 16;
/// A train, and what a receive call may give at a time, in bytes.
const TRAIN: usize = 1 << 16;
/// Trains leave in bursts of so long, or one by one: what a socket's buffer that nobody has set holds.
const BURST: Duration = Duration::from_micros(200);
/// Nobody sends any more.
const SILENCE: Duration = Duration::from_secs(5);

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["receive", address] => receive(address.parse()?),
        ["send", to, payload, mbit, seconds] => {
            let rate = (mbit.parse::<f64>()? * 1e6, seconds.parse()?);
            send(to.parse()?, payload.parse()?, rate)
        }
        _ => Err("floor receive ADDRESS:PORT, or floor send ADDRESS:PORT PAYLOAD_BYTES MBIT_PER_S SECONDS".into()),
    }
}

fn key() -> Result<LessSafeKey, Box<dyn Error>> {
    let key = UnboundKey::new(&AES_256_GCM, &[7; 32]).map_err(|_| "no AES-256-GCM here")?;
    Ok(LessSafeKey::new(key))
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

fn tell(bytes: u64, packets: u64, seconds: f64) {
    let cpu = howdah_net::usage().cpu_seconds;
    println!(
        "{{\"bytes\":{bytes},\"packets\":{packets},\"seconds\":{seconds:.6},\"cpu_seconds\":{cpu:.6}}}"
    );
}

/// Sends payload at `bps` bits a second for so many `seconds`.
fn send(to: SocketAddr, payload: usize, (bps, seconds): (f64, f64)) -> Result<(), Box<dyn Error>> {
    let socket = howdah_net::bind(SocketAddr::new([0, 0, 0, 0].into(), 0))?;
    let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
    let key = key()?;
    let packet = HEADER + payload + TAG;
    let most = state.max_gso_segments().min(TRAIN / packet).max(1);
    let mut train = vec![0_u8; most * packet];
    let began = Instant::now();
    let (mut number, mut sent) = (0_u64, 0_u64);
    loop {
        let passed = began.elapsed().as_secs_f64();
        if passed >= seconds {
            break;
        }
        let due = (bps * (passed + BURST.as_secs_f64()) / 8.0) as u64;
        while sent < due {
            for one in train.chunks_exact_mut(packet) {
                let (header, rest) = one.split_at_mut(HEADER);
                header[..8].copy_from_slice(&number.to_be_bytes());
                let (body, tag) = rest.split_at_mut(payload);
                // What ours reads from `zero:`.
                body.fill(0);
                let sealed =
                    key.seal_in_place_separate_tag(nonce(number), Aad::from(&*header), body);
                let sealed = sealed.map_err(|_| "cannot seal")?;
                tag.copy_from_slice(sealed.as_ref());
                number += 1;
            }
            let transmit = Transmit {
                destination: to,
                ecn: None,
                contents: &train,
                segment_size: (most > 1).then_some(packet),
                src_ip: None,
            };
            whole(&socket, &state, &transmit)?;
            sent += (most * payload) as u64;
        }
        let next = Duration::from_secs_f64(sent as f64 * 8.0 / bps);
        std::thread::sleep(next.saturating_sub(began.elapsed()));
    }
    let seconds = began.elapsed().as_secs_f64();
    // In the end, and again, should one be lost.
    for _ in 0..5 {
        socket.send_to(&[], to)?;
        std::thread::sleep(Duration::from_millis(20));
    }
    tell(sent, number, seconds);
    Ok(())
}

/// Waits as long as the socket is full.
fn whole(socket: &UdpSocket, state: &UdpSocketState, transmit: &Transmit<'_>) -> io::Result<()> {
    loop {
        match state.try_send(UdpSockRef::from(socket), transmit) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_micros(50));
            }
            done => return done,
        }
    }
}

fn receive(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let socket = howdah_net::bind(address)?;
    let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(SILENCE))?;
    let key = key()?;
    let mut buffers = vec![vec![0_u8; TRAIN]; BATCH_SIZE];
    let (mut bytes, mut packets) = (0_u64, 0_u64);
    let mut began = None;
    eprintln!("receiving");
    'all: loop {
        let mut meta = [RecvMeta::default(); BATCH_SIZE];
        let mut slices: Vec<_> = buffers.iter_mut().map(|b| IoSliceMut::new(b)).collect();
        let count = state.recv(UdpSockRef::from(&socket), &mut slices, &mut meta)?;
        for (buffer, meta) in buffers.iter_mut().zip(&meta).take(count) {
            if meta.len == 0 {
                break 'all;
            }
            began.get_or_insert_with(Instant::now);
            for one in buffer[..meta.len].chunks_mut(meta.stride) {
                let Some((header, body)) = one.split_at_mut_checked(HEADER) else {
                    return Err("a datagram that is none of ours".into());
                };
                let number = u64::from_be_bytes(header[..8].try_into()?);
                let opened = key.open_in_place(nonce(number), Aad::from(&*header), body);
                bytes += opened.map_err(|_| "a packet does not open")?.len() as u64;
                packets += 1;
            }
        }
    }
    let seconds = began.map_or(0.0, |began| began.elapsed().as_secs_f64());
    tell(bytes, packets, seconds);
    Ok(())
}
