//! Which datagrams begin a connection.

use super::{Endpoint, random_u64};
use crate::application::{Application, ConnKey, Full};
use crate::demux::Route;
use crate::door::{Knock, Load, Verdict};
use crate::half_open::Room;
use howdah_core::{Ecn, Span, Time};
use howdah_proto::codec::{ConnectionId, DoorAnswer};
use howdah_proto::error::CloseCode;
use howdah_proto::{Connection, Role};
use std::net::{IpAddr, SocketAddr};

/// A handshake that has not moved for that long gives way if there is no other place.
const STALE_AFTER: Span = Span::from_secs(3);
/// Connections that a server keeps.
pub(super) const MAX_CONNECTIONS: usize = 16_384;
/// What a client is told whose connection ends for somebody else's.
const GAVE_WAY: &str = "the server has as many connections as it keeps, and this one, in which nothing is under way, \
                        gave way to another key's; come again";

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
    least + (client.0 % spread) as u16
}

impl Endpoint {
    /// Who gives way to a handshake from `host`; an error if there is no place for it.
    fn place_for<A: Application>(
        &self,
        now: Time,
        host: IpAddr,
        application: &A,
    ) -> Result<Option<GivesWay>, Full> {
        let room = self.half_open.room(host);
        if self.connections.len() >= self.max_connections {
            if let Room::InsteadOf(victim) = room {
                return Ok(Some(GivesWay::Handshake(victim)));
            }
            let spared = self.proved.to_give_way(|key| application.gives_way(key));
            let full = Full::Connections(self.connections.len());
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
    fn give_way(&mut self, now: Time, victim: ConnKey) {
        // It is there until its client has heard of it.
        self.proved.remove(victim);
        if let Some(slot) = self.connections.get_mut(&victim) {
            slot.connection.close(now, CloseCode::Application, GAVE_WAY);
        }
        self.schedule.touch(victim);
    }

    pub(super) fn find<A: Application>(
        &mut self,
        now: Time,
        from: SocketAddr,
        local_ip: Option<IpAddr>,
        (datagram, waited): (&[u8], Span),
        application: &A,
    ) -> Option<ConnKey> {
        match self.demux.route(datagram) {
            Route::Known(key) => Some(key),
            Route::Stranger => None,
            Route::New(knock) => {
                if !self.config.accept {
                    return None;
                }
                let place = self.place_for(now, from.ip(), application);
                let full = place.as_ref().err().copied();
                let load = Load {
                    half_open: self.half_open.len(),
                    full_for_s: full.map(|full| come_again_s(full, knock.client)),
                    waited,
                };
                let validated = match self.door.judge(now, from, &knock, load) {
                    Verdict::Admit { validated } => validated,
                    Verdict::Answer(packet) => {
                        if matches!(packet.answer, DoorAnswer::Busy { .. }) {
                            self.turned_away = full;
                        }
                        let mut answer = Vec::new();
                        packet.encode(&mut answer);
                        // A lost answer is asked for again.
                        let _ = self.send_to(from, local_ip, &answer, answer.len(), Ecn::NotEct);
                        return None;
                    }
                    Verdict::Ignore => return None,
                };
                match place.ok()? {
                    None => {}
                    Some(GivesWay::Handshake(victim)) => self.remove(victim),
                    Some(GivesWay::Session(victim)) => self.give_way(now, victim),
                }
                let Knock {
                    first_destination,
                    client,
                    ..
                } = knock;
                let id = ConnectionId(random_u64().ok()?);
                if self.demux.contains(id) {
                    return None;
                }
                let role = Role::Server {
                    first_destination,
                    client,
                };
                let mut config = self.config.protocol.clone();
                config.max_datagram = self.max_datagram(from);
                let seed = random_u64().ok()?;
                let mut connection = Connection::new(now, role, config, id, from, seed).ok()?;
                if validated {
                    connection.validate_address();
                }
                Some(self.add(connection, local_ip))
            }
        }
    }
}
