//! Who gets in, and what he may: over the socket whom the kernel names, over TCP who has a token; and no page in a browser that
//! was made to speak with the daemon.

use super::Failure;
use super::console::is_page;
use crate::metrics::{Metrics, Refusal};
use crate::tokens::{Role, Tokens};
use axum::Extension;
use axum::extract::{Request, State as Given};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an order may take, its body included.
const ORDER: Duration = Duration::from_secs(30);
/// Requests over TCP in a second, and at once.
const REQUESTS: Bound = Bound {
    per_second: 200.0,
    at_once: 400.0,
};
/// Those with a wrong token.
const GUESSES: Bound = Bound {
    per_second: 1.0 / 6.0,
    at_once: 10.0,
};

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Peer {
    /// A process of that user, as the kernel says.
    User(Option<u32>),
    /// Anybody on this machine.
    Tcp,
}

impl Peer {
    /// Whether he is let in without a token.
    pub(super) fn is_ours(self) -> bool {
        let own = rustix::process::geteuid().as_raw();
        matches!(self, Self::User(Some(user)) if user == own || user == 0)
    }
}

struct Bound {
    per_second: f64,
    at_once: f64,
}

/// A token bucket.
struct Bucket {
    left: f64,
    seen: Instant,
}

impl Bucket {
    fn new(bound: &Bound) -> Mutex<Self> {
        Mutex::new(Self {
            left: bound.at_once,
            seen: Instant::now(),
        })
    }

    /// False if it was too much.
    fn take(bucket: &Mutex<Self>, bound: &Bound) -> bool {
        let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let more = (now - bucket.seen).as_secs_f64() * bound.per_second;
        bucket.left = (bucket.left + more).min(bound.at_once);
        bucket.seen = now;
        let is_there = bucket.left >= 1.0;
        if is_there {
            bucket.left -= 1.0;
        }
        is_there
    }
}

/// What is asked of those who come.
pub(super) struct Gate {
    /// None: nobody comes over TCP.
    tcp: Option<(SocketAddr, Tokens)>,
    requests: Mutex<Bucket>,
    guesses: Mutex<Bucket>,
    metrics: Arc<Metrics>,
}

impl Gate {
    pub(super) fn new(tcp: Option<(SocketAddr, Tokens)>, metrics: Arc<Metrics>) -> Self {
        Self {
            tcp,
            requests: Bucket::new(&REQUESTS),
            guesses: Bucket::new(&GUESSES),
            metrics,
        }
    }

    /// Over TCP: whether that is for us, and from no page of others.
    fn at_door(&self, headers: &HeaderMap) -> Result<&Tokens, Failure> {
        let Some((address, tokens)) = &self.tcp else {
            return Err(Failure::refused("nobody comes in here"));
        };
        if !Bucket::take(&self.requests, &REQUESTS) {
            return Err(too_many());
        }
        // Names that somebody's name server made to mean this machine are no names of it.
        let host = only(headers, header::HOST).unwrap_or_default();
        let port = address.port();
        let names = [
            format!("localhost:{port}"),
            format!("127.0.0.1:{port}"),
            format!("[::1]:{port}"),
            address.to_string(),
        ];
        if !names.iter().any(|name| name == host) {
            let text = format!("Host is none of this API's: it is {}", names[0]);
            return Err(Failure::refused(text));
        }
        let own = |origin: &str| origin.strip_prefix("http://") == Some(host);
        if headers.contains_key(header::ORIGIN) && !only(headers, header::ORIGIN).is_some_and(own) {
            return Err(Failure::refused("this API is not for pages of others"));
        }
        Ok(tokens)
    }

    /// Over TCP: what he may.
    fn role(&self, request: &Request) -> Result<Role, Failure> {
        let (headers, method, path) = (request.headers(), request.method(), request.uri().path());
        let tokens = self.at_door(headers)?;
        // The page has no secrets, and a ticket is what is shown instead of a token.
        if is_page(method, path) || (method == Method::POST && path == "/v1/tickets/use") {
            return Ok(Role::Read);
        }
        let token =
            only(headers, header::AUTHORIZATION).and_then(|text| text.strip_prefix("Bearer "));
        let Some(role) = token.and_then(|token| tokens.role(token)) else {
            let text = "show a token of this daemon: 'Authorization: Bearer TOKEN'; they are in the file 'tokens' of its directory";
            return Err(self.guessed(text));
        };
        let needed = needed(method, path);
        if role < needed {
            let text = format!("a token of '{role}' may not do that; one of '{needed}' may");
            return Err(Failure::refused(text));
        }
        Ok(role)
    }

    /// Somebody has shown something wrong; whoever does that often is slowed down.
    pub(super) fn guessed(&self, text: &str) -> Failure {
        if Bucket::take(&self.guesses, &GUESSES) {
            Failure::new(StatusCode::UNAUTHORIZED, "auth", text)
        } else {
            too_many()
        }
    }
}

fn too_many() -> Failure {
    let text = "too many requests: try again in some seconds";
    Failure::new(StatusCode::TOO_MANY_REQUESTS, "network", text)
}

/// A header that is there once, and is text.
fn only(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?.to_str().ok()?;
    all.next().is_none().then_some(first)
}

/// The least role that may do that.
fn needed(method: &Method, path: &str) -> Role {
    match *method {
        // Names of files are for who may have them copied.
        Method::GET | Method::HEAD if path == "/v1/files" => Role::Submit,
        Method::GET | Method::HEAD => Role::Read,
        Method::POST if path == "/v1/jobs" || path.starts_with("/v1/jobs/") => Role::Submit,
        _ => Role::Admin,
    }
}

/// Whether he gets in with that, and as whom.
fn check(gate: &Gate, peer: Peer, request: &Request) -> Result<Role, Failure> {
    let headers = request.headers();
    let host = only(headers, header::HOST);
    let authority = request.uri().authority();
    if authority.is_some_and(|name| Some(name.as_str()) != host) {
        return Err(Failure::refused("the request is for another machine"));
    }
    match peer {
        Peer::User(_) if !peer.is_ours() => Err(Failure::refused("this daemon is somebody else's")),
        Peer::User(_) if host != Some("localhost") || headers.contains_key(header::ORIGIN) => {
            Err(Failure::refused(
                "this API is not for pages in a browser: Host is localhost, and there is no Origin",
            ))
        }
        Peer::User(_) => Ok(Role::Admin),
        Peer::Tcp => gate.role(request),
    }
}

pub(super) async fn let_in(
    Given(gate): Given<Arc<Gate>>,
    Extension(peer): Extension<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    match check(&gate, peer, &request) {
        Ok(role) => {
            request.extensions_mut().insert(role);
            request.extensions_mut().insert(Arc::clone(&gate));
        }
        Err(failure) => {
            gate.metrics.refused(match failure.status {
                StatusCode::UNAUTHORIZED => Refusal::Token,
                StatusCode::TOO_MANY_REQUESTS => Refusal::Rate,
                _ => Refusal::Forbidden,
            });
            return failure.into_response();
        }
    }
    let response = serve(request, next).await;
    gate.metrics.answered(response.status().as_u16());
    response
}

async fn serve(request: Request, next: Next) -> Response {
    if request.method() == Method::GET {
        // It may wait for something.
        return next.run(request).await;
    }
    let answer = tokio::time::timeout(ORDER, next.run(request)).await;
    answer.unwrap_or_else(|_| {
        Failure::new(
            StatusCode::REQUEST_TIMEOUT,
            "network",
            "the request took too long",
        )
        .into_response()
    })
}
