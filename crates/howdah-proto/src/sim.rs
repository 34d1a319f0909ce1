//! The connection as a [`Transport`], for the simulator: the same machine, header bytes really
//! encoded, payload absent.

mod rate_steps;
mod slow_sink;

pub use rate_steps::RateSteps;
pub use slow_sink::SlowSink;

use crate::codec::ConnectionId;
use crate::connection::{Arriving, Connection, Event, Handled, PacketOut, PacketSink, Role};
use crate::error::ConnectionError;
use crate::keys::TAG_LEN;
use crate::{Config, Policy, Security};
use howdah_core::num::saturating_u32;
use howdah_core::{
    Arrival, Datagram, Ecn, HeaderBytes, ObjectId, Observe, RangeSet, Snapshot, Span, Time,
    Transport, WakeReason,
};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// An endpoint of the simulator: sends objects whose bytes need no source, receives objects that
/// need no sink.
#[derive(Debug)]
pub struct SimEndpoint {
    connection: Connection,
    events: Vec<Event>,
    buffer: Vec<u8>,
    placed: Option<BTreeMap<ObjectId, RangeSet>>,
    transfer: Option<Transfer>,
    slow_sink: Option<SlowSink>,
    /// ECN field of the datagram that comes next.
    arriving_ecn: Ecn,
    /// There is nothing to send before that time, unless something else happens than that bytes come. A receiver would be asked
    /// for each packet, and have the same answer.
    quiet_until: Option<(Time, WakeReason)>,
}

/// The one object of an endpoint that [sends](SimEndpoint::sender) or
/// [receives](SimEndpoint::receiver) one.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    id: ObjectId,
    is_sender: bool,
    size: Option<u64>,
    finished_at: Option<Time>,
}

/// More than any run can move.
const ENDLESS: u64 = 1 << 60;

const ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1));
const CLIENT_ID: ConnectionId = ConnectionId(1);
const SERVER_ID: ConnectionId = ConnectionId(2);

/// The settings of simulated connections: without marks, unless a test or scenario has a queue that gives some, and without a train ahead.
pub fn sim_config() -> Config {
    Config {
        ecn: false,
        ..Config::new(Security::Simulated)
    }
}

impl SimEndpoint {
    /// The side that opens the connection.
    pub fn client(config: Config, seed: u64) -> Self {
        Self::client_at(Time::ZERO, config, seed)
    }

    fn client_at(start: Time, config: Config, seed: u64) -> Self {
        let connection = Connection::new(start, Role::Client, config, CLIENT_ID, ADDRESS, seed);
        Self::new(connection)
    }

    fn new(connection: Result<Connection, ConnectionError>) -> Self {
        Self {
            connection: connection.expect("a simulated handshake always begins"),
            events: Vec::new(),
            buffer: Vec::new(),
            placed: None,
            transfer: None,
            slow_sink: None,
            arriving_ecn: Ecn::NotEct,
            quiet_until: None,
        }
    }

    /// The side that answers a [`client`](Self::client) of the same `seed`.
    pub fn server(config: Config, client_seed: u64, seed: u64) -> Self {
        Self::server_at(Time::ZERO, config, client_seed, seed)
    }

    fn server_at(start: Time, config: Config, client_seed: u64, seed: u64) -> Self {
        let client = Self::client_at(start, config.clone(), client_seed);
        let role = Role::Server {
            first_destination: client.connection.first_destination(),
            client: CLIENT_ID,
        };
        Self::new(Connection::new(
            start, role, config, SERVER_ID, ADDRESS, seed,
        ))
    }

    /// A [`client`](Self::client) that begins at `start` and sends one object of `size` bytes, or
    /// one without end.
    pub fn sender(start: Time, config: Config, seed: u64, size: Option<u64>) -> Self {
        let mut client = Self::client_at(start, config, seed);
        let id = client.connection.allocate_object();
        client.connection.send_object(id, size, u64::MAX);
        client.connection.set_readable(id, size.unwrap_or(ENDLESS));
        client.transfer = Some(Transfer {
            id,
            is_sender: true,
            size,
            finished_at: None,
        });
        client
    }

    /// The [`server`](Self::server) that receives what the [`sender`](Self::sender) of the same
    /// start, size and `sender_seed` sends.
    pub fn receiver(
        start: Time,
        config: Config,
        sender_seed: u64,
        seed: u64,
        size: Option<u64>,
    ) -> Self {
        let mut server = Self::server_at(start, config, sender_seed, seed);
        // The first object of a client.
        let id = ObjectId::new(0);
        server.connection.receive_object(id, size, None);
        server.transfer = Some(Transfer {
            id,
            is_sender: false,
            size,
            finished_at: None,
        });
        server
    }

    /// Bytes of the [received](Self::receiver) object that have arrived, each counted once.
    pub fn delivered_bytes(&self) -> u64 {
        match self.transfer {
            Some(transfer) if !transfer.is_sender => self.connection.received_bytes(transfer.id),
            _ => 0,
        }
    }

    /// The connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The connection, for application calls.
    pub fn connection_mut(&mut self) -> &mut Connection {
        self.quiet_until = None;
        &mut self.connection
    }

    /// Keeps note of every range that is to be placed, and panics if one is to be placed twice.
    #[must_use]
    pub fn recording(mut self) -> Self {
        self.placed = Some(BTreeMap::new());
        self
    }

    /// Received bytes go into a sink that may be slower than the path.
    pub fn set_slow_sink(&mut self, sink: SlowSink) {
        self.quiet_until = None;
        self.slow_sink = Some(sink);
    }

    /// What was to be placed of object `id`, if that is [recorded](Self::recording).
    pub fn placed(&self, id: ObjectId) -> Option<&RangeSet> {
        self.placed.as_ref()?.get(&id)
    }

    /// Everything that has happened so far, once.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    fn collect(&mut self, now: Time) {
        while let Some(event) = self.connection.poll_event() {
            self.events.push(event);
        }
        if let Some(transfer) = &mut self.transfer
            && let Some(size) = transfer.size
            && transfer.finished_at.is_none()
        {
            let known = if transfer.is_sender {
                self.connection.acked_bytes(transfer.id)
            } else {
                self.connection.received_bytes(transfer.id)
            };
            transfer.finished_at = (known >= size).then_some(now);
        }
    }
}

/// Collects packets as descriptions.
struct Descriptions<'a>(&'a mut Vec<Datagram>);

impl PacketSink for Descriptions<'_> {
    #[allow(
        clippy::inline_always,
        reason = "what it is given has just been put together, and is slow to move"
    )]
    #[inline(always)]
    fn packet(&mut self, packet: &PacketOut<'_>) {
        let (header, frames) = (packet.header, packet.frames);
        let len = header.len() + frames.len();
        let mut buffer = [0; 64];
        // A data packet's bytes fit; put together here, they are moved once.
        let bytes = if let Some((to_header, rest)) = buffer.split_at_mut_checked(header.len())
            && let Some(to_frames) = rest.get_mut(..frames.len())
        {
            to_header.copy_from_slice(header);
            to_frames.copy_from_slice(frames);
            HeaderBytes::from_buf_and_len(buffer, len)
        } else {
            let mut bytes = HeaderBytes::with_capacity(len);
            bytes.extend_from_slice(header);
            bytes.extend_from_slice(frames);
            bytes
        };
        let absent = packet.wire_len() - bytes.len();
        self.0.push(Datagram {
            bytes,
            absent: saturating_u32(absent),
        });
    }
}

impl Transport for SimEndpoint {
    fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>) {
        let ecn = std::mem::take(&mut self.arriving_ecn);
        if arrival.corrupt {
            // What the AEAD does in the real driver.
            return;
        }
        self.buffer.clear();
        self.buffer.extend_from_slice(arrival.bytes);
        let mut absent = arrival.absent;
        if self.buffer.first().is_some_and(|byte| byte & 0x80 != 0) {
            // Handshake packets have no object payload: give them their tag.
            self.buffer.resize(self.buffer.len() + absent as usize, 0);
            absent = 0;
        }
        let accept_data = self
            .slow_sink
            .as_mut()
            .is_none_or(|sink| sink.has_room(now, absent));
        let arriving = Arriving {
            from: ADDRESS,
            rx_time: now,
            ecn,
            absent,
            accept_data,
        };
        let handled = self
            .connection
            .handle_datagram(now, &arriving, &mut self.buffer);
        debug_assert!(handled != Handled::Refused || !accept_data);
        if let Some(sink) = &mut self.slow_sink {
            if let Handled::Data { parts, .. } = &handled {
                sink.take(parts.iter().map(|part| part.range.len()).sum());
            }
            self.connection.set_sink_state(sink.state(now));
        }
        if let Some(placed) = &mut self.placed
            && let Handled::Data { object, parts } = handled
        {
            let ranges = placed.entry(object).or_default();
            for part in parts {
                let new = ranges.insert(part.range);
                assert_eq!(
                    new,
                    part.range.len(),
                    "object {object}: {} twice",
                    part.range
                );
            }
        }
        if !self.connection.was_quiet() {
            self.quiet_until = None;
            self.collect(now);
        }
    }

    fn is_settled(&mut self, now: Time) -> bool {
        let is_quiet = self.quiet_until.is_some_and(|(until, _)| now < until);
        if is_quiet {
            self.connection.rest(now);
        }
        is_quiet
    }

    fn handle_timeout(&mut self, now: Time) {
        self.quiet_until = None;
        self.connection.handle_timeout(now);
        self.collect(now);
    }

    fn poll_transmit(&mut self, now: Time, max: usize, out: &mut Vec<Datagram>) -> usize {
        if self.is_settled(now) {
            return 0;
        }
        let before = out.len();
        if let Some(sink) = &mut self.slow_sink {
            self.connection.set_sink_state(sink.state(now));
        }
        let sent = self
            .connection
            .poll_transmit(now, max, usize::MAX, &mut Descriptions(out))
            .is_some();
        self.collect(now);
        // A sink that drains has something to say by itself.
        self.quiet_until = if sent || self.slow_sink.is_some() {
            None
        } else {
            self.connection.quiet_until()
        };
        if sent { out.len() - before } else { 0 }
    }

    fn ecn(&self, datagram: &Datagram) -> Ecn {
        self.connection.ecn_of(&datagram.bytes)
    }

    fn handle_ecn(&mut self, _: Time, ecn: Ecn) {
        self.arriving_ecn = ecn;
    }

    fn poll_timeout(&self) -> Option<(Time, WakeReason)> {
        if self.quiet_until.is_some() {
            debug_assert_eq!(self.quiet_until, self.connection.poll_timeout());
            return self.quiet_until;
        }
        self.connection.poll_timeout()
    }
}

impl Observe for SimEndpoint {
    fn snapshot(&self) -> Snapshot {
        let stats = self.connection.stats();
        let failed = self.events.iter().find_map(|event| match event {
            Event::Closed(error) => Some(error.to_string()),
            _ => None,
        });
        let is_measured = stats.rtt_min != Span::MAX;
        let is_receiver = self.transfer.is_some_and(|transfer| !transfer.is_sender);
        Snapshot {
            algorithm: match self.connection.policy() {
                _ if is_receiver => "receiver/howdah".into(),
                Policy::Fair => "howdah/fair".into(),
                Policy::Background => "howdah/background".into(),
                Policy::Fixed(rate) => format!("howdah/fixed {rate}").into(),
            },
            delivered_bytes: self.delivered_bytes(),
            sent_bytes: stats.data_bytes_sent,
            retransmitted_bytes: stats.data_bytes_repeated,
            lost_packets: stats.packets_lost,
            // The fair policy follows a model of the path: no single loss lowers its rate.
            congestion_events: 0,
            timeouts: 0,
            cwnd_bytes: None,
            ssthresh_bytes: None,
            in_flight_bytes: stats.bytes_in_flight,
            pacing_rate: Some(stats.pacing_rate),
            srtt: is_measured.then_some(stats.rtt),
            min_rtt: is_measured.then_some(stats.rtt_min),
            finished_at: self.transfer.and_then(|transfer| transfer.finished_at),
            failed,
        }
    }
}

const _: () = assert!(TAG_LEN == 16);
