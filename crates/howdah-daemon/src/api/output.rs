//! What a job has said: the events of its processes, a page at a time, those of some kinds only. Of a dry run that is the list of
//! what would be done.

#![expect(
    unused_qualifications,
    reason = "what describes the parameters is made by a macro"
)]

use super::jobs::{Asked, Id, number};
use super::shapes::{Output, Problem};
use super::{Failure, Shared, watch_job};
use crate::lines::lines_from;
use axum::Json;
use axum::extract::{Query, State as Given};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::Value;
use std::io;
use std::path::Path;
use std::sync::Arc;
use utoipa::IntoParams;

/// Read for one page, at the most.
const BYTES: u64 = 8 << 20;
/// Told in one page, at the most, but for one part that is read at once.
const TOLD: usize = 1 << 20;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Part {
    /// Only events of these kinds: `change,error,summary`.
    event: Option<String>,
    /// Of that attempt; otherwise of the last one.
    attempt: Option<u32>,
    /// From there on: `next_offset` of the page before.
    offset: Option<u64>,
    /// So many at the most: 1 to 5000, otherwise 1000.
    limit: Option<u32>,
}

/// What its processes have said (docs/json.md), from the beginning: of a dry run, what would be done.
#[utoipa::path(
    get,
    path = "/v1/jobs/{id}/output",
    params(("id" = i64, Path, description = "Its number"), Part),
    responses(
        (status = 200, description = "A page of events", body = Output),
        (status = 400, description = "The question makes no sense", body = Problem),
        (status = 404, description = "There is no such job, or no such attempt", body = Problem),
    )
)]
pub(super) async fn show(
    Given(shared): Given<Arc<Shared>>,
    id: Id,
    part: Asked<Part>,
) -> Result<Response, Failure> {
    const USUAL: u32 = 1_000;
    const MOST: u32 = 5_000;
    let id = number(id)?;
    let Query(part) = part.map_err(|e| Failure::usage(e.body_text()))?;
    let kinds = kinds(part.event.as_deref())?;
    let job = watch_job::job(&shared, id).await?;
    let attempt = match part.attempt {
        Some(number) => job.attempts.iter().find(|a| a.number == number),
        None => job.attempts.last(),
    };
    let Some(attempt) = attempt else {
        return Err(Failure::not_found(match part.attempt {
            Some(number) => format!("job {id} has no attempt {number}"),
            None => format!("job {id} has not begun: nothing was said yet"),
        }));
    };
    let path = watch_job::events_file(&shared, id, attempt.number);
    let (offset, limit) = (
        part.offset.unwrap_or(0),
        part.limit.unwrap_or(USUAL).clamp(1, MOST),
    );
    let read = move || page(&path, offset, limit as usize, &kinds);
    let (events, next_offset, at_end) = tokio::task::spawn_blocking(read)
        .await
        .map_err(|_| Failure::internal("reading failed"))?
        .map_err(|error| Failure::internal(error.to_string()))?;
    Ok(Json(Output {
        attempt: attempt.number,
        events,
        next_offset,
        complete: at_end && attempt.ended.is_some(),
    })
    .into_response())
}

fn kinds(asked: Option<&str>) -> Result<Vec<String>, Failure> {
    const MOST: usize = 16;
    let kinds: Vec<_> = asked.into_iter().flat_map(|text| text.split(',')).collect();
    let is_name = |name: &&str| {
        (1..=32).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
    };
    if kinds.len() > MOST || !kinds.iter().all(is_name) {
        return Err(Failure::usage(
            "'event' names kinds of events: change,error,summary",
        ));
    }
    Ok(kinds.into_iter().map(str::to_owned).collect())
}

/// Events, where the next ones begin, and whether there is nothing more.
fn page(
    path: &Path,
    start: u64,
    limit: usize,
    kinds: &[String],
) -> io::Result<(Vec<Value>, u64, bool)> {
    let (mut offset, mut events, mut told_bytes) = (start, Vec::new(), 0);
    loop {
        let (lines, next) = lines_from(path, offset)?;
        if next == offset {
            return Ok((events, offset, true));
        }
        let mut at = offset;
        let told: u64 = lines.iter().map(|line| line.len() as u64 + 1).sum();
        // Otherwise there is something in it that is no text, and it is taken as a whole: it is small.
        let is_text = told == next - offset;
        for line in &lines {
            at += line.len() as u64 + 1;
            let event = serde_json::from_str::<Value>(line).ok();
            let wanted = event.filter(|event| {
                let name = event["event"].as_str().unwrap_or_default();
                kinds.is_empty() || kinds.iter().any(|kind| kind == name)
            });
            told_bytes += wanted.as_ref().map_or(0, |_| line.len());
            events.extend(wanted);
            if is_text && events.len() == limit && at < next {
                return Ok((events, at, false));
            }
        }
        offset = next;
        if events.len() >= limit || told_bytes >= TOLD || offset - start >= BYTES {
            return Ok((events, offset, false));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    #[test]
    fn pages_have_every_event_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events");
        let mut text = "{\"event\":\"start\"}\n".to_owned();
        for n in 0..7_000 {
            let _ = writeln!(text, "{{\"event\":\"change\",\"path\":\"ä{n}\"}}");
        }
        text.push_str("{\"event\":\"summary\"}\n{\"event\":\"ha");
        std::fs::write(&path, &text).unwrap();
        let kinds = ["change".to_owned()];
        let (mut offset, mut found) = (0, Vec::new());
        loop {
            let (events, next, at_end) = page(&path, offset, 999, &kinds).unwrap();
            assert!(events.len() <= 999);
            found.extend(events);
            offset = next;
            if at_end {
                break;
            }
        }
        let paths: Vec<_> = found.iter().map(|e| e["path"].as_str().unwrap()).collect();
        let wanted: Vec<_> = (0..7_000).map(|n| format!("ä{n}")).collect();
        assert_eq!(paths, wanted);
        let (all, _, at_end) = page(&path, 0, 10_000, &[]).unwrap();
        assert_eq!((all.len(), at_end), (7_002, true));
        // Long ones are fewer.
        let long = format!(
            "{{\"event\":\"error\",\"text\":\"{}\"}}\n",
            "x".repeat(50_000)
        );
        std::fs::write(&path, long.repeat(100)).unwrap();
        let (mut offset, mut count) = (0, 0);
        loop {
            let (events, next, at_end) = page(&path, offset, 5_000, &[]).unwrap();
            assert!(events.len() * 50_000 < TOLD + (1 << 18), "{}", events.len());
            (offset, count) = (next, count + events.len());
            if at_end {
                break;
            }
        }
        assert_eq!(count, 100);
        let gone = page(&dir.path().join("nothing"), 5, 10, &[]).unwrap();
        assert_eq!(gone, (Vec::new(), 5, true));
        assert!(super::kinds(Some("change,../x")).is_err());
        assert!(super::kinds(Some("")).is_err());
    }
}
