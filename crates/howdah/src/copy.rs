//! One copy between two locations.

use crate::client::{Client, Task};
use crate::ssh::{FarEnd, SshConfig, Watched};
use crate::{
    Cancel, Error, ErrorKind, Identity, KnownHosts, Location, Log, Progress, SshTarget, Summary,
    Throttle, Trust,
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
    /// Takes what nobody else wants.
    Background,
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
    /// An upper bound to the rate, and a pause, that may change while the copy runs.
    pub throttle: Throttle,
    /// The peer counts as lost after this long without a sign of life.
    pub idle_timeout: Span,
    /// Stop sending and finish after this long (for measurements with `zero:`).
    pub duration_limit: Option<Span>,
    /// Hears what a person should know although the copy goes on: a line for each thing.
    pub warn: Log,
    /// Hears what ssh and the other end of a copy over it say.
    pub heard: Log,
    /// How machines are reached over ssh.
    pub ssh: SshConfig,
    /// Go on with what an interrupted copy has left, if the source is still the same. Otherwise it
    /// is removed.
    pub resume: bool,
    /// When a file is complete, read it back from the device and compare once more.
    pub reread: bool,
}

impl CopyConfig {
    /// The defaults: fair sharing, 8 s of patience, and no server that is not known already.
    pub fn new(identity: Identity, known_hosts: KnownHosts) -> Self {
        Self {
            identity,
            known_hosts,
            trust: Trust::Strict,
            policy: RatePolicy::Fair,
            throttle: Throttle::new(),
            idle_timeout: Span::from_secs(8),
            duration_limit: None,
            warn: Log::default(),
            heard: Log::default(),
            ssh: SshConfig::default(),
            resume: true,
            reread: false,
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
    let (task, remote) = plan(source, destination)?;
    run(task, remote, config, cancel, on_progress)
}

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
    let mut run = |task, line: &Line<'_>, config: &CopyConfig| {
        let peer = (line.host.to_owned(), line.port);
        let mut client = Client::new(task, config, cancel, on_progress, peer, started);
        reach(line, &protocol(config)?, clock, &mut client)?;
        client.into_result()
    };
    let result = match remote {
        Remote::Server { host, port } => {
            let addresses = resolve(&host, port)?;
            let line = Line {
                host: &host,
                port,
                addresses,
                far_end: None,
            };
            run(task, &line, config)
        }
        Remote::Ssh(target) => {
            // For this one session: neither a key of the user's nor a record of servers is needed.
            let identity = Identity::generate()?;
            let key = identity.public_key();
            let far_end = FarEnd::start(&config.ssh, &target, key, cancel, &config.heard)?;
            let mut config = config.clone();
            config.trust = Trust::Exactly(far_end.key());
            config.identity = identity;
            let line = Line {
                host: target.host(),
                port: far_end.port(),
                addresses: far_end.addresses(),
                far_end: Some(&far_end),
            };
            run(task, &line, &config).map_err(|error| far_end.explain(error))
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
    Ok(protocol)
}

/// How the other end is reached.
struct Line<'a> {
    host: &'a str,
    port: u16,
    addresses: Vec<SocketAddr>,
    /// If this copy started it.
    far_end: Option<&'a FarEnd>,
}

/// Runs the client with the first of the addresses that answers.
fn reach(
    line: &Line<'_>,
    protocol: &Config,
    clock: Clock,
    client: &mut Client<'_>,
) -> Result<(), Error> {
    let addresses = &line.addresses[..];
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
        let run = match line.far_end {
            None => endpoint.run(client),
            Some(far_end) => endpoint.run(&mut Watched::new(client, far_end)),
        };
        run.map_err(|e| Error::new(ErrorKind::Io, format!("the UDP socket failed: {e}")))?;
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
    if let ([address], Some(_), None) = (addresses, client.unanswered(), line.far_end)
        && client.peer() == address.to_string()
    {
        // The client's own words say it all.
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Network,
        format!(
            "{} does not answer; tried {}; {}does every firewall on the way let UDP through?",
            client.peer(),
            failures.join(", "),
            if line.far_end.is_none() {
                "is 'howdah serve' running there, and "
            } else {
                ""
            }
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

/// The other machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Remote {
    Server { host: String, port: u16 },
    Ssh(SshTarget),
}

impl Remote {
    /// Which machine a location is on, and its path there; `None`: this one.
    pub(crate) fn of(location: &Location) -> Option<(Self, String)> {
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

/// Which side is remote, and whether the other one makes sense there.
fn plan(source: &Location, destination: &Location) -> Result<(Task, Remote), Error> {
    let usage = |text: String| Err(Error::new(ErrorKind::Usage, text));
    match (source, destination) {
        (Location::Null, _) => usage("null: cannot be read; use zero:SIZE as source".to_owned()),
        (_, Location::Zero(_)) => {
            usage("zero: cannot be written; use null: as destination".to_owned())
        }
        (source, destination) => match (Remote::of(source), Remote::of(destination)) {
            (Some(_), Some(_)) => usage(
                "both sides are remote; copy to this machine first, or start the copy on one of them"
                    .to_owned(),
            ),
            (None, Some((there, path))) => {
                let source = source.clone();
                Ok((Task::Put { source, path }, there))
            }
            (Some((there, path)), None) => {
                let destination = destination.clone();
                Ok((Task::Get { path, destination }, there))
            }
            (None, None) => usage(format!(
                "neither {source} nor {destination} is remote; write one as HOST:path or \
                 howdah://HOST:PORT/path"
            )),
        },
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
