//! Jobs: submit, look, change.

#![expect(
    unused_qualifications,
    reason = "what describes the parameters is made by a macro"
)]

use super::shapes::{Jobs, Problem, Submitted};
use super::{Failure, Shared, watch_job};
use crate::job::{JobId, JobView, Spec, State};
use crate::order::{Answer, Order};
use crate::state::Wanted;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query, State as Given};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use utoipa::IntoParams;

type Answered = Result<Response, Failure>;
pub(super) type Id = Result<Path<JobId>, axum::extract::rejection::PathRejection>;

/// The number in the path.
pub(super) fn number(id: Id) -> Result<JobId, Failure> {
    id.map(|Path(id)| id)
        .map_err(|_| Failure::usage("a job is named by its number"))
}

/// Nothing that a form in a page can send.
pub(super) fn is_json(headers: &HeaderMap) -> Result<(), Failure> {
    let kind = headers.get(header::CONTENT_TYPE);
    // What follows (RFC 9110, 8.3.1) is of no influence: JSON is UTF-8.
    let kind = kind.and_then(|kind| kind.to_str().ok()?.split(';').next());
    if kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    let text = "what is wanted is described as application/json";
    Err(Failure::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "usage",
        text,
    ))
}

/// A job that makes sense, and the machines that it speaks with.
pub(super) async fn checked(shared: &Shared, spec: Spec) -> Result<(Vec<String>, Spec), Failure> {
    spec.check().map_err(Failure::usage)?;
    let grammar = Arc::clone(&shared.grammar);
    let bounds = Arc::clone(&shared.bounds);
    let check = move || {
        let meaning = grammar.check(&spec)?;
        bounds.check(&spec.directory, &meaning.paths)?;
        Ok::<_, String>((meaning.hosts, spec))
    };
    let checked = tokio::task::spawn_blocking(check).await;
    checked
        .map_err(|_| Failure::internal("the parser failed"))?
        .map_err(Failure::usage)
}

/// Submits a job.
#[utoipa::path(
    post,
    path = "/v1/jobs",
    request_body = Spec,
    responses(
        (status = 201, description = "It is on the disk", body = Submitted),
        (status = 200, description = "It was submitted before by the same name", body = Submitted),
        (status = 400, description = "It makes no sense, or names a program to run", body = Problem),
        (status = 409, description = "That name meant another job, or what it is to follow is not there", body = Problem),
        (status = 413, description = "The description is larger than 1 MiB"),
        (status = 415, description = "It is not application/json", body = Problem),
        (status = 503, description = "Not now: too many requests, or the database cannot be written", body = Problem),
    )
)]
pub(super) async fn submit(
    Given(shared): Given<Arc<Shared>>,
    headers: HeaderMap,
    body: Bytes,
) -> Answered {
    is_json(&headers)?;
    let spec: Spec = serde_json::from_slice(&body)
        .map_err(|e| Failure::usage(format!("no description of a job: {e}")))?;
    let (hosts, spec) = checked(&shared, spec).await?;
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
            Ok((status, Json(Submitted { id, new })).into_response())
        }
        Answer::Conflict(why) => Err(Failure::conflict(why)),
        _ => Err(Failure::internal("the daemon answered something else")),
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Page {
    /// Only those in that state, or in one of several: `waiting,held,running`.
    state: Option<String>,
    /// Only those with that label.
    label: Option<String>,
    /// Only those that speak with that machine.
    host: Option<String>,
    /// Only those in whose number, command line, directory, labels or reason each of these words is; of ASCII, capitals do not matter.
    text: Option<String>,
    /// Only older ones than that.
    #[param(value_type = Option<i64>)]
    before: Option<JobId>,
    /// So many at the most: 1 to 1000, otherwise 100. Where their descriptions have more than 1 MiB there are fewer.
    limit: Option<u32>,
}

impl Page {
    fn wanted(&self) -> Result<Wanted, Failure> {
        const LONGEST: usize = 256;
        const WORDS: usize = 8;
        let said = [&self.label, &self.host, &self.text].into_iter().flatten();
        let text = self.text.clone().unwrap_or_default();
        if said.clone().any(|text| text.len() > LONGEST) || text.split_whitespace().count() > WORDS
        {
            let text = format!("what is looked for has at most {LONGEST} bytes, and {WORDS} words");
            return Err(Failure::usage(text));
        }
        let state = |name: &str| {
            State::of_name(name).ok_or_else(|| {
                let known = State::ALL.map(State::name).join(", ");
                Failure::usage(format!("a job's state is one of {known}"))
            })
        };
        let states = self.state.iter().flat_map(|names| names.split(','));
        Ok(Wanted {
            states: states.map(state).collect::<Result<_, _>>()?,
            label: self.label.clone(),
            host: self.host.clone(),
            text,
        })
    }
}

pub(super) type Asked<T> = Result<Query<T>, axum::extract::rejection::QueryRejection>;

/// Lists jobs, the newest first.
#[utoipa::path(
    get,
    path = "/v1/jobs",
    params(Page),
    responses(
        (status = 200, description = "A page", body = Jobs),
        (status = 400, description = "The question makes no sense", body = Problem),
    )
)]
pub(super) async fn list(Given(shared): Given<Arc<Shared>>, page: Asked<Page>) -> Answered {
    const USUAL: u32 = 100;
    const MOST: u32 = 1_000;
    let Query(page) = page.map_err(|e| Failure::usage(e.body_text()))?;
    let limit = page.limit.unwrap_or(USUAL).clamp(1, MOST);
    let wanted = page.wanted()?;
    let (jobs, more) = shared
        .read(move |reader| reader.page(&wanted, page.before, limit))
        .await?;
    // Somebody who wants older ones asks for those before the last one here.
    let next = jobs.last().map(|job| job.id).filter(|_| more);
    Ok(Json(Jobs {
        jobs,
        next_before: next,
    })
    .into_response())
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wait {
    /// Answer when the job is over, or after that time: up to an hour; where many wait already, up to a second.
    wait_seconds: Option<u32>,
}

/// All about a job.
#[utoipa::path(
    get,
    path = "/v1/jobs/{id}",
    params(("id" = i64, Path, description = "Its number"), Wait),
    responses(
        (status = 200, description = "The job", body = JobView),
        (status = 404, description = "There is none", body = Problem),
    )
)]
pub(super) async fn show(Given(shared): Given<Arc<Shared>>, id: Id, wait: Asked<Wait>) -> Answered {
    const MOST: u32 = 3_600;
    const CROWDED: u32 = 1;
    let id = number(id)?;
    let Query(wait) = wait.map_err(|e| Failure::usage(e.body_text()))?;
    if let Some(seconds) = wait.wait_seconds {
        // Each holds a connection, and there are so many: whoever finds no place asks again soon, and others in between.
        let place = shared.waits.try_acquire();
        let most = if place.is_ok() { MOST } else { CROWDED };
        let over = watch_job::until_over(&shared, id);
        if let Ok(Err(failure)) =
            tokio::time::timeout(Duration::from_secs(seconds.min(most).into()), over).await
        {
            return Err(failure);
        }
    }
    let mut job = watch_job::job(&shared, id).await?;
    let runs = job.state == State::Running;
    job.pace = runs.then(|| shared.pace.of(id)).flatten();
    job.last = watch_job::last_event(&shared, &job).await;
    Ok(Json(job).into_response())
}

/// Ends it: what runs is asked to stop, and killed if it does not within 30 s.
#[utoipa::path(
    post,
    path = "/v1/jobs/{id}/cancel",
    params(("id" = i64, Path, description = "Its number")),
    responses(
        (status = 200, description = "The job as it is now", body = JobView),
        (status = 404, description = "There is none", body = Problem),
        (status = 409, description = "It is over, or running", body = Problem),
    )
)]
pub(super) async fn cancel(Given(shared): Given<Arc<Shared>>, id: Id) -> Answered {
    change(&shared, number(id)?, Order::Cancel).await
}

/// Lets it wait until it is released.
#[utoipa::path(
    post,
    path = "/v1/jobs/{id}/hold",
    params(("id" = i64, Path, description = "Its number")),
    responses(
        (status = 200, description = "The job as it is now", body = JobView),
        (status = 404, description = "There is none", body = Problem),
        (status = 409, description = "It is over, or running", body = Problem),
    )
)]
pub(super) async fn hold(Given(shared): Given<Arc<Shared>>, id: Id) -> Answered {
    change(&shared, number(id)?, Order::Hold).await
}

/// Lets it go, now if it waits for another attempt.
#[utoipa::path(
    post,
    path = "/v1/jobs/{id}/release",
    params(("id" = i64, Path, description = "Its number")),
    responses(
        (status = 200, description = "The job as it is now", body = JobView),
        (status = 404, description = "There is none", body = Problem),
        (status = 409, description = "It is over, or running", body = Problem),
    )
)]
pub(super) async fn release(Given(shared): Given<Arc<Shared>>, id: Id) -> Answered {
    change(&shared, number(id)?, Order::Release).await
}

async fn change(shared: &Arc<Shared>, id: JobId, order: fn(JobId) -> Order) -> Answered {
    match shared.order(order(id)).await? {
        Answer::Done => Ok(Json(watch_job::job(shared, id).await?).into_response()),
        Answer::NoSuchJob => Err(watch_job::no_such(id)),
        Answer::Conflict(why) => Err(Failure::conflict(why)),
        Answer::Submitted { .. } | Answer::Scheduled(_) | Answer::Watched(_) => {
            Err(Failure::internal("the daemon answered something else"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn json_is_json_whatever_follows_and_what_a_form_sends_is_none() {
        let is_taken = |kind: &'static [u8]| {
            let kind = HeaderValue::from_bytes(kind).unwrap();
            is_json(&HeaderMap::from_iter([(header::CONTENT_TYPE, kind)])).is_ok()
        };
        for kind in [
            &b"application/json"[..],
            b"application/json; charset=utf-8",
            b"Application/JSON;charset=UTF-8",
        ] {
            assert!(is_taken(kind));
        }
        for kind in [
            &b""[..],
            b"text/plain",
            b"text/plain; application/json",
            b"text/plain;charset=application/json",
            b"application/json, text/plain",
            b"application/jsonp",
            b"multipart/form-data; boundary=application/json",
            b"\xff",
        ] {
            assert!(!is_taken(kind));
        }
        assert!(is_json(&HeaderMap::new()).is_err());
    }
}
