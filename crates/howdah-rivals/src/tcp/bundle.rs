//! Several connections that carry one object, as multi-stream file movers have them.

use super::{ReceiverConfig, Supply, TcpConfig, TcpEndpoint};
use howdah_core::{Arrival, Datagram, Observe, Rate, Snapshot, Span, Time, Transport, WakeReason};

/// Arrivals between two looks at whether the object is there: a look costs as much as a segment.
const LOOK_EVERY: u32 = 32;
/// A disk that gives bytes at a rate gives them in steps of this.
const DISK_STEP: Span = Span::from_millis(1);
/// Bytes of the port fields, which tell the connections apart.
const PORTS: usize = 4;

/// One side of `n` connections that carry one object between them.
///
/// Each connection takes the next piece of the object when it has room, and the pieces are so small
/// that all end together: the object is there when all of them together have delivered its size.
/// (Real programs hand out blocks of some megabytes, and wait for the slowest at the end.) No
/// connection knows of the others. In a segment's header the first connection has the usual port, the
/// others the ports behind it.
#[derive(Debug)]
pub struct Bundle {
    streams: Vec<TcpEndpoint>,
    is_sender: bool,
    size_bytes: Option<u64>,
    first: usize,
    arrivals: u32,
    finished_at: Option<Time>,
}

impl Bundle {
    /// The side that sends, with `streams` connections (at least one, at most 256). `disk` is the rate
    /// at which the object can be read, all connections together.
    pub fn sender(
        config: &TcpConfig,
        streams: u32,
        size_bytes: Option<u64>,
        disk: Option<Rate>,
        seed: u64,
    ) -> Self {
        let count = u64::from(streams.clamp(1, 256));
        let supply = disk.map_or(Supply::Endless, |rate| Supply::OnOff {
            burst_bytes: (rate.bytes_in(DISK_STEP) / count).max(1),
            period: DISK_STEP,
            total_bytes: None,
        });
        let stream = |at| TcpEndpoint::sender(config, supply, seed.wrapping_add(at));
        Self::new((0..count).map(stream).collect(), true, size_bytes)
    }

    /// The side that receives.
    pub fn receiver(config: &ReceiverConfig, streams: u32, size_bytes: Option<u64>) -> Self {
        let streams = (0..streams.clamp(1, 256)).map(|_| TcpEndpoint::receiver(config));
        Self::new(streams.collect(), false, size_bytes)
    }

    const fn new(streams: Vec<TcpEndpoint>, is_sender: bool, size_bytes: Option<u64>) -> Self {
        Self {
            streams,
            is_sender,
            size_bytes,
            first: 0,
            arrivals: 0,
            finished_at: None,
        }
    }

    /// Bytes that have been delivered in order, all connections together.
    pub fn delivered_bytes(&self) -> u64 {
        let all = self.streams.iter();
        all.map(|stream| stream.snapshot().delivered_bytes).sum()
    }

    /// How many there are.
    pub fn connections(&self) -> u32 {
        self.streams.len() as u32
    }

    /// When the object was there; `None` before, and without an end.
    pub const fn finished_at(&self) -> Option<Time> {
        self.finished_at
    }

    fn look(&mut self, now: Time) {
        let Some(size) = self.size_bytes.filter(|_| self.finished_at.is_none()) else {
            return;
        };
        let known: u64 = if self.is_sender {
            let acknowledged = |stream: &TcpEndpoint| {
                let s = stream.snapshot();
                let open = s.retransmitted_bytes + s.in_flight_bytes;
                s.sent_bytes.saturating_sub(open)
            };
            self.streams.iter().map(acknowledged).sum()
        } else {
            self.delivered_bytes()
        };
        if known >= size {
            self.finished_at = Some(now);
        }
    }

    /// Where the number of the connection is added to a port: the sender's end of it.
    const fn port(to_sender: bool) -> usize {
        if to_sender { 2 } else { 0 }
    }
}

impl Transport for Bundle {
    fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>) {
        if self.finished_at.is_some() || arrival.bytes.len() < PORTS {
            return;
        }
        let at = Self::port(self.is_sender);
        let port = u16::from_be_bytes([arrival.bytes[at], arrival.bytes[at + 1]]);
        let base = super::segment::SENDER_PORT;
        let index = usize::from(port.wrapping_sub(base));
        let Some(stream) = self.streams.get_mut(index) else {
            return;
        };
        if index == 0 {
            stream.handle_datagram(now, arrival);
        } else {
            let mut bytes = howdah_core::HeaderBytes::from_slice(arrival.bytes);
            bytes[at..at + 2].copy_from_slice(&base.to_be_bytes());
            let arrival = Arrival {
                bytes: &bytes,
                ..arrival
            };
            stream.handle_datagram(now, arrival);
        }
        self.arrivals += 1;
        if self.arrivals >= LOOK_EVERY {
            self.arrivals = 0;
            self.look(now);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.finished_at.is_some() {
            return;
        }
        for stream in &mut self.streams {
            // Early calls are harmless, and what is due is found in it.
            if stream.poll_timeout().is_none_or(|due| due.0 <= now) {
                stream.handle_timeout(now);
            }
        }
        self.look(now);
    }

    fn poll_transmit(&mut self, now: Time, max: usize, out: &mut Vec<Datagram>) -> usize {
        if self.finished_at.is_some() {
            return 0;
        }
        let before = out.len();
        let count = self.streams.len();
        for step in 0..count {
            let left = max - (out.len() - before);
            if left == 0 {
                break;
            }
            // In turn, so that none is always first.
            let index = (self.first + step) % count;
            let from = out.len();
            self.streams[index].poll_transmit(now, left, out);
            let at = Self::port(!self.is_sender);
            let port = super::segment::SENDER_PORT + index as u16;
            for datagram in &mut out[from..] {
                datagram.bytes[at..at + 2].copy_from_slice(&port.to_be_bytes());
            }
        }
        self.first = (self.first + 1) % count;
        out.len() - before
    }

    fn poll_timeout(&self) -> Option<(Time, WakeReason)> {
        if self.finished_at.is_some() {
            return None;
        }
        let due = self.streams.iter().filter_map(Transport::poll_timeout);
        due.min_by_key(|due| due.0)
    }
}

impl Observe for Bundle {
    fn snapshot(&self) -> Snapshot {
        let mut sum = Snapshot::default();
        for (at, stream) in self.streams.iter().enumerate() {
            let one = stream.snapshot();
            sum.delivered_bytes += one.delivered_bytes;
            sum.sent_bytes += one.sent_bytes;
            sum.retransmitted_bytes += one.retransmitted_bytes;
            sum.lost_packets += one.lost_packets;
            sum.congestion_events += one.congestion_events;
            sum.timeouts += one.timeouts;
            sum.in_flight_bytes += one.in_flight_bytes;
            sum.cwnd_bytes = match (sum.cwnd_bytes, one.cwnd_bytes) {
                (Some(a), Some(b)) => Some(a + b),
                (a, b) => a.or(b),
            };
            sum.srtt = sum.srtt.max(one.srtt);
            sum.failed = sum.failed.or(one.failed);
            if at == 0 {
                sum.algorithm = format!("{} x{}", one.algorithm, self.streams.len()).into();
            }
        }
        if let Some(size) = self.size_bytes {
            sum.delivered_bytes = sum.delivered_bytes.min(size);
        }
        sum.finished_at = self.finished_at;
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::{IPV4_BYTES, cc};
    use howdah_path::{LossModel, PathConfig, QueueLimit};
    use howdah_sim::{Flow, World};

    #[test]
    fn an_object_arrives_over_all_connections() {
        for streams in [1, 4, 7] {
            let path = PathConfig {
                rate: Some(Rate::from_mbit_per_sec(100)),
                queue: QueueLimit::Packets(200),
                delay: Span::from_millis(10),
                loss: LossModel::Bernoulli(0.002),
                ..PathConfig::default()
            };
            let mut world = World::new(7);
            let (left, right) = (world.add_host("left"), world.add_host("right"));
            let link = world.add_link(&path, &path);
            let config = TcpConfig::linux26().with(*cc::find("cubic").unwrap());
            let size = Some(20_000_000);
            let near = Bundle::sender(&config, streams, size, None, 3);
            let far = Bundle::receiver(&ReceiverConfig::linux26(), streams, size);
            let flow = Flow::between((left, near), (right, far)).over(link);
            let ends = world.add_flow(flow.header_bytes(IPV4_BYTES));
            world.run_until(Time::ZERO + Span::from_secs(60));
            let near = world.endpoint(ends.a);
            assert!(near.finished_at().is_some(), "{streams} streams");
            assert_eq!(
                world.endpoint(ends.b).snapshot().delivered_bytes,
                20_000_000
            );
            assert!(near.snapshot().algorithm.ends_with(&format!("x{streams}")));
        }
    }

    /// More connections than there are have no place to go.
    #[test]
    fn a_stranger_is_not_heard() {
        let mut far = Bundle::receiver(&ReceiverConfig::linux26(), 2, None);
        let mut bytes = [0; 20];
        bytes[0..2].copy_from_slice(&40_002_u16.to_be_bytes());
        for len in [0, 3, 20] {
            let arrival = Arrival {
                bytes: &bytes[..len],
                absent: 0,
                corrupt: false,
            };
            far.handle_datagram(Time::ZERO, arrival);
        }
        assert_eq!(far.poll_transmit(Time::ZERO, 9, &mut Vec::new()), 0);
    }
}
