//! Limits as they are set and told.

use crate::job::{JobId, JobPace};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A limit in words.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitSpec {
    /// A rate (`500mbit`), a timetable of rates, `none`, `pause`; `auto` is what was there before it was set.
    pub limit: String,
}

/// All limits in words have at most so many bytes.
pub(crate) const LONGEST: usize = 4_096;

/// What all jobs share, as it is told.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct LimitsView {
    /// What all running jobs share; null if there is no limit.
    pub limit: Option<String>,
    /// Whether it was set by the API; otherwise the daemon was started with it.
    pub set: bool,
    /// What it allows just now, in bits per second; null is everything.
    pub allowed_bps: Option<u64>,
    /// What running copies have of it.
    pub running: Vec<RunningView>,
}

/// A running copy and its share.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct RunningView {
    /// Which one.
    pub job: JobId,
    /// How it stands.
    pub pace: JobPace,
}

/// What is set for a machine.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// What all running jobs with it share: as of `LimitSpec`; null or `auto`: nothing of its own.
    #[serde(default)]
    pub limit: Option<String>,
    /// How many jobs run with it at a time; null: as for all machines.
    #[serde(default)]
    pub max_running: Option<u32>,
}

/// A machine that jobs speak with, as it is told.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct HostView {
    /// As jobs name it.
    pub name: String,
    /// What is set for it.
    pub set: HostSpec,
    /// What its limit allows just now, in bits per second; null is everything.
    pub allowed_bps: Option<u64>,
    /// Jobs that run with it.
    pub running: u32,
    /// Jobs that wait.
    pub waiting: u32,
    /// Jobs that are known, these included.
    pub jobs: u32,
    /// The newest of them.
    pub last_job: Option<JobId>,
    /// What else is known here.
    pub facts: HostFacts,
}

/// What this machine knows of another one.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct HostFacts {
    /// Fingerprints of its keys in `known_hosts`.
    pub keys: Vec<String>,
    /// The path to it as it was last measured.
    pub path: Option<PathFacts>,
}

/// A path as it was measured.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct PathFacts {
    /// The other end's address.
    pub address: String,
    /// In bits per second.
    pub capacity_bps: u64,
    /// Round trip, in seconds.
    pub rtt_seconds: f64,
    /// Share of packets that are lost.
    pub loss: f64,
    /// How long ago that was.
    pub age_seconds: u64,
}
