//! Which connection a datagram belongs to.

use crate::endpoint::ConnKey;
use howdah_proto::codec::{ConnectionId, Header, Level, VERSION, limits};
use std::collections::HashMap;

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Route {
    Known(ConnKey),
    /// A client's first packet.
    New {
        first_destination: ConnectionId,
        client: ConnectionId,
    },
    /// Nothing of ours; it is not answered.
    Stranger,
}

/// Connection ids in use.
#[derive(Debug, Default)]
pub(crate) struct Demux {
    ids: HashMap<ConnectionId, ConnKey>,
}

impl Demux {
    pub(crate) fn insert(&mut self, id: ConnectionId, key: ConnKey) {
        self.ids.insert(id, key);
    }

    pub(crate) fn remove(&mut self, key: ConnKey) {
        self.ids.retain(|_, k| *k != key);
    }

    pub(crate) fn contains(&self, id: ConnectionId) -> bool {
        self.ids.contains_key(&id)
    }

    pub(crate) fn route(&self, datagram: &[u8]) -> Route {
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
                ..
            } if version == VERSION && datagram.len() >= limits::MIN_DATAGRAM => Route::New {
                first_destination: destination,
                client: source,
            },
            _ => Route::Stranger,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn initial(version: u32, len: usize) -> Vec<u8> {
        let mut out = Vec::new();
        Header::Handshake {
            level: Level::Initial,
            version,
            destination: ConnectionId(7),
            source: ConnectionId(8),
            number: 0,
        }
        .encode(&mut out);
        out.resize(len, 0);
        out
    }

    #[test]
    fn only_full_sized_first_packets_of_our_version_open_a_connection() {
        let mut demux = Demux::default();
        let new = Route::New {
            first_destination: ConnectionId(7),
            client: ConnectionId(8),
        };
        assert_eq!(demux.route(&initial(VERSION, 1200)), new);
        assert_eq!(demux.route(&initial(VERSION, 1199)), Route::Stranger);
        assert_eq!(demux.route(&initial(VERSION + 1, 1200)), Route::Stranger);
        assert_eq!(demux.route(&[]), Route::Stranger);
        for first in 0..=255u8 {
            let mut datagram = initial(VERSION, 1200);
            datagram[0] = first;
            let expected = if first == 0xc0 { new } else { Route::Stranger };
            assert_eq!(demux.route(&datagram), expected, "first byte {first:#x}");
        }
        demux.insert(ConnectionId(7), ConnKey(3));
        assert_eq!(
            demux.route(&initial(VERSION, 1200)),
            Route::Known(ConnKey(3))
        );
        demux.remove(ConnKey(3));
        assert!(!demux.contains(ConnectionId(7)));
    }
}
