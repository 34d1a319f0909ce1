//! Datagrams that are ready to leave, in one buffer, and how they leave in trains.

use super::{PlainError, is_passing};
use crate::socket::{MAX_TRAIN_BYTES, UdpPort};
use howdah_core::Ecn;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

/// See [the module](self).
#[derive(Debug)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    /// Where the first that has not left begins.
    at: usize,
    /// Lengths of those that have not left.
    lengths: VecDeque<usize>,
    max_segments: usize,
}

/// One datagram that is being written.
#[derive(Debug)]
pub(super) struct Wire<'a> {
    outbox: &'a mut Outbox,
    start: usize,
}

impl Wire<'_> {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.outbox.bytes.extend_from_slice(bytes);
    }

    /// Appends so many zeros, to be overwritten.
    pub(super) fn zeros(&mut self, count: usize) -> &mut [u8] {
        let from = self.outbox.bytes.len();
        self.outbox.bytes.resize(from + count, 0);
        &mut self.outbox.bytes[from..]
    }

    /// The datagram is complete.
    pub(super) fn end(self) {
        let length = self.outbox.bytes.len() - self.start;
        self.outbox.lengths.push_back(length);
    }
}

impl Outbox {
    /// At most so many datagrams leave together.
    pub(super) fn new(max_segments: usize) -> Self {
        Self {
            bytes: Vec::new(),
            at: 0,
            lengths: VecDeque::new(),
            max_segments,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Begins a datagram.
    pub(super) fn begin(&mut self) -> Wire<'_> {
        if self.lengths.is_empty() {
            self.bytes.clear();
            self.at = 0;
        }
        let start = self.bytes.len();
        Wire {
            outbox: self,
            start,
        }
    }

    /// How many datagrams leave together next, and their bytes: equals and perhaps a shorter one.
    fn train(&self) -> (usize, usize) {
        let mut lengths = self.lengths.iter().copied();
        let Some(first) = lengths.next() else {
            return (0, 0);
        };
        let (mut count, mut bytes) = (1, first);
        if first == 0 {
            return (count, bytes);
        }
        for length in lengths {
            let fits = count < self.max_segments && bytes + length <= MAX_TRAIN_BYTES;
            if !fits || length > first || length == 0 {
                break;
            }
            count += 1;
            bytes += length;
            if length < first {
                break;
            }
        }
        (count, bytes)
    }

    fn drop_front(&mut self, count: usize, bytes: usize) {
        self.lengths.drain(..count);
        self.at += bytes;
    }

    /// Sends until all has left or the socket takes no more.
    pub(super) fn flush(&mut self, port: &UdpPort, peer: SocketAddr) -> Result<(), PlainError> {
        loop {
            let (count, bytes) = self.train();
            if count == 0 {
                return Ok(());
            }
            let segment = self.lengths[0];
            let contents = &self.bytes[self.at..self.at + bytes];
            match port.send(peer, None, contents, segment, Ecn::NotEct) {
                Ok(()) => self.drop_front(count, bytes),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if quinn_udp::is_msg_size_err(&e) => {
                    return Err(PlainError::TooLarge(segment));
                }
                // The host has segmentation but not on this route: one by one from now on.
                Err(_) if count > 1 => self.max_segments = 1,
                Err(e) if is_passing(&e) => self.drop_front(count, bytes),
                Err(e) => return Err(PlainError::Socket(e)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trains_hold_equals_and_a_shorter_one() {
        let mut outbox = Outbox::new(4);
        for length in [9, 9, 9, 9, 9, 5, 9, 5, 9, 0, 3, 4] {
            let mut wire = outbox.begin();
            wire.push(&vec![1; length]);
            wire.end();
        }
        let mut trains = Vec::new();
        while !outbox.is_empty() {
            let (count, bytes) = outbox.train();
            trains.push((count, bytes));
            outbox.drop_front(count, bytes);
        }
        let want = [(4, 36), (2, 14), (2, 14), (1, 9), (1, 0), (1, 3), (1, 4)];
        assert_eq!(trains, want);
    }
}
