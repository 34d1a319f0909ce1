//! Watched directories. That files are part of a job is written with the job: none is copied twice, and none is forgotten.

use super::submitting::submit;
use crate::job::State;
use crate::order::{Answer, Order};
use crate::queue::Queue;
use crate::state::{StateError, Writing};

/// Does what somebody wants with one.
pub(super) fn apply(
    writing: &Writing<'_>,
    queue: &mut Queue,
    order: &Order,
    now: u64,
) -> Result<Answer, StateError> {
    let known = |is: bool| if is { Answer::Done } else { Answer::NoSuchJob };
    Ok(match order {
        Order::Watch { spec, hosts } => Answer::Watched(writing.insert_watch(spec, hosts)?),
        Order::Unwatch(id) => known(writing.remove_watch(*id)?),
        Order::PauseWatch { id, paused } => known(writing.pause_watch(*id, *paused)?),
        Order::WatchNote { id, note } => {
            writing.note_watch(*id, note.as_deref())?;
            Answer::Done
        }
        Order::WatchGone { id, gone, back } => {
            writing.watch_gone(*id, gone, back, now)?;
            Answer::Done
        }
        Order::WatchFound {
            id,
            job,
            hosts,
            files,
        } => {
            // It may have been removed while somebody looked.
            let Some(watch) = writing.watch(*id)?.filter(|watch| !watch.view.paused) else {
                return Ok(Answer::NoSuchJob);
            };
            let last = watch.view.last_job.map(|job| writing.state_of(job));
            let failures = match last.transpose()?.flatten() {
                Some(State::Failed) => watch.failures + 1,
                _ => 0,
            };
            let answer = submit(writing, queue, job, hosts, now)?;
            if let Answer::Submitted { id: job, new: true } = answer {
                writing.watch_job(*id, job, failures, files)?;
            }
            answer
        }
        _ => Answer::NoSuchJob,
    })
}
