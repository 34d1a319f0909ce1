//! A lease of small files that comes: what its run does besides fetching.

use super::beneath::{self, Dir, Seen, is_absent};
use super::room::{Room, led_elsewhere};
use super::{failed, interrupted, path_of, shape, stopped};
use crate::{Error, ErrorKind};
use howdah_lease::{
    Fetched, Mark, Member, RunAction, RunMover, Sheet, Stopped, TreePlan, TreeRecord, Value,
};
use howdah_session::plans::LeaseRun;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

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

    /// Makes the run known to all, and opens where its files are to come: what is there of an earlier connection of it stays.
    ///
    /// # Errors
    ///
    /// A higher epoch has begun; there is no room, or no way to write in it.
    pub fn begin(room: &Room, run: LeaseRun) -> Result<Self, Error> {
        let LeaseRun { lease, epoch, .. } = run;
        // Before anything is written: the one that is behind leaves no claim, either.
        let by = room.highest(lease)?;
        if by > epoch {
            return Err(stopped(&Stopped::Fenced { lease, epoch, by }));
        }
        room.claim(lease, epoch)?;
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
        Ok(Self { name, at })
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

/// Gives the files of a run that are there their places, as far as they are what was planned, and publishes the record, which it returns
/// with what could not be had. `hashes`: of those that the copy has told of. It took that long.
///
/// # Errors
///
/// Somebody else runs this lease in a higher epoch, it is to stop, or the file system does not do it.
pub fn land_run(
    (room, plan): (&Room, &TreePlan),
    (sheet, run, dir): (Sheet, LeaseRun, &Dir),
    (hashes, took): (&Hashes, Duration),
    is_stopped: &dyn Fn() -> bool,
) -> Result<(TreeRecord, Vec<(PathBuf, String)>), Error> {
    let no_run = || Error::new(ErrorKind::Usage, "the lease is of a large file");
    let mut mover = RunMover::new(plan, sheet, run.epoch).ok_or_else(no_run)?;
    let mut dirs: BTreeSet<PathBuf> = BTreeSet::new();
    let top = room.tree()?;
    let trouble = |what: &str, name: &Path, error: &io::Error| {
        let path = top.path().join(name);
        if is_absent(error) && !room.is_there() {
            room.is_gone()
        } else if beneath::is_no_way(error) {
            led_elsewhere(&path)
        } else {
            failed(what, &path, error)
        }
    };
    let place = |name: &Path| -> Result<Mark, Error> {
        let placed = dir.rename(name, &top, name).and_then(|()| top.look(name));
        let seen = placed.map_err(|e| trouble("put a file into its place,", name, &e))?;
        Ok(mark(&seen))
    };
    let mut published = None;
    loop {
        if is_stopped() {
            return Err(interrupted());
        }
        match mover.action() {
            // That was the beginning of the run.
            RunAction::Claim => mover.on_claimed(),
            RunAction::Fetch => {
                let files = look(mover.members(), dir, hashes, is_stopped)?;
                mover.on_fetched(files, took.as_secs_f64());
            }
            RunAction::Look => {
                let highest = room.highest(run.lease)?;
                mover.on_highest(highest).map_err(|why| stopped(&why))?;
            }
            RunAction::Place(range) => {
                for index in range {
                    if mover.is_placed(index) {
                        let name = path_of(&mover.members()[index].name);
                        let mark = place(name)?;
                        dirs.extend(name.parent().map(Path::to_path_buf));
                        mover.on_named(index, mark);
                    }
                }
                mover.on_placed();
            }
            RunAction::Sync => {
                for dir in &dirs {
                    let synced = top.dir(dir).and_then(|dir| dir.sync());
                    synced.map_err(|e| trouble("sync", dir, &e))?;
                }
                mover.on_synced();
            }
            RunAction::Publish(record) => {
                room.publish_of_tree(&record)?;
                published = Some(record);
                mover.on_published();
            }
            RunAction::Done => break,
        }
    }
    let lacking = mover.lacking();
    let lacking = lacking.map(|(member, why)| (path_of(&member.name).to_owned(), why.to_owned()));
    let lacking = lacking.collect();
    let record = published.ok_or_else(|| room.is_gone())?;
    Ok((record, lacking))
}

/// What came of each.
fn look(
    members: &[Member],
    dir: &Dir,
    hashes: &Hashes,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Vec<Fetched>, Error> {
    let look = |member: &Member| {
        if is_stopped() {
            return Err(interrupted());
        }
        let name = path_of(&member.name);
        let path = dir.path().join(name);
        let seen = match dir.look(name) {
            Ok(seen) if seen.is_file() => seen,
            Ok(_) => return Ok(nothing("it is no regular file any more")),
            Err(e) if is_absent(&e) => {
                return Ok(nothing("it changed, vanished or cannot be read"));
            }
            Err(e) => return Err(failed("look at", &path, &e)),
        };
        let blake3 = match hashes.get(name) {
            Some(hash) => *hash,
            // A further name of a file that came, one that came just before a connection was lost, or one that somebody else has put.
            None => hash_of(dir, name).map_err(|e| failed("read", &path, &e))?,
        };
        Ok(Fetched::File {
            size: seen.size,
            mtime: seen.mtime,
            blake3,
        })
    };
    members.iter().map(look).collect()
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

pub(super) fn hash_of(dir: &Dir, name: &Path) -> io::Result<Value> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(dir.read(name)?)?;
    Ok(*hasher.finalize().as_bytes())
}
