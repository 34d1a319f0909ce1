//! The packets under way in one direction, and when each of them arrives.
//!
//! Packets are read straight into large chunks and written straight out of them. A chunk is used
//! again when nothing in it is under way any more, the one used last first, so a short path stays
//! in the cache and memory grows only as far as the path is full. What a full path needs is taken before
//! the first packet ([`populate`](DelayLine::populate)): the kernel gives memory page by page as it is first written to,
//! which at 10 Gbit/s is slower than the packets come, so that a fresh path would deliver half the rate for a third of a second.

use howdah_core::Time;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

const CHUNK_BYTES: usize = 2 << 20;
/// The smallest page of any kernel.
const PAGE_BYTES: usize = 4 << 10;
/// Room that must be left for one packet: the largest IPv6 packet without a jumbo option, and the
/// `virtio_net_hdr`, rounded up.
pub(crate) const RECORD_BYTES: usize = 66 << 10;

#[derive(Debug)]
struct Chunk {
    bytes: Box<[u8]>,
    under_way: u32,
}

/// Where a packet lies.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Record {
    chunk: u32,
    offset: u32,
    len: u32,
}

impl Record {
    /// Only the first `len` bytes of it.
    pub(crate) fn shortened(self, len: usize) -> Self {
        Self {
            len: self.len.min(len as u32),
            ..self
        }
    }
}

/// What of a packet arrives.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Part {
    /// All of it.
    Whole,
    /// These segments of it.
    Run {
        /// Number of the first.
        first: u32,
        /// How many.
        count: u32,
        /// Damaged on the way.
        damaged: bool,
    },
}

/// Where a packet is on its way: which way, and how many lanes lie behind it.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Stage {
    pub way: u16,
    pub hop: u16,
}

/// One arrival.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Arrival {
    pub at: Time,
    /// Keeps arrivals of the same time in order.
    number: u64,
    pub record: Record,
    pub part: Part,
    pub stage: Stage,
}

#[derive(Debug)]
pub(crate) struct DelayLine {
    chunks: Vec<Chunk>,
    free: Vec<u32>,
    current: usize,
    cursor: usize,
    max_chunks: usize,
    /// Arrivals in order of time: almost all.
    queue: VecDeque<Arrival>,
    /// Arrivals earlier than one that was scheduled before.
    overtaking: BinaryHeap<Reverse<Arrival>>,
    scheduled: u64,
}

impl DelayLine {
    /// Never holds more than `max_bytes` of packets (but at least a few).
    pub(crate) fn new(max_bytes: u64) -> Self {
        Self {
            chunks: vec![Chunk::new()],
            free: Vec::new(),
            current: 0,
            cursor: 0,
            max_chunks: max_chunks(max_bytes),
            queue: VecDeque::new(),
            overtaking: BinaryHeap::new(),
            scheduled: 0,
        }
    }

    /// Takes memory for `bytes` of packets, within the bound, and writes to every page of it. Returns what was taken.
    pub(crate) fn populate(&mut self, bytes: u64) -> u64 {
        let wanted = (bytes.div_ceil(CHUNK_BYTES as u64) as usize).clamp(1, self.max_chunks);
        self.chunks[self.current].touch();
        while self.chunks.len() < wanted {
            let mut chunk = Chunk::new();
            chunk.touch();
            self.free.push(self.chunks.len() as u32);
            self.chunks.push(chunk);
        }
        self.memory_bytes()
    }

    /// Changes the bound; memory already taken is kept.
    pub(crate) fn set_max_bytes(&mut self, max_bytes: u64) {
        self.max_chunks = max_chunks(max_bytes);
    }

    /// Memory taken so far, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.chunks.len() * CHUNK_BYTES) as u64
    }

    /// Room for one packet; `None` if all memory is in use. Asking again without
    /// [`keep`](Self::keep) gives the same room.
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        if self.chunks[self.current].under_way == 0 {
            self.cursor = 0;
        }
        if self.cursor + RECORD_BYTES > CHUNK_BYTES {
            self.current = match self.free.pop() {
                Some(chunk) => chunk as usize,
                None if self.chunks.len() < self.max_chunks => {
                    self.chunks.push(Chunk::new());
                    self.chunks.len() - 1
                }
                None => return None,
            };
            self.cursor = 0;
        }
        let cursor = self.cursor;
        self.chunks[self.current]
            .bytes
            .get_mut(cursor..cursor + RECORD_BYTES)
    }

    /// The packet that now stands in the first `len` bytes of the room.
    pub(crate) fn in_room(&self, len: usize) -> (&[u8], Record) {
        let record = Record {
            chunk: self.current as u32,
            offset: self.cursor as u32,
            len: len as u32,
        };
        (self.bytes(record), record)
    }

    /// Takes the room of `record`, the one that [`in_room`](Self::in_room) gave last.
    pub(crate) fn keep(&mut self, record: Record) {
        // The next packet begins on its own cache line.
        self.cursor = (self.cursor + record.len as usize).next_multiple_of(64);
    }

    /// Lets a part of a kept record arrive. Every call is matched by one
    /// [`release`](Self::release).
    pub(crate) fn schedule(&mut self, at: Time, record: Record, part: Part, stage: Stage) {
        let arrival = Arrival {
            at,
            number: self.scheduled,
            record,
            part,
            stage,
        };
        self.scheduled += 1;
        self.chunks[record.chunk as usize].under_way += 1;
        if self.queue.back().is_some_and(|last| last.at > at) {
            self.overtaking.push(Reverse(arrival));
        } else {
            self.queue.push_back(arrival);
        }
    }

    /// When the next arrival is due.
    pub(crate) fn next_at(&self) -> Option<Time> {
        let ordered = self.queue.front().map(|arrival| arrival.at);
        if self.overtaking.is_empty() {
            return ordered;
        }
        let early = self.overtaking.peek().map(|Reverse(arrival)| arrival.at);
        match (ordered, early) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The next arrival, if it is due at `now`.
    pub(crate) fn pop(&mut self, now: Time) -> Option<Arrival> {
        if self.next_at()? > now {
            return None;
        }
        let early_first = match (self.queue.front(), self.overtaking.peek()) {
            (Some(ordered), Some(Reverse(early))) => early < ordered,
            (ordered, _) => ordered.is_none(),
        };
        if early_first {
            self.overtaking.pop().map(|Reverse(arrival)| arrival)
        } else {
            self.queue.pop_front()
        }
    }

    /// The bytes of a packet, `virtio_net_hdr` first.
    pub(crate) fn bytes(&self, record: Record) -> &[u8] {
        let start = record.offset as usize;
        &self.chunks[record.chunk as usize].bytes[start..start + record.len as usize]
    }

    /// An arrival has been dealt with.
    pub(crate) fn release(&mut self, record: Record) {
        let chunk = &mut self.chunks[record.chunk as usize];
        chunk.under_way -= 1;
        if chunk.under_way == 0 && record.chunk as usize != self.current {
            self.free.push(record.chunk);
        }
    }
}

impl Chunk {
    fn new() -> Self {
        // Comes zeroed from the kernel and takes no memory before it is written to.
        Self {
            bytes: vec![0; CHUNK_BYTES].into_boxed_slice(),
            under_way: 0,
        }
    }

    /// Makes the kernel give the memory now.
    fn touch(&mut self) {
        for page in self.bytes.chunks_mut(PAGE_BYTES) {
            // Zeros over zeros would be left out.
            page[0] = std::hint::black_box(1);
        }
    }
}

fn max_chunks(max_bytes: u64) -> usize {
    ((max_bytes / CHUNK_BYTES as u64) as usize).max(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_populated_is_used_before_anything_new_is_taken() {
        let mut line = DelayLine::new(64 << 20);
        assert_eq!(line.populate(20 << 20), 20 << 20);
        // Never beyond the bound, and a second time for nothing.
        assert_eq!(line.populate(20 << 20), 20 << 20);
        assert_eq!(DelayLine::new(16 << 20).populate(1 << 30), 16 << 20);
        let mut kept = 0;
        while kept < (18 << 20) {
            assert!(put(&mut line, kept, 1, 60 << 10));
            kept += 60 << 10;
        }
        assert_eq!(line.memory_bytes(), 20 << 20);
    }

    fn put(line: &mut DelayLine, at: u64, tag: u8, len: usize) -> bool {
        let Some(room) = line.room() else {
            return false;
        };
        room[..len].fill(tag);
        let (_, record) = line.in_room(len);
        line.keep(record);
        line.schedule(Time::from_nanos(at), record, Part::Whole, Stage::default());
        true
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Against a sorted list: order of time, then of scheduling; bytes intact.
        #[test]
        fn arrivals_come_in_order_with_their_bytes(
            packets in prop::collection::vec((0u64..1000, 1usize..65_000, any::<bool>()), 1..300),
        ) {
            let mut line = DelayLine::new(64 << 20);
            let mut expected: Vec<(u64, usize, u8, usize)> = Vec::new();
            for (index, &(at, len, pop)) in packets.iter().enumerate() {
                prop_assert!(put(&mut line, at, index as u8, len));
                expected.push((at, index, index as u8, len));
                if pop {
                    expected.sort_unstable();
                    let (at, _, tag, len) = expected.remove(0);
                    prop_assert_eq!(line.next_at(), Some(Time::from_nanos(at)));
                    let arrival = line.pop(Time::from_nanos(at)).unwrap();
                    prop_assert_eq!(line.bytes(arrival.record), &vec![tag; len][..]);
                    line.release(arrival.record);
                }
            }
            expected.sort_unstable();
            for (at, _, tag, len) in expected {
                prop_assert!(at == 0 || line.pop(Time::from_nanos(at - 1)).is_none());
                let arrival = line.pop(Time::from_nanos(at)).unwrap();
                prop_assert_eq!(line.bytes(arrival.record), &vec![tag; len][..]);
                line.release(arrival.record);
            }
            prop_assert!(line.pop(Time::MAX).is_none());
        }
    }

    #[test]
    fn memory_is_bounded_and_used_again() {
        let mut line = DelayLine::new(8 << 20);
        let mut held = 0;
        while put(&mut line, held, 0, 60_000) {
            held += 1;
        }
        assert_eq!(line.memory_bytes(), 8 << 20);
        assert!(held > 100);
        while let Some(arrival) = line.pop(Time::MAX) {
            line.release(arrival.record);
        }
        // A path that is never fuller than one chunk touches only one chunk.
        for at in 0..10_000 {
            assert!(put(&mut line, at, 0, 60_000));
            let arrival = line.pop(Time::MAX).unwrap();
            assert_eq!(arrival.record.offset, 0);
            line.release(arrival.record);
        }
        line.set_max_bytes(16 << 20);
        held = 0;
        while put(&mut line, held, 0, 60_000) {
            held += 1;
        }
        assert_eq!(line.memory_bytes(), 16 << 20);
    }
}
