//! What is asked about plans whose file comes to the machine that is asked, and the leases that are put.
//! docs/protocol.md section 16.8 specifies it.

use crate::PathBytes;
use crate::resume::SourceIdentity;
use howdah_core::ObjectId;
use serde::{Deserialize, Serialize};

/// What is asked about the plan of a file or a tree that comes to the machine which is asked. `path` is what that becomes, `plan` the text of
/// its plan, which says all else.
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
    /// Make the room of a tree, which is none until it has [begun](Self::Begin).
    MakeTree {
        /// What the tree becomes.
        path: PathBytes,
        /// Its plan.
        plan: String,
    },
    /// A part of what a lease of it has.
    PutSheet {
        /// What the tree becomes.
        path: PathBytes,
        /// Its plan.
        plan: String,
        /// Which lease.
        lease: u64,
        /// Where the part stands in the sheet, in bytes.
        at: u64,
        /// At most [`SHEET_PART`] bytes.
        text: String,
    },
    /// All sheets are there, and directories and links: make the places of large files.
    Lay {
        /// What the tree becomes.
        path: PathBytes,
        /// Its plan.
        plan: String,
    },
    /// Everything is there that leases want.
    Begin {
        /// What the tree becomes.
        path: PathBytes,
        /// Its plan.
        plan: String,
    },
    /// What does that lease have?
    Sheet {
        /// What the tree becomes.
        path: PathBytes,
        /// Its plan.
        plan: String,
        /// Which.
        lease: u64,
    },
    /// The small files of a lease have come: give them their places.
    Land {
        /// What the tree becomes.
        path: PathBytes,
        /// Its plan.
        plan: String,
        /// Which run.
        run: LeaseRun,
        /// How long they took, in milliseconds.
        millis: u64,
    },
    /// A range of a large file cannot be had.
    Lacks {
        /// What the tree becomes.
        path: PathBytes,
        /// Its plan.
        plan: String,
        /// Which run.
        run: LeaseRun,
        /// Why.
        why: String,
    },
    /// Give the tree its name, if all of it is there.
    FinishTree {
        /// What the tree becomes.
        path: PathBytes,
        /// Its plan.
        plan: String,
        /// Also without files that could not be had.
        partial: bool,
        /// Tell the list of all hashes.
        sums: bool,
    },
}

/// Bytes of a sheet, or of a list of hashes, in one part.
pub const SHEET_PART: usize = 16 << 10;
/// Parts of sheets that are under way at a time.
pub const SHEETS_ASKED: usize = 64;

/// A run of a lease.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct LeaseRun {
    /// Which lease.
    pub lease: u64,
    /// In which epoch.
    pub epoch: u64,
    /// Tells it from others of that epoch.
    pub run: u64,
}

/// Where the next tree that is put goes in the room of a plan.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PlanPlace {
    /// What the tree becomes.
    pub path: PathBytes,
    /// Its plan.
    pub plan: String,
    /// The files of a run of a lease come; none: directories and links, while it is planned.
    pub run: Option<LeaseRun>,
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
    /// More of the sheet that [`PlanRequest::Sheet`] asks for.
    SheetPart(String),
    /// The last of it; all of it, once it is the answer.
    Sheet(String),
    /// To [`PlanRequest::Land`].
    Landed {
        /// What is in its place.
        bytes: u64,
        /// Files that could not be had.
        lacking: u64,
        /// What is known of them, of some.
        notes: Vec<String>,
    },
    /// Files could not be had, and it is to have its name only with all of them.
    Lacking {
        /// So many.
        count: u64,
        /// What is known of some.
        notes: Vec<String>,
    },
    /// More of the list of hashes.
    Sums(Vec<u8>),
    /// To [`PlanRequest::FinishTree`]: it has its name.
    FinishedTree {
        /// BLAKE3 of the list, in hexadecimal.
        blake3: String,
        /// How many files there are.
        files: u64,
        /// Bytes of them.
        bytes: u64,
        /// Files of the plan that could not be had.
        lacking: u64,
        /// What is known of them, of some.
        notes: Vec<String>,
        /// The rest of the list; all of it, once it is the answer.
        sums: Vec<u8>,
    },
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
            | Self::Forget { path, .. }
            | Self::MakeTree { path, .. }
            | Self::PutSheet { path, .. }
            | Self::Lay { path, .. }
            | Self::Begin { path, .. }
            | Self::Sheet { path, .. }
            | Self::Land { path, .. }
            | Self::Lacks { path, .. }
            | Self::FinishTree { path, .. } => path,
        }
    }

    /// What is written down of a change.
    pub fn deed(&self) -> Option<&'static str> {
        match self {
            Self::Place { .. } | Self::Look { .. } | Self::Sheet { .. } => None,
            // What belongs to one that is written down.
            Self::PutSheet { .. } | Self::Lay { .. } | Self::Begin { .. } | Self::Lacks { .. } => {
                None
            }
            Self::Make { .. } | Self::MakeTree { .. } => Some("plan"),
            Self::Land { .. } => Some("put a lease of"),
            Self::Finish { .. } | Self::FinishTree { .. } => Some("finish the plan of"),
            Self::Forget { .. } => Some("forget the plan of"),
        }
    }

    /// Whether something is another one afterwards.
    pub fn changes(&self) -> bool {
        !matches!(
            self,
            Self::Place { .. } | Self::Look { .. } | Self::Sheet { .. }
        )
    }

    /// What it costs besides its path.
    pub fn cost(&self) -> usize {
        match self {
            Self::Place { name, .. } => name.as_bytes().len(),
            Self::Make { plan, .. }
            | Self::Look { plan, .. }
            | Self::Finish { plan, .. }
            | Self::Forget { plan, .. }
            | Self::MakeTree { plan, .. }
            | Self::Lay { plan, .. }
            | Self::Begin { plan, .. }
            | Self::Sheet { plan, .. }
            | Self::Land { plan, .. }
            | Self::FinishTree { plan, .. } => plan.len(),
            Self::PutSheet { plan, text, .. } => plan.len() + text.len(),
            Self::Lacks { plan, why, .. } => plan.len() + why.len(),
        }
    }
}

/// A client puts one lease: the bytes of its range come as those of the whole file in `object`, of which all else is held.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct LeasePut {
    /// In which it comes.
    pub object: ObjectId,
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
    /// Tells the mover from others: a connection of it takes the place of the one before.
    pub run: u64,
}
