//! A lease that comes: what its run does besides fetching.

use super::room::Room;
use super::{Come, clear, come_of, drop_come, failed, identity, keep};
use crate::error::from_store;
use crate::{Error, ErrorKind};
use blake3::Hasher;
use blake3::hazmat::HasherExt as _;
use howdah_core::ByteRange;
use howdah_lease::{
    Action, Lease, Mark, Moved, Mover, Plan, Record, Stopped, SubtreeHasher, TreeRecord, Value,
};
use howdah_store::{GROUP, GroupValue, RangeFile};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that are read and hashed at a time; a group is several of them.
const PIECE: usize = 256 << 10;

/// One run of a lease of a file, or of a range of a tree's large file: [`begin`](Self::begin), then the bytes come, then
/// [`land`](Self::land).
#[derive(Debug)]
pub struct Landing {
    plan: Plan,
    lease: Lease,
    epoch: u64,
    mover: Mover,
    /// Where it goes, in the room.
    name: PathBuf,
    /// It is one of a tree.
    of_tree: bool,
    part: Option<File>,
    /// What was fetched.
    scratch: Option<File>,
    /// Through what: it knows what all of it was when it came. Another host may have the same file, where locks are not what they should be.
    target: Option<Arc<RangeFile>>,
}

impl Landing {
    /// Of a lease of `plan`, which goes into the file `name` in the room.
    pub fn new(plan: Plan, lease: Lease, epoch: u64, name: PathBuf, of_tree: bool) -> Self {
        Self {
            mover: Mover::new(&plan, lease, epoch),
            plan,
            lease,
            epoch,
            name,
            of_tree,
            part: None,
            scratch: None,
            target: None,
        }
    }

    /// What has come of it in this epoch, or in one before by a run that has ended.
    pub(crate) fn come(&self, room: &Room) -> Come {
        come_of(room, self.lease.id, self.epoch)
    }

    /// The bytes that it has.
    pub fn range(&self) -> ByteRange {
        self.lease.range
    }

    /// Where it goes, for messages.
    pub fn path(&self, room: &Room) -> PathBuf {
        room.path(&self.name)
    }

    /// Makes it known to all; returns where its bytes are to come: an empty file of this run alone.
    ///
    /// # Errors
    ///
    /// There is no room, or no way to write in it.
    pub fn begin(&mut self, room: &Room) -> Result<File, Error> {
        self.begin_in(room, None)
    }

    /// Makes it known to all; returns where its bytes are to come over the network, which has what has come of them already. What comes is
    /// kept for the next run, unless this one [lands](Self::land) or [gives up](Self::give_up).
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin), and no space for it.
    pub fn begin_range(&mut self, room: &Arc<Room>) -> Result<Arc<RangeFile>, Error> {
        let come = self.come(room);
        self.begin_with(room, come)
    }

    /// The same where somebody has looked what has come.
    pub(crate) fn begin_with(
        &mut self,
        room: &Arc<Room>,
        come: Come,
    ) -> Result<Arc<RangeFile>, Error> {
        let (file, held) = match come {
            Come::Here(scratch) => (Some(scratch.file), scratch.held),
            Come::Busy | Come::Nowhere => (None, Vec::new()),
        };
        let is_kept = file.is_some();
        let file = self.begin_in(room, file)?;
        let of = identity(&self.plan.version());
        let target = RangeFile::new(file, &self.path(room), of, self.lease.range);
        let mut target = target.map_err(|e| from_store(&e))?;
        if is_kept {
            let (keeper, of_run) = (Arc::clone(room), (self.lease.id, self.epoch));
            target = target
                .keeping(move |groups| keep(&keeper, of_run, groups))
                .going_on(&held);
        }
        let target = Arc::new(target);
        self.target = Some(Arc::clone(&target));
        Ok(target)
    }

    fn begin_in(&mut self, room: &Room, file: Option<File>) -> Result<File, Error> {
        self.part = Some(room.open_part(&self.name)?);
        room.claim(self.lease.id, self.epoch)?;
        self.mover.on_claimed();
        let file = file.map_or_else(|| room.scratch(), Ok)?;
        let theirs = file.try_clone();
        let theirs = theirs.map_err(|e| failed("share a file beside", &self.path(room), &e))?;
        self.scratch = Some(file);
        Ok(theirs)
    }

    /// It has failed so: what has come stays for the next run, if that can use it.
    pub fn give_up(&self, room: &Room, error: &Error) {
        if !matches!(error.kind(), ErrorKind::Network | ErrorKind::Cancelled) {
            drop_come(room, self.lease.id, self.epoch);
        }
    }

    /// All bytes have come, as the source had them, which was the planned version all the time: puts them into their place, durably, and
    /// publishes the record.
    ///
    /// # Errors
    ///
    /// Somebody else runs this lease in a higher epoch, it is to stop, or the file system does not do it.
    pub fn land(
        &mut self,
        room: &Room,
        seconds: f64,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(), Error> {
        let nothing = || Error::new(ErrorKind::Io, "nothing was fetched");
        let part = self.part.take().ok_or_else(nothing)?;
        let scratch = self.scratch.take().ok_or_else(nothing)?;
        let path = self.path(room);
        let told = self.target.as_ref().map(|target| target.told());
        let value = self.value_of((&scratch, told), 0, &path)?;
        loop {
            if is_stopped() {
                return Err(interrupted());
            }
            match self.mover.action() {
                // The far side says which version it begins to read, and fails if that has changed when it ends.
                Action::Fetch(_) => {
                    let versions = [self.plan.version(); 2];
                    let fetched = self.mover.on_fetched(value, seconds, versions);
                    fetched.map_err(|why| stopped(&why))?;
                }
                Action::Claim => self.mover.on_claimed(),
                Action::Look => {
                    let highest = room.highest(self.lease.id)?;
                    let looked = self.mover.on_highest(highest);
                    looked.map_err(|why| stopped(&why))?;
                }
                Action::Write(range) => {
                    self.place(range, &scratch, &part, &path)?;
                    self.mover.on_written();
                }
                Action::Sync => {
                    part.sync_data().map_err(|e| failed("sync", &path, &e))?;
                    if self.value_of((&part, None), self.lease.range.start, &path)? != value {
                        return Err(not_given_back(&path));
                    }
                    self.mover.on_synced();
                }
                Action::Publish(record) => {
                    self.publish(room, record)?;
                    self.mover.on_published();
                }
                Action::Done => {
                    clear(room, self.lease.id);
                    return Ok(());
                }
            }
        }
    }

    fn publish(&self, room: &Room, record: Record) -> Result<(), Error> {
        if !self.of_tree {
            return room.publish(&record);
        }
        let (blake3, mark) = (record.blake3, Mark::default());
        let moved = Moved::Here { blake3, mark };
        let record = record_of_tree(record, moved);
        room.publish_of_tree(record, &|_| 0).map(drop)
    }

    /// What a tree can do without is known then.
    ///
    /// # Errors
    ///
    /// The record cannot be written.
    pub fn lacks(&self, room: &Room, error: &Error) -> Result<(), Error> {
        let is_lacking = matches!(error.kind(), ErrorKind::SourceChanged | ErrorKind::NotFound);
        if !self.of_tree || !is_lacking {
            return Ok(());
        }
        let why = error.to_string();
        let record = Record {
            plan: self.plan.id().to_owned(),
            lease: self.lease.id,
            epoch: self.epoch,
            bytes: 0,
            seconds: 0.0,
            blake3: Value::default(),
        };
        let record = record_of_tree(record, Moved::Lacking { why });
        room.publish_of_tree(record, &|_| 0).map(drop)
    }

    /// Copies what was fetched to its place; on file systems that can, no byte of it is moved.
    fn place(
        &self,
        range: ByteRange,
        mut scratch: &File,
        mut part: &File,
        path: &Path,
    ) -> Result<(), Error> {
        let within = range.start - self.lease.range.start;
        let mut copy = || -> io::Result<u64> {
            scratch.seek(SeekFrom::Start(within))?;
            part.seek(SeekFrom::Start(range.start))?;
            io::copy(&mut scratch.take(range.len()), &mut part)
        };
        match copy() {
            Ok(bytes) if bytes == range.len() => Ok(()),
            Ok(_) => Err(failed("write", path, &io::ErrorKind::WriteZero.into())),
            Err(e) => Err(failed("write", path, &e)),
        }
    }

    /// Of the lease's bytes, which begin there in that file, and are what was `told` of them when they came.
    fn value_of(
        &self,
        (mut file, told): (&File, Option<Vec<GroupValue>>),
        start: u64,
        path: &Path,
    ) -> Result<Value, Error> {
        let mut hasher = SubtreeHasher::new(&self.plan, self.lease);
        let mut groups = told.map(|told| Groups::new(self.lease.range.start, told));
        let mut read = || -> io::Result<()> {
            file.seek(SeekFrom::Start(start))?;
            let mut buffer = vec![0; PIECE];
            let mut left = self.lease.range.len();
            while left > 0 {
                let piece = &mut buffer[..PIECE.min(usize::try_from(left).unwrap_or(PIECE))];
                file.read_exact(piece)?;
                hasher.update(piece);
                if let Some(groups) = &mut groups {
                    groups.update(piece);
                }
                left -= piece.len() as u64;
            }
            Ok(())
        };
        read().map_err(|e| failed("read back", path, &e))?;
        if groups.is_some_and(|mut groups| !groups.are_right()) {
            return Err(not_given_back(path));
        }
        Ok(hasher.value())
    }
}

/// Compares what a file has now with what was told of it.
struct Groups {
    told: BTreeMap<u64, [u8; 32]>,
    at: u64,
    group: Hasher,
    is_zero: bool,
    are_right: bool,
}

impl Groups {
    fn new(at: u64, told: Vec<GroupValue>) -> Self {
        Self {
            told: told.into_iter().collect(),
            at,
            group: hasher_at(at),
            is_zero: true,
            are_right: true,
        }
    }

    /// No piece is in two groups.
    fn update(&mut self, piece: &[u8]) {
        self.group.update(piece);
        self.is_zero &= piece.iter().all(|byte| *byte == 0);
        self.at += piece.len() as u64;
        if self.at.is_multiple_of(GROUP) {
            self.end(self.at / GROUP - 1);
        }
    }

    fn end(&mut self, index: u64) {
        self.are_right &= match self.told.get(&index) {
            Some(value) => self.group.finalize_non_root() == *value,
            // A hole: nothing of it comes.
            None => self.is_zero,
        };
        (self.group, self.is_zero) = (hasher_at(self.at), true);
    }

    fn are_right(&mut self) -> bool {
        if !self.at.is_multiple_of(GROUP) {
            self.end(self.at / GROUP);
        }
        self.are_right
    }
}

fn hasher_at(at: u64) -> Hasher {
    let mut hasher = Hasher::new();
    hasher.set_input_offset(at / GROUP * GROUP);
    hasher
}

fn not_given_back(path: &Path) -> Error {
    let path = path.display();
    let text = format!("{path} does not give back what was written to it; run it again");
    Error::new(ErrorKind::Integrity, text)
}

/// Why a run gave up.
pub fn stopped(why: &Stopped) -> Error {
    let kind = match why {
        Stopped::Fenced { .. } => ErrorKind::Refused,
        Stopped::SourceChanged { .. } => ErrorKind::SourceChanged,
    };
    Error::new(kind, why.to_string())
}

/// Somebody has ended a run of a lease.
pub fn interrupted() -> Error {
    let text = "interrupted; the same lease can be run again";
    Error::new(ErrorKind::Cancelled, text)
}

fn record_of_tree(record: Record, moved: Moved) -> TreeRecord {
    TreeRecord {
        plan: record.plan,
        lease: record.lease,
        epoch: record.epoch,
        bytes: record.bytes,
        seconds: record.seconds,
        moved: vec![moved],
    }
}
