//! A job as it is now, and its events as far as they are written.

use super::{Failure, Shared};
use crate::job::{JobId, JobView};
use crate::lines::lines_from;
use crate::manager::attempt_dir;
use crate::process::record::EVENTS;
use std::path::PathBuf;
use std::sync::Arc;

/// So many wait for the end of a job at a time: together with the [streams](super::all_events::STREAMS) they leave connections for questions.
pub(super) const WAITS: usize = 32;

pub(super) fn no_such(id: JobId) -> Failure {
    Failure::not_found(format!("there is no job {id}"))
}

pub(super) async fn job(shared: &Arc<Shared>, id: JobId) -> Result<JobView, Failure> {
    shared
        .read(move |reader| reader.job(id))
        .await?
        .ok_or_else(|| no_such(id))
}

/// Waits for its end.
pub(super) async fn until_over(shared: &Arc<Shared>, id: JobId) -> Result<(), Failure> {
    let mut written = shared.written.clone();
    loop {
        // What is written from here on wakes us.
        written.borrow_and_update();
        if job(shared, id).await?.state.is_final() || written.changed().await.is_err() {
            return Ok(());
        }
    }
}

/// Where an attempt's events are.
pub(super) fn events_file(shared: &Shared, id: JobId, number: u32) -> PathBuf {
    attempt_dir(&shared.attempts, id, number).join(EVENTS)
}

/// The last one of the last attempt.
pub(super) async fn last_event(shared: &Arc<Shared>, job: &JobView) -> Option<serde_json::Value> {
    const TAIL: u64 = 1 << 16;
    let path = events_file(shared, job.id, job.attempts.last()?.number);
    let read = move || {
        let length = path.metadata().ok()?.len();
        let (lines, _) = lines_from(&path, length.saturating_sub(TAIL)).ok()?;
        lines
            .iter()
            .rev()
            .find_map(|line| serde_json::from_str(line).ok())
    };
    tokio::task::spawn_blocking(read).await.ok()?
}
