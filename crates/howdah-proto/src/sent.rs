//! What was sent and is not settled: the sender's memory of its packets.

use howdah_core::{ByteRange, ObjectId, RangeSet, Time};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// What a packet carried that may have to be sent again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Content {
    /// Nothing that the peer must report.
    Passive,
    /// Bytes of an object.
    Data {
        object: ObjectId,
        range: ByteRange,
        /// A second copy of bytes whose first copy is still on its way.
        repeat: bool,
    },
    /// Bytes of the control stream.
    Control(ByteRange),
    /// The server's word that the handshake is over.
    HandshakeDone,
    /// A new window of an ordered object.
    Credit,
    /// A probe for the path MTU of this UDP payload size.
    MtuProbe,
    /// A ping, a path challenge or its answer: not repeated by itself.
    Probe,
}

/// Fate of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    Outstanding,
    Acked,
    Lost,
    /// The number was left out: there is no such packet.
    Skipped,
}

/// One packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentPacket {
    pub(crate) time: Time,
    /// UDP payload bytes of all packets sent before this one.
    pub(crate) sent_before: u64,
    pub(crate) content: Content,
    /// UDP payload bytes.
    pub(crate) size: u16,
    pub(crate) fate: Fate,
    /// It left as ECT(1).
    pub(crate) capable: bool,
}

/// The packets from the oldest unsettled one on.
#[derive(Debug, Default)]
pub(crate) struct SentPackets {
    ring: VecDeque<SentPacket>,
    base: u64,
    bytes_in_flight: u64,
    /// Of all packets that are called lost, since the beginning.
    lost_bytes: u64,
    /// Of all that came.
    acked_bytes: u64,
    eliciting_outstanding: u64,
    /// Numbers whose fate was told. A peer may tell it as often as it likes: nobody goes through them again.
    acked: RangeSet,
    told: RangeSet,
}

impl SentPackets {
    /// Which of `numbers` that the peer has were not told to be there before.
    pub(crate) fn take_acked(&mut self, numbers: ByteRange) -> SmallVec<[ByteRange; 1]> {
        let numbers = self.kept(numbers);
        let fresh = self.acked.missing(numbers).collect();
        self.acked.insert(numbers);
        self.told.insert(numbers);
        fresh
    }

    /// Which of `numbers` that the peer misses have no fate yet.
    pub(crate) fn take_lost(&mut self, numbers: ByteRange) -> SmallVec<[ByteRange; 1]> {
        let numbers = self.kept(numbers);
        let fresh = self.told.missing(numbers).collect();
        self.told.insert(numbers);
        fresh
    }

    /// A report may name far more packets than are remembered.
    fn kept(&self, numbers: ByteRange) -> ByteRange {
        ByteRange::new(
            numbers.start.max(self.base),
            numbers.end.min(self.next_number()),
        )
    }

    /// Number of the next packet.
    pub(crate) fn next_number(&self) -> u64 {
        self.base + self.ring.len() as u64
    }

    /// Bytes of packets that the peer must report and has not.
    pub(crate) fn bytes_in_flight(&self) -> u64 {
        self.bytes_in_flight
    }

    /// Bytes of packets that were called lost and have not come since.
    pub(crate) fn lost_bytes(&self) -> u64 {
        self.lost_bytes
    }

    /// Bytes of packets that came, since the beginning.
    pub(crate) fn acked_bytes(&self) -> u64 {
        self.acked_bytes
    }

    /// Number of packets that the peer must report and has not.
    pub(crate) fn outstanding(&self) -> u64 {
        self.eliciting_outstanding
    }

    /// Number of packets kept.
    pub(crate) fn len(&self) -> usize {
        self.ring.len()
    }

    /// Leaves the next number out.
    pub(crate) fn skip(&mut self, time: Time, sent_before: u64) {
        self.ring.push_back(SentPacket {
            time,
            sent_before,
            content: Content::Passive,
            size: 0,
            fate: Fate::Skipped,
            capable: false,
        });
    }

    /// Whether `number` is one that was left out.
    pub(crate) fn is_skipped(&self, number: u64) -> bool {
        self.get(number).is_some_and(|p| p.fate == Fate::Skipped)
    }

    pub(crate) fn push(&mut self, packet: SentPacket) -> u64 {
        let number = self.next_number();
        if packet.content != Content::Passive {
            self.bytes_in_flight += u64::from(packet.size);
            self.eliciting_outstanding += 1;
        }
        self.ring.push_back(packet);
        number
    }

    pub(crate) fn get(&self, number: u64) -> Option<&SentPacket> {
        self.ring
            .get(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    /// Settles an outstanding packet; returns it as it was, or `None` if it is settled already.
    /// A packet that was called lost may still be acked.
    pub(crate) fn settle(&mut self, number: u64, fate: Fate) -> Option<SentPacket> {
        let index = usize::try_from(number.checked_sub(self.base)?).ok()?;
        let packet = self.ring.get_mut(index)?;
        let before = *packet;
        let size = u64::from(packet.size);
        match (packet.fate, fate) {
            (Fate::Outstanding, _) => {
                packet.fate = fate;
                match fate {
                    Fate::Lost => self.lost_bytes += size,
                    _ => self.acked_bytes += size,
                }
                if packet.content != Content::Passive {
                    self.bytes_in_flight -= size;
                    self.eliciting_outstanding -= 1;
                }
                Some(before)
            }
            (Fate::Lost, Fate::Acked) => {
                packet.fate = fate;
                self.lost_bytes -= size;
                self.acked_bytes += size;
                Some(before)
            }
            _ => None,
        }
    }

    /// When the oldest one was sent, if it is kept only as it may still turn out late.
    pub(crate) fn oldest_settled(&self) -> Option<Time> {
        let front = self.ring.front()?;
        let waits = front.fate == Fate::Outstanding && front.content != Content::Passive;
        (!waits).then_some(front.time)
    }

    /// Forgets settled packets at the front, but keeps those lost ones that may still turn out late:
    /// everything sent after `keep_since`.
    pub(crate) fn trim(&mut self, keep_since: Time) {
        while let Some(front) = self.ring.front() {
            let done = match front.fate {
                Fate::Outstanding => front.content == Content::Passive && front.time < keep_since,
                Fate::Acked => true,
                // A report may still name it as received.
                Fate::Skipped | Fate::Lost => front.time < keep_since,
            };
            if !done {
                break;
            }
            self.ring.pop_front();
            self.base += 1;
        }
        let forgotten = ByteRange::new(0, self.base);
        self.acked.remove(forgotten);
        self.told.remove(forgotten);
    }

    /// When the oldest packet was sent that the peer must report and has not, of those before `number`.
    pub(crate) fn oldest_unreported(&self, number: u64) -> Option<Time> {
        let front = self.ring.front().filter(|_| self.base < number)?;
        let waits = front.fate == Fate::Outstanding && front.content != Content::Passive;
        waits.then_some(front.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(ms: u64, content: Content) -> SentPacket {
        SentPacket {
            time: Time::from_nanos(ms * 1_000_000),
            sent_before: 0,
            content,
            size: 100,
            fate: Fate::Outstanding,
            capable: false,
        }
    }

    /// H4: a hole that is left open keeps the ring long, and every report may name all of it.
    #[test]
    fn a_fate_that_is_told_again_and_again_is_looked_at_once() {
        let mut sent = SentPackets::default();
        for ms in 0..10_000 {
            sent.push(packet(ms, Content::Probe));
        }
        let mut looked_at = 0;
        for _ in 0..1_000 {
            for fresh in sent.take_acked(ByteRange::new(1, 9_000)) {
                looked_at += fresh.len();
            }
            for fresh in sent.take_lost(ByteRange::new(9_000, 1 << 60)) {
                looked_at += fresh.len();
            }
        }
        assert_eq!(looked_at, 9_999);
        // One that was called lost may still turn up, and one that is there cannot get lost.
        let late = sent.take_acked(ByteRange::new(8_999, 9_001));
        assert_eq!(late[..], [ByteRange::new(9_000, 9_001)]);
        assert!(sent.take_lost(ByteRange::new(8_000, 10_000)).is_empty());
        for number in 0..10_000 {
            sent.settle(number, Fate::Acked);
        }
        sent.trim(Time::ZERO);
        assert!(sent.acked.is_empty() && sent.told.is_empty());
    }

    #[test]
    fn bytes_in_flight_count_each_packet_once() {
        let mut sent = SentPackets::default();
        for ms in 0..4 {
            sent.push(packet(ms, Content::Probe));
        }
        sent.push(packet(4, Content::Passive));
        assert_eq!(sent.bytes_in_flight(), 400);
        assert!(sent.settle(1, Fate::Lost).is_some());
        assert!(sent.settle(1, Fate::Lost).is_none());
        assert!(sent.settle(1, Fate::Acked).is_some(), "late is possible");
        assert!(sent.settle(0, Fate::Acked).is_some());
        assert!(sent.settle(0, Fate::Lost).is_none(), "acked stays acked");
        assert_eq!(sent.bytes_in_flight(), 200);
        sent.trim(Time::MAX);
        assert_eq!(sent.len(), 3);
        assert!(sent.get(1).is_none());
        assert_eq!(
            sent.get(2).map(|p| p.time),
            Some(Time::from_nanos(2_000_000))
        );
        assert_eq!(sent.next_number(), 5);
    }
}
