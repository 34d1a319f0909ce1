//! What requests and answers look like, beside what jobs, schedules, watches and limits are themselves.

use crate::job::{JobId, JobView};
use crate::limits::HostView;
use crate::schedule::ScheduleView;
use crate::watch::WatchView;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why a request was not met.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Problem {
    pub(super) error: Words,
}

/// In words.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Words {
    /// As `error.kind` of docs/json.md.
    pub(super) kind: String,
    /// For people.
    pub(super) message: String,
}

/// What was made of a submission.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Submitted {
    /// The job.
    pub(super) id: JobId,
    /// False if it was submitted before by the same name.
    pub(super) new: bool,
}

/// A page of jobs, the newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Jobs {
    /// They, without attempts, history and last event.
    pub(super) jobs: Vec<JobView>,
    /// What to give as `before` for the next page; null if there is none.
    pub(super) next_before: Option<JobId>,
}

/// A schedule that was added.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ScheduleId {
    /// Its number.
    pub(super) id: i64,
}

/// All schedules.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Schedules {
    /// They, the oldest first.
    pub(super) schedules: Vec<ScheduleView>,
}

/// Something that was added.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Made {
    /// Its number.
    pub(super) id: i64,
}

/// All watched directories.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Watches {
    /// They, the oldest first.
    pub(super) watches: Vec<WatchView>,
}

/// All machines.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Hosts {
    /// They, by name.
    pub(super) hosts: Vec<HostView>,
}

/// A daemon, and whoever asks it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct About {
    /// Of the program.
    pub(super) version: String,
    /// What whoever asks may do: `read`, `submit` or `admin`.
    pub(super) role: String,
    /// When this daemon began, in milliseconds since 1970.
    pub(super) started_ms: u64,
    /// The time there, in milliseconds since 1970.
    pub(super) now_ms: u64,
    /// The home of its user.
    pub(super) home: String,
    /// Directories that jobs may touch; none: every one.
    pub(super) allow: Vec<String>,
    /// How many jobs run at a time.
    pub(super) max_running: usize,
    /// How many of them with one machine.
    pub(super) max_per_host: usize,
}

/// What brings a browser in, once.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Ticket {
    /// The ticket: `#ticket=...` behind the address.
    pub(super) ticket: String,
    /// Where a browser comes in.
    pub(super) address: String,
}

/// A ticket that is used.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TicketUse {
    /// The ticket.
    pub(super) ticket: String,
}

/// What is shown from then on.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Token {
    /// A token of this daemon.
    pub(super) token: String,
}

/// A directory of the daemon's machine.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Directory {
    /// Where it is, with all links followed.
    pub(super) path: String,
    /// The one that it lies in; null if there is none, or jobs may not touch it.
    pub(super) parent: Option<String>,
    /// Directories first, then by name; at most 5000.
    pub(super) names: Vec<Entry>,
    /// Whether there are more.
    pub(super) more: bool,
}

/// A name in it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Entry {
    /// As far as it is text.
    pub(super) name: String,
    /// Whether it is; otherwise a job cannot name it.
    pub(super) is_text: bool,
    /// `file`, `directory`, `symlink`, `fifo`, `socket`, `character_device`, `block_device` or `unknown`.
    pub(super) kind: String,
    /// Its size.
    pub(super) bytes: u64,
    /// Milliseconds since 1970.
    pub(super) modified_ms: u64,
}

/// A measurement that is wanted.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BenchWanted {
    /// Which machine: `site` or `howdah://site`, with a directory if its disk is to be measured, too.
    pub(super) host: String,
    /// How long each direction is measured, about: 1 to 5, or 3.
    pub(super) seconds: Option<u64>,
}

/// A page of what a job has said.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Output {
    /// Of which attempt.
    pub(super) attempt: u32,
    /// The events (docs/json.md), in their order.
    #[schema(value_type = Vec<Object>)]
    pub(super) events: Vec<serde_json::Value>,
    /// What to give as `offset` for the next page.
    pub(super) next_offset: u64,
    /// Whether that was all, and there will be no more.
    pub(super) complete: bool,
}
