//! Jobs whose time comes. A job and the next time of its schedule are written in one, so none is lost and none comes twice.

use super::submitting::submit;
use crate::job::of_schedule;
use crate::order::Answer;
use crate::queue::Queue;
use crate::schedule::{Decision, Plan, ScheduleSpec, decide};
use crate::state::{Scheduled, StateError, Writing};

/// When the next one comes.
pub(super) fn first(schedules: &[Scheduled]) -> Option<u64> {
    schedules
        .iter()
        .filter_map(|schedule| schedule.view.next_ms)
        .min()
}

/// A new one.
pub(super) fn add(
    writing: &Writing<'_>,
    spec: &ScheduleSpec,
    hosts: &[String],
    now: u64,
) -> Result<Answer, StateError> {
    Ok(match Plan::new(spec).map(|plan| plan.next(now)) {
        Ok(None) => Answer::Conflict(format!(
            "'{}' never comes: its fields are minute, hour, day of the month, month, day of the week",
            spec.cron
        )),
        Ok(next) => Answer::Scheduled(writing.insert_schedule(spec, hosts, next)?),
        Err(why) => Answer::Conflict(why),
    })
}

/// Lets one rest, or go on with the first time that comes from now on.
pub(super) fn pause(
    writing: &Writing<'_>,
    schedules: &mut [Scheduled],
    id: i64,
    paused: bool,
    now: u64,
) -> Result<Answer, StateError> {
    // One that was added a moment ago is not among them, but written.
    let Some(mut view) = writing.schedule(id)? else {
        return Ok(Answer::NoSuchJob);
    };
    if view.paused == paused {
        return Ok(Answer::Done);
    }
    let next = match Plan::new(&view.spec) {
        _ if paused => None,
        Ok(plan) => plan.next(now),
        Err(why) => return Ok(Answer::Conflict(why)),
    };
    writing.pause_schedule(id, paused, next)?;
    (view.paused, view.next_ms, view.note) = (paused, next, None);
    if let Some(known) = schedules.iter_mut().find(|known| known.view.id == id) {
        known.view = view;
    }
    Ok(Answer::Done)
}

/// The clock was set back: times come that are earlier than those that were planned. One that has come before, and whose job was submitted
/// then, is known by the name of that job, and submits none. Or there was none to plan, as the time zone was not known: it may be now.
pub(super) fn plan_again(
    writing: &Writing<'_>,
    schedules: &mut [Scheduled],
    now: u64,
) -> Result<(), StateError> {
    for Scheduled { view, .. } in schedules {
        let plan = Plan::new(&view.spec);
        let (false, Ok(plan)) = (view.paused, plan) else {
            continue;
        };
        let is_news = |next: &u64| view.next_ms.is_none_or(|planned| *next < planned);
        if let Some(next) = plan.next(now).filter(is_news) {
            writing.schedule_came(view.id, None, view.note.as_deref(), Some(next))?;
            view.next_ms = Some(next);
        }
    }
    Ok(())
}

/// Whether one has no next time that should have one.
pub(super) fn is_lost(schedules: &[Scheduled]) -> bool {
    let mut views = schedules.iter().map(|schedule| &schedule.view);
    views.any(|view| view.next_ms.is_none() && !view.paused)
}

/// Does what has come.
pub(super) fn run(
    writing: &Writing<'_>,
    queue: &mut Queue,
    schedules: &mut [Scheduled],
    now: u64,
) -> Result<(), StateError> {
    for Scheduled { view, hosts } in schedules {
        let Some(due) = view.next_ms.filter(|when| *when <= now) else {
            continue;
        };
        let busy = view.last_job.is_some_and(|job| queue.get(job).is_some());
        let decided = Plan::new(&view.spec).and_then(|plan| {
            let decision = decide(&view.spec, &plan, due, now, busy);
            Ok((decision, plan.job(&view.spec, now)?))
        });
        let (job, note, next) = match decided {
            Ok((Decision { run: Ok(()), next }, mut spec)) => {
                spec.submission = Some(of_schedule(view.id, due));
                match submit(writing, queue, &spec, hosts, now)? {
                    Answer::Submitted { id, .. } => (Some(id), None, next),
                    Answer::Conflict(why) => (None, Some(why), next),
                    _ => (None, None, next),
                }
            }
            Ok((
                Decision {
                    run: Err(why),
                    next,
                },
                _,
            )) => (None, Some(why.to_owned()), next),
            // A time zone that is not known any more.
            Err(why) => (None, Some(why), None),
        };
        writing.schedule_came(view.id, job, note.as_deref(), next)?;
        view.last_job = job.or(view.last_job);
        view.note = note;
        view.next_ms = next;
    }
    Ok(())
}
