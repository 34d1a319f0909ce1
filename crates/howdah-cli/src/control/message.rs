//! What is said through the door.

use serde::{Deserialize, Serialize};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Longest line either side says.
pub(crate) const MAX_LINE: u64 = 8 << 20;
/// A process that does not answer within this time hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// What a copy is asked.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Request {
    /// How do you do?
    Status,
    /// Keep to that limit, whatever the timetable says; "auto" goes back to it.
    Limit {
        limit: String,
    },
    /// Of a daemon: take at most so much, whatever else is allowed; none is everything, 0 nothing.
    Share {
        limit_bps: Option<u64>,
    },
    Pause,
    Resume,
    /// Of a server: let no session begin, and end with the last one.
    Drain,
    /// Of a server: end that session.
    End {
        session: u64,
    },
}

/// How a copy does.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Status {
    pub(crate) pid: u32,
    pub(crate) command: String,
    pub(crate) sources: Vec<String>,
    pub(crate) destination: String,
    pub(crate) bytes: u64,
    pub(crate) total_bytes: Option<u64>,
    pub(crate) goodput_bps: u64,
    pub(crate) wire_bps: u64,
    pub(crate) elapsed_seconds: f64,
    pub(crate) limit_bps: Option<u64>,
    /// Where the limit is from: "auto" (flag, environment, config), "ctl" or "daemon".
    pub(crate) limit_from: String,
    pub(crate) paused: bool,
}

/// How a server does.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct ServerStatus {
    pub(crate) pid: u32,
    /// "serve".
    pub(crate) command: String,
    pub(crate) root: String,
    pub(crate) listen: String,
    pub(crate) draining: bool,
    pub(crate) sessions: Vec<SessionLine>,
}

/// One of its sessions.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct SessionLine {
    pub(crate) session: u64,
    pub(crate) peer: String,
    /// Empty: it does nothing now.
    pub(crate) what: String,
    pub(crate) bytes: u64,
    pub(crate) wire_bps: u64,
    pub(crate) elapsed_seconds: f64,
}

/// What it answers.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// It was done; this is how it stands now.
    Ok(Box<Status>),
    Error(String),
    /// Of a server.
    Server(Box<ServerStatus>),
}

/// Asks the process behind that socket.
pub(crate) fn ask(socket: &Path, request: &Request) -> io::Result<Answer> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    (&stream).write_all(&line)?;
    read_line(&stream)
}

/// One bounded line.
pub(crate) fn read_line<T: for<'de> Deserialize<'de>>(stream: &UnixStream) -> io::Result<T> {
    let mut line = Vec::new();
    BufReader::new(stream.take(MAX_LINE)).read_until(b'\n', &mut line)?;
    serde_json::from_slice(&line).map_err(io::Error::other)
}
