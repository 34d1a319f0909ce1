//! Several endpoints of one port, each on a loop of its own with a socket of its own.
//!
//! The first of them is the door: all handshakes are there, so that what is counted of strangers is counted once. Which loop a
//! connection goes to when its key is proved is written into the id that this host chooses for it, where a program in the kernel
//! finds it as well ([`LOOPS_MAX`]). The door knows where each connection is; any other loop knows its own, and those on their way
//! to it. What comes to the wrong loop is told to be [elsewhere](super::Found::Elsewhere), and whoever drives them hands it over.
//!
//! Endpoints tell each other by [`Order`]s, which must come in the order in which they were given.

use super::demux::Route;
use super::{ConnKey, Endpoint, Slot};
use crate::codec::{ConnectionId, Header};
use howdah_core::Time;
use howdah_core::num::saturating_usize;
use std::collections::BTreeMap;

/// Loops that one port may have. A connection's loop is the rest of its id by this: the last three bits.
pub const LOOPS_MAX: usize = 8;
/// The loop with the handshakes.
const DOOR: usize = 0;

/// What one loop tells another one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Order {
    /// A connection that will come to that loop begins at the door.
    Expect(ConnKey, ConnectionId),
    /// It is over: it has ended on the loop that it was on, or will not come.
    Gone(ConnKey),
    /// It ends for a newcomer's.
    GiveWay(ConnKey),
}

/// A connection on its way to another loop.
#[derive(Debug)]
pub struct Moved {
    /// Its key stays.
    pub key: ConnKey,
    slot: Slot,
    /// Packets that sockets have dropped while it was on them.
    drops: u64,
}

#[derive(Debug)]
struct Entry {
    at: usize,
    /// By which packets for it are known.
    ids: [ConnectionId; 2],
}

#[derive(Debug)]
struct Place {
    index: usize,
    /// Connections of each loop, as the door knows them, handshakes included.
    load: Vec<usize>,
    /// Those that are on another loop: at the door those that went, elsewhere those that are expected.
    entries: BTreeMap<ConnKey, Entry>,
    orders: Vec<(usize, Order)>,
}

/// Where this loop stands among those of its port; by default it is alone.
#[derive(Debug, Default)]
pub(super) struct Loops(Option<Place>);

fn home_of(id: ConnectionId) -> usize {
    saturating_usize(id.0 % LOOPS_MAX as u64)
}

impl Place {
    fn ends(&mut self, loop_: usize) {
        if let Some(load) = self.load.get_mut(loop_) {
            *load = load.saturating_sub(1);
        }
    }
}

impl Loops {
    /// Where a connection goes that begins: to the loop with the fewest. Of equals the door comes last, for it has handshakes.
    pub(super) fn home(&self, stays: bool) -> usize {
        let place = self.0.as_ref().filter(|_| !stays);
        let loads = place.map_or(&[][..], |place| &place.load);
        let fewest = loads
            .iter()
            .enumerate()
            .rev()
            .min_by_key(|(_, load)| **load);
        fewest.map_or(DOOR, |(at, _)| at)
    }

    /// An id for a connection of that loop.
    pub(super) fn id(&self, random: u64, home: usize) -> ConnectionId {
        match self.0 {
            None => ConnectionId(random),
            Some(_) => ConnectionId(random - random % LOOPS_MAX as u64 + home as u64),
        }
    }

    pub(super) fn on_accepted(&mut self, key: ConnKey, id: ConnectionId) {
        let Some(place) = &mut self.0 else { return };
        let home = home_of(id);
        if let Some(load) = place.load.get_mut(home) {
            *load += 1;
        }
        if home != place.index {
            place.orders.push((home, Order::Expect(key, id)));
        }
    }

    /// A connection that was here is over.
    pub(super) fn on_removed(&mut self, key: ConnKey, id: ConnectionId) {
        let Some(place) = &mut self.0 else { return };
        let home = home_of(id);
        place.ends(home);
        let to = if place.index == DOOR { home } else { DOOR };
        if to != place.index {
            place.orders.push((to, Order::Gone(key)));
        }
    }

    /// Connections that went to other loops.
    pub(super) fn moved(&self) -> usize {
        self.0.as_ref().map_or(0, |place| place.entries.len())
    }

    /// One that went ends for a newcomer's.
    pub(super) fn give_way(&mut self, key: ConnKey) {
        if let Some(place) = &mut self.0
            && let Some(entry) = place.entries.get(&key)
        {
            place.orders.push((entry.at, Order::GiveWay(key)));
        }
    }
}

impl Endpoint {
    /// Is one of several loops of a port from now on, the first of which has the number 0. All of them are made before the first
    /// datagram; there are no more than [`LOOPS_MAX`].
    pub fn among(&mut self, index: usize, count: usize) {
        let place = Place {
            index,
            load: vec![0; count.min(LOOPS_MAX)],
            entries: BTreeMap::new(),
            orders: Vec::new(),
        };
        self.loops = Loops((count > 1).then_some(place));
    }

    /// Whether what comes by that datagram belongs to another loop.
    pub(super) fn elsewhere(&self, route: &Route, datagram: &[u8]) -> Option<usize> {
        let place = self.loops.0.as_ref()?;
        match route {
            Route::Known(key) if self.connections.contains_key(key) => None,
            Route::Known(key) => place.entries.get(key).map(|entry| entry.at),
            // It knows all that there are.
            _ if place.index == DOOR => None,
            _ => match Header::decode(datagram) {
                // Each loop knows its own, and those that come to it.
                Ok((header @ Header::Data { .. }, _)) => {
                    let home = home_of(header.destination());
                    (home != place.index && home < place.load.len()).then_some(home)
                }
                _ => Some(DOOR),
            },
        }
    }

    /// What other loops are to be told since this was asked: who, and what.
    pub fn take_orders(&mut self) -> Vec<(usize, Order)> {
        let place = self.loops.0.as_mut();
        place.map_or_else(Vec::new, |place| std::mem::take(&mut place.orders))
    }

    /// What another loop tells.
    pub fn obey(&mut self, now: Time, order: Order) {
        let Some(place) = &mut self.loops.0 else {
            return;
        };
        match order {
            Order::Expect(key, id) => {
                let ids = [id, id];
                place.entries.insert(key, Entry { at: DOOR, ids });
                self.demux.insert(id, key);
            }
            Order::Gone(key) => {
                let Some(entry) = place.entries.remove(&key) else {
                    return;
                };
                place.ends(entry.at);
                for id in entry.ids {
                    self.demux.remove(id, key);
                }
                self.established.remove(key);
            }
            Order::GiveWay(key) if self.connections.contains_key(&key) => self.give_way(now, key),
            Order::GiveWay(_) => {}
        }
    }

    /// Which loop a connection that is here goes to, its key being proved; `None` if it stays.
    pub fn goes_to(&self, key: ConnKey) -> Option<usize> {
        let place = self.loops.0.as_ref()?;
        let home = home_of(self.connections.get(&key)?.connection.local_id());
        (place.index == DOOR && home != DOOR).then_some(home)
    }

    /// Takes that connection out, for the loop that it [goes to](Self::goes_to).
    pub fn hand_over(&mut self, key: ConnKey) -> Option<(usize, Moved)> {
        let at = self.goes_to(key)?;
        let place = self.loops.0.as_mut()?;
        let slot = self.connections.remove(&key)?;
        self.half_open.remove(key);
        self.schedule.forget(key);
        let ids = [
            slot.connection.local_id(),
            slot.connection.first_destination(),
        ];
        place.entries.insert(key, Entry { at, ids });
        let drops = self.socket_drops.wrapping_sub(slot.drops_before);
        Some((at, Moved { key, slot, drops }))
    }

    /// Takes one in that another loop has handed over.
    pub fn take_in(&mut self, moved: Moved) {
        let Moved {
            key,
            mut slot,
            drops,
        } = moved;
        if let Some(place) = &mut self.loops.0 {
            place.entries.remove(&key);
        }
        for id in [
            slot.connection.local_id(),
            slot.connection.first_destination(),
        ] {
            self.demux.insert(id, key);
        }
        slot.drops_before = self.socket_drops.wrapping_sub(drops);
        self.connections.insert(key, slot);
        self.schedule.touch(key);
    }
}
