//! What to send next.

use super::{Connection, State};
use crate::Policy;
#[cfg(feature = "sim")]
use crate::codec::expand_packet_number;
use crate::codec::{
    COOKIE_LEN, Cookie, Frame, FrameWriter, HANDSHAKE_HEADER_LEN, Header, Level, VERSION,
    data_frame, data_header, limits,
};
use crate::handshake::Side;
use crate::keys::{AeadKey, KeyRing, TAG_LEN};
use crate::objects::NextData;
use crate::sent::{Content, Fate, SentPacket};
use crate::space::HandshakeSpace;
use howdah_core::num::{saturating_u16, saturating_usize};
use howdah_core::{ByteRange, Ecn, ObjectId, Span, Time};
use std::net::SocketAddr;

/// A packet to build: `header` (authenticated), `frames` (sealed), payload of an object (sealed),
/// zeros (sealed), and the tag of [`TAG_LEN`] bytes.
#[derive(Debug)]
pub struct PacketOut<'a> {
    /// Goes out in the clear, as associated data.
    pub header: &'a [u8],
    /// Start of the plaintext.
    pub frames: &'a [u8],
    /// Object bytes that follow.
    pub payload: Option<(ObjectId, ByteRange)>,
    /// Zeros that follow.
    pub padding: usize,
    /// Nonce.
    pub number: u64,
    /// Seals it.
    pub key: &'a AeadKey,
}

impl PacketOut<'_> {
    /// UDP payload bytes of the finished packet.
    pub fn wire_len(&self) -> usize {
        let payload = self
            .payload
            .map_or(0, |(_, range)| saturating_usize(range.len()));
        self.header.len() + self.frames.len() + payload + self.padding + TAG_LEN
    }
}

/// Builds packets.
pub trait PacketSink {
    /// Appends one packet behind those before it.
    fn packet(&mut self, packet: &PacketOut<'_>);
}

/// One or more packets that were built: a train for one address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TransmitInfo {
    /// Where to.
    pub destination: SocketAddr,
    /// Length of each packet, in bytes; the last may be shorter.
    pub segment_size: usize,
    /// Number of packets.
    pub segments: usize,
    /// Length of all, in bytes.
    pub bytes: usize,
    /// ECN field of each packet.
    pub ecn: Ecn,
    /// A probe for the path MTU: if the host refuses it for its size, that is an answer.
    pub is_mtu_probe: bool,
    /// Bytes of objects, which are spread in time ([`Connection::waits_for_more`]).
    pub is_paced: bool,
}

/// Sending the end of everything once more while nobody has confirmed it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    /// Packets from here up are candidates; the walk goes down.
    next: u64,
    floor: u64,
    /// Packets sent before are reported sooner than a second copy would arrive.
    not_before: Time,
    left: u32,
}

/// A handshake packet smaller than this is not worth sending, in UDP payload bytes.
const HANDSHAKE_ROOM_MIN: usize = 100;

/// A challenge of an address, or the answer to one.
const PATH_FRAME_BYTES: usize = 9;

/// Packets remembered behind one that no report names, in windows, and at least.
const REMEMBERED_WINDOWS: u64 = 8;
const REMEMBERED_MIN: u64 = 1 << 14;
/// What is sent to somebody who may be gone: what two round trips and this time hold.
const SILENCE: Span = Span::from_millis(200);

/// Second copies when fewer than so many of half a round trip's packets are likely to be lost: the last packets only.
const TAIL_LOSSES_CLEAN: f64 = 0.25;
const TAIL_PACKETS_CLEAN: u32 = 16;
/// Packets that fill the window with tail repeats at most.
const TAIL_PACKETS_MAX: u32 = 1 << 20;

impl Connection {
    /// Builds the next packets, at most `max_segments` and `max_bytes`. `None`: nothing may leave
    /// now.
    #[must_use]
    pub fn poll_transmit(
        &mut self,
        now: Time,
        max_segments: usize,
        max_bytes: usize,
        sink: &mut impl PacketSink,
    ) -> Option<TransmitInfo> {
        match &mut self.state {
            State::Closed => None,
            State::Closing { copies, left, .. } => {
                if *copies == 0 {
                    return None;
                }
                *copies -= 1;
                *left = left.saturating_sub(1);
                self.close_packet(sink)
            }
            State::Handshaking if self.opening.busy_until.is_some() => None,
            State::Handshaking => self
                .handshake_packet(now, sink)
                .or_else(|| self.flight_again(now, sink))
                .or_else(|| self.train_packets(max_segments, max_bytes, sink))
                .or_else(|| self.train_seen_packet(sink)),
            State::Established => self
                .handshake_packet(now, sink)
                .or_else(|| self.flight_again(now, sink))
                .or_else(|| self.path_packet(now, sink))
                .or_else(|| self.misc_packet(now, sink))
                .or_else(|| self.probe_packet(now, sink))
                .or_else(|| self.data_train(now, max_segments, max_bytes, sink)),
        }
    }

    /// The ECN field with which this data packet of ours left, for drivers that look at packets one by one.
    #[cfg(feature = "sim")]
    pub(crate) fn ecn_of(&self, packet: &[u8]) -> Ecn {
        if !self.heard.marking.has_sent_capable() {
            return Ecn::NotEct;
        }
        let Ok((Header::Data { number_low, .. }, _)) = Header::decode(packet) else {
            return Ecn::NotEct;
        };
        let number = expand_packet_number(self.sent.next_number(), number_low);
        match self.sent.get(number) {
            Some(packet) if packet.capable => Ecn::Ect1,
            _ => Ecn::NotEct,
        }
    }

    pub(super) fn count_sent(&mut self, bytes: usize) {
        self.stats.datagrams_sent += 1;
        self.stats.bytes_sent += bytes as u64;
    }

    pub(super) fn single(destination: SocketAddr, bytes: usize) -> TransmitInfo {
        TransmitInfo {
            destination,
            segment_size: bytes,
            segments: 1,
            bytes,
            ecn: Ecn::NotEct,
            is_mtu_probe: false,
            is_paced: false,
        }
    }

    // ---- Handshake packets -------------------------------------------------------------------

    /// What the server wants to hear again, in front of what is said to it.
    fn cookie_for(&self, level: Level) -> Option<Cookie> {
        let is_asked = level == Level::Initial && !self.opening.peer_id_known;
        self.opening.cookie.filter(|_| is_asked)
    }

    fn handshake_header_len(&self, level: Level) -> usize {
        HANDSHAKE_HEADER_LEN + self.cookie_for(level).map_or(0, |_| COOKIE_LEN)
    }

    /// Builds a handshake packet of these frames, filled up to so many bytes, if there may be one: what was received from an unproved address
    /// bounds what is sent there. Returns its length.
    pub(super) fn seal_handshake(
        &mut self,
        level: Level,
        mut frames: Vec<u8>,
        size: usize,
        sink: &mut impl PacketSink,
    ) -> Option<usize> {
        if size > 0 {
            FrameWriter::new(&mut frames).frame(&Frame::Padding);
        }
        let least = self.handshake_header_len(level) + frames.len() + TAG_LEN;
        let bytes = least.max(size);
        if !self.reach.validated {
            let sent = self.reach.bytes_to_unvalidated + bytes as u64;
            if sent > self.reach.bytes_from_unvalidated {
                return None;
            }
            self.reach.bytes_to_unvalidated = sent;
        }
        let cookie = self.cookie_for(level);
        let space = &mut self.opening.spaces[level.index()];
        let number = space.take_number();
        let header = Header::Handshake {
            level,
            version: VERSION,
            destination: self.ids.remote,
            source: self.ids.local,
            number,
            cookie,
        };
        let mut head = Vec::with_capacity(HANDSHAKE_HEADER_LEN + COOKIE_LEN);
        header.encode(&mut head);
        sink.packet(&PacketOut {
            header: &head,
            frames: &frames,
            payload: None,
            padding: bytes - least,
            number: number.into(),
            key: &space.keys.as_ref()?.local,
        });
        self.count_sent(bytes);
        self.stats.overhead_datagrams_sent += 1;
        self.stats.overhead_bytes_sent += bytes as u64;
        Some(bytes)
    }

    /// Bytes that a handshake packet may have: what was received from an unproved address bounds
    /// what is sent there.
    fn handshake_room(&self) -> usize {
        if self.reach.validated {
            return limits::MIN_DATAGRAM;
        }
        let credit = self
            .reach
            .bytes_from_unvalidated
            .saturating_sub(self.reach.bytes_to_unvalidated);
        limits::MIN_DATAGRAM.min(saturating_usize(credit))
    }

    pub(super) fn handshake_packet(
        &mut self,
        now: Time,
        sink: &mut impl PacketSink,
    ) -> Option<TransmitInfo> {
        let level = crate::space::LEVELS.into_iter().find(|level| {
            let space = &self.opening.spaces[level.index()];
            space.keys.is_some() && (space.has_unsent() || space.ack_due)
        })?;
        let room = self.handshake_room();
        if room < HANDSHAKE_ROOM_MIN {
            return None;
        }
        let room = room - self.handshake_header_len(level) - TAG_LEN;
        let mut frames = Vec::with_capacity(limits::MIN_DATAGRAM);
        let space = &mut self.opening.spaces[level.index()];
        if std::mem::take(&mut space.ack_due) {
            let offset = space.ack_offset();
            FrameWriter::new(&mut frames).frame(&Frame::CryptoAck(offset));
        }
        let used = frames.len() + 8;
        if let Some((offset, bytes)) = space.next_chunk(room - used) {
            FrameWriter::new(&mut frames).frame(&Frame::Crypto { offset, bytes });
            let is_later = self.opening.flight_sent_at.is_none_or(|at| now > at);
            // (The peer answers what comes first, and that is nearly always the first time that it was said.)
            if (is_later && !self.opening.says_twice()) || self.opening.flight_count == 0 {
                self.opening.flight_sent_at = Some(now);
                self.opening.flight_count += 1;
            }
        }
        // A client fills its packets up, so that the server may answer with as many bytes.
        let fills = self.side == Side::Client && level == Level::Initial;
        let size = if fills { limits::MIN_DATAGRAM } else { 0 };
        let bytes = self.seal_handshake(level, frames, size, sink)?;
        if level == Level::Handshake && self.side == Side::Client {
            self.opening.spaces[0] = HandshakeSpace::default();
        }
        Some(Self::single(self.reach.remote, bytes))
    }

    fn close_packet(&mut self, sink: &mut impl PacketSink) -> Option<TransmitInfo> {
        let (code, reason) = self.close_frame.clone();
        let frame = Frame::Close {
            code: code.to_wire(),
            reason: &reason,
        };
        if self.keys.is_some() {
            let mut frames = Vec::new();
            FrameWriter::new(&mut frames).frame(&frame);
            return Some(self.data_packet(
                Time::ZERO,
                self.reach.remote,
                &frames,
                0,
                Content::Passive,
                sink,
            ));
        }
        let level = if self.opening.spaces[1].keys.is_some() {
            Level::Handshake
        } else {
            Level::Initial
        };
        let mut frames = Vec::new();
        FrameWriter::new(&mut frames).frame(&frame);
        let bytes = self.seal_handshake(level, frames, 0, sink)?;
        Some(Self::single(self.reach.remote, bytes))
    }

    // ---- Data packets ------------------------------------------------------------------------

    /// Builds one packet of frames alone.
    fn data_packet(
        &mut self,
        now: Time,
        destination: SocketAddr,
        frames: &[u8],
        padding: usize,
        content: Content,
        sink: &mut impl PacketSink,
    ) -> TransmitInfo {
        let ecn = self.heard.marking.choose(content);
        let bytes = self.push_packet(now, frames, None, padding, content, sink);
        self.stats.overhead_datagrams_sent += 1;
        self.stats.overhead_bytes_sent += bytes as u64;
        TransmitInfo {
            ecn,
            ..Self::single(destination, bytes)
        }
    }

    /// Numbers, remembers and hands over one packet; returns its UDP payload length.
    #[allow(
        clippy::inline_always,
        reason = "what it is given has just been put together, and is slow to move"
    )]
    #[inline(always)]
    fn push_packet(
        &mut self,
        now: Time,
        frames: &[u8],
        payload: Option<(ObjectId, ByteRange)>,
        padding: usize,
        content: Content,
        sink: &mut impl PacketSink,
    ) -> usize {
        if self.trap.takes(self.sent.next_number(), &mut self.trap_rng) {
            self.sent.skip(now, self.stats.bytes_sent);
        }
        let number = self.sent.next_number();
        let keys = self
            .keys
            .as_mut()
            .expect("data packets are built once keys exist");
        let probe_timeout = self.pace.rtt.probe_timeout(Self::max_report_delay());
        let (phase, key) = keys.seal_key(now, number, probe_timeout);
        let header = data_header(phase, self.ids.remote, (number & 0xffff_ffff) as u32);
        let packet = PacketOut {
            header: &header,
            frames,
            payload,
            padding,
            number,
            key,
        };
        let bytes = packet.wire_len();
        sink.packet(&packet);
        self.sent.push(SentPacket {
            time: now,
            sent_before: self.stats.bytes_sent,
            content,
            size: saturating_u16(bytes),
            fate: Fate::Outstanding,
            capable: self.heard.marking.on_sent(),
        });
        self.count_sent(bytes);
        if content != Content::Passive {
            self.alive.last_eliciting_sent_at = self.alive.last_eliciting_sent_at.max(now);
            self.alive.unanswered_since.get_or_insert(now);
        }
        bytes
    }

    /// Path challenges and their answers. What came from an address that is not proved bounds what is sent there.
    fn path_packet(&mut self, now: Time, sink: &mut impl PacketSink) -> Option<TransmitInfo> {
        const BYTES: u64 = (crate::codec::DATA_HEADER_LEN + PATH_FRAME_BYTES + TAG_LEN) as u64;
        let mut frames = Vec::new();
        if let Some((address, token)) = self.reach.response_due.take()
            && self.reach.pays_for(address, BYTES)
        {
            FrameWriter::new(&mut frames).frame(&Frame::PathResponse(token));
            return Some(self.data_packet(now, address, &frames, 0, Content::Probe, sink));
        }
        let challenge = self.reach.challenge.filter(|c| c.due)?;
        if !self.reach.pays_for(challenge.address, BYTES) {
            // The next packet from there may.
            return None;
        }
        FrameWriter::new(&mut frames).frame(&Frame::PathChallenge(challenge.token));
        self.challenge_sent(now, self.pace.rtt.smoothed());
        Some(self.data_packet(now, challenge.address, &frames, 0, Content::Probe, sink))
    }

    /// Reports, confirmations, control bytes, pings: whatever is small, in one packet.
    fn misc_packet(&mut self, now: Time, sink: &mut impl PacketSink) -> Option<TransmitInfo> {
        const ROOM: usize = limits::MIN_DATAGRAM - crate::codec::DATA_HEADER_LEN - TAG_LEN;
        let mut frames = Vec::new();
        let mut content = Content::Passive;
        let mut padding = 0;
        if std::mem::take(&mut self.reporting.ack_due) {
            FrameWriter::new(&mut frames).frame(&Frame::ReportAck {
                newest: self.reporting.last_report_number,
                earlier: self.reporting.ack_bits,
                sparse: self.wants_sparse_reports(now),
            });
        }
        if let Some(report) = self.take_report(now, ROOM - frames.len() - 16) {
            FrameWriter::new(&mut frames).frame(&Frame::Report(Box::new(report)));
        }
        // One thing that may have to be repeated per packet.
        if std::mem::take(&mut self.opening.done_due) {
            FrameWriter::new(&mut frames).frame(&Frame::HandshakeDone);
            content = Content::HandshakeDone;
        } else if self.control_may_leave(now) && frames.len() + 64 < ROOM {
            if let Some(range) = self
                .streams
                .control_tx
                .next_range((ROOM - frames.len() - 24) as u64)
            {
                let mut bytes = Vec::with_capacity(saturating_usize(range.len()));
                self.streams.control_tx.copy(range, &mut bytes);
                let frame = Frame::Control {
                    offset: range.start,
                    bytes: &bytes,
                };
                FrameWriter::new(&mut frames).frame(&frame);
                content = Content::Control(range);
            }
        } else if self.streams.credits.values().any(|&(_, due)| due) && frames.len() + 64 < ROOM {
            for (&object, (window_end, due)) in &mut self.streams.credits {
                if std::mem::take(due) && frames.len() + 32 < ROOM {
                    let frame = Frame::Credit {
                        object,
                        window_end: *window_end,
                    };
                    FrameWriter::new(&mut frames).frame(&frame);
                }
            }
            content = Content::Credit;
        } else if self.alive.pings_due > 0 {
            self.alive.pings_due -= 1;
            FrameWriter::new(&mut frames).frame(&Frame::Ping);
            if std::mem::take(&mut self.alive.ping_pays) && frames.len() < PATH_FRAME_BYTES {
                FrameWriter::new(&mut frames).frame(&Frame::Padding);
                padding = PATH_FRAME_BYTES - frames.len();
            }
            content = Content::Probe;
        }
        if frames.is_empty() {
            return None;
        }
        let info = self.data_packet(now, self.reach.remote, &frames, padding, content, sink);
        if matches!(content, Content::Control(_)) && self.control_counts() {
            let bytes = self.as_of_full_packets(info.bytes as u64);
            self.pace.pacer.charge(bytes);
        }
        Some(info)
    }

    /// Whether control bytes wait for the rate as data does: where the user has set a limit, and where everybody else goes first.
    /// Otherwise they are few, and what they say is waited for.
    fn control_counts(&self) -> bool {
        self.pace.cap.is_some() || matches!(self.config.policy, Policy::Background)
    }

    fn control_may_leave(&mut self, now: Time) -> bool {
        self.streams.control_tx.has_pending()
            && (!self.control_counts() || self.pace.pacer.lets_one(now))
    }

    fn probe_packet(&mut self, now: Time, sink: &mut impl PacketSink) -> Option<TransmitInfo> {
        let probe = self.mtu.next_probe(now)?;
        let mut frames = Vec::new();
        FrameWriter::new(&mut frames).frame(&Frame::Ping);
        FrameWriter::new(&mut frames).frame(&Frame::Padding);
        let overhead = crate::codec::DATA_HEADER_LEN + frames.len() + TAG_LEN;
        let padding = usize::from(probe.size).saturating_sub(overhead);
        let info = self.data_packet(
            now,
            self.reach.remote,
            &frames,
            padding,
            Content::MtuProbe,
            sink,
        );
        Some(TransmitInfo {
            is_mtu_probe: true,
            ..info
        })
    }

    /// Object bytes of a full packet.
    fn max_payload(&self, object: ObjectId) -> u64 {
        let overhead =
            crate::codec::DATA_HEADER_LEN + FrameWriter::data_header_len(object) + TAG_LEN;
        u64::from(self.mtu.current()) - overhead as u64
    }

    fn window_open(&self) -> bool {
        self.sent.bytes_in_flight() < self.pace.rate.window_bytes() && !self.remembers_too_much()
    }

    /// An honest receiver settles every number within a few round trips, lost reports included.
    fn remembers_too_much(&self) -> bool {
        let window = self.pace.rate.window_bytes();
        let remembered = window / u64::from(self.mtu.current()) * REMEMBERED_WINDOWS;
        let remembered = remembered.clamp(REMEMBERED_MIN, limits::MAX_COVERAGE_SPAN / 4);
        self.sent.len() as u64 >= remembered
    }

    /// When room for more comes with time, and not with a report: the window may have become far smaller than what was lost of it.
    pub(super) fn forget_at(&self) -> Option<Time> {
        let settled = self
            .remembers_too_much()
            .then(|| self.sent.oldest_settled())?;
        settled.map(|at| at + self.late_memory() + Span::from_nanos(1))
    }

    /// Whoever is sent to and says nothing for that long may be gone: only probes go on.
    fn is_silent(&mut self, now: Time) -> bool {
        let patience = self.pace.rtt.smoothed() * 2 + SILENCE;
        self.alive.peer_is_silent |= self
            .alive
            .unanswered_since
            .is_some_and(|since| now >= since + patience);
        self.alive.peer_is_silent
    }

    fn has_something_to_send(&self) -> bool {
        self.streams.outgoing.has_data() || self.pace.tail.is_some()
    }

    /// A train waits for nothing but the pacer.
    fn train_waits(&self) -> bool {
        let waits = self.pace.paused || self.alive.peer_is_silent || !self.window_open();
        !waits && self.has_something_to_send()
    }

    /// After a [paced](TransmitInfo::is_paced) train: whether the next one is not worth a call of the host yet, and
    /// [`poll_timeout`](Self::poll_timeout) tells when it is. Who asks again and again instead gives away packet by packet what was earned during
    /// the calls, each of which takes as long as some packets of a fast path.
    pub fn waits_for_more(&mut self, now: Time) -> bool {
        self.train_waits() && !self.pace.pacer.is_worth_another(now)
    }

    /// When the pacer lets the next train go, if one waits.
    pub(super) fn pacing_at(&self) -> Option<Time> {
        let data = self
            .train_waits()
            .then(|| self.pace.pacer.next_train(u64::from(self.mtu.current())));
        // A pause ends with a word, so words are not kept from leaving by it.
        let control = (self.control_counts() && self.streams.control_tx.has_pending())
            .then(|| self.pace.pacer.next_one());
        data.into_iter().chain(control).min()
    }

    /// Nothing is sent now.
    pub(crate) fn rest(&mut self, now: Time) {
        self.pace.pacer.rest(now, u64::from(self.mtu.current()));
    }

    fn data_train(
        &mut self,
        now: Time,
        max_segments: usize,
        max_bytes: usize,
        sink: &mut impl PacketSink,
    ) -> Option<TransmitInfo> {
        if self.pace.paused {
            self.pace.app_limited_below = self.stats.bytes_sent;
            self.rest(now);
            return None;
        }
        self.begin_tail(now);
        if !self.has_something_to_send() {
            // Whatever is delivered of what was sent until now says nothing about the path.
            if self.streams.outgoing.waits_for_source() || !self.streams.outgoing.is_all_sent() {
                self.pace.app_limited_below = self.stats.bytes_sent;
            }
            self.rest(now);
            return None;
        }
        if !self.window_open()
            || self.is_silent(now)
            || self.keys.as_ref().is_none_or(KeyRing::is_exhausted)
        {
            self.pace.pacer.wait();
            return None;
        }
        let full = usize::from(self.mtu.current());
        let budget = saturating_usize(self.pace.pacer.train(now, full as u64));
        let unsent = self.pace.pacer.forgotten();
        self.pace.unsent.on_train(self.stats.bytes_sent, unsent);
        if budget == 0 {
            return None;
        }
        let budget = budget.min(max_bytes).max(full);
        let mut buffer = [0; FrameWriter::MAX_DATA_HEADER];
        let mut info: Option<TransmitInfo> = None;
        let mut ecn = Ecn::NotEct;
        loop {
            let segments = info.map_or(0, |i| i.segments);
            let bytes = info.map_or(0, |i| i.bytes);
            if segments >= max_segments || bytes + full > budget && segments > 0 {
                break;
            }
            let Some(data) = self.next_data() else {
                break;
            };
            let frames = data_frame(&mut buffer, data.object, data.range.start);
            let len = crate::codec::DATA_HEADER_LEN
                + frames.len()
                + saturating_usize(data.range.len())
                + TAG_LEN;
            if info.is_some_and(|i| len > i.segment_size) {
                if !data.repeat {
                    self.streams.outgoing.put_back(data);
                }
                break;
            }
            let content = Content::Data {
                object: data.object,
                range: data.range,
                repeat: data.repeat,
            };
            self.stats.data_bytes_sent += data.range.len();
            self.stats.data_bytes_repeated += if data.again { data.range.len() } else { 0 };
            self.stats.tail_bytes_repeated += if data.repeat { data.range.len() } else { 0 };
            let payload = Some((data.object, data.range));
            if info.is_none() {
                // What one call hands over has one ECN field.
                ecn = self.heard.marking.choose(content);
            }
            let len = self.push_packet(now, frames, payload, 0, content, sink);
            let train = info.get_or_insert(TransmitInfo {
                destination: self.reach.remote,
                segment_size: len,
                segments: 0,
                bytes: 0,
                ecn,
                is_mtu_probe: false,
                is_paced: true,
            });
            train.segments += 1;
            train.bytes += len;
            if len < train.segment_size {
                break;
            }
        }
        let info = info?;
        self.pace.pacer.on_sent(info.bytes as u64);
        Some(info)
    }

    /// New or lost bytes; second copies of the tail when there are none.
    #[allow(
        clippy::inline_always,
        reason = "what it gives has just been put together, and is slow to move"
    )]
    #[inline(always)]
    fn next_data(&mut self) -> Option<NextData> {
        let shortest = ObjectId::new(0);
        let full = self.max_payload(shortest);
        let shorter = FrameWriter::data_header_len(shortest) as u64;
        let max = |object| full + shorter - FrameWriter::data_header_len(object) as u64;
        let data = self.streams.outgoing.next_data(max);
        if data.is_some() {
            self.pace.tail = None;
            return data;
        }
        let tail = self.pace.tail.as_mut()?;
        while tail.next > tail.floor && tail.left > 0 {
            tail.next -= 1;
            let Some(packet) = self.sent.get(tail.next) else {
                break;
            };
            if packet.time < tail.not_before {
                break;
            }
            if let (
                Fate::Outstanding,
                Content::Data {
                    object,
                    range,
                    repeat: false,
                },
            ) = (packet.fate, packet.content)
                && range.len() <= max(object)
                && self.streams.outgoing.wants_repeat(object, range)
            {
                tail.left -= 1;
                return Some(NextData {
                    object,
                    range,
                    again: true,
                    repeat: true,
                });
            }
        }
        // The copies themselves are not copied.
        self.pace.tail = None;
        self.pace.tail_floor = self.sent.next_number();
        None
    }

    /// Everything was sent, but the end of it is not confirmed: the link would idle for a round
    /// trip. Send the newest packets once more. Those older than half a round trip are not worth
    /// it: the report about them comes before their second copy would arrive.
    fn begin_tail(&mut self, now: Time) {
        let next = self.sent.next_number();
        if self.pace.tail.is_some()
            || self.streams.outgoing.has_data()
            || !self.streams.outgoing.is_all_sent()
            || self.pace.tail_floor >= next
        {
            return;
        }
        let half = (self.pace.rtt.smoothed() / 2).max(Span::from_millis(1));
        // Of so many packets, and so large a share of them is lost. (Half a packet more: what has not happened yet may.)
        let tail = self.pace.rate.pacing_rate().bytes_in(half) / u64::from(self.mtu.current());
        let lost = self.heard.lost_packets as f64 + 0.5;
        let lost = lost / (self.heard.acked_packets as f64 + lost);
        self.pace.tail = Some(Tail {
            next,
            floor: self.pace.tail_floor,
            not_before: now - half,
            left: if tail as f64 * lost < TAIL_LOSSES_CLEAN {
                TAIL_PACKETS_CLEAN
            } else {
                TAIL_PACKETS_MAX
            },
        });
        self.pace.tail_floor = next;
    }
}
