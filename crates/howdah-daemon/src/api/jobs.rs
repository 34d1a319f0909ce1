//! Jobs: submit, look, change.

use super::{Failure, Shared, watch_job};
use crate::job::{JobId, Spec, State};
use crate::manager::{Answer, Order};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query, State as Given};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

type Answered = Result<Response, Failure>;
pub(super) type Id = Result<Path<JobId>, axum::extract::rejection::PathRejection>;

/// The number in the path.
pub(super) fn number(id: Id) -> Result<JobId, Failure> {
    id.map(|Path(id)| id)
        .map_err(|_| Failure::usage("a job is named by its number"))
}

pub(super) async fn submit(
    Given(shared): Given<Arc<Shared>>,
    headers: HeaderMap,
    body: Bytes,
) -> Answered {
    // Nothing that a form in a page can send.
    let json_type = headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes() == b"application/json");
    if !json_type {
        let text = "a job is described as application/json";
        return Err(Failure::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "usage",
            text,
        ));
    }
    let spec: Spec = serde_json::from_slice(&body)
        .map_err(|e| Failure::usage(format!("no description of a job: {e}")))?;
    spec.check().map_err(Failure::usage)?;
    let grammar = Arc::clone(&shared.grammar);
    let checked =
        tokio::task::spawn_blocking(move || grammar.check(&spec).map(|hosts| (hosts, spec))).await;
    let (hosts, spec) = checked
        .map_err(|_| Failure::internal("the parser failed"))?
        .map_err(Failure::usage)?;
    match shared
        .order(Order::Submit {
            spec: Box::new(spec),
            hosts,
        })
        .await?
    {
        Answer::Submitted { id, new } => {
            let status = if new {
                StatusCode::CREATED
            } else {
                StatusCode::OK
            };
            Ok((status, Json(json!({ "id": id, "new": new }))).into_response())
        }
        Answer::Conflict(why) => Err(Failure::conflict(why)),
        Answer::Done | Answer::NoSuchJob => {
            Err(Failure::internal("the daemon answered something else"))
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    state: Option<State>,
    before: Option<JobId>,
    limit: Option<u32>,
}

type Asked<T> = Result<Query<T>, axum::extract::rejection::QueryRejection>;

pub(super) async fn list(Given(shared): Given<Arc<Shared>>, page: Asked<Page>) -> Answered {
    const USUAL: u32 = 100;
    const MOST: u32 = 1_000;
    let Query(page) = page.map_err(|e| Failure::usage(e.body_text()))?;
    let limit = page.limit.unwrap_or(USUAL).clamp(1, MOST);
    let jobs = shared
        .read(move |reader| reader.jobs(page.state, page.before, limit))
        .await?;
    // Somebody who wants older ones asks for those before the last one here.
    let full = jobs.len() == usize::try_from(limit).unwrap_or(usize::MAX);
    let next = jobs.last().map(|job| job.id).filter(|_| full);
    Ok(Json(json!({ "jobs": jobs, "next_before": next })).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wait {
    wait_seconds: Option<u32>,
}

pub(super) async fn show(Given(shared): Given<Arc<Shared>>, id: Id, wait: Asked<Wait>) -> Answered {
    const MOST: u32 = 3_600;
    let id = number(id)?;
    let Query(wait) = wait.map_err(|e| Failure::usage(e.body_text()))?;
    if let Some(seconds) = wait.wait_seconds {
        let over = watch_job::until_over(&shared, id);
        if let Ok(Err(failure)) =
            tokio::time::timeout(Duration::from_secs(seconds.min(MOST).into()), over).await
        {
            return Err(failure);
        }
    }
    let mut job = watch_job::job(&shared, id).await?;
    job.last = watch_job::last_event(&shared, &job).await;
    Ok(Json(job).into_response())
}

pub(super) async fn cancel(Given(shared): Given<Arc<Shared>>, id: Id) -> Answered {
    change(&shared, number(id)?, Order::Cancel).await
}

pub(super) async fn hold(Given(shared): Given<Arc<Shared>>, id: Id) -> Answered {
    change(&shared, number(id)?, Order::Hold).await
}

pub(super) async fn release(Given(shared): Given<Arc<Shared>>, id: Id) -> Answered {
    change(&shared, number(id)?, Order::Release).await
}

async fn change(shared: &Arc<Shared>, id: JobId, order: fn(JobId) -> Order) -> Answered {
    match shared.order(order(id)).await? {
        Answer::Done => Ok(Json(watch_job::job(shared, id).await?).into_response()),
        Answer::NoSuchJob => Err(watch_job::no_such(id)),
        Answer::Conflict(why) => Err(Failure::conflict(why)),
        Answer::Submitted { .. } => Err(Failure::internal("the daemon answered something else")),
    }
}
