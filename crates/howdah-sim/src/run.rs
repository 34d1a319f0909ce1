//! The event loop.

use crate::agenda::Key;
use crate::checks::{BURST_LIMIT, INSTANT_LIMIT, Kind};
use crate::flow::Fate;
use crate::lane::Flight;
use crate::timeline::Action;
use crate::world::{Source, TIMELINE_SLOT, World};
use crate::{EndpointId, PathId};
use howdah_core::{Arrival, Datagram, HeaderBytes, Time, Transport};
use howdah_path::{Delivery, Verdict};

/// Datagrams asked of a transport at a time.
const BATCH: usize = 64;

impl<T: Transport> World<T> {
    /// Handles one event and returns its time; `None` if nothing will ever happen again, which
    /// cannot be as long as there is a sampler.
    pub fn step(&mut self) -> Option<Time> {
        let (key, slot) = self.agenda.first()?;
        self.handle(key, slot);
        Some(key.time)
    }

    /// Handles everything up to and including `end`, and moves time there.
    pub fn run_until(&mut self, end: Time) {
        while let Some((key, slot)) = self.agenda.first()
            && key.time <= end
        {
            self.handle(key, slot);
        }
        self.now = self.now.max(end);
        self.audit();
    }

    /// Handles events as long as `condition` holds, but none later than `limit`. Returns whether
    /// it was the condition that ended it; if not, time has moved to `limit`.
    ///
    /// The condition is asked before each event, so it ought to be cheap.
    pub fn run_while(&mut self, mut condition: impl FnMut(&Self) -> bool, limit: Time) -> bool {
        while condition(self) {
            match self.agenda.first() {
                Some((key, slot)) if key.time <= limit => self.handle(key, slot),
                _ => {
                    self.now = self.now.max(limit);
                    self.audit();
                    return false;
                }
            }
        }
        self.audit();
        true
    }

    /// Panics unless every path conserves datagrams. Called at the end of each run.
    ///
    /// # Panics
    /// If datagrams vanished or appeared.
    pub fn audit(&self) {
        let in_flight: usize = self.paths.iter().map(|path| path.lane.len()).sum();
        assert_eq!(
            in_flight,
            self.pool.len(),
            "datagrams in flight and datagrams stored"
        );
        for (index, path) in self.paths.iter().enumerate() {
            let theirs = path.one_way.counters();
            path.ledger
                .audit(PathId::nth(index), path.lane.len(), &theirs);
        }
    }

    fn handle(&mut self, key: Key, slot: u32) {
        assert!(
            key.time >= self.now,
            "time goes back from {} to {}",
            self.now,
            key.time
        );
        if key.time > self.now {
            self.now = key.time;
            self.events_this_instant = 0;
        }
        self.events += 1;
        self.events_this_instant += 1;
        assert!(
            self.events_this_instant < INSTANT_LIMIT,
            "{INSTANT_LIMIT} events at {} and no end: do endpoints answer each other over a path \
             that takes no time?",
            self.now
        );
        match self.sources[slot as usize] {
            Source::Lane(path) => self.leave_path(path as usize),
            Source::Timer(endpoint) => self.wake(endpoint as usize),
            Source::Timeline => self.act(),
        }
    }

    fn wake(&mut self, index: usize) {
        let endpoint = &mut self.endpoints[index];
        endpoint.started = true;
        endpoint.counters.wakes += 1;
        self.fingerprint.mix(self.now, Kind::Timer, index as u32, 0);
        endpoint.transport.handle_timeout(self.now);
        self.drain(index, true);
    }

    fn act(&mut self) {
        let action = self.timeline.pop().expect("the agenda knows of an action");
        self.agenda.set(TIMELINE_SLOT, self.timeline.head());
        match action {
            Action::Once(change) => {
                self.fingerprint.mix(self.now, Kind::Action, 0, 0);
                change(self);
            }
            Action::Every { span, mut sample } => {
                sample(self.now, self);
                let key = self.key_at(self.now + span);
                self.schedule(key, Action::Every { span, sample });
            }
        }
    }

    /// Takes the head of a path's lane to the next path or to its endpoint.
    fn leave_path(&mut self, path: usize) {
        let path = &mut self.paths[path];
        let flight = path.lane.pop().expect("the agenda knows of a datagram");
        path.ledger.delivered += 1;
        self.agenda.set(path.slot, path.lane.head());
        let sender = &self.endpoints[flight.sender as usize];
        if usize::from(flight.hop) + 1 < sender.route.len() {
            self.offer(Flight {
                hop: flight.hop + 1,
                ..flight
            });
            return;
        }
        let index = sender.peer as usize;
        let endpoint = &mut self.endpoints[index];
        if flight.corrupt || endpoint.hook.is_some() {
            self.arrive_slowly(flight, index);
        } else {
            self.fingerprint
                .mix(self.now, Kind::Delivered, index as u32, flight.wire_len);
            endpoint.counters.received_datagrams += 1;
            endpoint.counters.received_bytes += u64::from(flight.wire_len);
            let Datagram { bytes, absent } = self.pool.get(flight.parcel);
            let arrival = Arrival {
                bytes,
                absent: *absent,
                corrupt: false,
            };
            endpoint.transport.handle_datagram(self.now, arrival);
        }
        self.pool.release(flight.parcel);
        self.drain(index, false);
    }

    /// The arrival of a datagram that is damaged or that a hook wants to see.
    #[cold]
    fn arrive_slowly(&mut self, flight: Flight, index: usize) {
        let endpoint = &mut self.endpoints[index];
        let datagram = self.pool.get_mut(flight.parcel);
        let fate = match &mut endpoint.hook {
            Some(hook) => hook(self.now, datagram),
            None => Fate::Deliver,
        };
        let corrupt = flight.corrupt || fate == Fate::Corrupt;
        let kind = match (fate, corrupt) {
            (Fate::Discard, _) => Kind::Discarded,
            (_, true) => Kind::Corrupt,
            (_, false) => Kind::Delivered,
        };
        self.fingerprint
            .mix(self.now, kind, index as u32, flight.wire_len);
        if fate == Fate::Discard {
            endpoint.counters.discarded += 1;
            return;
        }
        endpoint.counters.received_datagrams += 1;
        endpoint.counters.received_bytes += u64::from(flight.wire_len);
        endpoint.counters.received_corrupt += u64::from(corrupt);
        if corrupt && flight.wire_len > 0 {
            // One wrong bit somewhere in the datagram, which mostly means in the absent payload.
            let bit = self.damage.below(u64::from(flight.wire_len) * 8);
            flip(&mut datagram.bytes, bit);
        }
        let Datagram { bytes, absent } = &*datagram;
        let arrival = Arrival {
            bytes,
            absent: *absent,
            corrupt,
        };
        endpoint.transport.handle_datagram(self.now, arrival);
    }

    /// Sends all that a transport has to send and notes when it wants to be woken. `woken` says
    /// that the wake-up in the agenda has just happened.
    fn drain(&mut self, index: usize, woken: bool) {
        let mut outbox = std::mem::take(&mut self.outbox);
        let mut burst = 0;
        loop {
            let count = self.endpoints[index]
                .transport
                .poll_transmit(self.now, BATCH, &mut outbox);
            assert_eq!(
                count,
                outbox.len(),
                "poll_transmit returns how many datagrams it appended"
            );
            if count == 0 {
                break;
            }
            burst += count;
            assert!(
                burst < BURST_LIMIT,
                "{} has sent {burst} datagrams at {} and has still more",
                EndpointId::nth(index),
                self.now
            );
            for datagram in outbox.drain(..) {
                let wire_len = datagram.wire_len();
                let counters = &mut self.endpoints[index].counters;
                counters.sent_datagrams += 1;
                counters.sent_bytes += u64::from(wire_len);
                let sender = index as u32;
                self.fingerprint.mix(self.now, Kind::Sent, sender, wire_len);
                let parcel = self.pool.store(datagram);
                let key = Key::NEVER;
                self.offer(Flight {
                    key,
                    parcel,
                    wire_len,
                    sender,
                    hop: 0,
                    corrupt: false,
                });
            }
        }
        self.outbox = outbox;
        self.arm(index, woken, burst > 0);
    }

    fn arm(&mut self, index: usize, woken: bool, sent: bool) {
        let endpoint = &mut self.endpoints[index];
        let planned = self.agenda.get(endpoint.slot).map(|key| key.time);
        let wanted = endpoint.transport.poll_timeout().map(|(due, why)| {
            if woken && !sent {
                endpoint
                    .guard
                    .idle_wake(EndpointId(index as u32), self.now, due, why);
            }
            due.max(self.now)
        });
        let slot = endpoint.slot;
        // An unchanged wish keeps its place in the order of events.
        if woken || wanted != planned {
            let key = wanted.map(|time| self.key_at(time));
            self.agenda.set(slot, key);
        }
    }

    /// Offers a datagram to the path of its sender's route that `flight.hop` names. The flight's
    /// key is not yet known.
    fn offer(&mut self, mut flight: Flight) {
        let endpoint = &self.endpoints[flight.sender as usize];
        let path = &mut self.paths[endpoint.route[usize::from(flight.hop)] as usize];
        let ip_bytes = flight.wire_len + endpoint.header_bytes;
        path.ledger.offered += 1;
        match path.one_way.offer(self.now, ip_bytes) {
            Verdict::Deliver(Delivery {
                at,
                corrupt,
                duplicate_at,
            }) => {
                path.floor.check(self.now, at, ip_bytes);
                self.seq += 1;
                flight.key = Key::new(at, self.seq);
                flight.corrupt |= corrupt;
                path.lane.push(flight);
                if let Some(again) = duplicate_at {
                    path.floor.check(self.now, again, ip_bytes);
                    path.ledger.duplicated += 1;
                    self.seq += 1;
                    flight.key = Key::new(again, self.seq);
                    flight.parcel = self.pool.copy(flight.parcel);
                    path.lane.push(flight);
                }
                let head = path.lane.head();
                if self.agenda.get(path.slot) != head {
                    self.agenda.set(path.slot, head);
                }
            }
            Verdict::Drop(_) => {
                path.ledger.dropped += 1;
                self.fingerprint
                    .mix(self.now, Kind::Dropped, flight.sender, flight.wire_len);
                self.pool.release(flight.parcel);
            }
        }
    }
}

/// Flips a bit of the header, or none if it lies in what is not carried.
fn flip(bytes: &mut HeaderBytes, bit: u64) {
    if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
        *byte ^= 1 << (bit % 8);
    }
}
