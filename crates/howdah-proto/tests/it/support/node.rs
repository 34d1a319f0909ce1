//! An endpoint with a small application, and checks on everything that leaves it.

use super::liar::{self, Lie};
use howdah_core::{Arrival, Datagram, ObjectId, RangeSet, Time, Transport, WakeReason};
use howdah_proto::codec::{Header, Level, expand_packet_number, limits};
use howdah_proto::error::ConnectionError;
use howdah_proto::sim::{SimEndpoint, SlowSink};
use howdah_proto::{Connection, Event};
use std::collections::VecDeque;
use std::fmt;

/// An object that is waited for.
struct Expected {
    id: ObjectId,
    size: u64,
    /// Bytes that may be ahead of the first hole.
    window: Option<u64>,
    granted: u64,
}

/// What left an endpoint.
#[derive(Debug, Default)]
pub struct WireLog {
    pub datagrams: u64,
    pub bytes: u64,
    /// Number of the next data packet.
    pub next_number: u64,
    /// Times that the key phase changed.
    pub key_phases: u64,
    phase: bool,
    next_handshake: [u32; 2],
}

pub struct Node {
    sim: SimEndpoint,
    is_server: bool,
    sending: Vec<(ObjectId, u64)>,
    expected: Vec<Expected>,
    control_wanted: usize,
    done: bool,
    /// Control messages received.
    pub control: Vec<Vec<u8>>,
    /// Objects of which every byte has arrived, and when.
    pub complete: Vec<(ObjectId, Time)>,
    pub connected: Option<Time>,
    pub closed: Option<(Time, ConnectionError)>,
    pub path_changes: usize,
    pub log: WireLog,
    pub bytes_in: u64,
    /// A handshake-level packet has arrived whole.
    validated: bool,
    /// The newest wire images, for whoever wants to look.
    pub tap: Option<VecDeque<Datagram>>,
    /// What it makes of its reports before they leave.
    pub lie: Option<Lie>,
}

impl Node {
    fn new(sim: SimEndpoint, is_server: bool) -> Self {
        Self {
            sim,
            is_server,
            sending: Vec::new(),
            expected: Vec::new(),
            control_wanted: 0,
            done: false,
            control: Vec::new(),
            complete: Vec::new(),
            connected: None,
            closed: None,
            path_changes: 0,
            log: WireLog::default(),
            bytes_in: 0,
            validated: !is_server,
            tap: None,
            lie: None,
        }
    }

    pub fn set_slow_sink(&mut self, sink: SlowSink) {
        self.sim.set_slow_sink(sink);
    }

    pub fn client(sim: SimEndpoint) -> Self {
        Self::new(sim, false)
    }

    pub fn server(sim: SimEndpoint) -> Self {
        Self::new(sim, true)
    }

    pub fn connection(&self) -> &Connection {
        self.sim.connection()
    }

    pub fn connection_mut(&mut self) -> &mut Connection {
        self.sim.connection_mut()
    }

    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Begins an object of `size` bytes, all of them readable; returns its id.
    pub fn send(&mut self, size: u64) -> ObjectId {
        self.send_slowly(size, size, u64::MAX)
    }

    /// Begins an object of which `readable` bytes can be read and `credit` may be sent.
    pub fn send_slowly(&mut self, size: u64, readable: u64, credit: u64) -> ObjectId {
        let connection = self.sim.connection_mut();
        let id = connection.allocate_object();
        connection.send_object(id, Some(size), credit);
        connection.set_readable(id, readable);
        self.sending.push((id, size));
        self.done = false;
        id
    }

    /// Waits for object `id`. With a `window`, bytes are taken in order.
    pub fn expect(&mut self, id: ObjectId, size: u64, window: Option<u64>) {
        assert!(self.connection_mut().receive_object(id, Some(size), window));
        self.expected.push(Expected {
            id,
            size,
            window,
            granted: window.unwrap_or(u64::MAX),
        });
        self.done = false;
    }

    /// Waits for that many more control messages.
    pub fn expect_control(&mut self, count: usize) {
        self.control_wanted += count;
        self.done = false;
    }

    fn note_events(&mut self, now: Time) {
        for event in self.sim.take_events() {
            assert!(self.closed.is_none(), "{event:?} after the end");
            match event {
                Event::Connected { .. } => {
                    assert!(self.connected.is_none(), "connected twice");
                    self.connected = Some(now);
                }
                Event::Control(message) => self.control.push(message),
                Event::ObjectComplete(id) => {
                    let told = self.complete.iter().any(|&(other, _)| other == id);
                    assert!(!told, "object {id} was complete before");
                    self.complete.push((id, now));
                }
                Event::PathChanged(_) => self.path_changes += 1,
                Event::Closed(error) => self.closed = Some((now, error)),
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    fn grant_windows(&mut self) {
        for expected in &mut self.expected {
            let Some(window) = expected.window else {
                continue;
            };
            let prefix = self.sim.placed(expected.id).map_or(0, RangeSet::prefix_len);
            // As the session does: in steps.
            if prefix + window >= expected.granted + window / 4 {
                expected.granted = prefix + window;
                let granted = expected.granted;
                self.sim.connection_mut().grant_window(expected.id, granted);
            }
        }
    }

    fn after(&mut self, now: Time) {
        self.note_events(now);
        if self.done {
            return;
        }
        self.grant_windows();
        let connection = self.sim.connection();
        self.done = self.connected.is_some()
            && self.complete.len() == self.expected.len()
            && self.control.len() >= self.control_wanted
            && self
                .sending
                .iter()
                .all(|&(id, size)| connection.acked_bytes(id) == size);
        if self.done {
            self.check_objects();
        }
    }

    /// Every byte of every object was placed, and exactly once.
    fn check_objects(&self) {
        for expected in &self.expected {
            let placed = self.sim.placed(expected.id);
            let bytes = placed.map_or(0, RangeSet::byte_count);
            let prefix = placed.map_or(0, RangeSet::prefix_len);
            assert_eq!(
                (bytes, prefix),
                (expected.size, expected.size),
                "object {}",
                expected.id
            );
        }
    }

    fn check_departure(&mut self, datagram: &Datagram) {
        let len = datagram.wire_len();
        assert!(len as usize <= limits::MAX_DATAGRAM, "{len} bytes");
        self.log.datagrams += 1;
        self.log.bytes += u64::from(len);
        assert!(
            self.validated || self.log.bytes <= self.bytes_in,
            "{} bytes to an address that sent {}",
            self.log.bytes,
            self.bytes_in
        );
        let (header, _) = Header::decode(&datagram.bytes).expect("a header of ours");
        match header {
            Header::Handshake { level, number, .. } => {
                let next = &mut self.log.next_handshake[level.index()];
                assert_eq!(number, *next, "{level:?} packet numbers");
                *next += 1;
            }
            Header::Data {
                phase, number_low, ..
            } => {
                // Strictly ascending numbers: no pair of key and number is used twice. One may be left out.
                let number = expand_packet_number(self.log.next_number, number_low);
                let ahead = number.wrapping_sub(self.log.next_number);
                assert!(ahead <= 1, "data packet numbers: {number}");
                self.log.next_number = number + 1;
                self.log.key_phases += u64::from(phase != self.log.phase);
                self.log.phase = phase;
            }
        }
    }
}

impl Transport for Node {
    fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>) {
        self.bytes_in += arrival.bytes.len() as u64 + u64::from(arrival.absent);
        if !arrival.corrupt
            && let Ok((header, _)) = Header::decode(arrival.bytes)
        {
            self.validated |= matches!(
                header,
                Header::Handshake {
                    level: Level::Handshake,
                    ..
                }
            );
        }
        self.sim.handle_datagram(now, arrival);
        self.after(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.sim.handle_timeout(now);
        self.after(now);
    }

    fn poll_transmit(&mut self, now: Time, max: usize, out: &mut Vec<Datagram>) -> usize {
        let before = out.len();
        let count = self.sim.poll_transmit(now, max, out);
        for datagram in &out[before..] {
            self.check_departure(datagram);
        }
        if let Some(lie) = self.lie {
            for datagram in &mut out[before..] {
                liar::rewrite(datagram, lie);
            }
        }
        if let Some(tap) = &mut self.tap {
            tap.extend(out[before..].iter().cloned());
        }
        self.note_events(now);
        count
    }

    fn poll_timeout(&self) -> Option<(Time, WakeReason)> {
        self.sim.poll_timeout()
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = if self.is_server { "server" } else { "client" };
        let connection = self.connection();
        write!(
            f,
            "{side}: connected {:?}, closed {:?}, complete {}/{}, control {}/{}, rtt {}, wakes {:?}, {}",
            self.connected,
            self.closed,
            self.complete.len(),
            self.expected.len(),
            self.control.len(),
            self.control_wanted,
            connection.rtt(),
            connection.poll_timeout(),
            connection.describe_rate(),
        )?;
        for &(id, size) in &self.sending {
            let (sent, acked) = (connection.sent_end(id), connection.acked_bytes(id));
            write!(f, "\n  sends {id}: {sent} sent, {acked} acked of {size}")?;
        }
        for e in &self.expected {
            let received = connection.received_bytes(e.id);
            write!(f, "\n  expects {}: {received} of {}", e.id, e.size)?;
        }
        write!(f, "\n  {:?}", connection.stats())
    }
}
