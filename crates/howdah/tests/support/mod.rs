//! What tests of servers share.

use howdah::{AuthorizedKeys, Identity, Log, Server, ServerConfig, ServerControl};
use std::net::Ipv4Addr;
use std::path::Path;

/// A server of `dir` on any port, with the key `theirs`, for the holders of `keys`.
pub(crate) fn server(dir: &Path, keys: &[&Identity], theirs: Identity, log: Log) -> Server {
    let authorized = keys.iter().map(|key| *key.public_key());
    Server::bind(ServerConfig {
        root: dir.to_owned(),
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        authorized: authorized.collect::<AuthorizedKeys>(),
        identity: theirs,
        reread: None,
        inherited: None,
        control: ServerControl::new(),
        max_rate: None,
        memory: None,
        log,
    })
    .expect("a server")
}
