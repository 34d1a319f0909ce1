//! Watched directories: add, look, pause, remove.

use super::jobs::{checked, is_json};
use super::shapes::{Made, Problem, Watches};
use super::{Failure, Shared};
use crate::order::{Answer, Order};
use crate::state::Reader;
use crate::watch::{WatchSpec, WatchView};
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State as Given};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use std::sync::{Arc, PoisonError};

type Answered = Result<Response, Failure>;
type Id = Result<Path<i64>, PathRejection>;

fn number(id: Id) -> Result<i64, Failure> {
    let Path(id) = id.map_err(|_| Failure::usage("a watched directory is named by its number"))?;
    Ok(id)
}

fn no_such(id: i64) -> Failure {
    Failure::not_found(format!("there is no watched directory {id}"))
}

/// Watches a directory: files that are complete become part of a job.
#[utoipa::path(
    post,
    path = "/v1/watches",
    request_body = WatchSpec,
    responses(
        (status = 201, description = "It is on the disk", body = Made),
        (status = 400, description = "The directory is not there, or the job makes no sense", body = Problem),
        (status = 413, description = "The description is larger than 1 MiB"),
        (status = 415, description = "It is not application/json", body = Problem),
        (status = 503, description = "Not now", body = Problem),
    )
)]
pub(super) async fn add(
    Given(shared): Given<Arc<Shared>>,
    headers: HeaderMap,
    body: Bytes,
) -> Answered {
    is_json(&headers)?;
    let spec: WatchSpec = serde_json::from_slice(&body)
        .map_err(|e| Failure::usage(format!("no description of a watched directory: {e}")))?;
    spec.check().map_err(Failure::usage)?;
    // As it will be, with a list that is not there yet; the daemon's own one needs no leave, so it is as if it were among the files.
    let job = spec.job(&spec.path.join("list"));
    let job = job.map_err(Failure::usage)?;
    let meaning = Arc::clone(&shared.grammar).check(&job);
    if meaning.map_err(Failure::usage)?.places.len() != 2 {
        return Err(Failure::usage(
            "only the place where the files go is said: what is copied is what is in the directory",
        ));
    }
    let (hosts, _) = checked(&shared, job).await?;
    let path = spec.path.clone();
    let there = tokio::task::spawn_blocking(move || path.is_dir()).await;
    if !there.unwrap_or(false) {
        let text = format!("there is no directory {}", spec.path.display());
        return Err(Failure::usage(text));
    }
    let spec = Box::new(spec);
    match shared.order(Order::Watch { spec, hosts }).await? {
        Answer::Watched(id) => {
            shared.look();
            Ok((StatusCode::CREATED, Json(Made { id })).into_response())
        }
        _ => Err(Failure::internal("the daemon answered something else")),
    }
}

/// All watched directories.
#[utoipa::path(
    get,
    path = "/v1/watches",
    responses((status = 200, description = "All of them, the oldest first", body = Watches))
)]
pub(super) async fn list(Given(shared): Given<Arc<Shared>>) -> Answered {
    let found = shared.read(Reader::watches).await?.into_iter();
    let watches = found.map(|watch| seen(&shared, watch.view)).collect();
    Ok(Json(Watches { watches }).into_response())
}

/// One of them.
#[utoipa::path(
    get,
    path = "/v1/watches/{id}",
    params(("id" = i64, Path, description = "Its number")),
    responses(
        (status = 200, description = "It", body = WatchView),
        (status = 404, description = "There is none", body = Problem),
    )
)]
pub(super) async fn show(Given(shared): Given<Arc<Shared>>, id: Id) -> Answered {
    told(&shared, number(id)?).await
}

async fn told(shared: &Arc<Shared>, id: i64) -> Answered {
    let found = shared.read(move |reader| reader.watch(id)).await?;
    let found = found.ok_or_else(|| no_such(id))?;
    Ok(Json(seen(shared, found.view)).into_response())
}

/// With what only whoever looks knows.
fn seen(shared: &Shared, mut view: WatchView) -> WatchView {
    let settled = shared.settled.lock();
    let settled = settled.unwrap_or_else(PoisonError::into_inner);
    view.settled = !view.paused && settled.contains(&view.id);
    view
}

/// Watches a directory no more, and forgets which of its files were copied. Jobs that it has submitted are left alone.
#[utoipa::path(
    delete,
    path = "/v1/watches/{id}",
    params(("id" = i64, Path, description = "Its number")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "There is none", body = Problem),
    )
)]
pub(super) async fn remove(Given(shared): Given<Arc<Shared>>, id: Id) -> Answered {
    let id = number(id)?;
    match shared.order(Order::Unwatch(id)).await? {
        Answer::Done => {
            shared.look();
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        _ => Err(no_such(id)),
    }
}

/// Lets it rest until it is resumed; what comes meanwhile is found then.
#[utoipa::path(
    post,
    path = "/v1/watches/{id}/pause",
    params(("id" = i64, Path, description = "Its number")),
    responses(
        (status = 200, description = "It, as it is now", body = WatchView),
        (status = 404, description = "There is none", body = Problem),
    )
)]
pub(super) async fn pause(Given(shared): Given<Arc<Shared>>, id: Id) -> Answered {
    rest(&shared, number(id)?, true).await
}

/// Lets it go on.
#[utoipa::path(
    post,
    path = "/v1/watches/{id}/resume",
    params(("id" = i64, Path, description = "Its number")),
    responses(
        (status = 200, description = "It, as it is now", body = WatchView),
        (status = 404, description = "There is none", body = Problem),
    )
)]
pub(super) async fn resume(Given(shared): Given<Arc<Shared>>, id: Id) -> Answered {
    rest(&shared, number(id)?, false).await
}

async fn rest(shared: &Arc<Shared>, id: i64, paused: bool) -> Answered {
    match shared.order(Order::PauseWatch { id, paused }).await? {
        Answer::Done => {
            shared.look();
            told(shared, id).await
        }
        _ => Err(no_such(id)),
    }
}
