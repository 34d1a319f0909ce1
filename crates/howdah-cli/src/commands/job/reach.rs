//! Which daemon is asked: the one of this user here, or one elsewhere.

use super::failure;
use crate::args::DaemonPlace;
use crate::commands::daemon::directory;
use howdah::{Error, ErrorKind};
use howdah_daemon::client::{Client, Trust};
use std::env;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Of a file with a token; no more of a longer one is read.
const LONGEST: u64 = 64 << 10;

fn usage(text: impl Into<String>) -> anyhow::Error {
    Error::new(ErrorKind::Usage, text).into()
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// What is said comes before what the environment says.
pub(in crate::commands) fn client(place: &DaemonPlace) -> anyhow::Result<Client> {
    let url = match &place.state {
        Some(_) => None,
        None => place.daemon.clone().or_else(|| variable("HOWDAH_DAEMON")),
    };
    let Some(url) = url else {
        if place.token_file.is_some() || place.fingerprint.is_some() || place.ca.is_some() {
            return Err(usage(
                "--token-file, --fingerprint and --ca are about a daemon elsewhere: name it with --daemon https://HOST:8470",
            ));
        }
        return Ok(Client::new(&directory(place.state.as_deref())?));
    };
    let file = place.token_file.clone();
    let file = file.or_else(|| variable("HOWDAH_DAEMON_TOKEN_FILE").map(PathBuf::from));
    let file = file.ok_or_else(|| {
        usage(format!(
            "{url} wants a token: --token-file FILE, with a line of the file 'tokens' in the daemon's directory"
        ))
    })?;
    Client::remote(&url, &token(&file)?, &trust(place)?).map_err(failure)
}

fn trust(place: &DaemonPlace) -> anyhow::Result<Trust> {
    if let Some(fingerprint) = place.fingerprint {
        return Ok(Trust::Fingerprint(fingerprint));
    }
    if let Some(ca) = &place.ca {
        return Ok(Trust::Authorities(ca.clone()));
    }
    if let Some(text) = variable("HOWDAH_DAEMON_FINGERPRINT") {
        let fingerprint = text.parse();
        return fingerprint
            .map(Trust::Fingerprint)
            .map_err(|why| usage(format!("HOWDAH_DAEMON_FINGERPRINT: {why}")));
    }
    let ca = variable("HOWDAH_DAEMON_CA").map(PathBuf::from);
    Ok(ca.map_or(Trust::Nothing, Trust::Authorities))
}

/// In the first line that is no comment: a token alone, or a line of the daemon's file, `ROLE TOKEN NAME`.
fn token(path: &Path) -> anyhow::Result<String> {
    let failed = |why: String| usage(format!("{}: {why}", path.display()));
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut text = String::new();
    let read = file.take(LONGEST).read_to_string(&mut text);
    read.map_err(|error| failed(error.to_string()))?;
    let mut lines = text.lines().map(str::trim);
    let line = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    let mut words = line.unwrap_or_default().split_whitespace();
    let first = words.next();
    let token = words.next().or(first);
    token
        .map(str::to_owned)
        .ok_or_else(|| failed("there is no token in it".to_owned()))
}
