//! One run of one lease: in which order things are done.

use crate::{Lease, Plan, Record, Value, Version};
use howdah_core::ByteRange;

/// Bytes that are written between two looks at the claims.
const BITE: u64 = 64 << 20;

/// What whoever drives a [`Mover`] does next; then it says so.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Make it known, durably and to all hosts, that this epoch has begun: [`Mover::on_claimed`].
    Claim,
    /// Get these bytes of the source to where nobody else writes, and see which version it was, before and after: [`Mover::on_fetched`].
    Fetch(ByteRange),
    /// Find the highest epoch that was claimed: [`Mover::on_highest`].
    Look,
    /// Write these bytes, as they were fetched, to their place in the unfinished file: [`Mover::on_written`].
    Write(ByteRange),
    /// Make what was written durable: [`Mover::on_synced`].
    Sync,
    /// Write the record under a name of its own, make it durable and rename it: [`Mover::on_published`].
    Publish(Record),
    /// That is all.
    Done,
}

/// Why a mover gave up. Nothing that it wrote is wrong.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Stopped {
    /// Somebody else runs this lease.
    #[error(
        "lease {lease} is run in epoch {by} already, and this is epoch {epoch}: leave it to that one"
    )]
    Fenced {
        /// Which.
        lease: u64,
        /// Its own.
        epoch: u64,
        /// The other's.
        by: u64,
    },
    /// The plan is of another version.
    #[error("the source is not the one that was planned ({what}); plan anew")]
    SourceChanged {
        /// How it differs.
        what: String,
    },
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Claiming,
    Fetching,
    /// Then write from here.
    Looking(u64),
    Writing(u64),
    Syncing,
    LastLook,
    Publishing,
    Done,
}

/// A run of a lease. [`action`](Self::action) says what to do, and each thing that was done is told to it.
#[derive(Clone, Debug)]
pub struct Mover {
    plan: String,
    version: Version,
    lease: Lease,
    epoch: u64,
    state: State,
    fetched: Option<(Value, f64)>,
}

impl Mover {
    /// Of a lease of `plan`.
    pub fn new(plan: &Plan, lease: Lease, epoch: u64) -> Self {
        Self {
            plan: plan.id().to_owned(),
            version: plan.version(),
            lease,
            epoch,
            state: State::Claiming,
            fetched: None,
        }
    }

    /// What to do next.
    pub fn action(&self) -> Action {
        let range = self.lease.range;
        match self.state {
            State::Claiming => Action::Claim,
            State::Fetching => Action::Fetch(range),
            State::Looking(_) | State::LastLook => Action::Look,
            State::Writing(at) => Action::Write(ByteRange::new(at, range.end.min(at + BITE))),
            State::Syncing => Action::Sync,
            State::Publishing => {
                let (blake3, seconds) = self.fetched.unwrap_or_default();
                Action::Publish(Record {
                    plan: self.plan.clone(),
                    lease: self.lease.id,
                    epoch: self.epoch,
                    bytes: range.len(),
                    seconds,
                    blake3,
                })
            }
            State::Done => Action::Done,
        }
    }

    /// The claim is there.
    pub fn on_claimed(&mut self) {
        self.state = State::Fetching;
    }

    /// The bytes are here, in so many seconds; they have that value, and the source was of these versions before and after.
    ///
    /// # Errors
    ///
    /// [`Stopped::SourceChanged`] if it was not the planned one all the time: the bytes may be anything.
    pub fn on_fetched(
        &mut self,
        value: Value,
        seconds: f64,
        versions: [Version; 2],
    ) -> Result<(), Stopped> {
        for version in versions {
            if version != self.version {
                let what = difference(&self.version, &version).to_owned();
                return Err(Stopped::SourceChanged { what });
            }
        }
        self.fetched = Some((value, seconds));
        self.state = State::Looking(self.lease.range.start);
        Ok(())
    }

    /// The highest epoch of this lease that was claimed by anybody.
    ///
    /// # Errors
    ///
    /// [`Stopped::Fenced`] if it is not this one.
    pub fn on_highest(&mut self, by: u64) -> Result<(), Stopped> {
        if by > self.epoch {
            return Err(Stopped::Fenced {
                lease: self.lease.id,
                epoch: self.epoch,
                by,
            });
        }
        self.state = match self.state {
            State::Looking(at) if at < self.lease.range.end => State::Writing(at),
            State::Looking(_) => State::Syncing,
            _ => State::Publishing,
        };
        Ok(())
    }

    /// The bytes of the last [`Action::Write`] were written.
    pub fn on_written(&mut self) {
        if let State::Writing(at) = self.state {
            let end = self.lease.range.end.min(at + BITE);
            self.state = if end < self.lease.range.end {
                State::Looking(end)
            } else {
                State::Syncing
            };
        }
    }

    /// They are durable.
    pub fn on_synced(&mut self) {
        self.state = State::LastLook;
    }

    /// The record has its name.
    pub fn on_published(&mut self) {
        self.state = State::Done;
    }
}

/// What tells two versions apart.
fn difference(planned: &Version, now: &Version) -> &'static str {
    if planned.size != now.size {
        "it has another size"
    } else if planned.mtime != now.mtime {
        "it was modified"
    } else if planned.inode != now.inode {
        "it is another file"
    } else {
        "it was written to, renamed or given other attributes"
    }
}
