//! Datagrams over a stream, for networks that let no UDP through.
//!
//! Two threads carry datagrams between a [lane](Lanes) of an endpoint and a TCP connection, or any other stream, at whose other
//! end two threads do the same. No network of this host is used for that, not even loopback. What is carried stays
//! sealed; a tunnel knows nothing and can do no more than a router can.

mod frames;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod lanes;
mod listener;

pub use lanes::Lanes;
pub use listener::{Proved, TunnelListener};

use howdah_proto::MAX_DATAGRAM;
use lanes::Lane;
use rustix::event::Timespec;
use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a stream begins with, so that whatever else finds the port is noticed at once.
const PREFACE: &[u8; 8] = b"howdah/1";
/// Bytes of one read.
const READ_BYTES: usize = 128 << 10;
/// How often the threads look whether they shall end.
const LOOK_EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};
/// Time for a TCP connection to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A running tunnel. Dropping it ends it, as the end of its stream does.
#[derive(Debug)]
pub struct Tunnel {
    shared: Arc<Shared>,
    /// What makes a read end that waits.
    tcp: Option<TcpStream>,
}

#[derive(Debug)]
struct Shared {
    lanes: Lanes,
    lane: Arc<Lane>,
    began: Instant,
    /// Milliseconds after that: the last time that something came out of the stream.
    active_ms: AtomicU64,
}

impl Tunnel {
    /// Over a new TCP connection to a [`TunnelListener`], for the endpoint of `lanes`.
    pub fn connect(to: SocketAddr, lanes: &Lanes) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&to, CONNECT_TIMEOUT)?;
        stream.set_nodelay(true)?;
        let (reader, mut writer) = (stream.try_clone()?, stream.try_clone()?);
        writer.write_all(PREFACE)?;
        let mut tunnel = Self::over(reader, writer, lanes)?;
        tunnel.tcp = Some(stream);
        Ok(tunnel)
    }

    /// Over a stream that is there, for the endpoint of `lanes`.
    pub fn over(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        lanes: &Lanes,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(lanes));
        // Dropped, it closes its lane, too.
        let tunnel = Self { shared, tcp: None };
        Shared::spawn(&tunnel.shared, reader, writer)?;
        Ok(tunnel)
    }

    /// What the endpoint's peer is called at its other end.
    pub fn address(&self) -> SocketAddr {
        self.shared.lane.address
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
    fn new(lanes: &Lanes) -> Self {
        Self {
            lanes: lanes.clone(),
            lane: lanes.open(),
            began: Instant::now(),
            active_ms: AtomicU64::new(0),
        }
    }

    fn has_ended(&self) -> bool {
        self.lane.has_ended()
    }

    fn end(&self) {
        self.lanes.close(&self.lane);
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
    ) -> io::Result<()> {
        let here = Arc::clone(shared);
        let inward = move || {
            // Whatever the reason, the stream carries no more.
            let _ = here.read_stream(reader);
            here.end();
        };
        let here = Arc::clone(shared);
        let outward = move || {
            let _ = here.write_stream(writer);
            here.end();
        };
        let builder = |name: &str| std::thread::Builder::new().name(name.into());
        builder("howdah-tunnel-in").spawn(inward)?;
        builder("howdah-tunnel-out").spawn(outward)?;
        Ok(())
    }

    fn read_stream(&self, reader: impl Read) -> io::Result<()> {
        let mut reader = BufReader::with_capacity(READ_BYTES, reader);
        let mut buffer = vec![0; MAX_DATAGRAM];
        while let Some(datagram) = frames::next(&mut reader, &mut buffer)? {
            if self.has_ended() {
                break;
            }
            let now = self.began.elapsed().as_millis() as u64;
            self.active_ms.store(now, Ordering::Relaxed);
            self.lanes.arrive(&self.lane, datagram);
        }
        Ok(())
    }

    fn write_stream(&self, mut writer: impl Write) -> io::Result<()> {
        let mut piece = Vec::new();
        while let Some(next) = self.lane.next_piece(piece) {
            writer.write_all(&next)?;
            writer.flush()?;
            piece = next;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
