//! One connection: everything that two hosts know about each other.

mod early;
mod feedback;
mod handshaking;
mod pace;
mod parts;
mod receive;
mod stats;
mod timers;
mod train;
mod transmit;

#[cfg(test)]
mod tests;

pub use receive::{Arriving, Handled, Part};
pub use stats::Stats;
pub use transmit::{PacketOut, PacketSink, TransmitInfo};

use self::parts::{Alive, Heard, Opening, Pace, Reach, Reporting, Streams, Taking};
use crate::codec::{ConnectionId, SinkState, limits};
use crate::config::{Config, Parameters};
use crate::error::{CloseCode, ConnectionError, PeerMisbehaved};
use crate::handshake::{Handshake, HandshakeError, Side};
use crate::keys::KeyRing;
use crate::meter::Meter;
use crate::pmtud::PathMtu;
use crate::sent::SentPackets;
use crate::space::Ids;
use crate::trap::{Trap, left_out_of};
use howdah_core::num::{floor_to_u64, saturating_u16};
use howdah_core::{ByteRange, ObjectId, RangeSet, Rate, Span, Time};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// What happened inside a connection.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// Both sides have proved who they are.
    Connected {
        /// The peer's `SubjectPublicKeyInfo` in DER; empty in a simulation.
        peer_key: Vec<u8>,
    },
    /// A control message.
    Control(Vec<u8>),
    /// Every byte of an incoming object has arrived.
    ObjectComplete(ObjectId),
    /// The peer is reached at another address.
    PathChanged(SocketAddr),
    /// The server has no room now; it is asked again after that long.
    Busy(Span),
    /// The connection is over; nothing follows.
    Closed(ConnectionError),
}

/// What keeps a sender from sending faster.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum SendLimit {
    /// Nothing is ready to be sent.
    Source,
    /// The receiver's sink cannot take more.
    Sink,
    /// The network, or this host.
    Path,
}

/// Which end of the connection to be.
#[derive(Clone, Copy, Debug)]
pub enum Role {
    /// Opens it.
    Client,
    /// Answers a first packet with this destination id.
    Server {
        /// The id that the client made up.
        first_destination: ConnectionId,
        /// The client's own id.
        client: ConnectionId,
    },
}

#[derive(Debug)]
enum State {
    Handshaking,
    Established,
    /// The end is being told.
    Closing {
        /// Times to tell it now.
        copies: u8,
        /// Times that it may be told in all.
        left: u8,
        /// Then it is forgotten.
        until: Time,
    },
    Closed,
}

/// What this side owes the peer a report for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ReportWish {
    None,
    /// Packets that must be reported came.
    Eliciting,
    /// Somebody waits.
    Now,
}

/// One connection. See the crate's documentation for how to drive it.
#[derive(Debug)]
pub struct Connection {
    side: Side,
    config: Config,
    state: State,
    ids: Ids,
    first_destination: ConnectionId,
    rng: ChaCha8Rng,
    events: VecDeque<Event>,
    closed_by: Option<ConnectionError>,
    close_frame: (CloseCode, String),
    opening: Opening,
    reach: Reach,
    keys: Option<KeyRing>,
    sent: SentPackets,
    trap: Trap,
    trap_rng: ChaCha8Rng,
    streams: Streams,
    taking: Taking,
    reporting: Reporting,
    heard: Heard,
    pace: Pace,
    mtu: PathMtu,
    alive: Alive,
    stats: Stats,
}

/// A closed connection answers the peer's packets for three round trips, but not for longer.
const CLOSE_LINGER_MAX: Span = Span::from_secs(1);
const CLOSE_COPIES_MAX: u8 = 10;
/// How much longer it waits for a chance to tell the end once.
const CLOSE_TOLD_WITHIN: Span = Span::from_secs(5);
/// A queue at the sink that fills is told of at once at each of so many steps of it, from that share on.
const SINK_STEPS: f64 = 8.0;
const SINK_TOLD_FROM: f64 = 0.5;
/// Answers of "nobody listens" that end the attempt: the datagrams of two flights.
const MAX_UNREACHABLE: u8 = 3;

/// A new address that the peer may have.
#[derive(Clone, Copy, Debug)]
struct PathChallenge {
    address: SocketAddr,
    token: u64,
    due: bool,
    next_at: Time,
}

impl Connection {
    /// A new connection with the peer at `remote`. `local_id` is how this side wants to be
    /// called; `seed` feeds the randomness that is not secret.
    ///
    /// # Errors
    /// [`ConnectionError::Handshake`] if TLS cannot begin. There is no other kind of connection to
    /// fall back to: the security is that of `config`, or there is no connection.
    pub fn new(
        now: Time,
        role: Role,
        config: Config,
        local_id: ConnectionId,
        remote: SocketAddr,
        seed: u64,
    ) -> Result<Self, ConnectionError> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut trap_rng = rng.clone();
        trap_rng.set_stream(2);
        let (side, first_destination, remote_id) = match role {
            Role::Client => {
                let drawn = ConnectionId(rng.next_u64());
                let first = config
                    .knock
                    .map_or(drawn, |key| key.first_destination(local_id));
                (Side::Client, first, first)
            }
            Role::Server {
                first_destination,
                client,
            } => (Side::Server, first_destination, client),
        };
        let parameters = Parameters {
            max_datagram: config.max_datagram,
            idle_timeout_ms: config.idle_timeout.as_millis(),
            counts_marks: config.ecn,
            thins_reports: true,
        };
        let handshake = Handshake::new(&config.security, side, parameters.encode()).map_err(
            |error| match error {
                HandshakeError::KeyRefused => ConnectionError::PeerKeyRefused,
                HandshakeError::Tls(text) => ConnectionError::Handshake(text),
            },
        )?;
        let mut connection = Self {
            side,
            state: State::Handshaking,
            ids: Ids {
                local: local_id,
                remote: remote_id,
            },
            first_destination,
            rng,
            trap: Trap::new(&mut trap_rng),
            trap_rng,
            events: VecDeque::new(),
            closed_by: None,
            close_frame: (CloseCode::Done, String::new()),
            opening: Opening::new(handshake, side, now),
            reach: Reach::new(remote, side),
            keys: None,
            sent: SentPackets::default(),
            streams: Streams::new(side),
            taking: Taking::default(),
            reporting: Reporting::new(),
            heard: Heard::default(),
            pace: Pace::new(config.policy, config.share),
            mtu: PathMtu::new(),
            alive: Alive::new(now),
            stats: Stats::default(),
            config,
        };
        connection.opening.spaces[0].keys = Some(Handshake::initial_keys(
            &connection.config.security,
            first_destination,
            side,
        ));
        connection.advance_handshake(now);
        Ok(connection)
    }

    /// The id that this side wants to be called by.
    pub fn local_id(&self) -> ConnectionId {
        self.ids.local
    }

    /// The id that the client made up for its first packets.
    pub fn first_destination(&self) -> ConnectionId {
        self.first_destination
    }

    /// Where the peer is.
    pub fn remote(&self) -> SocketAddr {
        self.reach.remote
    }

    /// When the last packet came that the peer had sealed; at first, when the connection began.
    pub fn last_received_at(&self) -> Time {
        self.alive.last_received_at
    }

    /// Whether both sides have proved who they are.
    pub fn is_established(&self) -> bool {
        matches!(self.state, State::Established)
    }

    /// Whether the peer has shown that it receives at its address.
    pub fn is_address_validated(&self) -> bool {
        self.reach.validated
    }

    /// The peer has shown otherwise that it receives at its address: with a cookie.
    pub fn validate_address(&mut self) {
        self.reach.validated = true;
    }

    /// Whether the datagram that brought this connection about turned out to be none of ours.
    pub fn is_stillborn(&self) -> bool {
        self.side == Side::Server
            && self.stats.datagrams_refused > 0
            && self.stats.datagrams_sent == 0
            && self
                .opening
                .spaces
                .iter()
                .all(|space| space.ack_offset() == 0)
    }

    /// Whether nothing more will be sent or received.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    // ---- Application calls -------------------------------------------------------------------

    /// Queues a control message, at most [`limits::MAX_CONTROL_MESSAGE`] bytes.
    ///
    /// # Panics
    /// If the message is longer.
    pub fn send_control(&mut self, message: &[u8]) {
        assert!(
            message.len() <= limits::MAX_CONTROL_MESSAGE,
            "control message too long"
        );
        self.streams.control_tx.push_message(message);
    }

    /// Bytes of control messages that the peer has not confirmed.
    pub fn control_backlog(&self) -> usize {
        self.streams.control_tx.backlog()
    }

    /// An id for an object to send; the peer must be told of it by a control message.
    pub fn allocate_object(&mut self) -> ObjectId {
        let id = self.streams.next_object;
        self.streams.next_object = ObjectId::new(id.get() + 2);
        id
    }

    /// Begins to send object `id`. Bytes below `credit_end` may be sent at once, others wait for
    /// the receiver; an unordered sink takes everything (`u64::MAX`).
    pub fn send_object(&mut self, id: ObjectId, size: Option<u64>, credit_end: u64) {
        self.streams.outgoing.open(id, size, credit_end);
    }

    /// Bytes of `id` below `end` can be read now.
    pub fn set_readable(&mut self, id: ObjectId, end: u64) {
        self.streams.outgoing.set_ready(id, end);
    }

    /// The size of an outgoing object is known now.
    pub fn set_outgoing_size(&mut self, id: ObjectId, size: u64) {
        self.streams.outgoing.set_size(id, size);
    }

    /// The receiver has these bytes of `id` from elsewhere: they count as confirmed and are not sent.
    pub fn skip_sending(&mut self, id: ObjectId, ranges: &RangeSet) {
        self.streams.outgoing.skip(id, ranges);
    }

    /// Nobody else brings these bytes of `id`, which were [skipped](Self::skip_sending): they are sent after all.
    pub fn send_after_all(&mut self, id: ObjectId, range: ByteRange) {
        self.streams.outgoing.unskip(id, range);
    }

    /// Stops sending that object, done or not.
    pub fn finish_sending(&mut self, id: ObjectId) {
        self.streams.outgoing.close(id);
    }

    /// One past the last byte of `id` that was sent.
    pub fn sent_end(&self, id: ObjectId) -> u64 {
        self.streams.outgoing.sent_end(id).unwrap_or(0)
    }

    /// Bytes of `id` that are known to have arrived.
    pub fn acked_bytes(&self, id: ObjectId) -> u64 {
        self.streams.outgoing.acked_bytes(id)
    }

    /// Every byte of `id` below that offset is known to have arrived.
    pub fn acked_prefix(&self, id: ObjectId) -> u64 {
        self.streams.outgoing.acked_prefix(id)
    }

    /// Expects object `id`. Returns false if too many are open, if no object may be so large, or if the peer may not use that id:
    /// a client's are even, a server's are odd, they ascend, and each is of one object.
    pub fn receive_object(
        &mut self,
        id: ObjectId,
        size: Option<u64>,
        window_end: Option<u64>,
    ) -> bool {
        let peers_parity = u64::from(self.side == Side::Client);
        if id.get() % 2 != peers_parity || id.get() >= limits::MAX_OFFSET {
            return false;
        }
        let limit = window_end.unwrap_or(limits::MAX_OFFSET);
        let is_open = self.streams.incoming.open(id, size, limit);
        // An empty object is complete at once.
        self.tell_complete();
        is_open
    }

    /// These bytes of `id` are there from elsewhere and need not come.
    pub fn note_present(&mut self, id: ObjectId, ranges: &RangeSet) {
        self.streams.incoming.note_present(id, ranges);
        self.tell_complete();
    }

    /// The size of an incoming object is known now. Returns false if it contradicts what has
    /// arrived or was said before.
    #[must_use]
    pub fn set_incoming_size(&mut self, id: ObjectId, size: u64) -> bool {
        let fits = self.streams.incoming.set_size(id, size);
        self.tell_complete();
        fits
    }

    /// Bytes of `id` below `window_end` may come now (ordered sinks).
    pub fn grant_window(&mut self, id: ObjectId, window_end: u64) {
        self.streams.incoming.set_limit(id, window_end);
        self.streams.credits.insert(id, (window_end, true));
    }

    /// Forgets an incoming object.
    pub fn finish_receiving(&mut self, id: ObjectId) {
        self.streams.incoming.close(id);
        self.streams.early.forget(id);
        self.streams.credits.remove(&id);
    }

    /// Bytes of an object that came before [`receive_object`](Self::receive_object): poll after that, until `None`. They are to be placed like those of
    /// [`Handled::Data`](crate::Handled::Data), and stand in a buffer of their own.
    #[must_use]
    pub fn poll_early(&mut self, now: Time) -> Option<(ObjectId, Vec<u8>, SmallVec<[Part; 1]>)> {
        if self.streams.early.is_empty() {
            return None;
        }
        let mut known = self.streams.early.objects();
        let object = known.find(|&id| self.streams.incoming.is_known(id))?;
        drop(known);
        let (range, bytes) = self.streams.early.take(object)?;
        match self.place_from(object, range, 0) {
            Ok(parts) => {
                self.tell_complete();
                Some((object, bytes, parts.unwrap_or_default()))
            }
            Err(offence) => {
                self.on_misbehaved(now, offence);
                None
            }
        }
    }

    /// Bytes of `id` that have arrived.
    pub fn received_bytes(&self, id: ObjectId) -> u64 {
        self.streams.incoming.received_bytes(id)
    }

    /// About how much memory it takes because of what its peer has sent, or has not confirmed: what is at rest takes next to none.
    pub fn kept_bytes(&self) -> usize {
        let streams = &self.streams;
        let controls = streams.control_rx.kept_bytes() + streams.control_tx.backlog();
        let data = streams.early.kept_bytes() + streams.incoming.kept_bytes();
        controls + data + self.reporting.received.kept_bytes()
    }

    /// State of the sink, told to the sender with each report; soon, if its queue fills.
    pub fn set_sink_state(&mut self, sink: SinkState) {
        let steps = |sink: SinkState| floor_to_u64(sink.fill() * SINK_STEPS);
        let (before, now) = (self.taking.sink.map_or(0, steps), steps(sink));
        if now > before && sink.fill() >= SINK_TOLD_FROM {
            self.reporting.wish = ReportWish::Now;
        }
        self.taking.sink = Some(sink);
    }

    /// Share of the sink's queue that is filled, from 0 to 1, as this side's sender is told; `None` before it was told anything.
    pub fn sink_fill(&self) -> Option<f64> {
        self.taking.sink.map(|sink| sink.fill())
    }

    /// Takes in no more data than that, whatever the peer sends; it hears of it as of a slow sink.
    pub fn set_receive_cap(&mut self, now: Time, cap: Option<Rate>) {
        let meter = self.taking.meter.take();
        self.taking.meter = cap.map(|cap| match meter {
            Some(meter) => meter.with_cap(now, cap),
            None => Meter::new(now, cap),
        });
    }

    /// Datagrams dropped by this side's socket since the beginning.
    pub fn set_socket_drops(&mut self, drops: u64) {
        self.taking.socket_drops = drops;
    }

    /// The host refuses to send these packets for their size.
    pub fn on_datagram_too_big(&mut self, now: Time, refused: &TransmitInfo) {
        self.reach.too_big.0 += refused.segments as u64;
        self.reach.too_big.1 += refused.bytes as u64;
        self.mtu
            .on_size_fails(now, saturating_u16(refused.segment_size));
    }

    /// The network says that nobody listens at the peer's address (ICMP port unreachable). Such a
    /// message can be forged, so it counts only while there is no connection yet, and not the first
    /// time.
    pub fn on_unreachable(&mut self) {
        if matches!(self.state, State::Handshaking) && self.side == Side::Client {
            self.opening.unreachable += 1;
            if self.opening.unreachable >= MAX_UNREACHABLE {
                self.die(ConnectionError::Unreachable);
            }
        }
    }

    /// Ends the connection and tells the peer why.
    pub fn close(&mut self, now: Time, code: CloseCode, reason: &str) {
        self.close_with(now, code, reason, ConnectionError::ClosedLocally);
    }

    fn close_with(&mut self, now: Time, code: CloseCode, reason: &str, error: ConnectionError) {
        if matches!(self.state, State::Closing { .. } | State::Closed) {
            return;
        }
        self.close_frame = (code, reason.to_owned());
        self.closed_by = Some(error);
        let linger = (self.pace.rtt.smoothed() * 3).min(CLOSE_LINGER_MAX);
        self.state = State::Closing {
            copies: 2,
            left: CLOSE_COPIES_MAX,
            until: now + linger,
        };
        self.alive.last_received_at = now;
    }

    /// Ends the connection without another word.
    fn die(&mut self, error: ConnectionError) {
        if !matches!(self.state, State::Closed) {
            self.state = State::Closed;
            self.events.push_back(Event::Closed(error));
        }
    }

    fn on_misbehaved(&mut self, now: Time, offence: PeerMisbehaved) {
        self.close_with(
            now,
            CloseCode::Protocol,
            &format!("the peer {offence}"),
            ConnectionError::PeerMisbehaved(offence),
        );
    }

    fn on_handshake_error(&mut self, now: Time, error: &HandshakeError) {
        match error {
            HandshakeError::KeyRefused => self.close_with(
                now,
                CloseCode::Unauthorized,
                "key not accepted",
                ConnectionError::PeerKeyRefused,
            ),
            HandshakeError::Tls(text) => self.close_with(
                now,
                CloseCode::Handshake,
                text,
                ConnectionError::Handshake(text.clone()),
            ),
        }
    }

    fn tell_complete(&mut self) {
        while let Some(id) = self.streams.incoming.take_complete() {
            self.reporting.wish = ReportWish::Now;
            self.events.push_back(Event::ObjectComplete(id));
        }
    }

    /// The next event. Poll after every call that may change something, until `None`.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// What keeps this side from sending faster.
    pub fn send_limit(&self) -> SendLimit {
        if self.streams.outgoing.waits_for_source() {
            SendLimit::Source
        } else if self.heard.sink_limited {
            SendLimit::Sink
        } else {
            SendLimit::Path
        }
    }

    /// Smoothed round-trip time.
    pub fn rtt(&self) -> Span {
        self.pace.rtt.smoothed()
    }

    /// UDP payload bytes of a full packet.
    pub fn datagram_size(&self) -> u16 {
        self.mtu.current()
    }

    /// Counters and estimates.
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats;
        let (datagrams, bytes) = self.reach.too_big;
        stats.datagrams_sent = stats.datagrams_sent.saturating_sub(datagrams);
        stats.bytes_sent = stats.bytes_sent.saturating_sub(bytes);
        stats.rtt = self.pace.rtt.smoothed();
        stats.rtt_latest = self.pace.rtt.latest();
        stats.rtt_min = self.pace.rtt.min_ever();
        stats.datagram_size = self.mtu.current();
        stats.pacing_rate = self.pace.pacer.rate();
        stats.delivery_rate = self.pace.rate.delivery_rate();
        stats.capacity = self.pace.rate.capacity();
        stats.queue_delay = self.pace.rate.queue_delay();
        stats.recent_loss = self.pace.rate.loss();
        stats.reported_at = self.alive.last_feedback_at;
        stats.packets_acked = self.heard.acked_packets;
        stats.bytes_acked = self.sent.acked_bytes();
        stats.packets_lost = self.heard.lost_packets;
        stats.peer_socket_drops = self.heard.peer_socket.told();
        stats.packets_received = self.reporting.received.packets();
        stats.bytes_received = self.reporting.received.bytes();
        let numbers = self.reporting.received.largest().map_or(0, |n| n + 1);
        stats.packets_numbered_by_peer = numbers - left_out_of(numbers);
        stats.duplicates_received = self.reporting.received.duplicates();
        stats.reorder_window = self.reporting.received.reorder_window();
        stats.key_updates = self.keys.as_ref().map_or(0, KeyRing::updates);
        stats.black_holes = self.mtu.black_holes();
        stats.bytes_in_flight = self.sent.bytes_in_flight();
        stats.packets_remembered = self.sent.len() as u64;
        stats.in_startup = self.pace.rate.phase() == crate::rate::Phase::Startup;
        stats.breaker_tripped = self.pace.rate.breaker_tripped();
        stats.ecn = self.heard.marking.state();
        stats.packets_marked = self.heard.marking.marked();
        stats
    }

    /// The rate policy that is in force.
    pub fn policy(&self) -> crate::Policy {
        self.pace.rate.policy()
    }

    /// One line about the rate control, for traces.
    pub fn describe_rate(&self) -> String {
        self.pace.rate.describe()
    }
}
