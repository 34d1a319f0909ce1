//! The daemon from its beginning to its end.

use super::gate::OverTcp;
use super::{Gate, Shared, all_events, audit, router, watch_job};
use crate::bounds::Bounds;
use crate::follower::Follower;
use crate::listen;
use crate::manager::Manager;
use crate::metrics::Metrics;
use crate::notices;
use crate::order::Message;
use crate::pacer::{Pace, Pacer};
use crate::position::Position;
use crate::state::{Reader, Store};
use crate::time::now_ms;
use crate::tls::{self, Fingerprint, Shown};
use crate::tokens::{self, TokenFile};
use crate::watcher::{Settled, Wake, Watcher};
use crate::{Config, Error};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, broadcast, oneshot, watch};
use tokio_rustls::TlsAcceptor;

/// How long is known what is over.
const KEEP: Duration = Duration::from_hours(90 * 24);
/// Orders that may wait for the manager.
const WAITING: usize = 1_024;
const THREADS: usize = 2;

/// Where clients find a daemon of that directory.
pub fn socket(directory: &Path) -> std::path::PathBuf {
    directory.join("socket")
}

/// Where a daemon can be asked over TCP.
#[derive(Clone, Copy, Debug)]
pub struct Door {
    /// Where it listens.
    pub address: SocketAddr,
    /// Of the certificate that it shows; None: it speaks no TLS.
    pub fingerprint: Option<Fingerprint>,
}

impl Door {
    /// What somebody on this machine opens.
    pub fn url(&self) -> String {
        let scheme = if self.fingerprint.is_some() {
            "https"
        } else {
            "http"
        };
        let mut address = self.address;
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        format!("{scheme}://{address}/")
    }
}

/// Works until SIGINT or SIGTERM; jobs that run go on. `ready` is called when it can be asked.
pub fn serve(config: Config, ready: impl FnOnce(&Path, Option<Door>)) -> Result<(), Error> {
    let directory = &config.directory;
    prepare(directory)?;
    // Held until this process ends, however it does. Children do not get it.
    let path = directory.join("lock");
    let unlocked = |error: std::io::Error| Error::Directory {
        path: path.clone(),
        why: error.to_string(),
    };
    let lock = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&path);
    let lock = lock.map_err(unlocked)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => return Err(Error::Taken(directory.clone())),
        Err(fs::TryLockError::Error(error)) => return Err(unlocked(error)),
    }
    let receivers = notices::load(directory, config.notify.as_deref())?;
    let metrics = Arc::new(Metrics::new());
    let tcp = listen(&config)?;
    let door = tcp.as_ref().map(|(_, door, _)| *door);
    let over_tcp = match &tcp {
        Some((_, door, shown)) => {
            let path = directory.join(tokens::FILE);
            let tokens = TokenFile::open(&path, config.log).map_err(|error| Error::Directory {
                path: path.clone(),
                why: error.to_string(),
            })?;
            Some(OverTcp {
                port: door.address.port(),
                tokens,
                shown: shown.clone(),
            })
        }
        None => None,
    };
    let audit = config.audit.map(|file| file.begin(config.log));
    let audit = audit
        .transpose()
        .map_err(system("a thread for the audit log"))?;
    let audit = audit.map(Arc::new);
    let at_the_end = audit.clone();
    let gate = Gate::new(over_tcp, Arc::clone(&metrics), audit.clone());
    let database = directory.join("state.sqlite");
    let (history, place) = (database.clone(), directory.clone());
    let attempts = directory.join("attempts");
    let history_of_attempts = attempts.clone();
    let store = Store::open(&database)?;
    let first_reader = Reader::open(&database)?;
    let (sender, messages) = mpsc::sync_channel(WAITING);
    let (written, seen) = watch::channel(0);
    let pace = Pace::new(Arc::clone(&config.outside), config.limit.clone());
    let pace = Arc::new(pace);
    pace.set(&first_reader.limits()?);
    let follower = Follower::new(database.clone(), attempts.clone(), Reader::open(&database)?)?;
    let told = broadcast::Sender::new(all_events::AHEAD);
    let kept = [config.kept, vec![directory.clone()]].concat();
    let bounds = Bounds {
        allow: config.allow,
        kept,
        lists: directory.join("lists"),
    };
    let bounds = Arc::new(bounds.real());
    let manager = Manager {
        store,
        grammar: Arc::clone(&config.grammar),
        bounds: Arc::clone(&bounds),
        program: config.program.clone(),
        attempts: attempts.clone(),
        limits: config.limits,
        messages,
        sender: sender.clone(),
        keep: KEEP,
        written,
        pace: Arc::clone(&pace),
        clock: Arc::new(now_ms),
    };
    let pacer = Pacer {
        pace: Arc::clone(&pace),
        database: database.clone(),
        manager: sender.clone(),
        clock: Arc::new(now_ms),
    };
    let (waking, wakes) = mpsc::channel();
    let watcher = Watcher {
        database: database.clone(),
        lists: directory.join("lists"),
        grammar: Arc::clone(&config.grammar),
        manager: sender.clone(),
        wakes,
        sender: waking.clone(),
        settled: Settled::default(),
    };
    let settled = Arc::clone(&watcher.settled);
    let shared = Arc::new(Shared {
        database,
        attempts,
        grammar: config.grammar,
        outside: config.outside,
        limit: config.limit,
        bounds,
        pace: Arc::clone(&pace),
        watcher: waking.clone(),
        settled,
        manager: sender.clone(),
        written: seen.clone(),
        readers: Mutex::new(vec![first_reader]),
        told: told.clone(),
        streams: Arc::new(Semaphore::new(all_events::STREAMS)),
        waits: Semaphore::new(watch_job::WAITS),
        program: config.program,
        errands: Arc::new(Semaphore::new(super::errands::AT_ONCE)),
        metrics: Arc::clone(&metrics),
        tickets: super::tickets::Tickets::default(),
        tokens: directory.join(tokens::FILE),
        address: door.map(|door| door.url()),
        started_ms: now_ms(),
        home: config.home,
        running: config.limits,
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .map_err(system("threads"))?;
    let home = notices::Home {
        database: history.clone(),
        directory: place.join("notices"),
        written: seen.clone(),
        log: config.log,
        metrics: Arc::clone(&metrics),
    };
    notices::begin(receivers, &home)?;
    let path = socket(directory);
    let served = runtime.block_on(async {
        // One that nobody listens to: the lock is ours.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(system("the old socket")(error));
            }
            _ => {}
        }
        let listener = UnixListener::bind(&path)
            .map_err(system(&format!("cannot listen on {}", path.display())))?;
        let (mut stop, mut end) = (
            signal(SignalKind::terminate()).map_err(system("signals"))?,
            signal(SignalKind::interrupt()).map_err(system("signals"))?,
        );
        let (working, gone) = oneshot::channel::<()>();
        let manager = thread::spawn(move || {
            // However it ends.
            let _working = working;
            manager.run()
        });
        thread::spawn(move || pacer.run());
        thread::spawn(move || watcher.run());
        tokio::spawn(all_events::tell(
            follower,
            seen.clone(),
            told,
            Arc::clone(&metrics),
        ));
        if let Some(audit) = audit {
            let reader = Reader::open(&history)?;
            let position = Position::load(place.join("audit-position"), reader.last_happened()?);
            position
                .save_durably()
                .map_err(system("the place in the history"))?;
            tokio::spawn(audit::follow(
                audit,
                reader,
                history_of_attempts,
                position,
                seen.clone(),
            ));
        }
        let app = router(shared, Arc::new(gate));
        let over_tcp = match tcp {
            Some((listener, _, shown)) => {
                let listener = TcpListener::from_std(listener).map_err(system("the TCP socket"))?;
                Some((listener, shown))
            }
            None => None,
        };
        let more = app.clone();
        let over_tcp = async move {
            match over_tcp {
                Some((listener, None)) => listen::open_tcp(listener, more).await,
                Some((listener, Some(shown))) => {
                    let acceptor = TlsAcceptor::from(Arc::clone(&shown.config));
                    listen::open_tls(listener, acceptor, more).await;
                }
                None => std::future::pending().await,
            }
        };
        ready(&path, door);
        tokio::select! {
            () = listen::open(listener, app) => {}
            () = over_tcp => {}
            _ = gone => {}
            _ = stop.recv() => {}
            _ = end.recv() => {}
        }
        pace.stop();
        let _ = waking.send(Wake::Stop);
        let _ = sender.send(Message::Stop);
        match manager.join() {
            Ok(result) => Ok(result?),
            Err(_) => Err(system("the manager")(std::io::Error::other("failed"))),
        }
    });
    let _ = fs::remove_file(&path);
    runtime.shutdown_background();
    // (Tasks that still run hold it, too.)
    if let Some(audit) = at_the_end {
        audit.close();
    }
    drop(lock);
    served
}

/// The socket for those who come over TCP, and what they are shown. Without TLS only this machine reaches it.
type Listening = (std::net::TcpListener, Door, Option<Arc<Shown>>);

fn listen(config: &Config) -> Result<Option<Listening>, Error> {
    let Some(address) = config.listen else {
        return Ok(None);
    };
    if config.tls.is_none() && !address.ip().to_canonical().is_loopback() {
        return Err(Error::NotLoopback(address));
    }
    let shown = config.tls.as_ref().map(|tls| {
        let loaded = tls::load(tls, &config.directory, address);
        loaded
            .map(Arc::new)
            .map_err(|(path, why)| Error::Directory { path, why })
    });
    let shown = shown.transpose()?;
    let failed = || system(&format!("cannot listen on {address}"));
    let listener =
        std::net::TcpListener::bind(address).map_err(|source| Error::Listen { address, source })?;
    listener.set_nonblocking(true).map_err(failed())?;
    let door = Door {
        address: listener.local_addr().map_err(failed())?,
        fingerprint: shown.as_ref().map(|shown| shown.fingerprint),
    };
    Ok(Some((listener, door, shown)))
}

fn system(what: &str) -> impl FnOnce(std::io::Error) -> Error + use<> {
    let what = what.to_owned();
    move |source| Error::System { what, source }
}

/// A directory that is ours alone.
fn prepare(path: &Path) -> Result<(), Error> {
    let wrong = |why: String| Error::Directory {
        path: path.to_owned(),
        why,
    };
    fs::DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(path)
        .map_err(|e| wrong(e.to_string()))?;
    let found = fs::metadata(path).map_err(|e| wrong(e.to_string()))?;
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(wrong("belongs to somebody else".to_owned()));
    }
    if found.mode() & 0o077 != 0 {
        return Err(wrong(
            "can be entered by others: chmod 700 it, or use another one".to_owned(),
        ));
    }
    Ok(())
}
