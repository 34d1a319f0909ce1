//! HTTP API v1 over a Unix socket. Only the daemon's own user and root get in: the kernel says who asks.

mod about;
mod all_events;
mod audit;
mod console;
mod errands;
mod events;
mod figures;
mod files;
mod gate;
mod jobs;
mod limits;
mod openapi;
mod output;
mod schedules;
mod shapes;
mod start;
mod tickets;
mod watch_job;
mod watches;

use gate::Gate;
pub use start::{Door, serve, socket};

use crate::bounds::Bounds;
use crate::job::Grammar;
use crate::metrics::Metrics;
use crate::order::{Answer, Message, Order};
use crate::outside::Outside;
use crate::pacer::Pace;
use crate::queue::Limits;
use crate::state::{Reader, StateError};
use crate::watcher::{Settled, Wake};
use axum::Json;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, broadcast, oneshot, watch};

/// A description of a job, and a bit.
const BODY: usize = 1 << 20;

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) database: PathBuf,
    pub(crate) attempts: PathBuf,
    pub(crate) grammar: Arc<dyn Grammar>,
    pub(crate) outside: Arc<dyn Outside>,
    pub(crate) limit: Option<String>,
    pub(crate) bounds: Arc<Bounds>,
    pub(crate) pace: Arc<Pace>,
    pub(crate) watcher: Sender<Wake>,
    pub(crate) settled: Settled,
    pub(crate) manager: SyncSender<Message>,
    pub(crate) written: watch::Receiver<u64>,
    pub(crate) readers: Mutex<Vec<Reader>>,
    /// Whoever follows all jobs.
    pub(crate) told: broadcast::Sender<all_events::Line>,
    /// Places for streams of events.
    pub(crate) streams: Arc<Semaphore>,
    /// Places for those who wait for the end of a job.
    pub(crate) waits: Semaphore,
    /// Whose commands jobs are.
    pub(crate) program: PathBuf,
    /// Places for processes that are asked something on the spot.
    pub(crate) errands: Arc<Semaphore>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tickets: tickets::Tickets,
    /// The file of tokens, if somebody comes over TCP.
    pub(crate) tokens: PathBuf,
    /// Where a browser comes in: `http://127.0.0.1:8470/`.
    pub(crate) address: Option<String>,
    pub(crate) started_ms: u64,
    pub(crate) home: PathBuf,
    pub(crate) running: Limits,
}

impl Shared {
    /// Reads the truth, away from the threads that answer.
    async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Reader) -> Result<T, StateError> + Send + 'static,
    ) -> Result<T, Failure> {
        let shared = Arc::clone(self);
        let work = move || {
            let idle = shared
                .readers
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop();
            let reader = idle.map_or_else(|| Reader::open(&shared.database), Ok)?;
            let result = read(&reader);
            shared
                .readers
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(reader);
            result
        };
        let result = tokio::task::spawn_blocking(work).await;
        result
            .map_err(|_| Failure::internal("reading failed"))?
            .map_err(|e| Failure::internal(e.to_string()))
    }

    /// Watched directories were changed.
    fn look(&self) {
        // Without anybody who looks, the next daemon does.
        let _ = self.watcher.send(Wake::Changed);
    }

    async fn order(&self, order: Order) -> Result<Answer, Failure> {
        let (reply, answer) = oneshot::channel();
        self.manager
            .try_send(Message::Asked(order, reply))
            .map_err(|error| match error {
                TrySendError::Full(_) => Failure::busy("too many requests at once; try again"),
                TrySendError::Disconnected(_) => Failure::busy("the daemon is going away"),
            })?;
        match answer.await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(why)) => Err(Failure::busy(why)),
            Err(_) => Err(Failure::busy("the daemon is going away")),
        }
    }
}

/// Why a request is not met.
#[derive(Debug)]
pub(crate) struct Failure {
    status: StatusCode,
    kind: &'static str,
    message: String,
}

impl Failure {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            message: message.into(),
        }
    }

    fn usage(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "usage", message)
    }

    fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "refused", message)
    }

    fn refused(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "refused", message)
    }

    fn busy(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "network", message)
    }

    fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "io", message)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let words = shapes::Words {
            kind: self.kind.to_owned(),
            message: self.message,
        };
        (self.status, Json(shapes::Problem { error: words })).into_response()
    }
}

fn router(shared: Arc<Shared>, gate: Arc<Gate>) -> Router {
    let (routes, document) = openapi::routes();
    routes
        .route("/v1/openapi.json", get(async move || Json(document)))
        .merge(console::routes())
        .fallback(async || {
            Failure::not_found("there is no such thing in the API; /v1/openapi.json says what is")
        })
        .layer(DefaultBodyLimit::max(BODY))
        .layer(middleware::from_fn_with_state(gate, gate::let_in))
        .with_state(shared)
}
