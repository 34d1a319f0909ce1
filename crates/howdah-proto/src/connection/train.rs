//! A train of packets in the first flight of a client that is about to send much: how it is spread when it arrives is known when the handshake
//! is over, a round trip before any report of data could be. It says the hello again and again, and the flights after it are said twice, so that a
//! lost packet costs nothing (docs/protocol.md, section 6.8).

use super::Connection;
use super::transmit::{PacketOut, PacketSink, TransmitInfo};
use crate::codec::{Frame, FrameWriter, Header, Level, TrainSeen, limits};
use crate::handshake::Side;
use crate::keys::TAG_LEN;
use crate::rate::TrainPoint;
use howdah_core::{Span, Time};

/// UDP payload bytes of a packet that only fills the train: one less than a first packet has, so that no server takes one for a stranger's.
pub(super) const FILLING: usize = limits::MIN_DATAGRAM - 1;
/// Type, offset and length of a CRYPTO frame, and a PADDING.
const FRAMES_LEN: usize = 1 + 4 + 4 + 1;
/// The server tells when so many could have come, and again after each so many more: what it tells may be lost, and so may the last ones.
const TOLD_FROM: u32 = 18;
const TOLD_EACH: u32 = 1;
/// Less of it came, and it shows nothing.
const WHOLE: f64 = 0.75;

/// Of a server: what has come. Of a client: what it was told of that.
#[derive(Debug, Default)]
pub(super) struct Train {
    /// The first packet that came, and the last in the order of their numbers, and when.
    ends: Option<[(u32, Time); 2]>,
    /// By their numbers, those that came.
    came: u32,
    /// Those below are told of.
    told: u32,
    /// The client is to be told of more.
    due: bool,
    seen: Option<TrainSeen>,
    sent_at: Option<Time>,
    /// The flight that has just been said is to be said once more.
    pub(super) twice: bool,
    /// It is being said once more, or was.
    again: bool,
}

impl Train {
    /// An Initial packet; it `fills` the train.
    pub(super) fn on_packet(&mut self, number: u32, rx_time: Time, fills: bool) {
        if number >= limits::MAX_TRAIN || self.came & (1 << number) != 0 {
            return;
        }
        self.came |= 1 << number;
        let at = (number, rx_time);
        let [first, last] = self.ends.unwrap_or([at, at]);
        self.ends = Some([first, if number > last.0 { at } else { last }]);
        let next = (self.told + TOLD_EACH).max(TOLD_FROM);
        let is_last = number + 1 == limits::MAX_TRAIN;
        if fills && (number + 1 >= next || is_last) {
            self.twice |= self.told == 0;
            self.told = number + 1;
            self.due = true;
        }
    }

    pub(super) fn is_said_again(&self) -> bool {
        self.again
    }

    fn seen(&self) -> Option<TrainSeen> {
        let [first, last] = self.ends.filter(|[first, last]| first.0 < last.0)?;
        let came = self.came >> first.0;
        Some(TrainSeen {
            first: first.0,
            last: last.0,
            packets: came.count_ones(),
            rx_time_us: first.1.as_micros(),
            span_us: u32::try_from(last.1.since(first.1).as_micros()).unwrap_or(u32::MAX),
        })
    }
}

impl Connection {
    /// The rest of the first flight, as a train. Nothing of it is ever sent again.
    pub(super) fn train_packets(
        &mut self,
        max_segments: usize,
        max_bytes: usize,
        sink: &mut impl PacketSink,
    ) -> Option<TransmitInfo> {
        let is_first = self.side == Side::Client
            && self.config.train
            && !self.opening.peer_id_known
            && self.opening.cookie.is_none()
            && self.opening.flight_sent_at.is_some()
            && self.opening.flight_retries == 0;
        if !is_first {
            return None;
        }
        let most = max_segments.min(max_bytes / FILLING);
        let room = FILLING - crate::codec::HANDSHAKE_HEADER_LEN - FRAMES_LEN - TAG_LEN;
        let mut segments = 0;
        let mut hello = Vec::with_capacity(room);
        while segments < most && self.opening.spaces[0].numbers() < limits::MAX_TRAIN {
            let space = &mut self.opening.spaces[0];
            if !space.has_unsent() {
                space.rewind();
            }
            let (offset, bytes) = space.next_chunk(room)?;
            hello.clear();
            hello.extend_from_slice(bytes);
            let crypto = Frame::Crypto {
                offset,
                bytes: &hello,
            };
            self.lone_packet(Level::Initial, &crypto, Some(FILLING), sink)?;
            segments += 1;
        }
        self.opening.spaces[0].skip();
        self.opening.train.sent_at = self.opening.flight_sent_at;
        (segments > 0).then(|| TransmitInfo {
            segment_size: FILLING,
            segments,
            ..Self::single(self.reach.remote, segments * FILLING)
        })
    }

    /// Tells the client how its train came.
    pub(super) fn train_seen_packet(&mut self, sink: &mut impl PacketSink) -> Option<TransmitInfo> {
        let has_keys = self.opening.spaces[Level::Handshake.index()].keys.is_some();
        if !has_keys || !self.opening.train.due {
            return None;
        }
        let seen = self.opening.train.seen()?;
        let bytes = self.lone_packet(Level::Handshake, &Frame::Train(seen), None, sink)?;
        self.opening.train.due = false;
        Some(Self::single(self.reach.remote, bytes))
    }

    /// Says the flight that has just been said once more.
    pub(super) fn flight_again(
        &mut self,
        now: Time,
        sink: &mut impl PacketSink,
    ) -> Option<TransmitInfo> {
        if !std::mem::take(&mut self.opening.train.twice) {
            return None;
        }
        self.opening.train.again = true;
        self.rewind_flight();
        self.handshake_packet(now, sink)
    }

    /// A handshake packet of one frame, filled up to a size, if there may be one: what was received from an unproved address bounds what is sent there.
    /// Returns its bytes.
    pub(super) fn lone_packet(
        &mut self,
        level: Level,
        frame: &Frame<'_>,
        size: Option<usize>,
        sink: &mut impl PacketSink,
    ) -> Option<usize> {
        let mut frames = Vec::with_capacity(limits::MIN_DATAGRAM);
        FrameWriter::new(&mut frames).frame(frame);
        if size.is_some() {
            FrameWriter::new(&mut frames).frame(&Frame::Padding);
        }
        let least = crate::codec::HANDSHAKE_HEADER_LEN + frames.len() + TAG_LEN;
        let padding = size.unwrap_or(0).saturating_sub(least);
        if !self.reach.validated {
            let sent = self.reach.bytes_to_unvalidated + (least + padding) as u64;
            if sent > self.reach.bytes_from_unvalidated {
                return None;
            }
            self.reach.bytes_to_unvalidated = sent;
        }
        let header = self.handshake_header(level);
        let Header::Handshake { number, .. } = header else {
            return None;
        };
        let mut head = Vec::with_capacity(crate::codec::HANDSHAKE_HEADER_LEN);
        header.encode(&mut head);
        let packet = PacketOut {
            header: &head,
            frames: &frames,
            payload: None,
            padding,
            number: number.into(),
            key: &self.opening.spaces[level.index()].keys.as_ref()?.local,
        };
        let bytes = packet.wire_len();
        sink.packet(&packet);
        self.count_sent(bytes);
        self.stats.overhead_datagrams_sent += 1;
        self.stats.overhead_bytes_sent += bytes as u64;
        Some(bytes)
    }

    /// The server tells how the train came.
    pub(super) fn on_train(&mut self, now: Time, seen: TrainSeen) {
        let before = self.opening.train.seen.replace(seen);
        if before.is_some_and(|before| before.last >= seen.last) {
            self.opening.train.seen = before;
        } else if self.keys.is_some() {
            self.heed_train(now);
        }
    }

    /// What the server told of the train is where the rate begins.
    pub(super) fn heed_train(&mut self, now: Time) {
        let (Some(seen), Some(sent_time)) = (self.opening.train.seen, self.opening.train.sent_at)
        else {
            return;
        };
        let whole = f64::from(seen.packets) > WHOLE * f64::from(seen.last + 1);
        let witness = &mut self.heard.witness;
        let came = witness.arrival(now, sent_time, seen.rx_time_us);
        let spread = Span::from_micros(seen.span_us.into());
        let points =
            [(seen.first, came), (seen.last, came + spread)].map(|(number, rx_time)| TrainPoint {
                sent_time,
                sent_bytes: u64::from(number) * limits::MIN_DATAGRAM as u64,
                rx_time,
            });
        self.pace.rate.on_ahead(now, &points, whole);
        self.apply_rate(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Time {
        Time::ZERO + Span::from_micros(us)
    }

    #[test]
    fn a_train_is_told_of_when_most_of_it_came_and_as_more_comes() {
        let mut train = Train::default();
        let mut told = Vec::new();
        for number in (0..limits::MAX_TRAIN).filter(|number| ![7, 18].contains(number)) {
            train.on_packet(number, at(u64::from(number) * 10), number >= 2);
            if std::mem::take(&mut train.due) {
                told.extend(train.seen());
            }
        }
        let seen = |last, packets| TrainSeen {
            first: 0,
            last,
            packets,
            rx_time_us: 0,
            span_us: last * 10,
        };
        assert_eq!(told, [(17, 17), (19, 18)].map(|(l, p)| seen(l, p)));
        // A copy of one, and what belongs to no train, change nothing.
        train.on_packet(19, at(9_999), true);
        train.on_packet(limits::MAX_TRAIN, at(9_999), true);
        assert_eq!(train.seen(), Some(seen(19, 18)));
        assert!(!train.due);
    }

    #[test]
    fn who_repeats_a_flight_has_no_train() {
        let mut train = Train::default();
        for number in 0..limits::MAX_TRAIN {
            train.on_packet(number, at(u64::from(number)), false);
        }
        assert!(!train.due);
    }
}
