//! One copy between two locations.

use crate::client::{Client, Task};
use crate::inside::Outside;
use crate::paths::PathMemory;
use crate::reach::{Line, Transport, reach};
use crate::reconnect::{What, lasting};
use crate::sandbox::{Sandbox, names};
use crate::ssh::{FarEnd, Order, SshConfig, Within, copy_between};
use crate::{
    Cancel, ChangeLog, Error, ErrorKind, FileLog, FlightRecorder, Identity, KnownHosts, Location,
    Log, Manifest, PathBytes, Progress, SshTarget, Summary, Throttle, Trust,
};
use howdah_core::{Rate, Span, Time};
use howdah_net::Clock;
use howdah_proto::codec::KnockKey;
use howdah_proto::{Config, Policy, Security, Share, TlsIdentity};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
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
#[non_exhaustive]
pub struct CopyConfig {
    /// The key that this side shows to the server.
    pub identity: Identity,
    /// The servers' keys that this side knows.
    pub known_hosts: KnownHosts,
    /// What to do with a server that is not among them.
    pub trust: Trust,
    /// How to share the path.
    pub policy: RatePolicy,
    /// With [`RatePolicy::Fair`]: the copy is one of so many, a stripe's, that count as one flow to others.
    pub share: Share,
    /// An upper bound to the rate, and a pause, that may change while the copy runs.
    pub throttle: Throttle,
    /// The peer counts as lost after this long without a sign of life.
    pub idle_timeout: Span,
    /// Stop sending and finish after this long (for measurements with `zero:`).
    pub duration_limit: Option<Span>,
    /// Hears what a person should know although the copy goes on: a line for each thing.
    pub warn: Log,
    /// Hears what goes well and is worth a line all the same: a copy is gone on with, a connection is back.
    pub note: Log,
    /// Hears what ssh and the other end of a copy over it say.
    pub heard: Log,
    /// What carries the data.
    pub transport: Transport,
    /// Hears what a dry run would do with each name, and why; not of copies between two other machines.
    pub changes: ChangeLog,
    /// Hears of each file of a tree that is in place; not of copies between two other machines.
    pub files: FileLog,
    /// The list that all files of a tree go into; not of copies between two other machines. Whoever asks for it writes it at the end.
    pub manifest: Option<Manifest>,
    /// The summary of a tree has [one hash](crate::TreeReport::blake3) of all files that were moved; not of copies between two other machines.
    pub sums: bool,
    /// How machines are reached over ssh.
    pub ssh: SshConfig,
    /// Go on with what an interrupted copy has left, if the source is still the same. Otherwise it
    /// is removed.
    pub resume: bool,
    /// When a file is complete, read it back from the device and compare once more.
    pub reread: bool,
    /// Space on a full destination is waited for that long, each time; zero: it is an error at once.
    pub wait_for_space: Span,
    /// A connection that is lost is made again until nothing has come for that long, and the copy goes on where it was; zero: it
    /// is an error at once. Not of pipes and of `zero:` and `null:`.
    pub reconnect: Span,
    /// The source may grow while it is read: what stood there when reading began is copied, and that is said. A tree has
    /// its own [option](howdah_session::TreeOptions::growing).
    pub growing: bool,
    /// What is remembered of paths, so that sending begins where the last transfer was, and where it is kept.
    pub paths: Option<PathMemory>,
    /// The threads that hear the network, and those that read and write files for it, are in a [sandbox](crate::sandbox) with
    /// nothing but the places that are copied from or to. The calling thread is not.
    pub confined: bool,
    /// Keeps what the path does; not of copies between two other machines.
    pub flight: Option<FlightRecorder>,
    /// Called there, by each connection's thread.
    pub ready: fn(),
}

impl CopyConfig {
    /// The defaults: fair sharing, 8 s of patience, and no server that is not known already.
    pub fn new(identity: Identity, known_hosts: KnownHosts) -> Self {
        Self {
            identity,
            known_hosts,
            trust: Trust::Strict,
            policy: RatePolicy::Fair,
            share: Share::WHOLE,
            throttle: Throttle::new(),
            idle_timeout: Span::from_secs(8),
            duration_limit: None,
            warn: Log::default(),
            note: Log::default(),
            heard: Log::default(),
            transport: Transport::Auto,
            changes: ChangeLog::default(),
            files: FileLog::default(),
            manifest: None,
            sums: false,
            ssh: SshConfig::default(),
            resume: true,
            reread: false,
            wait_for_space: Span::ZERO,
            reconnect: Span::ZERO,
            growing: false,
            paths: None,
            confined: false,
            flight: None,
            ready: || (),
        }
    }

    /// With one connection only.
    pub(crate) fn once(&self) -> Self {
        Self {
            reconnect: Span::ZERO,
            ..self.clone()
        }
    }
}

/// Addresses of a host that are tried.
const ADDRESSES_MAX: usize = 8;

/// Copies `source` to `destination`; one of them must be remote, and both may be machines that ssh
/// reaches: then the data flows from one to the other directly.
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
    if !can_go_on(source) || !can_go_on(destination) {
        return copy_once(source, destination, (&config.once(), cancel), on_progress);
    }
    let mut attempt = |config: &CopyConfig, on_progress: &mut dyn FnMut(&Progress)| {
        copy_once(source, destination, (config, cancel), on_progress)
    };
    lasting(What::File, (config, cancel), on_progress, &mut attempt)
}

/// Whether a second connection could go on where the first one ended.
fn can_go_on(place: &Location) -> bool {
    let path = match place {
        Location::File(_) => return true,
        Location::Stdio | Location::Zero(_) | Location::Null => return false,
        Location::Remote { path, .. } => path,
        Location::Ssh(place) => &place.path,
    };
    let made_up = Location::try_from(path.as_path().as_os_str());
    !matches!(made_up, Ok(Location::Zero(_) | Location::Null))
}

/// With one connection.
fn copy_once(
    source: &Location,
    destination: &Location,
    (config, cancel): (&CopyConfig, &Cancel),
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, Error> {
    if let (Location::Ssh(from), Location::Ssh(to)) = (source, destination) {
        let order = Order {
            from: &from.target,
            sources: vec![from.path.clone()],
            to,
            tree: None,
        };
        return copy_between(order, config, cancel, on_progress);
    }
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
                "both sides are remote, which works only if ssh reaches both (HOST:path); copy to this machine \
                 first, or start the copy on one of them"
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
