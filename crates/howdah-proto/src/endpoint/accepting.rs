//! Which datagrams begin a connection.

use super::admission::{FirstPacket, Load, Verdict};
use super::demux::Route;
use super::half_open::Room;
use super::{ConnKey, Endpoint, Full};
use crate::Role;
use crate::codec::{ConnectionId, RetryAnswer};
use crate::error::CloseCode;
use howdah_core::{Span, Time};
use rand::Rng;
use std::net::{IpAddr, SocketAddr};

/// A handshake that has not moved for that long gives way if there is no other place.
const STALE_AFTER: Span = Span::from_secs(3);
/// Connections that a server keeps.
pub(super) const MAX_CONNECTIONS: usize = 16_384;
/// What a client is told whose connection ends for somebody else's.
const GAVE_WAY: &str = "the server has as many connections as it keeps, and this one, in which nothing is under way, \
                        gave way to another key's; come again";

/// A datagram, and what the socket says of it.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// Where it came from.
    pub from: SocketAddr,
    /// Our address that it was sent to, if the socket says so.
    pub local_ip: Option<IpAddr>,
    /// The datagram.
    pub datagram: &'a [u8],
    /// So long it has lain in the socket.
    pub waited: Span,
    /// A connection that begins by it has to stay on this loop of the port.
    pub stays: bool,
}

/// What a datagram is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Found {
    /// That connection's, which may have begun by it.
    Connection(ConnKey),
    /// Nobody's; this is to be sent to where it came from. It is smaller, and need not arrive: who comes again is answered again.
    Answer(Vec<u8>),
    /// For that other loop of the port.
    Elsewhere(usize),
    /// Nobody's, and to be passed over.
    Nobody,
}

/// Who gives way to a newcomer.
enum GivesWay {
    /// A handshake, without a word.
    Handshake(ConnKey),
    /// A session in which nothing is under way. One stranger after the other ends no more of them than may knock at a time:
    /// whoever has most then has fewer, and there is room.
    Session(ConnKey),
}

/// When to come again; not everybody at the same time.
fn come_again_s(full: Full, client: ConnectionId) -> u16 {
    let (least, spread) = match full {
        Full::Handshakes(_) => (1, 3),
        Full::Connections(_) => (10, 10),
    };
    least + u16::try_from(client.0 % spread).unwrap_or(0)
}

impl Endpoint {
    /// Who gives way to a handshake from `host`; an error if there is no place for it.
    fn place_for(
        &self,
        now: Time,
        host: IpAddr,
        gives_way: impl Fn(ConnKey) -> bool,
    ) -> Result<Option<GivesWay>, Full> {
        let room = self.half_open.room(host);
        let there = self.connections.len() + self.loops.moved();
        if there >= self.max_connections {
            if let Room::InsteadOf(victim) = room {
                return Ok(Some(GivesWay::Handshake(victim)));
            }
            let spared = self.established.to_give_way(gives_way);
            let full = Full::Connections(there);
            return spared.map(GivesWay::Session).map(Some).ok_or(full);
        }
        match room {
            Room::Free => Ok(None),
            Room::InsteadOf(victim) => Ok(Some(GivesWay::Handshake(victim))),
            Room::Taken => {
                let is_stale = |key: &ConnKey| {
                    self.connections.get(key).is_none_or(|slot| {
                        now.since(slot.connection.last_received_at()) >= STALE_AFTER
                    })
                };
                let stale = self.half_open.keys().find(is_stale);
                stale
                    .map(GivesWay::Handshake)
                    .map(Some)
                    .ok_or(Full::Handshakes(self.half_open.len()))
            }
        }
    }

    /// Ends a session for a newcomer's.
    pub(super) fn give_way(&mut self, now: Time, victim: ConnKey) {
        // It is there until its client has heard of it.
        self.established.remove(victim);
        if let Some(slot) = self.connections.get_mut(&victim) {
            slot.connection.close(now, CloseCode::Application, GAVE_WAY);
        } else {
            return self.loops.give_way(victim);
        }
        self.schedule.touch(victim);
    }

    /// Which connection a datagram belongs to; one may begin by it, if need be in the place of one that `gives_way`: nothing is
    /// under way in it.
    pub fn find(
        &mut self,
        now: Time,
        incoming: &Incoming<'_>,
        gives_way: impl Fn(ConnKey) -> bool,
    ) -> Found {
        let route = self.demux.route(incoming.datagram);
        if let Some(at) = self.elsewhere(&route, incoming.datagram) {
            return Found::Elsewhere(at);
        }
        match route {
            Route::Known(key) => Found::Connection(key),
            Route::New(first) if self.config.accept => self.judge(now, incoming, &first, gives_way),
            Route::New(_) | Route::Stranger => Found::Nobody,
        }
    }

    fn judge(
        &mut self,
        now: Time,
        incoming: &Incoming<'_>,
        first: &FirstPacket,
        gives_way: impl Fn(ConnKey) -> bool,
    ) -> Found {
        let from = incoming.from;
        let place = self.place_for(now, from.ip(), gives_way);
        let full = place.as_ref().err().copied();
        let load = Load {
            half_open: self.half_open.len(),
            full_for_s: full.map(|full| come_again_s(full, first.client)),
            waited: incoming.waited,
        };
        let validated = match self.admission.judge(now, from, first, load) {
            Verdict::Admit { validated } => validated,
            Verdict::Answer(packet) => {
                if matches!(packet.answer, RetryAnswer::Busy { .. }) {
                    self.turned_away = full;
                }
                let mut answer = Vec::new();
                packet.encode(&mut answer);
                return Found::Answer(answer);
            }
            Verdict::Ignore => return Found::Nobody,
        };
        match place {
            Err(_) => return Found::Nobody,
            Ok(None) => {}
            Ok(Some(GivesWay::Handshake(victim))) => self.remove(victim),
            Ok(Some(GivesWay::Session(victim))) => self.give_way(now, victim),
        }
        let home = self.loops.home(incoming.stays);
        let id = self.loops.id(self.rng.next_u64(), home);
        if self.demux.contains(id) {
            return Found::Nobody;
        }
        let role = Role::Server {
            first_destination: first.first_destination,
            client: first.client,
        };
        let Ok(mut connection) = self.begin(now, role, id, from) else {
            return Found::Nobody;
        };
        if validated {
            connection.validate_address();
        }
        let key = self.add(connection, incoming.local_ip);
        self.loops.on_accepted(key, id);
        Found::Connection(key)
    }
}
