//! What was sent and is not settled: the sender's memory of its packets.

use howdah_core::{ByteRange, Time};
use std::collections::VecDeque;

/// What a packet carried that may have to be sent again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Content {
    /// Nothing that the peer must report.
    Passive,
    /// Bytes of an object.
    Data {
        object: u64,
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
}

/// The packets from the oldest unsettled one on.
#[derive(Debug, Default)]
pub(crate) struct SentPackets {
    ring: VecDeque<SentPacket>,
    base: u64,
    bytes_in_flight: u64,
    eliciting_outstanding: u64,
}

impl SentPackets {
    /// Number of the next packet.
    pub(crate) fn next_number(&self) -> u64 {
        self.base + self.ring.len() as u64
    }

    /// Bytes of packets that the peer must report and has not.
    pub(crate) fn bytes_in_flight(&self) -> u64 {
        self.bytes_in_flight
    }

    /// Number of packets that the peer must report and has not.
    pub(crate) fn outstanding(&self) -> u64 {
        self.eliciting_outstanding
    }

    /// Packets before are settled and forgotten.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Number of packets kept.
    pub(crate) fn len(&self) -> usize {
        self.ring.len()
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
        match (packet.fate, fate) {
            (Fate::Outstanding, _) => {
                packet.fate = fate;
                if packet.content != Content::Passive {
                    self.bytes_in_flight -= u64::from(packet.size);
                    self.eliciting_outstanding -= 1;
                }
                Some(before)
            }
            (Fate::Lost, Fate::Acked) => {
                packet.fate = fate;
                Some(before)
            }
            _ => None,
        }
    }

    /// Forgets settled packets at the front, but keeps those lost ones that may still turn out late:
    /// everything sent after `keep_since`.
    pub(crate) fn trim(&mut self, keep_since: Time) {
        while let Some(front) = self.ring.front() {
            let done = match front.fate {
                Fate::Outstanding => front.content == Content::Passive && front.time < keep_since,
                Fate::Acked => true,
                Fate::Lost => front.time < keep_since,
            };
            if !done {
                break;
            }
            self.ring.pop_front();
            self.base += 1;
        }
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
        }
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
