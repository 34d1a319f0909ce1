//! One task with another machine: it is found, reached, and asked.

use crate::client::Client;
use crate::inside::Outside;
use crate::reach::{Line, reach};
use crate::sandbox::{Sandbox, names};
use crate::ssh::{FarEnd, Within};
use crate::task::Task;
use crate::{
    Cancel, CopyConfig, Error, ErrorKind, Identity, Location, PathBytes, Progress, RatePolicy,
    SshTarget, Summary, Trust,
};
use howdah_core::Time;
use howdah_net::Clock;
use howdah_proto::KnockKey;
use howdah_proto::{Config, Policy, Security, TlsIdentity};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;

/// Addresses of a host that are tried.
const ADDRESSES_MAX: usize = 8;

/// Does a task with another machine.
pub(crate) fn run(
    task: Task,
    remote: Remote,
    config: &CopyConfig,
    cancel: &Cancel,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, Error> {
    let clock = Clock::new();
    let started = clock.now();
    let sandbox = config.confined.then(|| around(&task));
    let mut run = |task, host: &str, line: &Line<'_>, config: &CopyConfig| {
        let session = Session {
            sandbox: sandbox.as_ref(),
            host,
            line,
            config,
            cancel,
            clock,
            started,
        };
        session.run(task, on_progress)
    };
    let result = match remote {
        Remote::Server { host, port } => {
            let addresses = resolve(&host, port)?;
            let line = Line {
                port,
                addresses,
                far_end: None,
            };
            run(task, &host, &line, config)
        }
        Remote::Ssh(target) => {
            // For this one session: neither a key of the user's nor a record of servers is needed.
            let identity = Identity::generate()?;
            let key = identity.public_key();
            let within = Within::of(&task);
            let far_end = FarEnd::start(config, &target, (key, within), cancel)?;
            let mut config = config.clone();
            config.trust = Trust::Exactly(far_end.key());
            config.identity = identity;
            let line = Line {
                port: far_end.port(),
                addresses: far_end.addresses(),
                far_end: Some(&far_end),
            };
            match run(task, target.host(), &line, &config) {
                Ok(summary) => {
                    far_end.leave();
                    Ok(summary)
                }
                Err(error) => Err(far_end.explain(error)),
            }
        }
    };
    // The terminal's signal ends ssh as well, which must not look like a failure of the network.
    result.map_err(|error| match error.kind() {
        ErrorKind::Network if cancel.is_cancelled() => {
            Error::new(ErrorKind::Cancelled, "interrupted")
        }
        _ => error,
    })
}

/// What this side of a task needs.
fn around(task: &Task) -> Sandbox {
    leaving(&Within::here(task), task.asks_for_names())
}

/// The sandbox with these places; `names`: users and groups may be asked for inside.
pub(crate) fn leaving(within: &Within, names: bool) -> Sandbox {
    if names {
        // Without it they have numbers only.
        let _ = names::ask_a_thread();
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    within.sandbox(&home.unwrap_or_else(|| "/".into()))
}

/// A copy whose other end is known.
pub(crate) struct Session<'a> {
    /// In which it is, if this process is not in one.
    pub(crate) sandbox: Option<&'a Sandbox>,
    /// How the user calls it.
    pub(crate) host: &'a str,
    pub(crate) line: &'a Line<'a>,
    pub(crate) config: &'a CopyConfig,
    pub(crate) cancel: &'a Cancel,
    pub(crate) clock: Clock,
    pub(crate) started: Time,
}

impl Session<'_> {
    pub(crate) fn run(
        &self,
        task: Task,
        on_progress: &mut dyn FnMut(&Progress),
    ) -> Result<Summary, Error> {
        task.check_paths()?;
        let (config, cancel) = (self.config, self.cancel);
        let peer = (self.host.to_owned(), self.line.port);
        let mut outside = Outside::new(config, peer.clone(), on_progress);
        let teller = outside.teller();
        let mut client = Client::new(task, config, cancel, teller, peer, self.started);
        let mut protocol = protocol(config)?;
        let expected = match &config.trust {
            Trust::Exactly(key) => Some(*key),
            _ => config.known_hosts.expected(self.host, self.line.port),
        };
        protocol.knock = expected.map(|key| KnockKey::of(key.spki_der()));
        reach(
            self.line,
            &protocol,
            self.clock,
            (config, cancel),
            &mut client,
            (&mut outside, self.sandbox),
        )?;
        let result = client.into_result();
        outside.end();
        result
    }
}

fn protocol(config: &CopyConfig) -> Result<Config, Error> {
    let trust = config.trust.clone();
    let check = Arc::new(move |spki: &[u8]| match &trust {
        // Others are judged after the handshake: it may take a person.
        Trust::Exactly(key) => key.spki_der() == spki,
        _ => true,
    });
    let tls = TlsIdentity::new(config.identity.rustls_certified_key(), check)
        .map_err(|e| Error::new(ErrorKind::Usage, e.to_string()))?;
    let mut protocol = Config::new(Security::Tls(tls));
    protocol.idle_timeout = config.idle_timeout;
    protocol.policy = match config.policy {
        RatePolicy::Fair => Policy::Fair,
        RatePolicy::Fixed(rate) => Policy::Fixed(rate),
        RatePolicy::Background => Policy::Background,
    };
    protocol.share = config.share;
    Ok(protocol)
}

/// The other machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Remote {
    Server { host: String, port: u16 },
    Ssh(SshTarget),
}

impl Remote {
    /// Which machine a location is on, and its path there; `None`: this one.
    pub(crate) fn of(location: &Location) -> Option<(Self, PathBytes)> {
        match location {
            Location::Remote { host, port, path } => {
                let (host, port) = (host.clone(), *port);
                Some((Self::Server { host, port }, path.clone()))
            }
            Location::Ssh(there) => Some((Self::Ssh(there.target.clone()), there.path.clone())),
            _ => None,
        }
    }
}

/// The addresses of a host in the order in which they are tried: the resolver's first, then the
/// families in turn (RFC 8305 section 4), since it is often a whole family that does not work.
fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, Error> {
    let error = |why: String| {
        Error::new(
            ErrorKind::Network,
            format!("cannot find the host {host:?}: {why}"),
        )
    };
    let found = (host, port)
        .to_socket_addrs()
        .map_err(|e| error(e.to_string()))?;
    let addresses = in_turn(found);
    if addresses.is_empty() {
        return Err(error("it has no address".to_owned()));
    }
    if addresses.iter().all(lacks_link) {
        let text = format!(
            "{host} is an address of a single link: say which, as in [{host}%eth0]; 'ip -6 address' lists this machine's"
        );
        return Err(Error::new(ErrorKind::Usage, text));
    }
    Ok(addresses)
}

/// Whether each interface may have a host of that address, and none is named.
fn lacks_link(address: &SocketAddr) -> bool {
    match address {
        SocketAddr::V4(_) => false,
        SocketAddr::V6(v6) => v6.ip().is_unicast_link_local() && v6.scope_id() == 0,
    }
}

fn in_turn(found: impl IntoIterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut waiting = Vec::new();
    for address in found {
        if !waiting.contains(&address) {
            waiting.push(address);
        }
    }
    let mut addresses: Vec<SocketAddr> = Vec::new();
    while !waiting.is_empty() && addresses.len() < ADDRESSES_MAX {
        let other_family = |address: &SocketAddr| {
            addresses
                .last()
                .is_none_or(|last| last.is_ipv4() != address.is_ipv4())
        };
        let next = waiting.iter().position(other_family).unwrap_or(0);
        addresses.push(waiting.remove(next));
    }
    addresses
}

#[cfg(test)]
mod tests;
