//! The event loop.

use crate::agenda::Key;
use crate::checks::{BURST_LIMIT, Floor, INSTANT_LIMIT, Kind};
use crate::flow::Fate;
use crate::lane::Flight;
use crate::world::Action;
use crate::world::{Path, Source, TIMELINE_SLOT, World};
use crate::{EndpointId, PathId};
use howdah_core::{Arrival, Datagram, Ecn, HeaderBytes, Time, Transport};
use howdah_path::{Delivery, PathConfig, Switch, Verdict};
use std::collections::VecDeque;

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
        let on_paths: usize = self.paths.iter().map(Path::holds).sum();
        assert_eq!(
            on_paths + self.in_sockets,
            self.pool.len(),
            "datagrams on paths and in sockets, and datagrams stored"
        );
        for (index, path) in self.paths.iter().enumerate() {
            path.ledger.audit(
                PathId::nth(index),
                path.lane.len(),
                path.waits(),
                &path.one_way.counters(),
                path.one_way.waiting(),
            );
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
            Source::Queue(path) => self.release(path as usize),
            Source::Core(core) => self.finish_job(core),
            Source::Gather(endpoint) => self.read_gathered(endpoint as usize),
            Source::Backlog(backlog) => self.finish_arrival(backlog),
        }
    }

    fn wake(&mut self, index: usize) {
        self.endpoints[index].started = true;
        if self.endpoints[index].process.is_some() {
            self.wake_process(index);
        } else {
            self.wake_transport(index);
            self.drain(index, true);
        }
    }

    #[inline]
    pub(crate) fn wake_transport(&mut self, index: usize) {
        let endpoint = &mut self.endpoints[index];
        endpoint.counters.wakes += 1;
        self.fingerprint.mix(self.now, Kind::Timer, index as u32, 0);
        endpoint.transport.handle_timeout(self.now);
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
        let flight = path.lane.take();
        path.ledger.delivered += 1;
        if let Some(place) = path.lane.ahead() {
            self.pool.touch(place);
        }
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
        if self.capture.is_some() {
            self.show_coming(&flight, index);
        }
        if self.endpoints[index].process.is_some() {
            self.reach_socket(flight, index);
        } else if let Some(backlog) = self.endpoints[index].backlog {
            self.reach_backlog(backlog, flight, index);
        } else {
            self.hand_over(flight, index);
        }
    }

    /// Hands a datagram to a transport without a process, and sends what it wants to send then.
    #[allow(
        clippy::inline_always,
        reason = "it has few callers and one of them is hot"
    )]
    #[inline(always)]
    pub(crate) fn hand_over(&mut self, flight: Flight, index: usize) {
        self.deliver(flight, index);
        if !self.endpoints[index].transport.is_settled(self.now) {
            self.drain(index, false);
        }
    }

    /// Hands a datagram to the transport.
    #[allow(
        clippy::inline_always,
        reason = "it has two callers and one of them is hot"
    )]
    #[inline(always)]
    pub(crate) fn deliver(&mut self, flight: Flight, index: usize) {
        let endpoint = &mut self.endpoints[index];
        if flight.ecn != Ecn::NotEct {
            endpoint.counters.received_marked += u64::from(flight.ecn == Ecn::Ce);
            endpoint.transport.handle_ecn(self.now, flight.ecn);
        }
        if flight.corrupt || endpoint.hook.is_some() {
            self.arrive_slowly(flight, index);
        } else {
            self.fingerprint
                .mix(self.now, Kind::Delivered, index as u32, flight.wire_len);
            endpoint.counters.received_datagrams += 1;
            endpoint.counters.received_bytes += u64::from(flight.wire_len);
            let (bytes, absent) = self.pool.get(flight.parcel);
            let arrival = Arrival {
                bytes,
                absent,
                corrupt: false,
            };
            endpoint.transport.handle_datagram(self.now, arrival);
        }
        self.pool.release(flight.parcel);
    }

    /// The arrival of a datagram that is damaged or that a hook wants to see.
    #[cold]
    fn arrive_slowly(&mut self, flight: Flight, index: usize) {
        let endpoint = &mut self.endpoints[index];
        let mut datagram = self.pool.datagram(flight.parcel);
        let fate = match &mut endpoint.hook {
            Some(hook) => hook(self.now, &datagram),
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
        let arrival = Arrival {
            bytes: &datagram.bytes,
            absent: datagram.absent,
            corrupt,
        };
        endpoint.transport.handle_datagram(self.now, arrival);
    }

    /// Sends all that a transport has to send and notes when it wants to be woken. `woken` says
    /// that the wake-up in the agenda has just happened.
    fn drain(&mut self, index: usize, woken: bool) {
        let mut outbox = std::mem::take(&mut self.outbox);
        let mut burst = 0;
        let port = self.endpoints[index].route[0] as usize;
        let host_queue = self.paths[port].host_queue;
        loop {
            let room = host_queue.saturating_sub(self.paths[port].holds());
            // A single datagram that is refused is the last one that was asked for.
            let most = room.clamp(1, BATCH);
            let count = self.endpoints[index]
                .transport
                .poll_transmit(self.now, most, &mut outbox);
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
            if room == 0 && self.is_refused(index, &mut outbox) {
                break;
            }
            for datagram in &mut outbox {
                self.send(index, datagram);
            }
            outbox.clear();
        }
        self.outbox = outbox;
        self.arm(index, woken, woken && burst == 0);
    }

    /// Offers a datagram back to the transport whose host has no room for it. False if it remains
    /// to be sent.
    #[cold]
    fn is_refused(&mut self, index: usize, outbox: &mut Vec<Datagram>) -> bool {
        let Some(datagram) = outbox.pop() else {
            return false;
        };
        let wire_len = datagram.wire_len();
        let endpoint = &mut self.endpoints[index];
        if let Some(datagram) = endpoint.transport.handle_refused(self.now, datagram) {
            outbox.push(datagram);
            return false;
        }
        endpoint.counters.refused_datagrams += 1;
        self.fingerprint
            .mix(self.now, Kind::Refused, index as u32, wire_len);
        true
    }

    /// Gives a datagram to the first path of its route.
    #[allow(
        clippy::inline_always,
        reason = "it has two callers and one of them is hot"
    )]
    #[inline(always)]
    pub(crate) fn send(&mut self, index: usize, datagram: &mut Datagram) {
        let wire_len = datagram.wire_len();
        let counters = &mut self.endpoints[index].counters;
        counters.sent_datagrams += 1;
        counters.sent_bytes += u64::from(wire_len);
        let sender = index as u32;
        self.fingerprint.mix(self.now, Kind::Sent, sender, wire_len);
        let ecn = self.endpoints[index].transport.ecn(datagram);
        if self.capture.is_some() {
            self.show_leaving(index, datagram, ecn);
        }
        let parcel = self.pool.store(datagram);
        self.offer(Flight {
            key: Key::NEVER,
            parcel,
            wire_len,
            sender,
            hop: 0,
            corrupt: false,
            ecn,
        });
    }

    /// Notes when a transport wants to be woken. `woken` says that the wake-up in the agenda has
    /// just happened, `idle_wake` that a wake-up has led to nothing.
    pub(crate) fn arm(&mut self, index: usize, woken: bool, idle_wake: bool) {
        let endpoint = &mut self.endpoints[index];
        let planned = self.agenda.get(endpoint.slot).map(|key| key.time);
        let wanted = endpoint.transport.poll_timeout().map(|(due, why)| {
            if idle_wake {
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
    fn offer(&mut self, flight: Flight) {
        let endpoint = &self.endpoints[flight.sender as usize];
        let index = endpoint.route[usize::from(flight.hop)] as usize;
        let path = &mut self.paths[index];
        let ip_bytes = flight.wire_len + endpoint.header_bytes;
        path.ledger.offered += 1;
        match path
            .one_way
            .offer_flow(self.now, ip_bytes, flight.ecn, u64::from(flight.sender))
        {
            Verdict::Deliver(delivery) => {
                self.take_off(index, flight, delivery, self.now, ip_bytes);
            }
            Verdict::Drop(_) => self.lose(index, &flight),
            Verdict::Queued => {
                // Until it is released, the key says since when it has waited.
                let key = Key::new(self.now, 0);
                let queue = path.one_way.queue_of(flight.ecn, u64::from(flight.sender));
                if path.waiting.len() <= queue {
                    path.waiting.resize_with(queue + 1, VecDeque::new);
                }
                path.waiting[queue].push_back(Flight { key, ..flight });
                self.arm_queue(index);
            }
        }
    }

    /// The packets at the head of a stored queue have their turn.
    fn release(&mut self, index: usize) {
        loop {
            let one_way = &mut self.paths[index].one_way;
            if one_way.next_release().is_none_or(|due| due > self.now) {
                break;
            }
            let Some((queue, verdict)) = one_way.release_from(self.now) else {
                break;
            };
            self.settle_waiting(index, queue, verdict);
        }
        self.arm_queue(index);
    }

    fn settle_waiting(&mut self, index: usize, queue: usize, verdict: Verdict) {
        let flight = self.paths[index].waiting[queue].pop_front();
        let flight = flight.expect("the path and the engine agree on who waits");
        match verdict {
            Verdict::Deliver(delivery) => {
                let header_bytes = self.endpoints[flight.sender as usize].header_bytes;
                let ip_bytes = flight.wire_len + header_bytes;
                self.take_off(index, flight, delivery, flight.key.time, ip_bytes);
            }
            Verdict::Drop(_) => self.lose(index, &flight),
            Verdict::Queued => unreachable!("a datagram that is still queued has no verdict"),
        }
    }

    /// Changes a path as [`howdah_path::OneWay::switch`] says.
    ///
    /// # Panics
    /// If a backlog is to be dropped that is not in a stored queue.
    pub fn switch_path(&mut self, id: PathId, config: &PathConfig, switch: Switch) {
        let index = id.index();
        let one_way = &mut self.paths[index].one_way;
        let fates = one_way.switch_queues(self.now, config, switch);
        // Those that leave over the old path are judged by the old path's shortest time.
        for (queue, verdict) in fates {
            self.settle_waiting(index, queue, verdict);
        }
        self.paths[index].floor = Floor::of(config);
        self.arm_queue(index);
    }

    /// Notes when the queue of a path has something to decide; paths without a stored queue never
    /// have.
    pub(crate) fn arm_queue(&mut self, index: usize) {
        let path = &self.paths[index];
        let due = path.one_way.next_release().map(|due| due.max(self.now));
        if due.is_none() && path.queue_slot.is_none() {
            return;
        }
        let slot = path.queue_slot.unwrap_or_else(|| {
            let slot = self.agenda.add();
            self.sources.push(Source::Queue(index as u32));
            self.paths[index].queue_slot = Some(slot);
            slot
        });
        if self.agenda.get(slot).map(|key| key.time) != due {
            let key = due.map(|time| self.key_at(time));
            self.agenda.set(slot, key);
        }
    }

    /// A datagram that was offered to a path at `offered` is on its way.
    #[allow(
        clippy::inline_always,
        reason = "it has two callers and one of them is hot"
    )]
    #[inline(always)]
    fn take_off(
        &mut self,
        index: usize,
        mut flight: Flight,
        delivery: Delivery,
        offered: Time,
        ip_bytes: u32,
    ) {
        let path = &mut self.paths[index];
        path.floor.check(offered, delivery.at, ip_bytes);
        self.seq += 1;
        flight.key = Key::new(delivery.at, self.seq);
        flight.corrupt |= delivery.corrupt;
        if delivery.marked {
            flight.ecn = Ecn::Ce;
        }
        let mut may_be_next = path.lane.push(flight);
        if let Some(again) = delivery.duplicate_at {
            path.floor.check(offered, again, ip_bytes);
            path.ledger.duplicated += 1;
            self.seq += 1;
            flight.key = Key::new(again, self.seq);
            flight.parcel = self.pool.copy(flight.parcel);
            may_be_next |= path.lane.push(flight);
        }
        if may_be_next {
            self.agenda.set(path.slot, path.lane.head());
        }
    }

    /// A path drops a datagram.
    fn lose(&mut self, index: usize, flight: &Flight) {
        self.paths[index].ledger.dropped += 1;
        self.fingerprint
            .mix(self.now, Kind::Dropped, flight.sender, flight.wire_len);
        self.pool.release(flight.parcel);
    }
}

/// Flips a bit of the header, or none if it lies in what is not carried.
fn flip(bytes: &mut HeaderBytes, bit: u64) {
    if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
        *byte ^= 1 << (bit % 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Flow;
    use howdah_core::{Rate, Span, WakeReason};

    /// Sends one datagram when its time has come.
    struct Once(Option<Time>);

    impl Transport for Once {
        fn handle_datagram(&mut self, _: Time, _: Arrival<'_>) {}
        fn handle_timeout(&mut self, _: Time) {}
        fn poll_transmit(&mut self, now: Time, _: usize, out: &mut Vec<Datagram>) -> usize {
            let due = self.0.take_if(|at| *at <= now);
            out.extend(due.map(|_| Datagram {
                bytes: HeaderBytes::new(),
                absent: 1_000,
            }));
            usize::from(due.is_some())
        }
        fn poll_timeout(&self) -> Option<(Time, WakeReason)> {
            self.0.map(|at| (at, WakeReason::Pacing))
        }
    }

    fn world(config: &PathConfig) -> World<Once> {
        let mut world = World::new(1);
        let host = world.add_host("host");
        let link = world.add_link(config, config);
        let ends = [Time::ZERO, Time::from_nanos(1_000)].map(|at| (host, Once(Some(at))));
        let [a, b] = ends;
        world.add_flow(Flow::between(a, b).over(link));
        world
    }

    fn stored() -> PathConfig {
        PathConfig {
            rate: Some(Rate::from_mbit_per_sec(8)),
            delay: Span::from_millis(1),
            stored_queue: true,
            ..PathConfig::default()
        }
    }

    #[test]
    #[should_panic(expected = "time goes back")]
    fn time_that_goes_back_is_noticed() {
        let mut world = world(&stored());
        world.now = Time::from_nanos(1);
        world.step();
    }

    #[test]
    #[should_panic(expected = "datagrams on paths and in sockets")]
    fn a_datagram_that_nobody_holds_is_noticed() {
        let mut world = world(&stored());
        world.run_until(Time::from_nanos(500));
        let place = world.pool.copy(0);
        assert_ne!(place, 0);
        world.audit();
    }

    #[test]
    #[should_panic(expected = "datagrams on paths and in sockets")]
    fn a_datagram_that_vanishes_from_a_queue_is_noticed() {
        let mut world = world(&stored());
        // The link is busy with a first packet; a second one waits.
        let second = Once(Some(Time::ZERO));
        world.endpoints[0].transport = second;
        world.run_until(Time::from_nanos(10));
        world.endpoints[0].transport = Once(Some(Time::ZERO));
        let _ = world.endpoint_mut(EndpointId(0));
        world.run_until(Time::from_nanos(20));
        assert_eq!(world.paths[0].waiting[0].len(), 1);
        world.paths[0].waiting[0].clear();
        world.audit();
    }

    #[test]
    #[should_panic(expected = "faster than")]
    fn a_packet_that_waited_may_not_be_faster_than_its_path() {
        let mut world = world(&stored());
        // The engine believes in a longer path than there is.
        world.paths[0].floor = Floor::of(&PathConfig {
            delay: Span::from_millis(2),
            ..stored()
        });
        world.run_until(Time::from_nanos(500));
    }
}
