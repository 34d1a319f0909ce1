//! What an order changes.

use super::submitting::submit;
use crate::job::JobId;
use crate::order::{Answer, Order};
use crate::queue::{Change, Queue};
use crate::state::{StateError, Writing};

/// With the counters that the queue has of them.
pub(super) fn write_changes(
    writing: &Writing<'_>,
    queue: &Queue,
    changes: &[Change],
    now: u64,
) -> Result<(), StateError> {
    changes
        .iter()
        .try_for_each(|change| writing.change(change, queue.get(change.id), now))
}

/// Does what somebody wants; `to_end` gets jobs whose processes are to end.
pub(super) fn apply(
    writing: &Writing<'_>,
    queue: &mut Queue,
    order: &Order,
    now: u64,
    to_end: &mut Vec<JobId>,
) -> Result<Answer, StateError> {
    let (id, changes) = match order {
        Order::Submit { spec, hosts } => return submit(writing, queue, spec, hosts, now),
        Order::Cancel(id) => {
            let before = queue.get(*id).is_some_and(|entry| entry.cancelling);
            let changes = queue.cancel(*id);
            if !before && queue.get(*id).is_some_and(|entry| entry.cancelling) {
                writing.cancelling(*id, now)?;
                to_end.push(*id);
            }
            (id, changes)
        }
        Order::Hold(id) => (id, queue.hold(*id)),
        Order::Release(id) => (id, queue.release(*id)),
        Order::Schedule { spec, hosts } => return super::schedules::add(writing, spec, hosts, now),
        Order::Limit(limit) => {
            writing.set_total(limit.as_deref())?;
            return Ok(Answer::Done);
        }
        Order::LimitJob { id, limit } => return limit_job(writing, *id, limit.as_deref(), now),
        Order::Host { name, limits } => {
            writing.set_host(name, limits)?;
            let most = limits.running.and_then(|most| usize::try_from(most).ok());
            queue.limit_host(name, most);
            return Ok(Answer::Done);
        }
        Order::Note { job, note } => {
            writing.remark(*job, note.as_deref(), now)?;
            return Ok(Answer::Done);
        }
        Order::Watch { .. }
        | Order::Unwatch(_)
        | Order::PauseWatch { .. }
        | Order::WatchNote { .. }
        | Order::WatchFound { .. }
        | Order::WatchGone { .. } => return super::watches::apply(writing, queue, order, now),
        // The manager does it, who knows them.
        Order::PauseSchedule { .. } => return Ok(Answer::NoSuchJob),
        Order::Unschedule(id) => {
            return Ok(if writing.remove_schedule(*id)? {
                Answer::Done
            } else {
                Answer::NoSuchJob
            });
        }
    };
    match changes {
        Ok(changes) => {
            write_changes(writing, queue, &changes, now)?;
            Ok(Answer::Done)
        }
        Err(refused) => Ok(match writing.state_of(*id)? {
            None => Answer::NoSuchJob,
            Some(state) if state.is_final() => {
                Answer::Conflict(format!("job {id} is over: {state}"))
            }
            Some(_) => Answer::Conflict(refused.to_string()),
        }),
    }
}

/// In all its attempts from now on.
fn limit_job(
    writing: &Writing<'_>,
    id: JobId,
    limit: Option<&str>,
    now: u64,
) -> Result<Answer, StateError> {
    Ok(match writing.state_of(id)? {
        None => Answer::NoSuchJob,
        Some(state) if state.is_final() => Answer::Conflict(format!("job {id} is over: {state}")),
        Some(_) => {
            writing.limit_job(id, limit, now)?;
            Answer::Done
        }
    })
}
