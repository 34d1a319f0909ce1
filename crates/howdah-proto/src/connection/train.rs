//! A train of packets in the first flight of a client that is about to send much: how it is spread when it arrives is known when the handshake
//! is over, a round trip before any report of data could be. It says the hello again and again, and the flights after it are said twice, so that a
//! lost packet costs nothing (docs/protocol.md, section 6.8).

use super::Connection;
use super::transmit::{PacketSink, TransmitInfo};
use crate::codec::{Frame, FrameWriter, HANDSHAKE_HEADER_LEN, Level, TrainSeen, limits};
use crate::handshake::Side;
use crate::keys::TAG_LEN;
use crate::rate::TrainPoint;
use howdah_core::{Span, Time};

/// UDP payload bytes of a packet that only fills the train: one less than a first packet has, so that no server takes one for a stranger's.
pub(super) const FILLING: usize = limits::MIN_DATAGRAM - 1;
/// Type, offset and length of a CRYPTO frame, and a PADDING.
const FRAMES_LEN: usize = 1 + 4 + 4 + 1;
/// The server tells when so many could have come, and again with each one more: what it tells may be lost, and so may the last ones.
const TOLD_FROM: u32 = 18;
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
    flight: Said,
}

/// How often the latest flight has been said.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Said {
    #[default]
    Once,
    /// It is to be said once more.
    Again,
    Twice,
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
        if fills && number >= self.told.max(TOLD_FROM - 1) {
            if self.told == 0 {
                self.say_twice();
            }
            self.told = number + 1;
            self.due = true;
        }
    }

    pub(super) fn say_twice(&mut self) {
        self.flight = Said::Again;
    }

    pub(super) fn is_said_twice(&self) -> bool {
        self.flight == Said::Twice
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
        let room = FILLING - HANDSHAKE_HEADER_LEN - FRAMES_LEN - TAG_LEN;
        let mut segments = 0;
        while segments < most && self.opening.spaces[0].numbers() < limits::MAX_TRAIN {
            let space = &mut self.opening.spaces[0];
            if !space.has_unsent() {
                space.rewind();
            }
            let (offset, bytes) = space.next_chunk(room)?;
            let mut frames = Vec::with_capacity(FILLING);
            FrameWriter::new(&mut frames).frame(&Frame::Crypto { offset, bytes });
            self.seal_handshake(Level::Initial, frames, FILLING, sink)?;
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
        let mut frames = Vec::new();
        FrameWriter::new(&mut frames).frame(&Frame::Train(seen));
        let bytes = self.seal_handshake(Level::Handshake, frames, 0, sink)?;
        self.opening.train.due = false;
        Some(Self::single(self.reach.remote, bytes))
    }

    /// Says the flight that has just been said once more.
    pub(super) fn flight_again(
        &mut self,
        now: Time,
        sink: &mut impl PacketSink,
    ) -> Option<TransmitInfo> {
        let train = &mut self.opening.train;
        if train.flight != Said::Again {
            return None;
        }
        train.flight = Said::Twice;
        self.rewind_flight();
        self.handshake_packet(now, sink)
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
