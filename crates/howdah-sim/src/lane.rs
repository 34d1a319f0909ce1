//! Datagrams in flight over one path.

use crate::agenda::Key;
use howdah_core::Ecn;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// How many datagrams behind the head one is looked at so that it is in the cache when it leaves.
const LOOK_AHEAD: usize = 4;

/// A datagram in flight: what paths need to know of it. The datagram itself lies in the
/// [`Pool`](crate::pool::Pool) and stays there from one end of the route to the other.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Flight {
    /// When it leaves this path. The field that orders flights, for no two are equal.
    pub(crate) key: Key,
    /// Where the datagram lies.
    pub(crate) parcel: u32,
    /// Its UDP payload in bytes.
    pub(crate) wire_len: u32,
    /// The index of the sending endpoint, whose route it follows.
    pub(crate) sender: u32,
    /// Which stretch of that route it is on.
    pub(crate) hop: u16,
    /// A path on the way damaged it.
    pub(crate) corrupt: bool,
    /// Its ECN field, as the paths so far have left it.
    pub(crate) ecn: Ecn,
}

/// Everything in flight over one path, in order of arrival.
///
/// A path whose delay is constant delivers in the order in which it was offered, so nearly all
/// datagrams go through a ring in constant time. One that must overtake the ring's tail (jitter,
/// reordering, a delay that was just shortened) goes through a heap beside it.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    ring: VecDeque<Flight>,
    early: BinaryHeap<Reverse<Flight>>,
}

impl Lane {
    /// Takes in a datagram; its sequence number must be larger than all before. Returns whether it may be the next to leave.
    #[inline]
    pub(crate) fn push(&mut self, flight: Flight) -> bool {
        let behind = self.ring.back().map(|tail| tail.key <= flight.key);
        if behind == Some(false) {
            self.early.push(Reverse(flight));
        } else {
            self.ring.push_back(flight);
        }
        behind != Some(true)
    }

    /// When the next datagram leaves.
    #[inline]
    pub(crate) fn head(&self) -> Option<Key> {
        let ring = self.ring.front().map(|flight| flight.key);
        match self.early.peek() {
            None => ring,
            Some(Reverse(early)) => Some(ring.map_or(early.key, |ring| ring.min(early.key))),
        }
    }

    /// Takes the next datagram out.
    fn pop(&mut self) -> Option<Flight> {
        match (self.early.peek(), self.ring.front()) {
            (Some(Reverse(early)), Some(ring)) if ring.key < early.key => self.ring.pop_front(),
            (Some(_), _) => self.early.pop().map(|Reverse(flight)| flight),
            (None, _) => self.ring.pop_front(),
        }
    }

    /// Takes the next datagram out, of which there must be one.
    #[inline]
    pub(crate) fn take(&mut self) -> Flight {
        if self.early.is_empty() {
            let first = self.ring[0];
            self.ring.pop_front();
            return first;
        }
        self.pop().expect("a datagram is in flight")
    }

    /// Where the datagram lies that leaves a few events from now, as far as that is known.
    #[inline]
    pub(crate) fn ahead(&self) -> Option<u32> {
        self.ring.get(LOOK_AHEAD).map(|flight| flight.parcel)
    }

    /// All datagrams in flight, in no order.
    pub(crate) fn flights(&self) -> impl Iterator<Item = &Flight> {
        self.ring
            .iter()
            .chain(self.early.iter().map(|early| &early.0))
    }

    /// Datagrams in flight.
    pub(crate) fn len(&self) -> usize {
        self.ring.len() + self.early.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_core::Time;

    fn flight(time: u64, seq: u64) -> Flight {
        let key = Key::new(Time::from_nanos(time), seq);
        Flight {
            key,
            parcel: seq as u32,
            wire_len: 0,
            sender: 0,
            hop: 0,
            corrupt: false,
            ecn: Ecn::NotEct,
        }
    }

    #[test]
    fn any_order_in_sorted_order_out() {
        let mut lane = Lane::default();
        let mut state = 1_u64;
        let mut waiting: Vec<Key> = Vec::new();
        for seq in 0..3_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let time = seq * 10 + (state >> 33) % 200;
            lane.push(flight(time, seq));
            waiting.push(Key::new(Time::from_nanos(time), seq));
            if !(state >> 40).is_multiple_of(3) {
                waiting.sort_unstable();
                let first = waiting.remove(0);
                assert_eq!(lane.head(), Some(first));
                let popped = lane.pop().expect("something waits");
                assert_eq!(popped.key, first);
                assert_eq!(u64::from(popped.parcel), first.seq);
            }
            assert_eq!(lane.len(), waiting.len());
        }
    }

    #[test]
    fn a_constant_delay_never_touches_the_heap() {
        let mut lane = Lane::default();
        for seq in 0..100 {
            lane.push(flight(1_000 + seq / 2, seq));
        }
        assert!(lane.early.is_empty());
        assert_eq!(lane.ring.len(), 100);
    }

    #[test]
    fn a_flight_is_small() {
        assert_eq!(size_of::<Flight>(), 32);
    }
}
