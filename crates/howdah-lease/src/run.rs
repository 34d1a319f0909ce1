//! One run of a lease of small files: in which order things are done.

use crate::tree::{Member, Time, is_same_moment};
use crate::{Share, Sheet, Stopped, Torn, TreePlan, Value, sealed, unsealed};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Files that get their names between two looks at the claims.
const BITE: usize = 256;

/// What a file in its place is known by: its number in its file system, and when it was last changed in any way, its name among them.
pub type Mark = (u64, Time);

/// What became of a file of a lease, or of the range of one.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Moved {
    /// It is in its place.
    Here {
        /// BLAKE3 of it; of a range of a large file, that of its subtree. In hexadecimal.
        #[serde(rename = "b", with = "crate::record::hex")]
        blake3: Value,
        /// Of a small file: what it is to be known by, where it was put.
        #[serde(rename = "k")]
        mark: Mark,
    },
    /// It could not be had.
    Lacking {
        /// Why.
        #[serde(rename = "w")]
        why: String,
    },
}

/// A lease of a tree was moved, as far as there was something to move.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct TreeRecord {
    /// Of which plan.
    pub plan: String,
    /// Which of its leases.
    pub lease: u64,
    /// In which run of it.
    pub epoch: u64,
    /// What is in its place, in bytes.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
    /// Of each file of the lease, in their order; of a range of a large file, one.
    #[serde(deserialize_with = "crate::tree::at_most")]
    pub moved: Vec<Moved>,
}

impl TreeRecord {
    /// Nothing of the lease is lacking.
    pub fn is_complete(&self) -> bool {
        let is_here = |moved: &Moved| matches!(moved, Moved::Here { .. });
        self.moved.iter().all(is_here)
    }

    /// What both say of the same lease in the same epoch, which two runs may have: what one has put into its place is there. `bytes` says
    /// how long a file of it is.
    pub fn join(&mut self, other: &Self, bytes: impl Fn(usize) -> u64) {
        for (index, (ours, theirs)) in self.moved.iter_mut().zip(&other.moved).enumerate() {
            if matches!(
                (&*ours, theirs),
                (Moved::Lacking { .. }, Moved::Here { .. })
            ) {
                *ours = theirs.clone();
                self.bytes = self.bytes.saturating_add(bytes(index));
            }
        }
    }

    /// A line of JSON, and one with its BLAKE3.
    pub fn encode(&self) -> String {
        sealed(self)
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    ///
    /// Anything else is torn.
    pub fn decode(text: &[u8]) -> Result<Self, Torn> {
        unsealed(text)
    }
}

/// A file that was fetched to where nobody else writes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fetched {
    /// What has come, verified and durable.
    File {
        /// Bytes.
        size: u64,
        /// Last modification, as the source has it.
        mtime: Time,
        /// Of its content.
        blake3: Value,
    },
    /// Nothing has.
    Nothing {
        /// Why.
        why: String,
    },
}

/// What whoever drives a [`RunMover`] does next; then it says so.
#[derive(Clone, Debug, PartialEq)]
pub enum RunAction {
    /// Make it known, durably and to all hosts, that this epoch has begun: [`RunMover::on_claimed`].
    Claim,
    /// Get all files to where nobody else writes: [`RunMover::on_fetched`].
    Fetch,
    /// Find the highest epoch that was claimed: [`RunMover::on_highest`].
    Look,
    /// Rename those of these files that are to be [placed](RunMover::is_placed) into the tree, each [then told](RunMover::on_named):
    /// [`RunMover::on_placed`].
    Place(Range<usize>),
    /// Make the names durable: [`RunMover::on_synced`].
    Sync,
    /// Publish the record: [`RunMover::on_published`].
    Publish(TreeRecord),
    /// That is all.
    Done,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Claiming,
    Fetching,
    /// Then place from here.
    Looking(usize),
    Placing(usize),
    Syncing,
    LastLook,
    Publishing,
    Done,
}

/// A run of a lease of small files.
#[derive(Clone, Debug)]
pub struct RunMover {
    plan: String,
    lease: u64,
    epoch: u64,
    members: Vec<Member>,
    state: State,
    moved: Vec<Moved>,
    seconds: f64,
}

impl RunMover {
    /// `None` if the lease is not one of small files.
    pub fn new(plan: &TreePlan, sheet: Sheet, epoch: u64) -> Option<Self> {
        let Share::Run(members) = sheet.share else {
            return None;
        };
        Some(Self {
            plan: plan.id().to_owned(),
            lease: sheet.lease,
            epoch,
            members,
            state: State::Claiming,
            moved: Vec::new(),
            seconds: 0.0,
        })
    }

    /// The files of the lease.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Whether that file has come as it was planned.
    pub fn is_placed(&self, index: usize) -> bool {
        matches!(self.moved.get(index), Some(Moved::Here { .. }))
    }

    /// Of the content of that file, if it has come as it was planned.
    pub fn value(&self, index: usize) -> Option<Value> {
        match self.moved.get(index)? {
            Moved::Here { blake3, .. } => Some(*blake3),
            Moved::Lacking { .. } => None,
        }
    }

    /// What to do next.
    pub fn action(&self) -> RunAction {
        match self.state {
            State::Claiming => RunAction::Claim,
            State::Fetching => RunAction::Fetch,
            State::Looking(_) | State::LastLook => RunAction::Look,
            State::Placing(at) => RunAction::Place(at..self.members.len().min(at + BITE)),
            State::Syncing => RunAction::Sync,
            State::Publishing => RunAction::Publish(self.record()),
            State::Done => RunAction::Done,
        }
    }

    fn record(&self) -> TreeRecord {
        let here = (0..self.members.len()).filter(|index| self.is_placed(*index));
        TreeRecord {
            plan: self.plan.clone(),
            lease: self.lease,
            epoch: self.epoch,
            bytes: here
                .map(|index| self.members[index].size)
                .fold(0, u64::saturating_add),
            seconds: self.seconds,
            moved: self.moved.clone(),
        }
    }

    /// The claim is there.
    pub fn on_claimed(&mut self) {
        self.state = State::Fetching;
    }

    /// What came of each file, in their order, in so many seconds. Those that are not what was planned stay where they are.
    pub fn on_fetched(&mut self, fetched: impl IntoIterator<Item = Fetched>, seconds: f64) {
        let mut fetched = fetched.into_iter();
        self.seconds = seconds;
        self.moved.clear();
        for member in &self.members {
            let moved = match fetched.next() {
                Some(Fetched::File {
                    size,
                    mtime,
                    blake3,
                }) => match difference(member, size, mtime) {
                    None => Moved::Here {
                        blake3,
                        mark: Mark::default(),
                    },
                    Some(what) => Moved::Lacking {
                        why: format!("it is not the one that was planned ({what})"),
                    },
                },
                Some(Fetched::Nothing { why }) => Moved::Lacking { why },
                None => Moved::Lacking {
                    why: "nobody said what became of it".to_owned(),
                },
            };
            self.moved.push(moved);
        }
        self.state = State::Looking(0);
    }

    /// What could not be had, and why.
    pub fn lacking(&self) -> impl Iterator<Item = (&Member, &str)> {
        let all = self.members.iter().zip(&self.moved);
        all.filter_map(|(member, moved)| match moved {
            Moved::Lacking { why } => Some((member, &**why)),
            Moved::Here { .. } => None,
        })
    }

    /// The highest epoch of this lease that was claimed by anybody.
    ///
    /// # Errors
    ///
    /// [`Stopped::Fenced`] if it is not this one.
    pub fn on_highest(&mut self, by: u64) -> Result<(), Stopped> {
        if by > self.epoch {
            return Err(Stopped::Fenced {
                lease: self.lease,
                epoch: self.epoch,
                by,
            });
        }
        self.state = match self.state {
            State::Looking(at) if at < self.members.len() => State::Placing(at),
            State::Looking(_) => State::Syncing,
            _ => State::Publishing,
        };
        Ok(())
    }

    /// That file has its name, and is to be known by that.
    pub fn on_named(&mut self, index: usize, by: Mark) {
        if let Some(Moved::Here { mark, .. }) = self.moved.get_mut(index) {
            *mark = by;
        }
    }

    /// Those of the last [`RunAction::Place`] have their names.
    pub fn on_placed(&mut self) {
        if let State::Placing(at) = self.state {
            self.state = State::Looking(self.members.len().min(at + BITE));
        }
    }

    /// The names are durable.
    pub fn on_synced(&mut self) {
        self.state = State::LastLook;
    }

    /// The record has its name.
    pub fn on_published(&mut self) {
        self.state = State::Done;
    }
}

/// How what has come differs from what was planned.
fn difference(planned: &Member, size: u64, mtime: Time) -> Option<&'static str> {
    if planned.size != size {
        Some("it has another size")
    } else if !is_same_moment(planned.mtime, mtime) {
        Some("it was modified")
    } else {
        None
    }
}
