//! Schedules: add, look, remove.

use super::jobs::{checked, is_json};
use super::openapi::{Problem, ScheduleId, Schedules};
use super::{Failure, Shared};
use crate::manager::{Answer, Order};
use crate::schedule::{Plan, ScheduleSpec};
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
pub(super) async fn remove(
    Given(shared): Given<Arc<Shared>>,
    id: Result<Path<i64>, PathRejection>,
) -> Answered {
    let Path(id) = id.map_err(|_| Failure::usage("a schedule is named by its number"))?;
    match shared.order(Order::Unschedule(id)).await? {
        Answer::Done => Ok(StatusCode::NO_CONTENT.into_response()),
        _ => Err(Failure::not_found(format!("there is no schedule {id}"))),
    }
}
