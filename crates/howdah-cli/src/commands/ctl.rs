//! `howdah ctl`.

use crate::args::{CtlArgs, CtlCommand, Which};
use crate::control::{Answer, Request, ServerStatus, SessionLine, Sockets, Status, ask};
use crate::ui;
use howdah::{Error, ErrorKind};
use howdah_core::{Rate, units};
use std::io;
use std::path::{Path, PathBuf};

pub(super) fn run(args: CtlArgs) -> anyhow::Result<()> {
    let (request, which) = match args.command {
        CtlCommand::List { json } => return list(json),
        CtlCommand::Limit { limit, pid } => (Request::Limit { limit }, pid),
        CtlCommand::Pause { pid } => (Request::Pause, pid),
        CtlCommand::Resume { pid } => (Request::Resume, pid),
        CtlCommand::Drain { pid } => return order(pid, &Request::Drain),
        CtlCommand::End { pid, session } => return order(pid, &Request::End { session }),
    };
    for (pid, socket) in choose(which)? {
        tell(&asked(pid, &socket, &request)?)?;
    }
    Ok(())
}

/// Asks a process that was found.
fn asked(pid: u32, socket: &Path, request: &Request) -> Result<Running, Error> {
    let answer = ask(socket, request).map_err(|error| {
        let text = format!("process {pid} does not answer: {error}");
        Error::new(ErrorKind::Network, text)
    })?;
    match answer {
        Answer::Ok(status) => Ok(Running::Copy(status)),
        Answer::Server(status) => Ok(Running::Server(status)),
        Answer::Error(text) => Err(Error::new(ErrorKind::Usage, text)),
    }
}

/// Orders something of a server.
fn order(pid: u32, request: &Request) -> anyhow::Result<()> {
    let found = running()?;
    let Some((_, socket, _)) = found.iter().find(|(other, ..)| *other == pid) else {
        let text = format!("no server of yours has the number {pid}; 'howdah ctl list' shows them");
        return Err(Error::new(ErrorKind::NotFound, text).into());
    };
    tell(&asked(pid, socket, request)?)
}

/// Something that answers.
#[derive(Debug)]
enum Running {
    Copy(Box<Status>),
    Server(Box<ServerStatus>),
}

fn list(json: bool) -> anyhow::Result<()> {
    let found = running()?;
    for (_, _, running) in &found {
        match running {
            Running::Copy(status) if json => ui::print(&serde_json::to_string(status)?)?,
            Running::Server(status) if json => ui::print(&serde_json::to_string(status)?)?,
            running => tell(running)?,
        }
    }
    if found.is_empty() && !json {
        ui::say("no copy and no server of yours is running here");
    }
    Ok(())
}

fn tell(running: &Running) -> anyhow::Result<()> {
    match running {
        Running::Copy(status) => ui::print(&line(status))?,
        Running::Server(status) => {
            ui::print(&server_line(status))?;
            for session in &status.sessions {
                ui::print(&session_line(session))?;
            }
        }
    }
    Ok(())
}

/// Copies and servers that answer. Sockets that nobody holds any more are removed.
fn running() -> Result<Vec<(u32, PathBuf, Running)>, Error> {
    let mut found = Vec::new();
    for (pid, socket) in Sockets::find()?.iter() {
        match ask(socket, &Request::Status) {
            Ok(Answer::Ok(status)) => found.push((pid, socket.to_owned(), Running::Copy(status))),
            Ok(Answer::Server(status)) => {
                found.push((pid, socket.to_owned(), Running::Server(status)));
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let _ = std::fs::remove_file(socket);
            }
            Ok(Answer::Error(text)) => ui::say(&format!("process {pid}: {text}")),
            Err(error) => ui::say(&format!("process {pid} does not answer: {error}")),
        }
    }
    Ok(found)
}

/// The copies that are meant; a server only if it is named.
fn choose(which: Option<Which>) -> Result<Vec<(u32, PathBuf)>, Error> {
    let found = running()?;
    let chosen: Vec<(u32, PathBuf)> = found
        .into_iter()
        .filter(|(pid, _, running)| match which {
            Some(Which::Pid(wanted)) => *pid == wanted,
            _ => matches!(running, Running::Copy(_)),
        })
        .map(|(pid, socket, _)| (pid, socket))
        .collect();
    let pids: Vec<String> = chosen.iter().map(|(pid, _)| pid.to_string()).collect();
    match (which, chosen.len()) {
        (None, 2..) => Err(Error::new(
            ErrorKind::Usage,
            format!(
                "several copies are running; name one ({}) or all",
                pids.join(", ")
            ),
        )),
        (Some(Which::Pid(pid)), 0) => Err(Error::new(
            ErrorKind::NotFound,
            format!("no copy of yours has the number {pid}; 'howdah ctl list' shows them"),
        )),
        (_, 0) => Err(Error::new(
            ErrorKind::NotFound,
            "no copy of yours is running here",
        )),
        _ => Ok(chosen),
    }
}

/// One server in one line; its sessions stand below.
fn server_line(status: &ServerStatus) -> String {
    let sessions = match status.sessions.len() {
        0 => "no session".to_owned(),
        1 => "1 session".to_owned(),
        n => format!("{n} sessions"),
    };
    let draining = if status.draining {
        ", ends with the last one"
    } else {
        ""
    };
    let text = format!(
        "{}  serve {} on {}: {sessions}{draining}",
        status.pid, status.root, status.listen
    );
    ui::printable(&text).into_owned()
}

fn session_line(session: &SessionLine) -> String {
    let what = if session.what.is_empty() {
        "idle"
    } else {
        &session.what
    };
    let text = format!(
        "  session {}  {}  {what}: {}, {}",
        session.session,
        session.peer,
        units::format_bytes(session.bytes),
        Rate::from_bits_per_sec(session.wire_bps)
    );
    ui::printable(&text).into_owned()
}

/// One copy in one line.
fn line(status: &Status) -> String {
    let bytes = units::format_bytes(status.bytes);
    let amount = match status.total_bytes {
        Some(total) => format!("{bytes} of {}", units::format_bytes(total)),
        None => bytes,
    };
    let limit = match status.limit_bps {
        Some(bps) => format!(
            "limit {} ({})",
            Rate::from_bits_per_sec(bps),
            status.limit_from
        ),
        None => "no limit".to_owned(),
    };
    let pace = if status.paused {
        "paused".to_owned()
    } else {
        Rate::from_bits_per_sec(status.goodput_bps).to_string()
    };
    let text = format!(
        "{}  {} {} to {}: {amount}, {pace}, {limit}",
        status.pid,
        status.command,
        status.sources.join(" "),
        status.destination
    );
    ui::printable(&text).into_owned()
}
