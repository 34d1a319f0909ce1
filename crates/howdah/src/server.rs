//! Answers copies on one UDP port.

use crate::access::Authority;
use crate::error::from_store;
use crate::keys::PublicKey;
use crate::listed::{Listed, Reread};
use crate::session::places::Bounds;
use crate::{AuthorizedKeys, Cancel, Error, ErrorKind, Identity, Log};
use howdah_audit::{AuditFile, AuditLog};
use howdah_core::{Rate, Span};
use howdah_net::{Clock, Endpoint, EndpointConfig, LOOPS_MAX, Lanes, TunnelListener, TurnCounts};
use howdah_proto::KnockKey;
use howdah_proto::{Config, Security, TlsIdentity};
use howdah_store::{Root, threads};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

mod company;
mod control;
mod entry;
mod expiry;
mod happening;
mod known_paths;
mod lanes;
#[cfg(test)]
mod lanes_tests;
mod lobby;
mod loops;
mod service;
mod session;
#[cfg(test)]
mod several_tests;
mod share;
mod shares;
mod steering;
mod strangers;
mod talk;

pub use control::{ServerControl, SessionStatus};
pub use happening::{ServerEvent, ServerRefusal, SessionMoved};
use lobby::Lobby;
use loops::Hearing;
use service::Stay;
use strangers::Strangers;

/// Sockets of a server that a service manager has bound.
#[derive(Debug)]
pub struct Inherited {
    /// For UDP.
    pub udp: UdpSocket,
    /// For clients whose networks let no UDP through.
    pub tcp: Option<TcpListener>,
}

/// Settings of a server.
#[derive(Debug)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Directory that clients may read and write below.
    pub root: PathBuf,
    /// Address and UDP port.
    pub listen: SocketAddr,
    /// The key that this server shows.
    pub identity: Identity,
    /// The clients that may come in.
    pub authorized: AuthorizedKeys,
    /// The file of that list, to be read again when it changes.
    pub reread: Option<Reread>,
    /// Files of the server's own: that list, its private key, its audit log. A key with limits
    /// is refused at a root that has one of them: whoever may write there could let anybody in, and whoever may read there could be the server.
    pub own_files: Vec<PathBuf>,
    /// Sockets that somebody else has bound: `listen` is not used then.
    pub inherited: Option<Inherited>,
    /// Loops that move the data, each on a thread and a socket of its own, 1 to 8; each session is on one of them. `None`: one for
    /// each core, and one where the port can have no further sockets.
    pub loops: Option<usize>,
    /// Further sockets of the port of those that are `inherited` ([`Inherited::beside`]): for whoever gives up rights in between.
    pub beside: Vec<UdpSocket>,
    /// What all sessions may move together, in each direction.
    pub max_rate: Option<Rate>,
    /// Bytes of memory that each tree may take if its client asks for more than usual.
    pub memory: Option<u64>,
    /// Hears about connections and transfers.
    pub log: Log,
    /// Is told, line by line, what was done for whom.
    pub audit: Option<AuditFile>,
    /// Sees its sessions, and ends them.
    pub control: ServerControl,
}

impl ServerConfig {
    /// A server of `root` at `listen` (port 0: any), for the keys in `authorized`, and without a limit or a log.
    pub fn new(
        root: impl Into<PathBuf>,
        listen: SocketAddr,
        identity: Identity,
        authorized: AuthorizedKeys,
    ) -> Self {
        Self {
            root: root.into(),
            listen,
            identity,
            authorized,
            reread: None,
            own_files: Vec::new(),
            inherited: None,
            loops: None,
            beside: Vec::new(),
            max_rate: None,
            memory: None,
            log: Log::default(),
            audit: None,
            control: ServerControl::new(),
        }
    }
}

/// The key that receipts are signed with.
#[derive(Clone, Debug)]
pub(crate) struct Signing {
    pub(crate) key: Identity,
    /// Clients prove with their own keys who they are, and not with one that was made for the session.
    pub(crate) knows_clients: bool,
}

/// A bound server.
pub struct Server {
    endpoint: Endpoint,
    /// The other loops of its port.
    others: Vec<Endpoint>,
    door: Option<TunnelListener>,
    authority: Arc<dyn Authority>,
    strangers: Strangers,
    signing: Option<Signing>,
    control: ServerControl,
    max_rate: Option<Rate>,
    keep_unfinished: Option<Duration>,
    bounds: Bounds,
    lobby: Lobby,
    /// What hears the network is to open nothing; called on its thread when that is so.
    opens_nothing: Option<fn()>,
    log: Log,
    audit: Option<Arc<AuditLog>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

/// How often a server looks whether it shall stop.
const LOOK_EVERY: Span = Span::from_millis(100);

impl Inherited {
    /// The sockets of a server that is to be made: for whoever gives up rights in between.
    pub fn bind(listen: SocketAddr, log: &Log) -> Result<Self, Error> {
        let (udp, tcp) = bind(listen, log)?;
        Ok(Self { udp, tcp })
    }

    /// Further sockets of the UDP port, for a server of so many [loops](ServerConfig::loops). None where this system makes none,
    /// as for a port that another user has opened.
    #[must_use]
    pub fn beside(&self, loops: Option<usize>) -> Vec<UdpSocket> {
        let loops = loops.unwrap_or_else(howdah_net::usual_loops);
        howdah_net::share(&self.udp, loops).unwrap_or_default()
    }
}

impl Server {
    /// Opens the root and the socket.
    pub fn bind(config: ServerConfig) -> Result<Self, Error> {
        // Whatever becomes of the directory this process stands in.
        let root = std::path::absolute(&config.root)
            .map_err(|e| Error::new(ErrorKind::Usage, format!("the root: {e}")))?;
        Root::open(&root).map_err(|e| from_store(&e))?;
        let (log, control, max_rate) = (config.log.clone(), config.control, config.max_rate);
        let audit = config.audit.map(|file| {
            let log = log.clone();
            file.begin(move |level, line| log.at(level, line))
        });
        let audit = audit
            .transpose()
            .map_err(|e| Error::new(ErrorKind::Io, format!("no thread for the audit log: {e}")))?;
        let listed = Listed::new(root, config.authorized, config.reread, log);
        let listed = listed.keeping(&config.own_files);
        listed.warn_of_roots();
        let authority = Arc::new(listed.with_memory(config.memory));
        let (Inherited { udp, tcp }, beside) = if let Some(sockets) = config.inherited {
            (sockets, config.beside)
        } else {
            let sockets = Inherited::bind(config.listen, &config.log)?;
            let beside = sockets.beside(config.loops);
            (sockets, beside)
        };
        let loops = config.loops.unwrap_or(1 + beside.len());
        let server = Self::on(udp, tcp, &config.identity, authority, config.log, control)?;
        let signing = Signing {
            key: config.identity,
            knows_clients: true,
        };
        Ok(Self {
            max_rate,
            audit: audit.map(Arc::new),
            signing: Some(signing),
            ..server
        }
        .spread(beside, loops))
    }

    /// Has so many loops, with these sockets beside its own.
    fn spread(mut self, sockets: Vec<UdpSocket>, loops: usize) -> Self {
        let loops = loops.clamp(1, LOOPS_MAX);
        match self.endpoint.further(sockets, loops) {
            Ok(others) => self.others = others,
            Err(error) => self.log.line(&format!(
                "one thread moves all data instead of {loops}: this system gives no more descriptors ({error})"
            )),
        }
        self
    }

    /// Serves those whom `authority` admits, on a socket that is bound, and through tunnels that come to
    /// `listener`.
    pub(crate) fn on(
        socket: UdpSocket,
        listener: Option<TcpListener>,
        identity: &Identity,
        authority: Arc<dyn Authority>,
        log: Log,
        control: ServerControl,
    ) -> Result<Self, Error> {
        let judge = Arc::clone(&authority);
        let strangers = Strangers::new(log.clone());
        let told = strangers.clone();
        let counted = control.clone();
        let check = Arc::new(move |spki: &[u8]| {
            let Some(key) = PublicKey::from_spki_der(spki) else {
                return false;
            };
            let admitted = judge.admits(&key);
            if !admitted {
                counted.tell(ServerEvent::Refused(ServerRefusal::Key));
                told.line(&format!(
                    "refused a key that is not listed: {}",
                    key.fingerprint()
                ));
            }
            admitted
        });
        let tls = TlsIdentity::new(identity.rustls_certified_key(), check)
            .map_err(|e| Error::new(ErrorKind::Usage, e.to_string()))?;
        let mut protocol = Config::new(Security::Tls(tls));
        protocol.knock = Some(KnockKey::of(identity.public_key().spki_der()));
        let config = EndpointConfig {
            protocol,
            accept: true,
        };
        let endpoint = Endpoint::new(socket, config, Clock::new())
            .map_err(|e| Error::new(ErrorKind::Io, format!("cannot set up the socket: {e}")))?;
        let door = listener.map(|listener| TunnelListener::open(listener, endpoint.lanes()));
        let door = door
            .transpose()
            .map_err(|e| Error::new(ErrorKind::Io, format!("cannot listen on TCP: {e}")))?;
        Ok(Self {
            endpoint,
            others: Vec::new(),
            door,
            authority,
            strangers,
            signing: None,
            control,
            max_rate: None,
            keep_unfinished: None,
            bounds: Bounds::of_system(),
            lobby: Lobby::default(),
            opens_nothing: None,
            log,
            audit: None,
        })
    }

    /// The thread that hears the network can open no file and no socket, nor ask for names of files; those that work for it
    /// can (Linux). `begun` is called there once that is so. It takes a thread more.
    #[must_use]
    pub fn opening_nothing(mut self, begun: fn()) -> Self {
        self.opens_nothing = Some(begun);
        self
    }

    /// Unfinished files that nobody has gone on with for that long are removed, below all roots, each day.
    #[must_use]
    pub fn keeping_unfinished(mut self, time: Duration) -> Self {
        self.keep_unfinished = Some(time);
        self
    }

    /// So much may be under way of all and of one key, a single file each, or a fourth of a tree. Not part of the stable interface.
    #[doc(hidden)]
    #[must_use]
    pub fn with_places(mut self, all: u32, of_key: u32) -> Self {
        self.bounds = Bounds { all, of_key };
        self
    }

    /// Sessions of one key, and of all, hold so many bytes besides. Not part of the stable interface.
    #[doc(hidden)]
    #[must_use]
    pub fn with_held(mut self, of_key: u64, of_all: u64) -> Self {
        self.lobby = Lobby::of(of_key, of_all);
        self
    }

    /// Keeps so many connections. Not part of the stable interface.
    #[doc(hidden)]
    #[must_use]
    pub fn with_connections(mut self, most: usize) -> Self {
        self.endpoint.keep_at_most(most);
        self
    }

    /// Signs receipts.
    #[must_use]
    pub(crate) fn signing(mut self, signing: Option<Signing>) -> Self {
        self.signing = signing;
        self
    }

    /// The address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.endpoint.local_addr()
    }

    /// Counts from now on whose sessions had their turns when they wanted them. Not part of the stable interface.
    #[doc(hidden)]
    pub fn count_turns(&mut self) -> TurnCounts {
        let counts = self.endpoint.count_turns();
        for other in &mut self.others {
            other.count_turns_into(&counts);
        }
        counts
    }

    /// Loops that move its data.
    #[must_use]
    pub fn loops(&self) -> usize {
        1 + self.others.len()
    }

    /// By which tunnels reach it.
    pub(crate) fn lanes(&self) -> Lanes {
        self.endpoint.lanes().clone()
    }

    /// What the host does not grant, in plain words.
    pub fn advice(&self) -> Option<String> {
        self.endpoint.socket_report()?.advice()
    }

    /// Serves until cancelled.
    pub fn run(self, cancel: &Cancel) -> Result<(), Error> {
        self.serve(cancel, Stay::ForEver)
    }

    /// Serves until cancelled, or for one session that begins within `patience`. Whether there was one.
    pub(crate) fn run_once(self, cancel: &Cancel, patience: Span) -> Result<(), Error> {
        self.serve(cancel, Stay::ForOne { patience })
    }

    fn serve(mut self, cancel: &Cancel, stay: Stay) -> Result<(), Error> {
        let threads = self.threads();
        let Some(begun) = self.opens_nothing else {
            return self.hear(cancel, stay, threads, &Hearing::default());
        };
        // It opens what it looks at the first time.
        let _ = howdah_net::usage();
        let (orders, starter) = threads::starter();
        let waiting = Mutex::new(Some((self, threads, orders)));
        let take = || {
            let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.take()
        };
        let heard = std::thread::scope(|scope| {
            let hear = || {
                let (server, threads, orders) = take()?;
                let hearing = Hearing::opening_nothing(orders, begun, server.log.clone());
                let _ordering = hearing.begin();
                Some(server.hear(cancel, stay, threads, &hearing))
            };
            let thread = std::thread::Builder::new().name("howdah-net".to_owned());
            let thread = thread.spawn_scoped(scope, hear).ok()?;
            // What works for it is started here, where nothing more is kept from it than from all.
            starter.run();
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        });
        match (heard, take()) {
            (Some(result), _) => result,
            (None, Some((mut server, ..))) => {
                server.log.line(
                    "no further thread is to be had: the one that hears the network opens files as well",
                );
                server.be_alone();
                server.hear(cancel, stay, Vec::new(), &Hearing::default())
            }
            (None, None) => Ok(()),
        }
    }
}

/// Looks after lists that change, on a thread that may wait for their disk, until what it returns is dropped.
fn watch_lists(authority: &Arc<dyn Authority>) -> std::io::Result<Sender<()>> {
    let (stop, stopped) = channel();
    let authority = Arc::clone(authority);
    let watch = move || {
        while stopped.recv_timeout(LOOK_EVERY.into()) == Err(RecvTimeoutError::Timeout) {
            authority.refresh();
        }
    };
    threads::start("howdah-lists", watch)?;
    Ok(stop)
}

/// Whether that is how a kernel without IPv6, or one in which it is turned off, refuses a socket.
fn has_no_ipv6(error: &std::io::Error) -> bool {
    use std::io::ErrorKind as Io;
    // EAFNOSUPPORT has no kind of its own.
    error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
        || error.kind() == Io::AddrNotAvailable
}

/// A UDP socket and, if it can be had, a TCP socket of the same number.
fn bind(address: SocketAddr, log: &Log) -> Result<(UdpSocket, Option<TcpListener>), Error> {
    /// Any port will do, but one that is free for both.
    const TRIES: usize = 16;
    let trouble = |address: &SocketAddr, e: &std::io::Error| {
        let text = format!("cannot listen on {address}: {e}; choose another with --listen");
        Error::new(ErrorKind::Io, text)
    };
    let mut tries = if address.port() == 0 { TRIES } else { 1 };
    let mut address = address;
    loop {
        let socket = match howdah_net::bind(address) {
            Err(e) if address.ip() == Ipv6Addr::UNSPECIFIED && has_no_ipv6(&e) => {
                let instead = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
                log.line(&format!(
                    "this machine has no IPv6 ({e}): listening on {instead} only"
                ));
                address = instead;
                howdah_net::bind(address).map_err(|e| trouble(&address, &e))?
            }
            result => result.map_err(|e| trouble(&address, &e))?,
        };
        let bound = socket.local_addr().map_err(|e| trouble(&address, &e))?;
        tries -= 1;
        match howdah_net::listen(bound) {
            Ok(listener) => return Ok((socket, Some(listener))),
            Err(e) if tries == 0 => {
                log.line(&format!(
                    "cannot listen on TCP {bound} ({e}): clients whose networks let no UDP through will \
                     not get in"
                ));
                return Ok((socket, None));
            }
            Err(_) => {}
        }
    }
}
