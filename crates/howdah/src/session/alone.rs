//! A connection of which nobody hears anything, for tests.

use crate::Identity;
use howdah_core::Time;
use howdah_proto::{Config, Connection, ConnectionId, Role, Security, TlsIdentity};
use std::sync::Arc;

pub(crate) fn connection() -> Connection {
    let key = Identity::generate().expect("a key");
    let tls = TlsIdentity::new(key.rustls_certified_key(), Arc::new(|_: &[u8]| true));
    let config = Config::new(Security::Tls(tls.expect("an identity")));
    let to = ([127, 0, 0, 1], 1).into();
    let (role, id) = (Role::Client, ConnectionId(1));
    Connection::new(Time::ZERO, role, config, id, to, 1).expect("TLS begins")
}
