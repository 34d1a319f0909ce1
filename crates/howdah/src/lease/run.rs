//! A lease of small files that comes: what its run does besides fetching.

use super::beneath::{self, Dir, Seen, is_absent};
use super::room::{Room, led_elsewhere};
use super::{failed, interrupted, path_of, shape, stopped};
use crate::{Error, ErrorKind};
use howdah_lease::{
    Fetched, Mark, Member, Moved, RunAction, RunMover, Sheet, Stopped, TreePlan, TreeRecord, Value,
    is_same_moment,
};
use howdah_session::plans::LeaseRun;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes that are read and hashed at a time.
const PIECE: usize = 256 << 10;

/// BLAKE3 of files, as far as it is known, by path.
pub type Hashes = HashMap<PathBuf, Value>;

/// Where the files of one run come, in the room: nobody else writes there.
#[derive(Debug)]
pub struct RunDir {
    /// Its name in the room.
    name: PathBuf,
    at: Dir,
}

impl RunDir {
    fn name(run: LeaseRun) -> PathBuf {
        let LeaseRun { lease, epoch, run } = run;
        PathBuf::from(format!("{lease}/run-{epoch}-{run:016x}"))
    }

    /// Makes the run known to all, and opens where its files are to come: what is there of an earlier connection of it stays, what runs of
    /// lower epochs have left goes.
    ///
    /// # Errors
    ///
    /// A higher epoch has begun; there is no room, or no way to write in it.
    pub fn begin(room: &Room, run: LeaseRun) -> Result<Self, Error> {
        let LeaseRun { lease, epoch, .. } = run;
        // Before anything is written: the one that is behind leaves no claim, either.
        check_highest(room, run)?;
        room.claim(lease, epoch)?;
        Self::forget_before(room, lease, epoch);
        room.give_back_reserve(lease);
        match room.at().make_own_dir(&Self::name(run)) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                let below = PathBuf::from(lease.to_string());
                Err(room.trouble("make a directory in", &below, &e))
            }
            _ => Self::open(room, run),
        }
    }

    /// The same, begun before.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn open(room: &Room, run: LeaseRun) -> Result<Self, Error> {
        let name = Self::name(run);
        let at = room.at().dir(&name);
        let at = at.map_err(|e| room.trouble("open", &name, &e))?;
        // As long as somebody has it open, or a copy of it, nobody takes it for one that is over.
        let _ = beneath::lock_shared(at.as_fd());
        Ok(Self { name, at })
    }

    /// Whether there is one.
    pub fn is_there(room: &Room, run: LeaseRun) -> bool {
        room.at().has(Self::name(run))
    }

    /// Whoever began before that epoch puts nothing into its place any more: what he has fetched goes, unless he still writes to it.
    fn forget_before(room: &Room, lease: u64, epoch: u64) {
        let dir = PathBuf::from(lease.to_string());
        let names = room.at().dir(&dir).and_then(|dir| dir.names());
        for name in names.unwrap_or_default() {
            let of = name.to_str().and_then(|name| name.strip_prefix("run-"));
            let of = of.and_then(|rest| rest.split_once('-')?.0.parse::<u64>().ok());
            let name = dir.join(&name);
            if of.is_some_and(|before| before < epoch)
                && let Ok(at) = room.at().dir(&name)
                && beneath::lock(at.as_fd()).unwrap_or(false)
            {
                let _ = room.at().clear(&name);
            }
        }
    }

    /// The directory.
    pub fn at(&self) -> &Dir {
        &self.at
    }

    /// The owner may take these files out of their directories, whatever the source's are like. What is not there is passed over.
    ///
    /// # Errors
    ///
    /// The file system does not do it.
    pub fn open_ways(&self, members: &[Member]) -> Result<(), Error> {
        members
            .iter()
            .filter(|member| {
                let above = path_of(&member.name).parent();
                let above = above.and_then(|above| self.at.look(above).ok());
                above.is_some_and(|above| above.is_dir())
            })
            .try_for_each(|member| shape::open_way(&self.at, path_of(&member.name)))
    }

    /// Removes what is left in it. What stays goes when the plan is finished.
    pub fn clear(&self, room: &Room) {
        let _ = room.at().clear(&self.name);
    }
}

/// Nobody has begun in a higher epoch.
///
/// # Errors
///
/// Somebody has; there is no room.
pub fn check_highest(room: &Room, run: LeaseRun) -> Result<(), Error> {
    let LeaseRun { lease, epoch, .. } = run;
    match room.highest(lease)? {
        by if by > epoch => Err(stopped(&Stopped::Fenced { lease, epoch, by })),
        _ => Ok(()),
    }
}

/// Gives the files of a run that are there their places, as far as they are what was planned, and publishes the record, which it returns.
/// One that was interrupted, at whatever step, is gone on with by calling it again: what has its place is found there. `hashes`: of those
/// that the copy has told of. It took that long.
///
/// # Errors
///
/// Somebody else runs this lease in a higher epoch, it is to stop, or the file system does not do it.
pub fn land_run(
    (room, plan): (&Room, &TreePlan),
    (sheet, run, dir): (Sheet, LeaseRun, &Dir),
    (hashes, took): (&Hashes, Duration),
    is_stopped: &dyn Fn() -> bool,
) -> Result<TreeRecord, Error> {
    let no_run = || Error::new(ErrorKind::Usage, "the lease is of a large file");
    let mut mover = RunMover::new(plan, sheet, run.epoch).ok_or_else(no_run)?;
    let top = room.tree()?;
    let land = Land {
        room,
        dir,
        top: &top,
        is_stopped,
    };
    let mut dirs: BTreeSet<PathBuf> = BTreeSet::new();
    let mut there = BTreeMap::new();
    let mut published = None;
    loop {
        land.go_on()?;
        match mover.action() {
            // That was the beginning of the run.
            RunAction::Claim => mover.on_claimed(),
            RunAction::Fetch => {
                let files = land.look(mover.members(), hashes, &mut there)?;
                mover.on_fetched(files, took.as_secs_f64());
            }
            RunAction::Look => {
                let highest = room.highest(run.lease)?;
                mover.on_highest(highest).map_err(|why| stopped(&why))?;
            }
            RunAction::Place(range) => {
                for index in range {
                    if let Some(value) = mover.value(index) {
                        land.go_on()?;
                        let member = &mover.members()[index];
                        let mark = land.place(member, value, there.get(&index))?;
                        let above = path_of(&member.name).parent();
                        dirs.extend(above.map(Path::to_path_buf));
                        mover.on_named(index, mark);
                    }
                }
                mover.on_placed();
            }
            RunAction::Sync => {
                for dir in &dirs {
                    let synced = top.dir(dir).and_then(|dir| dir.sync());
                    synced.map_err(|e| land.trouble("sync", dir, &e))?;
                }
                mover.on_synced();
            }
            RunAction::Publish(record) => {
                let bytes = |index: usize| mover.members().get(index).map_or(0, |m| m.size);
                published = Some(room.publish_of_tree(record, &bytes)?);
                mover.on_published();
            }
            RunAction::Done => break,
        }
    }
    published.ok_or_else(|| room.is_gone())
}

/// What a record says of files that could not be had, and why.
pub fn lacking_of<'r>(
    members: &'r [Member],
    record: &'r TreeRecord,
) -> impl Iterator<Item = (&'r Path, &'r str)> {
    let all = members.iter().zip(&record.moved);
    all.filter_map(|(member, moved)| match moved {
        Moved::Lacking { why } => Some((path_of(&member.name), &**why)),
        Moved::Here { .. } => None,
    })
}

/// Where the files of a run are, and where they go.
struct Land<'a> {
    room: &'a Room,
    dir: &'a Dir,
    top: &'a Dir,
    is_stopped: &'a dyn Fn() -> bool,
}

impl Land<'_> {
    fn go_on(&self) -> Result<(), Error> {
        if (self.is_stopped)() {
            return Err(interrupted());
        }
        Ok(())
    }

    fn trouble(&self, what: &str, name: &Path, error: &io::Error) -> Error {
        let path = self.top.path().join(name);
        if is_absent(error) && !self.room.is_there() {
            self.room.is_gone()
        } else if beneath::is_no_way(error) {
            led_elsewhere(&path)
        } else {
            failed(what, &path, error)
        }
    }

    /// What came of each. `there`: those that are in their places already, and what each is known by.
    fn look(
        &self,
        members: &[Member],
        hashes: &Hashes,
        there: &mut BTreeMap<usize, Mark>,
    ) -> Result<Vec<Fetched>, Error> {
        let mut look = |(index, member): (usize, &Member)| {
            self.go_on()?;
            let name = path_of(&member.name);
            let path = self.dir.path().join(name);
            let seen = match self.dir.look(name) {
                Ok(seen) if seen.is_file() => seen,
                Ok(_) => return Ok(nothing("it is no regular file any more")),
                Err(e) if is_absent(&e) => return self.look_in_place((index, member), there),
                Err(e) => return Err(failed("look at", &path, &e)),
            };
            let blake3 = match hashes.get(name) {
                Some(hash) => *hash,
                // A further name of a file that came, one that came just before a connection was lost, or one that somebody else has put.
                None => self.hash_of(self.dir, name)?,
            };
            Ok(Fetched::File {
                size: seen.size,
                mtime: seen.mtime,
                blake3,
            })
        };
        members.iter().enumerate().map(&mut look).collect()
    }

    /// One that has not come may be where it belongs: put there by this run before it was interrupted, or by another one.
    fn look_in_place(
        &self,
        (index, member): (usize, &Member),
        there: &mut BTreeMap<usize, Mark>,
    ) -> Result<Fetched, Error> {
        let name = path_of(&member.name);
        let seen = match self.top.look(name) {
            Ok(seen) if is_planned(&seen, member) => seen,
            Ok(_) => return Ok(nothing(GONE)),
            Err(e) if is_absent(&e) => return Ok(nothing(GONE)),
            Err(e) => return Err(self.trouble("look at", name, &e)),
        };
        let blake3 = self.hash_of(self.top, name)?;
        there.insert(index, mark(&seen));
        Ok(Fetched::File {
            size: seen.size,
            mtime: seen.mtime,
            blake3,
        })
    }

    fn hash_of(&self, dir: &Dir, name: &Path) -> Result<Value, Error> {
        let hash = hash_of(dir, name, self.is_stopped);
        hash.map_err(|e| match e.kind() {
            io::ErrorKind::Interrupted => interrupted(),
            _ => failed("read", &dir.path().join(name), &e),
        })
    }

    /// Gives a file its place, unless it has it. `there`: it had, and was that one when it was read.
    fn place(&self, member: &Member, value: Value, there: Option<&Mark>) -> Result<Mark, Error> {
        let name = path_of(&member.name);
        let trouble = |e: &io::Error| self.trouble("put a file into its place,", name, e);
        let renamed = self.dir.rename(name, self.top, name);
        let is_moved = match &renamed {
            Err(e) if e.kind() == io::ErrorKind::NotFound => false,
            Err(e) => return Err(trouble(e)),
            Ok(()) => true,
        };
        let seen = match (self.top.look(name), renamed) {
            (Ok(seen), _) => seen,
            // Neither there nor here, or no way to where it belongs.
            (Err(_), Err(e)) | (Err(e), Ok(())) => return Err(trouble(&e)),
        };
        let mark = mark(&seen);
        if is_moved || there == Some(&mark) {
            return Ok(mark);
        }
        if is_planned(&seen, member) && self.hash_of(self.top, name)? == value {
            return Ok(mark);
        }
        let path = self.top.path().join(name);
        let text = format!(
            "{} is not what was put there: somebody else wrote to it; plan anew",
            path.display()
        );
        Err(Error::new(ErrorKind::Integrity, text))
    }
}

const GONE: &str = "it changed, vanished or cannot be read";

fn is_planned(seen: &Seen, member: &Member) -> bool {
    seen.is_file() && seen.size == member.size && is_same_moment(seen.mtime, member.mtime)
}

/// What a file is known by, after it was renamed.
pub(super) fn mark(seen: &Seen) -> Mark {
    (seen.inode, seen.ctime)
}

fn nothing(why: &str) -> Fetched {
    Fetched::Nothing {
        why: why.to_owned(),
    }
}

/// Of the content of a file; [`io::ErrorKind::Interrupted`] if it is to stop.
pub(super) fn hash_of(dir: &Dir, name: &Path, is_stopped: &dyn Fn() -> bool) -> io::Result<Value> {
    let mut hasher = blake3::Hasher::new();
    let mut file = dir.read(name)?;
    let mut piece = vec![0; PIECE];
    loop {
        if is_stopped() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match file.read(&mut piece) {
            Ok(0) => return Ok(*hasher.finalize().as_bytes()),
            Ok(len) => hasher.update(&piece[..len]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
    }
}
