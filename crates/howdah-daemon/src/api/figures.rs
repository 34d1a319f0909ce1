//! Figures for Prometheus.

use super::all_events::STREAMS;
use super::{Failure, Shared};
use crate::metrics::CONTENT_TYPE;
use crate::state::Reader;
use axum::extract::State as Given;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use std::sync::Arc;

/// Figures of this daemon and of its jobs, in Prometheus' text format.
#[utoipa::path(
    get,
    path = "/metrics",
    responses((status = 200, description = "docs/daemon.md says what they are", body = String, content_type = "text/plain"))
)]
pub(super) async fn show(Given(shared): Given<Arc<Shared>>) -> Result<Response, Failure> {
    let jobs = shared.read(Reader::count).await?;
    let streams = STREAMS - shared.streams.available_permits();
    let page = shared.metrics.page(&jobs, streams);
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], page).into_response())
}
