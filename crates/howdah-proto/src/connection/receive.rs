//! A datagram comes in.

use super::train::FILLING;
use super::{Connection, Event, PathChallenge, ReportWish, State};
use crate::codec::{
    ConnectionId, DATA_HEADER_LEN, Frame, Header, Level, RetryPacket, VERSION,
    expand_packet_number, frames, leading_data, limits, read_data_header,
};
use crate::error::{CloseCode, ConnectionError, PeerMisbehaved};
use crate::handshake::Side;
use crate::keys::{KeyChoice, TAG_LEN};
use crate::meter::Meter;
use crate::objects::Placed;
use crate::received::Arrived;
use crate::space::HandshakeSpace;
use howdah_core::num::{saturating_u32, saturating_usize};
use howdah_core::{ByteRange, Ecn, ObjectId, Span, Time};
use smallvec::SmallVec;
use std::net::SocketAddr;

/// How a datagram came.
#[derive(Clone, Copy, Debug)]
pub struct Arriving {
    /// From which address.
    pub from: SocketAddr,
    /// When the host received it, which may be before anybody looked at it. Not after `now`.
    pub rx_time: Time,
    /// Its ECN field.
    pub ecn: Ecn,
    /// Bytes that a simulation did not carry along.
    pub absent: u32,
    /// Whether object data can be placed; if not, packets with data count as not received.
    pub accept_data: bool,
}

impl Arriving {
    /// Which bytes of an object came, of which `len` are there.
    fn range(&self, offset: u64, len: usize) -> Result<ByteRange, PeerMisbehaved> {
        let absent = self.absent.saturating_sub(saturating_u32(TAG_LEN));
        let len = len as u64 + u64::from(absent);
        if offset + len > limits::MAX_OFFSET {
            return Err(PeerMisbehaved::DataBeyondEnd);
        }
        Ok(ByteRange::with_len(offset, len))
    }
}

/// A piece of payload and where it belongs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Part {
    /// Where it starts in the datagram.
    pub at: usize,
    /// Which bytes of the object it is.
    pub range: ByteRange,
}

/// What a datagram meant for the driver.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Handled {
    /// Nothing to place.
    Nothing,
    /// Bytes to place; they are decrypted in the datagram's own buffer.
    Data {
        /// Of which object.
        object: ObjectId,
        /// Never overlap with parts given before.
        parts: SmallVec<[Part; 1]>,
    },
    /// It carried data, and `accept_data` was false: it counts as not received.
    Refused,
}

/// A data packet that was opened.
struct Packet<'a> {
    number: u64,
    /// UDP payload bytes.
    wire_len: u64,
    /// Its frames.
    body: &'a [u8],
}

/// What became of an object's bytes.
enum Payload {
    /// The packet counts as received.
    Taken(Handled),
    /// It does not.
    Left(Handled),
}

impl From<Payload> for Handled {
    fn from(payload: Payload) -> Self {
        let (Payload::Taken(handled) | Payload::Left(handled)) = payload;
        handled
    }
}

/// Bytes that a peer may send from an unproved address are answered by at most as many.
pub(super) const MAX_UNVALIDATED_BYTES: u64 = 16 * 1024;

/// Packets that need no report are reported when so many have come.
const MAX_PASSIVE: u32 = 64;

impl Connection {
    /// Takes in one datagram of this connection, decrypting it in place.
    pub fn handle_datagram(
        &mut self,
        now: Time,
        arriving: &Arriving,
        datagram: &mut [u8],
    ) -> Handled {
        self.reporting.is_quiet = false;
        if matches!(self.state, State::Closed) {
            return Handled::Nothing;
        }
        if let Some((phase, number_low)) = read_data_header(datagram) {
            return self.handle_data(now, arriving, datagram, phase, number_low);
        }
        if let Ok(packet) = RetryPacket::decode(datagram) {
            self.handle_door(now, arriving.from, &packet);
            return Handled::Nothing;
        }
        let Ok((header, header_len)) = Header::decode(datagram) else {
            self.stats.datagrams_refused += 1;
            return Handled::Nothing;
        };
        match header {
            Header::Handshake {
                level,
                version,
                source,
                number,
                ..
            } => {
                if version == VERSION && datagram.len() >= header_len + TAG_LEN {
                    let id = (level, number, source);
                    self.handle_handshake(now, arriving, datagram, header_len, id);
                } else {
                    self.stats.datagrams_refused += 1;
                }
                Handled::Nothing
            }
            Header::Data {
                phase, number_low, ..
            } => self.handle_data(now, arriving, datagram, phase, number_low),
        }
    }

    fn handle_handshake(
        &mut self,
        now: Time,
        arriving: &Arriving,
        datagram: &mut [u8],
        header_len: usize,
        (level, number, source): (Level, u32, ConnectionId),
    ) {
        if !self.reach.validated {
            self.reach.bytes_from_unvalidated = (self.reach.bytes_from_unvalidated
                + datagram.len() as u64)
                .min(MAX_UNVALIDATED_BYTES);
        }
        let Some(keys) = &self.opening.spaces[level.index()].keys else {
            return;
        };
        let size = datagram.len();
        let (head, body) = datagram.split_at_mut(header_len);
        let Ok(len) = keys.remote.open(number.into(), head, body) else {
            self.stats.datagrams_refused += 1;
            return;
        };
        if arriving.from != self.reach.remote {
            // A handshake does not move; whoever copies packets to another address gains nothing.
            return;
        }
        self.alive.last_received_at = now;
        if matches!(self.state, State::Closing { .. }) {
            return;
        }
        if self.opening.peer_id_known && source != self.ids.remote {
            return;
        }
        self.ids.remote = source;
        self.opening.peer_id_known = true;
        if level == Level::Handshake && self.side == Side::Server {
            // Anybody can make Initial packets; nobody needs them any more (RFC 9001 4.9.1).
            self.opening.spaces[0] = HandshakeSpace::default();
        }
        let is_of_flight = level == Level::Initial && self.side == Side::Server;
        let fills = is_of_flight && size == FILLING;
        if is_of_flight {
            let train = &mut self.opening.train;
            train.on_packet(number, arriving.rx_time, fills);
        }
        if let Err(offence) = self.on_handshake_frames(now, (level, fills), &body[..len]) {
            self.on_misbehaved(now, offence);
        }
    }

    fn handle_data(
        &mut self,
        now: Time,
        arriving: &Arriving,
        datagram: &mut [u8],
        phase: bool,
        number_low: u32,
    ) -> Handled {
        let was_quiet = self.is_quiet();
        let Some(keys) = &mut self.keys else {
            return Handled::Nothing;
        };
        let expected = self.reporting.received.largest().map_or(0, |n| n + 1);
        let number = expand_packet_number(expected, number_low);
        let Some((choice, key)) = keys.open_key(phase, number) else {
            self.stats.datagrams_refused += 1;
            return Handled::Nothing;
        };
        let wire_len = datagram.len() as u64 + u64::from(arriving.absent);
        let (head, sealed) = datagram.split_at_mut(DATA_HEADER_LEN);
        let Ok(body_len) = key.open(number, head, sealed) else {
            self.stats.datagrams_refused += 1;
            if keys.on_open_failed() {
                self.die(ConnectionError::IntegrityLimit);
            }
            return Handled::Nothing;
        };
        let body = &sealed[..body_len];
        // The packet is genuine from here on.
        if let State::Closing { copies, left, .. } = &mut self.state {
            // The peer has not heard the end yet: say it once more.
            self.alive.last_received_at = now;
            *copies = (*copies).max(1).min(*left);
            return Handled::Nothing;
        }
        if !self.reporting.received.is_new(number) {
            // Anybody on the way can make copies: they do not prove that the peer is there.
            let _ = self
                .reporting
                .received
                .insert(arriving.rx_time, number, wire_len);
            return Handled::Nothing;
        }
        self.alive.last_received_at = now;
        self.alive.unanswered_since = None;
        self.alive.peer_is_silent = false;
        let next_to_seal = self.sent.next_number();
        if !keys.on_opened(now, choice, number, next_to_seal) {
            self.on_misbehaved(now, PeerMisbehaved::EarlyKeyUpdate);
            return Handled::Nothing;
        }
        if arriving.from != self.reach.remote {
            self.reach.heard_elsewhere(arriving.from, wire_len);
            if number >= expected {
                self.on_new_address(now, arriving.from);
            }
        }
        self.on_handshake_confirmed();
        let packet = Packet {
            number,
            wire_len,
            body,
        };
        let Some(data) = leading_data(body) else {
            let handled = self.on_data_frames(now, arriving, &packet);
            return handled.unwrap_or_else(|offence| self.offended(now, offence));
        };
        match self.on_data_only(now, arriving, &packet, data) {
            Ok(handled) => {
                let same_keys = choice == KeyChoice::Current;
                self.reporting.is_quiet = was_quiet && same_keys && self.is_quiet();
                handled
            }
            Err(offence) => self.offended(now, offence),
        }
    }

    #[cold]
    fn offended(&mut self, now: Time, offence: PeerMisbehaved) -> Handled {
        self.on_misbehaved(now, offence);
        Handled::Nothing
    }

    /// A packet that is nothing but bytes of an object.
    #[allow(
        clippy::inline_always,
        reason = "nearly every packet that comes is handled here, and what it meant is large to hand back"
    )]
    #[inline(always)]
    fn on_data_only(
        &mut self,
        now: Time,
        arriving: &Arriving,
        packet: &Packet<'_>,
        (object, offset, payload): (ObjectId, u64, &[u8]),
    ) -> Result<Handled, PeerMisbehaved> {
        let data = (object, offset, payload.len());
        if let Some(part) = self.on_next_bytes(arriving, packet, data)? {
            self.on_arrived(arriving, packet, true)?;
            // Put together where it is handed over: what was written a moment ago is slow to move.
            let parts = SmallVec::from_buf([part]);
            return Ok(Handled::Data { object, parts });
        }
        let payload = self.on_payload(now, arriving, packet, data)?;
        if matches!(payload, Payload::Taken(_)) {
            self.on_arrived(arriving, packet, true)?;
        }
        Ok(payload.into())
    }

    /// Bytes that lie behind all that came of their object so far, as most do, are to be written whole. `None`: it is not that easy,
    /// and nothing has happened.
    #[allow(
        clippy::inline_always,
        reason = "nearly every packet that comes is handled here, and what it meant is large to hand back"
    )]
    #[inline(always)]
    fn on_next_bytes(
        &mut self,
        arriving: &Arriving,
        packet: &Packet<'_>,
        (object, offset, len): (ObjectId, u64, usize),
    ) -> Result<Option<Part>, PeerMisbehaved> {
        let range = arriving.range(offset, len)?;
        if !arriving.accept_data || self.taking.meter.is_some() {
            return Ok(None);
        }
        if !self.streams.incoming.place_behind(object, range)? {
            return Ok(None);
        }
        self.stats.data_bytes_received += range.len();
        let at = DATA_HEADER_LEN + packet.body.len() - len;
        Ok(Some(Part { at, range }))
    }

    /// The packet counts as received.
    #[allow(
        clippy::inline_always,
        reason = "nearly every packet that comes is handled here, and what it meant is large to hand back"
    )]
    #[inline(always)]
    fn on_arrived(
        &mut self,
        arriving: &Arriving,
        packet: &Packet<'_>,
        eliciting: bool,
    ) -> Result<(), PeerMisbehaved> {
        let received = &mut self.reporting.received;
        if received.insert(arriving.rx_time, packet.number, packet.wire_len)? == Arrived::New {
            received.count_ecn(arriving.ecn);
            self.wish_report(arriving.rx_time, eliciting);
        }
        self.tell_complete();
        Ok(())
    }

    /// Bytes of an object came: `len` of them in the packet, and what a simulation leaves out.
    fn on_payload(
        &mut self,
        now: Time,
        arriving: &Arriving,
        packet: &Packet<'_>,
        (object, offset, len): (ObjectId, u64, usize),
    ) -> Result<Payload, PeerMisbehaved> {
        let at = DATA_HEADER_LEN + packet.body.len() - len;
        let range = arriving.range(offset, len)?;
        let metered = |meter: &mut Meter| meter.admit(now, packet.wire_len);
        if !arriving.accept_data || !self.taking.meter.as_mut().is_none_or(metered) {
            self.taking.sink_drops += 1;
            self.stats.data_packets_without_room += u64::from(!arriving.accept_data);
            // The sender must hear that the sink is full.
            self.wish_report(arriving.rx_time, true);
            return Ok(Payload::Left(Handled::Refused));
        }
        if let Some(parts) = self.place_from(object, range, at)? {
            return Ok(Payload::Taken(if parts.is_empty() {
                Handled::Nothing
            } else {
                Handled::Data { object, parts }
            }));
        }
        let bytes = &packet.body[packet.body.len() - len..];
        let is_whole = range.len() == len as u64;
        Ok(
            if is_whole && self.streams.early.keep(object, range, bytes) {
                Payload::Taken(Handled::Nothing)
            } else {
                Payload::Left(Handled::Nothing)
            },
        )
    }

    /// Notes that these bytes have come, which stand from `at` on: which of them are to be placed, and none if they were there. `None` if their object is not open yet.
    pub(super) fn place_from(
        &mut self,
        object: ObjectId,
        range: ByteRange,
        at: usize,
    ) -> Result<Option<SmallVec<[Part; 1]>>, PeerMisbehaved> {
        let ranges = match self.streams.incoming.place(object, range)? {
            Placed::Unknown => return Ok(None),
            Placed::Duplicate => SmallVec::new(),
            Placed::Write(ranges) => ranges,
        };
        let new: u64 = ranges.iter().map(|r| r.len()).sum();
        self.stats.data_bytes_received += new;
        self.stats.data_bytes_duplicate += range.len() - new;
        let part = |fresh: ByteRange| Part {
            at: at + saturating_usize(fresh.start - range.start),
            range: fresh,
        };
        Ok(Some(ranges.into_iter().map(part).collect()))
    }

    fn on_data_frames(
        &mut self,
        now: Time,
        arriving: &Arriving,
        packet: &Packet<'_>,
    ) -> Result<Handled, PeerMisbehaved> {
        let mut handled = Handled::Nothing;
        let mut eliciting = false;
        let (mut reports, mut confirmations) = (0, 0);
        let mut iter = frames(packet.body);
        while let Some(frame) = iter.next() {
            let frame = frame?;
            eliciting |= frame.is_ack_eliciting();
            reports += u32::from(matches!(frame, Frame::Report(_)));
            confirmations += u32::from(matches!(frame, Frame::ReportAck { .. }));
            if reports > 1 || confirmations > 1 {
                return Err(PeerMisbehaved::Repetitious);
            }
            match frame {
                Frame::Padding => break,
                Frame::Ping => {
                    self.reporting.wish = ReportWish::Now;
                    self.reporting.received.sample_again();
                }
                Frame::Report(report) => self.on_report(now, &report)?,
                Frame::ReportAck {
                    newest,
                    earlier,
                    sparse,
                } => self.on_report_ack(now, newest, earlier, sparse),
                Frame::Control { offset, bytes } => {
                    self.streams.control_rx.on_bytes(offset, bytes)?;
                    while let Some(message) = self.streams.control_rx.next_message()? {
                        self.events.push_back(Event::Control(message));
                    }
                }
                Frame::Data { object, offset } => {
                    let data = (object, offset, iter.rest().len());
                    match self.on_payload(now, arriving, packet, data)? {
                        Payload::Left(left) => return Ok(left),
                        Payload::Taken(taken) => handled = taken,
                    }
                }
                Frame::PathChallenge(token) => {
                    self.reach.response_due = Some((arriving.from, token));
                }
                Frame::PathResponse(token) => self.on_path_response(token),
                Frame::Close { code, reason } => {
                    self.on_close_frame(code, reason);
                    return Ok(handled);
                }
                Frame::HandshakeDone => {}
                Frame::Credit { object, window_end } => {
                    self.streams.outgoing.on_credit(object, window_end);
                }
                Frame::Crypto { .. } | Frame::CryptoAck(_) | Frame::Train(_) => {
                    return Err(PeerMisbehaved::MisplacedFrame);
                }
            }
        }
        self.on_arrived(arriving, packet, eliciting)?;
        Ok(handled)
    }

    /// Whether bytes of objects are what is reported sooner or later, and there is nothing else that one more of them could set off.
    fn is_quiet(&self) -> bool {
        self.reporting.wish == ReportWish::Eliciting
            && self.reach.challenge.is_none()
            && !self.alive.peer_is_silent
            && self.handshake_is_settled()
    }

    fn wish_report(&mut self, at: Time, eliciting: bool) {
        self.reporting.passive_received += u32::from(!eliciting);
        let wanted = eliciting || self.reporting.passive_received >= MAX_PASSIVE;
        if wanted && self.reporting.wish == ReportWish::None {
            self.reporting.wish = ReportWish::Eliciting;
            self.reporting.wished_at = at;
        }
    }

    pub(super) fn on_close_frame(&mut self, code: u16, reason: &str) {
        let code = CloseCode::from_wire(code);
        let reason = reason.chars().filter(|c| !c.is_control()).collect();
        self.die(ConnectionError::ClosedByPeer { code, reason });
    }

    /// A genuine packet came from another address: find out whether the peer receives there.
    fn on_new_address(&mut self, now: Time, from: SocketAddr) {
        if let Some(challenge) = self.reach.challenge.as_mut().filter(|c| c.address == from) {
            // A packet from there pays for asking again.
            challenge.due |= now >= challenge.next_at;
            return;
        }
        self.reach.challenge = Some(PathChallenge {
            address: from,
            token: rand::Rng::next_u64(&mut self.rng),
            due: true,
            next_at: now,
        });
    }

    fn on_path_response(&mut self, token: u64) {
        if let Some(challenge) = self.reach.challenge
            && challenge.token == token
        {
            self.reach.challenge = None;
            self.reach.remote = challenge.address;
            self.events.push_back(Event::PathChanged(challenge.address));
        }
    }

    pub(super) fn challenge_sent(&mut self, now: Time, rtt: Span) {
        if let Some(challenge) = &mut self.reach.challenge {
            challenge.due = false;
            challenge.next_at = now + (rtt * 2).max(Span::from_millis(50));
        }
    }
}
