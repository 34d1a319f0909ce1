//! Asks a daemon: over its socket, or one on another machine over TCP.

mod place;

pub use place::Trust;

use crate::job::{JobId, JobView, Spec, State};
use crate::limits::{HostSpec, HostView, LimitSpec, LimitsView};
use crate::schedule::{ScheduleSpec, ScheduleView};
use crate::watch::{WatchSpec, WatchView};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper::header::CONTENT_TYPE;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use place::Place;
use serde::Deserialize;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A daemon that says nothing for so long does not answer any more: one that is asked whether a job is over says so after half a minute at
/// the latest, one that is followed several times a minute.
const SILENCE: Duration = Duration::from_mins(1);

/// Why there is no answer that was hoped for.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody is there.
    #[error("no daemon answers at {}: {why}; 'howdah daemon' starts one", path.display())]
    Nobody {
        /// Its socket.
        path: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// Nobody is there, either.
    #[error("no daemon answers at {url}: {why}")]
    Unreachable {
        /// Its address.
        url: String,
        /// What the system says.
        why: String,
    },
    /// That is no daemon's address, or what is given with it makes no sense.
    #[error("{0}")]
    Usage(String),
    /// Somebody is there, and has not proved who he is.
    #[error("{0}")]
    Untrusted(String),
    /// It went away in the midst of it.
    #[error("the daemon went away: {0}")]
    Away(String),
    /// Who is to hear what it answers cannot.
    #[error("{0}")]
    Unheard(io::Error),
    /// It does not want that.
    #[error("{message}")]
    Refused {
        /// As `error.kind` of `--json`.
        kind: String,
        /// In words.
        message: String,
    },
}

/// Jobs that are wanted: of all, those for which everything holds that is said.
#[derive(Clone, Debug, Default)]
pub struct Which {
    /// They are in that state.
    pub state: Option<State>,
    /// They have that label.
    pub label: Option<String>,
    /// They speak with that machine.
    pub host: Option<String>,
    /// Each of these words is somewhere in number, command line, directory, labels or reason.
    pub text: Option<String>,
    /// They are older than that one.
    pub before: Option<JobId>,
}

impl Which {
    fn query(&self) -> String {
        let pairs = [
            ("state", self.state.map(|state| state.to_string())),
            ("label", self.label.clone()),
            ("host", self.host.clone()),
            ("text", self.text.clone()),
            ("before", self.before.map(|id| id.to_string())),
        ];
        let said = pairs.into_iter().filter_map(|(name, value)| {
            let value = value?;
            Some(format!("&{name}={}", encoded(&value)))
        });
        said.collect()
    }
}

#[derive(Deserialize)]
struct Problem {
    error: Words,
}

#[derive(Deserialize)]
struct Words {
    kind: String,
    message: String,
}

/// What was made of a submission.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Submitted {
    /// The job.
    pub id: JobId,
    /// False if it was submitted before by the same name.
    pub new: bool,
}

/// A page of jobs, the newest first.
#[derive(Debug, Deserialize)]
pub struct Jobs {
    /// They.
    pub jobs: Vec<JobView>,
    /// What to give as `before` for older ones.
    pub next_before: Option<JobId>,
}

#[derive(Deserialize)]
struct Ticket {
    ticket: String,
    address: String,
}

#[derive(Deserialize)]
struct About {
    home: PathBuf,
}

#[derive(Deserialize)]
struct Made {
    id: i64,
}

#[derive(Deserialize)]
struct Watches {
    watches: Vec<WatchView>,
}

#[derive(Deserialize)]
struct Hosts {
    hosts: Vec<HostView>,
}

#[derive(Deserialize)]
struct Schedules {
    schedules: Vec<ScheduleView>,
}

/// What can be done with a job that is there.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// Not wanted any more.
    Cancel,
    /// Not yet.
    Hold,
    /// Now.
    Release,
}

/// A daemon's client; a connection for each question.
#[derive(Clone, Debug)]
pub struct Client {
    place: Place,
    silence: Duration,
}

fn away(error: impl std::fmt::Display) -> ClientError {
    ClientError::Away(error.to_string())
}

/// As a part of a path.
fn encoded(name: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    name.bytes().map(byte).collect()
}

impl Client {
    /// Of the daemon that has that directory.
    pub fn new(directory: &Path) -> Self {
        let place = Place::Socket(crate::api::socket(directory));
        Self {
            place,
            silence: SILENCE,
        }
    }

    /// Of the daemon at that address, `https://HOST:PORT`, for whoever has that token. Without TLS (`http://`) only on this machine.
    pub fn remote(url: &str, token: &str, trust: &Trust) -> Result<Self, ClientError> {
        let place = Place::remote(url, token, trust)?;
        Ok(Self {
            place,
            silence: SILENCE,
        })
    }

    /// Where a job runs that is submitted from here: on another machine in the home of the daemon's user.
    pub fn directory(&self) -> Result<PathBuf, ClientError> {
        match self.place {
            Place::Socket(_) => std::env::current_dir().map_err(away),
            Place::Remote(_) => {
                let about: About = self.ask(Method::GET, "/v1/about", Vec::new())?;
                Ok(about.home)
            }
        }
    }

    /// Submits a job.
    pub fn submit(&self, spec: &Spec) -> Result<Submitted, ClientError> {
        let body = serde_json::to_vec(spec).map_err(away)?;
        self.ask(Method::POST, "/v1/jobs", body)
    }

    /// A page of jobs, at most `limit` of them.
    pub fn list(&self, which: &Which, limit: u32) -> Result<Jobs, ClientError> {
        let query = which.query();
        self.ask(
            Method::GET,
            &format!("/v1/jobs?limit={limit}{query}"),
            Vec::new(),
        )
    }

    /// A job; with `wait_seconds` when it is over, or that time is.
    pub fn show(&self, id: JobId, wait_seconds: Option<u32>) -> Result<JobView, ClientError> {
        let wait = wait_seconds
            .map(|n| format!("?wait_seconds={n}"))
            .unwrap_or_default();
        self.ask(Method::GET, &format!("/v1/jobs/{id}{wait}"), Vec::new())
    }

    /// Changes it.
    pub fn act(&self, id: JobId, action: Action) -> Result<JobView, ClientError> {
        let name = match action {
            Action::Cancel => "cancel",
            Action::Hold => "hold",
            Action::Release => "release",
        };
        self.ask(Method::POST, &format!("/v1/jobs/{id}/{name}"), Vec::new())
    }

    /// Watches a directory; its number.
    pub fn add_watch(&self, spec: &WatchSpec) -> Result<i64, ClientError> {
        let body = serde_json::to_vec(spec).map_err(away)?;
        let made: Made = self.ask(Method::POST, "/v1/watches", body)?;
        Ok(made.id)
    }

    /// All of them, the oldest first.
    pub fn watches(&self) -> Result<Vec<WatchView>, ClientError> {
        let all: Watches = self.ask(Method::GET, "/v1/watches", Vec::new())?;
        Ok(all.watches)
    }

    /// One of them.
    pub fn watch(&self, id: i64) -> Result<WatchView, ClientError> {
        self.ask(Method::GET, &format!("/v1/watches/{id}"), Vec::new())
    }

    /// Watches it no more.
    pub fn remove_watch(&self, id: i64) -> Result<(), ClientError> {
        let path = format!("/v1/watches/{id}");
        self.exchange(Method::DELETE, &path, Vec::new(), |_| Ok(()))
    }

    /// Lets one rest, or go on.
    pub fn pause_watch(&self, id: i64, paused: bool) -> Result<WatchView, ClientError> {
        let name = if paused { "pause" } else { "resume" };
        let path = format!("/v1/watches/{id}/{name}");
        self.ask(Method::POST, &path, Vec::new())
    }

    /// What all running jobs share.
    pub fn limits(&self) -> Result<LimitsView, ClientError> {
        self.ask(Method::GET, "/v1/limits", Vec::new())
    }

    /// Sets that.
    pub fn set_limit(&self, spec: &LimitSpec) -> Result<LimitsView, ClientError> {
        let body = serde_json::to_vec(spec).map_err(away)?;
        self.ask(Method::PUT, "/v1/limits", body)
    }

    /// Limits a job.
    pub fn limit_job(&self, id: JobId, spec: &LimitSpec) -> Result<JobView, ClientError> {
        let body = serde_json::to_vec(spec).map_err(away)?;
        self.ask(Method::POST, &format!("/v1/jobs/{id}/limit"), body)
    }

    /// Machines that jobs speak with, and those that something is set for, by name.
    pub fn hosts(&self) -> Result<Vec<HostView>, ClientError> {
        let all: Hosts = self.ask(Method::GET, "/v1/hosts", Vec::new())?;
        Ok(all.hosts)
    }

    /// Sets what holds for a machine.
    pub fn set_host(&self, name: &str, spec: &HostSpec) -> Result<Vec<HostView>, ClientError> {
        let body = serde_json::to_vec(spec).map_err(away)?;
        let all: Hosts = self.ask(Method::PUT, &format!("/v1/hosts/{}", encoded(name)), body)?;
        Ok(all.hosts)
    }

    /// Adds a schedule; its number.
    pub fn add_schedule(&self, spec: &ScheduleSpec) -> Result<i64, ClientError> {
        let body = serde_json::to_vec(spec).map_err(away)?;
        let made: Made = self.ask(Method::POST, "/v1/schedules", body)?;
        Ok(made.id)
    }

    /// All of them, the oldest first.
    pub fn schedules(&self) -> Result<Vec<ScheduleView>, ClientError> {
        let all: Schedules = self.ask(Method::GET, "/v1/schedules", Vec::new())?;
        Ok(all.schedules)
    }

    /// One of them.
    pub fn schedule(&self, id: i64) -> Result<ScheduleView, ClientError> {
        self.ask(Method::GET, &format!("/v1/schedules/{id}"), Vec::new())
    }

    /// Removes one.
    pub fn remove_schedule(&self, id: i64) -> Result<(), ClientError> {
        let path = format!("/v1/schedules/{id}");
        self.exchange(Method::DELETE, &path, Vec::new(), |_| Ok(()))
    }

    /// Lets one rest, or go on.
    pub fn pause_schedule(&self, id: i64, paused: bool) -> Result<ScheduleView, ClientError> {
        let name = if paused { "pause" } else { "resume" };
        let path = format!("/v1/schedules/{id}/{name}");
        self.ask(Method::POST, &path, Vec::new())
    }

    /// What brings a browser in, once and within a minute: an address with a ticket.
    pub fn ticket(&self) -> Result<String, ClientError> {
        let made: Ticket = self.ask(Method::POST, "/v1/tickets", Vec::new())?;
        Ok(format!("{}#ticket={}", made.address, made.ticket))
    }

    /// Follows a job to its end: `told` gets each line that its processes write.
    pub fn follow(
        &self,
        id: JobId,
        mut told: impl FnMut(&str) -> io::Result<()>,
    ) -> Result<(), ClientError> {
        let mut rest = Vec::new();
        let mut is_event = false;
        self.exchange(
            Method::GET,
            &format!("/v1/jobs/{id}/events"),
            Vec::new(),
            |part| {
                rest.extend_from_slice(part);
                while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = rest.drain(..=end).collect();
                    let line = String::from_utf8_lossy(&line);
                    let line = line.trim_end_matches('\n');
                    if let Some(name) = line.strip_prefix("event: ") {
                        is_event = name == "event";
                    } else if let Some(data) = line.strip_prefix("data: ").filter(|_| is_event) {
                        told(data)?;
                    }
                }
                Ok(())
            },
        )
    }

    /// What the daemon says next.
    async fn in_time<T>(&self, next: impl Future<Output = T>) -> Result<T, ClientError> {
        let said = tokio::time::timeout(self.silence, next).await;
        said.map_err(|_| {
            away(format!(
                "it has said nothing for {} s",
                self.silence.as_secs()
            ))
        })
    }

    fn ask<T: serde::de::DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<T, ClientError> {
        let mut answer = Vec::new();
        self.exchange(method, path, body, |part| {
            answer.extend_from_slice(part);
            Ok(())
        })?;
        serde_json::from_slice(&answer).map_err(away)
    }

    /// A request; `take` gets the body of the answer as it comes, if it is a good one.
    fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), ClientError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, "application/json");
        let request = self.place.introduce(request);
        let request = request.body(Full::new(Bytes::from(body))).map_err(away)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(away)?;
        runtime.block_on(async {
            let stream = self.place.connect().await?;
            let (mut sender, connection) =
                http1::handshake(TokioIo::new(stream)).await.map_err(away)?;
            tokio::spawn(connection);
            let response = self.in_time(sender.send_request(request)).await?;
            let response = response.map_err(away)?;
            let status = response.status();
            let mut body = response.into_body();
            let mut problem = Vec::new();
            while let Some(frame) = self.in_time(body.frame()).await? {
                let frame = frame.map_err(away)?;
                let Some(part) = frame.data_ref() else {
                    continue;
                };
                if status.is_success() {
                    take(part).map_err(ClientError::Unheard)?;
                } else {
                    problem.extend_from_slice(part);
                }
            }
            if status.is_success() {
                Ok(())
            } else {
                Err(refusal(status, &problem))
            }
        })
    }
}

fn refusal(status: StatusCode, body: &[u8]) -> ClientError {
    match serde_json::from_slice::<Problem>(body) {
        Ok(Problem {
            error: Words { kind, message },
        }) => ClientError::Refused { kind, message },
        Err(_) => ClientError::Refused {
            kind: "io".to_owned(),
            message: format!("the daemon answers {status}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::thread;

    const NUMBERED: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n\
        event: event\ndata: {\"event\":\"start\"}\n\n";

    /// A client of somebody who hears a question, says that and nothing more until the client has gone.
    fn client_of(said: &'static str) -> (tempfile::TempDir, Client, thread::JoinHandle<()>) {
        let dir = tempfile::tempdir().unwrap();
        let client = Client::new(dir.path());
        let listener = UnixListener::bind(crate::api::socket(dir.path())).unwrap();
        let answer = move |mut stream: UnixStream| {
            stream.write_all(said.as_bytes()).unwrap();
            let mut heard = Vec::new();
            stream.read_to_end(&mut heard).unwrap();
        };
        let daemon = thread::spawn(move || answer(listener.accept().unwrap().0));
        (dir, client, daemon)
    }

    #[test]
    fn a_daemon_that_stands_still_is_not_waited_for_for_ever() {
        for said in ["", NUMBERED] {
            let (_dir, mut client, daemon) = client_of(said);
            client.silence = Duration::from_millis(50);
            let mut lines = 0;
            let result = client.follow(JobId(1), |_| {
                lines += 1;
                Ok(())
            });
            let error = result.unwrap_err();
            assert!(matches!(error, ClientError::Away(_)), "{error}");
            assert_eq!(lines, usize::from(!said.is_empty()));
            daemon.join().unwrap();
        }
    }

    #[test]
    fn what_cannot_be_passed_on_is_no_fault_of_the_daemon() {
        let (_dir, client, daemon) = client_of(NUMBERED);
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let error = client.follow(JobId(1), |_| Err(full())).unwrap_err();
        assert!(
            matches!(&error, ClientError::Unheard(why) if why.kind() == io::ErrorKind::StorageFull),
            "{error}"
        );
        daemon.join().unwrap();
    }
}
