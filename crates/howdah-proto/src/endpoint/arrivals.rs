//! What has arrived and was not looked at yet: strangers and handshakes first, then each connection in turn.
//!
//! A turn of the loop looks at so many packets of one connection at most; the rest stays, in its order, for the next turn. So
//! what one peer sends is not what the others wait for. Strangers share by the networks that they come from, which get their
//! turns one after the other: a handshake costs more than any packet, and a good cookie whoever asks for one.

use super::ConnKey;
use super::half_open::Prefix;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// Packets of one connection that are looked at in one turn.
pub(crate) const TURN_PACKETS: usize = 512;
/// Buffers that lie here at most: no more are read while there are.
pub const ARRIVALS_MAX: usize = 64;
/// Of strangers and handshakes; who does not fit comes again.
const STRANGERS_MAX: usize = 24;
/// Packets of strangers and handshakes of one network that are looked at in one turn.
const TURN_OF_NETWORK: usize = 32;

/// Whose packets they are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Owner {
    /// Nobody's yet, or those of a handshake; from that address.
    Stranger(IpAddr),
    /// That connection's.
    Connection(ConnKey),
    /// For that other loop of the port.
    Elsewhere(usize),
}

#[derive(Debug)]
struct Parcel<T> {
    packets: usize,
    content: T,
}

#[derive(Debug)]
struct Line<T> {
    parcels: VecDeque<Parcel<T>>,
    /// Looked at in this turn.
    used: usize,
}

/// What is nobody's yet, by network.
#[derive(Debug)]
struct Strangers<T> {
    lines: BTreeMap<Prefix, Line<T>>,
    next: VecDeque<Prefix>,
    len: usize,
}

impl<T> Strangers<T> {
    fn begin_turn(&mut self) {
        self.lines.retain(|_, line| !line.parcels.is_empty());
        for (network, line) in &mut self.lines {
            let waited = line.used >= TURN_OF_NETWORK;
            line.used = 0;
            if waited {
                self.next.push_back(*network);
            }
        }
    }

    /// Where there is no place the network that has most here gives one up, unless it is the newcomer's.
    fn put(&mut self, from: IpAddr, parcel: Parcel<T>) -> Option<T> {
        let network = Prefix::network(from);
        let mut gone = None;
        if self.len >= STRANGERS_MAX {
            let own = self
                .lines
                .get(&network)
                .map_or(0, |line| line.parcels.len());
            let busiest = self
                .lines
                .values_mut()
                .max_by_key(|line| line.parcels.len());
            // Its newest: the others have waited for longer.
            match busiest.filter(|line| line.parcels.len() > own + 1) {
                Some(line) => gone = line.parcels.pop_back(),
                None => return Some(parcel.content),
            }
            self.len -= usize::from(gone.is_some());
        }
        let line = self.lines.entry(network).or_default();
        if line.parcels.is_empty() && line.used < TURN_OF_NETWORK {
            self.next.push_back(network);
        }
        line.parcels.push_back(parcel);
        self.len += 1;
        gone.map(|parcel| parcel.content)
    }

    fn take(&mut self) -> Option<T> {
        let network = self.next.pop_front()?;
        let line = self.lines.get_mut(&network)?;
        let parcel = line.parcels.pop_front()?;
        self.len -= 1;
        line.used += parcel.packets.max(1);
        if !line.parcels.is_empty() && line.used < TURN_OF_NETWORK {
            self.next.push_back(network);
        }
        Some(parcel.content)
    }
}

/// See the module.
#[derive(Debug)]
pub struct Arrivals<T> {
    strangers: Strangers<T>,
    lines: BTreeMap<ConnKey, Line<T>>,
    /// Those that may still be looked at in this turn, whoever is next first.
    next: VecDeque<ConnKey>,
    len: usize,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self {
            parcels: VecDeque::new(),
            used: 0,
        }
    }
}

impl<T> Default for Arrivals<T> {
    fn default() -> Self {
        let strangers = Strangers {
            lines: BTreeMap::new(),
            next: VecDeque::new(),
            len: 0,
        };
        Self {
            strangers,
            lines: BTreeMap::new(),
            next: VecDeque::new(),
            len: 0,
        }
    }
}

impl<T> Arrivals<T> {
    /// Buffers that lie here.
    pub fn len(&self) -> usize {
        self.len + self.strangers.len
    }

    /// Whether nothing lies here.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Another turn: everybody may be looked at again.
    pub fn begin_turn(&mut self) {
        self.strangers.begin_turn();
        self.lines.retain(|_, line| !line.parcels.is_empty());
        for (key, line) in &mut self.lines {
            let waited = line.used >= TURN_PACKETS;
            line.used = 0;
            if waited {
                self.next.push_back(*key);
            }
        }
    }

    /// Puts a buffer with that many packets down; gives one back if there is no place for strangers, or if it is for another loop.
    pub fn put(&mut self, owner: Owner, packets: usize, content: T) -> Option<T> {
        let parcel = Parcel { packets, content };
        match owner {
            Owner::Stranger(from) => return self.strangers.put(from, parcel),
            Owner::Elsewhere(_) => return Some(parcel.content),
            Owner::Connection(key) => {
                let line = self.lines.entry(key).or_default();
                if line.parcels.is_empty() && line.used < TURN_PACKETS {
                    self.next.push_back(key);
                }
                line.parcels.push_back(parcel);
            }
        }
        self.len += 1;
        None
    }

    /// The next one to be looked at in this turn.
    pub fn take(&mut self) -> Option<T> {
        if let Some(stranger) = self.strangers.take() {
            return Some(stranger);
        }
        let key = self.next.pop_front()?;
        let line = self.lines.get_mut(&key)?;
        let parcel = line.parcels.pop_front()?;
        self.len -= 1;
        line.used += parcel.packets.max(1);
        if !line.parcels.is_empty() && line.used < TURN_PACKETS {
            self.next.push_back(key);
        }
        Some(parcel.content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: ConnKey = ConnKey(1);
    const HOSTILE: ConnKey = ConnKey(2);

    /// One turn in which these arrive, as (whose, packets, number); what was looked at, in that order.
    fn turn(
        arrivals: &mut Arrivals<(ConnKey, usize, u64)>,
        arrived: &mut VecDeque<(ConnKey, usize, u64)>,
    ) -> Vec<(ConnKey, usize, u64)> {
        arrivals.begin_turn();
        let mut seen = Vec::new();
        while arrivals.len() < ARRIVALS_MAX {
            let Some(parcel) = arrived.pop_front() else {
                break;
            };
            let (key, packets, _) = parcel;
            assert!(
                arrivals
                    .put(Owner::Connection(key), packets, parcel)
                    .is_none()
            );
            seen.extend(std::iter::from_fn(|| arrivals.take()));
        }
        seen.extend(std::iter::from_fn(|| arrivals.take()));
        seen
    }

    #[test]
    fn a_flood_of_one_connection_leaves_the_others_their_turns() {
        let mut arrivals = Arrivals::default();
        let mut arrived = VecDeque::new();
        let (mut sent, mut answered, mut next) = (0, 0, BTreeMap::new());
        for n in 0..1_000 {
            // Twice as much as a turn looks at, in small packets, before each packet of the other one.
            for part in 0..16 {
                if arrived.len() < ARRIVALS_MAX {
                    arrived.push_back((HOSTILE, TURN_PACKETS / 8, n * 16 + part));
                }
            }
            arrived.push_back((GOOD, 1, n));
            sent += 1;
            let seen = turn(&mut arrivals, &mut arrived);
            let of = |key| seen.iter().filter(move |(k, ..)| *k == key);
            answered += of(GOOD).count();
            let hostile: usize = of(HOSTILE).map(|(_, packets, _)| packets).sum();
            assert!(hostile < TURN_PACKETS + TURN_PACKETS / 8, "{hostile}");
            for (key, _, number) in seen {
                let before = next.insert(key, number + 1).unwrap_or(0);
                assert!(number >= before, "in order");
            }
            assert!(arrivals.len() <= ARRIVALS_MAX);
        }
        assert!(answered * 10 >= sent * 9, "{answered} of {sent}");
    }

    #[test]
    fn strangers_come_first_and_are_few() {
        let mut arrivals = Arrivals::default();
        for n in 0..10 {
            assert_eq!(arrivals.put(Owner::Connection(GOOD), 40, n), None);
        }
        for n in 100..200 {
            let from = IpAddr::from([10, 0, (n % 4) as u8, 1]);
            let refused = arrivals.put(Owner::Stranger(from), 1, n);
            assert_eq!(refused.is_some(), n >= 100 + STRANGERS_MAX);
        }
        arrivals.begin_turn();
        let seen: Vec<usize> = std::iter::from_fn(|| arrivals.take()).collect();
        let first: Vec<usize> = (100..100 + STRANGERS_MAX).chain(0..10).collect();
        assert_eq!(seen, first);
        assert_eq!(arrivals.len(), 0);
    }

    /// H10: good cookies are to be had for the asking, and each handshake costs a signature.
    #[test]
    fn h10_a_network_that_floods_the_door_shuts_no_other_one_out() {
        const LOUD: usize = 1_000;
        let quiet = IpAddr::from([192, 0, 2, 1]);
        let loud = |n: usize| IpAddr::from([198, 51, 100, (n % 250) as u8]);
        let mut arrivals = Arrivals::default();
        for turn in 0..1_000 {
            arrivals.begin_turn();
            for n in 0..LOUD {
                arrivals.put(Owner::Stranger(loud(n)), 1, 0);
            }
            assert_eq!(
                arrivals.put(Owner::Stranger(quiet), 1, 1),
                Some(0),
                "turn {turn}"
            );
            arrivals.put(Owner::Connection(GOOD), 1, 2);
            let seen: Vec<u32> = std::iter::from_fn(|| arrivals.take()).collect();
            let of = |who: u32| seen.iter().filter(|seen| **seen == who).count();
            assert_eq!((of(1), of(2)), (1, 1), "turn {turn}");
            assert!(of(0) <= TURN_OF_NETWORK, "turn {turn}: {}", of(0));
            assert!(arrivals.len() <= STRANGERS_MAX);
        }
    }

    #[test]
    fn h10_many_packets_of_one_stranger_are_his_turn() {
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 1, 1]));
        let mut arrivals = Arrivals::default();
        for n in 0..3 {
            arrivals.put(Owner::Stranger(one), 64, n);
        }
        arrivals.put(Owner::Stranger(other), 64, 10);
        for expected in [&[0, 10][..], &[1], &[2], &[]] {
            let seen: Vec<i32> = std::iter::from_fn(|| arrivals.take()).collect();
            assert_eq!(seen, expected);
            arrivals.begin_turn();
        }
    }

    #[test]
    fn what_is_left_comes_next_and_each_in_turn() {
        let mut arrivals = Arrivals::default();
        arrivals.begin_turn();
        for n in 0..4 {
            arrivals.put(Owner::Connection(HOSTILE), TURN_PACKETS, n);
        }
        for n in 10..12 {
            arrivals.put(Owner::Connection(GOOD), 1, n);
        }
        let seen: Vec<i32> = std::iter::from_fn(|| arrivals.take()).collect();
        assert_eq!(
            seen,
            [0, 10, 11],
            "and no more of the one that has had its turn"
        );
        assert_eq!(arrivals.len(), 3);
        arrivals.put(Owner::Connection(HOSTILE), 1, 4);
        assert_eq!(arrivals.take(), None);
        for left in [1, 2, 3, 4] {
            arrivals.begin_turn();
            assert_eq!(arrivals.take(), Some(left));
            assert_eq!(arrivals.take(), None);
        }
        assert_eq!(arrivals.len(), 0);
    }
}
