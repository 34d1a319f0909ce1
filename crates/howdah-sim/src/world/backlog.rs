//! Where arrivals wait while a host is busy with one of them.
//!
//! The kernel puts what its interface receives into a queue and takes one after another out of it. If one of them takes long, the
//! others wait; and from a queue with an end they are dropped. This is that queue alone, for endpoints that are infinitely fast
//! otherwise: what a datagram takes is asked of the transport that it is for. Timers run meanwhile, and sending costs nothing: the whole host is
//! modelled by [`World::run_on`].

use super::{Source, World};
use crate::checks::Kind;
use crate::lane::Flight;
use crate::{EndpointId, HostId};
use howdah_core::{Arrival, Span, Transport};
use std::collections::VecDeque;

/// How long a host is busy with an arrival before its transport has it.
pub type HandlingTime<T> = fn(&T, &Arrival<'_>) -> Span;

/// The input queue of a host.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BacklogId(u32);

pub(crate) struct Backlog<T> {
    host: HostId,
    slot: u32,
    limit: usize,
    time: HandlingTime<T>,
    waiting: VecDeque<(Flight, u32)>,
    current: Option<(Flight, u32)>,
    /// It was full and has not been empty since.
    is_throttled: bool,
}

impl<T: Transport> World<T> {
    /// Adds an input queue to a host that takes in an arrival as long as no more than `limit` wait. Once it has refused one it
    /// refuses all until it is empty (Linux's `netif_rx` until 2.6, whose `netdev_max_backlog` is the limit).
    ///
    /// # Panics
    /// If the host is of another world.
    pub fn add_backlog(&mut self, host: HostId, limit: usize, time: HandlingTime<T>) -> BacklogId {
        assert!(
            host.index() < self.host_count(),
            "{host} is not of this world"
        );
        let id = u32::try_from(self.backlogs.len()).expect("fewer than 2^32 queues");
        self.backlogs.push(Backlog {
            host,
            slot: self.agenda.add(),
            limit,
            time,
            waiting: VecDeque::new(),
            current: None,
            is_throttled: false,
        });
        self.sources.push(Source::Backlog(id));
        BacklogId(id)
    }

    /// What comes for an endpoint goes through its host's input queue from now on. What is dropped there counts as
    /// [`socket_drops`](crate::EndpointCounters::socket_drops).
    ///
    /// # Panics
    /// If the queue is of another host, or the endpoint has a process.
    pub fn receive_through(&mut self, endpoint: EndpointId, backlog: BacklogId) {
        assert_eq!(
            self.backlogs[backlog.0 as usize].host,
            self.host_of(endpoint),
            "{endpoint} cannot receive through the queue of another host"
        );
        let endpoint = &mut self.endpoints[endpoint.index()];
        assert!(endpoint.process.is_none(), "a process has costs of its own");
        endpoint.backlog = Some(backlog.0);
    }

    /// A datagram has come for an endpoint behind an input queue.
    pub(crate) fn reach_backlog(&mut self, id: u32, flight: Flight, index: usize) {
        let backlog = &mut self.backlogs[id as usize];
        if backlog.current.is_none() {
            self.take_in(id, flight, index);
            return;
        }
        let waiting = backlog.waiting.len();
        if waiting == 0 {
            backlog.is_throttled = false;
        } else if backlog.is_throttled || waiting > backlog.limit {
            backlog.is_throttled = true;
            let counters = &mut self.endpoints[index].counters;
            counters.socket_drops += 1;
            counters.socket_dropped_bytes += u64::from(flight.wire_len);
            self.fingerprint
                .mix(self.now, Kind::SocketFull, index as u32, flight.wire_len);
            self.pool.release(flight.parcel);
            return;
        }
        backlog.waiting.push_back((flight, index as u32));
        self.in_sockets += 1;
    }

    /// Begins with a datagram; what takes no time is done. Whether the host is busy with it.
    fn take_in(&mut self, id: u32, flight: Flight, index: usize) -> bool {
        let (bytes, absent) = self.pool.get(flight.parcel);
        let arrival = Arrival {
            bytes,
            absent,
            corrupt: flight.corrupt,
        };
        let time = (self.backlogs[id as usize].time)(&self.endpoints[index].transport, &arrival);
        if time.is_zero() {
            self.hand_over(flight, index);
            return false;
        }
        let key = self.key_at(self.now + time);
        let backlog = &mut self.backlogs[id as usize];
        backlog.current = Some((flight, index as u32));
        self.in_sockets += 1;
        self.agenda.set(backlog.slot, Some(key));
        true
    }

    /// The host is done with an arrival, and goes on with those that wait.
    pub(crate) fn finish_arrival(&mut self, id: u32) {
        let backlog = &mut self.backlogs[id as usize];
        self.agenda.set(backlog.slot, None);
        if let Some((flight, index)) = backlog.current.take() {
            self.in_sockets -= 1;
            self.hand_over(flight, index as usize);
        }
        while let Some((flight, index)) = self.backlogs[id as usize].waiting.pop_front() {
            self.in_sockets -= 1;
            if self.take_in(id, flight, index as usize) {
                break;
            }
        }
    }
}
