//! Both halves of objects against a plain model, with any windows, readiness, losses, repeats and sizes told late.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const SPACE: u64 = 40;

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Bytes below can be read.
    Ready(u64),
    /// Bytes below may be sent; and may come, as the receiver had granted them before.
    Credit(u64),
    /// A packet with so many bytes at most leaves, and arrives.
    Send(u64),
    /// One leaves and is lost. It is noted later.
    Lose(u64),
    /// One could not leave after all.
    PutBack(u64),
    /// One that arrived before arrives again.
    Again(usize),
    /// The first loss that is not noted yet is noted.
    Note,
    /// What arrived first and is not acknowledged is, in that piece.
    Ack,
    /// The receiver has these from elsewhere.
    Present(u64, u64),
    /// The size becomes known.
    Size,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0..SPACE + 8).prop_map(Op::Ready),
        (0..SPACE + 8).prop_map(Op::Credit),
        (1..12u64).prop_map(Op::Send),
        (1..12u64).prop_map(Op::Send),
        (1..12u64).prop_map(Op::Lose),
        (1..12u64).prop_map(Op::PutBack),
        any::<usize>().prop_map(Op::Again),
        Just(Op::Note),
        Just(Op::Ack),
        (0..SPACE, 0..12u64).prop_map(|(start, len)| Op::Present(start, (start + len).min(SPACE))),
        Just(Op::Size),
    ]
}

fn bytes(range: ByteRange) -> impl Iterator<Item = u64> {
    range.start..range.end
}

/// What is true of both sides, byte by byte.
struct World {
    out: Outgoing,
    incoming: Incoming,
    size: u64,
    knows_size: bool,
    ready: u64,
    credit: u64,
    /// Sent for the first time.
    sent: BTreeSet<u64>,
    /// With the receiver.
    there: BTreeSet<u64>,
    /// There from elsewhere.
    present: BTreeSet<u64>,
    written: BTreeSet<u64>,
    lost: VecDeque<ByteRange>,
    noted: BTreeSet<u64>,
    arrived: Vec<ByteRange>,
    unacked: VecDeque<ByteRange>,
    acked: BTreeSet<u64>,
    complete: usize,
}

const ID: ObjectId = ObjectId::new(3);

impl World {
    fn new(size: u64, knows_size: bool, credit: u64) -> Self {
        let mut out = Outgoing::default();
        let told = knows_size.then_some(size);
        out.open(ID, told, credit);
        let mut incoming = Incoming::default();
        assert!(incoming.open(ID, told, credit));
        Self {
            out,
            incoming,
            size,
            knows_size,
            ready: 0,
            credit,
            sent: BTreeSet::new(),
            there: BTreeSet::new(),
            present: BTreeSet::new(),
            written: BTreeSet::new(),
            lost: VecDeque::new(),
            noted: BTreeSet::new(),
            arrived: Vec::new(),
            unacked: VecDeque::new(),
            acked: BTreeSet::new(),
            complete: 0,
        }
    }

    fn limit(&self) -> u64 {
        self.ready.min(self.credit).min(self.size)
    }

    /// Takes a packet from the sender and checks that it may leave.
    fn next(&mut self, max: u64) -> Option<NextData> {
        let due: Vec<u64> = self.noted.difference(&self.acked).copied().collect();
        let fresh: Vec<u64> = (0..self.limit())
            .filter(|at| !self.sent.contains(at) && !self.acked.contains(at))
            .collect();
        assert_eq!(
            self.out.has_data(),
            !self.out.repair.is_empty() || !fresh.is_empty()
        );
        let Some(next) = self.out.next_data(|_| max) else {
            assert!(due.is_empty() && fresh.is_empty(), "{due:?} {fresh:?} wait");
            return None;
        };
        assert_eq!(next.object, ID);
        assert!(!next.range.is_empty() && next.range.len() <= max);
        for at in bytes(next.range) {
            assert!(!self.acked.contains(&at), "byte {at} is there");
            if next.again {
                assert!(self.noted.contains(&at), "byte {at} was not lost");
            } else {
                assert!(due.is_empty(), "repairs go first");
                assert!(fresh.contains(&at), "byte {at} may not leave");
            }
        }
        if !next.again {
            assert_eq!(fresh.first(), Some(&next.range.start), "in order");
        }
        Some(next)
    }

    fn leaves(&mut self, next: NextData) {
        for at in bytes(next.range) {
            self.noted.remove(&at);
            self.sent.insert(at);
        }
    }

    fn arrives(&mut self, range: ByteRange) {
        let fresh: Vec<u64> = bytes(range).filter(|at| !self.there.contains(at)).collect();
        match self.incoming.place(ID, range) {
            Ok(Placed::Write(parts)) => {
                let parts: Vec<u64> = parts.iter().copied().flat_map(bytes).collect();
                assert_eq!(parts, fresh);
                for at in parts {
                    assert!(self.written.insert(at), "byte {at} is written twice");
                }
            }
            other => {
                assert_eq!(other, Ok(Placed::Duplicate));
                assert!(fresh.is_empty());
            }
        }
        self.there.extend(bytes(range));
        self.arrived.push(range);
        self.unacked.push_back(range);
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Ready(end) => {
                let end = end.min(self.size);
                self.out.set_ready(ID, end);
                self.ready = self.ready.max(end);
            }
            Op::Credit(end) => {
                self.incoming.set_limit(ID, end);
                self.out.on_credit(ID, end);
                self.credit = self.credit.max(end);
            }
            Op::Send(max) => {
                if let Some(next) = self.next(max) {
                    self.leaves(next);
                    self.arrives(next.range);
                }
            }
            Op::Lose(max) => {
                if let Some(next) = self.next(max) {
                    self.leaves(next);
                    self.lost.push_back(next.range);
                }
            }
            Op::PutBack(max) => {
                if let Some(next) = self.next(max) {
                    self.out.put_back(next);
                    assert_eq!(self.next(max), Some(next), "the same once more");
                    self.out.put_back(next);
                }
            }
            Op::Again(which) => {
                if !self.arrived.is_empty() {
                    let range = self.arrived[which % self.arrived.len()];
                    self.arrives(range);
                }
            }
            Op::Note => {
                if let Some(range) = self.lost.pop_front() {
                    let wants = bytes(range).any(|at| !self.acked.contains(&at));
                    assert_eq!(self.out.wants_repeat(ID, range), wants);
                    self.out.on_lost(ID, range);
                    self.noted
                        .extend(bytes(range).filter(|at| !self.acked.contains(at)));
                }
            }
            Op::Ack => {
                if let Some(range) = self.unacked.pop_front() {
                    self.out.on_acked(ID, range);
                    self.acked.extend(bytes(range));
                }
            }
            Op::Present(start, end) => {
                let end = end.min(self.size);
                // It is told before the first byte is sent.
                if start < end && self.sent.is_empty() && self.there.is_empty() {
                    let mut ranges = RangeSet::new();
                    ranges.insert(ByteRange::new(start, end));
                    self.out.skip(ID, &ranges);
                    self.incoming.note_present(ID, &ranges);
                    self.acked.extend(start..end);
                    self.present.extend(start..end);
                    self.there.extend(start..end);
                }
            }
            Op::Size => {
                self.out.set_size(ID, self.size);
                assert!(self.incoming.set_size(ID, self.size));
                self.knows_size = true;
                assert!(
                    !self.incoming.set_size(ID, self.size + 1),
                    "it said another one"
                );
            }
        }
        self.check();
    }

    fn check(&mut self) {
        assert_eq!(self.out.acked_bytes(ID), self.acked.len() as u64);
        let prefix = (0..=2 * SPACE).find(|at| !self.acked.contains(at));
        assert_eq!(Some(self.out.acked_prefix(ID)), prefix);
        assert_eq!(self.incoming.received_bytes(ID), self.there.len() as u64);
        let is_sent = |at: &u64| self.sent.contains(at) || self.acked.contains(at);
        assert_eq!(
            self.out.sent_end(ID),
            (0..=2 * SPACE)
                .find(|at| !is_sent(at))
                .map(|end| {
                    // Over what need not be sent, and not into what follows it.
                    end.max(self.sent.last().map_or(0, |last| last + 1))
                })
                .map(|end| (end..=2 * SPACE)
                    .find(|at| !self.acked.contains(at))
                    .expect("it ends"))
        );
        let all_sent = self.knows_size && (0..self.size).all(|at| is_sent(&at));
        assert_eq!(
            self.out.is_all_sent(),
            all_sent && self.out.repair.is_empty()
        );
        assert_eq!(
            self.out.waits_for_source(),
            !self.out.has_data() && !all_sent
        );
        while let Some(id) = self.incoming.take_complete() {
            assert_eq!(id, ID);
            self.complete += 1;
        }
        let is_whole = self.knows_size && self.there.len() as u64 == self.size;
        assert_eq!(self.complete, usize::from(is_whole));
        assert_eq!(self.incoming.is_receiving(), !is_whole);
        assert!(self.incoming.pieces <= self.arrived.len() + 1);
    }

    /// A good path from here on: everything arrives, once each.
    fn finish(mut self) {
        for op in [Op::Ready(self.size), Op::Credit(self.size), Op::Size] {
            self.apply(op);
        }
        for _ in 0..4 * SPACE {
            self.apply(Op::Note);
            self.apply(Op::Send(7));
            self.apply(Op::Ack);
        }
        assert_eq!(self.out.acked_bytes(ID), self.size);
        assert_eq!(self.complete, 1);
        let all: BTreeSet<u64> = self.written.union(&self.present).copied().collect();
        assert_eq!(all.len() as u64, self.size);
        assert!(self.written.is_disjoint(&self.present));
        // Stragglers are no offence, beyond the end they are.
        assert_eq!(
            self.incoming.place(ID, ByteRange::new(0, self.size)),
            Ok(Placed::Duplicate)
        );
        let beyond = ByteRange::new(self.size, self.size + 1);
        assert_eq!(
            self.incoming.place(ID, beyond),
            Err(PeerMisbehaved::DataBeyondEnd)
        );
        self.incoming.close(ID);
        assert_eq!(self.incoming.pieces, 0);
        assert_eq!(self.incoming.place(ID, beyond), Ok(Placed::Duplicate));
        assert!(
            !self.incoming.open(ID, None, 0)
                && self.incoming.open(ObjectId::new(ID.get() + 1), None, 0)
        );
        assert_eq!(
            self.incoming.place(ObjectId::new(ID.get() + 2), beyond),
            Ok(Placed::Unknown)
        );
        self.out.on_lost(ID, ByteRange::new(0, self.size));
        self.out.close(ID);
        assert!(!self.out.has_data() && !self.out.is_all_sent() && !self.out.waits_for_source());
        assert_eq!((self.out.sent_end(ID), self.out.acked_bytes(ID)), (None, 0));
        assert!(!self.out.wants_repeat(ID, ByteRange::new(0, 1)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn windows_and_credit_let_every_byte_through_once(
        size in 1..SPACE,
        knows_size: bool,
        credit in 0..SPACE,
        ops in prop::collection::vec(op(), 0..80),
    ) {
        let mut world = World::new(size, knows_size, credit);
        for op in ops {
            world.apply(op);
        }
        world.finish();
    }
}

/// A receiver has room for so many separate ranges and open objects, and no more.
#[test]
fn what_a_peer_scatters_is_bounded() {
    let mut incoming = Incoming::default();
    let id = ObjectId::new;
    for number in 0..limits::MAX_OPEN_OBJECTS as u64 {
        assert!(incoming.open(id(number), None, u64::MAX));
    }
    assert!(!incoming.open(id(limits::MAX_OPEN_OBJECTS as u64), None, 1));
    let piece = |n: u64| ByteRange::new(2 * n, 2 * n + 1);
    let most = limits::MAX_RANGES as u64;
    for n in 0..most {
        // Two objects: the bound is for all together.
        assert!(incoming.place(id(n % 2), piece(n)).is_ok(), "{n}");
    }
    let hole = ByteRange::new(1, 5);
    assert!(
        incoming.place(id(0), hole).is_ok(),
        "it makes fewer of them"
    );
    assert!(incoming.place(id(1), piece(most + 1)).is_ok());
    assert_eq!(
        incoming.place(id(1), piece(most + 5)),
        Err(PeerMisbehaved::TooScattered)
    );
    assert!(!incoming.set_size(id(0), 1), "more has come");
    assert!(!incoming.set_size(id(0), limits::MAX_OFFSET + 1));
    assert!(incoming.set_size(id(0), limits::MAX_OFFSET) && incoming.set_size(id(99_999), 1));
}

/// What was lost of an object that is closed is not sent again; what was lost of others is.
#[test]
fn an_object_that_is_closed_takes_its_repairs_with_it_and_no_others() {
    let mut out = Outgoing::default();
    for id in [1, 2].map(ObjectId::new) {
        out.open(id, Some(10), u64::MAX);
        out.set_ready(id, 10);
        assert_eq!(out.next_data(|_| 10).map(|next| next.object), Some(id));
    }
    for id in [1, 2].map(ObjectId::new) {
        out.on_lost(id, ByteRange::new(0, 10));
    }
    out.close(ObjectId::new(1));
    let next = out.next_data(|_| 10).expect("the other one's");
    assert_eq!((next.object, next.again), (ObjectId::new(2), true));
    assert!(out.next_data(|_| 10).is_none() && !out.has_data());
}
