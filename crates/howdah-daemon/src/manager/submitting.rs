//! A new job.

use crate::job::{Spec, State};
use crate::order::Answer;
use crate::queue::{Entry, Queue};
use crate::state::{StateError, Writing};

/// A new job, or that of the same name.
pub(super) fn submit(
    writing: &Writing<'_>,
    queue: &mut Queue,
    spec: &Spec,
    hosts: &[String],
    now: u64,
) -> Result<Answer, StateError> {
    if let Some(name) = &spec.submission
        && let Some((id, earlier)) = writing.submitted(name)?
    {
        return Ok(if earlier.means(spec) {
            Answer::Submitted { id, new: false }
        } else {
            Answer::Conflict(format!(
                "'{name}' was submitted before, as job {id}, and meant something else"
            ))
        });
    }
    for other in &spec.after {
        match writing.state_of(*other)? {
            None => {
                return Ok(Answer::Conflict(format!(
                    "there is no job {other} to follow"
                )));
            }
            Some(state @ (State::Failed | State::Cancelled)) => {
                return Ok(Answer::Conflict(format!(
                    "job {other} is {state}: nothing can follow it"
                )));
            }
            Some(_) => {}
        }
    }
    let id = writing.insert_job(spec, hosts, now)?;
    queue.insert(Entry {
        id,
        priority: spec.priority,
        hosts: hosts.to_vec(),
        after: spec.after.iter().copied().collect(),
        retries: spec.retries,
        failures: 0,
        false_starts: 0,
        not_before: 0,
        cancelling: false,
        deadline: spec.deadline_ms,
        overdue: false,
        state: if spec.hold {
            State::Held
        } else {
            State::Waiting
        },
    });
    Ok(Answer::Submitted { id, new: true })
}
