//! Schedules: add, look, pause, remove.

use super::jobs::{checked, is_json};
use super::shapes::{Problem, ScheduleId, Schedules};
use super::{Failure, Shared};
use crate::order::{Answer, Order};
use crate::schedule::{Plan, ScheduleSpec, ScheduleView};
use crate::state::Reader;
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State as Given};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use std::sync::Arc;

type Answered = Result<Response, Failure>;

/// Adds a schedule: its job is submitted whenever its time comes.
#[utoipa::path(
    post,
    path = "/v1/schedules",
    request_body = ScheduleSpec,
    responses(
        (status = 201, description = "It is on the disk", body = ScheduleId),
        (status = 400, description = "The time or the job makes no sense", body = Problem),
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
    let spec: ScheduleSpec = serde_json::from_slice(&body)
        .map_err(|e| Failure::usage(format!("no description of a schedule: {e}")))?;
    Plan::new(&spec).map_err(Failure::usage)?;
    let (hosts, job) = checked(&shared, spec.job.clone()).await?;
    let spec = Box::new(ScheduleSpec { job, ..spec });
    match shared.order(Order::Schedule { spec, hosts }).await? {
        Answer::Scheduled(id) => Ok((StatusCode::CREATED, Json(ScheduleId { id })).into_response()),
        Answer::Conflict(why) => Err(Failure::usage(why)),
        _ => Err(Failure::internal("the daemon answered something else")),
    }
}

/// All schedules.
#[utoipa::path(
    get,
    path = "/v1/schedules",
    responses((status = 200, description = "All of them, the oldest first", body = Schedules))
)]
pub(super) async fn list(Given(shared): Given<Arc<Shared>>) -> Answered {
    let schedules = shared.read(Reader::schedules).await?;
    Ok(Json(Schedules { schedules }).into_response())
}

type Id = Result<Path<i64>, PathRejection>;

fn number(id: Id) -> Result<i64, Failure> {
    let Path(id) = id.map_err(|_| Failure::usage("a schedule is named by its number"))?;
    Ok(id)
}

fn no_such(id: i64) -> Failure {
    Failure::not_found(format!("there is no schedule {id}"))
}

/// One schedule.
#[utoipa::path(
    get,
    path = "/v1/schedules/{id}",
    params(("id" = i64, Path, description = "Its number")),
    responses(
        (status = 200, description = "The schedule", body = ScheduleView),
        (status = 404, description = "There is none", body = Problem),
    )
)]
pub(super) async fn show(Given(shared): Given<Arc<Shared>>, id: Id) -> Answered {
    let id = number(id)?;
    let found = shared.read(move |reader| reader.schedule(id)).await?;
    Ok(Json(found.ok_or_else(|| no_such(id))?).into_response())
}

/// Removes a schedule. Jobs that it has submitted are left alone.
#[utoipa::path(
    delete,
    path = "/v1/schedules/{id}",
    params(("id" = i64, Path, description = "Its number")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "There is none", body = Problem),
    )
)]
pub(super) async fn remove(Given(shared): Given<Arc<Shared>>, id: Id) -> Answered {
    let id = number(id)?;
    match shared.order(Order::Unschedule(id)).await? {
        Answer::Done => Ok(StatusCode::NO_CONTENT.into_response()),
        _ => Err(no_such(id)),
    }
}

/// Lets a schedule rest until it is resumed. Jobs that it has submitted are left alone.
#[utoipa::path(
    post,
    path = "/v1/schedules/{id}/pause",
    params(("id" = i64, Path, description = "Its number")),
    responses(
        (status = 200, description = "The schedule as it is now", body = ScheduleView),
        (status = 404, description = "There is none", body = Problem),
    )
)]
pub(super) async fn pause(Given(shared): Given<Arc<Shared>>, id: Id) -> Answered {
    rest(&shared, number(id)?, true).await
}

/// Lets it go on with the first time that comes from now on.
#[utoipa::path(
    post,
    path = "/v1/schedules/{id}/resume",
    params(("id" = i64, Path, description = "Its number")),
    responses(
        (status = 200, description = "The schedule as it is now", body = ScheduleView),
        (status = 404, description = "There is none", body = Problem),
        (status = 409, description = "Its time makes no sense any more", body = Problem),
    )
)]
pub(super) async fn resume(Given(shared): Given<Arc<Shared>>, id: Id) -> Answered {
    rest(&shared, number(id)?, false).await
}

async fn rest(shared: &Arc<Shared>, id: i64, paused: bool) -> Answered {
    match shared.order(Order::PauseSchedule { id, paused }).await? {
        Answer::Done => {
            let found = shared.read(move |reader| reader.schedule(id)).await?;
            Ok(Json(found.ok_or_else(|| no_such(id))?).into_response())
        }
        Answer::Conflict(why) => Err(Failure::conflict(why)),
        _ => Err(no_such(id)),
    }
}
