//! What a job does, as server-sent events: `state` whenever that changes, and `event` for each line that its process writes.

use super::jobs::{Id, number};
use super::shapes::Problem;
use super::{Failure, Shared, all_events, watch_job};
use crate::job::{JobId, JobView};
use crate::lines::lines_from;
use axum::extract::State as Given;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// How often is looked whether its process has written more.
const LOOK: Duration = Duration::from_millis(200);
/// So many wait for a slow reader; then its stream waits, and nothing else.
const AHEAD: usize = 64;

/// Follows a job to its end, as server-sent events.
#[utoipa::path(
    get,
    path = "/v1/jobs/{id}/events",
    params(("id" = i64, Path, description = "Its number")),
    responses(
        (status = 200, description = "`state` (the job) whenever that changes, `event` for each line that its processes write", body = String, content_type = "text/event-stream"),
        (status = 404, description = "There is none", body = Problem),
        (status = 503, description = "There are too many streams", body = Problem),
    )
)]
pub(super) async fn follow(
    Given(shared): Given<Arc<Shared>>,
    id: Id,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Failure> {
    let id = number(id)?;
    watch_job::job(&shared, id).await?;
    let place = all_events::place(&shared)?;
    let (sender, receiver) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        // Ends when nobody listens any more, or the job is over.
        let _ = tell(&shared, id, &sender).await;
    });
    let events = stream::unfold((receiver, place), |(mut receiver, place)| async {
        Some((Ok(receiver.recv().await?), (receiver, place)))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

async fn tell(shared: &Arc<Shared>, id: JobId, sender: &mpsc::Sender<Event>) -> Option<()> {
    let mut written = shared.written.clone();
    let mut told = None;
    let (mut attempt, mut offset) = (0, 0);
    loop {
        written.borrow_and_update();
        let job = watch_job::job(shared, id).await.ok()?;
        let state = (job.state, job.cancelling, job.attempts.len());
        if told != Some(state) && !job.state.is_final() {
            sender.send(state_event(&job)).await.ok()?;
        }
        told = Some(state);
        while let Some(current) = job.attempts.get(attempt) {
            let path = watch_job::events_file(shared, id, current.number);
            let (lines, next) = tokio::task::spawn_blocking(move || lines_from(&path, offset))
                .await
                .ok()?
                .ok()?;
            let more = next > offset;
            offset = next;
            for line in lines {
                let at = format!("{}:{next}", current.number);
                sender
                    .send(Event::default().event("event").id(at).data(line))
                    .await
                    .ok()?;
            }
            if more {
                continue;
            }
            if current.ended.is_none() {
                break;
            }
            (attempt, offset) = (attempt + 1, 0);
        }
        if job.state.is_final() {
            return sender.send(state_event(&job)).await.ok();
        }
        tokio::select! {
            changed = written.changed() => changed.ok()?,
            () = tokio::time::sleep(LOOK), if attempt < job.attempts.len() => {}
            () = sender.closed() => return None,
        }
    }
}

fn state_event(job: &JobView) -> Event {
    let text = serde_json::to_string(job).unwrap_or_default();
    Event::default().event("state").data(text)
}
