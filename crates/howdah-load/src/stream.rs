//! Streams of UDP that do not react to the network: the simulator's own generator and sink over a real socket.

use crate::LoadError;
use howdah_core::{Arrival, Datagram, Span, Time, Transport};
use howdah_rivals::udp::UdpEndpoint;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Largest datagram.
const MAX_BYTES: usize = 65_507;
/// Longest time without a look whether it is over.
const LOOK: Duration = Duration::from_millis(50);

/// What the sink saw.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct SinkReport {
    /// User bytes.
    pub bytes: u64,
    /// Datagrams.
    pub packets: u64,
    /// Datagrams that a later one has overtaken and that never came.
    pub lost: u64,
    /// Mean of the smoothed interarrival jitter (RFC 3550, section 6.4.1) in milliseconds.
    pub jitter_ms: f64,
    /// Every 100 ms: seconds since the first datagram, bytes so far, smoothed jitter in milliseconds.
    pub samples: Vec<(f64, u64, f64)>,
}

/// This machine's monotonic clock, which sender and sink share: only differences of times matter.
pub fn now() -> Time {
    let time = clock_gettime(ClockId::Monotonic);
    Time::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Sends what `generator` says until it has no more to say, `time` is over or `stop` is set; returns the number of
/// datagrams. One that the kernel refuses for want of room is lost, as from a real sender.
pub fn send(
    to: SocketAddr,
    mut generator: UdpEndpoint,
    time: Span,
    stop: &AtomicBool,
) -> Result<u64, LoadError> {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0; 16], 0).into(),
    };
    let socket = UdpSocket::bind(any).map_err(LoadError::io("make a UDP socket"))?;
    socket
        .connect(to)
        .map_err(LoadError::io(format!("send to UDP {to}")))?;
    let payload = vec![0x5a; MAX_BYTES];
    let mut out: Vec<Datagram> = Vec::new();
    let mut bytes = Vec::with_capacity(MAX_BYTES);
    let end = now() + time;
    while now() < end && !stop.load(Ordering::Relaxed) {
        generator.handle_timeout(now());
        while generator.poll_transmit(now(), 64, &mut out) > 0 {
            for datagram in out.drain(..) {
                bytes.clear();
                bytes.extend_from_slice(&datagram.bytes);
                bytes.extend_from_slice(&payload[..datagram.absent as usize]);
                match socket.send(&bytes) {
                    // Nobody listens yet, or no more: the generator does not care.
                    Ok(_) => {}
                    Err(error) => match error.kind() {
                        ErrorKind::ConnectionRefused
                        | ErrorKind::WouldBlock
                        | ErrorKind::Interrupted => {}
                        _ if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                        _ => return Err(LoadError::io(format!("send to UDP {to}"))(error)),
                    },
                }
            }
        }
        let Some((next, _)) = generator.poll_timeout() else {
            break;
        };
        let wait = Duration::from(next.min(end).since(now()));
        std::thread::sleep(wait.min(LOOK));
    }
    Ok(generator.sent_packets().unwrap_or(0))
}

/// Counts what comes until `stop` is set.
pub fn receive(
    listen: SocketAddr,
    stop: &AtomicBool,
    ready: impl FnOnce(),
) -> Result<SinkReport, LoadError> {
    let failed = || LoadError::io(format!("listen on UDP {listen}"));
    let socket = UdpSocket::bind(listen).map_err(failed())?;
    socket.set_read_timeout(Some(LOOK)).map_err(failed())?;
    // Best effort: bursts of a stream are small.
    let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(4 << 20);
    ready();
    let mut sink = UdpEndpoint::sink();
    let mut buffer = vec![0; MAX_BYTES];
    let mut report = SinkReport::default();
    let mut first: Option<Time> = None;
    let mut next_sample = Time::ZERO;
    while !stop.load(Ordering::Relaxed) {
        match socket.recv(&mut buffer) {
            Ok(len) => {
                let at = now();
                let arrival = Arrival {
                    bytes: &buffer[..len],
                    absent: 0,
                    corrupt: false,
                };
                sink.handle_datagram(at, arrival);
                let first = *first.get_or_insert(at);
                if at >= next_sample
                    && let Some(received) = sink.received()
                {
                    let t_s = at.since(first).as_secs_f64();
                    let jitter_ms = received.smoothed_jitter().as_secs_f64() * 1e3;
                    report.samples.push((t_s, received.bytes, jitter_ms));
                    next_sample = at + Span::from_millis(100);
                }
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                _ => return Err(LoadError::io("receive from UDP")(error)),
            },
        }
    }
    if let Some(received) = sink.received() {
        report.bytes = received.bytes;
        report.packets = received.packets;
        report.lost = received.lost();
        report.jitter_ms = received.mean_smoothed_jitter().as_secs_f64() * 1e3;
    }
    Ok(report)
}
