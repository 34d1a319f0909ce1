//! Which connection a datagram belongs to.

use super::ConnKey;
use super::admission::FirstPacket;
use crate::codec::{ConnectionId, Header, Level, RetryPacket, limits};
use std::collections::BTreeMap;

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Route {
    Known(ConnKey),
    /// A client's first packet, of any version.
    New(FirstPacket),
    /// Nothing of ours; it is not answered.
    Stranger,
}

/// Connection ids in use.
#[derive(Debug, Default)]
pub(crate) struct Demux {
    ids: BTreeMap<ConnectionId, ConnKey>,
}

impl Demux {
    pub(crate) fn insert(&mut self, id: ConnectionId, key: ConnKey) {
        self.ids.insert(id, key);
    }

    /// Forgets an id, if it is that connection's.
    pub(crate) fn remove(&mut self, id: ConnectionId, key: ConnKey) {
        if self.ids.get(&id) == Some(&key) {
            self.ids.remove(&id);
        }
    }

    pub(crate) fn contains(&self, id: ConnectionId) -> bool {
        self.ids.contains_key(&id)
    }

    pub(crate) fn route(&self, datagram: &[u8]) -> Route {
        if let Ok(packet) = RetryPacket::decode(datagram) {
            // Never answered, so two servers cannot keep each other busy.
            let known = self.ids.get(&packet.destination);
            return known.map_or(Route::Stranger, |&key| Route::Known(key));
        }
        let Ok((header, _)) = Header::decode(datagram) else {
            return Route::Stranger;
        };
        if let Some(&key) = self.ids.get(&header.destination()) {
            return Route::Known(key);
        }
        match header {
            // Small first packets would let a forged address be sent more than was received.
            Header::Handshake {
                level: Level::Initial,
                version,
                destination,
                source,
                cookie,
                ..
            } if datagram.len() >= limits::MIN_DATAGRAM => Route::New(FirstPacket {
                version,
                first_destination: destination,
                client: source,
                cookie,
            }),
            _ => Route::Stranger,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Cookie, RetryAnswer, VERSION};

    fn initial(version: u32, len: usize) -> Vec<u8> {
        let mut out = Vec::new();
        Header::Handshake {
            level: Level::Initial,
            version,
            destination: ConnectionId(7),
            source: ConnectionId(8),
            number: 0,
            cookie: None,
        }
        .encode(&mut out);
        out.resize(len, 0);
        out
    }

    #[test]
    fn only_full_sized_first_packets_knock() {
        let mut demux = Demux::default();
        let knock = FirstPacket {
            version: VERSION,
            first_destination: ConnectionId(7),
            client: ConnectionId(8),
            cookie: None,
        };
        let new = Route::New(knock);
        assert_eq!(demux.route(&initial(VERSION, 1200)), new);
        assert_eq!(demux.route(&initial(VERSION, 1199)), Route::Stranger);
        let newer = Route::New(FirstPacket {
            version: VERSION + 1,
            ..knock
        });
        assert_eq!(demux.route(&initial(VERSION + 1, 1200)), newer);
        assert_eq!(
            demux.route(&initial(VERSION + 1, 1199)),
            Route::Stranger,
            "what is too small is not even told the version"
        );
        assert_eq!(demux.route(&[]), Route::Stranger);
        for first in 0..=255u8 {
            let mut datagram = initial(VERSION, 1200);
            datagram[0] = first;
            let expected = match first {
                0xc0 => new,
                // The zeros that follow are its cookie.
                0xc2 => Route::New(FirstPacket {
                    cookie: Some(Cookie([0; 20])),
                    ..knock
                }),
                _ => Route::Stranger,
            };
            assert_eq!(demux.route(&datagram), expected, "first byte {first:#x}");
        }
        demux.insert(ConnectionId(7), ConnKey(3));
        assert_eq!(
            demux.route(&initial(VERSION, 1200)),
            Route::Known(ConnKey(3))
        );
        let mut answer = Vec::new();
        let retry = RetryAnswer::Retry(Cookie([1; 20]));
        RetryPacket::to(ConnectionId(9), ConnectionId(7), retry).encode(&mut answer);
        assert_eq!(demux.route(&answer), Route::Known(ConnKey(3)));
        demux.remove(ConnectionId(7), ConnKey(4));
        assert!(demux.contains(ConnectionId(7)), "it is another one's");
        demux.remove(ConnectionId(7), ConnKey(3));
        assert_eq!(demux.route(&answer), Route::Stranger);
        assert!(!demux.contains(ConnectionId(7)));
    }
}
