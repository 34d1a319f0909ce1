//! Traffic for the self-test: numbered datagrams in super-packets, echoes, a TCP flow.

use crate::{Namespace, sys};
use howdah_core::{Rate, Span};
use howdah_path::DelayHistogram;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// UDP payload of a segment: fills an IPv4 packet of 1500 bytes.
pub(crate) const PAYLOAD: usize = 1472;
/// Segments in a super-packet: as many as fit into 64 KB.
const SEGMENTS: usize = 44;
/// IP and link bytes of a full segment.
pub(crate) const WIRE_BYTES: f64 = 1538.0;
/// TCP payload of a full segment with timestamps.
pub(crate) const TCP_PAYLOAD: f64 = 1448.0;

const FAR: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 2);
const RECEIVE_BUFFER: usize = 64 << 20;
/// Nothing for this long ends a reception.
const SILENCE: Duration = Duration::from_millis(300);

/// A UDP socket in a namespace, with a receive buffer that loses nothing.
pub(crate) fn udp_in(namespace: &Namespace, port: u16) -> io::Result<UdpSocket> {
    namespace.run_in(|| {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        sys::set_socket_int(
            socket.as_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            RECEIVE_BUFFER as libc::c_int,
        )?;
        socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into())?;
        Ok(socket.into())
    })?
}

/// What arrived of a numbered flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Received {
    /// By number: whether it came.
    pub seen: Vec<bool>,
    /// Payload bytes after the first reception, and the time they took.
    pub bytes: u64,
    pub elapsed: Duration,
}

/// Sends super-packets of numbered segments at `rate` (on the wire) for `duration`; returns how
/// many segments were sent.
pub(crate) fn blast(
    socket: &UdpSocket,
    port: u16,
    rate: Rate,
    duration: Duration,
) -> io::Result<u64> {
    sys::set_socket_int(
        socket.as_fd(),
        libc::SOL_UDP,
        libc::UDP_SEGMENT,
        PAYLOAD as libc::c_int,
    )?;
    let per_second = rate.as_f64() / 8.0 / WIRE_BYTES;
    let mut buffer = vec![0u8; PAYLOAD * SEGMENTS];
    let started = Instant::now();
    let mut sent = 0u64;
    loop {
        let elapsed = started.elapsed();
        if elapsed >= duration {
            return Ok(sent);
        }
        if (sent as f64) >= elapsed.as_secs_f64() * per_second {
            std::thread::sleep(Duration::from_micros(50));
            continue;
        }
        for segment in buffer.chunks_exact_mut(PAYLOAD) {
            segment[..8].copy_from_slice(&sent.to_be_bytes());
            sent += 1;
        }
        socket.send_to(&buffer, (FAR, port))?;
    }
}

/// Receives a numbered flow until it has been silent for a while after `finished` was set.
pub(crate) fn receive(socket: &UdpSocket, finished: &AtomicBool) -> io::Result<Received> {
    // Without it the kernel cuts super-packets up: slower, not wrong.
    let _ = sys::set_socket_int(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1);
    socket.set_read_timeout(Some(SILENCE))?;
    let mut buffer = vec![0u8; 1 << 16];
    let mut received = Received::default();
    let mut first: Option<Instant> = None;
    loop {
        match socket.recv(&mut buffer) {
            Ok(len) => {
                match first {
                    None => first = Some(Instant::now()),
                    Some(first) => {
                        received.bytes += len as u64;
                        received.elapsed = first.elapsed();
                    }
                }
                for segment in buffer[..len].chunks(PAYLOAD) {
                    let Some(number) = segment.first_chunk::<8>() else {
                        continue;
                    };
                    let number = u64::from_be_bytes(*number) as usize;
                    if number >= received.seen.len() {
                        received.seen.resize(number + 1, false);
                    }
                    received.seen[number] = true;
                }
            }
            Err(error) if is_timeout(&error) => {
                if finished.load(Ordering::Relaxed) {
                    return Ok(received);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

/// Sends everything back until `finished` is set.
pub(crate) fn echo(socket: &UdpSocket, finished: &AtomicBool) -> io::Result<()> {
    socket.set_read_timeout(Some(Duration::from_millis(50)))?;
    let mut buffer = [0u8; 2048];
    while !finished.load(Ordering::Relaxed) {
        match socket.recv_from(&mut buffer) {
            Ok((len, from)) => {
                socket.send_to(&buffer[..len], from)?;
            }
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Round trips of small packets, about a thousand a second: what each took more than
/// `configured`.
pub(crate) fn probe(
    socket: &UdpSocket,
    port: u16,
    configured: Span,
    duration: Duration,
) -> io::Result<DelayHistogram> {
    socket.set_read_timeout(Some(SILENCE))?;
    let started = Instant::now();
    let now = || started.elapsed().as_nanos() as u64;
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| -> io::Result<()> {
            while started.elapsed() < duration {
                socket.send_to(&now().to_be_bytes(), (FAR, port))?;
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        });
        let mut added = DelayHistogram::default();
        let mut answer = [0u8; 8];
        loop {
            match socket.recv(&mut answer) {
                Ok(_) => {
                    let taken = now().saturating_sub(u64::from_be_bytes(answer));
                    added.record(Span::from_nanos(taken).saturating_sub(configured));
                }
                Err(error) if is_timeout(&error) => break,
                Err(error) => return Err(error),
            }
        }
        sending
            .join()
            .map_err(|_| io::Error::other("the prober died"))??;
        Ok(added)
    })
}

/// A bulk TCP flow under the named congestion control: payload rate after `warm_up`, and the
/// congestion control that the kernel says it used.
pub(crate) fn tcp(
    near: &Namespace,
    far: &Namespace,
    algorithm: &str,
    warm_up: Duration,
    duration: Duration,
) -> io::Result<(Rate, String)> {
    let listener = far.run_in(|| TcpListener::bind((FAR, 0)))??;
    let address = listener.local_addr()?;
    let mut sender = near.run_in(|| -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_tcp_congestion(algorithm.as_bytes())?;
        socket.connect(&address.into())?;
        Ok(socket.into())
    })??;
    // Not everything that was asked for is what is used.
    let used = socket2::SockRef::from(&sender).tcp_congestion()?;
    let used = String::from_utf8_lossy(&used)
        .trim_end_matches('\0')
        .to_owned();
    let (mut receiver, _) = listener.accept()?;
    std::thread::scope(|scope| {
        let sending = scope.spawn(move || -> io::Result<()> {
            let block = vec![0u8; 1 << 20];
            let started = Instant::now();
            sender.set_write_timeout(Some(Duration::from_secs(1)))?;
            while started.elapsed() < warm_up + duration + Duration::from_millis(100) {
                match sender.write(&block) {
                    Ok(_) => {}
                    Err(error) if is_timeout(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        });
        let mut block = vec![0u8; 1 << 20];
        let started = Instant::now();
        let mut bytes = 0;
        let mut counted_from: Option<Instant> = None;
        while started.elapsed() < warm_up + duration {
            let len = receiver.read(&mut block)?;
            if len == 0 {
                break;
            }
            match counted_from {
                Some(_) => bytes += len as u64,
                None if started.elapsed() >= warm_up => counted_from = Some(Instant::now()),
                None => {}
            }
        }
        let elapsed = counted_from.map_or(Duration::ZERO, |from| from.elapsed());
        // Closing with unread data resets the connection and so frees the sender.
        drop(receiver);
        let _ = sending.join();
        Ok((Rate::from_bytes_over(bytes, Span::from(elapsed)), used))
    })
}
