//! What a client can be asked to do.

use crate::desk::Desk;
use crate::{Location, PathBytes, SourceFile};
use howdah_proto::Config;
use howdah_session::TreeOptions;
use howdah_session::client::Wants;
use howdah_session::plans::PlanPlace;
use howdah_session::questions::{Finding, Question, Sum};
use howdah_store::{RangeFile, SourceIdentity};
use howdah_tree::{ComparisonState, ReceiverEnds, TreeSource, TreeTarget};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// What the copy is to do.
#[derive(Debug)]
pub(crate) enum Task {
    /// Local bytes to the server.
    Put { source: Location, path: PathBytes },
    /// One lease of the local file of a plan to the server.
    PutLease(Arc<LeaseTask>),
    /// The server's bytes to here.
    Get {
        path: PathBytes,
        destination: Location,
    },
    /// Which version of a file the server has.
    Look(PathBytes, Seen),
    /// A range of the server's file to here.
    Range(PathBytes, Arc<RangeFile>),
    /// Local trees to the server. The source is taken when it begins.
    PutTree {
        source: Option<TreeSource>,
        path: PathBytes,
        options: TreeOptions,
        /// It goes into the room of a plan there.
        into: Option<PlanPlace>,
    },
    /// The server's trees to here.
    GetTree {
        paths: Vec<PathBytes>,
        target: Option<TreeTarget>,
        options: TreeOptions,
    },
    /// What the server has at a path, for a comparison under way here.
    Describe {
        path: PathBytes,
        ends: Option<ReceiverEnds>,
        state: ComparisonState,
        options: TreeOptions,
    },
    /// Something that is no copy.
    Ask {
        question: Question,
        answers: Answers,
    },
    /// Questions about single files, as long as somebody has some.
    Files { desk: Desk },
}

/// What [`Task::PutLease`] puts.
#[derive(Debug)]
pub(crate) struct LeaseTask {
    pub(crate) source: PathBuf,
    /// Which version of it.
    pub(crate) identity: SourceIdentity,
    pub(crate) path: PathBytes,
    /// The text of its plan.
    pub(crate) plan: String,
    pub(crate) lease: u64,
    pub(crate) epoch: u64,
    /// The same for all its connections.
    pub(crate) run: u64,
    /// Bytes of whole groups of the file that are no part of the lease.
    pub(crate) elsewhere: u64,
}

impl Task {
    /// Whether the data goes to the server.
    pub(crate) fn is_put(&self) -> bool {
        matches!(
            self,
            Self::Put { .. } | Self::PutLease(_) | Self::PutTree { .. }
        )
    }

    /// Whether so much may go to the server that a train ahead of it is next to nothing ([`Config::train`]).
    pub(crate) fn puts_much(&self) -> bool {
        match self {
            Self::Put { source, .. } => match source {
                // (What is no file has no size yet.)
                Location::File(path) => std::fs::metadata(path)
                    .is_ok_and(|meta| !meta.is_file() || meta.len() >= Config::MUCH_BYTES),
                Location::Zero(bytes) => *bytes >= Config::MUCH_BYTES,
                _ => true,
            },
            Self::PutTree { options, .. } => !options.dry_run,
            Self::PutLease(_) => true,
            _ => false,
        }
    }

    /// Whether it is one object of which parts may go by several connections.
    pub(crate) fn is_one_object(&self) -> bool {
        matches!(self, Self::Put { .. } | Self::Get { .. })
    }

    /// Whether files are moved.
    pub(crate) fn is_copy(&self) -> bool {
        match self {
            Self::Put { .. } | Self::PutLease(_) | Self::Get { .. } | Self::Range(..) => true,
            Self::PutTree { options, .. } | Self::GetTree { options, .. } => !options.dry_run,
            Self::Look(..) | Self::Describe { .. } | Self::Ask { .. } | Self::Files { .. } => false,
        }
    }

    /// Whether users and groups may have names in it.
    pub(crate) fn asks_for_names(&self) -> bool {
        match self {
            Self::PutTree { options, .. } | Self::GetTree { options, .. } => {
                options.archive || options.chown.is_some()
            }
            _ => false,
        }
    }

    /// The same for the machine of the session.
    pub(crate) fn wants(&self) -> Wants {
        match self {
            Self::Put { .. } => Wants::Put,
            Self::PutLease(_) => Wants::PutLease,
            Self::Get { .. } | Self::Look(..) | Self::Range(..) => Wants::Get,
            Self::GetTree { options, .. } => Wants::Tree {
                removes: options.remove_source,
            },
            Self::PutTree { .. } | Self::Describe { .. } => Wants::Tree { removes: false },
            Self::Ask { .. } => Wants::Ask,
            Self::Files { .. } => Wants::Files,
        }
    }
}

/// What was found so far, and the sum at the end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers(Arc<Mutex<(Vec<Finding>, Sum)>>);

impl Answers {
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut (Vec<Finding>, Sum)) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn take(self) -> (Vec<Finding>, Sum) {
        self.with(std::mem::take)
    }
}

/// Where the client puts what it saw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(Arc<Mutex<Option<SourceFile>>>);

impl Seen {
    pub(crate) fn set(&self, version: SourceFile) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(version);
    }

    pub(crate) fn take(&self) -> Option<SourceFile> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.take()
    }
}
