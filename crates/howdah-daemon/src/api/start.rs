//! The daemon from its beginning to its end.

use super::{Gate, Shared, all_events, door, router};
use crate::follower::Follower;
use crate::manager::{Manager, Message};
use crate::metrics::Metrics;
use crate::pacer::{Pace, Pacer};
use crate::state::{Reader, Store};
use crate::time::now_ms;
use crate::tokens::{self, Tokens};
use crate::watcher::{Wake, Watcher};
use crate::{Config, Error};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, broadcast, oneshot, watch};

/// How long is known what is over.
const KEEP: Duration = Duration::from_hours(90 * 24);
/// Orders that may wait for the manager.
const WAITING: usize = 1_024;
const THREADS: usize = 2;

/// Where clients find a daemon of that directory.
pub fn socket(directory: &Path) -> std::path::PathBuf {
    directory.join("socket")
}

/// Works until SIGINT or SIGTERM; jobs that run go on. `ready` is called when it can be asked.
pub fn serve(config: Config, ready: impl FnOnce(&Path, Option<SocketAddr>)) -> Result<(), Error> {
    let directory = &config.directory;
    prepare(directory)?;
    // Held until this process ends, however it does. Children do not get it.
    let lock = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(directory.join("lock"));
    let lock = lock.map_err(system("the lock"))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => return Err(Error::Taken(directory.clone())),
        Err(fs::TryLockError::Error(error)) => return Err(system("the lock")(error)),
    }
    let metrics = Arc::new(Metrics::new());
    let tcp = config.listen.map(listen).transpose()?;
    let gate = match &tcp {
        Some((_, address)) => {
            let path = directory.join(tokens::FILE);
            let tokens = Tokens::load_or_create(&path).map_err(|error| Error::Directory {
                path: path.clone(),
                why: error.to_string(),
            })?;
            Gate::new(Some((*address, tokens)), Arc::clone(&metrics))
        }
        None => Gate::new(None, Arc::clone(&metrics)),
    };
    let address = tcp.as_ref().map(|(_, address)| *address);
    let database = directory.join("state.sqlite");
    let attempts = directory.join("attempts");
    let store = Store::open(&database)?;
    let first_reader = Reader::open(&database)?;
    let (sender, messages) = mpsc::sync_channel(WAITING);
    let (written, seen) = watch::channel(0);
    let pace = Pace::new(Arc::clone(&config.outside), config.limit.clone());
    let pace = Arc::new(pace);
    pace.set(&first_reader.limits()?);
    let follower = Follower::new(database.clone(), attempts.clone(), Reader::open(&database)?)?;
    let told = broadcast::Sender::new(all_events::AHEAD);
    let manager = Manager {
        store,
        program: config.program,
        attempts: attempts.clone(),
        limits: config.limits,
        messages,
        sender: sender.clone(),
        keep: KEEP,
        written,
        pace: Arc::clone(&pace),
    };
    let pacer = Pacer {
        pace: Arc::clone(&pace),
        database: database.clone(),
        manager: sender.clone(),
    };
    let (waking, wakes) = mpsc::channel();
    let watcher = Watcher {
        database: database.clone(),
        lists: directory.join("lists"),
        grammar: Arc::clone(&config.grammar),
        manager: sender.clone(),
        wakes,
        sender: waking.clone(),
    };
    let shared = Arc::new(Shared {
        database,
        attempts,
        grammar: config.grammar,
        outside: config.outside,
        limit: config.limit,
        allow: config.allow,
        pace: Arc::clone(&pace),
        watcher: waking.clone(),
        manager: sender.clone(),
        written: seen.clone(),
        readers: Mutex::new(vec![first_reader]),
        told: told.clone(),
        streams: Arc::new(Semaphore::new(all_events::STREAMS)),
        metrics: Arc::clone(&metrics),
        tickets: super::tickets::Tickets::default(),
        tokens: directory.join(tokens::FILE),
        address,
        started_ms: now_ms(),
        home: config.home,
        running: config.limits,
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .map_err(system("threads"))?;
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
        tokio::spawn(all_events::tell(follower, seen, told, Arc::clone(&metrics)));
        let app = router(shared, Arc::new(gate));
        let over_tcp = match tcp {
            Some((listener, _)) => {
                Some(TcpListener::from_std(listener).map_err(system("the TCP socket"))?)
            }
            None => None,
        };
        let more = app.clone();
        let over_tcp = async move {
            match over_tcp {
                Some(listener) => door::open_tcp(listener, more).await,
                None => std::future::pending().await,
            }
        };
        ready(&path, address);
        tokio::select! {
            () = door::open(listener, app) => {}
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
    drop(lock);
    served
}

/// A socket that only this machine reaches.
fn listen(address: SocketAddr) -> Result<(std::net::TcpListener, SocketAddr), Error> {
    if !address.ip().is_loopback() {
        return Err(Error::NotLoopback(address));
    }
    let failed = || system(&format!("cannot listen on {address}"));
    let listener = std::net::TcpListener::bind(address).map_err(failed())?;
    listener.set_nonblocking(true).map_err(failed())?;
    let bound = listener.local_addr().map_err(failed())?;
    Ok((listener, bound))
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
