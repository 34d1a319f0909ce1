//! What the loops of one port hand to each other: connections, word about them, and packets that came to the wrong socket.

use crate::parcel::Parcel;
use crate::tunnel::Lanes;
use crate::waker::Waker;
use howdah_proto::endpoint::{Moved, Order};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Packets that lie there for a loop, in bytes: about what a socket holds. More are lost, and counted, as they would be there.
const PARCEL_BYTES: usize = 8 << 20;
/// Of those for the first loop that may be a stranger's.
const STRANGER_BYTES: usize = 1 << 20;
/// What each of them takes beside its content.
const PARCEL_COST: usize = 256;

/// What must come, in the order in which it was sent.
pub(crate) enum Letter {
    Order(Order),
    /// A connection, and what its application has of it.
    Moved(Box<Moved>, Box<dyn Any + Send>),
}

#[derive(Default)]
struct Post {
    letters: Vec<Letter>,
    parcels: VecDeque<Parcel>,
    bytes: usize,
}

/// Where one loop finds what others have for it.
struct Mailbox {
    waker: Waker,
    /// Something is there: looked at more often than the box is free.
    waiting: AtomicBool,
    /// Packets that found no room, or came when it was over.
    lost: AtomicU64,
    post: Mutex<Post>,
}

/// The mailboxes of all loops of a port, and which of them is one's own.
pub(crate) struct Mail {
    own: usize,
    boxes: Arc<[Mailbox]>,
    /// Tunnels come to the first loop; what goes to them goes there at once.
    pub(crate) tunnels: Lanes,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Post> {
        // Nothing in there can be half done.
        self.post.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        if !self.waiting.swap(true, Ordering::AcqRel) {
            self.waker.ring();
        }
    }
}

impl Mail {
    /// For loops that are woken by these; the first one's.
    pub(crate) fn of(wakers: impl Iterator<Item = Waker>, tunnels: &Lanes) -> Vec<Self> {
        let boxes = wakers.map(|waker| Mailbox {
            waker,
            waiting: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            post: Mutex::default(),
        });
        let boxes: Arc<[Mailbox]> = boxes.collect();
        let of = |own| Self {
            own,
            boxes: Arc::clone(&boxes),
            tunnels: tunnels.clone(),
        };
        (0..boxes.len()).map(of).collect()
    }

    /// Sends a letter.
    pub(crate) fn write(&self, to: usize, letter: Letter) {
        if let Some(to) = self.boxes.get(to) {
            to.lock().letters.push(letter);
            to.tell();
        }
    }

    /// Hands packets over. What finds no room is lost, as in a socket that is full.
    pub(crate) fn hand(&self, to: usize, parcel: Parcel) {
        let Some(mailbox) = self.boxes.get(to) else {
            return;
        };
        let most = if parcel.is_known() {
            PARCEL_BYTES
        } else {
            STRANGER_BYTES
        };
        let cost = parcel.bytes() + PARCEL_COST;
        let mut post = mailbox.lock();
        if post.bytes + cost > most {
            drop(post);
            let packets = parcel.packets() as u64;
            mailbox.lost.fetch_add(packets, Ordering::Relaxed);
            return;
        }
        post.bytes += cost;
        post.parcels.push_back(parcel);
        drop(post);
        mailbox.tell();
    }

    fn own(&self) -> Option<&Mailbox> {
        self.boxes.get(self.own)
    }

    /// Whether something lies here.
    pub(crate) fn is_waiting(&self) -> bool {
        self.own()
            .is_some_and(|own| own.waiting.load(Ordering::Acquire))
    }

    /// The letters that lie here, and how many parcels do.
    pub(crate) fn letters(&self) -> (Vec<Letter>, usize) {
        let Some(own) = self.own().filter(|_| self.is_waiting()) else {
            return (Vec::new(), 0);
        };
        let mut post = own.lock();
        if post.parcels.is_empty() {
            own.waiting.store(false, Ordering::Release);
        }
        (std::mem::take(&mut post.letters), post.parcels.len())
    }

    /// As many parcels as that, if they are there.
    pub(crate) fn parcels(&self, most: usize) -> Vec<Parcel> {
        let Some(own) = self.own().filter(|_| most > 0) else {
            return Vec::new();
        };
        let mut post = own.lock();
        let count = most.min(post.parcels.len());
        let parcels: Vec<Parcel> = post.parcels.drain(..count).collect();
        let bytes: usize = parcels
            .iter()
            .map(|parcel| parcel.bytes() + PARCEL_COST)
            .sum();
        post.bytes -= bytes;
        if post.parcels.is_empty() && post.letters.is_empty() {
            own.waiting.store(false, Ordering::Release);
        }
        parcels
    }

    /// Packets for this loop that found no room.
    pub(crate) fn lost(&self) -> u64 {
        self.own().map_or(0, |own| own.lost.load(Ordering::Relaxed))
    }
}
