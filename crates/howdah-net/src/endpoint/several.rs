//! One of several loops of a port: what it hands to the others, and what they hand to it.

use super::{Endpoint, UdpPort};
use crate::application::Application;
use crate::clock::Clock;
use crate::counts::{Counting, TurnCounts};
use crate::mail::{Letter, Mail};
use crate::parcel::Parcel;
use crate::tunnel::Lanes;
use crate::waker::Waker;
use howdah_proto::endpoint::{self, ARRIVALS_MAX, ConnKey, EndpointConfig, LOOPS_MAX, Order};
use std::io;
use std::net::UdpSocket;

impl Endpoint {
    /// Further loops of its port, for as many threads: with `count` in all, and these sockets of the port ([`share`](crate::share)).
    /// Where there are fewer sockets than loops, this one reads for those that have none, and they send by its own.
    ///
    /// All of them must run, and each with an application that knows [`Application::hand_over`] and [`Application::take_in`].
    ///
    /// # Errors
    ///
    /// If this system gives no more descriptors. This one is alone then.
    pub fn further(&mut self, sockets: Vec<UdpSocket>, count: usize) -> io::Result<Vec<Self>> {
        let count = count.min(LOOPS_MAX);
        let Some(port) = self.port.as_ref().filter(|_| count > 1) else {
            return Ok(Vec::new());
        };
        let mut sockets = sockets.into_iter();
        let mut others = Vec::new();
        for _ in 1..count {
            let (socket, reads) = match sockets.next() {
                Some(socket) => (socket, true),
                None => (port.socket().try_clone()?, false),
            };
            let config = EndpointConfig {
                protocol: self.machine.config().protocol.clone(),
                accept: self.machine.accepts(),
            };
            let mut port = UdpPort::new(socket)?;
            port.set_reads(reads);
            others.push(Self::with(Some(port), config, self.clock)?);
        }
        let wakers: Vec<Waker> = std::iter::once(&*self)
            .chain(&others)
            .map(Self::waker)
            .collect();
        let mail = Mail::of(wakers.into_iter(), &self.lanes);
        let all = std::iter::once(&mut *self).chain(&mut others);
        for (index, (endpoint, mail)) in all.zip(mail).enumerate() {
            endpoint.machine.among(index, count);
            endpoint.mail = Some(mail);
        }
        Ok(others)
    }

    /// The other loops do not run: this one does without them, from the beginning.
    pub fn alone(&mut self) {
        self.machine.among(0, 1);
        self.mail = None;
    }

    /// Counts who had their turns into what somebody else counts, too.
    pub fn count_turns_into(&mut self, shared: &TurnCounts) {
        self.counting = Some(Counting::into(shared));
    }

    /// Where tunnels are reached from here.
    pub(super) fn tunnels(&self) -> &Lanes {
        self.mail.as_ref().map_or(&self.lanes, |mail| &mail.tunnels)
    }

    /// Reads what has arrived, at the socket and from other loops, within bounds. Returns whether there may be more.
    ///
    /// The socket comes before what lay in the mailbox when this began: what a client sent first, to the loop with the handshakes,
    /// is looked at before what came by another one.
    pub(super) fn receive<A: Application>(&mut self, application: &mut A) -> io::Result<bool> {
        if self.mail.is_none() {
            return self.receive_here(application);
        }
        let parcels = self.open_letters(application);
        let more = self.receive_here(application)?;
        self.open_parcels(parcels, application);
        self.post_orders();
        Ok(more || !self.arrivals.is_empty() || self.has_mail())
    }

    /// Does what other loops say. Returns how many parcels lie there.
    fn open_letters<A: Application>(&mut self, application: &mut A) -> usize {
        let Some(mail) = &self.mail else { return 0 };
        let (letters, parcels) = mail.letters();
        let now = self.clock.now();
        for letter in letters {
            match letter {
                // It may have begun something meanwhile.
                Letter::Order(Order::GiveWay(key)) if !application.gives_way(key) => {}
                Letter::Order(order) => self.machine.obey(now, order),
                Letter::Moved(moved, guest) => {
                    let key = moved.key;
                    self.machine.take_in(*moved);
                    application.take_in(now, key, guest);
                }
            }
        }
        parcels
    }

    fn open_parcels<A: Application>(&mut self, count: usize, application: &mut A) {
        let room = ARRIVALS_MAX.saturating_sub(self.arrivals.len());
        let Some(mail) = &self.mail else { return };
        for parcel in mail.parcels(count.min(room)) {
            self.gather.on_received(parcel.meta.len);
            self.sort(parcel);
        }
        self.look_through(application);
    }

    /// Puts what was read where its owner finds it.
    pub(super) fn sort(&mut self, mut parcel: Parcel) {
        let from = UdpPort::canonical(parcel.meta.addr).ip();
        let owner = self.machine.owner(parcel.first(), from);
        match owner {
            endpoint::Owner::Elsewhere(at) => return self.hand(at, parcel),
            endpoint::Owner::Connection(key) => {
                if let Some(counting) = &mut self.counting {
                    counting.lies(key);
                    parcel.counted_for = Some(key);
                }
            }
            endpoint::Owner::Stranger(_) => {}
        }
        if let Some(refused) = self.arrivals.put(owner, parcel.packets(), parcel) {
            self.spares.put(refused.buffer);
        }
    }

    /// Hands what was read to another loop.
    pub(super) fn hand(&mut self, to: usize, parcel: Parcel) {
        let Some(mail) = &self.mail else { return };
        let (parcel, spare) = parcel.fitted();
        mail.hand(to, parcel);
        if let Some(spare) = spare {
            self.spares.put(spare);
        }
        self.handed += 1;
    }

    /// A connection whose key is proved goes where it belongs, if that is not here and its application lets it go.
    pub(super) fn move_on<A: Application>(&mut self, key: ConnKey, application: &mut A) {
        if self.mail.is_none() || self.machine.goes_to(key).is_none() {
            return;
        }
        let Some(guest) = application.hand_over(key) else {
            return;
        };
        // That it comes was said before.
        self.post_orders();
        let moved = self.machine.hand_over(key);
        if let (Some(mail), Some((to, moved))) = (&self.mail, moved) {
            mail.write(to, Letter::Moved(Box::new(moved), guest));
        }
    }

    /// Tells other loops what they have to know.
    pub(super) fn post_orders(&mut self) {
        let Some(mail) = &self.mail else { return };
        for (to, order) in self.machine.take_orders() {
            mail.write(to, Letter::Order(order));
        }
    }

    /// Whether another loop has something for this one.
    pub(super) fn has_mail(&self) -> bool {
        self.mail.as_ref().is_some_and(Mail::is_waiting)
    }

    /// Packets for this loop that found no room in its mailbox.
    pub(super) fn lost_in_mail(&self) -> u64 {
        self.mail.as_ref().map_or(0, Mail::lost)
    }

    /// Buffers that were handed to other loops so far. For measuring.
    pub fn handed_over(&self) -> u64 {
        self.handed
    }

    /// Its clock, by which another loop's times are meant.
    pub fn clock(&self) -> Clock {
        self.clock
    }
}
