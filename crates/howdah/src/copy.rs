//! One copy between two locations.

use crate::client::{Client, Task};
use crate::{
    Cancel, Error, ErrorKind, Identity, KnownHosts, Location, Log, Progress, Summary, Trust,
};
use howdah_core::{Rate, Span};
use howdah_net::{Clock, Endpoint, EndpointConfig};
use howdah_proto::error::ConnectionError;
use howdah_proto::{Config, Policy, Security, TlsIdentity};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

/// How the sender shares the path.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RatePolicy {
    /// Fills the path and gives way when its queue grows.
    #[default]
    Fair,
    /// That rate, for a dedicated circuit.
    Fixed(Rate),
}

/// Settings of a copy. What [`CopyConfig::new`] chooses fits every path.
#[derive(Clone, Debug)]
pub struct CopyConfig {
    /// The key that this side shows to the server.
    pub identity: Identity,
    /// The servers' keys that this side knows.
    pub known_hosts: KnownHosts,
    /// What to do with a server that is not among them.
    pub trust: Trust,
    /// How to share the path.
    pub policy: RatePolicy,
    /// The peer counts as lost after this long without a sign of life.
    pub idle_timeout: Span,
    /// Stop sending and finish after this long (for measurements with `zero:`).
    pub duration_limit: Option<Span>,
    /// Hears what a person should know although the copy goes on: a line for each thing.
    pub warn: Log,
}

impl CopyConfig {
    /// The defaults: fair sharing, 8 s of patience, and no server that is not known already.
    pub fn new(identity: Identity, known_hosts: KnownHosts) -> Self {
        Self {
            identity,
            known_hosts,
            trust: Trust::Strict,
            policy: RatePolicy::Fair,
            idle_timeout: Span::from_secs(8),
            duration_limit: None,
            warn: Log::default(),
        }
    }
}

/// An address that is not the last one has that long to answer: four flights of the handshake.
const ATTEMPT: Span = Span::from_secs(3);
/// Addresses of a host that are tried.
const ADDRESSES_MAX: usize = 8;

/// Copies `source` to `destination`; exactly one of them must be remote.
///
/// If the host has several addresses, they are tried one after the other until one answers.
/// `on_progress` is called about ten times a second on the calling thread.
pub fn copy(
    source: &Location,
    destination: &Location,
    config: &CopyConfig,
    cancel: &Cancel,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, Error> {
    let (task, host, port) = plan(source, destination)?;
    let tls = TlsIdentity::new(
        config.identity.rustls_certified_key(),
        Arc::new(|_: &[u8]| true),
    )
    .map_err(|e| Error::new(ErrorKind::Usage, e.to_string()))?;
    let mut protocol = Config::new(Security::Tls(tls));
    protocol.idle_timeout = config.idle_timeout;
    protocol.policy = match config.policy {
        RatePolicy::Fair => Policy::Fair,
        RatePolicy::Fixed(rate) => Policy::Fixed(rate),
    };
    let addresses = resolve(&host, port)?;
    let clock = Clock::new();
    let mut client = Client::new(task, config, cancel, on_progress, (host, port), clock.now());
    reach(&addresses, &protocol, clock, &mut client)?;
    client.into_result()
}

/// Runs the client with the first of the addresses that answers.
fn reach(
    addresses: &[SocketAddr],
    protocol: &Config,
    clock: Clock,
    client: &mut Client<'_>,
) -> Result<(), Error> {
    let mut failures = Vec::new();
    for (index, &address) in addresses.iter().enumerate() {
        let mut protocol = protocol.clone();
        if index + 1 < addresses.len() {
            protocol.handshake_timeout = protocol.handshake_timeout.min(ATTEMPT);
        }
        let patience = protocol.handshake_timeout;
        // Each address has a socket of its own: a connected one hears that nobody listens.
        let mut endpoint = match open(address, protocol, clock) {
            Ok(endpoint) => endpoint,
            Err(error) => {
                failures.push(format!("{address} ({error})"));
                continue;
            }
        };
        if let Some(advice) = endpoint.socket_report().advice() {
            client.advise(&advice);
        }
        client.begin_attempt(endpoint.waker());
        endpoint
            .run(client)
            .map_err(|e| Error::new(ErrorKind::Io, format!("the UDP socket failed: {e}")))?;
        match client.unanswered() {
            None => return Ok(()),
            Some(ConnectionError::Unreachable) => {
                failures.push(format!("{address} (nobody listens on that port)"));
            }
            Some(_) => failures.push(format!(
                "{address} (no answer in {} s)",
                patience.as_millis() / 1000
            )),
        }
    }
    if let ([address], Some(_)) = (addresses, client.unanswered())
        && client.peer() == address.to_string()
    {
        // The client's own words say it all.
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Network,
        format!(
            "{} does not answer; tried {}; is 'howdah serve' running there, and does every \
             firewall on the way let UDP through?",
            client.peer(),
            failures.join(", ")
        ),
    ))
}

/// A socket for that address, with a connection on its way.
fn open(address: SocketAddr, protocol: Config, clock: Clock) -> std::io::Result<Endpoint> {
    let any: SocketAddr = if address.is_ipv4() {
        (Ipv4Addr::UNSPECIFIED, 0).into()
    } else {
        (Ipv6Addr::UNSPECIFIED, 0).into()
    };
    let config = EndpointConfig {
        protocol,
        accept: false,
    };
    let mut endpoint = Endpoint::new(howdah_net::bind(any)?, config, clock)?;
    endpoint.connect(address)?;
    Ok(endpoint)
}

/// Which side is remote, and whether the other one makes sense there.
fn plan(source: &Location, destination: &Location) -> Result<(Task, String, u16), Error> {
    let usage = |text: String| Err(Error::new(ErrorKind::Usage, text));
    match (source, destination) {
        (Location::Remote { .. }, Location::Remote { .. }) => usage(
            "both sides are remote; copy to this machine first, or start the copy on one of them"
                .to_owned(),
        ),
        (Location::Null, _) => usage("null: cannot be read; use zero:SIZE as source".to_owned()),
        (_, Location::Zero(_)) => {
            usage("zero: cannot be written; use null: as destination".to_owned())
        }
        (source, Location::Remote { host, port, path }) => {
            let path = path.clone();
            Ok((
                Task::Put {
                    source: source.clone(),
                    path,
                },
                host.clone(),
                *port,
            ))
        }
        (Location::Remote { host, port, path }, destination) => {
            let task = Task::Get {
                path: path.clone(),
                destination: destination.clone(),
            };
            Ok((task, host.clone(), *port))
        }
        (source, destination) => usage(format!(
            "neither {source} nor {destination} is remote; write one as howdah://HOST:PORT/path"
        )),
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
    Ok(addresses)
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
