//! One copy between two locations.

use crate::client::{Client, Task};
use crate::{Cancel, Error, ErrorKind, Identity, KnownHosts, Location, Progress, Summary, Trust};
use howdah_core::{Rate, Span};
use howdah_net::{Clock, Endpoint, EndpointConfig};
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
        }
    }
}

/// Copies `source` to `destination`; exactly one of them must be remote.
///
/// `on_progress` is called about ten times a second on the calling thread.
pub fn copy(
    source: &Location,
    destination: &Location,
    config: &CopyConfig,
    cancel: &Cancel,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, Error> {
    let (task, host, port) = plan(source, destination)?;
    let io = |what: &str, e: &std::io::Error| Error::new(ErrorKind::Io, format!("{what}: {e}"));
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
    let remote = resolve(&host, port)?;
    let any: SocketAddr = if remote.is_ipv4() {
        (Ipv4Addr::UNSPECIFIED, 0).into()
    } else {
        (Ipv6Addr::UNSPECIFIED, 0).into()
    };
    let socket = howdah_net::bind(any).map_err(|e| io("cannot open a UDP socket", &e))?;
    let clock = Clock::new();
    let mut endpoint = Endpoint::new(
        socket,
        EndpointConfig {
            protocol,
            accept: false,
        },
        clock,
    )
    .map_err(|e| io("cannot set up the UDP socket", &e))?;
    endpoint.connect(remote).map_err(|e| {
        Error::new(
            ErrorKind::Network,
            format!("cannot reach {host} ({remote}): {e}"),
        )
    })?;
    let waker = endpoint.waker();
    let now = clock.now();
    let mut client = Client::new(task, config, cancel, on_progress, (host, port), waker, now);
    endpoint
        .run(&mut client)
        .map_err(|e| io("the UDP socket failed", &e))?;
    client.into_result()
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

fn resolve(host: &str, port: u16) -> Result<SocketAddr, Error> {
    let error = |why: String| {
        Error::new(
            ErrorKind::Network,
            format!("cannot find the host {host:?}: {why}"),
        )
    };
    (host, port)
        .to_socket_addrs()
        .map_err(|e| error(e.to_string()))?
        .next()
        .ok_or_else(|| error("it has no address".to_owned()))
}
