//! One object moved by several connections, its lanes: that of the session, and others that join it, each on a loop of its own.
//!
//! Whoever sends has an [`Outlet`]: lanes take pieces of the one source there as they run dry. Whoever receives has an [`Inlet`]: what comes by
//! any lane goes into the one sink, and that of the session hears which bytes are there. Both are over when the object of the session is.

mod inlet;
mod outlet;
#[cfg(test)]
mod tests;

pub(crate) use inlet::{Inlet, Landed};
pub(crate) use outlet::{Feed, Outlet};

use crate::{Error, ErrorKind};
use howdah_core::ObjectId;
use howdah_net::Placement;
use howdah_proto::{Connection, Stats};
use howdah_store::{SinkSide, SourceReader, Wake};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// An object that is smaller is moved before a second connection is there.
pub(crate) const WORTH_IT: u64 = 16 << 20;

/// What a lane has counted is told at each so many looks at it.
const COUNTED_EVERY: u32 = 32;

/// What the lanes of one object have in common.
#[derive(Default)]
struct Common {
    over: AtomicBool,
    /// Besides the first one.
    joined: AtomicU16,
    watchers: Mutex<Watchers>,
}

#[derive(Default)]
struct Watchers {
    last: u64,
    /// Of the lanes that joined: how each is woken, and what it has counted.
    lanes: BTreeMap<u64, (Wake, Stats)>,
    /// What those have counted that are gone.
    gone: Stats,
}

/// What is sent and lost of both together; all else is that of the first.
fn both(a: &Stats, b: &Stats) -> Stats {
    Stats {
        bytes_sent: a.bytes_sent.saturating_add(b.bytes_sent),
        datagrams_sent: a.datagrams_sent.saturating_add(b.datagrams_sent),
        data_bytes_repeated: a.data_bytes_repeated.saturating_add(b.data_bytes_repeated),
        tail_bytes_repeated: a.tail_bytes_repeated.saturating_add(b.tail_bytes_repeated),
        packets_acked: a.packets_acked.saturating_add(b.packets_acked),
        packets_lost: a.packets_lost.saturating_add(b.packets_lost),
        peer_sink_drops: a.peer_sink_drops.saturating_add(b.peer_sink_drops),
        ..*a
    }
}

impl std::fmt::Debug for Common {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Common")
            .field("over", &self.over)
            .field("joined", &self.joined)
            .finish_non_exhaustive()
    }
}

impl Common {
    fn watchers(&self) -> MutexGuard<'_, Watchers> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_all(&self) {
        let watchers = self.watchers();
        let wakes: Vec<_> = watchers
            .lanes
            .values()
            .map(|(wake, _)| Arc::clone(wake))
            .collect();
        drop(watchers);
        for wake in wakes {
            wake();
        }
    }

    fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.wake_all();
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn count(&self) -> u16 {
        1 + self.joined.load(Ordering::Relaxed)
    }
}

/// A place among the lanes of an object, as long as it lives.
#[derive(Debug)]
pub(crate) struct Ticket {
    common: Arc<Common>,
    number: u64,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut watchers = self.common.watchers();
        if let Some((_, counted)) = watchers.lanes.remove(&self.number) {
            watchers.gone = both(&watchers.gone, &counted);
        }
        drop(watchers);
        self.common.joined.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Where the lanes of an object meet.
#[derive(Clone, Debug)]
pub(crate) enum Hub {
    Sends(Arc<Outlet>),
    Receives(Arc<Inlet>),
}

impl Hub {
    fn common(&self) -> &Arc<Common> {
        match self {
            Self::Sends(outlet) => &outlet.common,
            Self::Receives(inlet) => &inlet.common,
        }
    }

    /// A place for one more, which `wake` wakes, if there are no more than `most` with it and the object is not over.
    pub(crate) fn enter(&self, most: u8, wake: Wake) -> Option<Ticket> {
        let common = self.common();
        let room = |joined: u16| (joined + 1 < u16::from(most)).then_some(joined + 1);
        let entered = common
            .joined
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, room);
        entered.ok()?;
        let mut watchers = common.watchers();
        watchers.last += 1;
        let number = watchers.last;
        watchers.lanes.insert(number, (wake, Stats::default()));
        drop(watchers);
        let ticket = Ticket {
            common: Arc::clone(common),
            number,
        };
        // Looked at when whoever ends it sees the new one.
        (!self.is_over()).then_some(ticket)
    }

    /// Lanes that there are, that of the session included.
    pub(crate) fn count(&self) -> u16 {
        self.common().count()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.common().is_over()
    }

    /// What all lanes have sent and lost, if that of the session has counted `own`.
    pub(crate) fn counted(&self, own: &Stats) -> Stats {
        let watchers = self.common().watchers();
        let all = watchers.lanes.values().map(|(_, counted)| counted);
        all.fold(both(own, &watchers.gone), |sum, counted| {
            both(&sum, counted)
        })
    }

    pub(crate) fn downgrade(&self) -> WeakHub {
        match self {
            Self::Sends(outlet) => WeakHub::Sends(Arc::downgrade(outlet)),
            Self::Receives(inlet) => WeakHub::Receives(Arc::downgrade(inlet)),
        }
    }

    /// Opens a lane in a connection that joined, in that object.
    pub(crate) fn open(
        &self,
        connection: &mut Connection,
        object: ObjectId,
        ticket: Ticket,
    ) -> Result<Lane, Error> {
        let part = match self {
            Self::Sends(outlet) => {
                connection.send_object(object, Some(outlet.size()), u64::MAX);
                let feed = Feed::beside(outlet, object);
                Part::Sends(feed, outlet.reader().clone())
            }
            Self::Receives(inlet) => {
                if !connection.receive_object(object, Some(inlet.size()), None) {
                    let text =
                        "the sender may not use that object id, or send so much in one object";
                    return Err(Error::new(ErrorKind::Protocol, text));
                }
                Part::Receives(Arc::clone(inlet), inlet.side())
            }
        };
        Ok(Lane {
            object,
            part,
            hub: self.clone(),
            ticket,
            looks: 0,
        })
    }
}

/// What the connection of a session has counted, and those that joined it.
pub(crate) fn all_counted(hub: Option<Hub>, connection: &Connection) -> Stats {
    let own = connection.stats();
    hub.map_or(own, |hub| hub.counted(&own))
}

/// A [`Hub`] that ends with its object.
#[derive(Clone, Debug)]
pub(crate) enum WeakHub {
    Sends(Weak<Outlet>),
    Receives(Weak<Inlet>),
}

impl WeakHub {
    /// If its object is not over.
    pub(crate) fn upgrade(&self) -> Option<Hub> {
        let hub = match self {
            Self::Sends(outlet) => outlet.upgrade().map(Hub::Sends),
            Self::Receives(inlet) => inlet.upgrade().map(Hub::Receives),
        };
        hub.filter(|hub| !hub.is_over())
    }
}

#[derive(Debug)]
enum Part {
    Sends(Feed, SourceReader),
    Receives(Arc<Inlet>, Option<SinkSide>),
}

/// A part of what the connection of a session moves, in one that joined it.
#[derive(Debug)]
pub(crate) struct Lane {
    object: ObjectId,
    part: Part,
    hub: Hub,
    ticket: Ticket,
    looks: u32,
}

impl Lane {
    pub(crate) fn object(&self) -> ObjectId {
        self.object
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.hub
    }

    pub(crate) fn is_receiver(&self) -> bool {
        matches!(self.part, Part::Receives(..))
    }

    /// Fills a packet.
    pub(crate) fn read(&mut self, object: ObjectId, offset: u64, buffer: &mut [u8]) {
        match &self.part {
            Part::Sends(feed, reader) if object == self.object => {
                if let Err(error) = reader.read_at(offset, buffer) {
                    buffer.fill(0);
                    feed.fail(error);
                }
            }
            _ => buffer.fill(0),
        }
    }

    pub(crate) fn accepts_data(&self) -> bool {
        match &self.part {
            Part::Receives(inlet, side) => inlet.has_room(side.as_ref().map(SinkSide::backlog)),
            Part::Sends(..) => true,
        }
    }

    /// Takes received bytes, and perhaps the buffer that they stand in.
    pub(crate) fn place(&mut self, object: ObjectId, buffer: &mut Vec<u8>, parts: &[Placement]) {
        if let Part::Receives(inlet, side) = &mut self.part
            && object == self.object
        {
            inlet.place(side.as_mut(), buffer, parts);
        }
    }

    pub(crate) fn take_spare(&mut self) -> Option<Vec<u8>> {
        match &mut self.part {
            Part::Receives(_, side) => side.as_mut()?.take_spare(),
            Part::Sends(..) => None,
        }
    }

    /// Moves it along. Whether it is over, as the object of the session is.
    pub(crate) fn poll(&mut self, connection: &mut Connection) -> bool {
        match &mut self.part {
            Part::Sends(feed, reader) => {
                feed.poll(connection, reader.ready_end());
            }
            Part::Receives(inlet, side) => {
                if let Some(side) = side {
                    connection.set_sink_state(inlet.sink_state(&side.backlog()));
                }
            }
        }
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(COUNTED_EVERY) {
            self.count(connection);
        }
        self.hub.is_over()
    }

    fn count(&self, connection: &Connection) {
        let mut watchers = self.ticket.common.watchers();
        if let Some((_, counted)) = watchers.lanes.get_mut(&self.ticket.number) {
            *counted = connection.stats();
        }
    }

    /// Nothing more of it is wanted.
    pub(crate) fn finish(&self, connection: &mut Connection) {
        self.count(connection);
        connection.finish_sending(self.object);
        connection.finish_receiving(self.object);
    }
}
