//! The connection as a [`Transport`], for the simulator: the same machine, header bytes really
//! encoded, payload absent.

use crate::codec::ConnectionId;
use crate::connection::{Arriving, Connection, Event, Handled, PacketOut, PacketSink, Role};
use crate::keys::TAG_LEN;
use crate::{Config, Security};
use howdah_core::{Arrival, Datagram, HeaderBytes, RangeSet, Time, Transport, WakeReason};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// An endpoint of the simulator: sends objects whose bytes need no source, receives objects that
/// need no sink.
#[derive(Debug)]
pub struct SimEndpoint {
    connection: Connection,
    events: Vec<Event>,
    buffer: Vec<u8>,
    placed: Option<BTreeMap<u64, RangeSet>>,
}

const ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1));
const CLIENT_ID: ConnectionId = ConnectionId(1);
const SERVER_ID: ConnectionId = ConnectionId(2);

/// The settings of simulated connections.
pub fn sim_config() -> Config {
    Config::new(Security::Simulated)
}

impl SimEndpoint {
    /// The side that opens the connection.
    pub fn client(config: Config, seed: u64) -> Self {
        let connection =
            Connection::new(Time::ZERO, Role::Client, config, CLIENT_ID, ADDRESS, seed);
        Self {
            connection,
            events: Vec::new(),
            buffer: Vec::new(),
            placed: None,
        }
    }

    /// The side that answers a [`client`](Self::client) of the same `seed`.
    pub fn server(config: Config, client_seed: u64, seed: u64) -> Self {
        let client = Self::client(config.clone(), client_seed);
        let role = Role::Server {
            first_destination: client.connection.first_destination(),
            client: CLIENT_ID,
        };
        let connection = Connection::new(Time::ZERO, role, config, SERVER_ID, ADDRESS, seed);
        Self {
            connection,
            events: Vec::new(),
            buffer: Vec::new(),
            placed: None,
        }
    }

    /// The connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The connection, for application calls.
    pub fn connection_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Keeps note of every range that is to be placed, and panics if one is to be placed twice.
    #[must_use]
    pub fn recording(mut self) -> Self {
        self.placed = Some(BTreeMap::new());
        self
    }

    /// What was to be placed of object `id`, if that is [recorded](Self::recording).
    pub fn placed(&self, id: u64) -> Option<&RangeSet> {
        self.placed.as_ref()?.get(&id)
    }

    /// Everything that has happened so far, once.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    fn collect(&mut self) {
        while let Some(event) = self.connection.poll_event() {
            self.events.push(event);
        }
    }
}

/// Collects packets as descriptions.
struct Descriptions<'a>(&'a mut Vec<Datagram>);

impl PacketSink for Descriptions<'_> {
    fn packet(&mut self, packet: &PacketOut<'_>) {
        let mut bytes = HeaderBytes::with_capacity(packet.header.len() + packet.frames.len());
        bytes.extend_from_slice(packet.header);
        bytes.extend_from_slice(packet.frames);
        let absent = packet.wire_len() - bytes.len();
        self.0.push(Datagram {
            bytes,
            absent: absent as u32,
        });
    }
}

impl Transport for SimEndpoint {
    fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>) {
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
        let arriving = Arriving {
            from: ADDRESS,
            rx_time: now,
            absent,
            accept_data: true,
        };
        let handled = self
            .connection
            .handle_datagram(now, &arriving, &mut self.buffer);
        debug_assert_ne!(handled, Handled::Refused);
        if let (Some(placed), Handled::Data { object, parts }) = (&mut self.placed, handled) {
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
        self.collect();
    }

    fn handle_timeout(&mut self, now: Time) {
        self.connection.handle_timeout(now);
        self.collect();
    }

    fn poll_transmit(&mut self, now: Time, max: usize, out: &mut Vec<Datagram>) -> usize {
        let before = out.len();
        let sent = self
            .connection
            .poll_transmit(now, max, usize::MAX, &mut Descriptions(out))
            .is_some();
        self.collect();
        if sent { out.len() - before } else { 0 }
    }

    fn poll_timeout(&self) -> Option<(Time, WakeReason)> {
        self.connection.poll_timeout()
    }
}

const _: () = assert!(TAG_LEN == 16);
