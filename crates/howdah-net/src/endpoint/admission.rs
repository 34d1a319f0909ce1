//! Which datagrams begin a connection.

use super::{Endpoint, random_u64};
use crate::application::{ConnKey, Full};
use crate::demux::Route;
use crate::door::{Knock, Load, Verdict};
use crate::half_open::Room;
use howdah_core::{Ecn, Span, Time};
use howdah_proto::codec::{ConnectionId, DoorAnswer};
use howdah_proto::{Connection, Role};
use std::net::{IpAddr, SocketAddr};

/// A handshake that has not moved for that long gives way if there is no other place.
const STALE_AFTER: Span = Span::from_secs(3);
/// Connections that a server keeps.
const MAX_CONNECTIONS: usize = 16_384;

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
    fn place_for(&self, now: Time, host: IpAddr) -> Result<Option<ConnKey>, Full> {
        if self.connections.len() >= MAX_CONNECTIONS {
            return Err(Full::Connections(self.connections.len()));
        }
        match self.half_open.room(host) {
            Room::Free => Ok(None),
            Room::InsteadOf(victim) => Ok(Some(victim)),
            Room::Taken => {
                let is_stale = |key: &ConnKey| {
                    self.connections.get(key).is_none_or(|slot| {
                        now.since(slot.connection.last_received_at()) >= STALE_AFTER
                    })
                };
                let stale = self.half_open.keys().find(is_stale);
                stale
                    .map(Some)
                    .ok_or(Full::Handshakes(self.half_open.len()))
            }
        }
    }

    pub(super) fn find(
        &mut self,
        now: Time,
        from: SocketAddr,
        local_ip: Option<IpAddr>,
        (datagram, waited): (&[u8], Span),
    ) -> Option<ConnKey> {
        match self.demux.route(datagram) {
            Route::Known(key) => Some(key),
            Route::Stranger => None,
            Route::New(knock) => {
                if !self.config.accept {
                    return None;
                }
                let place = self.place_for(now, from.ip());
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
                if let Some(victim) = place.ok()? {
                    self.remove(victim);
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
