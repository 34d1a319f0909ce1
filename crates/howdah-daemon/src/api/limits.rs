//! Limits that running jobs share, and machines: look, set.

use super::jobs::{Id, is_json, number};
use super::shapes::{Hosts, Problem};
use super::{Failure, Shared, watch_job};
use crate::job::{JobId, JobView};
use crate::limits::{HostSpec, HostView, LONGEST, LimitSpec, LimitsView, RunningView};
use crate::order::{Answer, Order};
use crate::state::{HostLimits, Reader};
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State as Given};
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use std::collections::BTreeSet;
use std::sync::Arc;

type Answered = Result<Response, Failure>;

/// What was set before it was set here.
const AUTO: &str = "auto";

/// What a limit in words means; none for `auto`.
fn words(shared: &Shared, limit: &str) -> Result<Option<String>, Failure> {
    if limit == AUTO {
        return Ok(None);
    }
    if limit.len() > LONGEST {
        let text = format!("a limit is described in at most {LONGEST} bytes");
        return Err(Failure::usage(text));
    }
    shared.outside.allowed(limit).map_err(Failure::usage)?;
    Ok(Some(limit.to_owned()))
}

fn asked(headers: &HeaderMap, body: &Bytes) -> Result<LimitSpec, Failure> {
    is_json(headers)?;
    serde_json::from_slice(body)
        .map_err(|e| Failure::usage(format!("no description of a limit: {e}")))
}

/// What all running jobs share.
#[utoipa::path(
    get,
    path = "/v1/limits",
    responses((status = 200, description = "The limit, and who has what of it", body = LimitsView))
)]
pub(super) async fn show(Given(shared): Given<Arc<Shared>>) -> Answered {
    let set = shared.read(Reader::limits).await?.total;
    let limit = set.clone().or_else(|| shared.limit.clone());
    let allowed = limit.as_ref().map(|limit| shared.outside.allowed(limit));
    // Who is over may be known for some seconds more to the one who limits.
    let at_work = shared.read(Reader::at_work).await?;
    let at_work: BTreeSet<_> = at_work.iter().map(|found| found.job).collect();
    let running = shared.pace.all().into_iter();
    let running = running.filter(|(job, _)| at_work.contains(job));
    Ok(Json(LimitsView {
        set: set.is_some(),
        allowed_bps: allowed.and_then(Result::ok).flatten(),
        limit,
        running: running
            .map(|(job, pace)| RunningView { job, pace })
            .collect(),
    })
    .into_response())
}

/// Sets what all running jobs share, at once and until it is set again.
#[utoipa::path(
    put,
    path = "/v1/limits",
    request_body = LimitSpec,
    responses(
        (status = 200, description = "As it is now", body = LimitsView),
        (status = 400, description = "The limit makes no sense", body = Problem),
        (status = 415, description = "It is not application/json", body = Problem),
        (status = 503, description = "Not now", body = Problem),
    )
)]
pub(super) async fn set(
    Given(shared): Given<Arc<Shared>>,
    headers: HeaderMap,
    body: Bytes,
) -> Answered {
    let spec = asked(&headers, &body)?;
    let limit = words(&shared, &spec.limit)?;
    shared.order(Order::Limit(limit)).await?;
    shared.pace.set(&shared.read(Reader::limits).await?);
    show(Given(shared)).await
}

/// Limits a job, at once and in all its attempts.
#[utoipa::path(
    post,
    path = "/v1/jobs/{id}/limit",
    params(("id" = i64, Path, description = "Its number")),
    request_body = LimitSpec,
    responses(
        (status = 200, description = "The job as it is now", body = JobView),
        (status = 400, description = "The limit makes no sense", body = Problem),
        (status = 404, description = "There is none", body = Problem),
        (status = 409, description = "It is over", body = Problem),
        (status = 415, description = "It is not application/json", body = Problem),
    )
)]
pub(super) async fn limit_job(
    Given(shared): Given<Arc<Shared>>,
    id: Id,
    headers: HeaderMap,
    body: Bytes,
) -> Answered {
    let id: JobId = number(id)?;
    let spec = asked(&headers, &body)?;
    let limit = words(&shared, &spec.limit)?;
    match shared.order(Order::LimitJob { id, limit }).await? {
        Answer::Done => {
            shared.pace.poke();
            Ok(Json::<JobView>(watch_job::job(&shared, id).await?).into_response())
        }
        Answer::Conflict(why) => Err(Failure::conflict(why)),
        _ => Err(watch_job::no_such(id)),
    }
}

/// Machines that jobs speak with, and those that something is set for.
#[utoipa::path(
    get,
    path = "/v1/hosts",
    responses((status = 200, description = "All of them, by name", body = Hosts))
)]
pub(super) async fn hosts(Given(shared): Given<Arc<Shared>>) -> Answered {
    let hosts = all_hosts(&shared).await?;
    Ok(Json(Hosts { hosts }).into_response())
}

async fn all_hosts(shared: &Arc<Shared>) -> Result<Vec<HostView>, Failure> {
    let outside = Arc::clone(&shared.outside);
    let mut hosts = shared.read(Reader::hosts).await?;
    let look = move || {
        let names: Vec<_> = hosts.iter().map(|host| host.name.clone()).collect();
        for (host, facts) in hosts.iter_mut().zip(outside.hosts(&names)) {
            host.facts = facts;
            let limit = host.set.limit.as_ref();
            let allowed = limit.map(|limit| outside.allowed(limit));
            host.allowed_bps = allowed.and_then(Result::ok).flatten();
        }
        hosts
    };
    tokio::task::spawn_blocking(look)
        .await
        .map_err(|_| Failure::internal("looking at the machines failed"))
}

/// Sets what holds for a machine, at once.
#[utoipa::path(
    put,
    path = "/v1/hosts/{name}",
    params(("name" = String, Path, description = "As jobs name it")),
    request_body = HostSpec,
    responses(
        (status = 200, description = "All machines as they are now", body = Hosts),
        (status = 400, description = "It makes no sense", body = Problem),
        (status = 415, description = "It is not application/json", body = Problem),
        (status = 503, description = "Not now", body = Problem),
    )
)]
pub(super) async fn set_host(
    Given(shared): Given<Arc<Shared>>,
    name: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Bytes,
) -> Answered {
    const LONGEST_NAME: usize = 255;
    is_json(&headers)?;
    let Path(name) = name.map_err(|_| Failure::usage("a machine is named by its name"))?;
    let name = name.to_ascii_lowercase();
    let odd = |c: char| c.is_control() || c.is_whitespace() || c == '/';
    if name.is_empty() || name.len() > LONGEST_NAME || name.contains(odd) {
        return Err(Failure::usage("that is no name of a machine"));
    }
    let spec: HostSpec = serde_json::from_slice(&body)
        .map_err(|e| Failure::usage(format!("no description of a machine's limits: {e}")))?;
    if spec.max_running == Some(0) {
        return Err(Failure::usage(
            "max_running is at least 1; to let nothing run, the limit is 'pause'",
        ));
    }
    let rate = spec.limit.as_ref().map(|limit| words(&shared, limit));
    let limits = HostLimits {
        rate: rate.transpose()?.flatten(),
        running: spec.max_running,
    };
    shared.order(Order::Host { name, limits }).await?;
    shared.pace.set(&shared.read(Reader::limits).await?);
    hosts(Given(shared)).await
}
