//! `howdah ctl`.

use crate::args::{CtlArgs, CtlCommand, Which};
use crate::control::{Answer, Request, Sockets, Status, ask};
use crate::ui;
use howdah::{Error, ErrorKind};
use howdah_core::{Rate, units};
use std::io;
use std::path::PathBuf;

pub(super) fn run(args: CtlArgs) -> anyhow::Result<()> {
    let (request, which) = match args.command {
        CtlCommand::List { json } => return list(json),
        CtlCommand::Limit { limit, pid } => (Request::Limit { limit }, pid),
        CtlCommand::Pause { pid } => (Request::Pause, pid),
        CtlCommand::Resume { pid } => (Request::Resume, pid),
    };
    for (pid, socket) in choose(which)? {
        let answer = ask(&socket, &request).map_err(|error| {
            let text = format!("process {pid} does not answer: {error}");
            Error::new(ErrorKind::Network, text)
        })?;
        ui::print(&line(&answer.into_status()?))?;
    }
    Ok(())
}

fn list(json: bool) -> anyhow::Result<()> {
    let found = running()?;
    for (_, _, status) in &found {
        if json {
            ui::print(&serde_json::to_string(status)?)?;
        } else {
            ui::print(&line(status))?;
        }
    }
    if found.is_empty() && !json {
        ui::say("no copy of yours is running here");
    }
    Ok(())
}

/// Copies that answer. Sockets that nobody holds any more are removed.
fn running() -> Result<Vec<(u32, PathBuf, Status)>, Error> {
    let mut found = Vec::new();
    for (pid, socket) in Sockets::find()?.iter() {
        match ask(socket, &Request::Status) {
            Ok(Answer::Ok(status)) => found.push((pid, socket.to_owned(), *status)),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let _ = std::fs::remove_file(socket);
            }
            Ok(Answer::Error(text)) => ui::say(&format!("process {pid}: {text}")),
            Err(error) => ui::say(&format!("process {pid} does not answer: {error}")),
        }
    }
    Ok(found)
}

/// The copies that are meant.
fn choose(which: Option<Which>) -> Result<Vec<(u32, PathBuf)>, Error> {
    let found = running()?;
    let pids: Vec<String> = found.iter().map(|(pid, ..)| pid.to_string()).collect();
    let chosen: Vec<(u32, PathBuf)> = found
        .into_iter()
        .filter(|(pid, ..)| match which {
            Some(Which::Pid(wanted)) => *pid == wanted,
            _ => true,
        })
        .map(|(pid, socket, _)| (pid, socket))
        .collect();
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
