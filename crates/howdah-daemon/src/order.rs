//! What is wanted of the one thread that decides and writes, and what it answers.

use crate::job::{Ended, JobId, Spec};
use crate::schedule::ScheduleSpec;
use crate::state::HostLimits;
use crate::watch::{Look, WatchSpec};
use std::path::PathBuf;
use tokio::sync::oneshot;

/// What somebody wants.
#[derive(Debug)]
pub(crate) enum Order {
    Submit {
        spec: Box<Spec>,
        hosts: Vec<String>,
    },
    Cancel(JobId),
    Hold(JobId),
    Release(JobId),
    Schedule {
        spec: Box<ScheduleSpec>,
        hosts: Vec<String>,
    },
    Unschedule(i64),
    /// What all running jobs share; none: what the daemon was started with.
    Limit(Option<String>),
    LimitJob {
        id: JobId,
        limit: Option<String>,
    },
    Host {
        name: String,
        limits: HostLimits,
    },
    /// Of a running job.
    Note {
        job: JobId,
        note: Option<String>,
    },
    PauseSchedule {
        id: i64,
        paused: bool,
    },
    Watch {
        spec: Box<WatchSpec>,
        hosts: Vec<String>,
    },
    Unwatch(i64),
    PauseWatch {
        id: i64,
        paused: bool,
    },
    /// What is wrong with it, or that nothing is.
    WatchNote {
        id: i64,
        note: Option<String>,
    },
    /// A job for files that are complete.
    WatchFound {
        id: i64,
        job: Box<Spec>,
        hosts: Vec<String>,
        files: Vec<(PathBuf, Look)>,
    },
    /// Files that are not there any more, and that are again.
    WatchGone {
        id: i64,
        gone: Vec<PathBuf>,
        back: Vec<PathBuf>,
    },
}

impl Order {
    pub(crate) fn is_about_schedules(&self) -> bool {
        matches!(
            self,
            Self::Schedule { .. } | Self::Unschedule(_) | Self::PauseSchedule { .. }
        )
    }
}

/// What became of it.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Answer {
    Submitted {
        id: JobId,
        new: bool,
    },
    Scheduled(i64),
    Watched(i64),
    Done,
    /// Nor such a schedule.
    NoSuchJob,
    Conflict(String),
}

#[derive(Debug)]
pub(crate) enum Message {
    Asked(Order, oneshot::Sender<Result<Answer, String>>),
    Ended(AttemptEnded),
    Stop,
}

#[derive(Clone, Debug)]
pub(crate) struct AttemptEnded {
    pub(crate) job: JobId,
    pub(crate) number: u32,
    pub(crate) ended: Ended,
}
