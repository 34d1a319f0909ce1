//! What clients ask for, and how it goes into the audit log.

use super::Service;
use crate::{Error, ErrorKind, PathBytes, TreeReport};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use howdah_audit::{AuditLog, now_utc};
use howdah_net::ConnKey;
use howdah_session::transfer::End;
use serde::Serialize;
use std::fmt;
use std::net::SocketAddr;

/// Names of one request that are written down, and their bytes; more are counted. Each line of an audit log stays for ever.
const PATHS_MAX: usize = 1_000;
const PATHS_BYTES: usize = 256 << 10;
/// Names that a line for people has.
const PATHS_SHOWN: usize = 8;

/// What a client asked for.
#[derive(Clone, Debug, Default)]
pub(in crate::server) struct Deed {
    verb: &'static str,
    paths: Vec<PathBytes>,
    /// Names besides those.
    left_out: usize,
    began_utc: String,
}

impl Deed {
    pub(in crate::server) fn new(verb: &'static str, paths: &[PathBytes]) -> Self {
        let mut bytes = 0;
        let fits = |path: &&PathBytes| {
            bytes += path.as_bytes().len();
            bytes <= PATHS_BYTES
        };
        let kept = paths.iter().take(PATHS_MAX).take_while(fits).count();
        Self {
            verb,
            paths: paths[..kept].to_vec(),
            left_out: paths.len() - kept,
            began_utc: now_utc(),
        }
    }

    /// The first name that it is about.
    pub(in crate::server) fn first(&self) -> PathBytes {
        self.paths.first().cloned().unwrap_or_default()
    }

    /// The same, about these names and so many more.
    pub(in crate::server) fn about(self, (paths, left_out): (Vec<PathBytes>, usize)) -> Self {
        Self {
            paths,
            left_out,
            ..self
        }
    }
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.verb {
            "" => "a message",
            verb => verb,
        })?;
        for path in self.paths.iter().take(PATHS_SHOWN) {
            write!(f, " {path:?}")?;
        }
        match self.paths.len().saturating_sub(PATHS_SHOWN) + self.left_out {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Who somebody is.
#[derive(Clone, Debug, Default, Serialize)]
pub(in crate::server) struct Who {
    session: u64,
    address: String,
    over_tcp: bool,
    key: String,
    comment: String,
}

impl Who {
    pub(in crate::server) fn new(
        session: u64,
        address: SocketAddr,
        over_tcp: bool,
        key: String,
        comment: String,
    ) -> Self {
        Self {
            session,
            address: address.to_string(),
            over_tcp,
            key,
            comment,
        }
    }

    /// Where he comes from.
    pub(in crate::server) fn address(&self) -> &str {
        &self.address
    }
}

#[derive(Serialize)]
struct Name {
    path: String,
    /// If it is not exactly what is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
}

impl Name {
    fn of(path: &PathBytes) -> Self {
        let path_base64 = match str::from_utf8(path.as_bytes()) {
            Ok(_) => None,
            Err(_) => Some(STANDARD.encode(path.as_bytes())),
        };
        Self {
            path: path.to_string(),
            path_base64,
        }
    }
}

/// How something ended, as far as that can be said of it.
#[derive(Debug, Default, Serialize)]
pub(in crate::server) struct Outcome {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::server) bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::server) files: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::server) deleted: Option<u64>,
    /// Names that could not be copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::server) failed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::server) blake3: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::server) error: Option<String>,
}

impl Outcome {
    /// Of a file of that size, if that is known, and content.
    pub(in crate::server) fn file(told: Option<End>) -> Self {
        Self {
            bytes: told.map(|end| end.size),
            blake3: told.and_then(|end| end.blake3).map(hex),
            ..Self::default()
        }
    }

    pub(in crate::server) fn tree(report: &TreeReport) -> Self {
        Self {
            bytes: Some(report.bytes),
            files: Some(report.files),
            deleted: Some(report.deleted.saturating_add(report.removed)),
            failed: Some(report.failed),
            blake3: report.blake3.filter(|_| report.files > 0).map(hex),
            ..Self::default()
        }
    }

    pub(in crate::server) fn error(error: &Error) -> Self {
        Self {
            error: Some(error.to_string()),
            ..Self::default()
        }
    }
}

fn hex(hash: [u8; 32]) -> String {
    blake3::Hash::from_bytes(hash).to_hex().to_string()
}

/// What happened.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::server) enum Happened {
    /// Somebody with a listed key was not let in.
    Refused,
    Connected,
    Done,
    Failed,
    Disconnected,
}

#[derive(Serialize)]
struct Line<'a> {
    schema: u32,
    time_utc: String,
    event: Happened,
    #[serde(flatten)]
    who: &'a Who,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    began_utc: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    paths: Vec<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paths_left_out: Option<usize>,
    #[serde(flatten)]
    outcome: Outcome,
}

impl Service {
    /// Writes down what became of what a session asked for, which is over.
    pub(in crate::server) fn note_end(&mut self, event: Happened, key: ConnKey, outcome: Outcome) {
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        let (who, deed) = (session.who.clone(), std::mem::take(&mut session.deed));
        self.note(event, &who, Some(&deed), outcome);
    }

    /// Writes down what became of somebody, or of what he asked for.
    pub(in crate::server) fn note(
        &self,
        event: Happened,
        who: &Who,
        deed: Option<&Deed>,
        outcome: Outcome,
    ) {
        let Some(audit) = &self.audit else { return };
        let paths = deed.map_or(&[][..], |deed| &deed.paths);
        let left_out = paths.len().saturating_sub(PATHS_MAX) + deed.map_or(0, |d| d.left_out);
        audit.write(&Line {
            schema: 1,
            time_utc: now_utc(),
            event,
            who,
            request: deed.map(|deed| deed.verb),
            began_utc: deed.map(|deed| &*deed.began_utc),
            paths: paths.iter().take(PATHS_MAX).map(Name::of).collect(),
            paths_left_out: (left_out > 0).then_some(left_out),
            outcome,
        });
    }
}

/// Whether something may be done for somebody.
pub(in crate::server) fn may_act(audit: Option<&AuditLog>) -> Result<(), Error> {
    let checked = audit.map_or(Ok(()), AuditLog::check);
    checked.map_err(|error| Error::new(ErrorKind::Refused, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Somebody may ask for names without end, and each of his lines in an audit log stays.
    #[test]
    fn h19_what_is_written_down_of_a_request_is_bounded() {
        let names = |len: usize, count: usize| vec![PathBytes::from("x".repeat(len)); count];
        for (len, count, kept) in [
            (10, 5, 5),
            (10, 5_000, 1_000),
            (4_000, 2_000, 65),
            (10, 0, 0),
        ] {
            let deed = Deed::new("get tree", &names(len, count));
            assert_eq!((deed.paths.len(), deed.left_out), (kept, count - kept));
        }
    }
}
