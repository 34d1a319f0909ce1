//! Objects: which ranges wait to be sent, and which have arrived.

use crate::codec::limits;
use crate::error::PeerMisbehaved;
use howdah_core::{ByteRange, ObjectId, RangeSet};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// The open objects of one direction, by their ids, in ascending order: few, and looked up for each packet.
#[derive(Debug)]
struct Open<T>(Vec<(ObjectId, T)>);

impl<T> Default for Open<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Open<T> {
    fn find(&self, id: ObjectId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&id, |&(id, _)| id)
    }

    fn insert(&mut self, id: ObjectId, object: T) {
        match self.find(id) {
            Ok(at) => self.0[at].1 = object,
            Err(at) => self.0.insert(at, (id, object)),
        }
    }

    fn get(&self, id: ObjectId) -> Option<&T> {
        let at = self.find(id).ok()?;
        Some(&self.0[at].1)
    }

    fn get_mut(&mut self, id: ObjectId) -> Option<&mut T> {
        let at = self.find(id).ok()?;
        Some(&mut self.0[at].1)
    }

    fn remove(&mut self, id: ObjectId) -> Option<T> {
        let at = self.find(id).ok()?;
        Some(self.0.remove(at).1)
    }

    fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, object)| object)
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = (ObjectId, &mut T)> {
        self.0.iter_mut().map(|(id, object)| (*id, object))
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// An object that is being sent.
#[derive(Debug)]
struct OutObject {
    /// First byte that has never been sent.
    next: u64,
    /// Bytes below can be read.
    ready_end: u64,
    /// Bytes below may be sent (ordered sinks).
    credit_end: u64,
    size: Option<u64>,
    acked: RangeSet,
}

impl OutObject {
    fn limit(&self) -> u64 {
        self.ready_end
            .min(self.credit_end)
            .min(self.size.unwrap_or(u64::MAX))
    }

    fn is_all_sent(&self) -> bool {
        self.size
            .is_some_and(|size| self.next >= size || self.fresh(size).is_none())
    }

    /// The first bytes below `end` that have never been sent and that the receiver does not have
    /// from elsewhere.
    fn fresh(&self, end: u64) -> Option<ByteRange> {
        if self.next >= end {
            return None;
        }
        let rest = ByteRange::new(self.next, end);
        if self.acked.end() <= self.next {
            return Some(rest);
        }
        self.acked.missing(rest).next()
    }
}

/// What a data packet shall carry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct NextData {
    pub(crate) object: ObjectId,
    pub(crate) range: ByteRange,
    /// These bytes were sent before ...
    pub(crate) again: bool,
    /// ... and that copy of them is still on its way.
    pub(crate) repeat: bool,
}

/// The sending half.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    objects: Open<OutObject>,
    repair: VecDeque<(ObjectId, ByteRange)>,
}

impl Outgoing {
    /// `credit_end` is the first byte that must wait for a CREDIT frame.
    pub(crate) fn open(&mut self, id: ObjectId, size: Option<u64>, credit_end: u64) {
        self.objects.insert(
            id,
            OutObject {
                next: 0,
                ready_end: 0,
                credit_end,
                size,
                acked: RangeSet::new(),
            },
        );
    }

    pub(crate) fn set_ready(&mut self, id: ObjectId, end: u64) {
        if let Some(object) = self.objects.get_mut(id) {
            object.ready_end = object.ready_end.max(end);
        }
    }

    pub(crate) fn set_size(&mut self, id: ObjectId, size: u64) {
        if let Some(object) = self.objects.get_mut(id) {
            object.size = Some(size);
        }
    }

    pub(crate) fn on_credit(&mut self, id: ObjectId, window_end: u64) {
        if let Some(object) = self.objects.get_mut(id) {
            object.credit_end = object.credit_end.max(window_end);
        }
    }

    /// The receiver has these bytes from elsewhere: they are not sent.
    pub(crate) fn skip(&mut self, id: ObjectId, ranges: &RangeSet) {
        if let Some(object) = self.objects.get_mut(id) {
            for range in ranges.iter() {
                object.acked.insert(range);
            }
        }
    }

    /// Nobody else brings these bytes after all: they are sent from here.
    pub(crate) fn unskip(&mut self, id: ObjectId, range: ByteRange) {
        let Some(object) = self.objects.get_mut(id) else {
            return;
        };
        object.acked.remove(range);
        // What lies further on comes by itself.
        let passed = ByteRange::new(range.start, range.end.min(object.next));
        if !passed.is_empty() {
            self.repair.push_back((id, passed));
        }
    }

    /// Nothing more of that object will be sent.
    pub(crate) fn close(&mut self, id: ObjectId) {
        self.objects.remove(id);
        self.repair.retain(|&(object, _)| object != id);
    }

    pub(crate) fn sent_end(&self, id: ObjectId) -> Option<u64> {
        // Over what need not be sent.
        let end = |object: &OutObject| match object.fresh(u64::MAX) {
            Some(range) => range.start,
            None => object.next,
        };
        self.objects.get(id).map(end)
    }

    /// Bytes known to have arrived.
    pub(crate) fn acked_bytes(&self, id: ObjectId) -> u64 {
        self.objects
            .get(id)
            .map_or(0, |object| object.acked.byte_count())
    }

    /// Every byte below has arrived.
    pub(crate) fn acked_prefix(&self, id: ObjectId) -> u64 {
        self.objects
            .get(id)
            .map_or(0, |object| object.acked.prefix_len())
    }

    /// No object is open.
    #[cfg(feature = "sim")]
    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.repair.is_empty()
    }

    pub(crate) fn has_data(&self) -> bool {
        !self.repair.is_empty()
            || self
                .objects
                .values()
                .any(|object| object.fresh(object.limit()).is_some())
    }

    /// Objects are open, but no byte of them can be sent now.
    pub(crate) fn waits_for_source(&self) -> bool {
        !self.has_data() && self.objects.values().any(|object| !object.is_all_sent())
    }

    /// Every open object was sent to its end.
    pub(crate) fn is_all_sent(&self) -> bool {
        !self.objects.is_empty()
            && self.repair.is_empty()
            && self.objects.values().all(OutObject::is_all_sent)
    }

    /// Length that the next data packet would have, at most `max`.
    #[allow(
        clippy::inline_always,
        reason = "what it gives has just been put together, and is slow to move"
    )]
    #[inline(always)]
    pub(crate) fn next_data(&mut self, max: impl Fn(ObjectId) -> u64) -> Option<NextData> {
        while let Some((id, range)) = self.repair.pop_front() {
            let Some(object) = self.objects.get(id) else {
                continue;
            };
            let Some(gap) = object.acked.missing(range).next() else {
                continue;
            };
            let (head, _) = gap.split_at(max(id));
            let rest = ByteRange::new(head.end, range.end);
            if !rest.is_empty() {
                self.repair.push_front((id, rest));
            }
            return Some(NextData {
                object: id,
                range: head,
                again: true,
                repeat: false,
            });
        }
        let (id, range, object) = self.objects.iter_mut().find_map(|(id, object)| {
            let range = object.fresh(object.limit())?;
            Some((id, range, object))
        })?;
        let (range, _) = range.split_at(max(id));
        object.next = range.end;
        Some(NextData {
            object: id,
            range,
            again: false,
            repeat: false,
        })
    }

    /// Puts back what [`next_data`](Self::next_data) gave but no packet took.
    pub(crate) fn put_back(&mut self, data: NextData) {
        match self.objects.get_mut(data.object) {
            Some(object) if !data.again && object.next == data.range.end => {
                object.next = data.range.start;
            }
            _ => self.repair.push_front((data.object, data.range)),
        }
    }

    pub(crate) fn on_acked(&mut self, id: ObjectId, range: ByteRange) {
        if let Some(object) = self.objects.get_mut(id) {
            object.acked.insert(range);
        }
    }

    pub(crate) fn on_lost(&mut self, id: ObjectId, range: ByteRange) {
        if let Some(object) = self.objects.get(id)
            && !object.acked.contains(range)
        {
            self.repair.push_back((id, range));
        }
    }

    /// Whether those bytes may still be missing at the receiver.
    pub(crate) fn wants_repeat(&self, id: ObjectId, range: ByteRange) -> bool {
        self.objects
            .get(id)
            .is_some_and(|object| !object.acked.contains(range))
    }
}

/// An object that is being received.
#[derive(Debug)]
struct InObject {
    received: RangeSet,
    size: Option<u64>,
    limit: u64,
    complete_told: bool,
}

impl InObject {
    /// No byte may come from there on.
    fn end(&self) -> u64 {
        self.size.unwrap_or(u64::MAX).min(self.limit)
    }

    fn is_complete(&self) -> bool {
        self.size == Some(self.received.byte_count())
    }
}

/// What to do with the payload of a data packet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Placed {
    /// Write these parts of it; the others were there before.
    Write(SmallVec<[ByteRange; 1]>),
    /// All of it was there before.
    Duplicate,
    /// No such object is open yet: keep it for then, or behave as if the packet had been lost.
    Unknown,
}

/// The receiving half.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    objects: Open<InObject>,
    /// Separate ranges that the peer made, of all objects.
    pieces: usize,
    /// Some object has become complete since it was last looked for one.
    may_be_complete: bool,
    /// The last of the objects that were open once, as they ascend: their stragglers are duplicates, not losses.
    last_closed: Option<ObjectId>,
}

impl Incoming {
    pub(crate) fn open(&mut self, id: ObjectId, size: Option<u64>, limit: u64) -> bool {
        let too_large = size.is_some_and(|size| size > limits::MAX_OFFSET);
        // One that is open would begin anew: what has come of it could come once more.
        if self.objects.len() >= limits::MAX_OPEN_OBJECTS || self.is_known(id) || too_large {
            return false;
        }
        self.may_be_complete = true;
        self.objects.insert(
            id,
            InObject {
                received: RangeSet::new(),
                size,
                limit,
                complete_told: false,
            },
        );
        true
    }

    fn was_closed(&self, id: ObjectId) -> bool {
        self.last_closed.is_some_and(|last| id <= last)
    }

    /// Returns false if that size contradicts what has arrived or was said.
    pub(crate) fn set_size(&mut self, id: ObjectId, size: u64) -> bool {
        let Some(object) = self.objects.get_mut(id) else {
            return true;
        };
        let beyond = object.received.end() > size || size > limits::MAX_OFFSET;
        if beyond || object.size.is_some_and(|said| said != size) {
            return false;
        }
        object.size = Some(size);
        self.may_be_complete = true;
        true
    }

    /// These bytes are there from elsewhere: whoever sends them again sends them for nothing.
    pub(crate) fn note_present(&mut self, id: ObjectId, ranges: &RangeSet) {
        if let Some(object) = self.objects.get_mut(id) {
            let before = object.received.range_count();
            for range in ranges.iter() {
                object.received.insert(range);
            }
            // What joins pieces of the peer's makes them fewer; pieces from elsewhere are not the peer's.
            let fewer = before.saturating_sub(object.received.range_count());
            self.pieces = self.pieces.saturating_sub(fewer);
            self.may_be_complete = true;
        }
    }

    pub(crate) fn set_limit(&mut self, id: ObjectId, limit: u64) {
        if let Some(object) = self.objects.get_mut(id) {
            object.limit = object.limit.max(limit);
        }
    }

    pub(crate) fn close(&mut self, id: ObjectId) {
        if let Some(object) = self.objects.remove(id) {
            self.pieces = self.pieces.saturating_sub(object.received.range_count());
        }
        self.last_closed = self.last_closed.max(Some(id));
    }

    /// It is open, or was.
    pub(crate) fn is_known(&self, id: ObjectId) -> bool {
        self.was_closed(id) || self.objects.get(id).is_some()
    }

    /// Memory of what lies in pieces, of all objects that are open.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.pieces * RangeSet::RANGE_BYTES
    }

    pub(crate) fn received_bytes(&self, id: ObjectId) -> u64 {
        self.objects
            .get(id)
            .map_or(0, |object| object.received.byte_count())
    }

    /// Notes that `range` has arrived, if it lies behind all that has, as what comes mostly does: all of it is to be written. False
    /// if it does not, or may not come: [`place`](Self::place) says what to do.
    pub(crate) fn place_behind(
        &mut self,
        id: ObjectId,
        range: ByteRange,
    ) -> Result<bool, PeerMisbehaved> {
        let is_behind = self.objects.get(id).is_some_and(|object| {
            !range.is_empty() && range.start >= object.received.end() && range.end <= object.end()
        });
        if is_behind {
            self.take(id, range)?;
        }
        Ok(is_behind)
    }

    fn take(&mut self, id: ObjectId, range: ByteRange) -> Result<(), PeerMisbehaved> {
        let Some(object) = self.objects.get_mut(id) else {
            return Ok(());
        };
        let before = object.received.range_count();
        object.received.insert(range);
        self.pieces = (self.pieces + object.received.range_count()).saturating_sub(before);
        if self.pieces > limits::MAX_RANGES {
            return Err(PeerMisbehaved::TooScattered);
        }
        self.may_be_complete |= object.is_complete();
        Ok(())
    }

    /// Notes that `range` has arrived.
    pub(crate) fn place(
        &mut self,
        id: ObjectId,
        range: ByteRange,
    ) -> Result<Placed, PeerMisbehaved> {
        let Some(object) = self.objects.get_mut(id) else {
            return Ok(if self.was_closed(id) {
                Placed::Duplicate
            } else {
                Placed::Unknown
            });
        };
        if range.end > object.end() {
            return Err(PeerMisbehaved::DataBeyondEnd);
        }
        let fresh: SmallVec<[ByteRange; 1]> = object.received.missing(range).collect();
        if fresh.is_empty() {
            return Ok(Placed::Duplicate);
        }
        self.take(id, range)?;
        Ok(Placed::Write(fresh))
    }

    /// Objects that have become complete since the last call.
    pub(crate) fn take_complete(&mut self) -> Option<ObjectId> {
        if !self.may_be_complete {
            return None;
        }
        let untold = |object: &InObject| !object.complete_told && object.is_complete();
        let next = self.objects.iter_mut().find(|(_, object)| untold(object));
        self.may_be_complete = next.is_some();
        let (id, object) = next?;
        object.complete_told = true;
        Some(id)
    }

    pub(crate) fn is_receiving(&self) -> bool {
        self.objects.values().any(|object| !object.complete_told)
    }
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ObjectId = ObjectId::new(1);

    #[test]
    fn what_comes_for_a_closed_object_came_before_and_for_a_later_one_too_early() {
        let mut incoming = Incoming::default();
        for (id, is_closed) in [(0, false), (1, false), (2, true), (3, false)] {
            let id = ObjectId::new(id);
            if is_closed {
                incoming.close(id);
            }
            let placed = incoming.place(id, ByteRange::new(0, 10)).unwrap();
            let expected = if is_closed {
                Placed::Duplicate
            } else {
                Placed::Unknown
            };
            assert_eq!(placed, expected, "{id}");
        }
    }

    #[test]
    fn repairs_go_first_and_skip_what_arrived_meanwhile() {
        let mut out = Outgoing::default();
        out.open(ID, Some(100), u64::MAX);
        out.set_ready(ID, 100);
        let first = out.next_data(|_| 40).unwrap();
        assert_eq!(first.range, ByteRange::new(0, 40));
        out.on_lost(ID, first.range);
        out.on_acked(ID, ByteRange::new(0, 10));
        assert_eq!(
            out.next_data(|_| 20),
            Some(NextData {
                object: ID,
                range: ByteRange::new(10, 30),
                again: true,
                repeat: false
            })
        );
        assert_eq!(out.next_data(|_| 20).unwrap().range, ByteRange::new(30, 40));
        let next = out.next_data(|_| 80).unwrap();
        assert_eq!((next.range, next.again), (ByteRange::new(40, 100), false));
        out.put_back(next);
        assert_eq!(out.next_data(|_| 80), Some(next));
        assert!(out.is_all_sent());
    }

    #[test]
    fn credit_and_readiness_hold_data_back() {
        let mut out = Outgoing::default();
        out.open(ID, None, 30);
        assert!(!out.has_data() && out.waits_for_source());
        out.set_ready(ID, 50);
        assert_eq!(out.next_data(|_| 100).unwrap().range, ByteRange::new(0, 30));
        assert_eq!(out.next_data(|_| 100), None);
        out.on_credit(ID, 60);
        assert_eq!(
            out.next_data(|_| 100).unwrap().range,
            ByteRange::new(30, 50)
        );
        out.set_size(ID, 50);
        assert!(out.is_all_sent());
    }

    #[test]
    fn what_the_receiver_has_is_neither_sent_nor_missed() {
        let mut present = RangeSet::new();
        present.insert(ByteRange::new(10, 30));
        present.insert(ByteRange::new(40, 50));
        let mut out = Outgoing::default();
        out.open(ID, Some(50), u64::MAX);
        out.set_ready(ID, 20);
        assert_eq!(out.next_data(|_| 5).unwrap().range, ByteRange::new(0, 5));
        out.skip(ID, &present);
        let last = out.next_data(|_| 100).unwrap();
        assert_eq!(last.range, ByteRange::new(5, 10));
        assert_eq!(out.sent_end(ID), Some(30), "over what is there");
        assert!(!out.has_data() && out.waits_for_source());
        out.set_ready(ID, 50);
        assert!(out.has_data() && !out.is_all_sent());
        let next = out.next_data(|_| 100).unwrap();
        assert_eq!(next.range, ByteRange::new(30, 40));
        assert!(out.is_all_sent() && out.next_data(|_| 100).is_none());
        out.put_back(next);
        assert_eq!(out.next_data(|_| 100), Some(next));
        assert_eq!(out.acked_bytes(ID), 30);
        assert_eq!(out.sent_end(ID), Some(50));

        let mut incoming = Incoming::default();
        assert!(incoming.open(ID, Some(50), u64::MAX));
        incoming.note_present(ID, &present);
        assert_eq!(
            incoming.place(ID, ByteRange::new(12, 20)),
            Ok(Placed::Duplicate)
        );
        incoming.place(ID, ByteRange::new(0, 10)).unwrap();
        assert_eq!(incoming.take_complete(), None);
        incoming.place(ID, ByteRange::new(30, 40)).unwrap();
        assert_eq!(incoming.take_complete(), Some(ID));
        assert_eq!(incoming.received_bytes(ID), 50);
    }

    #[test]
    fn what_somebody_else_does_not_bring_is_sent_after_all() {
        let mut out = Outgoing::default();
        out.open(ID, Some(60), u64::MAX);
        out.set_ready(ID, 60);
        let mut theirs = RangeSet::new();
        theirs.insert(ByteRange::new(10, 20));
        theirs.insert(ByteRange::new(30, 60));
        out.skip(ID, &theirs);
        assert_eq!(out.next_data(|_| 100).unwrap().range.end, 10);
        assert_eq!(out.next_data(|_| 100).unwrap().range.end, 30);
        assert!(out.is_all_sent());
        // One that was passed over, and one that lies ahead in part.
        out.unskip(ID, ByteRange::new(12, 18));
        let again = out.next_data(|_| 100).unwrap();
        assert_eq!((again.range, again.again), (ByteRange::new(12, 18), true));
        out.unskip(ID, ByteRange::new(40, 50));
        assert!(!out.is_all_sent());
        assert_eq!(
            out.next_data(|_| 100).unwrap().range,
            ByteRange::new(40, 50)
        );
        assert!(out.next_data(|_| 100).is_none());
    }

    #[test]
    fn pieces_that_others_join_are_counted_no_more() {
        let mut incoming = Incoming::default();
        assert!(incoming.open(ID, None, u64::MAX));
        for at in 0..1_000 {
            let range = ByteRange::new(20 * at, 20 * at + 10);
            incoming.place(ID, range).unwrap();
            let mut theirs = RangeSet::new();
            theirs.insert(ByteRange::new(20 * at + 10, 20 * at + 20));
            incoming.note_present(ID, &theirs);
        }
        // Each began behind what came from elsewhere, or was joined to it.
        assert_eq!(incoming.pieces, 1);
        for at in (2_000..3_000).rev() {
            incoming
                .place(ID, ByteRange::new(20 * at, 20 * at + 10))
                .unwrap();
        }
        assert_eq!(incoming.pieces, 1_001);
        let mut theirs = RangeSet::new();
        theirs.insert(ByteRange::new(20_000, 60_000));
        incoming.note_present(ID, &theirs);
        assert_eq!(incoming.pieces, 1);
    }

    /// It could never end: an End that says so is refused.
    #[test]
    fn h18_an_object_that_is_larger_than_any_may_be_is_not_opened() {
        for (size, good) in [(limits::MAX_OFFSET, true), (limits::MAX_OFFSET + 1, false)] {
            let mut incoming = Incoming::default();
            assert_eq!(incoming.open(ID, Some(size), u64::MAX), good);
            assert_eq!(incoming.is_known(ID), good);
        }
    }

    /// Two files of a tree in one object, or one in that of its manifest: whoever puts bytes in order keeps each that comes for the first
    /// time, and so kept the same window again and again.
    #[test]
    fn h20_an_object_that_is_open_is_not_opened_again() {
        let mut incoming = Incoming::default();
        assert!(incoming.open(ID, None, 20));
        let early = ByteRange::new(5, 10);
        let first = incoming.place(ID, early);
        assert!(matches!(first, Ok(Placed::Write(_))), "{first:?}");
        assert!(!incoming.open(ID, Some(100), u64::MAX));
        assert_eq!(incoming.place(ID, early), Ok(Placed::Duplicate));
        // Nor has it another window.
        assert_eq!(
            incoming.place(ID, ByteRange::new(15, 25)),
            Err(PeerMisbehaved::DataBeyondEnd)
        );
        assert!(incoming.open(ObjectId::new(3), None, 20));
    }

    #[test]
    fn data_beyond_the_end_is_an_offence_and_stragglers_are_not() {
        let mut incoming = Incoming::default();
        assert_eq!(
            incoming.place(ID, ByteRange::new(0, 5)),
            Ok(Placed::Unknown)
        );
        assert!(incoming.open(ID, Some(10), u64::MAX));
        let write = |start, end| {
            Ok(Placed::Write(
                [ByteRange::new(start, end)].into_iter().collect(),
            ))
        };
        assert_eq!(incoming.place(ID, ByteRange::new(5, 10)), write(5, 10));
        assert_eq!(
            incoming.place(ID, ByteRange::new(5, 10)),
            Ok(Placed::Duplicate)
        );
        assert_eq!(
            incoming.place(ID, ByteRange::new(5, 11)),
            Err(PeerMisbehaved::DataBeyondEnd)
        );
        assert_eq!(incoming.take_complete(), None);
        assert_eq!(incoming.place(ID, ByteRange::new(0, 7)), write(0, 5));
        assert_eq!(incoming.take_complete(), Some(ID));
        assert_eq!(incoming.take_complete(), None);
        incoming.close(ID);
        assert_eq!(
            incoming.place(ID, ByteRange::new(0, 5)),
            Ok(Placed::Duplicate)
        );
    }
}
