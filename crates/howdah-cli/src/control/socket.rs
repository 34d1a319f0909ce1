//! The copy's side of the door.

use super::message::{Answer, PATIENCE, Request, Status, read_line};
use crate::limit::{Allowed, Limit};
use crate::own_dir::{directory, prepare};
use crate::ui::{Reporter, Start};
use howdah::{Error, ErrorKind, Throttle};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// A limit that people, the clock and the configuration change.
#[derive(Clone, Debug)]
pub(crate) struct Controlled {
    throttle: Throttle,
    state: Arc<Mutex<State>>,
    reporter: Reporter,
    start: Arc<Start>,
}

#[derive(Debug)]
struct State {
    /// Of flag, environment or configuration.
    planned: Option<Limit>,
    /// Of `howdah ctl`: stronger.
    ordered: Option<Allowed>,
    /// Of a daemon, which shares a limit among several: nothing is stronger.
    share: Allowed,
    paused: bool,
}

impl Controlled {
    pub(crate) fn new(
        throttle: Throttle,
        planned: Option<Limit>,
        reporter: Reporter,
        start: Start,
    ) -> Self {
        let controlled = Self {
            throttle,
            state: Arc::new(Mutex::new(State {
                planned,
                ordered: None,
                share: Allowed::of_daemon(),
                paused: false,
            })),
            reporter,
            start: Arc::new(start),
        };
        controlled.keep();
        controlled
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut state);
        let planned = || {
            state
                .planned
                .as_ref()
                .map_or(Allowed::Unlimited, Limit::now)
        };
        let own = state.ordered.unwrap_or_else(planned);
        own.min(state.share).apply(&self.throttle);
        if state.paused {
            self.throttle.set_paused(true);
        }
        result
    }

    /// Keeps to the timetable; to be called now and then.
    pub(crate) fn keep(&self) {
        self.with(|_| {});
    }

    /// Another plan, as the configuration has it now.
    pub(crate) fn plan(&self, planned: Option<Limit>) {
        let text = planned
            .as_ref()
            .map_or_else(|| "none".to_owned(), Limit::to_string);
        self.with(|state| state.planned = planned);
        self.reporter
            .note(&format!("the configuration was read again: limit {text}"));
    }

    fn status(&self) -> Status {
        let progress = self.reporter.last();
        Status {
            pid: std::process::id(),
            command: self.start.command.to_owned(),
            sources: self.start.sources.clone(),
            destination: self.start.destination.clone(),
            bytes: progress.bytes,
            total_bytes: progress.total_bytes,
            goodput_bps: progress.goodput_now.bits_per_sec(),
            wire_bps: progress.wire_rate_now.bits_per_sec(),
            elapsed_seconds: progress.elapsed.as_secs_f64(),
            limit_bps: self.throttle.limit().map(howdah_core::Rate::bits_per_sec),
            limit_from: self.with(|state| {
                let planned = || {
                    state
                        .planned
                        .as_ref()
                        .map_or(Allowed::Unlimited, Limit::now)
                };
                let own = state.ordered.unwrap_or_else(planned);
                match state.ordered {
                    _ if state.share < own => "daemon",
                    Some(_) => "ctl",
                    None => "auto",
                }
                .to_owned()
            }),
            paused: self.throttle.is_paused(),
        }
    }

    pub(super) fn answer(&self, request: &Request) -> Answer {
        let done = match request {
            Request::Status => None,
            Request::Limit { limit } if limit == "auto" => {
                self.with(|state| state.ordered = None);
                Some("limit auto".to_owned())
            }
            Request::Limit { limit } => match limit.parse::<Allowed>() {
                Ok(allowed) => {
                    self.with(|state| state.ordered = Some(allowed));
                    Some(format!("limit {limit}"))
                }
                Err(error) => return Answer::Error(error),
            },
            Request::Share { limit_bps } => {
                // Some times a minute: nothing to be told of.
                self.with(|state| state.share = Allowed::of_bps(*limit_bps));
                None
            }
            Request::Drain | Request::End { .. } => {
                let text = "this is a copy and no server; to stop it, send it SIGTERM";
                return Answer::Error(text.to_owned());
            }
            Request::Pause => {
                self.with(|state| state.paused = true);
                Some("paused".to_owned())
            }
            Request::Resume => {
                self.with(|state| {
                    state.paused = false;
                    // A pause that was ordered as a limit ends, too.
                    state.ordered = state.ordered.filter(|o| *o != Allowed::Nothing);
                });
                Some("resumed".to_owned())
            }
        };
        if let Some(done) = done {
            self.reporter.note(&format!("{done} (by howdah ctl)"));
        }
        Answer::Ok(Box::new(self.status()))
    }
}

/// One request and its answer.
fn serve(mut stream: &UnixStream, answer: impl Fn(&Request) -> Answer) {
    // One at a time; nobody can hold the door for longer.
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let _ = stream.set_write_timeout(Some(PATIENCE));
    let answer = match read_line::<Request>(stream) {
        Ok(request) => answer(&request),
        Err(error) => Answer::Error(format!("the request makes no sense: {error}")),
    };
    if let Ok(mut line) = serde_json::to_vec(&answer) {
        line.push(b'\n');
        let _ = stream.write_all(&line);
    }
}

/// The open door of this process. Dropping it removes the socket.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    path: PathBuf,
    /// Held while somebody is answered.
    busy: Arc<Mutex<()>>,
}

/// Whoever is being answered when the process ends is answered first, within that time.
const LAST_WORDS: Duration = Duration::from_millis(500);

impl ControlSocket {
    /// Answers from now until the process ends.
    pub(crate) fn open(
        answer: impl Fn(&Request) -> Answer + Send + 'static,
    ) -> Result<Self, Error> {
        let dir = directory();
        prepare(&dir)?;
        let path = dir.join(format!("{}.sock", std::process::id()));
        let error = |what: &str, error: &std::io::Error| {
            let text = format!("cannot {what} {}: {error}", path.display());
            Error::new(ErrorKind::Io, text)
        };
        // Of a process that had our number and was killed.
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(|e| error("listen on", &e))?;
        let busy = Arc::default();
        let door = Self {
            path: path.clone(),
            busy: Arc::clone(&busy),
        };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
            .map_err(|e| error("protect", &e))?;
        std::thread::Builder::new()
            .name("howdah-ctl".into())
            .spawn(move || {
                for stream in listener.incoming() {
                    match stream {
                        Ok(stream) => {
                            let _turn = busy.lock().unwrap_or_else(PoisonError::into_inner);
                            serve(&stream, &answer);
                        }
                        // Out of descriptors, perhaps: it must not become a busy loop.
                        Err(_) => std::thread::sleep(Duration::from_secs(1)),
                    }
                }
            })
            .map_err(|e| Error::new(ErrorKind::Io, format!("cannot start a thread: {e}")))?;
        Ok(door)
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let end = Instant::now() + LAST_WORDS;
        while matches!(self.busy.try_lock(), Err(TryLockError::WouldBlock)) && Instant::now() < end
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
