//! What all jobs do, as server-sent events, for who shows them: it is found out once, whoever listens.

use super::about::about;
use super::shapes::Problem;
use super::{Failure, Shared};
use crate::follower::{Follower, Told};
use crate::metrics::Metrics;
use crate::tokens::Role;
use axum::Extension;
use axum::extract::State as Given;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream};
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::{OwnedSemaphorePermit, watch};

/// So many events wait for a slow reader; then it is told so, and its stream ends.
pub(super) const AHEAD: usize = 1_024;
/// Streams at a time, of one job or of all: the rest of the connections is for questions.
pub(super) const STREAMS: usize = 200;
/// How often is looked what running jobs say.
const LOOK: Duration = Duration::from_secs(1);
/// What changes within that time is told together.
const GATHER: Duration = Duration::from_millis(100);

/// In bytes; a job that has more to say is only told of. So what waits for all slow readers together is bounded.
const LONG: usize = 16 << 10;

/// An event as everybody gets it.
pub(crate) type Line = (&'static str, Arc<str>);

/// A place for one more stream.
pub(super) fn place(shared: &Shared) -> Result<OwnedSemaphorePermit, Failure> {
    let place = Arc::clone(&shared.streams).try_acquire_owned();
    place.map_err(|_| {
        Failure::busy(format!(
            "{STREAMS} streams of events are followed already; try again later"
        ))
    })
}

/// Follows all jobs.
#[utoipa::path(
    get,
    path = "/v1/events",
    responses(
        (status = 200, description = "`hello` (as /v1/about) at first; `job` (as in lists) whenever one changes, `jobs` if that were too many or one is very long, `progress` \
            (`job`, `attempt`, `event`) about once a second for each that runs, `ended` (`job`, `attempt`, `how`, `last`), `limits` when somebody set some; \
            `dropped` to who reads too slowly, and the end", body = String, content_type = "text/event-stream"),
        (status = 503, description = "There are too many streams", body = Problem),
    )
)]
pub(super) async fn follow(
    Given(shared): Given<Arc<Shared>>,
    Extension(role): Extension<Role>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Failure> {
    let place = place(&shared)?;
    let receiver = shared.told.subscribe();
    let about = serde_json::to_string(&about(&shared, role)).unwrap_or_default();
    let hello = Event::default().event("hello").data(about);
    let first = stream::iter([Ok(hello)]);
    let rest = lines(receiver, place, Arc::clone(&shared.metrics));
    let events = futures_util::StreamExt::chain(first, rest);
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

/// What comes from now on. Who falls too far behind is told so, and that is the end; `held` is let go then.
fn lines<T: Send + 'static>(
    receiver: broadcast::Receiver<Line>,
    held: T,
    metrics: Arc<Metrics>,
) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(Some((receiver, held, metrics)), |open| async {
        let (mut receiver, held, metrics) = open?;
        match receiver.recv().await {
            Ok((name, data)) => {
                let event = Event::default().event(name).data(&*data);
                Some((Ok(event), Some((receiver, held, metrics))))
            }
            Err(RecvError::Lagged(missed)) => {
                metrics.stream_dropped();
                let text = "this stream was read too slowly; ask again for what is to be seen, and follow again";
                let data = json!({ "missed": missed, "message": text });
                let event = Event::default().event("dropped").data(data.to_string());
                Some((Ok(event), None))
            }
            Err(RecvError::Closed) => None,
        }
    })
}

/// Finds out what there is to tell, and tells it, for ever.
pub(super) async fn tell(
    mut follower: Follower,
    mut written: watch::Receiver<u64>,
    everybody: broadcast::Sender<Line>,
    metrics: Arc<Metrics>,
) {
    loop {
        written.borrow_and_update();
        let look = move || {
            let told = follower.look();
            (follower, told)
        };
        let Ok((back, told)) = tokio::task::spawn_blocking(look).await else {
            return;
        };
        follower = back;
        // What could not be read is told the next time.
        let failed = told.is_err();
        for told in told.unwrap_or_default() {
            metrics.count(&told);
            if everybody.receiver_count() > 0 {
                // Nobody may listen any more.
                let _ = everybody.send(line(&told));
            }
        }
        tokio::select! {
            changed = written.changed() => match changed {
                Ok(()) => tokio::time::sleep(GATHER).await,
                Err(_) => return,
            },
            () = tokio::time::sleep(LOOK), if failed || follower.is_busy() => {}
        }
    }
}

fn line(told: &Told) -> Line {
    let (name, data) = match told {
        Told::Job(job) => {
            let text = serde_json::to_string(job).unwrap_or_default();
            if text.len() <= LONG {
                return ("job", text.into());
            }
            ("jobs", json!({ "changed": 1 }))
        }
        Told::Many(changed) => ("jobs", json!({ "changed": changed })),
        Told::Progress {
            job,
            attempt,
            event,
        } => {
            let data = json!({ "job": job, "attempt": attempt, "event": event });
            ("progress", data)
        }
        Told::Ended {
            job,
            attempt,
            how,
            last,
        } => {
            let data = json!({ "job": job, "attempt": attempt, "how": how, "last": last });
            ("ended", data)
        }
        Told::Limits => ("limits", json!({})),
    };
    (name, data.to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt as _;

    #[test]
    fn a_slow_reader_is_told_so_and_that_is_the_end() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let everybody = broadcast::Sender::new(2);
        let (fast, slow) = (everybody.subscribe(), everybody.subscribe());
        let metrics = Arc::new(Metrics::new());
        let held = Arc::new(());
        let slow = lines(slow, Arc::clone(&held), Arc::clone(&metrics));
        let mut fast = std::pin::pin!(lines(fast, (), Arc::clone(&metrics)));
        runtime.block_on(async {
            for n in 0..5 {
                everybody.send(("job", n.to_string().into())).unwrap();
                let event = fast.next().await.unwrap().unwrap();
                assert!(format!("{event:?}").contains("job"), "{event:?}");
            }
            let told: Vec<_> = slow.collect().await;
            let told: Vec<_> = told.iter().map(|event| format!("{event:?}")).collect();
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(
                told[0].contains("dropped") && told[0].contains("missed"),
                "{told:?}"
            );
        });
        assert_eq!(Arc::strong_count(&held), 1);
        let page = metrics.page(&[], 0);
        assert!(
            page.contains("howdah_daemon_event_streams_dropped_total 1"),
            "{page}"
        );
    }
}
