//! A lease that comes: what its run does besides fetching.

use super::room::Room;
use super::scratch::{Kept, Scratch, clear};
use super::{Come, failed, identity, of_store};
use crate::{Error, ErrorKind};
use blake3::hazmat::HasherExt as _;
use howdah_core::ByteRange;
use howdah_lease::{
    Action, Lease, Mark, Moved, Mover, Plan, Record, Stopped, SubtreeHasher, TreeRecord, Value,
};
use howdah_store::{GROUP, RangeFile};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One run of a lease of a file, or of a range of a tree's large file: [`begin`](Self::begin) or [`begin_range`](Self::begin_range), then
/// the bytes come, then [`land`](Self::land) or [`give_up`](Self::give_up).
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
    /// Through what it came, if not from this machine.
    target: Option<Arc<RangeFile>>,
    /// What comes is kept for the next run, as long as this one has it.
    kept: Option<Kept>,
}

/// What was fetched.
struct Fetched {
    file: File,
    /// What each group of it was when it came, if others may have the same file: where locks are not what they should be, a host that hangs,
    /// and perhaps brings another version.
    told: Option<Told>,
}

/// Values of groups, by their index.
type Told = BTreeMap<u64, [u8; 32]>;

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
            kept: None,
        }
    }

    fn to_keep(&self) -> Kept {
        Kept::new(&self.plan, &self.lease, self.epoch)
    }

    /// What has come of it in this epoch, or in one before by a run that has ended.
    pub(crate) fn come(&self, room: &Room) -> Come {
        self.to_keep().find(room)
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
    pub fn begin_range(&mut self, room: &Room) -> Result<Arc<RangeFile>, Error> {
        let come = self.come(room);
        self.begin_with(room, come)
    }

    /// The same where somebody has looked what has come.
    pub(crate) fn begin_with(&mut self, room: &Room, come: Come) -> Result<Arc<RangeFile>, Error> {
        let (file, known) = match come {
            Come::Here(Scratch { file, held, notes }) => {
                let kept = self.to_keep();
                self.kept = Some(kept);
                (Some(file), Some((kept, held, notes)))
            }
            Come::Busy | Come::Nowhere => (None, None),
        };
        let file = self.begin_in(room, file)?;
        let of = identity(&self.plan.version());
        let target = RangeFile::new(file, &self.path(room), of, self.lease.range);
        let mut target = target.map_err(|e| of_store(&e))?;
        if let Some((kept, held, notes)) = known {
            target = target
                .keeping(move |groups| kept.keep(&notes, groups))
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

    /// It has failed so: what has come goes, if the next run cannot use it, or has to have its space.
    pub fn give_up(&self, room: &Room, error: &Error) {
        let is_useless = matches!(
            error.kind(),
            ErrorKind::SourceChanged
                | ErrorKind::NotFound
                | ErrorKind::Integrity
                | ErrorKind::NoSpace
        );
        let is_fenced = || room.highest(self.lease.id).is_ok_and(|by| by > self.epoch);
        if let Some(kept) = self.kept
            && (is_useless || is_fenced())
        {
            kept.forget(room);
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
        let (fetched, value) = self.own(room, scratch, &path)?;
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
                    self.place(range, &fetched, &part, &path)?;
                    self.mover.on_written();
                }
                Action::Sync => {
                    part.sync_data().map_err(|e| failed("sync", &path, &e))?;
                    if self.value_of(&part, self.lease.range.start, None, &path)? != value {
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

    /// What was fetched, and its value. Where blocks can be shared nobody else has it from now on.
    fn own(&self, room: &Room, scratch: File, path: &Path) -> Result<(Fetched, Value), Error> {
        let told = self.target.as_ref().map(|target| target.told());
        let told: Option<Told> = told.map(|told| told.into_iter().collect());
        let own = told.is_some().then(|| shared(&scratch, room)).flatten();
        let is_own = own.is_some();
        let file = own.unwrap_or(scratch);
        let value = self.value_of(&file, 0, told.as_ref(), path)?;
        let told = told.filter(|_| !is_own);
        Ok((Fetched { file, told }, value))
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

    /// Copies what was fetched to its place; on file systems that can, no byte of it is moved. Nothing comes there but what is right: others
    /// may have moved the lease, and the file may have its name.
    fn place(
        &self,
        range: ByteRange,
        Fetched { file, told }: &Fetched,
        mut part: &File,
        path: &Path,
    ) -> Result<(), Error> {
        let within = range.start - self.lease.range.start;
        if told.is_some() {
            return each_group(
                file,
                (range, within),
                told.as_ref(),
                path,
                &mut |at, group| {
                    let written = part.write_all_at(group, at);
                    written.map_err(|e| failed("write", path, &e))
                },
            );
        }
        let mut from = file;
        let mut copy = || -> io::Result<u64> {
            from.seek(SeekFrom::Start(within))?;
            part.seek(SeekFrom::Start(range.start))?;
            io::copy(&mut from.take(range.len()), &mut part)
        };
        match copy() {
            Ok(bytes) if bytes == range.len() => Ok(()),
            Ok(_) => Err(failed("write", path, &io::ErrorKind::WriteZero.into())),
            Err(e) => Err(failed("write", path, &e)),
        }
    }

    /// Of the lease's bytes, which begin there in that file, and are what was `told` of them.
    fn value_of(
        &self,
        file: &File,
        start: u64,
        told: Option<&Told>,
        path: &Path,
    ) -> Result<Value, Error> {
        let mut hasher = SubtreeHasher::new(&self.plan, self.lease);
        each_group(
            file,
            (self.lease.range, start),
            told,
            path,
            &mut |_, group| {
                hasher.update(group);
                Ok(())
            },
        )?;
        Ok(hasher.value())
    }
}

/// Takes a group, and where it begins in the source.
type Take<'a> = dyn FnMut(u64, &[u8]) -> Result<(), Error> + 'a;

/// Hands on the groups of that range of the source, and where each begins there; in the file the range begins at `start`. Each is what was
/// `told` of it.
fn each_group(
    file: &File,
    (range, start): (ByteRange, u64),
    told: Option<&Told>,
    path: &Path,
    take: &mut Take<'_>,
) -> Result<(), Error> {
    let mut buffer = vec![0; GROUP as usize];
    let mut at = range.start;
    while at < range.end {
        let len = GROUP.min(range.end - at);
        let group = &mut buffer[..len as usize];
        file.read_exact_at(group, start + (at - range.start))
            .map_err(|e| failed("read back", path, &e))?;
        if told.is_some_and(|told| !is_as_told(told, at, group)) {
            return Err(not_given_back(path));
        }
        take(at, group)?;
        at += len;
    }
    Ok(())
}

fn is_as_told(told: &Told, at: u64, group: &[u8]) -> bool {
    match told.get(&(at / GROUP)) {
        Some(value) => {
            let mut hasher = blake3::Hasher::new();
            hasher.set_input_offset(at).update(group);
            hasher.finalize_non_root() == *value
        }
        // A hole: nothing of it comes.
        None => group.iter().all(|byte| *byte == 0),
    }
}

/// A file of this run alone with the same blocks, if there are such files here.
fn shared(file: &File, room: &Room) -> Option<File> {
    #[cfg(target_os = "linux")]
    {
        let own = room.scratch().ok()?;
        rustix::fs::ioctl_ficlone(&own, file).ok()?;
        Some(own)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (file, room);
        None
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_lease::Version;

    const SIZE: u64 = 2 * GROUP + 5;

    fn value_at(at: u64, group: &[u8]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(at).update(group);
        hasher.finalize_non_root()
    }

    /// Where locks are not believed another host may write to the file while it is taken to its place, which may be the finished file by now.
    #[test]
    fn what_others_have_altered_since_it_came_gets_no_place() {
        let version = Version {
            size: SIZE,
            mtime: (1, 0),
            ctime: (1, 0),
            inode: 1,
        };
        let plan = Plan::new("p".into(), "s".into(), "d".into(), version, 4 * GROUP).unwrap();
        let lease = plan.lease(0).unwrap();
        let landing = Landing::new(plan, lease, 1, "part".into(), false);
        // A group, a hole, and the end of the source.
        let mut bytes = vec![7; SIZE as usize];
        bytes[GROUP as usize..2 * GROUP as usize].fill(0);
        let (file, part) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        file.write_all_at(&bytes, 0).unwrap();
        let group = |at: u64, len: usize| (at / GROUP, value_at(at, &vec![7; len]));
        let told = Told::from([group(0, GROUP as usize), group(2 * GROUP, 5)]);
        let path = Path::new("part");
        let value = landing.value_of(&file, 0, Some(&told), path).unwrap();
        let fetched = Fetched {
            file: file.try_clone().unwrap(),
            told: Some(told),
        };
        let place = || landing.place(lease.range, &fetched, &part, path);
        place().unwrap();
        assert_eq!(landing.value_of(&part, 0, None, path).unwrap(), value);
        for at in [0, GROUP, GROUP + 9, SIZE - 1] {
            file.write_all_at(b"x", at).unwrap();
            let error = place().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Integrity, "{at}");
            let is = landing.value_of(&part, 0, None, path).unwrap();
            assert_eq!(is, value, "{at}");
            file.write_all_at(&bytes[at as usize..=at as usize], at)
                .unwrap();
        }
    }
}
