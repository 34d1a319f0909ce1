//! What a client can be asked to do.

use crate::desk::Desk;
use crate::session::lengths::check_paths;
use crate::{Error, ErrorKind, Location, PathBytes, SourceFile};
use howdah_proto::Config;
use howdah_session::TreeOptions;
use howdah_session::client::Wants;
use howdah_session::plans::PlanPlace;
use howdah_session::questions::{Finding, Question, Sum};
use howdah_store::{RangeFile, SourceIdentity};
use howdah_tree::{ComparisonState, MATCHES_MAX, ReceiverEnds, TreeSource, TreeTarget};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    /// What it names of the other machine.
    fn paths(&self) -> &[PathBytes] {
        match self {
            Self::Put { path, .. }
            | Self::Get { path, .. }
            | Self::Look(path, _)
            | Self::Range(path, _)
            | Self::PutTree { path, .. }
            | Self::Describe { path, .. } => std::slice::from_ref(path),
            Self::PutLease(lease) => std::slice::from_ref(&lease.path),
            Self::GetTree { paths, .. } => paths.as_slice(),
            Self::Ask { question, .. } => question.what().1,
            Self::Files { .. } => &[],
        }
    }

    /// Refuses paths that no machine has.
    pub(crate) fn check_paths(&self) -> Result<(), Error> {
        check_paths(self.paths())
    }

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
            Self::PutTree { .. } | Self::GetTree { .. } => !self.is_dry_run(),
            Self::Look(..) | Self::Describe { .. } | Self::Ask { .. } | Self::Files { .. } => false,
        }
    }

    /// Whether it is only told what would be moved.
    pub(crate) fn is_dry_run(&self) -> bool {
        match self {
            Self::PutTree { options, .. } | Self::GetTree { options, .. } => options.dry_run,
            _ => false,
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

/// Names of findings, in bytes: a server of ours finds less in a place whose names are as long as names are.
const FINDINGS_BYTES: usize = 64 << 20;

/// What was found so far, and the sum at the end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers(Arc<Mutex<Answered>>);

#[derive(Debug, Default)]
struct Answered {
    found: Vec<Finding>,
    bytes: usize,
    sum: Sum,
}

impl Answers {
    fn lock(&self) -> MutexGuard<'_, Answered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// More was found. What that may be is bounded, whatever a server says.
    pub(crate) fn found(&self, part: Vec<Finding>) -> Result<(), Error> {
        let mut all = self.lock();
        let names = part.iter().map(|finding| finding.path.as_bytes().len());
        all.bytes += names.sum::<usize>();
        all.found.extend(part);
        if all.found.len() > MATCHES_MAX + 1 || all.bytes > FINDINGS_BYTES {
            let text = "the server finds more than it may";
            return Err(Error::new(ErrorKind::Protocol, text));
        }
        Ok(())
    }

    /// That was all.
    pub(crate) fn end(&self, sum: Sum) {
        self.lock().sum = sum;
    }

    pub(crate) fn take(self) -> (Vec<Finding>, Sum) {
        let all = std::mem::take(&mut *self.lock());
        (all.found, all.sum)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A server may name things for ever, and their names may be as long as a message.
    #[test]
    fn h18_what_a_server_finds_takes_no_more_memory_than_it_may() {
        let part = |count: usize, len: usize| -> Vec<Finding> {
            let finding = |_| Finding {
                of: 0,
                path: PathBytes::from(&vec![b'x'; len][..]),
                is_dir: false,
                bytes: 1,
                fate: 0,
            };
            (0..count).map(finding).collect()
        };
        for (len, most) in [(4, MATCHES_MAX + 1), (64_000, FINDINGS_BYTES / 64_000)] {
            let answers = Answers::default();
            assert!(answers.found(part(most, len)).is_ok());
            let error = answers.found(part(1, len)).expect_err("one more");
            assert_eq!(error.kind(), ErrorKind::Protocol);
        }
        let answers = Answers::default();
        let more = || answers.found(part(2, 3));
        assert!(more().is_ok() && more().is_ok());
        answers.end(Sum {
            names: 4,
            ..Sum::default()
        });
        let (found, sum) = answers.take();
        assert_eq!((found.len(), sum.names), (4, 4));
    }
}
