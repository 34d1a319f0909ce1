//! Who gets in, and what he may: over the socket whom the kernel names, over TCP who has a token; and no page in a browser that
//! was made to speak with the daemon.

use super::Failure;
use super::audit::{self, Who, is_order};
use super::console::is_page;
use crate::listen::{Peer, network};
use crate::metrics::{Metrics, Refusal};
use crate::tls::Shown;
use crate::tokens::{Role, TokenFile};
use axum::Extension;
use axum::extract::{Request, State as Given};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use howdah_audit::AuditLog;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an order may take, its body included.
pub(super) const ORDER: Duration = Duration::from_secs(30);
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

#[derive(Clone, Copy)]
struct Bound {
    per_second: f64,
    at_once: f64,
}

/// Those whose requests are counted; of more, who have asked least of late are forgotten.
const COUNTED: usize = 1_024;

/// A token bucket for each of those who come.
struct Buckets<K> {
    bound: Bound,
    of: Mutex<HashMap<K, (f64, Instant)>>,
}

impl<K: Clone + Eq + Hash> Buckets<K> {
    fn new(bound: Bound) -> Self {
        let of = Mutex::default();
        Self { bound, of }
    }

    /// False if it was too much.
    fn take(&self, who: K, now: Instant) -> bool {
        let Bound {
            per_second,
            at_once,
        } = self.bound;
        let filled = |(left, seen): (f64, Instant)| {
            (left + now.duration_since(seen).as_secs_f64() * per_second).min(at_once)
        };
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if of.len() >= COUNTED && !of.contains_key(&who) {
            of.retain(|_, bucket| filled(*bucket) < at_once);
            let least = of
                .iter()
                .max_by(|a, b| filled(*a.1).total_cmp(&filled(*b.1)));
            if let Some(least) = least
                .map(|(who, _)| who.clone())
                .filter(|_| of.len() >= COUNTED)
            {
                of.remove(&least);
            }
        }
        let bucket = of.entry(who).or_insert((at_once, now));
        *bucket = (filled(*bucket), now);
        let is_there = bucket.0 >= 1.0;
        if is_there {
            bucket.0 -= 1.0;
        }
        is_there
    }
}

/// Who comes over TCP, and what for.
pub(super) struct OverTcp {
    pub(super) port: u16,
    pub(super) tokens: TokenFile,
    /// None: nothing is encrypted, and only this machine comes.
    pub(super) shown: Option<Arc<Shown>>,
}

impl OverTcp {
    /// Whether that is a name of ours. Names that somebody's name server made to mean this machine are none.
    fn is_our(&self, host: &str, at: SocketAddr) -> bool {
        let Some((name, port)) = host.rsplit_once(':') else {
            return false;
        };
        port == self.port.to_string()
            && (["localhost", "127.0.0.1", "[::1]"].contains(&name)
                || host == at.to_string()
                || self.shown.as_ref().is_some_and(|shown| shown.is_for(name)))
    }

    /// Whose token is shown.
    fn known(&self, headers: &HeaderMap) -> Option<(Role, String)> {
        let shown = only(headers, header::AUTHORIZATION)?;
        self.tokens.known(shown.strip_prefix("Bearer ")?)
    }

    fn scheme(&self) -> &'static str {
        if self.shown.is_some() {
            "https://"
        } else {
            "http://"
        }
    }
}

/// What is asked of those who come.
pub(super) struct Gate {
    /// None: nobody comes over TCP.
    tcp: Option<OverTcp>,
    /// Of those who show no token of ours, by network; who shows one is counted by that, so that strangers who come by his
    /// address do not shut him out.
    strangers: Buckets<IpAddr>,
    known: Buckets<String>,
    guesses: Buckets<IpAddr>,
    metrics: Arc<Metrics>,
    audit: Option<Arc<AuditLog>>,
}

impl Gate {
    pub(super) fn new(
        tcp: Option<OverTcp>,
        metrics: Arc<Metrics>,
        audit: Option<Arc<AuditLog>>,
    ) -> Self {
        Self {
            tcp,
            strangers: Buckets::new(REQUESTS),
            known: Buckets::new(REQUESTS),
            guesses: Buckets::new(GUESSES),
            metrics,
            audit,
        }
    }

    /// Over TCP: whether that is for us, and from no page of others.
    fn at_door(
        &self,
        headers: &HeaderMap,
        from: SocketAddr,
        at: SocketAddr,
    ) -> Result<&OverTcp, Failure> {
        let Some(tcp) = &self.tcp else {
            return Err(Failure::refused("nobody comes in here"));
        };
        let now = Instant::now();
        let may_ask = match tcp.known(headers) {
            Some((_, name)) => self.known.take(name, now),
            None => self.strangers.take(network(from.ip()), now),
        };
        if !may_ask {
            return Err(too_many());
        }
        let host = only(headers, header::HOST).unwrap_or_default();
        if !tcp.is_our(host, at) {
            let text = format!("Host is none of this API's: it is localhost:{}", tcp.port);
            return Err(Failure::refused(text));
        }
        let own = |origin: &str| origin.strip_prefix(tcp.scheme()) == Some(host);
        if headers.contains_key(header::ORIGIN) && !only(headers, header::ORIGIN).is_some_and(own) {
            return Err(Failure::refused("this API is not for pages of others"));
        }
        Ok(tcp)
    }

    /// Over TCP: what he may, and the name of his token.
    fn role(
        &self,
        request: &Request,
        from: SocketAddr,
        at: SocketAddr,
    ) -> Result<(Role, Option<String>), Failure> {
        let headers = request.headers();
        let tcp = self.at_door(headers, from, at)?;
        if is_open(request.method(), request.uri().path()) {
            return Ok((Role::Read, None));
        }
        let Some((role, name)) = tcp.known(headers) else {
            let text = "show a token of this daemon: 'Authorization: Bearer TOKEN'; they are in the file 'tokens' of its directory";
            return Err(self.guessed(from, text));
        };
        Ok((role, Some(name)))
    }

    /// Somebody has shown something wrong; whoever does that often is slowed down.
    pub(super) fn guessed(&self, from: SocketAddr, text: &str) -> Failure {
        if self.guesses.take(network(from.ip()), Instant::now()) {
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

/// The page has no secrets, and a ticket is what is shown instead of a token.
fn is_open(method: &Method, path: &str) -> bool {
    is_page(method, path) || (method == Method::POST && path == "/v1/tickets/use")
}

/// The least role that may do that.
fn needed(method: &Method, path: &str) -> Role {
    match *method {
        // Names of files, and what reaches other machines, are for who may have something copied.
        Method::GET | Method::HEAD if ["/v1/files", "/v1/remote", "/v1/doctor"].contains(&path) => {
            Role::Submit
        }
        Method::POST if path == "/v1/bench" => Role::Submit,
        Method::GET | Method::HEAD => Role::Read,
        Method::POST if path == "/v1/jobs" || path.starts_with("/v1/jobs/") => Role::Submit,
        _ => Role::Admin,
    }
}

/// Whether he gets in, and as whom.
fn check(gate: &Gate, peer: Peer, request: &Request) -> Result<Who, Failure> {
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
        Peer::User(_) => Ok(Who::new(peer, None, Role::Admin)),
        Peer::Tcp { from, at } => {
            let (role, token) = gate.role(request, from, at)?;
            Ok(Who::new(peer, token, role))
        }
    }
}

pub(super) async fn let_in(
    Given(gate): Given<Arc<Gate>>,
    Extension(peer): Extension<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let checked = check(&gate, peer, &request).and_then(|who| {
        let (method, path) = (request.method(), request.uri().path());
        let needed = needed(method, path);
        if who.role >= needed || is_open(method, path) {
            return Ok(who);
        }
        let role = who.role;
        let text = format!("a token of '{role}' may not do that; one of '{needed}' may");
        let failure = Failure::refused(text);
        if let Some(audit) = &gate.audit {
            audit::overstepped(audit, &who, &request, &failure);
        }
        Err(failure)
    });
    let who = match checked {
        Ok(who) => who,
        Err(failure) => {
            gate.metrics.refused(match failure.status {
                StatusCode::UNAUTHORIZED => Refusal::Token,
                StatusCode::TOO_MANY_REQUESTS => Refusal::Rate,
                _ => Refusal::Forbidden,
            });
            return failure.into_response();
        }
    };
    request.extensions_mut().insert(who.role);
    request.extensions_mut().insert(Arc::clone(&gate));
    let response = serve(&gate, &who, request, next).await;
    gate.metrics.answered(response.status().as_u16());
    response
}

async fn serve(gate: &Gate, who: &Who, request: Request, next: Next) -> Response {
    if request.method() == Method::GET {
        // It may wait for something.
        return next.run(request).await;
    }
    match &gate.audit {
        Some(audit) if is_order(request.method()) => {
            let (audit, who) = (Arc::clone(audit), who.clone());
            // What is ordered may be done, and is written down, whether its client still listens or not.
            let noted = tokio::spawn(async move {
                let answer = audit::noted(&audit, &who, request, next);
                answer.await
            });
            let answer = noted.await;
            answer.unwrap_or_else(|_| Failure::internal("the request was lost").into_response())
        }
        _ => {
            let answer = tokio::time::timeout(ORDER, next.run(request)).await;
            answer.unwrap_or_else(|_| too_slow())
        }
    }
}

pub(super) fn too_slow() -> Response {
    let text = "the request took too long";
    Failure::new(StatusCode::REQUEST_TIMEOUT, "network", text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens;
    use axum::body::Body;
    use axum::routing::post;
    use axum::{Router, middleware};
    use futures_util::FutureExt as _;
    use howdah_audit::AuditFile;
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;
    use tokio::sync::Notify;

    /// Far more than is refilled meanwhile.
    const FLOOD: usize = 20_000;

    #[test]
    fn strangers_shut_out_nobody_who_has_a_token() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        let over_tcp = OverTcp {
            port: 8470,
            tokens: TokenFile::open(&path, |_, _| ()).unwrap(),
            shown: None,
        };
        let gate = Gate::new(Some(over_tcp), Arc::new(Metrics::new()), None);
        let peer = |host: u8| SocketAddr::from(([192, 0, 2, host], 1));
        let at = SocketAddr::from(([127, 0, 0, 1], 8470));
        let ask = |from, token: Option<&str>| {
            let mut request = Request::get("/v1/jobs").header(header::HOST, "localhost:8470");
            if let Some(token) = token {
                request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
            }
            let asked = gate.role(&request.body(Body::empty()).unwrap(), from, at);
            asked.map_or_else(|failure| failure.status.as_u16(), |_| 200)
        };
        let [read, admin] =
            [Role::Read, Role::Admin].map(|role| tokens::secret(&path, role).unwrap());
        for token in [None, Some("wrong")] {
            let answers: Vec<_> = (0..FLOOD).map(|_| ask(peer(1), token)).collect();
            assert!(answers.contains(&429));
            assert_eq!(ask(peer(1), Some(&read)), 200);
        }
        let asked = (0..FLOOD).filter(|_| ask(peer(1), Some(&read)) == 429);
        assert!(asked.count() > 0, "he is bounded, too");
        assert_eq!(ask(peer(1), Some(&admin)), 200);
        assert_eq!(ask(peer(2), None), 401);
    }

    /// A connection that ends takes the answers to its requests with it.
    #[test]
    fn an_order_whose_client_hangs_up_is_written_down() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit");
        let audit = AuditFile::open(&path, 1 << 20).unwrap();
        let audit = Arc::new(audit.begin(|_, _| ()).unwrap());
        let gate = Gate::new(None, Arc::new(Metrics::new()), Some(Arc::clone(&audit)));
        let done = Arc::new(Notify::new());
        let waits = Arc::clone(&done);
        let order = move || {
            let waits = Arc::clone(&waits);
            async move {
                waits.notified().await;
                StatusCode::OK
            }
        };
        let app: Router = Router::new()
            .route("/v1/jobs", post(order))
            .layer(middleware::from_fn_with_state(Arc::new(gate), let_in));
        let request = Request::post("/v1/jobs").header(header::HOST, "localhost");
        let mut request = request.body(Body::empty()).unwrap();
        let own = rustix::process::geteuid().as_raw();
        request.extensions_mut().insert(Peer::User(Some(own)));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let answer = TowerToHyperService::new(app).call(request).now_or_never();
            assert!(answer.is_none());
            done.notify_one();
            // All that is to be done can be.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        });
        assert!(audit.settle());
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(written.contains("POST /v1/jobs"), "{written:?}");
    }
}
