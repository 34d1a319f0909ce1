//! What is written down: who asked for what, and how that ended; and what became of jobs.

use super::gate::{ORDER, too_slow};
use super::{BODY, Failure};
use crate::listen::Peer;
use crate::manager::attempt_dir;
use crate::position::Position;
use crate::process::record;
use crate::state::{Happening, Reader};
use crate::time;
use crate::tokens::Role;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use howdah_audit::{AuditLog, now_utc};
use serde::Serialize;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::watch;

/// Of a description that is written down whole; a job has a few hundred bytes.
const ASKED: usize = 64 << 10;
/// Of an answer to an order.
const ANSWER: usize = 16 << 20;
/// Of a reason.
const REASON: usize = 1_000;

/// Who asks, as far as it is known.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Who {
    /// Over the socket: the user that the kernel names.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<u32>,
    /// Over TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<SocketAddr>,
    /// Whose token he has shown: its name, or what tells it from others.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    pub(super) role: Role,
}

impl Who {
    pub(super) fn new(peer: Peer, token: Option<String>, role: Role) -> Self {
        let (user, address) = match peer {
            Peer::User(user) => (user, None),
            Peer::Tcp { from, .. } => (None, Some(from)),
        };
        Self {
            user,
            address,
            token,
            role,
        }
    }
}

/// An order, and what became of it.
#[derive(Serialize)]
struct Line<'a> {
    schema: u32,
    time_utc: String,
    event: &'static str,
    began_utc: String,
    #[serde(flatten)]
    who: &'a Who,
    request: String,
    /// As it was described.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<Value>,
    /// Of a description that is too long, or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked_bytes: Option<usize>,
    status: u16,
    /// What was made, or which was meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
}

/// Whether that changes something.
pub(super) fn is_order(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

fn request_line(method: &Method, path: &str) -> String {
    const LONGEST: usize = 1_000;
    format!(
        "{method} {}",
        path.chars().take(LONGEST).collect::<String>()
    )
}

fn event(status: StatusCode) -> &'static str {
    match status.as_u16() {
        ..400 => "done",
        400..500 => "refused",
        _ => "failed",
    }
}

/// Does what is asked, if it can be written down, and writes it down.
pub(super) async fn noted(audit: &AuditLog, who: &Who, request: Request, next: Next) -> Response {
    if let Err(why) = audit.check() {
        return Failure::refused(why.to_string()).into_response();
    }
    let began_utc = now_utc();
    let (parts, body) = request.into_parts();
    let line = request_line(&parts.method, parts.uri.path());
    // Whoever reads the log must not learn what opens a door.
    let is_secret = parts.uri.path().starts_with("/v1/tickets");
    let mut asked = None;
    let answer = async {
        let Ok(body) = to_bytes(body, BODY).await else {
            let text = "the description is larger than 1 MiB, or did not come whole";
            let failure = Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "usage", text);
            return failure.into_response();
        };
        asked = (!is_secret).then(|| body.clone());
        next.run(Request::from_parts(parts, Body::from(body))).await
    };
    let answer = tokio::time::timeout(ORDER, answer).await;
    let response = answer.unwrap_or_else(|_| too_slow());
    let (parts, body) = response.into_parts();
    let Ok(answer) = to_bytes(body, ANSWER).await else {
        return Failure::internal("the answer is too long").into_response();
    };
    let told: Value = serde_json::from_slice(&answer).unwrap_or_default();
    let (asked, asked_bytes) = described(asked);
    audit.write(&Line {
        schema: 1,
        time_utc: now_utc(),
        event: event(parts.status),
        began_utc,
        who,
        request: line,
        asked,
        asked_bytes,
        status: parts.status.as_u16(),
        id: told.get("id").cloned(),
        error: told.pointer("/error/message").cloned(),
    });
    Response::from_parts(parts, Body::from(answer))
}

fn described(asked: Option<Bytes>) -> (Option<Value>, Option<usize>) {
    let Some(asked) = asked.filter(|asked| !asked.is_empty()) else {
        return (None, None);
    };
    let value = serde_json::from_slice(&asked).ok();
    match value.filter(|_| asked.len() <= ASKED) {
        Some(value) => (Some(value), None),
        None => (None, Some(asked.len())),
    }
}

/// Somebody who has a token asks for more than it may.
pub(super) fn overstepped(audit: &AuditLog, who: &Who, request: &Request, failure: &Failure) {
    audit.write(&Line {
        schema: 1,
        time_utc: now_utc(),
        event: event(failure.status),
        began_utc: now_utc(),
        who,
        request: request_line(request.method(), request.uri().path()),
        asked: None,
        asked_bytes: None,
        status: failure.status.as_u16(),
        id: None,
        error: Some(failure.message.clone().into()),
    });
}

/// What became of a job, whoever submitted it.
#[derive(Serialize)]
struct Became<'a> {
    schema: u32,
    time_utc: String,
    event: String,
    happened_utc: String,
    job: i64,
    command: Vec<&'a str>,
    directory: String,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    labels: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Of content, as its process has summed it up.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// Of a file its content's, of a tree that of all files that were moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    blake3: Option<String>,
}

/// What its last process has summed up.
fn summary(happened: &Happening, reader: &Reader, attempts: &Path) -> Option<Value> {
    if happened.what == "submitted" {
        return None;
    }
    let job = reader.job(happened.job).ok()??;
    let last = job.attempts.last()?;
    record::summary(&attempt_dir(attempts, happened.job, last.number))
}

fn became(happened: &Happening, summary: Option<Value>) -> Became<'_> {
    let summary = summary.unwrap_or_default();
    let spec = &happened.spec;
    let words = spec.kind.words().iter().copied();
    Became {
        schema: 1,
        time_utc: now_utc(),
        event: format!("job_{}", happened.what),
        happened_utc: time::printed(happened.time_ms),
        job: happened.job.0,
        command: words
            .chain(spec.arguments.iter().map(String::as_str))
            .collect(),
        directory: spec.directory.display().to_string(),
        labels: &spec.labels,
        exit_code: happened.exit_code.filter(|_| happened.what != "submitted"),
        reason: happened
            .why
            .as_ref()
            .map(|why| why.chars().take(REASON).collect()),
        bytes: summary["bytes"].as_u64(),
        blake3: summary["blake3"].as_str().map(str::to_owned),
    }
}

/// What of the history of jobs is written down.
const BECAME: [&str; 4] = ["submitted", "done", "failed", "cancelled"];

/// Writes down what becomes of jobs, from where the daemon before has come to, for ever. How far it has come is noted when that is on the
/// disk: whatever ends this daemon, some of it may be told twice, and none of it is missing.
pub(super) async fn follow(
    audit: Arc<AuditLog>,
    reader: Reader,
    attempts: PathBuf,
    mut position: Position,
    mut written: watch::Receiver<u64>,
) {
    loop {
        // What cannot be read now is read when the next thing happens.
        while let Ok(happened) = reader.happenings_after(position.get(), &BECAME)
            && let Some(last) = happened.last()
        {
            for each in &happened {
                audit.write(&became(each, summary(each, &reader, &attempts)));
            }
            let (last, audit) = (last.event, Arc::clone(&audit));
            let noted = tokio::task::spawn_blocking(move || {
                if !audit.settle() {
                    return None;
                }
                // If it cannot be written, some of it is told again by the next daemon.
                let _ = position.set_durably(last);
                Some(position)
            });
            let Ok(Some(noted)) = noted.await else {
                return;
            };
            position = noted;
        }
        if written.changed().await.is_err() {
            return;
        }
    }
}
