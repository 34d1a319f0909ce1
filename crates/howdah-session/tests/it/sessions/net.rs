//! The connection under a session as it really is: two endpoints of `howdah-proto`, and a path between them that loses packets, delays
//! them, has them overtake each other and brings some twice. It hands up what they hand up: messages in order, and groups of an object
//! of which every byte has come.

use crate::sessions::sides::Piece;
use howdah_core::{Arrival, ByteRange, Datagram, ObjectId, RangeSet, Span, Time, Transport};
use howdah_proto::sim::{SimEndpoint, sim_config};
use howdah_proto::{Config, Event};
use howdah_session::resume::GROUP;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use std::collections::{BTreeMap, BTreeSet};

/// What comes up at one end.
#[derive(Default)]
pub(crate) struct Up {
    pub(crate) messages: Vec<Vec<u8>>,
    pub(crate) pieces: Vec<Piece>,
    /// The connection is over.
    pub(crate) is_lost: bool,
}

/// An object that comes, as its receiver has let it in.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) object: ObjectId,
    pub(crate) size: Option<u64>,
    /// What is there of it already.
    pub(crate) present: RangeSet,
}

struct Out {
    object: ObjectId,
    size: u64,
    /// Groups below that may leave, or are left out.
    ready: u64,
    /// What the groups are that were read.
    numbers: BTreeMap<u64, u64>,
}

pub(crate) struct Net {
    /// Client and server.
    ends: [SimEndpoint; 2],
    began: Time,
    now: Time,
    random: ChaCha8Rng,
    /// Of 1000 packets so many are lost, come twice, come late.
    lost: u64,
    twice: u64,
    late: u64,
    delay: Span,
    flying: BTreeMap<(Time, u64), (usize, Datagram)>,
    flown: u64,
    /// Nothing comes through before then.
    silent_until: Time,
    out: Option<Out>,
    admitted: Option<ObjectId>,
    given: BTreeSet<u64>,
    /// Packets that were lost.
    pub(crate) drops: u64,
}

impl Net {
    pub(crate) fn new(seed: u64, began: Time) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut one_of = |values: [u64; 4]| values[(random.next_u64() % 4) as usize];
        let (lost, twice, late) = (
            one_of([0, 2, 20, 150]),
            one_of([0, 0, 5, 50]),
            one_of([0, 5, 50, 300]),
        );
        let delay = Span::from_micros(one_of([100, 1_000, 10_000, 60_000]));
        let config = Config {
            max_datagram: 8_972,
            ..sim_config()
        };
        Self {
            ends: [
                SimEndpoint::client(config.clone(), seed).recording(),
                SimEndpoint::server(config, seed, seed ^ 1).recording(),
            ],
            began,
            now: Time::ZERO,
            random,
            lost,
            twice,
            late,
            delay,
            flying: BTreeMap::new(),
            flown: 0,
            silent_until: Time::ZERO,
            out: None,
            admitted: None,
            given: BTreeSet::new(),
            drops: 0,
        }
    }

    fn one_in_1000(&mut self, n: u64) -> bool {
        self.random.next_u64() % 1_000 < n
    }

    /// Nothing comes through for that long.
    pub(crate) fn fall_silent(&mut self, time: Span) {
        self.silent_until = self.now + time;
    }

    /// One end says something.
    pub(crate) fn say(&mut self, end: usize, messages: Vec<Vec<u8>>) {
        for message in messages {
            self.ends[end].connection_mut().send_control(&message);
        }
    }

    /// One end has read a group; those before it that it has not read are left out.
    pub(crate) fn read(&mut self, end: usize, piece: Piece) {
        let connection = self.ends[end].connection_mut();
        let out = self.out.get_or_insert_with(|| {
            let object = connection.allocate_object();
            assert_eq!(object, piece.object, "each connection has one object");
            connection.send_object(object, Some(piece.size), u64::MAX);
            Out {
                object,
                size: piece.size,
                ready: 0,
                numbers: BTreeMap::new(),
            }
        });
        if piece.group > out.ready {
            let mut left_out = RangeSet::new();
            left_out.insert(ByteRange::new(out.ready * GROUP, piece.group * GROUP));
            connection.skip_sending(out.object, &left_out);
        }
        out.ready = piece.group + 1;
        out.numbers.insert(piece.group, piece.number);
        connection.set_readable(out.object, out.size.min(out.ready * GROUP));
    }

    /// What one end has let in. False: its connection does not.
    pub(crate) fn admit(&mut self, end: usize, expected: &Expected) -> bool {
        let connection = self.ends[end].connection_mut();
        let object = expected.object;
        if self.admitted.replace(object) != Some(object)
            && !connection.receive_object(object, expected.size, None)
        {
            return false;
        }
        connection.note_present(object, &expected.present);
        true
    }

    /// Lets time pass until `until`, or until something comes up at one end. What comes up at client and server.
    pub(crate) fn run(&mut self, until: Time) -> [Up; 2] {
        let until = Time::ZERO + until.since(self.began);
        loop {
            self.transmit(0);
            self.transmit(1);
            let up = [0, 1].map(|end| self.take(end));
            let is_some = |up: &Up| up.is_lost || !up.messages.is_empty() || !up.pieces.is_empty();
            let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
            let timers = self.ends.iter().filter_map(Transport::poll_timeout);
            let next = timers.map(|(at, _)| at).chain(arrival).min();
            let next = next.filter(|next| *next <= until);
            let Some(next) = next.filter(|_| !up.iter().any(is_some)) else {
                if next.is_none() {
                    self.now = until.max(self.now);
                }
                return up;
            };
            self.now = next.max(self.now);
            while let Some(first) = self.flying.first_entry()
                && first.key().0 <= self.now
            {
                let (to, datagram) = first.remove();
                self.ends[to].handle_datagram(
                    self.now,
                    Arrival {
                        bytes: &datagram.bytes,
                        absent: datagram.absent,
                        corrupt: false,
                    },
                );
            }
            for end in &mut self.ends {
                if end.poll_timeout().is_some_and(|(at, _)| at <= self.now) {
                    end.handle_timeout(self.now);
                }
            }
        }
    }

    /// The time that it has come to.
    pub(crate) fn time(&self) -> Time {
        self.began + self.now.since(Time::ZERO)
    }

    fn transmit(&mut self, end: usize) {
        let mut datagrams = Vec::new();
        while self.ends[end].poll_transmit(self.now, 64, &mut datagrams) > 0 {}
        for datagram in datagrams {
            if self.now < self.silent_until || self.one_in_1000(self.lost) {
                self.drops += 1;
                continue;
            }
            let copies = 1 + u32::from(self.one_in_1000(self.twice));
            for _ in 0..copies {
                let mut delay = self.delay;
                if self.one_in_1000(self.late) {
                    delay += self.delay * (1 + self.random.next_u64() % 4);
                }
                self.flown += 1;
                let at = (self.now + delay, self.flown);
                self.flying.insert(at, (1 - end, datagram.clone()));
            }
        }
    }

    fn take(&mut self, end: usize) -> Up {
        let mut up = Up::default();
        for event in self.ends[end].take_events() {
            match event {
                Event::Control(message) => up.messages.push(message),
                Event::Closed(_) => up.is_lost = true,
                _ => {}
            }
        }
        if let Some(out) = &self.out
            && let Some(placed) = self.ends[end].placed(out.object)
        {
            for (&group, &number) in &out.numbers {
                let range = ByteRange::new(group * GROUP, out.size.min((group + 1) * GROUP));
                if placed.contains(range) && self.given.insert(group) {
                    up.pieces.push(Piece {
                        object: out.object,
                        group,
                        number,
                        size: out.size,
                    });
                }
            }
        }
        up
    }
}
