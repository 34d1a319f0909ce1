//! Datagrams over a stream, for networks that let no UDP through.
//!
//! An endpoint speaks UDP only. Where that does not get through, it speaks to a socket on its own host, and
//! two threads carry the datagrams over a TCP connection, or any other stream, to a socket on the other
//! host, which speaks to the other endpoint. What is carried stays sealed; a tunnel knows nothing and can do no
//! more than a router can.

mod door;
mod frames;

pub use door::TcpDoor;

use crate::socket;
use howdah_proto::codec::limits::MAX_DATAGRAM;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::RecvFlags;
use std::io::{self, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a stream begins with, so that whatever else finds the port is noticed at once.
const PREFACE: &[u8; 8] = b"howdah/1";
/// Datagrams that wait for the stream, in bytes: more would only make them late.
const WAITING_BYTES: usize = 2 << 20;
/// Bytes of one write.
const WRITE_BYTES: usize = 128 << 10;
/// How often the threads look whether they shall end.
const LOOK_EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};
/// Time for a TCP connection to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Which endpoint the near side of a tunnel speaks to.
#[derive(Clone, Copy, Debug)]
pub enum Near {
    /// The one that writes first: it opens a connection to [`Tunnel::address`].
    Opens,
    /// The one that answers at this address.
    Answers(SocketAddr),
}

/// A running tunnel. Dropping it ends it, as the end of its stream does.
#[derive(Debug)]
pub struct Tunnel {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// What makes a read end that waits.
    tcp: Option<TcpStream>,
}

#[derive(Debug)]
struct Shared {
    socket: UdpSocket,
    ended: AtomicBool,
    /// Datagrams that came out of the stream.
    arrived: AtomicU64,
    began: Instant,
    /// Milliseconds after that: the last time that something came out of the stream.
    active_ms: AtomicU64,
}

impl Tunnel {
    /// Over a new TCP connection to a [`TcpDoor`].
    pub fn connect(to: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&to, CONNECT_TIMEOUT)?;
        stream.set_nodelay(true)?;
        let (reader, mut writer) = (stream.try_clone()?, stream.try_clone()?);
        writer.write_all(PREFACE)?;
        let mut tunnel = Self::over(reader, writer, Near::Opens)?;
        tunnel.tcp = Some(stream);
        Ok(tunnel)
    }

    /// Over a stream that is there.
    pub fn over(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        near: Near,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(near)?);
        let address = shared.socket.local_addr()?;
        Shared::spawn(&shared, reader, writer, near)?;
        Ok(Self {
            address,
            shared,
            tcp: None,
        })
    }

    /// Where the near endpoint finds it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether the stream has ended.
    pub fn has_ended(&self) -> bool {
        self.shared.has_ended()
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.shared.end();
        if let Some(tcp) = &self.tcp {
            // The other side may have gone before.
            let _ = tcp.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl Shared {
    fn new(near: Near) -> io::Result<Self> {
        let socket = match near {
            Near::Opens => UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?,
            Near::Answers(endpoint) => {
                let to = reachable(endpoint);
                let any = match to {
                    SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
                    SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
                };
                let socket = UdpSocket::bind((any, 0))?;
                socket.connect(to)?;
                socket
            }
        };
        socket::want_receive_buffer(&socket, WAITING_BYTES);
        Ok(Self {
            socket,
            ended: AtomicBool::new(false),
            arrived: AtomicU64::new(0),
            began: Instant::now(),
            active_ms: AtomicU64::new(0),
        })
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// How long nothing has come out of the stream.
    fn silence(&self) -> Duration {
        let active = Duration::from_millis(self.active_ms.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(active)
    }

    /// Starts both directions. Either one's end is the other's.
    fn spawn(
        shared: &Arc<Self>,
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        near: Near,
    ) -> io::Result<()> {
        let connected = Arc::new(AtomicBool::new(matches!(near, Near::Answers(_))));
        let (here, known) = (Arc::clone(shared), Arc::clone(&connected));
        let inward = move || {
            // Whatever the reason, the stream carries no more.
            let _ = here.read_stream(reader, &known);
            here.end();
        };
        let here = Arc::clone(shared);
        let outward = move || {
            let _ = here.write_stream(writer, &connected);
            here.end();
        };
        let builder = |name: &str| std::thread::Builder::new().name(name.into());
        builder("howdah-tunnel-in").spawn(inward)?;
        builder("howdah-tunnel-out").spawn(outward)?;
        Ok(())
    }

    fn read_stream(&self, reader: impl Read, connected: &AtomicBool) -> io::Result<()> {
        let mut reader = BufReader::with_capacity(WRITE_BYTES, reader);
        let mut buffer = vec![0; MAX_DATAGRAM];
        while let Some(datagram) = frames::next(&mut reader, &mut buffer)? {
            if self.has_ended() {
                break;
            }
            self.arrived.fetch_add(1, Ordering::Relaxed);
            let now = self.began.elapsed().as_millis() as u64;
            self.active_ms.store(now, Ordering::Relaxed);
            if connected.load(Ordering::Acquire) {
                // A full buffer is loss, which is provided for.
                let _ = self.socket.send(datagram);
            }
        }
        Ok(())
    }

    fn write_stream(&self, mut writer: impl Write, connected: &AtomicBool) -> io::Result<()> {
        let mut datagram = vec![0; MAX_DATAGRAM + 1];
        let mut out = Vec::with_capacity(WRITE_BYTES);
        while !self.has_ended() {
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            match poll(&mut fds, Some(&LOOK_EVERY)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(e) => return Err(e.into()),
            }
            while out.len() + frames::LENGTH_BYTES + MAX_DATAGRAM <= WRITE_BYTES {
                if !connected.load(Ordering::Relaxed) {
                    let (_, from) = self.socket.peek_from(&mut datagram)?;
                    self.socket.connect(from)?;
                    connected.store(true, Ordering::Release);
                }
                match rustix::net::recv(&self.socket, &mut datagram[..], RecvFlags::DONTWAIT) {
                    Ok((len, _)) => frames::push(&mut out, datagram.get(..len).unwrap_or_default()),
                    Err(rustix::io::Errno::INTR) => {}
                    // Nothing more, or the endpoint is not there (yet).
                    Err(_) => break,
                }
            }
            writer.write_all(&out)?;
            writer.flush()?;
            out.clear();
        }
        Ok(())
    }
}

/// How an endpoint on this host is reached that is bound to that address.
fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        // Takes IPv4 as well, and a host may have no IPv6 loopback.
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

#[cfg(test)]
mod tests;
