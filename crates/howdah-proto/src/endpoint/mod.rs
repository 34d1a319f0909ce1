//! Many connections on one socket, without the socket: which of them a datagram belongs to, who gets in, and whose turn it is.
//!
//! [`Endpoint`] is a machine as [`Connection`] is: it has no clock, no socket and no source of randomness but the
//! seed that it is given, so equal seeds and equal datagrams give equal endpoints, in the simulator and to a fuzzer as over UDP.
//!
//! # Driving an endpoint
//!
//! 1. Sort what arrives by its [owner](Endpoint::owner) into [`Arrivals`], and take it out again: strangers first, the others in turns.
//! 2. For each datagram: [`Endpoint::find`] says whose it is, or what to answer; then [`Endpoint::handle`].
//! 3. Ask who is [due](Endpoint::take_due), [choose](Endpoint::choose) whose turn it is of those, and for each
//!    [visit](Endpoint::visit) it, send what it has, read its events, and [settle](Endpoint::settle) when it is looked at next.
//! 4. Wait until [`Endpoint::next_at`].
//!
//! Several endpoints may serve one port, each on a loop of its own: [`Endpoint::among`].

mod accepting;
mod admission;
mod allowance;
mod arrivals;
mod demux;
mod established;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod half_open;
mod loops;
mod newcomers;
mod schedule;
mod sweep;
mod turns;

pub use accepting::{Found, Incoming};
pub use allowance::Allowance;
pub use arrivals::{ARRIVALS_MAX, Arrivals, Owner};
pub use half_open::Prefix;
pub use loops::{LOOPS_MAX, Moved, Order};

use crate::codec::ConnectionId;
use crate::error::ConnectionError;
use crate::{Arriving, Config, Connection, Handled, Role};
use admission::Admission;
use demux::{Demux, Route};
use established::Established;
use half_open::HalfOpen;
use howdah_core::Time;
use loops::Loops;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use schedule::Schedule;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use sweep::Sweep;
use turns::Turns;

/// Names a connection of an endpoint. Keys ascend with time and are never used twice.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ConnKey(pub u64);

/// Settings of an endpoint.
#[derive(Debug)]
pub struct EndpointConfig {
    /// For connections that it opens and, if `accept`, those that it answers.
    pub protocol: Config,
    /// Answer strangers.
    pub accept: bool,
}

/// Why a server has no place for one more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Full {
    /// So many handshakes are under way at this moment.
    Handshakes(usize),
    /// So many connections are there.
    Connections(usize),
}

/// Connections that are looked at without a cause: something else than packets may move them on.
#[derive(Clone, Copy, Debug)]
pub enum Attended<'a> {
    /// Every one, in every turn of the loop.
    All,
    /// These, some fifty times a second. Thousands of idle ones beside them cost nothing.
    Only(&'a BTreeSet<ConnKey>),
}

#[derive(Debug)]
struct Slot {
    connection: Connection,
    /// Our address that the peer wrote to; answers leave from there.
    local_ip: Option<IpAddr>,
    /// What the socket had dropped before.
    drops_before: u64,
}

/// See the module.
pub struct Endpoint {
    config: EndpointConfig,
    /// Of connection ids, and of what connections draw.
    rng: ChaCha20Rng,
    demux: Demux,
    admission: Admission,
    connections: BTreeMap<ConnKey, Slot>,
    /// Those whose handshake is under way.
    half_open: HalfOpen,
    /// Those whose key is proved, of a server.
    established: Established,
    max_connections: usize,
    schedule: Schedule,
    turns: Turns,
    sweep: Sweep,
    next_key: u64,
    /// Somebody was told to come again.
    turned_away: Option<Full>,
    socket_drops: u64,
    /// Of one port, beside this one.
    loops: Loops,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // No secrets in logs.
        f.debug_struct("Endpoint")
            .field("connections", &self.connections.len())
            .field("half_open", &self.half_open.len())
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// All that is random comes from `seed`: connection ids, and the secrets that cookies are made with. On a network nobody else
    /// may know it.
    pub fn new(config: EndpointConfig, seed: [u8; 32]) -> Self {
        let mut rng = ChaCha20Rng::from_seed(seed);
        let mut of_admission = [0; 32];
        rng.fill_bytes(&mut of_admission);
        Self {
            admission: Admission::new(config.protocol.knock, of_admission),
            config,
            rng,
            demux: Demux::default(),
            connections: BTreeMap::new(),
            half_open: HalfOpen::default(),
            established: Established::default(),
            max_connections: accepting::MAX_CONNECTIONS,
            schedule: Schedule::default(),
            turns: Turns::default(),
            sweep: Sweep::default(),
            next_key: 1,
            turned_away: None,
            socket_drops: 0,
            loops: Loops::default(),
        }
    }

    /// Keeps no more connections than that: there are 16,384 by default.
    pub fn keep_at_most(&mut self, connections: usize) {
        self.max_connections = connections;
    }

    /// Its settings.
    pub fn config(&self) -> &EndpointConfig {
        &self.config
    }

    /// Whether strangers are answered.
    pub fn accepts(&self) -> bool {
        self.config.accept
    }

    // ---- Connections -------------------------------------------------------------------------

    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// [`ConnectionError::Handshake`] if TLS cannot begin.
    pub fn connect(&mut self, now: Time, remote: SocketAddr) -> Result<ConnKey, ConnectionError> {
        let id = ConnectionId(self.rng.next_u64());
        let connection = self.begin(now, Role::Client, id, remote)?;
        Ok(self.add(connection, None))
    }

    fn begin(
        &mut self,
        now: Time,
        role: Role,
        id: ConnectionId,
        remote: SocketAddr,
    ) -> Result<Connection, ConnectionError> {
        let mut config = self.config.protocol.clone();
        let headers = if remote.ip().to_canonical().is_ipv4() {
            28
        } else {
            48
        };
        config.max_datagram = config.max_datagram.min(9_000 - headers);
        Connection::new(now, role, config, id, remote, self.rng.next_u64())
    }

    fn add(&mut self, connection: Connection, local_ip: Option<IpAddr>) -> ConnKey {
        let key = ConnKey(self.next_key);
        self.next_key += 1;
        self.demux.insert(connection.local_id(), key);
        self.demux.insert(connection.first_destination(), key);
        self.half_open.insert(key, connection.remote().ip());
        self.connections.insert(
            key,
            Slot {
                connection,
                local_ip,
                drops_before: self.socket_drops,
            },
        );
        self.schedule.touch(key);
        key
    }

    /// A connection that is there.
    pub fn connection_mut(&mut self, key: ConnKey) -> Option<&mut Connection> {
        self.connections
            .get_mut(&key)
            .map(|slot| &mut slot.connection)
    }

    /// Its peer's address.
    pub fn remote(&self, key: ConnKey) -> Option<SocketAddr> {
        let slot = self.connections.get(&key)?;
        Some(slot.connection.remote())
    }

    /// Our address that its peer wrote to; answers leave from there.
    pub fn local_ip(&self, key: ConnKey) -> Option<IpAddr> {
        self.connections.get(&key)?.local_ip
    }

    /// Connections that are here, handshakes and those whose last word is not heard yet included.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Whether nobody is there.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Handshakes under way.
    pub fn handshakes(&self) -> usize {
        self.half_open.len()
    }

    /// The peer of that connection has proved its key. Where there is no place for one more, connections of the same `group` give
    /// way first.
    pub fn on_established(&mut self, key: ConnKey, group: u64) {
        self.half_open.remove(key);
        if self.config.accept {
            self.established.insert(key, group);
        }
    }

    /// The host says that nobody listens there: it says nothing to those that are established.
    pub fn on_unreachable(&mut self) {
        for key in self.half_open.keys() {
            if let Some(slot) = self.connections.get_mut(&key) {
                slot.connection.on_unreachable();
                self.schedule.touch(key);
            }
        }
    }

    /// Forgets a connection without a word to its peer.
    pub fn remove(&mut self, key: ConnKey) {
        if let Some(slot) = self.connections.remove(&key) {
            let connection = &slot.connection;
            for id in [connection.local_id(), connection.first_destination()] {
                self.demux.remove(id, key);
            }
            self.loops.on_removed(key, connection.local_id());
        }
        self.half_open.remove(key);
        self.established.remove(key);
        self.schedule.forget(key);
    }

    /// Packets that the host has dropped at the socket so far.
    pub fn set_socket_drops(&mut self, packets: u64) {
        self.socket_drops = packets;
    }

    // ---- Arriving ----------------------------------------------------------------------------

    /// Whose turn of [`Arrivals`] a datagram from `from` takes.
    pub fn owner(&self, datagram: &[u8], from: IpAddr) -> Owner {
        let route = self.demux.route(datagram);
        if let Some(at) = self.elsewhere(&route, datagram) {
            return Owner::Elsewhere(at);
        }
        match route {
            Route::Known(key) if !self.half_open.contains(key) => Owner::Connection(key),
            Route::Known(_) | Route::New(_) | Route::Stranger => Owner::Stranger(from),
        }
    }

    /// Hands a datagram to the connection that it was [found](Self::find) to be of; `None` if that is gone.
    pub fn handle(
        &mut self,
        now: Time,
        key: ConnKey,
        arriving: &Arriving,
        datagram: &mut [u8],
    ) -> Option<Handled> {
        let slot = self.connections.get_mut(&key)?;
        self.schedule.touch(key);
        let handled = slot.connection.handle_datagram(now, arriving, datagram);
        if slot.connection.is_stillborn() {
            // Its first datagram was no sealed Initial: nothing is kept of it.
            self.remove(key);
        }
        Some(handled)
    }

    /// Somebody was told to come again later since this was asked.
    pub fn take_turned_away(&mut self) -> Option<Full> {
        self.turned_away.take()
    }

    // ---- Whose turn it is --------------------------------------------------------------------

    /// Something happened to that connection: it is due in the next turn.
    pub fn touch(&mut self, key: ConnKey) {
        self.schedule.touch(key);
    }

    /// Something happened to those that are attended to.
    pub fn touch_attended(&mut self, attended: Attended<'_>) {
        if let Attended::Only(keys) = attended {
            for &key in keys {
                self.schedule.touch(key);
            }
        }
    }

    /// Puts who has something to do at `now` into `due`.
    pub fn take_due(&mut self, now: Time, attended: Attended<'_>, due: &mut Vec<ConnKey>) {
        match attended {
            Attended::All => {
                let all = self.connections.keys().copied();
                self.schedule.take_due(now, all, due);
            }
            Attended::Only(keys) => {
                let next = self.sweep.take(now, keys);
                self.schedule.take_due(now, next, due);
            }
        }
    }

    /// Leaves of `due` those whose turn this is: a few of each group. Returns whether others have to wait for the next one.
    pub fn choose(&mut self, due: &mut Vec<ConnKey>, group: impl Fn(ConnKey) -> u64) -> bool {
        self.turns.choose(due, group)
    }

    /// A connection whose turn it is, with its timers fired.
    pub fn visit(&mut self, now: Time, key: ConnKey) -> Option<&mut Connection> {
        let slot = self.connections.get_mut(&key)?;
        let connection = &mut slot.connection;
        connection.set_socket_drops(self.socket_drops.wrapping_sub(slot.drops_before));
        if connection.poll_timeout().is_some_and(|(at, _)| at <= now) {
            connection.handle_timeout(now);
        }
        Some(connection)
    }

    /// Its turn is over; `again`: it wants the next one, too.
    pub fn settle(&mut self, key: ConnKey, again: bool) {
        if let Some(slot) = self.connections.get(&key) {
            let next = slot.connection.poll_timeout().map(|(at, _)| at);
            self.schedule.set(key, next);
            if again {
                self.schedule.touch(key);
            }
        }
    }

    /// Whether somebody is due whatever the time.
    pub fn has_touched(&self) -> bool {
        self.schedule.has_touched()
    }

    /// When somebody wants to be looked at next.
    pub fn next_at(&self, attended: Attended<'_>) -> Option<Time> {
        let sweep = match attended {
            Attended::All => None,
            Attended::Only(keys) => self.sweep.next_at(keys),
        };
        self.schedule.next().into_iter().chain(sweep).min()
    }

    /// How often a connection was looked at so far. For measuring: idle ones are not.
    pub fn visits(&self) -> u64 {
        self.schedule.visits()
    }
}
