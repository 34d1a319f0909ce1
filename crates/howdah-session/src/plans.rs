//! What is asked about plans whose file comes to the machine that is asked, and the leases that are put.
//! docs/protocol.md section 16.8 specifies it.

use crate::PathBytes;
use crate::resume::SourceIdentity;
use serde::{Deserialize, Serialize};

/// What is asked about the plan of one file that comes to the machine which is asked. `path` is what the file becomes, `plan` the text of its
/// plan, which says all else.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub enum PlanRequest {
    /// What a file of that name becomes that is to go to `path`: below it, if that is a directory.
    Place {
        /// A file or directory.
        path: PathBytes,
        /// The last part of the source's name.
        name: PathBytes,
    },
    /// Make its room, with the space that the file takes.
    Make {
        /// What the file becomes.
        path: PathBytes,
        /// Its plan.
        plan: String,
    },
    /// What was moved, of all leases or of one.
    Look {
        /// What the file becomes.
        path: PathBytes,
        /// Its plan.
        plan: String,
        /// Of which lease; none: of all.
        lease: Option<u64>,
    },
    /// Give the file its name, if all of it is there.
    Finish {
        /// What the file becomes.
        path: PathBytes,
        /// Its plan.
        plan: String,
    },
    /// Remove its room.
    Forget {
        /// What the file becomes.
        path: PathBytes,
        /// Its plan.
        plan: String,
    },
}

/// The answers.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub enum PlanAnswer {
    /// To [`PlanRequest::Place`].
    Place(PathBytes),
    /// More of the records that [`PlanRequest::Look`] asks for.
    Records(Vec<PlanRecord>),
    /// The last of them.
    Looked {
        /// All that came, once it is the answer.
        records: Vec<PlanRecord>,
        /// The highest epoch in which that one lease was begun.
        highest: u64,
        /// Nobody has begun to clear it up.
        has_plan: bool,
    },
    /// To [`PlanRequest::Finish`]: it has its name, and that BLAKE3, in hexadecimal.
    Finished(String),
    /// Leases are missing: how many, and the first.
    Missing(u64, u64),
}

impl Eq for PlanAnswer {}

/// A lease that was moved.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct PlanRecord {
    /// Which.
    pub lease: u64,
    /// In which run.
    pub epoch: u64,
    /// How long it is.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
}

impl PlanRequest {
    /// The name that it is about.
    pub fn path(&self) -> &PathBytes {
        match self {
            Self::Place { path, .. }
            | Self::Make { path, .. }
            | Self::Look { path, .. }
            | Self::Finish { path, .. }
            | Self::Forget { path, .. } => path,
        }
    }

    /// What is written down of a change.
    pub fn deed(&self) -> Option<&'static str> {
        match self {
            Self::Place { .. } | Self::Look { .. } => None,
            Self::Make { .. } => Some("plan"),
            Self::Finish { .. } => Some("finish the plan of"),
            Self::Forget { .. } => Some("forget the plan of"),
        }
    }

    /// What it costs besides its path.
    pub fn cost(&self) -> usize {
        match self {
            Self::Place { name, .. } => name.as_bytes().len(),
            Self::Make { plan, .. }
            | Self::Look { plan, .. }
            | Self::Finish { plan, .. }
            | Self::Forget { plan, .. } => plan.len(),
        }
    }
}

/// A client puts one lease: the bytes of its range come as those of the whole file in `object`, of which all else is held.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct LeasePut {
    /// In which it comes.
    pub object: u64,
    /// What the file becomes.
    pub path: PathBytes,
    /// The text of its plan.
    pub plan: String,
    /// Which.
    pub lease: u64,
    /// In which run.
    pub epoch: u64,
    /// Which version the client reads.
    pub source: SourceIdentity,
}
