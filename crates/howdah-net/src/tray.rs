//! What has arrived and was not looked at yet: strangers and handshakes first, then each connection in turn.
//!
//! A turn of the loop looks at so many packets of one connection at most; the rest stays, in its order, for the next turn. So
//! what one peer sends is not what the others wait for. Strangers share by the networks that they come from, which get their
//! turns one after the other: a handshake costs more than any packet, and a good cookie whoever asks for one.

use crate::application::ConnKey;
use crate::half_open::Prefix;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// Packets of one connection that are looked at in one turn.
pub(crate) const TURN_PACKETS: usize = 512;
/// Buffers that lie here at most: no more are read while there are.
pub(crate) const TRAY_MAX: usize = 64;
/// Of strangers and handshakes; who does not fit comes again.
const DOOR_MAX: usize = 24;
/// Packets of strangers and handshakes of one network that are looked at in one turn.
const TURN_OF_NETWORK: usize = 32;

/// Whose packets they are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Owner {
    /// Nobody's yet, or those of a handshake; from that address.
    Door(IpAddr),
    Connection(ConnKey),
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

/// What lies at the door, by network.
#[derive(Debug)]
struct Door<T> {
    lines: BTreeMap<Prefix, Line<T>>,
    next: VecDeque<Prefix>,
    len: usize,
}

impl<T> Door<T> {
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
        if self.len >= DOOR_MAX {
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
pub(crate) struct Tray<T> {
    door: Door<T>,
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

impl<T> Default for Tray<T> {
    fn default() -> Self {
        let door = Door {
            lines: BTreeMap::new(),
            next: VecDeque::new(),
            len: 0,
        };
        Self {
            door,
            lines: BTreeMap::new(),
            next: VecDeque::new(),
            len: 0,
        }
    }
}

impl<T> Tray<T> {
    /// Buffers that lie here.
    pub(crate) fn len(&self) -> usize {
        self.len + self.door.len
    }

    /// Another turn: everybody may be looked at again.
    pub(crate) fn begin_turn(&mut self) {
        self.door.begin_turn();
        self.lines.retain(|_, line| !line.parcels.is_empty());
        for (key, line) in &mut self.lines {
            let waited = line.used >= TURN_PACKETS;
            line.used = 0;
            if waited {
                self.next.push_back(*key);
            }
        }
    }

    /// Puts a buffer with that many packets down; gives one back if there is no place for strangers.
    pub(crate) fn put(&mut self, owner: Owner, packets: usize, content: T) -> Option<T> {
        let parcel = Parcel { packets, content };
        match owner {
            Owner::Door(from) => return self.door.put(from, parcel),
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
    pub(crate) fn take(&mut self) -> Option<T> {
        if let Some(stranger) = self.door.take() {
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
        tray: &mut Tray<(ConnKey, usize, u64)>,
        arrived: &mut VecDeque<(ConnKey, usize, u64)>,
    ) -> Vec<(ConnKey, usize, u64)> {
        tray.begin_turn();
        let mut seen = Vec::new();
        while tray.len() < TRAY_MAX {
            let Some(parcel) = arrived.pop_front() else {
                break;
            };
            let (key, packets, _) = parcel;
            assert!(tray.put(Owner::Connection(key), packets, parcel).is_none());
            seen.extend(std::iter::from_fn(|| tray.take()));
        }
        seen.extend(std::iter::from_fn(|| tray.take()));
        seen
    }

    #[test]
    fn a_flood_of_one_connection_leaves_the_others_their_turns() {
        let mut tray = Tray::default();
        let mut arrived = VecDeque::new();
        let (mut sent, mut answered, mut next) = (0, 0, BTreeMap::new());
        for n in 0..1_000 {
            // Twice as much as a turn looks at, in small packets, before each packet of the other one.
            for part in 0..16 {
                if arrived.len() < TRAY_MAX {
                    arrived.push_back((HOSTILE, TURN_PACKETS / 8, n * 16 + part));
                }
            }
            arrived.push_back((GOOD, 1, n));
            sent += 1;
            let seen = turn(&mut tray, &mut arrived);
            let of = |key| seen.iter().filter(move |(k, ..)| *k == key);
            answered += of(GOOD).count();
            let hostile: usize = of(HOSTILE).map(|(_, packets, _)| packets).sum();
            assert!(hostile < TURN_PACKETS + TURN_PACKETS / 8, "{hostile}");
            for (key, _, number) in seen {
                let before = next.insert(key, number + 1).unwrap_or(0);
                assert!(number >= before, "in order");
            }
            assert!(tray.len() <= TRAY_MAX);
        }
        assert!(answered * 10 >= sent * 9, "{answered} of {sent}");
    }

    #[test]
    fn strangers_come_first_and_are_few() {
        let mut tray = Tray::default();
        for n in 0..10 {
            assert_eq!(tray.put(Owner::Connection(GOOD), 40, n), None);
        }
        for n in 100..200 {
            let from = IpAddr::from([10, 0, (n % 4) as u8, 1]);
            let refused = tray.put(Owner::Door(from), 1, n);
            assert_eq!(refused.is_some(), n >= 100 + DOOR_MAX);
        }
        tray.begin_turn();
        let seen: Vec<usize> = std::iter::from_fn(|| tray.take()).collect();
        let first: Vec<usize> = (100..100 + DOOR_MAX).chain(0..10).collect();
        assert_eq!(seen, first);
        assert_eq!(tray.len(), 0);
    }

    /// H10: good cookies are to be had for the asking, and each handshake costs a signature.
    #[test]
    fn h10_a_network_that_floods_the_door_shuts_no_other_one_out() {
        const LOUD: usize = 1_000;
        let quiet = IpAddr::from([192, 0, 2, 1]);
        let loud = |n: usize| IpAddr::from([198, 51, 100, (n % 250) as u8]);
        let mut tray = Tray::default();
        for turn in 0..1_000 {
            tray.begin_turn();
            for n in 0..LOUD {
                tray.put(Owner::Door(loud(n)), 1, 0);
            }
            assert_eq!(tray.put(Owner::Door(quiet), 1, 1), Some(0), "turn {turn}");
            tray.put(Owner::Connection(GOOD), 1, 2);
            let seen: Vec<u32> = std::iter::from_fn(|| tray.take()).collect();
            let of = |who: u32| seen.iter().filter(|seen| **seen == who).count();
            assert_eq!((of(1), of(2)), (1, 1), "turn {turn}");
            assert!(of(0) <= TURN_OF_NETWORK, "turn {turn}: {}", of(0));
            assert!(tray.len() <= DOOR_MAX);
        }
    }

    #[test]
    fn h10_many_packets_of_one_stranger_are_his_turn() {
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 1, 1]));
        let mut tray = Tray::default();
        for n in 0..3 {
            tray.put(Owner::Door(one), 64, n);
        }
        tray.put(Owner::Door(other), 64, 10);
        for expected in [&[0, 10][..], &[1], &[2], &[]] {
            let seen: Vec<i32> = std::iter::from_fn(|| tray.take()).collect();
            assert_eq!(seen, expected);
            tray.begin_turn();
        }
    }

    #[test]
    fn what_is_left_comes_next_and_each_in_turn() {
        let mut tray = Tray::default();
        tray.begin_turn();
        for n in 0..4 {
            tray.put(Owner::Connection(HOSTILE), TURN_PACKETS, n);
        }
        for n in 10..12 {
            tray.put(Owner::Connection(GOOD), 1, n);
        }
        let seen: Vec<i32> = std::iter::from_fn(|| tray.take()).collect();
        assert_eq!(
            seen,
            [0, 10, 11],
            "and no more of the one that has had its turn"
        );
        assert_eq!(tray.len(), 3);
        tray.put(Owner::Connection(HOSTILE), 1, 4);
        assert_eq!(tray.take(), None);
        for left in [1, 2, 3, 4] {
            tray.begin_turn();
            assert_eq!(tray.take(), Some(left));
            assert_eq!(tray.take(), None);
        }
        assert_eq!(tray.len(), 0);
    }
}
