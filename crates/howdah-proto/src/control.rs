//! The control stream: small messages, reliable and in order, beside the objects.

use crate::codec::limits;
use crate::error::PeerMisbehaved;
use howdah_core::num::{saturating_u32, saturating_usize};
use howdah_core::{ByteRange, RangeSet};
use std::collections::VecDeque;

/// Sending half. Messages are framed by a u32 length.
#[derive(Debug, Default)]
pub(crate) struct ControlSender {
    /// Unconfirmed bytes, from offset `base`.
    bytes: VecDeque<u8>,
    base: u64,
    next: u64,
    acked: RangeSet,
    repair: VecDeque<ByteRange>,
    /// Sent once; a second copy follows at once, for a lost announcement of an object would cost
    /// everything that is sent of it in the next round trip.
    echo: VecDeque<ByteRange>,
}

impl ControlSender {
    pub(crate) fn push_message(&mut self, message: &[u8]) {
        self.bytes
            .extend(saturating_u32(message.len()).to_be_bytes());
        self.bytes.extend(message);
    }

    pub(crate) fn backlog(&self) -> usize {
        self.bytes.len()
    }

    fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// What the receiver keeps behind a hole is bounded, and a message that is not whole counts.
    fn sendable_end(&self) -> u64 {
        const WINDOW: u64 = limits::MAX_CONTROL_AHEAD - limits::MAX_CONTROL_MESSAGE as u64 - 4;
        self.end().min(self.base + WINDOW)
    }

    pub(crate) fn has_pending(&self) -> bool {
        !self.repair.is_empty() || !self.echo.is_empty() || self.next < self.sendable_end()
    }

    #[cfg(test)]
    pub(crate) fn has_unconfirmed(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// The next range to put in a packet, at most `max` bytes.
    pub(crate) fn next_range(&mut self, max: u64) -> Option<ByteRange> {
        while let Some(range) = self.repair.pop_front() {
            let gap = self.acked.missing(range).next();
            let Some(gap) = gap.filter(|gap| gap.start >= self.base) else {
                continue;
            };
            let (head, _) = gap.split_at(max);
            let rest = ByteRange::new(head.end, range.end);
            if !rest.is_empty() {
                self.repair.push_front(rest);
            }
            return Some(head);
        }
        let end = self.sendable_end().min(self.next + max);
        let range = ByteRange::new(self.next, end.max(self.next));
        self.next = range.end;
        if !range.is_empty() {
            self.echo.push_back(range);
            return Some(range);
        }
        while let Some(range) = self.echo.pop_front() {
            if range.len() <= max && self.acked.missing(range).next() == Some(range) {
                return Some(range);
            }
        }
        None
    }

    pub(crate) fn copy(&self, range: ByteRange, out: &mut Vec<u8>) {
        let start = saturating_usize(range.start - self.base);
        out.extend(
            self.bytes
                .range(start..start + saturating_usize(range.len())),
        );
    }

    pub(crate) fn on_lost(&mut self, range: ByteRange) {
        self.repair.push_back(range);
    }

    pub(crate) fn on_acked(&mut self, range: ByteRange) {
        self.acked.insert(range);
        let prefix = self.acked.prefix_len();
        if prefix > self.base {
            self.bytes.drain(..saturating_usize(prefix - self.base));
            self.base = prefix;
        }
    }
}

/// Receiving half keeps no more room than that for what comes next.
const ROOM_KEPT: usize = 16 << 10;

/// Receiving half.
#[derive(Debug, Default)]
pub(crate) struct ControlReceiver {
    /// Bytes from offset `base` on; holes hold zeros until they are filled.
    bytes: VecDeque<u8>,
    base: u64,
    received: RangeSet,
}

impl ControlReceiver {
    /// Memory of what is not delivered yet.
    pub(crate) fn kept_bytes(&self) -> usize {
        // One range is all that was delivered.
        let pieces = self.received.range_count().saturating_sub(1);
        self.bytes.len() + pieces * RangeSet::RANGE_BYTES
    }

    pub(crate) fn on_bytes(&mut self, offset: u64, bytes: &[u8]) -> Result<(), PeerMisbehaved> {
        let range = ByteRange::with_len(offset, bytes.len() as u64);
        if range.end > self.base + limits::MAX_CONTROL_AHEAD {
            return Err(PeerMisbehaved::ControlOverflow);
        }
        let fresh = ByteRange::new(range.start.max(self.base), range.end);
        if fresh.is_empty() {
            return Ok(());
        }
        let needed = saturating_usize(fresh.end - self.base);
        if self.bytes.len() < needed {
            #[cfg(test)]
            tests::count((needed - self.bytes.len()) as u64);
            self.bytes.resize(needed, 0);
        }
        let missing: Vec<_> = self.received.missing(fresh).collect();
        #[cfg(test)]
        tests::count(1 + missing.len() as u64);
        for gap in missing {
            #[cfg(test)]
            tests::count(gap.len());
            for at in gap.start..gap.end {
                self.bytes[saturating_usize(at - self.base)] = bytes[saturating_usize(at - offset)];
            }
        }
        self.received.insert(range);
        Ok(())
    }

    /// The next whole message.
    pub(crate) fn next_message(&mut self) -> Result<Option<Vec<u8>>, PeerMisbehaved> {
        let available = saturating_usize(self.received.prefix_len().saturating_sub(self.base));
        if available < 4 {
            return Ok(None);
        }
        #[cfg(test)]
        tests::count(1);
        let mut length = [0; 4];
        for (to, from) in length.iter_mut().zip(&self.bytes) {
            *to = *from;
        }
        let length = u32::from_be_bytes(length) as usize;
        if length > limits::MAX_CONTROL_MESSAGE {
            return Err(PeerMisbehaved::ControlOverflow);
        }
        if available < 4 + length {
            return Ok(None);
        }
        self.bytes.drain(..4);
        self.base += 4 + length as u64;
        let message = self.bytes.drain(..length).collect();
        if self.bytes.is_empty() && self.bytes.capacity() > ROOM_KEPT {
            self.bytes = VecDeque::new();
        }
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    thread_local! {
        static STEPS: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn count(steps: u64) {
        STEPS.set(STEPS.get() + steps);
    }

    /// What a peer sends of the control stream, in any order and as often as he likes, is work for each byte of his.
    #[test]
    fn h4_control_bytes_in_any_order_are_little_work() {
        // Whole messages of one byte, as small as they can be.
        let stream: Vec<u8> = [0, 0, 0, 1, 7].repeat(limits::MAX_CONTROL_AHEAD as usize / 5);
        let len = stream.len() as u64;
        let scattered = |n: u64| n * 7_919 % len;
        let orders: [&dyn Fn(u64) -> u64; 4] = [
            &|n| n,
            &|n| len - 1 - n,
            &|n| (2 * n) % len + 2 * n / len,
            &scattered,
        ];
        for order in orders {
            let mut receiver = ControlReceiver::default();
            STEPS.set(0);
            let (mut sent, mut messages) = (0, 0);
            let mut give = |receiver: &mut ControlReceiver, at: u64, bytes: u64| {
                let range = at as usize..(at + bytes).min(len) as usize;
                sent += 1 + range.len() as u64;
                receiver.on_bytes(at, &stream[range]).unwrap();
                while receiver.next_message().unwrap().is_some() {
                    messages += 1;
                }
            };
            for n in 0..len {
                give(&mut receiver, order(n), 1);
            }
            // All of it again, which is nothing new.
            for at in (0..len).step_by(1_000) {
                give(&mut receiver, at, 1_000);
            }
            assert_eq!(messages, len / 5);
            let steps = STEPS.get();
            assert!(steps <= 4 * sent, "{steps} steps for {sent} bytes");
        }
    }

    proptest! {
        #[test]
        fn messages_survive_loss_and_disorder(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..10),
            fates in prop::collection::vec((any::<bool>(), any::<bool>(), 1..200u64), 400),
        ) {
            let mut sender = ControlSender::default();
            let mut receiver = ControlReceiver::default();
            for message in &messages {
                sender.push_message(message);
            }
            let mut got = Vec::new();
            let mut held: Vec<(ByteRange, Vec<u8>)> = Vec::new();
            let mut fates = fates.into_iter().chain(std::iter::repeat((false, false, 100)));
            while sender.has_unconfirmed() {
                let (lose, hold, max) = fates.next().unwrap();
                if let Some(range) = sender.next_range(max) {
                    let mut bytes = Vec::new();
                    sender.copy(range, &mut bytes);
                    prop_assert!(range.len() <= max && bytes.len() as u64 == range.len());
                    if lose {
                        sender.on_lost(range);
                    } else if hold {
                        held.push((range, bytes));
                    } else {
                        receiver.on_bytes(range.start, &bytes).unwrap();
                        sender.on_acked(range);
                    }
                } else {
                    for (range, bytes) in held.drain(..).rev() {
                        receiver.on_bytes(range.start, &bytes).unwrap();
                        receiver.on_bytes(range.start, &bytes).unwrap();
                        sender.on_acked(range);
                    }
                }
                while let Some(message) = receiver.next_message().unwrap() {
                    got.push(message);
                }
            }
            prop_assert_eq!(got, messages);
        }
    }

    #[test]
    fn a_message_above_the_limit_is_an_offence() {
        let mut receiver = ControlReceiver::default();
        receiver.on_bytes(0, &u32::MAX.to_be_bytes()).unwrap();
        assert_eq!(
            receiver.next_message(),
            Err(PeerMisbehaved::ControlOverflow)
        );
        assert_eq!(
            receiver.on_bytes(limits::MAX_CONTROL_AHEAD, b"x"),
            Err(PeerMisbehaved::ControlOverflow)
        );
    }
}
