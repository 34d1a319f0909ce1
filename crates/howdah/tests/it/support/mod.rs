//! What tests of servers share.

#[allow(dead_code, reason = "not all of them have such clients")]
pub(crate) mod idle;

use howdah::{Identity, Log, Server, ServerConfig};
use std::net::Ipv4Addr;
use std::path::Path;

/// A server of `dir` on any port, with the key `theirs`, for the holders of `keys`.
pub(crate) fn server(dir: &Path, keys: &[&Identity], theirs: Identity, log: Log) -> Server {
    let authorized = keys.iter().map(|key| *key.public_key());
    let listen = (Ipv4Addr::LOCALHOST, 0).into();
    let mut config = ServerConfig::new(dir, listen, theirs, authorized.collect());
    config.log = log;
    Server::bind(config).expect("a server")
}
