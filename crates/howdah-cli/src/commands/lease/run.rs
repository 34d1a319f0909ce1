//! One run of a lease of small files.

use super::beneath::{Dir, Seen, is_absent};
use super::room::{Room, led_elsewhere};
use super::{beneath, failed, path_of, shape, tree_options};
use howdah::lease::{interrupted, stopped};
use howdah::{
    Cancel, CopyConfig, Error, FileLog, Location, PathList, Progress, Summary, TreeReport,
};
use howdah_lease::{Fetched, Mark, Member, RunAction, RunMover, TreePlan, Value};
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Files that are named which could not be had.
const NAMED: usize = 20;

type Hashes = HashMap<PathBuf, Value>;

/// What a run has fetched; it goes with this.
struct RunDir<'a> {
    room: &'a Dir,
    /// Its name in there.
    name: PathBuf,
    at: Dir,
}

impl Drop for RunDir<'_> {
    fn drop(&mut self) {
        // What stays goes when the plan is finished.
        let _ = self.room.clear(&self.name);
    }
}

pub(super) struct RunHost<'a> {
    pub(super) plan: &'a TreePlan,
    pub(super) source: &'a Location,
    pub(super) room: &'a Room,
    pub(super) config: &'a CopyConfig,
    pub(super) cancel: &'a Cancel,
}

impl RunHost<'_> {
    pub(super) fn run(
        &self,
        mut mover: RunMover,
        (lease, epoch): (u64, u64),
        show: &mut dyn FnMut(&Progress),
    ) -> Result<Summary, Error> {
        let begun = Instant::now();
        let mut summary = Summary::default();
        // What was fetched, which goes with the first of both.
        let mut fetched: Option<RunDir<'_>> = None;
        let mut dirs: BTreeSet<PathBuf> = BTreeSet::new();
        let top = self.room.tree()?;
        loop {
            if self.cancel.is_cancelled() {
                return Err(interrupted());
            }
            match mover.action() {
                RunAction::Claim => {
                    self.room.claim(lease, epoch)?;
                    self.room.give_back_reserve(lease);
                    mover.on_claimed();
                }
                RunAction::Fetch => {
                    let dir = self.directory(lease, epoch)?;
                    let (done, hashes) = self.fetch(mover.members(), &dir.at, show)?;
                    let files = look(mover.members(), &dir.at, &hashes)?;
                    mover.on_fetched(files, done.seconds);
                    (summary, fetched) = (done, Some(dir));
                }
                RunAction::Look => {
                    let highest = self.room.highest(lease)?;
                    mover.on_highest(highest).map_err(|why| stopped(&why))?;
                }
                RunAction::Place(range) => {
                    for index in range {
                        let Some(from) = fetched.as_ref().filter(|_| mover.is_placed(index)) else {
                            continue;
                        };
                        let name = path_of(&mover.members()[index].name);
                        let mark = self.place(&from.at, &top, name)?;
                        dirs.extend(name.parent().map(Path::to_path_buf));
                        mover.on_named(index, mark);
                    }
                    mover.on_placed();
                }
                RunAction::Sync => {
                    for dir in &dirs {
                        let synced = top.dir(dir).and_then(|dir| dir.sync());
                        synced.map_err(|e| self.trouble("sync", &top, dir, &e))?;
                    }
                    mover.on_synced();
                }
                RunAction::Publish(record) => {
                    summary.bytes = record.bytes;
                    self.room.publish_of_tree(&record)?;
                    mover.on_published();
                }
                RunAction::Done => break,
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        "blake3".clone_into(&mut summary.verified);
        (summary.seconds, summary.resumed_bytes) = (seconds, 0);
        summary.goodput_bps = summary.bytes as f64 * 8.0 / seconds.max(1e-9);
        tell_of(&mover, summary.tree.get_or_insert_default());
        Ok(summary)
    }

    /// One that nobody else writes to, on the file system of the tree.
    fn directory(&self, lease: u64, epoch: u64) -> Result<RunDir<'_>, Error> {
        let number = RandomState::new().build_hasher().finish();
        let name = PathBuf::from(format!("{lease}/run-{epoch}-{number:016x}"));
        let room = self.room.at();
        let opened = room.make_own_dir(&name).and_then(|()| room.dir(&name));
        match opened {
            Ok(at) => Ok(RunDir { room, name, at }),
            Err(e) => {
                let below = PathBuf::from(lease.to_string());
                Err(self.room.trouble("make a directory in", &below, &e))
            }
        }
    }

    /// As `howdah cp` copies these files, which is verified, durable, and goes on when a connection is lost.
    fn fetch(
        &self,
        members: &[Member],
        to: &Dir,
        show: &mut dyn FnMut(&Progress),
    ) -> Result<(Summary, Hashes), Error> {
        if members.is_empty() {
            return Ok((Summary::default(), Hashes::new()));
        }
        let hashes = Arc::new(Mutex::new(Hashes::new()));
        let mut config = self.config.clone();
        let (heard, also) = (Arc::clone(&hashes), self.config.files.clone());
        config.files = FileLog::new(move |files| {
            let mut hashes = heard.lock().unwrap_or_else(PoisonError::into_inner);
            for file in files {
                hashes.extend(file.hash.map(|hash| (file.path.clone(), hash)));
            }
            drop(hashes);
            also.hear(files);
        });
        let names = members.iter().map(|member| member.name.as_bytes());
        let options = howdah::TreeOptions {
            files: Some(names.collect::<PathList>()),
            // One that has grown is another one.
            max_size: Some(self.plan.lease_bytes()),
            ..tree_options(self.plan)
        };
        let from = std::slice::from_ref(self.source);
        let place = (to.as_fd(), to.path(), Path::new(""));
        let done = howdah::copy_tree_into(from, place, &options, &config, self.cancel, show);
        // Also of a failure: it is to be removed.
        let opened = members
            .iter()
            .filter(|member| {
                let above = path_of(&member.name).parent();
                let above = above.and_then(|above| to.look(above).ok());
                above.is_some_and(|above| above.is_dir())
            })
            .try_for_each(|member| shape::open_way(to, path_of(&member.name)));
        let done = done?;
        opened?;
        drop(config);
        let mut hashes = hashes.lock().unwrap_or_else(PoisonError::into_inner);
        Ok((done, std::mem::take(&mut *hashes)))
    }

    fn place(&self, from: &Dir, to: &Dir, name: &Path) -> Result<Mark, Error> {
        let placed = from.rename(name, to, name).and_then(|()| to.look(name));
        let seen = placed.map_err(|e| self.trouble("put a file into its place,", to, name, &e))?;
        Ok(mark(&seen))
    }

    fn trouble(&self, what: &str, top: &Dir, name: &Path, error: &io::Error) -> Error {
        let path = top.path().join(name);
        if is_absent(error) && !self.room.is_there() {
            self.room.is_gone()
        } else if beneath::is_no_way(error) {
            led_elsewhere(&path)
        } else {
            failed(what, &path, error)
        }
    }
}

/// What came of each.
fn look(members: &[Member], dir: &Dir, hashes: &Hashes) -> Result<Vec<Fetched>, Error> {
    let look = |member: &Member| {
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
            // A further name of a file that came, or one that came just before a connection was lost.
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

/// What could not be had, in words and numbers; the copy has said some of it.
fn tell_of(mover: &RunMover, report: &mut TreeReport) {
    let lacking = mover.lacking().count() as u64;
    for (member, why) in mover.lacking().take(NAMED) {
        let note = format!("{}: {why}", path_of(&member.name).display());
        report.notes.push(note);
    }
    report.changed += lacking.saturating_sub(report.failed + report.changed);
}
